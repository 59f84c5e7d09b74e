"""Makes the builder beside this file importable, and the examples of pages in the repository."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[2])]


def pytest_addoption(parser):
    parser.addoption("--overwrite", action="store_true", help="write the outputs of examples into the README")
