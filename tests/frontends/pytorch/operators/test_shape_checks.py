"""Operands whose shapes or sizes a run refuses are refused on the meta device too, and no others."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, CostError, estimate
from tests.frontends.pytorch.differences import refuses
from tests.frontends.pytorch.test_estimate import Call


def f(*shape):
    return torch.zeros(shape)


def indices(*shape):
    return torch.zeros(shape, dtype=torch.int64)


REFUSED = {
    "channels of a transposed convolution": lambda: functional.conv_transpose2d(f(1, 4, 5, 5), f(3, 2, 3, 3)),
    "output padding": lambda: functional.conv_transpose2d(f(1, 3, 5, 5), f(3, 2, 3, 3), stride=2, output_padding=2),
    "output padding of the plain stride": lambda: functional.conv_transpose1d(f(1, 3, 5), f(3, 2, 3), output_padding=1),
    "negative output padding": lambda: functional.conv_transpose1d(f(1, 3, 5), f(3, 2, 3), None, 2, 0, -1),
    "groups of a convolution": lambda: functional.conv2d(f(1, 4, 5, 5), f(3, 2, 3, 3), groups=2),
    "groups of a transposed convolution": lambda: functional.conv_transpose2d(f(1, 3, 5, 5), f(3, 2, 3, 3), groups=2),
    "more groups than channels": lambda: functional.conv1d(f(1, 4, 5), f(2, 1, 3), groups=4),
    "no groups": lambda: functional.conv_transpose1d(f(1, 3, 5), f(3, 2, 3), groups=0),
    "rank of a weight": lambda: functional.conv1d(f(1, 3, 4), f(2, 3, 3, 3)),
    "rank of a transposed weight": lambda: functional.conv_transpose1d(f(1, 3, 4), f(2, 3, 3, 3)),
    "bias of a convolution": lambda: functional.conv1d(f(1, 3, 4), f(2, 3, 3), f(3)),
    "bias of a convolution that would broadcast": lambda: functional.conv2d(f(1, 3, 4, 4), f(2, 3, 3, 3), f(1)),
    "bias of a transposed convolution": lambda: functional.conv_transpose1d(f(1, 3, 4), f(3, 2, 3), f(3)),
    "empty kernel": lambda: functional.conv1d(f(1, 3, 4), f(2, 3, 0)),
    "negative padding": lambda: functional.conv1d(f(1, 3, 4), f(2, 3, 3), padding=-1),
    "stride of zero": lambda: functional.conv_transpose1d(f(1, 3, 4), f(3, 2, 3), stride=0),
    "dilation of zero": lambda: functional.conv2d(f(1, 3, 4, 4), f(2, 3, 3, 3), dilation=0),
    "convolution of an empty map": lambda: functional.conv1d(f(1, 3, 0), f(2, 3, 3), padding=1),
    "kernel larger than the map": lambda: functional.conv2d(f(1, 3, 2, 5), f(2, 3, 3, 3)),
    "dilated kernel larger than the map": lambda: functional.conv1d(f(1, 3, 4), f(2, 3, 3), padding=1, dilation=3),
    "transposed convolution to nothing": lambda: functional.conv_transpose1d(f(1, 3, 1), f(3, 2, 2), padding=1),
    "bias of a linear layer": lambda: functional.linear(f(2, 8), f(4, 8), f(5)),
    "bias of a batched linear layer": lambda: functional.linear(f(2, 3, 8), f(4, 8), f(5)),
    "bias of a linear layer of a vector": lambda: functional.linear(f(8), f(4, 8), f(5)),
    "matrix as a bias of a vector": lambda: functional.linear(f(8), f(4, 8), f(2, 4)),
    "addend of another rank": lambda: torch.addmm(f(2, 2, 3), f(2, 2), f(2, 3)),
    "addend of more rows": lambda: torch.addmm(f(2, 3), f(1, 2), f(2, 3)),
    "addend of a vector": lambda: torch.addmv(f(2, 5), f(5, 3), f(3)),
    "addend of batches": lambda: torch.baddbmm(f(3, 2, 4), f(2, 2, 3), f(2, 3, 4)),
    "median of nothing": lambda: f(3, 0).median(1),
    "nanmedian of nothing": lambda: f(0).nanmedian(0),
    "mode of nothing": lambda: f(3, 0).mode(),
    "maximum of nothing": lambda: f(3, 0).max(),
    "minimum of nothing": lambda: f(0).min(),
    "axis of a softmax": lambda: f(5).softmax(1),
    "axis of a log-softmax": lambda: f(5).log_softmax(-2),
    "axis of a cumulative maximum": lambda: torch.cummax(f(), 1),
    "axis of a sort": lambda: torch.sort(f(0), 1),
    "axis of a selection": lambda: torch.index_select(f(), 1, indices(1)),
    "slice to write": lambda: torch.slice_scatter(f(4, 5), f(4, 5), 0, 1, 4),
    "row to write": lambda: torch.select_scatter(f(4, 5), f(4), 0, 1),
    "diagonal to write": lambda: torch.diagonal_scatter(f(4, 5), f(4), 2),
    "values to put": lambda: f(5, 6).index_put((indices(1),), f(1, 5)),
    "values to put in the middle": lambda: torch.ops.aten.index_put(f(5, 6, 7), [None, indices(2)], f(3, 2, 7)),
    "values to put in front": lambda: torch.ops.aten.index_put(f(5, 6, 7), [indices(2), None, indices(2)], f(6, 2)),
    "number of values to put": lambda: f(3, 2).put(indices(2), f(3)),
    "rows to add": lambda: f(3, 2).index_add(0, indices(2), f(2)),
    "number of rows to add": lambda: f(3, 2).index_add(0, indices(2), f(3, 2)),
    "rows to copy": lambda: f(3, 2).index_copy(0, indices(2), f(2, 3)),
    "target of a map": lambda: functional.cross_entropy(f(2, 3, 4, 4), indices(2, 4, 3)),
    "weight of an entropy": lambda: functional.binary_cross_entropy(f(5, 5), f(5, 5), f(2, 5, 5)),
    "weight of an entropy of logits": lambda: functional.binary_cross_entropy_with_logits(f(5, 5), f(5, 5), f(2, 5, 5)),
    "target of a margin": lambda: functional.soft_margin_loss(f(5), f(2, 5)),
    "mask of attention": lambda: functional.scaled_dot_product_attention(
        f(1, 2, 4, 8), f(1, 2, 6, 8), f(1, 2, 6, 8), f(3, 6)
    ),
    "samples without replacement": lambda: torch.multinomial(f(3) + 1, 4),
    "samples of integers": lambda: torch.multinomial(indices(3), 2),
    "approximation of GELU": lambda: functional.gelu(f(3), approximate="erf"),
    "norm over no axes": lambda: functional.layer_norm(f(2, 3), ()),
    "boundaries": lambda: torch.bucketize(f(5), f(2, 5)),
    "pool of an empty map": lambda: functional.adaptive_avg_pool2d(f(1, 3, 4, 0), 2),
    "resizing of an empty map": lambda: functional.interpolate(f(1, 3, 0, 4), (2, 2), mode="bilinear"),
    "resizing to an empty map": lambda: functional.interpolate(f(1, 3, 4, 4), (0, 2), mode="bilinear"),
    "unfolding with less than the map": lambda: functional.unfold(f(1, 3, 4, 4), 2, padding=-1),
    "samples of an empty map": lambda: functional.grid_sample(f(1, 3, 4, 0), f(1, 2, 2, 2), align_corners=False),
}

ACCEPTED = {
    "output padding below the dilation": lambda: functional.conv_transpose1d(
        f(1, 3, 5), f(3, 2, 3), stride=1, dilation=2, output_padding=1
    ),
    "groups": lambda: functional.conv_transpose2d(f(1, 4, 5, 5), f(4, 3, 3, 3), f(6), groups=2),
    "kernel as large as the padded map": lambda: functional.conv1d(f(1, 3, 5), f(2, 3, 3), padding=1, dilation=3),
    "a map without a batch": lambda: functional.conv2d(f(4, 5, 5), f(6, 2, 3, 3), f(6), groups=2),
    "no samples": lambda: functional.conv2d(f(0, 4, 5, 5), f(6, 4, 3, 3)),
    "bias that broadcasts": lambda: functional.linear(f(2, 8), f(4, 8), f(2, 1)),
    "bias of a single feature": lambda: functional.linear(f(2, 3, 8), f(4, 8), f(1)),
    "weight that is a vector": lambda: functional.linear(f(2, 8), f(8)),
    "addend that broadcasts": lambda: torch.addmm(f(3), f(2, 2), f(2, 3)),
    "median along another axis": lambda: f(0, 3).median(1),
    "median of no elements": lambda: f(0).median(),
    "maximum along an axis": lambda: f(0, 3).max(1),
    "softmax of a number": lambda: f().softmax(0),
    "diagonal to write": lambda: torch.diagonal_scatter(f(4, 5), f(3), -1),
    "slice from the end": lambda: torch.slice_scatter(f(4, 5), f(2, 5), 0, -2),
    "values in the middle": lambda: torch.ops.aten.index_put(f(5, 6, 7), [None, indices(2)], f(5, 2, 7)),
    "values in front": lambda: torch.ops.aten.index_put(f(5, 6, 7), [indices(2), None, indices(2)], f(2, 6)),
    "rows to add": lambda: f(3, 2).index_add(-1, indices(4), f(3, 4)),
    "a number to add": lambda: f().index_add(0, indices(1), f()),
    "one value everywhere": lambda: f(5, 6).index_put((indices(2),), f(1)),
    "mask that broadcasts": lambda: functional.scaled_dot_product_attention(*[f(1, 2, 4, 8)] * 3, f(1, 1, 1, 4)),
    "resizing by a factor": lambda: functional.interpolate(f(1, 3, 4, 4), scale_factor=2, mode="bilinear"),
    "pool of no samples": lambda: functional.adaptive_avg_pool2d(f(0, 3, 4, 4), 2),
}


def on_meta(call):
    """Run a call with its tensors on the meta device."""
    with torch.device("meta"):
        return call()


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_run_refuses_is_refused(name):
    if name == "axis of a cumulative maximum" and not refuses(REFUSED[name]):
        pytest.skip("this PyTorch accepts any axis of a number")
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        REFUSED[name]()
    for _ in range(2):  # nothing of the first attempt is reused
        with pytest.raises(CostError):
            estimate(Call(lambda: on_meta(REFUSED[name])))


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_a_run_accepts_is_accepted(name):
    ACCEPTED[name]()
    assert estimate(Call(lambda: on_meta(ACCEPTED[name]))).status == "complete"


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (
            nn.ConvTranspose2d(3, 2, 3),
            (1, 4, 5, 5),
            "module 1 (ConvTranspose2d): PyTorch refuses convolution: the input (1, 4, 5, 5) has 4 channels (expected "
            "3 for a weight of (3, 2, 3, 3))",
        ),
        (
            nn.ConvTranspose1d(3, 2, 3, stride=2, output_padding=1, dilation=1),
            (1, 3, 5),
            None,
        ),
    ],
)
def test_the_module_and_the_sizes_are_named(layer, shape, message):
    net = nn.Sequential(nn.ReLU(), layer)
    if message is None:
        assert estimate(net, shape).status == "complete"
        return
    with pytest.raises(CostError) as caught:
        estimate(net, shape)
    assert str(caught.value) == f"Sequential, {message}"


def test_a_run_on_meta_tensors_is_not_checked():
    """A hook counts what runs: the meta device accepts these channels."""
    with ComputationalCostHook() as hook, torch.device("meta"):
        REFUSED["channels of a transposed convolution"]()
    assert hook.total_report["macs"] > 0


def test_numbers_of_rows_that_rest_on_assumptions_are_not_checked():
    """The rows of one choice are written to those of another, of which there are as many in a run."""

    def move(x):
        y = torch.zeros_like(x)
        here, there = (x > 0).nonzero()[:, 0], (x > 1).nonzero()[:4, 0]
        y[there] = x[here]
        return y

    assert estimate(Call(move), (8,)).assumptions
    with pytest.raises(CostError, match="PyTorch refuses index_put"):
        estimate(Call(lambda x: x.index_put((indices(3),), x)), (8,))
