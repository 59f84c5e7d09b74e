"""Limit the expansion of aliases in MLIR text: each ``!t1 = tuple<!t0, !t0>`` doubles the printed size."""

from __future__ import annotations

import re
from typing import NamedTuple

from costcore.errors import CostError

DEEPEST_TEXT = 200
"""The maximum nesting of brackets with aliases expanded; MLIR parses and prints nested types by recursion."""

LONGEST_ALIAS = 10**6
"""The maximum characters of an expanded alias, plus the length of the whole text."""

LONGEST_TEXT, TIMES = 2**27, 16
"""The maximum characters of an expanded text: a constant, plus a multiple of its length."""

TOKEN = re.compile(
    r"""//[^\n]*|"(?:[^"\\\n]|\\.)*"(?P<operation>\s*\()?"""
    r"""|(?P<alias>[!#](?:\d+|[A-Za-z$_-][\w$-]*)(?![\w.$]))(?P<defined>\s*=(?!=))?"""
    r"""|(?P<bracket>[(\[{<)\]}]|(?<!-)>(?!=))|(?<![\w.$!#@%^-])(?P<word>[A-Za-z_][\w.$]*)"""
)
"""The tokens of a text: comments, strings, aliases, brackets (but not the ``>`` of ``->``), and words."""

OPERATION = re.compile(r"module|func|\w+\.[\w.$]+")
"""A word that begins an operation, and so ends the value of an alias before it."""


class Expanded(NamedTuple):
    """The size of an expanded alias: characters, and nesting of brackets."""

    size: int
    depth: int


LOCATION = Expanded(0, 0)
"""The size of a source location: counted as empty, since locations are not expanded when they are printed here."""


def check_expansion(text: str) -> None:
    """Check the nesting of a text, and the size to which its aliases expand.

    Raises:
        CostError: if either is too large.
    """
    _Expansion(text).check()


class _Expansion:
    """One pass over a text that tracks nesting and expanded size.

    Args:
        text: the text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[str, Expanded] = {}
        self._total = len(text)
        self._begin("", 0)

    def check(self) -> None:
        """See :func:`check_expansion`."""
        most = LONGEST_TEXT + TIMES * len(self._text)
        for token in TOKEN.finditer(self._text):
            if token["bracket"]:
                self._nest(token["bracket"] in "([{<")
            elif token["alias"] and token["defined"] and self._is_outermost(token.start()):
                self._end(token.start())
                self._begin(token["alias"], token.end())
            elif token["alias"]:
                self._use(token["alias"])
            elif token["word"]:
                self._read_word(token["word"], token.start())
            elif token["operation"]:
                self._end(token.start() if not self._depth else None)
                self._nest(True)
            if self._total > most:
                raise CostError(f"its aliases expand to more than {most:,} characters")
        self._end(len(self._text))

    def _begin(self, name: str, at: int) -> None:
        self._name, self._start, self._size, self._is_location = name, at, 0, False
        self._depth = self._deepest = 0

    def _is_outermost(self, at: int) -> bool:
        """Return whether a position is outside of brackets or at the start of a line, so ``=`` defines an alias."""
        return not self._depth or not self._text[self._text.rfind("\n", 0, at) + 1 : at].strip()

    def _end(self, at: int | None) -> None:
        """Store the size of the alias whose value ends here, if there is one."""
        if not self._name or at is None:
            return
        found = LOCATION if self._is_location else Expanded(at - self._start + self._size, self._deepest)
        if found.size > (most := LONGEST_ALIAS + len(self._text)):
            raise CostError(f"the alias {self._name:.40} expands to more than {most:,} characters")
        self._known[self._name], self._name = found, ""

    def _nest(self, is_opened: bool) -> None:
        self._depth = self._depth + 1 if is_opened else max(self._depth - 1, 0)
        self._reach(self._depth)

    def _reach(self, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if self._deepest > DEEPEST_TEXT:
            raise CostError(f"it nests brackets more than {DEEPEST_TEXT} deep")

    def _use(self, name: str) -> None:
        used = self._known.get(name)
        if used is None:
            return
        self._size += used.size
        self._total += used.size
        self._reach(self._depth + used.depth)
        self._is_location |= used is LOCATION and not self._depth

    def _read_word(self, word: str, at: int) -> None:
        if self._depth:
            return
        self._is_location |= word == "loc" and bool(self._name)
        if OPERATION.fullmatch(word):
            self._end(at)
