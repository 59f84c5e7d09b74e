"""Translate layers of the older neural-network format to MIL operations.

Integers in tables and arguments of :class:`Message` methods are field numbers of NeuralNetwork.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from costcore.errors import CostError
from costcore.graphs import GraphValue

from .model import Block, Model, Operation, TypeInfo, bits_type
from .wire import Message

T = TypeVar("T")

WEIGHTS = {1: "float32", 2: "float16", 31: "int8"}
"""Dtypes of weights by their field of ``WeightParams``. Field 40, quantization, gives the bit width instead."""

UNARY = ("sqrt", "rsqrt", "inverse", "pow", "exp", "log", "abs", "threshold")
"""Functions of a ``unary`` layer, in the order of the enumeration."""

ACTIVATIONS = {
    5: "linear_activation",
    10: "relu",
    15: "leaky_relu",
    20: "thresholded_relu",
    25: "prelu",
    30: "tanh",
    31: "scaled_tanh",
    40: "sigmoid",
    41: "sigmoid_hard",
    50: "elu",
    60: "softsign",
    70: "softplus",
    71: "softplus_parametric",
}
"""Activations by their field."""

PLAIN = {
    170: "l2_norm",
    175: "softmax",
    180: "local_response_norm",
    230: "add",
    231: "mul",
    260: "maximum",
    261: "minimum",
    240: "add",
    600: "identity",
    660: "clip",
    665: "ceil",
    670: "floor",
    680: "sign",
    685: "round",
    700: "exp2",
    710: "sin",
    715: "cos",
    720: "tan",
    730: "asin",
    735: "acos",
    740: "atan",
    750: "sinh",
    755: "cosh",
    760: "tanh",
    770: "asinh",
    775: "acosh",
    780: "atanh",
    790: "erf",
    815: "equal",
    820: "not_equal",
    825: "less",
    827: "less_equal",
    830: "greater",
    832: "greater_equal",
    840: "logical_or",
    845: "logical_xor",
    850: "logical_not",
    855: "logical_and",
    865: "mod",
    870: "minimum",
    875: "maximum",
    880: "add",
    885: "pow",
    890: "real_div",
    895: "floor_div",
    900: "mul",
    905: "sub",
    950: "softmax",
    960: "reverse",
    1065: "shape",
    1080: "fill_like",
    1135: "reshape_like",
    1170: "random_normal_like",
    1190: "random_uniform_like",
    1210: "random_bernoulli_like",
    1313: "non_zero",
    1315: "band_part",
    1320: "band_part",
    1325: "band_part",
    1455: "cumsum",
    1460: "clamped_relu",
    1461: "argsort",
}
"""Operations for layers without weights or shapes, by the field of the layer."""

COMPARISONS = frozenset(range(815, 833))
"""Comparisons that may have a constant (``alpha``) as second operand."""

UNSUPPORTED = {
    605: "branch",
    615: "loop",
    620: "loopBreak",
    625: "loopContinue",
    640: "rangeDynamic",
    1000: "sliceDynamic",
    1090: "fillDynamic",
    1110: "broadcastToDynamic",
    1145: "reshapeDynamic",
    1180: "randomNormalDynamic",
    1200: "randomUniformDynamic",
    1220: "randomBernoulliDynamic",
}
"""Names of unsupported layers by field: they contain networks, or the shapes of their results depend on data."""

FIRST_LAYER, LAST_LAYER = 100, 2000
"""The range of fields for the parameters of a layer."""


class Layer(NamedTuple):
    """A layer: its parameters, the names of its operands, and the number of its results."""

    parameters: Message
    inputs: Sequence[str]
    n_outputs: int

    @property
    def x(self) -> Sequence[str]:
        """The name of the first operand."""
        return self.inputs[:1]

    @property
    def second(self) -> Sequence[str]:
        """The name of the second operand; empty without one."""
        return self.inputs[1:2]


Operands = Mapping[str, Sequence["str | GraphValue"]]


def network_block(model: Model) -> Block:
    """Return the layers of a network as a block.

    Raises:
        CostError: if a setting of a layer is not supported.
        ValueError: if the file is damaged.
    """
    network = model.network
    if network is None:
        raise CostError("the model has no neural network")
    is_exact = network.integer(5) == 1
    inputs = []
    for name, feature in model.features.items():
        is_open, shape = feature.is_open, feature.shape
        if not is_exact and len(shape) in (1, 3):  # images have four axes
            is_open, shape = (False, *is_open), (1, *shape)
        sizes = tuple(None if free else size for free, size in zip(is_open, shape, strict=True))
        inputs.append((name, TypeInfo(sizes, "float32")))
    operations: list[Operation] = []
    for layer in network.all(1):
        operations += _operations(layer)
    made = {name for operation in operations for name, _ in operation.outputs}
    return Block(inputs, [name for name in model.outputs if name in made], operations)


def _operations(layer: Message) -> list[Operation]:
    """Return the operations of a layer. An unsupported layer keeps its own name and is not counted."""
    name, inputs, outputs = layer.text(1), layer.texts(2), layer.texts(3)
    field = next((number for number in layer.numbers() if FIRST_LAYER <= number < LAST_LAYER), 0)
    parameters = layer.one(field)
    if field in (230, 231, 240, 260, 261) and len(inputs) > (1 if field == 240 else 2):
        steps: list[tuple[str, Operands]] = [(PLAIN[field], {"x": inputs[:1], "y": [other]}) for other in inputs[1:]]
        if field == 240:
            steps.append(("mul", {"y": [_constant([1 / len(inputs)], shape=())]}))
        return _in_turn(name, steps, outputs)
    if field in PLAIN and inputs:
        operands: dict[str, Sequence[str | GraphValue]] = {
            key: [value] for key, value in zip("xy", inputs, strict=False)
        }
        if len(inputs) == 1 and (field in (230, 231) or field in COMPARISONS):
            operands |= {"y": [_constant([0.0], shape=())]}
        if field in (660, 1460):
            bounds = (("alpha", 1), ("beta", 2))
            operands |= {key: [_constant(parameters.floats(number)[:1] or [0.0])] for key, number in bounds}
        if field == 180:
            operands |= {"size": [_constant([parameters.integer(3)], "int32")]}
        axis = parameters.integer(1) if field in (950, 1455, 1461) else -3
        if field in (175, 950, 1455, 1461):
            operands |= {"axis": [_constant([axis], "int32")]}
        return [_operation(PLAIN[field], name, operands, outputs)]
    if field in LAYERS and (inputs or field in WITHOUT_OPERAND):
        read = Layer(parameters, inputs, len(outputs))
        before = [
            (kind, {"x": inputs[:1], **found}) for kind, found in (_scale_and_shift(parameters) if field == 220 else [])
        ]
        return _in_turn(name, [*before, LAYERS[field](read), *_biased(field, parameters, inputs)], outputs)
    kind = (
        f"custom layer {parameters.text(10)[:80] or '?'}" if field == 500 else UNSUPPORTED.get(field, f"layer {field}")
    )
    names = ("x", *(f"x{i}" for i in range(1, 64)))
    return [_operation(kind, name, {key: [value] for key, value in zip(names, inputs, strict=False)}, outputs)]


def _operation(kind: str, name: str, operands: Operands, outputs: Sequence[str]) -> Operation:
    return Operation(kind, name, operands, [(output, None) for output in outputs])


def _in_turn(name: str, steps: Sequence[tuple[str, Operands]], outputs: Sequence[str]) -> list[Operation]:
    """Chain several operations of a layer: each reads the result of the previous one as ``x``."""
    found: list[Operation] = []
    for i, (kind, operands) in enumerate(steps):
        given = {**operands, "x": [found[-1].outputs[0][0]]} if found else operands
        found.append(_operation(kind, name, given, outputs if i == len(steps) - 1 else [f"{name}:{i}"]))
    return found


def _scale_and_shift(p: Message) -> list[tuple[str, Operands]]:
    """Return the ``scale * x + shift`` that precedes the function of a ``unary`` layer; empty by default."""
    scale, shift = (p.floats(5) or [0.0])[0] or 1.0, (p.floats(4) or [0.0])[0]
    return [] if (scale, shift) == (1.0, 0.0) else [("linear_activation", {})]


def _biased(field: int, p: Message, inputs: Sequence[str]) -> list[tuple[str, Operands]]:
    """Return the addition of the bias, for layers whose MIL operation has no bias."""
    if field == 245 and p.integer(3):
        shape, bias = p.integers(4), p.one(5)
    elif field == 1045 and len(inputs) == 1 and p.integer(7):
        shape, bias = [p.integer(6)], p.one(9)
    elif (field == 150 and p.integer(10)) or (field == 1040 and p.integer(3)):
        shape, bias = [p.integer(2), *((1, 1) if field == 150 else ())], p.one(21)
    else:
        return []
    return [("add", {"y": _weight(bias, *shape)})]


def _constant(data: Sequence[Any], dtype: str = "float32", shape: Sequence[int] | None = None) -> GraphValue:
    return GraphValue((len(data),) if shape is None else tuple(shape), dtype, is_stored=True, data=tuple(data))


def _text(value: str) -> list[str | GraphValue]:
    return [GraphValue((), "string", is_stored=True, data=(value,))]


def _flag(value: object) -> list[str | GraphValue]:
    return [GraphValue((), "bool", is_stored=True, data=(bool(value),))]


def _integers(*data: int) -> list[str | GraphValue]:
    return [_constant(data, "int32")]


def _weight(weights: Message, *shape: int) -> list[str | GraphValue]:
    """Return a weight in its stored dtype."""
    dtype = next((name for number, name in WEIGHTS.items() if weights.size(number)), "float32")
    if weights.has(40):
        dtype = bits_type(weights.one(40).integer(1))
    if min(shape, default=0) < 0:
        raise ValueError(f"a weight has the shape {shape}")
    return [GraphValue(shape, dtype, is_stored=True)]


def _window_padding(p: Message, valid: int, same: int) -> dict[str, list[str | GraphValue]]:
    """Return the padding of a convolution or pooling."""
    if p.has(same):
        return {"pad_type": _text("same_lower" if p.one(same).integer(1) == 1 else "same")}
    return {"pad_type": _text("custom"), "pad": _integers(*(n for side in _borders(p.one(valid).one(1)) for n in side))}


def _borders(amounts: Message) -> Sequence[tuple[int, int]]:
    """Return the amounts above and below, left and right."""
    return [(each.integer(1), each.integer(2)) for each in amounts.all(10)] or [(0, 0)] * 2


def _pair(p: Message, number: int, default: int = 1) -> list[str | GraphValue]:
    return _integers(*(p.integers(number) or (default, default)))


def _convolution(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    kernel, groups = p.integers(20) or [3, 3], p.integer(10) or 1
    outputs, inner = p.integer(1), p.integer(2)
    is_transposed = bool(p.integer(60))
    shape = (inner, outputs // groups, *kernel) if is_transposed else (outputs, inner, *kernel)
    operands: dict[str, Sequence[str | GraphValue]] = {
        "x": layer.x,
        "weight": layer.second or _weight(p.one(90), *shape),  # a second operand is the weight
        "groups": _integers(groups),
        "strides": _pair(p, 30),
        **({} if is_transposed else {"dilations": _pair(p, 40)}),
        **_window_padding(p, 50, 51),
    }
    if p.integer(70):
        operands["bias"] = _weight(p.one(91), outputs)
    if is_transposed and p.has(100):
        operands["space"] = _integers(*p.integers(100))
    return ("conv_transpose" if is_transposed else "conv"), operands


def _pooling(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    kind = _one_of(("max", "avg", "l2"), p.integer(1), "pooling")
    if p.integer(60):
        reductions = {"max": "reduce_max", "avg": "reduce_mean", "l2": "reduce_l2_norm"}
        return reductions[kind], {"x": layer.x, "axes": _integers(-2, -1), "keep_dims": _flag(True)}
    operands = {"x": layer.x, "kernel_sizes": _pair(p, 10, 3), "strides": _pair(p, 20)}
    if p.has(32):
        pad = p.one(32).integers(10) or [0, 0]
        sides = _integers(*(n for each in pad[:2] for n in (each, each)))
        return f"{kind}_pool", {**operands, "pad_type": _text("custom"), "pad": sides, "ceil_mode": _flag(True)}
    return f"{kind}_pool", {**operands, **_window_padding(p, 30, 31)}


def _inner_product(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    operands = {"x": layer.x, "weight": _weight(p.one(20), p.integer(2), p.integer(1))}
    return "old_linear", {**operands, **({"bias": _weight(p.one(21), p.integer(2))} if p.integer(10) else {})}


def _batch_norm(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    if p.integer(5):  # mean and variance are computed from the data
        parts = {"gamma": _weight(p.one(15), p.integer(1)), "beta": _weight(p.one(16), p.integer(1))}
        return "instance_norm", {"x": layer.x, **parts}
    fields = {"gamma": 15, "beta": 16, "mean": 17, "variance": 18}
    return "batch_norm", {
        "x": layer.x,
        **{name: _weight(p.one(number), p.integer(1)) for name, number in fields.items()},
    }


def _activation(layer: Layer) -> tuple[str, Operands]:
    field = next((number for number in layer.parameters.numbers() if number in ACTIVATIONS), 0)
    if not field:
        raise CostError("an activation is of an unsupported kind")
    p = layer.parameters.one(field)
    if field in (25, 71):
        names = ("alpha",) if field == 25 else ("alpha", "beta")
        return ACTIVATIONS[field], {
            "x": layer.x,
            **{
                name: _weight(w := p.one(number), w.size(1) // 4 or w.size(2) // 2)
                for number, name in enumerate(names, 1)
            },
        }
    alpha = p.floats(1)[:1]
    return ACTIVATIONS[field], {"x": layer.x, **({"alpha": [_constant(alpha)]} if alpha else {})}


def _scale(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    return "mul", {"x": layer.x, "y": _weight(p.one(2), *p.integers(1))}


def _bias(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    return "add", {"x": layer.x, "y": _weight(p.one(2), *p.integers(1))}


def _constant_layer(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    return "const", {"val": _weight(p.one(2), *p.integers(1))}


def _unary(layer: Layer) -> tuple[str, Operands]:
    kind = layer.parameters.integer(1)
    if not 0 <= kind < len(UNARY):
        raise ValueError(f"a layer has the unknown function {kind}")
    y = {"y": [_constant([1.0], shape=())]} if UNARY[kind] == "pow" else {}
    return UNARY[kind], {"x": layer.x, **y}


def _concat(layer: Layer) -> tuple[str, Operands]:
    return "concat", {"values": layer.inputs, "axis": _integers(-5 if layer.parameters.integer(100) else -3)}


def _concat_nd(layer: Layer) -> tuple[str, Operands]:
    return "concat", {"values": layer.inputs, "axis": _integers(layer.parameters.integer(1))}


def _upsample(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    factors: Sequence[float] = p.floats(7) or p.integers(1) or [1, 1]
    kind = "upsample_bilinear" if p.integer(5) == 1 else "upsample_nearest_neighbor"
    sides = {f"scale_factor_{side}": [_constant([factors[i]])] for side, i in (("height", 0), ("width", -1))}
    return kind, {"x": layer.x, **sides}


def _padding(layer: Layer) -> tuple[str, Operands]:
    return "pad", {"x": layer.x, "pad": _integers(*(n for side in _borders(layer.parameters.one(10)) for n in side))}


def _constant_pad(layer: Layer) -> tuple[str, Operands]:
    p, x = layer.parameters, layer.x
    pad = p.integers(2)
    if p.integer(3):  # the larger number of each pair is the minimum size of an axis
        return "pad", {"x": x, "least": _integers(*map(max, pad[::2], pad[1::2]))}
    return "pad", {"x": x, "pad": layer.second or _integers(*pad)}


def _flattened(layer: Layer) -> tuple[str, Operands]:
    return "flatten2d", {"x": layer.x, "axis": _integers(layer.parameters.integer(1))}


def _mvn(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    axes = _integers(*((-3,) if p.integer(1) else ()), -2, -1)
    return "mvn" if p.integer(2) else "subtract_mean", {"x": layer.x, "axes": axes}


def _gelu(layer: Layer) -> tuple[str, Operands]:
    modes = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
    return "gelu", {"x": layer.x, "mode": _text(_one_of(modes, layer.parameters.integer(1), "mode"))}


def _reversed(layer: Layer) -> tuple[str, Operands]:
    return "reverse_sequence", {"x": layer.x, "lengths": layer.second}


def _squeezed(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    return "squeeze", {"x": layer.x, **({} if p.integer(2) else {"axes": _integers(*p.integers(1))})}


def _reorganized(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    kind = _one_of(("space_to_depth", "depth_to_space", "pixel_shuffle"), p.integer(1), "mode")
    return kind, {"x": layer.x, "block_size": _integers(p.integer(2) or 1)}


def _repeated(layer: Layer) -> tuple[str, Operands]:
    return "tile", {"x": layer.x, "reps": _integers(layer.parameters.integer(1) or 1, 1, 1, 1, 1)}


def _listed(kind: str, name: str, number: int = 1) -> Callable[[Layer], tuple[str, Operands]]:
    """Return the reader of a layer with a list of integers, such as axes or a shape."""
    return lambda layer: (kind, {"x": layer.x, name: _integers(*layer.parameters.integers(number))})


def _reduction(kind: str) -> Callable[[Layer], tuple[str, Operands]]:
    """Return the reader of a layer that reduces axes."""

    def read(layer: Layer) -> tuple[str, Operands]:
        p = layer.parameters
        axes = {} if p.integer(3) else {"axes": _integers(*p.integers(1))}
        return kind, {"x": layer.x, "keep_dims": _flag(p.integer(2)), **axes}

    return read


def _matmul(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    if layer.second:
        transposes = {"transpose_x": _flag(p.integer(1)), "transpose_y": _flag(p.integer(2))}
        return "matmul", {"x": layer.x, "y": layer.second, **transposes}
    return "matmul", {"x": layer.x, "y": _weight(p.one(8), p.integer(5), p.integer(6))}


def _layer_norm(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    shape = p.integers(1)
    axes = {"axes": _integers(*range(-len(shape), 0))}
    return "layer_norm", {
        "x": layer.x,
        **axes,
        "gamma": _weight(p.one(3), *shape),
        "beta": _weight(p.one(4), *shape),
    }


def _one_of(members: Sequence[T], number: int, kind: str) -> T:
    """Return the member of an enumeration of the format.

    Raises:
        CostError: if the number is not in it: the file is damaged, or newer than this reader.
    """
    if not 0 <= number < len(members):
        raise CostError(f"{kind} {number} is unknown (expected 0 to {len(members) - 1})")
    return members[number]


def _crop(layer: Layer) -> tuple[str, Operands]:
    """Return a crop by amounts, or to the size of a second operand."""
    if layer.second:
        return "crop_like", {"x": layer.x, "reference": layer.second}
    rows, columns = _borders(layer.parameters.one(1))
    return "crop", {"x": layer.x, "crop_height": _integers(*rows), "crop_width": _integers(*columns)}


def _embedding(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    shape = p.integer(1), p.integer(2)
    return "old_embedding", {"x": _weight(p.one(20), *shape), "indices": layer.x}


def _embedding_nd(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    # the weight is stored transposed, and indices have an extra last axis of size 1
    shape = p.integer(1), p.integer(2)
    return "gather", {
        "x": _weight(p.one(20), *shape),
        "indices": layer.x,
        "axis": _integers(0),
        "last": _flag(True),
    }


def _dot(layer: Layer) -> tuple[str, Operands]:
    kind = "cosine_similarity" if layer.parameters.integer(1) else "dot"
    return kind, {"x": layer.x, "y": layer.second}


def _old_reduction(layer: Layer) -> tuple[str, Operands]:
    """Return the reduction of channels, rows and columns, or of one of them."""
    kinds = ("sum", "mean", "prod", "log_sum", "sum_square", "l1_norm", "l2_norm", "max", "min", "argmax")
    p = layer.parameters
    kind = _one_of(kinds, p.integer(1), "reduction")
    axes = _one_of(((-3, -2, -1), (-2, -1), (-3,), (-2,), (-1,)), p.integer(3), "axis of a reduction")
    if kind == "argmax":
        return "reduce_argmax", {"x": layer.x, "axis": _integers(axes[-1]), "keep_dims": _flag(True)}
    return f"reduce_{kind}", {"x": layer.x, "axes": _integers(*axes), "keep_dims": _flag(True)}


def _split(layer: Layer) -> tuple[str, Operands]:
    return "split", {"x": layer.x, "axis": _integers(-3), "num_splits": _integers(layer.n_outputs)}


def _split_nd(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    sizes = {"split_sizes": _integers(*p.integers(3))} if p.integers(3) else {}
    return "split", {"x": layer.x, "axis": _integers(p.integer(1)), **sizes}


def _tiled(number: int) -> Callable[[Layer], tuple[str, Operands]]:
    return lambda layer: ("tile", {"x": layer.x, "reps": _integers(*layer.parameters.integers(number))})


def _old_slice(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    axis = _one_of((-3, -2, -1), p.integer(4), "axis of a slice")
    bounds = {
        "begin": _integers(p.integer(1)),
        "end": _integers(p.integer(2)),
        "stride": _integers(p.integer(3) or 1),
    }
    return "slice_axis", {"x": layer.x, "axis": _integers(axis), **bounds}


def _static_slice(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    lists = {name: _integers(*p.integers(number)) for name, number in (("begin", 1), ("end", 3), ("stride", 5))}
    masks = {
        f"{name}_mask": [_constant([bool(each) for each in p.integers(number)], "bool")]
        for name, number in (("begin", 2), ("end", 4), ("squeeze", 6))
        if p.integers(number)
    }
    return "slice_by_index", {"x": layer.x, **lists, **masks}


def _slice_by_size(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    return "slice_axis", {"x": layer.x, "axis": _integers(p.integer(3)), "size": _integers(p.integer(2))}


def _recurrent(kind: str, field: int) -> Callable[[Layer], tuple[str, Operands]]:
    """Return the reader of a recurrent layer. The file has separate weights for each gate."""

    def read(layer: Layer) -> tuple[str, Operands]:
        p = layer.parameters
        inner, hidden = p.integer(1), p.integer(2)
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
        weights = (p.all(20) or [p.one(20)]) if kind == "lstm" else [p]
        first = 1 if kind == "lstm" else 30
        settings = p.one(15) if kind == "lstm" else p
        operands: dict[str, Sequence[str | GraphValue]] = {"x": layer.x}
        for side, part in zip(("", "_back"), weights, strict=False):
            stored = part.one(first)
            operands[f"weight_ih{side}"] = _weight(stored, gates * hidden, inner)
            operands[f"weight_hh{side}"] = _weight(stored, gates * hidden, hidden)
            if settings.integer(20):
                operands[f"bias{side}"] = _weight(stored, gates * hidden)
            if kind == "lstm" and settings.integer(40):
                operands[f"peephole{side}"] = _weight(stored, 3 * hidden)
        states = ("initial_h", "initial_c") if kind == "lstm" else ("initial_h",)
        operands |= {name: [value] for name, value in zip(states, layer.inputs[1:], strict=False)}
        operands["direction"] = _text("bidirectional" if field == 430 else "forward")
        operands["output_sequence"] = _flag(settings.integer(10 if kind == "lstm" else 15))
        operands["reset_after"] = _flag(False)
        return f"old_{kind}", operands

    return read


def _topk(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    k = layer.second or _integers(p.integer(2))
    return "topk", {"x": layer.x, "axis": _integers(p.integer(1)), "k": k}


def _best(kind: str) -> Callable[[Layer], tuple[str, Operands]]:
    def read(layer: Layer) -> tuple[str, Operands]:
        p = layer.parameters
        return kind, {"x": layer.x, "axis": _integers(p.integer(1)), "keep_dims": _flag(not p.integer(2))}

    return read


def _gathered(kind: str) -> Callable[[Layer], tuple[str, Operands]]:
    """Return the reader of a layer that takes elements at indices."""
    return lambda layer: (
        kind,
        {"x": layer.x, "indices": layer.second, "axis": _integers(layer.parameters.integer(1))},
    )


def _scattered(kind: str, number: int) -> Callable[[Layer], tuple[str, Operands]]:
    """Return the reader of a layer that updates elements at indices; ``number`` is the field of its mode."""

    def read(layer: Layer) -> tuple[str, Operands]:
        modes = ("update", "add", "sub", "mul", "div", "max", "min")
        operands = {name: [value] for name, value in zip(("data", "indices", "updates"), layer.inputs, strict=False)}
        return kind, {**operands, "mode": _text(_one_of(modes, layer.parameters.integer(number), "mode"))}

    return read


def _stacked(layer: Layer) -> tuple[str, Operands]:
    return "stack", {"values": layer.inputs, "axis": _integers(layer.parameters.integer(1))}


def _filled(kind: str, number: int) -> Callable[[Layer], tuple[str, Operands]]:
    """Return the reader of a layer that fills a tensor of a given shape."""
    return lambda layer: (kind, {"shape": _integers(*layer.parameters.integers(number))})


def _range(layer: Layer) -> tuple[str, Operands]:
    end, start, step = ((layer.parameters.floats(number) or [0.0])[0] for number in (1, 2, 3))
    numbers = {"end": end, "start": start, "step": step or 1.0}
    return "range_1d", {name: [_constant([value])] for name, value in numbers.items()}


def _broadcast(layer: Layer) -> tuple[str, Operands]:
    if layer.second:
        return "broadcast_like", {"x": layer.x, "y": layer.second}
    return "broadcast_to", {"x": layer.x, "shape": _integers(*layer.parameters.integers(1))}


def _resized(layer: Layer) -> tuple[str, Operands]:
    height, width = (*layer.parameters.integers(1), 1, 1)[:2]
    sides = {"target_size_height": _integers(height), "target_size_width": _integers(width)}
    return "resize_bilinear", {"x": layer.x, **sides}


def _crop_resized(layer: Layer) -> tuple[str, Operands]:
    height, width = (*layer.parameters.integers(1), 1, 1)[:2]
    sides = {"target_height": _integers(height), "target_width": _integers(width)}
    return "crop_resize", {"x": layer.x, "boxes": layer.second, **sides}


def _selected(layer: Layer) -> tuple[str, Operands]:
    return "select", {name: [value] for name, value in zip(("cond", "a", "b"), layer.inputs, strict=False)}


def _suppression(layer: Layer) -> tuple[str, Operands]:
    operands = {name: [value] for name, value in zip(("boxes", "scores"), layer.inputs, strict=False)}
    return "non_maximum_suppression", {**operands, "max_boxes": _integers(layer.parameters.integer(3))}


def _one_hot(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    size, axis = layer.second or _integers(p.integer(1)), _integers(p.integer(2))
    return "one_hot", {"indices": layer.x, "one_hot_vector_size": size, "axis": axis}


def _sliding_windows(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    sizes = {"size": _integers(p.integer(2)), "stride": _integers(p.integer(3) or 1)}
    return "sliding_windows", {"x": layer.x, "axis": _integers(p.integer(1)), **sizes}


def _pooling_3d(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    kind = _one_of(("max", "avg"), p.integer(1), "pooling")
    lists = {"kernel_sizes": (2, 3, 4), "strides": (5, 6, 7)}
    windows = {name: _integers(*(p.integer(n) or 1 for n in numbers)) for name, numbers in lists.items()}
    return f"{kind}_pool", {"x": layer.x, **windows, **_padding_3d(p, 15, 8)}


def _padding_3d(p: Message, kind: int, first: int) -> dict[str, list[str | GraphValue]]:
    if p.integer(kind) == 0:
        return {"pad_type": _text("custom"), "pad": _integers(*(p.integer(first + i) for i in range(6)))}
    return {"pad_type": _text("valid" if p.integer(kind) == 1 else "same")}


def _global_pooling_3d(layer: Layer) -> tuple[str, Operands]:
    kind = _one_of(("reduce_max", "reduce_mean"), layer.parameters.integer(1), "pooling")
    return kind, {"x": layer.x, "axes": _integers(-3, -2, -1), "keep_dims": _flag(True)}


def _convolution_3d(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    outputs, inner, groups = p.integer(1), p.integer(2), p.integer(10) or 1
    kernel = [p.integer(number) for number in (20, 21, 22)]
    is_transposed = bool(p.integer(86))
    shape = (inner, outputs // groups, *kernel) if is_transposed else (outputs, inner // groups, *kernel)
    operands = {
        "x": layer.x,
        "weight": _weight(p.one(60), *shape),
        "groups": _integers(groups),
        "strides": _integers(*(p.integer(number) or 1 for number in (31, 32, 33))),
        "dilations": _integers(*(p.integer(number) or 1 for number in (40, 41, 42))),
        **_padding_3d(p, 70, 80),
        **({"bias": _weight(p.one(61), outputs)} if p.integer(50) else {}),
    }
    if is_transposed and p.has(87):
        operands["space"] = _integers(*p.integers(87))
    return ("conv_transpose" if is_transposed else "conv"), operands


WITHOUT_OPERAND = frozenset((290, 635, 1070, 1085, 1175, 1195, 1215))
"""Layers without inputs: constants, fills, ranges, random numbers."""

LAYERS: Mapping[int, Callable[[Layer], tuple[str, Operands]]] = {
    100: _convolution,
    120: _pooling,
    130: _activation,
    140: _inner_product,
    150: _embedding,
    160: _batch_norm,
    165: _mvn,
    190: _crop,
    200: _padding,
    210: _upsample,
    211: _resized,
    212: _crop_resized,
    220: _unary,
    245: _scale,
    250: _bias,
    270: _dot,
    280: _old_reduction,
    290: _constant_layer,
    300: _listed("old_reshape", "shape"),
    301: lambda layer: ("old_flatten", {"x": layer.x}),
    310: _listed("transpose", "perm"),
    320: _concat,
    330: _split,
    340: _repeated,
    345: _reorganized,
    350: _old_slice,
    400: _recurrent("rnn", 400),
    410: _recurrent("gru", 410),
    420: _recurrent("lstm", 420),
    430: _recurrent("lstm", 430),
    635: _range,
    795: _gelu,
    920: _tiled(1),
    925: _stacked,
    930: _gathered("gather"),
    935: _scattered("scatter", 2),
    940: _gathered("gather_nd"),
    945: _scattered("scatter_nd", 1),
    952: _gathered("gather_along_axis"),
    954: _scattered("scatter_along_axis", 2),
    965: _reversed,
    975: _split_nd,
    980: _concat_nd,
    985: _listed("transpose", "perm"),
    995: _static_slice,
    1005: _sliding_windows,
    1015: _topk,
    1020: _best("reduce_argmin"),
    1025: _best("reduce_argmax"),
    1040: _embedding_nd,
    1045: _matmul,
    1070: _constant_layer,
    1085: _filled("fill", 2),
    1100: _broadcast,
    1105: _broadcast,
    1120: _squeezed,
    1125: _listed("expand_dims", "axes"),
    1130: _flattened,
    **dict.fromkeys((1140, 1150), _listed("reshape", "shape")),
    1155: _constant_pad,
    1175: _filled("random_normal", 4),
    1195: _filled("random_uniform", 4),
    1215: _filled("random_bernoulli", 3),
    1230: _listed("random_categorical", "size", 2),
    1330: _selected,
    1400: _suppression,
    1450: _one_hot,
    1465: _pooling_3d,
    1466: _global_pooling_3d,
    1470: _slice_by_size,
    1471: _convolution_3d,
    **{
        number: _reduction(f"reduce_{kind}")
        for number, kind in (
            *((1250, "l1_norm"), (1255, "l2_norm"), (1260, "max"), (1265, "min"), (1270, "sum"), (1275, "prod")),
            *((1280, "mean"), (1285, "log_sum"), (1290, "sum_square"), (1295, "log_sum_exp")),
        )
    },
    1350: _layer_norm,
}
"""Readers of layers by field, in addition to :data:`PLAIN`."""
