"""Chainer: counts what a run executes, through Chainer's own hooks.

``import costcore.frontends.chainer.compat`` before ``import chainer`` makes Chainer import on today's Python, numpy
and setuptools. So this package imports Chainer only when one of its names is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .frontend import ROWS, accepts, capture, estimate, native_names

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.frontend"), name)
