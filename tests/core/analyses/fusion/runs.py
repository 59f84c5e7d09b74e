"""Runs that are written down call by call, with costs of the built-in calculators."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from costcore import Report, Trace
from costcore.ir import Layer, Tensor
from tests.calculators.layer_costs import CALCULATORS, Pricer
from tests.core.traces import Call, Run

NAMES = ("x", "w", "b")
LEVELS = ("none", "pointwise", "compiler")


def groups_of(trace: Trace, level: str) -> list[Any]:
    """Return the groups of a run with their bytes."""
    return Report(trace).fused(level).groups


class Calls:
    """Calls on values, which are identified by their id; every tensor is float32."""

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.calls: list[Call] = []
        self._layers: dict[Layer, Layer] = {}

    def given(self, *shape: int, role: Any = "data") -> int:
        """A value that no call produces."""
        self.tensors[len(self.tensors) + 1] = Tensor(shape, role=role)
        return len(self.tensors)

    def __call__(self, op: str, *reads: int, shape: Sequence[int] = (), names: Sequence[str] = (), **more: Any) -> int:
        """Add a call, whose output has the shape of its first operand by default; return the output."""
        place = {key: more.pop(key) for key in ("phase", "times", "region") if key in more}
        made = self.given(*(shape or self.tensors[reads[0]].shape))
        operands = names or (NAMES if len(reads) == 1 or op in ("linear", "conv", "embedding") else ("x0", "x1", "x2"))
        inputs = {name: self.tensors[i] for name, i in zip(operands, reads, strict=False)}
        layer = Layer(op, inputs, [self.tensors[made]], more)
        layer = self._layers.setdefault(layer, layer)  # frontends share equal layers too
        name = f"{op}-{len(self.calls)}"
        self.calls.append(Call(layer, op, f"test::{op}", name, inputs=reads, outputs=(made,), **place))
        return made

    def trace(self, *returned: int, **options: Any) -> Trace:
        """The run, which returns these values."""
        price = Pricer(CALCULATORS, options.get("layout", "framework"))
        return Trace(tuple(map(price, self.calls)), Run(**options).recording(returned=returned))


def random_run(random: Random, n: int) -> Trace:
    """A run of ``n`` calls of all patterns, with skipped connections, views, loops and shared operands."""
    calls = Calls()
    values = [calls.given(4, 6) for _ in range(2)]
    weight = calls.given(6, 6, role="param")
    vector = calls.given(6, role="param")
    for _ in range(n):
        x, y = random.choice(values[-4:]), random.choice(values)
        place: dict[str, Any] = random.choice([{}] * 8 + [{"region": "loop", "times": 3}])
        kind = random.randrange(9)
        if kind < 3:
            made = calls("add", x, y, **place)
        elif kind == 3:
            made = calls("relu", x, **place)
        elif kind == 4:
            made = calls("softmax", x, axis=random.choice([0, 1]), **place)
        elif kind == 5:
            made = calls("linear", x, weight, **place)
        elif kind == 6:
            made = calls("view", x, **place)
        elif kind == 7:
            made = calls("mul", x, calls("square", vector, **place), **place)
        else:
            made = calls("sort", x, **place)
        values.append(made)
    return calls.trace(*random.sample(values, 2))
