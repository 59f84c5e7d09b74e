"""Damaged models: bytes cut and flipped, and graphs changed in ways that still parse; deterministic for a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, defs, helper

OPERATORS = sorted({schema.name for schema in defs.get_all_schemas() if not schema.domain})
"""Operators that others are replaced by."""

NUMBERS = (0, 1, -1, 2, 3, 7, -2, 255, 1 << 31, -(1 << 31), (1 << 62), -(1 << 63), (1 << 63) - 1)
"""Numbers that attributes, dimensions and elements are replaced by."""

FLOATS = (0.0, -1.0, 0.5, 2.0, 1e30, float("inf"), float("-inf"), float("nan"))


def cut(content: bytes, random: Random) -> bytes:
    """Truncated."""
    return content[: random.randrange(len(content))]


def flipped(content: bytes, random: Random) -> bytes:
    """With a few bytes changed, removed or doubled."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 8)):
        at, kind = random.randrange(len(changed)), random.randrange(4)
        if kind == 0:
            del changed[at]
        elif kind == 1:
            changed.insert(at, random.randrange(256))
        else:
            changed[at] = random.choice((random.randrange(256), changed[at] ^ (1 << random.randrange(8)), 0, 255))
    return bytes(changed)


def rebuilt(content: bytes, random: Random) -> bytes:
    """Parsed, changed in one to four places, and serialised."""
    model = ModelProto.FromString(content)
    for _ in range(random.randint(1, 4)):
        if _nodes(model):  # the change before may have removed them all
            random.choice(CHANGES)(model, random)
    serialised: bytes = model.SerializeToString()
    return serialised


MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (cut, flipped, rebuilt, rebuilt, rebuilt)


def _nodes(model: ModelProto) -> list[NodeProto]:
    graphs = [model.graph]
    found: list[NodeProto] = [node for function in model.functions for node in function.node]
    while graphs:
        for node in graphs.pop().node:
            found.append(node)
            graphs += [a.g for a in node.attribute if a.HasField("g")]
    return found


def _names(model: ModelProto) -> list[str]:
    made = [name for node in _nodes(model) for name in (*node.input, *node.output)]
    return ["", "no such value", *dict.fromkeys(made)]


def _operator(model: ModelProto, random: Random) -> None:
    random.choice(_nodes(model)).op_type = random.choice(OPERATORS)


def _domain(model: ModelProto, random: Random) -> None:
    random.choice(_nodes(model)).domain = random.choice(("", "ai.onnx", "com.microsoft", "local", "x" * 50))


def _input(model: ModelProto, random: Random) -> None:
    node = random.choice(_nodes(model))
    if not node.input or random.random() < 0.3:
        node.input.append(random.choice(_names(model)))
    elif random.random() < 0.4:
        del node.input[random.randrange(len(node.input))]
    else:
        node.input[random.randrange(len(node.input))] = random.choice(_names(model))


def _output(model: ModelProto, random: Random) -> None:
    node = random.choice(_nodes(model))
    if not node.output or random.random() < 0.3:
        node.output.append(random.choice((*_names(model), f"new{random.randrange(99)}")))
    else:
        node.output[random.randrange(len(node.output))] = random.choice(_names(model))


def _attribute(model: ModelProto, random: Random) -> None:
    node = random.choice(_nodes(model))
    schemas = [s for s in defs.get_all_schemas() if s.name == node.op_type and not s.domain]
    names = [*(a.name for a in node.attribute), *(schemas[0].attributes if schemas else ()), "axis"]
    name = random.choice(names)
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if random.random() < 0.2:
        return
    made: Any = random.choice(
        (
            random.choice(NUMBERS),
            [random.choice(NUMBERS) for _ in range(random.randrange(5))],
            random.choice(FLOATS),
            [random.choice(FLOATS) for _ in range(random.randrange(1, 4))],
            random.choice(("SAME_UPPER", "SAME_LOWER", "linear", "ij,jk->ik", "...->", "\udcff", "")),
            helper.make_tensor("", TensorProto.INT64, (2,), [random.choice(NUMBERS) for _ in range(2)]),
        )
    )
    if made == "\udcff":
        node.attribute.add(name=name, type=AttributeProto.STRING, s=b"\xff\xfe")
    elif made == []:
        node.attribute.add(name=name, type=AttributeProto.INTS)
    else:
        node.attribute.append(helper.make_attribute(name, made))
    if random.random() < 0.1:
        node.attribute[-1].type = random.randrange(15)


def _dimension(model: ModelProto, random: Random) -> None:
    entries = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    dims = [d for entry in entries for d in entry.type.tensor_type.shape.dim]
    if not dims:
        return
    chosen = random.choice(dims)
    if random.random() < 0.3:
        chosen.dim_param = random.choice(("n", "batch", "", "a b", "1"))
    else:
        chosen.dim_value = random.choice(NUMBERS)


def _entry(model: ModelProto, random: Random) -> None:
    entries = random.choice((model.graph.input, model.graph.output))
    if not entries:
        return
    entry = random.choice(entries)
    kind = random.randrange(4)
    if kind == 0:
        entry.type.tensor_type.elem_type = random.choice((*range(28), 999))
    elif kind == 1:
        entry.type.tensor_type.ClearField("shape")
    elif kind == 2:
        entry.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    else:
        entry.name = random.choice(_names(model))


def _stored(model: ModelProto, random: Random) -> None:
    tensors = [*model.graph.initializer, *(a.t for n in _nodes(model) for a in n.attribute if a.HasField("t"))]
    if not tensors:
        return
    tensor, kind = random.choice(tensors), random.randrange(6)
    if kind == 0:
        tensor.dims.append(random.choice(NUMBERS))
    elif kind == 1 and tensor.dims:
        tensor.dims[random.randrange(len(tensor.dims))] = random.choice(NUMBERS)
    elif kind == 2:
        tensor.data_type = random.choice((*range(28), 999))
    elif kind == 3:
        tensor.raw_data = random.randbytes(random.randrange(40))
    elif kind == 4:
        del tensor.int64_data[:]
        tensor.int64_data.extend(random.choice(NUMBERS) for _ in range(random.randrange(5)))
    else:
        tensor.name = random.choice(_names(model))


def _version(model: ModelProto, random: Random) -> None:
    if model.opset_import and random.random() < 0.8:
        model.opset_import[0].version = random.choice((*range(1, 29), 0, -1, 9999))
    elif random.random() < 0.5:
        del model.opset_import[:]
    else:
        model.opset_import.add(domain=random.choice(("", "com.microsoft")), version=random.randrange(30))


def _order(model: ModelProto, random: Random) -> None:
    nodes = list(model.graph.node)
    random.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _removed(model: ModelProto, random: Random) -> None:
    part = random.choice((model.graph.node, model.graph.initializer, model.graph.input, model.graph.output))
    if part:
        del part[random.randrange(len(part))]


def _doubled(model: ModelProto, random: Random) -> None:
    part: Any = random.choice((model.graph.node, model.graph.initializer, model.graph.input, model.functions))
    if part:
        part.append(random.choice(part))


def _call(model: ModelProto, random: Random) -> None:
    if model.functions:
        node, function = random.choice(_nodes(model)), random.choice(model.functions)
        node.domain, node.op_type = function.domain, function.name


CHANGES: tuple[Callable[[ModelProto, Random], None], ...] = (
    *(_operator, _operator, _input, _input, _output, _attribute, _attribute, _attribute, _dimension, _entry),
    *(_stored, _stored, _domain, _version, _order, _removed, _doubled, _call),
)
