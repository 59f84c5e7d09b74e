"""A result as Markdown, for notebooks and editors that show no HTML."""

from __future__ import annotations

from costcore.tables.answer import Answer
from costcore.tables.overview.figures import figures_of
from costcore.tables.renderers import to_markdown as table_to_markdown
from costcore.text.escape import escaped


def to_markdown(answer: Answer, is_whole: bool = True) -> str:
    """Return the title, a list of the figures, the tables that are open, and a list of the remarks.

    Long tables have all of their rows if it ``is_whole``.
    """
    figures = [f"{title}: **{escaped(value)}**{_note(note)}" for title, value, note in figures_of(answer)]
    blocks = [f"**{escaped(answer.title)}**", _list(figures)]
    for table in answer.tables if is_whole else [each.in_print() for each in answer.tables]:
        if table.is_open and table.rows:
            blocks += [f"{escaped(table.title)}:", table_to_markdown(table.shown())]
    blocks.append(_list([escaped(line) for line in answer.remarks]))
    return "\n\n".join(block.rstrip("\n") for block in blocks if block) + "\n"


def _note(note: str) -> str:
    return f" ({escaped(note)})" if note else ""


def _list(lines: list[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)
