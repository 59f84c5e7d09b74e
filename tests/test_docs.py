"""What the documents promise is there, and what is there stands in the documents."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import costcore
from costcore import ir, plugins
from costcore.ir import Layer, Operations, Tensor
from tests.readme_examples import examples, run

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "DETAILS.md")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


@cache
def anchors(document: str) -> set[str]:
    """The anchors that a code-hosting page gives the headings of a document."""
    titles = HEADING.findall(CODE_BLOCK.sub("", text_of(document)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", [name for name in vars(plugins) if name.startswith("costcore_")])
def test_every_hook_stands_in_the_manual_with_its_arguments(name):
    arguments = ", ".join(inspect.signature(getattr(plugins, name)).parameters)
    assert f"`{name}({arguments})`" in text_of("docs/extending.md")


def test_public_names_are_one_list_in_order():
    tree = ast.parse(text_of("costcore/__init__.py"))
    for_type_checkers = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    } - {"_exists", "__version__"}
    assert costcore.__all__ == sorted(costcore.__all__)
    assert set(costcore.__all__) == for_type_checkers


@pytest.mark.parametrize("name", costcore.__all__)
def test_every_public_name_is_documented(name):
    assert inspect.getdoc(getattr(costcore, name))
    manuals = [text_of("CONTRIBUTING.md"), *(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))]
    assert any(re.search(rf"\b{name}\b", text) for text in manuals), f"{name} is on no page"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    for link in LINK.findall(CODE_BLOCK.sub("", text_of(document))):
        if not link.startswith(("http://", "https://", "mailto:")):
            path, _, anchor = link.partition("#")
            assert not path or (ROOT / path).exists(), link
            assert not anchor or anchor in anchors(path or document), link


def test_the_changelog_has_the_changes_of_this_version():
    assert re.search(rf"^## {re.escape(costcore.__version__)}\b", text_of("CHANGELOG.md"), re.MULTILINE)


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_readme_names_the_two_commands(target):
    assert f"make {target}" in text_of("README.md")


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_command_in_a_manual_exists(document):
    targets = set(re.findall(r"^([a-z0-9-]+):", text_of("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", text_of(document), re.MULTILINE)) <= targets


def test_the_files_and_names_of_the_architecture_exist():
    text = text_of("ARCHITECTURE.md")
    named = re.findall(r"`([\w/]+\.py)`(?:\s+`(\w+)`)?", text)
    assert len(named) > 30
    for file, name in named:
        source = text_of(file)
        assert not name or re.search(rf"^(?:class|def) {name}\b", source, re.MULTILINE), (
            f"{file} does not define {name}"
        )


def test_the_page_that_is_the_engine_runs(tmp_path):
    """2 rows to 4 features of 8: 64 products onto a bias; 16 + 32 + 4 numbers of 4 bytes are read, 8 written."""
    first = examples(text_of("ARCHITECTURE.md"))[0]
    assert run(first, tmp_path, {}) == first.output
    assert "| linear-1 | head | 64 | 64 | 208 | 32 | 36 |" in first.output


def example(word: str) -> dict[str, object]:
    """The names that the example with ``word`` in it defines."""
    pages = text_of("CONTRIBUTING.md") + text_of("docs/extending.md")
    (code,) = (block for block in PYTHON_BLOCK.findall(pages) if word in block)
    names: dict[str, object] = dict(vars(ir))
    exec(code, names)
    return names


@pytest.mark.parametrize(("inputs", "operations"), [("xw", Operations(mul=10, fma=20)), ("xwb", Operations(fma=30))])
def test_the_example_of_a_calculator_holds(inputs, operations):
    """2 rows to 5 features, each a dot product of length 3: 10 of them, 1 mul and 2 fma, or 3 fma onto a bias."""
    shapes = {"x": (2, 3), "w": (5, 3), "b": (5,)}
    layer = Layer("linear", {name: Tensor(shapes[name]) for name in inputs}, [Tensor((2, 5))])
    cost = example("calc_linear")["calc_linear"](layer)
    assert (cost.flops, cost.macs, cost.mwrite) == (operations, 30, 40)


@pytest.mark.frontend("pytorch")
def test_the_example_of_an_analysis_prints_what_it_says(capsys):
    example("bytes_between_calls")
    assert capsys.readouterr().out == "256\n"


def test_the_example_of_a_plug_in_holds():
    layer = Layer("mylib::gate", {"x0": Tensor((2, 3)), "x1": Tensor((2, 3))}, [Tensor((2, 3))])
    calculators = example("hookimpl")["costcore_calculators"]()
    assert calculators["mylib::gate"](layer)[:3] == (Operations(mul=6), 48, 24)
