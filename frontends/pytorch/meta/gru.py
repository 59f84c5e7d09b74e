"""GRU and plain recurrent layers on the meta device, as a CPU computes them.

A CPU multiplies the inputs of all time steps by their weights at once, before the first step. On the meta device,
PyTorch does so in every step, with other operators and other memory. The functions follow
``aten/src/ATen/native/RNN.cpp`` of PyTorch, also in what lives how long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import linear

Cell: TypeAlias = "Callable[[Tensor, Tensor, Sequence[Tensor]], Tensor]"
"""Returns the next state from the products of an input, the state, and the weights of a direction."""


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
    """Return the states after every step."""
    states = []
    for step in steps:
        state = cell(step, state, weights)
        states.append(state)
    return states


def _layer(cell: Cell, x: Tensor, first: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return the output of a layer, and its last state."""
    products = linear(x, *weights[::2])
    states = _steps(cell, products.unbind(0), first[0], weights)
    return torch.stack(states, 0), states[-1:]


def _two_directions(
    cell: Cell, x: Tensor, first: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Return the output of a layer in both directions, and its last states."""
    n = len(weights) // 2
    products = linear(x, *weights[:n:2])
    steps = products.unbind(0)
    states = _steps(cell, steps, first[0], weights[:n])
    y = torch.stack(states, 0)
    products = linear(x, *weights[n::2])
    steps = products.unbind(0)[::-1]
    back = _steps(cell, steps, first[1], weights[n:])
    return torch.cat((y, torch.stack(back[::-1], 0)), -1), [states[-1], back[-1]]


def stand_in(cell: Cell) -> Callable[..., tuple[Tensor, Tensor] | None]:
    """Return the function that runs layers of a cell."""

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
    """Return whether the layers can run: operands are on the meta device, and their shapes fit."""
    if any(not tensor.is_meta for tensor in (x, hx, *params)) or x.dim() != 3 or not x.numel() or hx.dim() != 3:
        return False
    same_dtype = x.dtype == params[0].dtype or torch._C._is_any_autocast_enabled()
    return bool(x.shape[2] == params[0].shape[1] and hx.shape[2] == params[1].shape[1] and same_dtype)


STAND_INS = {"aten::gru": stand_in(_gru), "aten::rnn_tanh": stand_in(_tanh), "aten::rnn_relu": stand_in(_relu)}
"""The functions by the name of the operator."""
