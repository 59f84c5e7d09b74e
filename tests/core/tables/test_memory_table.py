"""The table of ``show_memory``: names of blocks, and the lines below it."""

from __future__ import annotations

import io

import pytest

from tests.core import html_reports


def shown(**options):
    out = io.StringIO()
    html_reports.step().show_memory(out, **options)
    return out.getvalue().splitlines()


def test_names_do_not_repeat_the_module_that_is_shown():
    lines = shown(mode="csv", unit=None, columns=["kind", "module", "name", "phase"], top=2)
    assert lines[1:3] == ["parameter,fc,weight,", "gradient,fc,weight,backward"]
    lines = shown(mode="csv", unit=None, columns=["kind", "name"], top=2)
    assert lines[1:4] == ["parameter,fc.weight", "gradient,fc.weight", "others,2 blocks"]


@pytest.mark.parametrize(("mode", "bullet"), [("table", ""), ("md", "- ")])
def test_the_lines_below_the_table(mode, bullet):
    assert shown(mode=mode, top=1)[-4:] == [
        f"{bullet}peak: 2.75 KiB (2,816 B), at mm_type-1 (backward, fc)",
        f"{bullet}before the run: 1 KiB; highest in forward 1.5 KiB, backward 2.75 KiB, optimizer 2.125 KiB; "
        "after the run: 2 KiB",
        f"{bullet}kept for the backward pass: 512 B",
        f"{bullet}a note",
    ]
