"""Values of meta tensors, as far as they are known.

They are kept by storage, so that views, ``detach`` and aliases need no rule: a tensor reads its values where its shape,
strides and offset lie in the contents of its storage, and an in-place operator changes them for all of its views.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from weakref import ref

import torch
from torch import Tensor, UntypedStorage

from costcore.frontend import MOST_VALUES

from .contents import CPU, Contents, Reading, without_capture
from .operands import PLAIN

MAX_BYTES = 8 * MOST_VALUES
"""The most bytes of a storage whose contents are kept."""

INTEGERS = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
FLOATS = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))


def is_small(tensor: Tensor) -> bool:
    """Return whether the values of a tensor would be kept, if they were known."""
    n_elements: int = tensor.numel()
    dtype = tensor.dtype
    return n_elements <= MOST_VALUES and (dtype in INTEGERS or dtype in FLOATS)


def is_small_integer(tensor: Tensor) -> bool:
    """Return whether a tensor from outside a run has integers or bools that are kept."""
    return (
        type(tensor) is Tensor
        and tensor.dtype in INTEGERS
        and not tensor.is_meta
        and tensor.numel() <= MOST_VALUES
        and tensor.layout is torch.strided
    )


class _StorageRef(ref[UntypedStorage]):
    """A weak reference to a storage, which knows the address of the storage."""

    __slots__ = ("address",)
    address: int


class Values:
    """The contents of storages on the meta device.

    Attributes:
        by_address: a weak reference to a storage and its contents, by the address of the storage.
        missed: tensors of the model whose values were needed, but which it has on the meta device.
        has_unknown_data: whether there are tensors with data that are not those of a run.
    """

    def __init__(self) -> None:
        self.has_unknown_data = False
        self.missed: list[Tensor] = []
        self.by_address: dict[int, tuple[_StorageRef, Contents]] = {}

    def clear(self) -> None:
        """Forget everything."""
        self.by_address.clear()

    def update(self, other: Values) -> None:
        """Take over what ``other`` holds, which is not used any more."""
        if not self.by_address:
            self.by_address = other.by_address
            return
        for reference, contents in [*other.by_address.values()]:
            storage = reference()
            if storage is not None:
                self._put(storage, contents)
        other.clear()

    def contents(self, tensor: Tensor) -> Contents | None:
        """Return the contents of the storage of an ordinary tensor; None if they are unknown."""
        storage = tensor.untyped_storage()
        found = self.by_address.get(storage._cdata)
        return found[1] if found is not None and found[0]() is storage else None

    def put(self, tensor: Tensor, contents: Contents) -> None:
        """Set the contents of the storage of a tensor."""
        self._put(tensor.untyped_storage(), contents)

    def replace(self, tensor: Tensor, contents: Contents) -> None:
        """Set the contents of a storage that has some."""
        address = tensor.untyped_storage()._cdata
        self.by_address[address] = (self.by_address[address][0], contents)

    def _put(self, storage: UntypedStorage, contents: Contents) -> None:
        address = storage._cdata
        reference = _StorageRef(storage, self._forget)
        reference.address = address
        self.by_address[address] = (reference, contents)

    def _forget(self, reference: _StorageRef) -> None:
        found = self.by_address.get(reference.address)
        if found is not None and found[0] is reference:
            del self.by_address[reference.address]

    def forget_data(self, tensor: Tensor, flags: int = 0) -> None:
        """Note that the data of a tensor are not those of a run: random numbers, or results without data.

        Args:
            tensor: the tensor.
            flags: what is known of them; see :mod:`.choices`.
        """
        self.has_unknown_data = True
        self.put(tensor, Contents(lambda: None, flags))

    def has_forgotten(self, tensor: Tensor) -> bool:
        """Return whether a tensor has data that are not those of a run."""
        if tensor.is_meta or type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return False
        contents = self.contents(tensor)
        return contents is not None and contents.storage() is None

    def drop(self, tensor: Tensor) -> None:
        """Forget the contents of the storage of a tensor."""
        self.by_address.pop(tensor.untyped_storage()._cdata, None)

    def give(self, tensor: Tensor, data: Tensor) -> None:
        """Set the values of a new meta tensor to those of a tensor with data, of the same shape, strides and dtype."""
        self.put(tensor, Contents(partial(_elements_of, data)))

    def give_storage(self, storage: UntypedStorage, data: UntypedStorage) -> None:
        """Set the contents of a storage on the meta device to those of a storage of the same size with data."""
        self._put(storage, Contents(data.cpu))

    def miss(self, storage: UntypedStorage, original: Tensor) -> None:
        """Take note of ``original`` once its values are needed, of which ``storage`` is the copy: there are none."""

        def no_contents() -> None:
            self.missed.append(original)

        self._put(storage, Contents(no_contents))

    def reading(self, tensor: Tensor) -> Reading | None:
        """Return a tensor as an argument of an operator that may run later; None if its values are unknown.

        The values of a small tensor with data, which a model made for itself, are those that it has now.
        """
        if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return None
        contents = self.contents(tensor)
        if contents is not None:
            return Reading(contents, tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.is_meta or type(tensor) is not Tensor or not is_small(tensor):
            return None
        with without_capture():
            copied = tensor.detach().to(CPU, copy=True)
        contents = Contents(copied.untyped_storage)
        return Reading(contents, copied.dtype, 0, copied.shape, copied.stride())

    def assumptions(self, tensors: Iterable[Tensor]) -> int:
        """Return the assumptions behind the values of tensors, as flags."""
        flags = 0
        for tensor in tensors:
            contents = self.contents(tensor)
            flags |= 0 if contents is None else contents.assumptions
        return flags

    def of(self, tensor: Tensor) -> Tensor | None:
        """Return a tensor on the CPU with the values of ``tensor``; None if they are unknown."""
        reading = self.reading(tensor)
        if reading is None:
            return None
        with without_capture():
            storage = reading.contents.storage()
            return None if storage is None else reading.in_storage(storage)


def _elements_of(data: Tensor) -> UntypedStorage:
    """Return a storage on the CPU that holds the memory between the first and the last element of a tensor."""
    with without_capture():
        extent = 1 + sum((size - 1) * step for size, step in zip(data.shape, data.stride(), strict=True))
        memory = data.detach().as_strided((extent if data.numel() else 0,), (1,))
        return memory.to(CPU, copy=True).untyped_storage()
