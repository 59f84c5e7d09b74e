"""Rows of quantization, dequantization, and operators on quantized values and packed weights."""

from __future__ import annotations

import pytest
import torch

from costcore import ComputationalCostHook, CostError, estimate
from costcore.ir import Operations
from tests.frontends.pytorch.rows.recorded_costs import costs
from tests.frontends.pytorch.runs import capturing, record
from tests.registered import price


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantization_and_back():
    x = torch.ones(3, 4)
    ((layer, cost),) = costs(record(lambda: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)), "quantize_per_tensor")
    assert (layer.op, cost.flops, cost.mread, cost.mwrite) == ("quantize", Operations(add=12, div=12, cmp=36), 48, 12)
    quantized = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    ((layer, cost),) = costs(record(quantized.dequantize), "dequantize")
    assert (layer.op, cost.flops, cost.mread, cost.mwrite) == ("dequantize", Operations(add=12, mul=12), 12, 48)
    faked = record(lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255))
    assert "fake_quantize" in [call.layer.op for call in faked.calls]


def test_linear_layers_of_quanto():
    library = torch.library.Library("quanto", "FRAGMENT")
    library.define("qbytes_mm(Tensor A, Tensor B, Tensor scales) -> Tensor")
    library.impl("qbytes_mm", lambda x, w, scales: x @ (scales * w).t(), "CompositeExplicitAutograd")
    x, w, scales = torch.ones(2, 3, 8), torch.ones(5, 8, dtype=torch.int8), torch.ones(5, 1)
    total = estimate(lambda *args: torch.ops.quanto.qbytes_mm(*args), [x, w, scales]).total_report
    # 30 products of vectors of 8, of 8 FLOPs each; a multiplication for each of 40 weights
    assert (total["macs"], total["flops"]) == (240, 240 + 40)
    assert (total["mread"], total["mwrite"]) == (4 * 48 + 40 + 4 * 5, 4 * 30)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_operators_of_exported_quantized_models():
    pytest.importorskip("torch.ao.quantization.fx._decomposed")
    ops, x = torch.ops.quantized_decomposed, torch.ones(3, 4)
    scales, zeros = torch.full((3,), 0.1), torch.zeros(3, dtype=torch.int64)

    def run():
        q = ops.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)
        ops.dequantize_per_tensor(q, 0.1, 3, 0, 255, torch.uint8)
        q = ops.quantize_per_channel(x, scales, zeros, 0, -128, 127, torch.int8)
        return ops.dequantize_per_channel(q, scales, zeros, 0, -128, 127, torch.int8)

    recorder = record(run)
    found = [(call.layer.op, price(call).cost) for call in recorder.calls if call.native.startswith("quantized")]
    assert [op for op, _ in found] == ["quantize", "dequantize"] * 2
    quantized, restored = Operations(add=12, div=12, cmp=36), Operations(add=12, mul=12)
    assert [cost.flops for _, cost in found] == [quantized, restored] * 2
    assert [(cost.mread, cost.mwrite) for _, cost in found] == [(48, 12), (12, 48), (48 + 36, 12), (12 + 36, 48)]


ENGINES = [engine for engine in torch.backends.quantized.supported_engines if engine != "none"]


@pytest.fixture(params=ENGINES)
def engine(request):
    """Use each engine of this PyTorch for quantized operators."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = request.param
    yield request.param
    torch.backends.quantized.engine = before


def weight(*shape):
    return torch.quantize_per_tensor(torch.ones(shape), 0.1, 0, torch.qint8)


def channels(*shape, axis=0, zeros=torch.int64):
    """Return a weight with a scale for each output channel."""
    scales = torch.full((shape[axis],), 0.1)
    return torch.quantize_per_channel(
        torch.ones(shape), scales, torch.zeros(shape[axis], dtype=zeros), axis, torch.qint8
    )


def values(*shape):
    return torch.quantize_per_tensor(torch.ones(shape), 0.1, 3, torch.quint8)


def the_call(recorder, name):
    """Return layer, cost and parameters of the only call of a ``quantized`` operator."""
    ((call, cost),) = [(call, price(call).cost) for call in recorder.calls if call.native == f"quantized::{name}"]
    sizes = [recorder.parameters[parameter] for parameter in call.parameters]
    return call.layer, cost, sizes


quiet = pytest.mark.filterwarnings("ignore")
"""PyTorch warns that quantized tensors are deprecated, and of settings that an engine ignores."""


@quiet
@pytest.mark.parametrize("relu", [False, True])
def test_a_quantized_linear_layer_is_priced_from_its_packed_weight(engine, relu):
    """2 rows of 8 values to 4: zero point of x, 8 products onto the bias, scale, zero point, rounding, two limits."""
    packed = torch.ops.quantized.linear_prepack(weight(4, 8), torch.ones(4))
    name = "linear_relu" if relu else "linear"
    run = record(lambda: getattr(torch.ops.quantized, name)(values(2, 8), packed, 0.1, 3))
    layer, cost, parameters = the_call(run, name)
    assert layer.op == "quantized_linear"
    assert layer["w"].dtype == "int8"
    expected = Operations(add=16, fma=64) + 8 * Operations(mul=1, add=1, cmp=3 + relu)
    assert (cost.macs, cost.flops) == (64, expected)
    assert (cost.mread, cost.mwrite) == (16 + 32 + 4 * 4, 8)
    assert parameters == [32, 4]


@quiet
def test_scales_by_channel_are_read(engine):
    packed = torch.ops.quantized.linear_prepack(channels(4, 8), torch.ones(4))
    _, cost, parameters = the_call(record(lambda: torch.ops.quantized.linear(values(2, 8), packed, 0.1, 3)), "linear")
    assert cost.mread == 16 + 32 + 4 * 4 + 4 * 4
    assert parameters == [32, 4]


@quiet
def test_a_weight_that_cannot_be_unpacked_is_not_counted():
    packed = torch.ops.quantized.linear_prepack(channels(4, 8, zeros=torch.float32), None)
    plain = torch.ops.quantized.linear(values(2, 8), packed, 0.1, 3)
    run = record(lambda: torch.equal(torch.ops.quantized.linear(values(2, 8), packed, 0.1, 3), plain))
    (call,) = [call for call in run.calls if call.native == "quantized::linear"]
    assert price(call).cost is None


GROUPED = [(engine, rank) for engine in ENGINES for rank in (1, 2, 3) if (engine, rank) != ("qnnpack", 3)]
"""Engines and ranks with grouped convolutions."""


@quiet
@pytest.mark.parametrize(("engine", "rank"), GROUPED, indirect=["engine"])
def test_a_quantized_convolution_is_priced_from_its_packed_weight(engine, rank):
    """Two groups of 2 of 4 channels, kernel 3, stride 2, padding 1, 5 positions an axis: 3 positions of 8 channels."""
    ones = [1] * rank
    prepack = getattr(torch.ops.quantized, f"conv{rank}d_prepack")
    packed = prepack(weight(8, 2, *[3] * rank), torch.ones(8), [2] * rank, ones, ones, 2)
    x, name = values(1, 4, *[5] * rank), f"conv{rank}d_relu"
    layer, cost, parameters = the_call(record(lambda: getattr(torch.ops.quantized, name)(x, packed, 0.1, 3)), name)
    outputs, taps = 8 * 3**rank, 2 * 3**rank
    assert layer.op == "quantized_conv"
    assert layer.out.shape == (1, 8, *[3] * rank)
    assert layer.attrs["kernel"] == (3,) * rank
    assert (layer.attrs["stride"], layer.attrs["padding"], layer.attrs["groups"]) == ((2,) * rank, (1,) * rank, 2)
    expected = Operations(add=4 * 5**rank, fma=outputs * taps) + outputs * Operations(mul=1, add=1, cmp=4)
    assert (cost.macs, cost.flops) == (outputs * taps, expected)
    assert (cost.mread, cost.mwrite) == (4 * 5**rank + 8 * taps + 4 * 8, outputs)
    assert parameters == [8 * taps, 8]


@quiet
def test_a_transposed_quantized_convolution(engine):
    ones = [1, 1]
    packed = torch.ops.quantized.conv_transpose2d_prepack(
        weight(4, 6, 3, 3), torch.ones(6), ones, ones, [0, 0], ones, 1
    )
    run = record(lambda: torch.ops.quantized.conv_transpose2d(values(1, 4, 5, 5), packed, 0.1, 3))
    layer, cost, parameters = the_call(run, "conv_transpose2d")
    assert layer.op == "quantized_conv_transpose"
    assert cost.macs == 4 * 25 * 6 * 9
    assert parameters == [4 * 6 * 9, 6]


@quiet
def test_a_dynamically_quantized_network_counts_alike_in_a_run_and_an_estimate(engine):
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    quantized = torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear}, dtype=torch.qint8)
    with ComputationalCostHook() as hook:
        for _ in range(2):
            quantized(torch.ones(5, 8))
    assert not hook.ignored_layers
    report = estimate(quantized, (5, 8))
    assert report.status == "complete"
    assert report.total_report["macs"] == 5 * (8 * 16 + 16 * 4)
    assert hook.total_report["macs"] == 2 * report.total_report["macs"]
    assert report.total_report["n_params"] == hook.total_report["n_params"] == 8 * 16 + 16 + 16 * 4 + 4
    assert report.total_report["n_params_model"] == report.total_report["n_params"]
    ran = [call for call in hook.layer_report.values() if call["type"] != "ones"]
    for figure in ("flops", "mread", "mwrite", "op", "input_shapes"):
        assert [call[figure] for call in ran[:3]] == [call[figure] for call in report.layer_report.values()]


@quiet
def test_a_statically_quantized_network(engine):
    """A convolution with ReLU, a residual sum, a pool and a linear layer, converted by ``torch.ao.quantization``."""
    quantization = torch.ao.quantization

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.quantize, self.dequantize = quantization.QuantStub(), quantization.DeQuantStub()
            self.conv, self.relu, self.linear = torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Linear(8, 4)
            self.sum = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x):
            x = self.relu(self.conv(self.quantize(x)))
            x = self.sum.add(x, x)
            return self.dequantize(self.linear(torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)))

    net = Network().eval()
    net.qconfig = quantization.get_default_qconfig(engine)
    quantization.fuse_modules(net, [["conv", "relu"]], inplace=True)
    quantization.prepare(net, inplace=True)
    net(torch.ones(2, 3, 8, 8))
    quantization.convert(net, inplace=True)
    with ComputationalCostHook() as hook:
        net(torch.ones(2, 3, 8, 8))
    assert not hook.ignored_layers
    assert hook.total_report["macs"] == 2 * 8 * 36 * 27 + 2 * 8 * 4
    assert hook.total_report["n_params"] == 8 * 27 + 8 + 8 * 4 + 4


@quiet
def test_weights_of_half_precision_are_not_quantized():
    if "fbgemm" not in ENGINES:
        pytest.skip("only fbgemm packs half-precision weights")
    torch.backends.quantized.engine = "fbgemm"
    packed = torch.ops.quantized.linear_prepack_fp16(torch.ones(4, 8), None)
    run = record(lambda: torch.ops.quantized.linear_dynamic_fp16(torch.ones(2, 8), packed))
    layer, cost, _ = the_call(run, "linear_dynamic_fp16")
    assert (layer.op, layer["w"].dtype, cost.flops) == ("linear", "float16", Operations(mul=8, fma=8 * 7))


@quiet
@pytest.mark.parametrize(
    ("run", "name", "op", "flops"),
    [
        # both operands made real (1 add, 1 mul each), added, and quantized (1 div, 1 add, 3 cmp)
        (lambda q, x: q.add(x, x, 0.1, 3), "add", "quantized_add", 16 * Operations(add=2 + 1 + 1, mul=2, div=1, cmp=3)),
        (
            lambda q, x: q.add_relu(x, x, 0.1, 3),
            "add_relu",
            "quantized_add",
            16 * Operations(add=2 + 1 + 1, mul=2, div=1, cmp=3 + 1),
        ),
        (lambda q, x: q.mul(x, x, 0.1, 3), "mul", "quantized_mul", 16 * Operations(add=2 + 1, mul=3, div=1, cmp=3)),
        (lambda q, x: q.cat([x, x], 0, 0.1, 3), "cat", "quantized_concat", None),
        (lambda q, x: q.sigmoid(x, 0.1, 3), "sigmoid", "quantized_sigmoid", None),
        (lambda q, x: q.hardswish(x, 0.1, 3), "hardswish", "quantized_hard_swish", None),
        (lambda q, x: q.leaky_relu(x, 0.1, False, 0.1, 3), "leaky_relu", "quantized_leaky_relu", None),
        (lambda q, x: q.softmax(x, 1, 0.1, 3), "softmax", "quantized_softmax", None),
        (lambda q, x: q.layer_norm(x, [8], None, None, 1e-5, 0.1, 3), "layer_norm", "quantized_layer_norm", None),
    ],
)
def test_operators_between_quantized_products(run, name, op, flops):
    x = values(2, 8)
    layer, cost, _ = the_call(record(lambda: run(torch.ops.quantized, x)), name)
    assert layer.op == op
    assert flops is None or cost.flops == flops
    assert (cost.mread, cost.mwrite) == (16 * (2 if name in ("add", "add_relu", "mul", "cat") else 1), layer.out.size)


def test_a_quantized_input_of_an_estimate_is_refused_with_what_to_do():
    with pytest.raises(CostError, match=r"inputs\[0\]: .* quantized tensors without data; count a real run inside"):
        estimate(torch.nn.Identity(), [torch._empty_affine_quantized([2], scale=1.0, zero_point=0, dtype=torch.quint8)])


@quiet
def test_the_time_of_a_product_with_a_packed_weight_is_measured(engine):
    packed = torch.ops.quantized.linear_prepack(weight(4, 8), None)
    with capturing(measure_time=True) as recorder:
        torch.ops.quantized.linear_dynamic(torch.ones(2, 8), packed)
    (at,) = [i for i, call in enumerate(recorder.calls) if call.native == "quantized::linear_dynamic"]
    assert recorder.seconds[at] > 0
