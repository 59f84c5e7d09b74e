"""What frontends that read files have in common, as :class:`costcore.frontend.Frontend` describes them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from costcore.errors import CostError

if TYPE_CHECKING:
    from costcore.trace.recorder import Recorder
    from costcore.translate import Row

ROWS: tuple[Row, ...] = ()
"""None, for frontends whose operators are those of another frontend."""


def capture(recorder: Recorder) -> AbstractContextManager[object] | None:
    """Return None: files are read, not run."""
    return None


def accepts(model: object) -> bool:
    """Return False: a model is recognized as a file, by its content or its suffix."""
    return False


def native_names(op: object) -> tuple[str, ...]:
    """Return (): another frontend knows the names of its operators."""
    return ()


def names_of(prefix: str, short: Collection[str] = ()) -> Callable[[object], tuple[str, ...]]:
    """Return the function ``native_names`` of a frontend whose operators are named ``prefix::NAME``.

    Args:
        prefix: what full names begin with.
        short: names that are understood without it.
    """

    def names(op: object) -> tuple[str, ...]:
        if not isinstance(op, str):
            return ()
        return (op,) if op.startswith(f"{prefix}::") else (f"{prefix}::{op}",) if op in short else ()

    return names


@contextmanager
def in_file(path: str) -> Iterator[None]:
    """Put the name of a file before what is wrong in it, unless the message begins with it."""
    try:
        yield
    except CostError as error:
        if str(error).startswith(path):
            raise
        raise CostError(f"{path}: {error}") from error


@contextmanager
def damaged(*kinds: type[Exception]) -> Iterator[None]:
    """Turn what reading a damaged file raises, errors of these kinds too, into one error."""
    errors: tuple[type[Exception], ...] = (ValueError, OverflowError, struct.error, *kinds)
    try:
        yield
    except CostError:
        raise  # it says what is wrong, or what is not read
    except errors as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CostError(f"the file is damaged: {reason[:200]}") from error
