"""Gradients of losses for the prediction."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, pattern, prod

from .._shared import input_bytes
from .losses import mean_division


@pattern("map")
def calc_cross_entropy_backward(layer: Layer) -> Cost:
    """Gradient of softmax cross entropy, (softmax(x) - one_hot(target)) dy.

    The log-probabilities ``y`` of the forward pass are given.

    * Per row of c classes: c exp, 1 subtraction at the target, c mul.
    * A mean divides dy by the number of rows first, 1 div.
    * Class weights multiply dy: 1 mul per row.
    * Targets that are probabilities, and label smoothing: c subtractions per row instead of 1.

    Shapes: dy[], y[N, C], target[N] -> dx[N, C]
    Settings: reduction="mean"
    """
    size, target = layer.out.size, layer["target"]
    count = prod(n for i, n in enumerate(layer.out.shape) if i != min(1, layer.out.ndim - 1))
    is_dense = target.ndim == layer.out.ndim or bool(layer.attrs.get("label_smoothing"))
    operations = Operations(add=size if is_dense else count, mul=size, special=size) + mean_division(layer)
    operations += Operations(mul=count if "w" in layer else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_nll_loss_backward(layer: Layer) -> Cost:
    """Gradient of the negative log likelihood: -dy at the target of every row, zero elsewhere.

    The sign is 1 add per element of dy. A mean divides dy by the number of rows, 1 div. Class weights take 1 mul per
    row. Read are dy, the targets and one weight per row; dx is written completely.

    Shapes: dy[], target[N] -> dx[N, C]
    Settings: reduction="mean"
    """
    count = layer["target"].size
    operations = Operations(add=layer["dy"].size, mul=count if "w" in layer else 0) + mean_division(layer)
    read = input_bytes(layer, "dy", "target") + (layer["w"].bytes_of(count) if "w" in layer else 0)
    return Cost(operations, read, layer.written, layer.attrs)


LOSS_GRADIENTS: Mapping[str, PerElement] = {
    "l1_loss_backward": PerElement(
        Operations(mul=1, add=1, cmp=2), "where((d := x - target) > 0, 1, where(d < 0, -1, 0)) * dy"
    ),
    "smooth_l1_loss_backward": PerElement(
        Operations(mul=2, add=1, cmp=2), "min(max((x - target) * (1 / beta), -1), 1) * dy"
    ),
    "huber_loss_backward": PerElement(Operations(mul=1, add=1, cmp=2), "min(max(x - target, -delta), delta) * dy"),
    "mse_loss_backward": PerElement(Operations(mul=2, add=1), "(x - target) * 2 * dy"),
    "binary_cross_entropy_backward": PerElement(Operations(mul=2, add=2, div=1), "(x - target) / (x * (1 - x)) * dy"),
    "binary_cross_entropy_with_logits_backward": PerElement(
        Operations(mul=1, add=3, div=1, special=1), "(1 / (1 + exp(-x)) - target) * dy"
    ),
    "kl_div_backward": PerElement(Operations(mul=1, add=1), "-target * dy"),
    "soft_margin_loss_backward": PerElement(
        Operations(mul=2, add=2, div=1, special=1), "-(target / (1 + exp(target * x))) * dy"
    ),
    "hinge_embedding_loss_backward": PerElement(
        Operations(add=2, cmp=2), "where(target == 1, dy, where(margin - x > 0, -dy, 0))"
    ),
}


@pattern("map")
@covers(LOSS_GRADIENTS)
def calc_elementwise_loss_backward(layer: Layer) -> Cost:
    """Gradients of elementwise losses: the operations of the derivative, times dy, once per element.

    A mean divides dy by the number of terms first, 1 div. Operations that operands and attributes add per element:

    * weight ``w``: 1 mul;
    * ``pos_weight`` p of binary_cross_entropy_with_logits, (1 - t) - (1 + (p - 1) t) (1 - sigmoid(x)): 2 mul and 4 add;
    * ``log_target`` of kl_div: 1 exp.

    Shapes: dy[], x[N, C], target[N, C] -> dx[N, C]
    Settings: reduction="mean"
    """
    operations = LOSS_GRADIENTS[layer.op].operations + Operations(mul=1 if "w" in layer else 0)
    operations += Operations(mul=2, add=4) if "pos_weight" in layer else Operations()
    operations += Operations(special=1) if layer.attrs.get("log_target") else Operations()
    return Cost(operations * layer["x"].size + mean_division(layer), layer.read, layer.written, layer.attrs)
