"""What a terminal shows of long work, and a pipe does not."""

from __future__ import annotations

import io
import sys
import time

from costcore.cli import running


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_what_takes_long(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(running, "FIRST", 0.01)
    monkeypatch.setattr(running, "EACH", 0.01)
    with running.waiting("capturing net.py:make"):
        time.sleep(0.2)
    assert "capturing net.py:make: 00:00" in sys.stderr.getvalue()


def test_short_work_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with running.waiting("capturing"):
        pass
    assert sys.stderr.getvalue() == ""


def test_a_pipe_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(running, "FIRST", 0.0)
    with running.waiting("capturing"):
        time.sleep(0.05)
    assert sys.stderr.getvalue() == ""
