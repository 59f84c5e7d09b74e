import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

TESTS = """
import pytest
from costcore import CostWarning, estimate
from costcore import plugins
from tests.core import toy_framework as toy

@pytest.fixture(autouse=True)
def framework():
    plugin = toy.Plugin()
    toy.install()
    plugins.register(plugin, "toy")
    yield
    plugins.unregister(plugin)
    toy.remove()

TWO = toy.Model("toy::Double", "toy::Double")  # 2 × 2 × 3 products

def test_holds(cost_budget):
    report = cost_budget(TWO, (2, 3), flops=12, mread="48 B", n_params=0)
    assert report.total_report["flops"] == 12

def test_breaks(cost_budget):
    cost_budget(TWO, (2, 3), flops=11, macs=0, operator={"toy_double": {"mwrite": 47}})

def test_file(cost_budget):
    cost_budget(estimate(TWO, (2, 3)), "budget.toml")

def test_file_and_more(cost_budget):
    cost_budget(TWO, (2, 3), "budget.toml", layout="free", mrw=96)

def test_a_partial_report_warns(cost_budget):
    with pytest.warns(CostWarning, match="toy::Wave"):
        report = estimate(toy.Model("toy::Wave"), (2, 3))
    with pytest.warns(CostWarning, match="toy::Wave"):
        cost_budget(report, flops=0)

def test_no_budget(cost_budget):
    with pytest.raises(TypeError, match="needs a budget"):
        cost_budget(TWO, (2, 3))
    with pytest.raises(TypeError, match="limits only .got layout.\\."):
        cost_budget(estimate(TWO, (2, 3)), layout="free", flops=1)
    with pytest.raises(TypeError, match="limits only .got inputs.$"):
        cost_budget(estimate(TWO, (2, 3)), (2, 3), "budget.toml")

def test_misspelled(cost_budget):
    limits = ". Limits are flops, macs, mread, mwrite, mrw, n_params, mcomm, arena, peak_memory"
    of_model = "unknown option {!r} for the toy frontend (it has no options)"
    of_report = "for a report, cost_budget accepts a budget and limits only (got {})"
    for model, start in ((TWO, of_model), (estimate(TWO, (2, 3)), of_report)):
        for name, near in (("mac", ". Did you mean 'macs'?"), ("Params", ". Did you mean 'n_params'?"), ("x", "")):
            inputs = (2, 3) if model is TWO else None
            with pytest.raises(TypeError) as caught:
                cost_budget(model, inputs, **{name: "10M"})
            assert str(caught.value) == start.format(name) + limits + near
    with pytest.raises(TypeError, match="fma_1flop must be True .*.got 3.$"):
        cost_budget(TWO, (2, 3), fma_1flop=3, n_params=0)
"""


def run(folder, *arguments):
    (folder / "test_it.py").write_text(TESTS, encoding="utf-8")
    (folder / "budget.toml").write_text("[total]\nflops = 10\n")
    plugins = ("-p", "costcore.pytest_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )


def test_the_fixture_checks_models_against_their_budgets(tmp_path):
    out = run(tmp_path).stdout
    assert "3 failed, 4 passed" in out
    assert "over budget: total: 12 FLOPs, limit 11, 1 over, 9.09 %\noperator toy_double: 48 bytes written" in out
    assert out.count("total: 12 FLOPs, limit 10, 2 over, 20.00 %") >= 2
    assert "pytest_plugin.py" not in out  # the output has the violation, not the code that found it


def test_an_error_is_one_line_below_the_line_of_the_test(tmp_path):
    (tmp_path / "test_more.py").write_text(
        "from tests.core.test_pytest_plugin import TESTS\nexec(TESTS.partition('def test_holds')[0])\n"
        "def test_wrong(cost_budget):\n    cost_budget(TWO, (2, 3), strict=3, flops=1)\n"
    )
    out = run(tmp_path, "test_more.py").stdout
    errors = [line for line in out.splitlines() if line.startswith("E ")]
    assert errors == ["E       costcore.studies.budgets.BudgetError: budget: strict must be true or false (got 3)"]
    assert ">       cost_budget(TWO, (2, 3), strict=3, flops=1)" in out
    assert "costcore/studies" not in out.replace("\\", "/")


def test_the_plugin_is_documented_and_light(tmp_path):
    assert "cost_budget" in run(tmp_path, "--fixtures").stdout
    program = f"import sys; sys.path.append({str(ROOT)!r}); import pytest; old = set(sys.modules)\n"
    program += "import costcore.pytest_plugin; print(*sorted(set(sys.modules) - old))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["costcore", "costcore._version", "costcore.pytest_plugin"]
