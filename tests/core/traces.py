"""Runs made by hand, as a frontend records them.

A test that needs a run, and no framework, takes these types of its records from here, so that only this file knows
where the engine keeps them.
"""

from __future__ import annotations

from costcore import Trace
from costcore.trace.call import Assumption, Call, Module, ModuleCall, Uncounted
from costcore.trace.run import (
    Block,
    CallTime,
    Dataflow,
    Elsewhere,
    MemoryLedger,
    Profile,
    Rank,
    Recorder,
    Regrouping,
    Run,
    Step,
    Stream,
    Value,
)
from costcore.trace.trace import CallCost

__all__ = [
    "Assumption",
    "Block",
    "Call",
    "CallCost",
    "CallTime",
    "Dataflow",
    "Elsewhere",
    "MemoryLedger",
    "Module",
    "ModuleCall",
    "Profile",
    "Rank",
    "Recorder",
    "Regrouping",
    "Run",
    "Step",
    "Stream",
    "Trace",
    "Uncounted",
    "Value",
]
