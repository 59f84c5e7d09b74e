"""Records what Chainer runs in one thread, through its function hooks and link hooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import chainer

from costcore.errors import CostError
from costcore.ir import Role, Tensor
from costcore.registry.frontends import rows
from costcore.trace.call import Call
from costcore.trace.recorder import Recorder
from costcore.trace.source import user_traceback
from costcore.translate import Native, Translation, Translator

from ..arrays import Arrays, array_of, tensor
from ..naming import function_of, native_name
from ..rows.arguments import ARGUMENTS
from .call_stack import phase
from .chainerx_guard import chainerx_refused
from .link_hook import LinkCapture
from .native_calculators import native_cost
from .return_values import Watch

Values: TypeAlias = "Sequence[Any]"

CONTAINERS = ("chainer::Forget",)
"""Functions that only run other functions, which are counted themselves."""


@dataclass(slots=True)
class _Backward:
    """A function whose gradients are being computed; whether other functions compute them is known at the end."""

    watch: Watch
    n_functions_before: int
    by_functions: bool = False


class Capture(chainer.FunctionHook):
    """Records every function that runs in this thread while the context is open.

    A function is run once, by Chainer. In the forward pass each is one call. In the backward pass the functions that
    compute the gradients are calls of phase ``backward``; where a function computes them without others (old-style
    functions do), it is one call itself, ``<Name>Backward``. ``F.forget`` counts as what it runs, in backward a second
    time (phase ``recompute``). Static graphs run as they are defined while the context is open. What optimizers do to
    parameters is done by array operations, of which Chainer tells no hook: it is not counted, and a note says so.

    Args:
        recorder: what to write into.

    Raises:
        CostError: from the function that is given a ChainerX array, which Chainer would run without its hooks.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.name = f"costcore {id(self)}"
        self.arrays = Arrays(recorder)
        self._recorder = recorder
        self._links = LinkCapture(self._learn)
        self._translate = Translator(rows("chainer"), self._tensor, names=lambda _: ARGUMENTS)
        self._forward: dict[int, Watch] = {}
        self._backward: dict[int, _Backward] = {}
        self._n_functions = 0
        self._home: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._homes: list[str] = []
        self._rules: dict[int, tuple[Any, int]] = {}  # update rules, and how often each had been applied at first sight
        self._open = ExitStack()

    def __enter__(self) -> Capture:
        with ExitStack() as stack:
            stack.enter_context(chainerx_refused())
            stack.enter_context(chainer.using_config("use_static_graph", False))
            stack.enter_context(self._links)
            super().__enter__()
            self._open = stack.pop_all()
        self._recorder.frameworks["chainer"] = chainer.__version__
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._open:
            for watch in (*self._forward.values(), *(each.watch for each in self._backward.values())):
                watch.take_off()
            self._forward.clear()
            self._backward.clear()
            if applied := sorted({type(rule).__name__ for rule, t in self._rules.values() if rule.t > t}):
                self._recorder.notes.append(
                    f"parameters were updated by {', '.join(applied)}, which Chainer does without telling hooks; "
                    "these operations are not counted"
                )
            super().__exit__(kind, error, traceback)

    def forward_preprocess(self, function: Any, in_data: Values) -> None:
        """A function is about to run."""
        self._forward[id(function)] = Watch(function, "forward", self._forward_ended)

    def forward_postprocess(self, function: Any, in_data: Values) -> None:
        """A function has run."""
        self._n_functions += 1
        watch = self._forward.pop(id(function))
        native = native_name(type(function_of(function)))
        home = self._links.path() if self._links.running() or not self._homes else self._homes[-1]
        self._home[function] = home
        if native not in CONTAINERS:
            self._record(function, native, {"inputs": tuple(in_data)}, watch, phase(), home)

    def backward_preprocess(self, function: Any, in_data: Values, out_grad: Values) -> None:
        """The gradients of a function's inputs are about to be computed."""
        watch = Watch(function, "backward", self._backward_ended, self._at(self._home.get(function, "")))
        self._backward[id(function)] = _Backward(watch, self._n_functions)

    def backward_postprocess(self, function: Any, in_data: Values, out_grad: Values) -> None:
        """The gradients of a function's inputs have been computed."""
        done = self._backward.pop(id(function))
        done.watch.take_off()
        if done.by_functions or (done.watch.returned is None and self._n_functions > done.n_functions_before):
            return
        passed_on = {id(array) for array in out_grad if array is not None}
        gradients = [array_of(gradient) for gradient in done.watch.returned or () if gradient is not None]
        computed = [array for array in gradients if array is not None and id(array) not in passed_on]
        if computed or done.watch.returned is None:  # None: by a way that is not watched, so what came out is not known
            done.watch.returned = computed
            native = native_name(type(function_of(function))) + "Backward"
            values = {"inputs": tuple(in_data), "gradients": tuple(out_grad)}
            self._record(function, native, values, done.watch, "backward", self._home.get(function, ""))

    def _record(
        self, node: Any, native: str, values: Mapping[str, Values], watch: Watch, phase: str, home: str
    ) -> None:
        function = function_of(node)
        arguments = {"function": function, "origin": self._origin(), **values}
        seen = self._translate(Native(native, arguments, watch.returned))
        inputs = tuple(map(self.arrays.operand, seen.inputs))
        outputs = tuple(map(self.arrays.result, seen.outputs))
        call = Call(
            self._recorder.intern(seen.layer),
            native.partition("::")[2],
            native,
            module=home,
            phase=phase,
            inputs=inputs,
            outputs=outputs,
            storages=tuple(map(self.arrays.storage, (*seen.inputs, *seen.outputs))),
            parameters=self._parameters(seen),
            saved=self._saved(node, values["inputs"], watch.returned) if phase != "backward" else (),
            where=user_traceback() if self._recorder.tracebacks or not seen.known else "",
        )
        if self._recorder.measure_time:
            self._recorder.seconds[len(self._recorder.calls)] = watch.seconds
        calculator = self._recorder.native_calculators.get(native)
        if calculator is None:
            self._recorder.record(call)
            return
        try:
            self._recorder.record(call, native_cost(calculator, function, values["inputs"], watch.returned))
        except CostError as error:
            self._recorder.record(call, failure=str(error))

    def _origin(self) -> Any:
        """The function whose backward is running, the innermost of several."""
        return next((function_of(each.watch.function) for each in reversed(self._backward.values())), None)

    def _tensor(self, value: Any, role: Role) -> Tensor | None:
        """The tensor of a value, in the role it really has: learned parameters are known, results are none."""
        found = tensor(value, role)
        if found is None or role == "state" or found.is_scalar:
            return found
        if array_of(value).dtype.kind not in "fc":
            return Tensor(found.shape, found.dtype)
        if role == "param" and not self.arrays.is_parameter(value):
            for link in self._links.links():
                self._learn(link)
        if self.arrays.is_parameter(value):
            return Tensor(found.shape, found.dtype, "param")
        if role == "param" and (self.arrays.is_result(value) or self._links.running()):
            # computed, or held by a link that does not learn it, such as the ones that stand for a missing gamma
            return Tensor(found.shape, found.dtype)
        return found

    def _learn(self, link: Any) -> None:
        for parameter in link.params():
            if parameter.array is not None:
                self.arrays.learn(parameter.array)
            if (rule := parameter.update_rule) is not None:
                self._rules.setdefault(id(rule), (rule, rule.t))

    def _parameters(self, seen: Translation) -> tuple[int, ...]:
        operands = zip(seen.layer.inputs.values(), seen.inputs, strict=True)
        return tuple(self.arrays.parameter(value) for operand, value in operands if operand.role == "param")

    def _saved(self, node: Any, in_data: Values, out_data: Values) -> tuple[int, ...]:
        """What the function keeps for its backward pass, as Chainer is about to note it."""
        if not chainer.config.enable_backprop:
            return ()
        kept = [in_data[i] for i in node._input_indexes_to_retain or ()]
        kept += [out_data[i] for i in node._output_indexes_to_retain or ()]
        return tuple(map(self.arrays.operand, kept))

    def _forward_ended(self, watch: Watch) -> None:
        if watch.returned is None:
            self._forward.pop(id(watch.function), None)

    def _backward_ended(self, watch: Watch) -> None:
        if watch.returned is None:
            self._backward.pop(id(watch.function), None)
        else:
            running = self._backward[id(watch.function)]
            running.by_functions = self._n_functions > running.n_functions_before

    @contextmanager
    def _at(self, home: str) -> Iterator[None]:
        self._homes.append(home)
        try:
            yield
        finally:
            self._homes.pop()
