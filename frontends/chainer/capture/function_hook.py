"""The capture of a Chainer run in one thread: decides which functions are calls, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import chainer

from costcore.trace import coroutines
from costcore.trace.recorder import Recorder

from ..arrays import array_of
from ..call_stack import current_phase
from ..naming import function_of, native_name
from .array_ledger import record_memory
from .chainerx_guard import chainerx_rejected
from .recording import Recording
from .return_values import MethodWatch
from .static_graphs import static_graphs_off

Arrays: TypeAlias = "Sequence[Any]"

CONTAINERS = ("chainer::Forget", "onnx_chainer::WrappedFunctionNode")
"""Functions that run a function of the user, whose own calls are counted; one that ran none is a call itself."""


@dataclass(slots=True)
class _Backward:
    """A function whose gradients are being computed."""

    watch: MethodWatch
    n_functions_before: int
    by_functions: bool = False
    """Whether other functions, which are calls themselves, computed the gradients; set when its backward returns."""


class Capture(chainer.FunctionHook):
    """Records every function that runs in this thread while the context is open.

    Chainer runs each function, once. In the forward pass, each function is one call. In the backward pass, the
    functions that compute gradients are calls of phase ``backward``. A function that computes its gradients without
    other functions, as old-style functions do, is one call ``<Name>Backward``. The functions inside ``F.forget`` are
    counted in the forward pass and again in the backward pass (phase ``recompute``). Static graphs are run as ordinary
    code while the context is open. Optimizers update parameters by array operations without calling hooks: the update
    is not counted, and a note of the report states this.

    Args:
        recorder: the recorder to write to.

    Attributes:
        recording: the writer of the calls.

    Raises:
        CostError: from a function that receives a ChainerX array, which Chainer would run without calling hooks.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.name = f"costcore {id(self)}"
        self.recording = Recording(recorder)
        self._ledger = record_memory(recorder) if recorder.memory else None
        self._forward: dict[int, MethodWatch] = {}
        self._n_functions_before: dict[int, int] = {}
        """For each container that runs forward now, how many functions had run before it."""
        self._backward: dict[int, _Backward] = {}
        self._n_functions = 0
        self._modules: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        """The path of the link in which a function ran forward."""
        self._backward_modules: list[str] = []
        """The paths of the links whose functions run backward now, outermost first."""
        self._contexts = ExitStack()
        self._active: dict[str, Any] = {}
        """The active function hooks of the thread that entered this one."""
        self._number = 0
        """The number of this capture; see :mod:`costcore.trace.coroutines`."""

    def __enter__(self) -> Capture:
        with ExitStack() as stack:
            stack.enter_context(chainerx_rejected())
            stack.enter_context(static_graphs_off())
            stack.enter_context(self.recording.links)
            self._active = chainer.get_function_hooks()
            super().__enter__()
            self._number = coroutines.enter()
            self._contexts = stack.pop_all()
        self.recording.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._contexts:
            for watch in (*self._forward.values(), *(backward.watch for backward in self._backward.values())):
                watch.remove()
            self._forward.clear()
            self._backward.clear()
            self.recording.finish()
            if self._ledger is not None:
                self._ledger.close()
            coroutines.leave(self._number)
            del self._active[self.name]  # it may be left in another thread

    def _is_here(self) -> bool:
        """Return whether a function that runs now is part of this capture.

        It is not if its coroutine, or one that started it, entered other captures of this thread instead.
        """
        entered = coroutines.entered()
        if self._number in entered:
            return True
        return not any(isinstance(hook, Capture) and hook._number in entered for hook in self._active.values())

    def forward_preprocess(self, function: Any, in_data: Arrays) -> None:
        """Watch the forward method of a function that is about to run."""
        if not self._is_here():
            return
        self._forward[id(function)] = MethodWatch(function, "forward", self._forward_ended)
        if native_name(type(function_of(function))) in CONTAINERS:
            self._n_functions_before[id(function)] = self._n_functions

    def forward_postprocess(self, function: Any, in_data: Arrays) -> None:
        """Record a function that has run forward."""
        if not self._is_here():
            return
        n_functions = self._n_functions
        self._n_functions += 1
        watch = self._forward.pop(id(function))
        if self._ledger is not None:
            self._ledger.read(in_data, bool(self._backward))
            self._ledger.see(function, watch.returned or ())
        native = native_name(type(function_of(function)))
        links = self.recording.links
        module = links.path() if links.running() or not self._backward_modules else self._backward_modules[-1]
        self._modules[function] = module
        if native not in CONTAINERS or n_functions == self._n_functions_before.pop(id(function)):
            values = {"inputs": tuple(in_data)}
            self.recording.record(function, native, values, watch, current_phase(), module, self._origin())

    def backward_preprocess(self, function: Any, in_data: Arrays, out_grad: Arrays) -> None:
        """Watch the backward method of a function that is about to compute gradients."""
        if not self._is_here():
            return
        context = self._backward_in(self._modules.get(function, ""))
        watch = MethodWatch(function, "backward", self._backward_ended, context)
        self._backward[id(function)] = _Backward(watch, self._n_functions)

    def backward_postprocess(self, function: Any, in_data: Arrays, out_grad: Arrays) -> None:
        """Record a function that has computed gradients, unless other functions computed them."""
        if not self._is_here():
            return
        ended = self._backward.pop(id(function))
        watch = ended.watch
        watch.remove()
        native = native_name(type(function_of(function)))
        if (
            native in CONTAINERS
            or ended.by_functions
            or (watch.returned is None and self._n_functions > ended.n_functions_before)
        ):
            return
        passed_on = {id(array) for array in out_grad if array is not None}
        gradients = [array_of(gradient) for gradient in watch.returned or () if gradient is not None]
        computed = [array for array in gradients if array is not None and id(array) not in passed_on]
        if computed or watch.returned is None:  # None: computed by another method, so the results are unknown
            watch.returned = computed
            values = {"inputs": tuple(in_data), "gradients": tuple(out_grad)}
            module = self._modules.get(function, "")
            self.recording.record(function, f"{native}Backward", values, watch, "backward", module, self._origin())

    def _origin(self) -> Any:
        """Return the function whose backward method runs now, the innermost of several; None in the forward pass."""
        running = reversed(self._backward.values())
        return next((function_of(backward.watch.function) for backward in running), None)

    def _forward_ended(self, watch: MethodWatch) -> None:
        if watch.returned is None:
            self._forward.pop(id(watch.function), None)
            self._n_functions_before.pop(id(watch.function), None)

    def _backward_ended(self, watch: MethodWatch) -> None:
        if watch.returned is None:
            self._backward.pop(id(watch.function), None)
        else:
            running = self._backward[id(watch.function)]
            running.by_functions = self._n_functions > running.n_functions_before
            if self._ledger is not None:
                self._ledger.see(watch.function, (gradient for gradient in watch.returned if gradient is not None))
            if running.by_functions:
                watch.returned = ()  # Chainer frees some of the gradients before the hook is called again

    @contextmanager
    def _backward_in(self, module: str) -> Iterator[None]:
        self._backward_modules.append(module)
        try:
            yield
        finally:
            self._backward_modules.pop()
