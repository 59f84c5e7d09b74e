"""Reads and runs the examples of README.md and of the pages in docs."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

README = Path(__file__).parents[1] / "README.md"

FENCE = re.compile(r"^```(?P<language>[a-z-]*)\n(?P<body>.*?)^```\n", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A fenced block to run, the output that the README states, and the position of that output in the text.

    The output of a ``console`` block is the block itself: commands and what each prints. ``output`` is None if the
    README states none.
    """

    language: str
    code: str
    line: int
    output: str | None
    span: tuple[int, int]


def examples(text: str) -> list[Example]:
    """Return the runnable blocks, in order: ``python``, and ``console`` with lines that start with ``$``.

    A block of language ``text`` is the output of the ``python`` block before it if only markup is between them.
    """
    blocks = list(FENCE.finditer(text))
    found = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block["language"] not in ("python", "console"):
            continue
        line = text.count("\n", 0, block.start()) + 1
        following = following if block["language"] == "python" else block
        said = following is not None and (
            following is block or _belongs(text[block.end() : following.start()], following)
        )
        output, span = (following["body"], following.span("body")) if said and following else (None, block.span("body"))
        found.append(Example(block["language"], block["body"], line, output, span))
    return found


def _belongs(between: str, following: re.Match[str]) -> bool:
    """Return True if a block is the output of the one before it: only blank lines or markup are between them."""
    return following["language"] == "text" and not re.sub(r"<[^>]*>[^<\n]*|\s", "", between)


def run(example: Example, folder: Path, namespace: dict[str, object], page: str = README.name) -> str:
    """Run an example in ``folder`` and return what it prints; the Python blocks of a page share ``namespace``."""
    if example.language == "python":
        printed, before = io.StringIO(), Path.cwd()
        os.chdir(folder)
        try:
            above = "\n" * example.line  # lines are those of the page
            with contextlib.redirect_stdout(printed):
                exec(compile(above + example.code, page, "exec", dont_inherit=True), namespace)
        finally:
            os.chdir(before)
        return printed.getvalue()
    commands = [line[2:] for line in example.code.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{_shell(command, folder)}" for command in commands)


def _shell(command: str, folder: Path) -> str:
    program, *arguments = shlex.split(command)
    assert program == "costcore", f"a page runs {program!r}; console examples are of costcore alone"
    done = subprocess.run(
        [sys.executable, "-m", "costcore", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(README.parent), "PATH": ""},
        check=False,
    )
    errors = re.sub(r"^costcore: capturing .*: \d+ s.*\n", "", done.stderr, flags=re.MULTILINE)  # of a busy machine
    return (done.stdout + errors).replace(f"{folder}{os.sep}", "")


def _without_release(text: str) -> str:
    """Return an output without the release of PyTorch that it names, and the digest of a report that names it."""
    return re.sub(r'(?<="torch": ")[\w.+]+|(?<=sha256: ")\w+', "…", text)


def check(page: Path, folder: Path, overwrite: bool) -> None:
    """Check that every example of a page prints the output below it, or write that output into the page."""
    text, namespace = page.read_text(encoding="utf-8"), {}
    renewed = []
    for example in examples(text):
        printed = run(example, folder, namespace, page.name)
        if overwrite and example.output is not None:
            renewed.append((example.span, printed))
        else:
            assert _without_release(printed) == _without_release(example.output or ""), f"{page.name}:{example.line}"
    for (start, end), printed in reversed(renewed):
        text = text[:start] + printed + text[end:]
    if renewed:
        page.write_text(text, encoding="utf-8")
