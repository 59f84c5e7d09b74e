"""A training step on the meta device: the loss, the backward pass and the step of an optimizer.

Sections: passes of a training loop for :class:`costcore.MFUMeter`, activation checkpointing, and bfloat16.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import SGD, Adam, AdamW, Optimizer

from costcore.errors import CostError, short_repr, unknown
from costcore.trace.trace import Value

from .capture.dispatch_mode import CaptureMode
from .meta.model_copy import supported_on_meta
from .tensors import matching, modules_of, nested_tensors, not_compiled, tensors_in_object

if TYPE_CHECKING:
    from costcore.studies.meter import Seen, Sizes

OptimizerFactory: TypeAlias = "Callable[[Iterable[Parameter]], Optimizer]"

OPTIMIZERS: Mapping[str, OptimizerFactory] = {
    "sgd": lambda parameters: SGD(parameters, lr=1e-3),
    "sgd_momentum": lambda parameters: SGD(parameters, lr=1e-3, momentum=0.9),
    "adam": lambda parameters: Adam(parameters),
    "adamw": lambda parameters: AdamW(parameters),
    "sgd_foreach": lambda parameters: SGD(parameters, lr=1e-3, foreach=True),
    "sgd_momentum_foreach": lambda parameters: SGD(parameters, lr=1e-3, momentum=0.9, foreach=True),
    "adam_foreach": lambda parameters: Adam(parameters, foreach=True),
    "adamw_foreach": lambda parameters: AdamW(parameters, foreach=True),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters),
    "lion": lambda parameters: _finetuning().Lion(parameters),
    "muon": lambda parameters: _finetuning().MuonWithAdamW(parameters),
    "adam_8bit": lambda parameters: _finetuning().Adam8bit(parameters, weight_decay=0.0),
    "adamw_8bit": lambda parameters: _finetuning().Adam8bit(parameters),
    "paged_adamw": lambda parameters: _finetuning().Paged(parameters, AdamW),
    "paged_adamw_8bit": lambda parameters: _finetuning().Paged(parameters, _finetuning().Adam8bit),
}
"""Optimizers by name, with PyTorch's defaults on the CPU; the ``foreach`` variants are its defaults on CUDA."""


def _finetuning() -> Any:
    from . import finetuning  # registers operators, which only these optimizers need

    return finetuning


ACCUMULATING = ("accumulated", "unsynchronized")
"""The last of several micro-batches: gradients of earlier micro-batches exist before it."""

STEPS = ("steady", "first", *ACCUMULATING)
"""The step that runs: a step with existing optimizer state, the step that creates the state, or the last of several
micro-batches. For earlier micro-batches, ``fully_shard`` reduces gradients (``accumulated``) or does not
(``unsynchronized``)."""


def check_training(optimizer: object, step: object, loss: object) -> None:
    """Check the options of a training step.

    Raises:
        TypeError, ValueError: if one is invalid; the message includes what is expected.
    """
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZERS:
            raise ValueError(unknown("optimizer", optimizer, OPTIMIZERS))
    elif optimizer is not None and not callable(optimizer):
        raise TypeError(
            "optimizer must be a name or a function that takes the parameters and returns a torch.optim.Optimizer "
            f"(got {short_repr(optimizer)})"
        )
    if step not in STEPS:
        raise ValueError(unknown("step", step, STEPS))
    if loss is not None and not callable(loss):
        raise TypeError(f"loss must be a function that takes the outputs and returns a scalar (got {short_repr(loss)})")


def check_is_training(backward: bool, optimizer: object, step: str, checkpoint: str | None) -> None:
    """Check that options of a training step come with a backward pass or an optimizer.

    Raises:
        ValueError: if an option has no effect; the message says what to pass as well.
    """
    if step == "first" and optimizer is None:
        raise ValueError('step="first" is the step that creates the optimizer state: pass optimizer= too')
    for name, value, default in (("step", step, "steady"), ("checkpoint", checkpoint, None)):
        if value != default and not backward:
            raise ValueError(
                f"{name}={value!r} changes the backward pass only: pass backward=True, loss= or optimizer= "
                "(on the command line --backward, --train or --optimizer)"
            )


def make_optimizer(optimizer: str | OptimizerFactory, model: Module, keeps_masters: bool = False) -> Optimizer:
    """Return an optimizer of the trainable parameters of a model.

    Args:
        optimizer: its name, or a function that makes it.
        model: the model.
        keeps_masters: whether it keeps float32 copies of the parameters.

    Raises:
        TypeError: if the function returns something else.
        CostError: if no parameter is trainable, or a step needs a closure that calls the model again.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise CostError(
            f"{type(model).__name__} has no trainable parameters. Set requires_grad, or leave out optimizer="
        )
    with supported_on_meta():
        make = OPTIMIZERS[optimizer] if isinstance(optimizer, str) else optimizer
        if keeps_masters:
            one_by_one = isinstance(optimizer, str) and not optimizer.endswith("_foreach")
            made: Any = MasterWeights(parameters, make, one_by_one)
        else:
            made = make(parameters)
    if not isinstance(made, Optimizer):
        raise TypeError(f"optimizer must return a torch.optim.Optimizer (got {short_repr(made)})")
    closure = signature(made.step).parameters.get("closure")
    if closure is not None and closure.default is Signature.empty:
        raise CostError(
            f"a step of {type(made).__name__} calls the model a number of times that depends on data. Record a step of "
            "your own with ComputationalCostHook(memory=True)."
        )
    return made


def differentiable(result: Any) -> list[Tensor]:
    """Return the tensors in the output of a model that have a backward pass, at any depth."""
    found = [x for x in nested_tensors(result) if x.requires_grad]
    return found or [x for x in tensors_in_object(result) if x.requires_grad]


def run_backward(mode: CaptureMode, result: Any, loss: Callable[[Any], Any] | None, name: str) -> object:
    """Run the backward pass of a loss, and return the tensors that a training step holds until its end.

    The default loss is the sum of all outputs. Its operators are not recorded, but their memory is.

    Args:
        mode: the capture.
        result: the result of the model.
        loss: computes the loss from the result; None for the default.
        name: name of the model, for messages.

    Raises:
        CostError: if nothing in the result or the loss has a backward pass.
    """
    if loss is not None:
        with torch.enable_grad():
            value = loss(result)
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            raise CostError(
                f"{name}: loss must return a scalar tensor that requires a gradient (got {short_repr(value)})"
            )
        torch.autograd.backward(value)
        return value
    outputs = differentiable(result)
    if not outputs:
        raise CostError(
            f"{name} has no backward pass: no floating-point output depends on a tensor that requires a gradient. Pass "
            f"loss=, a function that returns a scalar from the output ({type(result).__name__})"
        )
    if not mode.ledgers:
        with mode.paused:
            gradients = [torch.ones_like(x) for x in outputs]
        _run_backward(outputs, gradients)
        return None
    with mode.paused, torch.enable_grad():
        total = _Sum.apply(mode, *outputs)
        one = torch.ones_like(total)
    _run_backward([total], [one])
    return total


def _run_backward(outputs: Sequence[Any], gradients: Sequence[Any]) -> None:
    # ``torch.autograd.backward`` imports sympy to compare the shapes of outputs and gradients.
    run: Callable[..., Any] | None = getattr(torch.autograd, "_engine_run_backward", None)
    if run is None:
        torch.autograd.backward(outputs, gradients)
    else:
        run(tuple(outputs), tuple(gradients), False, False, (), allow_unreachable=True, accumulate_grad=True)


class _Sum(torch.autograd.Function):
    # In a run, the gradients of a sum are expanded views of one number, so no memory is counted for them.
    @staticmethod
    def forward(ctx: Any, mode: CaptureMode, *outputs: Tensor) -> Tensor:
        """Return the sum."""
        ctx.mode = mode
        ctx.outputs = [(x.shape, x.stride(), x.dtype, x.device) for x in outputs]
        sums: list[Any] = [x.sum() for x in outputs]
        total = sums[0]
        for other in sums[1:]:
            total = total + other
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return a gradient of ones for every output."""
        made = []
        with ctx.mode.paused:
            for shape, stride, dtype, device in ctx.outputs:
                gradient = torch.empty_strided(shape, stride, dtype=dtype, device=device).fill_(1)
                for ledger in ctx.mode.ledgers:
                    ledger.count_as(gradient, 0)
                made.append(gradient)
        return (None, *made)


LOST_ROWS = "the sum of several sparse gradients of a parameter is assumed to have no rows"


def note_lost_rows(mode: CaptureMode, model: Module) -> None:
    """Record an assumption per parameter with a sum of sparse gradients, whose rows the meta device loses."""
    with mode.paused:
        gradients = [parameter.grad for parameter in model.parameters()]
        lost = [x for x in gradients if x is not None and x.layout is torch.sparse_coo and not x._values().numel()]
    for _ in lost:
        mode.recording.assumptions.note(LOST_ROWS)


def run_optimizer(mode: CaptureMode, optimizer: Optimizer, step: str) -> None:
    """Run one step of an optimizer.

    Unless ``step`` is ``"first"``, an unrecorded step first creates the optimizer state.
    """
    with supported_on_meta():
        if step != "first":
            with mode.paused, mode.ledgers.paused():
                optimizer.step()
            for ledger in mode.ledgers:
                ledger.use_optimizer(optimizer)
        is_paged = getattr(optimizer, "is_paged", False)
        if is_paged:
            mode.assume("the state of the paged optimizer is in host memory; its transfers are not counted")
        with mode.ledgers.paused() if is_paged else nullcontext():
            optimizer.step()


def named_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model by name; positional arguments get a name."""
    return {**{f"inputs[{i}]" if len(args) > 1 else "inputs": value for i, value in enumerate(args)}, **kwargs}


# Training passes, for :class:`costcore.MFUMeter`


MAX_DEPTH = 8
"""The maximum nesting at which objects in the arguments of a pass are searched for tensors."""

_TYPES_ONLY = (type(None), float, complex)
"""Values of these types do not change what a pass computes."""


class ModulePasses:
    """The passes of a module with gradients; implements :class:`costcore.studies.meter.Passes`.

    Args:
        model: the module that the training loop calls; it may be compiled or a wrapper.
        is_compiled: whether compiled code (``torch.compile``) calls it.
    """

    def __init__(self, model: Module, is_compiled: bool) -> None:
        self._model = model
        self._is_compiled = is_compiled
        self._original: Module = not_compiled(model)

    @contextmanager
    def watched(self, seen: Seen) -> Iterator[None]:
        """Call ``seen`` before every pass with gradients, through a forward pre-hook of the module."""
        is_grad_enabled, is_compiling, model = torch.is_grad_enabled, torch.compiler.is_compiling, self._model

        def hook(_: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
            if is_grad_enabled() and not is_compiling():
                seen(_key_of_call(model.training, args, kwargs), args, kwargs)

        is_compiled = self._is_compiled or getattr(model, "_compiled_call_impl", None) is not None
        called = torch.compiler.disable(hook) if is_compiled else hook  # slower, but compiled code calls it
        handle = model.register_forward_pre_hook(called, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def key(self, value: Any) -> Hashable:
        """Return the shapes and dtypes of all tensors in a value, and its integers and strings."""
        return (self._model.training, _key(value))

    def sizes(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
        """Return how much data a pass processes.

        The main input decides: the argument named by ``main_input_name`` in models of Hugging Face, else the first
        tensor. Its first dimension is the number of samples. If it has integers, its elements are tokens.
        """
        from costcore.studies.meter import Sizes  # the meter needs conventions and devices, an estimate does not

        name = getattr(self._original, "main_input_name", None)
        named = [found[name] for found in (kwargs, *args) if isinstance(found, Mapping) and name in found]
        tensors = nested_tensors([named, args, kwargs])
        if not tensors or not tensors[0].ndim:
            return Sizes(0, 0)
        main = tensors[0]
        is_text = main.dtype in (torch.int32, torch.int64) and main.ndim >= 2
        return Sizes(main.numel() if is_text else 0, len(main))

    def on_a_copy(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any], Callable[[Any], Any]]:
        """Return module, inputs and loss with which ``estimate`` counts a pass on these arguments."""
        inputs = [_with_values(value) for value in (*args, *kwargs.values())]
        return _Called(self._original, len(args), tuple(kwargs)), inputs, _loss_of


def passes_of(model: Any, is_compiled: bool) -> ModulePasses:
    """Return the passes of a module; see :class:`ModulePasses`.

    Raises:
        CostError: for any other model, such as an exported program, which is not trained.
    """
    if not isinstance(model, Module):
        raise CostError(f"MFUMeter needs the torch.nn.Module that is trained (got {short_repr(model)})")
    return ModulePasses(model, is_compiled)


class _Called(Module):
    # Takes all arguments by position, as estimate passes them.
    def __init__(self, model: Module, n_args: int, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.n_args, self.names = model, n_args, names

    def forward(self, *values: Any) -> Any:
        """Call the module."""
        return self.model(*values[: self.n_args], **dict(zip(self.names, values[self.n_args :], strict=True)))


def _loss_of(output: Any) -> Tensor:
    # Models of Hugging Face return a ``loss``.
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, Tensor) and loss.requires_grad:
        return loss.sum()
    outputs = differentiable(output)
    if not outputs:
        raise CostError("the model has no backward pass: no output depends on a parameter that requires a gradient")
    return torch.stack([x.sum() for x in outputs]).sum()


def _with_values(value: Any) -> Any:
    # An estimate would take a bare list of integers for a shape.
    if isinstance(value, Mapping):
        return {name: _with_values(item) for name, item in value.items()}
    if not isinstance(value, (list, tuple)) or not value:
        return value
    if all(isinstance(item, int) for item in value):
        return Value(value)
    items = [_with_values(item) for item in value]
    return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)


def _key_of_call(is_training: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable:
    # This runs before every pass; one flat tuple is fast to make.
    parts: list[Hashable] = [is_training]
    for name, value in (*enumerate(args), *kwargs.items()):
        if type(value) is Tensor and not value.is_nested:
            parts += name, value.shape, value.dtype, value.requires_grad
        else:
            parts += name, _key(value)
    return tuple(parts)


def _key(value: Any, depth: int = 0) -> Hashable:
    if isinstance(value, Tensor):
        shape = repr(value.shape) if value.is_nested else value.shape
        return shape, value.dtype, value.requires_grad
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, _TYPES_ONLY) or depth == MAX_DEPTH:
        return type(value).__name__
    if isinstance(value, Mapping):
        return tuple([(name, _key(item, depth + 1)) for name, item in value.items()])
    if isinstance(value, (list, tuple)):
        return tuple([_key(item, depth + 1) for item in value])
    return type(value).__name__, _key(getattr(value, "__dict__", None), depth + 1)


# Activation checkpointing: the backward pass recomputes modules, all operators or all but saved ones


@contextmanager
def checkpointed(model: Module, modules: str | None) -> Iterator[None]:
    """Run modules under ``torch.utils.checkpoint`` (non-reentrant) inside the context.

    Args:
        model: a copy of the user's model.
        modules: the name of a class, ``BertLayer``, whose outermost modules are recomputed; or a pattern of their
            paths, ``encoder.layer.*.output``. ``BertLayer(save=mm,softmax)`` keeps the results of these operators, as
            ``create_selective_checkpoint_contexts`` does. ``attention`` stands for any fused attention kernel, and
            ``mm/2`` keeps the first of every two results. None: no module is recomputed.

    Raises:
        TypeError: if it is not a string.
        ValueError: if there is no such module or operator; the message lists the classes.
    """
    if modules is None:
        yield
        return
    if not isinstance(modules, str):
        raise TypeError(f'checkpoint must be the name of a class of modules, such as "BertLayer" (got {modules!r})')
    name, saved = parse_checkpoint(modules)
    found = _modules_to_recompute(model, name)
    run = partial(_checkpoint, _contexts(saved)) if saved else _checkpoint_all
    import_module("torch.utils.checkpoint")  # before a capture, which may patch it
    before = [dict(module.__dict__) for module in found]
    try:
        for module in found:
            module.__dict__.update(_switch(module, run))
        yield
    finally:
        for module, attributes in zip(found, before, strict=True):
            module.__dict__.clear()
            module.__dict__.update(attributes)


def parse_checkpoint(text: str) -> tuple[str, list[str]]:
    """Split an option ``checkpoint``, ``Block(save=mm,attention)``, into the modules and the operators to save.

    Raises:
        ValueError: if it has another form.
    """
    name, parenthesis, rest = text.partition("(")
    if not parenthesis:
        return name, []
    saved = [each.strip() for each in rest.removesuffix(")").removeprefix("save=").split(",")]
    if not rest.startswith("save=") or not rest.endswith(")") or not all(saved):
        raise ValueError(f"checkpoint {text!r} must name operators as {name}(save=mm,attention)")
    return name, saved


def _modules_to_recompute(model: Module, name: str) -> list[Module]:
    if "." in name or "*" in name:
        found = [module for _, module in matching(model, [name])]
        if not found:
            paths = sorted({re.sub(r"\b\d+\b", "*", path) for path, _ in model.named_modules() if path})
            raise ValueError(unknown("path of modules in checkpoint", name, paths))
        return found
    found = outermost(model, name)
    if not found:
        names = sorted({type(module).__name__ for module in modules_of(model)})
        raise ValueError(unknown("class of modules in checkpoint", name, names))
    return found


def _contexts(saved: Sequence[str]) -> Callable[[], Any]:
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    every: dict[str, int] = {}
    for text in saved:
        name, slash, number = text.partition("/")
        if slash and not (number.isdecimal() and int(number) > 0):
            raise ValueError(f"checkpoint: {text!r} must be an operator and how often it is saved, as mm/2")
        if name != ATTENTION and not hasattr(torch.ops.aten, name):
            raise ValueError(f"checkpoint: PyTorch has no operator aten::{name} to save. Write {ATTENTION}, mm or bmm.")
        every[name] = int(number or 1)

    def contexts() -> Any:
        # Forward pass and recomputation have separate counters, so that both save the same calls.
        seen: Counter[tuple[bool, str]] = Counter()

        def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
            name = operator.overloadpacket.__name__
            if FUSED_ATTENTION in name and ATTENTION in every:
                name = ATTENTION
            seen[context.is_recompute, name] += 1
            is_saved = name in every and (seen[context.is_recompute, name] - 1) % every[name] == 0
            return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return contexts


ATTENTION, FUSED_ATTENTION = "attention", "scaled_dot_product"
"""The name of fused attention in an option ``checkpoint``, and a part of the names of its operators."""


def outermost(model: Module, class_name: str) -> list[Module]:
    """Return the modules of a class that are not nested in another module of the class, each once."""
    found: dict[int, Module] = {}
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        if type(module).__name__ == class_name:
            found[id(module)] = module
        else:
            waiting += [child for child in module._modules.values() if child is not None]
    return [*found.values()]


def _switch(module: Module, run: Callable[..., Any]) -> dict[str, Any]:
    # Layers of Transformers have a switch of their own. It also disables the KV cache, which a recomputation would
    # extend a second time.
    if module.training and hasattr(module, "gradient_checkpointing"):
        return {"gradient_checkpointing": True, "_gradient_checkpointing_func": run}
    return {"forward": _Recomputed(run, module.forward)}


class _Recomputed(partial[Any]):
    """The checkpointed forward of a module; the last of ``args`` is the original forward."""


def _checkpoint(contexts: Callable[[], Any] | None, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    options = {} if contexts is None else {"context_fn": contexts}
    return checkpoint(forward, *args, use_reentrant=False, **options, **kwargs)


_checkpoint_all = partial(_checkpoint, None)


def wrap_forward(module: Module, wrapper: Callable[..., Any]) -> None:
    """Wrap the forward of a module; a recomputation runs the wrapper again.

    Args:
        module: a module of a copy of the user's model.
        wrapper: is called with the forward and its arguments.
    """
    forward: Any = module.forward
    if isinstance(forward, _Recomputed):
        module.forward = _Recomputed(forward.func, *forward.args[:-1], partial(wrapper, forward.args[-1]))
    else:
        module.forward = partial(wrapper, forward)


# bfloat16: the whole model, or autocast


PRECISIONS = ("bfloat16", "pure_bfloat16", "autocast")
"""How a model runs in bfloat16: weights in bfloat16 and float32 copies in the optimizer; weights and optimizer state in
bfloat16; autocast."""

ALL_BFLOAT16 = ("bfloat16", "pure_bfloat16")
"""The precisions with weights in bfloat16."""


def check_precision(precision: object) -> None:
    """Check the option.

    Raises:
        ValueError: if it is not one of :data:`PRECISIONS`, nor None.
    """
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(unknown("precision", precision, PRECISIONS))


def in_precision(model: Module, precision: str | None) -> None:
    """Convert the floating-point parameters and buffers of a copy of a model to bfloat16, if requested."""
    if precision in ALL_BFLOAT16:
        model.to(torch.bfloat16)


def half_floats(tensor: Tensor) -> Tensor:
    """Convert an input of a model to bfloat16 if it is float32 or float64."""
    if tensor.dtype not in (torch.float32, torch.float64):
        return tensor
    return tensor.detach().to(torch.bfloat16).requires_grad_(tensor.requires_grad)


def casts(precision: str | None) -> AbstractContextManager[Any]:
    """Return the context of a forward pass: autocast, if requested."""
    return torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else nullcontext()


class MasterWeights(Optimizer):
    """An optimizer that updates float32 copies of weights, then rounds them to the weights.

    A step creates the float32 gradient of one weight at a time. For an optimizer that works on lists (``foreach``), it
    creates all of them and frees them at its end (Micikevicius et al. 2018, arXiv:1710.03740, section 3.1).

    Args:
        parameters: the weights.
        make: makes the optimizer of the copies.
        one_by_one: whether weights are updated one after the other, not as a list.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        make: Callable[[Iterable[Parameter]], Optimizer],
        one_by_one: bool = False,
    ) -> None:
        weights = [*parameters]
        super().__init__(weights, {})
        pairs = [(weight, weight.detach().float().requires_grad_()) for weight in weights]  # no parameters of a model
        groups = [[pair] for pair in pairs] if one_by_one else [pairs]
        self._groups = [(group, make([master for _, master in group])) for group in groups]
        self._state()

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Run a step.

        Args:
            closure: not used.
        """
        with torch.no_grad():
            for pairs, optimizer in self._groups:
                for weight, master in pairs:
                    master.grad = None if weight.grad is None else weight.grad.float()
                optimizer.step()
                for weight, master in pairs:
                    master.grad = None
                    weight.copy_(master)
        self._state()

    def _state(self) -> None:
        # Memory ledgers look here for the state of an optimizer.
        for pairs, optimizer in self._groups:
            for weight, master in pairs:
                own: dict[str, Tensor] = optimizer.state.get(master, {})
                self.state[weight] = {"master": master.data, **own}
