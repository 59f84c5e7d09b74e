"""Inputs, options, symbolic sizes and what users get wrong."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from costcore import CostError, Tensor, Value, estimate

FLOAT8 = [name for name in dir(jnp) if name.startswith("float8_")]


def linear(w, x):
    return x @ w


@pytest.mark.parametrize(
    "x",
    [(3, 4), Tensor((3, 4)), jax.ShapeDtypeStruct((3, 4), "float32"), jnp.ones((3, 4))],
    ids=["shape", "Tensor", "ShapeDtypeStruct", "array"],
)
def test_inputs_of_every_kind_give_the_same(x):
    assert estimate(linear, [(4, 5), x]).total_report["macs"] == 3 * 4 * 5


@pytest.mark.parametrize("steps", [Value([3, 1, 2]), Value((3, 1, 2))])
def test_a_value_is_a_list_of_integers(steps):
    def loop(x, steps):
        for n in steps:
            for _ in range(n):
                x = x @ x
        return x

    assert estimate(loop, {"x": (4, 4), "steps": steps}).total_report["macs"] == 6 * 4 * 4 * 4


def test_the_dtype_of_shapes():
    total = estimate(jnp.tanh, (6,), dtype="bfloat16").total_report
    assert (total["mread"], total["mwrite"]) == (6 * 2, 6 * 2)


@pytest.mark.parametrize("dtype", [*FLOAT8, "int4", "uint4", "complex64", "bool", "uint16"])
def test_bytes_of_a_dtype(dtype):
    size = jnp.dtype(dtype).itemsize if dtype not in ("int4", "uint4") else 0.5
    assert estimate(lambda x: x[::-1], Tensor((8,), "float32"), dtype=dtype).total_report["mread"] == 8 * 4
    report = estimate(lambda x: x[::-1], jax.ShapeDtypeStruct((8,), jnp.dtype(dtype)))
    assert report.total_report["mread"] == 8 * size


def test_symbolic_sizes_of_jax_are_symbols():
    batch, steps = jax.export.symbolic_shape("batch, steps")
    report = estimate(lambda x: jnp.concatenate([x, x], 1) @ jnp.ones((4, 5)), (batch, 2 * steps + 1, 4))
    macs = report.total_report["macs"]
    assert {str(symbol) for symbol in macs.free_symbols} == {"batch", "steps"}
    assert report.subs(batch=3, steps=5).total_report["macs"] == 3 * 2 * (2 * 5 + 1) * 4 * 5


def test_quotients_of_symbolic_sizes():
    (size,) = jax.export.symbolic_shape("size", constraints=["size >= 8"])

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3,), (2,), "VALID")

    report = estimate(pool, (size,))
    assert report.subs(size=20).total_report["flops"] == 9 * 2
    assert report.subs(size=21).total_report["flops"] == 10 * 2


def test_names_among_the_sizes_give_the_same_formula():
    (batch,) = jax.export.symbolic_shape("batch")
    named = estimate(linear, [(4, 5), ("batch", 4)]).total_report
    assert named["macs"] == estimate(linear, [(4, 5), (batch, 4)]).total_report["macs"]


def test_a_loop_over_a_symbolic_size():
    (size,) = jax.export.symbolic_shape("size")
    report = estimate(lambda x: jax.lax.fori_loop(0, x.shape[0], lambda i, y: jnp.tanh(y), x), (size,))
    assert report.subs(size=6).summary_report["tanh"]["flops"] == 6 * 6


@pytest.mark.parametrize(
    ("model", "inputs", "options", "message"),
    [
        (linear, [(4, 5), (3, 7)], {}, "linear: tracing raised TypeError"),
        (linear, [object(), (3, 4)], {}, "argument 0 is <object"),
        (linear, [(4, 5), (3, 4)], {"params": 2}, "params must be positions of arguments, 0 to 1"),
        (linear, [(4, 5), (3, 4)], {"regroup": ["soft"]}, "regroup: unknown pattern 'soft'"),
        (linear, [(4, 5), (3, 4)], {"trips": -1}, "trips must be an integer of 0 or more"),
        (linear, [(4, 5), (3, 4)], {"backwards": True}, "Did you mean 'backward'"),
    ],
)
def test_mistakes_are_explained(model, inputs, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        estimate(model, inputs, **options)


def test_a_failing_function_is_a_cost_error():
    with pytest.raises(CostError, match="linear"):
        estimate(linear, [(4, 5)])


def test_a_calculator_of_the_user_is_called():
    def free(layer):
        return 7, 0, 0, {}

    for op in ("jax::tanh", jax.lax.tanh_p):
        with pytest.warns(UserWarning, match="replaces the built-in calculator"):
            report = estimate(jnp.tanh, (4,), calculators={op: free})
        assert report.total_report["flops"] == 7


def test_a_report_is_saved_and_read_back(tmp_path):
    from costcore import Report

    report = estimate(linear, [(4, 5), (3, 4)], params=0)
    report.to_json(tmp_path / "report.json")
    assert Report.from_json(tmp_path / "report.json").total_report == report.total_report


def test_a_negative_size_is_refused():
    with pytest.raises(CostError, match=r"argument 0 has a negative size: \(-1, 5\)"):
        estimate(lambda x: x, (-1, 5))


def test_an_unknown_dtype_is_refused():
    with pytest.raises(ValueError, match=r"data type 'foo' not understood \(expected a dtype of JAX"):
        estimate(lambda x: x, (4, 5), dtype="foo")


def test_a_switch_is_not_a_position():
    with pytest.raises(ValueError, match="params must be positions"):
        estimate(lambda x: x, (4, 5), params=False)


def test_arrays_that_a_function_closes_over_are_named():
    weight = jnp.ones((4, 3))
    (note,) = estimate(lambda x: x @ weight, (2, 4)).trace.run.notes
    assert note.startswith("12 elements of arrays that the function closes over are not counted as parameters")
