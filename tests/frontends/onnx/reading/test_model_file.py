"""Files and bytes: anything but a model is refused, and no other file is opened."""

from __future__ import annotations

import builtins
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto, helper

from costcore import CostError, estimate
from tests.frontends.onnx.read_model import read
from tests.whole_networks.onnx_models import Graph, absent, make_model, vgg16
from tests.work import at_most


def heavy(elements: int = 1_000_000) -> ModelProto:
    """A product with a stored matrix of ``elements`` floats, written into the model itself."""
    g = Graph()
    y = g("MatMul", "x", "w")
    model = g.model({"x": (1, elements // 10)}, y)
    model.graph.initializer.add(
        name="w", dims=(elements // 10, 10), data_type=TensorProto.FLOAT, raw_data=b"\x00" * (4 * elements)
    )
    return model


def test_path_bytes_and_proto_say_the_same(tmp_path):
    model = vgg16()
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    totals = [estimate(source).total_report for source in (model, model.SerializeToString(), path, str(path))]
    assert totals[0]["n_params"] == 138_357_544
    assert all(total == totals[0] for total in totals)


@pytest.mark.parametrize("location", ["../s", "a/../../s", "/etc/passwd", "..\\s", "ok.bin\0x", "", "fifo"])
def test_no_other_file_is_opened(tmp_path, monkeypatch, location):
    model = make_model(
        helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4096))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [absent("w", (4096,), location)],
        )
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    os.mkfifo(tmp_path / "fifo")
    opened = []

    def watched(file, *args, **kwargs):
        opened.append(Path(file).name)
        return original(file, *args, **kwargs)

    original = io.open
    estimate(path)  # imports are done
    monkeypatch.setattr(io, "open", watched)
    monkeypatch.setattr(builtins, "open", watched)
    assert estimate(path).total_report["mread"] == 4 * (2 * 4096 + 4096)
    assert opened == ["net.onnx"] * len(opened)


def test_weights_are_left_out_while_a_file_is_read(tmp_path):
    model = heavy()
    content = model.SerializeToString()
    assert len(content) > 4_000_000
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert estimate(path).total_report == estimate(model).total_report
    assert estimate(path).total_report["macs"] == 1_000_000


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview"])
def test_bytes_are_taken_before_onnx_is_imported(tmp_path, kind):
    path = tmp_path / "net.onnx"
    path.write_bytes(heavy(10).SerializeToString())
    code = f"import costcore, pathlib, sys; content = {kind}(pathlib.Path(sys.argv[1]).read_bytes())"
    code += "; print('onnx' in sys.modules, costcore.estimate(content).total_report['macs'])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "False 10\n"


def test_paths_of_every_kind(tmp_path):
    class Named(os.PathLike):
        def __fspath__(self):
            return os.fsencode(tmp_path / "net.onnx")

    (tmp_path / "net.onnx").write_bytes(heavy(10).SerializeToString())
    assert estimate(Named()).total_report["macs"] == 10
    (entry,) = os.scandir(os.fsencode(tmp_path))
    assert estimate(entry).total_report["macs"] == 10


def test_a_file_larger_than_protobuf_allows(tmp_path):
    # a sparse file: an initializer whose raw_data is 3 GiB of nothing
    size = 3 << 30
    head, tail = _around_raw_data(heavy(10), size)
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.write(head)
        file.seek(size, os.SEEK_CUR)
        file.write(tail)
    with at_most(50_000):
        assert estimate(path).total_report["macs"] == 10


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded, value = encoded + bytes([value & 0x7F | 0x80]), value >> 7
    return encoded + bytes([value])


def _around_raw_data(model: ModelProto, size: int) -> tuple[bytes, bytes]:
    """A serialised model of one initializer, up to its elements and from behind them, where those take ``size``."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    field = tensor.SerializeToString() + b"\x4a" + _varint(size)  # 9: raw_data
    del model.graph.initializer[:]
    graph = model.graph.SerializeToString() + b"\x2a" + _varint(len(field) + size) + field  # 5: initializer
    model.ClearField("graph")
    rest = model.SerializeToString()
    return b"\x3a" + _varint(len(graph) + size) + graph, rest  # 7: graph


def test_a_chain_of_doublings_without_end_is_refused():
    g, x = Graph(), "x"
    for _ in range(5000):
        x = g("Concat", x, x, axis=0)
    with pytest.raises(CostError, match=r"Concat node that produces .* has an output dimension of"):
        read(g.model({"x": (2,)}, x))
