"""Malicious and broken files: one error message, exit code 1, and no other file is opened."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sympy
from onnx import ModelProto, TensorProto, helper

from costcore import CostError, CostWarning, cli, estimate
from tests.command_line import main
from tests.shrinking import shrink_while_read
from tests.whole_networks.onnx_models import Graph, absent, make_model, vgg16
from tests.work import at_most

watched: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watched is not None and event == "open":
        watched.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes)) else str(arguments[0]))


sys.addaudithook(_watch)  # sees every way to open a file, and cannot be taken away again


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The files that are opened from here on."""
    global watched
    watched = []
    yield watched
    watched = None


def external(location: str = "absent.bin", **entries: str) -> ModelProto:
    """A sum with a stored tensor of 4096 floats that lies in another file."""
    tensor = absent("w", (4096,), location)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4096))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [tensor],
    )
    return make_model(graph)


READ = 4 * (2 * 4096 + 4096)


def zipped() -> bytes:
    """A zip archive of one file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"...")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00",
        b"PK\x03\x04" + bytes(40),
        b"just text\n",
        b'{"a": 1}',
        bytes(range(256)),
        b"\xff" * 64,
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a graph of 2**63 bytes
        b"\x0b" * 100_000,  # groups without end
        bytes(1 << 20),
        vgg16().SerializeToString()[:-5],
    ],
    ids=["empty", "png", "zip", "text", "json", "bytes", "ones", "endless", "groups", "zeros", "truncated"],
)
def test_what_is_no_model_is_one_sentence_and_exit_code_1(tmp_path, capsys, content):
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert main([str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"costcore: {path} is not an ONNX model: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (zipped(), "a zip archive; extract the model from it. torch.save writes such files"),
        (gzip.compress(vgg16().SerializeToString()), "gzip-compressed; gunzip extracts the model"),
        *((pickle.dumps({"w": [1.0]}, protocol=i), "a pickle; torch.save writes such files") for i in range(2, 6)),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>", "an HTML or XML page"),
        (b'\xef\xbb\xbf\n  <?xml version="1.0"?>', "an HTML or XML page"),
        (b'{"a": 1}', "JSON"),
        (b"[\n1]", "JSON"),
        (b"just text\n", "plain text"),
    ],
)
def test_what_a_file_is_in_place_of_a_model_is_said(tmp_path, content, told):
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(CostError) as caught:
        estimate(path)
    assert str(caught.value).startswith(f"{path} is not an ONNX model: it is {told}")


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "loop"])
def test_a_path_that_is_no_file_is_one_sentence_and_exit_code_1(tmp_path, capsys, kind):
    path = tmp_path / "net.onnx"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    assert main([str(path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("costcore: ")
    assert str(path) in err
    assert "Traceback" not in err


def named(name: str, domain: str = "") -> ModelProto:
    """A product of shapes that do not fit, or in a domain of its own an operator that nobody knows."""
    node = helper.make_node("MatMul" if not domain else "Wave", ["x", "w"], ["y"], name=name, domain=domain)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 8))],
        [absent("w", (9, 4))],
    )
    return make_model(graph)


@pytest.mark.parametrize(("domain", "code"), [("", 1), ("made\x1b[2J.up", 0)])
@pytest.mark.parametrize("form", ["table", "csv", "md"])
def test_no_name_is_obeyed_by_a_terminal(tmp_path, capsys, domain, code, form):
    path = tmp_path / "net.onnx"
    path.write_bytes(named("evil\x1b[31m\r\u202ename", domain).SerializeToString())
    assert main([str(path), "--format", form]) == code
    out, err = capsys.readouterr()
    assert not set("\x1b\r\u202e") & set(out + err)
    assert r"evil\x1b[31m\r\u202ename" in (out + err).replace(2 * "\\", "\\")  # Markdown doubles them


def test_a_name_of_a_million_letters_is_cut_in_messages(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    path.write_bytes(named("n" * 1_000_000).SerializeToString())
    assert main([str(path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"costcore: {path}: node 'nnnnn")
    assert len(err) <= 10_001


def lay(folder: Path, kind: str) -> str:
    """Put a file of that kind where a model may point to; returns where."""
    (folder / "secret").write_bytes(b"s" * 16384)
    location = folder / "w.bin"
    if kind == "symlink":
        location.symlink_to(folder / "secret")
    elif kind == "hard link":
        location.hardlink_to(folder / "secret")
    elif kind == "fifo":
        os.mkfifo(location)
    elif kind == "folder":
        location.mkdir()
    elif kind == "symlinked folder":
        (folder / "there").mkdir()
        (folder / "there" / "w.bin").write_bytes(b"s" * 16384)
        (folder / "here").symlink_to(folder / "there")
        return "here/w.bin"
    elif kind == "file":
        location.write_bytes(b"s" * 16384)
    elif kind != "missing":
        return kind
    return "w.bin"


KINDS = ["file", "symlink", "symlinked folder", "hard link", "fifo", "folder", "missing"]
NAMES = ["../s", "a/../../s", "/etc/passwd", "..\\s", "ok.bin\0x", "", "file:///etc/passwd", "http://127.0.0.1/w"]


@pytest.mark.parametrize("kind", [*KINDS, *NAMES])
def test_nothing_is_opened_but_the_model(tmp_path, capsys, opened, kind):
    path = tmp_path / "net.onnx"
    path.write_bytes(external(lay(tmp_path, kind)).SerializeToString())
    before = sorted(tmp_path.iterdir())
    estimate(path)  # what is imported on the way is imported now
    del opened[:]
    assert main([str(path), "--format", "csv", "--unit", "none"]) == 0
    others = [name for name in opened if name != str(path)]
    assert {Path(name).parent for name in others} <= {Path(cli.__file__).parent}  # the files of commands name them
    assert f"Add-1,8192,{READ},32768," in capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_that_is_itself_a_link(tmp_path):
    # as a hub lays its files out: both names are links into a folder of blobs
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots"
    blobs.mkdir()
    snapshot.mkdir()
    (blobs / "1f").write_bytes(external("net.onnx_data").SerializeToString())
    (blobs / "2e").write_bytes(bytes(16384))
    (snapshot / "net.onnx").symlink_to(Path("../blobs/1f"))
    (snapshot / "net.onnx_data").symlink_to(Path("../blobs/2e"))
    assert estimate(snapshot / "net.onnx").total_report["mread"] == READ


@pytest.mark.parametrize(
    ("entries", "note"),
    [
        ({"offset": "-1", "length": "16384"}, ""),
        ({"offset": str(1 << 70)}, ""),
        ({"length": "-1"}, "needs 16384 bytes, but its external data has length '-1'"),
        ({"length": "12"}, "needs 16384 bytes, but its external data has length '12'"),
        ({"length": "a lot"}, "needs 16384 bytes, but its external data has length 'a lot'"),
        ({"__class__": "os.system", "basepath": "/"}, ""),
    ],
)
def test_what_a_model_says_of_its_data_changes_nothing(entries, note):
    report = estimate(external(**entries))
    assert report.total_report["mread"] == READ
    assert [n for n in report.notes if note not in n] == []
    assert bool(report.notes) == bool(note)


def bounded(model: ModelProto, calls: int = 1_000_000, mebibytes: int = 200) -> Any:
    """The report of a model that is made to take long."""
    assert sympy.Symbol("n")  # imported, which takes more than anything here
    tracemalloc.start()
    try:
        with at_most(calls):
            report = estimate(model)
        assert tracemalloc.get_traced_memory()[1] < mebibytes << 20
    finally:
        tracemalloc.stop()
    return report


def test_a_chain_of_doublings_is_bounded():
    g, x = Graph(), "x"
    for _ in range(200):
        x = g("Concat", x, x, axis=0)
    report = bounded(g.model({"x": (2,)}, x))
    # every join reads its input once and writes twice as much: 4 * 2 bytes at first, 200 times
    assert report.total_report["mwrite"] == 4 * 2 * (2**201 - 2)


def test_a_shape_of_a_thousand_million_numbers_is_no_rank():
    g = Graph()
    model = g.model({"x": (2, 3), "s": (TensorProto.INT64, (10**9,))}, g("Relu", g("Reshape", "x", "s")))
    with pytest.warns(CostWarning) as told:
        report = bounded(model)
    assert [str(warning.message).partition(": 1")[0] for warning in told] == [
        "no shapes for 'ai.onnx::Reshape'",
        "no shapes for 'ai.onnx::Relu'",
    ]
    assert report.status == "partial"


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Tile"])
def test_sizes_that_no_memory_has_are_integers(op):
    g, shape = Graph(), (1 << 40, 1 << 20)
    given = [] if op == "ConstantOfShape" else [g("Unsqueeze", g.number(1), g.number(0))]
    report = bounded(g.model({}, g(op, *given, g.number(*shape))))
    assert report.total_report["mwrite"] == (4 if op == "ConstantOfShape" else 8) * 2**60


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(tmp_path, monkeypatch):
    """A file that is mapped into memory would end the process."""
    from costcore import files

    path = tmp_path / "net.onnx"
    g = Graph()
    model = g.model({"x": (2, 3)}, g("Relu", "x"))
    model.graph.doc_string = "x" * 300_000
    path.write_bytes(model.SerializeToString())
    whole = estimate(path).total_report
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    assert estimate(path).total_report == whole
    shrink_while_read(path, monkeypatch)
    with pytest.raises(CostError, match=r"net\.onnx cannot be read: it became shorter while it was read"):
        estimate(path)


def test_a_graph_of_too_many_nodes_is_refused_at_once(monkeypatch):
    """Eight megabytes hold four million empty nodes, which take gigabytes to walk."""
    graph = helper.make_graph([], "g", [], [])
    content = b"\x0a\x00" * 600_000  # the field of nodes, and its length
    whole = helper.make_model(graph)
    whole.graph.ParseFromString(content)
    with pytest.raises(CostError, match=r"it stores 600,000 nodes \(limit 100,000\)\..* max_nodes=600000"):
        estimate(whole.SerializeToString())
