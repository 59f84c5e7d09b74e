"""Conventions that a test writes as TOML, and what they count of a run by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from costcore import Cost, Layer, Report
from tests.core.traces import Call, CallCost, Run, Trace


def toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def one_pass(by: str, rules: Mapping[str, str], default: str | None = None, **options: Any) -> str:
    given = {"by": by, **options, **({} if default is None else {"default": default}), "rules": rules}
    return "[[count]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in given.items())


def convention(by: str, rules: Mapping[str, str], default: str | None = None, **options: Any) -> str:
    """Return the file of a convention with one pass."""
    head = 'name = "ours"\ntool = "our tool"\nversion = "1"\nunit = "OP"\ncalls_it = "ops"\n'
    return head + one_pass(by, rules, default, **options)


def view(text: str, report: Report) -> Any:
    """Return what a report is under the convention in a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "mine.toml")
        path.write_text(text, encoding="utf-8")
        return report.under(path)


def counted(text: str, records: Any, run: Run | None = None) -> Any:
    """Return the lines and notes of a convention on a run of calls without names."""
    named = (each._replace(call=each.call.named(f"{each.call.type}-{i}")) for i, each in enumerate(records))
    return view(text, Report(Trace(tuple(named), run or Run(frameworks={"torch": "2.0"})))).counts


def amount(expression: str, layer: Layer, cost: Cost | None = None, run: Run | None = None, **call: Any) -> Any:
    """Return what a rule with this expression counts of one call."""
    made = Call(layer, layer.op, **call)
    record = CallCost(made, Cost(0, 0, 0, {}) if cost is None else cost)
    (line,) = counted(convention("op", {layer.op: expression}), [record], run).lines
    return line.amount
