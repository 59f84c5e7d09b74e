"""Sequences divided over processes: each has a part of the tokens, and attention reads the keys of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import Module, functional
from torch.nn.functional import scaled_dot_product_attention

from costcore.errors import CostError

from ..capture.replacement import replace
from ..checkpointing import wrap_forward
from .differentiable import gathered

_TOKENS = -2
"""The axis of queries, keys and values along which tokens are."""


def share_sequence(blocks: Iterable[Module], group: Any) -> None:
    """Let attention in the blocks of a model read the keys and values of all processes of a group.

    The blocks then run on a part of the tokens. ``scaled_dot_product_attention`` gathers keys and values, as in Llama 3
    (arXiv:2407.21783, section 3.3.2); a ring sends the same bytes. Causal attention is balanced: each process has its
    own pairs, and half of those of its queries with the keys of all others.

    Args:
        blocks: the blocks, of a copy of a model.
        group: the group of processes.
    """
    for block in blocks:
        wrap_forward(block, partial(_with_keys_of_all, group))


def _with_keys_of_all(group: Any, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    n_calls = 0

    def attention(*args: Any, **kwargs: Any) -> Tensor:
        nonlocal n_calls
        n_calls += 1
        return _attention(group, *args, **kwargs)

    with ExitStack() as stack:
        replace(stack, functional, "scaled_dot_product_attention", attention)
        made = forward(*args, **kwargs)
    if not n_calls:
        raise CostError("a sequence can be divided in models whose blocks call scaled_dot_product_attention only")
    return made


def _attention(
    group: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Return attention of the local queries; of a mask, the columns of all keys are taken to be like the local ones."""
    n, own = group.size(), key.shape[_TOKENS]
    keys, values = (_of_all(each, group) for each in (key, value))
    if not is_causal:
        mask = attn_mask if attn_mask is None else attn_mask.repeat(*[1] * (attn_mask.dim() - 1), n)
        return scaled_dot_product_attention(query, keys, values, mask, dropout_p, **options)

    def part(start: int, size: int, causal: bool) -> Tensor:
        some_keys, some_values = keys.narrow(_TOKENS, start, size), values.narrow(_TOKENS, start, size)
        return scaled_dot_product_attention(query, some_keys, some_values, None, dropout_p, causal, **options)

    return part(0, own, True) + part(own, (n - 1) * own // 2, False)


def _of_all(x: Tensor, group: Any) -> Tensor:
    """Return the keys or values of all processes, the first axis of what is gathered joined with that of tokens."""
    return gathered(x.movedim(_TOKENS, 0), group).movedim(0, _TOKENS)
