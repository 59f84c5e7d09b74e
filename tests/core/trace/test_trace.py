"""The public trace: what analyses of other packages read of a run."""

from __future__ import annotations

import gc
import operator
import sys
from importlib import import_module
from typing import Any

import pytest

from costcore import CostError, Dim, Report, Tensor, Trace, Value, estimate
from costcore.analyses.sizes.capture import NamedInputs
from costcore.api.hook import input_arguments, parse_inputs
from costcore.trace.call import symbol_at
from costcore.trace.interrupts import collector_off
from costcore.trace.trace import has_names, with_tensors, without_marks
from tests.core.toy_networks import nested_report
from tests.core.traces import Regrouping, Uncounted


def test_a_report_is_a_view_on_its_trace(toy):
    report = nested_report(toy)
    trace = report.trace
    assert isinstance(trace, Trace)
    assert [call.name for call in trace.calls] == list(report.layer_report)
    assert all(record.uncounted is None and record.seconds is None for record in trace)
    assert sum(cost.macs * call.times for call, cost, *_ in trace) == report.total_report["macs"]
    assert Report(trace) == report


def test_a_call_without_a_cost_says_why(toy):
    with pytest.warns(UserWarning, match="no calculator for 'toy::Mystery'"):
        trace = estimate(toy.Model("toy::Double", "toy::Mystery"), (2, 3)).trace
    assert not trace.is_complete
    assert [record.uncounted for record in trace] == [None, Uncounted.NO_CALCULATOR]
    assert trace.costs[1] is None


def test_a_calculator_that_fails_differs_from_one_that_is_missing(toy):
    def broken(layer):
        raise KeyError("w")

    with pytest.raises(CostError, match="raised KeyError"):
        estimate(toy.Model("toy::Mystery"), (2, 3), calculators={"toy::Mystery": broken})


@pytest.mark.parametrize("uncounted", list(Uncounted))
def test_a_reason_is_read_back_from_its_text(uncounted):
    assert Uncounted.of(uncounted.reason("Wave"), "Wave") is uncounted
    assert Uncounted.of(uncounted.reason("Wave") + " today", "Wave") is Uncounted.CALCULATOR_FAILED


@pytest.mark.parametrize(
    "nodes",
    [
        ("node 'a' (Mul)",),
        ("node 'a, b' (Erf)", 'node "it\'s, c" (Mul)', "the Add node that produces 'x, y'"),
        ("node 'a\\'b, \"c\"' (Erf)", "d,e"),
    ],
)
def test_a_regrouping_is_read_back_from_its_note(nodes):
    regrouping = Regrouping("gelu", nodes)
    assert Regrouping.parse(str(regrouping)) == regrouping


@pytest.mark.parametrize("note", ["regrouped as gelu", "regrouped as gelu: ", "x regrouped as gelu: a", "nothing"])
def test_other_notes_are_no_regroupings(note):
    assert Regrouping.parse(note) is None


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that has not been imported."""
    (tmp_path / "many_objects.py").write_text("made = [[] for _ in range(1000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "many_objects"
    del sys.modules["many_objects"]  # monkeypatch would restore it


def generation(wanted):
    """Return the number of the generation that an object is in; None while it is frozen."""
    return next((n for n in range(3) if any(found is wanted for found in gc.get_objects(n))), None)


@pytest.fixture
def no_collector():
    """Disables the garbage collector, so that only the code under test moves objects."""
    gc.disable()
    yield
    gc.enable()


def test_objects_of_imported_modules_are_not_scanned_as_new_ones(module, no_collector):
    with collector_off():
        made = import_module(module).made
        assert generation(made) == 0
    assert generation(made) == 2


def test_without_an_import_new_objects_stay_new(no_collector):
    with collector_off():
        made = [[]]
    assert generation(made) == 0


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_as_it_was_before(is_on, no_collector):
    if is_on:
        gc.enable()
    with collector_off():
        assert not gc.isenabled()
    assert gc.isenabled() == is_on


def test_objects_that_the_user_froze_stay_frozen(module):
    kept = [[]]
    gc.freeze()
    try:
        with collector_off():
            import_module(module)
        assert generation(kept) is None
    finally:
        gc.unfreeze()


IDS = Tensor((2, 128), "int64")


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (((2, 128), "int64"), IDS),
        (([2, 128], "int64"), IDS),
        (((), "int64"), Tensor((), "int64")),
        ([((2, 128), "int64"), (2, 3)], [IDS, (2, 3)]),
        ({"ids": ((2, 128), "int64"), "scale": 2.0}, {"ids": IDS, "scale": 2.0}),
        ({"past": [(((1, 2), "float16"), ((1, 2), "float16"))]}, {"past": [(Tensor((1, 2), "float16"),) * 2]}),
        ((("batch", 128), "int64"), Tensor(("batch", 128), "int64")),
        (((Dim("batch", 1, 8), 3), "bool"), Tensor((Dim("batch", 1, 8), 3), "bool")),
    ],
)
def test_pairs_become_tensors(inputs, expected):
    assert with_tensors(inputs) == expected


@pytest.mark.parametrize(
    "inputs",
    [None, (1, 3), ((1, 3), "mean"), ((1, 3), (2, 3)), ((True, 3), "int64"), ("int8", "int64"), "int64"],
)
def test_anything_else_is_the_same(inputs):
    assert with_tensors(inputs) == inputs
    assert type(with_tensors(inputs)) is type(inputs)


@pytest.mark.parametrize(("name", "meant"), [("in64", "int64"), ("flaot32", "float32"), ("bfloat", "bfloat16")])
def test_a_misspelled_dtype_is_refused(name, meant):
    with pytest.raises(ValueError, match=rf"^shape \(2, 128\) with a dtype: unknown dtype '{name}' .*'{meant}'"):
        with_tensors({"ids": ((2, 128), name)})


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize("inputs", [((2, 3), "int64"), [((2, 3), "int64")], {"input": ((2, 3), "int64")}])
def test_pytorch(inputs):
    """6 indices of 8 bytes are read, and 6 rows of 4 float32."""
    nn = pytest.importorskip("torch.nn")
    assert estimate(nn.Embedding(10, 4), inputs).total_report["mread"] == 6 * 8 + 6 * 4 * 4


@pytest.mark.frontend("onnx")
def test_onnx():
    """8 numbers of 4 bytes are read and written."""
    helper = pytest.importorskip("onnx.helper")
    x, y = (helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy")
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]))
    for inputs in ({"x": ((8,), "float32")}, ((8,), "float32")):
        total = estimate(model.SerializeToString(), inputs).total_report
        assert (total["mread"], total["mwrite"]) == (32, 32)


def test_a_value_has_no_names_and_no_shapes():
    inputs = {"x": ("batch", 3), "names": Value(["batch", "seq"]), "size": Value((64, 64))}
    assert has_names(inputs)
    assert not has_names({**inputs, "x": (1, 3)})
    assert with_tensors(inputs) == inputs
    assert without_marks(inputs) == {"x": ("batch", 3), "names": ["batch", "seq"], "size": [64, 64]}
    assert NamedInputs(inputs).at({"batch": 2}) == {**inputs, "x": (2, 3)}


@pytest.mark.parametrize(
    ("inputs", "written"),
    [
        ((1, 3), "--input 1x3"),
        ((), "--input scalar"),
        (Tensor((2,), "int64"), "--input 2:int64"),
        (((1, 3), Tensor((), "bool")), "--input 1x3 --input scalar:bool"),
        (
            {"x": (1, 16), "steps": Value([999, 500, 1]), "meta": Value({"size": [2, 3]})},
            '--input x=1x16 --input steps:=[999,500,1] --input meta:={"size":[2,3]}',
        ),
        (["a.png"], "['a.png']"),
        ({"x": (1, 16), "image": "a.png"}, "{'x': (1, 16), 'image': 'a.png'}"),
    ],
)
def test_the_arguments_of_a_value_read_back(inputs, written):
    assert input_arguments(inputs) == written
    if written.startswith("--input"):
        assert parse_inputs([text for text in written.split() if text != "--input"]) == inputs


METHODS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"),
    *("radd", "rsub", "rmul", "rtruediv", "rpow", "rmatmul", "ror"),
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor"),
    *("ilshift", "irshift", "neg", "pos", "invert", "lt", "le", "eq", "ne", "gt", "ge"),
    *("getitem", "setitem", "delitem", "contains", "call"),
)

found: list[str] = []


def method(name: str) -> Any:
    def run(self: Any, *_: Any) -> Any:
        frame = sys._getframe(1)
        found.append(symbol_at(frame.f_code, frame.f_lasti))
        return True if name == "contains" else self

    return run


Anything = type("Value", (), {f"__{name}__": method(name) for name in METHODS})

LINES = {
    "x + x": "add",
    "2 + x": "add",
    "x - 1": "sub",
    "2 - x": "sub",
    "x * x": "mul",
    "x / x": "truediv",
    "2 / x": "truediv",
    "x // x": "floordiv",
    "x % x": "mod",
    "x ** x": "pow",
    "2 ** x": "pow",
    "x @ x": "matmul",
    "x & x": "and_",
    "x | x": "or_",
    "1 | x": "or_",
    "x ^ x": "xor",
    "x << x": "lshift",
    "x >> x": "rshift",
    "-x": "neg",
    "+x": "pos",
    "~x": "invert",
    "x < x": "lt",
    "x <= x": "le",
    "x == x": "eq",
    "x != x": "ne",
    "x > x": "gt",
    "2 > x": "gt",
    "x >= x": "ge",
    "1 if x > x else 2": "gt",
    "x[0]": "getitem",
    "x[0:1]": "getitem",
    "x[0, 1:2]": "getitem",
    "2 in x": "contains",
    "2 not in x": "contains",
    "x[0] = 1": "setitem",
    "x[0:1] = 1": "setitem",
    "del x[0]": "delitem",
    "x += x": "iadd",
    "x -= x": "isub",
    "x *= x": "imul",
    "x /= x": "itruediv",
    "x //= x": "ifloordiv",
    "x %= x": "imod",
    "x **= x": "ipow",
    "x @= x": "imatmul",
    "x &= x": "iand",
    "x |= x": "ior",
    "x ^= x": "ixor",
    "x <<= x": "ilshift",
    "x >>= x": "irshift",
    "x.__add__(x)": "",
    "x(1)": "",
    "sum([x, x], x)": "",
}


@pytest.mark.parametrize("line", LINES)
def test_the_symbol_of_a_line(line):
    names: dict[str, Any] = {}
    exec(f"def f(x):\n for _ in range(50):\n  {line}", names)  # often enough for the interpreter to specialize it
    found.clear()
    names["f"](Anything())
    assert {*found} == {LINES[line]}
    assert not LINES[line] or hasattr(operator, LINES[line])


def test_a_frame_that_has_not_begun():
    assert symbol_at(test_a_frame_that_has_not_begun.__code__, -1) == ""
