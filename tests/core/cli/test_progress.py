"""What a terminal shows of long work, and a pipe does not."""

from __future__ import annotations

import io
import sys

import pytest

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
