"""Walk the blocks of a model: record operations as calls, run loops and branches, skip decompression of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any

from costcore.errors import CostError
from costcore.graphs import GraphNode, GraphRecording, GraphValue, Place
from costcore.graphs.graph import OpenSizes, new_node
from costcore.numbers import Dim, as_dim, is_symbolic

from .loops import counted_trips
from .model import LARGEST, Block, Operation, TypeInfo, bits_type
from .rows import LEAST_AXES, OPERANDS, WALKED
from .shapes import Found, data_of, shapes_of

COMPRESSED = "constexpr_"
"""The prefix of operations that decompress weights."""

AS_STORED = "weights are compressed: they are read in stored form, and unpacking them is not counted"

RANDOM = "random_"

NO_OPTIONS: Mapping[str, Any] = {}
"""The empty options that all nodes share."""


class Compressed(GraphValue):
    """A compressed weight. ``beside`` has its scales, offsets, tables and non-zero elements."""

    __slots__ = ()

    @property
    def is_real(self) -> bool:
        """True: its codes represent floats."""
        return True


class Walker:
    """Records the blocks of one function.

    Args:
        recording: receives the calls.
        sizes: the sizes that the model leaves open.
    """

    def __init__(self, recording: GraphRecording, sizes: OpenSizes) -> None:
        self._recording, self._sizes = recording, sizes

    def run(self, stages: Sequence[tuple[str, Block]], inputs: Mapping[str, GraphValue]) -> None:
        """Record the block of a function, or of all stages of a pipeline; ``inputs`` are values by name."""
        values, outputs = dict(inputs), []
        for self._stage, block in stages:
            outputs = self._block(block, values, Place())
            values |= dict(zip(block.outputs, outputs, strict=True))
        self._recording.finish(inputs.values(), outputs)

    def _block(self, block: Block, values: dict[str, GraphValue], place: Place) -> list[GraphValue]:
        """Record a block, add the results of its operations to ``values``, and return its outputs."""
        for operation in block.operations:
            # fast path: most operations are constants
            if operation.type == "const" and len(operation.inputs) == len(operation.outputs) == 1:
                given = operation.inputs.get("val", ())
                if len(given) == 1 and isinstance(given[0], GraphValue):
                    values[operation.outputs[0][0]] = given[0]
                    continue
            arguments = {name: self._argument(operation, given, values) for name, given in operation.inputs.items()}
            if operation.type == "const":
                made = [value for value in arguments.values() if isinstance(value, GraphValue)][-1:]
            elif operation.type.startswith(COMPRESSED):
                made = self._unpacked(operation, arguments)
            elif operation.type == "cond":
                made = self._branch(operation, arguments, values, place)
            elif operation.type == "while_loop":
                made = self._loop(operation, arguments, values, place)
            else:
                made = self._record(operation, arguments, place)
            if len(made) < len(operation.outputs):
                raise CostError(f"{_text(operation)} has no result")
            for (name, _), value in zip(operation.outputs, made, strict=False):
                values[name] = value
        return [_known(name, values) for name in block.outputs]

    def _argument(self, operation: Operation, given: Sequence[Any], values: Mapping[str, GraphValue]) -> Any:
        """Return an operand: a value, or a list of values."""
        try:
            found = [each if isinstance(each, GraphValue) else values[each] for each in given]
        except KeyError as error:
            raise CostError(
                f"{_text(operation)} reads {error.args[0]!r}, but no earlier operation has this result"
            ) from None
        return found if len(found) != 1 else found[0]

    def _unpacked(self, operation: Operation, arguments: Mapping[str, Any]) -> list[GraphValue]:
        """Return the compressed weight of a decompression; its ``beside`` has all operands except the codes.

        Raises:
            CostError: if an operand or a shape is missing.
        """
        given = {name: value for name, value in arguments.items() if isinstance(value, GraphValue)}
        main = next((given[name] for name in MAIN if name in given), None)
        shapes = [kind.shape for _, kind in operation.outputs if kind is not None and kind.shape is not None]
        if main is None or len(shapes) != len(operation.outputs) or any(None in shape for shape in shapes):
            raise CostError(f"{_text(operation)} has no weight or no shape")
        beside = [given[name] for name in PARTS if name in given and given[name] is not main]
        dtype = _bits(operation.type, main, given.get("lut"))
        sizes = tuple(size or 0 for size in shapes[-1]) if shapes else ()
        value = Compressed(sizes, dtype, operation.outputs[-1][0] if shapes else "", is_stored=True)
        parts = [each for part in (*beside, main) for each in (part, *part.beside) if each is not None]
        parts.remove(main)
        value.beside = parts
        self._recording.note(AS_STORED)
        mask = next((given[name] for name in MASKS if name in given), main)
        return [mask, value] if len(shapes) > 1 else [value]

    def _record(self, operation: Operation, arguments: dict[str, Any], place: Place) -> list[GraphValue]:
        """Record an operation as a call; return its results."""
        _check(operation, arguments)
        if operation.type == "read_state":
            return [arguments["input"]]
        is_write = operation.type == "write_state"
        outputs = [arguments["input"]] if is_write else self._results(operation, arguments)
        if operation.type.startswith(RANDOM) and "x" not in arguments:
            arguments = {}  # generated in each run; its operands are constants
        name = operation.name or (operation.outputs[0][0] if operation.outputs else "")
        kind, module = operation.type, module_of(name)
        if self._stage:
            module = f"{self._stage}.{module}" if module else self._stage
        attributes = (f"coreml::{kind}", kind, arguments, outputs, name, module, (), NO_OPTIONS)
        self._recording.record(new_node(GraphNode, attributes), place, partial(_text, operation))
        return outputs

    def _branch(
        self, operation: Operation, arguments: Mapping[str, Any], values: Mapping[str, GraphValue], place: Place
    ) -> list[GraphValue]:
        """Record a branch: the more expensive block counts."""
        if len(operation.blocks) != 2:
            raise CostError(f"{_text(operation)} has {len(operation.blocks)} blocks (expected 2)")
        pairs = zip(("true", "false"), operation.blocks, strict=True)
        walks = {name: partial(self._block, block, dict(values)) for name, block in pairs}
        given = [value for value in arguments.values() if isinstance(value, GraphValue)]
        return [*self._recording.branch("cond", walks, place, given, partial(self._returned, operation))]

    def _loop(
        self, operation: Operation, arguments: Mapping[str, Any], values: Mapping[str, GraphValue], place: Place
    ) -> list[GraphValue]:
        """Record the condition and the body of a loop with their trip counts."""
        found = arguments.get("loop_vars", [])
        given = found if isinstance(found, list) else [found]
        if len(operation.blocks) != 2:
            raise CostError(f"{_text(operation)} has {len(operation.blocks)} blocks (expected 2)")
        condition, body = operation.blocks
        trips, region = self._recording.loop(counted_trips(condition, body, given, values), "while_loop", place)
        flow = self._recording.dataflow
        self._inside(condition, given, values, place.inside(region, trips + 1))
        first = flow.new_id()
        inner = self._inside(body, given, values, place.inside(region, trips))
        made = self._returned(operation, inner)
        flow.end_of(first, operation.type, inner, made)
        return made

    def _inside(
        self, block: Block, given: Sequence[GraphValue], values: Mapping[str, GraphValue], place: Place
    ) -> list[GraphValue]:
        """Record a block of a loop with the values of its inputs."""
        made = [
            self._value(name, kind, given[i].shape if i < len(given) else None)
            for i, (name, kind) in enumerate(block.inputs)
        ]
        flow = self._recording.dataflow
        flow.start_of(flow.new_id(), "while_loop", given, made)
        return self._block(block, {**values, **{value.name: value for value in made}}, place)

    def _returned(self, operation: Operation, inner: Sequence[GraphValue]) -> list[GraphValue]:
        """Return the results of a loop or branch, with the shapes of ``inner``, the results of one of its blocks."""
        shapes = [value.shape for value in inner] + [None] * len(operation.outputs)
        return [self._value(name, kind, shape) for (name, kind), shape in zip(operation.outputs, shapes, strict=False)]

    def _results(self, operation: Operation, arguments: Mapping[str, Any]) -> list[GraphValue]:
        """Return the results of an operation, with shapes from the file or inferred from the operands."""
        kinds = [kind for _, kind in operation.outputs]
        shapes: Sequence[Found | None] = [None] * len(kinds)
        if None in kinds or any(kind.shape is not None and None in kind.shape for kind in kinds if kind is not None):
            with suppress(*FAILURES):  # sizes depend on data, or the file is damaged: they become symbols
                shapes = shapes_of(operation.type, arguments, len(kinds))
        given = [value for value in arguments.values() if isinstance(value, GraphValue) and not value.is_stored]
        default = given[0].dtype if given else "float32"
        made = []
        for (name, kind), shape in zip(operation.outputs, shapes, strict=True):
            if kind is None and shape is None:
                if not given:
                    raise CostError(f"the shape of {name!r} does not follow from the operands of {operation.type}")
                what = f"the shape of {operation.type} is unknown: assumed equal to the shape of its operand"
                self._recording.recorder.assume(what, name)
                shape = given[0].shape
            made.append(self._value(name, kind, shape, default))
        if made and made[0].ndim <= 1:
            with suppress(*FAILURES):  # data stays unknown
                made[0].data = data_of(operation.type, arguments)
        return made

    def _value(self, name: str, kind: TypeInfo | None, found: Found | None, dtype: str = "float32") -> GraphValue:
        """Return a value. Open sizes come from ``found``; unknown sizes become symbols.

        Raises:
            CostError: if a size is not a number, negative or too large.
        """
        if kind is not None and None not in (kind.shape or ()):
            return GraphValue(kind.shape or (), kind.dtype, name)  # all sizes are known
        shape: Found = (found or ()) if kind is None else kind.shape or ()
        if kind is not None and kind.shape is not None and found is not None and len(found) == len(kind.shape):
            shape = [size if stated is None else stated for stated, size in zip(kind.shape, found, strict=True)]
        unknown = [i for i, size in enumerate(shape) if size is None]
        sizes = tuple(self._sizes(f"{name}_{i}") if size is None else as_size(size) for i, size in enumerate(shape))
        if any(not is_symbolic(size) and not 0 <= size <= LARGEST for size in sizes):
            raise CostError(f"{name!r} has the shape {sizes}")
        if shown := [str(sizes[i]) for i in unknown if is_symbolic(sizes[i])]:  # dims has the others
            what = (
                f"the shape of {name!r} depends on data: {', '.join(shown)}. Give sizes with dims={{{shown[0]!r}: …}}"
            )
            self._recording.recorder.assume(what, name)
        return GraphValue(sizes, dtype if kind is None else kind.dtype, name)


MASKS = ("data_mask", "indices_mask")
"""Operands with a sparsity mask. An operation with two results returns its mask first."""

MAIN = ("indices_nonzero_data", "quantized_data", "data", "indices", "mask", "nonzero_data", "source_val")
"""Operands that may hold the stored codes of a weight, in order of preference."""

PARTS = ("scale", "zero_point", "offset", "lut", "nonzero_data")
"""Further operands of decompression, such as scales."""


def _bits(kind: str, main: GraphValue, lut: Any) -> str:
    """Return the dtype of stored codes. Older files declare packed indices and masks as bytes."""
    if main.dtype != "uint8" or kind not in ("constexpr_lut_to_dense", "constexpr_sparse_to_dense"):
        return main.dtype
    if kind == "constexpr_sparse_to_dense":
        return "uint1"
    bits = (lut.shape[-2] if lut.ndim > 2 else lut.size).bit_length() - 1 if isinstance(lut, GraphValue) else 8
    return bits_type(bits)


FAILURES = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, StopIteration)
"""Exceptions that a shape rule raises if an operand is absent, unknown or wrong."""


def as_size(size: Any) -> Dim:
    """Convert a number or expression to a size.

    Raises:
        CostError: if it is not a size.
    """
    try:
        return as_dim(int(size) if isinstance(size, (float, Fraction)) and size == int(size) else size)
    except TypeError as error:
        raise CostError(f"{size!r} is not a size") from error


def _known(name: str, values: Mapping[str, GraphValue]) -> GraphValue:
    if name not in values:
        raise CostError(f"the block returns {name!r}, but none of its operations has this result")
    return values[name]


def _check(operation: Operation, arguments: Mapping[str, Any]) -> None:
    """Check that an operation has the operands that its rule needs.

    Raises:
        CostError: if one is missing; the file is damaged.
    """
    names, axes = OPERANDS.get(operation.type, ()), LEAST_AXES.get(operation.type, ())
    for name, least in zip(names, (*axes, *([0] * len(names))), strict=False):
        value = arguments.get(name)
        if name == "values" and isinstance(value, GraphValue):
            arguments[name] = value = [value]  # type: ignore[index]  # a dict of our own
        is_list = isinstance(value, list)
        if value is None or (is_list and (name != "values" or not value)):
            raise CostError(f"{_text(operation)} has no operand {name}")
        if not is_list and value.ndim < least:
            raise CostError(f"{_text(operation)}: {name} has {value.ndim} axes (expected at least {least})")
    if not operation.outputs and operation.type not in (*WALKED, "write_state"):
        raise CostError(f"{_text(operation)} has no result")


def _text(operation: Operation) -> str:
    return f"operation {operation.name or operation.type!r} ({operation.type})"


def module_of(name: str) -> str:
    """Return the module path of an operation of a converted TensorFlow graph: ``a.b`` for ``a/b/MatMul``."""
    path = name.strip("/").rpartition("/")[0]
    return ".".join([part for part in path.replace(".", "_").split("/") if part]) if path else ""
