"""The bound of a group, by hand on a device with round rates."""

from __future__ import annotations

import pytest

from costcore.analyses.timing.bound import Work, bound_of, needs_of
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.analyses.timing.toy_device import TOY, Cache, Memory, device
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
