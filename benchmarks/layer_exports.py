"""Compares the costs of single layers exported by PyTorch's exporters with their costs in PyTorch.

Run in the root of the repository, in an environment with onnxscript:
``python -m benchmarks.layer_exports [NAME ...] [--exporters newer older] [--by-op]``.

The layers are the modules of ``torch.nn`` in small sizes, and functions of ``torch`` that layers are written with. Each
is exported without constant folding. Prints one line per export whose totals differ (with ``regroup=True`` and
``layout="free"``, of the ONNX report minus the PyTorch report), then how many layers are equal in all five totals, by
every exporter that writes them at all. Exits with 1 if an export is refused.
"""

from __future__ import annotations

import argparse
import linecache
import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export_networks import Network
from benchmarks.exports import NOT_EXPORTED, Case, built, by_op, differences, exported
from costcore import CostError, estimate

COLUMNS = ("macs", "flops", "mread", "mwrite", "n_params")

Layer = tuple[Callable[[], nn.Module], tuple[Tensor, ...]]
"""The constructor of a layer, and its inputs."""

Layers = dict[str, Layer]


def written(expression: str, **inputs: Tensor) -> Layer:
    """Return a module whose ``forward`` returns the expression; exporters note its source line."""
    file = f"<forward of {expression}>"
    source = f"def forward(self, {', '.join(inputs)}):\n    {expression}\n"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    found: dict[str, Any] = {}
    exec(compile(source, file, "exec"), {"torch": torch, "F": functional}, found)
    return type("Written", (nn.Module,), found), tuple(inputs.values())


class First(nn.Module):
    """A module that ``call`` runs on the inputs, for modules that do not take separate tensors."""

    def __init__(self, module: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *inputs: Tensor) -> Any:
        return self.call(self.module, *inputs)


ROW, LINE, IMAGE, VIDEO = (2, 6), (2, 4, 12), (2, 4, 8, 8), (2, 4, 6, 6, 6)
BY_RANK = (LINE, IMAGE, VIDEO)


def _random(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.rand(shape, generator=generator) * 0.8 + 0.1 for shape in shapes)


def _by_rank(name: str, shapes: tuple[tuple[int, ...], ...] = BY_RANK, **settings: Any) -> Layers:
    return {
        f"{name}{i}d": (partial(getattr(nn, f"{name}{i}d"), **settings), _random(shape))
        for i, shape in enumerate(shapes, 1)
    }


def activations() -> Layers:
    """Return the activations."""
    plain = (
        *(
            "CELU",
            "ELU",
            "GELU",
            "GLU",
            "Hardshrink",
            "Hardsigmoid",
            "Hardswish",
            "Hardtanh",
            "LeakyReLU",
            "LogSigmoid",
        ),
        *("Mish", "PReLU", "ReLU", "ReLU6", "RReLU", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink"),
        *("Softsign", "Tanh", "Tanhshrink"),
    )
    found: Layers = {name: (getattr(nn, name), _random(IMAGE)) for name in plain}
    for name in ("Softmax", "Softmin", "LogSoftmax"):
        found[name] = partial(getattr(nn, name), dim=1), _random(IMAGE)
    return {
        **found,
        "GELU(tanh)": (partial(nn.GELU, "tanh"), _random(IMAGE)),
        "Softmax2d": (nn.Softmax2d, _random(IMAGE)),
        "Threshold": (partial(nn.Threshold, 0.1, 20.0), _random(IMAGE)),
        "PReLU(channels)": (partial(nn.PReLU, 4), _random(IMAGE)),
        "Softplus(beta)": (partial(nn.Softplus, 2.0), _random(IMAGE)),
        "ELU(alpha)": (partial(nn.ELU, 0.5), _random(IMAGE)),
    }


def convolutions() -> Layers:
    """Return convolutions, pooling and rearrangements of images."""
    sizes = {"in_channels": 4, "out_channels": 6, "kernel_size": 3}
    found: Layers = {
        **_by_rank("Conv", **sizes),
        **_by_rank("ConvTranspose", **sizes),
        **_by_rank("MaxPool", kernel_size=2),
        **_by_rank("AvgPool", kernel_size=2),
        **_by_rank("LPPool", norm_type=2, kernel_size=2),
        **_by_rank("AdaptiveAvgPool", output_size=2),
        **_by_rank("AdaptiveMaxPool", output_size=2),
        **_by_rank("ConstantPad", padding=1, value=0.5),
        **_by_rank("ZeroPad", padding=1),
        **_by_rank("ReflectionPad", padding=1),
        **_by_rank("ReplicationPad", padding=1),
        **_by_rank("CircularPad", padding=1),
    }
    for mode in ("circular", "reflect", "replicate"):
        padded = partial(nn.Conv2d, **sizes, padding=1, padding_mode=mode)
        found[f"Conv2d({mode})"] = padded, _random(IMAGE)
    for mode, shape in (
        *(("nearest", shape) for shape in BY_RANK),
        *(("linear", LINE), ("bilinear", IMAGE), ("bicubic", IMAGE), ("trilinear", VIDEO)),
    ):
        found[f"Upsample({mode}, {len(shape) - 2}d)"] = (
            partial(nn.Upsample, scale_factor=2.0, mode=mode),
            _random(shape),
        )
    return {
        **found,
        "Conv2d(groups)": (partial(nn.Conv2d, 4, 8, 3, groups=4, bias=False), _random(IMAGE)),
        "Conv2d(same)": (partial(nn.Conv2d, 4, 6, 3, padding="same", dilation=2), _random(IMAGE)),
        "AdaptiveAvgPool2d(uneven)": (partial(nn.AdaptiveAvgPool2d, 3), _random(IMAGE)),
        "Upsample(corners)": (
            partial(nn.Upsample, scale_factor=2.0, mode="bilinear", align_corners=True),
            _random(IMAGE),
        ),
        "Upsample(size)": (partial(nn.Upsample, size=(12, 12), mode="bilinear"), _random(IMAGE)),
        "UpsamplingNearest2d": (partial(nn.UpsamplingNearest2d, scale_factor=2), _random(IMAGE)),
        "UpsamplingBilinear2d": (partial(nn.UpsamplingBilinear2d, scale_factor=2), _random(IMAGE)),
        "Unfold": (partial(nn.Unfold, 3), _random(IMAGE)),
        "Unfold(padded)": (partial(nn.Unfold, 3, padding=1, stride=2), _random(IMAGE)),
        "Fold": (partial(nn.Fold, (8, 8), 2, stride=2), _random((2, 16, 16))),
        "PixelShuffle": (partial(nn.PixelShuffle, 2), _random(IMAGE)),
        "PixelUnshuffle": (partial(nn.PixelUnshuffle, 2), _random(IMAGE)),
        "ChannelShuffle": (partial(nn.ChannelShuffle, 2), _random(IMAGE)),
        "Flatten": (nn.Flatten, _random(IMAGE)),
        "Unflatten": (partial(nn.Unflatten, 1, (2, 2)), _random(IMAGE)),
        "MaxUnpool2d": (
            partial(First, nn.MaxUnpool2d(2), lambda m, x: m(*functional.max_pool2d(x, 2, return_indices=True))),
            _random(IMAGE),
        ),
    }


def normalizations() -> Layers:
    """Return normalizations and dropouts."""
    found: Layers = {
        **_by_rank("BatchNorm", num_features=4),
        **_by_rank("InstanceNorm", num_features=4),
        **_by_rank("Dropout"),
    }
    return {
        **found,
        "InstanceNorm2d(affine)": (partial(nn.InstanceNorm2d, 4, affine=True), _random(IMAGE)),
        "BatchNorm1d(rows)": (partial(nn.BatchNorm1d, 6), _random(ROW)),
        "BatchNorm2d(plain)": (partial(nn.BatchNorm2d, 4, affine=False), _random(IMAGE)),
        "LayerNorm": (partial(nn.LayerNorm, 8), _random(IMAGE)),
        "LayerNorm(plain)": (partial(nn.LayerNorm, (8, 8), elementwise_affine=False), _random(IMAGE)),
        "GroupNorm": (partial(nn.GroupNorm, 2, 4), _random(IMAGE)),
        "GroupNorm(plain)": (partial(nn.GroupNorm, 2, 4, affine=False), _random(IMAGE)),
        "RMSNorm": (partial(nn.RMSNorm, 8), _random(IMAGE)),
        "LocalResponseNorm": (partial(nn.LocalResponseNorm, 2), _random(IMAGE)),
        "CrossMapLRN2d": (partial(nn.CrossMapLRN2d, 2), _random(IMAGE)),
        "Dropout": (nn.Dropout, _random(IMAGE)),
        "AlphaDropout": (nn.AlphaDropout, _random(IMAGE)),
        "FeatureAlphaDropout": (nn.FeatureAlphaDropout, _random(IMAGE)),
    }


def _parametrized(make: Callable[[], nn.Module], parametrize: Callable[[nn.Module], nn.Module]) -> nn.Module:
    return parametrize(make())


def sequences() -> Layers:
    """Return linear, embedding, recurrent and attention layers."""
    tokens, steps = torch.arange(12).reshape(2, 6) % 10, _random((5, 2, 6))
    rows, states = _random((2, 6)), _random((2, 6), (2, 8), (2, 8))
    found: Layers = {}
    for name in ("RNN", "LSTM", "GRU"):
        found[name] = partial(getattr(nn, name), 6, 8), steps
        found[f"{name}(2 layers)"] = partial(getattr(nn, name), 6, 8, num_layers=2), steps
        found[f"{name}(bidirectional)"] = partial(getattr(nn, name), 6, 8, bidirectional=True), steps
        found[f"{name}(batch first)"] = partial(getattr(nn, name), 6, 8, batch_first=True), steps
    for name in ("RNNCell", "GRUCell"):
        found[name] = partial(getattr(nn, name), 6, 8), states[:2]
    x, block = _random((2, 5, 8)), {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "batch_first": True}

    def self_attention(module: nn.Module, given: Tensor) -> Any:
        return module(given, given, given, need_weights=False)[0]

    return {
        **found,
        "RNN(relu)": (partial(nn.RNN, 6, 8, nonlinearity="relu"), steps),
        "LSTMCell": (partial(First, nn.LSTMCell(6, 8), lambda m, x, h, c: m(x, (h, c))), states),
        "Linear": (partial(nn.Linear, 6, 8), rows),
        "Linear(no bias)": (partial(nn.Linear, 6, 8, bias=False), steps),
        "Linear(sequence)": (partial(nn.Linear, 6, 8), steps),
        "Bilinear": (partial(nn.Bilinear, 6, 8, 3), states[:2]),
        "Identity": (nn.Identity, rows),
        "weight_norm": (
            partial(_parametrized, partial(nn.Linear, 6, 8), nn.utils.parametrizations.weight_norm),
            rows,
        ),
        "Embedding": (partial(nn.Embedding, 10, 4), (tokens,)),
        "EmbeddingBag(sum)": (partial(nn.EmbeddingBag, 10, 4, mode="sum"), (tokens,)),
        "EmbeddingBag(mean)": (partial(nn.EmbeddingBag, 10, 4, mode="mean"), (tokens,)),
        "MultiheadAttention": (partial(First, nn.MultiheadAttention(8, 2, batch_first=True), self_attention), x),
        "MultiheadAttention(weights)": (
            partial(First, nn.MultiheadAttention(8, 2, batch_first=True), lambda m, x: m(x, x, x)),
            x,
        ),
        "TransformerEncoderLayer": (partial(nn.TransformerEncoderLayer, **block), x),
        "TransformerEncoderLayer(first)": (
            partial(nn.TransformerEncoderLayer, **block, norm_first=True, activation="gelu"),
            x,
        ),
        "TransformerDecoderLayer": (partial(nn.TransformerDecoderLayer, **block), x * 2),
        "TransformerEncoder": (
            partial(_encoder, **block),
            x,
        ),
        "Transformer": (partial(nn.Transformer, num_encoder_layers=1, num_decoder_layers=1, **block), x * 2),
    }


def _encoder(**block: Any) -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(**block), 2, enable_nested_tensor=False)


def losses() -> Layers:
    """Return distances and losses."""
    x, y = _random((4, 6), (4, 6))
    classes, signs, one = torch.arange(4) % 6, torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.rand(4)
    multi = torch.tensor([[3, 0, -1, 1, 2, 4]] * 4)
    found: Layers = {
        f"{name}Loss": (getattr(nn, f"{name}Loss"), (x, y))
        for name in (
            *("L1", "MSE", "BCE", "BCEWithLogits", "Huber", "SmoothL1", "PoissonNLL", "MultiLabelSoftMargin"),
            *("SoftMargin", "KLDiv"),
        )
    }
    for name in ("MSE", "BCE", "Huber"):
        found[f"{name}Loss(sum)"] = partial(getattr(nn, f"{name}Loss"), reduction="sum"), (x, y)
    return {
        **found,
        "MSELoss(none)": (partial(nn.MSELoss, reduction="none"), (x, y)),
        "CosineSimilarity": (nn.CosineSimilarity, (x, y)),
        "PairwiseDistance": (nn.PairwiseDistance, (x, y)),
        "CrossEntropyLoss": (nn.CrossEntropyLoss, (x, classes)),
        "NLLLoss": (nn.NLLLoss, (x, classes)),
        "GaussianNLLLoss": (nn.GaussianNLLLoss, (x, y, y + 0.1)),
        "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, (one, signs)),
        "MarginRankingLoss": (nn.MarginRankingLoss, (one, one * 2, signs)),
        "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, (x, y, signs)),
        "TripletMarginLoss": (nn.TripletMarginLoss, (x, y, x * 2)),
        "MultiLabelMarginLoss": (nn.MultiLabelMarginLoss, (x, multi)),
        "MultiMarginLoss": (nn.MultiMarginLoss, (x, classes)),
    }


def functions() -> Layers:
    """Return functions of ``torch`` that layers are written with."""
    x, y, z = _random(IMAGE, IMAGE, IMAGE)
    rows, columns, square = _random((3, 4, 6), (3, 6, 5), (3, 4, 5))
    grid = torch.rand(2, 5, 5, 2) * 2 - 1
    indices, heads = torch.randint(4, (2, 1, 8, 8)), _random(*[(2, 2, 5, 4)] * 3)
    unary = {
        "var": "torch.var(x, dim=1)",
        "var(all)": "x.var()",
        "std": "x.std((2, 3))",
        "var_mean": "torch.var_mean(x, dim=1)",
        "remainder": "x % 0.5",
        "fmod": "torch.fmod(x, 0.5)",
        "normalize": "F.normalize(x)",
        "cumsum": "x.cumsum(1)",
        "logsumexp": "torch.logsumexp(x, 1)",
        "norm": "torch.linalg.vector_norm(x, dim=1)",
        "amax": "x.amax(1)",
        "argmax": "x.argmax(1)",
        "topk": "torch.topk(x, 2, dim=1)",
        "prod": "x.prod(1)",
        "clamp": "x.clamp(0.2, 0.6)",
        "rsqrt": "x.rsqrt()",
        "expm1": "torch.expm1(x)",
        "log1p": "torch.log1p(x)",
        "log2": "torch.log2(x)",
        "square": "torch.square(x)",
        "pow": "x**3",
        "floor_divide": "torch.floor_divide(x, 0.3)",
        "roll": "torch.roll(x, 2, 1)",
        "flip": "torch.flip(x, (1,))",
        "index_select": "x.index_select(1, torch.tensor([2, 0]))",
        "repeat_interleave": "x.repeat_interleave(2, 1)",
        "tril": "torch.tril(x)",
        "bucketize": "torch.bucketize(x, torch.tensor([0.2, 0.5, 0.7]))",
    }
    binary = {
        "lerp(number)": "torch.lerp(x, y, 0.3)",
        "atan2": "torch.atan2(x, y)",
        "where": "torch.where(x > 0.5, x, y)",
        "masked_fill": "x.masked_fill(y > 0.5, 0.0)",
        "hypot": "torch.hypot(x, y)",
    }
    return {
        **{name: written(f"return {expression}", x=x) for name, expression in unary.items()},
        **{name: written(f"return {expression}", x=x, y=y) for name, expression in binary.items()},
        "slice update": written("x = x * 1; x[:, :, 1:, 1:] += y; return x", x=x, y=y[:, :, 1:, 1:]),
        "slice assignment": written("x = x * 1; x[:, :, 1:, 1:] = y; return x", x=x, y=y[:, :, 1:, 1:]),
        "lerp": written("return torch.lerp(x, y, z)", x=x, y=y, z=z),
        "addcdiv": written("return torch.addcdiv(x, y, z)", x=x, y=y, z=z),
        "addcdiv(value)": written("return torch.addcdiv(x, y, z, value=0.5)", x=x, y=y, z=z),
        "addcmul": written("return torch.addcmul(x, y, z)", x=x, y=y, z=z),
        "baddbmm": written("return torch.baddbmm(c, a, b)", c=square, a=rows, b=columns),
        "addmm": written("return torch.addmm(c, a, b)", c=square[0], a=rows[0], b=columns[0]),
        "bmm": written("return torch.bmm(a, b)", a=rows, b=columns),
        "einsum": written("return torch.einsum('bij,bjk->bik', a, b)", a=rows, b=columns),
        "gather": written("return torch.gather(x, 1, i)", x=x, i=indices),
        "grid_sample": written("return F.grid_sample(x, g, align_corners=False)", x=x, g=grid),
        "affine_grid": written("return F.affine_grid(t, [2, 4, 8, 8], align_corners=False)", t=_random((2, 2, 3))[0]),
        "one_hot": written("return F.one_hot(i, 5)", i=torch.arange(4)),
        "scaled_dot_product_attention": written(
            "return F.scaled_dot_product_attention(q, k, v)", **dict(zip("qkv", heads, strict=True))
        ),
        "causal attention": written(
            "return F.scaled_dot_product_attention(q, k, v, is_causal=True)", **dict(zip("qkv", heads, strict=True))
        ),
        "class tokens": written(
            "return torch.cat([t.expand(2, -1, -1), x], 1)", t=_random((1, 1, 6))[0], x=_random((2, 5, 6))[0]
        ),
        "cdist": written("return torch.cdist(a, b)", a=rows, b=_random((3, 5, 6))[0]),
    }


def layers() -> Layers:
    """Return all layers by name."""
    tables = (activations, convolutions, normalizations, sequences, losses, functions)
    return {name: layer for table in tables for name, layer in table().items()}


def main() -> int:
    """Print the exports that differ; return 1 if costcore refuses an export."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only layers whose name begins with one of these")
    parser.add_argument("--exporters", nargs="*", default=["newer", "older"], choices=["newer", "older"])
    parser.add_argument("--by-op", action="store_true", help="list the operators whose costs differ")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)  # exporters log what they try
    equal: dict[str, bool] = {}
    refused = exports = 0
    print(", ".join(("layer", "exporter", *COLUMNS)))
    for name, (make, inputs) in layers().items():
        if arguments.names and not name.startswith(tuple(arguments.names)):
            continue
        module = built(Network(make, dict))
        try:
            expected = estimate(module, inputs, layout="free")
        except CostError as error:
            print(f"  {name}: not counted in PyTorch: {error}"[:120], flush=True)
            continue
        for exporter in arguments.exporters:
            try:
                model = exported(module, {f"x{i}": x for i, x in enumerate(inputs)}, Case(exporter, "static", "no"))
            except NOT_EXPORTED as error:
                print(f"  {name}, {exporter}: not exported: {str(error).strip().splitlines()[0][:90]}", flush=True)
                continue
            exports += 1
            try:
                found = estimate(model, layout="free", regroup=True)
            except CostError as error:
                print(f"! {name}, {exporter}: {error}", flush=True)
                refused, equal[name] = refused + 1, False
                continue
            row: Mapping[str, int] = differences(found, expected, COLUMNS)
            equal[name] = equal.get(name, True) and not any(row.values())
            if any(row.values()):
                print(", ".join((f"  {name}", exporter, *(f"{value:+}" for value in row.values()))), flush=True)
                for line in by_op(found, expected) if arguments.by_op else ():
                    print(f"      {line}")
    print(f"{sum(equal.values())} of {len(equal)} layers are equal in {exports} exports; {refused} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
