"""What a terminal shows of long work, and what a log has."""

from __future__ import annotations

import io
import sys
from time import sleep

import pytest

from costcore.cli.running import waiting
from costcore.tables.renderers import progress
from costcore.text.output import Screen
from tests.command_line import main


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "seconds", "shown"), [(Terminal, 0.2, True), (Terminal, 0, False), (io.StringIO, 0.2, False)]
)
def test_a_terminal_shows_what_takes_long(toy, tmp_path, monkeypatch, stream, seconds, shown):
    path = tmp_path / "net.py"
    path.write_text(f"import time\nfrom tests.core.toy_framework import Model\ntime.sleep({seconds})\nmade = Model()\n")
    monkeypatch.setattr(sys, "stderr", stream())
    for name, value in (("FIRST", 0.1), ("EACH", 0.01)):
        monkeypatch.setattr(f"costcore.cli.running.{name}", value)
    assert main(["memory", f"{path}:made", "--input", "2x3", "--memory", "1GiB"]) in (0, 1)
    assert (": 00:00" in sys.stderr.getvalue()) is shown


def test_a_log_has_a_line_now_and_then(monkeypatch):
    """Three plans of 0.2 seconds each, with a line every 0.1 seconds; the first comes while plan 0 is tried."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr("costcore.cli.running.EACH_LINE", 0.1)
    with waiting("capturing net"):
        assert [item for item in progress(["a", "b", "c"], "plans") if sleep(0.2) is None] == ["a", "b", "c"]
        assert [*progress(iter("ab"), "parts")] == ["a", "b"]
    first, *others = sys.stderr.getvalue().splitlines()
    assert first == "costcore: capturing net: 0 s, 0 of 3 plans"
    assert any(line.endswith(", 2 of 3 plans") for line in others)
    with waiting("a short one"):
        pass
    assert "a short one" not in sys.stderr.getvalue()


@pytest.mark.parametrize(("columns", "width"), [("120", 120), ("60", 60), ("", 80), ("0", 80), ("wide", 80)])
def test_columns_of_the_environment_are_the_width_of_a_pipe(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert Screen(io.StringIO(), "--format table").width == width
