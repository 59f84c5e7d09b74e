"""The violations of a budget in the formats of ``costcore check``: lines, Markdown, JSON, annotations of GitHub."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from costcore.studies.budgets.violations import Violations
from costcore.tables.renderers import to_markdown
from costcore.text.escape import json_text, printable

SCHEMA = "costcore-check-1"
"""The schema of the JSON."""


class Verdict(NamedTuple):
    """What the check of a model found.

    Attributes:
        model: the model, as the command line names it.
        budget: the path of the budget.
        violations: the violations.
        status: the status of the report.
        missing: what the report does not count, if there is no violation; may be empty.
    """

    model: str
    budget: str
    violations: Violations
    status: str
    missing: str


def to_lines(verdict: Verdict) -> list[str]:
    """Return one line per violation."""
    lines = [printable(f"{verdict.model}: {violation}") for violation in verdict.violations]
    missing = [f"{verdict.model}: partial: not counted: {printable(verdict.missing)}"] if verdict.missing else []
    return [*(lines or [f"{verdict.model}: within {verdict.budget}"]), *missing]


def to_md(verdict: Verdict) -> list[str]:
    """Return a sentence, and a table of the violations."""
    model, budget, violations = verdict.model, verdict.budget, verdict.violations
    if not violations:
        missing = [f"⚠️ partial: not counted: {printable(verdict.missing)}"] if verdict.missing else []
        return [f"✅ `{model}` is within `{budget}`.", *missing]
    table = to_markdown(violations.table().text())
    return [f"❌ `{model}` breaks `{budget}` {len(violations)}×.", "", table.rstrip("\n")]


def to_github(verdict: Verdict) -> list[str]:
    """Return the lines that GitHub Actions shows as annotations, one per violation, on the source of the model.

    A model of a file, ``net.py:make`` or ``net.onnx``, is annotated where it is defined; another one on the budget.
    """
    file, line = _source(verdict.model)
    place = f"file={_property(file or verdict.budget)}{f',line={line}' if line else ''},title=costcore"
    errors = [f"::error {place}::{_message(str(violation))}" for violation in verdict.violations]
    missing = [f"::warning {place}::partial: not counted: {_message(verdict.missing)}"] if verdict.missing else []
    return [*(errors or to_lines(verdict._replace(missing=""))), *missing]


def to_json(verdict: Verdict) -> list[str]:
    """Return the verdict as JSON; times are in nanoseconds."""
    violations = [{**violation._asdict(), "excess": violation.excess} for violation in verdict.violations]
    content = {
        "schema": SCHEMA,
        "model": verdict.model,
        "budget": verdict.budget,
        "within": not violations,
        "status": verdict.status,
        "violations": violations,
    }
    return [json_text(content)]


FORMATS: Mapping[str, Callable[[Verdict], list[str]]] = {
    "text": to_lines,
    "md": to_md,
    "json": to_json,
    "github": to_github,
}
"""What writes a verdict, by format."""


def _source(model: str) -> tuple[str, int]:
    """Return the file of a model and the line that defines it; an empty path without a file, 0 if no line is found."""
    path, _, name = model.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        return (model if Path(model).is_file() else ""), 0
    definition = re.compile(rf"(?:(?:class|def)\s+{re.escape(name)}\b|{re.escape(name)}\s*[:=])")
    lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    return path, next((number for number, line in enumerate(lines, start=1) if definition.match(line)), 0)


def _message(text: str) -> str:
    """Return a text as the message of a command of GitHub Actions, which is one line."""
    lines = map(printable, text.replace("\r", "\n").split("\n"))
    return "\n".join(lines).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a text as a property of a command of GitHub Actions."""
    return _message(text).replace(":", "%3A").replace(",", "%2C")
