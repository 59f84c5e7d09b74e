"""Devices and the links between them: peak rates from TOML files with their sources, and the time of collectives."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "communication",
        "the bytes that each process group sends, and the time over its link",
        f"{__name__}.device:communications_of",
    ),
)
