"""Signatures of operators from onnx's schemas, in all versions, and further constraints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from onnx import AttributeProto, defs
from onnx import __version__ as onnx_version

from costcore.numbers import is_symbolic

from .values import Shape, Value

# Signatures, by opset version


ONNX = "ai.onnx"
"""Name of the default domain, which models write as an empty string."""

NEWEST_VERSION = 1 << 30
"""A version above all versions of schemas: it selects the newest schema of an operator."""


class Signature(NamedTuple):
    """Inputs and attributes of an operator.

    Attributes:
        since: version of the domain that introduced the schema.
        inputs: names of the inputs, and whether each is variadic.
        defaults: default values of attributes, by name.
        schema: the schema itself; None for an operator of ONNX Runtime.
        types: types of attributes, by name.
        required: names of the attributes that must be given.
        least: number of leading inputs that must be given.
        tensors_only: whether all inputs are tensors, not sequences, maps or optionals.
        makes_tensors: whether all outputs are tensors.
    """

    since: int
    inputs: tuple[tuple[str, bool], ...]
    defaults: Mapping[str, Any]
    schema: Any
    types: Mapping[str, int] = MappingProxyType({})
    required: frozenset[str] = frozenset()
    least: int = 0
    tensors_only: bool = False
    makes_tensors: bool = False


@lru_cache(maxsize=1 << 12)
def schema_signature(domain: str, op: str, version: int) -> Signature | None:
    """Return the signature of an operator in the given version of its domain; None if onnx has no schema of it.

    For an operator newer than ``version``, it is the signature of the newest schema.
    """
    if domain == ONNX and (known := stored_signatures(op)):
        return next((each for each in known if each.since <= version), known[0])
    schema = _schema(op, version, "" if domain == ONNX else domain)
    return None if schema is None else signature_of(schema)


def signature_of(schema: Any) -> Signature:
    """Return the signature of an onnx schema."""
    single, variadic = defs.OpSchema.FormalParameterOption.Single, defs.OpSchema.FormalParameterOption.Variadic
    return Signature(
        schema.since_version,
        tuple((formal.name, formal.option == variadic) for formal in schema.inputs),
        {name: attribute_value(a.default_value) for name, a in schema.attributes.items() if a.default_value.type},
        schema,
        {name: int(a.type.value) for name, a in schema.attributes.items()},
        frozenset(name for name, a in schema.attributes.items() if a.required),
        next((i for i, f in enumerate(schema.inputs) if f.option != single), len(schema.inputs)),
        all(kind.startswith("tensor") for formal in schema.inputs for kind in formal.types),
        all(kind.startswith("tensor") for formal in schema.outputs for kind in formal.types),
    )


# The first look-up of a schema registers all schemas of onnx, which takes as long as reading a small model. So the
# signatures of the default domain are also stored in a file, written by ``python tools/make_onnx_signatures.py``. The
# file is used only with the onnx release that it was written for.

STORED = Path(__file__).with_name("signatures.txt")
"""The release of onnx, and a line per operator: its name, and its signatures as JSON, newest first."""


class LazySchema:
    """An onnx schema that is looked up when an attribute is read."""

    __slots__ = ("_name", "_version")

    def __init__(self, name: str, version: int) -> None:
        self._name, self._version = name, version

    def __getattr__(self, attribute: str) -> Any:
        return getattr(defs.get_schema(self._name, self._version, ""), attribute)


@cache
def _stored() -> tuple[str, Mapping[str, str]]:
    release, *lines = STORED.read_text(encoding="utf-8").splitlines()
    return release, {name: text for name, _, text in (line.partition(" ") for line in lines)}


@lru_cache(maxsize=1 << 10)
def stored_signatures(op: str) -> Sequence[Signature]:
    """Return the stored signatures of an operator of the default domain, newest first; () if there are none."""
    release, signatures = _stored()
    if release != onnx_version or op not in signatures:
        return ()
    return [_restored(op, *each) for each in json.loads(signatures[op])]


def _restored(
    op: str, since: int, inputs: Any, defaults: Any, types: Any, required: Any, least: int, flags: Sequence[int]
) -> Signature:
    return Signature(
        since,
        tuple((name, bool(is_variadic)) for name, is_variadic in inputs),
        {name: tuple(value) if isinstance(value, list) else value for name, value in defaults.items()},
        LazySchema(op, since),
        types,
        frozenset(required),
        least,
        *map(bool, flags),
    )


def text_of(signatures: Sequence[Signature]) -> str:
    """Return the stored text for the signatures of an operator, newest first."""
    rows = [
        [
            each.since,
            [[name, int(is_variadic)] for name, is_variadic in each.inputs],
            dict(each.defaults),
            dict(each.types),
            sorted(each.required),
            each.least,
            [int(each.tensors_only), int(each.makes_tensors)],
        ]
        for each in signatures
    ]
    return json.dumps(rows, separators=(",", ":"))


def _schema(op: str, version: int, domain: str) -> Any:
    # Fall back to the newest schema: an operator may be newer than the version that the model imports.
    for where in ((version, domain), (domain,)):
        try:
            return defs.get_schema(op, *where)
        except defs.SchemaError:
            continue
    return None


def attribute_value(attribute: Any) -> Any:
    """Convert an attribute to a number, a string or a tuple of these; tensors and graphs stay unchanged."""
    kind = attribute.type
    if kind == AttributeProto.FLOAT:
        return float(f"{attribute.f:.7g}")  # a decimal with float32 precision
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == AttributeProto.STRINGS:
        return tuple(s.decode("utf-8", "replace") for s in attribute.strings)
    if kind == AttributeProto.FLOATS:
        return tuple(float(f"{f:.7g}") for f in attribute.floats)
    name = _FIELDS.get(kind)
    if name is None:
        return None
    value = getattr(attribute, name)
    return tuple(value) if name.endswith("s") else value


_FIELDS = {
    AttributeProto.INT: "i",
    AttributeProto.INTS: "ints",
    AttributeProto.TENSOR: "t",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPH: "g",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
}


@lru_cache(maxsize=1 << 12)
def types_of_any_version(op: str) -> Mapping[str, set[int]]:
    """Return the types that each attribute of an operator (full name) has in any version."""
    found: dict[str, set[int]] = {}
    for signature in _versions(op):
        for name, kind in signature.types.items():
            found.setdefault(name, set()).add(kind)
    return found


def arguments_of_schemas(op: str) -> frozenset[str]:
    """Return the names of the inputs and attributes of an operator (full name) in all versions of its schema."""
    inputs = {name for signature in _versions(op) for name, _ in signature.inputs}
    return frozenset({*inputs, *types_of_any_version(op)} if inputs else ())


def _versions(op: str) -> Iterator[Signature]:
    # Listing the schemas of all operators would take longer than the report of a small model.
    domain, _, name = op.partition("::")
    if domain == ONNX and (known := stored_signatures(name)):
        yield from known
        return
    version = NEWEST_VERSION
    while True:
        try:
            schema = defs.get_schema(name, version, "" if domain == ONNX else domain)
        except defs.SchemaError:
            return
        yield signature_of(schema)
        version = schema.since_version - 1


def type_name(kind: int) -> str:
    """Return the name of an attribute type."""
    return str(AttributeProto.AttributeType.Name(kind)) if kind in AttributeProto.AttributeType.values() else str(kind)


# Constraints: values of attributes, ranks of operands
#
# Source: the operators' documentation in the onnx package, all versions together. A shape rule checks its own
# preconditions.


ANY = 1 << 20
"""The maximum rank of an operand without a limit."""

Ranks = tuple[int, int]
"""Minimum and maximum rank."""


@dataclass(frozen=True)
class Constraints:
    """Constraints of one operator.

    Attributes:
        choices: supported values of string attributes, by name.
        minimums: the minimum of attributes, or of known elements of operands, by name.
        maximums: the maximum of attributes, by name, to limit the number of terms in a formula.
        ranks: ranks of operands, by name.
        required: attributes that must be given, if the operator has no schema.
        same_rank: operands that must have the same rank.
        one_element: operands that must have one element.
        groups: the attribute with the number of groups, which must divide the channels of ``X``.
    """

    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    minimums: Mapping[str, int] = field(default_factory=dict)
    maximums: Mapping[str, int] = field(default_factory=dict)
    ranks: Mapping[str, Ranks] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    same_rank: tuple[str, ...] = ()
    one_element: tuple[str, ...] = ()
    groups: str = ""

    def check(self, args: Mapping[str, Any], error: Callable[[str], Exception]) -> None:
        """Check that arguments are supported.

        Args:
            args: inputs and attributes of a node, by name.
            error: returns the exception for a text that follows the node's name.

        Raises:
            CostError: if one is not; the message has the node, the argument and the expected value.
        """
        for name in self.required:
            if name not in args:
                raise error(f"lacks the required attribute {name!r}")
        for name, choices in self.choices.items():
            if name in args and args[name] not in choices:
                raise error(f"has the {name} {_shown(args[name])} (expected one of {', '.join(map(repr, choices))})")
        for name, least in self.minimums.items():
            for number in _numbers(args.get(name)):
                if not is_symbolic(number) and not (isinstance(number, (int, float)) and number >= least):
                    raise error(f"has {name} {_shown(number)} (expected {least} or more)")
        for name, most in self.maximums.items():
            for number in _numbers(args.get(name)):
                if isinstance(number, (int, float)) and number > most:
                    raise error(f"has {name} {_shown(number)} (expected {most} or less)")
        for name, shape in _shapes(args, self.ranks):
            fewest, most = self.ranks[name]
            if not fewest <= len(shape) <= most:
                raise error(f"has the input {name} of shape {shape} (expected {_rank_range(fewest, most)} dimensions)")
        for name, shape in _shapes(args, self.one_element):
            if any(d != 1 and not is_symbolic(d) for d in shape):
                raise error(f"has the input {name} of shape {shape} (expected one element)")
        for _, shape in _shapes(args, ("X",) if self.groups else ()):
            count, channels = args[self.groups], shape[-1 if args.get("channels_last", 0) else 1]
            if not is_symbolic(channels) and channels % count:
                raise error(f"has {self.groups} {count}, which does not divide the {channels} channels of {shape}")
        shapes = dict(_shapes(args, self.same_rank))
        if len({len(shape) for shape in shapes.values()}) > 1:
            found = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
            raise error(f"has the inputs {found} (expected the same rank)")


def _shapes(args: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[str, Shape]]:
    for name in names:
        value = args.get(name)
        if isinstance(value, Value) and value.shape is not None:
            yield name, value.shape


def _numbers(argument: Any) -> tuple[Any, ...]:
    if isinstance(argument, Value):
        return () if argument.data is None else tuple(argument.data.flat)
    return argument if isinstance(argument, tuple) else () if argument is None else (argument,)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, str)) else "of another type"


def _rank_range(fewest: int, most: int) -> str:
    return f"{fewest}" if fewest == most else f"{fewest} or more" if most == ANY else f"{fewest} to {most}"


_RECURRENT = Constraints(
    choices={"direction": ("forward", "reverse", "bidirectional")},
    minimums={"hidden_size": 1},
    ranks={"X": (3, 3), "W": (3, 3), "R": (3, 3), "B": (2, 2)},
)


PADDING = {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")}

POST_TRANSFORM = {"post_transform": ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")}

KERNELS = {"kernel_type": ("LINEAR", "POLY", "RBF", "SIGMOID")}

LOSS = {"reduction": ("none", "sum", "mean")}

GRID = {
    "mode": ("linear", "nearest", "cubic", "bilinear", "bicubic"),
    "padding_mode": ("zeros", "border", "reflection"),
}

SCATTER = {"reduction": ("none", "add", "mul", "max", "min")}

_STANDARD: Mapping[str, Constraints] = {
    **dict.fromkeys(
        ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "AveragePool", "MaxPool"), Constraints(choices=PADDING)
    ),
    "LpPool": Constraints(choices=PADDING, minimums={"p": 1}),
    "GlobalLpPool": Constraints(minimums={"p": 1}),
    "LpNormalization": Constraints(minimums={"p": 1}, ranks={"input": (1, ANY)}),
    "LRN": Constraints(minimums={"size": 1}, ranks={"X": (2, ANY)}),
    "GroupNormalization": Constraints(
        minimums={"num_groups": 1},
        ranks={"X": (2, ANY), "scale": (1, 1), "bias": (1, 1)},
        groups="num_groups",
    ),
    "InstanceNormalization": Constraints(ranks={"input": (3, ANY), "scale": (1, 1), "B": (1, 1)}),
    "MaxRoiPool": Constraints(minimums={"pooled_shape": 1}, ranks={"X": (4, 4), "rois": (2, 2)}),
    "RoiAlign": Constraints(
        choices={"mode": ("avg", "max"), "coordinate_transformation_mode": ("half_pixel", "output_half_pixel")},
        minimums={"output_height": 1, "output_width": 1, "sampling_ratio": 0},
        ranks={"X": (4, 4), "rois": (2, 2), "batch_indices": (1, 1)},
    ),
    "MaxUnpool": Constraints(minimums={"output_shape": 0}, ranks={"X": (3, ANY)}, same_rank=("X", "I")),
    "Col2Im": Constraints(
        minimums={"image_shape": 1, "block_shape": 1, "dilations": 1, "strides": 1, "pads": 0},
        ranks={"input": (3, 3), "image_shape": (1, 1), "block_shape": (1, 1)},
    ),
    "GridSample": Constraints(
        choices=GRID,
        ranks={"X": (3, ANY), "grid": (3, ANY)},
        same_rank=("X", "grid"),
    ),
    "AffineGrid": Constraints(minimums={"size": 1}, ranks={"theta": (3, 3), "size": (1, 1)}),
    "Pad": Constraints(choices={"mode": ("constant", "reflect", "edge", "wrap")}),
    "Tile": Constraints(minimums={"repeats": 0}),
    "SplitToSequence": Constraints(minimums={"split": 0}),
    "Split": Constraints(minimums={"split": 0, "num_outputs": 1}),
    "CenterCropPad": Constraints(minimums={"shape": 0}),
    "Upsample": Constraints(choices={"mode": ("nearest", "linear", "bilinear")}),
    "DepthToSpace": Constraints(choices={"mode": ("DCR", "CRD")}, minimums={"blocksize": 1}, ranks={"input": (4, 4)}),
    "SpaceToDepth": Constraints(choices={"mode": ("DCR", "CRD")}, minimums={"blocksize": 1}, ranks={"input": (4, 4)}),
    "ScatterElements": Constraints(choices=SCATTER),
    "ScatterND": Constraints(choices=SCATTER, ranks={"data": (1, ANY), "indices": (1, ANY)}),
    "GatherND": Constraints(minimums={"batch_dims": 0}, ranks={"data": (1, ANY), "indices": (1, ANY)}),
    "TensorScatter": Constraints(choices={"mode": ("linear", "circular")}),
    "OneHot": Constraints(minimums={"depth": 0}, ranks={"values": (1, 1)}, one_element=("depth",)),
    "Range": Constraints(one_element=("start", "limit", "delta")),
    "If": Constraints(one_element=("cond",)),
    "Loop": Constraints(one_element=("M", "cond")),
    **dict.fromkeys(("CumSum", "CumProd"), Constraints(one_element=("axis",))),
    "TopK": Constraints(one_element=("K",)),
    "BitShift": Constraints(choices={"direction": ("LEFT", "RIGHT")}),
    "ImageDecoder": Constraints(choices={"pixel_format": ("RGB", "BGR", "Grayscale")}),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _RECURRENT),
    "Attention": Constraints(
        minimums={"q_num_heads": 1, "kv_num_heads": 1},
        ranks={"Q": (3, 4), "past_key": (4, 4), "past_value": (4, 4)},
        same_rank=("Q", "K", "V"),
    ),
    "LinearAttention": Constraints(
        choices={"update_rule": ("linear", "gated", "delta", "gated_delta")},
        minimums={"q_num_heads": 1, "kv_num_heads": 1, "chunk_size": 1},
        ranks={"query": (3, 3), "key": (3, 3), "value": (3, 3), "past_state": (4, 4)},
    ),
    "CausalConvWithState": Constraints(
        choices={"activation": ("none", "silu", "swish")}, ranks={"input": (3, 3), "weight": (3, 3)}
    ),
    "RotaryEmbedding": Constraints(
        minimums={"num_heads": 0, "rotary_embedding_dim": 0},
        ranks={"X": (3, 4), "cos_cache": (2, 3), "sin_cache": (2, 3), "position_ids": (2, 2)},
    ),
    "NegativeLogLikelihoodLoss": Constraints(choices=LOSS, ranks={"input": (2, ANY), "target": (1, ANY)}),
    "SoftmaxCrossEntropyLoss": Constraints(choices=LOSS, ranks={"scores": (2, ANY), "labels": (1, ANY)}),
    "NonMaxSuppression": Constraints(ranks={"boxes": (3, 3), "scores": (3, 3)}),
    "DFT": Constraints(ranks={"input": (2, ANY)}),
    "STFT": Constraints(minimums={"frame_step": 1, "frame_length": 1}, ranks={"signal": (2, 3), "window": (1, 1)}),
    "Trilu": Constraints(ranks={"input": (2, ANY)}, one_element=("k",)),
    "Multinomial": Constraints(minimums={"sample_size": 1}, ranks={"input": (2, 2)}),
    **dict.fromkeys(
        ("RandomNormal", "RandomUniform", "ConstantOfShape"), Constraints(minimums={"shape": 0, "input": 0})
    ),
    **dict.fromkeys(
        ("BlackmanWindow", "HammingWindow", "HannWindow"), Constraints(minimums={"size": 0}, one_element=("size",))
    ),
    "StringNormalizer": Constraints(choices={"case_change_action": ("LOWER", "UPPER", "NONE")}, ranks={"X": (1, 2)}),
    "TfIdfVectorizer": Constraints(
        choices={"mode": ("TF", "IDF", "TFIDF")},
        minimums={"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_indexes": 0},
        ranks={"X": (1, 2)},
    ),
}

_CLASSICAL: Mapping[str, Constraints] = {
    "CastMap": Constraints(choices={"map_form": ("DENSE", "SPARSE"), "cast_to": ("TO_FLOAT", "TO_STRING", "TO_INT64")}),
    "Normalizer": Constraints(choices={"norm": ("MAX", "L1", "L2")}),
    **dict.fromkeys(("LinearClassifier", "TreeEnsembleClassifier"), Constraints(choices=POST_TRANSFORM)),
    "LinearRegressor": Constraints(choices=POST_TRANSFORM, minimums={"targets": 1}),
    **dict.fromkeys(("SVMClassifier", "SVMRegressor"), Constraints(choices={**POST_TRANSFORM, **KERNELS})),
    "TreeEnsembleRegressor": Constraints(
        choices={**POST_TRANSFORM, "aggregate_function": ("AVERAGE", "SUM", "MIN", "MAX")}
    ),
}

CONSTRAINTS: Mapping[str, Constraints] = {
    **{f"ai.onnx::{op}": found for op, found in _STANDARD.items()},
    **{f"ai.onnx.ml::{op}": found for op, found in _CLASSICAL.items()},
    "ai.onnx.preview::FlexAttention": Constraints(ranks={"Q": (4, 4), "K": (4, 4), "V": (4, 4)}),
    "ai.onnx.preview.training::Momentum": Constraints(choices={"mode": ("standard", "nesterov")}),
}
"""Constraints by full operator name."""
