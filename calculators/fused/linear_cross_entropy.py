"""Linear layer and softmax cross entropy as one operator."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern

from .._shared import dot_products


@pattern("product")
def calc_linear_cross_entropy(layer: Layer) -> Cost:
    """Linear layer and softmax cross entropy; scores are not materialized.

    Forward:

    * Scores: dot products of length F for each of V classes (MACs).
    * Per row: log_softmax (2 V - 1 add, V + 1 special), the choice of the target (no cost) and a negation; then the
      reduction.
    * Class weights ``class_weights``: 1 mul per row, and for a mean the sum of the weights.

    Gradients, as named by ``needs``:

    * Softmax from its exponentials: 1 div per row and 1 mul per score, minus 1 at the target (1 add per row).
    * x and w: one product each of the size of the forward product. b: the sum of the gradients of the scores.

    The gradients assume dy = 1; the backward pass scales them.

    Shapes: x[N, F], w[V, F], b[V]?, target[N] -> y[]
    Settings: reduction="mean", needs=()
    """
    (classes, features), needed = layer["w"].shape, layer.attrs.get("needs", ())
    count = layer["x"].size // features
    scores, products, reduction = count * classes, count * classes * features, layer.attrs.get("reduction", "mean")
    operations = dot_products(scores, products, "b" in layer) + Operations(add=2 * scores, special=scores + count)
    if reduction != "none":
        operations += Operations(add=count - 1, div=1 if reduction == "mean" else 0)
    if "class_weights" in layer:
        operations += Operations(mul=count, add=count - 1 if reduction == "mean" else 0)
    if needed:
        operations += Operations(div=count, mul=scores, add=count)
    if "x" in needed:
        operations += dot_products(count * features, products)
    if "w" in needed:
        operations += dot_products(classes * features, products)
    if "b" in needed:
        operations += Operations(add=scores - classes)
    macs = products * (1 + sum(1 for name in ("x", "w") if name in needed))
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
