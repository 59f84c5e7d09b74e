"""Containers of values: sequences, maps and optionals."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, covers, pattern

CONTAINERS: Mapping[str, str] = {
    "container": "sequences, maps and optionals: construction, insertion, extraction",
}


@pattern("opaque")
@covers(CONTAINERS)
def calc_container(layer: Layer) -> Cost:
    """Containers of values: zero cost.

    A sequence, a map or an optional stores its values; putting values in or taking them out copies nothing.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(Operations(), 0, 0, layer.attrs)
