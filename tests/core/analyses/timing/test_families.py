"""Families and coordinates of calls, with their logarithms by hand."""

from __future__ import annotations

import pytest
import sympy

from costcore import CostError
from costcore.analyses.timing.calibration import APART, Product, product_of, site_of, steps_of
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.traces import Call


def call(op, inputs, output, attrs=None, **options):
    tensors = {name: Tensor(shape) for name, shape in inputs.items()}
    return Call(Layer(op, tensors, [Tensor(output)], attrs or {}), op, **options)


def cost(flops=8, macs=0, nbytes=1024, special=0):
    return Cost(Operations(add=flops - special, special=special), nbytes // 2, nbytes // 2, {}, macs)


def conv(channels, out, kernel, groups=1, stride=1, side=16, rank=2, n=4, dilation=1):
    shapes = {"x": (n, channels, *(side * stride,) * rank), "w": (out, channels // groups, *(kernel,) * rank)}
    settings = {"groups": groups, "stride": (stride,) * rank, "dilation": (dilation,) * rank}
    return call("conv", shapes, (n, out, *(side,) * rank), settings)


def window(op, kernel, **more):
    shape = (2, 4, *(16,) * len(kernel))
    return call(op, {"x": shape}, shape, {"kernel": kernel}, **more)


@pytest.mark.parametrize(
    ("made", "family", "axes"),
    [
        # 4 x 16 x 16 = 2^10 rows; a kernel of 2 x 2 weighs 0.75 x 2
        (conv(8, 32, 1), "conv 1x1", (10, 5, 3, 0, 0, 0)),
        (conv(8, 32, 2), "conv kxk", (10, 5, 3, 1.5, 0, 0)),
        (conv(8, 32, 2, stride=2), "conv kxk", (10, 5, 3, 1.5, 0, 2)),
        (conv(32, 32, 2, groups=4), "grouped conv", (10, 3, 3, 1.5, 1, 0)),
        (conv(16, 16, 4, groups=16), "depthwise", (10, 0, 0, 3, 2, 0)),
        (
            call("conv_transpose", {"x": (4, 8, 16, 16), "w": (8, 4, 2, 2)}, (4, 4, 32, 32), {"stride": (2, 2)}),
            "conv_transpose",
            (10, 2, 3, 1.5, 0, 2),
        ),
        (call("linear", {"x": (2, 8, 16), "w": (64, 16)}, (2, 8, 64)), "linear", (4, 6, 4, 0, 0)),
        (call("linear", {"x": (1, 16), "w": (64, 16)}, (1, 64)), "linear", (0, 6, 4, 0, APART)),
        (call("matmul", {"x0": (4, 8, 16), "x1": (4, 16, 32)}, (4, 8, 32)), "matmul", (3, 5, 4, 2, 0)),
        (call("matmul", {"x0": (4, 8, 16), "x1": (16, 32)}, (4, 8, 32)), "linear", (5, 5, 4, 0, 0)),
        (call("matmul", {"x0": (8, 16), "x1": (16,)}, (8,)), "linear", (3, 0, 4, 0, APART)),
        (
            call("attention", dict.fromkeys("qkv", (2, 4, 8, 16)), (2, 4, 8, 16), {"causal": True}),
            "attention",
            (3, 3, 4, 3, APART / 2, 0),
        ),
        (
            call("multi_head_attention", {"q": (2, 8, 64), "w0": (192, 64)}, (2, 8, 64), {"heads": 4}),
            "multi_head_attention",
            (1, 3, 6),
        ),
        (call("softmax", {"x": (4, 64)}, (4, 64), {"axis": 1}), "softmax", (8, 3)),
        # FLOPs and bytes, and no kernel: of all positions, along as many axes as x has behind its channels
        (call("avg_pool", {"x": (2, 4, 16, 16)}, (2, 4, 1, 1)), "avg_pool", (3, 10, 0)),
        (call("avg_pool", {"x": (2, 4, 16)}, (2, 4, 1)), "avg_pool 1d", (3, 10, 0)),
        (call("layer_norm", {"x": (4, 4, 16)}, (4, 4, 16), {"axis": (1, 2)}), "layer_norm", (8, 3)),
        (call("relu", {"x": (8,)}, (8,)), "relu", (3, 10)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_coordinates_are_logarithms_of_sizes(made, family, axes):
    found = site_of(made, cost())
    assert found.family == family
    assert found.axes[: len(axes) + 2] == pytest.approx((*axes, 0, 0))  # neither strided nor in place
    assert found.size == (3, 10)


@pytest.mark.parametrize(
    ("made", "product"),
    [
        (conv(8, 32, 1), Product(1024, 32, 8)),
        (conv(8, 32, 3), Product(1024, 32, 72)),
        (conv(32, 64, 3, groups=4), Product(1024, 16, 72, 4)),
        (conv(8, 32, 3, rank=3, side=4), Product(256, 32, 216)),
        (call("matmul", {"x0": (4, 8, 16), "x1": (4, 16, 32)}, (4, 8, 32)), Product(8, 32, 16, 4)),
        (call("relu", {"x": (8,)}, (8,)), None),
        (conv(16, 16, 4, groups=16), None),
    ],
    ids=str,
)
def test_the_product_of_a_call_is_read_from_its_coordinates(made, product):
    assert product_of(site_of(made, cost())) == product


@pytest.mark.parametrize(
    ("made", "family", "later"),
    [
        (conv(8, 32, 3, rank=1), "conv kxk 1d", (0, 0)),
        (conv(8, 32, 3, rank=3), "conv kxk 3d", (0, 0)),
        (conv(8, 32, 1, rank=3), "conv 1x1 3d", (0, 0)),
        (conv(16, 16, 3, groups=16, rank=1), "depthwise 1d", (0, 0)),
        (conv(32, 32, 3, groups=4, rank=3), "grouped conv 3d", (0, 0)),
        # half of the logarithm of 4 x 4, or of 64
        (conv(8, 32, 3, dilation=4), "conv kxk", (0, 2)),
        (conv(8, 32, 3, rank=1, dilation=64), "conv kxk 1d", (0, 3)),
        # one sample of 8 x 16 x 16 elements, of 8 x 32 x 32 x 32, one for a large kernel, and one in groups
        (conv(8, 32, 3, n=1), "conv kxk", (2 * APART, 0)),
        (conv(8, 32, 3, n=1, side=128), "conv kxk", (0, 0)),
        (conv(8, 32, 5, n=1), "conv kxk", (0, 0)),
        (conv(8, 32, 5, n=1, rank=1), "conv kxk 1d", (2 * APART, 0)),
        (conv(32, 32, 3, n=1, groups=4), "grouped conv", (0, 0)),
        (
            call("conv_transpose", {"x": (1, 8, 4, 4, 4), "w": (8, 4, 2, 2, 2)}, (1, 4, 8, 8, 8), {"stride": (2,) * 3}),
            "conv_transpose 3d",
            (),
        ),
        (
            call("conv_backward", {"dy": (1, 8, 9), "x": (1, 4, 9), "w": (8, 4, 2)}, (8, 4, 2), {"groups": 1}),
            "conv_backward 1d",
            (3, 2, 0.75, 0),
        ),
        (window("max_pool", (2, 2)), "max_pool", (1.5,)),
        (window("max_pool", (4, 4, 4)), "max_pool 3d", (4.5,)),
        (window("avg_pool", (8,)), "avg_pool 1d", (2.25,)),
        (call("resize", {"x": (1, 2, 4, 4, 4)}, (1, 2, 8, 8, 8)), "resize 3d", ()),
        # 32 positions of 4 rows
        (call("lstm", {"x": (4, 32, 16), "h0": (1, 4, 8), "w0": (32, 16)}, (4, 32, 8)), "lstm", (5, 2)),
        # 32 positions, two layers in both directions
        (
            call(
                "rnn",
                {"x": (4, 32, 16), "h0": (4, 4, 8)},
                (4, 32, 16),
                {"hidden": 8, "layers": 2, "bidirectional": True},
            ),
            "rnn",
            (7, 2),
        ),
        (call("gru", {"x": (4, 16), "h0": (4, 8), "w0": (24, 16)}, (4, 8)), "gru", (0, 2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_family_tells_the_rank_and_the_last_coordinates_what_older_files_lack(made, family, later):
    found = site_of(made, cost(macs=4))
    assert found.family == family
    assert found.axes[len(found.axes) - len(later) :] == pytest.approx(later)
    assert found.axes[len(found.axes) - len(later) - 2 :][:2] == (0, 0)  # neither strided nor in place


def test_strided_operands_and_results_in_place_are_apart():
    plain = call("relu", {"x": (8,)}, (8,))._replace(inputs=(1,), outputs=(2,), storages=(5, 6))
    strided, in_place = plain._replace(strided=(0,)), plain._replace(storages=(5, 5))
    assert [site_of(each, cost()).axes[-2:] for each in (plain, strided, in_place)] == [(0, 0), (APART, 0), (0, APART)]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (cost(macs=4), "product"),
        (cost(special=1), "special"),
        (cost(), "arithmetic"),
        (cost(flops=0), "move"),
        (cost(flops=0, nbytes=0), "free"),
        (Cost(8, 4, 4, {}), "arithmetic"),
    ],
)
def test_the_kind_follows_from_what_a_call_costs(given, kind):
    assert site_of(call("relu", {"x": (8,)}, (8,)), given).kind == kind


def test_steps_of_a_recurrence_follow_one_another():
    shapes, settings = {"x": (4, 32, 16), "h0": (2, 4, 8)}, {"hidden": 8, "layers": 2}
    layer = site_of(call("gru", shapes, (4, 32, 8), settings), cost(macs=4))
    assert steps_of(layer) == 64
    assert steps_of(layer._replace(axes=layer.axes[:4])) == 1  # of a file that does not have them
    assert steps_of(site_of(call("relu", {"x": (8,)}, (8,)), cost())) == 1


def test_operators_like_no_other_are_opaque():
    shapes = {"x": (8,)}
    assert [site_of(call(op, shapes, (8,)), cost()).kind for op in ("sort", "cumsum", "nothing_known", "relu")] == [
        *("opaque", "opaque", "opaque", "arithmetic")
    ]


def test_a_zero_cost_call_has_no_coordinates_but_its_operator():
    found = site_of(call("view", {"x": (8,)}, (8,)), cost(flops=0, nbytes=0))
    assert (found.family, found.axes) == ("view (zero-cost)", (0, 0))


def test_symbolic_sizes_are_refused_with_what_to_do():
    n = sympy.Symbol("n", integer=True, positive=True)
    made = call("relu", {"x": (n,)}, (n,), name="relu-1")
    with pytest.raises(CostError, match=r"relu-1: time needs numeric sizes; .* report\.subs"):
        site_of(made, Cost(n, 4 * n, 4 * n, {}))
