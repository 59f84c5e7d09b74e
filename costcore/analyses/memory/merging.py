"""Which values take over the memory of others: results written over operands, and values that continue others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from costcore.analyses.memory.lives import Block, Lives
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.symbolic import expanded


def merged(lives: Lives, inplace: bool, first: int = 0, last: int | None = None) -> list[Block]:
    """Return the blocks after values took over the memory of others.

    Args:
        lives: the values of a run.
        inplace: whether element-wise results are written over operands too.
        first: only blocks that are born in this step or a later one are joined and returned.
        last: the last such step; default: that of the run.
    """
    return _Merging(lives, inplace, first, len(lives.moments) - 1 if last is None else last).run()


class _Merging:
    """Joins the blocks of values that are written over, or continue, the memory of others."""

    def __init__(self, lives: Lives, inplace: bool, first: int, last: int) -> None:
        self._lives = lives
        self._inplace = inplace
        self._range = range(first, last + 1)
        is_whole = first == 0 and last == len(lives.moments) - 1
        made = [block for i in self._range for block in lives.moments[i].makes]
        self._among = range(len(lives.blocks)) if is_whole else frozenset(made)
        self._into: dict[int, int] = {}
        self._dies: dict[int, int] = {}
        self._kept: set[int] = set()

    def run(self) -> list[Block]:
        """Return the joined blocks, in order of birth."""
        for i in self._range:
            moment = self._lives.moments[i]
            self._join_all(i, moment.takes)
        for first, last in self._lives.spans:
            self._hold(first, last)
        if self._inplace:
            for i in self._range:
                if overwrites := self._lives.moments[i].overwrites:
                    self._join_all(i, overwrites)
        return [self._result(block) for block in sorted(self._among) if block not in self._into]

    def _join_all(self, i: int, pairs: Iterable[tuple[int, int]]) -> None:
        """Join the pairs of a step that can be joined, each block that it makes with one other."""
        done: set[int] = set()
        for made, taken in pairs:
            if made not in done and taken in self._among and self._join(i, made, taken):
                done.add(made)

    def _hold(self, first: int, last: int) -> None:
        """Keep what a loop or branch reads from outside until it ends."""
        for i in range(first, last + 1):
            for block in self._lives.moments[i].reads:
                if block in self._among and self._lives.blocks[block].born < first + self._is_input(block):
                    current = self._current(block)
                    self._dies[current] = max(self._end_of(current), last)

    def _is_input(self, block: int) -> bool:
        return self._lives.blocks[block].kind == "input"

    def _result(self, index: int) -> Block:
        block = self._lives.blocks[index]
        if index not in self._dies:
            return block
        kept = block.is_kept or index in self._kept
        kind = "output" if kept and block.kind == "value" else block.kind
        return replace(block, dies=self._dies[index], is_kept=kept, kind=kind)

    def _current(self, block: int) -> int:
        while block in self._into:
            block = self._into[block]
        return block

    def _end_of(self, block: int) -> int:
        return self._dies.get(block, self._lives.blocks[block].dies)

    def _join(self, i: int, made: int, taken: int) -> bool:
        """Let a block made at step ``i`` take over the memory of one that dies there; return whether it can."""
        a, b = self._current(made), self._current(taken)
        new, old = self._lives.blocks[a], self._lives.blocks[b]
        if a == b or old.kind == "input" or old.is_kept or b in self._kept or new.born != i:
            return False
        if self._end_of(b) != i or not _equal(new.nbytes, old.nbytes):
            return False
        self._into[a] = b
        self._dies[b] = self._end_of(a)
        if new.is_kept or a in self._kept:
            self._kept.add(b)
        return True


def _equal(a: Dim, b: Dim) -> bool:
    return bool(a == b) or (is_symbolic(a) and bool(expanded(a) == expanded(b)))
