"""Test every pair of PyTorch and Python that people have, each in its own environment, which is removed afterwards.

``make test-matrix`` runs all pairs, one at a time, and prints a table; ``make test-matrix PAIRS="2.15.0/3.13"`` some of
them. An environment takes 5 to 6 GB and some minutes to install. Interpreters are found as ``python3.13`` or by pyenv.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]

OWN = ("setuptools", "transformers", "ruff")
"""Packages of the extra ``dev`` that no test needs, or that each pair installs in its own version."""

TESTERS = "wheel pluggy texttable tqdm tomli"
"""Packages that are needed in addition to the extra ``dev``."""

NO_PYTHON = "not tested: there is no Python"


def developer_packages() -> list[str]:
    """Return the requirements of the extra ``dev`` of pyproject.toml that every pair needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [each for each in project["optional-dependencies"]["dev"] if re.split(r"\W", each)[0] not in OWN]


class Pair(NamedTuple):
    """A release of PyTorch on a Python, with the releases of other packages that go with them."""

    torch: str
    python: str
    others: str = "numpy>=2 onnx transformers>=5"

    def __str__(self) -> str:
        return f"{self.torch}/{self.python}"


PAIRS = (
    Pair("2.4.1", "3.10", "numpy<2 pyarrow<26 onnx==1.21.0 transformers<5"),
    Pair("2.6.0", "3.12", "numpy>=2 onnx==1.22.0 transformers>=5"),
    Pair("2.9.1", "3.12"),
    Pair("2.9.1", "3.12", "numpy>=2 onnx transformers<5"),
    Pair("2.13.0", "3.11"),
    Pair("2.15.0", "3.13"),
    Pair("2.15.0", "3.14"),
)
"""The oldest release with the oldest packages, the newest with the newest, and some in between."""


def wanted(names: Sequence[str]) -> list[Pair]:
    """Return the pairs of these names, ``2.15.0/3.13``, with every choice of other packages; all without a name.

    Raises:
        ValueError: for a name that is not a release of PyTorch and of Python.
    """
    found: list[Pair] = []
    for name in names:
        if not re.fullmatch(r"\d+\.\d+\.\d+/\d+\.\d+", name):
            raise ValueError(f"{name!r} is not a pair (expected PyTorch and Python, for example 2.15.0/3.13)")
        found += [pair for pair in PAIRS if str(pair) == name] or [Pair(*name.split("/"))]
    return found or list(PAIRS)


def interpreter(python: str) -> str | None:
    """Return the path of a Python: from the search path, else from pyenv; None if neither has it."""
    found = shutil.which(f"python{python}")
    if found and subprocess.run([found, "-I", "-c", ""], capture_output=True, check=False).returncode == 0:
        return found
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    made = sorted(versions.glob(f"{python}.*/bin/python"))
    return str(made[-1]) if made else None


@contextmanager
def environment(pair: Pair, base: str) -> Iterator[Path]:
    """Build the environment of a pair, and remove it afterwards.

    Returns:
        Its interpreter.
    """
    with tempfile.TemporaryDirectory(prefix="costcore-matrix-") as folder:
        subprocess.run([base, "-I", "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"

        def install(*packages: str) -> None:
            command = [python, "-I", "-m", "pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check"]
            subprocess.run([*command, *packages], check=True)

        install(f"torch=={pair.torch}", *pair.others.split(), *developer_packages(), *TESTERS.split(), "setuptools<81")
        install("--no-build-isolation", "chainer==7.8.1")
        install("--upgrade", "setuptools")
        install("--no-build-isolation", "--no-deps", "--editable", str(ROOT))  # for its fixtures of pytest
        yield python


def run_tests(python: Path, arguments: Sequence[str]) -> str:
    """Run the tests as ``make test`` does; return the last line of pytest, with its status if pytest broke."""
    variables = {"COSTCORE_TEST_FRONTENDS": "pytorch,chainer,onnx", "PYTHONPATH": str(ROOT)}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += ["--numprocesses", "auto", "--maxprocesses", "4", "--dist", "worksteal", *arguments]
    last = ""
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, text=True) as run:
        try:
            for line in run.stdout or ():
                if line.startswith(("FAILED", "ERROR")):
                    print(line, end="", flush=True)
                last = line.strip() or last
        except BaseException:
            run.terminate()
            raise
    return last if run.returncode in (0, 1) else f"error {run.returncode}: {last}"


def result_of(pair: Pair, arguments: Sequence[str]) -> str:
    """Return the result of a pair: the last line of pytest, or why the pair was not tested."""
    base = interpreter(pair.python)
    if base is None:
        return f"{NO_PYTHON} {pair.python}"
    try:
        with environment(pair, base) as python:
            return run_tests(python, arguments)
    except subprocess.CalledProcessError as error:
        return f"not tested: {Path(error.cmd[0]).name} {' '.join(map(str, error.cmd[2:5]))} … failed"


def has_passed(result: str, *, is_named: bool) -> bool:
    """Return whether all tests of a pair passed. A missing interpreter is a failure only if the pair was named."""
    if result.startswith(NO_PYTHON):
        return not is_named
    return re.search(r"\bpassed\b", result) is not None and re.search(r"failed|error", result) is None


def main() -> int:
    """Print a table of all pairs; 1 if a test failed or a pair was not tested, 2 for a wrong name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", default="", help='for example "2.15.0/3.13 2.4.1/3.10"; default: all')
    parser.add_argument("tests", nargs="*", default=["tests"], help="files and folders; default: all tests")
    options = parser.parse_args()
    try:
        pairs = wanted(options.pairs.split())
    except ValueError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that environments are removed
    results = {}
    for pair in pairs:
        print(f"== {pair} with {pair.others}", flush=True)
        results[pair] = result_of(pair, options.tests)
        print(results[pair], flush=True)
    print("\n| PyTorch | Python | other packages | result |\n|:--|:--|:--|:--|")
    for pair, result in results.items():
        print(f"| {pair.torch} | {pair.python} | {pair.others} | {result} |")
    return int(not all(has_passed(result, is_named=bool(options.pairs)) for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
