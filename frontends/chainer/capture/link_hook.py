"""Which link of the model is running, and where it stands in the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import chainer

from .call_stack import caller, frames


class _Running(NamedTuple):
    frame: FrameType
    link: Any
    path: str


class LinkCapture(chainer.LinkHook):
    """Follows the calls of links in this thread.

    The model is the link that was called from outside of all others; its links keep their paths when they are called
    alone later, as recomputation does.

    Args:
        entered: told of every link that is called, before it runs.
    """

    def __init__(self, entered: Callable[[Any], None]) -> None:
        super().__init__()
        self.name = f"costcore {id(self)}"
        self._entered = entered
        self._stack: list[_Running] = []
        self._model: Any = None  # held, so that the ids of its links stay theirs
        self._paths: dict[int, str] = {}

    def forward_preprocess(self, args: Any) -> None:
        """A link is about to run."""
        running = self.running()
        if not running and id(args.link) not in self._paths:
            self._model, self._paths = args.link, paths(args.link)
        path = self._paths.get(id(args.link))
        if path is None:  # a link that the model calls without owning it
            path = ".".join(filter(None, (running[-1].path, args.link.name or type(args.link).__name__)))
        self._stack.append(_Running(caller(), args.link, path))
        self._entered(args.link)

    def forward_postprocess(self, args: Any) -> None:
        """A link has run."""
        if self.running():
            self._stack.pop()

    def running(self) -> list[_Running]:
        """The links that run now, outermost first.

        A link that raised was not reported to have ended; it is found out by its frame, which has gone.
        """
        while self._stack and not any(frame is self._stack[-1].frame for frame in frames()):
            self._stack.pop()
        return self._stack

    def path(self) -> str:
        """Path of the innermost link that runs, ``""`` for the model itself and outside of any."""
        running = self.running()
        return running[-1].path if running else ""

    def links(self) -> Iterator[Any]:
        """The model and the innermost link that run."""
        running = self.running()
        yield from (each.link for each in (running[0], running[-1]) if running) if running else ()


def paths(model: Any) -> dict[int, str]:
    """Where every link stands in a model, by the link's id: names joined by dots, ``""`` for the model itself."""
    found: dict[int, str] = {}
    for path, link in model.namedlinks():
        found.setdefault(id(link), path.strip("/").replace("/", "."))
    return found
