"""Makes the builder beside this file importable, and the examples of pages in the repository."""

import contextlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[2])]


def pytest_addoption(parser):
    with contextlib.suppress(ValueError):  # the tests of costcore have it, in a run of both
        parser.addoption("--overwrite", action="store_true", help="write the outputs of examples into the README")
