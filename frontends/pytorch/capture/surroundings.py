"""The environment of captured code: its threads and pools, a simulated GPU, and the devices that tensors report.

PyTorch keeps modes, dispatch keys and autograd sequence numbers per thread. Each thread of a capture has its own mode,
which appends to the logs of the capture. The threads take turns, so that a capture sees one call after another: a
thread that starts another one waits until the new thread ends or blocks.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial, wraps
from time import process_time
from traceback import walk_tb
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..meta.values import META, without_capture
from .autocast import replace
from .dispatch_mode import THREAD, CaptureMode

PATIENCE, MAX_PATIENCE = 0.05, 2.0
"""Seconds without activity after which a thread is assumed to wait for another, in an idle and in a busy process."""

POLL = 0.004

_BLOCKING = frozenset(("acquire", "get", "join", "put", "result", "select", "wait", "_wait_for_tstate_lock"))
"""The functions in the modules :data:`_WAITING` that wait for other threads."""

_WAITING = ("threading", "queue", "concurrent.futures._base", "multiprocessing.pool", "selectors")

_sequence_number = torch.autograd._get_sequence_nr


class Turns:
    """The turns that the threads of a capture take.

    Attributes:
        tasks: the unfinished tasks.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._owner: ThreadMode | None = None
        self._thread = 0
        self._activity = 0
        self._n_running = 0
        """The number of operators that run in the thread whose turn it is."""
        self._sequence_number = 0
        self.tasks: list[Task] = []

    def take(self, mode: ThreadMode) -> None:
        """Wait until it is the turn of a thread; a thread that outlives the capture does not wait."""
        self._activity += 1
        if self._owner is mode or mode.is_over:
            return
        with self._condition:
            self._wait(lambda: self._owner is None, lambda: self._thread)
            self._owner, self._thread = mode, threading.get_ident()
            self._n_running = 0
        self._advance(mode)

    def give(self, mode: ThreadMode) -> None:
        """End the turn of a thread."""
        with self._condition:
            self._sequence_number = max(self._sequence_number, _sequence_number())
            if self._owner is mode:
                self._owner = None
            self._condition.notify_all()

    def wait_for(self, task: Task) -> None:
        """End the turn of this thread until another thread has run a task, or blocks."""
        mode = THREAD.mode
        if isinstance(mode, ThreadMode):
            self.give(mode)
        with self._condition:
            self._wait(lambda: task.is_done, lambda: task.thread)
        if isinstance(mode, ThreadMode):
            self.take(mode)

    def wake(self) -> None:
        """Wake threads after a task ended."""
        with self._condition:
            self._condition.notify_all()

    def begin_call(self, mode: ThreadMode) -> None:
        """Give a thread the turn, and count an operator that runs in it."""
        self.take(mode)
        self._n_running += 1

    def end_call(self, mode: ThreadMode) -> None:
        """Count an operator that ended."""
        if self._owner is mode:
            self._n_running -= 1

    def _wait(self, is_ready: Callable[[], bool], other: Callable[[], int]) -> None:
        # Also ends if the other thread blocks, or shows no activity for long.
        seen, cpu, waited, place = self._activity, process_time(), 0.0, None
        while not is_ready():
            if self._condition.wait(POLL):
                continue
            if self._activity != seen or self._n_running:
                seen, cpu, waited, place = self._activity, process_time(), 0.0, None
                continue
            before, place = place, _blocked_at(other())
            if place is not None and place == before:
                return
            waited += POLL
            is_idle = process_time() - cpu < waited / 2  # else busy threads may delay the other one
            if waited >= (PATIENCE if is_idle else MAX_PATIENCE):
                return

    def _advance(self, mode: ThreadMode) -> None:
        # Autograd's sequence numbers tell which module a gradient belongs to, but PyTorch counts them per thread. Each
        # new node advances the count.
        locator = mode.recording.locator
        missing = max(self._sequence_number, locator.catch_up()) - _sequence_number()
        if missing <= 0:
            return
        with without_capture(), torch.inference_mode(False), torch.enable_grad():
            make_node = torch.zeros((), requires_grad=True).view_as
            leaf = torch.zeros(())
            for _ in range(missing):
                make_node(leaf)


class ThreadMode(CaptureMode):
    """The capture of one of several threads.

    Attributes:
        turns: whose turn it is.
    """

    turns: Turns

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator when it is the turn of this thread."""
        self.turns.begin_call(self)
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self.turns.end_call(self)

    def stop(self) -> None:
        """Remove this mode from the mode stack; the values belong to the capture."""
        self.values = type(self.values)()
        super().stop()
        self.stop_turns()

    def stop_turns(self) -> None:
        """Break the reference cycle that keeps the modules of the model alive."""
        self.turns.give(self)
        vars(self.recording.modules).pop("enter", None)
        self.find_call, self.observe = self.cache.find, self.recording.observe

    def take_turns(self, turns: Turns) -> None:
        """Make this thread wait for its turn before it enters a module, and before it finds or records a call."""
        self.turns = turns
        self.find_call: Callable[..., Any] = self._in_turn(self.cache.find)
        self.observe: Callable[..., None] = self._in_turn(self.recording.observe)
        modules: Any = self.recording.modules
        modules.enter = self._in_turn(modules.enter)

    def _in_turn(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run_in_turn(*args: Any) -> Any:
            self.turns.take(self)
            return function(*args)

        return run_in_turn


def _blocked_at(thread: int) -> tuple[int, int] | None:
    # A thread that blocks at the same place twice waits for another one.
    frame = sys._current_frames().get(thread)
    if frame is None or frame.f_code.co_name not in _BLOCKING or frame.f_globals.get("__name__") not in _WAITING:
        return None
    return id(frame), frame.f_lasti


def turns_of(mode: CaptureMode) -> Turns:
    """Return the turns of a capture, which from now on has several threads."""
    if not isinstance(mode, ThreadMode):
        mode.__class__ = _FirstThread
        mode.take_turns(Turns())
    turns: Turns = mode.turns
    return turns


class _FirstThread(ThreadMode):
    def stop(self) -> None:
        """Remove this mode from the mode stack, and forget all values."""
        CaptureMode.stop(self)
        self.stop_turns()


class Task:
    """A function that a thread runs for a capture.

    Args:
        mode: the capture of the thread that starts or submits it.

    Attributes:
        is_done: whether it ended.
        thread: the number of the thread that runs it; 0 before.
    """

    is_done: bool
    thread: int

    def __init__(self, mode: CaptureMode) -> None:
        self._turns = turns_of(mode)
        self._parent = mode
        self._running = [*mode.recording.modules.running]
        self._logs = mode.recording.logs_here()
        self.is_done = False
        self.thread = 0
        self._turns.tasks.append(self)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function in the current thread, captured."""
        parent, session = self._parent, self._parent.session
        self.thread = threading.get_ident()
        if session is None or parent.is_over or THREAD.mode is not None or not self._logs:
            self._end()
            return function(*args, **kwargs)
        recording = parent.recording.begin_thread(self._logs, self._running)
        mode = ThreadMode(parent.has_replay, parent.is_estimate)
        mode.share(parent, recording)
        mode.take_turns(self._turns)
        try:
            with ExitStack() as stack:
                session.begin_thread(mode, stack)
                stack.callback(parent.recording.end_thread, recording)
                stack.callback(self._turns.take, mode)
                parent.thread_settings(stack)
                if parent.is_estimate:  # threads of a run need not use PyTorch at all
                    self._turns.take(mode)
                return function(*args, **kwargs)
        finally:
            self._turns.give(mode)
            self._end()

    def wait(self) -> None:
        """Let the task run first."""
        self._turns.wait_for(self)

    def _end(self) -> None:
        self.is_done = True
        if self in self._turns.tasks:
            self._turns.tasks.remove(self)
        self._turns.wake()


def wait_for_threads(mode: CaptureMode) -> None:
    """Let the threads that a capture started run, until each has ended or blocks."""
    if isinstance(mode, ThreadMode):
        for task in [*mode.turns.tasks]:
            task.wait()


def patch_threads(stack: ExitStack) -> None:
    """Capture the threads that captured code starts, and the functions that it submits to pools.

    Args:
        stack: undoes the patches.
    """
    for owner, name, function in _patched_functions("multiprocessing.pool" in sys.modules):
        replace(stack, owner, name, function)


@cache
def _patched_functions(has_pools: bool) -> Sequence[tuple[Any, str, Callable[..., Any]]]:
    start: Any = vars(threading.Thread)["start"]
    patched = {ThreadPoolExecutor.__module__}
    functions = [(ThreadPoolExecutor, "submit", _submitting(ThreadPoolExecutor.submit))]
    if has_pools:
        pool = sys.modules["multiprocessing.pool"].ThreadPool
        patched.add(pool.__module__)
        names = ("_map_async", "apply_async", "imap", "imap_unordered")
        functions += [(pool, name, _submitting(getattr(pool, name))) for name in names]

    @wraps(start)
    def start_captured(self: threading.Thread) -> None:
        of_pool = getattr(getattr(self, "_target", None), "__module__", "") in patched
        task = None if of_pool else _task()
        if task is None:
            start(self)
            return
        run = self.run

        def run_captured() -> None:
            try:
                task.run(run)
            finally:
                vars(self).pop("run", None)

        self.run = run_captured  # type: ignore[method-assign]
        start(self)
        task.wait()

    return (*functions, (threading.Thread, "start", start_captured))


def _submitting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def submit(self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        task = _task()
        if task is None:
            return original(self, function, *args, **kwargs)
        result = original(self, partial(task.run, function), *args, **kwargs)
        task.wait()
        return result

    return submit


def _task() -> Task | None:
    mode = THREAD.mode
    return None if mode is None or mode.is_over or mode.paused.is_set else Task(mode)


# Code that names a GPU, in an estimate on a machine without one.
#
# ``x.cuda()``, ``device="cuda"``, streams, events and memory statistics have no meaning for a pass on the meta device:
# tensors stay where they are, events take no time, and queries of the device are answered as with one GPU. Nothing
# outside of the estimate sees this.

NAMES_A_GPU = "the code names a GPU, which this machine does not have: counted as if there were one"

CUDA = torch.device("cuda", 0)

_MEMORY = 80 * 2**30

_MISSING = re.compile(
    r"not compiled with CUDA|NVIDIA driver|CUDA driver version|requires CUDA support|CUDA generator"
    r"|type torch\.cuda\.\w+ not available|without ATen_cuda|NVTX functions not installed"
    r"|can be pinned|dummy base class|No CUDA GPUs|_cuda_\w+'|module 'torch\._C' has no attribute '_cuda"
)
"""Matches PyTorch's errors about a missing GPU."""


def lacks_gpu(error: BaseException | None) -> bool:
    """Return whether an error of a model says that there is no GPU."""
    return error is not None and _MISSING.search(str(error)) is not None


def without_gpu(error: BaseException | None) -> AbstractContextManager[None] | None:
    """Return a context in which code that names a GPU makes a model of meta tensors; None after another error."""
    return gpu_code(False, in_capture=False) if lacks_gpu(error) else None


@contextmanager
def gpu_code(is_available: bool, in_capture: bool = True) -> Iterator[None]:
    """Let code that names a GPU run on the meta device, in this thread.

    Args:
        is_available: the answer of ``torch.cuda.is_available()``.
        in_capture: whether this affects only threads that capture.
    """
    applies = _is_capturing if in_capture else _always
    with ExitStack() as stack:
        for name, function in _functions(is_available).items():
            replace(stack, torch.cuda, name, _where(applies, function, getattr(torch.cuda, name, None)))
        for name in ("range_push", "range_pop", "mark", "range_start", "range_end", "range"):
            replace(stack, torch.cuda.nvtx, name, _where(applies, _nothing, getattr(torch.cuda.nvtx, name)))
        for name in (name for name in dir(torch.cuda) if name.endswith("Tensor")):
            dtype = getattr(torch, name).dtype
            replace(stack, torch.cuda, name, _where(applies, partial(_legacy, dtype), getattr(torch.cuda, name)))
        stack.enter_context(generators_of_meta(applies))
        # PyTorch checks the arguments of ``record_stream`` before the mode sees the call.
        replace(stack, Tensor, "record_stream", _where(applies, _nothing, Tensor.record_stream))
        replace(stack, torch.overrides, "has_torch_function", _without_mode(torch.overrides.has_torch_function))
        stack.enter_context(_Devices())
        stack.enter_context(_reporting(CUDA))
        yield


@contextmanager
def generators_of_meta(applies: Callable[[], bool] | None = None) -> Iterator[None]:
    """Let ``torch.Generator(x.device)`` make a CPU generator if ``x`` is a meta tensor.

    Args:
        applies: returns whether the running thread is affected, also if it names a GPU; None: threads that capture,
            for the meta device only.
    """
    facts = {"original": torch.Generator, "applies": applies or _is_capturing, "lacks_gpu": applies is not None}
    with ExitStack() as stack:
        replace(stack, torch, "Generator", _GeneratorType("Generator", (), facts))
        yield


class _Devices(TorchFunctionMode):
    # Tensors stay on their device; new ones are meta tensors.
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function without the GPUs among its arguments."""
        kwargs = kwargs or {}
        is_question = func in _ANSWERS and _is_user_module(sys._getframe(1).f_globals.get("__name__"))
        if is_question and (args[0].is_meta or args[0].is_cuda):
            return _ANSWERS[func]
        if func in _SAME:
            return args[0]
        if func is Tensor.type and len(args) > 1 and (dtype := _dtype_of_type(args[1])) is not None:
            return args[0].to(dtype)
        if kwargs.get("generator") is not None:
            kwargs = {**kwargs, "generator": None}
        if not any(map(_is_gpu, (*args, *kwargs.values()))):
            return func(*args, **kwargs)
        here: Any = args[0].device if args and isinstance(args[0], Tensor) else META
        if func in _OF_DATA:
            here = torch.device("cpu")
        args = [here if _is_gpu(x) else x for x in args]
        return func(*args, **{name: here if _is_gpu(x) else x for name, x in kwargs.items()})


# Questions about the device of a tensor, in an estimate that names no GPU
#
# User code gets the answer "cpu", as in a run. The answer is a string with the text "meta", which PyTorch's functions
# read: tensors made with ``device=x.device`` stay on the meta device.

ASKS_FOR_A_CPU = "the code asks whether a tensor is on a CPU: counted as if it were"

FAILS_ON_A_CPU = "the code fails if a tensor says that it is on a CPU: counted as on another device"


def asks_for_device(error: BaseException | None) -> bool:
    """Return whether an error came out of a user function that reads the device of a tensor."""
    frames = walk_tb(None if error is None else error.__traceback__)
    names = (frame.f_code.co_names for frame, _ in frames if _is_user_module(frame.f_globals.get("__name__")))
    return any(question in each for each in names for question in _QUESTIONS)


@contextmanager
def on_cpu() -> Iterator[None]:
    """Let meta tensors report to captured user code that they are on a CPU."""
    with generators_of_meta(), _reporting(_ON_CPU):
        yield


@contextmanager
def _reporting(device: Any) -> Iterator[None]:
    mode = THREAD.mode
    if mode is None:
        yield
        return
    before, mode.device = mode.device, device
    try:
        yield
    finally:
        mode.device = before


def patch_device_attributes(stack: ExitStack) -> None:
    """Let ``x.device`` and ``x.is_cpu`` of meta tensors report the device of the mode of the running thread.

    Args:
        stack: undoes the patches.
    """
    for name, question in _questions().items():
        replace(stack, Tensor, name, question)


@cache
def _questions() -> Mapping[str, _Question]:
    return {name: _Question(getattr(torch._C.TensorBase, name)) for name in _QUESTIONS}


class _Question:
    # Replaces an attribute of tensors. On the class it returns PyTorch's own attribute, which other code may store.
    def __init__(self, original: Any) -> None:
        self.original, self.get = original, original.__get__
        self.is_device = original.__name__ == "device"

    def __get__(self, x: Tensor | None, kind: Any = None) -> Any:
        if x is None:
            return self.original
        found, mode = self.get(x), THREAD.mode
        if mode is None or mode.device is None or not _is_user_module(sys._getframe(1).f_globals.get("__name__")):
            return found
        if self.is_device:
            return mode.device if found.type == "meta" else found
        return found or (x.is_meta and mode.device.type == "cpu")

    def __set__(self, x: Tensor, value: Any) -> None:
        self.original.__set__(x, value)


def _note_question() -> None:
    for log in () if THREAD.mode is None else THREAD.mode.recording.logs:
        if ASKS_FOR_A_CPU not in log.recorder.notes:
            log.recorder.notes.append(ASKS_FOR_A_CPU)


class _Text(str):
    # "cpu" in comparisons and in text; "meta" for functions of PyTorch.
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is _Text:
            return True
        if other == "cpu":
            _note_question()
        return other == "cpu"

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash("cpu")

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str) and part in "cpu"

    def __str__(self) -> str:
        return self

    def __repr__(self) -> str:
        return repr("cpu")

    def __format__(self, spec: str) -> str:
        return format("cpu", spec)

    def startswith(self, *args: Any) -> bool:
        return "cpu".startswith(*args)

    def split(self, *args: Any, **kwargs: Any) -> Any:
        return [self]


class _Device(str):
    # A string: PyTorch's functions accept strings as devices, and ``torch.device`` cannot be subclassed. The hash is
    # that of "meta", so that caches by device do not mix tensors of estimates and of runs.
    __slots__ = ()
    __hash__ = str.__hash__
    index: Any = None
    type = _Text("meta")
    __enter__, __exit__ = META.__enter__, META.__exit__

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return torch.device

    def __eq__(self, other: object) -> bool:
        if type(other) is _Device:
            return True
        if other == CPU_DEVICE:
            _note_question()
        return other in (CPU_DEVICE, META)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __str__(self) -> str:
        return self.type

    def __repr__(self) -> str:
        return repr(CPU_DEVICE)

    def __format__(self, spec: str) -> str:
        return format("cpu", spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return torch.device, ("cpu",)

    def __deepcopy__(self, memo: Any) -> Any:
        return self


CPU_DEVICE = torch.device("cpu")

_ON_CPU = _Device("meta")

_QUESTIONS = ("device", "is_cpu")

_OF_DATA = (torch.tensor, torch.as_tensor, torch.asarray)
"""Functions whose result has the data of an argument."""

_SAME = (Tensor.cuda, Tensor.pin_memory)

_DEVICE: Any = Tensor.device.__get__

_ANSWERS: dict[Any, Any] = {
    Tensor.is_cuda.__get__: True,
    _DEVICE: CUDA,
    Tensor.get_device: 0,
    Tensor.is_pinned: False,
}


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value) is not None


def _dtype_of_type(kind: Any) -> torch.dtype | None:
    # ``torch.cuda.FloatTensor``, or its name.
    if isinstance(kind, str) and kind.startswith("torch.cuda."):
        kind = getattr(torch, kind.rpartition(".")[2], None)
    return None if kind is Tensor else getattr(kind, "dtype", None)


@cache
def _is_user_module(name: Any) -> bool:
    return str(name).partition(".")[0] not in ("torch", "costcore")


def _functions(is_available: bool) -> dict[str, Any]:
    properties = SimpleNamespace(name="GPU", major=9, minor=0, total_memory=_MEMORY, multi_processor_count=132)
    answers: dict[str, Any] = {
        "is_available": is_available,
        "device_count": int(is_available),
        "current_device": 0,
        "get_device_name": "GPU",
        "get_device_capability": (9, 0),
        "get_device_properties": properties,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "mem_get_info": (_MEMORY, _MEMORY),
        "is_current_stream_capturing": False,
        "is_initialized": True,
        **dict.fromkeys(("synchronize", "empty_cache", "set_device", "init", "ipc_collect"), None),
        **dict.fromkeys(("manual_seed", "manual_seed_all", "seed", "seed_all", "reset_peak_memory_stats"), None),
    }
    functions: dict[str, Any] = {name: partial(_answer, value) for name, value in answers.items()}
    streams = ("Event", "Stream", "ExternalStream", "current_stream", "default_stream", "stream")
    return {**functions, **dict.fromkeys((*streams, "device", "device_of", "CUDAGraph", "graph"), _Idle)}


def _answer(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _nothing(*_: Any, **__: Any) -> _Idle:
    return _Idle()


class _Idle:
    # An event, a stream or a context: every method is allowed, and nothing waits.
    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_stream = self.device_index = 0
        self.device = CUDA

    def __enter__(self) -> _Idle:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def elapsed_time(self, _: object) -> float:
        return 0.0

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        return event or _Idle()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return partial(_answer, None)


def _legacy(dtype: torch.dtype, *sizes: Any) -> Tensor:
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        return torch.tensor(sizes[0], dtype=dtype)
    return torch.empty(sizes, dtype=dtype, device=META)


class _GeneratorType(type):
    # Replaces ``torch.Generator``: makes CPU generators for the meta device; ``isinstance`` accepts real generators.
    original: Any
    applies: Any
    lacks_gpu: bool

    def __call__(cls, device: Any = "cpu") -> Any:
        is_replaced = torch.device(device).type == "meta" or (cls.lacks_gpu and _is_gpu(device))
        return cls.original("cpu" if is_replaced and cls.applies() else device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.original)


def _is_capturing() -> bool:
    return THREAD.mode is not None


def _always() -> bool:
    return True


def _where(applies: Callable[[], bool], function: Any, original: Any) -> Any:
    @wraps(original or function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if original is None or applies() else original)(*args, **kwargs)

    if isinstance(function, partial) and function.func is _legacy:
        call.dtype = function.args[0]  # type: ignore[attr-defined]
    return call


_FAST_PATHS = frozenset(("torch.nn.modules.activation", "torch.nn.modules.transformer"))
"""Modules of PyTorch that take another path if a function mode is active."""


def _without_mode(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @wraps(original)
    def has_torch_function(relevant_args: Any) -> bool:
        if sys._getframe(1).f_globals.get("__name__") in _FAST_PATHS:
            with torch._C.DisableTorchFunction():
                return original(relevant_args)
        return original(relevant_args)

    return has_torch_function
