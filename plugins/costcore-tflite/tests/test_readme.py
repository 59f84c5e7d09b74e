"""Every example of the README prints the output below it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.readme_examples import check


@pytest.fixture
def overwrite(request):
    return request.config.getoption("--overwrite", default=False)


def test_every_example_prints_its_output(tmp_path, overwrite):
    shutil.copy(Path(__file__).parent / "data" / "person_detect.tflite", tmp_path)
    check(Path(__file__).parents[1] / "README.md", tmp_path, overwrite)
