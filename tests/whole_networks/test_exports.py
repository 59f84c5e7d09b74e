"""Exports of networks by PyTorch's own exporters have the costs of the networks in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from costcore import Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    from torch import nn
    from torch.nn import functional

    from tests.whole_networks import exporter_edge_cases, pytorch_models
    from tests.whole_networks.exporters import EXPORTERS, all_different, export
    from tests.whole_networks.pytorch_models import Attention, Bert, Encoder, Residual, UNet, ViT, conv

    class Masked(nn.Module):
        """Self-attention that is causal, or has a mask of bools or floats."""

        def __init__(self, mask: str) -> None:
            super().__init__()
            self.mask, self.project = mask, nn.Linear(16, 48)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n, t, width = x.shape
            q, k, v = self.project(x).view(n, t, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
            mask = None if self.mask == "causal" else x[:, None, None, :, 0]
            mask = mask > 0 if self.mask == "bool" else mask
            return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.mask == "causal")

    class Grouped(nn.Module):
        """Grouped-query attention: four query heads, two key and value heads."""

        def __init__(self, scale: float | None = None) -> None:
            super().__init__()
            self.options: dict[str, Any] = {"scale": scale, "enable_gqa": True}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = x.unflatten(-1, (4, 4)).transpose(1, 2)
            return functional.scaled_dot_product_attention(heads, heads[:, :2], heads[:, 2:], **self.options)

    class Unscaled(nn.Module):
        """Attention with the scale 1, as one call or as its products."""

        def __init__(self, kind: str) -> None:
            super().__init__()
            self.kind = kind

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q = x.unflatten(-1, (4, 4)).transpose(1, 2)
            if self.kind == "products":
                return (q @ q.transpose(-1, -2)).softmax(-1) @ q
            mask = None if self.kind == "no mask" else x[:, None, None, :, 0]
            mask = mask.bool() if mask is not None and self.kind == "bool" else mask
            return functional.scaled_dot_product_attention(q, q, q, mask, scale=1.0)

    class Normed(nn.Module):
        """RMS normalization as a module, and as a function."""

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.weight = nn.RMSNorm(16), nn.Parameter(torch.ones(16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.rms_norm(self.norm(x), (16,), self.weight)

    class Assigned(nn.Module):
        """A bias in which rows, columns, blocks and single elements are assigned."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            bias = x.new_zeros(16, 16)
            self.mark(bias, x[0])
            bias[:, 2] = x[0, 0]
            bias[1, 1:] = x[0, 0, 1:]
            return x + bias + torch.arange(16, dtype=x.dtype)

        def mark(self, bias: torch.Tensor, x: torch.Tensor) -> None:
            for i, rows in enumerate((slice(0, -4), slice(-4, -2), slice(-2, None))):
                bias[rows, 1:-3:2] = i
                bias[rows] = x[rows]
            bias[3] = 1.0

    def small_resnet() -> nn.Module:
        def bottleneck(cin: int, width: int, stride: int) -> nn.Module:
            steps = conv(cin, width), conv(width, width, 3, stride=stride), conv(width, 4 * width, act=None)
            return Residual(nn.Sequential(*steps), conv(cin, 4 * width, act=None, stride=stride), nn.ReLU())

        body = conv(3, 8, 7, stride=2), nn.MaxPool2d(3, 2, 1), bottleneck(8, 8, 1), bottleneck(32, 16, 2)
        return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    class Decoder(nn.Module):
        """Cross-attention whose projections are slices of one weight and one bias."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x, x[:, 1::2])

    def activations() -> nn.Module:
        """Return a network of layers that are composed of several operators in older opsets."""
        layers = nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.GroupNorm(4, 8), nn.Hardswish(), nn.Hardsigmoid(), nn.ELU()
        return nn.Sequential(nn.Conv2d(3, 8, 3), *layers)

    IMAGE, WORDS, ROWS = torch.zeros(2, 3, 32, 32), torch.zeros(2, 16, dtype=torch.int64), torch.zeros(2, 16, 16)
    NETWORKS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
        "resnet": (small_resnet, IMAGE),
        "mobilenet_v2": (pytorch_models.NETWORKS["mobilenet_v2"].build, IMAGE),
        "mobilenet_v3": (pytorch_models.NETWORKS["mobilenet_v3_large"].build, IMAGE),
        "unet": (lambda: UNet(4), torch.zeros(1, 3, 64, 64)),
        "activations": (activations, IMAGE),
        "vit": (lambda: ViT(32, 8, 32, 2, 4), IMAGE),
        "bert": (Bert, WORDS),
        "encoder": (Encoder, WORDS),
        "attention": (lambda: Attention(16, 4), ROWS),
        "causal": (lambda: Masked("causal"), ROWS),
        "bool mask": (lambda: Masked("bool"), ROWS),
        "float mask": (lambda: Masked("float"), ROWS),
        "decoder": (Decoder, ROWS),
        "weight norm": (lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 8, 3))), ROWS),
        "layer norm": (lambda: nn.Sequential(nn.LayerNorm(16), nn.LayerNorm((16, 16))), ROWS),
        **exporter_edge_cases.NETWORKS,
    }
    VERSIONS = {"older": (16, 20), "newer": (18, 20)}
    SYMBOLIC = ("resnet", "vit", "bert", "causal", *exporter_edge_cases.NETWORKS)
else:
    NETWORKS, VERSIONS, SYMBOLIC, EXPORTERS = {}, {}, (), ()

PLAIN = ("macs", "n_params", "n_params_model")
TOTALS = (*PLAIN, "flops", "mread", "mwrite")


@cache
def network(name: str) -> Any:
    return all_different(NETWORKS[name][0]())


@cache
def exported(name: str, exporter: str, opset: int = 18, batch: str = "", folded: bool = False) -> bytes:
    return export(network(name), (NETWORKS[name][1],), exporter, opset, batch, folded)


def both(name: str, model: bytes, **options: Any) -> tuple[Report, Report]:
    return estimate(network(name), NETWORKS[name][1], layout="free"), estimate(model, layout="free", **options)


CASES = [
    (name, exporter, opset)
    for name in NETWORKS
    for exporter in EXPORTERS
    for opset in ((18,) if name in exporter_edge_cases.NETWORKS else VERSIONS[exporter])
]
"""Every network with every exporter; those of this file with an old and a new opset."""

each = pytest.mark.parametrize(("name", "exporter", "opset"), CASES)


def differing(first: Report, second: Report, names: tuple[str, ...] = TOTALS) -> dict[str, int]:
    """Return the totals that differ, and by how much."""
    differences = {name: second.total_report[name] - first.total_report[name] for name in names}
    return {name: difference for name, difference in differences.items() if difference != 0}


@each
def test_products_and_parameters_are_equal_without_regrouping(name, exporter, opset):
    torch_report, onnx_report = both(name, exported(name, exporter, opset))
    assert differing(torch_report, onnx_report, PLAIN) == {}
    assert not onnx_report.ignored_layers


@each
def test_operations_and_bytes_are_equal_with_regrouping(name, exporter, opset):
    torch_report, onnx_report = both(name, exported(name, exporter, opset), regroup=True)
    assert differing(torch_report, onnx_report) == expected_difference(name, exporter)


def total(*differences: dict[str, int]) -> dict[str, int]:
    """Return the sum of several differences."""
    sums = {name: sum(each.get(name, 0) for each in differences) for name in TOTALS}
    return {name: value for name, value in sums.items() if value != 0}


def newer_only() -> dict[str, tuple[Any, Any]]:
    """Return the networks that the older exporter rejects or computes in another precision."""
    return {
        "grouped heads": (Grouped(), ROWS),
        "rms norm": (Normed(), ROWS),
        "causal in bfloat16": (Masked("causal").bfloat16(), ROWS.bfloat16()),
        "causal in float16": (Masked("causal").half(), ROWS.half()),
        "assigned": (Assigned(), ROWS),
        "uneven windows": (nn.Sequential(*map(nn.AdaptiveAvgPool2d, ((20, 7), (12, 6), (5, 9)))), IMAGE),
        "uneven windows of rows": (nn.Sequential(nn.AdaptiveAvgPool1d(7), nn.AdaptiveAvgPool1d(5)), ROWS),
        "windows of many places": (nn.AdaptiveAvgPool2d(7), torch.zeros(1, 2, 33, 33)),
    }


NEWER_ONLY = (
    *("grouped heads", "rms norm", "causal in bfloat16", "causal in float16"),
    *("assigned", "uneven windows", "uneven windows of rows", "windows of many places"),
)


@pytest.mark.parametrize("name", NEWER_ONLY)
def test_networks_of_the_newer_exporter_are_equal_with_regrouping(name):
    module, x = newer_only()[name]
    content = export(module.eval(), (x,), "newer", 18)
    assert differing(estimate(module, x, layout="free"), estimate(content, layout="free", regroup=True)) == {}


def test_uneven_windows_are_recognized_by_stored_indices():
    module, x = newer_only()["uneven windows of rows"]
    content = export(module.eval(), (x,), "newer", 18, folded=True)
    assert differing(estimate(module, x, layout="free"), estimate(content, layout="free", regroup=True)) == {}


@pytest.mark.parametrize("kind", ["no mask", "bool", "float", "grouped", "grouped and scaled"])
def test_attention_with_the_scale_one_is_recognized_in_default_exports(kind):
    module = Grouped(2.0 if "scaled" in kind else 1.0) if "grouped" in kind else Unscaled(kind)
    report = estimate(export(module.eval(), (ROWS,), "newer", 18, folded=True), layout="free", regroup=True)
    assert differing(estimate(module, ROWS, layout="free"), report) == {}
    assert "attention" in report.by("op")


@pytest.mark.parametrize("folded", [False, True])
def test_products_that_the_program_wrote_out_are_no_attention(folded):
    module = Unscaled("products").eval()
    report = estimate(export(module, (ROWS,), "newer", 18, folded=folded), layout="free", regroup=True)
    assert differing(estimate(module, ROWS, layout="free"), report) == {}
    assert "attention" not in report.by("op")


POSITIONS = {"mwrite": -8 * 16}
"""PyTorch computes the positions 0 .. 15 by ``arange``; the older exporter stores them."""

JOINED_AT_ONCE = {"mread": -4 * 2 * 8 * 64, "mwrite": -4 * 2 * 8 * 64}
"""Nested concatenations are exported as one: PyTorch concatenates 8 channels of 8 x 8, batch 2, separately."""

REGIONS = tuple((height, width) for height in (4, 2, 2) for width in (4, 2, 2))
"""The regions that are filled one after another in 8 x 8 zeros: PyTorch writes 4 * 64 bytes twice."""


def assigned_by_indices() -> dict[str, int]:
    """Return the difference of the older exporter: it scatters each region into a copy, at pairs of int64 indices.

    What it scatters is one number, expanded and read once; the zeros of the first 4 x 4 elements are a constant.
    """
    mread = sum(4 * 64 + 2 * 8 * height * width for height, width in REGIONS) + 4 * 4 * 4 + 8 * 4
    return {"mread": mread, "mwrite": 9 * 4 * 64 - 2 * 4 * 64}


def computed_indices() -> dict[str, int]:
    """Return the further difference with symbolic sizes: indices and zeros are computed at run time.

    It counts up all 8 rows and all 8 columns, adds those of the region to each other, expands and concatenates them as
    pairs, which reads each row and column once. What it scatters is computed, 64 elements in all, and read in full.
    """
    rows_and_columns = sum(8 * (height + width) for height, width in REGIONS)
    counted = {"mwrite": 9 * 2 * 8 * 8 + 4 * 64 + 4 * 64}
    added = {"flops": 64, "mread": rows_and_columns, "mwrite": 8 * 64}
    in_full = {"mread": 4 * 64 - 4 * 4 * 4 - 8 * 4}
    return total(counted, added, in_full, {"mread": rows_and_columns, "mwrite": 2 * 8 * 64})


def expected_difference(name: str, exporter: str, batch: str = "") -> dict[str, int]:
    """Return the expected difference from PyTorch without constant folding."""
    match name, exporter:
        case "bert", _:
            return POSITIONS if exporter == "older" and not batch else {}
        case "blocks", "older":
            return JOINED_AT_ONCE
        case "shifted swin", "older":
            return total(assigned_by_indices(), computed_indices() if batch else {})
    return {}


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", SYMBOLIC)
def test_a_symbolic_batch_gives_equal_costs(name, exporter):
    model = exported(name, exporter, 18, "batch")
    torch_report, onnx_report = both(name, model, regroup=True)
    assert {str(symbol) for symbol in onnx_report.total_report["flops"].free_symbols} == {"batch"}
    expected = expected_difference(name, exporter, "batch")
    assert differing(torch_report, onnx_report.subs(batch=2)) == expected
    assert differing(torch_report, estimate(model, layout="free", regroup=True, dims={"batch": 2})) == expected
    assert differing(torch_report, estimate(model, layout="free").subs(batch=2), PLAIN) == {}


NORMS = {
    "resnet": ((8, 16 * 16), (96, 8 * 8), (144, 4 * 4)),
    "densenet": ((18, 16 * 16),),
    "blocks": ((84, 8 * 8),),
    "film": ((8, 4 * 8 * 8),),
}
"""Channels of the norms that follow a convolution, and the elements per channel (in dense layers, norms precede)."""


def norms_folded(name: str, report: Report) -> dict[str, int]:
    """Return the difference if norms are folded: each is replaced by a bias of its convolution."""
    norms = NORMS.get(name, ())
    if name.startswith("mobilenet"):
        layers = [call.layer for call in report.calls if call.layer.op == "batch_norm"]
        assert len(layers) == {"mobilenet_v2": 52, "mobilenet_v3": 46}[name]
        norms = [(layer["w"].size, layer["x"].size // layer["w"].size // 2) for layer in layers]
    channels, elements = sum(c for c, _ in norms), sum(2 * c * places for c, places in norms)
    return {
        **dict.fromkeys(("n_params", "n_params_model"), -channels),
        "flops": -elements,
        "mread": -4 * (elements + 2 * channels) + 4 * channels,
        "mwrite": -4 * elements,
    }


def stored(count: int) -> dict[str, int]:
    """Return the difference of ``count`` more stored numbers, which look like parameters."""
    return {"n_params": count, "n_params_model": count}


def biases_folded() -> dict[str, int]:
    """Return the difference if the 7 x 7 biases of 2 heads are gathered in advance for the 16 x 16 pairs."""
    return {**stored(2 * 16 * 16 - 2 * 7 * 7), "mread": -(4 * 2 + 8) * 16 * 16, "mwrite": -4 * 2 * 16 * 16}


def compared_once() -> dict[str, int]:
    """Return the difference if ``!=`` of 4 x 16 x 16 pairs negates a stored ``==``: it reads bytes, not numbers."""
    return {"mread": 4 * 16 * 16 * (1 - 4)}


def assigned_by_axes() -> dict[str, int]:
    """Return the difference if the values are stored as constants: an assignment then looks like a copy.

    Each region is scattered into a copy of its rows (by columns), and these into a copy of the whole.
    """
    mread = sum(4 * 8 * height + 8 * width + 4 * height * width for height, width in REGIONS)
    mread += sum(4 * 64 + 8 * height + 4 * 8 * height for height, _ in REGIONS)
    mwrite = sum(4 * 8 * height + 4 * 64 for height, _ in REGIONS)
    return {"mread": mread, "mwrite": mwrite - 4 * 64}


def folding(name: str, exporter: str, report: Report) -> dict[str, int]:
    """Return the difference that constant folding, the default of both exporters, makes."""
    match name, exporter:
        case "bert", _:
            # 16 of 64 positions of 64 numbers are gathered; the older exporter also stores the tied words transposed
            looked_up = {"mread": -(4 * 64 + 8) * 16, "mwrite": -4 * 64 * 16}
            words = stored(1000 * 64) if exporter == "older" else POSITIONS
            return total(stored((16 - 64) * 64), looked_up, words)
        case "vit", "newer":  # the class token for each of 2 images, which is then read for each
            return {**stored(32), "mread": 4 * 32}
        case "causal", "newer":  # a mask of 16 x 16, added to the scores of 2 x 4 heads; no parameter is in it
            return {"flops": 2 * 4 * 256, "mread": 4 * 256}
        case "swin", _:
            return biases_folded()
        case "shifted swin", "older":
            return biases_folded()
        case "shifted swin", "newer":
            return total(biases_folded(), compared_once(), assigned_by_axes())
    return norms_folded(name, report)


FOLDED = [
    (name, exporter)
    for name in NETWORKS
    for exporter in EXPORTERS
    if exporter == "older" or (name in SYMBOLIC and name not in ("convnext", "film"))
]
"""All networks with the older exporter, which is fast; with the newer one, those that it changes differently."""


@pytest.mark.parametrize(("name", "exporter"), FOLDED)
def test_constant_folding_makes_the_expected_difference(name, exporter):
    torch_report, onnx_report = both(name, exported(name, exporter, folded=True), regroup=True)
    expected = total(expected_difference(name, exporter), folding(name, exporter, torch_report))
    assert differing(torch_report, onnx_report) == expected
    assert not onnx_report.ignored_layers


@pytest.mark.parametrize(
    ("name", "stored_name", "elements", "source"),
    [
        ("bert", "embedding_1", 16 * 64, "positions.weight"),
        ("vit", "expand", 2 * 32, "first"),
        ("swin", "unsqueeze", 2 * 16 * 16, "2.body.1.biases"),
    ],
)
def test_parameters_in_folded_constants_are_noted(name, stored_name, elements, source):
    report = estimate(exported(name, "newer", folded=True))
    (note,) = report.notes
    assert note == (
        f"the exporter folded constants: {stored_name!r} ({elements} elements, from {source!r}) counts as a parameter "
        "with the number of elements in the file, which may differ from that of the module. "
        "torch.onnx.export(…, optimize=False) keeps the parameters"
    )
    assert estimate(exported(name, "newer")).notes == []


def buffered(kind: str) -> Any:
    """Return a network with a float buffer: a bias of the logits, as in BART, or coordinates, as in Swin v2."""

    class Buffered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.positions = nn.Linear(16, 8), nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 8))
            shape = {"final_logits_bias": (1, 8), "relative_coords_table": (16, 2)}[kind]
            self.register_buffer(kind, torch.ones(shape))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            buffer = getattr(self, kind)
            return self.head(x) + (buffer if kind == "final_logits_bias" else self.positions(buffer))

    return Buffered()


@pytest.mark.parametrize(("kind", "elements"), [("final_logits_bias", 8), ("relative_coords_table", 32)])
def test_float_buffers_of_the_older_exporter_are_noted_and_those_of_the_newer_one_are_known(kind, elements):
    module = all_different(buffered(kind))
    older, newer = (estimate(export(module, (torch.zeros(2, 16, 16),), name, 18)) for name in ("older", "newer"))
    (note,) = older.notes
    assert note == (
        f"the file does not mark which tensors are learned: {kind!r} ({elements} elements) counts as a parameter, but "
        "may be a buffer. torch.onnx.export(…, dynamo=True) marks them"
    )
    assert newer.notes == []
    assert older.total_report["n_params"] == newer.total_report["n_params"] + elements
