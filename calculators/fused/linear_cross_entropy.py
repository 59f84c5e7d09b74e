"""Linear layer and softmax cross entropy as one operator."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .._shared import dot_products


def calc_linear_cross_entropy(layer: Layer) -> Cost:
    """Linear layer and softmax cross entropy in one, the scores never written; with ``needs`` their gradients too.

    Scores are dot products of length F for each of V classes; per row log_softmax (2 V - 1 add, V + 1 special), the
    pick (free) and a negation, then the reduction; class weights ``class_weights`` 1 mul a row, and for a mean their
    sum. Gradients take softmax from its exponentials, 1 div a row and 1 mul per score, less 1 at the target (1 add a
    row); x and w one product each of the size of the forward, b sums the scores' gradients. They are for a dy of 1: the
    backward pass scales them.

    Shapes: x[N, F], w[V, F], b[V]?, target[N] -> y[]
    Settings: reduction="mean", needs=()
    """
    (classes, features), wanted = layer["w"].shape, layer.attrs.get("needs", ())
    count = layer["x"].size // features
    scores, products, reduction = count * classes, count * classes * features, layer.attrs.get("reduction", "mean")
    operations = dot_products(scores, products, "b" in layer) + Operations(add=2 * scores, special=scores + count)
    if reduction != "none":
        operations += Operations(add=count - 1, div=1 if reduction == "mean" else 0)
    if "class_weights" in layer:
        operations += Operations(mul=count, add=count - 1 if reduction == "mean" else 0)
    if wanted:
        operations += Operations(div=count, mul=scores, add=count)
    if "x" in wanted:
        operations += dot_products(count * features, products)
    if "w" in wanted:
        operations += dot_products(classes * features, products)
    if "b" in wanted:
        operations += Operations(add=scores - classes)
    macs = products * (1 + sum(1 for name in ("x", "w") if name in wanted))
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
