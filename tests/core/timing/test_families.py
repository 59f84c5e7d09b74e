"""Families and coordinates of calls, with their logarithms by hand."""

from __future__ import annotations

import pytest
import sympy

from costcore import CostError
from costcore.ir import Cost, Layer, Operations, Tensor
from costcore.timing.families import APART, product_of, site_of
from costcore.timing.tiles import Product
from costcore.trace.call import Call


def call(op, inputs, output, attrs=None, **options):
    tensors = {name: Tensor(shape) for name, shape in inputs.items()}
    return Call(Layer(op, tensors, [Tensor(output)], attrs or {}), op, **options)


def cost(flops=8, macs=0, nbytes=1024, special=0):
    return Cost(Operations(add=flops - special, special=special), nbytes // 2, nbytes // 2, {}, macs)


def conv(channels, out, kernel, groups=1, stride=1, side=16):
    shapes = {"x": (4, channels, side * stride, side * stride), "w": (out, channels // groups, kernel, kernel)}
    return call("conv", shapes, (4, out, side, side), {"groups": groups, "stride": (stride, stride)})


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
        (call("layer_norm", {"x": (4, 4, 16)}, (4, 4, 16), {"axis": (1, 2)}), "layer_norm", (8, 3)),
        (call("relu", {"x": (8,)}, (8,)), "relu", (3, 10)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_coordinates_are_logarithms_of_sizes(made, family, axes):
    found = site_of(made, cost())
    assert found.family == family
    assert found.axes == pytest.approx((*axes, 0, 0))  # neither strided nor in place
    assert found.size == (3, 10)


@pytest.mark.parametrize(
    ("made", "product"),
    [
        (conv(8, 32, 1), Product(1024, 32, 8)),
        (conv(8, 32, 3), Product(1024, 32, 72)),
        (conv(32, 64, 3, groups=4), Product(1024, 16, 72, 4)),
        (call("matmul", {"x0": (4, 8, 16), "x1": (4, 16, 32)}, (4, 8, 32)), Product(8, 32, 16, 4)),
        (call("relu", {"x": (8,)}, (8,)), None),
        (conv(16, 16, 4, groups=16), None),
    ],
    ids=str,
)
def test_the_product_of_a_call_is_read_from_its_coordinates(made, product):
    assert product_of(site_of(made, cost())) == product


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


def test_a_zero_cost_call_has_no_coordinates_but_its_operator():
    found = site_of(call("view", {"x": (8,)}, (8,)), cost(flops=0, nbytes=0))
    assert (found.family, found.axes) == ("view (zero-cost)", (0, 0))


def test_symbolic_sizes_are_refused_with_what_to_do():
    n = sympy.Symbol("n", integer=True, positive=True)
    made = call("relu", {"x": (n,)}, (n,), name="relu-1")
    with pytest.raises(CostError, match=r"relu-1: time needs numeric sizes; .* report\.subs"):
        site_of(made, Cost(n, 4 * n, 4 * n, {}))
