"""Request rates of the toy decoder without experts, by hand: all its steps are bound by bytes, at 300 GB/s (l4).

In float16, a step reads 204 numbers of weights (norm 6, qkv 72 + 12, out 36, head 78) and 6 per token of the embedding;
a token has 6 numbers in the cache, 12 bytes.
"""

from __future__ import annotations

import pytest

from costcore import CostError
from costcore.studies.serving.cached_model import Blocks
from tests.core.studies.serving.toy_decoder import ToyDecoder

RATE = 300e9
ONE = {"gbs": 1, "latency_us": 0}


@pytest.fixture
def requests(served):
    serving = served(ToyDecoder(has_experts=False, blocks=Blocks(1, 6, 1)))
    return lambda *, prompt=4, output=3, **options: serving.requests("l4", prompt=prompt, output=output, **options)


def seconds(row):
    return row.ttft_seconds, row.tpot_seconds, 1 / row.requests_per_second


# Prefill of 4 tokens: (204 + 24) * 2 of weights and 48 of cache, 504 bytes. A step of 2 sequences: (204 + 12) * 2 of
# weights, 120 bytes of cache at 5 tokens and 144 at 6: 552 and 576.
WHOLE = (504, (2 * 504 + 552 + 576 - 504) / 2, (2 * 504 + 552 + 576) / 2)

# Output of 5: contexts 5 to 8, 78 bytes of cache on average. The middle chunk of 2 tokens after 1: 36 bytes of cache,
# (204 + 12) * 2 of weights, which one sequence reads, too. Half of its 4 steps have a chunk.
BOTH = 432 + 78 + 36
CHUNKED = (2 * BOTH, (BOTH + 420 + 78) / 2, 4 * (BOTH + 420 + 78) / 2)

# Two chunks per request feed two sequences, with 4 steps each: a third one cannot decode.
FULL = 432 + 2 * 78 + 36
LIMITED = (2 * FULL, FULL, 2 * FULL)

# Two ranks read half of the weights, and all of one head. Two all-reduces of 12 bytes per token at 1 GB/s each.
SPLIT = (228 + 48, 0, 0)


def test_prompts_that_run_whole_stop_all_other_sequences(requests):
    (row,) = requests(batches=[2]).rows
    assert seconds(row) == pytest.approx([each / RATE for each in WHOLE])
    assert row.request_seconds == pytest.approx((WHOLE[0] + 2 * WHOLE[1]) / RATE)
    assert row.tokens_per_second == pytest.approx(3 * row.requests_per_second)


@pytest.mark.parametrize(("batch", "expected", "decoding"), [(1, CHUNKED, 1), (3, LIMITED, 2)])
def test_chunks_of_prompts_run_with_the_steps(requests, batch, expected, decoding):
    (row,) = requests(output=5, batches=[batch], chunk=2).rows
    assert seconds(row) == pytest.approx([each / RATE for each in expected])
    assert row.decoding == decoding


def test_ranks_split_weights_and_wait_for_all_reduces(requests):
    (row,) = requests(batches=[2], ranks=2, link=ONE).rows
    assert row.ttft_seconds == pytest.approx((228 + 48) / RATE + 2 * 4 * 12 / 1e9)
    steps = [(216 + cache) / RATE + 2 * 2 * 12 / 1e9 for cache in (120, 144)]
    assert 2 / row.requests_per_second == pytest.approx(2 * row.ttft_seconds + sum(steps))


@pytest.mark.parametrize(("ranks", "replicas"), [(5, 1), (1, 5)])
def test_experts_are_shared_by_devices(served, ranks, replicas):
    """5 experts of 84 bytes, of which a token chooses 2, on 5 devices; other weights have 564 bytes."""
    serving = served(ToyDecoder(blocks=Blocks(1, 6, 1)))
    found = serving.requests("l4", prompt=1, output=2, ranks=ranks, expert_ranks=5, link=ONE, batches=[5])
    own = 5 // replicas
    expected = 84 * 5 * (1 - 0.6**5)
    # The prompts of all replicas, then a step: 204 numbers of weights and 6 per token, and one or two tokens of the
    # cache. Two all-to-alls of 2 x 12 bytes per token, of which a fifth stays; one all-reduce, if ranks wait for each.
    read = 84 * 5 * (1 - 0.6**replicas) / 5
    first = ((204 + 6) * 2 // ranks + read + 12) / RATE + 2 * (1 / ranks) * 24 * 0.8 / 1e9
    step = ((204 + 6 * own) * 2 // ranks + expected / 5 + own * 24) / RATE + 2 * (own / ranks) * 24 * 0.8 / 1e9
    if ranks > 1:
        first, step = first + 2 * 4 / 5 * 12 / 1e9, step + 2 * 4 / 5 * 5 * 12 / 1e9
    (row,) = found.rows
    assert row.ttft_seconds == pytest.approx(first, rel=0.02)
    assert 5 / row.requests_per_second == pytest.approx(own * first + step, rel=0.02)
    assert row.exchanged == round(2 * (own / ranks) * 24 * 0.8)
    assert (found.device_bytes, found.experts_per_device) == (round(564 / ranks + 84), 1)
    sequences = serving.requests(
        "l4", prompt=1, output=2, ranks=ranks, expert_ranks=5, link=ONE, memory=found.device_bytes + 100, share=1
    ).sequences
    assert sequences == replicas * (100 // 36)


def test_prompts_may_run_on_another_device(requests):
    found = requests(batches=[2], prefill_device="t4", link=ONE)  # 320 GB/s
    (row,) = found.rows
    assert not any("not counted" in note for note in found.notes)
    assert any("not counted" in note for note in requests(prefill_device="t4").notes)
    assert row.ttft_seconds == pytest.approx(504 / 320e9 + 48 / 1e9)
    assert row.tpot_seconds == pytest.approx(564 / RATE)
    assert row.prefill_devices == pytest.approx(row.requests_per_second * 504 / 320e9)


def test_a_mix_has_the_mean_of_its_requests(requests):
    alone, long = (requests(prompt=p, output=o, batches=[1]).rows[0] for p, o in ((4, 3), (8, 2)))
    (row,) = requests(prompt=[4, 8], output=[3, 2], shares=[3, 1], batches=[1]).rows
    assert 1 / row.requests_per_second == pytest.approx(
        0.75 / alone.requests_per_second + 0.25 / long.requests_per_second
    )
    assert row.tokens_per_second == pytest.approx(row.requests_per_second * (0.75 * 3 + 0.25 * 2))


def test_what_does_not_fit_has_no_rate_and_the_largest_that_fits_is_shown(requests):
    # 282 parameters; sequences of 7 tokens have 84 bytes, of which a prefix of 2 tokens has 24.
    options = {"memory": 564 + 2 * 84 + 50, "share": 1, "batches": [1, 8]}
    found = requests(**options)
    assert [(row.batch, row.fits) for row in found.rows] == [(1, True), (2, True), (8, False)]
    assert requests(**options, cached=2).sequences == (2 * 84 + 50 - 24) // 60
    assert "no room" in str(found)
    # Many more fit than are tried for limits.
    assert requests(memory="80 GB", batches=[30_000]).rows[0].fits


def test_the_largest_rate_within_limits(requests):
    tpot = requests(batches=[5]).rows[0].tpot_seconds
    found = requests(batches=[1], tpot=tpot * 1.001, ttft="1 s")
    assert found.best.batch == 5
    assert [row.batch for row in found.rows] == [1, 5]
    assert "batch 5" in str(found)
    assert requests(batches=[1], ttft="1 ns").best is None
    # More sequences than chunks feed change nothing.
    assert requests(output=5, batches=[1], chunk=2, ttft="1 s").best.batch == 2


def test_one_token_of_output_needs_no_decode_step(requests):
    (row,) = requests(output=1, batches=[2]).rows
    assert row.tpot_seconds is None
    assert row.requests_per_second == pytest.approx(RATE / 504)


def test_drafts_are_verified_together(requests, served):
    """One draft of an equal model, always accepted: a step drafts one token, and yields two."""
    draft = served(ToyDecoder(has_experts=False, blocks=Blocks(1, 6, 1)))
    (row,) = requests(output=5, batches=[1], draft=draft, drafts=1, acceptance=1.0).rows
    # Contexts 5 to 8, on average 78 bytes of cache, those of the draft one token less; two tokens of the embedding.
    step = (432 + 78) + (420 + 66)
    assert row.ttft_seconds == pytest.approx(2 * 504 / RATE)
    assert row.tpot_seconds == pytest.approx(step / 2 / RATE)
    assert row.request_seconds == pytest.approx((2 * 504 + 2 * step) / RATE)
    # 282 parameters of two bytes each, and 2 x 9 tokens of 12 bytes.
    options = {"memory": 2 * 564 + 2 * 216 + 100, "share": 1, "batches": [1], "draft": draft}
    assert requests(output=5, **options).sequences == 2


def test_drafts_are_noted(requests, served):
    """With three drafts, half of them accepted: 1 + 1/2 + 1/4 + 1/8 tokens."""
    draft = served(ToyDecoder(has_experts=False, blocks=Blocks(1, 6, 1)))
    (note,) = (note for note in requests(draft=draft, drafts=3, acceptance=0.5).notes if "drafts" in note)
    assert note == "3 drafts a step, each accepted with probability 0.5: 1.88 tokens per step"
    assert not any("drafts" in note for note in requests().notes)


@pytest.mark.parametrize(("has_experts", "batch", "is_near"), [(False, 1, True), (False, 2, False), (True, 1, False)])
def test_published_runs_are_of_one_sequence_without_experts(served, has_experts, batch, is_near):
    time = served(ToyDecoder(has_experts=has_experts, blocks=Blocks(1, 6, 1))).prefill(4, batch=batch).time("l4")
    assert ("published runs of llama.cpp on 3 NVIDIA devices, f16" in str(time.reached)) == is_near


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": [4, 5]}, "equally many"),
        ({"output": 0}, "output must be positive"),
        ({"ranks": 2}, "need the link between them"),
        ({"cached": 4}, "shorter than every prompt"),
        ({"chunk": 2, "prefill_device": "t4"}, "drop one of them"),
        ({"output": 1, "prefill_device": "t4"}, "nothing is decoded"),
        ({"batches": [0]}, "batches must be at least 1"),
        ({"chunk": 0}, "chunk must be at least 1"),
        ({"ttft": -1}, "ttft must be positive"),
    ],
)
def test_invalid_requests(requests, options, message):
    with pytest.raises(ValueError, match=message):
        requests(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 2, "expert_ranks": 5}, "ep must be a multiple of tp"),
        ({"expert_ranks": 6}, "5 experts cannot be on 6 devices"),
        ({"expert_ranks": 5, "chunk": 1}, "supports no chunk"),
    ],
)
def test_experts_that_cannot_be_shared(served, options, message):
    with pytest.raises(ValueError, match=message):
        served(ToyDecoder(blocks=Blocks(1, 6, 1))).requests("l4", prompt=4, output=3, link=ONE, **options)


def test_a_model_without_experts_shares_none(requests):
    with pytest.raises(CostError, match="has no experts to share"):
        requests(expert_ranks=2, link=ONE)


def test_ranks_keep_all_latents_each(served):
    serving = served(ToyDecoder(latents=True, has_experts=False, blocks=Blocks(1, 6, 2)))
    options = {"prompt": 4, "output": 3, "memory": 10_000, "share": 1}
    one, two = serving.requests("l4", **options), serving.requests("l4", ranks=2, link=ONE, **options)
    assert two.sequences - one.sequences == (serving.weight_bytes // 2) // serving.cache_bytes(7, latent="absorbed")
    assert any("latent vectors" in note for note in two.notes)


def test_a_model_without_layers_is_not_split(served):
    with pytest.raises(CostError, match="states no layers"):
        served(ToyDecoder()).requests("l4", prompt=4, output=3, ranks=2, link=ONE)


@pytest.mark.parametrize("limit", [True, [1], None])
def test_a_limit_is_a_time(requests, limit):
    if limit is None:
        assert requests(tpot=limit).rows == requests().rows
        return
    with pytest.raises(TypeError, match='tpot must be a number of seconds or a string such as "5 ms"'):
        requests(tpot=limit)
