"""Elements picked by a known condition, by hand."""

from __future__ import annotations

from onnx import TensorProto, helper

from costcore.ir import Operations
from tests.frontends.onnx.read_model import read
from tests.frontends.onnx.rows.single_node import STRING, priced
from tests.whole_networks.onnx_models import Graph


def test_known_elements_say_how_many_are_picked():
    assert priced("Compress", (3, 4), [1, 0, 1], axis=0)[0].out.shape == (2, 4)
    assert priced("Compress", (3, 4), [0, 1, 1, 1])[0].out.shape == (3,)
    assert priced("Compress", (3, 2), [0, 1, 1], axis=1)[0].out.shape == (3, 1)  # the third is of no column
    layer, cost = priced("NonZero", [5, 0, 7])
    assert (layer.op, layer.out.shape, cost.flops) == ("constant", (1, 2), Operations())
    assert [y.shape for y in priced("Unique", (1,), outputs=4)[0].outputs] == [(1,)] * 4
    first, _, inverse, _ = priced("Unique", (3, 2), outputs=4, axis=1)[0].outputs
    assert (str(first.shape), inverse.shape) == ("(3, Unique_0_0_1)", (2,))
    assert priced("StringSplit", (STRING, (0,)), outputs=2)[0].out.shape == (0, 0)


def test_no_axes_at_all_are_all_axes_of_size_1():
    g = Graph()
    g.stored.append(helper.make_tensor("axes", TensorProto.INT64, (0,), []))
    assert read(g.model({"x": (1, 3, 1)}, g("Squeeze", "x", "axes"))).calls[0].layer.out.shape == (3,)
    assert priced("Squeeze", (1, 3, 1))[0].out.shape == (3,)
    assert priced("Squeeze", (1, 3, 1), [0])[0].out.shape == (3, 1)
