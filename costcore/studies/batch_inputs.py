"""Inputs for any batch, the memory limit of a device, and the search for the largest batch.

The batch is the named dimension of the inputs, or else the first one. The search follows the closed form of the peak
first, and bisects after a few wrong guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from os import PathLike
from typing import Any, TypeAlias

from costcore.analyses.devices.device import Device, device_names, find_device, memory_size
from costcore.analyses.memory.allocator import Envelope
from costcore.analyses.memory.live_memory import Memory
from costcore.analyses.sizes.capture import NamedInputs
from costcore.errors import CostError, short_repr, unknown
from costcore.ir import Layer, Tensor
from costcore.reports.report import Report
from costcore.text.amounts import in_thousands, parse_bytes, refuse_few_bytes, short
from costcore.trace.trace import has_names, with_tensors

InputsOfBatch: TypeAlias = "Callable[[int], Any]"

MAX_VALUES = 2**20
"""An estimate keeps no values of tensors with more elements: shape and dtype suffice."""


def inputs_of_batch(inputs: Any) -> InputsOfBatch:
    """Return a function from a batch to the inputs with that many samples.

    Args:
        inputs: inputs as :func:`costcore.estimate` takes them. A dimension with a name, as in ``("batch", 3, 224,
            224)``, or with a multiple of it (``"2*batch"``) is the batch, and the others stay as they are. If there is
            no name, the first dimension of every shape and tensor is the batch. A function of the batch returns inputs
            in any other form.

    Raises:
        TypeError, ValueError: if nothing in the inputs has a batch dimension, or several names are given.
    """
    if callable(inputs) and not hasattr(inputs, "shape"):
        return inputs  # type: ignore[no-any-return]
    inputs = with_tensors(inputs)
    if has_names(inputs):
        named = NamedInputs(inputs)
        if len(named.symbols) > 1:
            raise ValueError(
                f"the inputs name several dimensions, {', '.join(map(repr, sorted(named.symbols)))}: name only "
                "the batch, and give numbers for the others"
            )
        return lambda batch: named.at({named.symbols[0]: batch})
    if not any(_has_batch(leaf) for leaf in _leaves(inputs)):
        raise ValueError(
            'expected the shapes of inputs with a batch dimension, as in ("batch", 3, 224, 224), or a function that '
            f"returns the inputs of a batch (got {short_repr(inputs)})"
        )
    return lambda batch: _with_batch(inputs, batch)


def batch_of(inputs: Any) -> int:
    """Return the first dimension that all shapes and tensors in the inputs have in common; 0 if they have none."""
    if callable(inputs) and not hasattr(inputs, "shape"):
        return 0
    sizes = {_shape_of(leaf)[0] for leaf in _leaves(with_tensors(inputs)) if _has_batch(leaf)}
    return int(sizes.pop()) if len(sizes) == 1 else 0


def _leaves(value: Any) -> Iterator[Any]:
    if _is_shape(value) or _is_shape_with_dtype(value):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _shape_of(leaf: Any) -> tuple[Any, ...]:
    if _is_shape(leaf):
        return tuple(leaf)
    if _is_shape_with_dtype(leaf):
        return tuple(leaf[0])
    return tuple(getattr(leaf, "shape", ()))


def _has_batch(leaf: Any) -> bool:
    return len(_shape_of(leaf)) > 0


def _with_batch(value: Any, batch: int) -> Any:
    if _is_shape(value):
        return (batch, *value[1:])
    if _is_shape_with_dtype(value):
        return (batch, *value[0][1:]), value[1]
    if isinstance(value, Tensor):
        return Tensor((batch, *value.shape[1:]), value.dtype)
    if isinstance(value, Mapping):
        return {key: _with_batch(item, batch) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        # NamedTuple constructors take items as arguments, not an iterable.
        items = [_with_batch(item, batch) for item in value]
        return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)
    return _repeated(value, batch) if _has_batch(value) else value


def _repeated(tensor: Any, batch: int) -> Any:
    n, *rest = tensor.shape
    if not n:
        raise CostError(f"the samples of an input of shape {tuple(tensor.shape)} cannot be repeated: there are none")
    elements = batch
    for size in rest:
        elements *= size
    if elements > MAX_VALUES:
        return Tensor((batch, *rest), str(tensor.dtype).rpartition(".")[2])
    return tensor[[i % n for i in range(batch)]]


def _is_shape(value: Any) -> bool:
    return type(value) in (list, tuple) and len(value) > 0 and all(map(_is_size, value))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_shape_with_dtype(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and _is_shape(value[0]) and type(value[1]).__name__ == "dtype"


# The memory limit of a run.


ALLOCATORS = ("tensors", "cuda")
"""How memory is counted: the peak of tensors, or the minimum memory that PyTorch's CUDA allocator runs with."""

CONTEXT = "500 MiB"
"""Memory that a process takes on a GPU before its first tensor: assumed where a device file has no ``context_mib``.

It depends on driver, GPU and libraries.

PyTorch takes about 300 MB with CUDA 11.7 or newer, which loads kernels lazily, and more than 1,000 MB with older ones:
github.com/pytorch/pytorch/issues/107667.
"""


@dataclass(frozen=True)
class Limit:
    """The terms of the limit, in bytes: a run fits if ``peak * (1 + fragmentation) + workspace + context <= memory``.

    Attributes:
        memory: the memory of the device.
        context: memory that a process takes before its first tensor.
        workspace: the workspace of kernels.
        fragmentation: the share of the peak that an allocator loses on top of it.
        allocator: one of :data:`ALLOCATORS`.
        read: how the memory was read, if it was given as ``24 GB``; empty for others.
        context_of: the device on which the context was measured; empty if it is given or assumed.
    """

    memory: int
    context: int
    workspace: int
    fragmentation: Fraction
    allocator: str
    read: str = ""
    context_of: str = ""

    @property
    def room(self) -> int:
        """The largest peak that fits; negative if the other terms alone exceed the memory."""
        return floor((self.memory - self.context - self.workspace) / (1 + self.fragmentation))

    def needed(self, peak: int) -> int:
        """Return the memory that a run with this peak needs."""
        return ceil(peak * (1 + self.fragmentation)) + self.workspace + self.context

    def filled_by(self, kinds: Mapping[str, int], peak: int) -> dict[str, int]:
        """Return the bytes that a run with this peak needs by kind: blocks, allocator, workspace and context."""
        others = ceil(peak * (1 + self.fragmentation)) - sum(kinds.values())
        return {**kinds, "others": others, "workspace": self.workspace, "context": self.context}

    def peak_of(self, memory: Memory) -> int:
        """Return the peak of a run: of its tensors, or the minimum memory with which the allocator runs."""
        return memory.peak if self.allocator == "tensors" else memory.allocator(self.allocator).least_memory

    def describe(self) -> str:
        """Return every term as one line."""
        what = "tensors" if self.allocator == "tensors" else "segments of PyTorch's CUDA allocator"
        left = self.memory - self.context - self.workspace
        amounts = (short(nbytes, "bytes") for nbytes in (self.memory, self.context, self.workspace, left))
        memory, context, workspace, room = amounts
        memory = f"{memory} ({self.read})" if self.read else memory
        share = f"fragmentation {float(100 * self.fragmentation):g} %"
        assumed = " (assumed)" if self.context == parse_bytes(CONTEXT, "context") else ""
        assumed = f" (measured on {self.context_of})" if self.context_of else assumed
        if left < 0:
            return (
                f"{memory} is less than the context of a process, {context}{assumed}. For a microcontroller use "
                "costcore fit MODEL '256 KB sram, 1 MB flash'"
            )
        return f"{memory} - context {context}{assumed} - workspace {workspace} = {room} for {what}, {share}"

    def to_dict(self) -> dict[str, Any]:
        """Return the terms in plain JSON types."""
        terms = {name: getattr(self, name) for name in ("memory", "context", "workspace", "allocator", "room")}
        return {**terms, "fragmentation": float(self.fragmentation)}


def make_limit(
    memory: object,
    context: object = None,
    workspace: object = 0,
    fragmentation: object = 0.0,
    allocator: str | None = None,
) -> Limit:
    """Return the limit of a device.

    Args:
        memory: the memory of the device, as an integer or a string such as ``"24 GiB"``; or a device, its name or file.
        context: memory that a process takes before its first tensor, as an integer or a string. None: the measured
            value in the file of the device; else :data:`CONTEXT`, and 0 for a device that is no GPU.
        workspace: the workspace of kernels, likewise.
        fragmentation: a number from 0, such as 0.05.
        allocator: one of :data:`ALLOCATORS`; None: ``"cuda"`` for an NVIDIA GPU, else ``"tensors"``.

    Raises:
        TypeError, ValueError: if a term is invalid; the message has the accepted forms.
        CostError: if the size of the memory of the device is unknown.
    """
    if allocator not in (None, *ALLOCATORS):
        raise ValueError(unknown("allocator", allocator, ALLOCATORS))
    if isinstance(fragmentation, bool) or not isinstance(fragmentation, (int, float)) or not 0 <= fragmentation < 100:
        raise ValueError(f"fragmentation must be a share of the peak, such as 0.05 for 5 % (got {fragmentation!r})")
    share = Fraction(str(fragmentation))
    device, context_of = _device_of(memory), ""
    if device is not None:
        memory = memory_size(device)
        if context is None and device.context_mib is not None:
            context, context_of = f"{device.context_mib:g} MiB", device.name
    if context is None:
        context = CONTEXT if device is None or device.kind == "gpu" else 0
    amounts = {"memory": memory, "context": context, "workspace": workspace}
    parsed = {name: parse_bytes(value, name) for name, value in amounts.items()}
    read = in_thousands(memory).rpartition(", ")[0]
    chosen = allocator or ("cuda" if runs_cuda(device) else "tensors")
    return Limit(**parsed, fragmentation=share, allocator=chosen, read=read, context_of=context_of)


def runs_cuda(device: Device | None) -> bool:
    """Return whether PyTorch's CUDA caching allocator hands out the memory of a device; False for None."""
    return device is not None and device.kind == "gpu" and device.vendor == "NVIDIA"


def _device_of(memory: object) -> Device | None:
    # The device that someone gave instead of the size of its memory.
    if isinstance(memory, (Device, PathLike)):
        return find_device(memory)
    if not isinstance(memory, str):
        return None
    typed = memory.strip()
    refuse_few_bytes(typed, "memory", device_names() if typed.isdecimal() else ())
    return find_device(typed) if typed[:1].isalpha() or typed.endswith(".toml") else None


# The largest batch that fits, found with few captures.


MAX_GUESSES = 6
"""The number of guesses from the envelope, before bisection."""

MAX_BATCH = 2**40
"""Too large for any device."""


def largest_batch(peak_of: Callable[[int], int], envelope: Envelope, room: int) -> int:
    """Return the largest batch with a peak of at most ``room``; 0 if the peak of one sample is higher.

    ``peak_of`` is called for the batch and the next one, so that both are exact even if the envelope is approximate.
    In between, the peak is assumed to be monotonic.

    Args:
        peak_of: returns the peak of a batch, in bytes.
        envelope: the peak of every batch, exact or approximate.
        room: the largest peak that fits, in bytes.

    Raises:
        CostError: if the peak does not grow with the batch.
    """
    low, high = 0, MAX_BATCH
    ratio = Fraction(1)
    attempt = 0
    while high - low > 1:
        batch = min(max(_guess(envelope, room, ratio, attempt, low, high), low + 1), high - 1)
        peak = peak_of(batch)
        low, high = (batch, high) if peak <= room else (low, batch)
        ratio = Fraction(max(peak, 1), max(envelope.peak(batch), 1))
        attempt += 1
    if high == MAX_BATCH:
        raise CostError(f"a batch of {low} fits: the peak does not grow with the batch")
    return low


def _guess(envelope: Envelope, room: int, ratio: Fraction, attempt: int, low: int, high: int) -> int:
    # The envelope is scaled by its error at the last batch.
    guess = envelope.largest(int(room / ratio)) if room > 0 else 0
    if guess is None:
        raise CostError("the peak does not grow with the batch: do the inputs have a batch dimension?")
    if attempt < MAX_GUESSES:
        return guess
    return (low + high) // 2 if high < MAX_BATCH else 2 * low


# Layers that couple the samples of a batch: micro-batches give another result.


BATCH_STATISTICS = "batch_norm"
"""Uses statistics of the batch in training."""


def couplings(first: Report, second: Report) -> list[str]:
    """Return which layers couple the samples of a batch, as sentences.

    Args:
        first: the report of a batch.
        second: the report of another one.
    """
    notes = []
    n_norms = sum(map(_uses_batch_statistics, _forward(first)))
    if n_norms:
        notes.append(
            f"{n_norms} {BATCH_STATISTICS} layer{'s' * (n_norms > 1)} in training normalize{'s' * (n_norms == 1)} with "
            "the statistics of a micro-batch: the result is not that of one large batch"
        )
    pairs = [layer.op for layer in _pairwise(_forward(first), _forward(second))]
    if pairs:
        notes.append(
            f"samples of a batch are compared with each other (by {pairs[0]}), as in a contrastive loss: micro-batches "
            "compare fewer pairs"
        )
    return notes


def _forward(report: Report) -> list[Layer]:
    return [call.layer for call in report.calls if call.phase == "forward"]


def _uses_batch_statistics(layer: Layer) -> bool:
    return layer.op == BATCH_STATISTICS and bool(layer.attrs.get("training"))


def _pairwise(first: Sequence[Layer], second: Sequence[Layer]) -> list[Layer]:
    if [layer.op for layer in first] != [layer.op for layer in second]:
        return []
    # An output with two batch dimensions compares samples with each other.
    return [a for a, b in zip(first, second, strict=True) if _n_varying_axes(a, b) > 1]


def _n_varying_axes(a: Layer, b: Layer) -> int:
    pairs = [(x.shape, y.shape) for x, y in zip(a.outputs, b.outputs, strict=False) if len(x.shape) == len(y.shape)]
    return max((sum(m != n for m, n in zip(x, y, strict=True)) for x, y in pairs), default=0)
