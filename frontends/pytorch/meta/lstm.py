"""LSTM on the meta device, as a CPU computes it.

On the meta device PyTorch decomposes ``lstm`` into the operators of every time step. A CPU runs one operator of oneDNN
per layer and direction, which keeps a workspace for its backward pass, itself one operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

NAME = "aten::lstm"

RESERVE = "memory: the workspace that LSTM layers keep for their backward pass is estimated, by sizes of oneDNN 3.12"

STEPS = (
    "memory: an LSTM layer that oneDNN does not compute is trained by other operators on the meta device than on a CPU"
)

_LSTM_MODE = 2
_PAGE = 4096


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
    if not isinstance(hx, (list, tuple)) or len(hx) != 2 or not input.numel() or input.dim() != 3:
        return None
    if any(not x.is_meta for x in (input, *hx, *params)) or not _has_kernel((input, *hx, *params)):
        return None
    n_directions, n_weights = 2 if bidirectional else 1, 4 if has_biases else 2
    if len(params) != num_layers * n_directions * n_weights or not torch.backends.mkldnn.enabled:
        return None  # a projection has one more weight
    x = (input.transpose(0, 1) if batch_first else input).contiguous()  # which lives to the end
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
    """Return whether oneDNN computes an LSTM on these operands; autocast casts them all to one dtype."""
    if not torch._C._is_any_autocast_enabled():
        return all(x.dtype is torch.float32 for x in operands)
    dtype = operands[0].dtype
    return dtype is torch.float32 or (dtype is torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _no_biases(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return what a CPU passes for the biases of a layer without biases: zeros, as large as its weights."""
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
    """Return the gradients of one layer in one direction; those of the two biases each have their own memory."""
    shapes = input.shape, w0.shape, w1.shape, w0.shape[:1], w0.shape[:1], hx.shape, cx.shape
    return tuple(torch.empty(shape, device=input.device) for shape in shapes)


def workspace_size(steps: int, batch: int, features: int, hidden: int) -> int:
    """Return the bytes that oneDNN keeps of an LSTM layer for its backward pass.

    These are the gates and hidden states of all steps, and five arrays with the states of two layers at every step and
    before the first; each begins at a new page. The sizes were found by measuring oneDNN 3.12 on a CPU with AVX2, where
    they are exact.
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
    """Return the elements of a row that is padded to 64 bytes, and not a multiple of 1 KiB."""
    padded = -(-length // 16) * 16
    return padded + 16 if padded % 256 == 0 else padded
