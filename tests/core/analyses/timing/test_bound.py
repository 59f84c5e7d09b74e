"""The least work, bytes and time of groups of calls, by hand on a device with round rates."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from costcore import CostError, Layer, Operations, Report, Tensor, Trace
from costcore.analyses.timing.bound import (
    MOST_TAPS,
    Work,
    _beyond_operands,
    bound_of,
    bytes_from_outside,
    fewest_products,
    needs_of,
    values_of,
)
from costcore.ir import Cost
from tests.core.analyses.fusion.runs import Calls
from tests.core.analyses.measured.runs import linear as product_of
from tests.core.analyses.measured.runs import profiled, trace_of
from tests.core.analyses.timing.toy_device import TOY, Cache, Memory, device
from tests.core.traces import Call, CallCost, Run
from tests.registered import calculators


def work_of(layer, cost, on, tf32=()):
    return needs_of(layer, cost, on, tf32)[0]


def work(layer, on=TOY, tf32=()):
    return work_of(layer, calculators()[layer.op](layer), on, tf32)


def linear(dtype, n=1000):
    x = Tensor((n, n), dtype)
    return Layer("linear", {"x": x, "w": Tensor((n, n), dtype, "param")}, [x])


def test_float16_products_run_on_the_matrix_engine():
    # 1000 x 1000 outputs of 1000 products each: 1e9 multiply-adds = 2e9 FLOP at 8e12 FLOP/s = 250 µs
    assert work(linear("float16")) == pytest.approx((250e-6, 0, 0, 0, 0))


def test_float32_products_run_on_the_vector_engine_unless_tf32_is_allowed():
    assert work(linear("float32")) == pytest.approx((0, 2e-3, 0, 0, 0))  # 2e9 FLOP at 1e12
    assert work(linear("float32"), tf32=["conv"]) == pytest.approx((0, 2e-3, 0, 0, 0))
    assert work(linear("float32"), tf32=["matmul"]) == pytest.approx((0.5e-3, 0, 0, 0, 0))  # 2e9 at 4e12


def test_integer_products_have_a_rate_of_their_own_and_unsupported_types_that_of_the_next_wider_one():
    assert work(linear("int8")).matrix == pytest.approx(125e-6)  # 2e9 at 16e12
    assert work(linear("bfloat16")).matrix == pytest.approx(250e-6)  # as wide as float16
    assert work(linear("float8_e4m3fn"), device(peak={"matrix": {"float16": 8.0}})).matrix == pytest.approx(250e-6)


def test_only_the_products_of_weights_count_as_quantized():
    x, y = Tensor((10, 10), "uint8"), Tensor((10, 10), "uint8")
    scale = Tensor((10,), "float32")
    layer = Layer("quantized_matmul", {"x0": x, "x0_scale": scale, "x1": Tensor((10, 10), "int8")}, [y])
    cost = Cost(Operations(fma=1000), 0, 0, {}, 1000)
    assert work_of(layer, cost, TOY).matrix == pytest.approx(2000 / 16e12)


@pytest.mark.parametrize(("op", "products", "other"), [("linear", ("x", "w"), "b"), ("attention", ("q", "k"), "mask")])
def test_a_narrow_bias_or_mask_does_not_make_products_narrow(op, products, other):
    """1000 multiply-adds of float32 run on the vector engine, 2000 FLOP at 1e12; those of float16 on the other one."""
    x = Tensor((10, 10), "float32")
    layer = Layer(op, {**dict.fromkeys(products, x), other: Tensor((10, 10), "float16")}, [x])
    assert work_of(layer, Cost(Operations(fma=1000), 0, 0, {}, 1000), TOY) == pytest.approx((0, 2e-9, 0, 0, 0))


def test_classes_of_operations_use_pipes_side_by_side():
    x = Tensor((1000,), "float32")
    layer = Layer("anything", {"x": x}, [x])
    cost = Cost(Operations(fma=10, mul=20, add=40, div=30, cmp=50, special=80), 0, 0, {})
    slot = 2 / 1e12  # a slot of the vector engine is a multiply-add, 2 FLOP
    special = 80 / (0.1e12 + 0.5e12 / 4)  # its own unit, and polynomials of at least four slots
    assert work_of(layer, cost, TOY) == pytest.approx((0, 60 * slot, 40 * slot, 50 * slot, special))
    assert work_of(layer, cost, TOY).by_engine() == pytest.approx(
        {"matrix": 0, "vector": 60 * slot, "special": special}
    )


def test_narrow_types_are_packed_unless_the_device_states_a_rate():
    def rate(dtype):
        return TOY.vector_rate(dtype)

    assert (rate("float32"), rate("float16"), rate("bfloat16")) == (1e12, 2e12, 2e12)
    assert (rate("int8"), rate("float64"), rate("complex64")) == (4e12, 1e12, 1e12)
    assert (rate("uint2"), rate("uint1"), rate("string")) == (16e12, 32e12, 32e12)  # 32 bits of a lane


def test_a_formula_that_returns_a_number_is_taken_as_multiply_adds():
    x = Tensor((1000,), "float32")
    layer = Layer("anything", {"x": x}, [x])
    assert work_of(layer, Cost(100, 0, 0, {}), TOY).multiply == pytest.approx(50 * 2e-12)
    assert work_of(layer, Cost(1100, 0, 0, {}, 1000), TOY).multiply == pytest.approx((1000 + 50) * 2e-12)


def test_as_much_as_fits_into_the_cache_may_already_be_there():
    # 1e12 B/s behind 1 MB: 3 MB read, of which 2 must come; 1.5 MB written, of which 0.5 must leave
    bound = bound_of(Work(), 3e6, 1.5e6, TOY)
    assert (bound.seconds, bound.binds) == (pytest.approx(2.5e-6), "dram")
    assert bound_of(Work(), 1e6, 1e6, TOY).seconds == 0
    assert bound_of(Work(), 1e6, 1e6, TOY).binds == ""


def test_every_cache_level_binds_with_what_lies_below_the_one_before():
    memory = Memory(100, (Cache(1000, 800, per_unit=True), Cache(50_000, 400, per_unit=True), Cache(1_000_000, 300)))
    cpu = device(memory=memory, units=2)
    assert cpu.levels() == [
        ("cache", 0, 1600e9),  # two first caches, behind nothing
        ("cache", 2000, 800e9),
        ("cache", 100_000, 300e9),
        ("dram", 1_000_000, 100e9),
    ]
    bound = bound_of(Work(), 102_000, 0, cpu)
    assert bound.by["cache"] == pytest.approx(max(102_000 / 1600e9, 100_000 / 800e9, 2_000 / 300e9))
    assert bound.binds == "cache"


def test_the_slowest_engine_or_memory_binds():
    work = Work(matrix=3e-6, multiply=1e-6, add=2e-6, compare=1e-6, special=1e-6)
    assert bound_of(work, 0, 0, TOY)[:2] == (3e-6, "matrix")
    assert bound_of(work._replace(special=4e-6), 0, 0, TOY)[:2] == (4e-6, "special")
    assert bound_of(work._replace(add=5e-6), 0, 0, TOY)[:2] == (5e-6, "vector")
    assert bound_of(work, 11e6, 0, TOY)[:2] == (pytest.approx(10e-6), "dram")


def test_what_is_unknown_of_a_device_does_not_bind():
    nothing = device(peak={}, memory=Memory())
    assert work(linear("float16"), nothing) == (0, 0, 0, 0, 0)
    assert bound_of(Work(), 1e9, 1e9, nothing).seconds == 0


def test_some_cores_of_a_cpu_have_their_part_of_the_rates_and_of_their_own_caches():
    memory = Memory(100, (Cache(1000, 800, per_unit=True), Cache(1_000_000, 300)))
    one = device(kind="cpu", memory=memory).with_units(1)
    assert one.vector_rate("float32") == pytest.approx(1e11)  # a tenth
    # the shared cache is as large, but one core of ten reaches it at a tenth of its bandwidth
    assert one.levels() == [("cache", 0, 800e9), ("cache", 1000, 30e9), ("dram", 1_000_000, 100e9)]


def layer(op, outputs=None, **inputs):
    attrs = inputs.pop("attrs", {})
    tensors = {name: Tensor(shape) for name, shape in inputs.items()}
    return Layer(op, tensors, [Tensor(shape) for shape in (outputs or [next(iter(inputs.values()))])], attrs)


@pytest.mark.parametrize(
    "each", [layer("sort", x=(4, 1000), attrs={"axis": 1}), layer("non_max_suppression", x=(1000, 4))]
)
def test_a_formula_that_is_an_upper_bound_counts_bytes_only(each):
    cost = Cost(Operations(cmp=10**6), 0, 0, {})
    assert work_of(each, cost, TOY) == (0, 0, 0, 0, 0)


def test_overlapping_windows_may_share_work():
    # 13 x 13 windows at every position of 20 x 20: 168 comparisons each, but every element must be looked at once only
    attrs = {"kernel": (13, 13), "stride": (1, 1), "padding": (6, 6)}
    spp = layer("max_pool", x=(1, 8, 20, 20), attrs=attrs)
    assert work(spp).compare == pytest.approx(8 * 20 * 20 / 0.5e12)
    # windows that do not overlap: 3 comparisons of 4 elements
    halved = layer("max_pool", [(1, 8, 10, 10)], x=(1, 8, 20, 20), attrs={"kernel": (2, 2), "stride": (2, 2)})
    assert work(halved).compare == pytest.approx(3 * 8 * 10 * 10 / 0.5e12)


def conv(size, kernel, positions, stride=1, padding=0, dilation=1, op="conv"):
    """A convolution along one axis."""
    x, w, y = Tensor((1, 4, size)), Tensor((4, 4, kernel), role="param"), Tensor((1, 4, positions))
    attrs = {"kernel": (kernel,), "stride": (stride,), "padding": (padding,), "dilation": (dilation,)}
    if op.endswith("backward"):
        return Layer(op, {"dy": y, "x": x, "w": w}, [x], attrs)
    return Layer(op, {"x": x, "w": w}, [y], attrs)


def taps_inside(size, kernel, positions, stride, padding, dilation):
    """By the definition: position p and tap t read x[p * stride + t * dilation - padding]."""
    read = [p * stride + t * dilation - padding for p, t in product(range(positions), range(kernel))]
    return sum(0 <= place < size for place in read) / len(read)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_taps_on_padding_need_no_product(stride, dilation, padding):
    size, kernel = 11, 4
    positions = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    expected = taps_inside(size, kernel, positions, stride, padding, dilation)
    for op in ("conv", "conv_backward"):
        layer = conv(size, kernel, positions, stride, padding, dilation, op)
        assert fewest_products(layer, fast_convolution=False) == pytest.approx(expected)


@pytest.mark.parametrize("padding", [(0, 3), (3, 0), (1, 2)])
def test_padding_before_decides_which_taps_are_inside(padding):
    """Four positions, 2 apart, of a kernel of 4 over 8 elements with 3 beside them."""
    layer = conv(8, 4, 4, stride=2, padding=padding)
    assert fewest_products(layer, False) == pytest.approx(taps_inside(8, 4, 4, 2, padding[0], 1))


def test_the_padding_of_a_transposed_convolution_crops_its_output():
    # 3 inputs, kernel 4, stride 2, padding 1 -> 6 outputs: input i and tap t reach output 2 i + t - 1
    layer = conv(3, 4, 6, 2, 1, op="conv_transpose")
    reached = [2 * i + t - 1 for i, t in product(range(3), range(4))]
    expected = sum(0 <= place < 6 for place in reached) / len(reached)
    assert fewest_products(layer, fast_convolution=False) == pytest.approx(expected)


def square(kernel, stride=1, n=224):
    attrs = {"kernel": (kernel, kernel), "stride": (stride, stride), "padding": (0, 0), "dilation": (1, 1)}
    m = (n - kernel) // stride + 1
    x, y = Tensor((1, 4, n, n)), Tensor((1, 4, m, m))
    return Layer("conv", {"x": x, "w": Tensor((4, 4, kernel, kernel))}, [y], attrs)


def test_a_3_by_3_convolution_needs_a_fifth_of_its_products():
    # F(6 x 6, 3 x 3): 8 * 8 products for 36 outputs of 9 each, 324 / 64 = 5.0625
    assert 1 / fewest_products(square(3), True) == pytest.approx(5.0625)
    assert fewest_products(square(3), False) == 1
    assert fewest_products(square(3, stride=2), True) == 1
    assert fewest_products(square(1), True) == 1


def test_large_kernels_may_run_by_fourier_transforms():
    # tiles of 256 x 256: (31 * 226 / 256)**2 / 2 products of the definition for each of the transform
    assert 1 / fewest_products(square(31), True) == pytest.approx((31 * 226 / 256) ** 2 / 2)


def attention(queries, keys, **attrs):
    q, k = Tensor((1, 2, queries, 8)), Tensor((1, 2, keys, 8))
    return Layer("attention", {"q": q, "k": k, "v": k}, [q], attrs)


def allowed(queries, keys, left, right, shift):
    """By the definition: query i attends to the keys from i + shift - left to i + shift + right."""
    pairs = product(range(queries), range(keys))
    return sum(i + shift - left <= j <= i + shift + right for i, j in pairs) / (queries * keys)


@pytest.mark.parametrize(("queries", "keys"), [(8, 8), (3, 8), (8, 3), (1, 5), (5, 1)])
@pytest.mark.parametrize(("window", "causal"), [(None, True), ((2, -1), True), ((2, 1), False), ((-1, 1), False)])
def test_masked_pairs_need_no_product(queries, keys, window, causal):
    left, right = window or (-1, -1)
    left = 100 if left < 0 else left
    right = 0 if causal else 100 if right < 0 else right
    expected = min(allowed(queries, keys, left, right, shift) for shift in (0, keys - queries))
    attrs = {"window": window, "causal": causal}
    assert fewest_products(attention(queries, keys, **attrs), True) == pytest.approx(expected)


def test_attention_without_a_mask_and_other_products_need_all():
    assert fewest_products(attention(8, 8), True) == 1
    assert fewest_products(Layer("linear", {}, []), True) == 1


@pytest.mark.parametrize(
    "wrong", [{"stride": (0,)}, {"padding": ((),)}, {"dilation": ("2",)}, {"kernel": (2.5,)}, {"kernel": (1 << 40,)}]
)
def test_settings_that_no_convolution_has_spare_no_product(wrong):
    """They are those of a saved report that somebody edited."""
    layer = conv(11, 4, 8)
    assert fewest_products(Layer("conv", layer.inputs, layer.outputs, {**layer.attrs, **wrong}), True) == 1


SEEN = device(least_kernel_us=2.0)
CACHE = next(nearer for name, nearer, _ in SEEN.levels() if name == "dram")
RATE = next(rate for name, _, rate in SEEN.levels() if name == "dram")


def test_a_small_call_takes_most_of_the_shortest_kernel():
    small = bound_of(Work(), 8.0, 8.0, SEEN, is_observed=True)
    assert (small.seconds, small.binds) == (pytest.approx(1.8e-6), "kernel")
    assert bound_of(Work(), 8.0, 8.0, SEEN).seconds == 0.0


def test_a_call_without_work_takes_nothing():
    assert bound_of(Work(), 0.0, 0.0, SEEN, is_observed=True).seconds == 0.0


def test_reads_and_writes_share_the_cache():
    read, written = CACHE + 9e9, CACHE + 1e9
    assert bound_of(Work(), read, written, SEEN, is_observed=True).by["dram"] == pytest.approx((CACHE + 10e9) / RATE)
    assert bound_of(Work(), read, written, SEEN).by["dram"] == pytest.approx(10e9 / RATE)


def test_it_is_never_less_than_the_bound():
    run = Report(trace_of(*(product_of(2**i, "") for i in range(4, 20))))
    least, observed = run.time("h100-sxm5-80gb"), run.time("h100-sxm5-80gb", bound="observed")
    pairs = list(zip(least.groups, observed.groups, strict=True))
    assert all(a.bound_seconds <= b.bound_seconds for a, b in pairs)
    assert observed.groups[0].bound_seconds == pytest.approx(0.9 * 1.12e-6)
    assert observed.remarks[0].startswith(
        "observed bound: a kernel takes at least 90% of the shortest one observed on h100-sxm5-80gb, 1.12 us"
    )
    assert "kernel" in observed.to_csv()


def test_small_kernels_of_a_gpu_are_said_to_launch_longer():
    small, large = product_of(16, "a"), product_of(2**19, "b")
    run = Report(trace_of(small, small, large))
    line = "2 of 3 kernels have bounds below 1 us, shorter than a launch"
    assert f'{line}; bound="observed" counts at least 1 us for each' in run.time("h100-sxm5-80gb").remarks
    assert line in run.time("l4").remarks
    silent = [run.time("h100-sxm5-80gb", bound="observed"), run.time("epyc-9654"), Report(trace_of(large)).time("h100")]
    assert not [text for times in silent for text in times.remarks if "launching" in text]


def test_the_measured_view_compares_with_it():
    run = profiled(trace_of(product_of(16, "a")), [1500])
    assert run.measured(bound="observed").calls[0].bound == pytest.approx(0.9 * 1.12e-6)
    assert run.measured().calls[0].bound == pytest.approx(131_072 / 66.9e12)  # on the vector engine
    assert run.measured(bound="observed").below_bound == []
    assert len(profiled(trace_of(product_of(16, "a")), [900]).measured(bound="observed").below_bound) == 1


def test_a_device_without_a_kernel_that_was_seen_is_refused():
    run = Report(trace_of(product_of(16, "a")))
    with pytest.raises(CostError, match=r"not available for l4 .available for b200-sxm-180gb, h100-sxm5-80gb, mi300x"):
        run.time("l4", bound="observed")
    with pytest.raises(ValueError, match="unknown bound 'most'"):
        run.time("l4", bound="most")
    assert replace(SEEN, least_kernel_us=None).least_kernel_us is None


def masked(queries, keys, op="attention", **settings):
    q, k = Tensor((3, queries, 8)), Tensor((3, keys, 8))
    return Layer(op, {"q": q, "k": k, "v": k}, [q], settings)


def allowed_pairs(queries, keys, causal, window, shift):
    left, right = (keys + queries, keys + queries) if window is None else window
    left = keys + queries if left < 0 else left
    right = 0 if causal else keys + queries if right < 0 else right
    return sum(-left <= k - q - shift <= right for q, k in product(range(queries), range(keys)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, *product((-1, 0, 1, 3), repeat=2)])
def test_pairs_of_all_small_sizes_are_counted(causal, window):
    if not causal and window is None:
        return
    for queries, keys in product(range(1, 6), repeat=2):
        least = min(allowed_pairs(queries, keys, causal, window, shift) for shift in (0, keys - queries))
        settings = {"causal": causal} | ({} if window is None else {"window": window})
        found = fewest_products(masked(queries, keys, **settings), False)
        assert found == pytest.approx(least / (queries * keys)), (queries, keys)


def test_what_is_known_of_masks_of_other_operators():
    assert fewest_products(masked(0, 4, causal=True), False) == 1.0
    assert fewest_products(masked(4, 0, causal=True), False) == 1.0
    assert fewest_products(masked(4, 4, "other", causal=True), False) == 0.5
    assert fewest_products(masked(4, 4, "other", window=(1, 1)), False) == 0.0
    x = Tensor((4, 8))
    assert fewest_products(Layer("attention", {"q": x}, [x], {"causal": True}), False) == 0.5
    assert fewest_products(Layer("attention", {"k": x}, [x], {"causal": True}), False) == 0.5
    odd = fewest_products(masked(4, 5, causal=True, window=(1,)), False)
    assert odd == fewest_products(masked(4, 5, causal=True), False)
    assert fewest_products(masked(4, 5), False) == 1.0


def one_axis(size, taps, positions, **settings):
    x, w, y = Tensor((1, 4, size)), Tensor((4, 4, taps), role="param"), Tensor((1, 4, positions))
    return Layer("conv", {"x": x, "w": w}, [y], settings)


def test_a_convolution_without_settings_has_neither_stride_nor_padding():
    """A kernel of 3 on 10 elements: Winograd's tile of 8 gives 6 outputs for 3 * 6 products of the definition."""
    assert fewest_products(one_axis(10, 3, 8), False) == 1.0
    assert fewest_products(one_axis(10, 3, 8), True) == pytest.approx(8 / 18)


@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        (1, 1.0),
        (2, 8 / 14),  # 2 * 7 / 8
        (8, 1 / (8 * 249 / 256 / 2)),  # of one output per tile of 8, Winograd needs as many; Fourier needs fewer
        (9, 1 / (9 * 248 / 256 / 2)),
        (255, 1.0),  # 255 * 2 / 256 / 2 is less than 1
        (256, 1.0),
        (257, 1.0),
        (300, 1.0),
    ],
)
def test_fast_convolutions_by_the_size_of_the_kernel(kernel, part):
    assert fewest_products(one_axis(1000, kernel, 1001 - kernel), True) == pytest.approx(part)


def test_the_longest_kernel_whose_taps_are_counted():
    for kernel, expected in ((MOST_TAPS, 1 / MOST_TAPS), (MOST_TAPS + 1, 1.0)):
        layer = one_axis(1, kernel, 1, padding=(0,), kernel=(kernel,))
        assert fewest_products(layer, False) == pytest.approx(expected)


def test_a_convolution_that_only_reads_padding_counts_whole():
    assert fewest_products(one_axis(4, 2, 1, padding=(9,), kernel=(2,)), False) == 1.0


def test_a_convolution_over_no_axis_and_a_gradient_without_its_weight():
    x = Tensor((2, 3))
    assert fewest_products(Layer("conv", {"x": x, "w": Tensor((4, 3))}, [Tensor((2, 4))]), False) == 1.0
    y, w = Tensor((1, 4, 6)), Tensor((4, 4, 3))
    settings = {"kernel": (3,), "stride": (1,), "padding": (1,), "dilation": (1,)}
    layer = Layer("conv_backward", {"dy": y, "x": y}, [Tensor((1, 4, 6)), Tensor((1, 4, 5)), w], settings)
    assert fewest_products(layer, False) == pytest.approx((3 * 6 - 2) / 18)
    del settings["kernel"]
    assert fewest_products(Layer("conv_backward", {"dy": y, "x": y}, layer.outputs, settings), False) == pytest.approx(
        16 / 18
    )


def test_a_mask_excludes_other_work_but_a_convolution_excludes_products_only():
    """A causal mask of 4 by 4 allows 10 of 16 pairs; of 3 taps on 4 positions beside padding, 10 of 12."""
    x = Tensor((4, 8))
    layer = Layer("attention", {"q": x, "k": x, "v": x}, [x], {"causal": True})
    made, _ = needs_of(layer, Cost(Operations(fma=1600, special=160), 0, 0, {}, 1600), TOY)
    assert made.multiply == pytest.approx(1000 * 2e-12)
    assert made.special == pytest.approx(100 / (1e11 + 1.25e11))
    plain = one_axis(4, 3, 4, padding=(1,), kernel=(3,), stride=(1,), dilation=(1,))
    made, _ = needs_of(plain, Cost(Operations(fma=1200, add=120), 0, 0, {}, 1200), device(fast_convolution=False))
    assert (made.multiply, made.add) == (pytest.approx(1000 * 2e-12), pytest.approx(120 * 2e-12))


def test_the_vector_engine_multiplies_if_it_is_as_fast():
    layer = Layer(
        "linear", {"x": Tensor((4, 8), "float16"), "w": Tensor((4, 8), "float16")}, [Tensor((4, 4), "float16")]
    )
    counted = Cost(Operations(fma=1000), 0, 0, {}, 1000)
    for rate, matrix in ((2.0, 0.0), (2.5, 2000 / 2.5e12)):
        on = device(peak={"matrix": {"float16": rate}, "vector": {"float16": 2.0}})
        assert needs_of(layer, counted, on)[0].matrix == pytest.approx(matrix)
    on = device(peak={"matrix": {"float16": 0.5}})
    assert needs_of(layer, counted, on)[0].matrix == pytest.approx(2000 / 0.5e12)


def test_views_rename_what_they_read_and_other_calls_produce():
    calls = Calls()
    w = calls.given(10, 10, role="param")
    part = calls("view", w, shape=(5, 10))
    made = calls("add", part, calls.given(5, 10))
    calls("add", calls("view", made, shape=(50,)), calls.given(50))
    assert bytes_from_outside([*values_of(calls.trace())]) == 4 * (50 + 50 + 50)
    calls("add", w, w)
    calls("add", calls.given(0), calls.given(0))
    assert bytes_from_outside([*values_of(calls.trace())]) == 4 * (100 + 50 + 50)


@pytest.mark.parametrize(("read", "table"), [(0, 0), (20, 0), (300, 280), (500, 480), (520, 480)])
def test_what_a_call_does_not_read_is_of_its_largest_operand(read, table):
    """Of a table of 480 B and 20 B of indices, which another call makes, 500 B less what is read are of the table.

    A call that reads an operand twice needs no more of it.
    """
    index, w, y = Tensor((5,), "int32"), Tensor((30, 4), role="param"), Tensor((5, 4))
    records = [
        CallCost(Call(Layer("arange", {}, [index]), "a", name="a", outputs=(5,)), Cost(Operations(), 0, 20, {})),
        CallCost(
            Call(Layer("embedding", {"w": w, "x": index}, [y]), "e", name="e", inputs=(1, 5), outputs=(6,)),
            Cost(Operations(), read, 80, {}),
        ),
    ]
    assert bytes_from_outside([*values_of(Trace(tuple(records), Run()))]) == table


def test_a_call_without_a_cost_reads_no_more_than_its_operands():
    """The call that is counted reads its operand of 40 bytes once more."""
    x = Tensor((10,))
    twice = CallCost(Call(Layer("mean", {"x": x}, [x]), "m", name="m", outputs=(5,)), Cost(Operations(), 80, 40, {}))
    unknown = CallCost(Call(Layer("mystery", {"x": x}, [x]), "u", name="u", outputs=(6,)), None)
    assert [*_beyond_operands(Trace((unknown, twice), Run()))] == [0, 40]
