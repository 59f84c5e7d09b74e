"""DETAILS.md is generated from the calculators, and the committed file is current."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import wraps
from typing import NamedTuple

import pytest

from costcore import Report, Trace
from costcore.errors import CostError
from costcore.ir import Cost, Operations, ceil_div, ceil_log2, covers, layout_operator, maximum, pattern, prod
from costcore.translate import Row
from tests.core.analyses.conventions import written
from tests.core.traces import Module, Run
from tools import make_details_md
from tools.calculator_docstring import CalculatorDocstring
from tools.formula_writer import FormulaWriter

needs_all = pytest.mark.frontend(*make_details_md.FRONTENDS)


class Entry(NamedTuple):
    operations: Operations
    definition: str


TABLE_OF_GROUP = {
    "double": Entry(Operations(mul=1), "2·x"),
    "shrink": Entry(Operations(fma=1, cmp=2), "clip(a·x + b, 0, 1)"),
}


def calc_dot(layer):
    """Dot products.

    Prose.

    Shapes: x[N, F_in], w[F_out, F_in/G], b[F_out]? -> y[N, F_out]
    Settings: groups=G
    """
    macs = layer.out.size * layer["w"].shape[1]
    fma, mul = (macs, 0) if "b" in layer else (macs - layer.out.size, layer.out.size)
    return Cost(Operations(fma=fma, mul=mul), layer.read, layer.written, layer.attrs, macs)


@covers(TABLE_OF_GROUP)
def calc_pair(layer):
    """One result per element: yes.

    Shapes: x[N] -> y[N]
    """
    return Cost(TABLE_OF_GROUP[layer.op].operations * layer.out.size, layer.read, layer.written, layer.attrs)


@covers({"stay": "x itself", "rest": "nothing"})
def calc_zero_cost(layer):
    """Nothing is done.

    Shapes: x[N] -> y[N]
    """
    return Cost(0, 0, 0, layer.attrs)


@layout_operator
def calc_turn(layer):
    """Moved.

    Shapes: x[N, C] -> y[C, N]
    """
    return Cost(0, layer.read, layer.written, layer.attrs)


for _calculator in (calc_dot, calc_pair, calc_zero_cost, calc_turn):
    _calculator.__module__ = "costcore.calculators.layout"  # a family whose chapter has one file

CALCULATORS = {
    "linear": make_details_md.costcore_calculators()["linear"],
    "dot": calc_dot,
    **dict.fromkeys(TABLE_OF_GROUP, calc_pair),
    **dict.fromkeys(("stay", "rest"), calc_zero_cost),
    "turn": calc_turn,
}
TABLES = {
    "one": [Row("a::dot", "dot"), Row("a::mm", "dot"), Row("b::turn", "turn")],
    "two": [Row("Any", lambda args: args["op"], ops=("double", "stay"))],
}


def section_of(text: str, title: str) -> str:
    """Return the text under a heading."""
    return text.partition(f"# {title}\n")[2].partition("\n#")[0].strip()


def test_an_operator_with_and_without_bias():
    assert section_of(make_details_md.render(CALCULATORS, TABLES), "dot") == (
        "Dot products.\n\nProse.\n\n"
        "`x[N, F_in], w[F_out, F_in/G], b[F_out]? -> y[N, F_out]` with `groups=G`\n\n"
        "|  | with `b` | without `b` |\n"
        "| :-- | :-- | :-- |\n"
        "| fma | `N·F_out·F_in/G` | `N·F_out·(F_in/G - 1)` |\n"
        "| mul | `0` | `N·F_out` |\n"
        "| FLOPs, FMA = 1 | `N·F_out·F_in/G` | `N·F_out·F_in/G` |\n"
        "| FLOPs, FMA = 2 | `2·N·F_out·F_in/G` | `N·F_out·(2·F_in/G - 1)` |\n"
        "| MACs | `N·F_out·F_in/G` | `N·F_out·F_in/G` |\n"
        "| read | `N·F_in + F_out·F_in/G + F_out` | `N·F_in + F_out·F_in/G` |\n"
        "| written | `N·F_out` | `N·F_out` |"
    )


def test_a_group_has_a_row_per_operator():
    assert section_of(make_details_md.render(CALCULATORS, TABLES), "One result per element") == (
        "One result per element: yes.\n\n"
        "`x[N] -> y[N]`\n\n"
        "| operator | definition | operations | FLOPs, FMA = 1 | FLOPs, FMA = 2 |\n"
        "| :-- | :-- | :-- | :-- | :-- |\n"
        "| `double` | `2·x` | `mul N` | `N` | `N` |\n"
        "| `shrink` | `clip(a·x + b, 0, 1)` | `fma N, cmp 2·N` | `3·N` | `4·N` |\n\n"
        "All of them: read `N`, written `N`."
    )


def test_zero_cost_and_layout_operators_are_marked():
    text = make_details_md.render(CALCULATORS, TABLES)
    assert "| `stay` | x itself |\n" in section_of(text, "Nothing is done")
    assert section_of(text, "Nothing is done").endswith(
        "All of them have zero cost: no operations, and nothing is read or written."
    )
    assert section_of(text, "turn").endswith("*Layout operator.*")


def test_the_table_lists_the_operators_of_each_framework():
    text = make_details_md.render(CALCULATORS, TABLES)
    assert "| [`dot`](#dot) | `dot`, `mm` | |\n" in text
    assert "| [`stay`](#nothing-is-done) |  | `Any` |\n" in text
    assert "| [`turn`](#turn) | `b::turn` | |\n" in text


MINE = """
name = "mine"
tool = "my tool"
version = "3"
unit = "MAC"
calls_it = "flops"
variant = "its option"
aliases = ["ours"]
description = "What."
sources = ["a page"]
notes = ["Gap."]
[[count]]
by = "module"
rules = { "nn.Linear/linear" = "macs + y", "nn.Conv1d/conv" = "macs + y" }
default = "0"
types = "subclasses"
closed = true
alias = 2
outside = ["nn.LSTM"]
phases = ["forward", "backward"]
"""


def test_a_convention_has_its_rules_by_amount_and_its_options():
    run = Run(frameworks={"torch": "2"}, modules={"": Module("Net", bases=("mine.Net",))})
    mine = written.view(MINE, Report(Trace((), run))).counts.convention
    text = make_details_md.render(CALCULATORS, TABLES, {"mine": mine})
    assert "| [`mine`](#mine) | my tool, its option | 3 | MAC | 3 |" in text
    assert section_of(text, "`mine`") == (
        "my tool 3, its option, which calls its MACs flops. What.\n\nAlso `ours`.\n\n"
        "Modules: of these classes and their subclasses; nothing inside the children of a module with a rule; a module "
        "counts once for each parent, squared; outside of nn.LSTM; in forward, backward.\n\n"
        "| rule for | amount |\n| :-- | :-- |\n"
        "| `nn.Linear/linear`, `nn.Conv1d/conv` | `macs + y` |\n"
        "| every other call | `0` |\n\n"
        "* Gap.\n\nSource: a page."
    )


def test_a_docstring_that_cannot_be_run_is_named():
    def calc_without_shapes(layer):
        """No shapes."""

    calc_without_shapes.__module__ = calc_dot.__module__

    with pytest.raises(
        CostError, match="calc_without_shapes: the docstring cannot be run on symbols: got '', expected a line"
    ):
        make_details_md.render({**CALCULATORS, "without_shapes": calc_without_shapes}, TABLES)


def test_a_calculator_outside_the_families_is_named():
    def calc_stray(layer):
        """Nowhere."""

    with pytest.raises(CostError, match="calc_stray: this file lies outside the families of calculators"):
        make_details_md.render({**CALCULATORS, "stray": calc_stray}, TABLES)


def test_chapters_are_families_and_list_their_operators():
    text = make_details_md.render(CALCULATORS, TABLES)
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## How to read an entry",
        "## Index by task",
        "## Matrix products",
        "## Layout and creation",
        "## Operators of the frameworks",
    ]
    assert "Operators: [dot](#dot), [double](#one-result-per-element)," in text
    assert "| [Layout and creation](#layout-and-creation) | " in text


def test_the_worked_example_shows_formulas_and_values():
    text = make_details_md.render(CALCULATORS, TABLES)
    assert "| fma | `N·F_out·F_in` | 16,384,000 |\n" in text
    bytes_read, bytes_written = 4 * (32 * 512 + 1000 * 512 + 1000), 4 * 32 * 1000
    assert f"shows {bytes_read:,} bytes read and {bytes_written:,} bytes written" in text


@needs_all
def test_no_two_headings_have_one_anchor():
    text = make_details_md.TARGET.read_text(encoding="utf-8")
    anchors = [make_details_md.anchor(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")]
    assert len(anchors) == len(set(anchors))


def test_a_row_without_a_calculator_is_named():
    with pytest.raises(CostError, match="rows map to operators without a calculator: wave"):
        make_details_md.render(CALCULATORS, {"one": [Row("a::wave", "wave")]})


def test_a_row_that_chooses_must_list_its_operators():
    with pytest.raises(CostError, match="do not list the choices in `ops`: a::wave"):
        make_details_md.render(CALCULATORS, {"one": [Row("a::wave", lambda args: "dot")]})


@pytest.mark.parametrize(
    ("shapes", "optional"),
    [
        ("x[N], w[N], b[N] -> y[N]", ("b",)),
        ("x[N], w[N]?, b0[N], mask[N]? -> y[N]", ("w", "b0", "mask")),
        ("dy[N], x[N], b[N] -> dx[N], db[N]", ()),
    ],
)
def test_biases_and_marked_operands_are_optional(shapes, optional):
    assert CalculatorDocstring.parse(f"Shapes: {shapes}").optional == optional


@pytest.mark.parametrize(
    ("title", "row"),
    [
        (
            "Steps of optimizers",  # x - r g: an fma per parameter; x and g are read, x is written
            "| `sgd_step` | `x0[N], x1[N] -> y[N]` | `fma(-r, g, x)` | `fma N` | `N` | `2·N` | `2·N` | `N` |",
        ),
        (
            "Matrix product or convolution with epilogue",  # relu(x w + b + z): products, then an add and a cmp per y
            "| `fused_linear` | `x[N, F_in], w[F_out, F_in], b[F_out], z[N, F_out]? -> y[N, F_out]` "
            'with `activation="relu"` | `fma N·F_out·F_in, add N·F_out, cmp N·F_out` '
            "| `N·F_out·(F_in + 2)` | `2·N·F_out·(F_in + 1)` | `N·F_out·F_in` "
            "| `N·F_out + N·F_in + F_out·F_in + F_out` | `N·F_out` |",
        ),
        (
            # 2 sums of gates, 2 sigmoids (2 add, 1 div, 1 special each), xn + r hn, a tanh, 1 - z, its product, an fma
            "Recurrent cells on two products, of the input x0 and of the state x1",
            "| `summed_gru_gates` | `x0[N, 3*H], x1[N, 3*H], h0[N, H] -> y[N, H]` "
            "| `r = s(xr + hr); z = s(xz + hz); n = tanh(xn + r * hn); fma(z, h0, (1 - z) * n)` "
            "| `fma N·H, mul 2·N·H, add 8·N·H, div 2·N·H, special 3·N·H` "
            "| `16·N·H` | `17·N·H` | `7·N·H` | `N·H` |",
        ),
    ],
)
@needs_all
def test_operators_of_a_group_are_documented_on_their_own_shapes(title, row):
    assert row in section_of(make_details_md.TARGET.read_text(encoding="utf-8"), title).splitlines()


def test_a_line_for_some_operators_replaces_the_line_for_all():
    docstring = CalculatorDocstring.parse(
        "Prose.\n\nShapes: x[N] -> y[N]\nShapes of b, c: x[N], w[N]\n    -> y[N]\n"
        "Settings: axis=0\nSettings of c: axis=1"
    )
    assert docstring.prose == "Prose."
    assert {op: (docstring.of(op).shapes, docstring.of(op).settings) for op in "abc"} == {
        "a": ("x[N] -> y[N]", "axis=0"),
        "b": ("x[N], w[N] -> y[N]", "axis=0"),
        "c": ("x[N], w[N] -> y[N]", "axis=1"),
    }


def test_attributes_of_every_type_are_read():
    docstring = CalculatorDocstring.parse(
        'Shapes: x[N, 2*C] -> y[N]\nSettings: kernel=(K, 3), mode="linear", keepdims=True, axis=1, no=None'
    )
    layer = docstring.layer("op")
    kernel = layer.attrs["kernel"]
    assert str(kernel[0]) == "K"
    assert {**layer.attrs, "kernel": kernel[1]} == {
        "kernel": 3,
        "mode": "linear",
        "keepdims": True,
        "axis": 1,
        "no": None,
    }
    assert str(layer["x"].nbytes) == "2*C*N"


N, C, K = (CalculatorDocstring.parse("Shapes: x[N, C, K] -> y[]").layer("op")["x"]).shape


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (C * N, "N·C"),
        (2 * N * C - N, "N·(2·C - 1)"),
        (4 * N + 6, "2·(2·N + 3)"),
        (N * C**2 / K, "N·C^2/K"),
        (N * C // 2, "floor(N·C/2)"),
        (N * ceil_div(C, K), "N·ceil(C/K)"),
        (C * ceil_log2(C), "C·ceil(log2(C))"),
        (maximum(C, N) - 1, "max(N, C) - 1"),
        (prod((N, K - 1)) + C, "N·K - N + C"),
    ],
)
def test_formulas_are_written_in_a_fixed_order(value, text):
    assert FormulaWriter(["N", "C", "K"]).factored(value) == text


@needs_all
def test_the_committed_file_is_current(capsys):
    status = make_details_md.main(["--check"])
    assert (status, capsys.readouterr().out) == (0, "")


@needs_all
def test_the_order_does_not_depend_on_hashes():
    command = [sys.executable, make_details_md.__file__, "--check"]
    run = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


@needs_all
def test_a_changed_coefficient_makes_the_check_fail(monkeypatch, capsys):
    calculators = make_details_md.costcore_calculators()
    original = calculators["conv"]

    @wraps(original)
    def changed(layer):
        cost = Cost(*original(layer))
        return cost._replace(flops=cost.flops * 3)

    monkeypatch.setattr(make_details_md, "costcore_calculators", lambda: {**calculators, "conv": changed})
    assert make_details_md.main(["--check"]) == 1
    assert "+| FLOPs, FMA = 1 | `3·" in capsys.readouterr().out


def test_patterns_are_printed_with_their_exceptions():
    @pattern("move", cast="map")
    @covers({"concat": "joined", "cast": "converted"})
    def calc_moves(layer):
        """Moves.

        Shapes: x[N] -> y[N]
        """
        return Cost(Operations(), layer.read, layer.written, {})

    entry = make_details_md.Entry(calc_moves, ["cast", "concat", "stack"])
    assert make_details_md.pattern_text(entry) == "*Pattern: move; map for `cast`.*"
    calc_moves.pattern = lambda layer: "map"
    assert make_details_md.pattern_text(entry) == "*Pattern: map, here; attributes decide.*"
