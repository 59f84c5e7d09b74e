"""Every analysis of a report, and what must hold of its numbers whatever the network.

An analysis is a function of a report that yields a sentence for everything that does not hold. It may refuse with a
``CostError`` that matches one of its ``REFUSALS``; any other exception is a failure of the test that calls it.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from costcore import CostError, Report, compare, conventions, explain, reconcile

COLUMNS = "flops", "macs", "mread", "mwrite"
DEVICE = "l4"
LEVELS = "none", "pointwise", "compiler"
CONVENTIONS = conventions()

Analysis = Callable[[Report], Iterator[str]]


def differing(name: str, sums: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns whose sums are not those expected."""
    for column in COLUMNS:
        if sums[column] != expected[column]:
            yield f"{name}: {column} sums to {sums[column]}, not to {expected[column]}"


def sums_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    rows = list(rows)
    return {column: sum(row[column] for row in rows) for column in COLUMNS}


def parts(report: Report) -> Iterator[str]:
    """Calls, kinds and groups add up to the total; so do modules, level by level."""
    total = report.total_report
    for by in ("module", "op", "type", "phase", "dtype"):
        yield from differing(f"by {by}", sums_of(report.by(by).values()), total)
    yield from differing("calls", sums_of(report.layer_report.values()), total)
    kinds = [entry for name, entry in report.summary_report.items() if name != "total"]
    yield from differing("summary", sums_of(kinds), total)
    if len(report.layer_report) != total["n_layers"]:
        yield "n_layers is not the number of calls"
    if total["mrw"] != total["mread"] + total["mwrite"]:
        yield "mrw is not mread + mwrite"


def tree(report: Report) -> Iterator[str]:
    """No module costs less than the modules inside it."""
    root = report.tree()
    yield from differing("tree", root, report.total_report)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        inner = sums_of(node["children"])
        for column in COLUMNS:
            if inner[column] > node[column]:
                yield f"{node['module']}: {column} {node[column]} is less than {inner[column]} inside"
        waiting += node["children"]


def parameters(report: Report) -> Iterator[str]:
    """What was called has no more parameters than the model."""
    total = report.total_report
    if total["n_params"] > total.get("n_params_model", math.inf):
        yield f"{total['n_params']} parameters of the {total['n_params_model']} of the model were called"


def status(report: Report) -> Iterator[str]:
    """The status is what the lists say."""
    expected = "partial" if report.ignored_layers else "assumed" if report.assumptions else "complete"
    if report.status != expected:
        yield f"status {report.status}, not {expected}"


def memory(report: Report) -> Iterator[str]:
    """What is alive at the peak adds up to it, and nothing is above it."""
    of = report.memory
    shares = {"kinds": of.by_kind.values(), "modules": of.by_module().values(), "top modules": of.by_module(1).values()}
    for name, amounts in (*shares.items(), ("blocks", [block["nbytes"] for block in of.blocks()])):
        if sum(amounts) != of.peak:
            yield f"{name} sum to {sum(amounts)}, not to the peak of {of.peak}"
    for name, amounts in {"timeline": [step[1] for step in of.timeline], "phases": of.phases.values()}.items():
        if max(amounts, default=0) > of.peak:
            yield f"{name}: {max(amounts)} is above the peak of {of.peak}"
    if max(of.base, of.end, *of.by_device.values()) > of.peak:
        yield "base, end or a device is above the peak"
    if any(sum(step[2].values()) != step[1] for step in of.timeline):
        yield "kinds of the timeline do not sum"
    if len(of.timeline) != len(report.calls):
        yield f"{len(of.timeline)} steps for {len(report.calls)} calls"
    of.to_csv(), str(of), of._repr_html_(), of.allocator("cuda"), report.to_memory_svg()
    report.show_memory(io.StringIO())


def fused(report: Report) -> Iterator[str]:
    """Each level moves no more bytes than the one before, but for what a compiler reads again; operations are equal."""
    total = before = report.total_report
    for level in LEVELS:
        view = report.fused(level)
        now = view.total_report
        again = (
            sum((group.read_again + group.copied) * group.times for group in view.groups) if level == "pointwise" else 0
        )
        if now["mrw"] > before["mrw"] + again or (level == "none" and now["mrw"] != total["mrw"]):
            yield f"{level} moves {now['mrw']} bytes, the level before {before['mrw']}"
        before = now
        if (now["flops"], now["macs"], view.status) != (total["flops"], total["macs"], report.status):
            yield f"{level} has other operations or another status"
        calls = [position for group in view.groups for position in group.calls]
        if len(calls) != len(set(calls)):
            yield f"{level} has a call in two groups"
        for name, rows in {"operators": view.by("op"), "calls": view.layer_report}.items():
            yield from differing(f"{level}, {name}", sums_of(rows.values()), now)
            if any(row["mread"] < 0 or row["mwrite"] < 0 for row in rows.values()):
                yield f"{level}, {name}: negative bytes"
        yield from differing(f"{level}, tree", view.tree(), now)
        view.show_report(io.StringIO())
        if Report.from_json(view.to_json()) != view.report:
            yield f"{level} is another report when read back"


def time(report: Report) -> Iterator[str]:
    """Times add up, and no level of fusion is slower than the one before."""
    before = math.inf
    for level in LEVELS:
        times = report.time(device=DEVICE, fusion=level)
        bound = times.bound_seconds
        if not 0 <= bound < math.inf:
            yield f"{level}: bound of {bound} s"
        if bound > before * (1 + 1e-12):
            yield f"{level} takes {bound} s, the level before {before}"
        before = bound
        if times.status != report.status:
            yield f"{level}: status {times.status}"
        by_type = [entry["bound_seconds"] for name, entry in times.by_type().items() if name != "total"]
        by_call = [row["bound_seconds"] or 0 for row in times.layers() if row["name"] != "total"]
        for name, amounts in {"types": by_type, "calls": by_call}.items():
            if not math.isclose(math.fsum(amounts), bound, rel_tol=1e-9, abs_tol=1e-18):
                yield f"{level}: {name} sum to {math.fsum(amounts)} s, not to {bound}"
    json.loads(times.to_json())
    times.show_report(io.StringIO()), times.show_summary_report(io.StringIO())
    report.time(device=DEVICE, dtype="bfloat16")


def under(convention: str) -> Analysis:
    """Return the analysis of a convention: its parts add up."""

    def analysis(report: Report) -> Iterator[str]:
        view = report.under(convention)
        amounts = {"terms": view.by_term}
        if not view.is_closed_form:
            amounts |= {"calls": view.by_call, "operators": view.by("op"), "modules": view.by("module")}
        for name, parts_of in amounts.items():
            if sum(parts_of.values()) != view.total:
                yield f"{name} sum to {sum(parts_of.values())}, not to {view.total}"
        own = {"costcore": report.total_report["flops"], "macs": report.total_report["macs"]}
        if view.total != own.get(convention, view.total):
            yield f"counts {view.total}, the report {own[convention]}"
        if report.status == "partial" and view.status == "complete":
            yield "is complete, though the report is partial"

    return analysis


def explanations(report: Report) -> Iterator[str]:
    """A number of the report itself is found, and two conventions differ by what their lines say."""
    if macs := report.total_report["macs"]:
        if explain(report, str(macs)).is_another_network:
            yield "the report's own MACs are not explained"
        str(explain(report, f"{2.03 * macs / 1e6:.3g}M"))
    for pair in (("fvcore", "macs"), ("costcore", "torch")):
        str(reconcile(report, *pair))


def saved(report: Report) -> Iterator[str]:
    """A saved report is the same report, whatever is asked of it."""
    text = report.to_json()
    read = Report.from_json(text)
    if read != report or read.to_json() != text:
        yield "is another report when read back"
    if (read.total_report, read.status, read.remarks) != (report.total_report, report.status, report.remarks):
        yield "has other totals, status or remarks when read back"
    if read.memory != report.memory:
        yield "has other memory when read back"
    for level in LEVELS:
        if read.fused(level).total_report != report.fused(level).total_report:
            yield f"{level} fuses otherwise when read back"
    if read.time(device=DEVICE).bound_seconds != report.time(device=DEVICE).bound_seconds:
        yield "takes another time when read back"
    for name in ("fvcore", "thop", "torch", "ptflops", "torchinfo", "macs"):
        if read.under(name).total != report.under(name).total:
            yield f"counts otherwise under {name} when read back"


def compared(report: Report) -> Iterator[str]:
    """A report does not differ from itself."""
    if not compare(report, report).equal:
        yield "differs from itself"


def shown(report: Report) -> Iterator[str]:
    """Every table, text and file is written."""
    shows: tuple[Callable[..., None], ...] = report.show_report, report.show_summary_report, report.show_layers
    for show in (*shows, report.show_tree):
        for mode in ("csv", "md", "table"):
            show(io.StringIO(), mode=mode)
    report.show_by("op", "phase", ost=io.StringIO())
    report.show_tree(io.StringIO(), mode="md", columns=["module", "macs", "fused_mrw"])
    for write in (report.to_csv, report.to_markdown, report.to_dict, report.to_html, report.to_chrome_trace):
        yield from () if write() else (f"{write.__name__} writes nothing",)
    report.to_dataframe(), report.to_model_card(), report.to_model_explorer(), report.to_latex("macs")
    repr(report), str(report), report._repr_html_(), report._repr_markdown_()


def pictures(report: Report) -> Iterator[str]:
    """Every picture is drawn."""
    for kind in ("operators", "modules", "intensity", *(["memory"] if report.memory else [])):
        list(report.plot(kind))
    yield from ()


def roofline(report: Report) -> Iterator[str]:
    """The times are drawn."""
    times = report.time(device=DEVICE)
    times.to_html(), times.to_svg(), list(report.plot("roofline", device=DEVICE))
    yield from ()


def receptive_field(report: Report) -> Iterator[str]:
    """Receptive fields are found."""
    str(report.receptive_field())
    yield from ()


def arena(report: Report) -> Iterator[str]:
    """An arena is at least as large as the values that are alive together."""
    planned = report.arena()
    str(planned)
    if planned.size < planned.lower_bound:
        yield f"an arena of {planned.size} bytes holds {planned.lower_bound}"


ANALYSES: dict[str, Analysis] = {
    **{each.__name__: each for each in (parts, tree, parameters, status, memory, fused, time, explanations, saved)},
    **{each.__name__: each for each in (compared, shown, pictures, roofline, receptive_field, arena)},
    **{f"under {name}": under(name) for name in CONVENTIONS},
}

REFUSALS = {
    "under": r"closed forms of transformers need a model with attention"
    r"|counts operators of onnx, which a capture of torch lacks|counts by the modules and functions of PyTorch"
    r"|the tool divides by the batch size, which is 0 here",
    "saved": r"counts by the modules and functions of PyTorch|the tool divides by the batch size, which is 0 here",
    "roofline": r"no group of this run has operations, bytes and a bound",
    "receptive_field": r"no call reads an input of the model",
    "arena": r"an arena can be planned for inference only",
}
"""The reasons for which an analysis may refuse, as patterns; all conventions are ``under``."""


def failures(report: Report) -> list[str]:
    """Return what does not hold of a report, a sentence each."""
    found: list[str] = []
    for name, analysis in ANALYSES.items():
        try:
            found += [f"{name}: {failure}" for failure in analysis(report)]
        except CostError as error:
            if not re.search(REFUSALS.get(name.split()[0], "$^"), str(error)):
                found.append(f"{name}: refuses: {error}")
    return found
