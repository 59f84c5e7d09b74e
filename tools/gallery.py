"""The gallery of the home page: pictures that are made by the commands below them when the site is built."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from costcore.isolated import python_command

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "gallery"
"""The folder of the pictures in the site."""


RUN = "from costcore.__main__ import run; sys.exit(run())"


class Formatted(NamedTuple):
    """A picture, or a page that is linked: what it shows, and the command that makes it."""

    sentence: str
    command: str

    @property
    def file(self) -> str:
        """The name of the file that the command writes."""
        return shlex.split(self.command)[-1]


def gallery(file: Path = ROOT / "docs" / "gallery.toml") -> list[Formatted]:
    """Return the pictures in order."""
    return [Formatted(**each) for each in tomllib.loads(file.read_text(encoding="utf-8"))["picture"]]


def draw(shown: Iterable[Formatted], folder: Path) -> None:
    """Run the commands in ``folder``.

    Raises:
        ValueError: if a command fails, or writes no file; the message has what it printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for each in shown:
        words = python_command(RUN, *shlex.split(each.command)[1:], keep_environment=True)
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not (folder / each.file).is_file():
            raise ValueError(f"{each.command}: {done.stderr or done.stdout or 'no file'}")


def section(shown: Iterable[Formatted]) -> str:
    """Return the section of the home page, in Markdown."""
    figures = "\n".join(map(_figure, shown))
    return f'## Gallery\n\n<div class="gallery">\n\n{figures}\n</div>\n\n'


def _figure(shown: Formatted) -> str:
    target = f"{FOLDER}/{shown.file}"
    is_page = target.endswith(".html")
    link = f"[{shown.sentence}]({target})" if is_page else f"![{shown.sentence}]({target})\n\n{shown.sentence}"
    return f"<figure>\n\n{link}\n\n```sh\n{shown.command}\n```\n\n</figure>\n"
