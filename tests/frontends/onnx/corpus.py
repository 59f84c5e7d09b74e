"""The models of ``onnx.backend.test``: what they are given, what truly comes out, and what is read of them here.

Node models and their arrays are generated in process, and the shapes of those arrays are the truth: what a model
declares of its outputs is taken out before it is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import ModelProto, TensorProto
from pytest import MonkeyPatch

from costcore.errors import CostError
from costcore.frontends.onnx.estimate import estimate
from costcore.frontends.onnx.inference import all_rules
from costcore.frontends.onnx.values import DTYPES, Container, Value
from costcore.frontends.onnx.walk.walker import Walker
from costcore.ir import Operations
from costcore.trace.run import Recorder
from tests.registered import price

SETTINGS = {"scales", "roi", "depth", "start", "limit", "delta"}
"""Inputs of floats whose values decide shapes: they are given, as integers are; of all others only the shape is."""

KINDS = ("light", "simple", "pytorch-converted", "pytorch-operator")


class Reading(NamedTuple):
    """What was read of one model.

    Attributes:
        name: of the test case.
        model: what was read.
        ops: types of its nodes.
        calls: what was recorded.
        operations: of all calls that have a price.
        macs: the same.
        unpriced: full names of those that have none.
        outputs: name, inferred value and true array of every output.
        error: why it could not be read, else empty.
    """

    name: str
    model: ModelProto
    ops: tuple[str, ...]
    calls: list[Any]
    operations: Operations
    macs: Any
    unpriced: list[str]
    outputs: list[tuple[str, Value, Any]]
    error: str = ""


def node_cases() -> Iterator[tuple[str, ModelProto, dict[str, Any], list[Any]]]:
    """Name, model, inputs and output arrays of every generated node model."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow and divide by zero on purpose
        cases = collect_testcases(None)
    for case in cases:
        model = ModelProto()
        model.CopyFrom(case.model)
        inputs, outputs = next(iter(case.data_sets))
        given = {entry.name: _given(array, entry.name) for entry, array in zip(model.graph.input, inputs, strict=False)}
        yield case.name, model, {name: value for name, value in given.items() if value is not None}, outputs


def _given(array: Any, name: str) -> Any:
    """Integers and settings as they are, of other arrays the shape, of sequences the list of that."""
    if isinstance(array, (list, tuple)):
        return [_given(part, name) for part in array]
    if isinstance(array, TensorProto):
        return tuple(array.dims)
    if array is None:
        return None
    array = np.asarray(array)
    return array if array.dtype.kind in "iub" or name in SETTINGS else array.shape


def stripped(model: ModelProto) -> ModelProto:
    """``model``, saying nothing of the shapes of its values and outputs."""
    del model.graph.value_info[:]
    for entry in model.graph.output:
        if entry.type.HasField("tensor_type"):
            entry.type.tensor_type.ClearField("shape")
    return model


def _read(model: ModelProto, inputs: Any) -> tuple[Recorder, list[list[Value]], str]:
    """The record of a model, what is known of its outputs, and why it cannot be read."""
    found: list[list[Value]] = []
    run = Walker.run

    def kept(walker: Walker, walk: Any) -> list[Value]:
        found.append(run(walker, walk))
        return found[-1]

    recorder, error = Recorder(), ""
    with MonkeyPatch.context() as patch:
        patch.setattr(Walker, "run", kept)
        try:
            estimate(recorder, model, inputs)
        except CostError as problem:
            error = str(problem)
    return recorder, found, error


def outputs_of(model: ModelProto) -> list[Any]:
    """What is known of the outputs of a model before it runs."""
    _, found, error = _read(model, None)
    assert not error
    return found[0]


def is_list(value: Any) -> bool:
    """Whether a value is a sequence or an optional."""
    return isinstance(value, Container)


def dtype_of(truth: Any) -> str:
    """The name of the element type of a true output."""
    dtype = DTYPES[truth.data_type] if isinstance(truth, TensorProto) else np.asarray(truth).dtype.name
    return "string" if dtype == "object" or dtype.startswith("str") else dtype


def shape_rules() -> dict[str, Any]:
    """The shape rules, by the full names of operators."""
    return {**all_rules()}


def read_case(name: str, model: ModelProto, inputs: Any, expected: list[Any]) -> Reading:
    """Read one model and price its calls."""
    recorder, found, error = _read(model, inputs)
    operations, macs, unpriced = Operations(), 0, []
    for call in recorder.calls:
        answer = price(call)
        if answer.cost is None:
            unpriced.append(f"{call.native}: {answer.reason}")
        else:
            operations += answer.cost.flops * call.times  # type: ignore[operator]
            macs += answer.cost.macs * call.times
    ops = tuple(node.op_type for node in model.graph.node)
    names = [entry.name for entry in model.graph.output]
    outputs = list(zip(names, found[0], expected, strict=True)) if found else []
    return Reading(name, model, ops, recorder.calls, operations, macs, unpriced, outputs, error)


def read_nodes() -> dict[str, Reading]:
    """All generated node models, by name."""
    return {name: read_case(name, stripped(model), inputs, expected) for name, model, inputs, expected in node_cases()}


def files() -> list[Path]:
    """The models that the installed onnx ships as files."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data"
    found = [path for kind in KINDS for path in sorted((root / kind).glob("*/model.onnx"))]
    return [*sorted((root / "light").glob("*.onnx")), *found]


def difference(value: Value, truth: Any) -> str:
    """How an output differs from the true one: ``wrong``, ``open`` where a dimension is not told, else ``""``."""
    if truth is None:
        return ""
    if isinstance(truth, (list, tuple)):
        if not isinstance(value, Container):
            return "wrong"
        if value.items is None:
            return (
                "open"
                if value.length is None or not isinstance(value.length, int) or value.length == len(truth)
                else "wrong"
            )
        if len(value.items) != len(truth):
            return "wrong"
        return max((difference(item, array) for item, array in zip(value.items, truth, strict=True)), default="")
    shape = tuple(truth.dims) if isinstance(truth, TensorProto) else np.shape(truth)
    if value.shape is None:
        return "open"
    if len(value.shape) != len(shape):
        return "wrong"
    if any(isinstance(a, int) and a != b for a, b in zip(value.shape, shape, strict=True)):
        return "wrong"
    return "" if value.shape == shape else "open"
