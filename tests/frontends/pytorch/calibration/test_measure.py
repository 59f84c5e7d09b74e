"""The sweep on this machine: small, and judged by its form, never by its times."""

from __future__ import annotations

import sys
from random import Random

import pytest
import torch

from costcore import CostError, estimate
from costcore.analyses.devices.device import find_device
from costcore.analyses.timing.calibrated import from_toml
from costcore.analyses.timing.calibration import OpSignature, Point
from costcore.frontends.pytorch import calibration as room
from costcore.frontends.pytorch.calibration import (
    FULL,
    GROUP,
    MAKERS,
    N_SENTINELS,
    REPEATS,
    SENTINEL_RUNS,
    Chain,
    Sweep,
    gpu_mhz,
    make_chains,
)
from costcore.frontends.pytorch.calibration.chains import IMAGE_CHAINS, Shapes
from tests.command_line import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SMALL = (len(MAKERS), 1e5, 2)


@pytest.fixture(scope="module")
def quick():
    """A sweep of one chain of each kind."""
    before = torch.get_num_threads(), torch.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "QUICK", SMALL)
        patch.setattr(room, "SENTINEL_RUNS", 1)
        found = room.calibrate(quick=True)
    assert torch.get_num_threads() == before[0] and torch.equal(torch.get_rng_state(), before[1])
    return found


def test_the_sweep_measures_the_operators_of_networks(quick):
    calibration, conditions = quick
    families = {point.signature.family for point in calibration.points}
    assert families > {
        *("conv 1x1", "conv kxk", "depthwise", "linear", "matmul", "attention", "batch_norm", "layer_norm", "softmax"),
        *("gelu", "add", "mul", "avg_pool", "concat", "embedding", "copy", "view (zero-cost)"),
        *("conv kxk 1d", "conv kxk 3d", "conv 1x1 1d", "conv 1x1 3d", "conv_transpose 1d"),
        *("max_pool 3d", "sort", "pairwise_distances"),
    }
    assert families & {"lstm", "gru", "rnn"}
    assert all(point.seconds > 0 for point in calibration.points)
    assert calibration.errors.families.keys() == families
    assert {"product", "arithmetic", "special", "move"} <= calibration.errors.kinds.keys()
    assert (conditions.threads, conditions.clock, conditions.dtype) == (1, "cpu_time", "float32")
    assert conditions.versions["torch"] == torch.__version__
    assert conditions.noise >= 0 and conditions.device


def test_every_call_is_a_point_once(quick):
    signatures = [point.signature for point in quick[0].points]
    assert len(signatures) == len(set(signatures))


@pytest.mark.parametrize("limit", [1.0, 1e5, 2e9])
def test_chains_have_the_same_shapes_every_time_and_run(limit):
    first, second = make_chains(len(MAKERS), min(limit, 1e6)), make_chains(len(MAKERS), min(limit, 1e6))
    assert [chain.name for chain in first] == [chain.name for chain in second]
    assert {chain.name.partition(" (")[0] for chain in first} == set(MAKERS)
    if limit == 1.0:
        with torch.no_grad():
            for chain in first:
                assert torch.isfinite(chain.module(*chain.inputs)).all(), chain.name


def test_transposed_convolutions_are_as_wide_as_those_of_decoders():
    make, _ = IMAGE_CHAINS["transposed"]
    shapes = [make(Shapes(Random(seed), FULL[1]))[1] for seed in range(40)]
    assert {side for *_, side in shapes} >= {7, 14, 28, 56, 112}  # the maps of a U-Net for images of 224 x 224
    assert {channels for _, channels, *_ in shapes} >= {64, 128, 256, 512}


def test_chains_of_training_run_backward_and_keep_no_gradients():
    chain = next(chain for chain in make_chains(8 * len(MAKERS), 1.0) if chain.training)
    families = {point.signature.family for point in _swept([chain])}
    assert any(family.endswith("_backward") for family in families)
    assert all(parameter.grad is None for parameter in chain.module.parameters())


def _swept(chains):
    sweep = Sweep(chains)
    sweep.run(1)
    return sweep.points()


def test_other_seeds_have_other_shapes():
    names = [[chain.name for chain in make_chains(60, 1e6, seed)] for seed in (0, 1)]
    assert names[0] != names[1]


@pytest.fixture
def orders(monkeypatch):
    """The names of the chains of every time that a sweep of ``n`` chains measures some of them."""

    def run(n, rounds):
        found = []
        sweep = Sweep([Chain(str(i), torch.nn.Identity(), ()) for i in range(n)])
        monkeypatch.setattr(
            sweep, "_measure", lambda chains: found.append([c.name for c in chains]) or [[] for _ in chains]
        )
        sweep.run(rounds)
        return found

    return run


def test_chains_run_in_groups_first_so_that_kernels_are_compiled_and_every_time_in_another_order(orders):
    groups = [order for order in orders(2 * GROUP, 3) if len(order) == GROUP]
    assert len(groups) == 3 * 2 * (1 + REPEATS) and len({*map(tuple, groups)}) == len(groups)
    for start in range(0, len(groups), 1 + REPEATS):
        assert len({frozenset(each) for each in groups[start : start + 1 + REPEATS]}) == 1
    assert len({frozenset(each) for each in groups}) == 3 * 2  # other groups in every round


def test_sentinels_run_at_the_start_in_the_middle_and_at_the_end(orders):
    assert [len(each) for each in orders(GROUP, 1)] == [
        *(SENTINEL_RUNS * [N_SENTINELS]),
        *((1 + REPEATS) * [GROUP]),
        *(2 * SENTINEL_RUNS * [N_SENTINELS]),
    ]


def test_the_first_run_of_a_group_is_not_measured(monkeypatch):
    sweep = Sweep([Chain("a", torch.nn.Identity(), ())])
    runs = iter([["compiles"], ["first"], ["second"]])
    monkeypatch.setattr(sweep, "_measure", lambda _: [next(runs)])
    assert sweep._measure_group([0]) == [["first"], ["second"]]


def test_a_chain_without_parameters_never_trains():
    chains = [chain for chain in make_chains(8 * len(MAKERS), 1.0) if not [*chain.module.parameters()]]
    assert {chain.name.split()[0] for chain in chains} == {"selection", "distances"}
    assert not any(chain.training for chain in chains)


def test_networks_of_other_dimensions_have_chains():
    """Three axes as of r3d_18, one axis with dilations as of WaveNet, and large kernels at stride 1."""
    convs = [m for chain in make_chains(8 * len(MAKERS), 1e8) for m in chain.module.modules()]
    assert {m.kernel_size for m in convs if isinstance(m, torch.nn.Conv3d)} >= {(3, 3, 3), (1, 3, 3), (3, 1, 1)}
    assert max(m.dilation[0] for m in convs if isinstance(m, torch.nn.Conv1d)) >= 16
    large = [m for m in convs if isinstance(m, torch.nn.Conv2d) and min(m.kernel_size) >= 7 and m.stride == (1, 1)]
    assert any(m.groups == 1 for m in large) and any(m.groups > 1 for m in large)
    assert any(m.dilation != (1, 1) for m in convs if isinstance(m, torch.nn.Conv2d))


def test_rounds_at_another_clock_are_left_out():
    signature = OpSignature("relu", "arithmetic", (1.0,), 1.0, 8.0)
    sweep = Sweep([])
    sweep._rounds = [
        (1000.0, {signature: [1.0, 3.0]}),
        (1020.0, {signature: [5.0]}),
        (800.0, {signature: [100.0, 100.0]}),
    ]
    assert sweep.points() == [Point(signature, 3.0)]


def test_the_noise_is_how_far_the_medians_of_sentinels_are_apart():
    sweep = Sweep([])
    sweep._sentinels = [[[1.0, 1.0, 5.0], [2.0]], [[1.1], [2.0]], [[0.9], [2.6]]]
    assert sweep.noise() == pytest.approx((0.2 + 0.3) / 2)  # (1.1 - 0.9) / 1.0 and (2.6 - 2.0) / 2.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"device": "abacus"}, ValueError, r"unknown device 'abacus' \(expected cpu, cuda"),
        ({"dtype": "int3"}, ValueError, r"unknown dtype 'int3' \(expected float32"),
        ({"threads": 0}, ValueError, r"threads must be a whole number of at least 1 \(got 0\)"),
    ],
)
def test_invalid_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        room.calibrate(**options)


def test_an_absent_device_is_refused():
    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(CostError, match=r"this machine or this build of PyTorch \(.*\) has no device 'cuda:0'"):
        room.calibrate("cuda:0")


@pytest.fixture
def given_noise(quick, monkeypatch):
    """Let the command measure the sweep of :func:`quick` with a noise of one's choice."""

    def give(noise):
        calibration, conditions = quick
        changed = type(conditions)(**{**vars(conditions), "noise": noise})
        monkeypatch.setattr(room, "calibrate", lambda *_, **__: (calibration, changed))

    return give


def test_the_command_writes_a_device_that_reports_can_use(given_noise, quick, tmp_path, capsys):
    given_noise(0.05)
    file = tmp_path / "mine.toml"
    assert main(["calibrate", "--quick", "--output", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "noise 5%" in printed and "error of calls that were left out:" in printed
    calibration, _ = from_toml(tomllib.loads(file.read_text(encoding="utf-8"))["calibration"], "mine")
    assert len(calibration.points) == len(quick[0].points)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4))
    time = estimate(net, (2, 3, 8, 8)).time(device=file)
    assert time.device.name == "mine" and time.device.units == 1
    assert time.seconds > 0
    assert any(
        line.startswith("calibrated: an estimate ") for line in time.remarks
    )  # of so few points perhaps without ±


def test_the_peaks_of_the_base_are_those_of_the_threads_that_were_measured(given_noise, tmp_path):
    given_noise(0.05)
    base = tmp_path / "base.toml"
    base.write_text(
        'name = "base"\nkind = "cpu"\nunits = 8\n[peak.vector]\nfloat32 = 0.8\n[memory]\ndram_gbs = 50\n'
        "caches = [{ bytes = 1000000, per_unit = true }]\n"
        '[[sources]]\ntitle = "a sheet"\nstates = "all"\nchecked = "read"\n',
        encoding="utf-8",
    )
    file = tmp_path / "mine.toml"
    assert main(["calibrate", "--quick", "--base", str(base), "--output", str(file)]) == 0
    device = find_device(file)
    assert device.peak == {"vector": {"float32": pytest.approx(0.1)}}  # one core of eight
    assert device.memory == find_device(base).memory and device.sources == find_device(base).sources


def test_a_noisy_sweep_is_not_saved_unless_that_is_wanted(given_noise, tmp_path, capsys):
    given_noise(0.3)
    file = tmp_path / "mine.toml"
    assert main(["calibrate", "--quick", "--output", str(file)]) == 1
    assert not file.exists()
    assert "mine.toml was not written: the same chains took 30% longer or shorter" in capsys.readouterr().err
    assert main(["calibrate", "--quick", "--allow-noise", "--output", str(file)]) == 0
    assert file.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "mine.json"], "--output must end with .toml (got 'mine.json')"),
        (["--output", "mine.toml", "--base", "h1000"], "unknown device 'h1000'"),
        (["--output", "mine.toml", "--device", "abacus"], "unknown device 'abacus'"),
        (["--output", "mine.toml", "--base", "l4"], "--base l4 is a gpu, but --device is cpu"),
        (["--output", "mine.toml", "--base", "epyc-9654", "--threads", "97"], "epyc-9654 has 96 cores"),
    ],
)
def test_wrong_arguments_are_usage_errors(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["calibrate", *arguments])
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_an_error_before_the_sweep(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(room, "calibrate", lambda *_, **__: pytest.fail("measured"))
    assert main(["calibrate", "--output", str(tmp_path / "absent" / "mine.toml")]) == 1
    assert "absent is not a folder" in capsys.readouterr().err


def test_a_program_of_the_current_folder_is_not_asked_for_the_clock(tmp_path, monkeypatch):
    """On Windows the search for a program begins in the current folder."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho ran > {tmp_path}/ran\necho 1410\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for folder in (".", str(tmp_path)):
        monkeypatch.setenv("PATH", folder)
        assert gpu_mhz(torch.device("cuda")) == 0.0
    assert not (tmp_path / "ran").exists()
