"""Fusion: the bytes that are left after a compiler fused the calls."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "fusion",
        "the bytes that are left after a compiler fused the calls",
        f"{__name__}.groups:FusedView",
        quantities=f"{__name__}.quantities:QUANTITIES",
    ),
)
