"""Flags of a capture, which are set inside a context."""

from __future__ import annotations


class Flag:
    """A context in which something holds; contexts nest.

    Attributes:
        is_set: whether it holds now.
    """

    __slots__ = ("_before", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(self.is_set)
        self.is_set = True

    def __exit__(self, *_: object) -> None:
        self.is_set = self._before.pop()
