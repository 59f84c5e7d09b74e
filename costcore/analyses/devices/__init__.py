"""Devices and the links between them: peak rates from TOML files with their sources, and the time of collectives."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "communication",
        "what each group of processes sends, and how long that takes over their links",
        f"{__name__}.communication:communications_of",
    ),
)
