from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[4])

NETS = """
import os, sys, time
if {root!r} not in sys.path:
    sys.path.append({root!r})
from tests.core import toy_framework as toy
toy.register_here()

def make(depth=1, width=1):
    with open({calls!r}, "a") as calls:
        calls.write(f"{{depth}},{{width}}\\n")
    time.sleep({seconds!r})
    return toy.Model(*["toy::Double"] * (depth * width))
def small():
    return toy.Model("toy::Double")
def dies():
    os._exit(9)
def crashes():
    os.kill(os.getpid(), 11)
def leaves():
    raise SystemExit(3)
def hangs():
    time.sleep(1000)
def fills():
    held = []
    while True:
        held.append(bytearray(1 << 26))
"""


@pytest.fixture
def nets(tmp_path, toy):
    """A file with models of the toy framework, most of which do harm, and the file where ``make`` logs its calls."""
    path = tmp_path / "nets.py"
    path.write_text(NETS.format(root=ROOT, calls=str(tmp_path / "calls.txt"), seconds=0))
    return path


@pytest.fixture
def calls(tmp_path):
    """Return the arguments with which ``make`` was called since the last time."""

    def read():
        path = tmp_path / "calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(lines)

    return read
