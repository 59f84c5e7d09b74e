"""Operands whose dtypes a run refuses are refused on the meta device too, and no others."""

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import CostError, estimate
from tests.frontends.pytorch.test_estimate import Call


def zeros(device, dtype, *shape):
    return torch.zeros(shape, dtype=dtype, device=device)


def indices(device):
    return torch.zeros(2, dtype=torch.int64, device=device)


CALLS = {
    "linear": lambda d, a, b: functional.linear(zeros(d, a, 2, 8), zeros(d, b, 4, 8), zeros(d, b, 4)),
    "linear without bias": lambda d, a, b: functional.linear(zeros(d, a, 2, 3, 8), zeros(d, b, 4, 8)),
    "linear of a vector": lambda d, a, b: functional.linear(zeros(d, a, 8), zeros(d, b, 4, 8)),
    "linear with a bias of another type": lambda d, a, b: functional.linear(
        zeros(d, a, 2, 8), zeros(d, a, 4, 8), zeros(d, b, 4)
    ),
    "product of matrices": lambda d, a, b: zeros(d, a, 2, 8) @ zeros(d, b, 8, 4),
    "product of batches": lambda d, a, b: zeros(d, a, 3, 2, 8) @ zeros(d, b, 3, 8, 4),
    "product with a vector": lambda d, a, b: zeros(d, a, 2, 8) @ zeros(d, b, 8),
    "product of vectors": lambda d, a, b: zeros(d, a, 8) @ zeros(d, b, 8),
    "einsum": lambda d, a, b: torch.einsum("ij,jk->ik", zeros(d, a, 2, 8), zeros(d, b, 8, 4)),
    "convolution": lambda d, a, b: functional.conv2d(zeros(d, a, 1, 3, 4, 4), zeros(d, b, 4, 3, 1, 1)),
    "transposed convolution": lambda d, a, b: functional.conv_transpose1d(zeros(d, a, 1, 3, 4), zeros(d, b, 3, 2, 1)),
    "LSTM": lambda d, a, b: nn.LSTM(8, 4, dtype=b, device=d)(zeros(d, a, 2, 3, 8)),
    "state of a GRU": lambda d, a, b: nn.GRU(8, 4, device=d, dtype=a)(zeros(d, a, 2, 3, 8), zeros(d, b, 1, 3, 4)),
    "LSTM cell": lambda d, a, b: nn.LSTMCell(8, 4, dtype=b, device=d)(zeros(d, a, 3, 8)),
    "attention": lambda d, a, b: functional.scaled_dot_product_attention(
        zeros(d, a, 1, 2, 3, 8), zeros(d, b, 1, 2, 3, 8), zeros(d, b, 1, 2, 3, 8)
    ),
    "mask of attention": lambda d, a, b: functional.scaled_dot_product_attention(
        *[zeros(d, a, 1, 2, 3, 8)] * 3, zeros(d, b, 3, 3)
    ),
    "batch norm": lambda d, a, b: nn.BatchNorm1d(3, dtype=b, device=d).eval()(zeros(d, a, 2, 3)),
    "batch norm in training": lambda d, a, b: nn.BatchNorm1d(3, dtype=b, device=d)(zeros(d, a, 2, 3)),
    "batch norm of nothing": lambda d, a, b: nn.BatchNorm1d(3, dtype=b, device=d).eval()(zeros(d, a, 0, 3)),
    "layer norm": lambda d, a, b: nn.LayerNorm(3, dtype=b, device=d)(zeros(d, a, 2, 3)),
    "group norm": lambda d, a, b: nn.GroupNorm(3, 3, dtype=b, device=d)(zeros(d, a, 2, 3, 4)),
    "embedding": lambda d, a, b: functional.embedding(zeros(d, a, 2), zeros(d, b, 5, 4)),
    "weights of a bag": lambda d, a, b: functional.embedding_bag(
        indices(d)[None], zeros(d, a, 5, 4), per_sample_weights=zeros(d, b, 1, 2), mode="sum"
    ),
    "loss": lambda d, a, b: functional.binary_cross_entropy(zeros(d, a, 2, 2), zeros(d, b, 2, 2)),
    "grid": lambda d, a, b: functional.grid_sample(
        zeros(d, a, 1, 2, 4, 4), zeros(d, b, 1, 2, 2, 2), align_corners=False
    ),
    "addition by index": lambda d, a, b: zeros(d, a, 2, 4).index_add(0, indices(d), zeros(d, b, 2, 4)),
    "copy by index": lambda d, a, b: zeros(d, a, 2, 4).index_copy_(0, indices(d), zeros(d, b, 2, 4)),
    "put by index": lambda d, a, b: zeros(d, a, 2, 4).index_put((indices(d),), zeros(d, b, 2, 4)),
    "assignment": lambda d, a, b: zeros(d, a, 2, 4).__setitem__(indices(d), zeros(d, b, 2, 4)),
    "cross product": lambda d, a, b: torch.linalg.cross(zeros(d, a, 2, 3), zeros(d, b, 2, 3)),
    "addition": lambda d, a, b: zeros(d, a, 2, 4) + zeros(d, b, 2, 4),
    "concatenation": lambda d, a, b: torch.cat([zeros(d, a, 2, 4), zeros(d, b, 2, 4)]),
    "mean square": lambda d, a, b: functional.mse_loss(zeros(d, a, 2, 4), zeros(d, b, 2, 4)),
}

TYPES = [
    (torch.float32, torch.float32),
    (torch.float64, torch.float32),
    (torch.float32, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.int64, torch.float32),
]


def is_refused(action):
    try:
        action()
    except (RuntimeError, ValueError):
        return True
    return False


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_dtypes_are_refused_if_a_run_refuses_them(name, types):
    expected = is_refused(lambda: CALLS[name]("cpu", *types))
    model = Call(lambda: CALLS[name]("meta", *types))
    assert [is_refused(lambda: estimate(model)) for _ in range(2)] == [expected] * 2


CURE = (
    "; the parameters are float32: pass inputs of that dtype (shapes with dtype='float32', tensors by .float(), arrays "
    "by .astype('float32')), or cast them in the model"
)


@pytest.mark.parametrize(
    ("inputs", "options", "given"),
    [
        (numpy.zeros((2, 8)), {}, "float64"),
        (torch.zeros(2, 8, dtype=torch.float16), {}, "float16"),
        ((2, 8), {"dtype": "bfloat16"}, "bfloat16"),
        ((2, 8), {"dtype": "int64"}, "int64"),
    ],
)
def test_the_module_both_types_and_the_cure_are_named(inputs, options, given):
    net = nn.Sequential(nn.ReLU(), nn.Linear(8, 4))
    with pytest.raises(CostError) as caught:
        estimate(net, inputs, **options)
    assert str(caught.value) == f"Sequential, module 1 (Linear): PyTorch refuses addmm of {given} and float32{CURE}"


def test_a_check_of_the_models_own_is_no_matter_of_types():
    def checked(x):
        raise RuntimeError("sizes should be the same")

    with pytest.raises(CostError, match=r"should be the same at .*:\d+$"):
        estimate(Call(checked), numpy.zeros((2, 8)))


def test_a_model_that_catches_the_error_continues_with_its_fallback():
    class Minds(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x):
            try:
                return self.layer(x)
            except RuntimeError:
                return self.layer(x.float())

    assert Minds()(torch.zeros(2, 8, dtype=torch.float64)).dtype == torch.float32
    assert [call.type for call in estimate(Minds(), numpy.zeros((2, 8))).calls] == ["to", "linear"]


def test_autocast_brings_types_together():
    class Casts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.layer(x)

    halves = torch.zeros(2, 8, dtype=torch.float16)
    assert Casts()(halves).dtype == torch.bfloat16
    assert estimate(Casts(), halves).total_report["macs"] == 2 * 8 * 4
