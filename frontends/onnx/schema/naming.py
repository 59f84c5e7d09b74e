"""Full names of operators."""

from __future__ import annotations


def native_name(op: str) -> str:
    """``domain::Type`` of an operator written with or without its domain, and with ``onnx`` for the default one."""
    domain, separator, kind = op.rpartition("::")
    return f"{domain if separator and domain not in ('', 'onnx') else 'ai.onnx'}::{kind}"
