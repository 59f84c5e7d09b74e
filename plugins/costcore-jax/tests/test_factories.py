"""What makes a model is no model, though both are functions; and what a hook of costcore says about JAX."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from flax import linen as nn

from costcore import ComputationalCostHook, CostError, CostWarning, Report, estimate, sweep, table
from costcore.cli.main import main

MODULE = """
import jax
import jax.numpy as jnp
from flax import linen as nn

def make():
    return nn.Dense(5, use_bias=False)

def of_width(width=5):
    return nn.Dense(width, use_bias=False)

def product(x):
    return x @ x.T

def activation(x):
    return jax.nn.silu(x)
"""


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "nets_of_jax.py"
    file.write_text(MODULE)
    return str(file)


@pytest.mark.parametrize(("name", "macs"), [("make", 3 * 4 * 5), ("of_width", 3 * 4 * 5), ("product", 3 * 4 * 3)])
def test_the_command_line_calls_factories_and_counts_functions_of_arguments(source, tmp_path, name, macs):
    saved = tmp_path / "report.json"
    assert main([f"{source}:{name}", "--input", "3x4", "--output", str(saved)]) == 0
    assert Report.from_json(saved).total_report["macs"] == macs


def test_a_comparison_and_a_table_regroup_too(source, tmp_path, capsys):
    target, saved = f"{source}:activation", tmp_path / "report.json"
    assert main([target, "--input", "3x4", "--regroup", "--output", str(saved)]) == 0
    assert main(["diff", str(saved), target, "--input", "3x4", "--regroup"]) == 0
    assert "No call was added, removed or changed." in capsys.readouterr().out
    (row,) = table([target], (3, 4), regroup=True, columns=["flops"]).rows
    assert row.costs["flops"] == Report.from_json(saved).total_report["flops"]


def test_a_sweep_calls_the_factory_for_every_row():
    rows = sweep(lambda width: nn.Dense(width, use_bias=False), {"width": [5, 6]}, (3, 4), columns=["macs"])
    assert [row.costs["macs"] for row in rows.rows] == [60, 72]


def make():
    return nn.Dense(5)


@pytest.mark.parametrize("inputs", [(3, 4), None])
def test_a_factory_in_place_of_its_model_is_refused(inputs):
    with pytest.raises(CostError, match=r"make (takes no arguments|makes a model).*[Cc]all it and pass the model"):
        estimate(make, inputs)


def test_a_factory_in_a_table_is_a_failed_row_that_says_what_to_pass():
    assert "call it and pass the model" in str(table({"dense": lambda: nn.Dense(5)}, (3, 4)))


def test_a_hook_that_recorded_nothing_says_so():
    with (
        pytest.warns(CostWarning, match="records nothing that jax runs. Count a function"),
        ComputationalCostHook() as hook,
    ):
        jnp.ones((2, 2)) @ jnp.ones((2, 2))
    assert "records nothing that jax runs" in hook.report.trace.run.notes[0]


def test_a_hook_for_jax_alone_is_refused():
    with pytest.raises(CostError, match=r"costcore\.estimate\(model, shapes\)"):
        ComputationalCostHook(frontends=["jax"])
