"""Runs probes on one tool, in its environment: ``python -m costcore_probes.worker TOOL TIMEOUT``.

It reads one JSON object per line, ``{"probe": "conv.plain", "format": "torch"}``. The first line of its output has the
versions. Then it writes one line per probe, in the same order: ``{"value": 4320, "missing": [], "seconds": 0.01}``, or
``{"error": "…"}``. If the tool leaves patches behind, each probe runs in a process forked after the import of the tool.
Needs POSIX.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any, TextIO

from .adapter import Adapter, adapter
from .catalogue import find
from .frameworks import MODULES, build

__all__ = ["answer", "in_child", "main"]


def answer(tool: Adapter, probe: str, format: str) -> dict[str, Any]:
    """Build the network of a probe and run the tool; an exception becomes ``error``."""
    asked = find(probe)
    begin = time.perf_counter()
    try:
        built = build(asked, format)
        begin = time.perf_counter()
        figure = tool.counts[asked.quantity](format, built)
    except Exception as error:  # any exception of a tool is its answer
        text = " ".join(str(error).split())
        return {"error": f"{type(error).__name__}: {text}"[:300], "seconds": round(time.perf_counter() - begin, 3)}
    seconds = round(time.perf_counter() - begin, 3)
    return {"value": figure.value, "missing": list(figure.missing), "seconds": seconds}


def _versions(tool: Adapter) -> dict[str, str]:
    return {"python": platform.python_version(), **{name: _version(name) for name in {tool.package, tool.framework}}}


def _version(name: str) -> str:
    """Return the version of a package, or of a package that provides its module: ``tensorflow-cpu`` for tensorflow."""
    for distribution in (name, *packages_distributions().get(name, ())):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "not installed"


def in_child(reply: Callable[[], dict[str, Any]], timeout: float) -> dict[str, Any]:
    """Return ``reply()``, run in a forked process that is stopped after ``timeout`` seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        status = 1
        try:
            os.write(writer, json.dumps(reply()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], timeout)
    if not ready:
        os.kill(child, signal.SIGKILL)
    text = os.read(reader, 1 << 20) if ready else b""
    os.close(reader)
    os.waitpid(child, 0)
    if not ready:
        return {"error": f"no answer in {timeout:g} seconds"}
    return json.loads(text) if text else {"error": "the process of the tool ended without an answer"}


def _stop(*_: object) -> None:
    raise TimeoutError


def _here(reply: Callable[[], dict[str, Any]], timeout: float) -> dict[str, Any]:
    """Return ``reply()``, run in this process; Python code is interrupted after ``timeout`` seconds."""
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        found = reply()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"error": f"no answer in {timeout:g} seconds"} if found.get("error") == "TimeoutError: " else found


def _import(tool: Adapter) -> None:
    """Import the tool and its framework."""
    for format in tool.formats:
        importlib.import_module(f".frameworks.{MODULES[format]}", __package__)
    if tool.framework == "torch":
        import torch

        torch.set_num_threads(1)
    importlib.import_module(tool.package.replace("-", "_"))


def main(tool_name: str, timeout: str, stdin: TextIO = sys.stdin) -> None:
    """Answer every line of the input."""
    tool = adapter(tool_name)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the tool must not mix with the protocol
    warnings.simplefilter("ignore")
    versions = _versions(tool)
    try:
        _import(tool)
    except Exception as error:
        print(json.dumps({"versions": versions, "error": f"{type(error).__name__}: {error}"}), file=out, flush=True)
        return
    print(json.dumps({"versions": versions}), file=out, flush=True)
    ask = in_child if tool.isolated else _here
    for line in stdin:
        question = json.loads(line)
        reply = partial(answer, tool, question["probe"], question["format"])
        print(json.dumps(ask(reply, float(timeout))), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
