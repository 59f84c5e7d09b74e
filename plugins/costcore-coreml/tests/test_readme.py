"""Every example of the README prints the output below it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.readme_examples import check


def test_every_example_prints_its_output(tmp_path, request):
    shutil.copytree(Path(__file__).parent / "data" / "cnn.mlpackage", tmp_path / "cnn.mlpackage")
    check(Path(__file__).parents[1] / "README.md", tmp_path, request.config.getoption("--overwrite"))
