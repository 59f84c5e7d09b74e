"""Whole outputs as texts that can be compared with a file: figures with nine digits, and the places of drawn things."""

from __future__ import annotations

import json
from typing import Any


def rounded(value: Any) -> Any:
    """Return a value in which every float has nine digits, as platforms differ in the last ones."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def as_json(value: Any) -> str:
    """Return a value as JSON, an entry of a list of numbers or texts on one line."""
    return f"{_text(rounded(value), '')}\n"


def _text(value: Any, indent: str) -> str:
    inner = f"{indent} "
    if isinstance(value, dict) and value:
        items = [f"{json.dumps(key)}: {_text(each, inner)}" for key, each in value.items()]
        return f"{{\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(each, (list, dict)) for each in value):
        return f"[\n{inner}" + f",\n{inner}".join(_text(each, inner) for each in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def drawing(axes: Any) -> dict[str, Any]:
    """Return the places, sizes, colors and texts of all that is drawn in axes of matplotlib."""
    from matplotlib.colors import to_hex

    def point(values: Any) -> list[Any]:
        return [float(f"{float(each):.6g}") for each in values]

    legend = next(iter(axes.figure.legends), axes.get_legend())
    return {
        "scales": [axes.get_xscale(), axes.get_yscale()],
        "formats": [type(axis.get_major_formatter()).__name__ for axis in (axes.xaxis, axes.yaxis)],
        "limits": [point(axes.get_xlim()), point(axes.get_ylim())],
        "labels": [axes.get_xlabel(), axes.get_ylabel(), axes.get_title(), axes.get_title(loc="left")],
        "ticks": [
            [] if axis.get_scale() == "log" else [tick.get_text() for tick in axis.get_ticklabels()]
            for axis in (axes.xaxis, axes.yaxis)
        ],
        "lines": [
            [to_hex(line.get_color()), line.get_linestyle(), line.get_linewidth(), *map(point, line.get_data())]
            for line in axes.lines
        ],
        "patches": [
            [to_hex(each.get_facecolor()), to_hex(each.get_edgecolor()), point(each.get_extents().bounds)]
            for each in axes.patches
        ],
        "collections": [
            [
                [to_hex(color, keep_alpha=True) for color in each.get_facecolor()],
                point(each.get_sizes()) if hasattr(each, "get_sizes") else [],
                point(each.get_linewidths()),
                [point(place) for place in each.get_offsets()],
                *(
                    [point(vertex) for vertex in path.vertices]
                    for path in each.get_paths()
                    if not each.get_offsets().any()
                ),
            ]
            for each in axes.collections
        ],
        "texts": [[text.get_text(), *point(text.get_position()), text.get_rotation()] for text in axes.texts],
        "legend": [] if legend is None else [text.get_text() for text in legend.get_texts()],
    }
