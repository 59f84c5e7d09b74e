"""Known values of meta tensors.

They are stored by storage, so that views, ``detach`` and aliases need no rule: a tensor reads the contents of its
storage by shape, strides and offset, and an in-place operator changes them for all views. The last section computes
data-dependent operators on known values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from weakref import ref

import torch
from torch import Tensor, UntypedStorage
from torch.nn import Parameter

from costcore.frontend import MOST_VALUES

from ..tensors import SPARSE_LAYOUTS

MAX_BYTES = 8 * MOST_VALUES
"""Maximum bytes of a storage with known contents."""

MOST_IN_MASK = 2**27
"""The maximum number of elements with known values if masks of attention are needed: 11,585 tokens squared."""

_limits = [MOST_VALUES]
"""A stack: its last item is the maximum number of elements of a tensor with known values."""


@contextmanager
def masks_are_known() -> Iterator[None]:
    """Context manager: keep the values of tensors as large as masks of attention."""
    _limits.append(MOST_IN_MASK)
    try:
        yield
    finally:
        _limits.pop()


INTEGERS = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))

FLOATS = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))


def is_small(tensor: Tensor) -> bool:
    """Return whether a tensor is small enough to keep its values."""
    n_elements: int = tensor.numel()
    dtype = tensor.dtype
    return n_elements <= _limits[-1] and (dtype in INTEGERS or dtype in FLOATS)


def is_small_integer(tensor: Tensor) -> bool:
    """Return whether a tensor from outside a run has integers or bools that are kept."""
    return (
        type(tensor) is Tensor
        and tensor.dtype in INTEGERS
        and not tensor.is_meta
        and tensor.numel() <= _limits[-1]
        and tensor.layout is torch.strided
    )


class _StorageRef(ref[UntypedStorage]):
    __slots__ = ("address",)
    address: int


class Values:
    """The contents of storages on the meta device.

    Attributes:
        by_address: a weak reference to a storage and its contents, by the address of the storage.
        missed: tensors of the model whose values were needed, but which are on the meta device.
        has_unknown_data: whether some CPU tensors have data that differ from the data of a run.
    """

    has_unknown_data: bool

    def __init__(self) -> None:
        self.has_unknown_data = False
        self.missed: list[Tensor] = []
        self.by_address: dict[int, tuple[_StorageRef, Contents]] = {}

    def clear(self) -> None:
        """Forget everything."""
        self.by_address.clear()

    def copy(self) -> Values:
        """Return the same contents, for another run."""
        copied = Values()
        copied.by_address = self.by_address.copy()
        return copied

    def update(self, other: Values) -> None:
        """Take over the contents of ``other``, which must not be used afterwards."""
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

    def forget_data(self, tensor: Tensor, flags: int = 0, bounds: Bounds | None = None) -> None:
        """Mark the data of a tensor as unknown: in a run they differ, as random numbers do.

        Args:
            tensor: the tensor.
            flags: the flags of the values; see :mod:`.propagate_values`.
            bounds: the smallest and the largest number; None: not known.
        """
        self.has_unknown_data = True
        self.put(tensor, Contents(lambda: None, flags, bounds=bounds))

    def has_forgotten(self, tensor: Tensor) -> bool:
        """Return whether the data of a tensor are marked as unknown."""
        if tensor.is_meta or type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return False
        contents = self.contents(tensor)
        return contents is not None and contents.storage() is None

    def drop(self, tensor: Tensor) -> None:
        """Forget the contents of the storage of a tensor."""
        self.by_address.pop(tensor.untyped_storage()._cdata, None)

    def give(self, tensor: Tensor, data: Tensor) -> None:
        """Set the values of a new meta tensor from a tensor of the same shape, strides and dtype."""
        self.put(tensor, Contents(partial(_elements_of, data)))

    def give_storage(self, storage: UntypedStorage, data: UntypedStorage) -> None:
        """Set the contents of a meta storage from a storage of the same size."""
        self._put(storage, Contents(data.cpu))

    def miss(self, storage: UntypedStorage, original: Tensor) -> None:
        """Report ``original`` as missed if a value in ``storage``, its copy, is needed: both are on the meta device."""

        def no_contents() -> None:
            self.missed.append(original)

        self._put(storage, Contents(no_contents))

    def reading(self, tensor: Tensor, is_pattern: bool = False) -> Reading | None:
        """Return a tensor as an argument of a deferred operator; None if its values are unknown.

        A small tensor with data, which the model made, is read now.

        Args:
            tensor: the tensor.
            is_pattern: return the pattern of its zeros (see :class:`Contents`), not its values.
        """
        if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return None
        contents = self.contents(tensor)
        if (contents is not None and contents.is_pattern) is not is_pattern:
            return None
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

    def of(self, tensor: Tensor, is_pattern: bool = False) -> Tensor | None:
        """Return a tensor on the CPU with the values of ``tensor``, or its pattern of zeros; None if it is unknown."""
        reading = self.reading(tensor, is_pattern)
        if reading is None:
            return None
        with without_capture():
            storage = reading.contents.storage()
            return None if storage is None else reading.in_storage(storage)


def _elements_of(data: Tensor) -> UntypedStorage:
    # All memory between the first and the last element is copied: strides may skip some.
    with without_capture():
        extent = 1 + sum((size - 1) * step for size, step in zip(data.shape, data.stride(), strict=True))
        memory = data.detach().as_strided((extent if data.numel() else 0,), (1,))
        return memory.to(CPU, copy=True).untyped_storage()


# Contents: the bytes of a meta storage, computed lazily on the CPU
#
# Nothing is computed while a model runs. Each operator on known values is deferred with its arguments, and runs only if
# values are read (the condition of an ``if``, the size of a ``nonzero``). Contents are immutable: an in-place operator
# gives its storage new contents, computed from a copy of the old ones.


Bounds: TypeAlias = "tuple[float, float]"
"""The ends of the range of random numbers, both included."""

Layout: TypeAlias = "tuple[torch.Size, tuple[int, ...], torch.dtype]"
"""Shape, strides and dtype of a tensor that starts at the beginning of its storage."""

MAX_DEPTH = 16
"""The maximum depth of deferred operators, as computing recurses; deeper contents are computed at once."""

CPU = torch.device("cpu")

_CAPTURED = (
    torch._C.DispatchKeySet(torch._C.DispatchKey.PreDispatch)
    .add(torch._C.DispatchKey.Python)
    .add(torch._C.DispatchKey.PythonTLSSnapshot)
    .add(torch._C.DispatchKey.AutocastCPU)
)


class Contents:
    """The bytes of a storage.

    Args:
        compute: returns the bytes, or None if they turn out to be unknown; called at most once.
        assumptions: the assumptions behind them, as flags; see :mod:`.propagate_values`.
        depth: the depth of deferred operators.
        bounds: the smallest and the largest number that they may hold, if they are random; None: not known.
        is_pattern: whether they are a pattern of zeros: 0 where the value is 0, and 1 where it is unknown.
    """

    assumptions: int
    bounds: Bounds | None
    depth: int
    is_pattern: bool

    __slots__ = ("_compute", "_storage", "assumptions", "bounds", "depth", "is_pattern")

    def __init__(
        self,
        compute: Callable[[], UntypedStorage | None],
        assumptions: int = 0,
        depth: int = 0,
        bounds: Bounds | None = None,
        is_pattern: bool = False,
    ) -> None:
        self._compute: Callable[[], UntypedStorage | None] | None = compute
        self._storage: UntypedStorage | None = None
        self.assumptions = assumptions
        self.bounds = bounds
        self.depth = depth
        self.is_pattern = is_pattern

    def storage(self) -> UntypedStorage | None:
        """Return a CPU storage with the bytes, which must not be written to; None if they are unknown."""
        if self._compute is not None:
            compute, self._compute = self._compute, None
            self._storage = compute()
            self.depth = 0
        return self._storage


class Reading(NamedTuple):
    """A tensor with known values, as an argument of a deferred operator."""

    contents: Contents
    dtype: torch.dtype
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]

    def in_storage(self, storage: UntypedStorage) -> Tensor:
        """Return the tensor in a storage on the CPU."""
        return torch.empty(0, dtype=self.dtype, device=CPU).set_(storage, self.offset, self.shape, self.stride)


def without_capture() -> ExitStack:
    """Return a context in which operators run on the CPU uncaptured."""
    stack = ExitStack()
    stack.enter_context(torch._C._ExcludeDispatchKeyGuard(_CAPTURED))
    stack.enter_context(torch._C._DisableFuncTorch())
    stack.enter_context(torch._C.DisableTorchFunction())
    return stack


def layout_of(tensor: Tensor) -> Layout:
    """Return shape, strides and dtype of a tensor."""
    return tensor.shape, tensor.stride(), tensor.dtype


def storage_with(value: Tensor, layout: Layout) -> UntypedStorage | None:
    """Return a storage that holds ``value`` in a layout; None if shape or dtype differ."""
    shape, stride, dtype = layout
    if value.shape != shape or value.dtype != dtype:
        return None
    if value.stride() != stride or value.storage_offset() or not value.is_cpu:
        value = torch.empty_strided(shape, stride, dtype=dtype, device=CPU).copy_(value)
    return value.untyped_storage()


class UnknownValueError(Exception):
    """An argument with unknown contents."""


class WaitingCall:
    """A deferred operator call, which runs when one of its results is read.

    Args:
        func: the operator.
        args: its positional arguments, with a :class:`Reading` for each tensor.
        kwargs: its keyword arguments, likewise.
        results: layouts of the tensors that it returns; None if not needed.
        written: the contents, before the call, of the storages that it writes to.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        results: Sequence[Layout | None] = (),
        written: Sequence[Contents] = (),
    ) -> None:
        self._call: tuple[Any, ...] | None = (func, args, kwargs, results, written)
        self._storages: Sequence[UntypedStorage | None] = [None] * (len(results) + len(written))

    def storage(self, index: int) -> UntypedStorage | None:
        """Return the storage of a result or, with indices after the results, of a written storage."""
        if self._call is not None:
            call, self._call = self._call, None
            with without_capture(), suppress(*UNKNOWN):
                self._storages = _run(*call)
        return self._storages[index]


UNKNOWN = (UnknownValueError, RuntimeError, ValueError, TypeError, IndexError, ArithmeticError)
"""The errors of an operator whose arguments are unknown, or whose dtypes the CPU does not support."""


def run_on_data(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Run an operator that writes to tensors with data; return whether it ran."""
    with without_capture():
        try:
            func(*_filled(args, {}), **_filled(kwargs, {}))
        except UNKNOWN:
            return False
    return True


def _run(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    results: Sequence[Layout | None],
    written: Sequence[Contents],
) -> Sequence[UntypedStorage | None]:
    copies: dict[int, UntypedStorage] = {}
    for contents in written:
        before = contents.storage()
        if before is None:
            raise UnknownValueError
        copies[id(contents)] = before.clone()
    made = func(*_filled(args, copies), **_filled(kwargs, copies))
    outputs = made if isinstance(made, (tuple, list)) else (made,)
    storages = [None if x is None else storage_with(y, x) for x, y in zip(results, outputs, strict=False)]
    return [*storages, *copies.values()]


def _filled(value: Any, copies: Mapping[int, UntypedStorage]) -> Any:
    kind = type(value)
    if kind is Reading:
        storage = copies.get(id(value.contents)) or value.contents.storage()
        if storage is None:
            raise UnknownValueError
        return value.in_storage(storage)
    if kind is list or kind is tuple:
        return kind([_filled(item, copies) for item in value])
    if kind is dict:
        return {name: _filled(item, copies) for name, item in value.items()}
    return CPU if kind is torch.device else value


# Tensors among the arguments of a call


META = torch.device("meta")

PLAIN = frozenset((Tensor, Parameter))
"""The types of ordinary tensors; other subclasses have their own behavior."""

NUMBERS = frozenset((int, float, bool, complex))


def all_tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    """Yield every tensor in nested lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from all_tensors(value)


def tensors_of(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> list[Tensor]:
    """Return every tensor among the arguments of a call."""
    return list(all_tensors((*args, *(kwargs or {}).values())))


def have_data(tensors: Sequence[Tensor]) -> bool:
    """Return whether all tensors are ordinary tensors with data."""
    return all(type(tensor) in PLAIN and not tensor.is_meta for tensor in tensors)


def has_complex(tensors: Sequence[Tensor]) -> bool:
    """Return whether any tensor is complex."""
    return any(tensor.is_complex() for tensor in tensors)


def are_distributed(tensors: Sequence[Tensor]) -> bool:
    """Return whether any tensor is distributed over devices."""
    return any(kind.__name__ == "DTensor" for tensor in tensors for kind in type(tensor).__mro__)


def is_mixed(tensors: Sequence[Tensor]) -> bool:
    """Return whether some tensors have data and others are meta tensors."""
    return len({tensor.is_meta for tensor in tensors}) > 1


def without_data(value: Any, keeps_integers: bool = False) -> Any:
    """Return arguments with every tensor moved to the meta device.

    Args:
        value: a tensor, or lists, tuples and dicts that contain tensors.
        keeps_integers: whether integer tensors keep their data, which may be sizes.
    """
    if isinstance(value, Tensor):
        if value.is_meta or (keeps_integers and not value.is_floating_point()):
            return value
        if value.layout in SPARSE_LAYOUTS:
            return sparse_on_meta(value)
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, dict):
        return {name: without_data(item, keeps_integers) for name, item in value.items()}
    return type(value)([without_data(x, keeps_integers) for x in value]) if type(value) in (list, tuple) else value


def sparse_on_meta(tensor: Tensor) -> Tensor:
    """Return a sparse tensor on the meta device, with the number of values of the original."""
    if tensor.layout is torch.sparse_coo:
        return coo_on_meta(tensor, tuple(tensor.shape), tensor._indices(), tensor._values(), tensor.is_coalesced())
    is_by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    indices = (
        (tensor.crow_indices(), tensor.col_indices()) if is_by_row else (tensor.ccol_indices(), tensor.row_indices())
    )
    parts = [torch.empty_like(x, device=META) for x in (*indices, tensor.values())]
    made = torch.sparse_compressed_tensor(*parts, tensor.shape, layout=tensor.layout, check_invariants=False)
    return made.requires_grad_(tensor.requires_grad)


def coo_on_meta(like: Tensor, shape: Sequence[int], indices: Tensor, values: Tensor, is_coalesced: bool) -> Tensor:
    """Return a COO tensor on the meta device; it requires a gradient if ``like`` is a leaf that requires it."""
    parts = torch.empty_like(indices, device=META), torch.empty_like(values, device=META)
    made = torch.sparse_coo_tensor(*parts, shape, is_coalesced=is_coalesced, check_invariants=False)
    return made.requires_grad_(like.requires_grad and like.is_leaf)


def compressed_on_meta(like: Tensor, values: Tensor, layout: torch.layout) -> Tensor:
    """Return a CSR or CSC tensor on the meta device, with the shape of ``like``."""
    n_groups = like.shape[0 if layout is torch.sparse_csr else 1]
    starts, others = (torch.empty(n, dtype=torch.int64, device=META) for n in (n_groups + 1, len(values)))
    parts = starts, others, torch.empty_like(values)
    return torch.sparse_compressed_tensor(*parts, like.shape, layout=layout, check_invariants=False)


def is_plain_meta(value: object) -> bool:
    """Return whether a value is an ordinary meta tensor."""
    return (
        type(value) in PLAIN
        and isinstance(value, Tensor)
        and value.is_meta
        and value.layout is torch.strided
        and not value.is_complex()
        and not value.is_neg()
    )


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Return whether a tensor of ``shape`` can be expanded to the shape ``to``."""
    kept = to[len(to) - len(shape) :]
    return len(shape) <= len(to) and all(size in (1, other) for size, other in zip(shape, kept, strict=True))


# Data-dependent operators on known values


KnownResult: TypeAlias = "Callable[..., tuple[Any, int] | None]"
"""Returns the result of a call and the assumptions behind it; None if the values that determine it are unknown.

The arguments are the known values, the operator, and the arguments of the call.
"""

_COMPUTED = """
item _local_scalar_dense is_nonzero allclose nonzero repeat_interleave
_unique2 unique_consecutive unique_dim unique_dim_consecutive
"""

MASKS = (torch.bool, torch.uint8)

POSITIVE = 128
"""The flag of values that depend on unknown numbers, written into zeros and assumed to be positive."""


def _data(values: Values, value: Any) -> Any:
    """Return an argument with data in place of meta tensors.

    Raises:
        UnknownValueError: if the values of one are unknown.
    """
    if isinstance(value, Tensor):
        data = values.of(value)
        if data is None:
            raise UnknownValueError
        return data
    if isinstance(value, (list, tuple)):
        return [_data(values, item) for item in value]
    return {name: _data(values, item) for name, item in value.items()} if isinstance(value, dict) else value


def _computed(values: Values, func: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, int] | None:
    try:
        data = _data(values, (args, kwargs))
        with without_capture():
            result = func(*data[0], **data[1])
    except UNKNOWN:
        return None
    flags = values.assumptions(tensors_of(args, kwargs))
    return on_meta(values, result, flags), flags


def _nonzero(values: Values, func: Callable[..., Any], x: Tensor) -> tuple[Any, int] | None:
    pattern = values.of(x, is_pattern=True)
    if pattern is None:
        return _computed(values, func, x)
    with without_capture():
        result = func(pattern)
    flags = values.assumptions((x,)) | POSITIVE
    return on_meta(values, result, flags), flags


def on_meta(values: Values, result: Any, flags: int) -> Any:
    """Move the tensors of a result to the meta device, with known values."""
    if isinstance(result, (tuple, list)):
        return tuple([on_meta(values, item, flags) for item in result])
    if not isinstance(result, Tensor):
        return result
    made = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=META)
    if is_small(made):
        values.put(made, Contents(result.untyped_storage, flags))
    return made


def _index(values: Values, func: Callable[..., Any], x: Tensor, indices: Sequence[Any]) -> tuple[Any, int] | None:
    # The values of masks determine the shape of the result; the values of ``x`` may be unknown.
    masks = [index for index in indices if isinstance(index, Tensor) and index.dtype in MASKS]
    if not masks:
        return None
    computed = _computed(values, func, x, indices)
    if computed is not None:
        return computed
    positions: list[Tensor | None] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in MASKS:
            columns = _computed(values, torch.ops.aten.nonzero, index)
            if columns is None:
                return None
            positions += columns[0].unbind(1)
        else:
            positions.append(index)
    return func(without_data(x), without_data(positions)), values.assumptions(masks)


def _masked_select(values: Values, func: Callable[..., Any], x: Tensor, mask: Tensor) -> tuple[Any, int] | None:
    computed = _computed(values, func, x, mask)
    known = values.of(mask)
    if computed is not None or known is None:
        return computed
    with without_capture():
        shape = torch.broadcast_shapes(x.shape, mask.shape)
        selected = int(known.expand(shape).count_nonzero())
    return without_data(x).new_empty((selected,)), values.assumptions((mask,))


def _bincount(
    values: Values, func: Callable[..., Any], x: Tensor, weights: Tensor | None = None, minlength: int = 0
) -> tuple[Any, int] | None:
    # With unknown weights only the size of the result is known.
    computed = _computed(values, func, x, weights, minlength)
    if computed is not None or weights is None:
        return computed
    counted = _computed(values, func, x, None, minlength)
    if counted is None:
        return None
    dtype = weights.dtype if weights.is_floating_point() else torch.float64
    return x.new_empty(counted[0].shape, dtype=dtype), counted[1]


def _pack_padded_sequence(
    values: Values, func: Callable[..., Any], x: Tensor, lengths: Tensor, batch_first: bool = False
) -> tuple[Any, int] | None:
    # The batch sizes of the steps follow from the lengths alone; they have data, as in a run.
    known = values.of(lengths)
    if known is None:
        return None
    with without_capture():
        running = known > torch.arange(int(known.max()))[:, None]
        sizes = running.sum(1)
    return (without_data(x).new_empty((int(known.sum()), *x.shape[2:])), sizes), values.assumptions((lengths,))


def ctc_results(x: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Return the empty results of ``_ctc_loss``: losses, and the states that its backward pass reads."""
    steps, batch, _classes = x.shape
    return x.new_empty((batch,)), x.new_empty((batch, steps, 2 * longest + 1))


def _ctc_loss(
    values: Values, func: Callable[..., Any], x: Tensor, targets: Tensor, lengths: Any, target_lengths: Any, *_: Any
) -> tuple[Any, int] | None:
    # The longest target determines the shapes of the results.
    known = values.of(target_lengths) if isinstance(target_lengths, Tensor) else target_lengths
    if known is None or x.dim() != 3:
        return None
    longest = max(known.tolist() if isinstance(known, Tensor) else known, default=0)
    return ctc_results(without_data(x), longest), values.assumptions(tensors_of((target_lengths,), {}))


def _to_copy(
    values: Values, func: Callable[..., Any], x: Tensor, *, device: Any = None, **kwargs: Any
) -> tuple[Any, int] | None:
    # The copy stays on the meta device, where its values are known.
    if device is None or torch.device(device).type == "meta":
        return None
    return _computed(values, func, x, device=CPU, **{**kwargs, "non_blocking": False})


def _equal(values: Values, func: Callable[..., Any], x: Tensor, y: Tensor) -> tuple[Any, int] | None:
    # Tensors of different shapes are not equal, whatever they hold.
    return (False, 0) if x.shape != y.shape else _computed(values, func, x, y)


KNOWN_RESULTS: Mapping[str, KnownResult] = {
    **dict.fromkeys((f"aten::{name}" for name in _COMPUTED.split()), _computed),
    "aten::equal": _equal,
    "aten::nonzero": _nonzero,
    "aten::index": _index,
    "aten::masked_select": _masked_select,
    "aten::bincount": _bincount,
    "aten::_pack_padded_sequence": _pack_padded_sequence,
    "aten::_ctc_loss": _ctc_loss,
    "aten::_to_copy": _to_copy,
}
"""The functions, by operator."""
