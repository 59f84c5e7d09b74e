"""Reports for tests of HTML pages, built by hand without frameworks and calculators."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from costcore import Report, Trace
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.traces import DECLARED, Assumption, Block, Call, CallCost, MemoryLedger, Module, Run, Uncounted

HOSTILE = (
    "</script><script>document.title='broken in'</script>",
    "<img src=x onerror=\"document.title='broken in'\">",
    "a&b &amp; \"quoted\" 'single' `tick` ${x}",
    "right\u202eot\u2066tfel \u05e9\u05dc\u05d5\u05dd",
    "<!--<script> ]]> \u2028 \x00 \ud800",
)
"""Names that break pages without escaping."""


def call(
    op: str,
    module: str,
    flops: Any,
    mread: Any,
    mwrite: Any,
    macs: Any = 0,
    parameters: tuple[int, ...] = (),
    **fields: Any,
) -> CallCost:
    """Return a counted call with these amounts."""
    layer = Layer(op, {"x": Tensor((2, 3))}, [Tensor((2, 4))], fields.pop("attrs", {}))
    recorded = Call(layer, f"{op}_type", f"toy::{op}", module=module, parameters=parameters, **fields)
    return CallCost(recorded, Cost(Operations(add=flops), mread, mwrite, layer.attrs, macs))


def unknown(native: str, module: str, where: str = "") -> CallCost:
    """Return a call without a cost that reads 2 x 3 and writes 2 x 4 elements of four bytes."""
    layer = Layer(native, {"x": Tensor((2, 3))}, [Tensor((2, 4))])
    recorded = Call(layer, native.rpartition(":")[2], native, module=module, where=where)
    return CallCost(recorded, None, Uncounted.NO_CALCULATOR, Uncounted.NO_CALCULATOR.reason(native))


def report(records: Iterable[CallCost], **run: Any) -> Report:
    """Return the report of these calls; calls without a name are named ``<type>-<n>``."""
    named = list(records)
    for n, record in enumerate(named):
        if not record.call.name:
            named[n] = record._replace(call=record.call.named(f"{record.call.type}-{n}"))
    return Report(Trace(tuple(named), _run(**run)))


def _run(**values: Any) -> Run:
    records = {name: values.pop(name) for name in DECLARED if name in values}
    return Run(**values).recording(**records)


def page_data(report: Report) -> Any:
    """Return the data inside the page of a report."""
    return json.loads(re.findall(r"<script[^>]*>(.*?)</script>", report.to_html(), re.DOTALL)[0])


def small() -> Report:
    """Return a report of a block with two calls and a head that shares the parameter of the first call."""
    calls = [
        call("linear", "block.fc", 600, 100, 20, 590, (1,), attrs={"groups": 2}),
        call("relu", "block", 30, 20, 20),
        call("linear", "head", 2**60 + 1, 80, 28, 2**60, (1, 2)),
    ]
    modules = {"": Module("Net"), "block": Module("Block"), "block.fc": Module("Linear", (1,))}
    modules["head"] = Module("Linear", (1, 2), (2,))
    versions = {"toy": "7.1"}
    assumptions = (Assumption("the mask is True", "net.py:12"),)
    return report(
        calls,
        parameters={1: 1000, 2: 24},
        n_params_model=1024,
        modules=modules,
        frameworks=versions,
        assumptions=assumptions,
    )


def many(n: int = 10_000) -> Report:
    """Return a report of ``n`` different calls, in blocks of 50 and layers of 5."""
    ops = ("conv", "linear", "relu", "add", "softmax", "layer_norm", "attention", "copy", "gelu", "mul")

    def record(i: int) -> CallCost:
        flops = 0 if i % 10 == 7 else (i % 97 + 1) * 1000 * (i + 1)
        return call(
            ops[i % 10], f"blocks.{i // 50}.layers.{i // 5 % 10}", flops, 400 * (i % 89 + 1), 40 * (i + 1), flops, (i,)
        )

    return report((record(i) for i in range(n)), parameters={i: i + 1 for i in range(n)})


def step() -> Report:
    """Return a report of a forward, a backward and an optimizer call, with its memory.

    ======  =================================  ====================================
    call    what                               live
    ======  =================================  ====================================
    –       parameter 1024                     1024
    0       saved 512                          1536
    1       saved freed, gradient 1024, t 256  2048 + 256 before it is freed = 2816
    2       temporary 128                      2176
    ======  =================================  ====================================
    """
    calls = [call("linear", "fc", 600, 100, 20), call("mm", "fc", 900, 80, 28, phase="backward")]
    calls.append(call("sgd_step", "", 50, 80, 28, phase="optimizer"))
    weight, saved, gradient, temporary, last = (
        Block(1, 1024, "parameter", 0, None, -1, (256,), "float32", "fc.weight"),
        Block(2, 512, "saved", 1, 4, 0, (128,), "float32"),
        Block(3, 1024, "gradient", 2, None, 1, (256,), "float32", "fc.weight"),
        Block(4, 256, "temporary", 3, 5, 1, (64,), "float32"),
        Block(5, 128, "temporary", 6, 7, 2, (32,), "float32"),
    )
    ledger = MemoryLedger((weight, saved, gradient, temporary, last), (0, 1, 1, 1, 1, 2, 2), ("a note",), ())
    return report(calls, memory=ledger)


def chain(n: int = 3, blocks: int = 1) -> Report:
    """Return a report of ``blocks`` modules with ``n`` calls each, a view, and a head, all in a row."""
    calls, value = [], 1
    for i in range(n * blocks):
        module = f"block{i // n}.{i % n}" if n > 1 else f"block{i}"
        calls.append(call("relu", module, 10 + i, 24, 32, inputs=(value,), outputs=(value + 1,), where="net.py:7 in f"))
        value += 1
    calls.append(call("view", "", 0, 0, 0, inputs=(value,), outputs=(value + 1,)))
    calls.append(call("exp", "head", 5, 24, 32, inputs=(value + 1,), outputs=(value + 2,)))
    return report(calls, inputs=(1,), returned=(value + 2,))


def hostile() -> Report:
    """Return a report in which every name chosen by the model is one of :data:`HOSTILE`."""
    calls = [
        call(name, name.replace(".", "_"), 10, 4, 4, attrs={name: name}, name=name, where=name, phase=name)
        for name in HOSTILE
    ]
    calls += [unknown(name, name.replace(".", "_"), name) for name in HOSTILE]
    assumptions = tuple(Assumption(name, name) for name in HOSTILE)
    modules = {"": Module(HOSTILE[0]), **{name.replace(".", "_"): Module(name, same_as=name) for name in HOSTILE}}
    frameworks = {name: name for name in HOSTILE}
    return report(calls, assumptions=assumptions, notes=HOSTILE, modules=modules, frameworks=frameworks)
