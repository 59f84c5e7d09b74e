"""Formulas in sizes: a report whose dimensions are symbols, from captures at integer sizes."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "sizes",
        "totals as functions of the names among the sizes",
        f"{__name__}.compiled:formulas_of",
        pictures={"sizes": f"{__name__}.curve:drawn"},
    ),
)
