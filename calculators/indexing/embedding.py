"""Embeddings, embedding bags and their gradients."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern

from .._shared import dot_products, input_bytes, saved_bytes


@pattern("move")
def calc_embedding(layer: Layer) -> Cost:
    """Rows of a weight matrix by index: no operations; |y| elements of w are read, and the indices x.

    Shapes: x[N, T], w[V, D] -> y[N, T, D]
    """
    x, w = layer["x"], layer["w"]
    return Cost(Operations(), x.nbytes + w.bytes_of(layer.out.size), layer.written, layer.attrs)


@pattern("window")
def calc_embedding_bag(layer: Layer) -> Cost:
    """Rows of a weight matrix by index, reduced within bags: |x| rows are reduced to |y| / D bags.

    * ``mode="sum"``: one add per element joined.
    * ``mode="mean"``: also one div per output element.
    * ``mode="max"``: one cmp per element joined.
    * ``per_sample_weights``: every bag is a weighted sum, 1 mul and n - 1 fma for n rows.

    For a backward pass integers of the dtype ``saved`` are written: the bag of every index, for "mean" the size of
    every bag, for "max" the index of every maximum.

    Shapes: x[B*T], w[V, D] -> y[B, D]
    Settings: mode="sum"
    """
    w, bags = layer["w"], layer.out.size
    elements = layer["x"].size * w.shape[-1]
    joined, mode = elements - bags, layer.attrs.get("mode", "sum")
    if "per_sample_weights" in layer:
        operations = Operations(fma=joined, mul=bags)
    elif mode == "max":
        operations = Operations(cmp=joined)
    else:
        operations = Operations(add=joined, div=bags if mode == "mean" else 0)
    read = layer.read - w.nbytes + w.bytes_of(elements)
    saved = layer["x"].size + {"mean": layer.out.shape[0], "max": bags}.get(mode, 0)
    return Cost(operations, read, layer.written + saved_bytes(layer, saved), layer.attrs)


@pattern("opaque")
def calc_embedding_bag_backward(layer: Layer) -> Cost:
    """Gradient of embedding_bag for its weight: dy of each bag, added to the rows that its indices select.

    * 1 add per index and feature; for ``mode`` "max" 1 add per element of dy.
    * ``mode`` "mean": dy is divided by the number of rows first, 1 div per element of dy.
    * ``per_sample_weights``: the addition is an fma.

    The operands that assign indices to bags are read.

    Shapes: dy[B, D], x[N] -> dw[V, D]
    Settings: mode="sum"
    """
    dy, mode = layer["dy"], layer.attrs.get("mode", "sum")
    added = dy.size if mode == "max" else layer["x"].size * dy.shape[-1]
    operations = Operations(fma=added) if "per_sample_weights" in layer else Operations(add=added)
    operations += Operations(div=dy.size if mode == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_embedding_bag_weights_backward(layer: Layer) -> Cost:
    """Gradient of embedding_bag for its per-sample weights.

    For each index its row times dy of its bag, a dot product.

    Shapes: dy[B, D], w[V, D], x[N] -> dweights[N]
    """
    w, count = layer["w"], layer["x"].size
    products = count * w.shape[-1]
    read = layer.read - w.nbytes + w.bytes_of(products)
    return Cost(dot_products(count, products), read, layer.written, layer.attrs)


@pattern("opaque")
def calc_scaled_embedding_backward(layer: Layer) -> Cost:
    """Gradient of an embedding that is divided by the frequency of each index.

    1 add per index for the counts; 1 div and 1 add per element of dy.

    Shapes: dy[N, D], x[N] -> dw[V, D]
    """
    size = layer["dy"].size
    operations = Operations(add=size + layer["x"].size, div=size)
    return Cost(operations, input_bytes(layer, "dy", "x"), layer.written, layer.attrs)
