"""Stored tensors that only configure: initial states and quantization scales, also behind operators that move them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..graph.topological_sort import inner_graphs, values_read
from ..values.value import DTYPES
from .quantized_inputs import NARROW, QUANTIZED_INPUTS

STATES: Mapping[str, Collection[int]] = {
    "GRU": (5,),
    "RNN": (5,),
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), (5, 6)),
    "CausalConvWithState": (3,),
    "LinearAttention": (3,),
}
"""Positions of inputs that are initial states, by operator."""

SCALES: Mapping[str, Collection[int]] = {
    "BatchNormalization": (3, 4),
    "Resize": (1, 2),
    "Upsample": (1,),
    **{op: constants for op, (_, constants) in QUANTIZED_INPUTS.items() if constants},
}
"""Positions of inputs that are scales, regions, zero points, running means and variances, by operator."""

MOVES = frozenset(
    (
        *("Cast", "Expand", "Flatten", "Identity", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Tile"),
        *("Transpose", "Unsqueeze"),
    )
)
"""Operators whose outputs have the elements of their first input."""

PRODUCTS = frozenset(("MatMulInteger", "ConvInteger", "MatMulInteger16"))
"""Operators whose outputs are sums of products of integers, which a scale turns into numbers."""

OFFSETS = frozenset(("Add", "Sub"))
"""Operators that shift integers by a zero point."""

INTEGERS = frozenset(number for number, dtype in DTYPES.items() if dtype in NARROW)
"""``TensorProto.DataType`` of stored quantized values."""


def configuring(graph: Any) -> Mapping[str, bool]:
    """Return the values of a graph (``GraphProto``) that every reader uses as an initial state, a scale or a statistic.

    An initial state may be expanded to the batch before a recurrent layer reads it. A scale may be multiplied with
    another one, with products of integers, or with stored integers that were cast.

    Returns:
        By name, whether a module may have learned the value, as it may have learned an initial state.
    """
    nodes = graph.node
    stored = [tensor.name for tensor in graph.initializer if tensor.data_type in INTEGERS]
    operators = {node.op_type for node in nodes}
    found: dict[str, bool] = {}
    if not operators.isdisjoint(STATES):
        found.update(dict.fromkeys(_read_only_as(STATES, (), frozenset(), graph), True))
    if stored or not operators.isdisjoint((*SCALES, *PRODUCTS, "DynamicQuantizeLinear")):
        found.update(dict.fromkeys(_read_only_as(SCALES, ("Mul", "Div"), _quantized(nodes, stored), graph), False))
    return found


def _quantized(nodes: Iterable[Any], stored: Iterable[str]) -> frozenset[str]:
    """Return the names of integers to which a scale belongs, and of scales that the run computes."""
    readers: dict[str, list[Any]] = {}
    products, scales = [*stored], list[str]()
    for node in nodes:
        op = node.op_type
        if op in MOVES or op in OFFSETS or op == "Mul":
            for name in node.input:
                readers.setdefault(name, []).append(node)
        elif op in PRODUCTS:
            products += node.output[:1]
        elif op == "DynamicQuantizeLinear":
            scales += node.output[1:2]
    integers = _spread(products, readers, lambda node: node.op_type != "Mul")
    return frozenset(
        integers
        | _spread(scales, readers, lambda node: node.op_type not in OFFSETS and integers.isdisjoint(node.input))
    )


def _spread(names: Iterable[str], readers: Mapping[str, list[Any]], passes: Callable[[Any], bool]) -> set[str]:
    """Return the names, and those of all values made of them by nodes that pass them on."""
    waiting = [*names]
    found = {*waiting}
    while waiting:
        name = waiting.pop()
        for node in readers.get(name, ()):
            if passes(node) and (node.op_type not in MOVES or node.input[0] == name):
                new = [output for output in node.output if output not in found]
                found.update(new)
                waiting += new
    return found


def _read_only_as(
    positions: Mapping[str, Collection[int]], through: Collection[str], quantized: frozenset[str], graph: Any
) -> set[str]:
    """Return the names of values whose every reader uses them at one of ``positions``, or only passes them on to such.

    Args:
        positions: positions of inputs by operator.
        through: operators that pass on what all their inputs are, besides those that move elements.
        quantized: values with which a product is read as a scale.
        graph: the ``GraphProto``.
    """
    passed: dict[str, list[str]] = {}
    wanted: set[str] = set()
    others = {output.name for output in graph.output}
    for node in graph.node:
        op, given = node.op_type, node.input
        if op in positions:
            at = positions[op]
            wanted.update(name for i, name in enumerate(given) if i in at)
            others.update(name for i, name in enumerate(given) if i not in at)
        elif op == "Mul" and not quantized.isdisjoint(given):
            wanted.update(given)
        elif op in MOVES or op in through or op == "Concat":
            count = 1 if op in MOVES else len(given)
            others.update(given[count:])
            for output in node.output:
                passed.setdefault(output, []).extend(given[:count])
        else:
            others.update(given if not inner_graphs(node) else values_read(node))
    return _with_passed(wanted, passed) - _with_passed(others, passed)


def _with_passed(names: set[str], passed: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the names, and those of the values that they were made of."""
    found, waiting = {*names}, [*names]
    while waiting:
        new = [name for name in passed.get(waiting.pop(), ()) if name not in found]
        found.update(new)
        waiting += new
    return found
