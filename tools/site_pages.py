"""The Markdown pages of the documentation site, made from the documents of the repository.

Pages stay readable on code-hosting pages: the documents and docs/*.md contain ordinary Markdown with links between
files. Here each gets its place in the site, and its links are rewritten to these places. DETAILS.md becomes one page
per chapter, and every public name of costcore a page that Sphinx fills from its docstring.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, starmap
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import costcore
from tools.make_details_md import anchor

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
NAVIGATION = ROOT / "docs" / "navigation.toml"
DOCUMENTS = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "DETAILS.md": "operators/index.md",
    "plugins/costcore-coreml/README.md": "coreml.md",
    "plugins/costcore-jax/README.md": "jax.md",
    "plugins/costcore-kernels/README.md": "kernels.md",
    "plugins/costcore-openvino/README.md": "openvino.md",
    "plugins/costcore-stablehlo/README.md": "stablehlo.md",
    "plugins/costcore-tflite/README.md": "tflite.md",
    "probes/README.md": "probes.md",
    "probes/AUDIT.md": "probes_audit.md",
}
"""The documents outside docs/, and their pages in the site."""
EXAMPLES = ROOT / "docs" / "api_examples.toml"
"""An example for every public name, and the members of a report by question."""

MODULES = (
    "costcore.ir",
    "costcore.trace.call",
    "costcore.trace.patterns",
    "costcore.trace.run",
    "costcore.frontend",
    "costcore.translate",
    "costcore.plugins",
)
"""Modules that plug-ins import from."""

FENCE = re.compile(r"^(```+)[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((?P<target>[^()\s]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


class Section(NamedTuple):
    """A section of the table of contents: its title and its pages, without suffix."""

    title: str
    pages: list[str]


def navigation(file: Path = NAVIGATION) -> list[Section]:
    """Return the sections of the table of contents, in order."""
    sections = tomllib.loads(file.read_text(encoding="utf-8"))["section"]
    return [Section(section["title"], section["pages"]) for section in sections]


def search_words(file: Path = NAVIGATION) -> dict[str, list[str]]:
    """Return other words for the subject of each page, for the search."""
    words: dict[str, list[str]] = tomllib.loads(file.read_text(encoding="utf-8"))["words"]
    return words


def excerpts(made: Mapping[str, str], longest: int = 220) -> dict[str, list[str]]:
    """Return the paragraphs of every guide as plain text, by page; the search shows one of them."""
    found = {}
    for page, text in made.items():
        if "/" in page or page == "changelog.md":
            continue
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", FENCE.sub("", text)).replace("`", "").replace("**", "")
        paragraphs = [" ".join(part.split()) for part in plain.split("\n\n")]
        shown = [part for part in paragraphs if part and not part.startswith(("#", "|", "!", "<", "- ["))]
        found[page.removesuffix(".md")] = [
            part if len(part) <= longest else part[:longest].rpartition(" ")[0] + " …" for part in shown
        ]
    return found


def outside_code(text: str, change: re.Pattern[str], to: object) -> str:
    """Return ``text`` with every match of ``change`` outside fenced code replaced, as by ``re.sub``."""
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [change.sub(to, text[end : fence.start()]), fence[0]]  # type: ignore[call-overload]
        end = fence.end()
    return "".join([*parts, change.sub(to, text[end:])])  # type: ignore[call-overload]


class Chapter(NamedTuple):
    """A chapter of DETAILS.md: its title, its page, and its text with headings one level higher."""

    title: str
    page: str
    text: str

    @property
    def anchors(self) -> list[str]:
        """The anchors of its headings."""
        return [anchor(title) for _, title in HEADING.findall(FENCE.sub("", self.text))]


def chapters(details: str) -> list[Chapter]:
    """Return the chapters of DETAILS.md; the text before the first family is the first chapter, the index page."""
    head, *parts = re.split(r"^(?=## )", details, flags=re.MULTILINE)
    first = next(i for i, part in enumerate(parts) if part.startswith("## Index by task")) + 1
    found = [Chapter("Operators", DOCUMENTS["DETAILS.md"], "".join([head, *parts[:first]]))]
    for part in parts[first:]:
        title = part.partition("\n")[0].removeprefix("## ")
        found.append(
            Chapter(title, f"operators/{anchor(title)}.md", re.sub(r"^#(#+ )", r"\1", part, flags=re.MULTILINE))
        )
    return found


class Places:
    """The places of documents, headings and files of the repository in the site.

    Args:
        root: the repository.
        chapters: the chapters of DETAILS.md.
    """

    def __init__(self, root: Path, chapters: Iterable[Chapter]) -> None:
        self.root = root
        self.pages = DOCUMENTS | {f"docs/{page.name}": page.name for page in (root / "docs").glob("*.md")}
        self.operators = {name: chapter.page for chapter in chapters for name in chapter.anchors}
        self.files: dict[str, str] = {}
        """Files that pages link to and that are not pages, with their places in the site."""

    def rewrite(self, text: str, document: str, page: str) -> str:
        """Return the text of a document, a path in the repository, with its links as links of its page in the site."""

        def moved(match: re.Match[str]) -> str:
            target = self._target(match["target"], document)
            if target is None:
                return match["text"].removeprefix("[").removesuffix("]")
            path, _, heading = target.partition("#")
            link = os.path.relpath(path, PurePosixPath(page).parent) if path else ""
            return f"{match['text']}({link}{'#' if heading else ''}{heading})"

        return outside_code(text, LINK, moved)

    def _target(self, link: str, document: str) -> str | None:
        """Return the place in the site that ``link`` leads to; None for a folder, which has none.

        Raises:
            ValueError: if it leads to no file, or to no heading of DETAILS.md.
        """
        if re.match(r"[a-z]+:", link):
            return link
        name, _, heading = link.partition("#")
        path = os.path.normpath(PurePosixPath(document).parent / name) if name else document
        if not (self.root / path).exists() or (path == "DETAILS.md" and heading and heading not in self.operators):
            raise ValueError(f"{document}: the link {link} leads nowhere")
        if path == "DETAILS.md" and heading:
            return f"{self.operators[heading]}#{heading}"
        if path in self.pages:
            return self.pages[path] + (f"#{heading}" if heading else "")
        if (self.root / path).is_dir():
            return None
        return self.files.setdefault(path, f"files/{path}")


def contents(title: str, pages: Iterable[str], *, depth: int = 1) -> str:
    """Return a hidden table of contents, which the theme shows beside every page."""
    listed = "\n".join(pages)
    return f"\n```{{toctree}}\n:hidden:\n:maxdepth: {depth}\n:caption: {title}\n\n{listed}\n```\n"


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of the pages on public names: an index, then one page per name and module."""
    names = {name: getattr(costcore, name) for name in costcore.__all__}
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors and warnings": []}
    for name, value in names.items():
        is_error = isinstance(value, type) and issubclass(value, Exception | Warning)
        kinds["Errors and warnings" if is_error else "Classes" if isinstance(value, type) else "Functions"].append(name)
    lines = ["# API reference", "", "Every public name, from its docstring. Import them from `costcore`."]
    for kind, found in kinds.items():
        lines += ["", f"## {kind}", "", "| name | what it is |", "|:--|:--|"]
        lines += [f"| [`{name}`]({name}.md) | {first_line(names[name])} |" for name in sorted(found, key=str.lower)]
    lines += ["", "## Modules for plug-ins", "", "| module | what it has |", "|:--|:--|"]
    lines += [f"| [`{name}`]({name}.md) | {first_line(sys.modules[name])} |" for name in imported(MODULES)]
    yield "api/index.md", "\n".join(lines) + "\n" + contents("API", [*sorted(names, key=str.lower), *MODULES])
    found = tomllib.loads(EXAMPLES.read_text(encoding="utf-8"))
    for name, value in names.items():
        directive = "autoclass" if isinstance(value, type) else "autofunction"
        groups = found["report"] if name == "Report" else {}
        elsewhere = ", ".join(chain.from_iterable(groups.values()))  # below the questions
        page = api_page(name, f"{directive}:: costcore.{name}" + f"\n   :exclude-members: {elsewhere}" * bool(groups))
        page += example_section(found["before"], found["examples"][name])
        yield f"api/{name}.md", page + "".join(starmap(member_section, groups.items()))
    for name in MODULES:
        yield f"api/{name}.md", api_page(name, f"automodule:: {name}")


def example_section(before: str, code: str) -> str:
    """Return the section with an example. If it uses names that the lines ``before`` define, these come first."""
    used = any(re.search(rf"\b{name}\b", code) for name in ("net", "report", "nn", "torch"))
    whole = f"{before.strip()}\n\n{code.strip()}" if used else f"import costcore\n\n{code.strip()}"
    return f"\n## Example\n\n```python\n{whole}\n```\n"


def member_section(question: str, members: Iterable[str]) -> str:
    """Return the section of a page with the members of a report that answer a question."""
    kinds = {name: inspect.getattr_static(costcore.Report, name) for name in members}
    is_property = {name: isinstance(value, property) or hasattr(value, "func") for name, value in kinds.items()}
    directives = [
        f".. {'autoattribute' if is_property[name] else 'automethod'}:: costcore.Report.{name}" for name in members
    ]
    return f"\n## {question}\n\n```{{eval-rst}}\n" + "\n\n".join(directives) + "\n```\n"


def imported(modules: Iterable[str]) -> Iterator[str]:
    """Yield the modules, imported."""
    for name in modules:
        __import__(name)
        yield name


def api_page(name: str, directive: str) -> str:
    """Return the page of one name, which Sphinx completes with ``directive``."""
    return f"# `{name}`\n\n```{{eval-rst}}\n.. {directive}\n```\n"


def first_line(value: object) -> str:
    """Return the first line of a docstring as Markdown in a cell of a table."""
    line = (inspect.getdoc(value) or "").partition("\n")[0]
    return line.replace("``", "`").replace("|", "\\|")


def pages(root: Path = ROOT) -> tuple[dict[str, str], Mapping[str, str]]:
    """Return the text of every page of the site by its path, and the place of every linked file by its path.

    Raises:
        ValueError: if pages of docs/ are missing in the table of contents, pages of it do not exist, or a link leads to
            no file.
    """
    sections = navigation(root / "docs" / "navigation.toml")
    check_navigation(root, sections)
    details = chapters((root / "DETAILS.md").read_text(encoding="utf-8"))
    places = Places(root, details)
    made = {chapter.page: places.rewrite(chapter.text, "DETAILS.md", chapter.page) for chapter in details}
    made[details[0].page] += contents("Operators", [PurePosixPath(chapter.page).stem for chapter in details[1:]])
    for document, page in places.pages.items():
        if document != "DETAILS.md":
            made[page] = places.rewrite((root / document).read_text(encoding="utf-8"), document, page)
    made.update(api_pages())
    made["index.md"] += "".join(contents(section.title, section.pages) for section in sections)
    return made, places.files


def check_navigation(root: Path, sections: Iterable[Section]) -> None:
    """Raise a ValueError if the table of contents and the pages of docs/ differ."""
    listed = [page for section in sections for page in section.pages if "/" not in page]
    there = {page.stem for page in (root / "docs").glob("*.md")} | {
        page.removesuffix(".md") for page in DOCUMENTS.values() if "/" not in page and page != "index.md"
    }
    if twice := sorted({page for page in listed if listed.count(page) > 1}):
        raise ValueError(f"docs/navigation.toml lists pages twice: {', '.join(twice)}")
    if missing := sorted(there - set(listed)):
        raise ValueError(f"docs/navigation.toml does not list {', '.join(missing)}; add each page to a section")
    if unknown := sorted(set(listed) - there):
        raise ValueError(f"docs/navigation.toml lists pages that do not exist: {', '.join(unknown)}")
