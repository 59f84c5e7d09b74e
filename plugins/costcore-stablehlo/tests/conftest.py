"""Makes the modules beside this file importable, those of the JAX plug-in's tests, and the examples of pages."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "costcore-jax" / "tests"), str(HERE.parents[2])]


def pytest_addoption(parser):
    parser.addoption("--overwrite", action="store_true", help="write the outputs of examples into the README")
