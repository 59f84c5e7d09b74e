"""How far a table of models is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import IO

from costcore.studies.sweeps.row import ModelRow

LINE_SECONDS = 30
"""The seconds between two lines in a log; a table that takes less has none."""


def with_progress(rows: Iterable[tuple[int, ModelRow]], total: int) -> Iterator[tuple[int, ModelRow]]:
    """Yield the rows, and report on standard error how many there are, how fast they come, and how many failed."""
    if sys.stderr.isatty():
        yield from _with_bar(rows, total)
    else:
        yield from with_lines(rows, total, sys.stderr, monotonic)


def _with_bar(rows: Iterable[tuple[int, ModelRow]], total: int) -> Iterator[tuple[int, ModelRow]]:
    from tqdm import tqdm

    failed = 0
    with tqdm(rows, desc="models", total=total, leave=False, file=sys.stderr) as bar:
        for position, row in bar:
            if row.failed:
                failed += 1
                bar.set_postfix(failed=failed)
            yield position, row


def with_lines(
    rows: Iterable[tuple[int, ModelRow]], total: int, stream: IO[str], clock: Callable[[], float]
) -> Iterator[tuple[int, ModelRow]]:
    """Yield the rows, and write a line to ``stream`` every :data:`LINE_SECONDS`, and after the last row.

    Args:
        rows: the rows with their positions.
        total: their number.
        stream: where the lines are written.
        clock: returns the time in seconds.
    """
    start = last = clock()
    failed = 0
    for done, (position, row) in enumerate(rows, 1):
        failed += row.failed
        now = clock()
        if now - last >= LINE_SECONDS or (done == total and last > start):
            last = now
            rate = done / (now - start)
            left = f"{_duration((total - done) / rate)} left" if done < total else f"in {_duration(now - start)}"
            print(f"models: {done} of {total}, {failed} failed, {rate:.3g} per second, {left}", file=stream, flush=True)
        yield position, row


def _duration(seconds: float) -> str:
    """Return a duration in hours, minutes and seconds, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
