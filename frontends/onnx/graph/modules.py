"""The module tree of a model, rebuilt from names and metadata of its nodes and initializers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from costcore.graphs import ModuleTree

from ..reading.exporter_metadata import classes, has_folded_norm, scopes
from ..values.value import StoredTensor

DEQUANTIZE = "DequantizeLinear"

QUANTIZED_PRODUCTS = ("QLinearConv", "QLinearMatMul", "QGemm")
"""Operators that a quantizer writes without the metadata of those whose weights they have."""

SETTINGS = ("_scale", "_zero_point")
"""Ends of the names that quantizers give to scales and zero points, of activations too: ``input.1_scale``."""

_FUSED = re.compile(r"\w+Fusion_(?P<operand>W|[A-Z]\w*?B)_")
"""What ONNX Runtime puts before the name of a tensor that it fused: ``ConvBnFusion_W_conv1.weight``,
``ConvBnFusion_BN_B_bn1.bias``, ``ConvAddFusion_Add_B_add.bias``, ``ConvMulFusion_Mul_B_scale``."""

_REPEATED = re.compile(r"(/.+)_\d+$")


class Modules(ModuleTree[StoredTensor]):
    """The modules of one model. Nodes are added in the order they run in."""

    def __init__(self) -> None:
        super().__init__(_owner)
        self._by_scope: dict[str, str] = {}
        self._dequantized: dict[str, Sequence[StoredTensor]] = {}

    def around(self, node: Any, outer: str, read: Sequence[StoredTensor] = ()) -> str:
        """Return the path of the module around a node (``NodeProto``), ``layer1.0.conv1``; ``""`` if unknown.

        Args:
            node: the node.
            outer: path of the module around the function it is in.
            read: the stored tensors it reads.
        """
        if self._dequantized:
            read = [*read, *(stored for name in node.input for stored in self._dequantized.get(name, ()))]
        listed = scopes(node) if node.metadata_props else None
        kinds = classes(node) if listed else []
        if listed and has_folded_norm(node) and (owner := next(filter(None, map(_owner, read)), "")):
            listed, kinds = [*listed[:-1], owner], kinds[:-1]
        if listed is None:
            inner = self._of_name(node.name, read)
            if not inner and read and node.op_type in QUANTIZED_PRODUCTS:
                inner = next(filter(None, map(_owner, read)), "")
            path = f"{outer}.{inner}" if outer and inner else outer or inner
        else:
            path = (listed[-1] if listed else "") or outer
        if listed and not self.knows(path):
            for scope, kind in zip(listed, kinds, strict=False):
                self.enter(scope, kind.rpartition(".")[2])
        if read and node.op_type == DEQUANTIZE:  # a quantizer put it between a weight and the node that reads it
            self._dequantized[node.output[0]] = [stored for stored in read if not stored.name.endswith(SETTINGS)]
        else:
            self.read(path, read)
        return path

    def of_call(self, node: Any, outer: str) -> str:
        """Return the path of a call of a model function; without metadata the function counts as a module."""
        if node.metadata_props and scopes(node) is not None:
            return self.around(node, outer)
        path = ".".join(filter(None, (outer, (node.name or node.op_type).strip("/").replace("/", "."))))
        self.enter(path, node.op_type)
        return path

    def _of_name(self, name: str, read: Iterable[StoredTensor]) -> str:
        """Return the path in the name of a node, ``/layer1/layer1.0/conv1/Conv``."""
        scope = name.rpartition("/")[0]
        path = self._by_scope.get(scope)
        if path is None:
            path = self._by_scope[scope] = self._of_scope(scope, read)
        return path

    def _of_scope(self, scope: str, read: Iterable[StoredTensor]) -> str:
        """Return the path of a scope; the TorchScript exporter writes ``act_1`` if the module ``act`` runs again."""
        again = _REPEATED.match(scope)
        before = self._by_scope.get(again[1]) if again else None
        weights = (stored for stored in read if "param" in stored.uses)
        if before is not None and all(before in self.readers(stored) for stored in weights):
            return before
        return _path(scope)


def _owner(stored: StoredTensor) -> str:
    """Return the module in the name of a stored tensor, ``layer1.0.conv1`` for ``layer1.0.conv1.weight``, or ``""``.

    Names with slashes or colons have none.
    """
    return _owner_in(stored.name)


@lru_cache(maxsize=4096)
def _owner_in(name: str) -> str:
    if name.endswith(SETTINGS):
        return ""
    fused = _FUSED.match(name)
    if fused:  # the sum of a normalization is a bias now, of the convolution that reads it
        name = name[fused.end() :] if fused["operand"] == "W" else ""
    owner = name.rpartition(".")[0]
    return "" if "/" in name or ":" in name or not all(owner.split(".")) else owner


def _path(scope: str) -> str:
    """Return a scope as a path: PyTorch repeats the name of a Sequential in its children, ``/layer1/layer1.0``."""
    parts: list[str] = []
    for part in filter(None, scope.split("/")):
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part
        else:
            parts.append(part)
    return ".".join(parts)
