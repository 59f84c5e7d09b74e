"""The links that are running, and their paths in the model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, NamedTuple

import chainer

from ..call_stack import frames


class _Running(NamedTuple):
    frame: FrameType
    link: Any
    path: str


class LinkHook(chainer.LinkHook):
    """Follows the calls of links in this thread.

    The model is the link that is called from outside of all other links. Its links keep their paths if they are called
    on their own later, as recomputation does.

    Args:
        on_enter: called with every link before it runs.
        on_inputs: called with the arguments of a link that is called from outside of all other links.
    """

    def __init__(self, on_enter: Callable[[Any], None], on_inputs: Callable[[Iterable[Any]], None]) -> None:
        super().__init__()
        self.name = f"costcore {id(self)}"
        self._on_enter = on_enter
        self._on_inputs = on_inputs
        self._stack: list[_Running] = []
        self._model: Any = None  # held, so that the ids of its links are not reused
        self._paths: dict[int, str] = {}
        self._active: dict[str, Any] = {}
        """The active link hooks of the thread that entered this one."""

    def __enter__(self) -> LinkHook:
        self._active = chainer._get_link_hooks()
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        del self._active[self.name]  # it may be left in another thread

    def forward_preprocess(self, args: Any) -> None:
        """Push a link that is about to run."""
        running = self.running()
        if not running and id(args.link) not in self._paths:
            self._model, self._paths = args.link, link_paths(args.link)
        if not running:
            self._on_inputs((*args.args, *args.kwargs.values()))
        path = self._paths.get(id(args.link))
        if path is None:  # a link that the model calls but does not own
            path = ".".join(filter(None, (running[-1].path, args.link.name or type(args.link).__name__)))
        caller = sys._getframe(1)  # the frame of Chainer in which the link runs
        self._stack.append(_Running(caller, args.link, path))
        self._on_enter(args.link)

    def forward_postprocess(self, args: Any) -> None:
        """Pop a link that has run."""
        if self.running():
            self._stack.pop()

    def running(self) -> list[_Running]:
        """Return the links that are running, outermost first.

        Chainer does not call the hook for a link that raised. Such a link is recognized by its frame, which is not on
        the Python stack anymore.
        """
        while self._stack and not any(frame is self._stack[-1].frame for frame in frames()):
            self._stack.pop()
        return self._stack

    def path(self) -> str:
        """Return the path of the innermost running link, ``""`` for the model itself and outside of any link."""
        running = self.running()
        return running[-1].path if running else ""

    def outermost_and_innermost(self) -> tuple[Any, ...]:
        """Return the model and the innermost running link; an empty tuple outside of any link."""
        running = self.running()
        return (running[0].link, running[-1].link) if running else ()


def link_paths(model: Any) -> dict[int, str]:
    """Return the paths of all links of a model by the id of the link: names joined by dots, ``""`` for the model."""
    paths: dict[int, str] = {}
    for path, link in model.namedlinks():
        paths.setdefault(id(link), dotted(path))
    return paths


def dotted(path: str) -> str:
    """Convert a path of ``Link.namedlinks``, ``/block/conv``, to ``block.conv``."""
    return path.strip("/").replace("/", ".")
