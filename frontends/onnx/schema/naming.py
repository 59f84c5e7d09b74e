"""Full names of operators."""

from __future__ import annotations


def native_name(op: str) -> str:
    """Return ``domain::Type`` for an operator with or without its domain, or with ``onnx`` as the default domain."""
    domain, separator, kind = op.rpartition("::")
    return f"{domain if separator and domain not in ('', 'onnx') else 'ai.onnx'}::{kind}"
