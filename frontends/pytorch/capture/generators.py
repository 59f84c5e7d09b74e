"""Generators that modules return: each step runs in the module that made them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from torch.nn import Module

from ..recording.module_calls import ModuleCalls
from .active import THREAD


def in_module(
    module: Module, generator: Generator[Any, Any, Any], begun: list[tuple[ModuleCalls, int]] | None
) -> Generator[Any, Any, Any]:
    """Return a generator with the values of another one, which runs in its module, also after ``forward`` returned.

    Args:
        module: the module.
        generator: what it returned.
        begun: the call of the module, in each log that records calls of modules.
    """
    sent: Any = None
    error: BaseException | None = None
    while True:
        modules = None if THREAD.mode is None else THREAD.mode.recording.modules
        if modules is not None:
            modules.enter(module)
            for calls, number in begun or ():
                calls.resume(number)
        try:
            item = generator.send(sent) if error is None else generator.throw(error)
        except StopIteration as end:
            return end.value
        finally:
            if modules is not None:
                modules.leave()
                for calls, number in begun or ():
                    calls.end(number)
        try:
            sent, error = (yield item), None
        except GeneratorExit:
            generator.close()
            raise
        except BaseException as raised:
            sent, error = None, raised
