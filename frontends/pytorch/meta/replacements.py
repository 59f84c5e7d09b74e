"""Replacements for operators that run differently on the meta device than on a CPU, or not at all.

On the meta device PyTorch decomposes ``lstm``, ``gru`` and ``scaled_dot_product_attention``; a CPU runs other operators
with other memory. The replacements here run the operators of a CPU. The last two sections have shape rules for
operators without a kernel on the meta device, and the strides that results have on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import linear
from torch.utils._python_dispatch import _disable_current_modes

from ..tensors import with_tensors
from .values import META, all_tensors, broadcasts, compressed_on_meta, coo_on_meta, without_capture

# LSTM: one operator of oneDNN per layer and direction, with a workspace for its backward pass


LSTM_NAME = "aten::lstm"

RESERVE = "memory: the workspace that LSTM layers keep for their backward pass is estimated from sizes of oneDNN 3.12"

STEPS = "memory: training an LSTM layer that oneDNN does not run uses other operators on the meta device than on a CPU"

PEAK = "memory: the peak of training LSTM layers that oneDNN does not run is approximate"

_LSTM_MODE = 2  # the mode of ``mkldnn_rnn_layer`` for LSTM

_PAGE = 4096


def fuses(input: Tensor, hx: Any, params: Any, has_biases: bool, num_layers: int, *settings: Any) -> bool:
    """Return whether oneDNN computes an LSTM on a CPU, for operands without data."""
    if not isinstance(hx, (list, tuple)) or len(hx) != 2 or not input.numel() or input.dim() != 3:
        return False
    if any(not x.is_meta for x in (input, *hx, *params)) or not _has_kernel((input, *hx, *params)):
        return False
    n_expected = num_layers * (1 + bool(settings[2])) * (4 if has_biases else 2)  # a projection has one more weight
    return len(params) == n_expected and torch.backends.mkldnn.enabled


def fused_lstm(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return output and states; None if a CPU would decompose the operator too, or operands have data."""
    if not fuses(input, hx, params, has_biases, num_layers, dropout, train, bidirectional):
        return None
    n_directions, n_weights = 2 if bidirectional else 1, 4 if has_biases else 2
    x = (input.transpose(0, 1) if batch_first else input).contiguous()  # allocated until the end
    y = x
    h0, c0 = (state.contiguous() for state in hx)
    hidden = h0.shape[2]
    layer: Any = torch.ops.aten.mkldnn_rnn_layer
    hn, cn = [], []
    for i in range(num_layers):
        outputs = []
        for direction in range(n_directions):
            at = i * n_directions + direction
            weights = params[at * n_weights : (at + 1) * n_weights]
            states = h0[at], c0[at]
            settings = _LSTM_MODE, hidden, num_layers, has_biases, bidirectional, batch_first, train
            output, h, c, _ = layer(y, *weights, *_no_biases(weights), *states, direction > 0, [], *settings)
            outputs.append(output)
            hn.append(h)
            cn.append(c)
        y = outputs[0] if n_directions == 1 else torch.cat(outputs, -1)
        if dropout and train and i < num_layers - 1:
            y = torch.dropout(y, dropout, True)
    return y.transpose(0, 1) if batch_first else y, torch.stack(hn), torch.stack(cn)


def _has_kernel(operands: Sequence[Tensor]) -> bool:
    # Autocast casts all operands to the dtype of the first.
    if not torch._C._is_any_autocast_enabled():
        return all(x.dtype is torch.float32 for x in operands)
    dtype = operands[0].dtype
    return dtype is torch.float32 or (dtype is torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _no_biases(weights: Sequence[Tensor]) -> list[Tensor]:
    # A CPU passes zeros, as large as the weights.
    return [torch.zeros_like(weight) for weight in weights] if len(weights) == 2 else []


def lstm_layer(
    input: Tensor, w0: Tensor, w1: Tensor, w2: Tensor, w3: Tensor, hx: Tensor, cx: Tensor, *settings: Any
) -> tuple[Tensor, ...] | None:
    """Return the results of one layer in one direction, with the workspace of a CPU."""
    _, _, mode, hidden, *_, train = settings
    if mode != _LSTM_MODE or input.dim() != 3:
        return None
    steps, batch, features = input.shape
    workspace = workspace_size(steps, batch, features, hidden) if train else 0
    output = input.new_empty((steps, batch, hidden))
    return output, hx.new_empty(hx.shape), cx.new_empty(cx.shape), input.new_empty((workspace,), dtype=torch.uint8)


def lstm_layer_backward(
    input: Tensor, w0: Tensor, w1: Tensor, b0: Tensor, b1: Tensor, hx: Tensor, cx: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    """Return the gradients of one layer in one direction; both biases have a gradient of their own."""
    shapes = input.shape, w0.shape, w1.shape, w0.shape[:1], w0.shape[:1], hx.shape, cx.shape
    return tuple(torch.empty(shape, device=input.device) for shape in shapes)


def workspace_size(steps: int, batch: int, features: int, hidden: int) -> int:
    """Return the bytes that oneDNN keeps of an LSTM layer for its backward pass.

    The workspace has the gates and hidden states of all steps, and five arrays with the states of two layers before the
    first step and at every step. Each array begins at a new page. The sizes were measured with oneDNN 3.12 on a CPU
    with AVX2, where they are exact.
    """
    states = 2 * (steps + 1) * batch
    sizes = (
        steps * batch * _row(4 * hidden),
        steps * batch * _row(hidden),
        *[states * _row(max(features, hidden))] * 3,
        *[states * hidden] * 2,
    )
    return sum(-(-4 * size // _PAGE) * _PAGE for size in sizes)


def _row(length: int) -> int:
    # oneDNN pads rows to 64 bytes, and avoids multiples of 1 KiB.
    padded = -(-length // 16) * 16
    return padded + 16 if padded % 256 == 0 else padded


# GRU and plain recurrent layers
#
# A CPU multiplies the inputs of all time steps by their weights at once, before the first step. On the meta device,
# PyTorch does so in every step, with other operators and other memory. The functions follow
# ``aten/src/ATen/native/RNN.cpp`` of PyTorch, including the lifetimes of tensors.


Cell: TypeAlias = "Callable[[Tensor, Tensor, Sequence[Tensor]], Tensor]"
"""Returns the next state from the product of input and weights, the current state, and the weights of a direction."""


def _gru(products: Tensor, state: Tensor, weights: Sequence[Tensor]) -> Tensor:
    of_input = products.unsafe_chunk(3, 1)
    of_state = linear(state, *weights[1::2]).unsafe_chunk(3, 1)
    reset = of_state[0].add_(of_input[0]).sigmoid_()
    update = of_state[1].add_(of_input[1]).sigmoid_()
    new = of_input[2].add(of_state[2].mul_(reset)).tanh_()
    return (state - new).mul_(update).add_(new)


def _tanh(products: Tensor, state: Tensor, weights: Sequence[Tensor]) -> Tensor:
    return linear(state, *weights[1::2]).add_(products).tanh()


def _relu(products: Tensor, state: Tensor, weights: Sequence[Tensor]) -> Tensor:
    return linear(state, *weights[1::2]).add_(products).relu()


def _steps(cell: Cell, steps: Sequence[Tensor], state: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    states = []
    for step in steps:
        state = cell(step, state, weights)
        states.append(state)
    return states


def _layer(cell: Cell, x: Tensor, first: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    products = linear(x, *weights[::2])
    states = _steps(cell, products.unbind(0), first[0], weights)
    return torch.stack(states, 0), states[-1:]


def _two_directions(
    cell: Cell, x: Tensor, first: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    n = len(weights) // 2
    products = linear(x, *weights[:n:2])
    steps = products.unbind(0)
    states = _steps(cell, steps, first[0], weights[:n])
    y = torch.stack(states, 0)
    products = linear(x, *weights[n::2])
    steps = products.unbind(0)[::-1]
    back = _steps(cell, steps, first[1], weights[n:])
    return torch.cat((y, torch.stack(back[::-1], 0)), -1), [states[-1], back[-1]]


def replacement_of(cell: Cell) -> Callable[..., tuple[Tensor, Tensor] | None]:
    """Return a function that runs recurrent layers with this cell as a CPU does."""

    def layers(
        input: Tensor,
        hx: Tensor,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool = False,
    ) -> tuple[Tensor, Tensor] | None:
        if not isinstance(params, (list, tuple)) or not _fit(input, hx, params):
            return None  # a packed sequence, operands with data, or an error, which PyTorch reports
        layer = _two_directions if bidirectional else _layer
        n_directions = 1 + bidirectional
        n_weights = n_directions * (4 if has_biases else 2)
        states = hx.unbind(0)
        x = input.transpose(0, 1) if batch_first else input
        last: list[Tensor] = []
        for i in range(num_layers):
            own = states[i * n_directions : (i + 1) * n_directions]
            x, ends = layer(cell, x, own, params[i * n_weights : (i + 1) * n_weights])
            last += ends
            if dropout and train and i < num_layers - 1:
                x = torch.dropout(x, dropout, train)
        return x.transpose(0, 1) if batch_first else x, torch.stack(last, 0)

    return layers


def _fit(x: Tensor, hx: Tensor, params: Sequence[Tensor]) -> bool:
    # If False, PyTorch runs the operator, and reports operands that do not fit.
    if any(not tensor.is_meta for tensor in (x, hx, *params)) or x.dim() != 3 or not x.numel() or hx.dim() != 3:
        return False
    same_dtype = x.dtype == params[0].dtype or torch._C._is_any_autocast_enabled()
    return bool(x.shape[2] == params[0].shape[1] and hx.shape[2] == params[1].shape[1] and same_dtype)


# Packed sequences, and LSTM layers that oneDNN does not compute
#
# Each step of a packed sequence has the rows of the sequences that have not ended.


States: TypeAlias = "Sequence[Tensor]"
"""The hidden state; of an LSTM also the cell state."""


def _lstm(products: Tensor, states: States, weights: Sequence[Tensor]) -> States:
    gates = linear(states[0], *weights[1::2]).add_(products).unsafe_chunk(4, 1)
    enter, forget, new, output = gates[0].sigmoid_(), gates[1].sigmoid_(), gates[2].tanh_(), gates[3].sigmoid_()
    kept = (forget * states[1]).add_(enter * new)
    return output * kept.tanh(), kept


def _projected(
    cell: Callable[..., States], projection: Tensor, products: Tensor, states: States, weights: Sequence[Tensor]
) -> States:
    state, kept = cell(products, states, weights)
    return torch.matmul(state, projection.t()), kept


def _cells(
    cell: Callable[..., States], x: Tensor, hx: States, params: Sequence[Tensor], has_biases: bool, n: int
) -> list[tuple[Callable[..., States], Sequence[Tensor]]] | None:
    """Return the cell and weights of each of ``n`` layers and directions; None if PyTorch has to run the operator."""
    n_weights = 4 if has_biases else 2
    n_given, rest = divmod(len(params), n)
    if rest or n_given not in (n_weights, n_weights + 1) or torch._C._is_any_autocast_enabled():
        return None
    if any(not tensor.is_meta or tensor.dtype != x.dtype for tensor in (x, *hx, *params)):
        return None
    if not x.numel() or any(state.dim() != 3 for state in hx):
        return None
    parts = [params[i * n_given : (i + 1) * n_given] for i in range(n)]
    if n_given == n_weights:
        return [(cell, part) for part in parts]
    return [(partial(_projected, cell, part[-1]), part[:-1]) for part in parts]


def _packed(
    cell: Callable[..., States], x: Tensor, sizes: Sequence[int], first: States, weights: Sequence[Tensor]
) -> tuple[Tensor, States]:
    products, states, outputs, ended = linear(x, *weights[::2]), first, [], []
    for at, before, size in zip(accumulate((0, *sizes)), (sizes[0], *sizes), sizes, strict=False):
        step = products.narrow(0, at, size)
        if size < before:
            ended.append([state.narrow(0, size, before - size) for state in states])
            states = [state.narrow(0, 0, size) for state in states]
        states = cell(step, states, weights)
        outputs.append(states[0])
    last = [torch.cat(parts) for parts in zip(*[*ended, states][::-1], strict=True)]
    return torch.cat(outputs), last


def _packed_back(
    cell: Callable[..., States], x: Tensor, sizes: Sequence[int], first: States, weights: Sequence[Tensor]
) -> tuple[Tensor, States]:
    products, outputs, before = linear(x, *weights[::2]), [], sizes[-1]
    states: States = [state.narrow(0, 0, before) for state in first]
    for end, size in zip([*accumulate(sizes)][::-1], sizes[::-1], strict=True):
        step = products.narrow(0, end - size, size)
        if size > before:
            begun = [state.narrow(0, before, size - before) for state in first]
            states = [torch.cat(pair) for pair in zip(states, begun, strict=True)]
        states, before = cell(step, states, weights), size
        outputs.append(states[0])
    return torch.cat(outputs[::-1]), states


def _on_packed(
    cell: Callable[..., States],
    data: Tensor,
    batch_sizes: Tensor,
    hx: States,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...] | None:
    n_directions = 1 + bidirectional
    cells = _cells(cell, data, hx, params, has_biases, num_layers * n_directions)
    if cells is None or batch_sizes.is_meta or data.dim() != 2:
        return None
    with without_capture():
        sizes: list[int] = batch_sizes.tolist()
    states, last, x = [*zip(*(state.unbind(0) for state in hx), strict=True)], [], data
    for i in range(num_layers):
        outputs = []
        for direction in range(n_directions):
            at = i * n_directions + direction
            run, (step, weights) = _packed_back if direction else _packed, cells[at]
            output, ends = run(step, x, sizes, states[at], weights)
            outputs.append(output)
            last.append(ends)
        x = outputs[0] if n_directions == 1 else torch.cat(outputs, -1)
        if dropout and train and i < num_layers - 1:
            x = torch.dropout(x, dropout, train)
    return x, *[torch.stack(each, 0) for each in zip(*last, strict=True)]


def _padded_lstm(
    input: Tensor,
    hx: States,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Tensor, ...] | None:
    # An LSTM that oneDNN does not compute: all sequences are of one length.
    if not isinstance(hx, (list, tuple)) or len(hx) != 2 or input.dim() != 3:
        return None
    n_directions = 1 + bidirectional
    cells = _cells(_lstm, input, hx, params, has_biases, num_layers * n_directions)
    if cells is None:
        return None
    sizes = input.shape[2], hx[0].shape[2], *(x.shape[0] for x in hx)
    if sizes != (params[0].shape[1], params[1].shape[1], *[num_layers * n_directions] * 2):
        return None  # PyTorch reports the error
    first, last = [*zip(*(state.unbind(0) for state in hx), strict=True)], []
    x = input.transpose(0, 1) if batch_first else input
    for i in range(num_layers):
        outputs, alive = [], []
        for direction in range(n_directions):
            at = i * n_directions + direction
            cell, weights = cells[at]
            states: States = first[at]
            steps, made = linear(x, *weights[::2]).unbind(0), []
            for step in steps[::-1] if direction else steps:
                states = cell(step, states, weights)
                made.append(states[0])
            alive.append(made)
            outputs.append(torch.stack(made[::-1] if direction else made, 0))
            last.append(states)
        x = outputs[0] if n_directions == 1 else torch.cat(outputs, -1)
        if dropout and train and i < num_layers - 1:
            x = torch.dropout(x, dropout, train)
    return x.transpose(0, 1) if batch_first else x, *[torch.stack(each, 0) for each in zip(*last, strict=True)]


def lstm(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, ...] | None:
    """Return output and states of an LSTM, also on a packed sequence; None if PyTorch has to run the operator."""
    if not args or not isinstance(args[0], Tensor):
        fused = fused_lstm(input, *args, **kwargs)
        return _padded_lstm(input, *args, **kwargs) if fused is None else fused
    sizes, hx, *rest = args
    if kwargs or sizes.is_meta or input.dim() != 2 or not isinstance(hx, (list, tuple)):
        return None
    with without_capture():
        steps, batch, is_even = len(sizes), int(sizes[0]), bool((sizes == sizes[0]).all())
    if is_even and _fuses_packed():
        fused = fused_lstm(input.view(steps, batch, input.shape[1]), hx, *rest)
        if fused is not None:
            return fused[0].reshape(steps * batch, -1), *fused[1:]
    return _on_packed(_lstm, input, sizes, hx, *rest)


@cache
def _fuses_packed() -> bool:
    # Whether a CPU runs sequences of equal lengths as one operator of oneDNN per layer.
    with without_capture(), torch.enable_grad():
        x, sizes, state = torch.zeros(2, 1, device="cpu"), torch.ones(2, dtype=torch.int64), torch.zeros(1, 1, 1)
        weights = [torch.ones(4, 1, device="cpu", requires_grad=True) for _ in range(2)]
        node = torch._VF.lstm(x, sizes, [state, state], weights, False, 1, 0.0, True, False)[0].grad_fn
        names = []
        while node is not None:
            names.append(node.name())
            node = node.next_functions[0][0] if node.next_functions else None
    return any("Mkldnn" in name for name in names)


def _recurrent(cell: Cell) -> Callable[..., tuple[Tensor, ...] | None]:
    padded = replacement_of(cell)

    def step(products: Tensor, states: States, weights: Sequence[Tensor]) -> States:
        return (cell(products, states[0], weights),)

    def run(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, ...] | None:
        is_packed = len(args) > 1 and isinstance(args[1], Tensor)  # sizes and state
        if not is_packed or kwargs:
            return padded(input, *args, **kwargs)
        return _on_packed(step, input, args[0], (args[1],), *args[2:])

    return run


CPU_REPLACEMENTS = {
    "aten::gru": _recurrent(_gru),
    "aten::rnn_tanh": _recurrent(_tanh),
    "aten::rnn_relu": _recurrent(_relu),
}
"""The functions, by operator."""


# Group normalization
#
# On a CPU, group norm keeps the channels-last layout of images. On any other device, it makes them contiguous.


def has_channels_last(x: Tensor) -> bool:
    """Return whether a tensor has channels-last strides, by the rule of ``suggest_memory_format`` in C++."""
    if not x.stride(1):
        return False
    least = 0
    for axis in (1, *range(x.dim() - 1, 1, -1), 0):
        step = x.stride(axis)
        if step < least or (axis == 0 and least == x.stride(1)):
            return False
        least = step * x.shape[axis]
    return True


def with_channels_last(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an empty channels-last tensor of a shape [N, C, ...]."""
    return torch.empty((shape[0], *shape[2:], shape[1]), dtype=dtype, device=META).movedim(-1, 1)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor | None:
    """Return the output for an image with the channels last; None for any other operand."""
    if not input.is_meta or input.dim() != 4 or not input.numel() or not has_channels_last(input):
        return None
    n, c, *sizes = input.shape
    if num_groups < 1 or c % num_groups or any(x is not None and x.shape != (c,) for x in (weight, bias)):
        return None  # PyTorch reports the error
    x = input.contiguous(memory_format=torch.channels_last)
    output: Tensor = torch.native_group_norm(x, weight, bias, n, c, sizes[0] * sizes[1], num_groups, eps)[0]
    return output


# CTC
#
# A CPU reads the target lengths as numbers, makes a tensor of them in the dtype of the losses, and divides by it. Any
# other device divides by the tensor of lengths that it is given.


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor | None:
    """Return the mean loss of targets whose lengths are a tensor; None for any other operand."""
    if reduction != 1 or not log_probs.is_meta or not isinstance(target_lengths, Tensor):
        return None
    lengths = input_lengths, target_lengths
    losses: Tensor = torch._VF.ctc_loss(log_probs, targets, *lengths, blank, 0, zero_infinity)
    return (losses / target_lengths.clamp_min(1).to(losses.dtype)).mean()


# Attention
#
# On the meta device PyTorch decomposes ``scaled_dot_product_attention`` into matrix products. A CPU runs one fused
# kernel, whose output has other strides (so that other copies follow), and whose backward pass is one operator.


SDPA_NAME = "aten::scaled_dot_product_attention"


def is_allowed() -> bool:
    """Return whether ``sdpa_kernel`` allows the fused kernel of a CPU.

    If it allows neither kernel of a CPU (flash, math), the program targets another device, whose kernels are all fused.
    """
    # The flags of CUDA hold for a CPU, too.
    return torch.backends.cuda.flash_sdp_enabled() or not torch.backends.cuda.math_sdp_enabled()


@cache
def _fuses(rank: int, grouped: bool) -> bool:
    # Attention with ``enable_gqa`` is fused since PyTorch 2.7. A single key head without it, and 3-d operands, are
    # fused since 2.15.
    with without_capture(), sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        x, key = (torch.empty((1, heads, 1, 8)[-rank:], device="cpu") for heads in (2, 1 if rank == 4 else 2))
        choice = torch._fused_sdp_choice(x, key, key, **({"enable_gqa": True} if grouped else {}))
    return bool(choice == SDPBackend.FLASH_ATTENTION.value)


def is_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> bool:
    """Return whether a CPU runs attention of these operands as one fused kernel."""
    operands = (query, key, value)
    if (
        not is_allowed()
        or dropout_p
        or any(x.dim() != query.dim() or x.stride(-1) != 1 or 0 in x.shape for x in operands)
    ):
        return False
    if query.dim() == 3 and _fuses(3, False):
        query, key, value, attn_mask = _with_batch(query, key, value, attn_mask)
        return is_fused(query, key, value, attn_mask, is_causal=is_causal)
    if query.dim() != 4:
        return False
    heads = key.shape[1] if enable_gqa or key.shape[1] == 1 else query.shape[1]
    like = (query.shape[0], heads, query.shape[3])
    if any((x.shape[0], x.shape[1], x.shape[3]) != like for x in (key, value)) or query.shape[1] % heads:
        return False
    if query.shape[1] != heads and not _fuses(4, enable_gqa):
        return False
    if key.shape[2] != value.shape[2] or any(x.dtype != query.dtype for x in (key, value)):
        return False
    if attn_mask is None:
        return True
    return (
        not (attn_mask.requires_grad or is_causal)
        and attn_mask.dim() in (2, 4)
        and broadcasts(attn_mask.shape, (*query.shape[:3], key.shape[2]))
        and attn_mask.dtype in (torch.bool, torch.float32, query.dtype)
    )


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **settings: Any,
) -> Tensor | None:
    """Return the output of the fused kernel; None if a CPU would not use it, or operands have data."""
    if not (query.is_meta and query.is_floating_point()):
        return None
    if not is_fused(query, key, value, attn_mask, dropout_p, is_causal, **settings):
        return None
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = attn_mask.new_empty(attn_mask.shape, dtype=query.dtype)
    kernel: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    *operands, mask = _with_batch(query, key, value, attn_mask)
    output: Tensor = kernel(*operands, 0.0, is_causal, attn_mask=mask, scale=settings.get("scale"))[0]
    return output if query.dim() == 4 else output.squeeze(0)


def _with_batch(*operands: Any) -> Any:
    # The kernel takes four axes.
    return tuple(x.unsqueeze(0) if x is not None and x.dim() == 3 else x for x in operands)


# Shape rules: results of operators for which PyTorch has no kernel on the meta device, or a wrong one.
#
# A rule is used only after PyTorch rejected the operator. PyTorch also moves sparse tensors to the meta device without
# their values, and its meta kernels return sparse results without values: :func:`with_values_of` adds them.


def where_by_bytes(native: str, args: Sequence[Any]) -> Any:
    """Return ``torch.where`` for a uint8 condition, which only the meta device rejects; None for other calls."""
    if native != "aten::where" or len(args) != 3 or args[0].dtype is not torch.uint8:
        return None
    with _disable_current_modes():
        return torch.where(torch.empty_like(args[0], dtype=torch.bool), *args[1:])


def result_without_kernel(
    native: str, args: Sequence[Any], kwargs: Mapping[str, Any], own: Callable[..., Any] | None = None
) -> Any:
    """Return the result of an operator on meta tensors by a rule; None if no rule applies.

    Args:
        native: the name of the operator, ``aten::addmm``.
        args: its positional arguments.
        kwargs: its keyword arguments.
        own: the shape rule of the user.
    """
    if own is not None and any(x.is_meta for x in all_tensors((*args, *kwargs.values()))):
        with _disable_current_modes():
            first = next(x for x in all_tensors((*args, *kwargs.values())) if x.is_meta)
            return new_outputs(own(*args, **kwargs), first.dtype)
    if native in _LIKE_FIRST and args[0].is_meta:
        return torch.empty_like(args[0])
    rule = _RULES.get(native)
    if rule is None or not any(x.is_meta and x.layout is not torch.strided for x in all_tensors(args)):
        return None
    result = rule(*args)
    out = kwargs.get("out")
    return result if out is None else out


def new_outputs(result: Any, dtype: torch.dtype | None) -> Any:
    """Return the outputs that a shape rule describes: new meta tensors in place of tensors and shapes.

    Args:
        result: what the rule returned; an input in it stands for a new tensor like it.
        dtype: the dtype of outputs given as shapes.
    """
    if isinstance(result, Tensor):
        return torch.empty_like(result, device=META, requires_grad=False)
    if isinstance(result, (tuple, list)) and result and all(isinstance(size, int) for size in result):
        return torch.empty(tuple(result), dtype=dtype, device=META)
    if isinstance(result, (tuple, list)):
        items: Iterable[Any] = (new_outputs(item, dtype) for item in result)
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    if type(result) is dict:
        return {key: new_outputs(item, dtype) for key, item in result.items()}
    # In objects, integer tensors are indices and lengths: they are kept.
    return with_tensors(result, lambda x: new_outputs(x, dtype) if x.is_floating_point() else x)


_LIKE_FIRST = frozenset(
    ("aten::_sample_dirichlet", "aten::_dirichlet_grad", "aten::_standard_gamma_grad", "aten::binomial")
)
"""Operators whose result is like their first argument."""

_BY_VALUE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
"""Layouts that store single values, not blocks."""

SPARSE_RESULT = "a sparse result was assumed to have the values of its sparse operands"


def with_values_of(result: Any, operands: Sequence[Tensor]) -> Any:
    """Return a sparse meta tensor with as many values as its sparse operands; any other result unchanged."""
    if not isinstance(result, Tensor) or not result.is_meta or result.layout not in _BY_VALUE or result._nnz():
        return result
    given = [x for x in operands if x.is_meta and x.layout is result.layout and x._nnz()]
    if not given or given[0].sparse_dim() != result.sparse_dim():
        return result
    count = sum(x._nnz() for x in given)  # a sum has the values of both
    if result.layout is not torch.sparse_coo:
        return compressed_on_meta(result, given[0].values().new_empty(count, dtype=result.dtype), result.layout)
    indices = given[0]._indices().new_empty((result.sparse_dim(), count))
    values = given[0]._values().new_empty((count, *given[0]._values().shape[1:]), dtype=result.dtype)
    return coo_on_meta(result, tuple(result.shape), indices, values, len(given) == 1 and given[0].is_coalesced())


def _product(x: Tensor, y: Tensor, *_: Any) -> Tensor:
    shape = (*x.shape[:-1], *y.shape[-1:]) if y.dim() > 1 else tuple(x.shape[:-1])
    is_sparse = x.layout is not torch.strided and y.layout is not torch.strided
    layout = x.layout if is_sparse else torch.strided
    return torch.empty(shape, dtype=x.dtype, layout=layout, device=META)


def _product_with_addend(addend: Tensor, x: Tensor, y: Tensor, *_: Any) -> Tensor:
    return _product(x, y)


def _coalesced(x: Tensor, *_: Any) -> Tensor:
    return coo_on_meta(x, tuple(x.shape), x._indices(), x._values(), True)


def _masked(x: Tensor, mask: Tensor, *_: Any) -> Tensor:
    if mask.layout is not torch.sparse_coo:
        return torch.empty_like(mask, dtype=x.dtype)
    values = torch.empty_like(mask._values(), dtype=x.dtype)
    return coo_on_meta(mask, tuple(mask.shape), mask._indices(), values, mask.is_coalesced())


def _to_layout(layout: torch.layout) -> Callable[..., Tensor]:
    def converted(x: Tensor, *_: Any) -> Tensor:
        return compressed_on_meta(x, x._values() if x.layout is torch.sparse_coo else x.values(), layout)

    return converted


def _dense(x: Tensor, dtype: torch.dtype | None = None, *_: Any) -> Tensor:
    return torch.empty(x.shape, dtype=dtype or x.dtype, device=META)


_RULES: Mapping[str, Callable[..., Tensor]] = {
    "aten::_coalesce": _coalesced,
    "aten::_sparse_softmax": _coalesced,
    "aten::_sparse_log_softmax": _coalesced,
    "aten::_sparse_softmax_backward_data": lambda dy, y, *_: _coalesced(y),
    "aten::_sparse_log_softmax_backward_data": lambda dy, y, *_: _coalesced(y),
    "aten::add_": lambda x, *_: x,
    "aten::add": lambda x, *_: torch.empty_like(x),
    "aten::sparse_mask": _masked,
    "aten::_to_dense": _dense,
    "aten::_to_sparse_csr": _to_layout(torch.sparse_csr),
    "aten::_to_sparse_csc": _to_layout(torch.sparse_csc),
    "aten::mm": _product,
    "aten::bmm": _product,
    "aten::mv": _product,
    "aten::_sparse_mm": _product,
    "aten::_sparse_sparse_matmul": _product,
    "aten::addmm": _product_with_addend,
    "aten::addmv": _product_with_addend,
    "aten::_sparse_addmm": _product_with_addend,
}


# Results with other strides on the meta device than on a CPU, which would lead to different copies


Layout = Callable[[Sequence[Any], Tensor], Tensor | None]
"""Returns an empty tensor with the strides of the (first) result on a CPU, from the operands and the result."""


def _plain(args: Sequence[Any], result: Tensor) -> Tensor:
    return torch.empty(result.shape, dtype=result.dtype, device=META)


def _as_operand(i: int) -> Layout:
    return lambda args, result: torch.empty_like(args[i], dtype=result.dtype)


def _in_format_of(i: int) -> Layout:
    def made(args: Sequence[Any], result: Tensor) -> Tensor:
        is_last = args[i].dim() == result.dim() > 3 and has_channels_last(args[i])
        return with_channels_last(result.shape, result.dtype) if is_last else _plain(args, result)

    return made


LAYOUTS_ON_CPU: Mapping[str, Layout] = {
    **{f"aten::{name}_loss_backward": _plain for name in ("mse", "smooth_l1", "huber")},
    "aten::glu_backward": _plain,
    "aten::_log_softmax_backward_data": _plain,
    "aten::log_sigmoid_forward": _plain,
    "aten::log_sigmoid_backward": _as_operand(0),
    "aten::binary_cross_entropy": lambda args, result: _as_operand(0)(args, result) if result.dim() else result,
    **{
        f"aten::{name}": _in_format_of(0)
        for name in ("native_batch_norm", "native_group_norm", "pixel_shuffle", "channel_shuffle", "roll")
    },
    **{f"aten::{name}_pad2d": _in_format_of(0) for name in ("reflection", "replication")},
    **{f"aten::{name}_pad2d_backward": _in_format_of(1) for name in ("reflection", "replication")},
    "aten::native_group_norm_backward": _in_format_of(1),
    "aten::native_batch_norm_backward": lambda args, result: _in_format_of(1)(args, result) if args[-1][0] else None,
}
"""The layouts by operator; all other results keep their layout of the meta device."""


def laid_out(run: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """Return a function that runs an operator, and on the meta device gives its (first) result a layout."""

    def run_laid_out(*args: Any, **kwargs: Any) -> Any:
        result = run(*args, **kwargs)
        first = result if isinstance(result, Tensor) else result[0]
        if first is None or type(first) is not Tensor or not first.is_meta or 0 in first.shape:
            return result
        made = layout(args, first)
        return made if first is result else (made, *result[1:])

    return run_laid_out


WITHOUT_META_KERNEL = frozenset(("aten::_fused_sgd_", "aten::_fused_adagrad_", "aten::_fused_adamw_"))
"""Operators on lists of tensors that write to their operands, return nothing, and have no kernel for meta tensors."""


def unless_on_meta(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs an operator of :data:`WITHOUT_META_KERNEL`, and does nothing on meta tensors."""

    def run_unless_on_meta(parameters: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        if not any(parameter.is_meta for parameter in parameters):
            run(parameters, *args, **kwargs)

    return run_unless_on_meta
