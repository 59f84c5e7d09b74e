"""Whole reports of a decoder of small sizes, with the main figures by hand.

The files of tests/golden/serving have all figures of every variant; those that no test here computes by hand follow
from the same sizes (see :mod:`tests.core.studies.serving.toy_decoder`).
"""

from __future__ import annotations

import json
from fractions import Fraction
from io import StringIO
from typing import Any

import pytest

from costcore import ServingReport
from tests.core.studies.serving.toy_decoder import ToyDecoder

LINEAR = 6 * 12 + 6 * 6 + 6 * 13
"""MACs of a token that multiply by dense matrices."""

EXPERT = 6 * 7
"""Weights of an expert. A token is sent to 2 of 5."""


def figures_of(phase) -> str:
    names = (
        *("name", "batch", "context", "new_tokens", "macs", "flops", "load_weight", "most_load_weight"),
        *("least_load_weight", "load_act", "store_act", "load_kv", "store_kv", "cache_append", "memory_bytes"),
        *("least_memory_bytes", "intensity", "needed_macs", "bops"),
    )
    found = {name: getattr(phase, name) for name in names}
    times = {
        op: [time.compute_seconds, time.memory_seconds, time.least_memory_seconds, time.binds]
        for op, time in {"": phase.time("l4"), **phase.time_by_op("l4")}.items()
    }
    widths = {f"{a} x {b}": macs for (a, b), macs in phase.macs_by_width.items()}
    rows = [json.dumps({**found, "macs_by_width": widths}), *(f"{op} {sums}" for op, sums in phase.by_op().items())]
    return "\n".join([repr(phase), *rows, *(f"{op} {numbers}" for op, numbers in times.items())])


def shown(result) -> str:
    out = StringIO()
    result.show(out)
    return out.getvalue()


def whole(serving: ServingReport, **latent: Any) -> str:
    phases = [
        serving.prefill(7, **latent),
        serving.prefill(11, batch=2, cached=4, last_only=True, **latent),
        serving.decode(batch=3, context=9, **latent),
        serving.decode(batch=3, context=9, tokens=2, **latent),
    ]
    names = ("n_params", "weight_bytes", "kv_bytes_per_token", "expanded_kv_bytes_per_token", "compute_dtype", "status")
    lines = [repr(serving), shown(serving), json.dumps({name: getattr(serving, name) for name in names})]
    lines += [f"{length}: {serving.cache_bytes(length, **latent)} bytes" for length in (1, 9, 16, 17)]
    lines.append(f"{serving.max_sequences(memory=12345, context=17, **latent)} sequences")
    lines += [*map(str, serving.assumptions), *serving.notes, *serving.uncounted]
    return "\n".join([*lines, *map(figures_of, phases), ""])


VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}, {}),
    "formats": (
        {"unknown": True},
        {"weights": "int4:32", "kv": "q8_0", "activations": "int8", "cache": "dynamic", "keep": ["head"]},
        {},
    ),
    "window": ({"window": 5, "state": 4, "has_experts": False}, {"kv": "fp8", "cache": "paged"}, {}),
    "repeated": ({"repeats_before": True, "most_tokens": None}, {"dtype": "float32", "cache": "paged", "block": 8}, {}),
    "groups": ({"repeats_after": True, "state": 5, "copies_state": True}, {"kv": "fp8", "cache": "dynamic"}, {}),
    "packed": ({"packed": {"layer.qkv": (72, 45, 4, "Packed", "int8")}}, {}, {}),
    **{way: ({"latents": True}, {"kv": "q8_0"}, {"latent": way}) for way in ("expanded", "absorbed", "recomputed")},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_all_figures(served, golden, name):
    model, options, latent = VARIANTS[name]
    golden(f"serving/{name}.txt", whole(served(ToyDecoder(**model), **options), **latent))


def test_a_step_by_hand(served):
    """Three sequences of 9 tokens; a key and its value are 6 elements of 2 bytes.

    6 tokens with 2 of 5 experts each read 5 (1 - (3/5)^3) = 3.92 matrices if they choose independently, at least 2.
    """
    step = served().decode(batch=3, context=9)
    assert step.macs == 3 * (LINEAR + 2 * EXPERT + 2 * 9 * (3 + 3))
    assert (step.load_kv, step.store_kv, step.cache_append) == (3 * 9 * 12, 3 * 12, 3 * 12)
    others = 2 * (LINEAR + 12 + 3 * 6 + 6)  # matrices, a bias, rows of 3 words, the norm
    assert step.most_load_weight == others + 2 * 5 * EXPERT
    assert step.least_load_weight == others + 2 * 2 * EXPERT
    assert step.load_weight == round(others + 2 * 3.92 * EXPERT)
    assert step.memory_bytes == step.load_weight + 3 * 9 * 12
    assert step.time_by_op("l4")["grouped_matmul"].memory_seconds == round(2 * 3.92 * EXPERT) / 300e9


def test_formats_by_hand(served):
    """Matrices in 4 bits with 16 bits for 32 weights, but the head; keys and values in 8.5 bits."""
    serving = served(weights="int4:32", kv="q8_0", activations="int8", cache="dynamic", keep=["head"])
    assert serving.weight_bytes == (4.5 * (2 * 78 + 108 + 210 - 78) + 16 * (78 + 6 + 12)) / 8 // 1 + 1  # rounded up
    step = serving.decode(batch=3, context=9)
    assert step.by_op()["linear"]["load_weight"] == round(4.5 * (72 + 36) / 8 + 2 * (78 + 12))
    assert (step.load_kv, step.store_kv) == (round(3 * 9 * 6 * 8.5 / 8), round(3 * 6 * 8.5 / 8))
    # read: 8 old tokens and new ones of 16 bits; written: all 9
    assert step.cache_append == round(3 * (8 + 9) * 6 * 8.5 / 8 + 3 * 6 * 2)
    assert step.macs_by_width == {(8, 4): 3 * (72 + 36 + 2 * EXPERT), (16, 16): 3 * 78, (16, 8): 3 * 2 * 9 * 6}


def test_latents_by_hand(served):
    """2 heads of 3 + 2 elements are made of latents of 4 + 1: 50 products a token; 3 sequences of 9 tokens."""
    serving = served(ToyDecoder(latents=True))
    others, expansion = LINEAR + 2 * EXPERT, 5 * 10
    macs = {how: serving.decode(batch=3, context=9, latent=how).macs for how in ("expanded", "absorbed", "recomputed")}
    assert macs["expanded"] == 3 * (others + expansion + 9 * 2 * (3 + 2))
    assert macs["absorbed"] == 3 * (others + expansion + 9 * 2 * (4 + 4 + 1))
    assert macs["recomputed"] == 3 * (others + 9 * expansion + 9 * 2 * (3 + 2))
    assert serving.decode(batch=3, context=9).load_kv == 3 * 9 * 10 * 2
    assert serving.decode(batch=3, context=9, latent="absorbed").load_kv == 3 * 9 * 5 * 2
    assert (serving.kv_bytes_per_token, serving.expanded_kv_bytes_per_token) == (10, 20)


def test_a_window_and_a_state_by_hand(served):
    """A layer keeps 5 tokens; a state of 4 float32 is read twice and written by each sequence."""
    serving = served(ToyDecoder(window=5, state=4, has_experts=False), kv="fp8", cache="paged")
    step = serving.decode(batch=3, context=9)
    assert step.macs == 3 * (LINEAR + 2 * 5 * 6)
    assert step.load_kv == 3 * (5 * 6 + 2 * 16)
    assert step.store_kv == 3 * (6 + 16)
    assert [serving.cache_bytes(length) for length in (1, 9, 17)] == [16 + 5 * 6] * 3  # a block has more than 5 tokens


@pytest.mark.frontend("onnx")  # brings sympy
def test_formulas_by_hand(served):
    """Of 1248 bits of words 96 are read a token; of 5 experts of 672 bits as many as there are rows of tokens."""
    serving = served(weights="int4")
    formulas = {
        ("prefill", "macs"): f"12*batch*tokens**2 + {LINEAR + 2 * EXPERT}*batch*tokens",
        ("decode", "macs"): f"12*batch*context + {LINEAR + 2 * EXPERT}*batch",
        ("extend", "macs"): f"12*batch*context*tokens + {LINEAR + 2 * EXPERT}*batch*tokens",
        ("decode", "load_kv"): "12*batch*context",
        ("extend", "store_kv"): "12*batch*tokens",
    }
    assert {key: str(serving.formula(*key)) for key in formulas} == formulas
    # 33/8 bits of each of 186 numbers, and 16 of those of the norm and a bias
    assert str(serving.formula("decode", "load_weight")) == (
        "33*Min(1248, 96*batch)/1024 + 33*Min(3360, 672*Min(5, 2*batch))/1024 + "
        f"{Fraction(33 * LINEAR, 64) + 2 * 6 + 2 * 12}"
    )
    latents = served(ToyDecoder(latents=True))
    assert str(latents.formula("decode", latent="absorbed")) == f"18*batch*context + {LINEAR + 2 * EXPERT + 50}*batch"
    assert str(latents.formula("decode", "load_kv", latent="absorbed")) == "10*batch*context"
    assert str(latents.formula("decode", latent="recomputed")) == f"60*batch*context + {LINEAR + 2 * EXPERT}*batch"


@pytest.mark.frontend("onnx")  # brings sympy
@pytest.mark.parametrize(
    ("phase", "context", "formula"),
    [
        ("prefill", 20, "12*batch*tokens"),
        ("prefill", 21, "12*batch*tokens"),
        ("decode", 19, "12*batch*context"),
        ("decode", 20, "240*batch"),  # with the new token the window is full
    ],
)
def test_formulas_are_those_around_a_context(served, phase, context, formula):
    assert str(served(ToyDecoder(window=20)).formula(phase, "load_kv", context=context)) == formula


def test_a_draft_is_one_step_and_all_are_verified_in_one(served):
    """Three drafts of 2 sequences with 8 tokens before and 9 after; 1 + 1/2 + 1/4 + 1/8 tokens are expected."""
    serving = served()
    both = serving.speculative(serving, drafts=3, acceptance=0.5, batch=2, context=9)
    draft, verify = (
        serving.decode(batch=2, context=8),
        serving.decode(batch=2, context=9, tokens=4),
    )
    assert both.macs == 3 * draft.macs + verify.macs
    assert both.expected_tokens == 1.875
    seconds = 3 * draft.time("l4").bound_seconds + verify.time("l4").bound_seconds
    assert both.bound_seconds("l4") == seconds
    assert both.tokens_per_second("l4") == 2 * 1.875 / seconds
    assert repr(both) == f"<Speculation: 3 drafts, acceptance 0.5, {both.macs:,} MACs>"
    assert [serving.speculative(serving, drafts=1, acceptance=p).expected_tokens for p in (0, 1)] == [1, 2]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.prefill(0), ValueError, "tokens must be at least 1"),
        (lambda s: s.prefill(True), TypeError, "tokens must be an integer"),
        (lambda s: s.prefill(3, batch=0), ValueError, "batch must be at least 1"),
        (lambda s: s.prefill(3, cached=3), ValueError, "cached must be a number of tokens, 0 to 2"),
        (lambda s: s.prefill(3, cached=-1), ValueError, "cached must be a number of tokens, 0 to 2"),
        (lambda s: s.decode(context=0, tokens=-1), ValueError, "context must be at least 1"),
        (lambda s: s.decode(context=3, tokens=0), ValueError, "tokens must be at least 1"),
        (lambda s: s.decode(context=3, tokens=4), ValueError, "context must contain the new tokens, at least 4"),
        (lambda s: s.decode(context=3, latent="some"), ValueError, "unknown latent 'some'"),
        (lambda s: s.cache_bytes(0), ValueError, "context must be at least 1"),
        (lambda s: s.cache_bytes(1, latent="some"), ValueError, "unknown latent 'some'"),
        (lambda s: s.max_sequences(memory=1, context=0), ValueError, "context must be at least 1"),
        (lambda s: s.max_sequences(memory=1, context=1, latent="some"), ValueError, "unknown latent 'some'"),
        *(
            (lambda s, share=share: s.max_sequences(memory=1, context=1, share=share), ValueError, "share must be")
            for share in (True, "1", 0, -0.5, 1.001)
        ),
        *(
            (lambda s, p=p: s.speculative(s, drafts=1, acceptance=p), ValueError, "acceptance must be a probability")
            for p in (True, "1", -0.001, 1.001)
        ),
        (lambda s: s.speculative(s, drafts=0, acceptance=0.5), ValueError, "drafts must be at least 1"),
        (lambda s: s.speculative(s, drafts=1.0, acceptance=0.5), TypeError, "drafts must be an integer"),
    ],
)
def test_arguments_that_are_refused(served, call, error, message):
    with pytest.raises(error, match=message):
        call(served())


def test_arguments_at_their_limits(served):
    serving = served()
    assert serving.decode(context=3, tokens=3).macs == serving.prefill(3).macs
    assert serving.max_sequences(memory=2**20, context=1, share=1) == (2**20 - serving.weight_bytes) // 12
    assert serving.max_sequences(memory=serving.weight_bytes - 1, context=1, share=1) == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"block": 0}, ValueError, "block must be at least 1"),
        ({"cache": 1}, TypeError, "cache must be a name"),
        ({"keep": "head"}, TypeError, "keep must be a list of patterns"),
        ({"dtype": "float17"}, ValueError, "dtype: unknown format 'float17'"),
        ({"weights": "in4"}, ValueError, "weights: unknown format 'in4'"),
        ({"kv": "fp9"}, ValueError, "kv: unknown format 'fp9'"),
        ({"activations": "int"}, ValueError, "activations: unknown format 'int'"),
    ],
)
def test_options_are_checked_before_the_model_is_read(monkeypatch, options, error, message):
    monkeypatch.setattr("costcore.studies.serving.report._cached_model", lambda *_: pytest.fail("the model is read"))
    with pytest.raises(error, match=message):
        ServingReport(None, **options)


@pytest.mark.parametrize(("cache", "asked"), [("static", "dynamic"), ("paged", "dynamic"), ("mine", "mine")])
def test_a_model_grows_a_cache_of_its_own_or_that_of_a_plugin(monkeypatch, cache, asked):
    found = []

    def make(*arguments):
        found.append(arguments)
        return ToyDecoder()

    monkeypatch.setattr("costcore.studies.serving.report.needed_ability", lambda *_: make)
    assert ServingReport("model", cache=cache, dtype="bf16").dtype == "bfloat16"
    assert found == [("model", asked, "bfloat16")]


def test_whether_there_are_experts_needs_one_pass(served):
    points = []

    class Seen(ToyDecoder):
        def record(self, recorder, *point):
            points.append(point)
            return super().record(recorder, *point)

    assert len(served(Seen()).assumptions) == 1
    assert points == [(1, 1, 0, False)]


def test_a_cache_of_what_is_made_of_latents(served):
    """The model keeps 10 elements of a token; an engine may keep the 5 of its latents."""
    serving = served(ToyDecoder(latents=True, parts=[(10, None, 3)]))
    assert (serving.kv_bytes_per_token, serving.expanded_kv_bytes_per_token) == (10, 20)
    assert serving.cache_bytes(7) == 7 * 10 + 3 * 2


@pytest.mark.frontend("onnx")  # brings sympy
def test_what_is_asked_for_by_default(served):
    """Near 1024 tokens, all of which a window of 1025 has; one sequence, all scores, no memory but that of a device."""
    serving = served(ToyDecoder(window=1025))
    assert str(serving.formula("decode", "load_kv")) == "12*batch*context"
    assert str(serving.formula("decode")) == str(serving.formula("decode", "macs", context=1024, last_only=False))
    assert str(serving.formula("prefill")) != str(serving.formula("prefill", last_only=True))
    assert serving.decode().point == (1, 1, 1023)
    assert serving.prefill(3).point == (1, 3, 0)
    assert serving.prefill(3).tallies == serving.prefill(3, last_only=False).tallies
    both = serving.speculative(serving, drafts=2, acceptance=0.5)
    assert (both.draft.point, both.verify.point) == ((1, 1, 1022), (1, 3, 1021))
    assert serving.max_sequences(memory=10**6, context=7) == serving.max_sequences(memory=10**6, context=7, share=0.9)
    assert (serving.cache, serving.block) == ("static", 16)
