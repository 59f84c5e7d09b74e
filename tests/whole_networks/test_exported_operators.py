"""Operators that exporters decompose: with ``regroup=True`` their exports have the costs of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from costcore import estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    from torch import nn

    from tests.whole_networks.exporters import EXPORTERS, all_different, export
    from tests.whole_networks.test_exports import differing

    class Calls(nn.Module):
        """A function of the input, of a matrix and of the products' addend."""

        def __init__(self, function: Callable[..., torch.Tensor]) -> None:
            super().__init__()
            self.function = function
            self.w, self.b = nn.Parameter(torch.rand(16)), nn.Parameter(torch.rand(2, 6, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(x, self.w, self.b)

    class Twice(nn.Module):
        """A bilinear layer of the input and itself."""

        def __init__(self, bias: bool) -> None:
            super().__init__()
            self.layer = nn.Bilinear(16, 16, 5, bias=bias)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x, x)

    def product(x: Any, _: Any, b: Any, **factors: float) -> torch.Tensor:
        return torch.baddbmm(b, x, x.transpose(1, 2), **factors)

    OPERATORS: dict[str, Callable[[], nn.Module]] = {
        "addcmul": lambda: Calls(lambda x, w, _: torch.addcmul(x, x, w)),
        "scaled addcmul": lambda: Calls(lambda x, w, _: torch.addcmul(x, x, w, value=0.5)),
        "softplus": lambda: nn.Softplus(),
        "scaled softplus": lambda: nn.Softplus(2.0, 10.0),
        "mish": lambda: nn.Mish(),
        "glu": lambda: nn.GLU(),
        "glu of rows": lambda: nn.GLU(1),
        "groups of one channel": lambda: nn.GroupNorm(6, 6),
        "baddbmm": lambda: Calls(product),
        "scaled baddbmm": lambda: Calls(lambda *given: product(*given, alpha=2.0, beta=0.5)),
        "bilinear": lambda: Twice(True),
        "bilinear without bias": lambda: Twice(False),
        "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(16, 8)),
    }

    class Loss(nn.Module):
        """A loss of two parts of a network's output, or of one and stored targets."""

        def __init__(self, loss: nn.Module, *others: torch.Tensor) -> None:
            super().__init__()
            self.loss = loss
            for i, other in enumerate(others):
                self.register_buffer(f"other{i}", other)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.loss(x[0], *(tuple(self.buffers()) or (x[1],)))

    class Updates(nn.Module):
        """Updates a part of a tensor in place."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x * 1
            x[:, 1:, 2:] += x[:, :5, :14]
            return x

    class Scatters(nn.Module):
        """Scatters into a part of a tensor itself."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.slice_scatter(x, x[:, 1:] * 2, 1, 1)

    def loss(name: str, *others: torch.Tensor, **settings: Any) -> Callable[[], nn.Module]:
        return lambda: Loss(getattr(nn, f"{name}Loss")(**settings), *others)

    def of(function: Callable[..., torch.Tensor]) -> Callable[[], nn.Module]:
        return lambda: Calls(function)

    signs, classes = torch.ones(6), torch.arange(6)
    UNFOLDED: dict[str, Callable[[], nn.Module]] = {
        "threshold": lambda: nn.Threshold(0.1, 20.0),
        "hard shrink": lambda: nn.Hardshrink(),
        "soft shrink": lambda: nn.Softshrink(),
        "log sigmoid": lambda: nn.LogSigmoid(),
        "lerp": of(lambda x, w, _: torch.lerp(x, x * 2, w)),
        "lerp by a number": of(lambda x, *_: torch.lerp(x, x * 2, 0.3)),
        "addcdiv": of(lambda x, w, _: torch.addcdiv(x, x, w, value=0.5)),
        "var": of(lambda x, *_: x.var(1)),
        "var of all": of(lambda x, *_: x.var()),
        "biased var": of(lambda x, *_: x.var(1, correction=0)),
        "remainder": of(lambda x, *_: torch.remainder(x, 0.5)),
        "atan2": of(lambda x, w, _: torch.atan2(x, w)),
        "log1p": of(lambda x, *_: torch.log1p(x)),
        "unfold": lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Unfold(2)),
        "circular pad": lambda: nn.CircularPad1d((1, 2)),
        "linear resize": lambda: nn.Upsample(scale_factor=2.0, mode="linear"),
        "plain instance norm": lambda: nn.InstanceNorm1d(6),
        "plain layer norm": lambda: nn.LayerNorm(16, elementwise_affine=False),
        "cosine similarity": lambda: Loss(nn.CosineSimilarity()),
        "pairwise distance": lambda: Loss(nn.PairwiseDistance()),
        "l1": loss("L1"),
        "mse": loss("MSE"),
        "mse, none": loss("MSE", reduction="none"),
        "huber": loss("Huber", delta=0.5),
        "smooth l1": loss("SmoothL1", beta=0.5, reduction="sum"),
        "kl": loss("KLDiv", reduction="sum"),
        "bce": loss("BCE"),
        "bce with logits": loss("BCEWithLogits"),
        "soft margin": loss("SoftMargin"),
        "poisson": loss("PoissonNLL"),
        "hinge": loss("HingeEmbedding"),
        "margin": loss("MarginRanking", torch.rand(6, 16), torch.ones(6, 16)),
        "cosine": loss("CosineEmbedding", torch.rand(6, 16), signs),
        "triplet": loss("TripletMargin", torch.rand(6, 16), torch.rand(6, 16)),
        "multi-margin": loss("MultiMargin", classes),
        "updated part": Updates,
    }
    """Layers whose decomposition ``regroup`` finds in unfolded exports of every exporter that decomposes them."""

    WRITTEN_OUT: dict[str, Callable[[], nn.Module]] = {
        "addcmul": lambda: Calls(lambda x, w, _: x + x * w),
        "scaled addcmul": lambda: Calls(lambda x, w, _: x + x * w * 0.5),
        "glu": lambda: Calls(lambda x, *_: x.chunk(2, -1)[0] * x.chunk(2, -1)[1].sigmoid()),
        "baddbmm": lambda: Calls(lambda x, _, b: b + x @ x.transpose(1, 2)),
        "lerp": of(lambda x, w, _: x + w * (x * 2 - x)),
        "var": of(lambda x, *_: ((x - x.mean(1, keepdim=True)) ** 2).mean(1)),
        "hard shrink": of(lambda x, *_: torch.where(x.abs() <= 0.5, 0.0, x)),
        "mse": of(lambda x, w, _: ((x - w) * (x - w)).mean()),
        "log1p": of(lambda x, *_: torch.log(1 + x)),
        "slice_scatter": Scatters,
    }
else:
    OPERATORS, UNFOLDED, WRITTEN_OUT, EXPORTERS = {}, {}, {}, ()

READ = ("macs", "flops", "mread", "mwrite", "n_params")
"""All totals but the parameters of the model that nothing reads."""

NOT_EXPORTED = ("bilinear", "bilinear without bias")
"""Operators that the older exporter rejects."""

OLDER_EXPORTS_ANOTHER_WAY = (
    *("threshold", "biased var", "linear resize", "l1", "huber", "smooth l1", "bce", "soft margin", "poisson", "hinge"),
    *("margin", "cosine", "triplet", "multi-margin", "updated part", "addcdiv"),
)
"""Layers that the older exporter rejects, or writes as others may be written too."""

FOLDED_WEIGHTS = ("weight norm", "scaled baddbmm")
"""Operators whose parameters constant folding replaces."""

CASES = [
    (name, exporter, folded)
    for name in OPERATORS
    for exporter in EXPORTERS
    for folded in (False, True)
    if not (exporter == "older" and name in NOT_EXPORTED) and not (folded and name in FOLDED_WEIGHTS)
]


@pytest.mark.parametrize(("name", "exporter", "folded"), CASES)
def test_a_decomposed_operator_is_one(name, exporter, folded):
    module, x = all_different(OPERATORS[name]()), torch.zeros(2, 6, 16)
    report = estimate(export(module, (x,), exporter, 18, folded=folded), layout="free", regroup=True)
    assert differing(estimate(module, x, layout="free"), report, READ) == {}


@pytest.mark.parametrize(
    ("name", "exporter"),
    [(n, e) for n in UNFOLDED for e in EXPORTERS if e == "newer" or n not in OLDER_EXPORTS_ANOTHER_WAY],
)
def test_a_decomposed_layer_is_one(name, exporter):
    module, x = all_different(UNFOLDED[name]()), torch.zeros(2, 6, 16)
    report = estimate(export(module, (x,), exporter, 18), layout="free", regroup=True)
    if name == "linear resize" and any((call.type, call.layer.op) == ("Cast", "identity") for call in report.calls):
        pytest.skip("this exporter converts numbers into those of their own type, between which no pattern is found")
    assert differing(estimate(module, x, layout="free"), report, READ) == {}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_the_program_wrote_out_stays_so(name):
    module, x = all_different(WRITTEN_OUT[name]()), torch.zeros(2, 6, 16)
    plain, regrouped = (
        estimate(export(module, (x,), "newer", 18), layout="free", regroup=regroup) for regroup in (False, True)
    )
    groups = {group.op for group in regrouped.trace.run.regrouped}
    assert not groups & {"addcmul", "glu", "matmul", "lerp", "var", "hard_shrink", "mse_loss", "log1p", "assign"}
    assert differing(plain, regrouped, ("macs", "flops")) == {}
    if name not in ("glu", "slice_scatter"):  # the older exporter writes it as for one operator, or not at all
        older = estimate(export(module, (x,), "older", 18), layout="free", regroup=True)
        assert not {"addcmul", "log1p", "hard_shrink", "mse_loss"} & older.by("op").keys()
