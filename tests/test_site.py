"""The pages of the documentation site: every document has a place, and every link leads somewhere.

`make docs` builds the site itself with Sphinx, which fails on warnings; these tests need no Sphinx.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path, PurePosixPath

import pytest

import costcore
from tools import site_pages
from tools.make_details_md import anchor
from tools.make_site import list_versions, order

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def made():
    """The text of every page by its path, and the places of linked files."""
    return site_pages.pages()


def headings(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    return {anchor(title) for _, title in site_pages.HEADING.findall(site_pages.FENCE.sub("", text))}


def dead_links(pages: dict[str, str], files: set[str]) -> list[str]:
    """Return the links of the pages that lead to no page, no heading and no file."""
    anchors = {page: headings(text) for page, text in pages.items()}
    dead = []
    for page, text in pages.items():
        for link in site_pages.LINK.finditer(re.sub(r"`[^`\n]*`", "", site_pages.FENCE.sub("", text))):
            path, _, heading = link["target"].partition("#")
            target = os.path.normpath(PurePosixPath(page).parent / path) if path else page
            if re.match(r"[a-z]+:", link["target"]) or target in files:
                continue
            if target not in pages or (heading and heading not in anchors[target]):
                dead.append(f"{page}: {link['target']}")
    return dead


def test_links_lead_to_pages_headings_and_files(made):
    pages, files = made
    assert not dead_links(pages, set(files.values()))


def test_linked_documents_are_pages(made):
    """Sphinx would read a Markdown file among the other files as a page, which has no place in the contents."""
    _, files = made
    assert not [path for path in files if path.endswith(".md")]


def test_dead_links_are_found():
    links = "[b](b.md) [c](#c) [d](b.md#d) [e](https://e.org)"
    pages = {"a.md": f"# A\n{links}\n```text\n[f](f.md)\n```\n", "b.md": "# B\n"}
    assert dead_links(pages, set()) == ["a.md: #c", "a.md: b.md#d"]


def test_every_document_and_every_family_has_a_page(made):
    pages, _ = made
    assert {f"{page.stem}.md" for page in (ROOT / "docs").glob("*.md")} <= pages.keys()
    assert {
        "index.md",
        "architecture.md",
        "contributing.md",
        "changelog.md",
        "coreml.md",
        "jax.md",
        "kernels.md",
        "openvino.md",
        "stablehlo.md",
        "tflite.md",
        "operators/index.md",
    } <= pages.keys()
    assert pages["operators/convolutions.md"].startswith("# Convolutions\n")


def test_no_line_of_details_md_is_lost(made):
    """All lines of DETAILS.md are on a page of an operator family; only headings and links change."""

    def plain(text: str) -> set[str]:
        return {re.sub(r"\([^)]*\)", "", line.lstrip("#").strip()) for line in text.splitlines()}

    pages, _ = made
    there = plain("\n".join(text for page, text in pages.items() if page.startswith("operators/")))
    assert plain((ROOT / "DETAILS.md").read_text(encoding="utf-8")) <= there


@pytest.mark.parametrize("name", [*costcore.__all__, *site_pages.MODULES])
def test_every_public_name_has_a_page_of_the_reference(name, made):
    pages, _ = made
    assert f"({name}.md)" in pages["api/index.md"]
    assert re.search(rf":: (?:costcore\.)?{re.escape(name)}\n", pages[f"api/{name}.md"])


def test_a_link_of_a_document_becomes_a_link_of_its_page():
    details = site_pages.chapters((ROOT / "DETAILS.md").read_text(encoding="utf-8"))
    places = site_pages.Places(ROOT, details)
    text = "[a](../DETAILS.md#conv) [b](memory.md#inference) [c](../LICENSE) [d](../examples)\n"
    changed = places.rewrite(text, "docs/sweeps.md", "sweeps.md")
    assert changed == "[a](operators/convolutions.md#conv) [b](memory.md#inference) [c](files/LICENSE) d\n"
    assert places.rewrite("[a](../sweeps.md)", "docs/x/y.md", "x/y.md") == "[a](../sweeps.md)"


@pytest.mark.parametrize("link", ["nothere.md", "../DETAILS.md#nothing"])
def test_a_link_to_no_file_names_the_document(link):
    places = site_pages.Places(ROOT, [])
    with pytest.raises(ValueError, match=rf"docs/faq.md: the link {link} leads nowhere"):
        places.rewrite(f"[x]({link})", "docs/faq.md", "faq.md")


def test_words_of_the_search_are_of_pages(made):
    pages, _ = made
    words = site_pages.search_words()
    assert {f"{page}.md" for page in words} <= pages.keys()
    assert all(phrases and all(isinstance(phrase, str) for phrase in phrases) for phrases in words.values())


DOCUMENTS = (
    "architecture",
    "changelog",
    "contributing",
    "coreml",
    "jax",
    "kernels",
    "openvino",
    "probes",
    "probes_audit",
    "security",
    "stablehlo",
    "tflite",
)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            [["architecture", "changelog"]],
            "does not list contributing, coreml, jax, kernels, one, openvino, probes, probes_audit, security, "
            "stablehlo, tflite; add each page",
        ),
        ([[*DOCUMENTS, "one", "two"]], "lists pages that do not exist: two"),
        ([[*DOCUMENTS, "one"], ["one"]], "lists pages twice: one"),
    ],
)
def test_a_wrong_table_of_contents_is_an_error(sections, message, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.md").write_text("# One\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        site_pages.check_navigation(tmp_path, [site_pages.Section("", pages) for pages in sections])


def test_versions_are_listed_from_the_newest(tmp_path):
    for name in ("0.9.0", "0.10.0", "0.10.0rc1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    assert list_versions(tmp_path) == sorted(["0.9.0", "0.10.0", "0.10.0rc1"], key=order, reverse=True)
    assert (tmp_path / "versions.js").read_text() == 'window.costcoreVersions = ["0.10.0", "0.10.0rc1", "0.9.0"];\n'
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()


FOUND = site_pages.tomllib.loads(site_pages.EXAMPLES.read_text("utf-8"))


def test_every_public_name_has_an_example_on_its_page(made):
    pages, _ = made
    assert FOUND["examples"].keys() == set(costcore.__all__)
    for name, code in FOUND["examples"].items():
        assert name in code and code.strip() in pages[f"api/{name}.md"]


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize("name", FOUND["examples"])
def test_the_example_of_a_name_runs(name, tmp_path, monkeypatch, capsys):
    if name == "ServingReport":
        pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        exec(FOUND["before"], names)
        exec(FOUND["examples"][name], names)
    assert capsys.readouterr().err == ""


def test_the_page_of_a_report_has_every_member_below_a_question(made):
    pages, _ = made
    listed = [member for members in FOUND["report"].values() for member in members]
    public = {name for name in dir(costcore.Report) if not name.startswith("_")}
    assert len(listed) == len(set(listed)) and set(listed) == public
    page = pages["api/Report.md"]
    assert [title for title in site_pages.HEADING.findall(page) if title[1] in FOUND["report"]]
    assert all(f":: costcore.Report.{name}\n" in page for name in listed)
