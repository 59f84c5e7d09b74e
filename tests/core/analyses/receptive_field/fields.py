"""Receptive fields of hand-made traces, and how every value of one depends on an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore import Report, Trace
from costcore.analyses.receptive_field.fields import choose_source, follow, sources

__all__ = ["follow", "followed", "read_inputs", "receptive_fields", "sources"]


def receptive_fields(trace: Trace, index: int | None = None, axes: Sequence[int] | None = None) -> Any:
    return Report(trace).receptive_field(input=index, axes=axes)


def read_inputs(trace: Trace) -> list[int]:
    """Return the ids of the inputs that calls read, by their number."""
    return [source.identity for source in sources(trace)]


def followed(trace: Trace, index: int | None = None) -> Any:
    return follow(trace, choose_source(sources(trace), index))
