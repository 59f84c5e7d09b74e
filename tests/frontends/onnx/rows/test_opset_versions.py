"""Operators whose arguments or meaning changed from one opset to another."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from tests.frontends.onnx.read_model import read, shapes
from tests.whole_networks.onnx_models import Graph

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL


def layer(op, *constants, opset, x=(2, 3, 4), outputs=1, **attrs):
    """The layer of one node, whose constants are numbers (scalars) or tuples of them."""
    g = Graph(opset)
    given = []
    for c in constants:
        elements = c if isinstance(c, tuple) else (c,)
        dtype = {bool: BOOL, float: FLOAT, int: TensorProto.INT64}[type(elements[0])]
        given.append(g.number(*elements, dtype=dtype, scalar=not isinstance(c, tuple)))
    return read(g.model({"x": x}, g(op, "x", *given, outputs=outputs, **attrs))).calls[-1].layer


def test_clip_takes_bounds_as_attributes_then_inputs():
    old = layer("Clip", opset=6, min=0.0, max=6.0)
    assert dict(old.attrs) == {"lower": 0.0, "upper": 6.0}
    assert layer("Clip", 0.0, 6.0, opset=13) == old
    assert dict(layer("Clip", opset=6, min=0.0).attrs) == {"lower": 0.0}


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax"])
def test_reductions_take_axes_as_attribute_then_input(op):
    old, new = layer(op, opset=11, axes=[-1]), layer(op, (-1,), opset=18)
    assert old == new
    assert old.attrs["axis"] == (2,)
    assert (old.out.shape, old.attrs["keepdims"]) == ((2, 3, 1), True)
    assert layer(op, opset=18).attrs["axis"] == (0, 1, 2)
    assert layer(op, opset=18, noop_with_empty_axes=1).out.shape == (2, 3, 4)


def test_slice_squeeze_unsqueeze_and_pad_take_attributes_then_inputs():
    old = layer("Slice", opset=9, starts=[1], ends=[2**31], axes=[1])
    assert old == layer("Slice", (1,), (2**62,), (1,), opset=13)
    assert old.out.shape == (2, 2, 4)
    assert layer("Squeeze", opset=11, x=(1, 3), axes=[0]).out.shape == (3,)
    assert layer("Squeeze", (0,), opset=13, x=(1, 3)).out.shape == (3,)
    assert layer("Unsqueeze", opset=11, axes=[0, 2]).out.shape == (1, 2, 1, 3, 4)
    assert layer("Unsqueeze", (0, -1), opset=13).out.shape == (1, 2, 3, 4, 1)
    assert layer("Pad", opset=2, x=(2, 3), pads=[0, 1, 0, 1]).out.shape == (2, 5)
    assert layer("Pad", (0, 1, 0, 1), opset=11, x=(2, 3)).out.shape == (2, 5)
    assert layer("Pad", (1, 1), 0.0, (1,), opset=18, x=(2, 3)).out.shape == (2, 5)


@pytest.mark.parametrize(
    ("opset", "names", "settings", "training"),
    [
        (7, 1, {}, False),
        (9, 1, {}, False),
        (15, 1, {}, False),
        (15, 3, {"training_mode": 1}, True),
        (6, 1, {"is_test": 1}, False),
        (6, 5, {}, True),
    ],
)
def test_batch_normalization_trains_where_it_says_so(opset, names, settings, training):
    g = Graph(opset)
    made = g("BatchNormalization", "x", *(g.weight(3) for _ in range(4)), outputs=names, **settings)
    recorder = read(g.model({"x": (2, 3, 4)}, made if names == 1 else made[0]))
    found = recorder.calls[0].layer
    assert found.attrs["training"] is training
    assert [found[name].role for name in ("w", "b", "mean", "var")] == ["param", "param", "state", "state"]
    assert len(found.outputs) == 1
    assert recorder.n_params_model == 6
    assert sum(recorder.parameters[i] for i in recorder.calls[0].parameters) == 6


def test_resize_by_scales_and_sizes_in_every_version():
    x, scales = (1, 2, 4, 6), (1.0, 1.0, 2.0, 0.5)
    assert layer("Upsample", opset=7, x=x, scales=scales).out.shape == (1, 2, 8, 3)
    assert layer("Upsample", scales, opset=9, x=x).out.shape == (1, 2, 8, 3)
    assert layer("Resize", scales, opset=10, x=x).out.shape == (1, 2, 8, 3)
    g = Graph(13)
    roi, sizes = g.number(dtype=FLOAT), g.number(1, 2, 5, 7)
    assert shapes(g.model({"x": x}, g("Resize", "x", roi, "", sizes))) == [(1, 2, 5, 7)]
    g = Graph(18)
    assert shapes(g.model({"x": x}, g("Resize", "x", "", "", g.number(8, 8), axes=[2, 3]))) == [(1, 2, 8, 8)]
    wider = {"keep_aspect_ratio_policy": "not_larger", "axes": [2, 3]}
    g = Graph(18)
    assert shapes(g.model({"x": x}, g("Resize", "x", "", "", g.number(8, 8), **wider))) == [(1, 2, 5, 8)]


@pytest.mark.parametrize(
    ("mode", "out", "padding"),
    [("VALID", 3, 0), ("SAME_UPPER", 4, ((0, 1), (0, 1))), ("SAME_LOWER", 4, ((1, 0), (1, 0)))],
)
def test_auto_pad_is_resolved(mode, out, padding):
    # length 8, kernel 3, stride 2: SAME makes ceil(8 / 2) = 4, for which 3 * 2 + 3 - 8 = 1 element is added
    g = Graph()
    y = g("Conv", "x", g.weight(4, 2, 3, 3), strides=[2, 2], auto_pad=mode)
    found = read(g.model({"x": (1, 2, 8, 8)}, y)).calls[-1].layer
    assert found.out.shape == (1, 4, out, out)
    assert found.attrs["padding"] == (padding if mode != "VALID" else (0, 0))
    assert found.attrs["kernel"] == (3, 3)
