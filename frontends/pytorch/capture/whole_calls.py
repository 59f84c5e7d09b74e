"""Modules, functions and ``autograd.Function`` with a cost of their own: each call of them is recorded as one.

A calculator or :data:`..kernels.KERNELS` names them. In an estimate the inside is not recorded; with a shape rule it
does not run either, because a CUDA kernel cannot run on the meta device. The backward pass is one call, too: autograd
reaches it through :class:`_Whole` in an estimate, and by a hook on the outputs in a real run.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from costcore.registry import BACKWARD, GRADIENT, Costs, backward_calculator, calculators, costs_of_plugins
from costcore.trace.run import Recorder
from costcore.translate import Row

from ..kernels import Kernel, loaded_kernels
from ..meta.replacements import new_outputs
from ..naming import arguments_of
from ..operators.call_cache import CachedCall
from ..sparse_kernels import Made
from ..tensors import attributes_of, nested_tensors, with_tensors
from .autocast import replace
from .dispatch_mode import THREAD, CaptureMode

BACKWARD_ASSUMED = "the backward pass of {} was assumed to cost twice its forward pass"

_NO_ATTRIBUTES = frozenset((*vars(Module()), "training"))

_SCALARS = (bool, int, float, str)


class Whole(NamedTuple):
    """A module, a function or an ``autograd.Function`` that is recorded as one call.

    Attributes:
        native: its name, ``mamba_ssm.modules.mamba_simple::Mamba``.
        costs: its shape rule and backward formula.
        kernel: the entry of a known kernel of another package; None for others.
        is_node: whether it is an ``autograd.Function``.
    """

    native: str
    costs: Costs
    kernel: Kernel | None = None
    is_node: bool = False


_operators: dict[tuple[str, bool], Any] = {}
"""A function for every name, kept alive because plans are found by the id of their function."""


class WholeCalls:
    """The modules and functions that a capture records as one call.

    Args:
        recorder: the recorder with the calculators of the run.
    """

    def __init__(self, recorder: Recorder) -> None:
        named = {**costs_of_plugins(), **recorder.costs_of}
        self._wholes = {name: Whole(name, Costs(kernel.shapes), kernel) for name, kernel in loaded_kernels().items()}
        self._wholes |= {name: Whole(name, costs) for name, costs in named.items() if not arguments_of(name)}
        self._by_kind: dict[type, Whole | None] = {}
        self._operands: dict[str, dict[str, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._wholes)

    def of(self, kind: type) -> Whole | None:
        """Return how a class of modules is recorded as one call; None if its inside is recorded."""
        if kind not in self._by_kind:
            bases = (base for base in kind.__mro__ if not base.__module__.startswith("torch."))
            self._by_kind[kind] = next((found for base in bases if (found := self._named(base)) is not None), None)
        return self._by_kind[kind]

    def _named(self, target: Any) -> Whole | None:
        module, name = str(target.__module__), target.__qualname__
        found = self._wholes.get(f"{module}::{name}")
        if found is not None:
            return found
        # ``mamba_ssm::Mamba`` also names a class that is defined in a submodule of the package.
        near = (key for key in self._wholes if key.rpartition("::")[2] == name)
        return next((self._wholes[key] for key in near if module.startswith(f"{key.rpartition('::')[0]}.")), None)

    def functions(self) -> Iterator[tuple[Any, Whole]]:
        """Yield the functions and subclasses of ``autograd.Function`` to record as one call, and how."""
        for name, whole in self._wholes.items():
            module, _, path = name.rpartition("::")
            target: Any = sys.modules.get(module)
            for part in path.split("."):
                target = getattr(target, part, None)
            is_function = isinstance(target, FunctionType)
            is_node = isinstance(target, type) and issubclass(target, torch.autograd.Function)
            if is_function or is_node:
                yield target, whole._replace(is_node=is_node)

    def run(
        self,
        mode: CaptureMode,
        whole: Whole,
        module: Module | None,
        signature: inspect.Signature,
        args: Any,
        kwargs: Any,
        original: Callable[[], Any],
    ) -> Any:
        """Return the result of a call, recorded as one.

        Args:
            mode: the capture.
            whole: how it is recorded.
            module: the module that is called; None for a function.
            signature: the signature of the function, or of ``forward``.
            args: the positional arguments.
            kwargs: the keyword arguments.
            original: runs the module or function.
        """
        named = _arguments_by_name(module, signature, args, kwargs)
        if whole.kernel is not None and whole.kernel.facts is not None:
            with mode.paused:
                named |= whole.kernel.facts(mode.values.of, named)
        made = _made(mode, whole, module, args, kwargs)
        if made is not None:
            named |= made.facts
        operator = self._operator(mode, whole, named)
        if whole.costs.inside:
            result, tensors = original(), _tensors(named)
            mode.observe(CachedCall(mode.cache.plans.of(operator)), tensors, (), named, _new_tensors(result, tensors))
            return result
        if not mode.is_estimate:
            tensors = _tensors(named)
            result = mode.recording.timed(tensors, named, mode.run_inside, original)
            mode.observe(CachedCall(mode.cache.plans.of(operator)), tensors, (), named, _written(made, result, tensors))
            if torch.is_grad_enabled():
                self._hook_backward(mode, whole, module, named, result)
            return result
        with mode.paused:
            if made is None:
                result = original() if whole.costs.shapes is None else _shaped(mode, whole, module, args, kwargs)
                first = next(iter(nested_tensors([args, kwargs, *named.values()])), None)
                outputs = new_outputs(result, None if first is None else first.dtype)
            else:
                outputs = made.outputs
        tensors = _tensors(named)
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            flat = [x for x in _new_tensors(outputs, tensors) if x.is_floating_point()]
            with_gradients = dict(
                zip(map(id, flat), _Whole.apply(self, mode, whole, named, flat, *tensors), strict=True)
            )
            outputs = with_tensors(outputs, lambda x: with_gradients.get(id(x), x))
        written = _written(made, outputs, tensors)
        mode.observe(CachedCall(mode.cache.plans.of(operator)), tensors, (), named, written)
        return outputs

    def _operator(self, mode: CaptureMode, whole: Whole, named: Mapping[str, Any], is_backward: bool = False) -> Any:
        # The row of the operator names the arguments of all calls so far.
        name = whole.native + "_backward" * is_backward
        operator = _operators.get((whole.native, is_backward))
        if operator is None:

            def operator() -> None: ...

            operator.__module__, _, operator.__name__ = name.rpartition("::")
            _operators[whole.native, is_backward] = operator
        known = self._operands.setdefault(name, {})
        if not named.keys() <= known.keys():
            known |= named
            mode.cache.plans.add_row(_row(name, whole.kernel, known, is_backward))
        plan = mode.cache.plans.of(operator)
        plan.arguments = tuple(dict.fromkeys(known).items())
        plan.type = operator.__name__.rpartition("<locals>.")[2]
        return operator

    def backward(
        self, mode: CaptureMode, whole: Whole, named: Mapping[str, Any], gradients: Sequence[Any], wanted: Sequence[Any]
    ) -> None:
        """Record the backward pass as one call.

        Args:
            mode: the capture.
            whole: how it is recorded.
            named: the arguments of the forward pass.
            gradients: the gradients of the outputs.
            wanted: the gradients that the call computes.
        """
        if whole.costs.backward is None:
            mode.assume(BACKWARD_ASSUMED.format(whole.native.rpartition("::")[2]))
        if whole.kernel is not None:
            made = backward_calculator(whole.kernel.op, calculators()[whole.kernel.op], None)
            for log in mode.recording.logs:
                log.recorder.calculators.setdefault(whole.native + BACKWARD, made)
        given = {**{f"{GRADIENT}{i}": x for i, x in enumerate(gradients) if x is not None}, **named}
        operator = self._operator(mode, whole, given, is_backward=True)
        plan = mode.cache.plans.of(operator)
        mode.observe(CachedCall(plan), _tensors(given), (), given, tuple(x for x in wanted if x is not None))

    def _hook_backward(
        self, mode: CaptureMode, whole: Whole, module: Module | None, named: Mapping[str, Any], result: Any
    ) -> None:
        # In a real run, the inner backward operators of a module are skipped by its path, and those of a node between
        # two hooks. The backward operators of a plain function are recorded one by one.
        outputs = [x for x in _new_tensors(result, _tensors(named)) if x.grad_fn is not None]
        if not outputs:
            return

        def record(gradients: Sequence[Any]) -> None:
            with mode.paused:
                wanted = [torch.empty_like(x) for x in _tensors(named) if x.requires_grad]
            self.backward(mode, whole, named, gradients, wanted)

        if module is not None:
            mode.recording.add_whole(mode.recording.modules.path)
            waiting = [record]

            def record_once(gradient: Tensor) -> None:
                if waiting and THREAD.mode is mode:
                    waiting.pop()([gradient])

            for output in outputs:
                output.register_hook(record_once)
        elif whole.is_node:
            node: Any = outputs[0].grad_fn

            def begin(gradients: Sequence[Any]) -> None:
                if THREAD.mode is mode:
                    record(gradients)
                    mode.recording.inside_call.__enter__()

            def end(*_: Any) -> None:
                if THREAD.mode is mode:
                    mode.recording.inside_call.__exit__()

            node.register_prehook(begin)
            node.register_hook(end)


class _Whole(torch.autograd.Function):
    # Makes the outputs of a call in an estimate, and the gradients of its operands, without running the inside.
    @staticmethod
    def forward(
        ctx: Any, calls: WholeCalls, mode: CaptureMode, whole: Whole, named: Any, outputs: Any, *tensors: Tensor
    ) -> Any:
        ctx.calls, ctx.mode, ctx.whole, ctx.named = calls, mode, whole, named
        ctx.save_for_backward(*tensors)
        with mode.paused:
            return tuple(torch.empty_like(x) for x in outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        with ctx.mode.paused:
            needed = ctx.needs_input_grad[5:]
            found = [torch.empty_like(x) if n else None for x, n in zip(ctx.saved_tensors, needed, strict=True)]
        ctx.calls.backward(ctx.mode, ctx.whole, ctx.named, gradients, found)
        return (None, None, None, None, None, *found)


def patch_functions(stack: ExitStack, calls: WholeCalls) -> None:
    """Record calls of functions and of ``autograd.Function`` as one, until ``stack`` is closed.

    Args:
        stack: undoes the patches.
        calls: the functions to record as one call.
    """
    for target, whole in calls.functions():
        if isinstance(target, type):
            node: Any = target
            replace(stack, target, "apply", staticmethod(_recorded(calls, whole, node.apply, node.forward)))
            continue
        if target.__closure__ is None:
            _patch_code(stack, calls, whole, target)
            continue
        recorded = _recorded(calls, whole, target, target)
        for module in [*sys.modules.values()]:  # also where it was imported by name
            names = vars(module) if hasattr(module, "__dict__") else {}
            for name in [name for name, value in names.items() if value is target]:
                replace(stack, module, name, recorded)


def _pass_on(*args: Any, _costcore: Any, **kwargs: Any) -> Any:
    return _costcore(*args, **kwargs)


def _patch_code(stack: ExitStack, calls: WholeCalls, whole: Whole, target: FunctionType) -> None:
    # The code of the function is replaced, so that calls by any imported name are recorded.
    code, defaults = target.__code__, target.__kwdefaults__
    original = FunctionType(code, target.__globals__, target.__name__, target.__defaults__)
    original.__kwdefaults__ = defaults

    def restore() -> None:
        target.__code__, target.__kwdefaults__ = code, defaults

    stack.callback(restore)
    target.__kwdefaults__ = {"_costcore": _recorded(calls, whole, original, original)}
    target.__code__ = _pass_on.__code__


def _recorded(calls: WholeCalls, whole: Whole, original: Any, described: Any) -> Any:
    signature = inspect.signature(described)
    names = [*signature.parameters]
    if described is not original and names[:1] == ["ctx"]:
        signature = signature.replace(parameters=[signature.parameters[name] for name in names[1:]])

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        mode = THREAD.mode
        if mode is None or mode.recording.inside_call.is_set or mode.paused.is_set:
            return original(*args, **kwargs)
        return calls.run(mode, whole, None, signature, args, kwargs, lambda: original(*args, **kwargs))

    return call


def _row(name: str, kernel: Kernel | None, known: Mapping[str, Any], is_backward: bool) -> Row:
    if kernel is None:
        settings = {key: key for key, value in known.items() if isinstance(value, _SCALARS)}
        return Row(name, name, {key: key for key in known if key not in settings}, settings)
    row = kernel.row(name)
    gradients = {key: key for key in known if key.startswith(GRADIENT)}
    return Row(name, name, {**gradients, **row.inputs}, row.attrs) if is_backward else row


def _shaped(mode: CaptureMode, whole: Whole, module: Module | None, args: Any, kwargs: Any) -> Any:
    rule: Any = whole.costs.shapes
    if whole.kernel is not None:  # shapes may depend on known integers, such as the indices of graph segments
        args = [_known(mode, value) for value in args]
        kwargs = {name: _known(mode, value) for name, value in kwargs.items()}
    return rule(*(() if module is None else (module,)), *args, **kwargs)


def _made(mode: CaptureMode, whole: Whole, module: Module | None, args: Any, kwargs: Any) -> Made | None:
    # For a call whose arguments or results are objects: the tensors in them, also in a real run.
    if whole.kernel is None or whole.kernel.objects is None:
        return None
    with mode.paused:
        made = whole.kernel.objects(mode.values, *(() if module is None else (module,)), *args, **kwargs)
    if made.assumption:
        mode.assume(made.assumption)
    return made


def _known(mode: CaptureMode, value: Any) -> Any:
    known = mode.values.of(value) if isinstance(value, Tensor) and not value.is_floating_point() else None
    return value if known is None else known


def _arguments_by_name(module: Module | None, signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    # The arguments of a call by name, with the settings and tensors of the module that is called.
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    named = _flat(given.arguments, signature)
    if module is not None:
        given_here = {name: value for name, value in named.items() if value is not None}
        named |= {name: value for name, value in vars(module).items() if _is_setting(name, value)} | given_here
        named |= dict((*module.named_parameters(), *module.named_buffers()))
    return named


def _flat(arguments: Mapping[str, Any], signature: inspect.Signature) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name, value in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            named |= {f"{name}{i}": item for i, item in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        else:
            named[name] = value
    flat: dict[str, Any] = {}
    for name, value in named.items():
        if isinstance(value, (Tensor, *_SCALARS)):
            flat[name] = value
        elif inside := nested_tensors(value):
            flat |= {f"{name}{i}": tensor for i, tensor in enumerate(inside)}
        else:
            flat[name] = value
            flat |= {f"{name}_{key.strip('_')}": x for key, x in _attributes(value).items() if isinstance(x, Tensor)}
    return flat


def _attributes(value: Any) -> Mapping[str, Any]:
    return {} if isinstance(value, (Module, type, FunctionType)) else attributes_of(value)


def _is_setting(name: str, value: Any) -> bool:
    return isinstance(value, _SCALARS) and not name.startswith("_") and name not in _NO_ATTRIBUTES


def _tensors(named: Mapping[str, Any]) -> list[Tensor]:
    return [*{id(value): value for value in named.values() if isinstance(value, Tensor)}.values()]


def _written(made: Made | None, result: Any, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    return _new_tensors(result, operands) if made is None or made.parts is None else made.parts(result)


def _new_tensors(result: Any, operands: Sequence[Tensor]) -> list[Tensor]:
    # An operand counts as new if the call returns it, but not if only an object in the result holds it.
    given = {id(x) for x in operands} - {id(x) for x in nested_tensors(result)}
    found: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> Tensor:
        if id(tensor) not in given:
            found[id(tensor)] = tensor
        return tensor

    with_tensors(result, note)
    return [*found.values()]
