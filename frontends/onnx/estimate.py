"""Entry of this frontend: read an ONNX model and record the calls of one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from os import PathLike, fspath
from typing import Any

from onnx import ModelProto
from onnx import __version__ as onnx_version
from onnx.defs import onnx_opset_version

from costcore.errors import CostError
from costcore.graphs import Notes
from costcore.registry import plugin_rows
from costcore.trace.run import Recorder

from .inference import RowTable, compare_with_onnx, operator
from .inputs import InputHints, UserShapes, bind_inputs, dimension_names
from .node import GraphContext, Scope, joined
from .reading import read_model
from .schema import NEWEST_VERSION, ONNX
from .values import Dimensions, Value, declared_names
from .walk.control_flow import CONTROL_FLOW
from .walk.inner_functions import SchemaFunctions, call_function, folded_note, unmarked_note, unplanned
from .walk.recording import ModelFunctions, Recording, fold_quantization, keep_stored, stored_sizes
from .walk.walker import Handlers, NodeBudget, WalkConfig, Walker

REWRITERS = ("onnx.quantize", "onnxruntime.transformers")
"""Producers that rewrite the files of exporters, and may drop their metadata."""

BLOCKED = "com.microsoft.nchwc"
"""The domain of operators on blocks of channels, ONNX Runtime's NCHWc layout."""

BLOCKED_CONV = f"{BLOCKED}::Conv"
"""A convolution that runs on blocks of channels."""


def capture(recorder: Recorder) -> None:
    """Do nothing: ONNX models are read, not run."""


def accepts(model: object) -> bool:
    """Return True for a ``ModelProto``, its bytes, or a path ending in ``.onnx``."""
    if isinstance(model, (str, PathLike)):
        return fspath(model).endswith(".onnx")
    return isinstance(model, (ModelProto, bytes, bytearray, memoryview))


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    dims: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Any] | None = None,
    regroup: bool | Collection[str] = False,
    explain_regroup: bool | Collection[str] = False,
    check_shapes: bool = False,
    max_nodes: int | None = None,
    keep_qdq: bool = False,
) -> None:
    """Record the calls of one pass of ``model``.

    ``recorder.n_params_model`` counts the elements of stored tensors that are read as learned parameters, and of unused
    floating-point tensors, each once. It does not count tensors that are only state (running mean and variance, initial
    states) or only configure an operator (scales of a resize, scales and zero points of quantization), nor single
    numbers that are not a weight or bias.

    Args:
        recorder: receives the calls.
        model: a path, bytes or a ``ModelProto``.
        inputs: shapes (tuples) and values (arrays or lists) by input name, or in order; default: the declared shapes.
        dims: sizes of named dimensions, ``{"batch": 8}``, and of symbols that the report lists. A size may be an
            expression of names, as a string or of sympy: ``{"total": "past + new"}``.
        shapes: shapes of values inside the model that cannot be inferred, such as the output of a custom operator,
            ``{"h": ("batch", 8)}``.
        regroup: whether to count the nodes of a decomposed operator as this operator, and list it in
            ``recorder.regrouped``. Names of patterns, such as ``("rms_norm", "gelu")``, select only these, and also
            match hand-written forms. ``PATTERNS`` in ``regroup`` lists all.
        explain_regroup: whether to note why other nodes do not match these patterns; names of patterns select only
            these.
        check_shapes: whether to compare shapes with ``onnx.shape_inference``, in another process, and note differences.
        max_nodes: the maximum number of nodes to which functions, loops and branches may expand, in addition to the
            stored nodes; default: 100,000. More are an error.
        keep_qdq: whether to count QuantizeLinear and DequantizeLinear nodes one by one. By default, the operators
            between them are counted as quantized operators, as runtimes execute them; a note gives their number.

    Raises:
        CostError: if the file is not an ONNX model, or the model is invalid; the message includes file and node.
        TypeError, ValueError: for an invalid option.
    """
    explained = _explained(regroup, explain_regroup)
    proto, name = read_model(model)
    recorder.frameworks["onnx"] = onnx_version
    try:
        budget = NodeBudget(proto, max_nodes)
        values, note = _walk(recorder, proto, inputs, dims, shapes, (regroup, explained), budget, keep_qdq)
        if check_shapes:
            compare_with_onnx(proto, values, note)
    except CostError as error:
        raise CostError(f"{name}: {error}") from error


def native_names(op: object) -> tuple[str, ...]:
    """Return the full name of an operator given as ``Conv``, ``onnx::Conv`` or ``com.microsoft::X``; () if unknown."""
    if not isinstance(op, str):
        return ()
    native = native_name(op)
    domain, _, op_type = native.partition("::")
    if "::" in op and (domain == ONNX or "." in domain):
        return (native,)
    return (native,) if "::" not in op and operator(ONNX, op_type, NEWEST_VERSION).signature else ()


def _explained(regroup: bool | Collection[str], explain: bool | Collection[str]) -> list[str]:
    if regroup in (True, False) and explain is False:
        return []
    from costcore.trace.patterns import selected_patterns

    from .regroup import PATTERNS

    selected = selected_patterns(regroup, PATTERNS)
    return selected_patterns(explain, selected, "explain_regroup")


def _versions(proto: Any, note: Callable[[str], None]) -> dict[str, int]:
    # If a model imports a domain twice, the highest version counts.
    versions: dict[str, int] = {}
    for entry in proto.opset_import:
        domain = entry.domain or ONNX
        if versions.setdefault(domain, entry.version) != entry.version:
            versions[domain] = max(versions[domain], entry.version)
            note(f"the model imports several versions of {domain}; it was read as version {versions[domain]}")
    newest = onnx_opset_version()
    if versions.get(ONNX, 0) > newest:
        note(
            f"the model uses version {versions[ONNX]} of {ONNX}; it was read as version {newest}, the newest supported"
        )
    return versions


def _arguments(graph: Any) -> Mapping[str, Mapping[str, Any]]:
    # The block size of channels is a property of the whole graph.
    if BLOCKED not in map(attrgetter("domain"), graph.node):
        return {}
    from .contrib.windows import block_arguments

    return block_arguments(graph)


def _walk(
    recorder: Recorder,
    proto: Any,
    inputs: Any,
    dims: Mapping[str, Any] | None,
    shapes: Mapping[str, Any] | None,
    regrouping: tuple[bool | Collection[str], Collection[str]],
    budget: NodeBudget,
    keep_qdq: bool,
) -> tuple[Mapping[str, Value], Notes]:
    graph, note = proto.graph, Notes(recorder.notes)
    dimensions = Dimensions(dims, declared_names(graph.input) | dimension_names(shapes))
    functions = ModelFunctions(proto)
    initializers = {tensor.name for tensor in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
    scope = Scope()
    bound = bind_inputs(graph.input, inputs, dimensions, initializers, note)
    scope.values.update(bound)
    entering = list(scope.values.values())
    table = RowTable(plugin_rows("onnx"))
    recording = Recording(recorder, table, dimensions, note, InputHints(scope.values))
    recorder.records["opsets"] = versions = _versions(proto, note)
    config = WalkConfig(
        functions,
        UserShapes(shapes, dimensions),
        budget,
        parameters_are_initializers=proto.producer_name == "pytorch" and bool(graph.initializer),
        keep_history=bool(regrouping[0]),
        is_rewritten=proto.producer_name in REWRITERS,
        arguments=_arguments(graph),
    )
    handlers = Handlers(call_function, CONTROL_FLOW, SchemaFunctions(table))
    walker = Walker(recording, handlers, config)
    walker.run(walker.walk_graph(graph, scope, GraphContext(opsets=versions)))
    dimensions.check()
    produced = [name for node in graph.node for name in node.output if name] if shapes else ()
    config.user_shapes.check_used([entry.name for entry in graph.input], recording.unranked.names, produced)
    unused = walker.initializers.unused({entry.name for entry in graph.output})
    if unused:
        note(f"unused initializers: {joined([*map(repr, unused)])}")
    if walker.history is not None:
        from .regroup import regroup_nodes

        recorder.regrouped.extend(regroup_nodes(recording, walker.history, proto.producer_name, *regrouping))
    returned = [scope.values[entry.name] for entry in graph.output if entry.name in scope.values]
    recorder.returned += map(recording.identity, returned)
    recorder.inputs += [value.identity for value in entering if value.identity]
    if "dequantize" in map(attrgetter("layer.op"), recorder.calls):
        if not keep_qdq:
            fold_quantization(recording, scope.values.values())
        keep_stored(recording)
    stored = walker.initializers.tensors
    if BLOCKED_CONV in map(attrgetter("native"), recorder.calls):
        block = config.arguments.get(BLOCKED, {}).get("block", "8 or 16")
        note(
            f"convolutions of ONNX Runtime's NCHWc layout run on blocks of {block} channels: MACs, bytes and "
            "parameters include the padding channels"
        )
    for text in filter(None, (unmarked_note(stored, recorder.calls, config.is_rewritten), folded_note(stored))):
        note(text)
    if walker.function_cache is not None:
        recording.dataflow.unknown.setdefault("equal calls of the model's functions are counted together")
    recording.dataflow.unplanned = unplanned(graph, scope.values)
    sizes = [recording.dataflow.size(value, name) for name, value in bound.items()]
    recording.complete(sizes, stored_sizes(stored), stored, recording.stored_identity)
    return scope.values, note


def native_name(op: str) -> str:
    """Return ``domain::Type`` for an operator with or without its domain, or with ``onnx`` as the default domain."""
    domain, separator, kind = op.rpartition("::")
    return f"{domain if separator and domain not in ('', 'onnx') else 'ai.onnx'}::{kind}"
