import io
import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import sympy

from costcore import ComputationalCostHook, CostError, Layer, Operations, Report, Tensor, Trace, estimate
from costcore.ir import Cost, ceil_div
from tests.core.toy_networks import nested_report
from tests.core.traces import Assumption, Call, CallCost, Module, ModuleCall, Record, Regrouping, Run, Uncounted

ROOT = Path(__file__).parents[4]

n = sympy.Symbol("n", integer=True, positive=True)
m = sympy.Symbol("m", integer=True, nonnegative=True)


def one_call(flops=1, attrs=None, params=None, shape=(2,), seconds=None, **call):
    """Return a report of one call with these fields."""
    layer = Layer("op", {"x": Tensor(shape)}, [Tensor(shape)], attrs)
    return Report(
        Trace(
            (CallCost(Call(layer, "Op", name="Op-1", **call), Cost(flops, 8, 8, params or {}), seconds=seconds),), Run()
        )
    )


def with_everything():
    """Return a report with a value in every field."""
    layer = Layer(
        "conv",
        {"x": Tensor((n, 3), "float16"), "w": Tensor((3, 3), "int4", "param"), "s": Tensor((), "float32", "const")},
        [Tensor((ceil_div(n, 2), 3))],
        {"kernel": (3, n), "mode": "linear", "alpha": 0.1, "upper": float("inf"), "flag": True, "none": None},
    )
    cost = Cost(Operations(fma=9 * n, add=2**70), 2 * n, m, {"kernel": (3, n)}, 9 * n)
    call = Call(
        *(layer, "Conv", "ai.onnx::Conv", "Conv-1", "a.b", "backward", m, "loop"),
        *((1, 2, 3), (4,), (1, 2, 3, 4), (-7,), (1, 4), 'File "x.py", line 3, in f'),
        overload="padding",
        strided=(0, 2),
        function="torch.nn.functional.conv2d",
        given=("scale_factor",),
        module_call=2,
    )
    unknown = Call(Layer("my::Op", {"x": Tensor((2, 0))}), "Op", "my::Op", "Op-1")
    conv = Module("Conv", (-7, 8), (8,), n, "a.c", ("nn.Conv", "nn.Base"), (("weight", 9 * n), ("bias", 2**64)), True)
    run = Run(
        *(False, "free", {-7: 9 * n, 8: 2**64}, 2**64 + 9 * n),
        *({"": Module("Net"), "a.b": conv}, {"torch": "2.13", "onnx": "1.2"}),
        *((Assumption("a bool is True", "x.py:3"),), ("a note",)),
        version="0.0.1",
        convention="other-2",
    ).recording(
        regrouped=(Regrouping("gelu", ("node 'a, b' (Erf)", "the Mul node that makes \"x, 'y'\"")),),
        returned=(4, 1),
        module_calls=(ModuleCall(""), ModuleCall("a.b", 1, ((n, 3), ()), ((1, 3), (2**64,)))),
    )
    return Report(
        Trace(
            (
                CallCost(call, cost, seconds=0.125),
                CallCost(unknown, None, Uncounted.NO_CALCULATOR, "no calculator for 'my::Op'"),
            ),
            run,
        )
    )


@pytest.fixture
def schema():
    from jsonschema import Draft202012Validator

    document = json.loads((ROOT / "costcore" / "reports" / "report.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def test_a_report_read_back_is_equal(toy):
    report = nested_report(toy)
    again = Report.from_json(report.to_json())
    assert again == report
    assert again.layer_report == report.layer_report
    assert again.total_report == report.total_report
    assert again.tree() == report.tree()
    assert again.to_json() == report.to_json()


def test_every_field_comes_back(schema):
    report = with_everything()
    text = report.to_json()
    again = Report.from_json(text)
    assert again == report
    assert again.to_json() == text
    assert again.calls == report.calls
    assert (again.versions, again.status, again.notes[0]) == (report.versions, "partial", "a note")
    assert (
        again.regrouped == report.regrouped == [("gelu", ("node 'a, b' (Erf)", "the Mul node that makes \"x, 'y'\""))]
    )
    assert list(again.calls[0].layer.inputs) == ["x", "w", "s"]
    schema.validate(json.loads(text))


def test_facts_that_are_not_known_are_not_written(toy):
    data = nested_report(toy).to_dict()
    assert not {"returned", "module_calls"} & data.keys()
    assert all(
        entry.keys() == {"path", "type", "parameters", "frozen", "buffers", "same_as"} for entry in data["modules"]
    )
    assert not {"overload", "strided", "function", "given", "module_call"} & {key for c in data["calls"] for key in c}


STEPS = Record[dict[str, Any]]("steps of the test", {}, of_part=lambda steps, new: {"at": new[steps["at"]]})


def test_a_record_of_another_package_comes_back_and_is_substituted_and_follows_its_call(schema):
    report = with_everything()
    run = report.trace.run.recording(**{STEPS.name: {"at": 1, "sizes": (n, "n", 0.5)}})
    again = Report.from_json(Report(replace(report.trace, run=run)).to_json())
    schema.validate(again.to_dict())
    assert STEPS.of(again.trace.run) == {"at": 1, "sizes": (n, "n", 0.5)}
    assert STEPS.of(again.subs(n=2).trace.run) == {"at": 1, "sizes": (2, "n", 0.5)}
    assert STEPS.of(again.trace.only([1]).run) == {"at": 0}
    assert STEPS.of(report.trace.run) == {}


def test_a_run_has_few_fields_and_records_what_only_some_analyses_read():
    assert len(fields(Run)) <= 12
    run = Run().recording(returned=(1,), memory=None, inputs=())
    assert run.records == {"returned": (1,)}
    assert (run.returned, run.memory, run.inputs, run.fusion) == ((1,), None, (), None)
    assert run.recording(returned=()) == Run()


def test_a_substitution_keeps_every_fact():
    report = with_everything()
    again = report.subs(n=2)
    call, before = again.calls[0], report.calls[0]
    assert call[15:] == before[15:] == ("padding", (0, 2), "torch.nn.functional.conv2d", ("scale_factor",), 2)
    module = again.trace.run.modules["a.b"]
    assert (module.own, module.bases, module.kernel_is_int) == (
        (("weight", 18), ("bias", 2**64)),  # 9 * n
        ("nn.Conv", "nn.Base"),
        True,
    )
    assert again.trace.run.returned == (4, 1)
    assert again.trace.run.module_calls[1] == ("a.b", 1, ((2, 3), ()), ((1, 3), (2**64,)))


def test_the_schema_accepts_a_report_and_rejects_other_objects(toy, schema):
    data = json.loads(nested_report(toy).to_json())
    schema.validate(data)
    for change in ({"schema": "costcore.report/2"}, {"status": "good"}, {"extra": 1}, {"calls": [{}]}):
        assert not schema.is_valid({**data, **change})


def test_integers_are_exact():
    text = one_call(flops=2**64 + 1).to_json()
    assert json.loads(text)["total"]["flops"] == 18446744073709551617
    assert Report.from_json(text).total_report["flops"] == 18446744073709551617


def test_equal_layers_are_written_once(toy):
    data = nested_report(toy).to_dict()
    assert (len(data["calls"]), len(data["layers"]), len(data["costs"])) == (6, 2, 2)
    assert [call["layer"] for call in data["calls"]] == [0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize(
    "value",
    [
        *(1, True, False, None, "text", "", 0.1, -0.0, 1e308, float("inf"), float("-inf"), 1 + 2j, 10**400),
        *((), (1, (2, "x")), (1.0, 1, True), n, n + 1, (n, m // 2), "\ud800", "</script>", "{", "名"),
    ],
)
def test_attributes_come_back_with_their_types(value):
    again = Report.from_json(one_call(attrs={"a": value}).to_json()).calls[0].layer.attrs["a"]
    assert again == value
    assert repr(again) == repr(value)


@pytest.mark.parametrize("value", [[1, [2]], {"a": (1,), 2: [3]}, {"expr": 1}, {"list": []}])
def test_attributes_of_a_calculator_can_be_lists_and_dicts(value):
    report = one_call(params={"a": value})
    assert Report.from_json(report.to_json()) == report


def test_an_attribute_that_a_file_cannot_contain_is_an_error():
    with pytest.raises(CostError, match=r"operator 'op': a report file cannot contain an attribute of type object"):
        one_call(params={"a": object()}).to_json()
    with pytest.raises(CostError, match=r"names of attributes must be strings \(got 3\)"):
        one_call(params={3: 1}).to_json()
    with pytest.raises(CostError, match="a report file cannot contain sin"):
        one_call(attrs={"a": sympy.sin(n)}).to_json()


@pytest.mark.parametrize("shape", [(n,) * 129, (n**16,) * 64], ids=["129-axes", "64-axes-of-16-factors"])
def test_a_shape_of_many_factors_comes_back(shape):
    elements = n ** (129 if len(shape) == 129 else 64 * 16)
    report = one_call(flops=elements, shape=shape)
    again = Report.from_json(report.to_json())
    assert again.total_report == report.total_report
    assert again.trace == report.trace
    assert again.subs(n=2).total_report["flops"] == elements.subs(n, 2)


def test_a_symbolic_report_can_be_substituted_after_it_was_read(toy):
    with ComputationalCostHook() as hook:
        toy.run("toy::Dense", (n, 3), weight=1)
    again = Report.from_json(hook.report.to_json())
    assert again.total_report["flops"] == 9 * n
    assert again.subs(n=8).total_report["flops"] == 72


def test_the_bytes_do_not_depend_on_the_hash_seed():
    program = f"from {__name__} import with_everything; print(with_everything().to_json(), end='')"

    def text(seed):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=ROOT, env=env, check=True)
        return run.stdout

    assert text("0") == text("1") == with_everything().to_json().encode()


def test_targets_are_paths_and_streams(toy, tmp_path):
    report, stream = nested_report(toy), io.StringIO()
    path = tmp_path / "report.json"
    path.write_text("old")
    text = report.to_json(path)
    assert path.read_bytes() == text.encode()
    assert report.to_json(stream, indent=1) == stream.getvalue() != text
    assert Report.from_json(path) == Report.from_json(str(path)) == Report.from_json(stream.getvalue()) == report
    assert Report.from_json(path.read_bytes()) == report
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_nothing_behind(toy, tmp_path):
    with pytest.raises(OSError):
        nested_report(toy).to_json(tmp_path / "missing" / "report.json")
    assert list(tmp_path.iterdir()) == []


def test_csv_and_markdown_are_returned_and_written(toy, tmp_path):
    report = nested_report(toy)
    lines = report.to_csv(columns=["name", "module", "flops"]).splitlines()
    assert lines[:2] == ["Layer name,Module,FLOPs", "Dense-1,body.0,18"]
    assert len(lines) == 1 + 6 + 1
    assert report.to_csv(tmp_path / "a.csv") == (tmp_path / "a.csv").read_text(encoding="utf-8")
    markdown = report.to_markdown(tmp_path / "a.md", unit=None, sort="flops", top=1)
    assert markdown == (tmp_path / "a.md").read_text(encoding="utf-8")
    assert markdown.splitlines()[2:4] == ["| Dense-1 | 18 | 60 | 24 | 84 |", "| others | 54 | 192 | 120 | 312 |"]


def test_ten_thousand_calls(toy):
    report = estimate(toy.Model(*["toy::Double"] * 10_000), (2, 3))
    text = report.to_json()
    assert len(text) < 2_000_000
    assert Report.from_json(text) == report
