"""Write TOML, which the standard library reads only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a table as TOML text.

    Values may be texts, bools, finite numbers, lists of values, mappings, and lists of mappings; None is left out.
    """
    return "\n".join(_lines(content, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping) or _is_list_of_tables(value)}
    for key, value in table.items():
        if key not in tables and value is not None:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in tables.items():
        inner = (*path, key)
        name = ".".join(map(_key, inner))
        if isinstance(value, Mapping):
            yield from ("", f"[{name}]", *_lines(value, inner))
        else:
            for item in value:
                yield from ("", f"[[{name}]]", *_lines(item, inner))


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    """Return a basic string, which has the escapes of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        items = [_value(item) for item in value]
        is_nested = any(isinstance(item, (list, tuple)) for item in value)
        return "[\n  " + ",\n  ".join(items) + ",\n]" if is_nested else f"[{', '.join(items)}]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
