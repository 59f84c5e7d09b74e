"""Write text to a path or a stream, whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import IO, TypeAlias

from costcore.messages import why

Target: TypeAlias = "str | PathLike[str] | IO[str] | None"


def save(text: str, target: Target) -> str:
    """Write to a stream, or to a path in one step: a file that is read meanwhile is the old or the new one.

    Returns:
        ``text``.

    Raises:
        TypeError: for a target that is neither.
        OSError: where the path cannot be written.
    """
    if isinstance(target, (str, PathLike)):
        _replace(Path(target).resolve(), text)
    elif target is not None:
        writable(target).write(text)
    return text


def writable(stream: IO[str]) -> IO[str]:
    """That stream.

    Raises:
        TypeError: for what cannot be written to.
    """
    if not hasattr(stream, "write"):
        raise TypeError(f"expected a path or a stream to write to, got {stream!r}")
    return stream


def _replace(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():  # a pipe or a terminal: there is nothing to replace
        path.write_text(text, encoding="utf-8", newline="\n", errors="backslashreplace")
        return
    beside = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n", errors="backslashreplace")
        beside.replace(path)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {why(error)}") from error
    finally:
        beside.unlink(missing_ok=True)


def written(show: Callable[[IO[str]], None], target: Target) -> str:
    """What ``show`` writes to a stream, saved to ``target`` where one is given."""
    out = StringIO()
    show(out)
    return save(out.getvalue(), target)
