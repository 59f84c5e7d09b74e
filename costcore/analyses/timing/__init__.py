"""Time of a run on a device: a lower bound for every group of calls, and what binds it."""

from costcore.analyses.analysis import Analysis

ANALYSES = (
    Analysis(
        "time",
        "lower bound of the time of the run on a device",
        f"{__name__}.time_report:time_of",
        quantities=f"{__name__}.quantities:QUANTITIES",
        pictures={"roofline": f"{__name__}.roofline:roofline_of"},
    ),
)
