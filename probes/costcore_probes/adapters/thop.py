"""Profile of thop."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..output import quoted
from ..probe import Probe

__all__ = ["ADAPTER"]

MISSING = r"Cannot find rule for <class '([^']+)'>"


def _profile(built: Any) -> tuple[Any, tuple[str, ...]]:
    import thop

    with quoted(MISSING) as missing:
        figures = thop.profile(built[0], inputs=built[1], report_missing=True)
    return figures, tuple(name for name in missing if not name.startswith("torch.nn.modules.container"))


def _macs(_format: str, built: Any) -> Figure:
    (macs, _), missing = _profile(built)
    return Figure(int(macs), missing)


def _params(_format: str, built: Any) -> Figure:
    (_, params), missing = _profile(built)
    return Figure(int(params), missing)


def _with_norms(probe: Probe) -> int:
    per = {"batch_norm_eval": 4, "batch_norm_eval_plain": 2, "layer_norm": 4, "avg_pool_outputs": 1}
    per |= {"nearest_outputs": 1, "global_pool_inputs": 1, "global_pool_outputs": 1, "gate_adds": 1}
    return probe.answer + sum(per.get(name, 0) * count for name, count in probe.extras.items())


ADAPTER = Adapter(
    name="thop",
    package="thop",
    declares="macs, params = profile(model, inputs=(input, ))",
    cites="https://github.com/Lyken17/pytorch-OpCounter/blob/master/README.md",
    counts={"macs": _macs, "params": _params},
    rules=(
        Rule(
            "norms, pools, upsampling and additions of gates count too",
            "thop/profile.py, thop/rnn_hooks.py",
            _with_norms,
        ),
    ),
)
