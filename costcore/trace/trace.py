"""The trace: a captured run with the cost of every call, which every analysis reads.

Below it: unrolling of folded loops, operators that may write over their operands, and the shapes of inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from costcore.errors import unknown
from costcore.ir import BITS, Cost, Layer, Tensor
from costcore.numbers import is_symbolic
from costcore.trace.call import Call, Uncounted, records_of_part, with_names
from costcore.trace.run import Run


class CallCost(NamedTuple):
    """A call and its cost.

    Attributes:
        call: the call.
        cost: the cost of one execution; None if it could not be counted.
        uncounted: why it could not be counted; None if it has a cost.
        reason: the reason as a sentence, with the operator's name or the error of its calculator.
        seconds: its measured duration; None if not measured.
    """

    call: Call
    cost: Cost | None
    uncounted: Uncounted | None = None
    reason: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """A captured run: its calls in order, the cost of each, and the properties of the whole run.

    This is the input of every analysis, of this package and of others: ``report.trace`` returns it. Iterating over it
    yields a :class:`CallCost` for each call::

        for call, cost, *_ in report.trace:
            print(call.name, call.layer.op, call.inputs, call.outputs, call.storages, cost)

    Operand ids (``call.inputs``, ``call.outputs``) connect calls to a graph: an id among the outputs of one call and
    the inputs of another is a value that the first produces and the second reads. Storage ids identify views and
    in-place writes. Parameter ids identify shared parameters; ``run.parameters`` has the size of each. Ids are unique
    within a run.

    Attributes:
        records: a :class:`CallCost` for every call, in the order of execution.
        run: options, parameters, modules, assumptions and versions of the run.
    """

    records: tuple[CallCost, ...]
    run: Run

    def __repr__(self) -> str:
        return f"<Trace: {len(self)} call{'s' * (len(self) != 1)}, {self.status}>"

    def __iter__(self) -> Iterator[CallCost]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call in the order of execution, including those without a cost."""
        return tuple(record.call for record in self.records)

    @property
    def costs(self) -> tuple[Cost | None, ...]:
        """The cost of one execution of each call, None for a call that could not be counted.

        A call in the body of a loop runs ``call.times`` times.
        """
        return tuple(record.cost for record in self.records)

    def only(self, positions: Iterable[int]) -> Trace:
        """Return the run with some of its calls, renamed.

        Args:
            positions: the positions of these calls, in order.
        """
        new = {position: i for i, position in enumerate(positions)}
        calls = with_names(self.records[position].call for position in new)
        records = (self.records[position]._replace(call=call) for position, call in zip(new, calls, strict=True))
        return Trace(tuple(records), replace(self.run, records=records_of_part(self.run.records, new)))

    @property
    def is_complete(self) -> bool:
        """Whether every call has a cost."""
        return all(record.cost is not None for record in self.records)

    @property
    def has_backward(self) -> bool:
        """Whether a backward pass was captured, as in a training step."""
        return any(record.call.phase == "backward" for record in self.records)

    @property
    def status(self) -> str:
        """``complete``, ``assumed`` or ``partial``; see :attr:`costcore.Report.status`."""
        if not self.is_complete:
            return "partial"
        return "assumed" if self.run.assumptions else "complete"


# Unrolling of folded loops: loops whose body was recorded once, with the number of repetitions.


KEPT_REPETITIONS = 3
"""The number of loop repetitions whose ids are kept, and the minimum number of repetitions that are folded.

From the second repetition on, ids grow by a constant per repetition.
"""


def ids_of(call: Call) -> tuple[int, ...]:
    """Return all ids of a call: operands, memory, and saved operands."""
    return (*call.inputs, *call.outputs, *call.storages, *call.saved)


def unrolled(trace: Trace) -> Trace:
    """Return a run with one call per repetition of its folded loops."""
    unfolded = trace.run.unfolded
    assert unfolded is not None
    records: list[CallCost] = []
    lengths = dict(unfolded.folds)
    at = 0
    while at < len(trace):
        length = lengths.get(at, 1)
        body = [(trace.records[i], unfolded.ids[i]) for i in range(at, at + length)]
        for k in range(int(body[0][0].call.times) if at in lengths else 1):
            records += (_repetition(record, ids, k) if at in lengths else _once(record, ids) for record, ids in body)
        at += length
    calls = with_names(record.call for record in records)
    run = trace.run.recording(unfolded=None)
    return Trace(tuple(record._replace(call=call) for record, call in zip(records, calls, strict=True)), run)


def _id_in_repetition(of_first: Sequence[int], k: int) -> int:
    first, second, third = of_first
    return first if k == 0 else second + (k - 1) * (third - second)


def _repetition(record: CallCost, ids: Sequence[Any], k: int) -> CallCost:
    n = len(ids) // KEPT_REPETITIONS
    at_k = [_id_in_repetition(each, k) for each in zip(ids[:n], ids[n : 2 * n], ids[2 * n :], strict=True)]
    return record._replace(call=_with_ids(record.call, at_k)._replace(times=1))


def _once(record: CallCost, ids: Sequence[Any]) -> CallCost:
    call, layer = _with_ids(record.call, ids), record.call.layer
    # Expand a call that joins the results of all repetitions: it has one operand, with the ids of three repetitions.
    if len(layer.inputs) != 1 or len(call.inputs) != KEPT_REPETITIONS:
        return record._replace(call=call)
    ((name, joined),) = layer.inputs.items()
    n = int(joined.shape[0])
    tensor = Tensor(joined.shape[1:], joined.dtype, joined.role)
    prefix = name.rstrip("0123456789")
    layer = Layer(layer.op, {f"{prefix}{i}": tensor for i in range(n)}, layer.outputs, layer.attrs)
    inputs = tuple(_id_in_repetition(call.inputs, k) for k in range(n))
    storages = call.storages and (
        *(_id_in_repetition(call.storages[:KEPT_REPETITIONS], k) for k in range(n)),
        *call.storages[KEPT_REPETITIONS:],
    )
    return record._replace(call=call._replace(layer=layer, inputs=inputs, storages=storages))


def _with_ids(call: Call, ids: Sequence[Any]) -> Call:
    left = iter(ids)

    def like(old: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(next(left) for _ in old)

    return call._replace(
        inputs=like(call.inputs), outputs=like(call.outputs), storages=like(call.storages), saved=like(call.saved)
    )


# Element-wise operators, which may write over an operand.


VIEWS = frozenset(("identity", "reshape"))
"""Operators that return their operand, in frameworks that do not report shared memory."""

ELEMENTWISE = frozenset(
    (
        *("abs", "acos", "acosh", "add", "angle", "asin", "asinh", "atan", "atan2", "atanh", "batch_norm", "binarize"),
        *("bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor"),
        *("cbrt", "ceil", "celu", "clip", "conj", "copysign", "cos", "cosh", "deg2rad", "digamma", "div", "dropout"),
        *("elu", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp", "exp2", "expm1", "floor", "floor_div", "fmod"),
        *("frac", "gelu", "hard_shrink", "hard_sigmoid", "hard_swish", "hard_tanh", "heaviside", "hypot", "i0"),
        *("leaky_relu", "lerp", "lgamma", "log", "log10", "log1p", "log2", "log_sigmoid", "logaddexp", "logaddexp2"),
        *("logical_and", "logical_not", "logical_or", "logical_xor", "logit", "maximum", "minimum", "mish", "mod"),
        *("mul", "nan_to_num", "neg", "pow", "prelu", "quick_gelu", "rad2deg", "reciprocal", "relu", "relu6", "round"),
        *("rsqrt", "scaled_tanh", "selu", "sigmoid", "sign", "silu", "sin", "sinc", "sinh", "soft_shrink"),
        *("softplus", "softsign", "sqrt", "square", "squared_difference", "standardize", "sub", "tan", "tanh"),
        *("tanh_shrink", "threshold", "trunc", "where", "xlog1py", "xlogy"),
    )
)
"""Operators that may write their output over an operand of the same shape and dtype."""

ACTIVATIONS = frozenset(
    (
        *("cast", "celu", "clip", "elu", "hard_shrink", "hard_sigmoid", "leaky_relu", "log_softmax", "relu"),
        *("scatter_elements", "selu", "sigmoid", "soft_shrink", "softmax", "softplus", "softsign", "tanh", "threshold"),
        *("tril", "triu"),
    )
)
"""Operators that may overwrite their first operand in ONNX Runtime on a CPU: their kernels declare ``MayInplace``.

A cast does so only if elements keep their size. All other operators, such as sums of two tensors and normalizations,
write a new tensor.
"""

PRODUCTS = frozenset(("group_norm", "hard_swish", "mish", "silu"))
"""Operators for which ONNX Runtime has no CPU kernel: it computes a factor of the same size, and multiplies by it."""


def overwritable(layer: Layer) -> list[int]:
    """Return the positions of the operands that the output of a layer may overwrite, in order."""
    if layer.op not in ELEMENTWISE:
        return []
    return [i for i, x in enumerate(layer.inputs.values()) if _is_alike(layer, x) and x.dtype == layer.out.dtype]


def overwritten(layer: Layer) -> list[int]:
    """Return the position of the operand that ONNX Runtime may overwrite with the output of a layer."""
    return [0] if layer.op in ACTIVATIONS and _is_alike(layer, next(iter(layer.inputs.values()), None)) else []


def _is_alike(layer: Layer, x: Tensor | None) -> bool:
    if x is None or len(layer.outputs) != 1 or x.role != "data" or x.stored is not None:
        return False
    return x.shape == layer.out.shape and x.nbytes == layer.out.nbytes


# Shapes of inputs: sizes with names, and shapes with a dtype, ``((2, 128), "int64")``.
#
# A list such as ``[64, 64]`` may be a shape or a value: ``Value([64, 64])`` says that it is a value.


class Dim(NamedTuple):
    """A size with a name and, optionally, its range: ``Dim("height", 64, 512)``.

    Attributes:
        name: the symbol, or a sum or product of symbols and integers (``"16*h"``, ``"seq+1"``).
        low: the smallest value of the symbol; None if no range is stated.
        high: the largest value of the symbol; None if no range is stated.
    """

    name: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """An argument that the model receives unchanged: ``Value([64, 64])`` is a list of two integers, not a shape.

    Attributes:
        value: the argument. An array stays an array. A tensor keeps its values, also floats. Tensors in a list or an
            object are treated like other tensors among the inputs.
    """

    value: Any


def without_marks(inputs: Any) -> Any:
    """Return inputs with a list or number in place of each :class:`Value`."""
    if isinstance(inputs, Value):
        return [*inputs.value] if isinstance(inputs.value, tuple) else inputs.value
    if type(inputs) is dict:
        return {name: without_marks(value) for name, value in inputs.items()}
    if type(inputs) in (list, tuple):
        return type(inputs)(map(without_marks, inputs))
    return inputs


def has_names(inputs: Any) -> bool:
    """Return whether some shape among the inputs has a name in it."""
    return any(True for _ in _named_shapes(inputs))


def _named_shapes(value: Any) -> Iterator[Any]:
    if isinstance(value, Tensor):
        if any(map(is_named, value.shape)):
            yield value.shape
    elif is_named_shape(value):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _named_shapes(item)


_IS_SIZE = re.compile(r"[\s(]*\w+[\s)]*(?:(?:\*\*|//|[-+*/])[\s(]*\w+[\s)]*)*").fullmatch
"""Matches a name, or a sum or product of names."""


def is_named_shape(value: Any) -> bool:
    """Return whether a value is a shape with named sizes. Lists of strings only, and sentences, are not shapes."""
    if isinstance(value, Dim) or not isinstance(value, (list, tuple)):
        return False
    if all(isinstance(size, str) for size in value) and not (isinstance(value, tuple) and any(map(_IS_SIZE, value))):
        return False
    return any(map(is_named, value)) and all(is_named(size) or is_integer(size) for size in value)


def is_named(size: Any) -> bool:
    """Return whether a size of a shape has a name."""
    return isinstance(size, (str, Dim)) or is_symbolic(size)


def is_integer(size: Any) -> bool:
    """Return whether a size of a shape is an integer of any type."""
    return hasattr(size, "__index__") and not isinstance(size, bool) and getattr(size, "ndim", 0) == 0


def with_tensors(inputs: Any) -> Any:
    """Return inputs with a :class:`Tensor` for every pair of a shape and the name of a dtype.

    Raises:
        ValueError: if a text beside a shape is almost the name of a dtype.
    """
    if _is_typed_shape(inputs):
        return Tensor(tuple(inputs[0]), inputs[1])
    if type(inputs) is dict:
        return {name: with_tensors(value) for name, value in inputs.items()}
    if type(inputs) in (list, tuple):
        return type(inputs)(map(with_tensors, inputs))
    return inputs


def _is_typed_shape(value: Any) -> bool:
    if type(value) is not tuple or len(value) != 2 or not isinstance(value[1], str):
        return False
    shape, dtype = value
    if type(shape) not in (list, tuple) or not all(is_named(size) or is_integer(size) for size in shape):
        return False
    if dtype in BITS:
        return True
    from difflib import get_close_matches

    if shape and get_close_matches(dtype, BITS, cutoff=0.75):  # any other text is an argument of the model
        raise ValueError(f"shape {tuple(shape)} with a dtype: {unknown('dtype', dtype, BITS)}")
    return False
