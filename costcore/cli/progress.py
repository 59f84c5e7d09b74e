"""What a terminal shows of work that takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

FIRST, EACH = 2.0, 0.5
"""Seconds before anything is shown, and between two updates."""


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on standard error what is done and for how long, if that is a terminal and it takes longer than 2 s."""
    if not sys.stderr.isatty():
        yield
        return
    ended = Event()
    thread = Thread(target=_show, args=(what, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(what: str, ended: Event) -> None:
    if ended.wait(FIRST):
        return
    from tqdm import tqdm

    with tqdm(desc=what, leave=False, file=sys.stderr, bar_format="{desc}: {elapsed}") as bar:
        while not ended.wait(EACH):
            bar.refresh()
