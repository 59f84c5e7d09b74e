"""Extreme models and inputs: shared, deep, cyclic, empty, huge, lazy, unsupported, of any signature."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, CostError, CostWarning, Tensor, estimate
from tests.frontends.pytorch.differences import NEEDS_GROUPED_PRODUCTS
from tests.frontends.pytorch.runs import estimated, macs, record, types
from tests.frontends.pytorch.test_estimate import Call
from tests.frontends.pytorch.unchanged import unchanged

X = torch.ones(2, 4)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_p17_shared_modules_and_tied_weights_cost_every_time_and_are_counted_once(device):
    layer = nn.Linear(4, 4)
    other = nn.Linear(4, 4, bias=False)
    other.weight = layer.weight
    model = nn.Sequential(layer, nn.Sequential(layer), other)
    if device == "meta":
        report = estimate(model, (2, 4))
    else:
        with ComputationalCostHook(frontends=["pytorch"]) as cch:
            model(X)
        report = cch.report
    assert report.total_report["macs"] == 3 * 2 * 4 * 4
    assert report.total_report["n_params"] == 4 * 4 + 4
    assert report.total_report.get("n_params_model", 4 * 4 + 4) == 4 * 4 + 4
    assert [entry["module"] for entry in report.layer_report.values()] == ["0", "1.0", "2"]


def test_p18_lazy_modules_get_shapes_in_the_copy_and_stay_lazy():
    model = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d())
    with unchanged(model):
        assert macs(estimated(model, (2, 4)).calls) == 2 * 4 * 5
    assert isinstance(model[0].weight, nn.UninitializedParameter)
    model(X)
    assert macs(estimated(model, (2, 4)).calls) == 2 * 4 * 5


def nested(depth):
    model = nn.Linear(4, 4)
    for _ in range(depth):
        model = nn.Sequential(model)
    return model


def runs_bare(depth):
    try:
        nested(depth)(X)
    except RecursionError:
        return False
    return True


@pytest.mark.parametrize("backward", [False, True])
def test_p20_as_deep_as_the_bare_model(backward):
    deepest = bisect_left(range(1000), True, key=lambda depth: not runs_bare(depth)) - 1  # by the limits of this Python
    assert 150 < deepest < 998
    model = nested(deepest - 5)
    assert types(record(lambda: model(X))) == ["linear"]
    recorder = estimated(model, (2, 4), backward=backward)
    assert recorder.calls[0].module == ".".join(["0"] * (deepest - 5))


def test_p21_a_graph_of_modules_with_a_cycle():
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].owner = nn.ModuleList([model])
    assert [(c.type, c.module) for c in record(lambda: model(X)).calls] == [("linear", "0")]
    with unchanged():
        recorder = estimated(model, (2, 4), backward=True)
    assert macs(recorder.calls) == 2 * (2 * 4 * 4)  # forward, and the gradient of the weight
    assert recorder.modules["0.owner.0"].same_as == ""


def test_p22_an_empty_batch_costs_nothing_and_a_wrong_shape_is_an_error():
    report = estimate(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), (0, 3, 8, 8))
    assert (report.total_report["flops"], report.total_report["macs"]) == (0, 0)
    with pytest.raises(CostError, match=r"Sequential, module 0 \(Conv2d\): .*(too small|[Kk]ernel)"):
        estimate(nn.Sequential(nn.Conv2d(3, 4, 3)), (1, 3, 2, 2))


def test_p24_a_tensor_too_large_for_pytorch_is_an_error():
    with pytest.raises(CostError, match=r"inputs: .*\(1099511627776, 1099511627776\).*Storage size"):
        estimate(nn.ReLU(), (2**40, 2**40))
    with pytest.raises(CostError, match="Storage size"):
        estimate(Call(lambda x: x @ x.T), (2**33, 1))


def test_p26_operators_of_users_are_named_and_can_be_priced():
    with torch.library._scoped_library("costcoretest", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", torch.empty_like, "Meta")

        def twice(x):
            return torch.ops.costcoretest.twice(x)

        with pytest.warns(CostWarning, match="costcoretest::twice"):
            report = estimate(Call(twice), (2, 4))
        (ignored,) = report.ignored_layers.values()
        assert (ignored["type"], ignored["mread"], ignored["mwrite"]) == ("costcoretest::twice", 32, 32)
        cch = ComputationalCostHook(frontends=["pytorch"])
        cch.add_custom_cost_calculator("costcoretest::twice", lambda layer: (layer.out.size, layer.read, 0, {}))
        with cch:
            twice(X)
        assert (cch.total_report["flops"], cch.total_report["mread"], cch.ignored_layers) == (8, 32, {})


@dataclasses.dataclass
class Output:
    y: torch.Tensor
    nothing: None = None
    more: tuple = ()


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, *, scale: x * scale, {"x": (2, 4), "scale": 2.0}),
        (lambda *xs: xs[0] + xs[1], [(2, 4), (2, 4)]),
        (lambda x, flag=None: {"y": x if flag else x + 1, "none": None}, {"x": (2, 4), "flag": False}),
        (lambda xs: [x + 1 for x in xs], [[(2, 4), (3,)]]),
        (lambda tree: tree["a"]["b"][0] + 1, {"tree": {"a": {"b": [(2, 4)]}}}),
        (lambda x: x.float() + 1, Tensor((2, 4), "int64")),
        (lambda x, name: x + len(name), ((2, 4), "text")),
    ],
)
def test_p35_any_signature(function, inputs):
    recorder = estimated(Call(function), inputs)
    assert {"add", "mul"} & set(types(recorder))


def test_p35_any_output():
    def run(x):
        return Output(x @ x.T, more=({"z": x.sum()}, None, "text", 3))

    model = Call(lambda x: run(x * model_scale(x)))
    model_scale = torch.ones_like
    assert macs(estimated(model, (2, 4)).calls) == 2 * 4 * 2
    linear = nn.Linear(4, 3)
    model = Call(lambda x: Output(x.sum(), more=[{"z": x}, None]))
    recorder = estimated(nn.Sequential(linear, model), (2, 4), backward=True)
    assert macs([call for call in recorder.calls if call.phase == "backward"]) == 2 * 4 * 3


DATA_DEPENDENT = {
    "nonzero": (lambda x: x.nonzero(), (8, 2)),
    "where": (lambda x: torch.where(x > 0)[0], (8,)),
    "argwhere": (torch.argwhere, (8, 2)),
    "mask": (lambda x: x[x > 0], (8,)),
    "mask of rows": (lambda x: x[x.sum(1) > 0], (2, 4)),
    "masked_select": (lambda x: x.masked_select(x > 0), (8,)),
    "unique": (torch.unique, (8,)),
    "unique_consecutive": (torch.unique_consecutive, (8,)),
    "unique of rows": (lambda x: torch.unique(x, dim=0), (2, 4)),
    "bincount": (lambda x: torch.bincount(x[0].long(), minlength=5), (5,)),
    "repeat_interleave": (lambda x: torch.repeat_interleave(x[0].long()), (4,)),
    "histogram": (lambda x: torch.histogram(x, 6)[0], (6,)),
    "lstsq": (lambda x: torch.linalg.lstsq(x.T, x.T)[0], (2, 2)),
    "to the CPU": (lambda x: x.cpu() + 1, (2, 4)),
}
"""What depends on data, and the shape of its result where there is none: the largest possible, or of ones."""


@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_p36_what_depends_on_data_takes_its_largest_size(name):
    function, shape = DATA_DEPENDENT[name]
    recorder = estimated(Call(function), (2, 4))
    assert recorder.calls[-1].layer.outputs[0].shape == shape
    under_a_hook = record(lambda: function(torch.empty(2, 4, device="meta")))
    assert [call.layer for call in under_a_hook.calls] == [call.layer for call in recorder.calls]
    assert [a.what for a in recorder.assumptions] == [a.what for a in under_a_hook.assumptions]
    assert len(recorder.assumptions) == (name not in ("histogram", "lstsq", "to the CPU"))


@pytest.mark.parametrize("function", [torch.unique, torch.unique_consecutive])
@pytest.mark.parametrize("asked", [{}, {"return_inverse": True}, {"return_counts": True}, {"dim": 1}])
def test_p36_unique_writes_only_the_requested_outputs(function, asked):
    x = torch.arange(8.0).reshape(2, 4)
    recorder = record(lambda: function(x, **asked))
    found = estimated(Call(lambda x: function(x, **asked)), (2, 4))
    assert [call.layer for call in found.calls] == [call.layer for call in recorder.calls]


def test_p36_a_check_on_which_the_model_fails_is_passed():
    def checked(x):
        is_negative = bool((x < 0).any())
        if is_negative:
            raise ValueError("a negative length")
        return x * 2

    recorder = estimated(Call(checked), (2, 4))
    assert [call.type for call in recorder.calls if call.type == "mul"] == ["mul"]
    assert any("because the model fails if it is True" in each.what for each in recorder.assumptions)


def test_p36_an_error_after_an_assumption_reports_the_assumption():
    def checked(x):
        length = int(x.sum())
        if length == 1:
            raise ValueError("a length of one")
        return x

    message = r"raised ValueError: a length of one at .*; assumed before: a number read .* assumed to be 1; count a"
    with pytest.raises(CostError, match=message):
        estimated(Call(checked), (2, 4))


def test_p36_a_loop_until_data_changes_is_an_error():
    def model(x):
        while (x > 0).any():
            x = x - 1
        return x

    with pytest.raises(CostError, match="read 3,000 times; it seems to loop until its data changes"):
        estimate(Call(model), (1,))


def test_a_loop_that_ends_by_a_number_is_an_error_and_one_over_many_numbers_is_not():
    def adaptive(x):
        while True:
            error = x.norm().item()
            if error < 1:
                return x

    def counted(x):
        return x * sum(x[i % 4].item() for i in range(3_500))

    with pytest.raises(CostError, match="read 3,000 times; it seems to loop until its data changes"):
        estimate(Call(adaptive), (4,))
    assert estimate(Call(counted), (4,)).status == "assumed"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("device", ["cpu", "meta"])
@NEEDS_GROUPED_PRODUCTS
def test_products_of_groups_in_every_type(dtype, device):
    rows, weights = torch.ones(16, 8, dtype=dtype, device=device), torch.ones(3, 8, 8, dtype=dtype, device=device)
    ends = torch.tensor([4, 8, 16], dtype=torch.int32).to(device)
    if device == "cpu" and dtype is torch.float16:
        rows, weights = rows.bfloat16(), weights.bfloat16()  # a CPU has no kernel for this type
    recorder = record(lambda: torch._grouped_mm(rows, weights, offs=ends))
    assert recorder.calls[-1].layer.out.shape == (16, 8)
    assert macs(recorder.calls) == 16 * 8 * 8
    assert recorder.assumptions == []
