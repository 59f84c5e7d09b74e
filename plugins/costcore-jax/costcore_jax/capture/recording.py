"""The writer of one run: turns an equation of a jaxpr into a call of the recorder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from costcore.ir import Layer, Role, Tensor
from costcore.numbers import Dim
from costcore.registry import rows
from costcore.trace.call import Call
from costcore.trace.run import Recorder
from costcore.translate import Native, Translation, Translator

from .dims import dim_of
from .location import Names
from .numbers import number_of
from .values import Value

OWN = ("contextlib", "costcore", "costcore_jax")
"""This package and the standard library, for which ``contextlib`` stands."""

LIBRARIES = (*OWN, "equinox", "flax", "haiku", "jax", "jaxlib", "keras")
"""Libraries whose lines are not the user's."""

BOOKKEEPING = frozenset(("debug_callback", "debug_print", "name", "pvary", "tie"))
"""Primitives that mark values or print them; they are not listed."""

VIEWS = frozenset(
    ("broadcast_in_dim", "copy", "copy_p", "name", "optimization_barrier", "pvary", "reduce_precision", "reshape")
) | {"sharding_constraint", "squeeze", "stop_gradient", "device_put", "expand_dims"}
"""Primitives whose output has the elements of their input, if it has as many."""

MOVES = frozenset(("convert_element_type", "transpose", "slice", "concatenate", "split", "dynamic_slice"))
"""Primitives that move or cast weights, so that the results are weights again."""


class Place(NamedTuple):
    """Where an equation runs.

    Attributes:
        names: scopes and transformations around it.
        times: how often it runs.
        region: the loop or branch that it belongs to.
        devices: the number of devices that run it.
        axes: the sizes of the axes of devices around it, by name.
    """

    names: Names = Names()
    times: Dim = 1
    region: str = ""
    devices: Dim = 1
    axes: Mapping[str, int] = MappingProxyType({})


class Recorded(NamedTuple):
    """An equation that was recorded.

    Attributes:
        primitive: its name.
        params: its parameters.
        inputs, outputs: its values; None for one without elements.
        call: its call.
    """

    primitive: str
    params: Mapping[str, Any]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    call: Call


class Recording:
    """Writes the equations of one run into a recorder.

    Args:
        recorder: the recorder to write to.
        root: name of the scope that stands for the model itself.

    Attributes:
        recorder: the recorder.
        history: every equation that was recorded, in order.
    """

    def __init__(self, recorder: Recorder, root: str = "") -> None:
        self.recorder = recorder
        self.history: list[Recorded] = []
        self._root = root
        self._translate = Translator(rows("jax"), describe)

    def record(self, equation: Any, inputs: Sequence[Value], outputs: Sequence[Value], place: Place) -> None:
        """Record one equation, and decide the roles and ids of its outputs."""
        name = equation.primitive.name
        reads_gradient = any(value.has_gradient for value in inputs)
        phase = place.names.inside(equation).phase(reads_gradient)
        for value in outputs:
            self._follow(name, equation.params, inputs, value)
            value.has_gradient = reads_gradient or phase == "backward"
        for value in (*inputs, *outputs):
            self.identity(value)  # before rows make views of it
        if name in BOOKKEEPING:
            return
        if all(value.number is not None and not value.shape for value in (*inputs, *outputs)):
            translation = _constant(outputs)
        else:
            arguments = {**equation.params, "inputs": list(inputs), "outputs": list(outputs)}
            arguments["device_axes"] = place.axes
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
            where=(_line(equation) if names.lines is None else names.lines)
            if self.recorder.tracebacks or not translation.has_row
            else "",
        )
        self.recorder.record(call)
        self.history.append(Recorded(name, equation.params, tuple(inputs), tuple(outputs), call))

    def identity(self, value: Value) -> int:
        """Return the operand id of a value."""
        if not value.identity:
            value.identity = self.recorder.new_id()
        return value.identity

    def _follow(self, name: str, params: Mapping[str, Any], inputs: Sequence[Value], output: Value) -> None:
        """Give an output what it takes over from the inputs: parameter, weight, number."""
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
    """Return the layer of arithmetic on literals, which is done before the program runs."""
    layer = Layer("constant", {}, [tensor for value in outputs if (tensor := value.tensor())])
    return Translation(layer, (), tuple(outputs), has_row=True)


def describe(value: Any, role: Role) -> Tensor | None:
    """Return the operand for a value in the role that it has; None for a plain argument."""
    return value.tensor() if isinstance(value, Value) else None


def _line(equation: Any) -> str:
    """Return the lines of the user's code that an equation comes from, as a formatted traceback.

    JAX keeps the lines inside the traced function only. If all are in libraries, those outside of JAX are returned.
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
