"""The peaks of estimates and of runs equal those that were measured on a CPU."""

from __future__ import annotations

import pytest
import torch

from costcore import estimate
from tests.frontends.pytorch.differences import NEEDS_WORKSPACE

from .networks import MEASURED, NETWORKS, OPTIMIZERS, Lstm, memory_of_run
from .profiler import Run, profiled_peaks

TOLERANCE = 8
"""Bytes of a Python number that an operator turns into a tensor, which no dispatch mode sees."""

ESTIMATED = [row for row in MEASURED if row.mode not in ("forward", "accum2_adamw", "amp_fwdbwd")]

ON_CPU = ("mlp-adamw", "mlp-accum2_adamw", "mlp-amp_fwdbwd", "seed_cnn-fwdbwd", "unet16-forward", "encoder4-infer")
ON_CPU += ("encoder4-adamw", "lstm2-fwdbwd")


def name_of(row):
    return f"{row.network}-{row.mode}"


RUNS = [
    pytest.param(row, "cpu", marks=[NEEDS_WORKSPACE] if row.network == "lstm2" else [])
    for row in MEASURED
    if name_of(row) in ON_CPU
]
RUNS += [pytest.param(row, "meta") for row in MEASURED if row not in ESTIMATED]


@pytest.mark.parametrize("row", ESTIMATED, ids=name_of)
def test_an_estimate_has_the_measured_peak(row):
    make, shape, dtype = NETWORKS[row.network]
    optimizer = OPTIMIZERS.get(row.mode)
    memory = estimate(
        make().train(row.mode != "infer"),
        (shape, dtype),
        memory=True,
        backward=row.mode == "fwdbwd",
        optimizer=optimizer,
        step="first" if row.mode == "adamw_first" else "steady",
    ).memory
    assert memory.base == row.base
    assert 0 <= row.peak - (memory.peak - memory.base) <= TOLERANCE
    assert sum(memory.by_kind.values()) == memory.peak


@pytest.mark.parametrize(("row", "device"), RUNS, ids=lambda value: value if isinstance(value, str) else name_of(value))
def test_a_run_has_the_measured_peak(row, device):
    make, shape, dtype = NETWORKS[row.network]
    memory = memory_of_run(make().to(device), torch.zeros(shape, dtype=dtype, device=device), row.mode)
    assert memory.base == row.base
    assert 0 <= row.peak - (memory.peak - memory.base) <= TOLERANCE


def test_a_linear_layer_behind_an_lstm_copies_its_input():
    """The output of an LSTM with the batch first is transposed, and the linear layer copies it.

    The result of the linear layer is 4 * 20 * 1000 numbers, the output and its copy 4 * 20 * 128 each, the two last
    states 2 * 4 * 128 each.
    """
    by_hand = 4 * (4 * 20 * 1000 + 2 * 4 * 20 * 128 + 2 * 2 * 4 * 128)
    network, x = Lstm().eval(), torch.zeros(4, 20, dtype=torch.int64)
    with torch.no_grad():
        assert profiled_peaks({"lstm": Run(lambda: network(x))}) == {"lstm": by_hand}
    memory = estimate(network, (tuple(x.shape), x.dtype), memory=True).memory
    assert memory.peak - memory.base == by_hand == 410_112
