"""The table of ``show_memory``: names of blocks, and the lines below it."""

from __future__ import annotations

import io

import pytest

from tests.command_line import main
from tests.core import html_reports
from tests.core.traces import Block, MemoryLedger


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


@pytest.mark.parametrize(("options", "shown"), [([], 15), (["--top", "3"], 3)])
def test_the_command_shows_the_fifteen_largest_blocks(tmp_path, capsys, options, shown):
    """Of 40 blocks of 16 to 640 bytes; a row sums the others."""
    blocks = tuple(Block(i + 1, 16 * (40 - i), "temporary", i, None, 0, (4,), "float32") for i in range(40))
    report = html_reports.report(
        [html_reports.call("mm", "fc", 6, 4, 4)], memory=MemoryLedger(blocks, (0,) * 40, (), ())
    )
    report.save(tmp_path / "report.json")
    assert main([str(tmp_path / "report.json"), "--memory", "--format", "csv", "--unit", "none", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    sizes = [int(line.split(",")[-2]) for line in lines if line.startswith("temporary,")]
    assert sizes == [16 * (40 - i) for i in range(shown)]
    assert any(line.startswith("others,") and f"{40 - shown} blocks" in line for line in lines)
