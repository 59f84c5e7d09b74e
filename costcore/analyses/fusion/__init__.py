"""Fusion: the bytes left after a compiler fused the calls, and the kernels of a compiler's own schedule."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "fusion",
        "the bytes after kernel fusion",
        f"{__name__}.groups:FusedView",
        quantities=f"{__name__}.quantities:QUANTITIES",
    ),
    Analysis(
        "kernels",
        "the kernels of the compiled model, with their calls and bytes",
        f"{__name__}.kernels:kernels_of",
    ),
)
