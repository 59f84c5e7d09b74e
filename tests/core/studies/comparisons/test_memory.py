"""The difference between the memory of two runs."""

from __future__ import annotations

import io

from costcore import Report, Trace, compare
from tests.core import html_reports


def changed(**sizes):
    """Return the report of :func:`html_reports.step` with other sizes of its blocks, by kind; without those of size 0.

    The peak of the original is 2816 B in the backward call: 1024 B each of parameters and gradients, 512 B saved,
    256 B temporary.
    """
    report = html_reports.step()
    ledger = report.trace.run.memory
    blocks = [block._replace(nbytes=sizes.get(block.kind, block.nbytes)) for block in ledger.blocks]
    memory = ledger._replace(blocks=tuple(block for block in blocks if block.nbytes))
    return Report(Trace(report.trace.records, report.trace.run.recording(memory=memory)))


def text_of(comparison, mode="table"):
    out = io.StringIO()
    comparison.show(out, mode)
    return out.getvalue()


def test_the_figures_and_kinds_are_compared():
    memory = compare(html_reports.step(), changed(saved=768, temporary=0)).memory
    assert memory.figures == {
        "peak": (2816, 2816),  # 256 B more are saved, and 256 B temporary are gone
        "base": (1024, 1024),
        "saved": (512, 768),
        "end": (2048, 2048),
    }
    assert memory.by_kind == {
        "parameter": (1024, 1024),
        "gradient": (1024, 1024),
        "saved": (512, 768),
        "temporary": (256, 0),
    }
    assert memory.where == ("at mm_type-1 (backward, fc)",) * 2


def test_the_blocks_that_came_and_went_are_listed():
    step, other = html_reports.step(), changed(saved=768, temporary=0)
    assert [(each.change, *each) for each in compare(step, other).memory.blocks] == [
        ("changed", "saved", "fc", "linear_type", (1, 1), (512, 768)),
        ("removed", "temporary", "fc", "mm_type", (1, 0), (256, 0)),
    ]
    assert [each.change for each in compare(other, step).memory.blocks] == ["changed", "added"]
    assert compare(step, step).memory.blocks == []


def test_blocks_of_renamed_modules_are_the_same():
    step = html_reports.step()
    memory = step.trace.run.memory
    records = [record._replace(call=record.call._replace(module="head")) for record in step.trace]
    blocks = tuple(block._replace(name=block.name.replace("fc", "head")) for block in memory.blocks)
    run = step.trace.run.recording(memory=memory._replace(blocks=blocks))
    found = compare(step, Report(Trace(tuple(records), run)))
    assert ("fc", "head") in found.moved
    assert found.memory.blocks == []


def test_the_text_has_tables_though_no_call_differs():
    found = compare(html_reports.step(), changed(saved=1024, temporary=0))
    assert found.equal
    assert "bytes of memory at the peak: 2,816 → 3,072 (+256, ×1.0909)" in found.summary
    table = text_of(found)
    assert "No call was added, removed or changed." in table
    for words in (
        "| peak                       | 2.75 KiB | 3 KiB | +256 B     | ×1.0909 |",
        "Blocks at the peak: 0 added, 1 removed, 1 changed",
        "| changed | saved     | fc     | linear_type | 1      | 512 B | 1 KiB | +512 B     | ×2.0000 |",
    ):
        assert " ".join(words.split()) in " ".join(table.split())
    assert "| removed | temporary | fc | mm_type | 1 | 256 B | 0 B | -256 B | ×0 |" in text_of(found, "md")
    assert "Bytes of memory at the peak" in found.to_html() and "Blocks at the peak" in found.to_html()


def test_the_json_has_the_exact_change():
    memory = compare(html_reports.step(), changed(temporary=0)).to_dict()["memory"]
    assert memory["peak"] == {"old": 2816, "new": 2560, "difference": -256, "ratio": 2560 / 2816}
    assert memory["blocks"][0]["n_blocks"]["difference"] == -1
    assert memory["by_kind"]["temporary"]["new"] == 0


def test_reports_without_memory_have_no_comparison_of_it():
    step = html_reports.step()
    without = Report(Trace(step.trace.records, step.trace.run.recording(memory=None)))
    found = compare(step, without, names=("a", "b"))
    assert found.memory is None and found.to_dict()["memory"] is None
    assert "peaks of memory are not compared: b has none" in found.notes
    assert compare(without, without).notes == []
