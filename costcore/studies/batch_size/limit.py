"""The memory that is there for a run, and how much of it a peak of tensors needs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

from costcore.analyses.memory.report import Memory
from costcore.messages import unknown
from costcore.text.amounts import parse_bytes, readable

ALLOCATORS = ("tensors", "cuda")
"""How the bytes of a run are counted: the peak of its tensors, or what the caching allocator of CUDA needs for them."""

CONTEXT = "500 MiB"
"""What a process takes of a GPU before its first tensor: an assumption, which depends on driver, GPU and libraries."""


@dataclass(frozen=True)
class Limit:
    """The terms of the limit, in bytes: a run fits if ``peak * (1 + fragmentation) + workspace + context <= memory``.

    Attributes:
        memory: the memory of the device.
        context: what a process takes before its first tensor.
        workspace: the workspace of kernels.
        fragmentation: the share of the peak that an allocator loses on top of it.
        allocator: one of :data:`ALLOCATORS`.
    """

    memory: int
    context: int
    workspace: int
    fragmentation: Fraction
    allocator: str

    @property
    def room(self) -> int:
        """The largest peak that fits; negative if the other terms alone exceed the memory."""
        return floor((self.memory - self.context - self.workspace) / (1 + self.fragmentation))

    def needed(self, peak: int) -> int:
        """Return the memory that a run with this peak needs."""
        return ceil(peak * (1 + self.fragmentation)) + self.workspace + self.context

    def peak_of(self, memory: Memory) -> int:
        """Return the peak of a run: of its tensors, or the least memory with which the allocator of the device runs."""
        return memory.peak if self.allocator == "tensors" else memory.allocator(self.allocator).least_memory

    def describe(self) -> str:
        """Return every term as one line."""
        what = "tensors" if self.allocator == "tensors" else f"segments of the allocator {self.allocator}"
        left = self.memory - self.context - self.workspace
        amounts = (readable(nbytes, "bytes", 2) for nbytes in (self.memory, self.context, self.workspace, left))
        memory, context, workspace, room = amounts
        share = f"fragmentation {float(100 * self.fragmentation):g} %"
        assumed = " (assumed)" if self.context == parse_bytes(CONTEXT, "context") else ""
        return f"{memory} - context {context}{assumed} - workspace {workspace} = {room} for {what}, {share}"

    def to_dict(self) -> dict[str, Any]:
        """Return the terms in plain JSON types."""
        terms = {name: getattr(self, name) for name in ("memory", "context", "workspace", "allocator", "room")}
        return {**terms, "fragmentation": float(self.fragmentation)}


def make_limit(
    memory: object,
    context: object = CONTEXT,
    workspace: object = 0,
    fragmentation: object = 0.0,
    allocator: str | None = None,
) -> Limit:
    """Return the limit of a device.

    Args:
        memory: the memory of the device, as an integer or a string such as ``"24 GiB"``.
        context: what a process takes before its first tensor, likewise.
        workspace: the workspace of kernels, likewise.
        fragmentation: a number from 0, such as 0.05.
        allocator: one of :data:`ALLOCATORS`; None: ``"tensors"``.

    Raises:
        TypeError, ValueError: if a term is invalid; the message has what is accepted.
    """
    if allocator not in (None, *ALLOCATORS):
        raise ValueError(unknown("allocator", allocator, ALLOCATORS))
    if isinstance(fragmentation, bool) or not isinstance(fragmentation, (int, float)) or not 0 <= fragmentation < 100:
        raise ValueError(f"fragmentation must be a share of the peak, such as 0.05 for 5 % (got {fragmentation!r})")
    share = Fraction(str(fragmentation))
    amounts = {"memory": memory, "context": context, "workspace": workspace}
    parsed = {name: parse_bytes(value, name) for name, value in amounts.items()}
    return Limit(**parsed, fragmentation=share, allocator=allocator or "tensors")
