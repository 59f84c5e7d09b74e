"""What a trace says: operators with their arguments, spans of modules and annotations, and work of the device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

NODE = "autograd::engine::evaluate_function"
"""The beginning of the names of the spans in which the backward pass runs a node."""

Thread: TypeAlias = "tuple[Any, Any]"
"""Process and thread of an event."""


class TensorArgument(NamedTuple):
    """A tensor among the arguments of an operator.

    Attributes:
        dims: its shape.
        strides: its strides; None if they are not recorded.
        dtype: the name of its dtype in the trace; ``""`` if it is not recorded.
        key: which tensor it is: its id, storage and offset in an execution trace; None if the trace has no ids.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    key: Any = None


class ListArgument(NamedTuple):
    """A list of tensors, or of tensors and None."""

    items: tuple[Any, ...]


class Constant(NamedTuple):
    """A number, a text, a list of these, or None."""

    value: Any


class Missing(NamedTuple):
    """An argument of which the trace says nothing: None, an undefined tensor, a device, or something it cannot print.

    Attributes:
        is_given: whether it has a value, which the trace leaves out.
    """

    is_given: bool = False


Argument: TypeAlias = "TensorArgument | ListArgument | Constant | Missing"


@dataclass(eq=False, slots=True)
class Op:
    """One operator, or another span of the host, such as a node of the backward pass.

    Times are in nanoseconds.

    Attributes:
        name: its name, ``aten::conv2d``.
        arguments: its arguments in order; None if shapes were not recorded.
        start, end: when the host ran it.
        thread: where.
        sequence: the sequence number of autograd; -1 if there is none.
        identity: number of the operator in its file: ``External id`` of Kineto, ``rf_id`` of an execution trace.
        schema: its schema with the overload, if the file has it.
        outputs: what it returned, if the file has it.
        details: what else the event says, of collectives and Triton kernels.
        parent: the operator around it.
        forward: of a node of the backward pass, the operator that made it.
        children: the operators inside it, in order.
        kernels: work of the device that it launched itself.
        module: path of its module.
        phase: phase of the run.
        lines: the lines of the user's code that were running, the innermost last.
    """

    name: str
    arguments: tuple[Argument, ...] | None
    start: int
    end: int
    thread: Thread
    sequence: int = -1
    identity: int = 0
    schema: str = ""
    outputs: tuple[Argument, ...] = ()
    details: dict[str, Any] | None = None
    parent: Op | None = None
    children: list[Op] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    module: str = ""
    phase: str = "forward"
    lines: tuple[str, ...] = ()
    forward: Op | None = None


@dataclass(eq=False, slots=True)
class Kernel:
    """Work of the device: a kernel, a copy or a fill. Times are in nanoseconds.

    Attributes:
        name: its name.
        kind: ``kernel``, ``memcpy`` or ``memset``.
        start, end: when the device ran it.
        stream: its device and stream.
        correlation: number of its launch; -1 if it has none.
        external: ``External id``; -1 if it has none.
        reason: why it belongs to no operator; empty if it belongs to one.
        is_taken: whether an operator was made for its launch.
    """

    name: str
    kind: str
    start: int
    end: int
    stream: tuple[Any, Any]
    correlation: int
    external: int = -1
    reason: str = ""
    is_taken: bool = False


class Launch(NamedTuple):
    """The call of the host that starts work of the device, with the name of the kernel if the file has it."""

    name: str
    thread: Thread
    start: int
    kernel: str = ""


class Span(NamedTuple):
    """A span of a thread, in nanoseconds."""

    start: int
    end: int
    name: str


@dataclass(slots=True)
class Recorded:
    """Everything that a trace says.

    Attributes:
        ops: the operators.
        kernels: the work of the device.
        launches: by correlation number.
        modules, annotations, frames: spans by thread: calls of modules, annotations, and lines of the user's code.
        device: name of the device that ran it; empty if the file does not say.
        has_shapes: whether the arguments of operators were recorded.
        has_times: whether operators have times; an execution trace has none.
        is_cut: whether the file ends early.
        remarks: what else is wrong with it, as sentences.
    """

    ops: list[Op] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    launches: dict[int, Launch] = field(default_factory=dict)
    modules: dict[Thread, list[Span]] = field(default_factory=dict)
    annotations: dict[Thread, list[Span]] = field(default_factory=dict)
    frames: dict[Thread, list[Span]] = field(default_factory=dict)
    device: str = ""
    has_shapes: bool = False
    has_times: bool = True
    is_cut: bool = False
    remarks: list[str] = field(default_factory=list)
