"""An overview as Markdown, for notebooks and editors that show no HTML."""

from __future__ import annotations

from costcore.tables.overview.overview import Overview
from costcore.tables.renderers import to_markdown as table_to_markdown
from costcore.text.escape import escaped


def to_markdown(overview: Overview) -> str:
    """Return the title, a list of the figures, the tables that are open, and a list of the remarks."""
    figures = [f"{figure.title}: **{escaped(figure.value)}**{_note(figure.note)}" for figure in overview.figures]
    blocks = [f"**{escaped(overview.title)}**", _list(figures)]
    for part in overview.parts:
        if part.is_open and part.table.rows:
            blocks += [f"{escaped(part.title)}:", table_to_markdown(part.table)]
    blocks.append(_list([escaped(line) for line in overview.lines]))
    return "\n\n".join(block.rstrip("\n") for block in blocks if block) + "\n"


def _note(note: str) -> str:
    return f" ({escaped(note)})" if note else ""


def _list(lines: list[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)
