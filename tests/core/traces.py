"""Runs made by hand: the records that a frontend makes of a run, and the report of them.

Only this file of the tests knows where the engine keeps them.
"""

from __future__ import annotations

from costcore import Report, Trace
from costcore.api.hook import make_report
from costcore.registry import CustomCalculators
from costcore.trace.call import DECLARED, Assumption, Call, Module, ModuleCall, Record, Uncounted, user_traceback
from costcore.trace.run import (
    Block,
    CallTime,
    Dataflow,
    Elsewhere,
    Interval,
    MemoryLedger,
    Profile,
    Rank,
    RawBlock,
    RawLedger,
    Recorder,
    Regrouping,
    Run,
    Step,
    Stream,
    Value,
    starts,
)
from costcore.trace.trace import CallCost

__all__ = [
    "DECLARED",
    "Assumption",
    "Block",
    "Call",
    "CallCost",
    "CallTime",
    "Dataflow",
    "Elsewhere",
    "Interval",
    "MemoryLedger",
    "Module",
    "ModuleCall",
    "Profile",
    "Rank",
    "RawBlock",
    "RawLedger",
    "Record",
    "Recorder",
    "Regrouping",
    "Run",
    "Step",
    "Stream",
    "Trace",
    "Uncounted",
    "Value",
    "report_of",
    "starts",
    "user_traceback",
]


def report_of(recorder: Recorder, fma_1flop: bool = True, layout: str = "framework") -> Report:
    """Return the report of what a frontend recorded."""
    return make_report(recorder, CustomCalculators(), fma_1flop, layout)
