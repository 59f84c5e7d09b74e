"""Count by calls of modules: parameters times the size of what a module returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from costcore.analyses.conventions.expression import Expression
from costcore.analyses.conventions.modules import ModuleIndex
from costcore.ir import prod
from costcore.numbers.dims import Dim
from costcore.trace.trace import Trace

NAMES: Mapping[str, str] = {
    "N": "first dimension of what the module returns",
    "positions": "product of its dimensions behind the second",
    "first_two": "product of its first two dimensions",
    "named": "elements of the module's own parameters called weight or bias",
    "partly_named": "elements of those with weight or bias in a longer name",
}
"""What the rules for calls of modules can name."""


def count_module_calls(
    trace: Trace, modules: ModuleIndex, rules: Mapping[str, Expression]
) -> Iterator[tuple[int | None, str, str, Dim]]:
    """Yield position of a call, rule, expression and amount for each call of a module without children.

    Rules have ``*`` or a part of the class name between ``*`` as key; the first that matches decides.
    """
    for path, shape, position in _module_calls(trace, modules):
        module = modules.get(path)
        if module is None or not module.own or not shape or not modules.is_leaf(path):
            continue
        values = _values(module.own, shape)
        for key, expression in rules.items():
            if key.strip("*") in module.type:
                yield position, key, expression.text, expression(values.__getitem__)
                break


def _values(own: tuple[tuple[str, Dim], ...], shape: tuple[Dim, ...]) -> dict[str, Dim]:
    named = [size for name, size in own if name in ("weight", "bias")]
    others = [size for name, size in own if name not in ("weight", "bias") and ("weight" in name or "bias" in name)]
    return {
        "N": shape[0],
        "positions": prod(shape[2:]),
        "first_two": prod(shape[:2]),
        "named": sum(named),
        "partly_named": sum(others),
    }


def _module_calls(trace: Trace, modules: ModuleIndex) -> Iterator[tuple[str, tuple[Dim, ...], int | None]]:
    """Yield path, shape of the first result and the position of the last operator of every call of a module."""
    if trace.run.module_calls:
        last = {record.call.module_call: position for position, record in enumerate(trace.records)}
        for number, call in enumerate(trace.run.module_calls, 1):
            if call.outputs:
                yield call.module, call.outputs[0], last.get(number)
        return
    path = None
    for position, record in enumerate(trace.records):
        following = trace.records[position + 1].call if position + 1 < len(trace.records) else None
        path = record.call.module
        if (
            record.call.phase == "forward"
            and record.call.layer.outputs
            and (following is None or following.module != path)
        ):
            yield path, record.call.layer.out.shape, position
