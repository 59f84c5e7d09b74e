"""Plans that divide experts and sequences: bytes and parameters by hand, and memory against captures of all blocks."""

from __future__ import annotations

import math

import pytest
from torch import nn
from torch.nn import functional

from costcore import CostError, plan
from tests.frontends.pytorch.differences import NEEDS_MESH

pytest.importorskip("torch.distributed.fsdp", reason="fully_shard")

pytestmark = [NEEDS_MESH, pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")]

WIDTH, INNER, EXPERTS, TOKENS = 64, 128, 8, 16


class Experts(nn.Module):
    """Experts that each run the same number of rows."""

    def __init__(self):
        super().__init__()
        self.num_experts = EXPERTS
        self.up = nn.Parameter(nn.Linear(EXPERTS * INNER, WIDTH).weight.detach().view(EXPERTS, INNER, WIDTH))
        self.down = nn.Parameter(nn.Linear(EXPERTS * WIDTH, INNER).weight.detach().view(EXPERTS, WIDTH, INNER))

    def forward(self, x, index, weights):
        k = index.shape[-1]
        rows = x.unsqueeze(1).expand(-1, k, -1).reshape(self.num_experts, -1, WIDTH)
        rows = functional.relu(rows @ self.up.transpose(1, 2)) @ self.down.transpose(1, 2)
        return (rows.view(-1, k, WIDTH) * weights.unsqueeze(-1)).sum(1)


class Block(nn.Module):
    def __init__(self, is_dense):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        if is_dense:
            self.mlp = nn.Linear(WIDTH, WIDTH, bias=False)
        else:
            self.router, self.experts = nn.Linear(WIDTH, EXPERTS, bias=False), Experts()

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (1, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        if hasattr(self, "mlp"):
            return x + self.mlp(x)
        rows = x.flatten(0, 1)
        weights, index = self.router(rows).softmax(-1).topk(2)
        return x + self.experts(rows, index, weights).view_as(x)


class Mixture(nn.Module):
    tp_plan = {  # noqa: RUF012
        "blocks.*.experts": "moe_tp_experts",
        "blocks.*.experts.up": "colwise",
        "blocks.*.experts.down": "rowwise",
    }
    ep_plan = {"blocks.*.experts": "ep_dispatch_experts"}  # noqa: RUF012

    def __init__(self, dense=2, depth=8):
        super().__init__()
        self.blocks = nn.ModuleList(Block(i < dense) for i in range(depth))
        self.head = nn.Linear(WIDTH, 10, bias=False)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Plain(Mixture):
    """Neither experts nor a fused attention."""

    ep_plan = None

    def __init__(self):
        super().__init__(dense=8)
        for block in self.blocks:
            block.forward = block.mlp.forward


QKV, HEAD = 3 * WIDTH**2, 10 * WIDTH
DENSE = 2 * (QKV + WIDTH**2) + 6 * (QKV + EXPERTS * WIDTH) + HEAD
"""The parameters outside of experts, of two blocks without and six with experts, and a head."""

EXPERT = 2 * INNER * WIDTH
"""The parameters of an expert: up and down."""


def planned(net, mesh, devices=4, **options):
    options = {"micro_batches": (1,), "checkpoints": (False,), "global_batch": devices, **options}
    found = plan(net, ("batch", TOKENS, WIDTH), devices=devices, device="h100", meshes=[mesh], **options)
    (made,) = (*found.plans, *found.left_out)
    return made


def test_experts_exchange_rows():
    """In bfloat16, 3/4 of 32 rows of 64 values and of 32 weights leave, and 3/4 of 32 rows return, in both passes.

    The gradients of experts have one copy; those of all else a ring adds over four copies, 3/2 of 2 bytes of each.
    """
    made = planned(Mixture(), {"dp": 4, "ep": 4})
    assert made.assumed == ["every expert receives the same number of rows"]
    rows = 2 * TOKENS * 2
    assert made.reason == ""
    assert made.sent == 6 * 2 * (3 * rows * (2 * WIDTH + 1) // 4) + 3 * DENSE


def test_experts_are_divided_in_width():
    """Two passes: two devices add results, and the gradients of 16 rows and of 32 weights, of 2 bytes, in six blocks.

    A ring of two copies then adds gradients, of half of each expert.
    """
    made = planned(Mixture(), {"dp": 2, "tp": 2})
    added = 2 * TOKENS * WIDTH + 2 * (TOKENS * WIDTH + 2 * TOKENS)
    assert made.sent == 2 * 6 * added + 2 * (DENSE + 6 * EXPERTS * EXPERT // 2)


def test_keys_and_values_are_gathered():
    """Two passes: of 16 keys and values of 64 values each, half are sent, and half of gradients. Then a ring."""
    made = planned(Mixture(dense=8), {"cp": 2}, devices=2)
    (assumed,) = made.assumed
    assert made.to_dict()["assumed"] == [assumed] and "share a sequence compute equal numbers" in assumed
    gathered = 2 * (TOKENS * WIDTH * 2) // 2
    assert made.sent == 2 * (8 * 2 * gathered) + 2 * (8 * (QKV + WIDTH**2) + HEAD)


@pytest.mark.parametrize(
    ("mesh", "checkpoint"),
    [
        ({"fsdp": 4, "ep": 2}, True),
        ({"fsdp": 2, "cp": 2, "ep": 4}, False),
        ({"cp": 4, "ep": 2}, True),
        ({"pp": 2, "dp": 2, "ep": 2}, False),
        ({"tp": 2, "dp": 2, "ep": 2}, True),
    ],
    ids=str,
)
def test_memory_is_that_of_a_capture_of_all_blocks(mesh, checkpoint):
    made = planned(Mixture(depth=6), mesh, checkpoints=(checkpoint,))
    assert made.is_captured
    assert made.extrapolated == pytest.approx(made.memory, rel=1e-4)


def test_what_cannot_be_divided_says_why():
    for net, mesh, why in (
        (Plain(), {"dp": 4, "ep": 4}, "has no experts to divide"),
        (Plain(), {"cp": 4}, "no block calls scaled_dot_product_attention"),
        (Mixture(), {"dp": 16, "ep": 16}, "8 experts of .* cannot be divided over 16"),
        (Mixture(), {"cp": 3}, "16 tokens, .* no 3 equal parts"),
        (Mixture(), {"dp": 4, "ep": 3}, "cannot divide experts over 3 of 4 devices"),
        (Mixture(), {"cp": 2, "dp": 3, "ep": 3}, "cannot divide experts over 3 of 6 devices"),
    ):
        with pytest.raises((CostError, ValueError), match=why):
            planned(net, mesh, math.prod(n for axis, n in mesh.items() if axis != "ep"))
