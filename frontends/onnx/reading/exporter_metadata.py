"""Where in the model a node belongs, as far as exporters say."""

from __future__ import annotations

import re
from typing import Any

SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata in which PyTorch's exporter lists the modules around a node, outermost first, and the node last."""

CLASSES, OPERATION = "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node"
"""In the same order their classes; and the operation of the user's program a node was written for."""

TRACE = "pkg.torch.onnx.stack_trace"
"""The lines that called it, the innermost last."""

RULES = "pkg.onnxscript.rewriter.rule_name"
"""What was simplified to write a node."""

NOWHERE = "_empty_nn_module_stack_from_metadata_hook"
"""What PyTorch calls the module of operations that stand in none."""

_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def scopes(node: Any) -> list[str] | None:
    """The paths of the modules around a node as metadata has them, the outermost (the model, ``""``) first."""
    return _listed(node, SCOPES)


def classes(node: Any) -> list[str]:
    """The classes of the same modules, ``torch.nn.modules.conv.Conv2d``."""
    return _listed(node, CLASSES) or []


def _listed(node: Any, key: str) -> list[str] | None:
    """What a list in metadata holds, but for the last, which is the node; None where there is no such list."""
    for entry in node.metadata_props:
        if entry.key == key:
            return [name for a, b in _QUOTED.findall(entry.value)[:-1] if (name := a or b) != NOWHERE]
    return None


def has_folded_norm(node: Any) -> bool:
    """Whether PyTorch's exporter put a norm into the node, which it then says is the norm's."""
    return any(entry.key == RULES and "FuseBatchNormInto" in entry.value for entry in node.metadata_props)


def origin(node: Any) -> str:
    """The operation of the user's program that a node was written for; ``""`` where nothing says."""
    return next((str(entry.value) for entry in node.metadata_props if entry.key == OPERATION), "")


def source_line(node: Any) -> str:
    """The line of the user's program, or of PyTorch's modules, that called what a node was written for, or ``""``."""
    trace = next((str(entry.value) for entry in node.metadata_props if entry.key == TRACE), "")
    return next(reversed(trace.splitlines()), "")
