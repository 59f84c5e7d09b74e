"""Build the documentation site: python tools/make_site.py [--output FOLDER].

The site of this version goes to FOLDER/VERSION, beside the sites of other versions that are there already. Every page
lets readers switch between them. The pictures of the gallery are made by the commands of docs/gallery.toml. Nothing is
downloaded, and a site opens from a folder, without a server.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout is documented, whatever is installed

import costcore  # noqa: E402 - found by the line above
from tools import gallery  # noqa: E402
from tools.site_pages import excerpts, pages, search_words  # noqa: E402

ASSETS = ("_static", "_templates")
BELOW_GALLERY = "## What do you want to know?\n"
"""The heading of the home page above which the gallery is."""
REDIRECT = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">costcore {0}</a>
"""


def stage(folder: Path, root: Path = ROOT) -> None:
    """Write the sources of the site, Markdown and pictures, into the empty ``folder``.

    Raises:
        ValueError: if a link leads nowhere, the table of contents is wrong, or a picture of the gallery cannot be made.
    """
    made, files = pages(root)
    for path, text in made.items():
        write(folder / path, text)
    for path, place in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, folder / place)
    for asset in ASSETS:
        shutil.copytree(root / "docs" / asset, folder / asset)
    shown = gallery.gallery(root / "docs" / "gallery.toml")
    gallery.draw(shown, folder / gallery.FOLDER)
    before, heading, after = made["index.md"].partition(BELOW_GALLERY)
    write(folder / "index.md", f"{before}{gallery.section(shown)}{heading}{after}")


def write(file: Path, text: str) -> None:
    """Write a file, and the folders that it needs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def build(source: Path, target: Path) -> int:
    """Run Sphinx; return its exit status, which is not 0 after any warning, such as a link that leads nowhere."""
    from sphinx.cmd.build import main as sphinx

    options = [
        "-b",
        "html",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        str(ROOT / "docs"),
        "-d",
        str(source.parent / "doctrees"),
    ]
    return sphinx([*options, str(source), str(target)])


def list_versions(folder: Path) -> list[str]:
    """Write the list of the versions in ``folder`` for the switch on every page; return it, the newest first."""
    versions = sorted((page.parent.name for page in folder.glob("*/index.html")), key=order, reverse=True)
    write(folder / "versions.js", f"window.costcoreVersions = {json.dumps(versions)};\n")
    write(folder / "index.html", REDIRECT.format(versions[0]))
    return versions


def order(version: str) -> list[tuple[bool, int, str]]:
    """Return the sort key of a version such as 0.10.1: parts that are numbers by their value."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in version.split(".")]


def main(arguments: list[str] | None = None) -> int:
    """Build the site; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site", help="default: build/site")
    output = parser.parse_args(arguments).output
    work = ROOT / "build" / "site-sources"
    shutil.rmtree(work, ignore_errors=True)
    try:
        stage(work / "pages")
    except ValueError as error:
        sys.exit(f"the site cannot be built: {error}")
    status = build(work / "pages", output / costcore.__version__)
    if status == 0:
        words, shown = json.dumps(search_words()), json.dumps(excerpts(pages()[0]), ensure_ascii=False)
        script = f"window.costcoreWords = {words};\nwindow.costcoreExcerpts = {shown};\n"
        write(output / costcore.__version__ / "_static" / "search_words.js", script)
        list_versions(output)
        print(f"open {output / costcore.__version__ / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
