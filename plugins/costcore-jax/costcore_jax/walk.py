"""Walk a jaxpr: record a call per equation, and enter loops, branches and function calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jax
from jax.extend.core import Literal
from jax.interpreters import partial_eval

from costcore.graphs import most_expensive, operations_of
from costcore.ir import Cost, Layer, Role, Tensor
from costcore.numbers import Dim, is_symbolic, symbol_of
from costcore.registry import rows
from costcore.trace.call import Call, Module
from costcore.trace.run import Recorder
from costcore.translate import Native, Translation, Translator

from .values import Names, Owner, Program, Value, dim_of, number_of, value_of

# Recording


OWN = ("contextlib", "costcore", "costcore_jax")
"""This package, and the standard library, which is found by the folder of ``contextlib``."""

LIBRARIES = (*OWN, "equinox", "flax", "haiku", "jax", "jaxlib", "keras")
"""Libraries whose source lines are not the user's."""

BOOKKEEPING = frozenset(("debug_callback", "debug_print", "name", "pvary", "tie"))
"""Primitives that annotate or print values; they are not recorded."""

IN_KERNELS = frozenset(
    ("get", "swap", "masked_load", "masked_swap", "load", "program_id", "num_programs", "multiple_of", "max_contiguous")
) | {"dma_start", "dma_wait", "semaphore_read", "semaphore_signal", "semaphore_wait", "delay"}
"""Primitives that move blocks on the chip, or order the work of a Pallas kernel."""

CALLBACKS = frozenset(("pure_callback", "io_callback"))
"""Primitives that call Python functions at run time."""

VIEWS = frozenset(
    ("broadcast_in_dim", "copy", "copy_p", "name", "optimization_barrier", "pvary", "reduce_precision", "reshape")
) | {"sharding_constraint", "squeeze", "stop_gradient", "device_put", "expand_dims"}
"""Primitives that pass on all elements, if the output is as large as the input."""

MOVES = frozenset(("convert_element_type", "transpose", "slice", "concatenate", "split", "dynamic_slice"))
"""Primitives that move or cast elements: the result of a weight is a weight."""


PRODUCTS = frozenset(
    ("dot_general", "conv_general_dilated", "ragged_dot_general", "custom_linear_solve", "bcoo_dot_general")
) | {"bcsr_dot_general", "csr_matmat", "csr_matvec", "coo_matmat", "coo_matvec"}
"""Primitives that multiply matrices."""

BLOCKS_ARE_READ_ONCE = (
    "the bytes of Pallas kernels are a lower bound: operands are read and results written once, but a block that the "
    "grid visits again may be loaded again"
)


class Place(NamedTuple):
    """The context of a jaxpr.

    Attributes:
        names: the scopes and transformations around it.
        times: how often it runs.
        region: the loop or branch around it.
        devices: the number of devices that run it.
        axes: the sizes of device mesh axes, by name.
    """

    names: Names = Names()
    times: Dim = 1
    region: str = ""
    devices: Dim = 1
    axes: Mapping[str, int] = MappingProxyType({})


class Recorded(NamedTuple):
    """A recorded equation.

    Attributes:
        primitive: the name of its primitive.
        params: its parameters.
        inputs, outputs: its values.
        call: its call.
        is_derivative: whether it is inside of a derivative.
    """

    primitive: str
    params: Mapping[str, Any]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    call: Call
    is_derivative: bool = False


class Recording:
    """Writes the equations of one run into a recorder.

    Args:
        recorder: the recorder to write to.
        root: the name of the scope of the model itself.

    Attributes:
        recorder: the recorder.
        history: all recorded equations, in order.
    """

    def __init__(self, recorder: Recorder, root: str = "") -> None:
        self.recorder = recorder
        self.history: list[Recorded] = []
        self._root = root
        self._translate = Translator(rows("jax"), describe)

    def record(
        self,
        equation: Any,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        place: Place,
        cost: Cost | None = None,
    ) -> None:
        """Record one equation, and set the roles and ids of its outputs; ``cost`` is None if a formula gives it."""
        name = equation.primitive.name
        reads_gradient = any(value.has_gradient for value in inputs)
        phase = place.names.inside(equation).phase(reads_gradient)
        for value in outputs:
            self._propagate(name, equation.params, inputs, value)
            value.has_gradient = reads_gradient or phase == "backward"
        for value in (*inputs, *outputs):
            self.identity(value)  # before rows create views, which must have the same id
        if name in BOOKKEEPING:
            return
        if all(value.number is not None and not value.shape for value in (*inputs, *outputs)):
            translation = _constant(outputs)
        else:
            arguments = {**equation.params, "inputs": list(inputs), "device_axes": place.axes}
            if self._translate.has_row(f"jax::{name}"):
                arguments["outputs"] = list(outputs)  # without a row, all values would count as read
            translation = self._translate(Native(f"jax::{name}", arguments, outputs))
        layer = self.recorder.intern(translation.layer)
        names = place.names.inside(equation)
        call = Call(
            layer=layer,
            type=name,
            native=f"jax::{name}",
            module=names.module(self._root),
            phase=phase,
            times=place.times * place.devices,
            region=place.region,
            inputs=tuple(map(self.identity, translation.inputs)),
            outputs=tuple(map(self.identity, translation.outputs)),
            parameters=tuple(dict.fromkeys(v.parameter for v in translation.inputs if v.parameter)),
            where=(_source_lines(equation) if names.lines is None else names.lines)
            if self.recorder.tracebacks or not translation.has_row
            else "",
        )
        self.recorder.record(call, cost)
        self.history.append(Recorded(name, equation.params, tuple(inputs), tuple(outputs), call, names.is_derivative))

    def find_optimizer(self) -> None:
        """Move equations to the optimizer's phase if only the optimizer reads them, such as decays of its state.

        Products, and values computed from them, stay: they may belong to a model whose output meets a gradient.
        """
        readers: dict[int, list[int]] = {}
        of_products: set[int] = set()
        for i, each in enumerate(self.history):
            read = {value.identity for value in each.inputs}
            made = {value.identity for value in each.outputs} - read
            for identity in read:
                readers.setdefault(identity, []).append(i)
            if each.primitive in PRODUCTS or not of_products.isdisjoint(read):
                of_products |= made
        phases = [each.call.phase for each in self.history]
        moved: dict[int, Call] = {}
        for i in reversed(range(len(self.history)) if "optimizer" in phases else ()):
            each = self.history[i]
            made = {value.identity for value in each.outputs} - {value.identity for value in each.inputs}
            reading = {phases[j] for identity in made for j in readers.get(identity, ())}
            is_read_by_it = phases[i] == "forward" and not each.is_derivative and reading == {"optimizer"}
            if is_read_by_it and of_products.isdisjoint(made):
                phases[i] = "optimizer"
                moved[id(each.call)] = each.call._replace(phase="optimizer")
        self.history = [each._replace(call=moved.get(id(each.call), each.call)) for each in self.history]
        self.recorder.calls[:] = [moved.get(id(call), call) for call in self.recorder.calls]

    def is_known(self, name: str) -> bool:
        """Return whether a primitive is mapped or has a calculator of the user."""
        return name in BOOKKEEPING or self.has_own_calculator(name) or self._translate.has_row(f"jax::{name}")

    def has_own_calculator(self, name: str) -> bool:
        """Return whether the user has given a calculator of a primitive."""
        return bool({name, f"jax::{name}"} & {*self.recorder.calculators})

    def identity(self, value: Value) -> int:
        """Return the operand id of a value."""
        if not value.identity:
            value.identity = self.recorder.new_id()
        return value.identity

    def _propagate(self, name: str, params: Mapping[str, Any], inputs: Sequence[Value], output: Value) -> None:
        """Propagate properties of the inputs to an output: parameter, weight, known number."""
        given = [value for value in inputs if value.dtype and not (value.number is not None and not value.shape)]
        output.number = dim_of(params["dim"]) if name == "dim_as_value" else number_of(name, inputs, output.dtype)
        output.is_reversed = name == "rev"
        if len(inputs) == 1 and name in VIEWS and inputs[0].size == output.size and inputs[0].dtype == output.dtype:
            source = inputs[0]
            output.role, output.parameter, output.is_weight = source.role, source.parameter, source.is_weight
            if name != "reduce_precision":
                output.identity = self.identity(source)
        elif name in MOVES or name in VIEWS:
            moved = given if name == "concatenate" else given[:1]
            output.is_weight = bool(moved) and all(value.is_weight for value in moved)


def _constant(outputs: Sequence[Value]) -> Translation:
    """Return the layer of arithmetic on literals, which is folded before the program runs."""
    layer = Layer("constant", {}, [tensor for value in outputs if (tensor := value.tensor())])
    return Translation(layer, (), tuple(outputs), has_row=True)


def describe(value: Any, role: Role) -> Tensor | None:
    """Return the operand of a value; None for a plain argument."""
    return value.tensor() if isinstance(value, Value) else None


def _source_lines(equation: Any) -> str:
    """Return the user's source lines of an equation as a formatted traceback.

    JAX keeps only lines inside the traced function. If all are in libraries, lines outside of JAX are returned.
    """
    traceback = equation.source_info.traceback
    frames = [] if traceback is None else [frame for frame in traceback.frames if not frame.file_name.startswith("<")]
    own = [frame for frame in frames if not frame.file_name.startswith(_folders(*LIBRARIES))]
    shown = own or [frame for frame in frames if not frame.file_name.startswith(_folders(*OWN, "jax", "jaxlib"))]
    return "".join(f'  File "{f.file_name}", line {f.line_num}, in {f.function_name}\n' for f in reversed(shown[:8]))


def _folders(*names: str) -> tuple[str, ...]:
    """Return the folders of imported libraries."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    return tuple(str(Path(file).parent) + os.sep for file in files if file)


# The walk


Environment: TypeAlias = "dict[Any, Value]"

Handler: TypeAlias = "Callable[[Walker, Any, list[Value], Place], list[Value]]"
"""A function that walks the inner jaxprs of an equation and returns the values of its outputs."""

INLINED: Mapping[str, str] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "composite", "remat2", "checkpoint", "run_state"), "jaxpr"),
    **dict.fromkeys(("core_call", "call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"), "call_jaxpr"),
    **dict.fromkeys(("custom_vmap_call", "custom_partitioning"), "call"),
    "core_map": "jaxpr",
    "custom_jvp_call_jaxpr": "fun_jaxpr",
    "eval_jaxpr": "jaxpr",
    "linear_call": "callee",
    "run_scoped": "jaxpr",
    "remat_opt": "fwd_jaxpr",
}
"""Primitives that run one jaxpr once on their operands, with the name of its parameter."""


class Walker:
    """Walks the jaxprs of one run.

    Args:
        recording: the recording of the run.
        handlers: functions for primitives with inner jaxprs that are not in :data:`INLINED`.
        trips: the iterations of each loop with a data-dependent trip count; None for a symbol per loop.
    """

    def __init__(self, recording: Recording, handlers: Mapping[str, Handler], trips: int | None = None) -> None:
        self.recording = recording
        self.trips = trips
        self.is_in_kernel = False
        self._handlers = handlers
        self._loops = 0

    def walk(self, jaxpr: Any, constants: Sequence[Value], arguments: Sequence[Value], place: Place) -> list[Value]:
        """Record the equations of a jaxpr and return the values of its outputs."""
        values: Environment = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in jaxpr.eqns:
            inputs = [self.read(values, atom) for atom in equation.invars]
            values.update(zip(equation.outvars, self._run(equation, inputs, place), strict=True))
        return [self.read(values, atom) for atom in jaxpr.outvars]

    def walk_closed(self, closed: Any, arguments: Sequence[Value], place: Place) -> list[Value]:
        """Record a jaxpr, closed or not; surplus leading ``arguments`` are dropped."""
        constants = [constant_of(array) for array in getattr(closed, "consts", ())]
        jaxpr = getattr(closed, "jaxpr", closed)
        surplus = len(arguments) - len(jaxpr.invars)
        return self.walk(jaxpr, constants, arguments[surplus:] if surplus > 0 else arguments, place)

    def read(self, values: Environment, atom: Any) -> Value:
        """Return the value of a variable or a literal."""
        return constant_of(atom.val, atom.aval) if isinstance(atom, Literal) else values[atom]

    def next_loop_number(self) -> int:
        """Return the next number for a loop with unknown trip count, from 1."""
        self._loops += 1
        return self._loops

    def _run(self, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
        name = equation.primitive.name
        if name in self._handlers:
            return self._handlers[name](self, equation, inputs, place._replace(names=place.names.inside(equation)))
        if name in INLINED and (inner := equation.params.get(INLINED[name])) is not None:
            return self.walk_closed(inner, inputs, place._replace(names=place.names.inside(equation)))
        if not self.recording.is_known(name) and (inner := _implementation(equation)) is not None:
            return self.walk_closed(inner, inputs, place._replace(names=place.names.inside(equation)))
        outputs = [value_of(variable.aval) for variable in equation.outvars]
        if not (self.is_in_kernel and name in IN_KERNELS):
            self.recording.record(equation, inputs, outputs, place)
        return outputs


def _implementation(equation: Any) -> Any:
    # A library may implement its primitives by functions of JAX. None if JAX cannot trace the implementation.
    primitive = equation.primitive
    run = primitive.impl
    if not isinstance(run, FunctionType) or run.__module__.partition(".")[0] in ("jax", "jaxlib"):
        return None
    if not all(hasattr(atom.aval, "shape") for atom in equation.invars):
        return None  # tokens order effects
    abstract = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in equation.invars]
    try:
        closed = jax.make_jaxpr(lambda *operands: run(*operands, **equation.params))(*abstract)
    except (TypeError, ValueError, NotImplementedError):  # it computes with NumPy, or calls other code
        return None
    is_same = [aval.shape for aval in closed.out_avals] == [variable.aval.shape for variable in equation.outvars]
    return closed if is_same and all(each.primitive is not primitive for each in equations(closed.jaxpr)) else None


def constant_of(array: Any, aval: Any = None) -> Value:
    """Return the value of a literal, or of an array in the closure of a function."""
    value = value_of(array if aval is None else aval, role="const")
    if not value.shape and value.dtype and hasattr(array, "item") and not value.dtype.startswith("key"):
        value.number = _number(array)
    elif isinstance(array, (bool, int, float, complex)):
        value.number = array
    return value


def _number(array: Any) -> Any:
    try:
        return array.item()
    except (TypeError, ValueError, AttributeError):  # a random key, or an abstract array
        return None


def without_dead_code(closed: Any) -> tuple[Any, int]:
    """Remove equations that no output depends on, as XLA does; also return their number.

    Inner jaxprs are included. All inputs stay.
    """
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return closed.replace(jaxpr=jaxpr), count_equations(closed.jaxpr) - count_equations(jaxpr)


def count_equations(jaxpr: Any) -> int:
    """Return the number of equations of a jaxpr, including inner jaxprs."""
    return sum(1 for _ in equations(jaxpr))


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield every equation of a jaxpr and of its inner jaxprs."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for found in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(found, "jaxpr", found)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


# Loops and branches


def scan(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk the body of ``scan`` once; it runs ``length`` times on slices of the scanned inputs."""
    params = equation.params
    shared, carried = params["num_consts"], params["num_carry"]
    steps, region = dim_of(params["length"]), _region(place, "scan", walker)
    entering = [_copied(value) for value in inputs[shared : shared + carried]]
    slices = [_slice(value) for value in inputs[shared + carried :]]
    inside = place._replace(times=place.times * steps, region=region)
    results = walker.walk_closed(params["jaxpr"], [*inputs[:shared], *entering, *slices], inside)
    stacked = [value_of(variable.aval) for variable in equation.outvars[carried:]]
    for inner, outer in zip(results[carried:], stacked, strict=True):
        outer.has_gradient = inner.has_gradient
    return [*results[:carried], *stacked]


def while_loop(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk condition and body of ``while`` once.

    The trip count of ``for i in range(start, stop)`` is known. For other loops it is the option ``trips``, or a new
    symbol.
    """
    params = equation.params
    of_condition, of_body = params["cond_nconsts"], params["body_nconsts"]
    entering = inputs[of_condition + of_body :]
    trips = _counted_trips(params, inputs[:of_condition], entering)
    name = place.names.inside(equation).module("")
    if trips is None and walker.trips is not None:
        trips = walker.trips
        walker.recording.recorder.assume(f"the trip count of a while loop depends on data: {trips} (trips)", name)
    elif trips is None:
        trips = symbol_of(f"trips_{walker.next_loop_number()}")
        walker.recording.recorder.assume(
            f"the trip count of a while loop depends on data: it is the symbol {trips}. Give it with trips=…", name
        )
    region = _region(place, "while", walker)
    carried = [_copied(value) for value in entering]
    condition = place._replace(times=place.times * (trips + 1), region=region)
    walker.walk_closed(params["cond_jaxpr"], [*inputs[:of_condition], *carried], condition)
    body = place._replace(times=place.times * trips, region=region)
    return walker.walk_closed(params["body_jaxpr"], [*inputs[of_condition : of_condition + of_body], *carried], body)


def _counted_trips(params: Mapping[str, Any], shared: Sequence[Value], entering: Sequence[Value]) -> Dim | None:
    """Return the trip count of ``for i in range(start, stop)`` with known bounds; None for any other loop.

    TensorFlow joins several such comparisons by ``and``. The first comparison that fails ends the loop.
    """
    condition = params["cond_jaxpr"].jaxpr
    made = {eqn.outvars[0]: eqn for eqn in condition.eqns if eqn.outvars}
    waiting, counts = [*condition.outvars], []
    while waiting:
        atom = waiting.pop()
        equation = None if hasattr(atom, "val") else made.pop(atom, None)
        if equation is None:
            return None
        name = equation.primitive.name
        if name in ("and", "convert_element_type"):  # JAX casts the comparison to bool
            waiting += equation.invars
        elif name == "lt":
            counts.append(_trips_below(equation, params, shared, entering))
        else:
            return None
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or (len({*known}) > 1 and any(map(is_symbolic, known))):
        return None
    return min(known) if len({*known}) > 1 else known[0]


def _trips_below(
    comparison: Any, params: Mapping[str, Any], shared: Sequence[Value], entering: Sequence[Value]
) -> Dim | None:
    """Return the iterations until ``i < stop`` fails, if the body adds 1 to ``i``; None if unknown."""
    condition, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    known = dict(zip(condition.invars, [*shared, *entering], strict=True))
    counter, end = comparison.invars
    if hasattr(counter, "val") or counter not in known or not (hasattr(end, "val") or end in known):
        return None
    position = condition.invars.index(counter) - len(shared)
    start = known[counter].number
    stop = end.val if hasattr(end, "val") else known[end].number
    if (
        start is None
        or stop is None
        or position < 0
        or not _adds_one(body, params["body_nconsts"] + position, position)
    ):
        return None
    if not hasattr(end, "val") and not _is_carried(condition, body, end, len(shared), params["body_nconsts"]):
        return None
    return stop - start if is_symbolic(stop) or is_symbolic(start) else max(int(stop) - int(start), 0)


def _adds_one(body: Any, entering: int, leaving: int) -> bool:
    """Return whether output ``leaving`` of the body is input ``entering`` plus 1."""
    made = next((eqn for eqn in body.eqns if eqn.outvars[0] is body.outvars[leaving]), None)
    if made is None or made.primitive.name != "add":
        return False
    literals = [int(atom.val) for atom in made.invars if hasattr(atom, "val")]
    return literals == [1] and any(atom is body.invars[entering] for atom in made.invars)


def _is_carried(condition: Any, body: Any, end: Any, shared: int, body_shared: int) -> bool:
    """Return whether the body does not change the limit of the loop."""
    position = condition.invars.index(end) - shared
    return position < 0 or body.outvars[position] is body.invars[body_shared + position]


def cond(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk the branch that a literal selects; if the index depends on data, the most expensive branch."""
    index, operands = inputs[0], inputs[1:]
    branches = equation.params["branches"]
    if index.number is not None:
        selected = min(max(int(index.number), 0), len(branches) - 1)
        return walker.walk_closed(branches[selected], operands, place)
    region, recorder = _region(place, "cond", walker), walker.recording.recorder
    walked: list[tuple[list[Call], list[Any], list[Value]]] = []
    for i, branch in enumerate(branches):
        mark, known = len(recorder.calls), len(walker.recording.history)
        outputs = walker.walk_closed(branch, operands, place._replace(region=f"{region}.{i}"))
        walked.append((recorder.calls[mark:], walker.recording.history[known:], outputs))
        del recorder.calls[mark:], walker.recording.history[known:]
    checks = [i for i, (calls, _, _) in enumerate(walked) if calls and all(call.type in CALLBACKS for call in calls)]
    if len(checks) == len(walked) - 1:
        recorder.assume("branches that only call Python, such as the checks of equinox.error_if, are not taken")
        ((calls, history, outputs),) = (each for i, each in enumerate(walked) if i not in checks)
        recorder.calls += calls
        walker.recording.history += history
        return outputs
    choice = most_expensive({i: calls for i, (calls, _, _) in enumerate(walked)}, recorder)
    if not (walker.is_in_kernel and len({*choice.flops.values()}) == 1):  # of a kernel, only operations count
        recorder.assume(
            f"the condition depends on data: the most expensive of {len(walked)} branches, number {choice.counted} "
            f"({choice.flops[choice.counted]} FLOPs), is counted",
            place.names.module(""),
        )
    calls, history, outputs = walked[choice.counted]
    recorder.calls += [*calls, *choice.uncounted]
    walker.recording.history += history
    return outputs


def shard_map(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk the program of one device; its calls are multiplied by the devices of the mesh."""
    params = equation.params
    devices = prod(params["mesh"].shape.values())
    walker.recording.recorder.notes.append(
        f"shard_map: the calls of one device are listed, each {devices} times (mesh {dict(params['mesh'].shape)})"
    )
    outputs = [value_of(variable.aval) for variable in equation.outvars]
    inside = place._replace(devices=place.devices * devices, axes={**place.axes, **params["mesh"].shape})
    parts = [_sharded(value, var) for value, var in zip(inputs, params["jaxpr"].invars, strict=True)]
    walker.walk_closed(params["jaxpr"], parts, inside)
    return outputs


def _sharded(value: Value, variable: Any) -> Value:
    """Return the shard of a value on one device."""
    return replace(value_of(variable.aval), role=value.role, parameter=value.parameter, is_weight=value.is_weight)


def pallas_call(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Record a Pallas kernel as one call with the operations of its body at every point of the grid.

    Its bytes are a lower bound (a note). Primitives of the body without a cost are listed as calls of their own.
    """
    recording, recorder = walker.recording, walker.recording.recorder
    outputs = [value_of(variable.aval) for variable in equation.outvars]
    steps = _steps(equation.params["grid_mapping"], inputs)
    if steps is None or walker.is_in_kernel or recording.has_own_calculator("pallas_call"):
        recording.record(equation, inputs, outputs, place)
        return outputs
    mark, known = len(recorder.calls), len(recording.history)
    blocks = [value_of(variable.aval) for variable in equation.params["jaxpr"].invars]
    walker.is_in_kernel = True
    try:
        walker.walk(equation.params["jaxpr"], (), blocks, place._replace(times=1, devices=1))
    finally:
        walker.is_in_kernel = False
    body = recorder.calls[mark:]
    del recorder.calls[mark:], recording.history[known:]
    flops, macs, unknown = operations_of(body, recorder)
    recorder.calls += [call._replace(times=call.times * steps * place.times * place.devices) for call in unknown]
    if BLOCKS_ARE_READ_ONCE not in recorder.notes:
        recorder.notes.append(BLOCKS_ARE_READ_ONCE)
    read, written = (sum(t.nbytes for value in side if (t := value.tensor())) for side in (inputs, outputs))
    recording.record(
        equation, inputs, outputs, place, Cost(steps * flops, read, written, {"steps": steps}, steps * macs)
    )
    return outputs


def _steps(mapping: Any, inputs: Sequence[Value]) -> Dim | None:
    # Sizes of the grid that are computed come first among the operands.
    computed = iter([value.number for value in inputs[: mapping.num_dynamic_grid_bounds]])
    sizes = [size if isinstance(size, int) else next(computed, None) for size in mapping.grid]
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None


def custom_linear_solve(walker: Walker, equation: Any, inputs: list[Value], place: Place) -> list[Value]:
    """Walk only the solver of ``custom_linear_solve``: its other jaxprs are for derivatives."""
    lengths = equation.params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    constants = inputs[before : before + lengths.solve]
    right = inputs[before + lengths.solve + lengths.transpose_solve :]
    return walker.walk_closed(equation.params["jaxprs"].solve, [*constants, *right], place)


def _slice(value: Value) -> Value:
    """Return one step of a scanned value."""
    return replace(value, shape=value.shape[1:], identity=0)


def _copied(value: Value) -> Value:
    """Return a loop variable; its number is known in the first iteration only."""
    return replace(value, number=None)


def _region(place: Place, kind: str, walker: Walker) -> str:
    """Return the name of a loop body or a branch, unique in the run."""
    name = f"{kind}{len(walker.recording.history) + 1}"
    return f"{place.region}.{name}" if place.region else name


HANDLERS: Mapping[str, Handler] = {
    "cond": cond,
    "custom_linear_solve": custom_linear_solve,
    "pallas_call": pallas_call,
    "scan": scan,
    "shard_map": shard_map,
    "while": while_loop,
}


# Modules


def modules(program: Program, calls: Iterable[Call], owned: Iterable[tuple[Owner, Value]]) -> dict[str, Module]:
    """Return every module by path, parents before their children."""
    parameters: dict[str, list[tuple[Owner, Value]]] = {}
    buffers: dict[str, Dim] = {}
    for owner, value in owned:
        if owner.role == "param":
            parameters.setdefault(owner.module, []).append((owner, value))
        else:
            buffers[owner.module] = buffers.get(owner.module, 0) + value.size
    paths = dict.fromkeys(
        part
        for path in (*program.types, *parameters, *buffers, *(call.module for call in calls))
        for part in _with_parents(path)
    )
    return {path: _module(program, path, parameters.get(path, []), buffers.get(path, 0)) for path in paths}


def root_of(jaxpr: Any, owners: Iterable[Owner]) -> str:
    """Return the outermost scope of a model if paths of parameters do not include it; empty otherwise.

    Flax opens a scope with the class name of the model, but paths of parameters begin inside it.
    """
    first = {owner.module.partition(".")[0] for owner in owners if owner.module}
    scopes = {Names().inside(equation).scopes[:2] for equation in equations(jaxpr)}
    roots = {outer for outer, *inner in filter(None, scopes) if outer not in first and first.intersection(inner)}
    return roots.pop() if len(roots) == 1 else ""


def _module(program: Program, path: str, own: list[tuple[Owner, Value]], buffers: Any) -> Module:
    return Module(
        program.types.get(path, path.rpartition(".")[2]),
        tuple(value.parameter for _, value in own),
        tuple(value.parameter for owner, value in own if owner.is_frozen),
        buffers=buffers,
        own=tuple((owner.name, value.size) for owner, value in own),
    )


def _with_parents(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
