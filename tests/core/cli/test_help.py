"""The help of every command: lines of 80 characters, examples that can be copied."""

import shlex
from itertools import pairwise

import pytest

from tests.command_line import commands, main


@pytest.fixture(params=["", *commands()])
def text(request, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as left:
        main([request.param, "--help"] if request.param else ["--help-all"])
    assert left.value.code == 0
    return capsys.readouterr().out


def test_the_help_is_one_screen(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 80
    shown = {line.split()[1] for line in lines if line.startswith("  costcore ")}
    assert shown >= commands().keys()


def test_no_line_is_wider_than_a_terminal(text):
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_the_help_of_a_command_opens_with_an_example(text):
    assert text.splitlines()[2].startswith("example") or "\n  costcore " not in text


def test_examples_are_commands_that_can_be_copied(text):
    """A line that goes on ends with a backslash, and its words are those of one command."""
    joined = text.partition("examples:")[2].replace(" \\\n      ", " ")
    examples = [line for line in joined.splitlines() if line.startswith("  costcore ")]
    for example in examples:
        words = shlex.split(example, comments=True)
        assert words[0] == "costcore" and "\n" not in words
        assert not words[-1].startswith("--input"), example  # its value would be on another line


def test_paragraphs_fill_their_lines(text):
    """The first word of a line would not have fitted into the line before it; an option has its value beside it."""
    lines = text.partition("examples:")[2].splitlines()
    for before, after in pairwise(lines):
        if before[:1].strip() and after[:1].strip():
            assert len(f"{before} {after.split()[0]}") > 78, after  # argparse leaves two columns free
        assert not (before.endswith("\\") and before.removesuffix(" \\").split()[-1] in {"--format", "--device"})
