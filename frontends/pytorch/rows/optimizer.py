"""Rows of optimizer steps that update all parameters in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from .arguments import given, tensors_of


def _changed(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Parameters and moments; a step may say that it writes to gradients and to its own number as well."""
    others = {id(value) for value in (*args["grads"], *args.get("state_steps", ()))}
    return [value for value in outputs if id(value) not in others]


_DECAY: dict[str, Source] = {"weight_decay": given("weight_decay", 0), "maximize": given("maximize", 0)}
_STEP: dict[str, Source] = {"scaled": lambda args: True if args.get("grad_scale") is not None else None}


def _sgd(args: Arguments) -> str:
    if not args["momentum"]:
        return "sgd_step"
    return "sgd_nesterov_step" if args["nesterov"] else "sgd_momentum_step"


def _moments(*names: str) -> Source:
    return tensors_of("self", "grads", *names)


ROWS = (
    *(
        Row(
            f"aten::{name}",
            "adam_step",
            {"x*": _moments("exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs")},
            {**decay, **_STEP, "amsgrad": given("amsgrad", 0), "maximize": given("maximize", 0)},
            outputs=_changed,
        )
        for name, decay in (
            ("_fused_adam", {"weight_decay": given("weight_decay", 0)}),
            ("_fused_adamw", {"weight_decay_after": given("weight_decay", 0)}),
        )
    ),
    Row(
        "aten::_fused_sgd",
        _sgd,
        {"x*": _moments("momentum_buffer_list")},
        {**_DECAY, **_STEP, "dampening": given("dampening", 0)},
        outputs=_changed,
        ops=("sgd_step", "sgd_momentum_step", "sgd_nesterov_step"),
    ),
    Row(
        "aten::_fused_adagrad",
        "adagrad_step",
        {"x*": _moments("state_sums")},
        {**_DECAY, **_STEP},
        outputs=_changed,
    ),
)
