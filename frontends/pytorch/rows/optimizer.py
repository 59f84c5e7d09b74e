"""Rows of fused optimizer steps, which update all parameters in one call, and of the scale of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from .arguments import first_output, non_default, tensors_in


def _parameters_and_moments(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Keep parameters and moments; the schema of a step lists gradients and step counts as outputs, too."""
    not_updated = {id(value) for value in (*args["grads"], *args.get("state_steps", ()))}
    return [value for value in outputs if id(value) not in not_updated]


_DECAY: dict[str, Source] = {"weight_decay": non_default("weight_decay", 0), "maximize": non_default("maximize", 0)}
_GRAD_SCALE: dict[str, Source] = {"scaled": lambda args: True if args.get("grad_scale") is not None else None}


def _sgd_step(args: Arguments) -> str:
    if not args["momentum"]:
        return "sgd_step"
    return "sgd_nesterov_step" if args["nesterov"] else "sgd_momentum_step"


ROWS = (
    *(
        Row(
            f"aten::{name}",
            "adam_step",
            {"x*": tensors_in("self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs")},
            {**decay, **_GRAD_SCALE, "amsgrad": non_default("amsgrad", 0), "maximize": non_default("maximize", 0)},
            outputs=_parameters_and_moments,
        )
        for name, decay in (
            ("_fused_adam", {"weight_decay": non_default("weight_decay", 0)}),
            ("_fused_adamw", {"weight_decay_after": non_default("weight_decay", 0)}),
        )
    ),
    Row(
        "aten::_fused_sgd",
        _sgd_step,
        {"x*": tensors_in("self", "grads", "momentum_buffer_list")},
        {**_DECAY, **_GRAD_SCALE, "dampening": non_default("dampening", 0)},
        outputs=_parameters_and_moments,
        ops=("sgd_step", "sgd_momentum_step", "sgd_nesterov_step"),
    ),
    Row(
        "aten::_fused_adagrad",
        "adagrad_step",
        {"x*": tensors_in("self", "grads", "state_sums")},
        {**_DECAY, **_GRAD_SCALE},
        outputs=_parameters_and_moments,
    ),
    Row(
        "aten::_amp_update_scale",
        "update_loss_scale",
        {"scale": "self", "count": "growth_tracker", "is_infinite": "found_inf"},
        {"growth_interval": "growth_interval"},
        outputs=first_output,
    ),
)
