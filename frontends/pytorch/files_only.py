"""What frontends have in common that read files, and run what they say by the frontend of PyTorch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costcore.trace.recorder import Recorder
    from costcore.translate import Row

ROWS: tuple[Row, ...] = ()


def capture(recorder: Recorder) -> AbstractContextManager[object] | None:
    """Return None: the frontend of PyTorch records what runs."""
    return None


def accepts(model: object) -> bool:
    """Return False: a model is recognized as a file, by its content or its suffix."""
    return False


def native_names(op: object) -> tuple[str, ...]:
    """Return (): the frontend of PyTorch knows the names of its operators."""
    return ()
