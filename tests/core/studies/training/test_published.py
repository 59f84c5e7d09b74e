"""Published runs, and the range that they give for others."""

from __future__ import annotations

from statistics import median

import pytest

from costcore.studies.training.step import (
    GENERATIONS,
    HALF_RANGE,
    INSIDE,
    NEAREST,
    PRECISIONS,
    RunSetup,
    distance,
    expected,
    family_of,
    published_runs,
)

LLAMA = RunSetup(8_030_261_248, 8_030_261_248, 8192, "h100", 64, "bf16")


def test_the_stated_error_is_that_of_leaving_each_run_out():
    runs, inside, halves = published_runs(), [], []
    for i, run in enumerate(runs):
        found = expected(run.setup, [*runs[:i], *runs[i + 1 :]])
        inside.append(found.low <= run.mfu <= found.high)
        halves.append(found.high / found.middle - 1)
    assert len(runs) > 300
    assert round(sum(inside) / len(runs), 2) == INSIDE >= 0.8
    assert round(median(halves), 2) == HALF_RANGE <= 0.15


def test_every_run_has_a_source_and_a_share_of_the_peak():
    for run in published_runs():
        assert run.source and 0.03 < run.mfu < 0.75
        assert run.setup.device in GENERATIONS and run.setup.precision in PRECISIONS
        assert 0 < run.setup.active <= run.setup.parameters


def test_a_run_of_the_table_by_hand():
    # torchtitan, Llama 3 8B, 128 H100, compiled: 6,514 tokens/s. 6 x 7.5e9 weights that multiply, and attention of all
    # pairs, 12 x 32 layers x 4096 x 8192: 5.789e10 FLOPs a token, of 989.4e12.
    mfu = 6514 * (6 * 7.5e9 + 12 * 32 * 4096 * 8192) / 989.4e12
    found = [run for run in published_runs() if run.source.startswith("torchtitan") and run.setup.devices == 128]
    assert pytest.approx(mfu, abs=5e-5) in [run.mfu for run in found]


@pytest.mark.parametrize(
    ("other", "far"),
    [
        ({}, 0),
        ({"active": 2 * LLAMA.active, "parameters": 2 * LLAMA.active}, 0.5),
        ({"seq": 4096}, 0.3),
        ({"devices": 256}, 0.3),
        ({"tp": 8}, 0.3),
        ({"precision": "fp8"}, 1.5),
        ({"parameters": 2 * LLAMA.active}, 2),
        ({"device": "h200"}, 1.5),
        ({"device": "a100"}, 3),
        ({"device": "tpu-v4"}, 6),
    ],
)
def test_distance(other, far):
    assert distance(LLAMA, LLAMA._replace(**other)) == pytest.approx(far)


@pytest.mark.parametrize("device", ["h100", "a100"])
def test_models_with_experts_are_compared_with_their_like(device):
    """They run at half of the utilization of dense models; no run with experts is of an A100."""
    mixtral = RunSetup(46_702_792_704, 12_879_425_536, 4096, device, 64, "bf16")
    found = expected(mixtral)
    assert all(run.setup.has_experts for run, _ in found.nearest)
    assert found.middle < 0.25 < expected(mixtral._replace(parameters=mixtral.active)).middle


def test_the_range_is_that_of_the_nearest_runs():
    found = expected(LLAMA)
    assert found.low < found.middle < found.high
    assert len(found.nearest) == NEAREST
    assert {(run.model, run.setup.device, run.setup.precision) for run, _ in found.nearest} == {
        ("LLAMA3-8B", "h100", "bf16")
    }


@pytest.mark.parametrize(
    ("name", "family"),
    [("h100-sxm5-80gb", "h100"), ("gb200", "gb200"), ("tpu-v5e", "tpu-v5e"), ("mi300x", None), ("a1000", None)],
)
def test_families_of_devices(name, family):
    assert family_of(name) == family
