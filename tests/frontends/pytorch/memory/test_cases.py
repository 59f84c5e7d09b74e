"""Runs with unusual lives of memory: what the hook records is what the profiler of PyTorch measures on a CPU."""

from __future__ import annotations

import gc

import pytest

from costcore import ComputationalCostHook
from tests.frontends.pytorch.differences import NEEDS_WORKSPACE

from .cases import CASES, ON_CPU_ONLY
from .profiler import Run, profiled_peaks

TOLERANCE = 8
"""Bytes of a Python number that an operator turns into a tensor, which no dispatch mode sees."""

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::costcore.CostWarning")


@pytest.fixture(scope="module", autouse=True)
def _fast_collector():
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def measured():
    made = {name: make("cpu") for name, make in CASES.items()}
    return profiled_peaks({name: Run(each.run, each.prepare) for name, each in made.items()})


def recorded(name, device):
    """Return the highest sum of blocks that a run allocates."""
    made = CASES[name](device)
    with ComputationalCostHook():  # without it, meta tensors cannot be checkpointed before PyTorch 2.5
        made.run()
    made.prepare()
    gc.collect()
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(*made.lives)
        held = made.run()  # noqa: F841 - lives until the end
    memory = hook.memory
    assert sum(memory.by_kind.values()) == memory.peak
    ledger = memory.ledger
    return max(ledger._replace(blocks=tuple(block for block in ledger.blocks if block.born)).live())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[NEEDS_WORKSPACE] if "lstm" in name else []) for name in CASES]
)
def test_a_run_has_the_measured_peak(name, measured):
    peak = recorded(name, "cpu")
    assert 0 <= measured[name] - peak <= TOLERANCE
    if name not in ON_CPU_ONLY:
        assert recorded(name, "meta") == peak
