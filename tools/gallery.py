"""The gallery of the home page. The build of the site runs the command shown below each picture to make it."""

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


class Picture(NamedTuple):
    """A picture or a linked page: a sentence on it, and the command that makes it."""

    sentence: str
    command: str

    @property
    def file(self) -> str:
        """The name of the file that the command writes."""
        return shlex.split(self.command)[-1]


def gallery(file: Path = ROOT / "docs" / "gallery.toml") -> list[Picture]:
    """Return the pictures in order."""
    return [Picture(**each) for each in tomllib.loads(file.read_text(encoding="utf-8"))["picture"]]


def draw(shown: Iterable[Picture], folder: Path) -> None:
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


def section(shown: Iterable[Picture]) -> str:
    """Return the section of the home page, in Markdown."""
    figures = "\n".join(map(_figure, shown))
    return f'## Gallery\n\n<div class="gallery">\n\n{figures}\n</div>\n\n'


def _figure(shown: Picture) -> str:
    target = f"{FOLDER}/{shown.file}"
    is_page = target.endswith(".html")
    link = f"[{shown.sentence}]({target})" if is_page else f"![{shown.sentence}]({target})\n\n{shown.sentence}"
    return f"<figure>\n\n{link}\n\n```sh\n{shown.command}\n```\n\n</figure>\n"
