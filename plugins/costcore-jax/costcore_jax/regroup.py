"""Find operators that JAX traces as several primitives, such as attention, norms and linear layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from typing import Any, NamedTuple, TypeAlias

from costcore.ir import Layer, Tensor, prod
from costcore.numbers import Dim
from costcore.trace import patterns
from costcore.trace.call import Call
from costcore.trace.patterns import (
    Either,
    Misses,
    Named,
    NearMisses,
    Number,
    Op,
    Operand,
    Pattern,
    common_module,
    matches,
)
from costcore.trace.run import Regrouping

from .rows import Axes, axes_of
from .values import Value
from .walk import Recorded, Recording

# Matching


COMMUTATIVE = frozenset(("add", "add_any", "max", "min", "mul"))

MOVING = frozenset(("broadcast_in_dim", "convert_element_type", "copy", "transpose"))
"""Primitives that a match skips: they keep the elements and change their order or dtype."""

CAST = ("convert_element_type", "copy")
MOVED = (*CAST, "transpose")

TOLERANCE = 4e-3
"""Relative tolerance of constants: bfloat16 has 8 significant bits."""

Match: TypeAlias = patterns.Match[Value, int]
"""Matched values and numbers by name, and the positions of the matched equations."""


def op(primitive: str, *operands: Pattern) -> Op:
    """Return the pattern of a primitive."""
    return Op(primitive, *operands)


def either(*alternatives: Pattern) -> Either:
    """Return the pattern of any of several."""
    return Either(alternatives)


def product(*factors: Pattern) -> Either:
    """Return the pattern of a product of two or three factors in any order."""
    return patterns.product(*factors, kind="mul")


@dataclass(slots=True)
class Graph:
    """The equations that produce values; see :class:`costcore.trace.patterns.Graph`.

    Attributes:
        history: the recorded equations.
        producers: the position of the equation that produces a value, by operand id.
    """

    history: Sequence[Recorded]
    producers: Mapping[int, int]
    misses: Misses | None = None
    commutative: Collection[str] = COMMUTATIVE

    def producer(self, value: Value) -> int | None:
        """Return the position of the equation that produces a value; None for an input."""
        return self.producers.get(value.identity) if value.identity else None

    def described(self, value: Value) -> tuple[str, str]:
        """Return dtype and shape of a value, and its origin in words."""
        name = f"{value.dtype}{list(value.shape)}"
        if value.number is not None:
            return name, f"a value is the constant {value.number}"
        position = self.producer(value)
        what = "an input" if position is None else f"computed by {self.history[position].primitive}"
        return name, f"a value is {what}"

    def between(self, bound: Value, value: Value, moved: bool) -> tuple[int, ...] | None:
        """Return the equations between two values if they only cast (or, with ``moved``, move axes); None otherwise."""
        if bound.identity == value.identity:
            return ()
        through = MOVED if moved else CAST
        (source, _), (other, casts) = self._before(bound, through), self._before(value, through)
        return casts if source.identity == other.identity else None

    def number(self, value: Value, number: float | None) -> tuple[int, ...] | None:
        """Return the equations that produce a number, which join the group; None if the value is not this number."""
        found = value.number
        if not isinstance(found, (int, float)) or isinstance(found, bool):
            return None
        if number is not None and not isclose(found, number, rel_tol=TOLERANCE, abs_tol=1e-12):
            return None
        return tuple(self._equations_before(value))

    def computed(self, value: Value, op: Op) -> tuple[tuple[int, ...], Sequence[Value]] | str:
        """Return the equations from ``op`` to a value, and the inputs of ``op``; its primitive if it is not found."""
        nodes: list[int] = []
        source: Value | None = value
        while source is not None and (position := self.producer(source)) is not None:
            recorded = self.history[position]
            nodes.append(position)
            if recorded.primitive == op.kind and len(recorded.inputs) == len(op.operands):
                return tuple(nodes), recorded.inputs
            source = looked_through(recorded)
        return op.kind

    def _before(self, value: Value, through: Collection[str]) -> tuple[Value, tuple[int, ...]]:
        """Return the value before the primitives ``through``, and the equations of these."""
        casts: list[int] = []
        while (position := self.producer(value)) is not None and self.history[position].primitive in through:
            casts.append(position)
            value = self.history[position].inputs[0]
        return value, tuple(casts)

    def _equations_before(self, value: Value) -> Iterator[int]:
        position = self.producer(value)
        while position is not None:
            yield position
            inputs = [each for each in self.history[position].inputs if each.identity]
            position = self.producer(inputs[0]) if len(inputs) == 1 else None


def looked_through(recorded: Recorded) -> Value | None:
    """Return the input that an equation passes on; None if it computes new elements."""
    if recorded.primitive in MOVING:
        return recorded.inputs[0]
    if recorded.primitive == "select_n" and isinstance(choice := recorded.inputs[0].number, (bool, int)):
        return recorded.inputs[1 + int(choice)]
    return None


def vector(value: Value) -> Value:
    """Return a value flattened to one axis."""
    return replace(value, shape=(value.size,))


# Parts of patterns


PRODUCTS = ("conv_general_dilated", "dot_general")

X, W, B = Operand("x"), Operand("w"), Operand("b")

Group: TypeAlias = tuple[Layer, tuple[Value, ...]]
"""A layer, and the values of its operands."""

Builder: TypeAlias = Callable[[Match, Recorded, Graph], "Group | None"]
"""A function that returns the layer of a match by its last equation; None if further checks fail."""


class Decomposition(NamedTuple):
    """The decomposition of one operator.

    Attributes:
        pattern: the pattern of its result.
        build: returns the layer of a match.
    """

    pattern: Pattern
    build: Builder


def layer_of(kind: str, operands: Mapping[str, Value], root: Recorded, attrs: Mapping[str, Any]) -> Group:
    """Return the layer of a group whose last equation is ``root``."""
    tensors = {name: value.tensor() for name, value in operands.items()}
    outputs = [tensor for value in root.outputs if (tensor := value.tensor()) is not None]
    known = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}
    return Layer(kind, known, outputs, attrs), tuple(operands.values())


def of_x(kind: str, **attrs: Any) -> Builder:
    """Return a builder for an elementwise operator of ``x``."""

    def build(match: Match, root: Recorded, graph: Graph) -> Group | None:
        if match.values["x"].size != root.outputs[0].size:
            return None
        return layer_of(kind, {"x": match.values["x"]}, root, attrs)

    return build


def found_product(match: Match, root: Recorded, graph: Graph) -> Recorded | None:
    """Return the only product or convolution of a match, apart from its last equation; None if there are several."""
    products = [graph.history[i] for i in match.nodes if graph.history[i].primitive in PRODUCTS]
    inner = [recorded for recorded in products if recorded is not root]
    return inner[0] if len(inner) == 1 else None


def is_mean(match: Match, length: Any) -> bool:
    """Return whether the divisors of a match are ``length``, the number of summed elements."""
    count, share = match.values.get("count"), match.values.get("share")
    if count is not None and count.number != length:
        return False
    return share is None or abs(share.number * length - 1) < 1e-3


def reduced_axes(match: Match, graph: Graph, *primitives: str) -> tuple[int, ...] | None:
    """Return the axes of all reductions of a match; None if they differ."""
    reductions = [graph.history[i] for i in match.nodes if graph.history[i].primitive in primitives]
    found = {tuple(map(int, each.params["axes"])) for each in reductions}
    return found.pop() if len(found) == 1 else None


# Products with a bias


_DOT = op("dot_general", Operand("left"), Operand("right"))
_CONV = op("conv_general_dilated", Operand("left"), Operand("right"))
_BIAS = either(op("broadcast_in_dim", B), B)
LINEAR = Decomposition(op("add", _DOT, _BIAS), lambda match, root, graph: _biased(match, root, graph))
CONV = Decomposition(op("add", _CONV, _BIAS), lambda match, root, graph: _biased(match, root, graph))


def _biased(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return a linear layer or convolution with its bias, which has one element per output feature."""
    product = found_product(match, root, graph)
    if product is None:
        return None
    call, bias = product.call, match.values["b"]
    if call.layer.op not in ("linear", "conv", "conv_transpose") or root.outputs[0].size != call.layer.out.size:
        return None
    w = call.layer["w"].shape
    features = w[1] * call.layer.attrs["groups"] if call.layer.op == "conv_transpose" else w[0]
    if bias.size != features or "b" in call.layer:
        return None
    tensor, out = vector(bias).tensor(), root.outputs[0].tensor()
    if tensor is None or out is None:
        return None
    layer = Layer(call.layer.op, {**call.layer.inputs, "b": tensor}, [out], call.layer.attrs)
    return layer, (*_operands(product), bias)


def _operands(recorded: Recorded) -> tuple[Value, ...]:
    """Return the operands of a product in the order of its layer."""
    by_id = {value.identity: value for value in recorded.inputs}
    return tuple(by_id[identity] for identity in recorded.call.inputs)


# Activations


_CUBE = either(op("integer_pow", X), op("mul", op("mul", X, X), X), op("mul", op("square", X), X))
_TANH = op("tanh", op("mul", Number(0.7978845608), op("add", X, op("mul", Number(0.044715), _CUBE))))
_HALF = Number(0.5)
GELU_TANH = Decomposition(
    either(
        op("mul", X, op("mul", _HALF, op("add", Number(1), _TANH))),
        op("mul", op("mul", _HALF, X), op("add", Number(1), _TANH)),
    ),
    of_x("gelu", approximate="tanh"),
)
_ROOT_HALF = Number(0.70710678)
_SCALED = either(op("mul", X, _ROOT_HALF), op("div", X, Number(1.41421356)))
GELU = Decomposition(
    either(
        op("mul", op("mul", _HALF, X), op("erfc", op("mul", op("neg", X), _ROOT_HALF))),
        op("mul", op("mul", _HALF, X), op("add", Number(1), op("erf", _SCALED))),
        op("mul", X, op("mul", _HALF, op("add", Number(1), op("erf", _SCALED)))),
        op("div", op("mul", X, op("add", Number(1), op("erf", _SCALED))), Number(2)),
    ),
    of_x("gelu"),
)
_SIGMOID = op("div", Number(1), op("add", Number(1), op("exp", op("neg", X))))
SILU = Decomposition(op("mul", X, either(op("logistic", X), _SIGMOID)), of_x("silu"))


_POSITIVE = op("max", X, Number(0))
_BELOW_6 = either(op("min", _POSITIVE, Number(6)), op("clamp", Number(0), X, Number(6)))
_SHIFTED = op("add", X, Number(3))
_SHIFTED_BELOW_6 = either(
    op("min", op("max", _SHIFTED, Number(0)), Number(6)), op("clamp", Number(0), _SHIFTED, Number(6))
)
_SIXTH = either(op("div", _SHIFTED_BELOW_6, Number(6)), op("mul", _SHIFTED_BELOW_6, Number(1 / 6)))
_IS_POSITIVE = either(op("gt", X, Number(0)), op("ge", X, Number(0)))
_WITHOUT_POSITIVE = either(op("select_n", _IS_POSITIVE, X, Number(0)), X)
_POWER = op("expm1", _WITHOUT_POSITIVE)
_NEGATIVE_PART = either(op("mul", Number(), _POWER), _POWER)
_ELU = op("select_n", _IS_POSITIVE, _NEGATIVE_PART, X)
_DIFFERENCE = Named("difference", op("sub", X, Number(0)))
_LOG_SUM = op("add", op("max", X, Number(0)), op("log1p", op("exp", op("neg", op("abs", _DIFFERENCE)))))
_SOFTPLUS = either(op("select_n", op("ne", _DIFFERENCE, _DIFFERENCE), _LOG_SUM, op("add", X, Number(0))), _LOG_SUM)

ACTIVATIONS: Mapping[str, Decomposition] = {
    "gelu_tanh": GELU_TANH,
    "gelu": GELU,
    "silu": SILU,
    "hard_swish": Decomposition(op("mul", X, _SIXTH), of_x("hard_swish")),
    "hard_sigmoid": Decomposition(_SIXTH, of_x("hard_sigmoid")),
    "selu": Decomposition(op("mul", Number(1.05070098), _ELU), of_x("selu")),
    "elu": Decomposition(_ELU, of_x("elu")),
    "leaky_relu": Decomposition(op("select_n", _IS_POSITIVE, op("mul", Number(), X), X), of_x("leaky_relu")),
    "mish": Decomposition(op("mul", X, op("tanh", _SOFTPLUS)), of_x("mish")),
    "softplus": Decomposition(_SOFTPLUS, of_x("softplus")),
    "relu6": Decomposition(_BELOW_6, of_x("relu6")),
    "relu": Decomposition(_POSITIVE, of_x("relu")),
    "sigmoid": Decomposition(_SIGMOID, of_x("sigmoid")),
}
"""Patterns by name, longer patterns first."""


# Softmax


_LARGEST = op("reduce_max", X)
_BELOW_LARGEST = op("sub", X, either(op("max", Number(), _LARGEST), _LARGEST))
_POWERS = Named("powers", op("exp", _BELOW_LARGEST))
_SHIFT = Named("shifted", _BELOW_LARGEST)


def _along_axis(kind: str) -> Builder:
    def build(match: Match, root: Recorded, graph: Graph) -> Group | None:
        axes = reduced_axes(match, graph, "reduce_sum", "reduce_max")
        return None if axes is None else layer_of(kind, {"x": match.values["x"]}, root, {"axis": axes})

    return build


SOFTMAX = Decomposition(op("div", _POWERS, op("reduce_sum", _POWERS)), _along_axis("softmax"))
LOG_SOFTMAX = Decomposition(
    op("sub", _SHIFT, op("log", op("reduce_sum", op("exp", _SHIFT)))), _along_axis("log_softmax")
)


# Means


_SUM = op("reduce_sum", X)


def _mean_layer(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return the mean of ``x``, if the divisor is the number of summed elements."""
    x, axes = match.values["x"], reduced_axes(match, graph, "reduce_sum")
    if not is_mean(match, x.size // root.outputs[0].size):
        return None
    return layer_of("reduce_mean", {"x": x}, root, {"axis": axes})


REDUCE_MEAN = Decomposition(
    either(op("div", _SUM, Number(name="count")), op("mul", _SUM, Number(name="share"))),
    lambda match, root, graph: _mean_layer(match, root, graph),
)


# Normalization


def _mean(of: Pattern) -> Pattern:
    total = op("reduce_sum", of)
    return either(op("div", total, Number(name="count")), op("mul", total, Number(name="share")))


def _square(of: Pattern) -> Pattern:
    return either(op("square", of), op("mul", of, of))


_MEAN = Named("mean", _mean(X))
_CENTRED = op("sub", X, either(_MEAN, _mean(X)))
_OF_SQUARES = op("sub", _mean(_square(X)), _square(either(_MEAN, _mean(X))))
_TWO_PASSES = _mean(_square(op("sub", X, _mean(X))))
_VARIANCE = either(op("max", Number(0), _OF_SQUARES), _OF_SQUARES, _TWO_PASSES, op("max", Number(0), _TWO_PASSES))
_EPS = Number(name="eps")
_INVERSE = op("rsqrt", op("add", _VARIANCE, _EPS))
_SCALE = Named("scale", op("mul", _INVERSE, W))
_SCALED_NORM = product(_CENTRED, _INVERSE, W)
LAYER_NORM = Decomposition(
    either(
        op("add", op("mul", X, _SCALE), op("add", op("mul", op("neg", either(_MEAN, _mean(X))), _SCALE), B)),
        op("add", _SCALED_NORM, B),
        _SCALED_NORM,
        op("mul", _CENTRED, _INVERSE),
        op("div", _CENTRED, op("sqrt", op("add", _VARIANCE, _EPS))),
    ),
    lambda match, root, graph: _norm("layer_norm", match, root, graph) or _norm_of_groups(match, root, graph),
)
_MEAN_SQUARE = op("rsqrt", op("add", _mean(_square(X)), _EPS))
_MAYBE_LESS_0 = either(op("sub", X, Number(0)), X)
RMS_NORM = Decomposition(
    either(product(_MAYBE_LESS_0, _MEAN_SQUARE, W), op("mul", _MAYBE_LESS_0, _MEAN_SQUARE)),
    lambda match, root, graph: _norm("rms_norm", match, root, graph),
)


def _norm(kind: str, match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return a layer or RMS norm over the last axes."""
    x, axes = match.values["x"], reduced_axes(match, graph, "reduce_sum")
    if axes is None or axes != tuple(range(x.ndim - len(axes), x.ndim)) or root.outputs[0].shape != x.shape:
        return None
    length = Value(x.shape[x.ndim - len(axes) :], x.dtype).size
    if not is_mean(match, length):
        return None
    operands = {"x": x}
    for name in ("w", "b"):
        if name in match.values:
            if match.values[name].size != length:
                return None
            operands[name] = vector(match.values[name])
    return layer_of(kind, operands, root, {"axis": axes, "eps": match.values["eps"].number})


def _norm_of_groups(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return a group or instance norm of ``x[N, …, C]``, with channels last."""
    x, axes = match.values["x"], reduced_axes(match, graph, "reduce_sum")
    reduced = {graph.history[i].inputs[0].shape for i in match.nodes if graph.history[i].primitive == "reduce_sum"}
    if axes is None or len(reduced) != 1 or x.ndim < 3 or root.outputs[0].shape != x.shape:
        return None
    shape = reduced.pop()
    space = tuple(range(1, x.ndim - 1))
    if shape == x.shape and axes == space:
        kind, attrs = "instance_norm", {}
    elif shape[:-2] == x.shape[:-1] and axes == (*space, x.ndim):
        kind, attrs = "group_norm", {"groups": shape[-2]}
    else:
        return None
    operands = {"x": x.viewed(x.shape[0], x.shape[-1], *x.shape[1:-1])}
    operands |= {name: vector(match.values[name]) for name in ("w", "b") if name in match.values}
    length = prod(shape[axis] for axis in axes)
    if not is_mean(match, length) or any(v.size != x.shape[-1] for name, v in operands.items() if name != "x"):
        return None
    return layer_of(kind, operands, root, {**attrs, "eps": match.values["eps"].number})


_STATE = Operand("mean")
_STATE_INVERSE = op("rsqrt", op("add", Operand("var"), _EPS))
_STATE_SCALE = Named("scale", op("mul", _STATE_INVERSE, W))
_NORMED = product(op("sub", X, _STATE), _STATE_INVERSE, W)
BATCH_NORM = Decomposition(
    either(
        op("add", op("mul", X, _STATE_SCALE), op("add", op("mul", op("neg", _STATE), _STATE_SCALE), B)),
        op("add", _NORMED, B),
        _NORMED,
        op("mul", op("sub", X, _STATE), _STATE_INVERSE),
    ),
    lambda match, root, graph: _batch_norm(match, root, graph),
)


def _batch_norm(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return a batch norm in inference, with given statistics."""
    names = [name for name in ("x", "w", "b", "mean", "var") if name in match.values]
    x, mean, var = (match.values[name] for name in ("x", "mean", "var"))
    if mean.size != var.size or graph.producer(mean) is not None or graph.producer(var) is not None:
        return None
    if x.shape != root.outputs[0].shape or mean.size not in x.shape:
        return None
    operands = {name: x if name == "x" else vector(match.values[name]) for name in names}
    if any(value.size != mean.size for name, value in operands.items() if name != "x"):
        return None
    return layer_of("batch_norm", operands, root, {"training": False, "eps": match.values["eps"].number})


# Attention


_LEFT = Operand("left")
_SCALED_LEFT = Named("scaled", either(op("mul", _LEFT, Number()), op("div", _LEFT, Number())))
_DOT_QK = op("dot_general", either(_SCALED_LEFT, _LEFT), Operand("right"))
_SCALED_SCORES = either(op("mul", _DOT_QK, Number()), op("div", _DOT_QK, Number()), _DOT_QK)
_MASK = either(op("broadcast_in_dim", Operand("mask")), Operand("mask"))
_MASKED = either(
    op("add", _SCALED_SCORES, _MASK),
    op("select_n", _MASK, Number(), _SCALED_SCORES),
    _SCALED_SCORES,
)
_SOFTMAX_X = Named("x", _MASKED, moved=True)
_LARGEST_SCORE = op("reduce_max", _SOFTMAX_X)
_SHIFTED_SCORES = op("sub", _SOFTMAX_X, either(op("max", Number(), _LARGEST_SCORE), _LARGEST_SCORE))
_POWERS_OF_SCORES = Named("powers", op("exp", _SHIFTED_SCORES))
_WEIGHTS = Named("weights", op("div", _POWERS_OF_SCORES, op("reduce_sum", _POWERS_OF_SCORES)))
ATTENTION = Decomposition(
    either(op("dot_general", _WEIGHTS, Operand("v")), op("dot_general", Operand("v"), _WEIGHTS)),
    lambda match, root, graph: _attention(match, root, graph),
)


class Side(NamedTuple):
    """One operand of a product.

    Attributes:
        value: the operand.
        batch: the sizes of its batch axes.
        steps: the number of elements of its free axes.
        contracted: the number of elements of its contracted axes.
    """

    value: Value
    batch: tuple[Dim, ...]
    steps: Dim
    contracted: Dim

    @property
    def batch_size(self) -> Dim:
        """The number of products."""
        return prod(self.batch)


def _sides(recorded: Recorded) -> tuple[Side, Side]:
    """Return both operands of ``dot_general``."""
    left, right = axes_of({**recorded.params, "inputs": list(recorded.inputs)})
    return _side(recorded.inputs[0], left), _side(recorded.inputs[1], right)


def _side(value: Value, axes: Axes) -> Side:
    batch, free, contracted = ([value.shape[i] for i in found] for found in (axes.batch, axes.free, axes.contracted))
    return Side(value, tuple(batch), prod(free), prod(contracted))


def _attention(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return attention of ``q``, ``k`` and ``v`` as [batch and heads, steps, features]."""
    scores = found_product(match, root, graph)
    if scores is None:
        return None
    pair = _sides(scores)
    values = next((side for side in _sides(root) if side.value.identity == match.values["v"].identity), None)
    if values is None or not pair[0].batch or values.batch_size != pair[0].batch_size:
        return None
    # queries and keys have the same features; the keys have as many steps as the values
    q, k = pair if pair[1].steps == values.contracted else pair[::-1]
    if k.steps != values.contracted or not _is_softmax_over_keys(k.steps, match, graph):
        return None
    if "scaled" in match.values:
        q, k = (side._replace(value=_unscaled(side.value, match)) for side in (q, k))
    batch = q.batch
    operands = {
        "q": q.value.viewed(*batch, q.steps, q.contracted),
        "k": k.value.viewed(*batch, k.steps, k.contracted),
        "v": values.value.viewed(*batch, values.contracted, values.steps),
    }
    if "mask" in match.values:
        operands["mask"] = match.values["mask"]
    y = Tensor((*batch, q.steps, values.steps), root.outputs[0].dtype)
    layer, found = layer_of("attention", operands, root, {})
    return Layer("attention", layer.inputs, [y]), found


def _is_softmax_over_keys(keys: Dim, match: Match, graph: Graph) -> bool:
    """Return whether the softmax is over the axis of the keys alone."""
    reductions = [graph.history[i] for i in match.nodes if graph.history[i].primitive in ("reduce_max", "reduce_sum")]
    axes = [(each.inputs[0].shape, each.params["axes"]) for each in reductions]
    return all(len(reduced) == 1 and shape[int(reduced[0])] == keys for shape, reduced in axes)


def _unscaled(value: Value, match: Match) -> Value:
    """Return the operand that was scaled before the product."""
    is_scaled = value.identity == match.values["scaled"].identity
    return match.values["left"].viewed(*value.shape) if is_scaled else value


# All patterns


PATTERNS: Mapping[str, Decomposition] = {
    "attention": ATTENTION,
    "linear": LINEAR,
    "conv": CONV,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    "batch_norm": BATCH_NORM,
    **ACTIVATIONS,
    "softmax": SOFTMAX,
    "log_softmax": LOG_SOFTMAX,
    "reduce_mean": REDUCE_MEAN,
}
"""All patterns; the first match counts."""


# Regrouping


def regroup_calls(
    recording: Recording,
    patterns: Mapping[str, Decomposition],
    outputs: Sequence[Value],
    explained: Collection[str] = (),
) -> None:
    """Replace the calls of each group of equations that forms one operator. The search starts at the last equation.

    Args:
        recording: the recording of the run.
        patterns: the patterns by name.
        outputs: the values that the program returns.
        explained: names of patterns; a note explains why equations that almost match do not.
    """
    history = recording.history
    producers = {value.identity: i for i, each in enumerate(history) for value in each.outputs if _is_new(each, value)}
    returned = {value.identity for value in outputs}
    search = _Search(recording, Graph(history, producers), _readers(history), returned, NearMisses(explained))
    for position in reversed(range(len(history))):
        if position not in search.taken:
            search.at(position, patterns)
    search.take_views_inside()
    recorder = recording.recorder
    gone = {id(history[i].call) for i in search.taken if i not in search.replaced}
    replaced = {id(history[i].call): call for i, call in search.replaced.items()}
    recorder.calls[:] = [replaced.get(id(call), call) for call in recorder.calls if id(call) not in gone]
    recorder.regrouped.extend(search.found[::-1])
    recorder.notes.extend(search.near_misses.notes() if explained else ())


def _is_new(recorded: Recorded, value: Value) -> bool:
    """Return whether a value is new, not a view of an input of the equation."""
    return bool(value.identity) and all(value.identity != given.identity for given in recorded.inputs)


def _readers(history: Sequence[Recorded]) -> dict[int, set[int]]:
    """Return the positions of the equations that read each value; views are not reads."""
    readers: dict[int, set[int]] = {}
    for i, recorded in enumerate(history):
        for value in recorded.inputs:
            if value.identity and any(_is_new(recorded, output) for output in recorded.outputs):
                readers.setdefault(value.identity, set()).add(i)
    return readers


@dataclass
class _Search:
    """The search for groups, with its results.

    Attributes:
        recording: the run.
        graph: its equations.
        readers: the equations that read each value.
        returned: ids of the values that the program returns.
        near_misses: reasons why equations do not match patterns.
        taken: the equations in groups.
        replaced: the call of each group, by its last equation.
        found: the groups, last group first.
    """

    recording: Recording
    graph: Graph
    readers: Mapping[int, set[int]]
    returned: set[int]
    near_misses: NearMisses
    taken: set[int] = field(default_factory=set)
    replaced: dict[int, Call] = field(default_factory=dict)
    found: list[Regrouping] = field(default_factory=list)

    def at(self, position: int, patterns: Mapping[str, Decomposition]) -> None:
        """Look for a group that ends in this equation."""
        root = self.graph.history[position]
        if len(root.outputs) != 1 or looked_through(root) is not None:
            return
        for name, decomposition in patterns.items():
            self.graph.misses = Misses() if name in self.near_misses.patterns else None
            for match in matches(decomposition.pattern, root.outputs[0], self.graph):
                if self._try_match(match, decomposition, position):
                    return
            self.near_misses.add(name, self.graph.misses, f"equation {position} ({root.primitive})")

    def _try_match(self, match: Match, decomposition: Decomposition, position: int) -> bool:
        """Turn a match into a group if no other equation reads its inner values; return whether it did."""
        nodes = self._separate(frozenset(match.nodes), position)
        if not isinstance(nodes, str):
            match = Match(match.values, tuple(nodes))
            group = decomposition.build(match, self.graph.history[position], self.graph)
            if group is not None:
                self._take(position, nodes, group)
                return True
        if self.graph.misses is not None:
            self.graph.misses.refuse(len(match.nodes), nodes if isinstance(nodes, str) else None)
        return False

    def take_views_inside(self) -> None:
        """Also take views of values that only exist inside groups."""
        taken = self.taken - self.replaced.keys()
        inside = {value.identity for i in taken for value in self.graph.history[i].outputs}
        for i, recorded in enumerate(self.graph.history):
            if any(value.identity in inside for value in recorded.inputs):
                self.taken.add(i)

    def _separate(self, nodes: frozenset[int], root: int) -> frozenset[int] | str:
        """Return the equations of a group, without numbers that others read; a reason (str) if it is not a group."""
        history = self.graph.history
        kept = set(nodes)
        for i in nodes - {root}:
            output = history[i].outputs[0]
            if not self.readers.get(output.identity, set()) <= nodes or output.identity in self.returned:
                if output.number is None:
                    return "others read a value between the equations"
                kept.discard(i)
        call = history[root].call
        same_loop = all(history[i].call.region == call.region and history[i].call.times == call.times for i in kept)
        same_phase = all(history[i].call.phase == call.phase for i in kept)
        if not same_loop or not same_phase:
            return "the equations are in different loops or passes"
        return "some of the equations are counted as another operator" if kept & self.taken else frozenset(kept)

    def _take(self, position: int, nodes: frozenset[int], group: Group) -> None:
        layer, values = group
        calls = [self.graph.history[i].call for i in sorted(nodes)]
        inputs = tuple(map(self.recording.identity, values))
        self.replaced[position] = calls[-1]._replace(
            layer=self.recording.recorder.intern(layer),
            type=layer.op,
            native=f"jax::{layer.op}",
            module=common_module([call.module for call in calls]),
            inputs=inputs,
            outputs=(self.recording.identity(self.graph.history[position].outputs[0]),),
            parameters=tuple(dict.fromkeys(value.parameter for value in values if value.parameter)),
        )
        self.taken |= nodes
        self.found.append(Regrouping(layer.op, tuple(call.type for call in calls)))
