"""Read TOML files of users, and raise their mistakes as sentences."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from costcore.errors import CostError
from costcore.files import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 2**24
"""The largest TOML file that is read."""

loads = tomllib.loads
TOMLDecodeError = tomllib.TOMLDecodeError


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
