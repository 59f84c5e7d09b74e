"""Formulas of the primitives that no other framework has, and rows with an arithmetic of their own, by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from costcore import Operations, Tensor, estimate


def only(report):
    """Return the entry of the one call that costs anything."""
    (entry,) = (entry for entry in report.layer_report.values() if entry["flops"] or entry["mrw"])
    return entry


SPECIAL = jax.scipy.special
I32 = Tensor((6,), "int32")
SQUARE = (3, 4, 4)
CUMULATIVE = (("sum", "add"), ("prod", "mul"), ("max", "cmp"), ("min", "cmp"))

CASES = {
    # one operation per element
    "population_count": (lax.population_count, [I32], Operations(add=6)),
    "clz": (lax.clz, [I32], Operations(cmp=6)),
    "betainc": (lax.betainc, [(6,)] * 3, Operations(special=6)),
    "igamma_grad_a": (lax.igamma_grad_a, [(6,)] * 2, Operations(special=6)),
    # windows of 3: outputs 4, two additions each
    "reduce_window_sum": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "VALID"),
        [(6,)],
        Operations(add=4 * 2),
    ),
    "reduce_window_min": (
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (3,), (1,), "VALID"),
        [(6,)],
        Operations(cmp=4 * 2),
    ),
    # 6 elements joined by one operation
    "reduce": (lambda x: lax.reduce(x, 1.0, lax.mul, (0,)), [(6,)], Operations(mul=5)),
    # powers: two products for a cube, one evaluation for any other
    "integer_pow": (lambda x: lax.integer_pow(x, 3), [(6,)], Operations(mul=12)),
    "integer_pow 5": (lambda x: lax.integer_pow(x, 5), [(6,)], Operations(special=6)),
    "clamp": (lambda x: lax.clamp(0.0, x, 1.0), [(6,)], Operations(cmp=12)),
    "select of three": (lax.select_n, [I32, (6,), (6,), (6,)], Operations(cmp=6)),
    # sorting rows of 8: 8 * 3 comparisons; the 2 best of 8: 8 * ceil(log2(3))
    "sort": (jnp.sort, [(5, 8)], Operations(cmp=5 * 24)),
    "top_k": (lambda x: lax.top_k(x, 2), [(5, 8)], Operations(cmp=5 * 16)),
    # 3 systems of 4 unknowns and 2 right-hand sides: 12 rows, 24 elements
    "tridiagonal_solve": (
        lax.linalg.tridiagonal_solve,
        [(3, 4), (3, 4), (3, 4), (3, 4, 2)],
        Operations(fma=12 + 2 * 24, div=12 + 24),
    ),
    # values alone (4 * 9 * 3**2 - 4 / 3 * 3**3) / 2;
    # all vectors of 8 x 4: (4 * 8**2 * 4 + 8 * 8 * 4**2 + 9 * 4**3) / 2
    "singular values": (lambda x: lax.linalg.svd(x, compute_uv=False), [(9, 3)], Operations(fma=144)),
    "svd, thin": (lambda x: lax.linalg.svd(x, full_matrices=False), [(8, 4)], Operations(fma=7 * 8 * 16 + 4 * 64)),
    "svd, full": (lax.linalg.svd, [(8, 4)], Operations(fma=1312)),
    # (10 or 25) * 6**3 / 2
    "eigenvalues": (
        lambda x: lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False),
        [(6, 6)],
        Operations(fma=1080),
    ),
    "eigenvectors": (lax.linalg.eig, [(6, 6)], Operations(fma=2700)),
    "symmetric": (lambda x: lax.linalg.eigh(x, symmetrize_input=False), [(6, 6)], Operations(fma=9 * 6**3 // 2)),
    # L U = x without roots: 5**2 + 4**2 + 3**2 + 2**2 + 1; 15 below the diagonal, each compared as a pivot
    "lu": (lax.linalg.lu, [(6, 6)], Operations(fma=55, div=15, cmp=15)),
    # substitution in 3 systems of 6 unknowns with 2 right-hand sides: 15 off the diagonal; a diagonal of ones
    "triangular": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
        [(3, 6, 6), (3, 6, 2)],
        Operations(fma=3 * 15 * 2, div=3 * 6 * 2),
    ),
    "triangular, unit": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, unit_diagonal=True),
        [(3, 6, 6), (3, 6, 2)],
        Operations(fma=3 * 15 * 2),
    ),
    # rows: 4 * 8 transforms of 16 real numbers, 5/2 n log2 n each; columns: 4 * 9 of 8 complex ones; 2 mul to 3 add
    "rfft2": (jnp.fft.rfft2, [(4, 8, 16)], Operations(mul=9440 * 2 // 5, add=9440 * 3 // 5)),
    "fft": (lambda x: lax.fft(x, "FFT", (16,)), [Tensor((4, 16), "complex64")], Operations(mul=512, add=768)),
    **{f"cum{name}": (getattr(lax, f"cum{name}"), [(8, 5)], Operations(**{kind: 7 * 5})) for name, kind in CUMULATIVE},
    # every row meets the matrix of its group; the gradient of the matrices sums over the rows of each
    "ragged_dot": (lax.ragged_dot, [(10, 4), (3, 4, 5), Tensor((3,), "int32")], Operations(fma=10 * 3 * 5, mul=50)),
    # 3 products of 4 x 2 with its transpose: 48 dot products of length 2 onto the sum, two factors
    "symmetric_product": (
        lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=1.0),
        [(3, 4, 2), SQUARE],
        Operations(fma=48 * 2, mul=2 * 48),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_operations_of_a_primitive(name):
    function, inputs, operations = CASES[name]
    entry = only(estimate(function, inputs))
    assert Operations(**entry["operations"]) == operations


def test_the_gradient_of_max_pooling_finds_the_largest_again():
    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID")

    report = estimate(pool, (3, 8), backward=True)
    (call,) = (call for call in report.layer_report.values() if call["type"] == "select_and_scatter_add")
    # 12 windows of 2: a comparison and an addition each; dy and x are read, dx is written
    assert call["operations"] == {"add": 12, "cmp": 12}
    assert (call["mread"], call["mwrite"]) == ((12 + 24) * 4, 24 * 4)


@pytest.mark.parametrize("left", [True, False])
def test_a_triangular_system_is_solved_for_every_right_hand_side(left):
    right = (4, 2) if left else (2, 4)
    report = estimate(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=left, lower=True), [(4, 4), right])
    columns = estimate(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), [(4, 4), (4, 2)])
    assert report.total_report["flops"] == columns.total_report["flops"] > 0


def test_all_columns_of_q_take_more_than_the_first():
    thin, full = (estimate(lambda x, f=f: lax.linalg.qr(x, full_matrices=f), (8, 5)) for f in (False, True))
    # forming Q: reflection k = 1 … 5 of length l = 9 - k acts on the columns from k on, 6 - k of 5 or 9 - k of 8
    products = [sum(2 * (8 - k) * (n + 1 - k) for k in range(1, 6)) for n in (5, 8)]
    difference = only(full)["operations"]["fma"] - only(thin)["operations"]["fma"]
    assert difference == products[1] - products[0]


@pytest.mark.parametrize("function", [jnp.fft.fft, jnp.fft.rfft, lambda x: jnp.fft.irfft(x.astype("complex64"))])
def test_fourier_transforms_are_priced(function):
    report = estimate(function, (4, 16))
    assert report.status == "complete"
    assert report.total_report["flops"] > 0


@pytest.mark.parametrize(
    "function",
    [
        jnp.linalg.inv,
        jnp.linalg.det,
        jnp.linalg.eigh,
        jnp.linalg.svd,
        jnp.linalg.qr,
        jnp.linalg.cholesky,
        lambda x: jnp.linalg.solve(x, x),
        lambda x: lax.linalg.lu(x)[0],
        jax.scipy.linalg.expm,
    ],
)
def test_linear_algebra_is_priced(function):
    report = estimate(function, (4, 4))
    assert report.status in ("complete", "assumed")
    assert report.total_report["flops"] > 4**3 // 3


def test_a_slice_update_reads_what_it_keeps_and_the_update():
    report = estimate(lambda x, y: lax.dynamic_update_slice(x, y, (1, 0)), [(8, 4), (2, 4)])
    assert (only(report)["mread"], only(report)["mwrite"]) == (8 * 4 * 4, 8 * 4 * 4)


def test_a_scatter_adds_every_update_once():
    report = estimate(lambda x, i, u: x.at[i].add(u), [(10, 4), Tensor((3,), "int32"), (3, 4)])
    (scatter,) = (entry for entry in report.layer_report.values() if entry["type"].startswith("scatter"))
    assert scatter["operations"]["add"] == 12


def test_arithmetic_on_literals_is_done_before_the_run():
    report = estimate(lambda x: x * jnp.sqrt(jnp.float32(4.0)), (6,))
    assert report.total_report["flops"] == 6
