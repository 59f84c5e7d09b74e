"""Rows of dropout, its gradient, and random numbers."""

from __future__ import annotations

from costcore.translate import Arguments, Row, Source

from ..operators.saved_for_backward import is_differentiated
from ..tensors import dtype_name
from .arguments import X, constant, first_argument, is_number, is_tensor, rows_by_name


def _saved_mask(args: Arguments) -> str | None:
    """Return the dtype of the mask that dropout keeps for its backward pass: that of x, bool in fused kernels."""
    x = first_argument(args)
    if not (args["train"] and 0 < args["p"] < 1 and is_differentiated(x)):
        return None
    return "bool" if x.is_cuda or x.is_xpu else dtype_name(x.dtype)


def _drops(args: Arguments) -> bool:
    """Return whether elements are dropped: at a rate of 0, ATen returns its operand in training too."""
    return bool(args["train"]) and args["p"] != 0


_DROPOUT: dict[str, Source] = {"rate": "p", "training": _drops, "mask": _saved_mask}
_GRADIENT: dict[str, Source] = {"dy": first_argument, "mask": "mask"}

DROPOUT = (
    *rows_by_name("dropout feature_dropout alpha_dropout feature_alpha_dropout", X, _DROPOUT),
    Row("aten::native_dropout", "dropout", X, {"rate": "p", "training": lambda args: bool(args["train"])}),
    Row("aten::_fused_dropout", "dropout", X, {"rate": "p", "training": constant(True)}),
    *rows_by_name("native_dropout_backward _masked_scale", _GRADIENT, op="dropout_backward"),
)

_FILLS = """
rand randn randint randperm rand_like randn_like randint_like uniform normal random exponential geometric log_normal
cauchy normal_functional
"""

FILLS = tuple(rows_by_name(_FILLS, {}, op="random"))

SAMPLING = (
    Row("aten::bernoulli", "random", when=is_number("p")),
    Row("aten::bernoulli", "bernoulli", {"x": "p"}, when=is_tensor("p")),
    Row("aten::bernoulli", "bernoulli", X),
    *(
        Row(f"aten::normal.{overload}", "normal", {"x0": "mean", "x1": "std"})
        for overload in ("Tensor_Tensor", "Tensor_float", "float_Tensor")
    ),
    Row("aten::multinomial", "multinomial", X, {"logarithmic": constant(False)}),
    *rows_by_name("poisson _standard_gamma _sample_dirichlet", X, op="sample"),
    Row("aten::binomial", "sample", {"x0": "count", "x1": "prob"}),
)

ROWS = (*DROPOUT, *FILLS, *SAMPLING)
