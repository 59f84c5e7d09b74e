"""Where in the model a node belongs, as far as exporters say, and the names operators go by."""

from __future__ import annotations

import re
from typing import Any

SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata in which PyTorch's exporter lists the modules around a node, outermost first, and the node last."""

CLASSES, OPERATION = "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node"
"""In the same order their classes; and the operation of the user's program a node was written for."""

_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def module_of(node: Any) -> str:
    """The path of the module a node was exported from, ``layer1.0.conv1``; ``""`` where nothing says."""
    for entry in node.metadata_props:
        if entry.key == SCOPES:
            scopes = [a or b for a, b in _QUOTED.findall(entry.value)]
            return scopes[-2] if len(scopes) > 1 else ""
    parts: list[str] = []
    for part in filter(None, node.name.split("/")[:-1]):
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part  # PyTorch names the parts of a Sequential with its name: /layer1/layer1.0/conv1/Conv
        else:
            parts.append(part)
    return ".".join(parts)


def origin(node: Any) -> str:
    """The operation of the user's program that a node was written for; ``""`` where nothing says."""
    return next((str(entry.value) for entry in node.metadata_props if entry.key == OPERATION), "")


def innermost_class(node: Any) -> str:
    """The class of the innermost module around a node; ``""`` where nothing says."""
    for entry in node.metadata_props:
        if entry.key == CLASSES:
            classes = [a or b for a, b in _QUOTED.findall(entry.value)]
            return classes[-2] if len(classes) > 1 else ""
    return ""


def native_name(op: str) -> str:
    """``domain::Type`` of an operator written with or without its domain, and with ``onnx`` for the default one."""
    domain, separator, kind = op.rpartition("::")
    return f"{domain if separator and domain not in ('', 'onnx') else 'ai.onnx'}::{kind}"
