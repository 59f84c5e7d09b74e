"""Files are recognized by their content; damaged and hostile ones end with a sentence."""

from __future__ import annotations

import gzip
import json
import random
import resource
import subprocess
import sys
import time
import warnings
import zlib
from pathlib import Path

import pytest

from costcore import CostError, estimate
from tests.frontends.pytorch.traces.recording import op, tensor, write

ADD = op("aten::add", 0, 5, tensor(2, 3), tensor(2, 3), ("Scalar", [], [], "1"))


@pytest.mark.parametrize("form", ["plain", "gz", "list", "spaces"])
def test_every_form_is_read(form, tmp_path):
    path = tmp_path / "trace"  # the suffix does not matter
    text = json.dumps([ADD] if form == "list" else {"schemaVersion": 1, "traceEvents": [ADD]})
    text = "\ufeff \n" + text if form == "spaces" else text
    path.write_bytes(gzip.compress(text.encode()) if form == "gz" else text.encode())
    report = estimate(str(path))
    assert [(call.native, call.layer["x0"].shape) for call in report.trace.calls] == [("aten::add", (2, 3))]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema": "costcore.report/1"}', "\x1f\x8b", "nothing", '{"nodes": []}']
)
def test_other_files_are_no_traces(text, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(CostError):
        estimate(str(path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"traceEvents": []}', "has no operators and no kernels"),
        ('{"traceEvents": 3}', "has no operators and no kernels"),
        ('{"traceEvents": [{"ph": "X"}, 3, null, [], {"ph": "X", "cat": 3, "name": {}}]}', "has no operators"),
        ('{"traceEvents": [{"ph": "X"} : ' + " " * 100 + "]}", "it stops being JSON at character"),
        ('{"traceEvents": [' + "[" * 200_000, "nested too deeply"),
        ('{"traceEvents": [{"ts": ' + "9" * 5000 + "}]}", "is not a trace"),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": NaN, "dur": 1}]}', "no operators"),
    ],
    ids=["empty", "no list", "no events", "no JSON", "deep", "long number", "not a number"],
)
def test_damaged_files_end_with_a_sentence(text, problem, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CostError, match=problem):
        estimate(path)


def test_a_file_that_ends_early_is_counted_as_far_as_it_goes(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [ADD, ADD]})[:-20], encoding="utf-8")
    report = estimate(path)
    assert len(report.trace) == 1 and report.status == "assumed"
    assert any("ends early" in str(each) for each in report.assumptions)
    packed = gzip.compress(json.dumps({"traceEvents": [ADD] * 5000}).encode())
    path.write_bytes(packed[: len(packed) // 2])
    assert 0 < len(estimate(path).trace) < 5000
    path.write_bytes(packed[:-8])  # without checksum and length, behind the end of the text
    assert estimate(path).status == "assumed"
    assert "the file ends early; later events are missing" in estimate(path).measured().remarks
    path.write_bytes(packed[:-8] + bytes(8))  # of another checksum
    assert estimate(path).status == "assumed"
    path.write_bytes(packed)
    assert estimate(path).status == "complete"


def test_single_backslashes_and_control_characters_are_accepted(tmp_path):
    path = tmp_path / "trace.json"
    text = json.dumps({"name": "NAME", "traceEvents": [ADD]}).replace("NAME", "C:\\Users\\x\t")
    path.write_text(text, encoding="utf-8")
    assert len(estimate(path).trace) == 1


@pytest.mark.parametrize(
    "event",
    [
        op("aten::add", 0, 5, tensor(-2, 3), tensor(2, 3), ("Scalar", [], [], "1")),
        op("aten::mm", 0, 5, tensor(2, 3), tensor(2, 3)),
        op("aten::unbind", 0, 5, tensor(10**12, 1), ("Scalar", [], [], "0")),
        op("aten::add", 0, 5, tensor(10**18, 10**18), tensor(2, 3), ("Scalar", [], [], "1")),
        op("aten::view", 0, 5, tensor(2, 3), ("ScalarList", [], [], "[" * 5000)),
        op("aten::from_file", 0, 5, ("", [], [], "'/etc/passwd'"), ("Scalar", [], [], "True"), ("Scalar", [], [], "9")),
        op("aten::cat", 0, 5, ("TensorList", [[2, 3], "x", [[1]]], [], ""), ("Scalar", [], [], "7")),
        op("aten::add", 0, 5, ("float", {"a": 1}, 3, 4), ("float", [1.5], None, None), ("Scalar", [], [], [])),
        op("aten::" + "x" * 10_000, 0, 5, tensor(2)),
        op("nothing::here", 0, 5),
    ],
    ids=["negative", "mismatch", "unbind", "huge", "brackets", "file", "list", "odd", "long name", "unknown"],
)
def test_impossible_operators_are_named_and_not_counted(event, tmp_path):
    with pytest.warns(UserWarning, match="not counted"):
        report = estimate(write(tmp_path / "trace.json", [event]))
    assert [record.cost for record in report.trace] == [None]


def test_random_damage_raises_no_other_exception(tmp_path):
    data = Path(__file__).parents[3] / "data" / "traces"
    rng = random.Random(3)
    for name in ("compiled_mi300x.json.gz", "simple_add_et.json.gz"):
        whole = gzip.decompress((data / name).read_bytes())
        for _ in range(40):
            damaged = bytearray(whole)
            for _ in range(rng.choice((1, 5, 50))):
                damaged[rng.randrange(len(damaged))] = rng.choice(b'0123456789"[]{},:-eaN')
            path = tmp_path / "trace.json"
            path.write_bytes(damaged)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    estimate(path)
                except CostError as error:
                    assert str(path) in str(error)


def test_long_files_are_read_event_by_event(tmp_path):
    """A hundred megabytes of white space between fifty events need no memory."""
    path = tmp_path / "trace.json"
    with path.open("wb") as file:
        file.write(b'{"traceEvents": [')
        for i in range(50):
            event = {**ADD, "ts": ADD["ts"] + 10 * i}
            file.write(b" " * 2**21 + b"," * (i > 0) + json.dumps(event).encode())
        file.write(b"]}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(estimate(path).trace) == 50
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def packed(path, *pieces):
    """Write what gzip makes of pieces, each given with how often it is repeated."""
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        for piece, n in pieces:
            for _ in range(n):
                file.write(pack.compress(piece))
        file.write(pack.flush())


HEAD = b'{"deviceProperties": [], "traceEvents": ['
EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": "x"},'


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([(HEAD, 1), (b"{}," * 10**5, 100), (b"{}]}", 1)], r"it has \d+,\d+ events in [\d,]+ characters"),
        ([(HEAD, 1), (b" " * 2**20, 400), (b"{}]}", 1)], "more than 4,194,304 spaces in a row"),
        ([(b'{"deviceProperties":', 1), (b" " * 2**20, 400), (b"[]}", 1)], "more than 4,194,304 spaces in a row"),
        ([(HEAD + b'{"a":', 1), (b" " * 2**20, 400), (b"1}]}", 1)], "a value is longer than 33,554,432 characters"),
        ([(HEAD + b'{"a":"', 1), (b"a" * 2**20, 400), (b'"}]}', 1)], "a value is longer than 33,554,432 characters"),
        ([(HEAD + b"[", 1), (b"[]," * 10**6, 100), (b"1]]}", 1)], "it has more than 2,000,000 values"),
        ([(HEAD + b"[" + b"0," * 2000, 1), (b"[" * 10**6, 100)], "nested too deeply|more than 2,000,000 values"),
        ([(HEAD, 1), (EVENT * 10**5, 20), (b"{}]}", 1)], "most of its events have no valid time"),
        ([(HEAD, 1), (EVENT.replace(b'"x"', b"1") * 10**5, 3), (b"{}]}", 1)], "expands to more than 64 times its size"),
    ],
)
def test_a_small_file_that_expands_without_end_is_refused(tmp_path, monkeypatch, pieces, message):
    monkeypatch.setattr(
        "costcore.frontends.pytorch.traces.json_stream.UNPACKED", 2**29 if "64" not in message else 2**20
    )
    path = tmp_path / "bomb.json.gz"
    packed(path, *pieces)
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CostError, match=rf"bomb\.json\.gz .*({message})"):
        estimate(path)
    assert time.monotonic() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20


def test_options_are_checked(tmp_path):
    path = write(tmp_path / "trace.json", [ADD])
    with pytest.raises(TypeError, match="leave out inputs"):
        estimate(path, (2, 3))
    with pytest.raises(TypeError, match="profiler_step must be the number"):
        estimate(path, profiler_step="x")
    with pytest.raises(CostError, match="cannot be read"):
        estimate(path, et=tmp_path / "missing.json")
    with pytest.raises(CostError, match="not recorded together"):
        estimate(path, et=path)
    with pytest.raises(TypeError, match="unknown option 'backward'"):
        estimate(path, backward=True)


def test_indices_are_what_operators_inside_convert(tmp_path):
    """32 of 32 rows, beside which a larger tensor with rows of that width is read."""
    indices = ("", [], [], "")
    events = [
        *(op("aten::index", 0, 20, tensor(32, 8), indices), op("aten::to", 1, 2, tensor(32, dtype="int"))),
        *(op("aten::reshape", 4, 2, tensor(32, dtype="long int")), op("aten::as_strided", 8, 2, tensor(32, 8))),
        *(op("aten::t", 30, 5, tensor(1000, 8)),),
    ]
    report = estimate(write(tmp_path / "trace.json", events))
    (index,) = (record for record in report.trace if record.call.native == "aten::index")
    assert (index.cost.mread, index.cost.mwrite) == (32 * 8 * 4 + 32 * 8, 32 * 8 * 4)


def test_sympy_is_not_imported_for_integers(tmp_path):
    """PyTorch's own kernels of these operators import it, which takes longer than reading a small trace."""
    half, single = "c10::Half", "float"
    rows, vector = tensor(4, 8, 16, dtype=half), tensor(16, dtype=half)
    statistics = tensor(4, 8, 1, dtype=single)
    more = (("ScalarList", [], [], "[16]"), statistics, statistics, vector, vector, ("", [], [], "[True, True, True]"))
    events = [
        *(op("aten::index", 0, 20, tensor(32, 8), ("", [], [], "")), op("aten::to", 1, 2, tensor(32, dtype="int"))),
        op("aten::native_layer_norm_backward", 30, 5, rows, rows, *more),
    ]
    code = (
        "import sys; from costcore import estimate; report = estimate(sys.argv[1]); "
        "print(len(report.trace), report.status, 'sympy' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(write(tmp_path / "trace.json", events))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "complete", "False"]


@pytest.mark.parametrize("kind", [[], {}, 5, None, [["float"]]])
def test_a_type_that_is_no_text_is_missing(kind, tmp_path):
    damaged = json.loads(json.dumps(ADD))
    damaged["args"]["Input type"][0] = kind
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = estimate(write(tmp_path / "trace.json", [damaged, ADD]))
    assert report.trace.calls[-1].native == "aten::add"


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_text_between_events_may_be_inside_of_a_name(tmp_path):
    events = [op(f"aten::{name}", 10 * i, 5, tensor(2, 3)) for i, name in enumerate(("relu", "a}, {b", "relu", "relu"))]
    path = write(tmp_path / "trace.json", events, distributedInfo=[{"rank": 0}, {"rank": 1}])
    assert [call.native for call in estimate(path).trace.calls] == [
        "aten::relu",
        "aten::a}, {b",
        "aten::relu",
        "aten::relu",
    ]


def test_equal_operators_have_values_and_weights_of_their_own(tmp_path):
    linear = [tensor(2, 3), tensor(4, 3), tensor(4)]
    path = write(tmp_path / "trace.json", [op("aten::linear", 10 * i, 5, *linear) for i in range(3)])
    report = estimate(path)
    calls = [*report.trace.calls]
    # of each 4 * 3 weights and 4 biases, and 2 * 4 products of 3 factors
    assert (report.total_report["n_params"], report.total_report["macs"]) == (3 * 16, 3 * 24)
    assert len({calls[i].outputs for i in range(3)}) == len({calls[i].storages for i in range(3)}) == 3
