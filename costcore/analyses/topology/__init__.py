"""Links between processes, and how long collectives take over them."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "communication",
        "what each group of processes sends, and how long that takes over their links",
        f"{__name__}.communication:communications_of",
    ),
)
