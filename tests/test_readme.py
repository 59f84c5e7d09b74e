"""Every example of README.md runs and prints the output below it.

``python -m pytest tests/test_readme.py --overwrite`` regenerates the outputs.
"""

from __future__ import annotations

import pytest

from tests.readme_examples import README, check, examples, run

pytestmark = pytest.mark.frontend("pytorch", "onnx", "chainer")


def test_every_example_prints_its_output(tmp_path, request):
    check(README, tmp_path, request.config.getoption("--overwrite"))


def test_the_two_commands_stand_in_the_readme():
    text = README.read_text(encoding="utf-8")
    assert "make demo" in text and "make test" in text


def test_the_readme_is_short():
    """Details belong on the pages of docs/; the first output comes within 120 words."""
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= 900
    assert len(text.partition("```text")[0].split()) <= 120


def test_the_first_example_needs_what_its_install_brings():
    """The extra ``torch`` installs no other library."""
    first = examples(README.read_text(encoding="utf-8"))[0]
    imports = [line.split()[1] for line in first.code.splitlines() if line.startswith(("import ", "from "))]
    assert {name.partition(".")[0] for name in imports} == {"costcore", "torch"}
    assert len(first.code.splitlines()) <= 10 + 1


def test_a_wrong_output_is_detected(tmp_path):
    example = examples("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")[0]
    assert example.output == "3\n"
    assert run(example, tmp_path, {}) == "2\n"
