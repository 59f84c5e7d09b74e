"""Parse a Core ML model into plain data. ``weight.bin`` is never opened: the graph states all shapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError
from costcore.files import content_of, is_folder, open_file
from costcore.graphs import DEEPEST, GraphValue
from costcore.graphs.graph import damaged
from costcore.ir import BITS
from costcore.numbers import Dim

from .wire import MOST_VALUES, File, Message

MOST_AXES = 64
LARGEST = 2**40
"""The maximum size of an axis."""

DTYPES: Mapping[int, str] = {
    1: "bool",
    2: "string",
    10: "float16",
    11: "float32",
    12: "float64",
    13: "bfloat16",
    21: "int8",
    22: "int16",
    23: "int32",
    24: "int64",
    25: "int4",
    31: "uint8",
    32: "uint16",
    33: "uint32",
    34: "uint64",
    35: "uint4",
    36: "uint2",
    37: "uint1",
    38: "uint6",
    39: "uint3",
    40: "float8_e4m3fn",
    41: "float8_e5m2",
}
"""Dtypes by their number in the specification."""

PACKED = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "uint32": "I", "float16": "e"}
"""``struct`` formats of dtypes that are stored as bytes."""

GRAPHLESS = {
    **dict.fromkeys((300, 400), "generalized linear model"),
    **dict.fromkeys((301, 401), "support vector machine"),
    **dict.fromkeys((302, 402), "ensemble of trees"),
    304: "Bayesian probit regressor",
    404: "nearest neighbors",
    501: "recommender of similar items",
    555: "custom model",
    556: "linked model",
    560: "class confidence thresholding",
    600: "one-hot encoder",
    601: "imputer",
    602: "feature vectorizer",
    603: "dictionary vectorizer",
    604: "scaler",
    606: "categorical mapping",
    607: "normalizer",
    609: "array feature extractor",
    610: "non-maximum suppression",
    900: "identity",
    2000: "text classifier",
    2001: "word tagger",
    2002: "vision feature print",
    2003: "sound analysis preprocessing",
    2004: "gazetteer",
    2005: "word embedding",
    2006: "audio feature print",
    3000: "encrypted model",
}
"""Kinds of models without a graph, by field number of the specification."""

PIPELINES = (200, 201, 202)
"""Field numbers of pipelines: classifiers, regressors, others."""

STEPS: Mapping[int, tuple[str, Sequence[str]]] = {
    602: ("concat", ()),
    604: ("linear_activation", ("x",)),
    607: ("l2_norm", ("x",)),
    610: ("non_maximum_suppression", ("scores", "boxes")),
    900: ("identity", ("x",)),
}
"""Operations for pipeline stages without a graph, with operand names. Other stages are named after their kind."""

NETWORKS = (303, 403, 500)
"""Field numbers of neural networks in the older format: regressors, classifiers, others."""


class TypeInfo(NamedTuple):
    """The type of a value: shape (None for an open size) and dtype.

    ``shape`` is None if the value is not a tensor.
    """

    shape: tuple[int | None, ...] | None
    dtype: str


NO_TENSOR = TypeInfo(None, "string")


def bits_type(bits: int) -> str:
    """Return the unsigned dtype of a bit width; ``uint8`` if no dtype has this width."""
    return kind if (kind := f"uint{bits}") in BITS else "uint8"


class Operation(NamedTuple):
    """An operation of a program.

    Attributes:
        type: its name in MIL, ``conv``.
        name: its own name.
        inputs: its operands by name, each a list of value names or constants.
        outputs: names and types of its results; the type is None if the file does not state it.
        blocks: its nested blocks.
    """

    type: str
    name: str
    inputs: Mapping[str, Sequence[str | GraphValue]]
    outputs: Sequence[tuple[str, TypeInfo | None]]
    blocks: Sequence[Block] = ()


class Block(NamedTuple):
    """Operations in execution order, the inputs of the block, and the names of its results."""

    inputs: Sequence[tuple[str, TypeInfo]]
    outputs: Sequence[str]
    operations: Sequence[Operation]


class Feature(NamedTuple):
    """An input of the model: its default shape, and whether the size of each axis is open.

    ``ranges`` has the minimum and maximum size of each axis, -1 for no maximum. ``shapes`` lists the allowed shapes.
    Either may be empty.
    """

    shape: tuple[int, ...]
    is_open: tuple[bool, ...]
    ranges: Sequence[tuple[int, int]] = ()
    shapes: Sequence[tuple[int, ...]] = ()

    def check(self, name: str, shape: Sequence[Dim]) -> None:
        """Check that the model allows a shape of this input.

        Raises:
            CostError: if it does not.
        """
        for axis, ((least, most), size) in enumerate(zip(self.ranges, shape, strict=False)):
            if isinstance(size, int) and not (least <= size and (most < 0 or size <= most)):
                shown = f"{least} or more" if most < 0 else f"{least} to {most}"
                raise CostError(f"input {name!r} has {shown} elements along axis {axis} in the model (got {size})")
        if self.shapes and all(isinstance(size, int) for size in shape) and tuple(shape) not in self.shapes:
            shown = ", ".join(map(str, self.shapes[:10]))
            raise CostError(f"input {name!r} has one of the shapes {shown} in the model (got {tuple(shape)})")


class Model(NamedTuple):
    """A model: functions, input features by name, the default function, and the specification version.

    ``network`` is a neural network of the older format, which :mod:`.layers` translates. ``stages`` has the names and
    models of a pipeline.
    """

    functions: Mapping[str, Block]
    features: Mapping[str, Feature]
    default: str
    version: int
    network: Message | None = None
    outputs: Sequence[str] = ()
    stages: Sequence[tuple[str, Model]] = ()


@contextmanager
def opened_model(path: str) -> Iterator[Model]:
    """Yield the model of a file or package, which stays open in the context.

    Raises:
        CostError: if it is not a Core ML model, or is damaged.
        OSError: if it cannot be read.
    """
    with open_file(place := _specification(path)) as file, damaged():
        content = content_of(file, place)
        root = Message(File(content), 0, len(content))
        yield _model(root)


def _specification(path: str) -> Path:
    """Return the file with the graph; the manifest of a package names it."""
    folder = Path(path)
    if not is_folder(folder):
        return folder
    manifest_file = folder / "Manifest.json"
    if manifest_file.is_symlink():
        raise CostError("Manifest.json is a link to a file outside the package")
    with open_file(manifest_file) as file:
        text = file.read(1 << 20)
    try:
        manifest = json.loads(text)
        item = manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]
        place = PurePosixPath(item["path"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CostError("Manifest.json does not name a model") from error
    found = folder / "Data" / place
    if place.is_absolute() or ".." in place.parts or not found.resolve().is_relative_to(folder.resolve()):
        raise CostError("Manifest.json names a file outside the package")
    return found


def _model(root: Message, depth: int = 0) -> Model:
    """Return a model. A stage of a pipeline without a graph becomes one operation.

    Raises:
        CostError: if a model outside of a pipeline has no graph.
    """
    version, description = root.integer(1), root.one(2)
    functions = description.all(20)
    inputs = [
        *description.all(1),
        *description.all(13),
        *(each for part in functions for each in (*part.all(2), *part.all(6))),
    ]
    features = {each.text(1): feature for each in inputs if (feature := _feature(each.one(3))) is not None}
    outputs = [each.text(1) for each in description.all(10)]
    for number in PIPELINES:
        if root.has(number):
            return Model({}, features, "main", version, stages=_stages(root.one(number), number, depth))
    for number, what in GRAPHLESS.items():
        if root.has(number) and not depth:
            raise CostError(f"not a network: it is a model of the kind {what!r}, which has no graph")
        if root.has(number):
            return Model({"main": _step(number, description)}, features, "main", version)
    for number in NETWORKS:
        if root.has(number):
            return Model({}, features, "main", version, root.one(number), outputs)
    if not root.has(502):
        raise ValueError("it has neither a program nor a neural network")
    program = {name: _function(function) for name, function in root.one(502).named(2).items()}
    return Model(program, features, description.text(21) or "main", version)


def _stages(pipeline: Message, number: int, depth: int) -> list[tuple[str, Model]]:
    """Return the names and models of a pipeline; a model without a name is named after its number."""
    if depth > DEEPEST:
        raise ValueError(f"pipelines are nested more than {DEEPEST} deep")
    stages = pipeline if number == PIPELINES[-1] else pipeline.one(1)
    names, models = stages.texts(2), stages.all(1)
    if not models:
        raise ValueError("it is a pipeline without models")
    labels = [names[i] if i < len(names) and names[i] else f"stage{i}" for i in range(len(models))]
    return [(label.replace(".", "_"), _model(model, depth + 1)) for label, model in zip(labels, models, strict=True)]


def _step(number: int, description: Message) -> Block:
    """Return one operation for a pipeline stage without a graph; the model description has its inputs and results."""
    given, made = ([(each.text(1), _feature_type(each.one(3))) for each in description.all(place)] for place in (1, 10))
    kind, names = STEPS.get(number, (GRAPHLESS[number], ()))
    operands: dict[str, Sequence[str | GraphValue]] = {
        names[i] if i < len(names) else f"x{i}": [name] for i, (name, _) in enumerate(given)
    }
    if kind == "concat":
        operands = {"values": [name for name, _ in given]}
    outputs: list[tuple[str, TypeInfo | None]] = [*made]
    return Block(given, [name for name, _ in made], [Operation(kind, "", operands, outputs)])


def _feature_type(kind: Message) -> TypeInfo:
    """Return the type of a feature: a tensor or a scalar; strings and dictionaries become scalar strings."""
    if (feature := _feature(kind)) is not None:
        return TypeInfo(feature.shape, "float32")
    if kind.has(1) or kind.has(2):
        return TypeInfo((), "int64" if kind.has(1) else "float64")
    return TypeInfo((), "string")


def _feature(kind: Message) -> Feature | None:
    """Return the default shape of an input and its open axes; None if it is not a tensor."""
    if kind.has(4):
        image = kind.one(4)
        channels = 1 if image.integer(3) in (10, 40) else 3
        free = image.has(21) or image.has(31)
        sizes = (1, channels, _size(image.integer(2)), _size(image.integer(1)))
        return Feature(sizes, (False, False, free, free))
    array = kind.one(5)
    shape = tuple(map(_size, array.integers(1)))
    ranges: list[tuple[int, int]] = []
    shapes: list[tuple[int, ...]] = []
    is_open = (False,) * len(shape)
    if array.has(31):
        ranges = [(each.integer(1), each.integer(2)) for each in array.one(31).all(1)]
        is_open = tuple(lower != upper for lower, upper in ranges)
    elif array.has(21):
        shapes = [tuple(each.integers(1)) for each in array.one(21).all(1)]
        is_open = tuple(len(set(sizes)) > 1 for sizes in zip(*shapes, strict=False))
    found = Feature(shape, is_open, ranges, shapes)
    return found if shape and len(is_open) == len(shape) else None


def _size(value: int) -> int:
    if not 0 <= value <= LARGEST:
        raise ValueError(f"{value} is not a size")
    return value


def _function(function: Message) -> Block:
    """Return the block of the active opset, with the inputs of the function."""
    blocks = function.named(3)
    name = function.text(2)
    block = blocks.get(name) or next(iter(blocks.values()), None)
    if block is None:
        raise ValueError("a function has no block")
    return _block(block, _named_types(function, 1))


def _named_types(owner: Message, number: int) -> list[tuple[str, TypeInfo]]:
    return [(name, owner.cached(span, _type)) for name, span in owner.entries(number)]


def _block(block: Message, inputs: Sequence[tuple[str, TypeInfo]] | None = None, depth: int = 0) -> Block:
    if depth > DEEPEST:
        raise ValueError(f"blocks are nested more than {DEEPEST} deep")
    given = _named_types(block, 1) if inputs is None else inputs
    return Block(given, block.texts(2), [_operation(each, depth) for each in block.each(3)])


_new_operation: Callable[..., Operation] = tuple.__new__
"""Creates an operation from a tuple of all attributes, three times as fast as the constructor."""


def _operation(operation: Message, depth: int) -> Operation:
    """Return an operation. Attributes become operands, too. A constant is named after its result."""
    kind, outputs = operation.text(1), _named_types(operation, 3)
    inputs: dict[str, list[str | GraphValue]] = {}
    for key, span in operation.entries(2):
        if text := operation.only_text(span, *OF_ARGUMENT):
            inputs[key] = [text]
        else:
            given = operation.cached(span, _argument)
            inputs[key] = [each if isinstance(each, str) else _constant_value(*each) for each in given]
    name = ""
    for key, span in operation.entries(5):
        if key == "name" and kind == "const" and outputs:
            name = outputs[0][0]
        elif key == "name":
            name = operation.only_text(span, *OF_VALUE) or str((operation.cached(span, _constant)[2] or ("",))[0])
        else:
            inputs.setdefault(key, [_constant_value(*operation.cached(span, _constant))])
    blocks = [_block(each, None, depth + 1) for each in operation.all(4)] if operation.has(4) else ()
    return _new_operation(Operation, (kind, name, inputs, outputs, blocks))


def _type(kind: Message, is_inner: bool = False) -> TypeInfo:
    if kind.has(5) and not is_inner:  # a state
        return _type(kind.one(5).one(1), True)
    if kind.has(2) and not is_inner:  # a list is a tensor whose first axis counts its elements
        element, length = _type(kind.one(2).one(1), True), kind.one(2).one(2)
        count = _size(length.one(1).integer(1)) if length.has(1) else None
        return TypeInfo(None if element.shape is None else (count, *element.shape), element.dtype)
    if not kind.has(1):
        return NO_TENSOR
    tensor = kind.one(1)
    dtype = DTYPES.get(tensor.integer(1))
    if dtype is None:
        raise ValueError(f"a value has the unknown type {tensor.integer(1)}")
    axes = tensor.all(3)
    if len(axes) > MOST_AXES:
        raise ValueError(f"a value has {len(axes)} axes")
    shape = tuple(_size(axis.one(1).integer(1)) if axis.has(1) else None for axis in axes)
    return TypeInfo(shape, dtype)


Constant: TypeAlias = "tuple[tuple[int, ...], str, tuple[Any, ...] | None]"
"""Shape, dtype, and the elements if the constant is small."""


OF_ARGUMENT, OF_VALUE = (0x0A, 0x0A), (0x1A, 0x0A, 0x22, 0x0A)
"""Paths of tags for :meth:`Message.only_text`: to the name in an argument, and to the text in a constant."""


def _argument(argument: Message) -> list[str | Constant]:
    return [each.text(1) if each.has(1) else _constant(each.one(2)) for each in argument.all(1)]


def _constant(value: Message) -> Constant:
    """Return a constant, with its elements if it is small."""
    kind = value.cached(value.span(2), _type)
    shape = tuple(size or 0 for size in kind.shape or ())
    is_small = value.has(3) and prod(shape) <= MOST_VALUES
    return shape, kind.dtype, _elements(value.one(3).one(1), kind.dtype) if is_small else None


def _constant_value(shape: tuple[int, ...], dtype: str, data: tuple[Any, ...] | None) -> GraphValue:
    return GraphValue(shape, dtype, "", True, data)


def _elements(tensor: Message, dtype: str) -> tuple[Any, ...] | None:
    """Return the elements of a constant; None for encodings that no rule needs."""
    if tensor.has(3):
        return tuple(map(bool, tensor.one(3).integers(1)))
    for number in (2, 5):
        if tensor.has(number):
            return tuple(tensor.one(number).integers(1))
    for number, kind in ((1, "f"), (6, "d")):
        if tensor.has(number):
            return tuple(tensor.one(number).floats(1, kind))
    if tensor.has(4):
        return tuple(tensor.one(4).texts(1))
    return tuple(tensor.one(7).floats(1, PACKED[dtype])) if tensor.has(7) and dtype in PACKED else None
