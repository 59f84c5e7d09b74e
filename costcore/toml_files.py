"""Read TOML files of users, and raise their mistakes as sentences."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from costcore.errors import CostError
from costcore.messages import error_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

loads = tomllib.loads
TOMLDecodeError = tomllib.TOMLDecodeError


def read_toml(file: Path, invalid: type[CostError]) -> tuple[dict[str, Any], str]:
    """Return the content of a TOML file, and its text.

    Args:
        file: the file.
        invalid: the exception for a file that is not TOML.

    Raises:
        CostError: ``invalid``; the message includes the file and the place in it.
        OSError: if the file cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8")
        return loads(text), text
    except OSError as error:
        raise type(error)(f"{file} cannot be read: {error_text(error)}") from error
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        raise invalid(f"{file} is not a TOML file: {error}") from error
