"""Tools are stopped when they take too long, and what they change or break stays with them."""

import json
import os
import subprocess
import sys
import time
from functools import partial

import pytest

from costcore_probes import worker
from costcore_probes.adapter import Adapter, Figure
from costcore_probes.catalogue import find
from costcore_probes.runner import PACKAGES, ask


def tool(count):
    return Adapter(name="made", package="pytest", declares="", cites="", counts={"macs": count}, framework="pytest")


def reply(count):
    return partial(worker.answer, tool(count), "conv.plain", "torch")


@pytest.fixture
def built(monkeypatch):
    monkeypatch.setattr(worker, "build", lambda probe, format: (probe.id, format))


def test_an_answer_has_the_figure_and_what_is_missing(built):
    found = worker.answer(tool(lambda format, net: Figure(len(net[0]), (format,))), "conv.plain", "torch")
    assert (found["value"], found["missing"]) == (len("conv.plain"), ["torch"])


def test_what_a_tool_raises_is_its_answer(built):
    def count(format, net):
        raise KeyError("aten::what")

    assert worker.answer(tool(count), "conv.plain", "torch")["error"] == "KeyError: 'aten::what'"


@pytest.mark.parametrize(
    ("count", "error"),
    [
        (lambda format, net: time.sleep(60), "no answer in 0.2 seconds"),
        (lambda format, net: os._exit(3), "the process of the tool ended without an answer"),
    ],
    ids=["slow", "crash"],
)
def test_a_process_that_does_not_answer(built, count, error):
    found = worker.in_child(reply(count), 0.2)
    assert found["error"] == error


def test_a_tool_that_leaves_nothing_behind_is_asked_in_one_process_and_stopped_too(built):
    assert worker._here(reply(lambda format, net: time.sleep(60)), 0.2)["error"] == "no answer in 0.2 seconds"
    assert worker._here(reply(lambda format, net: Figure(7)), 10)["value"] == 7


def test_probes_behind_a_crash_are_errors(monkeypatch):
    text = '{"versions": {}}\n{"value": 8640, "missing": []}\n'
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, text, ""))
    answers = ask("fvcore", [find("conv.plain"), find("conv.bias")])["answers"]
    assert answers["conv.plain@torch"]["value"] == 8640
    assert answers["conv.bias@torch"]["error"] == "the process of the tool ended without an answer"


def test_a_tool_that_changes_its_process_does_not_change_the_next(built):
    calls = []

    def count(format, net):
        calls.append(1)
        return Figure(len(calls))

    assert [worker.in_child(reply(count), 10)["value"] for _ in range(2)] == [1, 1]


PROTOCOL = """
from costcore_probes import worker
from costcore_probes.adapter import Adapter, Figure
counts = {"macs": lambda format, built: Figure(7)}
worker.adapter = lambda name: Adapter("made", "pytest", "", "", counts, framework="pytest")
worker._import = lambda tool: None
worker.build = lambda probe, format: print("printed by a tool", flush=True)
worker.main("made", "10")
"""


def test_the_protocol():
    lines = [json.dumps({"probe": "conv.plain", "format": "torch"})] * 2
    command = [sys.executable, "-c", PROTOCOL]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True, cwd=PACKAGES)
    first, *answers = map(json.loads, done.stdout.splitlines())
    assert first["versions"]["pytest"] == pytest.__version__
    assert [answer["value"] for answer in answers] == [7, 7]
    assert done.stderr.count("printed by a tool") == 2


def test_a_tool_that_is_not_installed_is_reported():  # the environment of these tests has no fvcore
    found = ask("fvcore", [find("conv.plain")], sys.executable)
    assert found["error"].startswith("ModuleNotFoundError")
