"""Contractions written as torch.einsum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..loops import einsum
from ..probe import Probe

__all__ = ["PROBES"]


def _probe(name: str, equation: str, sizes: Mapping[str, int], derivation: str, what: str, **options: Any) -> Probe:
    """Return a probe of one einsum of two operands."""
    first, second = ([*map(sizes.__getitem__, letters)] for letters in equation.split("->")[0].split(","))

    def torch(b: Any) -> Any:
        return b.Fn(lambda self, p, q: b.torch.einsum(equation, p, q)), (b.x(*first), b.x(*second))

    def jax(b: Any) -> Any:
        return lambda p, q: b.jnp.einsum(equation, p, q), (b.x(*first), b.x(*second))

    def onnx(b: Any) -> Any:
        y = [sizes[letter] for letter in equation.split("->")[1]]
        return b.one("Einsum", {"a": first, "b": second}, {"y": y}, equation=equation)

    network = f"torch.einsum('{equation}') of {tuple(first)} and {tuple(second)}: {what}"
    tags = frozenset({"functional", "einsum"})
    loops = options.pop("loops", lambda: einsum(equation, sizes))
    return Probe(f"einsum.{name}", network, "macs", derivation, loops, torch, onnx, jax, tags=tags, **options)


PROBES = [
    _probe("product", "ik,kj->ij", {"i": 6, "k": 7, "j": 5}, "6 rows * 5 columns * 7 summed", "a matrix product"),
    _probe(
        "batched",
        "bik,bkj->bij",
        {"b": 3, "i": 4, "k": 5, "j": 6},
        "3 * 4 rows * 6 columns * 5 summed",
        "three of them",
    ),
    _probe(
        "scores",
        "bqhd,bkhd->bhqk",
        {"b": 2, "q": 4, "k": 5, "h": 3, "d": 6},
        "2 * 3 heads * 4 queries * 5 keys * 6 summed",
        "the scores of attention",
    ),
    _probe(
        "many_summed",
        "nchw,ochw->no",
        {"n": 2, "c": 3, "h": 4, "w": 5, "o": 6},
        "2 rows * 6 columns * 3 * 4 * 5 summed",
        "three axes are summed",
    ),
    _probe(
        "outer",
        "i,j->ij",
        {"i": 6, "j": 7},
        "0 summed",
        "nothing is summed, so nothing accumulates",
        loops=list,
        extras={"multiply": 42},
    ),
    _probe(
        "elementwise",
        "ij,ij->ij",
        {"i": 6, "j": 7},
        "0 summed",
        "products of pairs, which nothing accumulates",
        loops=list,
        extras={"multiply": 42},
    ),
    _probe("dot", "i,i->", {"i": 23}, "23 summed", "a dot product"),
    _probe(
        "vector", "bij,j->bi", {"b": 2, "i": 5, "j": 9}, "2 * 5 rows * 9 summed", "a matrix times a vector, batched"
    ),
    Probe(
        "einsum.three_operands",
        "torch.einsum('ij,jk,kl->il') of (2, 3), (3, 4) and (4, 5), from left to right as without an optimizer",
        "macs",
        "2 * 4 * 3 first + 2 * 5 * 4 second",
        lambda: [
            *einsum("ij,jk->ik", {"i": 2, "j": 3, "k": 4}),
            *einsum("ik,kl->il", {"i": 2, "k": 4, "l": 5}),
        ],
        torch=lambda b: (
            b.Fn(lambda self, p, q, r: b.torch.einsum("ij,jk,kl->il", p, q, r)),
            (b.x(2, 3), b.x(3, 4), b.x(4, 5)),
        ),
        tags=frozenset({"functional", "einsum"}),
    ),
]
