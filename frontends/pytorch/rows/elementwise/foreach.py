"""Rows of ``_foreach_*`` operators: elementwise functions of lists of tensors, used by optimizers."""

from __future__ import annotations

from typing import Any

import torch

from costcore.translate import Arguments, Row

from ..arguments import non_default, tensors_in

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal "
    "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)


def _factor(args: Arguments) -> Any:
    """Return the factor of the products or quotients, or their factors; None if all are 1."""
    factors = args.get("scalars", args.get("value"))
    if isinstance(factors, torch.Tensor):
        return "scalars"
    return factors if any(x != 1 for x in (factors if isinstance(factors, (list, tuple)) else [factors])) else None


def _constant_exponent(args: Arguments) -> Any:
    """Return the number, or the numbers, to whose power the tensors are raised; None if these are tensors."""
    exponent = args["exponent"]
    numbers = exponent if isinstance(exponent, (list, tuple)) else [exponent]
    return exponent if all(isinstance(number, (int, float)) for number in numbers) else None


ROWS = (
    *(Row(f"aten::_foreach_{name}", f"foreach_{name}", {"x*": "self"}) for name in _UNARY.split()),
    *(
        Row(
            f"aten::_foreach_{name}",
            f"foreach_{op}",
            {"x*": tensors_in("self", "other")},
            {"alpha": non_default("alpha", 1)},
        )
        for name, op in (
            *(("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("maximum", "maximum")),
            *(("minimum", "minimum"), ("clamp_min", "maximum"), ("clamp_max", "minimum")),
        )
    ),
    Row("aten::_foreach_pow", "foreach_pow", {"x*": tensors_in("self", "exponent")}, {"exponent": _constant_exponent}),
    *(
        Row(
            f"aten::_foreach_{name}",
            f"foreach_{name}",
            {"x*": tensors_in("self", "tensor1", "tensor2", "scalars")},
            {"value": _factor},
        )
        for name in ("addcmul", "addcdiv")
    ),
    Row("aten::_foreach_lerp", "foreach_lerp", {"x*": tensors_in("self", "tensors1", "weights", "weight")}),
    Row("aten::_foreach_copy", "foreach_copy", {"x*": "src"}),
    Row("aten::_foreach_clone", "foreach_copy", {"x*": "self"}),
    Row(
        "aten::_amp_foreach_non_finite_check_and_unscale",
        "foreach_unscale",
        {"x*": "self", "scale": "inv_scale"},
        outputs=lambda args, outputs: outputs[:-1],
    ),
)
