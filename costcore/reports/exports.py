"""Exports: a report as text for other programs, one section each, and their registry, including plug-ins.

An :class:`Export` names a function that returns the text, and optionally a suffix by which ``report.save`` selects it.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from costcore.analyses.analysis import data
from costcore.errors import CostError, import_problem, subs_call, unknown
from costcore.ir import Tensor
from costcore.ledger.ledger import n_assumptions, not_counted
from costcore.ledger.modules import names_along
from costcore.numbers import as_text, is_symbolic
from costcore.plugins import cached, imported, objects_from_plugins, with_plugin_hint
from costcore.reports.data import ReportData
from costcore.tables.quantity import AMOUNTS, Quantity, numeric, registered
from costcore.text.amounts import attribute_text, exact, jsonable, readable
from costcore.text.output import printable
from costcore.trace.call import Call
from costcore.trace.run import FLOPS, KINDS
from costcore.trace.trace import CallCost

if TYPE_CHECKING:
    from costcore.analyses.memory.live_memory import Memory


class Export(NamedTuple):
    """An export, ``report.export(NAME)``.

    Attributes:
        name: its name, one word.
        suffix: the file suffix by which ``costcore MODEL --output`` and ``report.save`` select it, ``.json``; empty for
            none.
        path: the import path of the function that returns the text, ``package.module:to_name``. It takes the report
            and its options by name. An export with a suffix also takes ``columns``, further quantities.
    """

    name: str
    suffix: str
    path: str


OWN = (
    Export("chrome_trace", "", f"{__name__}:to_chrome_trace"),
    Export("data", ".json", f"{__name__}:to_data"),
    Export("memory_svg", "", f"{__name__}:to_memory_svg"),
    Export("model_card", "", f"{__name__}:to_model_card"),
    Export("model_explorer", "", f"{__name__}:to_model_explorer"),
    Export("model_explorer_graph", "", f"{__name__}:to_model_explorer_graph"),
    Export("page", ".html", f"{__name__}:to_page"),
)
"""The built-in exports."""


@cached
def exports() -> Mapping[str, Export]:
    """Return every export by name, plug-ins last.

    Raises:
        CostError: if a plug-in fails, or if two exports have the same name or suffix.
    """
    found = {each.name: each for each in OWN}
    for of_plugin in objects_from_plugins("costcore_exports", Export):
        for export in of_plugin:
            suffixes = {each.suffix for each in found.values() if each.suffix}
            if export.name in found or export.suffix in suffixes:
                raise CostError(
                    f"two exports have the name {export.name!r} or the suffix {export.suffix!r}. Rename the plug-in's."
                )
            found[export.name] = export
    return found


def by_suffix() -> Mapping[str, Export]:
    """Return the exports that have a suffix, by suffix."""
    return {each.suffix: each for each in exports().values() if each.suffix}


def exported(report: Any, name: str, options: Mapping[str, Any]) -> str:
    """Return the text of an export of a report.

    Raises:
        ValueError: if there is no export of that name.
    """
    if name not in exports():
        raise ValueError(with_plugin_hint(unknown("export", name, exports())))
    return str(imported(exports()[name].path)(report, **options))


# ``chrome_trace``: for Perfetto and chrome://tracing.


UNMEASURED_DURATION = 1000
"""Duration of every call if no time was measured (nanoseconds)."""


# Integers in nanoseconds, so that nested bars end together.
class _Span(NamedTuple):
    name: str
    depth: int
    start: int
    end: int
    record: CallCost | None = None


def to_chrome_trace(report: ReportData) -> str:
    """Return the run as a trace for Perfetto and chrome://tracing: calls inside their modules, one track per phase.

    If memory was recorded, a counter shows the live bytes by kind at the peak of every call.

    Durations are the measured ones if time was measured (``measure_time=True``). A call that was not measured then
    takes one nanosecond, the smallest duration that viewers nest. If no time was measured, every call takes one
    microsecond; the metadata of the trace says so.

    Source of the format: Trace Event Format, JSON object form, with complete (``X``), counter (``C``) and metadata
    (``M``) events.
    """
    measured = any(record.seconds is not None for record in report.trace)
    layers = report.layer_report
    phases: dict[str, list[_Span]] = {}
    now = 0
    starts = []
    for record in report.trace:
        starts.append(now)
        end = now + (max(1, round((record.seconds or 0) * 10**9)) if measured else UNMEASURED_DURATION)
        phases.setdefault(record.call.phase, []).append(_Span(record.call.name, 0, now, end, record))
        now = end
    events = [_metadata("process_name", 0, "model")]
    for thread, (phase, calls) in enumerate(phases.items()):
        events.append(_metadata("thread_name", thread, phase))
        for span in sorted(_nested(calls), key=lambda span: (span.start, span.depth)):
            times = {"ts": span.start / 1000, "dur": (span.end - span.start) / 1000}
            args: dict[str, Any] = {}
            category = "module"
            if span.record is not None:
                category = "call" if span.record.cost is not None else "unknown"
                args = call_facts(span.record.call, layers.get(span.name))
                if measured and span.record.seconds is None:
                    args["duration"] = "not measured"
            track = {"pid": 0, "tid": thread}
            events.append({"name": span.name, "cat": category, "ph": "X", **times, **track, "args": args})
    events += _counters(report, starts)
    metadata = {
        "tool": f"costcore {report.trace.run.version}",
        "convention": report.trace.run.convention,
        "durations": "measured" if measured else "one microsecond per call: time was not measured",
        "status": status(report),
        **{f"version of {name}": version for name, version in report.trace.run.frameworks.items()},
    }
    return json_text({"traceEvents": events, "displayTimeUnit": "ns", "otherData": metadata})


def _counters(report: ReportData, starts: Sequence[int]) -> Iterator[dict[str, Any]]:
    timeline = [] if report.memory is None else report.memory.timeline
    kinds = [kind for kind in KINDS if any(kind in by_kind for _, _, by_kind in timeline)]
    for call, _, by_kind in timeline:
        # Viewers stack counters, so that a kind without blocks is 0.
        args = {kind: by_kind.get(kind, 0) for kind in kinds}
        yield {"name": "live bytes", "ph": "C", "ts": starts[call] / 1000, "pid": 0, "args": args}


def _nested(calls: Iterable[_Span]) -> Iterator[_Span]:
    # A module lasts for as long as consecutive calls are inside it.
    open_modules: list[_Span] = []
    for call in calls:
        names = names_along(call.record.call.module) if call.record is not None else []
        common = 0
        while common < min(len(names), len(open_modules)) and open_modules[common].name == names[common]:
            common += 1
        yield from open_modules[common:]
        open_modules = [span._replace(end=call.end) for span in open_modules[:common]]
        entered = enumerate(names[common:], start=common)
        open_modules += [_Span(name, depth, call.start, call.end) for depth, name in entered]
        yield call._replace(depth=len(open_modules))
    yield from open_modules


def _metadata(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 0, "tid": thread, "args": {"name": name}}


# ``data .json``: the complete report, which ``Report.from_json`` reads.


def complete(report: ReportData) -> dict[str, Any]:
    """Return the report in plain JSON types, with the parts of the analyses."""
    from costcore.reports.json import to_dict  # with a decoder of files: a table needs neither

    of_analyses = data(report)
    return to_dict(report.trace, report.ledger.total) | ({"analyses": of_analyses} if of_analyses else {})


def to_data(report: ReportData, columns: Sequence[str | Quantity] = (), indent: int | None = None) -> str:
    """Return the report as JSON text with ``indent`` spaces per level. It has all data, so ``columns`` adds nothing."""
    from costcore.reports.json import to_json

    return to_json(complete(report), None, indent)


# Shared by several exports: status, and attributes of calls.


def call_facts(call: Call, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the facts about a call for a viewer: operator, costs, operands and attributes.

    Args:
        call: the call.
        entry: its entry in ``layer_report``; None if it could not be counted.
    """
    layer = call.layer
    described: dict[str, Any] = {"op": layer.op, "phase": call.phase}
    if entry is None:
        described["counted"] = f"no: {call.layer.op} has no cost"
    else:
        numbers = (each.name for each in registered().values() if each.is_number and each.certainty == "exact")
        described |= {name: entry[name] for name in numbers if name in entry}
    if call.times != 1:
        described["times"] = call.times
    described["inputs"] = ", ".join(f"{name}: {tensor_text(tensor)}" for name, tensor in layer.inputs.items())
    described["outputs"] = ", ".join(map(tensor_text, layer.outputs))
    attributes = layer.attrs if entry is None else entry["params"]
    return {**described, **{f"settings.{name}": attribute_text(value) for name, value in attributes.items()}}


def status(report: ReportData) -> str:
    """Return the status: ``partial`` with the uncounted operators, ``assumed`` with the number of assumptions."""
    missing = not_counted(report.trace)
    reasons = [f"not counted: {missing}"] * bool(missing)
    reasons += [n_assumptions(report.trace)] * bool(report.trace.run.assumptions)
    return ": ".join([report.status, "; ".join(reasons)]) if reasons else report.status


def json_text(content: Any) -> str:
    """Return one line of JSON; integers are exact, and equal content gives equal text."""
    return json.dumps(jsonable(content), ensure_ascii=False, separators=(",", ":")) + "\n"


def tensor_text(tensor: Tensor) -> str:
    """Return dtype and shape of a tensor, ``float32[1, 3]``."""
    return f"{tensor.dtype}[{', '.join(map(as_text, tensor.shape))}]"


# ``memory_svg``: live memory as an SVG file, in the colors of the page.


WIDTH, HEIGHT = 900, 360
"""The size of the picture in pixels."""

SCALE = 76
"""The width of the labels left of the picture."""

KEY_HEIGHT = 36
"""The height of the names of the kinds above the picture."""

CHARACTER_WIDTH = 7

FILLS: Mapping[str, str] = {
    "parameter": "c0",
    "buffer": "c4",
    "input": "c7",
    "optimizer": "c2",
    "cached": "c8",
    "gradient": "c3",
    "output": "c6",
    "saved": "c1",
    "temporary": "c5",
}
"""The color of each kind, by its name in the style sheet of the page."""

_COLOR = re.compile(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)")


def to_memory_svg(report: ReportData) -> str:
    """Return the live bytes over the calls of a run as an SVG document; it follows the color scheme of the viewer.

    Raises:
        CostError: if memory was not recorded, or no memory was alive.
    """
    from costcore.analyses.memory.live_memory import STACK, columns_of, picture

    memory = report.memory
    if memory is None or not memory.peak:
        reason = "memory was not recorded. Pass memory=True" if memory is None else "no memory was alive. Pass a model"
        raise CostError(f"there is nothing to draw: {reason} to estimate or ComputationalCostHook.")
    calls = report.trace.calls
    columns = columns_of(memory, calls)
    title = f"Live bytes over {exact(len(calls))} calls; peak {readable(memory.peak, 'bytes')}"
    kinds = [kind for kind in reversed(STACK) if any(kind in column.by_kind for column in columns)]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' "
        f"role='img' aria-label='{title}'><title>{title}</title><style>{_style()}</style>"
        f"<rect class='page' width='100%' height='100%'/>{_legend(kinds)}"
        f"<svg x='{SCALE}' y='{KEY_HEIGHT}' width='{WIDTH - SCALE}' height='{HEIGHT - KEY_HEIGHT}' overflow='visible'>"
        f"{picture(columns, calls, memory.peak)}</svg></svg>\n"
    )


def _legend(kinds: list[str]) -> str:
    parts, x = [], 12
    for kind in kinds:
        parts.append(
            f"<rect class='{kind}' x='{x}' y='12' width='12' height='12'/><text x='{x + 17}' y='22'>{kind}</text>"
        )
        x += 17 + CHARACTER_WIDTH * len(kind) + 16
    return "".join(parts)


def _style() -> str:
    from costcore.tables.html import file_text

    found = _COLOR.findall(file_text("page.css"))
    light, dark = ({name: pair[scheme] for name, *pair in found} for scheme in (0, 1))
    shapes = (
        "text{font:12px system-ui,sans-serif}.label{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}"
        ".phase{stroke-dasharray:2 4}.peak{stroke-width:2}"
    )
    return f"{shapes}{_colors(light)}@media(prefers-color-scheme:dark){{{_colors(dark)}}}"


def _colors(color: Mapping[str, str]) -> str:
    fills = "".join(f".{kind}{{fill:{color[name]}}}" for kind, name in FILLS.items())
    return (
        f"{fills}.page{{fill:{color['card']}}}text{{fill:{color['ink']}}}.label{{stroke:{color['card']}}}"
        f".grid{{stroke:{color['line']}}}.phase{{stroke:{color['soft']}}}.peak{{stroke:{color['bad']}}}"
    )


# ``model_card``: a YAML block.


COSTS = {"macs": "macs", "parameters": "n_params_model", "bytes_read": "mread", "bytes_written": "mwrite"}
"""The quantities of every card, by their names in it."""


def to_model_card(report: ReportData, input_shape: Any = None, columns: Sequence[str] = ()) -> str:
    """Return a YAML block for a model card: costs, convention, versions, and a hash of the report.

    Args:
        report: the report.
        input_shape: shape of the model's input, ``(1, 3, 224, 224)``; default: the shapes of the data that calls read
            and no call produces.
        columns: further quantities, ``["fused_mrw", "flops@fvcore"]``, which are in the card by their own names.

    Raises:
        ValueError: if there is no quantity of a name, or if it is not a number.
        CostError: if the report does not have it.
    """
    named = {**COSTS, **{name: name for name in columns}}
    card = {
        "tool": f"costcore {report.trace.run.version}",
        "convention": report.trace.run.convention,
        "status": status(report),
        "frameworks": dict(report.trace.run.frameworks),
        "input_shape": _input_shapes(report) if input_shape is None else input_shape,
        **_flops_entries(report),
        **{key: numeric(name).total(report.ledger) for key, name in named.items()},
        **({} if report.memory is None else _memory_entries(report.memory)),
        "layout": report.trace.run.layout,
        "report_sha256": report_hash(report),
    }
    return "computational_cost:\n" + "".join(f"  {key}: {_yaml(value)}\n" for key, value in card.items())


def report_hash(report: ReportData) -> str:
    """Return the SHA-256 hash of the report's JSON text; equal reports have equal hashes."""
    import hashlib  # loads OpenSSL

    from costcore.reports.json import to_dict, to_json

    text = to_json(to_dict(report.trace, report.ledger.total), None, None)
    return hashlib.sha256(text.encode()).hexdigest()


def _memory_entries(memory: Memory) -> dict[str, Any]:
    accuracy = "exact for tensors, without workspace of kernels" if memory.is_exact else "approximate"
    return {"peak_memory": memory.peak, "peak_memory_is": accuracy, "peak_memory_by_kind": memory.by_kind}


def _flops_entries(report: ReportData) -> dict[str, Any]:
    unit = report.trace.run.unit
    if unit != FLOPS:
        return {"counted": report.ledger.total["flops"], "counted_unit": unit}
    prices = {"flops_fma_1": "flops_fma1", "flops_fma_2": "madd"}
    return {key: numeric(name).total(report.ledger) for key, name in prices.items()}


def _input_shapes(report: ReportData) -> list[list[Any]]:
    produced: set[int] = set()
    shapes: dict[int, list[Any]] = {}
    for call in report.trace.calls:
        produced.update(call.outputs)
        for value, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False):
            if value not in produced and tensor.role == "data" and call.phase == "forward":
                shapes.setdefault(value, list(tensor.shape))
    # Without operand ids, the first call reads the inputs.
    if not shapes and report.trace.calls:
        first_inputs = report.trace.calls[0].layer.inputs.values()
        return [list(tensor.shape) for tensor in first_inputs if tensor.role == "data"]
    return list(shapes.values())


def _yaml(value: Any) -> str:
    value = jsonable(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml(name)}: {_yaml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    return "".join(
        c if c.isprintable() else f"\\U{ord(c):08x}" for c in '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )


# ``model_explorer``: node data and a graph for Google's Model Explorer.


Keys: TypeAlias = "Mapping[str, str] | Callable[[Call], str]"

GRADIENT = ((0, "#ffffff"), (0.25, "#fde0a8"), (0.6, "#f28e2b"), (1, "#b2182b"))
"""Colors of nodes from the cheapest (0) to the most expensive (1)."""


def to_model_explorer(report: ReportData, column: str = "flops", keys: Keys | None = None) -> str:
    """Return node data for Google's Model Explorer: one number per node, which colors the graph.

    Nodes have the names of calls, as in the export ``model_explorer_graph``. To color another graph, map calls to its
    nodes with ``keys``. Model Explorer applies the data to the graph that is open when the file is loaded.

    Source of the format: ``GraphNodeData`` in ``model_explorer/node_data_builder.py`` of google-ai-edge/model-explorer.

    Args:
        report: the report.
        column: a quantity with numbers that :func:`costcore.quantities` lists.
        keys: the node of each call, as a mapping from names of calls or as a function of a
            :class:`~costcore.trace.call.Call`. The values of calls of one node are combined; calls without a node are
            skipped.

    Raises:
        ValueError: if the column is unknown.
        CostError: if this report does not have it, or if a value is symbolic, because symbolic expressions cannot be
            mapped to colors.
    """
    shown, ledger = numeric(column), report.ledger
    shown.by_call(ledger)  # raises an error if calls have no values
    by_node: dict[str, list[Call]] = {}
    for call in ledger.calls:
        node = call.name if keys is None else keys.get(call.name) if isinstance(keys, Mapping) else keys(call)
        if node:
            by_node.setdefault(node, []).append(call)
    values = {node: shown.of(ledger, calls) or 0 for node, calls in by_node.items()}
    for node, value in values.items():
        if is_symbolic(value):
            raise CostError(
                f"{node}: {column} is symbolic ({as_text(value)}) and has no color. "
                f"Substitute its dimensions first: {subs_call(report.symbols)}."
            )
    results = {node: {"value": value} for node, value in values.items()}
    return json_text({"results": results, "gradient": [{"stop": stop, "bgColor": color} for stop, color in GRADIENT]})


def to_model_explorer_graph(report: ReportData, name: str = "model") -> str:
    """Return the run as a graph for Model Explorer: calls as nodes, nested in their modules, and values as edges.

    Source of the format: ``GraphCollection`` in ``model_explorer/graph_builder.py`` of google-ai-edge/model-explorer.
    """
    layers = report.layer_report
    producers: dict[int, tuple[str, int]] = {}
    nodes = []
    for call in report.trace.calls:
        edges = [
            {
                "sourceNodeId": producers[value][0],
                "sourceNodeOutputId": str(producers[value][1]),
                "targetNodeInputId": str(n),
            }
            for n, value in enumerate(call.inputs)
            if value in producers
        ]
        outputs = [
            {"id": str(n), "attrs": [{"key": "tensor_shape", "value": tensor_text(tensor)}]}
            for n, tensor in enumerate(call.layer.outputs)
        ]
        described = call_facts(call, layers.get(call.name))
        nodes.append(
            {
                "id": call.name,
                "label": call.type,
                "namespace": "/".join(part.replace("/", "_") for part in names_along(call.module)),
                "attrs": [{"key": key, "value": _attribute_value(value)} for key, value in described.items()],
                "incomingEdges": edges,
                "outputsMetadata": outputs,
            }
        )
        producers.update({value: (call.name, n) for n, value in enumerate(call.outputs)})
    return json_text({"label": name, "graphs": [{"id": name, "nodes": nodes}]})


def _attribute_value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else as_text(value)


# ``page .html``: one page for offline use.


def to_page(
    report: ReportData, columns: Sequence[str | Quantity] = (), title: str = "", time: str = "", made: str = ""
) -> str:
    """Return the page; arguments as for :func:`costcore.reports.html.to_html`."""
    from costcore.reports.html import to_html

    return to_html(report, title, time, columns, made)


# TensorBoard: scalars, the graph of calls in their modules, and tables as text.


NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.\-]")
"""Characters that the name of a TensorFlow node must not have."""

TOTALS = (*AMOUNTS, "peak_memory", "seconds")
"""The quantities whose totals are scalars, if the run has them."""

OF_OPERATORS = ("flops", "mrw")
"""The quantities whose sums by operator are scalars."""

PRODUCER = 22
"""The version of the format of the graph, as ``torch.utils.tensorboard`` writes it."""


def to_tensorboard(
    report: ReportData, logdir: str | PathLike[str], step: int, tables: Mapping[str, str], columns: Sequence[str] = ()
) -> None:
    """Write one event file.

    Args:
        report: the report.
        logdir: the directory of the run; it is made if it does not exist.
        step: the step of the scalars and of the text.
        tables: Markdown by title.
        columns: further quantities, whose totals are scalars too.

    Raises:
        ValueError: if there is no quantity of a name, or if it is not a number.
        CostError: if TensorBoard is not installed, if a cost is symbolic, or if the report does not have a quantity.
        OSError: if the file cannot be written.
    """
    scalars = dict(_scalars(report, columns))
    for tag, value in scalars.items():
        if is_symbolic(value):
            call = subs_call(report.symbols)
            raise CostError(f"{tag} is symbolic ({as_text(value)}). Substitute its dimensions first: {call}.")
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb
        from tensorboard.plugins.text.summary_v2 import text_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise CostError(import_problem("an event file", "tensorboard", error, "TensorBoard")) from error
    summaries = [scalar_pb(tag, float(value)) for tag, value in scalars.items()]
    summaries += [text_pb(f"costcore/{title}", text) for title, text in tables.items()]
    with closing(EventFileWriter(fspath(logdir))) as writer:
        now = time.time()
        writer.add_event(Event(wall_time=now, graph_def=_graph(report).SerializeToString()))
        for summary in summaries:
            writer.add_event(Event(wall_time=now, step=step, summary=summary))


def markdown(show: Any, **options: Any) -> str:
    """Return the table that a ``show_…`` method of a report writes, as Markdown."""
    out = io.StringIO()
    show(out, mode="md", unit="auto", **options)
    return out.getvalue()


def _scalars(report: ReportData, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    ledger = report.ledger
    known = {*ledger.total, *(["peak_memory"] if report.memory is not None else [])}
    for name in dict.fromkeys([*filter(known.__contains__, TOTALS), *columns]):
        found = numeric(name)
        measured = "measured_" * (found.certainty == "measured")
        yield f"total/{measured}{NOT_IN_NAMES.sub('_', name)}", found.total(ledger)
    for op, calls in ledger.groups("op").items():
        for name in OF_OPERATORS:
            yield f"{name}_by_operator/{NOT_IN_NAMES.sub('_', op) or '_'}", numeric(name).of(ledger, calls)


def _graph(report: ReportData) -> Any:
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.versions_pb2 import VersionDef

    entries = report.ledger.entries
    names = _unique_names(report.trace.calls)
    producers: dict[int, str] = {}
    nodes = []
    for call, name in zip(report.trace.calls, names, strict=True):
        inputs = dict.fromkeys(producers[value] for value in call.inputs if value in producers)
        nodes.append(_node(call, name, [*inputs], entries.get(call.name)))
        producers.update(dict.fromkeys(call.outputs, name))
    return GraphDef(node=nodes, versions=VersionDef(producer=PRODUCER))


def _unique_names(calls: Sequence[Call]) -> list[str]:
    taken: set[str] = set()
    names = []
    for call in calls:
        parts = [*names_along(call.module), call.name]
        name = unique = "/".join(NOT_IN_NAMES.sub("_", part) or "_" for part in parts)
        n = 1
        while unique in taken:
            n += 1
            unique = f"{name}.{n}"
        taken.add(unique)
        names.append(unique)
    return names


def _node(call: Call, name: str, inputs: list[str], entry: Mapping[str, Any] | None) -> Any:
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    facts = call_facts(call, entry)
    values = {key: f"{value:,}" if isinstance(value, int) else as_text(value) for key, value in facts.items()}
    attributes = {printable(key): AttrValue(s=printable(text).encode()) for key, text in values.items()}
    sizes = [[-1 if is_symbolic(n) else n for n in tensor.shape] for tensor in call.layer.outputs]
    dims = [[TensorShapeProto.Dim(size=n) for n in shape] for shape in sizes]
    shapes = AttrValue.ListValue(shape=[TensorShapeProto(dim=each) for each in dims])
    attributes["_output_shapes"] = AttrValue(list=shapes)  # the labels of edges
    return NodeDef(name=name, op=NOT_IN_NAMES.sub("_", call.type), input=inputs, attr=attributes)
