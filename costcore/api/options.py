"""The options of :func:`costcore.estimate`, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict


class CommonOptions(TypedDict, total=False):
    """Options of every model."""

    fma_1flop: bool
    layout: Literal["framework", "free"]
    tracebacks: bool
    spelled: bool
    calculators: Mapping[Any, Any] | None
    progress: Callable[[Iterable[Any], str], Iterable[Any]] | None
    strict: bool
    ranges: Mapping[str, tuple[int, int]] | None


class ModelOptions(CommonOptions, total=False):
    """Options of a model that is run: a module of PyTorch, or a target. Chainer has ``backward``."""

    backward: bool
    dtype: Any
    memory: bool
    optimizer: str | Callable[[Iterable[Any]], Any]
    step: Literal["first", "steady", "accumulated", "unsynchronized"]
    loss: Callable[[Any], Any]
    checkpoint: str
    precision: Literal["bfloat16", "autocast"]
    mesh: Mapping[str, int]
    plan: Any
    rank: int
    regroup: bool | Iterable[str]


class FileOptions(CommonOptions, total=False):
    """Options of a file: an ONNX graph, or a trace."""

    dims: Mapping[str, int | str]
    shapes: Mapping[str, tuple[int | str, ...]]
    regroup: bool | Iterable[str]
    explain_regroup: bool | Iterable[str]
    check_shapes: bool
    max_nodes: int
    keep_qdq: bool
    et: str | PathLike[str]
    profiler_step: int
    graphs: str | PathLike[str]
