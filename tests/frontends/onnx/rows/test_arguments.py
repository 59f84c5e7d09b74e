"""Settings of layers that follow from other versions, from values, or from windows that hang over."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from costcore import CostError, estimate
from tests.frontends.onnx.read_model import read, shapes, total
from tests.whole_networks.onnx_models import Graph

INT32 = TensorProto.INT32


@pytest.mark.parametrize(
    ("opset", "settings", "mode"),
    [
        *((16, {}, "linear"), (16, {"mode": "nearest"}, "nearest")),
        *((16, {"mode": "bilinear"}, "linear"), (16, {"mode": "bicubic"}, "cubic")),
        *((20, {}, "linear"), (20, {"mode": "nearest"}, "nearest")),
        *((20, {"mode": "linear"}, "linear"), (20, {"mode": "cubic"}, "cubic")),
    ],
)
def test_samples_of_a_grid_are_interpolated_by_one_name_in_all_versions(opset, settings, mode):
    g = Graph(opset)
    report = estimate(g.model({"x": (2, 3, 4, 4), "grid": (2, 5, 5, 2)}, g("GridSample", "x", "grid", **settings)))
    assert report.calls[-1].layer.attrs["mode"] == mode
    operations = {"nearest": 0, "linear": 3 + 6, "cubic": 20 + 15}[mode]
    assert report.total_report["flops"] == operations * 2 * 3 * 25


def test_a_window_may_hang_over_the_end_where_lengths_are_rounded_up():
    def pooled(**settings: int) -> Graph:
        g = Graph()
        y = g("MaxPool", "x", kernel_shape=[3], dilations=[2], strides=[3], pads=[1, 1], **settings)
        return g.model({"x": (5, 7, 2)}, y)

    assert shapes(pooled(ceil_mode=1))[0] == (5, 7, 1)  # it reaches over 5 of 4 places: ceil((4 - 5) / 3) + 1
    with pytest.raises(CostError, match=r"the kernel \(3,\), larger than its padded input of shape \(2,\)"):
        read(pooled())


@pytest.mark.parametrize(
    ("lengths", "steps"),
    [((5, 4, 1), 10), ((5, 5, 5), 15), ((9, 1, 1), 7), ((-1, 2, 2), 15), (None, 15)],
    ids=["of each", "all", "too long", "negative", "left out"],
)
@pytest.mark.parametrize("layout", [0, 1])
def test_sequences_whose_lengths_are_known_take_so_many_steps(lengths, steps, layout):
    g = Graph()
    weights = g.weight(1, 4 * 6, 3), g.weight(1, 4 * 6, 6)
    places = g.number(*lengths, dtype=INT32) if lengths else ""
    y = g("LSTM", "x", *weights, "", places, hidden_size=6, layout=layout)
    model = g.model({"x": (3, 5, 3) if layout else (5, 3, 3)}, y)
    assert total(read(model).calls, "macs") == steps * 4 * 6 * (3 + 6)
