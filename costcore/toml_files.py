"""Read TOML files of users, and raise their mistakes as sentences."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from costcore.errors import CostError
from costcore.files import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 2**22
"""The largest TOML file that is read."""

MOST_PARTS = 100
"""The most parts of a dotted key; Python's reader takes time and memory by their square."""

_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|#[^\n]*")
_SPACES = re.compile(r"[ \t]+")
_KEY = re.compile(r"[^\s=,\[\]{}#]+")

TOMLDecodeError = tomllib.TOMLDecodeError


def loads(text: str) -> dict[str, Any]:
    """Return the content of a text in TOML.

    Raises:
        ValueError: if it is not TOML, or a key has more than :data:`MOST_PARTS` parts.
        RecursionError: if it is nested too deeply.
    """
    if text.count(".") > MOST_PARTS:
        plain = _SPACES.sub(" ", _TEXT.sub("q", text)).replace(" .", ".").replace(". ", ".")
        if any(key[0].count(".") >= MOST_PARTS for key in _KEY.finditer(plain)):
            raise ValueError(f"a key has more than {MOST_PARTS} parts")
    return tomllib.loads(text)


def read_toml(file: Path, invalid: type[CostError]) -> tuple[dict[str, Any], str]:
    """Return the content of a TOML file, and its text.

    Args:
        file: the file.
        invalid: the exception for a file that is not TOML.

    Raises:
        CostError: ``invalid``; the message includes the file and the place in it.
        FileError: if the file cannot be read.
    """
    text = read_text(file, invalid, MOST_BYTES)
    try:
        return loads(text), text
    except RecursionError as error:
        raise invalid(f"{file} is not a TOML file: it is nested too deeply") from error
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise invalid(f"{file} is not a TOML file: {error}") from error
