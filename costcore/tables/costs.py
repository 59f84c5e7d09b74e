"""The quantities that every run has: what a call is, and what its entry in a report states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Any

from costcore.errors import CostError
from costcore.ledger.ledger import Ledger, flops_of, memory, multiplied, nodes_by_call
from costcore.numbers.symbolic import expanded_sum
from costcore.tables.quantity import Quantity
from costcore.trace.call import Call


def _entries(key: str) -> Callable[[Ledger], Sequence[Any]]:
    """Return the function that reads a key of the entries of calls."""
    return lambda ledger: [entry.get(key) for entry in ledger.entries.values()]


def _cost(name: str, title: str, kind: str, doc: str, words: str = "") -> Quantity:
    return Quantity(name, title, kind, doc, _entries(name), words=words)


def _text(name: str, title: str, doc: str, kind: str = "text", combine: str = "same") -> Quantity:
    return Quantity(name, title, kind, doc, _entries(name), combine)


def measured_seconds(ledger: Ledger) -> Sequence[Any]:
    """Return the measured seconds of every counted call, None of those that were not measured.

    Raises:
        CostError: if none was.
    """
    if "seconds" not in ledger.total:
        raise CostError(
            "seconds were not measured. Pass measure_time=True to ComputationalCostHook, and run the model inside it, "
            "or the trace of a profiler to estimate."
        )
    return _entries("seconds")(ledger)


def time_of_uncounted(ledger: Ledger) -> Sequence[str]:
    """Return a line about the measured time of calls without a cost, if there is any: no group of calls has it."""
    seconds = fsum(record.seconds or 0.0 for record in ledger.trace if record.cost is None)
    if not seconds:
        return []
    from costcore.text.durations import duration  # imports fractions

    return [f"measured time: {duration(seconds)} of calls without a cost are left out"]


def _parameters(ledger: Ledger, calls: Sequence[Call]) -> Any:
    """Return the elements of the parameters that the calls read, each once."""
    return ledger.n_params(parameter for call in calls for parameter in call.parameters)


def _shared(ledger: Ledger, calls: Sequence[Call]) -> Any:
    """Return the elements of the parameters of a group that a call before its first one reads too."""
    if not calls:
        return 0
    earlier = {p for call in ledger.calls[: ledger.position[calls[0].name]] for p in call.parameters}
    return ledger.n_params({parameter for call in calls for parameter in call.parameters} & earlier)


def _of_tree(name: str, title: str, doc: str) -> Quantity:
    """Return a quantity of modules: tables of the tree show it of every module, others of the whole model only."""

    def of_run(ledger: Ledger) -> Any:
        from costcore.ledger.module_tree import build

        value = build(ledger.trace, ledger)[name]
        if value is None:
            raise CostError(f"{name} needs the modules of a model: pass the model to estimate (PyTorch, Chainer).")
        return value

    return Quantity(name, title, "count", doc, of_run=of_run)


def _operations(ledger: Ledger, calls: Sequence[Call]) -> dict[str, Any]:
    """Return the operations of a group by class."""
    of_calls = [ledger.entries[call.name]["operations"] for call in calls]
    classes = dict.fromkeys(name for operations in of_calls for name in operations)
    return {name: expanded_sum(each[name] for each in of_calls if name in each) for name in classes}


def _nodes(key: str) -> Callable[[Ledger], Sequence[Any]]:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        nodes = nodes_by_call(ledger.trace)
        return [nodes.get(call.name, {}).get(key, ()) for call in ledger.calls]

    return of_calls


def _shape(is_output: bool) -> Callable[[Ledger], Sequence[Any]]:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        layers = [call.layer for call in ledger.calls]
        tensors = [layer.outputs if is_output else tuple(layer.inputs.values()) for layer in layers]
        return [each[0].shape if each else "" for each in tensors]

    return of_calls


def _flops(fma_1flop: bool) -> Callable[[Ledger], Sequence[Any]]:
    return lambda ledger: [multiplied(flops_of(cost, fma_1flop), call.times) for call, cost in ledger.counted]


def _activations(ledger: Ledger) -> Sequence[Any]:
    return [memory(call, cost) if call.phase == "forward" else 0 for call, cost in ledger.counted]


AMOUNTS = ("flops", "macs", "mread", "mwrite", "mrw", "n_params", "mcomm")
"""The quantities that comparisons, files and pictures show of every run, and that budgets limit by ``max_increase``.

Entries of runs that do not communicate have no ``mcomm``, which is 0 then."""

COSTS: Mapping[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        _text("name", "Layer name", "name of the call"),
        _text("type", "Layer type", "the framework's own name of the operator"),
        _text("op", "Operator", "canonical name of the operator"),
        _text("module", "Module", "path of the module that makes the call"),
        _text("phase", "Phase", "forward, backward, recompute or optimizer"),
        _text("dtype", "Element type", "dtype of the first output"),
        Quantity(
            *("native", "Native operator", "text", "the framework's full name of what ran"),
            lambda ledger: [call.native for call in ledger.calls],
            "same",
        ),
        _text("input_shapes", "Input shapes", "shapes of all inputs", "shapes"),
        _text("output_shapes", "Output shapes", "shapes of all outputs", "shapes"),
        Quantity("input_shape", "Input shape", "shape", "shape of the first input", _shape(False), "first"),
        Quantity("output_shape", "Output shape", "shape", "shape of the first output", _shape(True), "last"),
        _text("params", "Attributes", "settings of the operator", "attributes"),
        _text("traceback", "Traceback", "where in the user's code the call was made, with tracebacks=True"),
        Quantity("nodes", "Nodes", "names", "nodes of the graph that the call stands for", _nodes("nodes"), "same"),
        Quantity("outputs", "Outputs", "names", "values of the graph that the call makes", _nodes("outputs"), "same"),
        Quantity(
            *("operations", "Operations", "attributes", "operations by class: fma, mul, add, div, cmp, special"),
            _entries("operations"),
            _operations,
        ),
        _cost("flops", "FLOPs", "flops", "floating-point operations"),
        _cost("macs", "MACs", "flops", "multiply-adds of matrix products and convolutions"),
        _cost("mread", "MemRead", "bytes", "bytes read, each needed element of an input once", "bytes read"),
        _cost("mwrite", "MemWrite", "bytes", "bytes written, each element of an output once", "bytes written"),
        _cost("mrw", "MemR+W", "bytes", "bytes read and written", "bytes read and written"),
        Quantity(
            *("mcomm", "MemSent", "bytes", "bytes that a process sends to others"),
            lambda ledger: [entry.get("mcomm", 0) for entry in ledger.entries.values()],
            words="bytes sent",
        ),
        Quantity(
            *("n_params", "# Params", "count", "elements of the learned parameters that are read, shared ones once"),
            _entries("n_params"),
            _parameters,
            words="parameters",
        ),
        Quantity(
            *(
                "n_params_model",
                "Params",
                "count",
                "elements of all parameters of the model; of those read without one",
            ),
            of_run=lambda ledger: ledger.total.get("n_params_model", ledger.total["n_params"]),
            words="parameters of the model",
        ),
        Quantity(
            *("n_shared", "# Shared", "count", "elements of the parameters that an earlier call or module has too"),
            lambda ledger: [_shared(ledger, [call]) for call in ledger.calls],
            _shared,
        ),
        Quantity(
            *("n_layers", "# Calls", "count", "calls with a cost"),
            lambda ledger: [1] * len(ledger.counted),
            words="calls",
        ),
        Quantity(
            *("n_unknown", "# Unknown", "count", "calls without a cost"),
            of_run=lambda ledger: len(ledger.trace) - len(ledger.counted),
            words="calls without a cost",
        ),
        _of_tree("n_trainable", "# Trainable", "elements of the parameters that are trained"),
        _of_tree("n_frozen", "# Frozen", "elements of the parameters that are not trained"),
        _of_tree("n_buffers", "# Buffers", "elements of the state that is not learned"),
        Quantity(
            "memory",
            "Memory",
            "bytes",
            "size of the outputs, 0 for views",
            lambda ledger: [memory(call, cost) for call, cost in ledger.counted],
            words="bytes of outputs",
        ),
        Quantity("activations", "Activations", "bytes", "size of the outputs of forward calls", _activations),
        Quantity("madd", "MAdd", "flops", "FLOPs with a fused multiply-add counted as two", _flops(False)),
        Quantity("flops_fma1", "Flops", "flops", "FLOPs with a fused multiply-add counted as one", _flops(True)),
        Quantity(
            *("seconds", "Measured", "seconds", "measured time, of a trace or a run with measure_time=True"),
            measured_seconds,
            certainty="measured",
            words="seconds measured",
            missing=time_of_uncounted,
        ),
    )
}
"""The quantities by name, in the order of documentation."""
