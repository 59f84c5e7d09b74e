"""Fragments of error messages: shortened values, reasons, names of functions, near matches."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def qualified_name(function: Any) -> str:
    """Return the module and qualified name of a function or callable object."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def error_text(error: Exception) -> str:
    """Return the message of an error; for an ``OSError``, without its number and path."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def line_of(error: BaseException) -> str:
    """Return where an error was raised, ``(net.py, line 3)`` after a space: the last line outside costcore, if any."""
    lines, at = [], error.__traceback__
    while at is not None:
        lines.append((at.tb_frame.f_code.co_filename, at.tb_lineno))
        at = at.tb_next
    outside = [line for line in lines if Path(__file__).parent not in Path(line[0]).parents]
    return "".join(f" ({Path(file).name}, line {number})" for file, number in (outside or lines)[-1:])


def import_problem(what: str, package: str, error: BaseException, title: str = "") -> str:
    """Return why a package cannot be imported: it is not installed, or a package that it imports fails.

    Libraries replace the error of a broken dependency by one of their own, so the first cause is stated, with the
    package that raised it.

    Args:
        what: what needs the package.
        package: its name, as it is imported and installed.
        error: what importing it raised.
        title: the name of the library, if it is another one.
    """
    cause = first_cause(error)
    is_there = sys.modules.get(package) is not None or find_spec(package) is not None
    broken = _raised_in(cause, package) if is_there else package
    if broken == package:
        return f"{what} needs {title or package}, which cannot be imported ({error}). Run pip install {package}."
    text = str(cause).strip().partition("\n")[0]
    return (
        f"{what} needs {title or package}, which is installed and cannot be imported because {broken} fails "
        f"({type(cause).__name__}: {text:.300}). Repair {broken}, or uninstall it if nothing needs it."
    )


def first_cause(error: BaseException) -> BaseException:
    """Return the exception at the beginning of a chain."""
    seen = [error]
    while (before := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        if before in seen:
            break
        error = before
        seen.append(error)
    return error


def _raised_in(error: BaseException, package: str) -> str:
    """Return the package whose import raised an error: the first one that others import on the way to it."""
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != package:
        return error.name.partition(".")[0]
    at, is_inside = error.__traceback__, False
    while at is not None:
        root = str(at.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        is_inside |= root == package
        if is_inside and root not in (package, "") and root not in sys.stdlib_module_names:
            return root
        at = at.tb_next
    return package


def short_repr(value: object) -> str:
    """Return the ``repr`` of a value on one line, shortened to 80 characters.

    >>> short_repr([10**6000])
    'a list that is too large to print'
    """
    try:
        text = re.sub(r"\s*\n\s*", " ", repr(value))
    except ValueError:  # Python prints integers of up to 4,300 digits
        return f"a {type(value).__name__} that is too large to print"
    return text if len(text) <= 80 else text[:79] + "…"


def did_you_mean(names: Iterable[object], expected: Iterable[object]) -> str:
    """Return a suggestion of near matches, to be appended to a message; empty if there is no near match.

    >>> did_you_mean(["flop"], ["flops", "macs"])
    ". Did you mean 'flops'?"
    >>> did_you_mean(["a100"], ["a100-sxm4-80gb", "l4"])
    ". Did you mean 'a100-sxm4-80gb'?"
    """
    choices = [str(choice) for choice in expected]
    near = [match for name in names if isinstance(name, str) for match in _near(name, choices)]
    return f". Did you mean {' and '.join(map(repr, dict.fromkeys(near)))}?" if near else ""


def _near(name: str, choices: list[str]) -> list[str]:
    """Return the first choice that begins with a name; if there is none, the nearest match."""
    longer = [choice for choice in choices if name and choice.lower().startswith(name.lower())]
    return longer[:1] or get_close_matches(name, choices, 1)


def subs_call(symbols: Iterable[object], most: int = 8) -> str:
    """Return the call that puts numbers in place of symbols, as code.

    >>> subs_call(["batch", "time"])
    'report.subs(batch=…, time=…)'
    >>> subs_call(["past + new"])
    "report.subs({'past + new': …})"
    """
    names = [str(symbol) for symbol in symbols][:most]
    if all(name.isidentifier() for name in names):
        return f"report.subs({', '.join(f'{name}=…' for name in names)})"
    return f"report.subs({{{', '.join(f'{name!r}: …' for name in names)}}})"


def unknown(what: str, name: object, expected: Iterable[object]) -> str:
    """Return the message for one or several unknown names, with the expected names and the near matches.

    >>> unknown("column", "flop", ["flops", "macs"])
    "unknown column 'flop' (expected flops, macs). Did you mean 'flops'?"

    Args:
        what: what is named, ``column``.
        name: the unknown name, or a list of them.
        expected: the names that exist.
    """
    names = name if isinstance(name, list) else [name]
    choices = [*expected]
    shown = ", ".join(map(repr, names))
    return f"unknown {what} {shown} (expected {', '.join(map(str, choices))}){did_you_mean(names, choices)}"
