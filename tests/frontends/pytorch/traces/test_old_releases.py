"""What traces of old releases and of TorchScript leave out of arguments, or have besides."""

from __future__ import annotations

import pytest

from costcore import estimate
from tests.frontends.pytorch.traces.recording import op, tensor, write

NUMBER = ("Scalar", [], [], "")
UNKNOWN = ("", [], [], "")
ONE = tensor(dtype="int")


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("aten::pow", (tensor(6, 9), tensor(6), tensor(7, 2), tensor(4, 5), NUMBER), (4, 5)),
        ("aten::sum", (UNKNOWN, tensor(3, 8, dtype="int"), UNKNOWN, NUMBER, UNKNOWN), (3, 8)),
        ("aten::view", (tensor(9, dtype="int"), tensor(4, 5, dtype="long"), UNKNOWN), (4, 5)),
        ("aten::eq", (NUMBER, NUMBER, ONE, NUMBER), ()),
        ("aten::add", (tensor(2, 3), tensor(2, 3), NUMBER), (2, 3)),
    ],
)
def test_the_last_values_of_the_stack_of_torchscript_are_the_arguments(name, arguments, shape, tmp_path):
    (record,) = estimate(write(tmp_path / "trace.json", [op(name, 0, 5, *arguments)])).trace
    assert record.call.native == name and record.cost is not None
    assert next(iter(record.call.layer.inputs.values())).shape == shape


def test_of_a_condition_with_too_few_values_no_other_overload_is_taken(tmp_path):
    """``where(condition, a, b)`` whose operands do not fit is not the count of what is true in b."""
    arguments = (tensor(2, 3, dtype="bool"), tensor(2, 3), tensor(7))
    with pytest.warns(UserWarning, match="not counted"):
        (record,) = estimate(write(tmp_path / "trace.json", [op("aten::where", 0, 5, *arguments)])).trace
    assert record.cost is None


def test_masks_axes_and_sizes_of_norms_are_assumed(tmp_path):
    x, row, each = tensor(16, 8), tensor(8), tensor(16, 1)
    events = [
        op("aten::native_layer_norm_backward", 0, 5, x, x, UNKNOWN, each, each, row, row, UNKNOWN),
        op("aten::cumsum", 10, 5, tensor(16, 8), NUMBER, UNKNOWN),
        op("aten::select", 20, 5, tensor(16, 8), NUMBER, NUMBER),
    ]
    report = estimate(write(tmp_path / "trace.json", events))
    norm, total, row_of = report.trace
    values = 16 * 8 * 4
    assert norm.cost.mwrite == values + 2 * 8 * 4  # of the input, the weight and the bias
    assert (total.cost.mread, total.cost.mwrite, total.cost.flops.add) == (values, values, 16 * 7)
    assert row_of.cost.mread == row_of.cost.mwrite == 0
    assert report.status == "assumed"
    assert "trace: output_mask of aten::native_layer_norm_backward is not in the trace; a typical value is assumed" in [
        each.what for each in report.assumptions
    ]
