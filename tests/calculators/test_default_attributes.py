"""Absent attributes: the same cost as with the usual value, and another cost than with another value."""

from __future__ import annotations

from typing import Any

import pytest

from costcore.ir import Cost, Layer
from tests.calculators.documented_layers import integer_values, substitute, symbolic_layer
from tests.calculators.layer_costs import cost_of

USUAL: list[tuple[str, str, Any, Any]] = [  # operator, attribute, usual value, another value
    ("add", "alpha", 1, 2),
    ("addcdiv", "value", 1, 2),
    ("addcmul", "value", 1, 2),
    ("all_finite", "test", "isfinite", "isnan"),
    ("ctc_loss_with_logits_backward", "reduction", "mean", "sum"),
    ("cumsum", "exclusive", False, True),
    ("distance", "p", 2, 1),
    ("eigen", "vectors", True, False),
    ("embedding_bag", "mode", "sum", "max"),
    ("embedding_bag_backward", "mode", "sum", "mean"),
    ("foreach_norm", "p", 2, 1),
    ("foreach_powsum", "p", 2, 1),
    ("gelu", "approximate", "none", "tanh"),
    ("gelu_backward", "approximate", "none", "tanh"),
    ("hinge_loss", "norm", "l1", "l2"),
    ("hinge_loss", "reduction", "mean", "sum"),
    ("hinge_loss_backward", "norm", "l1", "l2"),
    ("hinge_loss_backward", "reduction", "mean", "sum"),
    ("householder_multiply", "left", True, False),
    ("kl_div", "reduction", "mean", "none"),
    ("linear", "alpha", 1, 2),
    ("linear", "beta", 1, 2),
    ("linear_cross_entropy", "reduction", "mean", "sum"),
    ("longformer_attention", "everywhere", 0, 1),
    ("lp_pool", "p", 2, 1),
    ("lu", "pivot", True, False),
    ("mse_loss", "reduction", "mean", "sum"),
    ("multi_margin_loss", "p", 1, 2),
    ("multi_margin_loss_backward", "p", 1, 2),
    ("multinomial", "logarithmic", True, False),
    ("pairwise_distance", "p", 2, 1),
    ("pairwise_distances", "p", 2, 1),
    ("poisson_nll_loss", "log_input", True, False),
    ("qr", "mode", "reduced", "r"),
    ("r2_score", "reduction", "mean", "none"),
    ("reduce_streams", "scale", 1, 2),
    ("renorm_rows", "p", 2, 1),
    ("rnn", "activation", "tanh", "relu"),
    ("roi_align", "mode", "avg", "max"),
    ("roi_align_backward", "mode", "avg", "max"),
    ("sampled_product", "alpha", 1, 2),
    ("sampled_product", "beta", 1, 2),
    ("scatter", "reduction", "none", "add"),
    ("selected_attention", "local", 0, 1),
    ("self_distances", "p", 2, 1),
    ("singular_values", "vectors", "thin", "full"),
    ("softplus", "beta", 1, 2),
    ("sparse_dense_matmul", "alpha", 1, 2),
    ("sparse_dense_matmul", "reduction", "sum", "mean"),
    ("sparse_dense_matmul_backward", "reduction", "sum", "mean"),
    ("swiglu", "alpha", 1, 2),
    ("symmetric_eigen", "vectors", True, False),
    ("tree_ensemble", "aggregate", "sum", "min"),
    ("triplet_margin_loss", "p", 2, 1),
    ("zoneout", "training", False, True),
]


def cost_with(op: str, attribute: str, **given: Any) -> Cost:
    """Return the cost of the layer of an operator's docstring, with the attribute given or omitted."""
    page = symbolic_layer(op)
    values = integer_values(page)
    layer = page.map_dims(lambda dim: substitute(dim, values))
    others = {name: value for name, value in layer.attrs.items() if name != attribute}
    return cost_of(Layer(op, layer.inputs, layer.outputs, {**others, **given}))


@pytest.mark.parametrize(("op", "attribute", "usual", "other"), USUAL)
def test_an_absent_attribute(op: str, attribute: str, usual: Any, other: Any) -> None:
    absent = cost_with(op, attribute)._replace(params={})
    assert absent == cost_with(op, attribute, **{attribute: usual})._replace(params={})
    assert absent != cost_with(op, attribute, **{attribute: other})._replace(params={})
