"""The costs of the kernels, a plug-in of costcore. Only costcore imports this module."""

from pathlib import Path

from costcore import Cost, Operations, hookimpl
from costcore.translate import Row

FOLDER = Path(__file__).parent


def calc_linear_scan(layer):
    """Linear recurrence over T steps: the first is x itself, every other one fma per feature.

    Shapes: decay[N, T, D], x[N, T, D] -> y[N, T, D]
    """
    batch, steps, features = layer.out.shape
    return Cost(Operations(fma=batch * (steps - 1) * features), layer.read, layer.written, layer.attrs)


@hookimpl
def costcore_calculators():
    """An operator that costcore has no formula for: its formula."""
    return {"acme::linear_scan": calc_linear_scan}


@hookimpl
def costcore_rows(frontend):
    """An operator that costcore has a formula for: which argument is which operand of ``linear``."""
    return [Row("acme::linear", "linear", {"x": "x", "w": "weight", "b": "bias"})] if frontend == "pytorch" else []


@hookimpl
def costcore_conventions():
    """How Acme's own counter counts."""
    return [FOLDER / "counter.toml"]


@hookimpl
def costcore_devices():
    """The board that Acme sells."""
    return [FOLDER / "board.toml"]


def semicolons(table):
    """Write a table as Acme's spreadsheets expect it."""
    titles = [" ".join(filter(None, title)) for title in table.titles]
    return "\n".join(";".join(row) for row in [titles, *table.rows]) + "\n"


@hookimpl
def costcore_renderers():
    """``mode="semicolons"`` of every table."""
    return {"semicolons": semicolons}
