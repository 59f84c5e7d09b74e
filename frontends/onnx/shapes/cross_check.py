"""Cross-check of inferred shapes with the model's declarations and with onnx's own inference."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto

from costcore.ir import prod
from costcore.isolated import python_command
from costcore.numbers.dims import Dim

from ..values.value import MOST_FOLDED, Shape, Value

SECONDS, BYTES = 60, 4 << 30
"""Limits of onnx's inference: time and memory."""

CHILD = f"""
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({BYTES}, {BYTES}))
except ImportError:
    pass
import onnx
model = onnx.ModelProto.FromString(sys.stdin.buffer.read())
sys.stdout.buffer.write(onnx.shape_inference.infer_shapes(model, data_prop=False).SerializeToString())
"""

Note = Callable[[str], None]


def differs(shape: Shape | None, kind: Any) -> bool:
    """Return whether a tensor type (``TypeProto.Tensor``) has another rank or other sizes than ``shape``."""
    if shape is None or not kind.HasField("shape"):
        return False
    dims = kind.shape.dim
    if len(dims) != len(shape):
        return True
    return any(
        isinstance(mine, int) and d.HasField("dim_value") and 0 <= d.dim_value != mine
        for mine, d in zip(shape, dims, strict=True)
    )


def written(kind: Any) -> str:
    """Return the shape of a tensor type as text."""
    dims = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim]
    return f"({', '.join(dims)}{',' * (len(dims) == 1)})"


def compare_with_onnx(proto: Any, values: Mapping[str, Value], note: Note) -> None:
    """Note every value of the outermost graph for which onnx infers another shape.

    Inference runs in a process of its own, in bounded time and memory, on a copy without weights and without declared
    shapes: it is native code, which models can crash.

    Args:
        proto: the model.
        values: its values by name, as inferred here.
        note: takes the remarks.
    """
    stripped = without_weights(proto, values)
    try:
        done = subprocess.run(
            python_command(CHILD), input=stripped.SerializeToString(), capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        note(f"onnx's own inference of shapes was stopped after {SECONDS} seconds")
        return
    found = ModelProto()
    try:
        found.ParseFromString(done.stdout)
    except DecodeError:
        done.returncode = done.returncode or 1
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        note(f"onnx's own inference of shapes failed: {last[0][:300]}")
        return
    for entry in (*found.graph.value_info, *found.graph.output):
        value = values.get(entry.name)
        if value is not None and entry.type.HasField("tensor_type") and differs(value.shape, entry.type.tensor_type):
            theirs = written(entry.type.tensor_type)
            note(f"onnx infers the shape {theirs} of {entry.name!r}; costcore infers {value.shape}")


def without_weights(proto: Any, values: Mapping[str, Value]) -> Any:
    """Return a copy of the model without weights, and without shapes except those of inputs and initializers."""
    stripped = ModelProto(ir_version=proto.ir_version)
    stripped.opset_import.extend(proto.opset_import)
    stripped.functions.extend(proto.functions)
    stripped.graph.name = proto.graph.name
    large = []
    for node in proto.graph.node:
        tensors = [a.t for a in node.attribute if a.HasField("t")] if node.op_type == "Constant" else []
        if tensors and prod(tensors[0].dims) > MOST_FOLDED:
            large.append((node.output[0], tensors[0]))
        else:
            stripped.graph.node.add().CopyFrom(node)
    for name, tensor in large:
        stripped.graph.initializer.add(name=name, dims=tensor.dims, data_type=tensor.data_type)
    for tensor in proto.graph.initializer:
        if prod(tensor.dims) <= MOST_FOLDED:
            stripped.graph.initializer.add().CopyFrom(tensor)
        else:
            stripped.graph.initializer.add(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
    stripped.graph.sparse_initializer.extend(proto.graph.sparse_initializer)
    for entry in proto.graph.input:
        copy = stripped.graph.input.add()
        copy.CopyFrom(entry)
        value = values.get(entry.name)
        if value is not None and value.shape is not None and copy.type.HasField("tensor_type"):
            _write(copy.type.tensor_type.shape, value.shape)
    for entry in proto.graph.output:
        stripped.graph.output.add(name=entry.name)
    return stripped


def _write(shape: Any, dims: Iterable[Dim]) -> None:
    del shape.dim[:]
    for d in dims:
        if isinstance(d, int) and d < 1 << 63:
            shape.dim.add(dim_value=d)
        else:
            shape.dim.add(dim_param=str(d))
