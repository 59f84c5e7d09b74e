"""Layers of neural networks in the older format, as operations of MIL: those of convolutional networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.graphs import GraphValue

from .model import Block, Model, Operation, TypeInfo
from .wire import Message

WEIGHTS = {1: "float32", 2: "float16", 31: "int8"}
"""Types of weights by the field that stores them; others are quantized."""

UNARY = ("sqrt", "rsqrt", "inverse", "pow", "exp", "log", "abs", "threshold")
"""Functions of the layer ``unary`` by their number."""

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
    600: "identity",
    660: "clip",
    665: "ceil",
    670: "floor",
    680: "sign",
    685: "round",
    710: "sin",
    715: "cos",
    760: "tanh",
    790: "erf",
    795: "gelu",
    870: "minimum",
    875: "maximum",
    880: "add",
    890: "real_div",
    900: "mul",
    905: "sub",
    950: "softmax",
    1460: "clamped_relu",
}
"""Layers without weights or shapes of their own, by their field."""

FIRST_LAYER, LAST_LAYER = 100, 2000
"""The numbers of the fields that hold the parameters of a layer."""


class Layer(NamedTuple):
    """A layer: its parameters, and the names of its operands."""

    parameters: Message
    inputs: Sequence[str]


Operands = Mapping[str, Sequence["str | GraphValue"]]


def network_block(model: Model) -> Block:
    """Return the layers of a network as a block.

    Raises:
        CostError: if it has a layer that is not read.
        ValueError: if the file is damaged.
    """
    network = model.network
    if network is None:
        raise CostError("the model has no neural network")
    is_exact = network.integer(5) == 1
    inputs = []
    for name, feature in model.features.items():
        is_open, shape = feature.is_open, feature.shape
        if not is_exact and not feature.is_image and len(shape) in (1, 3):
            is_open, shape = (False, *is_open), (1, *shape)
        sizes = tuple(None if free else size for free, size in zip(is_open, shape, strict=True))
        inputs.append((name, TypeInfo(sizes, "float32")))
    operations: list[Operation] = []
    for layer in network.all(1):
        operations += _operations(layer)
    made = {name for operation in operations for name, _ in operation.outputs}
    return Block(inputs, [name for name in model.outputs if name in made], operations)


def _operations(layer: Message) -> list[Operation]:
    """Return the operations of a layer.

    Raises:
        CostError: if the layer is not read.
    """
    name, inputs, outputs = layer.text(1), layer.texts(2), layer.texts(3)
    field = next((number for number in layer.numbers() if FIRST_LAYER <= number < LAST_LAYER), 0)
    if field in (230, 231) and len(inputs) > 2:
        return _chained(PLAIN[field], name, inputs, outputs)
    parameters = layer.one(field)
    if field in PLAIN and inputs:
        operands: Operands = {key: [value] for key, value in zip("xy", inputs, strict=False)}
        if field in (230, 231) and len(inputs) == 1:
            operands = {**operands, "y": [_constant(parameters.floats(1)[:1] or [0.0])]}
        if field == 180:
            operands = {**operands, "size": [_constant([parameters.integer(3, 1)], "int32")]}
        axis = parameters.integer(1, -1) if field == 950 else -3
        if PLAIN[field] == "softmax":
            operands = {**operands, "axis": [_constant([axis], "int32")]}
        return [_operation(PLAIN[field], name, operands, outputs)]
    if field not in LAYERS or not (inputs or field in (290, 1070)):
        raise CostError(
            f"layer {name!r} of the older format is of kind {field}, which is not read: convert the model as a "
            'program, with convert_to="mlprogram"'
        )
    kind, found = LAYERS[field](Layer(parameters, inputs))
    return [_operation(kind, name, found, outputs)]


def _operation(kind: str, name: str, operands: Operands, outputs: Sequence[str]) -> Operation:
    return Operation(kind, name, operands, [(output, None) for output in outputs])


def _chained(kind: str, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[Operation]:
    """Return the operations of a layer that adds or multiplies more than two operands."""
    found, last = [], inputs[0]
    for i, other in enumerate(inputs[1:]):
        result = outputs[0] if outputs and i == len(inputs) - 2 else f"{name}:{i}"
        found.append(_operation(kind, name, {"x": [last], "y": [other]}, [result]))
        last = result
    return found


def _constant(data: Sequence[Any], dtype: str = "float32", shape: Sequence[int] | None = None) -> GraphValue:
    return GraphValue((len(data),) if shape is None else tuple(shape), dtype, is_stored=True, data=tuple(data))


def _text(value: str) -> list[str | GraphValue]:
    return [GraphValue((), "string", is_stored=True, data=(value,))]


def _integers(*data: int) -> list[str | GraphValue]:
    return [_constant(data, "int32")]


def _weight(weights: Message, *shape: int) -> list[str | GraphValue]:
    """Return a weight, of the type in which it is stored."""
    dtype = next((name for number, name in WEIGHTS.items() if weights.size(number)), "float32")
    if weights.has(40):
        bits = weights.one(40).integer(1, 8)
        dtype = f"uint{bits}" if bits in (1, 2, 3, 4, 6, 8) else "uint8"
    if min(shape, default=0) < 0:
        raise ValueError(f"a weight has the shape {shape}")
    return [GraphValue(shape, dtype, is_stored=True)]


def _windows(p: Message, valid: int, same: int) -> dict[str, list[str | GraphValue]]:
    """Return the padding of a layer with windows."""
    if p.has(same):
        return {"pad_type": _text("same_lower" if p.one(same).integer(1) == 1 else "same")}
    sides = [(each.integer(1), each.integer(2)) for each in p.one(valid).one(1).all(10)]
    return {"pad_type": _text("custom"), "pad": _integers(*(n for side in sides or [(0, 0)] * 2 for n in side))}


def _pair(p: Message, number: int, default: int = 1) -> list[str | GraphValue]:
    return _integers(*(p.integers(number) or (default, default)))


def _convolution(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    kernel, groups = p.integers(20) or [3, 3], p.integer(10, 1) or 1
    outputs, inner = p.integer(1), p.integer(2)
    is_transposed = bool(p.integer(60))
    shape = (inner, outputs // groups, *kernel) if is_transposed else (outputs, inner, *kernel)
    operands: dict[str, Sequence[str | GraphValue]] = {
        "x": layer.inputs[:1],
        "weight": layer.inputs[1:2] or _weight(p.one(90), *shape),  # a second operand is the weight
        "groups": _integers(groups),
        "strides": _pair(p, 30),
        "dilations": _pair(p, 40),
        **_windows(p, 50, 51),
    }
    if p.integer(70):
        operands["bias"] = _weight(p.one(91), outputs)
    if is_transposed and p.has(100):
        raise CostError("a transposed convolution states the shape of its output, which is not read")
    return ("conv_transpose" if is_transposed else "conv"), operands


def _pooling(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    kind = ("max", "avg", "l2")[min(max(p.integer(1), 0), 2)]
    if p.integer(60):
        reductions = {"max": "reduce_max", "avg": "reduce_mean", "l2": "reduce_l2_norm"}
        keeps = GraphValue((), "bool", is_stored=True, data=(True,))
        return reductions[kind], {"x": layer.inputs[:1], "axes": _integers(-2, -1), "keep_dims": [keeps]}
    operands = {"x": layer.inputs[:1], "kernel_sizes": _pair(p, 10, 3), "strides": _pair(p, 20)}
    if p.has(32):
        pad = p.one(32).integers(10) or [0, 0]
        sides = _integers(*(n for each in pad[:2] for n in (each, each)))
        ceiling = GraphValue((), "bool", is_stored=True, data=(True,))
        return f"{kind}_pool", {**operands, "pad_type": _text("custom"), "pad": sides, "ceil_mode": [ceiling]}
    return f"{kind}_pool", {**operands, **_windows(p, 30, 31)}


def _inner_product(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    operands = {"x": layer.inputs[:1], "weight": _weight(p.one(20), p.integer(2), p.integer(1))}
    return "linear", {**operands, **({"bias": _weight(p.one(21), p.integer(2))} if p.integer(10) else {})}


def _batch_norm(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    if p.integer(6):
        parts = {"gamma": _weight(p.one(15), p.integer(1)), "beta": _weight(p.one(16), p.integer(1))}
        return "instance_norm", {"x": layer.inputs[:1], **parts}
    fields = {"gamma": 15, "beta": 16, "mean": 17, "variance": 18}
    return "batch_norm", {
        "x": layer.inputs[:1],
        **{name: _weight(p.one(number), p.integer(1)) for name, number in fields.items()},
    }


def _activation(layer: Layer) -> tuple[str, Operands]:
    field = next((number for number in layer.parameters.numbers() if number in ACTIVATIONS), 0)
    if not field:
        raise CostError("an activation is of a kind that is not read")
    p = layer.parameters.one(field)
    if field == 25:
        slopes = p.one(1)
        return "prelu", {"x": layer.inputs[:1], "alpha": _weight(slopes, slopes.size(1) // 4 or slopes.size(2) // 2)}
    alpha = p.floats(1)[:1]
    return ACTIVATIONS[field], {"x": layer.inputs[:1], **({"alpha": [_constant(alpha)]} if alpha else {})}


def _scale(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    return "mul", {"x": layer.inputs[:1], "y": _weight(p.one(2), *p.integers(1))}


def _bias(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    return "add", {"x": layer.inputs[:1], "y": _weight(p.one(2), *p.integers(1))}


def _constant_layer(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    return "const", {"val": _weight(p.one(2), *p.integers(1))}


def _unary(layer: Layer) -> tuple[str, Operands]:
    kind = layer.parameters.integer(1)
    if not 0 <= kind < len(UNARY):
        raise ValueError(f"a layer has the unknown function {kind}")
    y = {"y": [_constant(layer.parameters.floats(2)[:1] or [1.0])]} if UNARY[kind] == "pow" else {}
    return UNARY[kind], {"x": layer.inputs[:1], **y}


def _concat(layer: Layer) -> tuple[str, Operands]:
    return "concat", {"values": layer.inputs, "axis": _integers(-3)}


def _concat_nd(layer: Layer) -> tuple[str, Operands]:
    return "concat", {"values": layer.inputs, "axis": _integers(layer.parameters.integer(1))}


def _upsample(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    factors = p.integers(1) or [1, 1]
    kind = "upsample_bilinear" if p.integer(5) == 1 else "upsample_nearest_neighbor"
    sides = {"scale_factor_height": _integers(factors[0]), "scale_factor_width": _integers(factors[-1])}
    return kind, {"x": layer.inputs[:1], **sides}


def _padding(layer: Layer) -> tuple[str, Operands]:
    sides = [(each.integer(1), each.integer(2)) for each in layer.parameters.one(10).all(10)]
    return "pad", {"x": layer.inputs[:1], "pad": _integers(*(n for side in sides for n in side))}


def _constant_pad(layer: Layer) -> tuple[str, Operands]:
    return "pad", {"x": layer.inputs[:1], "pad": _integers(*layer.parameters.integers(2))}


def _flattened(layer: Layer) -> tuple[str, Operands]:
    return "flatten2d", {"x": layer.inputs[:1], "axis": _integers(1)}


def _reshaped(layer: Layer) -> tuple[str, Operands]:
    return "reshape", {"x": layer.inputs[:1], "shape": _integers(*layer.parameters.integers(1))}


def _listed(kind: str, name: str, number: int = 1) -> Callable[[Layer], tuple[str, Operands]]:
    """Return the reader of a layer with a list of axes."""
    return lambda layer: (kind, {"x": layer.inputs[:1], name: _integers(*layer.parameters.integers(number))})


def _reduction(kind: str) -> Callable[[Layer], tuple[str, Operands]]:
    """Return the reader of a layer that reduces axes."""

    def read(layer: Layer) -> tuple[str, Operands]:
        p = layer.parameters
        keeps = GraphValue((), "bool", is_stored=True, data=(bool(p.integer(2)),))
        axes = {} if p.integer(3) else {"axes": _integers(*p.integers(1))}
        return kind, {"x": layer.inputs[:1], "keep_dims": [keeps], **axes}

    return read


def _matmul(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    turned = {
        f"transpose_{side}": [GraphValue((), "bool", is_stored=True, data=(bool(p.integer(number)),))]
        for side, number in (("x", 1), ("y", 2))
    }
    if len(layer.inputs) > 1:
        return "matmul", {"x": layer.inputs[:1], "y": layer.inputs[1:2], **turned}
    return "matmul", {"x": layer.inputs[:1], "y": _weight(p.one(8), p.integer(5), p.integer(6))}


def _layer_norm(layer: Layer) -> tuple[str, Operands]:
    p = layer.parameters
    shape = p.integers(1)
    axes = {"axes": _integers(*range(-len(shape), 0))}
    return "layer_norm", {
        "x": layer.inputs[:1],
        **axes,
        "gamma": _weight(p.one(3), *shape),
        "beta": _weight(p.one(4), *shape),
    }


LAYERS: Mapping[int, Callable[[Layer], tuple[str, Operands]]] = {
    100: _convolution,
    120: _pooling,
    130: _activation,
    140: _inner_product,
    160: _batch_norm,
    200: _padding,
    210: _upsample,
    220: _unary,
    245: _scale,
    250: _bias,
    290: _constant_layer,
    300: _reshaped,
    301: _flattened,
    310: _listed("transpose", "perm"),
    320: _concat,
    980: _concat_nd,
    985: _listed("transpose", "perm"),
    1045: _matmul,
    1070: _constant_layer,
    1120: _listed("squeeze", "axes"),
    1125: _listed("expand_dims", "axes"),
    1130: _flattened,
    1140: _reshaped,
    1150: _reshaped,
    1155: _constant_pad,
    **{
        number: _reduction(f"reduce_{kind}")
        for number, kind in ((1250, "l1_norm"), (1260, "max"), (1265, "min"), (1270, "sum"), (1280, "mean"))
    },
    1350: _layer_norm,
}
"""The layers that are read, by their field; :data:`PLAIN` has more."""
