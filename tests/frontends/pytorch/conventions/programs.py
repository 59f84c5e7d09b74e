"""Small programs whose products FlopCounterMode counts in a way of its own: how to build each, and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint


class Program(nn.Module):
    """A function of this module and its inputs; ``p`` are its parameters, by their shapes."""

    def __init__(self, function: Callable[..., Any], shapes: Any = (), dtype: Any = None, **children: nn.Module):
        super().__init__()
        self._function = function
        self.p = nn.ParameterList([nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes])
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, *inputs: Any) -> Any:
        return self._function(self, *inputs)


PROGRAMS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {}


def add(name: str, build: Callable[[], nn.Module], *inputs: Any, dtype: Any = None) -> None:
    """Add a program; an input is a shape."""
    PROGRAMS[name] = build, tuple(torch.zeros(shape, dtype=dtype) for shape in inputs)


def product(
    name: str, function: Callable[..., Any], shapes: list[tuple[int, ...]], *inputs: Any, dtype: Any = None
) -> None:
    """Add a function of an input and parameters of these shapes."""
    add(name, lambda: Program(function, shapes, dtype), *inputs, dtype=dtype)


def convolutions() -> None:
    spatial = {1: (9,), 2: (7, 6), 3: (5, 4, 4)}
    for rank, sizes in spatial.items():
        for groups in (1, 2, 4):
            for kind in ("Conv", "ConvTranspose"):
                make = getattr(nn, f"{kind}{rank}d")

                def build(make: Any = make, groups: int = groups) -> nn.Module:
                    return nn.Sequential(make(4, 4, 2, groups=groups), make(4, 8, 3, groups=groups, stride=2))

                add(f"{kind}{rank}d of {groups} groups", build, (2, 4, *sizes))
    add("padding same", lambda: nn.Sequential(nn.Conv2d(4, 4, 3, padding="same", groups=2)), (2, 4, 8, 8))
    add("without batch", lambda: nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, groups=4)), (4, 8, 8))
    add("frozen weight", lambda: nn.Sequential(nn.Conv2d(4, 4, 1), frozen(nn.Conv2d(4, 4, 3, groups=2))), (2, 4, 8, 8))
    add("bias alone", lambda: only_bias(nn.Conv2d(4, 4, 3, groups=2)), (2, 4, 8, 8))
    twice = lambda: Program(twice_differentiated, [(2, 4, 8, 8)], c=nn.Conv2d(4, 4, 3, groups=2))  # noqa: E731
    add("double backward", twice, (2, 4, 8, 8))
    for name, function, weight in (
        ("conv1d", lambda s, x: F.conv1d(x, s.p[0], padding="same").abs(), (8, 4, 3)),
        ("conv2d", lambda s, x: F.conv2d(x, s.p[0], groups=2).abs(), (8, 2, 3, 3)),
        ("conv_transpose2d", lambda s, x: F.conv_transpose2d(x, s.p[0]).abs(), (4, 8, 3, 3)),
    ):
        product(f"complex {name}", function, [weight], (1, 4, *[8] * (len(weight) - 2)), dtype=torch.complex64)


def frozen(module: nn.Module) -> nn.Module:
    return module.requires_grad_(False)


def only_bias(module: Any) -> nn.Module:
    module.weight.requires_grad_(False)
    return module


def twice_differentiated(s: Any, x: Any) -> Any:
    with torch.enable_grad():
        return torch.autograd.grad(s.c(s.p[0] * x).tanh().sum(), s.p[0], create_graph=True)[0]


def products() -> None:
    add("linear of a vector", lambda: nn.Linear(8, 4), (8,))
    add("linear without bias", lambda: nn.Linear(8, 4, bias=False), (5, 2, 8))
    add("linear, strided", lambda: Program(lambda s, x: s.l(x.mT), l=nn.Linear(5, 4)), (2, 5, 8))
    add("bilinear", lambda: nn.Bilinear(4, 5, 6), (3, 4), (3, 5))
    complex_linear = partial(nn.Linear, 8, 4, dtype=torch.complex64)
    add("complex linear", lambda: Program(lambda s, x: s.l(x).abs(), l=complex_linear()), (3, 8), dtype=torch.complex64)
    product("linear with a vector as weight", lambda s, x: F.linear(x, s.p[0]), [(8,)], (3, 5, 8))
    ranks = {1: (8,), 2: (8, 3), 3: (2, 8, 3)}
    for x in ((8,), (5, 8), (2, 5, 8)):
        for rank, shape in ranks.items():
            product(f"matmul of {len(x)} and {rank} axes", lambda s, x: x @ s.p[0], [shape], x)
    product("vector before a batch", lambda s, x: s.p[0] @ x, [(5,)], (2, 5, 8))
    product("transposed batch before a vector", lambda s, x: s.p[0].mT @ x, [(2, 8, 3)], (8,))
    product("matmul, broadcast", lambda s, x: x @ s.p[0], [(3, 8, 3)], (2, 1, 5, 8))
    for name in ("mm", "matmul", "inner", "mv", "outer", "dot", "vdot", "kron", "tensordot", "bmm"):
        shapes = {"inner": [(3, 8)], "mv": [(8,)], "outer": [(8,)], "dot": [(8,)], "vdot": [(8,)], "bmm": [(2, 8, 3)]}
        x = {"outer": (5,), "dot": (8,), "vdot": (8,), "tensordot": (2, 8, 3), "bmm": (2, 5, 8)}.get(name, (5, 8))
        function = getattr(torch, name)
        product(f"torch.{name}", lambda s, x, f=function: f(x, s.p[0]), shapes.get(name, [(8, 3)]), x)
    product("torch.addmm", lambda s, x: torch.addmm(s.p[1], x, s.p[0], beta=0, alpha=2), [(8, 3), (3,)], (5, 8))
    product("torch.addmv", lambda s, x: torch.addmv(s.p[1], x, s.p[0]), [(8,), (5,)], (5, 8))
    product("torch.addr", lambda s, x: torch.addr(s.p[1], x, s.p[0]), [(8,), (5, 8)], (5,))
    product("torch.addbmm", lambda s, x: torch.addbmm(s.p[1], x, s.p[0]), [(2, 8, 3), (5, 3)], (2, 5, 8))
    product("torch.baddbmm", lambda s, x: torch.baddbmm(s.p[1], x, s.p[0]), [(2, 8, 3), (2, 5, 3)], (2, 5, 8))
    product("multi_dot", lambda s, x: torch.linalg.multi_dot([x, *s.p]), [(8, 3), (3, 9)], (5, 8))
    product("matrix_power", lambda s, x: torch.linalg.matrix_power(x * s.p[0], 5), [(4, 4)], (2, 4, 4))
    for name, x, y in (("matmul", (2, 5, 8), (8, 3)), ("mm", (5, 8), (8, 3)), ("bmm", (2, 5, 8), (2, 8, 3))):
        function = getattr(torch, name)
        product(f"complex {name}", lambda s, x, f=function: f(x, s.p[0]).abs(), [y], x, dtype=torch.complex64)
    add("spectral_norm", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4)), (3, 8))
    add("spectral product", lambda: Program(spectral_product, [(4, 6, 8, 5)], torch.complex64), (2, 4, 8, 8))
    add("checkpoint", lambda: Program(checkpointed, a=nn.Conv2d(4, 4, 3, groups=4), b=block()), (3, 4, 8, 8))


def spectral_product(s: Any, x: Any) -> Any:
    return torch.fft.irfft2(torch.einsum("bixy,ioxy->boxy", torch.fft.rfft2(x), s.p[0]))


def block() -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1))


def checkpointed(s: Any, x: Any) -> Any:
    return checkpoint(s.b, s.a(x), use_reentrant=False)


EINSUMS = (
    *("bij,bjk->bik", "ij,jk", "i,j->ij", "i,i->", "ij,j->i", "ij,ij->i", "bij,bj->bi", "bi,ij,jk->bk", "bij,bjk->bk"),
    *("...ij,...jk->...ik", "ij,kl->il", "ij,kj->", "abc,cd,de->abe", "a,b,c->abc", "bnm,bm,m->bn", "iij,jk->ik"),
    *("bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "blhn,bhpn,bclh->bcl", "bcln,bcsn,bhcls,bcshp->bclhp", "ab,bc,ca->"),
    *("nkctv,kvw->nctw", "bi,bi,bi->b", "ii->i", "i,j,k->", "b i j, b j k -> b i k"),
)
SIZES = {letter: 2 + i % 4 for i, letter in enumerate("abcdefhijklmnopqrstuvwxyz")}


def einsums() -> None:
    def contracted(s: Any, x: Any, equation: str) -> Any:
        return torch.einsum(equation, x * s.p[0], *s.p[1:])

    for equation in EINSUMS:
        terms = equation.partition("->")[0].replace(" ", "").replace("...", "bn").split(",")
        x, *shapes = [tuple(SIZES[letter] for letter in term) for term in terms]
        product(f"einsum {equation}", partial(contracted, equation=equation), [(), *shapes], x)
    rank_one = partial(contracted, equation="bij,bjk->bik")
    product("einsum over one element", rank_one, [(), (2, 1, 5)], (2, 3, 1))
    product("einsum of a broadcast batch", rank_one, [(), (1, 4, 5)], (2, 3, 4))
    function = lambda s, x: torch.einsum("bij,bjk->bik", x, s.p[0]).abs()  # noqa: E731
    product("einsum of complex numbers", function, [(2, 4, 5)], (2, 3, 4), dtype=torch.complex64)


def attention() -> None:
    def scaled(s: Any, x: Any, **options: Any) -> Any:
        return F.scaled_dot_product_attention(s.p[0] * x.mean(), s.p[1], s.p[2], **options)

    def masked(s: Any, x: Any) -> Any:
        return F.scaled_dot_product_attention(*s.p[:3], attn_mask=x)

    def by_kernels(s: Any, x: Any, *kernels: SDPBackend) -> Any:
        with sdpa_kernel([*kernels]):
            return scaled(s, x)

    q, one_head, two_heads = (2, 4, 6, 8), (2, 1, 6, 8), (2, 2, 6, 8)
    math, flash, efficient = SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
    for kernels in ((math,), (flash,), (efficient, math), (flash, math)):
        title = " or ".join(kernel.name for kernel in kernels)
        by_some = lambda s, x, kernels=kernels: by_kernels(s, x, *kernels)  # noqa: E731
        product(f"attention by {title}", by_some, [q, q, q], (1,))
    for name, shapes, options in (
        ("plain", [q, q, q], {}),
        ("causal", [q, q, q], {"is_causal": True}),
        ("dropout", [q, q, q], {"dropout_p": 0.5}),
        ("wider values", [q, q, (2, 4, 6, 12)], {}),
        ("grouped heads", [q, two_heads, two_heads], {"enable_gqa": True}),
        ("one grouped head", [q, one_head, one_head], {"enable_gqa": True}),
        ("one broadcast head", [q, one_head, one_head], {}),
        ("broadcast batch", [q, (1, 4, 6, 8), (1, 4, 6, 8)], {}),
        ("three axes", [(2, 6, 8)] * 3, {}),
        ("two axes", [(6, 8)] * 3, {}),
        ("five axes", [(2, 2, 2, 6, 8)] * 3, {}),
        ("other keys", [q, (2, 4, 9, 8), (2, 4, 9, 8)], {}),
    ):
        product(f"attention: {name}", partial(scaled, **options), shapes, (1,))
    for mask in ((6, 6), (2, 1, 6, 6), (2, 1, 1, 6)):
        product(f"attention: mask of {mask}", masked, [q, q, q], mask)
    product("attention: mask of three axes", masked, [two_heads] * 3, (2, 6, 6))
    learned = lambda s, x: F.scaled_dot_product_attention(s.p[0] * x, *s.p[1:3], attn_mask=s.p[3])  # noqa: E731
    product("attention: learned mask", learned, [q, q, q, (6, 6)], (1,))
    given_keys = lambda s, x: F.scaled_dot_product_attention(s.p[0], x, x)  # noqa: E731
    product("attention: given keys", given_keys, [two_heads], (2, 2, 9, 8))
    detached = lambda s, x: F.scaled_dot_product_attention(s.p[0] * x, s.p[1].detach(), s.p[2])  # noqa: E731
    product("attention: detached keys", detached, [q, q, q], (1,))
    given_queries = lambda s, x: F.scaled_dot_product_attention(x, s.p[0], s.p[0])  # noqa: E731
    product("attention: given queries", given_queries, [two_heads], (2, 2, 9, 8))
    transposed = lambda s, x: F.scaled_dot_product_attention(*(p.mT * 1 for p in s.p))  # noqa: E731
    product("attention: transposed", transposed, [(2, 4, 8, 6)] * 3, (1,))
    heads = lambda s, x: s.m(x, x, x, need_weights=False)[0]  # noqa: E731
    for first in (True, False):
        made = partial(nn.MultiheadAttention, 8, 2, batch_first=first)
        add(f"MultiheadAttention, batch_first={first}", lambda made=made: Program(heads, m=made()), (2, 5, 8))
    masked_heads()
    settings = {"dropout": 0.0, "batch_first": True}
    add("encoder layer", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8))
    add("decoder layer", lambda: nn.TransformerDecoderLayer(8, 2, 16, **settings), (2, 5, 8), (2, 6, 8))


def masked_heads() -> None:
    """Attention that PyTorch runs as one operator without gradients, unless a mask or a key prevents it."""

    def heads(s: Any, x: Any, weights: bool, masks: dict[str, torch.Tensor], is_causal: bool = False) -> Any:
        given = {name: mask.to(x.device) for name, mask in masks.items()}
        return s.m(x, x, x, need_weights=weights, is_causal=is_causal, **given)[0]

    bools = {"attn_mask": torch.ones(5, 5).triu(1).bool(), "key_padding_mask": torch.zeros(2, 5).bool()}
    floats = {name: torch.zeros(mask.shape) for name, mask in bools.items()}
    every_head = {"attn_mask": torch.zeros(4, 5, 5)}
    for weights in (True, False):
        for name, masks, options in (
            ("no mask", {}, {}),
            ("a mask of bool", {"attn_mask": bools["attn_mask"]}, {}),
            ("padding of bool", {"key_padding_mask": bools["key_padding_mask"]}, {}),
            ("both of bool", bools, {}),
            ("a mask of float", {"attn_mask": floats["attn_mask"]}, {}),
            ("padding of float", {"key_padding_mask": floats["key_padding_mask"]}, {}),
            ("both of float", floats, {}),
            ("a mask of every head", every_head, {}),
            ("a learned key", {}, {"add_bias_kv": True}),
            ("a key of zeros", {}, {"add_zero_attn": True}),
            ("an odd number of heads", {}, {"num_heads": 1}),
            ("dropout", {}, {"dropout": 0.5}),
        ):
            made = partial(nn.MultiheadAttention, **{"embed_dim": 8, "num_heads": 2, "batch_first": True} | options)
            run = partial(heads, weights=weights, masks=masks)
            title = f"MultiheadAttention with {name}, {weights=}"
            add(title, lambda made=made, run=run: Program(run, m=made()), (2, 5, 8))
    causal = partial(heads, weights=False, masks={"attn_mask": floats["attn_mask"]}, is_causal=True)
    made = partial(nn.MultiheadAttention, 8, 2, batch_first=True)
    add("causal MultiheadAttention", lambda made=made: Program(causal, m=made()), (2, 5, 8))
    masked = lambda s, x: s.m(x, src_mask=floats["attn_mask"].to(x.device))  # noqa: E731
    for activation in (nn.ReLU(), nn.GELU(), nn.SiLU()):
        layer = partial(nn.TransformerEncoderLayer, 8, 2, 16, activation=activation, batch_first=True)
        kind = type(activation).__name__
        add(f"encoder layer with {kind}", lambda layer=layer: layer(), (2, 5, 8))
        add(f"masked encoder layer with {kind}", lambda layer=layer: Program(masked, m=layer()), (2, 5, 8))
    frozen_mask = lambda s, x: F.scaled_dot_product_attention(s.p[0] * x, *s.p[1:3], attn_mask=s.m.weight)  # noqa: E731
    build = lambda: Program(frozen_mask, [(2, 4, 6, 8)] * 3, m=frozen(nn.Linear(6, 6)))  # noqa: E731
    add("attention: frozen mask", build, (1,))


def recurrent() -> None:
    outputs = lambda s, x: s.r(x)[0]  # noqa: E731
    stacked = lambda s, x: s.r(s.l(x))[0]  # noqa: E731
    packed = lambda s, x: s.r(nn.utils.rnn.pack_padded_sequence(x, [5, 3]))[0].data  # noqa: E731
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        both = partial(kind, 4, 4, 2, batch_first=True, bidirectional=True)
        add(f"{kind.__name__} in both directions", lambda make=both: Program(outputs, r=make()), (2, 5, 4))
        add(f"{kind.__name__} of two layers", lambda make=kind: Program(outputs, r=make(4, 4, 2)), (5, 2, 4))
        add(f"{kind.__name__} of a packed sequence", lambda make=kind: Program(packed, r=make(4, 6)), (5, 2, 4))
        add(f"{kind.__name__} after a linear layer", lambda make=kind: linear_before(stacked, make(4, 6)), (5, 2, 4))
    add("LSTM with a projection", lambda: Program(outputs, r=nn.LSTM(4, 6, 2, proj_size=3)), (5, 2, 4))
    add("frozen LSTM", lambda: linear_before(stacked, frozen(nn.LSTM(4, 6))), (5, 2, 4))
    double = lambda s, x: s.r(x.double())[0]  # noqa: E731
    add("LSTM of float64", lambda: Program(double, r=nn.LSTM(4, 6).double()), (5, 2, 4))
    learned_state = lambda s, x: s.r(x, (s.p[0], s.p[1]))[0]  # noqa: E731
    states = [(1, 2, 6), (1, 2, 6)]
    add("LSTM from a learned state", lambda: Program(learned_state, states, r=nn.LSTM(4, 6)), (5, 2, 4))
    add("LSTMCell", lambda: Program(lambda s, x: s.r(x, s.r(x))[0], r=nn.LSTMCell(4, 6)), (2, 4))


def linear_before(function: Callable[..., Any], layer: nn.Module) -> nn.Module:
    return Program(function, l=nn.Linear(4, 4), r=layer)


for _family in (convolutions, products, einsums, attention, recurrent):
    _family()
