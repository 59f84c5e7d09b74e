"""Selects the tests of the requested frontends; a requested frontend without its framework stops the run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frameworks import VARIABLE, available, missing
from tests.registered import specs

for name in ("FORCE_COLOR", "COLUMNS"):  # of runners whose logs show colors, or are wide: golden files are neither
    os.environ.pop(name, None)

GOLDEN = Path(__file__).parent / "golden"

SLOW = (
    "core/studies/sweeps/test_cluster.py",
    "core/studies/sweeps/test_processes.py",
    "frontends/pytorch/memory/test_derivatives.py",
    "frontends/pytorch/memory/test_fit.py",
    "frontends/pytorch/memory/test_measured_peaks.py",
    "frontends/pytorch/plans",
    "frontends/pytorch/sizes",
    "test_ci_examples.py",
    "test_gallery.py",
    "test_guides.py",
    "test_packaging.py",
    "test_releases.py",
    "test_removed_parts.py",
    "test_site.py",
    "whole_networks",
)
"""Files and folders whose tests take minutes: `make test-all` runs them, `make test` does not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # the tests of a plug-in have it, in a run of both
        parser.addoption("--overwrite", action="store_true", help="regenerate the files of tests/golden")


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """Compare a text with a file of tests/golden; ``python -m pytest --overwrite`` regenerates the files."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if pytestconfig.getoption("--overwrite"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        assert file.read_text(encoding="utf-8") == text

    return compare


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "frontend(*names): needs the frameworks of these frontends")
    if names := missing():
        raise pytest.UsageError(f"{VARIABLE} requests {', '.join(names)}: unknown, or its framework is not installed")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore the tests of a frontend whose framework is neither requested nor installed."""
    names = {collection_path.name, collection_path.stem.removeprefix("test_")}
    return True if names & (specs().keys() - set(available())) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = GOLDEN.parent
    slow = {folder / path for path in SLOW}
    for item in items:
        if not slow.isdisjoint((item.path, *item.path.parents)):
            item.add_marker("slow")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("frontend"):
        if absent := set(marker.args) - set(available()):
            pytest.skip(f"neither requested nor installed: {', '.join(sorted(absent))}")
