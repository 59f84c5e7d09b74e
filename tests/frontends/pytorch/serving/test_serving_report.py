"""Serving reports of PyTorch models: columns, caches, windows, experts, formats, errors."""

from __future__ import annotations

from inspect import signature

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    DynamicCache,
    FalconConfig,
    FalconForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    MambaConfig,
    MambaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from costcore import ComputationalCostHook, CostError, ServingReport, hookimpl, plugins
from tests.frontends.pytorch.differences import HAS_GROUPED_QUERIES
from tests.frontends.pytorch.serving.llms import build, llms
from tests.frontends.pytorch.transformers_differences import (
    ANGLES_ARE_PRODUCTS,
    CACHES_LATENTS,
    NEEDS_JOINED_EXPERTS,
    angles,
)

L, D, F, V, H, KV, Q = 3, 64, 96, 100, 4, 2, 16
SIZES = {
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "num_key_value_heads": KV,
    "vocab_size": V,
    "pad_token_id": 0,
    "max_position_embeddings": 512,
}
M = L * (D * (H + 2 * KV) * Q + H * Q * D + 3 * D * F) + V * D
"""Weights that multiply: q, k and v, the output, gate, up and down, and the head."""

A = L * H * 2 * Q
"""MACs of one query and one key."""

PER_TOKEN = 2 * L * KV * Q
"""Elements that a token adds to the cache."""

ANGLES = Q // 2 * ANGLES_ARE_PRODUCTS
"""MACs of the angles of one position."""

NORMS = (2 * L + 1) * D


def llama(**settings) -> LlamaForCausalLM:
    return LlamaForCausalLM(LlamaConfig(**{**SIZES, **settings})).eval()


@pytest.fixture(scope="module")
def small() -> ServingReport:
    return ServingReport(llama())


@pytest.fixture(scope="module")
def llama_3_8b() -> ServingReport:
    """The whole model: 32 layers of width 4096."""
    return ServingReport(build(next(llm for llm in llms() if llm.name == "Llama-3-8B")), dtype="bfloat16")


@pytest.mark.parametrize(
    ("batch", "context", "macs", "kv", "ms"),
    [
        (1, 4096, 8_578_400_256, 536_870_912, 4.64),
        (1, 8192, 9_652_142_080, 1_073_741_824, 4.80),
        (16, 4096, 137_254_404_096, 8_589_934_592, 7.04),
    ],
)
def test_decode_of_llama_3_8b(llama_3_8b, batch, context, macs, kv, ms):
    """b (M + A C) MACs with M = 7,504,658,432 and A = 32 * 32 * 2 * 128; weights 2 M bytes; 131,072 bytes per key.

    The least time is (2 M + 65 norms of 4096 + b rows of the table of words + the cache) / 3.35 TB/s.
    """
    step = llama_3_8b.decode(batch=batch, context=context)
    assert macs == batch * (7_504_658_432 + 262_144 * context)
    assert step.macs == macs + 64 * ANGLES_ARE_PRODUCTS
    assert step.by_op()["linear"]["load_weight"] == 15_009_316_864 == 2 * 7_504_658_432
    assert step.load_weight == 15_009_316_864 + 2 * 65 * 4096 + batch * 2 * 4096
    assert step.load_kv == kv == 131_072 * batch * context
    assert step.cache_append == step.store_kv == 131_072 * batch
    time = step.time("h100-sxm5-80gb")
    assert time.binds == "memory"
    assert time.bound_seconds == (step.load_weight + kv) / 3.35e12
    assert round(1000 * time.bound_seconds, 2) == ms
    assert time.tokens_per_second == batch / time.bound_seconds


def test_formulas_are_those_of_passes(small):
    one, each = (f" + {ANGLES}", f" + {ANGLES}*tokens") if ANGLES else ("", "")
    assert str(small.formula("decode")) == f"{A}*batch*context + {M}*batch{one}"
    assert str(small.formula("prefill")) == f"{A}*batch*tokens**2 + {M}*batch*tokens{each}"
    assert str(small.formula("decode", "load_kv")) == f"{4 * PER_TOKEN}*batch*context"
    assert str(small.formula("extend")) == f"{A}*batch*context*tokens + {M}*batch*tokens{each}"
    other = ServingReport(llama())  # has no formulas yet: every pass is captured
    for batch, context in ((1, 2), (1, 300), (5, 77), (600, 40)):
        assert small.decode(batch=batch, context=context).tallies == other.decode(batch=batch, context=context).tallies
        assert small.prefill(context, batch=batch).tallies == other.prefill(context, batch=batch).tallies


def test_columns_of_a_step(small):
    step = small.decode(batch=2, context=10)
    assert step.load_weight == 4 * (M + NORMS + 2 * D)  # two rows of the table of words
    assert step.load_kv == 4 * 2 * 10 * PER_TOKEN
    assert step.store_kv == 4 * 2 * PER_TOKEN
    columns = step.by_op()
    assert columns["attention"]["macs"] == 2 * 10 * A
    # of linear layers: three read the width, one the heads, two the width, one the hidden units, the head the width
    assert columns["linear"]["load_act"] == 4 * 2 * (L * (3 * D + H * Q + 2 * D + F) + D)
    assert columns["linear"]["store_act"] == 4 * 2 * (L * ((H + 2 * KV) * Q + D + 2 * F + D) + V)
    for column in ("macs", "load_weight", "load_kv", "store_kv", "load_act", "store_act"):
        assert sum(entry[column] for entry in columns.values()) == getattr(step, column)


def test_a_step_is_what_a_run_with_a_cache_computes(small):
    """The tool's own count of a real run on data, with the cache of transformers."""
    model, ids = llama(), torch.ones(2, 9, dtype=torch.int64)
    named = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"  # until transformers 5.24
    options = {named: DynamicCache(), "use_cache": True}
    with torch.no_grad():
        model(input_ids=ids, **options)
        with ComputationalCostHook() as cch:
            model(input_ids=ids[:, :1], **options)
    step = small.decode(batch=2, context=10)
    assert (step.macs, step.flops) == (cch.total_report["macs"], cch.total_report["flops"])
    longer = [call for call in cch.layer_report.values() if call["output_shapes"] == [(2, KV, 10, Q)]]
    copies = [call for call in longer if call["mrw"]]  # without views
    assert len(copies) == 2 * L
    dynamic = ServingReport(llama(), cache="dynamic").decode(batch=2, context=10)
    assert sum(call["mrw"] for call in copies) == 4 * 2 * PER_TOKEN * (10 + 10)
    # without enable_gqa, keys and values are repeated for all heads besides: 10 are read, and H / KV times 10 written
    repeated = 0 if HAS_GROUPED_QUERIES else 4 * 2 * PER_TOKEN * 10 * (1 + H // KV)
    assert dynamic.cache_append == 4 * 2 * PER_TOKEN * (10 + 10) + repeated
    assert dynamic.macs == step.macs


def test_a_prefix_in_the_cache_needs_no_pass(small):
    """6 new tokens after 4: each is multiplied by all weights, and attends to all 10."""
    rest = small.prefill(tokens=10, batch=3, cached=4)
    assert rest.macs == 3 * 6 * (M + A * 10) + 6 * ANGLES
    assert rest.store_kv == 4 * 3 * 6 * PER_TOKEN
    assert rest.load_kv == 4 * 3 * 10 * PER_TOKEN
    # the pairs that a kernel needs: 6 * 4 with the prefix, 6 * 7 / 2 among the new ones
    assert rest.needed_macs == 3 * (6 * M + A * (24 + 21)) + 6 * ANGLES


def test_speculative_decoding(small):
    draft = ServingReport(llama(num_hidden_layers=1))
    step = small.speculative(draft, drafts=3, acceptance=0.5, batch=2, context=20)
    assert step.expected_tokens == 1 + 0.5 + 0.25 + 0.125
    assert step.verify.macs == 2 * 4 * (M + A * 20) + 4 * ANGLES
    assert step.macs == step.verify.macs + 3 * step.draft.macs
    seconds = 3 * step.draft.time("l4").bound_seconds + step.verify.time("l4").bound_seconds
    assert step.tokens_per_second("l4") == 2 * 1.875 / seconds
    assert small.speculative(draft, drafts=3, acceptance=1).expected_tokens == 4


def test_layers_with_a_window_read_no_more_than_it():
    """Every other layer of Gemma 2 has a window of 32."""
    config = Gemma2Config(**{**SIZES, "num_hidden_layers": 4}, head_dim=Q, sliding_window=32)
    serving = ServingReport(Gemma2ForCausalLM(config).eval())
    pairs, key = 4 * H * 2 * Q, 4 * 2 * KV * Q
    base = serving.decode(context=32).macs - pairs * 32 - ANGLES
    for context in (2, 20, 31, 32, 33, 200, 511):
        seen = 2 * context + 2 * min(context, 32)
        step = serving.decode(batch=3, context=context)
        assert step.macs == 3 * (base + pairs // 4 * seen) + ANGLES
        assert step.load_kv == 3 * 4 * key // 4 * seen
        assert serving.cache_bytes(context) == 4 * key // 4 * seen
    assert str(serving.formula("decode", "load_kv", context=8)) == f"{4 * key}*batch*context"
    assert str(serving.formula("decode", "load_kv", context=100)) == f"{2 * key}*batch*context + {2 * key * 32}*batch"


def test_heads_that_a_model_repeats_before_it_caches_them():
    sizes = {"hidden_size": D, "num_hidden_layers": 1, "num_attention_heads": H, "vocab_size": V}
    config = FalconConfig(**sizes, num_kv_heads=KV, new_decoder_architecture=True)
    serving = ServingReport(FalconForCausalLM(config).eval())
    assert serving.kv_bytes_per_token == 4 * 2 * H * Q  # of all heads, not of KV
    serving.decode(batch=2, context=9)
    note = "the model repeats heads of keys and values before caching: the cache holds each up to 2 times"
    assert serving.notes == (note,)
    assert note in str(serving)
    plain = ServingReport(llama())
    plain.decode(batch=2, context=9)
    assert plain.notes == ()


E, K = 8, 2


@NEEDS_JOINED_EXPERTS
@pytest.mark.parametrize("spelling", ["eager", "grouped_mm"])
def test_experts_that_are_expected(spelling):
    config = MixtralConfig(**SIZES, num_local_experts=E, num_experts_per_tok=K)
    config._experts_implementation = spelling
    model = MixtralForCausalLM(config).eval()
    serving = ServingReport(model)
    assert model.config._experts_implementation == spelling
    expert = 3 * D * F
    others = M - L * expert + L * E * D + NORMS  # the router too
    for batch, experts in ((1, 2.0), (8, 8 * (1 - 0.75**8))):
        step = serving.decode(batch=batch, context=5)
        assert step.load_weight == round(4 * (others + batch * D + L * experts * expert))
        assert step.most_load_weight == 4 * (others + batch * D + L * min(E, K * batch) * expert)
        assert step.macs == batch * (M + L * E * D + L * (K - 1) * expert + A * 5)
    assert serving.status == "assumed"


@NEEDS_JOINED_EXPERTS
def test_bounds_of_a_mixture_of_experts():
    with torch.device("meta"):
        model = MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=E, num_experts_per_tok=K))
    serving = ServingReport(model)
    alone, many = serving.decode(batch=1, context=10), serving.decode(batch=8, context=10)
    assert alone.least_load_weight == alone.load_weight == alone.most_load_weight
    # eight tokens that all choose the same two experts read no more of them than one token does
    assert many.least_load_weight == alone.load_weight + 4 * 7 * D
    time = many.time("h100-sxm5-80gb")
    assert time.least_seconds == (many.least_load_weight + many.load_kv) / 3.35e12 < time.bound_seconds
    assert any("mean pass" in remark for remark in time.remarks)
    assert not any("mean pass" in remark for remark in alone.time("h100-sxm5-80gb").remarks)
    least = [each.least_seconds for each in many.time_by_op("h100-sxm5-80gb").values()]
    assert sum(least) >= time.least_seconds


RANK, ROPE, NOPE, VALUE = 24, 8, 16, 12


def test_attention_over_latent_vectors():
    """Queries directly of the input; a latent of 24 and a rotary key of 8 per token; keys of 16 + 8, values of 12."""
    sizes = {**SIZES, "num_key_value_heads": H, "first_k_dense_replace": L, "q_lora_rank": None}
    latent = {"kv_lora_rank": RANK, "qk_rope_head_dim": ROPE, "qk_nope_head_dim": NOPE, "v_head_dim": VALUE}
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**sizes, **latent)).eval()
    serving, turned = ServingReport(model), angles(model)
    expansion = RANK * H * (NOPE + VALUE)
    projections = D * H * (NOPE + ROPE) + D * (RANK + ROPE) + expansion + H * VALUE * D
    products = L * (projections + 3 * D * F) + V * D
    expanded, absorbed = H * (NOPE + ROPE + VALUE), H * (2 * RANK + ROPE)
    b, c = 3, 50
    assert serving.kv_bytes_per_token == 4 * L * (RANK + ROPE)
    assert serving.expanded_kv_bytes_per_token == 4 * L * expanded
    by_way = {way: serving.decode(batch=b, context=c, latent=way) for way in ("expanded", "absorbed", "recomputed")}
    assert by_way["expanded"].macs == b * (products + L * expanded * c) + turned
    assert by_way["absorbed"].macs == b * (products + L * absorbed * c) + turned
    # transformers 5 expands the latents of all tokens in every step
    again = L * expansion * (c - 1) if CACHES_LATENTS else 0
    assert by_way["recomputed"].macs == b * (products + L * expanded * c + again) + turned
    kept = {way: step.load_kv for way, step in by_way.items()}
    assert kept["expanded"] == 4 * b * c * L * expanded
    assert kept["absorbed"] == kept["recomputed"] == 4 * b * c * L * (RANK + ROPE)
    assert by_way["absorbed"].store_kv == 4 * b * L * (RANK + ROPE)
    assert serving.prefill(c, batch=b).macs == b * c * (products + L * expanded * c) + c * turned
    # beside the weights, room for 50 sequences of latents, and for fewer of what is made of them
    room = serving.weight_bytes + 50 * 4 * c * L * (RANK + ROPE)
    assert serving.max_sequences(memory=room, context=c, share=1.0) == 50
    assert serving.max_sequences(memory=room, context=c, share=1.0, latent="expanded") == 50 * (RANK + ROPE) // expanded
    assert str(serving.formula("decode", latent="absorbed")) == (
        f"{L * absorbed}*batch*context + {products}*batch" + (f" + {turned}" if turned else "")
    )


def test_formats_of_weights_and_cache():
    model = llama()
    serving = ServingReport(model, dtype="bfloat16", weights="int4", kv="fp8", keep=["lm_head"])
    step = serving.decode(batch=2, context=10)
    stored = (M - V * D + 2 * D) * (4 + 16 / 128) / 8  # matrices and two rows of the table, a scale for 128 weights
    assert step.load_weight == round(stored + 2 * (V * D + NORMS))
    assert step.load_kv == 2 * 10 * PER_TOKEN
    assert serving.kv_bytes_per_token == PER_TOKEN
    assert step.macs_by_width == {(16, 4): 2 * (M - V * D), (16, 16): 2 * V * D + ANGLES, (16, 8): 2 * 10 * A}
    assert step.bops == 2 * (16 * 4 * (M - V * D) + 16 * 16 * V * D + 16 * 8 * 10 * A) + 16 * 16 * ANGLES
    assert step.macs == ServingReport(model).decode(batch=2, context=10).macs
    assert serving.weight_bytes == round((M - V * D + V * D) * 4.125 / 8 + 2 * (V * D + NORMS))


class Wrapped(nn.Module):
    """A language model of somebody else's, with a cache of its own: one array for all layers, filled from the start."""

    def __init__(self):
        super().__init__()
        self.table, self.qkv, self.head = nn.Embedding(V, D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, V)

    def forward(self, input_ids, past_key_values):
        q, k, v = self.qkv(self.table(input_ids)).chunk(3, -1)
        k, v = past_key_values.append(k, v)
        return self.head(nn.functional.scaled_dot_product_attention(q, k, v))


class Buffer:
    """Keys and values in memory for 64 tokens."""

    def __init__(self):
        self.keys = self.values = None
        self.length = 0

    def append(self, k, v):
        if self.keys is None:
            self.keys, self.values = k.new_empty(k.shape[0], 64, D), k.new_empty(k.shape[0], 64, D)
        end = self.length + k.shape[1]
        self.keys[:, self.length : end] = k
        self.values[:, self.length : end] = v
        self.length = end
        return self.keys[:, :end], self.values[:, :end]


class Caches:
    @hookimpl
    def costcore_caches(self):
        return {"buffer": lambda model: Buffer()}


@pytest.fixture
def buffers():
    plugin = Caches()
    plugins.register(plugin)
    yield
    plugins.unregister(plugin)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtype": "int5x"}, ValueError, "dtype: unknown format 'int5x'"),
        ({"weights": 4}, TypeError, "weights must be the name of a format"),
        ({"weights": "int4:x"}, ValueError, "needs a size of groups such as int4:32"),
        ({"cache": "pagd"}, ValueError, "unknown cache 'pagd'"),
        ({"block": 0}, ValueError, "block must be at least 1"),
        ({"keep": "lm_head"}, TypeError, "keep must be a list of patterns"),
    ],
)
def test_arguments_that_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        ServingReport(llama(), **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.decode(batch=0), ValueError, "batch must be at least 1"),
        (lambda s: s.decode(context=2.5), TypeError, "context must be an integer"),
        (lambda s: s.decode(context=2, tokens=3), ValueError, "context must contain the new tokens"),
        (lambda s: s.decode(latent="both"), ValueError, "unknown latent 'both'"),
        (lambda s: s.prefill(8, cached=8), ValueError, "cached must be a number of tokens, 0 to 7"),
        (lambda s: s.formula("decoding"), ValueError, "unknown phase 'decoding'"),
        (lambda s: s.formula("decode", "bytes"), ValueError, "unknown column 'bytes'"),
        (lambda s: s.max_sequences(context=8), TypeError, "needs a device"),
        (lambda s: s.max_sequences("epyc-9654", context=8), CostError, "the memory of epyc-9654 is unknown"),
        (lambda s: s.max_sequences("l4", context=8, share=90), ValueError, "share must be a number above 0"),
        (lambda s: s.max_sequences("l4", context=-1), ValueError, "context"),
        (lambda s: s.max_sequences("l4", context=1.5), TypeError, "context"),
        (lambda s: s.speculative(s, drafts=2, acceptance=2), ValueError, "acceptance must be a probability"),
        (lambda s: s.decode().time("h10"), ValueError, "unknown device 'h10'"),
    ],
)
def test_calls_that_are_refused(small, call, error, message):
    with pytest.raises(error, match=message):
        call(small)


def test_scores_in_request_rates(buffers):
    """LlamaModel has none, LlamaForCausalLM computes those of the last token, and Wrapped those of all."""
    sizes = {"hidden_size": D, "intermediate_size": F, "num_hidden_layers": 1, "num_attention_heads": H}
    config = LlamaConfig(**sizes, vocab_size=V, max_position_embeddings=64)
    terms = {"prompt": 8, "output": 4, "batches": (1,)}
    (base,), (scored,) = (
        ServingReport(make(config)).requests("l4", **terms).rows for make in (LlamaModel, LlamaForCausalLM)
    )
    assert base.ttft_seconds < scored.ttft_seconds
    notes = ServingReport(Wrapped(), cache="buffer").requests("l4", **terms).notes
    assert "Wrapped computes logits for all tokens of a prompt, not for the last alone" in notes


def test_models_that_cannot_be_served():
    config = T5Config(d_model=D, d_ff=F, num_layers=1, num_heads=H, vocab_size=V)
    with pytest.raises(CostError, match="T5ForConditionalGeneration has an encoder"):
        ServingReport(T5ForConditionalGeneration(config))
    encoder = BertConfig(hidden_size=D, num_hidden_layers=1, num_attention_heads=H, intermediate_size=F)
    with pytest.raises(CostError, match="BertModel is an encoder and has no KV cache"):
        ServingReport(BertModel(encoder))
    encoder.is_decoder = True
    assert ServingReport(BertModel(encoder)).kv_bytes_per_token == 4 * 2 * D
    with pytest.raises(CostError, match="ExportedProgram takes no cache"):
        ServingReport(torch.export.export(nn.Linear(3, 3), (torch.ones(2, 3),)))
    with pytest.raises(CostError, match=r"ServingReport needs a torch\.nn\.Module"):
        ServingReport("model.onnx")
    with pytest.raises(CostError, match="Linear takes no cache: its forward has no argument past_key_values"):
        ServingReport(nn.Linear(3, 3))
    with pytest.raises(CostError, match="Wrapped has no configuration of transformers"):
        ServingReport(Wrapped())


def test_scores_of_the_last_token_need_an_argument(buffers):
    with pytest.raises(CostError, match="computes scores for all tokens"):
        ServingReport(Wrapped(), cache="buffer").prefill(4, last_only=True)


@pytest.mark.skipif(hasattr(DynamicCache, "update_conv_state"), reason="this transformers has a cache for states")
def test_states_that_the_cache_of_transformers_does_not_hold():
    with torch.device("meta"):
        model = MambaForCausalLM(MambaConfig(hidden_size=D, num_hidden_layers=1, vocab_size=V, state_size=4))
    with pytest.raises(CostError, match=r"MambaForCausalLM keeps states of a recurrence.*install transformers 5"):
        ServingReport(model)


@pytest.mark.skipif(not hasattr(DynamicCache, "update_conv_state"), reason="transformers 4 has no cache for states")
def test_states_of_a_recurrence_stay_as_the_model_has_them():
    """A state of 2·D channels times N in float32, and the last 4 inputs of a convolution, in the dtype of the model."""
    states = 4
    config = MambaConfig(hidden_size=D, num_hidden_layers=1, vocab_size=V, state_size=states, conv_kernel=4)
    with torch.device("meta"):
        model = MambaForCausalLM(config)
    for options in ({}, {"kv": "fp8"}):
        serving = ServingReport(model, dtype="bfloat16", **options)
        assert serving.cache_bytes(100) == 2 * D * (4 * states + 2 * 4)
        step = serving.decode(batch=3, context=10)
        assert step.load_kv == 3 * 2 * D * 4 * states
        assert step.store_kv == 3 * serving.cache_bytes(10)
    assert ServingReport(model).cache_bytes(100) == 2 * D * (4 * states + 4 * 4)
    assert model.dtype == torch.float32


HAS_STATES = hasattr(DynamicCache, "update_conv_state")

FEW_TOKENS = {
    "states in modules": pytest.param(
        RecurrentGemmaForCausalLM,
        RecurrentGemmaConfig(
            **{**SIZES, "num_key_value_heads": 1}, lru_width=D, head_dim=Q, attention_window_size=2048
        ),
        marks=pytest.mark.skipif(not HAS_STATES, reason="transformers 4 has another cache for it"),
    ),
    "keys and values": pytest.param(LlamaForCausalLM, LlamaConfig(**SIZES)),
}


@pytest.mark.parametrize(("kind", "config"), FEW_TOKENS.values(), ids=FEW_TOKENS)
def test_few_tokens_fill_the_cache_of_a_step(kind, config):
    """The costs are those of a real step after 511 tokens. RecurrentGemma keeps its states in its modules."""
    lengths = []

    class Watched(kind):
        def forward(self, input_ids, past_key_values=None, **options):
            lengths.append(input_ids.shape[1])
            return super().forward(input_ids, past_key_values=past_key_values, **options)

    model = Watched(config).eval()
    step = ServingReport(model).decode(batch=2, context=512)
    assert max(lengths) < 20
    tokens, cache = torch.ones(2, 512, dtype=torch.int64), DynamicCache(config=model.config)
    with torch.no_grad():
        model(tokens[:, :-1], past_key_values=cache, use_cache=True)
        with ComputationalCostHook() as hook:
            model(tokens[:, -1:], past_key_values=cache, use_cache=True)
    assert step.macs == hook.total_report["macs"]
