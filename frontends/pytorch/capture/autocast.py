"""Autocast, compiled models and kernels: how a capture changes what PyTorch runs.

PyTorch's autocast ignores meta tensors, so a pass under ``torch.autocast`` would silently be counted in the dtypes of
the model. Here meta operands are cast as on the device for which autocast is enabled. Compiled models run eagerly
during a capture.

Source of the rules: ``aten/src/ATen/autocast_mode.h`` and ``autocast_mode.cpp`` of PyTorch 2.13.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from inspect import isfunction
from textwrap import dedent
from tokenize import TokenError
from types import CellType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor
from torch._decomp import global_decomposition_table
from torch._ops import OpOverload
from torch.library import Library
from torch.utils import _python_dispatch
from torch.utils.weak import WeakIdRef

from ..meta.values import tensors_of
from ..operators.plan import COMPOSITES, FAST_PATHS, ON_ONE_DEVICE

_LOWER = """
_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
addbmm addmm _addmm_activation addmv addr baddbmm bmm chain_matmul einsum linear linalg_multi_dot linalg_vecdot matmul
mm mv prelu scaled_dot_product_attention gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell mkldnn_rnn_layer
"""

LOWER = frozenset(_LOWER.split())
"""Operators that run in the lower precision, on devices with a rule for them."""

_PROMOTED = """
addcdiv addcmul atan2 bilinear cat cross dot grid_sampler index_copy index_put scatter_add stack tensordot
"""

PROMOTED = frozenset(_PROMOTED.split())
"""Operators that run in the widest dtype of their operands."""

_CELLS = "lstm gru rnn_relu rnn_tanh lstm_cell gru_cell rnn_relu_cell rnn_tanh_cell"

CASTS_INSIDE = frozenset(f"aten::{name}" for name in ("einsum", "bilinear", *_CELLS.split()))
"""Composite operators without a rule on some devices; the rule of their inner products determines the result dtype."""

KEYS = {"cuda": "AutocastCUDA", "xpu": "AutocastXPU", "mps": "AutocastMPS", "cpu": "AutocastCPU"}
"""The dispatch keys of autocast, by device; if several devices are enabled, the first counts."""

MADE_IN_ESTIMATES: WeakSet[Any] = WeakSet()
"""The autocast objects that were made during an estimate, where a missing device does not disable them."""

_DISPATCH_KEYS = tuple(
    (name, getattr(torch._C.DispatchKey, name)) for name in KEYS.values() if hasattr(torch._C.DispatchKey, name)
)

_DEVICES = tuple(name for name in KEYS if torch.amp.is_autocast_available(name))
"""The devices whose autocast this version of PyTorch knows."""

is_any_enabled: Callable[[], bool] = torch._C._is_any_autocast_enabled

_is_enabled, _dtype_of = torch.is_autocast_enabled, torch.get_autocast_dtype
"""PyTorch's own functions; a capture replaces them in ``torch``."""


def casts_first(operator: OpOverload, keyset: Any) -> bool:
    """Return whether autocast is about to cast the operands of an operator, and to call it again."""
    return any(
        keyset.has(key) and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), name)
        for name, key in _DISPATCH_KEYS
    )


def has_rule(operator: OpOverload, tensors: Iterable[Tensor]) -> bool:
    """Return whether autocast casts these operands: the operator has a rule, and a tensor is meta."""
    device = enabled_device()
    if device is None or not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), KEYS[device]):
        return False
    return any(tensor.is_meta for tensor in tensors)


def lower_dtype() -> torch.dtype:
    """Return the lower precision of the device that autocast is enabled for; float32 if it has no rules."""
    device = enabled_device()
    return torch.float32 if device is None else _dtype_of(device)


def enabled_device() -> str | None:
    """Return the device for which autocast is enabled; None if there is none."""
    return next((name for name in _DEVICES if _is_enabled(name)), None)


def _is_operand(tensor: Tensor) -> bool:
    # A 0-d CPU tensor is a number, which autocast does not cast.
    return bool(tensor.is_meta or tensor.dim() > 0)


def is_castable(tensor: Tensor) -> bool:
    """Return whether autocast changes the dtype of a tensor."""
    return tensor.is_floating_point() and tensor.dtype is not torch.float64


class Casts:
    """Casts meta operands. As in PyTorch, a cache holds one copy of each weight, in the first dtype used.

    Args:
        is_estimate: whether this is an estimate rather than a run.
    """

    def __init__(self, is_estimate: bool) -> None:
        self.is_estimate = is_estimate
        self._copies: dict[WeakIdRef, Tensor] = {}

    def clear(self) -> None:
        """Free the cached copies of weights."""
        self._copies.clear()

    def run(self, operator: OpOverload, args: Any, kwargs: Any) -> Any:
        """Run an operator that has a rule, on operands cast to its dtype and without autocast inside it."""
        dtypes = {x.dtype for x in tensors_of(args, kwargs) if _is_operand(x) and is_castable(x)}
        wanted = _wanted(operator._schema.name.removeprefix("aten::"), dtypes)
        if wanted is not None and dtypes - {wanted}:
            args, kwargs = self(args, wanted), self(kwargs, wanted)
        with torch._C._ExcludeDispatchKeyGuard(_keys_of(enabled_device() or "cpu")):
            return operator(*args, **kwargs)

    def __call__(self, value: Any, dtype: torch.dtype) -> Any:
        """Return arguments with every operand cast to ``dtype``, the last one first as in PyTorch."""
        if isinstance(value, Tensor):
            is_cast = _is_operand(value) and is_castable(value) and value.dtype is not dtype
            return self._cast(value, dtype) if is_cast else value
        if isinstance(value, dict):
            return {name: self(item, dtype) for name, item in value.items()}
        if type(value) not in (list, tuple):
            return value
        return type(value)([self(item, dtype) for item in reversed(value)][::-1])

    def _cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        is_weight = tensor.dtype is torch.float32 and tensor.requires_grad and tensor.is_leaf and not tensor._is_view()
        if not is_weight or dtype is not lower_dtype() or not torch.is_autocast_cache_enabled():
            return tensor.to(dtype)
        keeps_gradients = _keeps_gradients()
        if keeps_gradients and torch.is_inference_mode_enabled():
            return tensor.to(dtype)
        key = WeakIdRef(tensor)
        copy = self._copies.get(key)
        if copy is None:
            with torch.set_grad_enabled(keeps_gradients or torch.is_grad_enabled()):
                copy = self._copies[key] = tensor.to(dtype)
        return copy


def _wanted(packet: str, dtypes: Collection[torch.dtype]) -> torch.dtype | None:
    # Returns None to keep the dtypes of the operands.
    if packet in PROMOTED:
        return torch.float32 if torch.float32 in dtypes else None
    return lower_dtype() if packet in LOWER else torch.float32


@cache
def _keys_of(device: str) -> Any:
    return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEYS[device]))


@cache
def _keeps_gradients() -> bool:
    # Since PyTorch 2.11 a cached copy requires grad even if it was made under no_grad; inference mode caches none.
    with torch.inference_mode(False), torch._C._ExcludeDispatchKeyGuard(CAPTURED):
        weight = torch.ones(1, 1, device="cpu", requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=True):
            with torch.no_grad():
                torch.mm(weight, weight)
            with torch.enable_grad():
                return bool(torch.mm(weight, weight).requires_grad)


def patch_autocast(stack: ExitStack, active_casts: Callable[[], Casts | None]) -> None:
    """Make ``torch.autocast`` work on the meta device, in a thread that captures.

    Entering it registers the casting kernels. ``torch.autocast("meta")``, which PyTorch rejects and models call with
    the device of their input, becomes autocast of the enabled device, or else of the CPU. So does "meta" as an argument
    of ``torch.is_autocast_enabled``, ``torch.get_autocast_dtype`` and ``torch.amp.is_autocast_available``. When PyTorch
    clears its cache of weights, at the end of the outermost block, the cache of meta weights is cleared too. The inputs
    of functions with ``torch.amp.custom_fwd(cast_inputs=…)`` are also cast.

    Args:
        stack: undoes the patches.
        active_casts: returns the casts of the running thread; None if it does not capture.
    """
    for owner, name, function in _casting_functions(active_casts):
        replace(stack, owner, name, function)


@cache
def _casting_functions(
    active_casts: Callable[[], Casts | None],
) -> Sequence[tuple[Any, str, Callable[..., Any]]]:
    autocast: Any = torch.amp.autocast_mode.autocast
    enter, init, clear = autocast.__enter__, autocast.__init__, torch.clear_autocast_cache
    cast_inputs: Callable[..., Any] = torch.amp.autocast_mode._cast

    @wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: N807 - replaces it
        if active_casts() is not None:
            register_kernels(active_casts)
        return enter(self)

    @wraps(init)
    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - replaces it
        casts = active_casts()
        if casts is not None and casts.is_estimate:
            MADE_IN_ESTIMATES.add(self)
        init(self, on_device(device_type), *args, **kwargs)

    def on_device(device_type: Any) -> Any:
        # ``str.__eq__``, because the type of a meta tensor's device may compare equal to "cpu".
        is_meta = isinstance(device_type, str) and str.__eq__(device_type, "meta")
        return enabled_device() or CPU if is_meta and active_casts() is not None else device_type

    def with_device(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = {name: on_device(value) for name, value in kwargs.items()}
            return function(*map(on_device, args), **given)

        return call

    @wraps(clear)
    def clear_autocast_cache() -> None:
        casts = active_casts()
        if casts is not None:
            casts.clear()
        clear()

    @wraps(cast_inputs)
    def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        if isinstance(value, Tensor) and value.is_meta and active_casts() is not None:
            return value.to(dtype) if is_castable(value) else value
        return cast_inputs(value, device_type, dtype)

    return (
        (torch.amp.autocast_mode, "_cast", _cast),
        (autocast, "__enter__", __enter__),
        (autocast, "__init__", __init__),
        (torch, "clear_autocast_cache", clear_autocast_cache),
        (torch, "is_autocast_enabled", with_device(_is_enabled)),
        (torch, "get_autocast_dtype", with_device(_dtype_of)),
        (torch.amp, "is_autocast_available", with_device(torch.amp.is_autocast_available)),
    )


@cache
def register_kernels(active_casts: Callable[[], Casts | None]) -> None:
    """Register the casting kernels for the rest of the process.

    Threads that do not capture never reach them.

    Args:
        active_casts: returns the casts of the running thread.
    """
    with kernels_of_aten() as library:
        for name in sorted({name for key in KEYS.values() for name in _operators_at(key)}):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            short = name.removeprefix("aten::")
            has_kernel = short in COMPOSITES or short in ON_ONE_DEVICE or packet in FAST_PATHS
            if operator is not None and not has_kernel:
                library.impl(short, _kernel(operator, active_casts), "PreDispatch", with_keyset=True)


def _operators_at(key: str) -> list[str]:
    if not hasattr(torch._C.DispatchKey, key):
        return []
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return [name for name in names if name.startswith("aten::")]


def _kernel(operator: OpOverload, active_casts: Callable[[], Casts | None]) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        casts = active_casts()
        if casts is not None and is_any_enabled() and has_rule(operator, tensors_of(args, kwargs)):
            return casts.run(operator, args, kwargs)
        return operator.redispatch(keyset & AFTER, *args, **kwargs)

    return kernel


# Autocast of a device that this machine lacks
#
# Without CUDA, PyTorch disables ``torch.autocast("cuda")`` when the object is made, and warns. An estimate counts the
# run on the device for which the model is written, so it enables autocast of any device.


CPU = "cpu"

DECORATED = "decorate_autocast"
"""Name of the function that PyTorch puts around a function decorated with autocast."""

MADE_BEFORE = (
    'torch.autocast("cuda") was made outside of the forward pass, where PyTorch disables it on a machine without CUDA: '
    "assumed enabled"
)

Assume = Callable[[str], None]
"""Records an assumption."""


def patch_device_autocast(stack: ExitStack, estimating: Callable[[], Assume | None]) -> None:
    """Make estimates enable ``torch.autocast`` of any device.

    Disabling autocast of an accelerator also disables autocast of the CPU: the model runs on one of them.

    Args:
        stack: undoes the patches.
        estimating: returns a function that records an assumption; None if the running thread does not estimate.
    """
    for owner, name, function in _any_device_functions(estimating):
        if vars(owner).get(name) is not function:
            replace(stack, owner, name, function)


@cache
def _any_device_functions(
    estimating: Callable[[], Assume | None],
) -> Sequence[tuple[Any, str, Callable[..., Any]]]:
    autocast: Any = torch.amp.autocast_mode.autocast
    common: Any = torch.cuda.amp.common
    enter, leave = autocast.__enter__, autocast.__exit__
    is_unavailable, has_bfloat16 = common.amp_definitely_not_available, torch.cuda.is_bf16_supported
    disabled_on_cpu: WeakKeyDictionary[Any, list[bool]] = WeakKeyDictionary()

    @wraps(is_unavailable)
    def amp_definitely_not_available() -> bool:
        return estimating() is None and is_unavailable()

    @wraps(has_bfloat16)
    def is_bf16_supported(*args: Any, **kwargs: Any) -> bool:
        return estimating() is not None or has_bfloat16(*args, **kwargs)

    @wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: N807 - replaces it
        entered = enter(self)
        assume = estimating()
        may_be_lost = self.device == "cuda" and not self._enabled and self not in MADE_IN_ESTIMATES and is_unavailable()
        if assume is not None and may_be_lost and _was_enabled(assume):
            torch.set_autocast_enabled("cuda", True)
        was_enabled = torch.is_autocast_enabled(CPU)
        if assume is not None and self.device != CPU:
            disabled_on_cpu.setdefault(self, []).append(was_enabled)
            if not torch.is_autocast_enabled(self.device):
                torch.set_autocast_enabled(CPU, False)
        return entered

    @wraps(leave)
    def __exit__(self: Any, *args: Any) -> Any:  # noqa: N807 - replaces it
        result = leave(self, *args)
        if disabled_on_cpu.get(self):
            torch.set_autocast_enabled(CPU, disabled_on_cpu[self].pop())
        return result

    return (
        (common, "amp_definitely_not_available", amp_definitely_not_available),
        (torch.cuda, "is_bf16_supported", is_bf16_supported),
        (autocast, "__enter__", __enter__),
        (autocast, "__exit__", __exit__),
    )


def _was_enabled(assume: Assume) -> bool:
    # PyTorch has disabled the object. The source of a decorator shows whether it was enabled; else assume that it was.
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != DECORATED:
        frame = frame.f_back if frame.f_code.co_name in ("_was_enabled", "__enter__") else None
    decorated = None if frame is None else frame.f_locals.get("func")
    stated = None if decorated is None else _enabled_in_source(decorated)
    if stated is None:
        assume(MADE_BEFORE)
    return stated is not False


def _enabled_in_source(function: Callable[..., Any]) -> bool | None:
    try:
        tree = ast.parse(dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TokenError, TypeError):
        return None
    definition = tree.body[0]
    for decorator in getattr(definition, "decorator_list", ()):
        name = getattr(decorator, "func", None)
        if isinstance(decorator, ast.Call) and ast.unparse(name or decorator).endswith("autocast"):
            given = [keyword.value for keyword in decorator.keywords if keyword.arg in ("enabled", None)]
            is_of_cuda = ast.unparse(decorator.func).endswith("cuda.amp.autocast")
            position = 0 if is_of_cuda else 2
            given += decorator.args[position : position + 1]
            if not given:
                return True
            return bool(given[0].value) if isinstance(given[0], ast.Constant) else None
    return None


# Compiled models, which run eagerly during a capture and can be compiled later


_COMPILER = "torch._dynamo"
"""The module of the compiler, which takes a second to import."""

_SYMBOLS = "torch.fx.experimental.symbolic_shapes"
"""The module of symbolic sizes, which imports sympy."""

_FLAGS = {
    "_is_in_torch_dispatch_mode": "old_dispatch_mode_flags",
    "_is_in_non_infra_torch_dispatch_mode": "old_non_infra_dispatch_mode_flags",
    "_is_in_any_mode_without_ignore_compile_internals": "old_without_ignore_compile_internals_dispatch_mode_flags",
}
"""PyTorch's flags for an active dispatch mode, each with the attribute in which a mode stores the previous value."""

_ONLY_FLAG = "old_dispatch_mode_flag"
"""The attribute before PyTorch 2.5, where a mode cannot be entered while it is active."""

_modes: Callable[[], list[Any]] = _python_dispatch._get_current_dispatch_mode_stack
"""Returns the dispatch modes that are active in this thread."""

_is_eager = False
"""Whether compiled models run eagerly in this process."""

_IS_EXCLUDED = "__dynamo_disable"
"""The attribute in which PyTorch caches the wrapper of a function that the compiler must not trace."""

_called_directly: list[FunctionType] = []
"""Functions whose attribute a capture has set to the function itself, so that no wrapper is made."""


def run_eagerly(stack: ExitStack) -> None:
    """Run compiled models eagerly until ``stack`` is closed, if the compiler is imported.

    Raises:
        RuntimeError: inside a compiled function, where PyTorch forbids the change.
    """
    if _is_eager or _COMPILER not in sys.modules:
        return
    compiler: Any = sys.modules[f"{_COMPILER}.eval_frame"]
    stack.callback(_set_eager, False)
    if hasattr(torch.compiler, "set_stance"):
        before = compiler._stance
        stack.callback(compiler._set_stance, before)
        torch.compiler.set_stance("force_eager")
        _patch_export(stack, partial(compiler._set_stance, before), partial(torch.compiler.set_stance, "force_eager"))
    else:  # before PyTorch 2.6
        compiling, eager = compiler.set_eval_frame, partial(_set_no_frame, compiler.set_eval_frame)
        replace(stack, compiler, "set_eval_frame", eager)
        _patch_export(
            stack,
            partial(setattr, compiler, "set_eval_frame", compiling),
            partial(setattr, compiler, "set_eval_frame", eager),
        )
    _set_eager(True)


def _set_no_frame(set_eval_frame: Callable[[object], object], callback: object) -> object:
    return set_eval_frame(None)


def _patch_export(stack: ExitStack, compile_again: Callable[[], object], run_eagerly: Callable[[], object]) -> None:
    # Until PyTorch 2.9, export traces through the compiler.
    package: Any = sys.modules[_COMPILER]

    def compiling(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def compile(*args: Any, **kwargs: Any) -> Any:
            compile_again()
            try:
                result = function(*args, **kwargs)
            finally:
                run_eagerly()
            return compiling(result) if isfunction(result) else result

        return compile

    replace(stack, package, "export", compiling(package.export))


def restore_mode_flags(stack: ExitStack) -> None:
    """Restore the flags for an active dispatch mode when ``stack`` is closed.

    PyTorch has one flag for all threads; every mode restores the value from before it. If the modes of two threads
    overlap, the flag stays true, and until PyTorch 2.12 nothing is compiled any more. The same happens if a capture
    ends before a mode inside it, as in a generator.
    """
    before = {name: getattr(_python_dispatch, name) for name in _FLAGS if hasattr(_python_dispatch, name)}
    in_compiler = getattr(_python_dispatch, "set_is_in_mode_without_ignore_compile_internals", None)
    n_modes = len(_modes())

    def restore() -> None:
        modes = _modes()
        if len(modes) > n_modes:  # a later mode is active: when it ends, it restores the flags that it has stored
            for name, value in before.items():
                if flags := getattr(modes[n_modes], _FLAGS[name], None):
                    flags[-1] = value
                elif hasattr(modes[n_modes], _ONLY_FLAG):
                    setattr(modes[n_modes], _ONLY_FLAG, value)
            return
        for name, value in before.items():
            setattr(_python_dispatch, name, value)
        if in_compiler is not None:
            in_compiler(_python_dispatch._is_in_any_mode_without_ignore_compile_internals)

    stack.callback(restore)


def _set_eager(is_eager: bool) -> None:
    global _is_eager
    _is_eager = is_eager


def patch_import(stack: ExitStack, is_capturing: Callable[[], bool]) -> None:
    """Hide the operators that PyTorch 2.6 runs while the compiler is imported.

    Many functions import it at their first call: optimizers, checkpoints, control flow.

    Args:
        stack: undoes the patch.
        is_capturing: returns whether the running thread captures.
    """
    if _COMPILER not in sys.modules:
        finder = _Finder(is_capturing)
        stack.callback(finder.remove)
        sys.meta_path.insert(0, finder)


def skip_compiler(stack: ExitStack) -> None:
    """Let kernels for meta tensors run without the compiler and sympy, until ``stack`` is closed.

    Many of them are Python functions. At their first call they import the compiler, only to exclude themselves from
    tracing, and sympy, even to check plain booleans. Once something else imports the compiler, they are called through
    it.
    """
    if _SYMBOLS not in sys.modules:
        replace(stack, torch, "_check_with", _checking(torch._check_with))
    if not _called_directly and _COMPILER not in sys.modules:
        _called_directly.extend(_excluded_functions())
        for function in _called_directly:
            setattr(function, _IS_EXCLUDED, function)
        stack.callback(_call_through_compiler)


def _checking(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def check(error: type[Exception], condition: Any, message: Any) -> None:
        if condition is not True:
            original(error, condition, message)

    return check


def _call_through_compiler() -> None:
    while _called_directly:
        vars(_called_directly.pop()).pop(_IS_EXCLUDED, None)


@cache
def _excluded_functions() -> Sequence[FunctionType]:
    # The functions behind ``torch._disable_dynamo`` that decompositions wrap or call through closures.
    wrapper = torch._disable_dynamo(lambda: None).__code__
    at = wrapper.co_freevars.index("fn")
    found: dict[FunctionType, None] = {}
    seen: set[FunctionType] = set()
    waiting: list[Any] = [each for table in global_decomposition_table.values() for each in table.values()]
    while waiting:
        function = waiting.pop()
        if not isfunction(function) or function in seen:
            continue
        seen.add(function)
        cells = function.__closure__ or ()
        if function.__code__ is wrapper:
            found[cells[at].cell_contents] = None
        waiting += [vars(function).get("__wrapped__"), *_contents(cells)]
    return tuple(found)


def _contents(cells: Iterable[CellType]) -> Iterator[Any]:
    for cell in cells:
        with suppress(ValueError):  # empty
            yield cell.cell_contents


class _Finder(MetaPathFinder):
    # Finds the compiler as Python does; its loader runs outside of the capture.
    def __init__(self, is_capturing: Callable[[], bool]) -> None:
        self._is_capturing = is_capturing

    def remove(self) -> None:
        """Remove the finder from ``sys.meta_path``."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the compiler; None for any other module."""
        if fullname != _COMPILER:
            return None
        _call_through_compiler()
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or not self._is_capturing():
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with torch._C._ExcludeDispatchKeyGuard(CAPTURED):
                execute(module)

        loader.exec_module = exec_module
        return spec


def patch_compile(stack: ExitStack, is_capturing: Callable[[], bool], run_eagerly: Callable[[], None]) -> None:
    """Watch ``torch.compile``, which imports the compiler.

    Args:
        stack: undoes the patch.
        is_capturing: returns whether the running thread captures.
        run_eagerly: makes compiled models run eagerly until the last capture ends.
    """
    original = torch.compile

    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)
        if not is_capturing():
            return compiled
        run_eagerly()
        if args and isfunction(args[0]) and sys._getframe(1).f_code is args[0].__code__:
            return _as_if_compiled(args[0])
        return compiled

    replace(stack, torch, "compile", compile)


def _as_if_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    # Before PyTorch 2.7, ``associative_scan`` compiles itself unless it is being compiled.
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            replace(stack, torch.compiler, "_is_compiling_flag", True)
            return function(*args, **kwargs)

    return run


# Kernels of operators, registered for the rest of the process


_libraries: list[Library] = []
"""Kept alive: PyTorch unregisters the kernels of a library that is deleted."""


@contextmanager
def kernels_of_aten() -> Iterator[Library]:
    """Return a library for kernels of ``aten``: all stay registered, or none if the code inside fails."""
    library = Library("aten", "IMPL")
    try:
        yield library
    except BaseException:
        library._destroy()
        raise
    _libraries.append(library)


def fallback_of_all(kernel: Callable[..., Any], key: str) -> bool:
    """Register a kernel for all operators at a dispatch key; return False if this PyTorch cannot."""
    library = Library("_", "IMPL")
    if not hasattr(library, "fallback"):
        return False
    library.fallback(kernel, key, with_keyset=True)
    _libraries.append(library)
    return True


# Replaced attributes of PyTorch


def replace(stack: ExitStack, owner: Any, name: str, replacement: Any) -> None:
    """Replace an attribute of a module or class until ``stack`` is closed.

    The undo is registered first, so that a failure or an interrupt in between leaves nothing behind. If other code
    replaces the attribute meanwhile, its value stays.

    Args:
        stack: undoes the replacement.
        owner: the module or class.
        name: the name of the attribute, which may be inherited.
        replacement: its value until then.
    """
    is_own, original = name in vars(owner), vars(owner).get(name)

    def restore() -> None:
        if vars(owner).get(name) is not replacement:
            return
        if is_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)

    stack.callback(restore)
    setattr(owner, name, replacement)


# Dispatch keys


PRE_DISPATCH = torch._C.DispatchKey.PreDispatch
"""The first key of all; PyTorch itself uses it for tracing only. Composite operators are still whole there."""

AFTER = torch._C._dispatch_keyset_full_after(PRE_DISPATCH)
"""The keys after :data:`PRE_DISPATCH`, to which a kernel at that key redispatches."""

_MODES = (torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot)

CAPTURED = torch._C.DispatchKeySet(PRE_DISPATCH).add(_MODES[0]).add(_MODES[1])
"""The keys at which a capture sees operators; without them an operator runs uncaptured."""

AFTER_CAPTURE = AFTER - CAPTURED

_LAZY = (torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative, torch._C.DispatchKey.ZeroTensor)

_is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded

_set_excluded = torch._C._dispatch_tls_set_dispatch_key_excluded


class LazyValues:
    """A context in which operators resolve conjugated, negated and zero views.

    Such a view shares the memory of another tensor, and its readers must conjugate or negate. PyTorch does so at
    dispatch keys that it excludes while a dispatch mode handles an operator: the inner operators would read the raw
    memory. The context is entered inside the handler.
    """

    __slots__ = ("_excluded",)

    def __enter__(self) -> None:
        self._excluded = [key for key in _LAZY if _is_excluded(key)]
        for key in self._excluded:
            _set_excluded(key, False)

    def __exit__(self, *_: object) -> None:
        for key in self._excluded:
            _set_excluded(key, True)
