"""What Python programs print where standard output is ASCII or cp1252, as pipes are on Windows."""

from __future__ import annotations

import io
import re
import sys

import pytest

from costcore import compare, reconcile
from tests.core import html_reports
from tests.core.given_costs import dense, net, relu

SMALL = net(dense("fc", 8), relu("act", 8))
OTHER = net(dense("fc", 9))
SHOWN = {
    "tree": SMALL.show_tree,
    "tree in Markdown": lambda: SMALL.show_tree(mode="md"),
    "tree in CSV": lambda: SMALL.show_tree(mode="csv"),
    "reconciliation": lambda: print(reconcile(SMALL, "fvcore", "torch")),
    "its summary": lambda: print(reconcile(SMALL, "fvcore", "torch").summary),
    "summary of a comparison": lambda: print(*compare(SMALL, OTHER).summary, sep="\n"),
    "summary as a list": lambda: print(compare(SMALL, OTHER).summary),
    "comparison": lambda: print(compare(SMALL, OTHER)),
    "comparison shown": lambda: compare(SMALL, OTHER).show(),
    "its representation": lambda: print([compare(SMALL, OTHER)]),
    "representation of a reconciliation": lambda: print([reconcile(SMALL, "fvcore", "torch")]),
    "time": lambda: print(SMALL.time("h100")),
    "memory": lambda: print(html_reports.step().memory),
    "page": lambda: html_reports.step().memory.to_html(sys.stdout),
    "Markdown": lambda: compare(SMALL, OTHER).to_markdown(sys.stdout),
}


def written(show, encoding, monkeypatch):
    buffer = io.BytesIO()
    with io.TextIOWrapper(buffer, encoding=encoding) as stream, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        show()
        stream.flush()
        return buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("name", SHOWN)
def test_every_stream_takes_what_is_printed(name, encoding, monkeypatch):
    text = written(SHOWN[name], encoding, monkeypatch)
    whole = written(SHOWN[name], "utf-8", monkeypatch)
    assert text and text.count("\n") == whole.count("\n")
    if whole.isascii():
        assert text == whole


def test_an_ascii_tree_in_markdown_has_as_many_cells_as_columns(monkeypatch):
    lines = written(SHOWN["tree in Markdown"], "ascii", monkeypatch).splitlines()
    cells = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")}
    assert len(lines) >= 5 and len(cells) == 1


def test_standard_output_in_the_locale_c(monkeypatch):
    """There, Python writes the bytes of file names that are no text, and raises an error for any other character."""
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii", errors="surrogateescape")
    monkeypatch.setattr("sys.stdout", stream)
    SMALL.show_tree()
    net(dense("\udcff", 8)).show_tree(mode="csv")
    stream.flush()
    assert b"`- act" in buffer.getvalue()


def test_the_user_chooses_another_handler(monkeypatch):
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stream)
    SMALL.show_tree()
    stream.flush()
    assert b"\\u251c" in buffer.getvalue()
