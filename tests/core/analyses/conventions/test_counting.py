"""Passes of a convention over runs of small networks of modules, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from costcore import CostError
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.analyses.conventions.written import convention, one_pass
from tests.core.analyses.conventions.written import counted as counted_calls
from tests.core.traces import Call, CallCost, Module, ModuleCall, Run


class Row:
    """A call: its operator, module, macs, and more."""

    def __init__(self, op: str, module: str = "", macs: int = 0, shape: Sequence[int] = (2, 4), **more: Any) -> None:
        ids = more.pop("ids", (0, 0))
        layer = Layer(op, {"x": Tensor(tuple(shape))}, [Tensor(tuple(shape))], more.pop("attrs", {}))
        made = Call(layer, op, module=module, inputs=ids[:-1], outputs=ids[-1:], **more)
        self.record = CallCost(made, Cost(Operations(fma=macs), 0, 0, {}, macs))


def module(kind: str, *bases: str, **more: Any) -> Module:
    names = tuple(f"torch.nn.modules.part.{each}" for each in (kind, *bases))
    return Module(kind, bases=names, **more)


def counted(found: str, rows: Sequence[Row], modules: dict[str, Module] | None = None, **run: Any):
    made = Run(modules=modules or {}, frameworks={"torch": "2.0"}).recording(**run)
    return counted_calls(found, [row.record for row in rows], made)


def lines(*arguments: Any, **run: Any) -> list[tuple[int | None, str, int]]:
    return [(line.position, line.rule, line.amount) for line in counted(*arguments, **run).lines]


def test_the_most_specific_key_decides():
    rows = [
        Row("conv", macs=3, native="aten::conv2d", overload="padding"),
        Row("conv", macs=5, native="aten::conv2d"),
        Row("conv", macs=7, native="aten::conv3d_"),
        Row("conv", macs=11, native="ai.onnx::Conv"),
        Row("relu", macs=13),
        Row("conv", macs=17, native="aten::conv2d", phase="backward"),
    ]
    rules = {"aten:conv2d.padding": "2 * macs", "aten:conv2d": "3 * macs", "conv": "macs", "onnx:Conv": "5 * macs"}
    assert lines(convention("op", rules), rows) == [
        *((0, "aten:conv2d.padding", 6), (1, "aten:conv2d", 15)),
        *((2, "conv", 7), (3, "onnx:Conv", 55)),
    ]
    both = convention("op", rules, "macs + 1", phases=("backward", "forward"))
    assert lines(both, rows)[4:] == [(4, "", 14), (5, "aten:conv2d", 51)]


def test_executions_in_loops_multiply():
    rows = [Row("conv", macs=3, times=5), Row("conv", macs=7)]
    found = counted(convention("op", {"conv": "2 * macs"}), rows)
    assert [line.amount for line in found.lines] == [30, 14]


def test_lines_of_one_call_add_up():
    both = convention("op", {"conv": "macs"}) + one_pass("op", {"conv": "10 * macs"})
    found = lines(both, [Row("relu"), Row("conv", macs=3), Row("conv", macs=5)])
    assert found == [(1, "conv", 3), (2, "conv", 5), (1, "conv", 30), (2, "conv", 50)]


MODULES = {
    "": module("Net"),
    "a": module("Block", "Base"),
    "a.conv": module("Conv2d", "_ConvNd"),
    "a.pool": module("Own", "AvgPool2d"),
    "b": module("Conv2d"),
    "c": module("Conv2d"),
    "c.inner": module("Conv2d"),
}
ROWS = [
    Row("conv", "a.conv", 3),
    Row("conv", "a.conv", 5),
    Row("pool", "a.pool", 7),
    Row("conv", "b", 11),
    Row("conv", "c", 13),
    Row("conv", "c.inner", 17),
    Row("conv", "", 19),
]
BY_MODULE = {"nn.Conv2d/conv": "macs", "nn.AvgPool2d/pool": "10 * macs"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {0: 3, 1: 5, 3: 11, 4: 13, 5: 17}),
        ({"types": "subclasses"}, {0: 3, 1: 5, 2: 70, 3: 11, 4: 13, 5: 17}),
        ({"leaf": True}, {0: 3, 1: 5, 3: 11, 5: 17}),
        ({"closed": True}, {0: 3, 1: 5, 3: 11, 4: 13}),  # c.inner is inside of a module that has a rule
        ({"closed": True, "listed": ("nn.Block",)}, {3: 11, 4: 13}),
        ({"closed": True, "listed": ("nn.Base",)}, {0: 3, 1: 5, 3: 11, 4: 13}),
        ({"last_call": True}, {1: 5, 3: 11, 4: 13, 5: 17}),
        ({"outside": ("nn.Base",)}, {3: 11, 4: 13, 5: 17}),
        ({"outside": ("nn.Conv2d",)}, {}),
    ],
)
def test_modules(options, expected):
    found = lines(convention("module", BY_MODULE, **options), ROWS, MODULES)
    assert {position: amount for position, _, amount in found} == expected


@pytest.mark.parametrize("same_as", [("a.b", "a"), ("", "a")])
def test_modules_that_were_first_seen_at_each_other_end(same_as):
    """As an edited report says: a module holds itself, or two were first seen at each other."""
    paths = zip(("a", "a.b"), same_as, strict=True)
    modules = {"": module("Net"), **{path: module("Conv2d", same_as=first) for path, first in paths}}
    assert lines(convention("module", BY_MODULE, alias=2), [Row("conv", "a.b", 3)], modules)


@pytest.mark.parametrize(("alias", "factor"), [(0, 1), (1, 2), (2, 4)])
def test_a_module_of_two_parents(alias, factor):
    modules = {
        "": module("Net"),
        "a": module("Block"),
        "a.conv": module("Conv2d"),
        "b": module("Block"),
        "b.conv": Module("Conv2d", same_as="a.conv"),
    }
    found = convention("module", BY_MODULE, alias=alias)
    assert lines(found, [Row("conv", "a.conv", 3)], modules) == [(0, "nn.Conv2d/conv", 3 * factor)]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([((3, 4),)], [10, 11, 11]),  # 32 of 3 items: 10 2/3, then 11 with the rest, and so on
        ([((3, 4), (3, 4))], [32, 32, 32]),  # by name
        ([()], [32, 32, 32]),
        ([((),)], [32, 32, 32]),
    ],
)
def test_amounts_per_item_keep_what_is_left_over(inputs, expected):
    calls = tuple(ModuleCall("", inputs=each) for each in inputs)
    found = lines(convention("op", {"conv": "32"}, per_item=True), [Row("conv")] * 3, module_calls=calls)
    assert [amount for *_, amount in found] == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([Row("conv", shape=(5, 4), ids=(1, 2)), Row("conv", shape=(7, 4), ids=(2, 3))], [4, 4]),
        ([Row("conv", shape=(5, 4), ids=(1, 2)), Row("conv", shape=(7, 4), ids=(4, 3))], [20, 20]),  # two inputs
        ([Row("conv", shape=(), ids=(1, 2))], [20]),
    ],
)
def test_the_input_of_a_model_whose_calls_are_unknown(rows, expected):
    assert [each[2] for each in lines(convention("op", {"conv": "20"}, per_item=True), rows)] == expected


def test_no_items_cannot_be_divided_by():
    calls = (ModuleCall("", inputs=((0, 4),)),)
    with pytest.raises(CostError, match="divides by the batch size, which is 0 here"):
        lines(convention("op", {"conv": "1"}, per_item=True), [Row("conv")], module_calls=calls)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (Row("relu", "own", function="torch.nn.functional.relu"), "F.relu"),
        (Row("relu", "own", function="torch.relu"), None),
        (Row("resize", "own", function="torch.nn.functional.interpolate"), "F.interpolate(size)"),
        (Row("resize", "up", function="torch.nn.functional.interpolate"), "F.interpolate(scale_factor)"),
        (
            Row("resize", "own", function="torch.nn.functional.interpolate", given=("scale_factor",)),
            "F.interpolate(scale_factor)",
        ),
        (Row("resize", "up", function="torch.nn.functional.interpolate", given=("size",)), "F.interpolate(size)"),
        (Row("relu", "bound", function="torch.nn.functional.relu"), None),
        (Row("relu", "bound", function="torch.nn.functional.gelu"), "F.gelu"),
        (Row("relu", "own"), None),
    ],
)
def test_functions(row, expected):
    modules = {
        "": module("Net"),
        "own": module("Own"),
        "up": module("Upsample"),
        "sub": module("Own", "Upsample"),
        "bound": module("Own", "MultiheadAttention"),
    }
    rules = dict.fromkeys(("F.relu", "F.gelu", "F.interpolate(size)", "F.interpolate(scale_factor)"), "7")
    found = convention("function", rules, bound={"nn.MultiheadAttention": ("F.relu",)})
    rows = [row, Row("other", function="any")]
    assert [rule for _, rule, _ in lines(found, rows, modules)] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("native", "place", "expected"),
    [
        ("aten::conv2d", "own", "F.conv2d"),
        ("aten::relu_", "layer", "F.relu"),
        ("aten::relu", "own", None),  # rather called as a method
        ("aten::sigmoid", "layer", "F.sigmoid"),
        ("aten::sigmoid", "nowhere", None),
        ("aten::bmm", "own", "torch.bmm"),
        ("aten::upsample_bilinear2d", "own", "F.interpolate"),
        ("aten::conv_transpose3d", "own", "F.conv_transpose3d"),
        ("aten::conv_transpose1d", "own", "F.conv_transpose1d"),
        ("aten::conv_transpose2d", "own", "F.conv_transpose2d"),
        ("aten::unheard_of", "own", None),
    ],
)
def test_functions_that_were_not_recorded_are_guessed(native, place, expected):
    modules = {
        "": module("Net"),
        "layer": module("ReLU"),
        "own": Module("Own", bases=("mine.Own", "torch.nn.modules.x.ReLU")),
    }
    names = ("F.conv2d", "F.relu", "F.sigmoid", "torch.bmm", "F.interpolate")
    rules = dict.fromkeys((*names, *(f"F.conv_transpose{n}d" for n in (1, 2, 3))), "7")
    found = counted(convention("function", rules), [Row("any", place, native=native)], modules)
    assert [line.rule for line in found.lines] == ([] if expected is None else [expected])
    assert any("functions are assumed to be called by torch.nn modules" in note for note in found.notes)


OWN = {
    "": module("Net"),
    "conv": module("Conv2d", own=(("weight", 20), ("bias", 3), ("weight_g", 5), ("scale", 7))),
    "block": module("ConvBlock", own=(("weight", 100),)),
    "block.linear": module("Linear", own=(("weight", 11),)),
    "none": module("ReLU"),
}
FORMULAS = {"*Conv*": "named * positions + 1000 * N", "*Linear*": "first_two + 100 * partly_named + named"}


def test_calls_of_modules():
    """Of 5 x 6 positions behind batch and channels: 23 x 30, and 5 in a longer name."""
    calls = (
        ModuleCall("conv", outputs=((2, 3, 5, 6),)),
        ModuleCall("block", outputs=((2, 3),)),
        ModuleCall("block.linear", outputs=((2, 3), (7, 7))),
        ModuleCall("conv", outputs=((4, 3, 5),)),
        ModuleCall("none", outputs=((2, 3),)),
        ModuleCall("conv", outputs=()),
        ModuleCall("conv", outputs=((),)),
    )
    rows = [Row("conv", "conv", module_call=1), Row("mm", "block.linear", module_call=3), Row("add", module_call=1)]
    found = counted(convention("module call", FORMULAS), rows, OWN, module_calls=calls)
    assert [(line.position, line.rule, line.amount) for line in found.lines] == [
        (2, "*Conv*", 23 * 30 + 2000),
        (1, "*Linear*", 6 + 11),
        (None, "*Conv*", 23 * 5 + 4000),
    ]
    assert found.notes == ()


def test_calls_of_modules_that_were_not_recorded():
    """A module that is called twice in a row counts once, by the last output."""
    rows = [
        *(Row("conv", "conv", shape=(2, 3, 5)), Row("conv", "conv", shape=(2, 3, 7)), Row("add", "none")),
        *(Row("mm", "block.linear", shape=(4, 9)), Row("conv", "conv", shape=(2, 3, 11), phase="backward")),
        Row("conv", "conv", shape=(3, 1, 1)),
    ]
    partly = {**OWN, "block.linear": module("Linear", own=(("weight", 11), ("weight_v", 2), ("log_bias", 4)))}
    found = counted(convention("module call", FORMULAS), rows, partly)
    assert [(line.position, line.rule, line.amount) for line in found.lines] == [
        (1, "*Conv*", 23 * 7 + 2000),
        (3, "*Linear*", 36 + 600 + 11),
        (5, "*Conv*", 23 + 3000),
    ]
    assert any("called twice in a row counts once" in note for note in found.notes)


@pytest.mark.parametrize(
    ("frameworks", "rules", "options", "rows", "run", "expected"),
    [
        ({"onnx": "1"}, {"conv": "1", "relu": "1"}, {}, [Row("conv")], {}, ["the graph counts as it was exported"]),
        ({"onnx": "1"}, {"conv": "1"}, {}, [Row("conv")], {}, []),
        ({"torch": "1"}, {"conv": "1", "relu": "1"}, {}, [Row("conv")], {}, []),
        ({}, {"conv": "1"}, {"live": True}, [Row("conv")], {}, ["unused calls are counted too"]),
        ({}, {"conv": "1"}, {"live": True}, [Row("conv", ids=(1, 2))], {"returned": (2,)}, []),
        (
            {},
            {"conv": "training"},
            {},
            [Row("batch_norm", attrs={"training": True})],
            {},
            ["batch_norm ran in training"],
        ),
        ({}, {"conv": "training"}, {}, [Row("batch_norm", attrs={"training": False})], {}, []),
        ({}, {"conv": "training"}, {}, [Row("conv", attrs={"training": True})], {}, []),
        ({}, {"conv": "x"}, {}, [Row("batch_norm", attrs={"training": True})], {}, []),
        ({}, {"conv": "1"}, {}, [Row("conv", phase="backward")], {}, ["the backward pass is not counted"]),
        ({}, {"conv": "1"}, {"phases": ("forward", "backward")}, [Row("conv", phase="backward")], {}, []),
        ({}, {"conv": "1"}, {}, [Row("conv", phase="optimizer")], {}, []),
    ],
)
def test_notes(frameworks, rules, options, rows, run, expected):
    made = Run(frameworks=frameworks).recording(**run)
    found = counted_calls(convention("op", rules, **options), [row.record for row in rows], made).notes
    assert len(found) == len(expected)
    assert all(note.startswith(start) for note, start in zip(found, expected, strict=True))


@pytest.mark.parametrize(("kind", "is_shown"), [("LSTM", True), ("Linear", False)])
def test_a_note_on_modules_that_the_model_has(kind, is_shown):
    found = 'notes = ["nn.LSTM counts twice", "it is fast"]\n' + convention("op", {"conv": "1"})
    notes = counted(found, [Row("conv")], {"": module("Net"), "a": module(kind)}).notes
    assert notes == (("nn.LSTM counts twice",) * is_shown + ("it is fast",))


def test_what_returned_values_do_not_depend_on():
    """2 is made of 1 and 3 of 2; 4 is written to the memory of 3; 5 is of nothing that is returned."""
    rows = [
        Row("conv", macs=3, ids=(1, 2), storages=(11, 12)),
        Row("conv", macs=5, ids=(2, 3), storages=(12, 13)),
        Row("conv", macs=7, ids=(1, 4), storages=(11, 13)),
        Row("conv", macs=11, ids=(3, 5), storages=(13, 15)),
        Row("conv", macs=13, ids=(6, 7)),
        Row("conv", macs=17, ids=(7, 8)),
    ]
    found = convention("op", {"conv": "macs"}, live=True)
    for returned, expected in (((3,), [3, 5, 7]), ((8,), [13, 17]), ((5, 7), [3, 5, 7, 11, 13]), ((2,), [3])):
        assert [each[2] for each in lines(found, rows, returned=returned)] == expected


def test_learned_operands_reach_on():
    """Of a weight of 4 elements that is not trained nothing is learned, of another one all that follows."""
    weight = Tensor((4,), role="param")
    layer = Layer("mm", {"x0": Tensor((3,)), "x1": weight}, [Tensor((5,))])
    records = [
        Call(layer, "mm", inputs=(1, 2), outputs=(3,), parameters=(21,)),
        Call(layer, "mm", inputs=(3, 4), outputs=(5,), parameters=(22,)),
        Call(layer, "mm", inputs=(5, 4), outputs=(0,), parameters=(21,)),
        Call(layer, "mm", inputs=(0, 4), outputs=(6,), parameters=(21,)),
    ]
    rule = "10 * (learned(x0) * 1) + learned(x1) * 1"
    run = Run(modules={"": Module("Net", parameters=(21, 22), frozen=(21,))})
    costs = [CallCost(each, Cost(Operations(), 0, 0, {})) for each in records]
    found = counted_calls(convention("op", {"mm": rule}), costs, run)
    assert [line.amount for line in found.lines] == [0, 1, 10, 0]


def test_whether_a_call_writes_to_its_input():
    rows = [
        Row("relu", ids=(1, 2), storages=(5, 5)),
        Row("relu", ids=(1, 2), storages=(5, 6)),
        Row("relu", ids=(1, 2), storages=(0, 0)),
        Row("relu", ids=(1, 2)),
        Row("relu", ids=(3,), storages=(5,)),
    ]
    found = convention("op", {"relu": "7 if in_place else 3"})
    assert [each[2] for each in lines(found, rows)] == [7, 3, 3, 3, 3]


def test_a_kernel_of_a_module_that_was_given_one_number():
    pool = {"attrs": {"kernel": (3, 3)}}
    modules = {"": module("Net"), "a": module("Pool", kernel_is_int=True), "b": module("Pool")}
    rows = [Row("pool", "a", **pool), Row("pool", "b", **pool), Row("pool", "c", **pool)]
    assert [each[2] for each in lines(convention("op", {"pool": "square_kernel()"}), rows, modules)] == [3, 9, 3]


def test_how_a_convention_shows_itself():
    for more, said in ((None, "1 rule"), ("1", "2 rules")):
        shown = counted(convention("op", {"a": "1"}, more), [Row("a")]).convention
        assert (repr(shown), shown.label) == (f"<Convention ours: OP, {said}>", "our tool 1")
