"""Every example of README.md runs and prints the output below it.

``python -m pytest tests/test_readme.py --overwrite`` regenerates the outputs.
"""

from __future__ import annotations

import re

import pytest

from tests.readme_examples import FENCE, README, check, examples, run

pytestmark = pytest.mark.frontend("pytorch", "onnx", "chainer")


def test_every_example_prints_its_output(tmp_path, request):
    check(README, tmp_path, request.config.getoption("--overwrite"))


def test_the_two_commands_stand_in_the_readme():
    text = README.read_text(encoding="utf-8")
    assert "make demo" in text and "make test" in text


def test_the_readme_is_read_in_five_minutes():
    """Details belong on the pages of docs/."""
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 250
    first_screen = FENCE.sub("", text.partition("\n## More\n")[0])
    assert (
        len(re.findall(r"[\w'-]+", re.sub(r"\([\w/.#-]+\)", "", first_screen))) <= 700
    )  # without the targets of links


def test_links_are_named_as_their_pages():
    links = re.findall(r"\[([^\]]+)\]\(((?:docs|plugins)/[\w/-]+\.md)\)", README.read_text(encoding="utf-8"))
    titles = {path: (README.parent / path).read_text(encoding="utf-8").splitlines()[0] for _, path in links}
    named = [(f"# {' '.join(name.split())}", titles[path]) for name, path in links]
    assert len(links) > 20
    assert not [(name, title) for name, title in named if name not in (title, title.partition(":")[0])]


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
