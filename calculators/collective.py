"""Communication between processes: what one process computes, moves in its memory, and sends to others.

Bytes sent are those of the ring algorithms, which send the least in total: Patarasu and Yuan, "Bandwidth optimal
all-reduce algorithms for clusters of workstations", 2009. With n processes, a ring has n - 1 steps.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, ceil_div, pattern

_BY_REDUCTION = {"sum": "add", "avg": "add", "premul_sum": "add", "product": "mul"}
"""The operation class of a reduction; all others select or combine bits, which is cmp."""


def _reduced(layer: Layer, elements: Dim, steps: Dim, divided: Dim) -> Operations:
    reduction = layer.attrs.get("reduce", "sum")
    counted = {_BY_REDUCTION.get(reduction, "cmp"): ceil_div(elements * steps, layer.attrs["group_size"])}
    scaled = Operations(mul=elements) if reduction == "premul_sum" else Operations()
    return Operations(**counted, div=divided if reduction == "avg" else 0) + scaled


def _elements(layer: Layer) -> Dim:
    return sum(tensor.size for tensor in layer.inputs.values())


def _part(nbytes: Dim, layer: Layer) -> Dim:
    # All but the part of one of n processes.
    n = layer.attrs["group_size"]
    return ceil_div(nbytes * (n - 1), n)


@pattern("opaque")
def calc_all_reduce(layer: Layer) -> Cost:
    """Sum over all processes, received by every process.

    As a ring of n processes: a reduce-scatter, in which a process adds n - 1 times to one n-th of the elements, and an
    all-gather. It sends 2(n - 1)/n of the bytes of x, rounded up. ``reduce`` is the reduction: ``sum``, ``avg`` (which
    also divides one n-th of the elements), ``premul_sum`` (which multiplies all elements first), ``product``, or
    another, counted as comparisons.

    Shapes: x[N, C] -> y[N, C]
    Settings: group_size=n
    """
    n, elements = layer.attrs["group_size"], _elements(layer)
    operations = _reduced(layer, elements, n - 1, ceil_div(elements, n))
    return Cost(operations, layer.read, layer.written, layer.attrs, mcomm=ceil_div(2 * layer.read * (n - 1), n))


@pattern("opaque")
def calc_reduce_scatter(layer: Layer) -> Cost:
    """Sum over all processes; every process receives one n-th.

    A process adds n - 1 times to each element of y. As a ring, it sends (n - 1)/n of the bytes of x. ``reduce`` is as
    for ``all_reduce``.

    Shapes: x[n*N, C] -> y[N, C]
    Settings: group_size=n
    """
    written = sum(tensor.size for tensor in layer.outputs)
    operations = _reduced(layer, _elements(layer), layer.attrs["group_size"] - 1, written)
    return Cost(operations, layer.read, layer.written, layer.attrs, mcomm=_part(layer.read, layer))


@pattern("opaque")
def calc_all_gather(layer: Layer) -> Cost:
    """The tensors of all processes, received by every process.

    As a ring, a process sends (n - 1)/n of the bytes of y.

    Shapes: x[N, C] -> y[n*N, C]
    Settings: group_size=n
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs, mcomm=_part(layer.written, layer))


@pattern("opaque")
def calc_all_to_all(layer: Layer) -> Cost:
    """One part sent to every process, and one received from each.

    A process sends all parts but its own, (n - 1)/n of the bytes of x if parts are equal.

    Shapes: x[N, C] -> y[N, C]
    Settings: group_size=n
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs, mcomm=_part(layer.read, layer))


@pattern("opaque")
def calc_broadcast(layer: Layer) -> Cost:
    """A tensor of one process, received by all others.

    Only the root reads x, and only the others must write y. In a ring every process sends the tensor once, to the next
    one. (The last one of the ring sends nothing.)

    Shapes: x[N, C]? -> y[N, C]
    Settings: group_size=n
    """
    sent = 0 if layer.attrs["group_size"] == 1 else layer.read if layer.inputs else layer.written
    return Cost(Operations(), layer.read, layer.written, layer.attrs, mcomm=sent)


@pattern("opaque")
def calc_reduce_to_root(layer: Layer) -> Cost:
    """Sum over all processes, received by one.

    In a ring each process adds the elements it received to its own, and sends the sums on.

    Shapes: x[N, C] -> y[N, C]
    Settings: group_size=n
    """
    n, elements = layer.attrs["group_size"], _elements(layer)
    operations = Operations() if n == 1 else _reduced(layer, elements, n, elements)
    return Cost(operations, layer.read, layer.written, layer.attrs, mcomm=0 if n == 1 else layer.read)


@pattern("opaque")
def calc_gather_to_root(layer: Layer) -> Cost:
    """The tensors of all processes, received by one process, which alone has outputs. All others send x.

    Shapes: x[N, C] -> y[n*N, C]
    """
    sent = 0 if layer.outputs else layer.read
    return Cost(Operations(), layer.read, layer.written, layer.attrs, mcomm=sent)


@pattern("opaque")
def calc_scatter_from_root(layer: Layer) -> Cost:
    """One part for every process, sent by the only process that has x: it sends all parts but its own.

    Shapes: x[n*N, C]? -> y[N, C]
    """
    sent = layer.read - layer.written if layer.inputs else 0
    return Cost(Operations(), layer.read, layer.written, layer.attrs, mcomm=sent)


@pattern("opaque")
def calc_send(layer: Layer) -> Cost:
    """A tensor sent to another process, where it is written as y.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(Operations(), layer.read, 0, layer.attrs, mcomm=layer.read)


@pattern("opaque")
def calc_recv(layer: Layer) -> Cost:
    """A tensor of another process, written here.

    Shapes: -> y[N, C]
    """
    return Cost(Operations(), 0, layer.written, layer.attrs)


@pattern("opaque")
def calc_barrier(layer: Layer) -> Cost:
    """Wait until all processes reach this point.

    Shapes: -> y[1]
    """
    return Cost(Operations(), 0, 0, layer.attrs)
