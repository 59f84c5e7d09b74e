"""Run probes on tools, each tool in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .adapter import adapter
from .probe import Probe

__all__ = ["ask"]

PACKAGES = str(Path(__file__).parents[1])
"""The folder of this package, which need not be installed in the environment of a tool."""

WORKER = f"import sys; sys.path[0] = {PACKAGES!r}; from costcore_probes.worker import main; main(*sys.argv[1:])"
"""The code that runs the worker. It imports this package from :data:`PACKAGES`, and nothing from the current folder."""


def ask(tool: str, probes: Iterable[Probe], python: str = sys.executable, timeout: float = 30) -> dict[str, Any]:
    """Run every probe that a tool accepts.

    Returns:
        ``versions``, and ``answers`` of the worker by probe and format, ``conv.plain@torch``; or ``error`` if the tool
        could not be started.
    """
    questions = [(probe.id, format) for probe in probes for format in adapter(tool).accepts(probe)]
    lines = "".join(json.dumps({"probe": id, "format": format}) + "\n" for id, format in questions)
    try:
        done = subprocess.run(
            [python, "-c", WORKER, tool, str(timeout)],
            input=lines,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": PACKAGES},
        )
    except OSError as error:
        return {"versions": {}, "error": f"there is no interpreter {python}: {error.strerror}"}
    written = [json.loads(line) for line in done.stdout.splitlines()]
    if not written:
        return {"versions": {}, "error": done.stderr.strip().splitlines()[-1] if done.stderr else "no answer"}
    first, *answers = written
    if "error" in first:
        return dict(first)
    unanswered = [{"error": "the process of the tool ended without an answer"}] * (len(questions) - len(answers))
    pairs = zip(questions, [*answers, *unanswered], strict=True)
    found = {f"{id}@{format}": reply for (id, format), reply in pairs}
    return {"versions": first["versions"], "answers": found}
