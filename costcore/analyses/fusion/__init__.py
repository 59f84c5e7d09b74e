"""Fusion: the bytes that are left after a compiler fused the calls."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "fusion",
        "the bytes that are left after a compiler fused the calls",
        "costcore.reports.fused_view:FusedView",
        quantities=f"{__name__}.quantities:QUANTITIES",
    ),
)
