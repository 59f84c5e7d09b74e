"""A report as an event file of TensorBoard: scalars, the graph of calls in their modules, and tables as text."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from os import PathLike, fspath
from typing import Any

from costcore.errors import CostError
from costcore.ledger.module_paths import names_along
from costcore.messages import import_problem, subs_call
from costcore.numbers.dims import is_symbolic
from costcore.numbers.symbolic import as_text
from costcore.reports.data.report_data import ReportData
from costcore.reports.exports.facts import call_facts
from costcore.tables.costs import AMOUNTS
from costcore.tables.quantities import numeric
from costcore.text.escape import printable
from costcore.trace.call import Call

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.\-]")
"""What a name of a node of a graph of TensorFlow does not have."""

TOTALS = (*AMOUNTS, "peak_memory", "seconds")
"""The quantities whose totals are scalars, of runs that have them."""

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
    """Yield the totals, and the costs by operator."""
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
    """Return the calls as nodes with their costs, named by their modules, and the values between them as edges."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.versions_pb2 import VersionDef

    entries = report.ledger.entries
    names = _names(report.trace.calls)
    producers: dict[int, str] = {}
    nodes = []
    for call, name in zip(report.trace.calls, names, strict=True):
        inputs = dict.fromkeys(producers[value] for value in call.inputs if value in producers)
        nodes.append(_node(call, name, [*inputs], entries.get(call.name)))
        producers.update(dict.fromkeys(call.outputs, name))
    return GraphDef(node=nodes, versions=VersionDef(producer=PRODUCER))


def _names(calls: Sequence[Call]) -> list[str]:
    """Return a name for every call, ``layer1/0/conv1/conv2d-3``; no two are equal."""
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
