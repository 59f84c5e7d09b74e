"""A training step on the meta device: the loss, the backward pass and the step of an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Signature, signature
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import SGD, Adam, AdamW, Optimizer

from costcore.errors import CostError
from costcore.messages import short_repr, unknown

from .capture.dispatch_mode import CaptureMode
from .meta.optimizer_devices import supported_on_meta
from .precision import MasterWeights
from .tensors import nested_tensors

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
}
"""The optimizers that have a name, with the defaults of PyTorch on the CPU; ``foreach`` is the default on CUDA."""

ACCUMULATING = ("accumulated", "unsynchronized")
"""The steps that are the last of several micro-batches, before which the gradients of the others exist too."""

STEPS = ("steady", "first", *ACCUMULATING)
"""Which step is run: one in which the optimizer has its state already, the one that makes it, or the last micro-batch
of several. Before it, processes exchange gradients as is usual (``fully_shard`` in every pass), or not at all."""


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
    """Check that options of a training step are not passed for a run without what they change.

    Raises:
        ValueError: if one is; the message says what to pass as well.
    """
    if step == "first" and optimizer is None:
        raise ValueError('step="first" is the step that makes the state of an optimizer: pass optimizer= too')
    for name, value, default in (("step", step, "steady"), ("checkpoint", checkpoint, None)):
        if value != default and not backward:
            raise ValueError(
                f"{name}={value!r} changes the backward pass only: pass backward=True, loss= or optimizer="
            )


def make_optimizer(optimizer: str | OptimizerFactory, model: Module, keeps_masters: bool = False) -> Optimizer:
    """Return an optimizer of the parameters of a model that are trained.

    Args:
        optimizer: its name, or a function that makes it.
        model: the model.
        keeps_masters: whether it keeps float32 copies of the parameters.

    Raises:
        TypeError: if the function returns something else.
        CostError: if there are no such parameters, or a step needs a function that calls the model again.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise CostError(f"{type(model).__name__} has no parameters that are trained, so an optimizer has no step")
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
            f"a step of {type(made).__name__} calls the model as often as its data requires, which an estimate does "
            "not know. Record a step of your own with ComputationalCostHook(memory=True)."
        )
    return made


def differentiable(result: Any) -> list[Tensor]:
    """Return the outputs of a model that have a backward pass."""
    outputs = (x for x in nested_tensors(result) if x.is_floating_point() or x.is_complex())
    return [x for x in outputs if x.requires_grad]


def run_backward(mode: CaptureMode, result: Any, loss: Callable[[Any], Any] | None, name: str) -> object:
    """Run the backward pass of a loss, and return what the caller of a training step holds until its end.

    Without a loss it is the sum of all outputs. Its operators are not recorded, but their memory is watched.

    Args:
        mode: the capture.
        result: what the model returned.
        loss: returns the loss from it.
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
            f"{name} has no backward pass: no floating-point output depends on a tensor that requires a gradient"
        )
    with mode.paused, torch.enable_grad():
        gradients = [torch.ones_like(x) for x in outputs] if not mode.ledgers else None
        total = _Sum.apply(mode, *outputs) if gradients is None else None
        one = None if total is None else torch.ones_like(total)
    if gradients is not None:
        _run_backward(outputs, gradients)
        return None
    _run_backward([total], [one])
    return total


def _run_backward(outputs: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Run the backward pass of outputs, whose gradients are given.

    ``torch.autograd.backward`` imports sympy to compare the shapes of outputs and gradients.
    """
    run: Callable[..., Any] | None = getattr(torch.autograd, "_engine_run_backward", None)
    if run is None:
        torch.autograd.backward(outputs, gradients)
    else:
        run(tuple(outputs), tuple(gradients), False, False, (), allow_unreachable=True, accumulate_grad=True)


class _Sum(torch.autograd.Function):
    """The sum of all outputs, whose gradients are ones: views of a single number in a run, so that none is counted."""

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


LOST_ROWS = "the sum of several sparse gradients of a parameter was taken to have no rows"


def note_lost_rows(mode: CaptureMode, model: Module) -> None:
    """Note an assumption for every parameter with a sum of sparse gradients, whose rows the meta device loses."""
    with mode.paused:
        gradients = [parameter.grad for parameter in model.parameters()]
        lost = [x for x in gradients if x is not None and x.layout is torch.sparse_coo and not x._values().numel()]
    for _ in lost:
        mode.recording.assumptions.note(LOST_ROWS)


def _check_gradients(optimizer: Optimizer) -> None:
    """Refuse sparse gradients: a step updates as many rows as the indices of the batch differ, which are data.

    Raises:
        CostError: if a parameter has one.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    found = [tuple(p.shape) for p in parameters if p.grad is not None and p.grad.layout is not torch.strided]
    if found:
        raise CostError(
            f"the gradient of a parameter of shape {found[0]} is sparse, as that of nn.Embedding(sparse=True): a step "
            f"of {type(optimizer).__name__} updates as many of its rows as the batch has different indices, which an "
            "estimate does not know. Count the passes alone with backward=True, or record a step of your own with "
            "ComputationalCostHook."
        )


def run_optimizer(mode: CaptureMode, optimizer: Optimizer, step: str) -> None:
    """Run one step of an optimizer.

    Before any but the first step, a step that is neither recorded nor watched makes the state.

    Raises:
        CostError: if a gradient is sparse.
    """
    with mode.paused:
        _check_gradients(optimizer)
    with supported_on_meta():
        if step != "first":
            with mode.paused, mode.ledgers.paused():
                optimizer.step()
            for ledger in mode.ledgers:
                ledger.use_optimizer(optimizer)
        optimizer.step()


def own_tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model by name."""
    return {**{f"inputs[{i}]" if len(args) > 1 else "inputs": value for i, value in enumerate(args)}, **kwargs}
