"""Calibrate a device: run the sweep, and return the calibration with its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter

import torch

from costcore.analyses.timing.calibration import Calibration, Rates
from costcore.analyses.timing.calibration_table import Conditions
from costcore.analyses.timing.left_out import left_out_errors
from costcore.errors import CostError
from costcore.messages import unknown

from .chains import Chain, make_chains
from .conditions import clock_of, conditions, gpu_mhz
from .sweep import Sweep

FULL = (750, 2e9, 3)
"""Number of chains, most MACs of a chain, and number of rounds."""

QUICK = (44, 2e6, 2)
"""The same for a small sweep, which takes a few seconds and gives only rough estimates."""

DTYPES = ("float32", "bfloat16", "float16", "float64")

AHEAD_CYCLES = 4_000_000
"""For so many cycles a GPU waits before each chain, so that its operators are queued before they start."""


def calibrate(
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 1,
    quick: bool = False,
    seed: int = 0,
    after_round: Callable[[], object] = lambda: None,
) -> tuple[Calibration, Conditions]:
    """Return a calibration of a device by PyTorch, and the conditions under which it was measured.

    Threads, the default dtype and the state of random generators are restored.

    Args:
        device: ``cpu``, ``cuda:0`` or another device of PyTorch.
        dtype: the dtype of weights and activations.
        threads: number of threads, of a CPU. With one, CPU time is measured, which other programs do not lengthen.
        quick: whether to run a small sweep of a few seconds.
        seed: of the choice of shapes and of their order.
        after_round: called after every round, so that other work can be measured under the same conditions.

    Raises:
        ValueError: if the device, the dtype or the number of threads is invalid.
        CostError: if this PyTorch or this machine does not have the device.
    """
    chosen = _device(device)
    if dtype not in DTYPES:
        raise ValueError(unknown("dtype", dtype, DTYPES))
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads must be a whole number of at least 1 (got {threads!r})")
    count, limit, rounds = QUICK if quick else FULL
    start = perf_counter()
    with _threads(threads), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        chains = [_placed(chain, chosen, getattr(torch, dtype)) for chain in make_chains(count, limit, seed)]
        sweep = Sweep(chains, clock_of(chosen, threads), seed, _queue_ahead(chosen), partial(gpu_mhz, chosen))
        sweep.run(rounds, after_round)
        points = sweep.points()
        found = conditions(chosen, getattr(torch, dtype), sweep.noise(), perf_counter() - start)
    rates = Rates.of(points, found.units)
    return Calibration(points, left_out_errors(points, rates), found.units, dtype), found


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r} (expected cpu, cuda, cuda:0, xpu or mps)") from error
    module = getattr(torch, device.type, None)
    if device.type != "cpu" and (module is None or not module.is_available()):
        raise CostError(f"this machine or this build of PyTorch ({torch.__version__}) has no device {name!r}")
    return device


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _placed(chain: Chain, device: torch.device, dtype: torch.dtype) -> Chain:
    inputs = (x.to(device, dtype if x.is_floating_point() else None) for x in chain.inputs)
    return chain._replace(module=chain.module.to(device, dtype), inputs=tuple(inputs))


def _queue_ahead(device: torch.device) -> Callable[[], object]:
    """Return what lets a GPU wait until a chain is queued, so that events do not measure how fast it is launched."""
    if device.type != "cuda" or not hasattr(torch.cuda, "_sleep"):
        return lambda: None
    return lambda: torch.cuda._sleep(AHEAD_CYCLES)
