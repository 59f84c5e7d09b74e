"""Every example of the README prints the output below it."""

from __future__ import annotations

from pathlib import Path

from tests.readme_examples import check


def test_every_example_prints_its_output(tmp_path):
    check(Path(__file__).parents[1] / "README.md", tmp_path, overwrite=False)
