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
    WRITTEN_OUT: dict[str, Callable[[], nn.Module]] = {
        "addcmul": lambda: Calls(lambda x, w, _: x + x * w),
        "scaled addcmul": lambda: Calls(lambda x, w, _: x + x * w * 0.5),
        "lerp": lambda: Calls(lambda x, w, _: torch.lerp(x, x * 2, w)),
        "glu": lambda: Calls(lambda x, *_: x.chunk(2, -1)[0] * x.chunk(2, -1)[1].sigmoid()),
        "baddbmm": lambda: Calls(lambda x, _, b: b + x @ x.transpose(1, 2)),
    }
else:
    OPERATORS, WRITTEN_OUT, EXPORTERS = {}, {}, ()

READ = ("macs", "flops", "mread", "mwrite", "n_params")
"""All totals but the parameters of the model that nothing reads."""

NOT_EXPORTED = ("bilinear", "bilinear without bias")
"""Operators that the older exporter rejects."""

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


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_the_program_wrote_out_stays_so(name):
    module, x = all_different(WRITTEN_OUT[name]()), torch.zeros(2, 6, 16)
    plain, regrouped = (
        estimate(export(module, (x,), "newer", 18), layout="free", regroup=regroup) for regroup in (False, True)
    )
    groups = {group.op for group in regrouped.trace.run.regrouped}
    assert not groups & {"addcmul", "glu", "matmul"}
    assert differing(plain, regrouped, ("macs", "flops")) == {}
    if name != "glu":  # the older exporter writes it as for one operator
        older = estimate(export(module, (x,), "older", 18), layout="free", regroup=True)
        assert "addcmul" not in older.by("op")
