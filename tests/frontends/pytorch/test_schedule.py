"""The kernels that TorchInductor makes of a model: its own schedule, joined with the calls of the report."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from costcore import Tensor, estimate
from costcore.errors import CostError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's compiler, when it is imported


class Blocks(nn.Module):
    """Two equal blocks, then a convolution behind a break of the graph if there is one."""

    def __init__(self, breaks: bool = False) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(2)))
        self.conv = nn.Conv2d(3, 8, 3)
        self.breaks = breaks

    def forward(self, x, y):
        h = self.blocks(x) + x
        if self.breaks:
            torch._dynamo.graph_break()
        return h, torch.relu(self.conv(y))


INPUTS = [(2, 16, 8), (1, 3, 16, 16)]
LINEAR = 2 * 16 * 8 * 8
CONV = 14 * 14 * 8 * 3 * 3 * 3


@pytest.fixture(scope="module")
def found():
    net = Blocks().eval()
    return estimate(net, INPUTS).kernels(net, INPUTS)


def rows(kernels):
    return [(row["kernel"], row["module"], row["macs"]) for row in kernels.table.rows]


def test_every_call_has_its_kernel_and_module(found):
    listed = rows(found)
    assert ("linear", "blocks.0.1", LINEAR) in listed
    assert ("linear", "blocks.1.1", LINEAR) in listed
    assert ("conv2d", "conv", CONV) in listed
    assert found.missing == []
    assert found.table.total["macs"] == 2 * LINEAR + CONV


def test_a_product_reads_and_writes_its_operands(found):
    """32 rows of 8 floats in and out, a weight of 8 x 8, and a bias of 8."""
    product = next(
        kernel
        for kernel in found.kernels
        if kernel.own and found.trace.records[kernel.own[0]].call.module == "blocks.0.1"
    )
    assert product.n_bytes == 4 * (2 * 32 * 8 + 8 * 8 + 8)


def test_element_wise_calls_are_one_kernel(found):
    """A relu behind a convolution is one loop, and the last GELU joins the addition behind it."""
    assert any(kernel == "gelu, add" for kernel, _, _ in rows(found))


def test_another_layout_is_a_row_of_its_own(found):
    """On a CPU a convolution has its weight, 8 x 3 x 3 x 3 floats read and written, and its image in channels-last."""
    rewritten = {kernel.rewrites: kernel.n_bytes for kernel in found.kernels if kernel.rewrites}
    assert rewritten["weight"] == 2 * 4 * 8 * 3 * 3 * 3
    assert rewritten["activation"] == 2 * 4 * 3 * 16 * 16
    assert found.rewritten_bytes == sum(rewritten.values())
    assert ("layout of a weight: conv2d", "conv", 0) in rows(found)


def test_a_model_without_data_is_scheduled_and_left_as_it_was(found):
    with torch.device("meta"):
        net = Blocks().eval()
    before = dict(net.named_parameters())
    assert estimate(net, INPUTS).kernels(net, INPUTS).total_bytes == found.total_bytes
    assert all(x is before[name] and type(x) is nn.Parameter for name, x in net.named_parameters())


def test_a_compiled_model_and_graphs_that_are_divided(found):
    net = Blocks(breaks=True).eval()
    kernels = estimate(net, INPUTS).kernels(torch.compile(net), INPUTS)
    assert kernels.schedule.n_graphs == 2
    assert kernels.table.total["macs"] == 2 * LINEAR + CONV
    assert "split the model into 2 graphs" in kernels.remarks[0]


def test_embeddings_by_tokens():
    net = nn.Sequential(nn.Embedding(100, 8), nn.Linear(8, 4)).eval()
    tokens = Tensor((2, 3), "int64")
    kernels = estimate(net, tokens).kernels(net, tokens)
    assert [row["kernel"] for row in kernels.table.rows] == ["embedding", "linear"]


def test_it_has_every_format(found):
    assert found.to_dict()["figures"]["n_kernels"]["value"] == len(found.kernels)
    assert "conv2d" in found.to_markdown()
    assert "TorchInductor" in str(found)


def test_a_training_step_and_other_models_are_refused(found):
    net = Blocks()
    with pytest.raises(CostError, match="forward pass"):
        estimate(net, INPUTS, backward=True).kernels(net, INPUTS)
    with pytest.raises(CostError, match=r"report\.kernels"):
        estimate(net, INPUTS).kernels("model.onnx", INPUTS)


def test_an_unknown_scheduler_is_named(monkeypatch):
    from torch._inductor.scheduler import BaseSchedulerNode

    monkeypatch.delattr(BaseSchedulerNode, "get_read_write_buffers_sizes")
    net = nn.Linear(2, 2)
    with pytest.raises(CostError, match="its nodes lack get_read_write_buffers_sizes"):
        estimate(net, (1, 2)).kernels(net, (1, 2))


def test_a_model_that_cannot_be_compiled_is_named():
    class Refuses(nn.Module):
        def forward(self, x):
            return torch.library.opcheck if x is None else x @ torch.ones(3, 3)

    with pytest.raises(CostError, match="Refuses"):
        estimate(nn.Linear(2, 2), (1, 2)).kernels(Refuses(), (1, 2))


whole_modules = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="what TorchDynamo looks into differs by release",
)


def encoder_layer():
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()


@whole_modules
def test_what_the_compiler_does_not_look_into_has_all_calls_of_its_module():
    """The fast path of an encoder is one kernel per layer: 4 products of 16 x 16, 2 of 16 x 32, and 2 of attention."""
    net = nn.TransformerEncoder(encoder_layer(), 2).eval()
    kernels = estimate(net, (2, 5, 16)).kernels(net, (2, 5, 16))
    macs = 2 * 5 * (4 * 16 * 16 + 2 * 16 * 32) + 2 * 2 * 5 * 5 * 16
    assert [row["macs"] for row in kernels.table.rows] == [macs, macs]
    assert kernels.missing == []
    assert [{kernels.trace.calls[i].module.split(".")[1] for i in each.calls} for each in kernels.kernels] == [
        {"0"},
        {"1"},
    ]
    assert "kernels of transformer_encoder_layer_fwd compute the same calls of a module" in "\n".join(kernels.remarks)


@whole_modules
def test_kernels_of_attention_share_its_calls():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            return self.head(self.attention(x, x, x)[0])

    net = Net().eval()
    kernels = estimate(net, (2, 5, 16)).kernels(net, (2, 5, 16))
    assert kernels.missing == []
    assert [row["macs"] for row in kernels.table.rows if row["macs"]] == [
        2 * 5 * 4 * 16 * 16 + 2 * 2 * 5 * 5 * 16,
        2 * 5 * 16 * 4,
    ]


@whole_modules
def test_recurrent_layers_have_no_graph_and_leave_others_theirs():
    for net in (nn.LSTM(8, 16), nn.Sequential(nn.Linear(8, 8), nn.LSTM(8, 16))):
        kernels = estimate(net.eval(), (5, 2, 8)).kernels(net, (5, 2, 8))
        assert kernels.kernels == []
        assert kernels.schedule.reason, "the compiler says why, by other words in other releases"
        told = f"compiles no part of this model: all of it runs eagerly ({kernels.schedule.reason})"
        assert any(line.endswith(told) for line in kernels.remarks)
    assert estimate(encoder_layer(), (2, 5, 16)).kernels(encoder_layer(), (2, 5, 16)).missing == []
