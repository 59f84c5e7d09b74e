"""Rows of reductions, cumulative sums and searches."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Row

from ..shapes.reduction import reduced_axes
from .arguments import X, axis, determined, first_outputs, flag

REDUCTIONS: Mapping[str, str] = {
    "L1": "l1",
    "L2": "l2",
    "LogSum": "log_sum",
    "LogSumExp": "log_sum_exp",
    "Max": "max",
    "Mean": "mean",
    "Min": "min",
    "Prod": "prod",
    "Sum": "sum",
    "SumSquare": "sum_square",
}


ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"ai.onnx::Reduce{kind}",
            f"reduce_{op}",
            X,
            {"axis": determined(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
        )
        for kind, op in REDUCTIONS.items()
    ),
    *(
        Row(
            f"ai.onnx::Arg{kind}",
            f"arg{kind.lower()}",
            X,
            {"axis": lambda a: (axis("data")(a),), "keepdims": lambda a: bool(a.get("keepdims", 1))},
        )
        for kind in ("Max", "Min")
    ),
    Row("ai.onnx::CumSum", "cumsum", {"x": "x"}, {"axis": axis("x"), "exclusive": flag("exclusive")}),
    Row("ai.onnx::CumProd", "cumprod", {"x": "x"}, {"axis": axis("x"), "exclusive": flag("exclusive")}),
    Row(
        "ai.onnx::TopK",
        "topk",
        {"x": "X"},
        {"axis": axis("X"), "k": determined(lambda n: n.number("K", "k"))},
        outputs=first_outputs(2),
    ),
    Row(
        "ai.onnx::Unique",
        "unique",
        {"x": "X"},
        {"axis": determined(lambda n: n.axis(len(n.value("X").known_shape), "axis"))},
    ),
    Row("ai.onnx::NonMaxSuppression", "non_max_suppression", {"x0": "boxes", "x1": "scores"}),
    Row("ai.onnx::NonZero", "nonzero", {"x": "X"}),
)
