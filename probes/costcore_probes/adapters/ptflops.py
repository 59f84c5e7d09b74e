"""The backend aten of ptflops, which ptflops recommends."""

from __future__ import annotations

import sys
from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..output import quoted
from ..probe import Probe

__all__ = ["ADAPTER", "profile"]


def profile(built: Any, backend: str, pattern: str) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Return the multiply-accumulates, the parameters, and the names in warnings that a pattern finds."""
    from ptflops import get_model_complexity_info

    from ..frameworks.pytorch import Fn

    module, inputs = built
    named = {f"x{i}": value for i, value in enumerate(inputs)}
    whole: Any = Fn(lambda self, *values: self.net(*values), net=module)
    call = whole.forward
    whole.forward = lambda **values: call(*values.values())  # the tool passes inputs by name
    options = {
        "as_strings": False,
        "print_per_layer_stat": False,
        "verbose": True,
        "input_constructor": lambda _: named,
    }
    with quoted(pattern) as missing:  # the default stream is bound at import, before it is captured
        macs, params = get_model_complexity_info(whole, (1,), backend=backend, ost=sys.stdout, **options)
    if macs is None:
        raise RuntimeError("ptflops reports that it could not count the model")
    return (int(macs), int(params)), tuple(missing)


def _macs(_format: str, built: Any) -> Figure:
    (macs, _), missing = profile(built, "aten", r"Warning: (\S+) operation is treated as a zero-op")
    return Figure(macs, missing)


def _with_bias(probe: Probe) -> int:
    return probe.answer + probe.extras.get("bias", 0)


ADAPTER = Adapter(
    name="ptflops",
    package="ptflops",
    declares="the theoretical amount of multiply-add operations in neural networks",
    cites="https://github.com/sovrasov/flops-counter.pytorch/blob/master/README.md, backend='aten'",
    counts={"macs": _macs},
    rules=(Rule("a bias counts one for each output", "ptflops/aten_ops.py; tests/common_test.py", _with_bias),),
)
