"""Rows of primitives that read or write elements at computed indices."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .arguments import constant, operand, row

REDUCTIONS = {
    "scatter": "none",
    "scatter-add": "add",
    "scatter-max": "max",
    "scatter-min": "min",
    "scatter-mul": "mul",
    "scatter-sub": "add",
    "scatter_add": "add",
    "scatter_max": "max",
    "scatter_min": "min",
    "scatter_mul": "mul",
    "scatter_sub": "add",
}
"""What a scatter does with an element and its update."""


def _is_embedding(a: Arguments) -> bool:
    """Return whether a gather looks up whole rows of a learned matrix."""
    table, numbers = a["inputs"][0], a["dimension_numbers"]
    rows = tuple(a["slice_sizes"])[1:] == tuple(table.shape[1:])
    return bool(table.is_weight and table.ndim == 2 and tuple(numbers.start_index_map) == (0,) and rows)


def _axis(a: Arguments) -> Any:
    """Return the indexed axis, or the axes if there are several."""
    found = tuple(map(int, a["dimension_numbers"].start_index_map))
    return found[0] if len(found) == 1 else found


ROWS: tuple[Row, ...] = (
    Row("jax::gather", "embedding", {"x": operand(1), "w": operand(0)}, when=_is_embedding),
    row("gather", "gather", {"x": operand(0), "indices": operand(1)}, axis=_axis),
    *(
        Row(
            f"jax::{name}",
            "scatter_nd",
            {"x": operand(0), "indices": operand(1), "updates": operand(2)},
            {"reduction": constant(reduction)},
        )
        for name, reduction in REDUCTIONS.items()
    ),
    # elements of references, inside kernels and loops over mutable arrays
    row("get", "copy"),
    row("swap", "assign", {"x": operand(0), "updates": operand(1)}),
    row("addupdate", "jax::addupdate", {"x": operand(0), "updates": operand(1)}),
    row("accum_grad_in_ref", "jax::addupdate", {"x": operand(0), "updates": operand(1)}),
)
