"""The kernels that a compiler makes of a model, from its own schedule."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "kernels",
        "the kernels that a compiler makes of a model, with their calls and bytes",
        f"{__name__}.kernels:kernels_of",
    ),
)
