"""Counting conventions: the counts of other tools for the same run."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "conventions",
        "the costs as another tool counts them",
        f"{__name__}.counting:under",
        quantities=f"{__name__}.counting:QUANTITIES",
    ),
)
