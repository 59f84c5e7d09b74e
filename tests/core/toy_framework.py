"""A framework with two operators and its frontend, to test the engine without a real framework."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from costcore import CostError, Layer, Operations, Tensor, hookimpl, plugins
from costcore.frontend import FrontendSpec
from costcore.ir import Cost
from costcore.translate import Row
from tests.core.traces import Call, Module, Recorder, user_traceback

FRAMEWORK = "toy_framework"
FRONTEND = "toy_frontend"

ACTIVE: list[Recorder] = []
measures = True
ROWS = (Row("toy::Double", "toy_double", {"x": "x"}), Row("toy::Dense", "toy_dense", {"x": "x", "w": "w"}))
OPERATORS = {row.native: row.op for row in ROWS}


def run(
    native: str, shape: tuple[Any, ...] = (2, 3), module: str = "", weight: int | None = None, **attrs: Any
) -> None:
    """Run one operator of the toy framework."""
    for recorder in ACTIVE:
        record(recorder, native, shape, module, weight, attrs)


def record(recorder: Recorder, native: str, shape: Any, module: str, weight: int | None, attrs: Any) -> None:
    inputs = {"x": Tensor(shape)}
    parameters = ()
    if weight is not None:
        inputs["w"] = Tensor((shape[-1], shape[-1]), role="param")
        if -weight not in recorder.parameters:
            recorder.parameters[-weight] = shape[-1] * shape[-1]
        parameters = (-weight,)
    layer = recorder.intern(Layer(OPERATORS.get(native, native), inputs, [Tensor(shape)], attrs))
    where = user_traceback("toy_framework") if recorder.tracebacks or native not in OPERATORS else ""
    type_name = native.partition("::")[2]
    if recorder.measure_time and measures:
        recorder.seconds[len(recorder.calls)] = 0.25 * (1 + len(recorder.calls))  # a clock that is exact in binary
    recorder.record(Call(layer, type_name, native, module=module, parameters=parameters, where=where))


@contextmanager
def capture(recorder: Recorder) -> Iterator[None]:
    ACTIVE.append(recorder)
    recorder.frameworks["toy"] = "1.0"
    try:
        yield
    finally:
        ACTIVE.remove(recorder)


class Model:
    """A model that runs a list of operators."""

    def __init__(self, *natives: str) -> None:
        self.natives = natives


class Network(Model):
    """A model with modules and parameters.

    Args:
        modules: by path.
        calls: operator, path of the module, and id of the weight or None, in order of execution.
        parameters: elements of every parameter by its id, minus the weight's.
    """

    def __init__(
        self,
        modules: Mapping[str, Module],
        calls: Sequence[tuple[str, str, int | None]],
        parameters: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(*(native for native, _, _ in calls))
        self.modules = modules
        self.calls = calls
        self.parameters = {} if parameters is None else parameters


def accepts(model: object) -> bool:
    return isinstance(model, Model)


def estimate(recorder: Recorder, model: Model, inputs: Any) -> None:
    if not isinstance(inputs, tuple):
        raise CostError(f"a toy model needs a shape (got {inputs!r})")
    recorder.frameworks["toy"] = "1.0"
    calls = [(native, "", None) for native in model.natives]
    if isinstance(model, Network):
        calls = list(model.calls)
        recorder.modules.update(model.modules)
        recorder.parameters.update(model.parameters)
        recorder.n_params_model = sum(model.parameters.values())
    for native, module, weight in recorder.progress(calls, "running"):
        record(recorder, native, inputs, module, weight, {})


def native_names(op: object) -> tuple[str, ...]:
    return (op,) if op in OPERATORS else ()


def calc_toy_double(layer: Layer) -> Cost:
    """Twice x."""
    return Cost(Operations(mul=layer.out.size), layer.read, layer.written, layer.attrs)


def calc_toy_dense(layer: Layer) -> Cost:
    """A square matrix product."""
    macs = layer.out.size * layer["x"].shape[-1]
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


class Plugin:
    """The plug-in of the toy framework: its calculators and its frontend."""

    @hookimpl
    def costcore_calculators(self) -> Any:
        return {"toy_double": calc_toy_double, "toy_dense": calc_toy_dense}

    @hookimpl
    def costcore_frontends(self) -> Any:
        return (FrontendSpec("toy", FRAMEWORK, FRONTEND, models=("a toy model",)),)


def register_here() -> None:
    """Register the framework, if this is another process than that of the test."""
    if FRONTEND not in sys.modules:
        install()
        plugins.register(Plugin(), "toy")


def install() -> None:
    """Make the framework and its frontend, which is this module, importable."""
    sys.modules[FRAMEWORK] = ModuleType(FRAMEWORK)
    sys.modules[FRONTEND] = sys.modules[__name__]


def remove() -> None:
    """Undo :func:`install`."""
    del sys.modules[FRAMEWORK], sys.modules[FRONTEND]
