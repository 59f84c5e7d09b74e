"""Equations with jaxprs of their own: loops, branches, derivatives, checkpoints, sharded functions."""

from __future__ import annotations

from collections import Counter

import equinox
import jax
import jax.numpy as jnp
import numpy
import pytest
from jax import lax
from jax.experimental import pallas, sparse
from jax.experimental.pallas.ops.gpu import attention
from jax.extend.core import Primitive

from costcore import Cost, CostWarning, Tensor, estimate


def macs(report):
    return report.total_report["macs"]


def product(x):
    return jnp.tanh(x @ x)


PRODUCT = 4 * 4 * 4
"""MACs of a product of two 4 x 4 matrices."""

X = (4, 4)


def scanned(x):
    return lax.scan(lambda carry, _: (product(carry), carry.sum()), x, None, length=5)


def test_a_scan_runs_its_body_length_times():
    report = estimate(scanned, X)
    assert macs(report) == 5 * PRODUCT
    assert report.status == "complete"
    assert {call.times for call in report.trace.calls} == {5}
    assert len({call.region for call in report.trace.calls}) == 1


def test_loops_inside_loops_multiply():
    report = estimate(lambda x: lax.fori_loop(0, 3, lambda _, y: scanned(y)[0], x), X)
    assert macs(report) == 3 * 5 * PRODUCT


def test_a_loop_over_known_numbers_runs_as_often_as_they_say():
    report = estimate(lambda x: lax.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 1, product(s[1])), (2, x)), X)
    assert macs(report) == (7 - 2) * PRODUCT
    comparison = next(call for call in report.trace.calls if call.type == "lt")
    assert comparison.times == 7 - 2 + 1
    assert report.status == "complete"


def until_large(x):
    return lax.while_loop(lambda y: y.sum() < 100, product, x)


def test_of_two_comparisons_the_first_that_fails_ends_the_loop():
    """From 2: five times below 7, three times below 5. Of data, or by inequality, nothing is known."""

    def run(holds):
        return estimate(lambda x: lax.while_loop(holds, lambda s: (s[0] + 1, s[1] + 1, product(s[2])), (2, 2, x)), X)

    assert macs(run(lambda s: (s[0] < 7) & (s[1] < 5))) == 3 * PRODUCT
    for holds in (lambda s: (s[0] < 7) & (s[2].sum() < 5), lambda s: (s[0] < 7) & (s[1] != 5)):
        assert run(holds).status == "assumed"


def test_the_trip_count_of_a_loop_on_data_is_a_symbol():
    report = estimate(until_large, X)
    assert macs(report).free_symbols == {next(iter(macs(report).free_symbols))}
    assert str(macs(report)) == f"{PRODUCT}*trips_1"
    assert report.status == "assumed"
    assert macs(report.subs(trips_1=6)) == 6 * PRODUCT


def test_the_trip_count_of_a_loop_on_data_may_be_given():
    report = estimate(until_large, X, trips=6)
    assert macs(report) == 6 * PRODUCT
    assert report.status == "assumed"


def test_of_branches_on_data_the_most_expensive_one_is_counted():
    report = estimate(lambda x: lax.cond(x.sum() > 0, lambda y: product(product(y)), jnp.tanh, x), X)
    assert macs(report) == 2 * PRODUCT
    assert report.status == "assumed"
    assert "most expensive of 2 branches" in report.assumptions[0].what


def test_of_branches_on_a_literal_the_selected_one_is_counted():
    report = estimate(lambda x: lax.switch(jnp.int32(0), [jnp.tanh, product], x), X)
    assert macs(report) == 0
    assert report.status == "complete"


WRAPPED = {
    "jit": (jax.jit(product), X),
    "checkpoint": (jax.checkpoint(product), X),
    "vmap": (jax.vmap(product), (1, *X)),
    "named_call": (jax.named_call(product, name="block"), X),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_functions_are_walked(name):
    assert macs(estimate(*WRAPPED[name])) == PRODUCT


def test_a_function_with_a_derivative_of_its_own_is_walked():
    assert estimate(jax.nn.relu, X).total_report["flops"] == 16


def loss(w, x):
    return jnp.sum((x @ w) ** 2)


def test_gradients_are_backward_and_what_reads_them_is_the_optimizer():
    def step(w, x):
        value, gradient = jax.value_and_grad(loss)(w, x)
        return w - 0.1 * gradient, value

    report = estimate(step, [(4, 5), (3, 4)], params=0)
    phases = Counter(call.phase for call in report.trace.calls if call.layer.op not in ("reshape", "transpose"))
    products = [call.phase for call in report.trace.calls if call.type == "dot_general"]
    assert products == ["forward", "backward"]
    assert phases["optimizer"] == 2  # the product with the rate, and the difference
    assert macs(report) == 2 * 3 * 4 * 5
    assert report.total_report["n_params"] == 20


SPARSE = {"BCOO": sparse.BCOO, "BCOO, right": sparse.BCOO, "BCSR": sparse.BCSR, "CSR": sparse.CSR, "COO": sparse.COO}


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("width", [3, None])
def test_sparse_matrices_multiply_their_values(name, width):
    """Of 4 x 4 elements, three are stored, each with two indices, or one and five ends of rows."""
    matrix = numpy.zeros((4, 4), "float32")
    matrix[[0, 1, 3], [1, 1, 2]] = 1
    shape = (4,) if width is None else (4, width)
    stored = SPARSE[name].fromdense(jnp.asarray(matrix))
    report = estimate((lambda x: x.T @ stored) if "right" in name else (lambda x: stored @ x), [shape])
    (product,) = (row for row in report.layer_report.values() if row["op"] == "sparse_matmul")
    width = width or 1
    assert report.status == "complete"
    assert (product["macs"], product["flops"]) == (3 * width, 3 * width)
    assert product["mread"] == 4 * (3 + (3 + 5 if "SR" in name else 3 * 2) + 4 * width)


def test_decays_belong_to_the_optimizer():
    """Of 20 weights: the weight decay, momentum and its decay, an orthogonal update (mapped) and the step."""

    def step(w, momentum, x):
        gradient = jax.grad(loss)(w, x)
        momentum = 0.9 * momentum + gradient
        update = jax.vmap(lambda row: row * 2)(momentum)
        return w - 0.1 * (update + 0.01 * w), momentum, (w * w).sum()

    phases = estimate(step, [(4, 5), (4, 5), (3, 4)], params=0).by("phase")
    assert phases["optimizer"]["flops"] == 7 * 20
    (alone,) = estimate(lambda w: (w * w).sum(), [(4, 5)]).by("phase").values()
    plain = estimate(lambda w, x: jax.grad(loss)(w, x), [(4, 5), (3, 4)], params=0).by("phase")
    assert phases["forward"]["flops"] == plain["forward"]["flops"] + alone["flops"]


def test_a_model_that_a_gradient_guides_is_no_optimizer():
    def guided(w, x):
        return (x @ w).sum(-1) + jax.grad(lambda x: jnp.sum(x**3))(x).sum(-1)

    (product,) = (call for call in estimate(guided, [(4, 5), (3, 4)]).trace.calls if call.type == "dot_general")
    assert product.phase == "forward"


def test_backward_adds_the_gradients_of_parameters_only():
    report = estimate(loss, [(4, 5), (3, 4)], params=0, backward=True)
    assert macs(report) == 2 * 3 * 4 * 5
    assert macs(estimate(loss, [(4, 5), (3, 4)], backward=True)) == 3 * 3 * 4 * 5


def test_checkpoints_recompute():
    @jax.checkpoint
    def block(w, x):
        return jnp.tanh(jnp.tanh(x @ w) @ w)

    report = estimate(lambda w, x: block(w, x).sum(), [X, X], params=0, backward=True)
    by_phase = Counter(call.phase for call in report.trace.calls if call.type == "dot_general")
    # of the two forward products of the block, both are needed again; backward: w twice, the inner x once
    assert by_phase == {"forward": 2, "recompute": 2, "backward": 3}


def test_a_custom_derivative_is_walked_as_written():
    @jax.custom_vjp
    def squared(x):
        return x @ x

    squared.defvjp(lambda x: (x @ x, x), lambda x, g: (g @ x + x @ g,))
    report = estimate(squared, X, backward=True)
    assert Counter(call.phase for call in report.trace.calls if call.type == "dot_general") == {
        "forward": 1,
        "backward": 2,
    }


def test_a_sharded_function_is_counted_once_per_device():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("i")

    def local(x, w):
        return lax.psum(x @ w, "i")

    everywhere = jax.sharding.PartitionSpec()
    sharded = jax.shard_map(local, mesh=mesh, in_specs=(rows, everywhere), out_specs=everywhere, check_vma=False)
    report = estimate(sharded, [(8, 3), (3, 5)])
    assert macs(report) == 8 * 3 * 5
    assert report.trace.calls[0].layer["x0"].shape == (2, 3)
    assert any("4 times" in note for note in report.trace.run.notes)
    # an all-reduce of 4 devices: each sends 2 * 3/4 of the 2 x 5 float32, and adds 3 times to a quarter of them, in all
    # 4 * 60 bytes and 4 * ceil(10 * 3 / 4) additions
    total = next(call for call in report.trace.calls if call.type == "psum")
    assert total.layer.op == "all_reduce" and total.layer.attrs["group_size"] == 4
    assert report.total_report["mcomm"] == 4 * 60
    assert report.status == "complete"


def test_dead_code_is_not_counted():
    def wasteful(x):
        product(x)
        return jnp.tanh(x)

    report = estimate(wasteful, X)
    assert macs(report) == 0
    assert any("no output needs" in note for note in report.trace.run.notes)


def test_a_solver_is_walked():
    def solve(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, lambda _, right: a @ (a @ right))

    assert macs(estimate(solve, [X, (4,)])) == 2 * 4 * 4


def test_an_operator_that_jax_does_not_see_is_listed():
    def host(x):
        return jax.pure_callback(lambda a: numpy.sin(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.warns(UserWarning, match="pure_callback"):
        report = estimate(host, X)
    assert report.status == "partial"
    (entry,) = report.ignored_layers.values()
    assert entry["type"] == "pure_callback"
    assert "test_walk.py" in entry["traceback"]


def primitive(name, implementation):
    made = Primitive(name)
    made.def_impl(implementation)
    made.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
    return made


def test_the_primitive_of_a_library_is_the_functions_of_jax_inside():
    double = primitive("double", lambda x: x @ x + x)
    report = estimate(lambda x: double.bind(x), (4, 4))
    assert (report.status, report.total_report["macs"], report.total_report["flops"]) == ("complete", 64, 64 + 16)


@pytest.mark.parametrize("with_itself", [False, True])
def test_the_primitive_of_a_library_that_jax_cannot_trace_is_listed(with_itself):
    def implementation(x):
        return opaque.bind(x) if with_itself else numpy.sin(numpy.asarray(x))

    opaque = primitive("opaque", implementation)
    with pytest.warns(UserWarning, match="opaque"):
        report = estimate(lambda x: opaque.bind(x), (4, 4))
    assert [entry["type"] for entry in report.ignored_layers.values()] == ["opaque"]


@pytest.mark.filterwarnings("ignore:.*assumption:costcore.CostWarning")
def test_error_checks_are_not_taken():
    def run(x):
        return equinox.error_if(x, jnp.any(x > 3), "too large") * 2

    report = estimate(run, (4,))
    assert [each.what for each in report.assumptions] == [
        "branches that only call Python, such as the checks of equinox.error_if, are not taken"
    ]
    assert report.total_report["flops"] >= 4 + 3 + 4  # comparisons, any, product
    assert not report.ignored_layers


def tiled(x, y, size=16, between=lambda block: block):
    """A product of matrices by a Pallas kernel, in tiles of 16 x 16."""

    def kernel(x_tile, y_tile, out_tile):
        @pallas.when(pallas.program_id(2) == 0)
        def _():
            out_tile[...] = jnp.zeros_like(out_tile)

        out_tile[...] += between(x_tile[...]) @ y_tile[...]

    (rows, inner), columns = x.shape, y.shape[1]
    return pallas.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, columns), x.dtype),
        grid=(rows // size, columns // size, inner // size),
        in_specs=[
            pallas.BlockSpec((size, size), lambda i, j, k: (i, k)),
            pallas.BlockSpec((size, size), lambda i, j, k: (k, j)),
        ],
        out_specs=pallas.BlockSpec((size, size), lambda i, j, k: (i, j)),
    )(x, y)


TILES = 4 * 3 * 2
"""The points of the grid for matrices of 64 x 32 and 32 x 48."""


def test_a_kernel_runs_its_body_at_every_point_of_its_grid():
    report = estimate(tiled, ((64, 32), (32, 48)))
    (call,) = report.trace.calls
    assert (call.type, call.times, report.status) == ("pallas_call", 1, "complete")
    # every tile: 16 products of 16 for each of its 16 x 16 elements, which are added up, and a comparison with 0
    total = report.total_report
    assert total["macs"] == TILES * 16**3 == 64 * 32 * 48
    assert total["flops"] == total["macs"] + TILES * (16 * 16 + 1)
    assert (total["mread"], total["mwrite"]) == (4 * (64 * 32 + 32 * 48), 4 * 64 * 48)
    assert ["lower bound" in note for note in report.notes] == [True]


def test_a_kernel_inside_a_loop_and_a_batch():
    def looped(x, y):
        return lax.fori_loop(0, 3, lambda _, total: total + tiled(x, y), jnp.zeros((64, 48)))

    assert macs(estimate(looped, ((64, 32), (32, 48)))) == 3 * 64 * 32 * 48
    assert macs(estimate(jax.vmap(tiled), ((5, 64, 32), (5, 32, 48)))) == 5 * 64 * 32 * 48


def test_flash_attention_has_the_products_of_attention():
    def attend(x):
        return attention.mha(x, x, x, None, interpret=True)

    report = estimate(attend, Tensor((2, 256, 4, 64), "float16"))  # [batch, length, heads, size]
    assert macs(report) == 2 * (2 * 4) * 256 * 256 * 64  # scores and weighted values
    assert report.status == "complete"


def test_what_a_kernel_calls_is_never_counted_as_zero():
    mystery = Primitive("mystery")
    mystery.def_abstract_eval(lambda x: x)
    with pytest.warns(CostWarning, match="no calculator for 'jax::mystery': 1 call"):
        report = estimate(lambda x, y: tiled(x, y, between=mystery.bind), ((64, 32), (32, 48)))
    assert report.status == "partial"
    (entry,) = report.ignored_layers.values()
    assert (entry["type"], entry["mread"]) == ("mystery", TILES * 16 * 16 * 4)
    assert macs(report) == 64 * 32 * 48


def test_a_formula_for_kernels_replaces_their_bodies():
    def formula(layer):
        return Cost(7, layer.read, layer.written, {})

    report = estimate(tiled, ((64, 32), (32, 48)), calculators={"jax::pallas_call": formula})
    assert (report.total_report["flops"], macs(report)) == (7, 0)


def test_a_grid_that_data_decide_is_listed():
    def kernel(x, out):
        out[...] = x[...] + 1

    def rows(n, x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        block = pallas.BlockSpec((8, 128), lambda i: (i, 0))
        return pallas.pallas_call(kernel, shape, grid=(n,), in_specs=[block], out_specs=block)(x)

    with pytest.warns(CostWarning, match="no calculator for 'jax::pallas_call'"):
        assert estimate(rows, (Tensor((), "int32"), (64, 128))).status == "partial"


def test_dimension_numbers_of_products():
    def run(a, b):
        return lax.dot_general(a, b, (((0, 3), (2, 1)), ((2,), (0,))), preferred_element_type="float32")

    # a[K1, M, B, K2], b[B, K2, K1, N]: B = 2, M = 5, N = 7, K = 3 * 4
    report = estimate(run, [Tensor((3, 5, 2, 4), "bfloat16"), Tensor((2, 4, 3, 7), "bfloat16")])
    assert macs(report) == 2 * 5 * 7 * 3 * 4
    (entry,) = report.layer_report.values()
    assert entry["mwrite"] == 2 * 5 * 7 * 4
    assert entry["mread"] == 2 * (3 * 5 * 2 * 4 + 2 * 4 * 3 * 7)


def test_a_product_over_no_axis_has_no_macs():
    report = estimate(lambda a, b: lax.dot_general(a, b, (((), ()), ((), ()))), [(3,), (4,)])
    assert macs(report) == 0
    assert report.total_report["flops"] == 12


def test_a_ragged_product_multiplies_every_row_once():
    report = estimate(lax.ragged_dot, [(6, 4), (3, 4, 5), Tensor((3,), "int32")])
    assert macs(report) == 6 * 4 * 5


@pytest.mark.parametrize("stride", [1, 2])
def test_the_gradients_of_a_convolution_have_its_macs(stride):
    def run(x, w):
        return lax.conv(x, w, (stride, stride), "SAME")

    forward = macs(estimate(run, [(2, 3, 8, 8), (5, 3, 3, 3)]))
    assert forward == 2 * 5 * (8 // stride) ** 2 * 27
    assert macs(estimate(run, [(2, 3, 8, 8), (5, 3, 3, 3)], backward=True)) == 3 * forward


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_gradients_of_a_grouped_convolution_have_its_macs(groups, stride):
    def run(x, w):
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME", feature_group_count=groups)

    shapes = [(2, 4, 8, 8), (8, 4 // groups, 3, 3)]
    assert macs(estimate(run, shapes, backward=True)) == 3 * 2 * 8 * (8 // stride) ** 2 * 9 * 4 // groups


def test_the_gradients_of_a_transposed_convolution_have_its_macs():
    def run(x, w):
        return lax.conv_transpose(x, w, (2, 2), "SAME")

    shapes = [(2, 8, 8, 4), (3, 3, 4, 6)]
    forward = 2 * 8 * 8 * 4 * 6 * 9  # every input element times the kernels of 6 features
    assert macs(estimate(run, shapes)) == forward
    assert macs(estimate(run, shapes, backward=True)) == 3 * forward


def test_random_bits_are_free():
    report = estimate(lambda key: jax.random.bits(key, (100,)), jax.random.key(0))
    assert report.total_report["flops"] == 0
    assert report.status == "complete"


CONVOLUTIONS = {
    # input, kernel, stride, padding, groups; the output of 4 x 4 with a kernel of 4 has one element
    "valid": ((2, 4, 8, 8), (6, 4, 3, 3), 1, 0, 1),
    "as large as the kernel": ((2, 4, 4, 4), (6, 4, 4, 4), 1, 0, 1),
    "over-padded": ((2, 4, 8, 8), (6, 4, 3, 3), 1, 2, 1),
    "groups": ((2, 4, 8, 8), (6, 2, 3, 3), 1, 0, 2),
    "strided": ((2, 4, 9, 9), (6, 4, 3, 3), 2, 1, 1),
    "pixels smaller than the kernel": ((2, 4, 1, 1), (6, 4, 3, 3), 1, 1, 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_each_gradient_of_a_convolution_has_the_products_of_its_forward_pass(name):
    shape, kernel, stride, padding, groups = CONVOLUTIONS[name]

    def convolve(w, x):
        return lax.conv_general_dilated(
            x, w, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups
        ).sum()

    report = estimate(jax.grad(convolve, argnums=(0, 1)), [kernel, shape])
    size = (shape[2] + 2 * padding - kernel[2]) // stride + 1
    macs_of_one = 2 * 6 * size**2 * (4 // groups) * kernel[2] ** 2
    # the sum needs no forward convolution: the two gradients remain
    assert macs(report) == 2 * macs_of_one


def test_gradients_of_outputs_are_no_inputs_of_the_model():
    report = estimate(jnp.tanh, (3, 4), backward=True)
    assert len(report.trace.run.inputs) == 1


@pytest.mark.parametrize(
    ("layout", "is_followed"), [(("NCHW", "OIHW", "NCHW"), True), (("NHWC", "HWIO", "NHWC"), False)]
)
def test_the_receptive_field_is_unknown_where_channels_are_last(layout, is_followed):
    # 6 x 6 positions and 6 channels: the shape of the data does not tell the layouts apart
    shape, kernel = ((1, 6, 6, 6), (6, 6, 3, 3)) if is_followed else ((1, 6, 6, 6), (3, 3, 6, 6))

    def twice(x, w):
        def convolve(y):
            return lax.conv_general_dilated(y, w, (1, 1), "SAME", dimension_numbers=layout)

        return convolve(convolve(x))

    field = estimate(twice, [shape, kernel], params=1).receptive_field().last
    assert field.is_known is is_followed
    assert field.size == ((5, 5) if is_followed else (None, None))
