"""Compares fused traffic, bounds and calibrated times with what was measured.

Run in the root of the repository, in an environment with torchvision, timm and transformers, on a machine without other
work: ``python -m benchmarks.time [fusion | times] [--only NAME …] [--base DEVICE] [--quick]``. A library that is not
installed is reported and skipped. ``python -m benchmarks.time times`` takes about five minutes and 12 GB.

``fusion``: bytes and kernels after pointwise fusion against TorchInductor's own scheduler, whose figures are in
``data/fusion_inductor.csv`` (torch 2.13, default settings, a described GPU; embedding tables with only the rows that
are read).

``times``: calibrates one thread of this CPU, and after every round of the sweep runs 42 networks, most at two batch
sizes: once to compile their kernels, then measured. Sweep and networks thus run under the same conditions. Printed
per run: CPU time, calibrated time, their ratio, its ±, and whether the measured time is inside; the bound on ``--base``
and how many calls took less than it. Then the errors of all runs, how many are inside their ±, also of the networks
with one or three axes or with recurrent layers, Kendall's tau of their order, the error per family of operators, and
the noise of this machine during the sweep.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import torch
from torch import nn

from benchmarks.more_networks import MORE_NETWORKS, OTHER_AXES
from benchmarks.networks import NETWORKS, Network, available
from costcore import ComputationalCostHook, Report, estimate
from costcore.analyses.devices.device import Cache, Device, Memory, find_device
from costcore.analyses.timing.calibrated import to_toml
from costcore.analyses.timing.roofline import TimeComparison
from costcore.frontends.pytorch.calibration import calibrate

TRUTH = Path(__file__).parent / "data" / "fusion_inductor.csv"

CORE = Device(
    "a core",
    "cpu",
    units=1,
    peak={"vector": {"float32": 64 * 5e9 / 1e12}},
    memory=Memory(100.0, (Cache(48 * 1024), Cache(2**20, 320.0), Cache(32 * 2**20, 160.0))),
)
"""An upper bound for a core of a server: 64 FLOP per clock at 5 GHz, L2 320 GB/s, L3 160 GB/s, DRAM 100 GB/s."""


WORDS: Mapping[bool | None, str] = {True: "inside", False: "OUTSIDE", None: ""}


class Run(NamedTuple):
    """A network at a batch size, with the report of every time it ran."""

    name: str
    module: nn.Module
    inputs: torch.Tensor
    measured: list[Report]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["fusion", "times"], choices=["fusion", "times"])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of networks")
    parser.add_argument("--base", metavar="DEVICE", help="the device of the bound; default: a generous core")
    parser.add_argument("--quick", action="store_true", help="a small sweep, to try this script")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", module="transformers|timm")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if "fusion" in args.what:
        compare_fusion(args.only)
    if "times" in args.what:
        base = CORE if args.base is None else find_device(args.base).with_units(1)
        compare_times(available(args.only, {**NETWORKS, **MORE_NETWORKS}), base, args.quick)


def compare_fusion(only: Sequence[str] | None) -> None:
    rows = [row for row in csv.DictReader(TRUTH.open(encoding="utf-8")) if only is None or row["net"] in only]
    networks = available([row["net"] for row in rows])
    print(f"{'network':<20} {'kernels':>8} {'ours':>6} {'MB':>8} {'none':>7} {'pointwise':>9}")
    errors = []
    for row in (row for row in rows if row["net"] in networks):
        network = networks[row["net"]]
        report = estimate(network.make().eval(), network.inputs(1))
        truth = int(row["bytes_adjusted"])
        fused = report.fused("pointwise")
        unfused, ours = (each.total_report["mrw"] / truth - 1 for each in (report, fused))
        errors.append(abs(ours))
        kernels = sum(
            any(call.layer.outputs for call in group.calls) for group in report.time(CORE, fusion="pointwise").groups
        )
        print(f"{row['net']:<20} {row['kernels']:>8} {kernels:>6} {truth / 1e6:8.2f} {unfused:+7.1%} {ours:+9.1%}")
    if errors:
        print(f"bytes: median error {median(errors):.1%}, largest {max(errors):.1%}\n")


def compare_times(networks: Mapping[str, Network], base: Device, quick: bool) -> None:
    runs = [run for name, network in networks.items() for run in runs_of(name, network)]

    def measure() -> None:
        for run in runs:
            with torch.no_grad():
                run.module(run.inputs)
            with torch.no_grad(), ComputationalCostHook(measure_time="cpu_time") as hook:
                run.module(run.inputs)
            run.measured.append(hook.report)

    calibration, conditions = calibrate(quick=quick, after_round=measure)
    device = replace(base, calibration=to_toml(calibration, conditions))
    compared = {run.name: run.measured[0].time(device).compare(*run.measured) for run in runs}
    print_runs(compared)
    print_families(compared.values())
    print(f"noise of the sweep {conditions.noise:.0%}; it took {conditions.sweep_seconds:.0f} s with all networks")


def runs_of(name: str, network: Network) -> Iterable[Run]:
    module = network.make().eval()
    return (Run(f"{name}, batch {batch}", module, network.inputs(batch), []) for batch in network.batches)


def print_runs(compared: Mapping[str, TimeComparison]) -> None:
    print(f"{'network':<30} {'measured':>10} {'estimated':>11} {'ratio':>6} {'±':>5} {'':<7} {'bound':>6} below")
    errors: list[float] = []
    inside: dict[str, bool | None] = {}
    n_calls = n_below = 0
    for name, found in compared.items():
        total, sure = found.total, found.times.error
        predicted = total.predicted or 0.0
        errors.append(abs(predicted / total.measured - 1))
        inside[name] = None if sure is None else abs(total.measured - predicted) <= sure * predicted
        n_calls += len(found.groups)
        n_below += len(found.violations)
        print(
            f"{name:<30} {1e3 * total.measured:7.2f} ms {1e3 * predicted:8.2f} ms {predicted / total.measured:6.2f} "
            f"{'none' if sure is None else f'{sure:.0%}':>5} {WORDS[inside[name]]:<7} "
            f"{total.bound / total.measured:6.1%} {len(found.violations)}"
        )
    print(
        f"totals: median error {median(errors):.1%}, mean {mean(errors):.1%}, largest {max(errors):.1%}; "
        f"tau {tau([found.total for found in compared.values()]):.3f}"
    )
    sure = [found.times.error for found in compared.values() if found.times.error is not None]
    if sure:
        print(f"±: median {median(sure):.0%}, largest {max(sure):.0%}")
    print_inside("all", inside)
    more = {name: found for name, found in inside.items() if name.partition(",")[0] in OTHER_AXES}
    print_inside("with one or three axes, or recurrent", more)
    print(f"calls below their bound: {n_below} of {n_calls} ({n_below / n_calls:.2%})\n")


def print_inside(what: str, inside: Mapping[str, bool | None]) -> None:
    """Print how many runs are inside their ±, and how many networks are with all of their runs."""
    networks: dict[str, list[bool | None]] = {}
    for name, found in inside.items():
        networks.setdefault(name.partition(",")[0], []).append(found)
    whole = sum(all(found) for found in networks.values())
    without = sum(found is None for found in inside.values())
    print(
        f"inside their ±, {what}: {sum(map(bool, inside.values()))} of {len(inside)} runs ({without} have none), "
        f"{whole} of {len(networks)} networks at all of their batch sizes"
    )


def tau(totals: Sequence[object]) -> float:
    """Kendall's tau of the order of predicted and measured totals."""
    signs = [(a.predicted - b.predicted) * (a.measured - b.measured) for a, b in combinations(totals, 2)]
    return (sum(sign > 0 for sign in signs) - sum(sign < 0 for sign in signs)) / max(1, len(signs))


def print_families(compared: Iterable[TimeComparison]) -> None:
    groups = [group for found in compared for group in found.groups]
    whole = sum(group.measured for group in groups)
    print(f"{'family':<24} {'share':>6} {'of sum':>7} {'per call':>8}")
    for family in sorted({group.family for group in groups}):
        members = [group for group in groups if group.family == family]
        measured = sum(group.measured for group in members)
        if measured >= whole / 100:
            error = sum(group.predicted for group in members) / measured - 1
            each = median(abs(group.predicted / group.measured - 1) for group in members)
            print(f"{family:<24} {measured / whole:6.1%} {error:+7.1%} {each:8.1%}")


if __name__ == "__main__":
    main()
