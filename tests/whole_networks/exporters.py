"""Exports by PyTorch's own exporters: the older one is built into torch, the newer one uses onnxscript."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

EXPORTERS = ("older", "newer")

HAS_NEWER = "dynamic_shapes" in signature(torch.onnx.export).parameters
"""Whether this PyTorch has the newer exporter; before, it has a prototype of it, without these options."""

NEEDS_NEWER = pytest.mark.skipif(not HAS_NEWER, reason="this PyTorch does not have the newer exporter yet")


@contextmanager
def or_skip() -> Iterator[None]:
    """Skip a test of what an exporter that is older than the newer one cannot export."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        if HAS_NEWER and "unordered_map::at" not in str(error):  # it loses a value that it renamed
            raise
        pytest.skip(f"the exporter of this PyTorch fails: {type(error).__name__}")


def export(
    module: nn.Module, inputs: tuple[Any, ...], exporter: str, opset: int, batch: str = "", folded: bool = False
) -> bytes:
    """Export a module as a serialized model.

    Args:
        module: the module.
        inputs: its inputs; the older exporter names them ``x0``, ``x1``, …
        exporter: one of :data:`EXPORTERS`.
        opset: version of the operator set.
        batch: name of the first dimension of every input, which then is symbolic, and at least two.
        folded: whether the exporter folds constants, as it does by default.
    """
    if exporter == "newer":
        skip_unless_exported(module)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own warnings
        if exporter == "older":
            out, names = io.BytesIO(), [f"x{i}" for i in range(len(inputs))]
            axes = {name: {0: batch} for name in names} if batch else None
            options: dict[str, Any] = {"input_names": names, "dynamic_axes": axes, "do_constant_folding": folded}
            with or_skip():
                torch.onnx.export(module, inputs, out, dynamo=False, opset_version=opset, **options)
            return out.getvalue()
        shapes = tuple({0: torch.export.Dim(batch, min=2)} for _ in inputs) if batch else None
        options = {"dynamic_shapes": shapes, "optimize": folded, "verbose": False}
        try:
            program = torch.onnx.export(module, inputs, dynamo=True, opset_version=opset, **options)
        except RuntimeError as error:
            if batch and not keeps_names() and "Constraints violated" in str(error):
                pytest.skip("the newer exporter of this PyTorch cannot keep the batch of this network symbolic")
            raise
        model = with_named_batch(program.model_proto, batch) if batch else program.model_proto
        content: bytes = model.SerializeToString()
        return content


def with_named_batch(model: Any, batch: str) -> Any:
    """Give the first dimension of a model's input its name, where the exporter writes a name of its own.

    Skip the test if the exporter wrote a number instead, which happens only with one that does not keep names.
    """
    written = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    if written != batch:
        assert not keeps_names(), f"the exporter wrote {written or 'a number'!r} instead of {batch!r}"
        if not written:
            pytest.skip("the newer exporter of this PyTorch writes the batch of this network as a number")
        for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
            for dim in value.type.tensor_type.shape.dim:
                if dim.HasField("dim_param"):
                    dim.dim_param = re.sub(rf"\b{written}\b", batch, dim.dim_param)
    return model


@cache
def keeps_names() -> bool:
    """Whether the newer exporter writes a symbolic dimension under the name that it was given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = ({0: torch.export.Dim("rows")},)
        program = torch.onnx.export(
            nn.ReLU(), (torch.ones(2, 3),), dynamo=True, dynamic_shapes=shapes, optimize=False, verbose=False
        )
    name: str = program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    return name == "rows"


def _batch_norm() -> nn.Module:
    return nn.BatchNorm1d(1)


def _hooked() -> nn.Module:
    return nn.utils.weight_norm(nn.Linear(1, 1))


@cache
def _exports(build: Callable[[], nn.Module]) -> bool:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(build().eval(), (torch.ones(1, 1),), dynamo=True, verbose=False)
        except RuntimeError:
            return False
    return True


@cache
def newer_operators(opset: int, layer: type[nn.Module]) -> frozenset[str]:
    """Return the operators that the newer exporter writes for a layer without arguments."""
    model = onnx.load_from_string(export(layer(), (torch.ones(2, 3),), "newer", opset))
    return frozenset(node.op_type for node in model.graph.node)


@cache
def records_modules() -> bool:
    """Whether the newer exporter records the module of each operator where a hook computes a weight."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        hooked = nn.utils.weight_norm(nn.Linear(2, 2))
    nodes = onnx.load_from_string(export(hooked, (torch.ones(2, 2),), "newer", 18)).graph.node
    return all(any("torch.nn" in entry.value for entry in node.metadata_props) for node in nodes)


def skip_unless_exported(module: nn.Module) -> None:
    """Skip a test of the newer exporter that the installed PyTorch and onnxscript do not export for."""
    if not HAS_NEWER:
        pytest.skip("this PyTorch does not have the newer exporter yet")
    if any(isinstance(each, _BatchNorm) for each in module.modules()) and not _exports(_batch_norm):
        pytest.skip("the newer exporter of this PyTorch fails on batch normalization with the installed onnxscript")
    if any(isinstance(value, torch.Tensor) for value in vars(module).values()) and not _exports(_hooked):
        pytest.skip("the newer exporter of this PyTorch fails on a module whose hook assigns a tensor to it")


def all_different(module: nn.Module) -> nn.Module:
    """Give all weights of a module different values: the older exporter stores equal weights once."""
    torch.manual_seed(0)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.1, 1)
    return module.eval()
