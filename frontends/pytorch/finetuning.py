"""Fine-tuning methods: low-rank adapters (LoRA, DoRA), 4-bit weights (QLoRA) and optimizers with little state.

The operators of this module also run on data, so that their results can be checked; estimates need only shapes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Module, Parameter, functional
from torch.optim import AdamW, Optimizer

from costcore.errors import CostError, CostWarning, unknown

from .tensors import with_modules

# Low-rank adapters


KINDS = ("lora", "dora")
"""Kinds of adapters."""

FORMATS = ("nf4",)
"""Formats of frozen weights."""


def finetuned(
    model: Module, rank: int, targets: Sequence[str] = (), kind: str = "lora", base: str | None = None
) -> Module:
    """Return a model with low-rank adapters on its linear layers; only the adapters are trained.

    The given model is not changed; the result shares its tensors.

    Args:
        model: the model.
        rank: the rank of the adapters.
        targets: patterns of the names of linear layers that get an adapter, ``"q_proj"``; default: all but the last
            linear layer, which computes the outputs.
        kind: one of :data:`KINDS`.
        base: the format of the adapted layers' frozen weights, one of :data:`FORMATS`; None: unchanged.

    Raises:
        CostError: if a pattern matches no linear layer.
        ValueError: if an argument is invalid.
    """
    if kind not in KINDS:
        raise ValueError(unknown("kind of adapter", kind, KINDS))
    if base is not None and base not in FORMATS:
        raise ValueError(unknown("format of weights", base, FORMATS))
    if rank < 1:
        raise ValueError(f"the rank of adapters must be at least 1 (got {rank})")
    linears = {path: module for path, module in model.named_modules() if _is_linear(module)}
    last = next(reversed(linears), "")
    chosen = [path for path in linears if (_is_target(path, targets) if targets else path != last)]
    absent = [target for target in targets if not any(_is_target(path, [target]) for path in linears)]
    if absent or not chosen:
        names = ", ".join(dict.fromkeys(path.rpartition(".")[2] for path in linears)) or "none"
        raise CostError(f"{type(model).__name__} has no linear layer {', '.join(absent) or 'to adapt'} (has {names})")
    if base is not None:
        _warn_of_unquantized(model, [linears[path] for path in chosen], base)
    frozen: dict[int, Parameter] = {}

    def freeze(parameter: Parameter) -> Parameter:
        return frozen.setdefault(id(parameter), Parameter(parameter.detach(), requires_grad=False))

    made: dict[int, Module] = {}
    for path in chosen:
        linear = linears[path]
        layer = Linear4bit(linear) if base == "nf4" else with_modules(linear, {})
        made[id(linear)] = AdaptedLinear(layer, linear, rank, kind == "dora")
    copied = with_modules(model, made)
    for module in copied.modules():
        if not _is_inside_adapter(module):
            module._parameters = {
                name: None if each is None else freeze(each) for name, each in module._parameters.items()
            }
    return copied


def _warn_of_unquantized(model: Module, quantized: Iterable[Any], base: str) -> None:
    # Experts of recent transformers are three-dimensional parameters, which bitsandbytes does not quantize.
    n_quantized = sum({id(weight): weight.numel() for weight in (module.weight for module in quantized)}.values())
    others: dict[str, dict[int, int]] = {}
    for module in model.modules():
        if not isinstance(module, nn.Embedding) and not _is_linear(module):
            found = {id(each): each.numel() for each in module.parameters(recurse=False) if each.dim() > 1}
            others.setdefault(type(module).__name__, {}).update(found)
    n_others = {kind: sum(sizes.values()) for kind, sizes in others.items() if sizes}
    if sum(n_others.values()) > n_quantized:
        kind = max(n_others, key=lambda name: n_others[name])
        message = (
            f"{sum(n_others.values()):,} weights outside linear layers, most in {kind}, are not quantized to {base}"
        )
        warnings.warn(message, CostWarning, stacklevel=3)


def _is_linear(module: Module) -> bool:
    return isinstance(module, nn.Linear) or _is_transposed(module)


def _is_transposed(module: Module) -> bool:
    # The linear layers of GPT-2 in transformers store their weight as (inputs, outputs).
    return any(
        f"{kind.__module__}.{kind.__name__}" == "transformers.pytorch_utils.Conv1D" for kind in type(module).__mro__
    )


def _weight_of(module: Any) -> Tensor:
    """Return the weight of a linear layer, of shape (outputs, inputs)."""
    weight: Tensor = module.weight
    return weight.T if _is_transposed(module) else weight


def _is_target(path: str, targets: Sequence[str]) -> bool:
    name = path.rpartition(".")[2]
    return any(fnmatchcase(name, target) or fnmatchcase(path, target) for target in targets)


def _is_inside_adapter(module: Module) -> bool:
    return isinstance(module, (AdaptedLinear, Adapter))


class Adapter(nn.Linear):
    """One of the two factors of an adapter, in float32 as PEFT keeps it."""


class AdaptedLinear(Module):
    """A linear layer with an adapter: ``W x + 2 B A x``, with A of ``rank`` rows.

    Sources: Hu et al., LoRA, arXiv:2106.09685; Liu et al., DoRA, arXiv:2402.09353, section 4.3: no gradient flows
    through the norm of the adapted weight.

    Args:
        layer: the frozen layer that runs, maybe quantized.
        linear: the original layer, ``nn.Linear`` or ``Conv1D`` of transformers.
        rank: the rank of the adapter.
        has_magnitude: whether rows are scaled to a learned norm (DoRA).
    """

    lora_A: Adapter  # noqa: N815  # the name in state dicts
    lora_B: Adapter  # noqa: N815
    magnitude: Any | None

    def __init__(self, layer: Module, linear: Module, rank: int, has_magnitude: bool) -> None:
        super().__init__()
        weight = _weight_of(linear)
        n_outputs, n_inputs = weight.shape
        where = {"device": weight.device, "dtype": torch.float32}
        self.layer = layer
        self.lora_A = Adapter(n_inputs, rank, bias=False, **where)
        self.lora_B = Adapter(rank, n_outputs, bias=False, **where)
        self.magnitude = Parameter(torch.ones(n_outputs, **where)) if has_magnitude else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the layer and of its adapter."""
        y: Tensor = self.layer(x)
        inputs = x.to(self.lora_A.weight.dtype)
        change = self.lora_B(self.lora_A(inputs)) * 2
        if self.magnitude is None:
            return y + change.to(y.dtype)
        with torch.no_grad():
            weight = _weight_of(self.layer) if _is_linear(self.layer) else self.layer.dequantized()
            adapted = weight + 2 * (self.lora_B.weight @ self.lora_A.weight)
            norm = adapted.norm(dim=1)
        scale = self.magnitude / norm
        return (scale * (y + change)).to(y.dtype)


# Weights in 4 bits


BLOCK, SCALES = 64, 256
"""Weights per 8-bit scale, and 8-bit scales per float32 scale (double quantization)."""

_NF4 = torch.tensor(
    (
        *(-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0),
        *(0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0),
    )
)
"""Quantiles of a normal distribution (Dettmers et al., QLoRA, arXiv:2305.14314, appendix E), to four digits."""


@torch.library.custom_op("costcore::dequantize_4bit", mutates_args=())  # type: ignore[untyped-decorator]
def dequantize_4bit(weight: Tensor, scale: Tensor, outer: Tensor, shape: list[int], like: Tensor) -> Tensor:
    """Return dequantized 4-bit weights in the dtype of ``like``.

    Args:
        weight: two weights per byte.
        scale: 8-bit scales of blocks.
        outer: float32 scales of these scales.
        shape: the shape of the result.
        like: a tensor of the dtype.
    """
    codes = torch.stack((weight >> 4, weight & 15), -1).flatten().long()
    scales = (scale.float() * outer.repeat_interleave(SCALES)[: scale.numel()]).repeat_interleave(BLOCK)
    return (
        (_NF4.to(weight.device)[codes] * scales[: codes.numel()])[: torch.Size(shape).numel()]
        .view(shape)
        .to(like.dtype)
    )


@dequantize_4bit.register_fake  # type: ignore[untyped-decorator]
def _(weight: Tensor, scale: Tensor, outer: Tensor, shape: list[int], like: Tensor) -> Tensor:
    return like.new_empty(shape)


class _QuantizedLinear(torch.autograd.Function):
    # Weights are dequantized in both passes, and not kept between them.
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor | None, weight: Tensor, scale: Tensor, outer: Tensor, shape: Any
    ) -> Tensor:
        ctx.save_for_backward(weight, scale, outer)
        ctx.shape, ctx.like = shape, x.new_empty(0)
        return functional.linear(x, dequantize_4bit(weight, scale, outer, shape, x), bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        return gradient @ dequantize_4bit(*ctx.saved_tensors, ctx.shape, gradient), *(None,) * 5


class Linear4bit(Module):
    """A linear layer with weights in NF4 and double quantization: 4.127 bits per weight.

    Args:
        linear: the layer in floating point; weights on the meta device have no values.
    """

    shape: list[Any]
    bias: Any
    weight: Any

    def __init__(self, linear: Module) -> None:
        super().__init__()
        weight = _weight_of(linear).detach()
        size, device = weight.numel(), weight.device
        self.shape = [*weight.shape]
        self.bias = linear.bias
        if weight.is_meta:
            packed = torch.empty(ceil(size / 2), dtype=torch.uint8, device=device)
            scale = torch.empty(ceil(size / BLOCK), dtype=torch.uint8, device=device)
            outer = torch.empty(ceil(scale.numel() / SCALES), device=device)
        else:
            packed, scale, outer = quantize_4bit(weight)
        self.weight = Parameter(packed, requires_grad=False)
        self.register_buffer("scale", scale)
        self.register_buffer("outer", outer)

    def forward(self, x: Tensor) -> Tensor:
        """Return the product with the dequantized weight."""
        found: Tensor = _QuantizedLinear.apply(x, self.bias, self.weight, self.scale, self.outer, self.shape)
        return found

    def dequantized(self) -> Tensor:
        """Return the weight in float32."""
        return dequantize_4bit(self.weight, self.scale, self.outer, self.shape, self.outer)


def quantize_4bit(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a weight in NF4: codes (two per byte), 8-bit scales of blocks, and float32 scales of these scales."""
    values = functional.pad(weight.float().flatten(), (0, -weight.numel() % BLOCK)).view(-1, BLOCK)
    largest = values.abs().amax(1)
    groups = functional.pad(largest, (0, -largest.numel() % SCALES)).view(-1, SCALES)
    outer = groups.amax(1).clamp(min=1e-12) / 255
    scale = (groups / outer[:, None]).round().clamp(1, 255).flatten()[: largest.numel()].to(torch.uint8)
    steps = (scale.float() * outer.repeat_interleave(SCALES)[: scale.numel()])[:, None]
    codes = (values / steps)[..., None].sub(_NF4).abs().argmin(-1).flatten()[: weight.numel()].to(torch.uint8)
    codes = functional.pad(codes, (0, codes.numel() % 2)).view(-1, 2)
    return codes[:, 0] << 4 | codes[:, 1], scale, outer


# Optimizers


STATES = 256
"""Elements of optimizer state per scale (bitsandbytes)."""


@torch.library.custom_op(  # type: ignore[untyped-decorator]
    "costcore::adam_8bit_step", mutates_args=("parameter", "moment", "square", "scale", "scale_square")
)
def adam_8bit_step(
    parameter: Tensor,
    gradient: Tensor,
    moment: Tensor,
    square: Tensor,
    scale: Tensor,
    scale_square: Tensor,
    lr: float,
    weight_decay: float,
    step: int,
) -> None:
    """Update a parameter by AdamW with moments in 8 bits: dequantize, update, quantize again.

    Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861.
    """
    m = 0.9 * _dequantized(moment, scale) + 0.1 * gradient.flatten().float()
    v = 0.999 * _dequantized(square, scale_square) ** 2 + 0.001 * gradient.flatten().float() ** 2
    change = (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
    parameter.mul_(1 - lr * weight_decay).sub_((lr * change).view_as(parameter).to(parameter.dtype))
    _quantize(m, moment, scale)
    _quantize(v.sqrt(), square, scale_square)


@adam_8bit_step.register_fake  # type: ignore[untyped-decorator]
def _(*_: Any) -> None:
    return None


def _dequantized(codes: Tensor, scale: Tensor) -> Tensor:
    return (codes.float() - 128) * scale.repeat_interleave(STATES)[: codes.numel()]


def _quantize(values: Tensor, codes: Tensor, scale: Tensor) -> None:
    blocks = functional.pad(values, (0, -values.numel() % STATES)).view(-1, STATES)
    scale.copy_(blocks.abs().amax(1).clamp(min=1e-12) / 127)
    codes.copy_(((blocks / scale[:, None]).round() + 128).flatten()[: values.numel()].to(torch.uint8))


class _OneByOne(Optimizer):
    # Updates one parameter after the other.
    _update: Callable[..., None]

    def __init__(self, parameters: Iterable[Parameter], lr: float = 1e-3, weight_decay: float = 0.01) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Run a step; ``closure`` is not used."""
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(parameter, parameter.grad, self.state[parameter], **group)


class Adam8bit(_OneByOne):
    """AdamW with both moments in 8 bits, and one float32 scale per 256 elements.

    Args:
        parameters: the parameters.
        lr: the learning rate.
        weight_decay: the decay of parameters.
    """

    def _update(
        self, parameter: Parameter, gradient: Tensor, state: dict[str, Any], lr: float, weight_decay: float, **_: Any
    ) -> None:
        # Each process updates only its shard of a distributed parameter.
        own, change = (x.to_local() if hasattr(x, "to_local") else x for x in (parameter, gradient))
        if not state:
            state["step"], size = 0, own.numel()
            for name in ("moment", "square"):
                state[name] = torch.full((size,), 128, dtype=torch.uint8, device=own.device)
                state[f"{name}_scale"] = torch.zeros(ceil(size / STATES), device=own.device)
        state["step"] += 1
        moments = (state[name] for name in ("moment", "square", "moment_scale", "square_scale"))
        adam_8bit_step(own, change, *moments, lr, weight_decay, state["step"])


class Lion(_OneByOne):
    """Lion, which updates by the sign of a momentum.

    Source: Chen et al., Symbolic Discovery of Optimization Algorithms, arXiv:2302.06675.

    Args:
        parameters: the parameters.
        lr: the learning rate.
        weight_decay: the decay of parameters.
    """

    def _update(
        self, parameter: Parameter, gradient: Tensor, state: dict[str, Any], lr: float, weight_decay: float, **_: Any
    ) -> None:
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        update = state["momentum"].mul(0.9).add_(gradient, alpha=0.1).sign_()
        parameter.mul_(1 - lr * weight_decay).add_(update, alpha=-lr)
        state["momentum"].mul_(0.99).add_(gradient, alpha=0.01)


class MuonWithAdamW(Optimizer):
    """Muon for matrices, AdamW for all other parameters.

    Source: Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024.

    Args:
        parameters: the parameters.
    """

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        every = [*parameters]
        super().__init__(every, {})
        matrices = [each for each in every if each.ndim == 2]
        others = [each for each in every if each.ndim != 2]
        self._parts: list[Optimizer] = [torch.optim.Muon(matrices)] if matrices else []
        self._parts += [AdamW(others)] if others else []

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Run a step; ``closure`` is not used."""
        for part in self._parts:
            part.step()
            self.state.update(part.state)


class Paged(Optimizer):
    """An optimizer with its state in host memory, which moves to the device only for the step.

    CUDA unified memory evicts pages of the state when activations need the memory (Dettmers et al., QLoRA,
    arXiv:2305.14314). Device memory is therefore counted without the state.

    Args:
        parameters: the parameters.
        make: makes the optimizer.
    """

    is_paged = True

    def __init__(self, parameters: Iterable[Parameter], make: Callable[[Iterable[Parameter]], Optimizer]) -> None:
        every = [*parameters]
        super().__init__(every, {})
        self._optimizer = make(every)

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Run a step; ``closure`` is not used."""
        self._optimizer.step()
