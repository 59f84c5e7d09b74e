"""Capture a Chainer run through function hooks and link hooks: calls, paths of links, memory.

Hooks do not get results, so the forward or backward method of every function is replaced for one call. Code that
bypasses hooks is handled at the end of the module: static graphs run as ordinary code, ChainerX arrays are rejected.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from time import perf_counter, thread_time
from types import FrameType, TracebackType
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import chainer
from chainer import chainerx

from costcore.counting import CALCULATOR_ERRORS
from costcore.errors import CostError, qualified_name
from costcore.ir import Cost, Role, Tensor
from costcore.numbers import as_dim
from costcore.registry import rows
from costcore.trace import interrupts
from costcore.trace.call import Call, user_traceback
from costcore.trace.run import CPU_TIME, Block, RawBlock, RawLedger, Recorder
from costcore.translate import Native, Translation, Translator, flatten

from .arrays import (
    ARGUMENTS,
    ArrayIds,
    array_of,
    current_phase,
    frames,
    function_of,
    is_array,
    native_name,
    owner,
    tensor,
)

# The capture in one thread: which functions are calls, and when.


Arrays: TypeAlias = "Sequence[Any]"

CONTAINERS = ("chainer::Forget", "onnx_chainer::WrappedFunctionNode")
"""Functions that run a function of the user. The calls inside are counted; without any, the container itself is."""


@dataclass(slots=True)
class _Backward:
    watch: MethodWatch
    n_functions_before: int
    by_functions: bool = False  # whether other recorded functions computed the gradients; set when backward returns


class Capture(chainer.FunctionHook):
    """Records every function that runs in this thread while the context is open.

    In the forward pass, each function is one call. In the backward pass, the functions that compute gradients are calls
    of phase ``backward``. A function that computes its gradients without other functions, as old-style functions do, is
    one call ``<Name>Backward``. The functions inside ``F.forget`` are counted in the forward pass and again in the
    backward pass (phase ``recompute``). Static graphs run as ordinary code while the context is open. Optimizers update
    parameters by array operations without hooks, so the update is not counted; a note says so.

    Args:
        recorder: the recorder to write to.

    Attributes:
        recording: the writer of the calls.

    Raises:
        CostError: from a function of a ChainerX array: Chainer would run it without calling hooks.
    """

    name: str
    recording: Recording

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.name = f"costcore {id(self)}"
        self.recording = Recording(recorder)
        self._ledger = record_memory(recorder) if recorder.memory else None
        self._forward: dict[int, MethodWatch] = {}
        self._n_functions_before: dict[int, int] = {}  # for containers in their forward pass
        self._backward: dict[int, _Backward] = {}
        self._n_functions = 0
        self._modules: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # paths of links by function
        self._backward_modules: list[str] = []  # paths of links that run backward now, outermost first
        self._contexts = ExitStack()
        self._active: dict[str, Any] = {}  # function hooks of the thread that entered this one
        self._number = 0  # see costcore.trace.interrupts

    def __enter__(self) -> Capture:
        with ExitStack() as stack:
            stack.enter_context(chainerx_rejected())
            stack.enter_context(static_graphs_off())
            stack.enter_context(self.recording.links)
            self._active = chainer.get_function_hooks()
            super().__enter__()
            self._number = interrupts.enter()
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
            interrupts.leave(self._number)
            del self._active[self.name]  # the context may end in another thread

    def _is_here(self) -> bool:
        # False if this coroutine, or the one that started it, entered other captures of this thread instead.
        entered = interrupts.entered()
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
        if computed or watch.returned is None:  # None: another method computed them, so results are unknown
            watch.returned = computed
            values = {"inputs": tuple(in_data), "gradients": tuple(out_grad)}
            module = self._modules.get(function, "")
            self.recording.record(function, f"{native}Backward", values, watch, "backward", module, self._origin())

    def _origin(self) -> Any:
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


# Links that are running, and their paths in the model.


class _Running(NamedTuple):
    frame: FrameType
    link: Any
    path: str


class LinkHook(chainer.LinkHook):
    """Tracks the calls of links in this thread.

    The model is the outermost link. Its links keep their paths if they are called on their own later, as in
    recomputation.

    Args:
        on_enter: called with every link before it runs.
        on_inputs: called with the arguments of the outermost link.
    """

    name: str

    def __init__(self, on_enter: Callable[[Any], None], on_inputs: Callable[[Iterable[Any]], None]) -> None:
        super().__init__()
        self.name = f"costcore {id(self)}"
        self._on_enter = on_enter
        self._on_inputs = on_inputs
        self._stack: list[_Running] = []
        self._model: Any = None  # held, so that the ids of its links are not reused
        self._paths: dict[int, str] = {}
        self._active: dict[str, Any] = {}

    def __enter__(self) -> LinkHook:
        self._active = chainer._get_link_hooks()
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        del self._active[self.name]  # it may be left in another thread

    def begin(self, model: Any) -> None:
        """Use the link paths of a model, before a function calls some of its links."""
        self._model, self._paths = model, link_paths(model)

    def forward_preprocess(self, args: Any) -> None:
        """Push a link that is about to run."""
        running = self.running()
        if not running and id(args.link) not in self._paths:
            self.begin(args.link)
        if not running:
            self._on_inputs((*args.args, *args.kwargs.values()))
        path = self._paths.get(id(args.link))
        if path is None:  # a link that the model calls but does not own
            path = ".".join(filter(None, (running[-1].path, args.link.name or type(args.link).__name__)))
        caller = sys._getframe(1)  # the frame of Chainer that runs the link
        self._stack.append(_Running(caller, args.link, path))
        self._on_enter(args.link)

    def forward_postprocess(self, args: Any) -> None:
        """Pop a link that has run."""
        if self.running():
            self._stack.pop()

    def running(self) -> list[_Running]:
        """Return the links that are running, outermost first.

        Chainer does not call the hook after a link raised. Such a link has no frame on the Python stack.
        """
        while self._stack and not any(frame is self._stack[-1].frame for frame in frames()):
            self._stack.pop()
        return self._stack

    def path(self) -> str:
        """Return the path of the innermost running link, ``""`` for the model itself and outside of any link."""
        running = self.running()
        return running[-1].path if running else ""

    def outermost_and_innermost(self) -> tuple[Any, ...]:
        """Return the model and the innermost running link; an empty tuple outside of any link."""
        running = self.running()
        return (running[0].link, running[-1].link) if running else ()


def link_paths(model: Any) -> dict[int, str]:
    """Return the paths of all links of a model by the id of the link: names joined by dots, ``""`` for the model."""
    paths: dict[int, str] = {}
    for path, link in model.namedlinks():
        paths.setdefault(id(link), dotted(path))
    return paths


def dotted(path: str) -> str:
    """Convert a path of ``Link.namedlinks``, ``/block/conv``, to ``block.conv``."""
    return path.strip("/").replace("/", ".")


# Recording: from a function and its arrays to a call of the recorder.


class Recording:
    """Writes the functions of one run into a recorder.

    Args:
        recorder: the recorder to write to.

    Attributes:
        arrays: the ids of the arrays of the run.
        links: the hook that tracks the running links.
    """

    arrays: ArrayIds
    links: LinkHook

    def __init__(self, recorder: Recorder) -> None:
        self.arrays = ArrayIds(recorder)
        self.links = LinkHook(self._add_parameters, self._add_inputs)
        self._recorder = recorder
        self._translate = Translator(rows("chainer"), self._tensor, names=lambda _: ARGUMENTS)
        self._update_rules: dict[int, tuple[Any, int]] = {}  # with the number of updates before the run

    def start(self) -> None:
        """Record the version of Chainer."""
        self._recorder.frameworks["chainer"] = chainer.__version__

    def finish(self) -> None:
        """Note the optimizers that updated parameters during the run."""
        applied = sorted({type(rule).__name__ for rule, before in self._update_rules.values() if rule.t > before})
        if applied:
            self._recorder.notes.append(
                f"parameters were updated by {', '.join(applied)}, for which Chainer does not call hooks; "
                "these operations are not counted"
            )

    def record(
        self,
        node: Any,
        native: str,
        values: Mapping[str, Sequence[Any]],
        watch: MethodWatch,
        phase: str,
        module: str,
        origin: Any,
    ) -> None:
        """Append the call of one function.

        Args:
            node: the node of Chainer's graph that ran the function.
            native: the full name to record it by.
            values: its input arrays, ``inputs``, and, of a backward pass, the ``gradients`` of its outputs.
            watch: the watch with the return value of the function.
            phase: the phase of the call.
            module: the path of the link it belongs to.
            origin: the function whose backward pass runs it; None in the forward pass.
        """
        function = function_of(node)
        arguments = {"function": function, "origin": origin, **values}
        translation = self._translate(Native(native, arguments, watch.returned))
        inputs = tuple(map(self.arrays.operand, translation.inputs))
        outputs = tuple(map(self.arrays.result, translation.outputs))
        call = Call(
            layer=self._recorder.intern(translation.layer),
            type=native.partition("::")[2],
            native=native,
            module=module,
            phase=phase,
            inputs=inputs,
            outputs=outputs,
            storages=tuple(map(self.arrays.storage, (*translation.inputs, *translation.outputs))),
            parameters=self._parameter_ids(translation),
            saved=self._saved_ids(node, values["inputs"], watch.returned) if phase != "backward" else (),
            where=user_traceback("chainer") if self._recorder.tracebacks or not translation.has_row else "",
        )
        seconds = self._seconds(watch)
        calculator = self._recorder.native_calculators.get(native)
        if calculator is None:
            self._recorder.record(call, seconds=seconds)
            return
        try:
            cost = native_cost(calculator, function, values["inputs"], watch.returned)
        except CostError as error:
            self._recorder.record(call, failure=str(error), seconds=seconds)
        else:
            self._recorder.record(call, cost, seconds=seconds)

    def _seconds(self, watch: MethodWatch) -> float | None:
        clock = self._recorder.measure_time
        if clock is False:
            return None
        return watch.cpu_seconds if clock == CPU_TIME else watch.seconds

    def _tensor(self, value: Any, role: Role) -> Tensor | None:
        found = tensor(value, role)
        if found is None or role == "state" or found.is_scalar:
            return found
        if array_of(value).dtype.kind not in "fc":
            return Tensor(found.shape, found.dtype)
        # "param" only for a learned parameter.
        if role == "param" and not self.arrays.is_parameter(value):
            for link in self.links.outermost_and_innermost():
                self._add_parameters(link)
        if self.arrays.is_parameter(value):
            return Tensor(found.shape, found.dtype, "param")
        if role == "param" and (self.arrays.is_result(value) or self.links.running()):
            # computed, or an array of a link that is not a parameter, such as the ones in place of a missing gamma
            return Tensor(found.shape, found.dtype)
        return found

    def _add_parameters(self, link: Any) -> None:
        for parameter in link.params():
            if parameter.array is not None:
                self.arrays.add_parameter(parameter.array)
            if (rule := parameter.update_rule) is not None:
                self._update_rules.setdefault(id(rule), (rule, rule.t))

    def _add_inputs(self, values: Iterable[Any]) -> None:
        for value in flatten(values):
            array = array_of(value)
            if is_array(array) and not self.arrays.is_result(array):
                identity = self.arrays.operand(array)
                if identity not in self._recorder.inputs:
                    self._recorder.inputs.append(identity)

    def _parameter_ids(self, translation: Translation) -> tuple[int, ...]:
        operands = zip(translation.layer.inputs.values(), translation.inputs, strict=True)
        return tuple(self.arrays.parameter(value) for operand, value in operands if operand.role == "param")

    def _saved_ids(self, node: Any, in_data: Sequence[Any], out_data: Sequence[Any]) -> tuple[int, ...]:
        if not chainer.config.enable_backprop:
            return ()
        retained = [in_data[i] for i in node._input_indexes_to_retain or ()]
        retained += [out_data[i] for i in node._output_indexes_to_retain or ()]
        return tuple(map(self.arrays.operand, retained))


# The memory ledger: when the memory of every array is allocated and freed.
#
# Arrays are freed by reference count, and then callbacks of weak references to the owners of memory run. An array is
# known once a function returns it or keeps it as an attribute; arrays that only live inside a function are its
# workspace.


UPDATES = "memory: temporary arrays of optimizer updates are not counted"

OTHERS = "memory: counts the tensors of the other framework of this run, not the arrays of Chainer"


class _Block:
    name = ""
    died: int | None = None

    def __init__(self, array: Any, kind: str, born: int, call: int) -> None:
        self.kind = kind
        self.born = born
        self.call = call
        self.nbytes = int(array.nbytes)
        self.shape = tuple(array.shape)
        self.dtype = str(array.dtype.name)
        self.device = str(chainer.backend.get_device_from_array(array))
        self.with_gradient = bool(chainer.config.enable_backprop)


class ArrayLedger:
    """The memory blocks of one capture.

    Args:
        n_calls: returns the number of calls recorded so far.
    """

    def __init__(self, n_calls: Callable[[], int]) -> None:
        self._n_calls = n_calls
        self._watches: dict[int, tuple[weakref.ref[Any], _Block]] = {}
        self._blocks: list[_Block] = []
        self._calls: list[int] = []  # number of calls before each event
        self._parameters: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._optimizers: list[Any] = []
        self._result: RawLedger | None = None

    # Memory allocated before the run

    def watch(self, value: Any, name: str = "") -> bool:
        """Register links, optimizers, variables and arrays, also in lists and dicts; return False for other values."""
        if isinstance(value, chainer.Link):
            self._watch_link(value)
        elif isinstance(value, chainer.Optimizer):
            self._optimizers.append(value)
            self._watch_link(value.target)
        elif isinstance(value, chainer.Variable) or is_array(value):
            self._add_base(array_of(value), "input", name)
        elif isinstance(value, (list, tuple, set, Mapping)):
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            return [self.watch(item, str(key)) for key, item in items].count(False) == 0
        else:
            return False
        return True

    def _watch_link(self, link: Any) -> None:
        for path, parameter in link.namedparams():
            name = path.strip("/").replace("/", ".")
            self._parameters[id(parameter)] = weakref.ref(parameter), name
            self._add_base(parameter.array, "parameter", name)
            self._add_base(parameter.grad, "gradient", name)
            if parameter.update_rule is not None:
                for array in _arrays_in(parameter.update_rule.state):
                    self._add_base(array, "optimizer", name)
        for child in link.links():
            for name in child._persistent:
                self._add_base(getattr(child, name, None), "buffer", name)

    def _add_base(self, array: Any, kind: str, name: str) -> None:
        if is_array(array) and self._block_of(owner(array)) is None:
            self._add(owner(array), kind, 0, -1).name = name

    def read(self, arrays: Iterable[Any], is_backward: bool) -> None:
        """Register operands that no function computed: they were allocated before the run.

        In a backward pass, the gradient of the loss is another such operand: Chainer allocates it at the beginning.
        """
        for array in arrays:
            if is_backward:
                self._see(array)
            else:
                self._add_base(array, "input", "")

    # Memory that the run allocates and frees

    def see(self, function: Any, results: Iterable[Any]) -> None:
        """Register the results of a function, and the arrays that it keeps as attributes."""
        for value in (*results, *_arrays_in(vars(function_of(function)))):
            self._see(array_of(value))

    def _see(self, array: Any) -> None:
        if is_array(array) and owner(array).nbytes and self._block_of(owner(array)) is None:
            self._calls.append(self._n_calls())
            self._add(owner(array), "", len(self._calls), self._n_calls())

    def _add(self, array: Any, kind: str, born: int, call: int) -> _Block:
        block = _Block(array, kind, born, call)
        address = id(array)

        def freed(watch: weakref.ref[Any]) -> None:
            if self._watches.get(address, (None,))[0] is watch:
                del self._watches[address]
            if self._result is None:
                self._calls.append(self._n_calls())
                block.died = len(self._calls)

        self._watches[address] = weakref.ref(array, freed), block
        self._blocks.append(block)
        return block

    def _block_of(self, array: Any) -> _Block | None:
        watch = self._watches.get(id(array))
        return watch[1] if watch is not None and watch[0]() is array else None

    # The result

    def close(self) -> None:
        """Stop watching, and keep only the result."""
        self._result = self.result()
        self._watches.clear()
        self._blocks.clear()

    def result(self) -> RawLedger:
        """Return the blocks and events so far."""
        if self._result is not None:
            return self._result
        self._find_kinds()
        blocks = []
        for identity, each in enumerate(sorted(self._blocks, key=lambda block: block.born), 1):
            what = each.nbytes, each.kind, each.born, each.died, each.call
            made = Block(identity, *what, each.shape, each.dtype, each.name, each.device)
            blocks.append(RawBlock(made, each.with_gradient))
        notes = (UPDATES,) if any(block.kind == "optimizer" for block in self._blocks) else ()
        return RawLedger(blocks, [*self._calls], {}, False, notes)

    def _find_kinds(self) -> None:
        for reference, name in self._parameters.values():
            parameter = reference()
            if parameter is not None:
                rule = parameter.update_rule
                self._set_kind([parameter.grad], "gradient", name)
                self._set_kind(_arrays_in({} if rule is None else rule.state), "optimizer", name)

    def _set_kind(self, arrays: Iterable[Any], kind: str, name: str) -> None:
        for array in arrays:
            block = self._block_of(owner(array)) if is_array(array) else None
            if block is not None and not block.kind:
                block.kind, block.name = kind, name


def record_memory(recorder: Recorder) -> ArrayLedger:
    """Return a ledger, and register it as the source of the recorder's memory.

    If another frontend also records memory, the recorder uses the ledger that has blocks.
    """
    ledger = ArrayLedger(lambda: len(recorder.calls))
    other, watch_other = recorder.memory_ledger, recorder.watch_memory

    def result() -> RawLedger:
        own = ledger.result()
        theirs = None if other is None else other()
        if theirs is None or not theirs.blocks:
            return own
        return theirs._replace(notes=(*theirs.notes, OTHERS)) if own.blocks else theirs

    def watch(values: Iterable[Any]) -> None:
        rest = [value for value in values if not ledger.watch(value)]
        if rest and watch_other is not None:
            watch_other(rest)
        elif rest:
            raise TypeError(f"watch expects links, optimizers, variables and arrays (got {rest[0]!r})")

    recorder.memory_ledger, recorder.watch_memory = result, watch
    return ledger


def _arrays_in(values: Mapping[str, Any] | None) -> Iterator[Any]:
    for value in (values or {}).values():
        items: Sequence[Any] = value if isinstance(value, (list, tuple)) else (value,)
        yield from (array_of(item) for item in items if is_array(array_of(item)))


# Return values of functions: Chainer does not pass them to hooks.


_ABSENT = object()


class MethodWatch:
    """Replaces one method of a function object for one call, and keeps the return value.

    It removes itself from the object before it calls the method. So nested hooks, an exception in the call, and the
    method itself find the object unchanged.

    Args:
        function: the function object.
        method: the name of the method, ``forward`` or ``backward``.
        on_end: called with the watch after the call, also if it raised.
        context: a context manager around the call.

    Attributes:
        function: the function object.
        returned: the return value of the method; None before the call, and if it raised.
        seconds: the duration of the call.
        cpu_seconds: the CPU time of the thread in the call.
    """

    seconds: float
    cpu_seconds: float

    def __init__(
        self,
        function: Any,
        method: str,
        on_end: Callable[[MethodWatch], None],
        context: AbstractContextManager[object] | None = None,
    ) -> None:
        self.function = function
        self.returned: Any = None
        self.seconds = self.cpu_seconds = 0.0
        self._method = method
        self._on_end = on_end
        self._context = nullcontext() if context is None else context
        self._before = vars(function).get(method, _ABSENT)
        setattr(function, method, self)

    def __call__(self, *args: Any) -> Any:
        """Call the method, and keep its return value."""
        self.remove()
        method = getattr(self.function, self._method)
        try:
            with self._context:
                cpu, start = thread_time(), perf_counter()
                self.returned = method(*args)
                self.seconds = perf_counter() - start
                self.cpu_seconds = thread_time() - cpu
            return self.returned
        finally:
            self._on_end(self)

    def remove(self) -> None:
        """Restore the method of the object, if it is still replaced."""
        if vars(self.function).get(self._method) is not self:
            return
        if self._before is _ABSENT:
            delattr(self.function, self._method)
        else:
            setattr(self.function, self._method, self._before)


# Custom calculators on Chainer functions, ``calculator(function, in_data, **kwargs)``.


def native_cost(calculator: partial[Any], function: Any, in_data: Sequence[Any], out_data: Sequence[Any]) -> Cost:
    """Call ``calculator`` and convert the elements that it returns to bytes of the dtype of the first array.

    Raises:
        CostError: if it raises or returns anything but (flops, read, written[, params]).
    """
    who = f"the calculator {qualified_name(calculator.func)} for {type(function).__name__}"
    try:
        result = calculator(function, in_data)
    except CALCULATOR_ERRORS as error:
        raise CostError(f"{who} raised {type(error).__name__}: {error}") from error
    if not isinstance(result, (tuple, list)) or len(result) not in (3, 4):
        raise CostError(f"{who} returned {result!r}; expected (flops, read, written[, params]) in elements")
    flops, read, written, params = (*result, {})[:4]
    itemsize = next(array.itemsize for array in (*in_data, *out_data) if is_array(array))
    try:
        return Cost(as_dim(flops), as_dim(read) * itemsize, as_dim(written) * itemsize, dict(params))
    except (TypeError, ValueError) as error:
        raise CostError(f"{who} returned {result!r}: {error}") from error


# Static graphs: Chainer runs their functions without calling hooks.


_OPTION = "use_static_graph"


class _Switch:
    """The option for static graphs in one thread.

    Attributes:
        options: the options of the thread.
        before: the value before the first context that turns it off.
        n_contexts: the number of open contexts that turn it off.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.before: dict[str, Any] = {}
        self.n_contexts = 0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.switch = _Switch(vars(chainer.config._local))


_THREAD = _Thread()


@contextmanager
def static_graphs_off() -> Iterator[None]:
    """Run static graphs as ordinary code in this thread.

    Contexts may end in any order, and in another thread.
    """
    switch = _THREAD.switch
    if switch.n_contexts == 0:
        switch.before = {name: value for name, value in switch.options.items() if name == _OPTION}
    switch.n_contexts += 1
    switch.options[_OPTION] = False
    try:
        yield
    finally:
        switch.n_contexts -= 1
        if switch.n_contexts == 0:
            switch.options.pop(_OPTION, None)
            switch.options.update(switch.before)


# ChainerX arrays: rejected during a capture, because ChainerX runs functions without calling hooks.


_lock = threading.Lock()

_capturing: list[int] = []
"""The threads that capture, one entry per capture."""

_apply: Any = None


@contextmanager
def chainerx_rejected() -> Iterator[None]:
    """Reject ChainerX arrays in functions that this thread runs; does nothing if ChainerX is not installed.

    Raises:
        CostError: from the function that receives a ChainerX array.
    """
    if not chainerx.is_available():
        yield
        return
    global _apply
    thread = threading.get_ident()
    with _lock:
        if not _capturing:
            _apply, chainer.FunctionNode.apply = chainer.FunctionNode.apply, _checked_apply
        _capturing.append(thread)
    try:
        yield
    finally:
        with _lock:
            _capturing.remove(thread)
            if not _capturing:
                chainer.FunctionNode.apply = _apply


def is_chainerx(value: Any) -> bool:
    """Return True if a value is a ChainerX array or a Variable that holds one."""
    return isinstance(value.array if isinstance(value, chainer.Variable) else value, chainerx.ndarray)


def _checked_apply(self: Any, inputs: Any) -> Any:
    if threading.get_ident() in _capturing and any(map(is_chainerx, inputs)):
        raise CostError(
            f"{self.label}: cannot count a function of a ChainerX array, for which Chainer does not call hooks "
            "(expected NumPy or CuPy arrays). "
            "Move model and inputs first: model.to_cpu(), x = chainer.backend.from_chx(x)."
        )
    return _apply(self, inputs)
