"""Measured time of calls beside their bound: where the time of a run goes."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "measured",
        "measured time of calls beside their bound",
        f"{__name__}.join:measured_of",
        quantities=f"{__name__}.quantities:QUANTITIES",
    ),
)
