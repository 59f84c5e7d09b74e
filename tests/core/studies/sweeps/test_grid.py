"""Grids as Python mappings and as arguments of a target, and the rows of their variants."""

import io
import json

import pytest

from costcore import sweep
from tests.command_line import main

DEPTHS = {"depth": [1, 2], "width": (3, 4)}


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ([1], TypeError, "a grid must be a mapping"),
        ({"a": 3}, TypeError, "a must be a list of values"),
        ({"a": "abc"}, TypeError, "a must be a list of values"),
        ({1: [2]}, TypeError, "an argument of a grid must be a name"),
        ({"a": []}, ValueError, "a has no values"),
        ({"a": range(10**5), "b": range(10**5)}, ValueError, "10,000,000,000 combinations"),
    ],
)
def test_a_grid_is_a_mapping_of_lists(grid, error, message):
    with pytest.raises(error, match=message):
        sweep(lambda: None, grid)


@pytest.mark.parametrize(
    "inside",
    [
        "__import__('os').system('true')",
        "w=__import__('os')",
        "w=[i for i in (1, 2)]",
        "w=range(3)",
        "3",
        "**{'w': 1}",
        "w=",
        "w=1)(w=2",
        "w=" + "(" * 1000,
        "w=" + "1," * 10_000,
        "w=1, w=2",
    ],
)
def test_anything_else_is_refused_and_not_run(inside, capsys):
    with pytest.raises(SystemExit):
        main(["table", f"a.py:make({inside})"])
    assert "expected arguments with literals" in capsys.readouterr().err


def test_arguments_of_a_target_are_literals(nets, tmp_path):
    """The last argument varies fastest."""
    nets.write_text(nets.read_text() + "def any(**values):\n    return toy.Model('toy::Double')\n")
    text = f"{nets}:any(w=[0.5,1], size=(1, 2), flag=True, none=None, layers=[[1, 2], [3]])"
    assert main(["table", text, "--input", "2x3", "--output", str(tmp_path / "rows.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["w"], row["layers"]) for row in rows] == [(w, layers) for w in (0.5, 1) for layers in ([1, 2], [3])]
    assert [rows[0][name] for name in ("size", "flag", "none")] == [[1, 2], True, None]


def test_one_row_per_combination_with_the_arguments_as_columns(nets):
    """A model of depth x width doublings of 2 x 3 elements."""
    result = sweep(f"{nets}:make", DEPTHS, (2, 3), columns=["flops"])
    assert [(row.arguments, row.costs["flops"]) for row in result.rows] == [
        ({"depth": 1, "width": 3}, 6 * 3),
        ({"depth": 1, "width": 4}, 6 * 4),
        ({"depth": 2, "width": 3}, 6 * 6),
        ({"depth": 2, "width": 4}, 6 * 8),
    ]
    out = io.StringIO()
    result.show(out, "csv", None)
    assert out.getvalue().splitlines()[:2] == ["Model,depth,width,FLOPs,Status", f"{nets}:make,1,3,18,complete"]


def test_functions_and_inputs_that_depend_on_arguments(toy):
    def make(batch):
        return toy.Model("toy::Double")

    result = sweep(make, {"batch": [1, 5]}, lambda batch: (batch, 3), columns=["flops"])
    assert [row.costs["flops"] for row in result.rows] == [3, 15]
    assert [row.label for row in result.rows] == ["make(batch=1)", "make(batch=5)"]


def test_a_class_as_an_argument_is_shown_by_its_name(toy, tmp_path):
    def make(kind):
        return toy.Model("toy::Double")

    output = tmp_path / "rows.csv"
    result = sweep(make, {"kind": [int, str.upper]}, (2, 3), columns=["flops"], output=output)
    assert [row.label for row in result.rows] == ["make(kind='int')", "make(kind='str.upper')"]
    assert [line.split(",")[1] for line in output.read_text().splitlines()] == ["kind", "int", "str.upper"]


def test_a_failing_combination_has_a_row(nets):
    (good, bad) = sweep(f"{nets}:make", {"depth": [1, "x"]}, (2, 3)).rows
    assert not good.failed
    assert bad.failed and "TypeError" in bad.status and bad.arguments == {"depth": "x"}


def test_a_data_frame_has_arguments_figures_and_exact_integers(nets):
    frame = sweep(f"{nets}:make", {"depth": [2, "x"]}, (10**8, 10**10), columns=["flops"]).to_dataframe()
    assert [*frame.columns] == ["name", "depth", "flops", "status", "failed"]
    assert frame["flops"][0] == 2 * 10**18 and frame["flops"].isna()[1]
    assert [*frame["failed"]] == [False, True]


@pytest.mark.parametrize("make", [3, "net.onnx", "saved.json", "nets.py"])
def test_make_is_a_function(make):
    with pytest.raises((TypeError, ValueError)):
        sweep(make, {})
