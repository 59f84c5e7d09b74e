"""Nodes of every standard operator with other settings: those of ``onnx.backend.test``, some of them changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from onnx import AttributeProto, ModelProto, NodeProto, defs, helper, numpy_helper

RECURRENT = dict.fromkeys(("GRU", "LSTM", "RNN"), ("forward", "reverse", "bidirectional"))
SCATTERS = dict.fromkeys(("ScatterElements", "ScatterND"), ("none", "add", "mul", "max", "min"))
LOSSES = dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), ("none", "mean", "sum"))
WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "auto_pad": {"": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")},
    "padding_mode": {"": ("zeros", "border", "reflection")},
    "nearest_mode": {"": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")},
    "keep_aspect_ratio_policy": {"": ("stretch", "not_larger", "not_smaller")},
    "approximate": {"": ("none", "tanh")},
    "reduction": {**SCATTERS, **LOSSES},
    "direction": {**RECURRENT, "BitShift": ("LEFT", "RIGHT")},
    "coordinate_transformation_mode": {
        "Resize": ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
        "RoiAlign": ("half_pixel", "output_half_pixel"),
    },
    "mode": {
        "DepthToSpace": ("DCR", "CRD"),
        "GridSample": ("linear", "nearest", "cubic"),
        "Pad": ("constant", "edge", "reflect", "wrap"),
        "Resize": ("nearest", "linear", "cubic"),
        "RoiAlign": ("avg", "max"),
        "TfIdfVectorizer": ("TF", "IDF", "TFIDF"),
        "Upsample": ("nearest", "linear"),
    },
}
"""The words of an attribute by operator; under the empty text, those of all operators that have it."""

FIXED = frozenset(
    (
        *("hidden_size", "num_heads", "q_num_heads", "kv_num_heads", "max_gram_length", "min_gram_length"),
        *("QuantizeLinear.axis", "DequantizeLinear.axis"),
    )
)
"""Numbers that the inputs of a node must fit, or that are none of its settings."""

COUNTS = frozenset(("group", "groups", "p", "chunk_size", "num_outputs", "output_height", "output_width"))
"""Numbers that may be 1, and are no flags."""

TYPES = {"to": (1, 6, 7, 9, 10, 11), "dtype": (1, 10, 11), "output_dtype": (2, 3), "stash_type": (1,)}
"""Numbers of dtypes that attributes may name."""


class Case(NamedTuple):
    """A model of one node, with the arrays of its inputs.

    Attributes:
        name: what was changed.
        model: the model.
        inputs: the arrays by name.
        original: name of the model that was changed.
    """

    name: str
    model: ModelProto
    inputs: dict[str, Any]
    original: str


def originals() -> list[Case]:
    """The generated models of one node of the standard whose inputs are all arrays."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow and divide by zero on purpose
        cases = collect_testcases(None)
    found = []
    for case in cases:
        model, inputs = case.model, next(iter(case.data_sets))[0]
        nodes = model.graph.node
        if (
            len(nodes) != 1
            or nodes[0].domain
            or any(isinstance(array, (list, tuple)) or array is None for array in inputs)
        ):
            continue
        names = [entry.name for entry in model.graph.input]
        arrays = [numpy_helper.to_array(x) if hasattr(x, "dims") else x for x in inputs]
        found.append(Case(case.name, model, dict(zip(names, arrays, strict=False)), case.name))
    return found


def variants(cases: list[Case], count: int, random: Random) -> Iterator[Case]:
    """That many models, every operator as often, each a case with other attributes."""
    by_operator: dict[str, list[Case]] = {}
    for case in cases:
        by_operator.setdefault(case.model.graph.node[0].op_type, []).append(case)
    groups = [group for _, group in sorted(by_operator.items()) if _attributes(group[0])]
    for k in range(count):
        case = random.choice(groups[k % len(groups)])
        model = ModelProto()
        model.CopyFrom(case.model)
        node = model.graph.node[0]
        rank = max((len(getattr(x, "shape", ())) for x in case.inputs.values()), default=0)
        names = random.choices(_attributes(case), k=random.randint(1, 3))
        for name in dict.fromkeys(names):
            _change(node, _schema(case).attributes[name], rank, random)
        if any(a.name == "auto_pad" and b"SAME" in a.s for a in node.attribute):
            _drop(node, "dilations")  # ONNX Runtime pads less than the standard says then
        yield Case(f"{case.name}, {helper.printable_node(node)}", model, case.inputs, case.name)


def _schema(case: Case) -> Any:
    version = next(entry.version for entry in case.model.opset_import if not entry.domain)
    return defs.get_schema(case.model.graph.node[0].op_type, version, "")


def _attributes(case: Case) -> list[str]:
    """The attributes that can be changed."""
    kinds, op = defs.OpSchema.AttrType, case.model.graph.node[0].op_type
    return [
        name
        for name, attribute in sorted(_schema(case).attributes.items())
        if (attribute.type in (kinds.INT, kinds.INTS, kinds.FLOAT) and not FIXED & {name, f"{op}.{name}"})
        or (attribute.type == kinds.STRING and not WORDS.get(name, {}).keys().isdisjoint(("", op)))
    ]


def _change(node: NodeProto, attribute: Any, rank: int, random: Random) -> None:
    """Give an attribute of a node another value."""
    kinds, name = defs.OpSchema.AttrType, attribute.name
    old = next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), None)
    new: Any
    if attribute.type == kinds.STRING:
        words = WORDS[name]
        new = random.choice(words.get(node.op_type) or words[""])
    elif attribute.type == kinds.FLOAT:
        new = random.choice((0.0, 0.25, 0.5, 1.0, 2.0))
    elif attribute.type == kinds.INT:
        usual = helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else old
        if name == "axis":
            new = random.randrange(-rank, rank or 1)
        elif name in TYPES or (usual in (0, 1) and name not in COUNTS):
            new = random.choice(TYPES.get(name, (0, 1)))
        else:
            new = max((old or usual or 1) + random.choice((-1, 0, 1)), 1)
    elif old is not None:
        new = [max(d + random.choice((0, 0, 1, -1)), min(d, 0)) for d in old]
    elif name in ("axes", "perm"):
        new = random.sample(range(rank), rank if name == "perm" else random.randint(0, rank))
    else:
        lengths = {"pads": 2 * (rank - 2)}.get(name, rank - 2)
        new = [random.choice((1, 1, 2)) for _ in range(max(lengths, 0))]
    _drop(node, name)
    made = helper.make_attribute(name, new) if new != [] else AttributeProto(name=name, type=AttributeProto.INTS)
    node.attribute.append(made)


def _drop(node: NodeProto, name: str) -> None:
    """Remove an attribute of a node."""
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
