"""The memory ledgers of one thread: all of them see the same operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..meta.kept_storages import keep_storages
from ..operators.call_cache import CachedCall

if TYPE_CHECKING:
    from .ledger import StorageLedger


_INDEXING = frozenset(
    map(id, (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default))
)
"""The operators whose indices PyTorch makes of lists, which no operator returns on the meta device."""


class Ledgers(list["StorageLedger"]):
    """The ledgers of the captures that have one.

    Args:
        is_estimate: whether this is an estimate rather than a run.
    """

    def __init__(self, is_estimate: bool) -> None:
        super().__init__()
        self.is_estimate = is_estimate

    def observe(self, call: CachedCall, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Register the memory of the results of a call."""
        self.see(call.plan.func, tensors, args, kwargs, result)

    def see(self, operator: Any, tensors: Sequence[Tensor], args: Any, kwargs: Any, result: Any) -> None:
        """Register the memory of the results of an operator."""
        keep_storages(operator, args, result)
        if self.is_estimate and id(operator) in _INDEXING:
            for index in args[1]:
                if index is not None and index.is_meta:
                    self.allocated(index)
        for ledger in self:
            ledger.see(operator, tensors, kwargs, result)

    def allocated(self, tensor: Tensor) -> None:
        """Register the memory of a tensor that PyTorch made, but no operator returned."""
        for ledger in self:
            ledger.allocated(tensor)

    def note(self, note: str, is_approximation: bool = False) -> None:
        """Add a remark on the figures."""
        for ledger in self:
            ledger.note(note, is_approximation)

    def whole(self) -> AbstractContextManager[None]:
        """Return a context in which what runs is one operator to a CPU, whose inner memory is not counted."""
        return _in_all([ledger.whole() for ledger in self])

    def paused(self) -> AbstractContextManager[None]:
        """Return a context in which nothing is watched."""
        return _in_all([ledger.paused for ledger in self])

    def adding_in_place(self) -> AbstractContextManager[None]:
        """Return a context in which a composite operator runs that adds in place, but not inside a dispatch mode."""
        return _in_all([ledger.adding_in_place for ledger in self])


@contextmanager
def _in_all(contexts: Iterable[AbstractContextManager[None]]) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
