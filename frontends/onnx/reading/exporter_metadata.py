"""Metadata that PyTorch's exporters write into nodes: modules, operations, source lines."""

from __future__ import annotations

import re
from typing import Any

SCOPES = "pkg.torch.onnx.name_scopes"
"""Key of the modules around a node, outermost first, and the node last."""

CLASSES, OPERATION = "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node"
"""Keys of the classes of these modules, and of the operation of the user's program that a node was written for."""

TRACE = "pkg.torch.onnx.stack_trace"
"""Key of the source lines that called the operation, the innermost last."""

REWRITE_RULES = "pkg.onnxscript.rewriter.rule_name"
"""Key of the rewrite rules that produced a node."""

NOWHERE = "_empty_nn_module_stack_from_metadata_hook"
"""The module that PyTorch reports for operations outside all modules."""

_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def scopes(node: Any) -> list[str] | None:
    """Return the paths of the modules around a node, the outermost (the model, ``""``) first; None without metadata."""
    return _listed(node, SCOPES)


def classes(node: Any) -> list[str]:
    """Return the classes of these modules, ``torch.nn.modules.conv.Conv2d``."""
    return _listed(node, CLASSES) or []


def _listed(node: Any, key: str) -> list[str] | None:
    """Return a list in the metadata without its last entry, which is the node; None if there is no such list."""
    for entry in node.metadata_props:
        if entry.key == key:
            return [name for a, b in _QUOTED.findall(entry.value)[:-1] if (name := a or b) != NOWHERE]
    return None


def has_folded_norm(node: Any) -> bool:
    """Return True if the exporter fused a normalization into the node; its metadata then names the normalization."""
    return any(entry.key == REWRITE_RULES and "FuseBatchNormInto" in entry.value for entry in node.metadata_props)


def origin(node: Any) -> str:
    """Return the operation of the user's program that a node was written for; ``""`` without metadata."""
    return next((str(entry.value) for entry in node.metadata_props if entry.key == OPERATION), "")


def source_line(node: Any) -> str:
    """Return the source line that called the operation a node was written for; ``""`` without metadata."""
    return next(reversed(_trace(node).splitlines()), "")


def call_site(node: Any) -> tuple[tuple[str, ...], str]:
    """Return the modules around a node, and all source lines that led to its operation."""
    return tuple(scopes(node) or ()), _trace(node)


def _trace(node: Any) -> str:
    return next((str(entry.value) for entry in node.metadata_props if entry.key == TRACE), "")
