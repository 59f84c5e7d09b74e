"""Formulas in symbolic sizes, fitted to captures at integer sizes."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "sizes",
        "totals as formulas of symbolic sizes",
        f"{__name__}.formulas:formulas_of",
        pictures={"sizes": f"{__name__}.formulas:drawn"},
    ),
)
