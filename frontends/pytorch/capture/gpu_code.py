"""Code that names a GPU, in an estimate on a machine without one.

``x.cuda()``, ``device="cuda"``, streams, events and memory statistics have no meaning for a pass on the meta device:
tensors stay where they are, events take no time, and questions about the device have the answers of one GPU. Nothing
outside of the estimate sees this.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..meta.values import META
from .autocast import replace
from .dispatch_mode import THREAD

NAMES_A_GPU = "the code names a GPU, which this machine does not have: counted as if there were one"

CUDA = torch.device("cuda", 0)

_MEMORY = 80 * 2**30

_MISSING = re.compile(
    r"not compiled with CUDA|NVIDIA driver|requires CUDA support|CUDA generator|type torch\.cuda\.\w+ not available"
    r"|without ATen_cuda|NVTX functions not installed"
    r"|can be pinned|dummy base class|No CUDA GPUs|_cuda_\w+'|module 'torch\._C' has no attribute '_cuda"
)
"""Matches what PyTorch says of a GPU that the machine lacks."""


def lacks_gpu(error: BaseException | None) -> bool:
    """Return whether an error of a model says that there is no GPU."""
    return error is not None and _MISSING.search(str(error)) is not None


def without_gpu(error: BaseException | None) -> AbstractContextManager[None] | None:
    """Return a context in which code makes a model for a GPU, with meta tensors on it; None after another error."""
    return gpu_code(False, in_capture=False) if lacks_gpu(error) else None


@contextmanager
def gpu_code(is_available: bool, in_capture: bool = True) -> Iterator[None]:
    """Let code that names a GPU run on the meta device, in this thread.

    Args:
        is_available: the answer of ``torch.cuda.is_available()``.
        in_capture: whether only a thread that captures runs such code.
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
        replace(
            stack,
            torch,
            "Generator",
            _GeneratorType("Generator", (), {"original": torch.Generator, "applies": applies}),
        )
        # Its arguments are checked before the mode sees them.
        replace(stack, Tensor, "record_stream", _where(applies, _nothing, Tensor.record_stream))
        replace(stack, torch.overrides, "has_torch_function", _without_mode(torch.overrides.has_torch_function))
        stack.enter_context(_Devices())
        yield


class _Devices(TorchFunctionMode):
    # Tensors stay on their device; new ones are meta tensors.
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function without the GPUs among its arguments."""
        kwargs = kwargs or {}
        if func in _ANSWERS and _is_of_user(sys._getframe(1).f_globals) and (args[0].is_meta or args[0].is_cuda):
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


_OF_DATA = (torch.tensor, torch.as_tensor, torch.asarray)
"""Functions whose result has the data of an argument."""

_SAME = (Tensor.cuda, Tensor.pin_memory)

_ANSWERS: dict[Any, Any] = {
    Tensor.is_cuda.__get__: True,
    Tensor.device.__get__: CUDA,
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
    return getattr(kind, "dtype", None)


def _is_of_user(names: dict[str, Any]) -> bool:
    return str(names.get("__name__")).partition(".")[0] not in ("torch", "costcore")


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
    # ``torch.Generator("cuda")`` makes one of the CPU, and is one to ``isinstance``.
    original: Any
    applies: Any

    def __call__(cls, device: Any = "cpu") -> Any:
        return cls.original("cpu" if cls.applies() and _is_gpu(device) else device)

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
