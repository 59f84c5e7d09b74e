"""Write text to a path, atomically, or to a stream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import IO, TypeAlias

from costcore.messages import error_text
from costcore.text.encoding import encodable

Target: TypeAlias = "str | PathLike[str] | IO[str] | None"


def save(text: str, target: Target) -> str:
    """Write ``text`` to a path or a stream, if ``target`` is not None, and return it.

    A file is replaced atomically: a program that reads it meanwhile sees either the old or the new content.

    Raises:
        TypeError: if ``target`` is neither a path nor a stream.
        OSError: if the path cannot be written.
    """
    if isinstance(target, (str, PathLike)):
        _replace(Path(target).resolve(), text)
    elif target is not None:
        stream = writable(target)
        stream.write(encodable(text, stream))
    return text


def writable(stream: IO[str]) -> IO[str]:
    """Return ``stream``, if it has a method ``write``.

    Raises:
        TypeError: if it does not.
    """
    if not hasattr(stream, "write"):
        raise TypeError(f"expected a path or a stream to write to (got {stream!r})")
    return stream


def _replace(path: Path, text: str) -> None:
    import secrets  # imports OpenSSL

    is_replaced = path.is_file() or not path.exists()  # a pipe or a terminal cannot be replaced
    written = path.with_name(f".{secrets.token_hex(8)}.tmp") if is_replaced else path
    try:
        written.write_text(text, encoding="utf-8", newline="\n", errors="backslashreplace")
        if is_replaced and path.exists():  # a report that others may not read stays so
            written.chmod(path.stat().st_mode & 0o7777)
        if is_replaced:
            written.replace(path)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error_text(error)}") from error
    finally:
        if is_replaced:
            with suppress(OSError):  # a folder that cannot be written, whose error is above
                written.unlink(missing_ok=True)


def save_output(show: Callable[[IO[str]], None], target: Target) -> str:
    """Return what ``show`` writes to a stream, and write it to ``target`` if given."""
    out = StringIO()
    show(out)
    return save(out.getvalue(), target)
