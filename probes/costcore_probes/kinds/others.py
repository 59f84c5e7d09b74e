"""Experts, complex, sparse and quantized products, and layers without matrix products."""

from __future__ import annotations

from typing import Any

from ..loops import conv, einsum, linear
from ..probe import Probe

__all__ = ["PROBES"]

FUNCTIONAL = frozenset({"functional"})


def _none(name: str, network: str, layer: Any, **extras: int) -> Probe:
    """Return a probe of a layer without matrix products. ``layer`` returns the layer and its inputs."""
    return Probe(
        f"no_products.{name}", f"{network}: no product of matrices", "macs", "0", list, torch=layer, extras=extras
    )


def _experts(b: Any, count: int, top: int, dense: bool) -> Any:
    """Return ``count`` experts, Linear(6, 5). Each token takes ``top`` of them in turn, or all if ``dense``."""

    def forward(self: Any, x: Any) -> Any:
        y = x.new_zeros(x.shape[0], 5)
        chosen = (b.torch.arange(x.shape[0]).view(-1, 1) + b.torch.arange(top)) % count
        for i, expert in enumerate(self.experts):
            rows = b.torch.arange(x.shape[0]) if dense else (chosen == i).any(-1).nonzero().view(-1)
            y = y.index_add(0, rows, expert(x[rows]))
        return y

    experts = b.nn.ModuleList(b.nn.Linear(6, 5, bias=False) for _ in range(count))
    return b.Fn(forward, experts=experts), (b.x(8, 6),)


def _complex(b: Any, *shape: int) -> Any:
    return b.x(*shape, dtype=b.torch.complex64)


PROBES = [
    Probe(
        "experts.two_of_four",
        "8 tokens, each routed to 2 of 4 experts Linear(6, 5) without biases",
        "macs",
        "8 tokens * 2 experts * 6 * 5",
        lambda: linear(16, 6, 5),
        torch=lambda b: _experts(b, 4, 2, False),
    ),
    Probe(
        "experts.one_of_four",
        "8 tokens, each routed to one of 4 experts Linear(6, 5) without biases",
        "macs",
        "8 tokens * 6 * 5",
        lambda: linear(8, 6, 5),
        torch=lambda b: _experts(b, 4, 1, False),
    ),
    Probe(
        "experts.dense",
        "8 tokens that all of 4 experts Linear(6, 5) without biases compute",
        "macs",
        "8 tokens * 4 experts * 6 * 5",
        lambda: linear(32, 6, 5),
        torch=lambda b: _experts(b, 4, 4, True),
    ),
    Probe(
        "experts.batched",
        "experts as one torch.bmm: 4 experts (6, 5) on 3 tokens each",
        "macs",
        "4 experts * 3 tokens * 6 * 5",
        lambda: einsum("eti,eio->eto", {"e": 4, "t": 3, "i": 6, "o": 5}),
        torch=lambda b: (b.Fn(lambda self, x: b.torch.bmm(x, self.w), w=b.x(4, 6, 5)), (b.x(4, 3, 6),)),
        tags=FUNCTIONAL,
    ),
    Probe(
        "experts.params",
        "4 experts Linear(6, 5) without biases, of which each token takes 2: all are stored",
        "params",
        "4 experts * 6 * 5",
        lambda: [*linear(4, 6, 5)],
        torch=lambda b: _experts(b, 4, 2, False),
    ),
    Probe(
        "complex.matmul",
        "a @ b of complex (4, 6) and (6, 5): a complex product is four real ones",
        "macs",
        "4 real * 4 * 5 * 6",
        lambda: [*einsum("ik,kj->ij", {"i": 4, "k": 6, "j": 5})] * 4,
        torch=lambda b: (b.Fn(lambda self, p, q: p @ q), (_complex(b, 4, 6), _complex(b, 6, 5))),
        tags=FUNCTIONAL,
    ),
    Probe(
        "complex.bmm",
        "torch.bmm of complex (2, 4, 6) and (2, 6, 5): a complex product is four real ones",
        "macs",
        "4 real * 2 * 4 * 5 * 6",
        lambda: [*einsum("bik,bkj->bij", {"b": 2, "i": 4, "k": 6, "j": 5})] * 4,
        torch=lambda b: (b.Fn(lambda self, p, q: b.torch.bmm(p, q)), (_complex(b, 2, 4, 6), _complex(b, 2, 6, 5))),
        tags=FUNCTIONAL,
    ),
    Probe(
        "dtypes.half",
        "nn.Linear(8, 4) without bias in bfloat16 on 5 rows",
        "macs",
        "5 rows * 4 * 8",
        lambda: linear(5, 8, 4),
        torch=lambda b: (b.nn.Linear(8, 4, bias=False).bfloat16(), (b.x(5, 8, dtype=b.torch.bfloat16),)),
    ),
    Probe(
        "dtypes.double",
        "nn.Conv2d(3, 4, 3) without bias in float64 on 6 × 6",
        "macs",
        "4 * 4 * 4 places * 3 * 3 * 3",
        lambda: conv(1, 3, 4, (6, 6), (3, 3)),
        torch=lambda b: (b.nn.Conv2d(3, 4, 3, bias=False).double(), (b.x(1, 3, 6, 6, dtype=b.torch.float64),)),
    ),
    Probe(
        "dtypes.autocast",
        "nn.Linear(8, 4) without bias under torch.autocast('cpu') on 5 rows",
        "macs",
        "5 rows * 4 * 8",
        lambda: linear(5, 8, 4),
        torch=lambda b: (b.autocast(b.nn.Linear(8, 4, bias=False)), (b.x(5, 8),)),
    ),
    Probe(
        "dtypes.integer",
        "a @ b of int64 (4, 6) and (6, 5): arithmetic counts whatever the type",
        "macs",
        "4 * 5 * 6",
        lambda: einsum("ik,kj->ij", {"i": 4, "k": 6, "j": 5}),
        torch=lambda b: (b.Fn(lambda self, p, q: p @ q), (b.x(4, 6).long(), b.x(6, 5).long())),
        tags=FUNCTIONAL,
    ),
    Probe(
        "quantized.int_mm",
        "torch._int_mm of int8 (32, 16) and (16, 8)",
        "macs",
        "32 * 8 * 16",
        lambda: einsum("ik,kj->ij", {"i": 32, "k": 16, "j": 8}),
        torch=lambda b: (b.Fn(lambda self, p, q: b.torch._int_mm(p, q)), (b.x(32, 16).char(), b.x(16, 8).char())),
        tags=FUNCTIONAL,
    ),
    Probe(
        "quantized.onnx_matmul",
        "MatMulInteger of uint8 (4, 6) and a weight (6, 5)",
        "macs",
        "4 * 5 * 6",
        lambda: einsum("ik,kj->ij", {"i": 4, "k": 6, "j": 5}),
        onnx=lambda b: b.integer("MatMulInteger", (4, 6), (6, 5), (4, 5)),
    ),
    Probe(
        "quantized.onnx_conv",
        "ConvInteger of uint8 (1, 3, 6, 6) and a weight (4, 3, 3, 3)",
        "macs",
        "4 * 4 * 4 places * 3 * 3 * 3",
        lambda: conv(1, 3, 4, (6, 6), (3, 3)),
        onnx=lambda b: b.integer("ConvInteger", (1, 3, 6, 6), (4, 3, 3, 3), (1, 4, 4, 4)),
    ),
    _none(
        "embedding",
        "nn.Embedding(50, 8) on (2, 5) tokens",
        lambda b: (b.nn.Embedding(50, 8), (b.ids(2, 5, below=50),)),
        table_per_item=800,
    ),
    _none(
        "embedding_bag",
        "nn.EmbeddingBag(50, 8), a mean of 5 rows",
        lambda b: (b.nn.EmbeddingBag(50, 8), (b.ids(2, 5, below=50),)),
        table_per_item=800,
    ),
    _none(
        "batch_norm",
        "nn.BatchNorm2d(7) in evaluation mode on (2, 7, 3, 3)",
        lambda b: (b.nn.BatchNorm2d(7).eval(), (b.x(2, 7, 3, 3),)),
        batch_norm_eval=126,
        norm_params_per_item=28,
    ),
    _none(
        "layer_norm",
        "nn.LayerNorm(9) on (2, 4, 9)",
        lambda b: (b.nn.LayerNorm(9), (b.x(2, 4, 9),)),
        layer_norm=72,
        norm_params_per_item=36,
    ),
    _none("relu", "nn.ReLU on (2, 9)", lambda b: (b.nn.ReLU(), (b.x(2, 9),)), relu=18),
    _none(
        "max_pool",
        "nn.MaxPool2d(2) on (1, 3, 4, 6)",
        lambda b: (b.nn.MaxPool2d(2), (b.x(1, 3, 4, 6),)),
        max_pool_inputs=72,
        max_pool_row_comparisons=18,
    ),
    _none(
        "avg_pool",
        "nn.AvgPool2d(2) on (1, 3, 4, 6)",
        lambda b: (b.nn.AvgPool2d(2), (b.x(1, 3, 4, 6),)),
        avg_pool_inputs=72,
        avg_pool_outputs=18,
        avg_pool_row_additions=54,
    ),
    _none(
        "global_pool",
        "nn.AdaptiveAvgPool2d(1) on (1, 3, 4, 6)",
        lambda b: (b.nn.AdaptiveAvgPool2d(1), (b.x(1, 3, 4, 6),)),
        global_pool_inputs=72,
        global_pool_outputs=3,
        avg_pool_inputs=72,
    ),
    _none(
        "upsample_nearest",
        "nn.Upsample(scale_factor=2) on (1, 3, 4, 5)",
        lambda b: (b.nn.Upsample(scale_factor=2), (b.x(1, 3, 4, 5),)),
        nearest_outputs=240,
    ),
    _none(
        "upsample_bilinear",
        "F.interpolate to (8, 10), bilinear, on (1, 3, 4, 5)",
        lambda b: (b.Fn(lambda self, x: b.F.interpolate(x, (8, 10), mode="bilinear")), (b.x(1, 3, 4, 5),)),
        bilinear_outputs=240,
    ),
    _none("pixel_shuffle", "nn.PixelShuffle(2) on (1, 8, 3, 4)", lambda b: (b.nn.PixelShuffle(2), (b.x(1, 8, 3, 4),))),
    _none(
        "fft", "torch.fft.fft of 4 rows of 16", lambda b: (b.Fn(lambda self, x: b.torch.fft.fft(x).real), (b.x(4, 16),))
    ),
    _none(
        "concat",
        "torch.cat of two (4, 9)",
        lambda b: (b.Fn(lambda self, p, q: b.torch.cat([p, q])), (b.x(4, 9), b.x(4, 9))),
    ),
    _none(
        "residual", "x + relu(x) of (4, 9)", lambda b: (b.Fn(lambda self, x: x + b.F.relu(x)), (b.x(4, 9),)), relu=36
    ),
    _none("cumsum", "torch.cumsum of 4 rows of 9", lambda b: (b.Fn(lambda self, x: x.cumsum(-1)), (b.x(4, 9),))),
    _none("sort", "torch.sort of 4 rows of 9", lambda b: (b.Fn(lambda self, x: x.sort(-1)[0]), (b.x(4, 9),))),
]
