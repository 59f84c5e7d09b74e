"""Losses as exporters decompose them: terms of single elements, and their mean or sum."""

from __future__ import annotations

from costcore.trace.patterns import Either, Named, Number, Op, Operand, Pattern

from ...walk.history import RecordedNode
from ..matcher import ONE, X0, X1, Decomposition, Extension, Group, Match, X
from .checks import function, scalar

TARGET, ZERO = Operand("target"), Number(0.0)


def _reduces_all(recorded: RecordedNode) -> bool:
    """Return True for a reduction over all axes."""
    layer = recorded.call.layer
    axes = layer.attrs.get("axis")
    return axes is None or ("x" in layer and len(axes) == layer["x"].ndim)


def _reduced(terms: Pattern) -> Either:
    """Return the pattern of terms, or of their mean or sum."""
    mean, total = (Op(f"Reduce{name}", terms, check=_reduces_all) for name in ("Mean", "Sum"))
    return Either((Op("Squeeze", mean), mean, total, terms))


def _loss(
    op: str, terms: Pattern, *roots: str, source: str = "", operands: tuple[str, ...] = ("x", "target"), **settings: str
) -> Decomposition:
    """Return how a loss is decomposed.

    Args:
        op: canonical name of the loss.
        terms: the loss of each element.
        roots: op_types of the last node of these.
        source: the function of PyTorch that writes it as several operations; default: ``op``.
        operands: its operands.
        settings: values of the match by attribute.
    """
    kind = "".join(word.capitalize() for word in op.split("_"))

    def build(match: Match, _: Extension) -> Group | str | None:
        given = {name: match.values[name] for name in operands}
        reduced = [r.node.op for r in match.nodes[:2] if r.node.op in ("ReduceMean", "ReduceSum")]
        reduction = {"ReduceMean": "mean", "ReduceSum": "sum"}[reduced[0]] if reduced else "none"
        attrs = {name: scalar(match.values[value]) for name, value in settings.items() if value in match.values}
        return Group(op, kind, given, {"reduction": reduction, **attrs}, match.nodes)

    return Decomposition(
        ("Squeeze", "ReduceMean", "ReduceSum", *roots),
        _reduced(terms),
        build,
        function(source or op),
        needs_origin=True,
    )


_DIFFERENCE = Op("Sub", X, TARGET)
_DISTANCE = Named("distance", Op("Abs", _DIFFERENCE))
L1_LOSS = _loss("l1_loss", Op("Abs", _DIFFERENCE), "Abs")

_BROADCAST = Op("Add", Op("Add", Op("ConstantOfShape", Op("Shape", X)), X), TARGET)
_SHAPE = Op("Shape", Named("broadcast", _BROADCAST))
_EXPANDED = Op("Sub", Op("Expand", X, _SHAPE), Op("Expand", TARGET, _SHAPE))
_SQUARES = Op("Mul", _EXPANDED, _EXPANDED)
MSE_LOSS = _loss("mse_loss", Either((_SQUARES, Op("Mul", _DIFFERENCE, _DIFFERENCE))), "Mul")._replace(
    needs_origin=False
)

_BOUND = Named("bound", Number())
_NEAR = Op("Less", _DISTANCE, _BOUND)
HUBER_LOSS = _loss(
    "huber_loss",
    Op(
        "Where",
        _NEAR,
        Op("Mul", Op("Mul", _DISTANCE, Number(0.5)), _DISTANCE),
        Op("Mul", Op("Sub", _DISTANCE, Number()), _BOUND),
    ),
    "Where",
    delta="bound",
)
SMOOTH_L1_LOSS = _loss(
    "smooth_l1_loss",
    Op(
        "Where",
        _NEAR,
        Op("Div", Op("Mul", Op("Pow", _DISTANCE, Number(2.0)), Number(0.5)), _BOUND),
        Op("Sub", _DISTANCE, Number()),
    ),
    "Where",
    beta="bound",
)

_LOG_TARGET = Op("Mul", TARGET, Op("Log", TARGET))
_DEFINED = Op("Where", Op("Equal", TARGET, ZERO), TARGET, Op("Where", Op("IsNaN", TARGET), TARGET, _LOG_TARGET))
_PRODUCT = Named("product", Op("Mul", TARGET, Op("Sub", Op("Log", TARGET), X)))
_DIVERGENCE = Op("Where", Op("Greater", TARGET, ZERO), _PRODUCT, Op("ConstantOfShape", Op("Shape", _PRODUCT)))
KL_DIV = _loss("kl_div", Either((Op("Sub", _DEFINED, Op("Mul", TARGET, X)), _DIVERGENCE)), "Sub", "Where")._replace(
    needs_origin=False
)

_LOWEST = Either((Number(-100.0), Op("Expand", Number(-100.0))))
_LOG_1P = Op("Log", Op("Add", Op("Neg", X), ONE))
BINARY_CROSS_ENTROPY = _loss(
    "binary_cross_entropy",
    Op(
        "Sub",
        Op("Mul", Op("Sub", TARGET, ONE), Op("Max", _LOG_1P, _LOWEST)),
        Op("Mul", TARGET, Op("Max", Op("Log", X), _LOWEST)),
    ),
    "Sub",
)
_PROBABILITY = Named("probability", Op("Sigmoid", X))
_REST = Op("Sub", ONE, TARGET)
_ENTROPY = Op(
    "Neg",
    Op(
        "Add",
        Op("Mul", TARGET, Op("Log", _PROBABILITY)),
        Op("Mul", _REST, Op("Log", Op("Sub", ONE, _PROBABILITY))),
    ),
)
BINARY_CROSS_ENTROPY_WITH_LOGITS = _loss(
    "binary_cross_entropy_with_logits",
    Either((Op("Sub", Op("Mul", _REST, X), Op("Log", _PROBABILITY)), _ENTROPY)),
    "Sub",
    "Neg",
)._replace(needs_origin=False)
SOFT_MARGIN_LOSS = _loss(
    "soft_margin_loss", Op("Log", Op("Add", Op("Exp", Op("Mul", Op("Neg", X), TARGET)), ONE)), "Log"
)
POISSON_NLL_LOSS = _loss("poisson_nll_loss", Op("Sub", Op("Exp", X), Op("Mul", TARGET, X)), "Sub")

MARGIN_RANKING_LOSS = _loss(
    "margin_ranking_loss",
    Op("Clip", Op("Add", Op("Mul", Op("Neg", TARGET), Op("Sub", X0, X1)), Number()), ZERO),
    "Clip",
    operands=("x0", "x1", "target"),
)
_ZEROS = Op("Expand", ZERO, Op("Shape", Operand("like")))
_ONES = Op("Expand", ONE, Op("Shape", Op("Expand", ZERO, Op("Shape", Operand("like")))))


def _where_target_is(sign: float, chosen: Pattern, *, negated: bool) -> Op:
    """Return the terms where the target is a sign, or is not; zeros elsewhere."""
    is_sign = Op("Equal", TARGET, Number(sign))
    return Op("Where", Op("Not", is_sign) if negated else is_sign, chosen, _ZEROS)


HINGE_EMBEDDING_LOSS = _loss(
    "hinge_embedding_loss",
    Op(
        "Add",
        _where_target_is(1.0, Op("Clip", Op("Sub", Either((_ONES, Number())), X), ZERO), negated=True),
        _where_target_is(-1.0, X, negated=True),
    ),
    "Add",
)


def _squared_length(x: Pattern) -> Op:
    return Op("Add", Op("ReduceSum", Op("Mul", x, x)), Number())


_COSINE = Named(
    "cosine",
    Op("Div", Op("ReduceSum", Op("Mul", X0, X1)), Op("Sqrt", Op("Mul", _squared_length(X0), _squared_length(X1)))),
)
COSINE_EMBEDDING_LOSS = _loss(
    "cosine_embedding_loss",
    Op(
        "Add",
        Op("Where", Op("Equal", TARGET, ONE), Op("Sub", _ONES, _COSINE), Named("zeros", _ZEROS)),
        Op(
            "Where",
            Op("Equal", TARGET, Number(-1.0)),
            Op("Clip", Op("Sub", _COSINE, Number()), ZERO),
            Named("zeros", _ZEROS),
        ),
    ),
    "Add",
    operands=("x0", "x1", "target"),
)


def _distance(name: str) -> Op:
    return Op("ReduceL2", Op("Add", Op("Sub", X0, Operand(name)), Number()))


TRIPLET_MARGIN_LOSS = _loss(
    "triplet_margin_loss",
    Op("Clip", Op("Sub", Op("Add", _distance("x1"), Number()), _distance("x2")), ZERO),
    "Clip",
    operands=("x0", "x1", "x2"),
)

_COLUMN = Named("column", Op("Unsqueeze", TARGET))
_CHOSEN = Op("GatherElements", X, Either((Op("Cast", _COLUMN), _COLUMN)))
MULTI_MARGIN_LOSS = _loss(
    "multi_margin_loss",
    Op(
        "Where",
        Op("Not", Op("Equal", Operand("classes"), _COLUMN)),
        Op("Clip", Op("Add", Op("Sub", Number(), _CHOSEN), X), ZERO),
        ZERO,
    ),
    "Where",
)

LOSSES = {
    "l1_loss": L1_LOSS,
    "mse_loss": MSE_LOSS,
    "huber_loss": HUBER_LOSS,
    "smooth_l1_loss": SMOOTH_L1_LOSS,
    "kl_div": KL_DIV,
    "binary_cross_entropy": BINARY_CROSS_ENTROPY,
    "binary_cross_entropy_with_logits": BINARY_CROSS_ENTROPY_WITH_LOGITS,
    "soft_margin_loss": SOFT_MARGIN_LOSS,
    "poisson_nll_loss": POISSON_NLL_LOSS,
    "margin_ranking_loss": MARGIN_RANKING_LOSS,
    "hinge_embedding_loss": HINGE_EMBEDDING_LOSS,
    "cosine_embedding_loss": COSINE_EMBEDDING_LOSS,
    "multi_margin_loss": MULTI_MARGIN_LOSS,
    "triplet_margin_loss": TRIPLET_MARGIN_LOSS,
}

TORCHSCRIPT_LOSSES = {
    "mse_loss": _reduced(_SQUARES),
    "kl_div": _reduced(_DIVERGENCE),
    "binary_cross_entropy_with_logits": _reduced(_ENTROPY),
}
"""The forms of PyTorch's TorchScript-based exporter."""
