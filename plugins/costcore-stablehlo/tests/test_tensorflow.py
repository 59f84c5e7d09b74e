"""Programs that TensorFlow wrote of networks of Keras, as MLIR bytecode, and a portable artifact: costs by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from costcore import CostError, estimate

DATA = Path(__file__).parent / "data"

GATES = (28 + 20) * 4 * 20
PROJECTIONS, INNER = 4 * 64 * 64, 2 * 64 * 256
RESNET = (
    (32 * 32, 9 * (3 * 16 + 2 * 16 * 16), 3 * 16),
    (16 * 16, 9 * (16 * 32 + 32 * 32) + 16 * 32, 3 * 32),
    (8 * 8, 9 * (32 * 64 + 64 * 64) + 32 * 64, 3 * 64),
    (1, 64 * 10, 10),
)
"""Places, weights and biases of the stages of ResNet-8 of MLPerf Tiny."""

NETWORKS = {
    # 28 steps of 28 features into 20 units, and a linear layer of 10
    "lstm": (range(1, 6), 28 * GATES + 20 * 10, GATES + 4 * 20 + 20 * 10 + 10),
    # two layers of 64 features on 32 tokens of 1000, with two norms each, and a linear layer of 5
    "encoder": (
        range(1, 36),
        2 * (32 * (PROJECTIONS + INNER) + 2 * 32 * 32 * 64) + 64 * 5,
        1000 * 64 + 2 * (PROJECTIONS + 4 * 64 + INNER + 256 + 64 + 2 * 2 * 64) + 64 * 5 + 5,
    ),
    # kernel and bias of each convolution, and scale and offset of the normalizations of 16, 32 and 64 channels
    "resnet8": (
        [
            1,
            2,
            5,
            6,
            7,
            8,
            *range(11, 15),
            *range(17, 21),
            *range(23, 29),
            *range(31, 35),
            *range(37, 43),
            *range(45, 49),
        ],
        sum(places * weights for places, weights, _ in RESNET),
        sum(weights + biases for _, weights, biases in RESNET) + 2 * (3 * 16 + 2 * 32 + 2 * 64),
    ),
}
"""Positions of the learned arguments, MACs and parameters."""


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_tensorflow_cost_what_they_cost_by_hand(name):
    params, macs, n_params = NETWORKS[name]
    report = estimate(DATA / f"tensorflow_{name}.mlirbc", params=list(params), regroup=True)
    assert (report.total_report["macs"], report.total_report["n_params"]) == (macs, n_params)
    assert report.status == "complete"


def test_the_text_and_the_artifact_of_a_program_cost_the_same():
    artifact, text = (estimate(DATA / f"encoder.{suffix}").total_report for suffix in ("mlirbc", "mlir"))
    assert artifact == text
    assert artifact["macs"] == 4 * 8 * 16


@pytest.mark.parametrize("name", ["tensorflow_lstm", "encoder"])
def test_damaged_bytecode_is_an_error(name, tmp_path):
    (tmp_path / "net.mlirbc").write_bytes((DATA / f"{name}.mlirbc").read_bytes()[:-40])
    with pytest.raises(CostError, match=r"net\.mlirbc is not a StableHLO program"):
        estimate(tmp_path / "net.mlirbc")
