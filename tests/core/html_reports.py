"""Reports to make pages of, put together by hand: no framework and no calculator is involved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from costcore.ir import Cost, Layer, Operations, Tensor
from costcore.reports.report import Report
from costcore.trace.call import Assumption, Call, Module, Uncounted
from costcore.trace.run import Run
from costcore.trace.trace import CallCost, Trace

HOSTILE = (
    "</script><script>document.title='broken in'</script>",
    "<img src=x onerror=\"document.title='broken in'\">",
    "a&b &amp; \"quoted\" 'single' `tick` ${x}",
    "right\u202eot\u2066tfel \u05e9\u05dc\u05d5\u05dd",
    "<!--<script> ]]> \u2028 \x00 \ud800",
)
"""Names that break pages which trust them."""


def call(
    op: str,
    module: str,
    flops: Any,
    mread: Any,
    mwrite: Any,
    macs: Any = 0,
    parameters: tuple[int, ...] = (),
    **more: Any,
) -> CallCost:
    """A counted call, its amounts as given."""
    layer = Layer(op, {"x": Tensor((2, 3))}, [Tensor((2, 4))], more.pop("attrs", {}))
    made = Call(layer, f"{op}_type", f"toy::{op}", module=module, parameters=parameters, **more)
    return CallCost(made, Cost(Operations(add=flops), mread, mwrite, layer.attrs, macs))


def unknown(native: str, module: str, where: str = "") -> CallCost:
    """A call without a cost: reads 2 x 3 and writes 2 x 4 elements of four bytes."""
    layer = Layer(native, {"x": Tensor((2, 3))}, [Tensor((2, 4))])
    made = Call(layer, native.rpartition(":")[2], native, module=module, where=where)
    return CallCost(made, None, Uncounted.NO_CALCULATOR, Uncounted.NO_CALCULATOR.reason(native))


def report(priced: Iterable[CallCost], **run: Any) -> Report:
    """The report of those calls, which are named ``<type>-<n>`` unless they have names."""
    items = list(priced)
    for n, item in enumerate(items):
        if not item.call.name:
            items[n] = item._replace(call=item.call.named(f"{item.call.type}-{n}"))
    return Report(Trace(tuple(items), Run(**run)))


def small() -> Report:
    """A block of two calls and a head that shares the parameter of the first."""
    calls = [
        call("linear", "block.fc", 600, 100, 20, 590, (1,), attrs={"groups": 2}),
        call("relu", "block", 30, 20, 20),
        call("linear", "head", 2**60 + 1, 80, 28, 2**60, (1, 2)),
    ]
    modules = {"": Module("Net"), "block": Module("Block"), "block.fc": Module("Linear", (1,))}
    modules["head"] = Module("Linear", (1, 2), (2,))
    versions = {"toy": "7.1"}
    assumed = (Assumption("the mask is True", "net.py:12"),)
    return report(
        calls,
        parameters={1: 1000, 2: 24},
        n_params_model=1024,
        modules=modules,
        frameworks=versions,
        assumptions=assumed,
    )


def many(n: int = 10_000) -> Report:
    """``n`` calls, no two of them alike, in blocks of 50 and layers of 5."""
    ops = ("conv", "linear", "relu", "add", "softmax", "layer_norm", "attention", "copy", "gelu", "mul")

    def priced(i: int) -> CallCost:
        flops = 0 if i % 10 == 7 else (i % 97 + 1) * 1000 * (i + 1)
        return call(
            ops[i % 10], f"blocks.{i // 50}.layers.{i // 5 % 10}", flops, 400 * (i % 89 + 1), 40 * (i + 1), flops, (i,)
        )

    return report((priced(i) for i in range(n)), parameters={i: i + 1 for i in range(n)})


def hostile() -> Report:
    """Every word that a model chooses is one of :data:`HOSTILE`."""
    calls = [
        call(name, name.replace(".", "_"), 10, 4, 4, attrs={name: name}, name=name, where=name, phase=name)
        for name in HOSTILE
    ]
    calls += [unknown(name, name.replace(".", "_"), name) for name in HOSTILE]
    assumed = tuple(Assumption(name, name) for name in HOSTILE)
    modules = {"": Module(HOSTILE[0]), **{name.replace(".", "_"): Module(name, same_as=name) for name in HOSTILE}}
    frameworks = {name: name for name in HOSTILE}
    return report(calls, assumptions=assumed, notes=HOSTILE, modules=modules, frameworks=frameworks)
