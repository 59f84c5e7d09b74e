"""What a screen writes, and when."""

from __future__ import annotations

import io

from costcore.text.screen import Screen


def test_a_screen_that_is_closed_writes_nothing():
    """Python 3.13 closes, and so flushes, what is no longer used, and reports every error of it."""
    stream = io.StringIO()
    screen = Screen(stream, "--format table")
    screen.write("a line\n")
    screen.close()
    assert stream.getvalue() == ""
    stream.close()
    screen.close()
