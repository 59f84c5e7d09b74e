"""Static graphs of Chainer, which run functions without calling hooks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import chainer

_OPTION = "use_static_graph"


class _Switch:
    """The option of one thread.

    Attributes:
        options: the options that the thread set.
        before: the option before the first of the contexts that turn it off.
        n_contexts: how many contexts turn it off.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.before: dict[str, Any] = {}
        self.n_contexts = 0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.switch = _Switch(vars(chainer.config._local))


_THREAD = _Thread()


@contextmanager
def static_graphs_off() -> Iterator[None]:
    """Run static graphs as ordinary code in this thread.

    Contexts may be left in any order, and in another thread.
    """
    switch = _THREAD.switch
    if switch.n_contexts == 0:
        switch.before = {name: value for name, value in switch.options.items() if name == _OPTION}
    switch.n_contexts += 1
    switch.options[_OPTION] = False
    try:
        yield
    finally:
        switch.n_contexts -= 1
        if switch.n_contexts == 0:
            switch.options.pop(_OPTION, None)
            switch.options.update(switch.before)
