"""Every rule on small arguments, with costs by hand."""

from __future__ import annotations

import random

import pytest

from costcore.ir import Operations, Tensor
from costcore.registry import calculators
from costcore.translate import Native, Translator
from costcore_kernels import costcore_calculators, costcore_rows

ROWS = {row.native: row for row in costcore_rows("traces")}
TRANSLATE = Translator(
    ROWS.values(), lambda value, role: Tensor(value.shape, value.dtype, role) if isinstance(value, Tensor) else None
)


def t(*shape, dtype="bfloat16"):
    return Tensor(shape, dtype)


def translated(name, *args):
    values = {f"arg{i}": x for i, x in enumerate(args) if x is not None}
    return TRANSLATE(Native(name, values, ()))


def cost(name, *args):
    layer = translated(name, *args).layer
    return {**calculators(), **costcore_calculators()}[layer.op](layer)


def test_other_frontends_get_no_rules():
    assert costcore_rows("pytorch") == ()
    assert len(ROWS) == len(costcore_rows("traces"))


NORM = Operations(mul=4 + 32 + 32, fma=32 - 4, add=4, div=8, special=4)  # 4 rows of 8: squares, mean, eps, root, weight


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("_C::rms_norm", (t(4, 8), t(4, 8), t(8), 1e-6)),
        ("sgl_kernel::rmsnorm", (t(4, 8), t(4, 8), t(8), 1e-6, False)),
        ("aiter::rmsnorm", (t(4, 8), t(4, 8), t(8), 1e-6)),
        ("aiter::rms_norm", (t(4, 8), t(8), 1e-6)),
        ("aiter::rmsnorm2d_fwd", (t(4, 8), t(8), 1e-6)),
        ("aiter::rmsnorm2d_fwd_ck", (t(4, 8), t(8), 1e-6, 0)),
    ],
)
def test_a_norm_reads_its_input_and_weight_and_writes_its_output(name, args):
    found = cost(name, *args)
    assert (found.flops, found.mread, found.mwrite) == (NORM, 64 + 16, 64)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("_C::fused_add_rms_norm", (t(4, 8), t(4, 8), t(8), 1e-6)),
        ("sgl_kernel::fused_add_rmsnorm", (t(4, 8), t(4, 8), t(8), 1e-6, False)),
        ("aiter::add_rmsnorm", (t(4, 8), t(4, 8), t(4, 8), t(4, 8), t(8), 1e-6)),
        ("aiter::rmsnorm2d_fwd_with_add", (t(4, 8), t(4, 8), t(4, 8), t(4, 8), t(8), 1e-6)),
        ("aiter::rmsnorm2d_fwd_with_add_ck", (t(4, 8), t(4, 8), t(4, 8), t(4, 8), t(8), 1e-6, 0)),
    ],
)
def test_a_norm_of_a_sum_writes_both(name, args):
    found = cost(name, *args)
    assert (found.flops, found.mread, found.mwrite) == (NORM + Operations(add=32), 2 * 64 + 16, 2 * 64)


@pytest.mark.parametrize("library", ["_C", "sgl_kernel", "aiter"])
@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("silu_and_mul", Operations(mul=2, add=2, div=1, special=1)),
        ("gelu_and_mul", Operations(mul=4, add=1, special=1)),
        ("gelu_tanh_and_mul", Operations(mul=7, add=2, special=1)),
    ],
)
def test_a_gated_activation_reads_twice_what_it_writes(library, name, element):
    found = cost(f"{library}::{name}", t(4, 8), t(4, 16))
    assert (found.flops, found.mread, found.mwrite) == (32 * element, 128, 64)
    assert not translated(f"{library}::{name}", t(4, 8), t(4, 15)).has_row


@pytest.mark.parametrize("library", ["_C", "sgl_kernel"])
def test_rotary_embeddings_read_one_row_of_the_table_per_position(library):
    # 3 tokens, 4 heads of queries and 2 of keys of width 8, rotated as a whole; the table has 100 rows of 4 + 4
    args = (t(3, dtype="int64"), t(3, 32), t(3, 16), 8, t(100, 8), True)
    found = cost(f"{library}::rotary_embedding", *args)
    assert found.flops == 3 * 6 * 8 * Operations(mul=2, add=1)
    assert found.mread == 3 * 48 * 2 + 3 * 8 + 3 * 8 * 2
    assert found.mwrite == 3 * 48 * 2


@pytest.mark.parametrize(
    "name", ["sglang::store_cache", "_C_cache_ops::reshape_and_cache", "_C_cache_ops::reshape_and_cache_flash"]
)
def test_a_store_into_a_cache_moves_new_keys_and_values_only(name):
    found = cost(name, t(3, 16), t(3, 16), t(1000, 16), t(1000, 16), t(3, dtype="int64"))
    assert (found.flops, found.mread, found.mwrite) == (Operations(), 2 * 96 + 24, 2 * 96)


@pytest.mark.parametrize(
    "name",
    [
        *("flash_attn::_flash_attn_forward", "aiter::mha_fwd", "xformers::efficient_attention_forward_cutlass"),
        "xformers_flash::flash_fwd",
    ],
)
def test_attention_of_a_padded_batch(name):
    q, k = t(2, 5, 4, 8), t(2, 7, 2, 8)
    found = cost(name, q, k, k, 0.0, 0.35, True)
    assert found.macs == 2 * (2 * 4 * 5 * 7 * 8)
    assert (found.mread, found.mwrite) == (640 + 2 * 448, 640)


def test_the_backward_pass_of_attention_has_twice_the_products():
    x = t(2, 5, 4, 8)
    found = cost("flash_attn::_flash_attn_backward", x, x, x, x)
    assert found.macs == 4 * (2 * 4 * 5 * 5 * 8)
    assert (found.mread, found.mwrite) == (4 * x.nbytes, 3 * x.nbytes)


def test_packed_samples_of_the_longest_length_are_certain():
    ends = t(4, dtype="int32")  # three samples
    args = [t(15, 4, 8), t(15, 2, 8), t(15, 2, 8), ends, ends, 5, 5, 0.0, 0.35, True]
    layer = translated("flash_attn::_flash_attn_varlen_forward", *args).layer
    assert layer.attrs == {"lengths": (5, 5, 5), "key_lengths": (5, 5, 5), "causal": True}
    assert cost("flash_attn::_flash_attn_varlen_forward", *args).macs == 3 * 2 * (4 * 5 * 5 * 8)


def test_other_packed_samples_are_assumed_to_be_equally_long():
    ends = t(4, dtype="int32")
    args = [t(14, 4, 8), t(14, 2, 8), t(14, 2, 8), ends, ends, 9, 9, 0.0, 0.35, False]
    layer = translated("flash_attn::_flash_attn_varlen_forward", *args).layer
    assert layer.attrs["lengths"] == (5, 5, 4)
    assert layer.attrs["assumed"] == "samples of equal lengths"


def test_prefill_over_pages_reads_the_keys_of_its_samples_and_not_the_cache():
    # 15 samples of 1,024 tokens of an 8 B model in SGLang, as a trace of TraceLens has them
    ends = t(16, dtype="int32")
    cache = t(835_874, 8, 128)
    args = [t(15_360, 32, 128), cache, cache, ends, ends, t(15_616, dtype="int32"), 1024, 1024]
    layer = translated("aiter::mha_batch_prefill", *args, 0.0, 0.088, 0.0, False, True).layer
    assert "assumed" not in layer.attrs
    found = cost("aiter::mha_batch_prefill", *args, 0.0, 0.088, 0.0, False, True)
    assert found.macs == 2 * 15 * 32 * 1024 * 1024 * 128
    assert found.mread == 2 * 128 * (15_360 * 32 + 2 * 15_360 * 8)
    assert not translated("aiter::mha_batch_prefill", *args[:5]).has_row


def test_products_of_quantized_operands():
    fp8, scale = "float8_e4m3fn", t(1, dtype="float32")
    found = cost("_C::cutlass_scaled_mm", t(4, 16), t(4, 8, dtype=fp8), t(8, 16, dtype=fp8), scale, scale)
    assert (found.macs, found.mread, found.mwrite) == (4 * 8 * 16, 32 + 128 + 8, 128)
    found = cost("aiter::gemm_a8w8_CK", t(4, 8, dtype=fp8), t(16, 8, dtype=fp8), scale, scale)
    assert (found.macs, found.mread, found.mwrite) == (4 * 8 * 16, 32 + 128 + 8, 128)


def test_quantization_with_a_scale_that_is_given_or_found():
    y, x, scale = t(4, 8, dtype="float8_e4m3fn"), t(4, 8), t(1, dtype="float32")
    for name in ("_C::static_scaled_fp8_quant", "sgl_kernel::static_scaled_int8_quant"):
        found = cost(name, y, x, scale)
        assert (found.flops, found.mread, found.mwrite) == (32 * Operations(mul=1, cmp=2), 64 + 4, 32)
    per_token = t(4, 1, dtype="float32")
    found = cost("_C::dynamic_per_token_scaled_fp8_quant", y, x, per_token)
    assert (found.flops, found.mwrite) == (Operations(mul=32, cmp=96, div=4), 32 + 16)
    assert cost("sgl_kernel::sgl_per_token_quant_fp8", x, y, per_token).flops == found.flops


@pytest.mark.parametrize("name", ["vllm::outplace_fused_experts", "sglang::inplace_fused_experts"])
def test_routed_experts(name):
    # 3 rows of 4, two of 8 experts each, 5 hidden units
    args = (t(3, 4), t(8, 10, 4), t(8, 4, 5), t(3, 2, dtype="float32"), t(3, 2, dtype="int32"))
    found = cost(name, *args)
    assert found.macs == 3 * 2 * (10 * 4 + 5 * 4)
    outputs = 3 * 2 * (10 + 4)
    silu = 3 * 2 * 5 * Operations(mul=2, add=2, div=1, special=1)
    assert found.flops == Operations(mul=outputs, fma=360 - outputs) + silu + Operations(mul=12, fma=12)
    assert found.mread == 24 + 2 * (40 + 20) * 6 + 24 + 24
    assert found.mwrite == 24
    assert not translated(name, *args[:4]).has_row


def test_a_kernel_of_a_compiler_moves_its_arguments():
    found = cost("triton::*", t(4, 8), t(8), t(4, 8), 32)
    assert (found.flops, found.mread, found.mwrite) == (Operations(), 64 + 16, 64)
    assert "operations are not counted" in translated("triton::*", t(4, 8), t(4, 8)).layer.attrs["assumed"]


def test_flash_attention_3_of_a_padded_batch_alone():
    q, k = t(2, 5, 4, 8), t(2, 7, 2, 8)
    args = [q, k, k, *[None] * 20, 0.35, True]
    layer = translated("flash_attn_3::fwd", *args).layer
    assert layer.attrs["causal"] is True
    assert cost("sgl_kernel::fwd", *args).macs == 2 * (2 * 4 * 5 * 7 * 8)
    args[8] = t(3, dtype="int32")  # the ends of packed samples
    assert not translated("flash_attn_3::fwd", *args).has_row


def test_packed_samples_of_aiter():
    ends = t(4, dtype="int32")
    args = [t(15, 4, 8), t(15, 2, 8), t(15, 2, 8), ends, ends, 5, 5, 0, 0.0, 0.35, 0.0, False, True]
    layer = translated("aiter::mha_varlen_fwd", *args).layer
    assert layer.attrs == {"lengths": (5, 5, 5), "key_lengths": (5, 5, 5), "causal": True}


def test_a_group_norm_of_aiter():
    found = cost("aiter::_groupnorm_run", t(2, 8, 3, 3), 4, t(8), t(8), 1e-6)
    assert (found.mread, found.mwrite) == (2 * 144 + 2 * 8 + 2 * 8, 2 * 144)
    assert found.flops.special == 2 * 4  # one root per sample and group
    assert not translated("aiter::_groupnorm_run", t(2, 8, 3, 3), 0, t(8), t(8), 1e-6).has_row


@pytest.mark.parametrize(
    "args",
    [
        (t(6, 4), t(2, 3, 4), None, True),
        (t(6, 4), t(6, 4), t(4, 6), t(2, 3, 4), t(6)),  # release 1, with two copies of the weight
    ],
)
def test_linear_layers_of_transformer_engine(args):
    found = cost("span::_Linear", *args)
    assert (found.macs, found.mread, found.mwrite) == (6 * 6 * 4, 2 * (24 + 24), 2 * 36)  # 6 rows of 4, to 6
    found = cost("span::_LinearBackward", *args)
    assert found.macs == 2 * 6 * 6 * 4
    assert (found.mread, found.mwrite) == (2 * (36 + 24 + 24), 2 * (24 + 24))
    assert not translated("span::_Linear", t(6, 4), t(2, 3, 5), None).has_row


# 36 results of 4 products; per row of 4: mean, difference, variance, eps, root, reciprocal, scale, weight and bias
LAYER_NORM_LINEAR = Operations(fma=36 * 3 + 6 * 7, mul=36 + 6 * 5, add=6 * 8, div=6 * 3, special=6)
# the same without mean and difference, and with a product for the weight
RMS_NORM_LINEAR = Operations(fma=36 * 3 + 6 * 3, mul=36 + 6 * 9, add=6, div=6 * 2, special=6)
# 24 sums of 6 products for x and for w; per row: normalized x, dy w, mean of dy w x, their difference, 1 / root; 4 sums
# of 6 products for the weight of the norm. With a bias: the mean of x and of dy w, and 4 sums for the bias
PRODUCTS_BACKWARD = {"fma": 2 * 24 * 5 + 6 * 3 + 24 + 4 * 5, "mul": 2 * 24 + 3 * 24 + 6 + 4}
LAYER_NORM_LINEAR_BACKWARD = Operations(**PRODUCTS_BACKWARD, add=24 + 6 * 3 + 24 + 4 * 5, div=6 * 2)
RMS_NORM_LINEAR_BACKWARD = Operations(**PRODUCTS_BACKWARD, div=6)


@pytest.mark.parametrize("bias", [True, False])
def test_a_norm_before_a_linear_layer_of_transformer_engine(bias):
    args = (t(2, 3, 4), t(4), t(4) if bias else None, t(6, 4), t(6))
    parameters = 8 if bias else 4
    found = cost("span::_LayerNormLinear", *args)
    assert found.macs == 6 * 6 * 4
    assert (found.mread, found.mwrite) == (2 * (24 + parameters + 24), 2 * 36)
    assert found.flops == (LAYER_NORM_LINEAR if bias else RMS_NORM_LINEAR)
    found = cost("span::_LayerNormLinearBackward", *args)
    assert found.macs == 2 * 6 * 6 * 4
    assert (found.mread, found.mwrite) == (2 * (36 + 24 + 24 + parameters), 2 * (24 + 24 + parameters))
    assert found.flops == (LAYER_NORM_LINEAR_BACKWARD if bias else RMS_NORM_LINEAR_BACKWARD)


@pytest.mark.parametrize("name", ROWS)
def test_a_call_without_its_tensors_has_no_rule(name):
    assert not translated(name).has_row
    assert not translated(name, 1, 2, 3, "x", None, True).has_row


def test_arguments_of_other_kernels_are_uncounted_or_cost_something():
    """Whatever a damaged trace has: no rule raises, and no cost is negative."""
    rng = random.Random(3)
    dtypes = ("bfloat16", "int64", "float32", "bool")
    numbers = (0, 1, -1, 3, 8, True, False, 1.5, "x", (1, 2), None)

    def argument():
        if rng.random() < 0.3:
            return rng.choice(numbers)
        return t(*(rng.choice((0, 1, 2, 3, 4, 8, 16)) for _ in range(rng.randrange(6))), dtype=rng.choice(dtypes))

    counted = 0
    for _ in range(8_000):
        name = rng.choice([*ROWS])
        args = [argument() for _ in range(rng.randrange(14))]
        if translated(name, *args).has_row:
            found = cost(name, *args)
            assert min(found.macs, found.mread, found.mwrite, found.flops.flops(fma_1flop=True)) >= 0
            counted += 1
    assert counted > 300
