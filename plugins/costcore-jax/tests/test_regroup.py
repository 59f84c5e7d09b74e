"""Regrouping is exact, listed, and never takes what others read."""

from __future__ import annotations

import haiku
import jax
import jax.numpy as jnp
import keras
import pytest
from flax import linen, nnx

from costcore import estimate

X = (2, 5, 8)


def layers(report):
    free = ("reshape", "identity", "constant", "full")
    return [call.layer.op for call in report.trace.calls if call.layer.op not in free]


def built(layer):
    layer.build(X)
    return layer


LAYER_NORMS = {
    "linen": linen.LayerNorm(),
    "linen, two passes": linen.LayerNorm(use_fast_variance=False),
    "nnx": nnx.LayerNorm(8, rngs=nnx.Rngs(0)),
    "haiku": haiku.transform(lambda x: haiku.LayerNorm(-1, True, True)(x)),
    "keras": built(keras.layers.LayerNormalization()),
}


@pytest.mark.parametrize("name", LAYER_NORMS)
def test_layer_norm_of_every_library_is_one_operator(name):
    report = estimate(LAYER_NORMS[name], X, regroup=True)
    assert layers(report) == ["layer_norm"]
    # 10 rows of 8: 2c - 1 fma, c + 1 mul, 2c add, 3 div, 1 special
    assert report.total_report["flops"] == 10 * (15 + 9 + 16 + 3 + 1)
    assert report.total_report["n_params"] == 16


BATCH_NORMS = {
    "linen": linen.BatchNorm(use_running_average=True),
    "nnx": nnx.BatchNorm(8, use_running_average=True, rngs=nnx.Rngs(0)),
    "keras": built(keras.layers.BatchNormalization()),
}


@pytest.mark.parametrize("name", BATCH_NORMS)
def test_batch_norm_at_inference_is_a_scale_and_a_shift(name):
    report = estimate(BATCH_NORMS[name], X, regroup=True)
    assert layers(report) == ["batch_norm"]
    assert (report.total_report["flops"], report.total_report["n_params"]) == (80, 16)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_with_casts_is_one_operator(dtype):
    def run(q, k):
        return linen.dot_product_attention(q, k, k)

    report = estimate(run, [(2, 3, 4, 16), (2, 7, 4, 16)], regroup=True, dtype=dtype)
    assert layers(report) == ["attention", "transpose"]
    assert report.total_report["macs"] == 2 * 4 * 3 * 7 * 16 * 2


def test_grouped_heads_read_their_keys_once():
    def run(q, k):
        return jax.nn.dot_product_attention(q, k, k)

    report = estimate(run, [(2, 3, 8, 16), (2, 7, 2, 16)], regroup=["attention"])
    (attention,) = (call for call in report.trace.calls if call.layer.op == "attention")
    assert attention.layer["k"].size == 2 * 7 * 2 * 16
    assert report.total_report["macs"] == 2 * 8 * 3 * 7 * 16 * 2


def test_what_others_read_is_not_regrouped():
    def run(x):
        powers = jnp.exp(x - jnp.max(x, -1, keepdims=True))
        return powers / jnp.sum(powers, -1, keepdims=True), powers

    assert "softmax" not in layers(estimate(run, X, regroup=True))
    assert layers(estimate(lambda x: run(x)[0], X, regroup=True)) == ["softmax"]


def test_a_sum_over_another_number_is_not_a_mean():
    assert layers(estimate(lambda x: jnp.sum(x, -1) / 8, X, regroup=True)) == ["reduce_mean"]
    assert layers(estimate(lambda x: jnp.sum(x, -1) / 7, X, regroup=True)) == ["reduce_sum", "div"]


def test_another_constant_is_not_a_gelu():
    assert layers(estimate(lambda x: x * 0.5 * (1 + jax.lax.erf(x * 0.70710678)), X, regroup=True)) == ["gelu"]
    assert "gelu" not in layers(estimate(lambda x: x * 0.5 * (1 + jax.lax.erf(x * 0.8)), X, regroup=True))


def test_why_a_pattern_does_not_match_is_noted():
    def run(x):
        return x * 0.5 * (1 + jax.lax.erf(x * 0.8))

    (note,) = estimate(run, X, regroup=True, explain_regroup=["gelu"]).notes
    assert "not gelu: a value is the constant 0.8" in note
    assert "(expected the constant 0.707107)" in note
    assert estimate(jax.nn.silu, X, regroup=True, explain_regroup=["softmax"]).notes[0].endswith("match softmax")


def test_groups_are_listed_and_named():
    report = estimate(linen.LayerNorm(), X, regroup=["layer_norm"])
    (group,) = report.trace.run.regrouped
    assert group.op == "layer_norm"
    assert "rsqrt" in group.nodes
    assert not estimate(linen.LayerNorm(), X).trace.run.regrouped


def test_without_the_option_equations_are_counted_as_written():
    assert layers(estimate(jax.nn.silu, X)) == ["sigmoid", "mul"]


def test_nothing_is_regrouped_across_a_loop():
    def run(x, w):
        y, _ = jax.lax.scan(lambda carry, _: (carry @ w, None), x, None, length=3)
        return y + jnp.ones(8)

    report = estimate(run, [(5, 8), (8, 8)], params=1, regroup=True)
    assert layers(report) == ["linear", "add"]
