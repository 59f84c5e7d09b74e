"""The utilization to expect of a training run, from published runs near it.

A bound says how long a step takes at least; published steps took 1.4 to 4.8 times as long. ``published_runs.csv`` has
runs with their source: model FLOPs of all pairs per second, as a share of the dense peak of their precision (MFU). The
runs nearest to the asked one give a range, and are shown with it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import exp, log, log2, sqrt
from pathlib import Path
from typing import NamedTuple

from costcore.studies.training.step import Step
from costcore.tables.result import Table
from costcore.text.amounts import Formatted
from costcore.text.output import Column

DATA = Path(__file__).parent / "published_runs.csv"

NEAREST = 3
"""How many runs make a range."""

INSIDE, HALF_RANGE = 0.85, 0.14
"""Of all published runs, each left out: the share inside the range of the others, and the median half of that range."""

GENERATIONS = {
    "a100": 1,
    "h100": 2,
    "h200": 2,
    "b200": 3,
    "gb200": 3,
    "b300": 4,
    "gb300": 4,
    "tpu-v4": 11,
    "tpu-v5e": 12,
    "tpu-v5p": 13,
}
"""Generations of devices; of other vendors from 10."""

PRECISIONS = {"bf16": 0, "fp8": 1, "mxfp8": 1, "nvfp4": 2}
"""Widths of products, from 16 bits."""

DTYPES = {"bfloat16": "bf16", "float16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float4_e2m1": "nvfp4"}


AXES = ("tp", "pp", "cp")
"""Axes of a mesh that a published run states: tensor, pipeline and context parallelism."""


class RunSetup(NamedTuple):
    """A training run of a language model.

    Attributes:
        parameters: number of parameters.
        active: parameters that a token meets: fewer with experts.
        seq: tokens of a sequence.
        device: family of the device, a key of :data:`GENERATIONS`.
        devices: number of devices.
        precision: a key of :data:`PRECISIONS`.
        tp: ranks of tensor parallelism.
        pp: stages of the pipeline.
        cp: ranks of context parallelism.
    """

    parameters: int
    active: int
    seq: int
    device: str
    devices: int
    precision: str
    tp: int = 1
    pp: int = 1
    cp: int = 1

    @property
    def has_experts(self) -> bool:
        """Whether a token meets far fewer parameters than the model has."""
        return self.active < 0.6 * self.parameters


class PublishedRun(NamedTuple):
    """A published run.

    Attributes:
        model: its model.
        setup: its sizes and devices.
        mfu: its MFU, as a share.
        source: where it is published.
    """

    model: str
    setup: RunSetup
    mfu: float
    source: str


class Expected(NamedTuple):
    """The MFU to expect, as shares.

    Attributes:
        low: the lower end of the range.
        middle: the weighted mean of the nearest runs, of logarithms.
        high: the upper end.
        nearest: the nearest runs with their distances: about 1 for another generation of device, or for four times as
            many parameters.
    """

    low: float
    middle: float
    high: float
    nearest: Sequence[tuple[PublishedRun, float]]


@cache
def published_runs() -> Sequence[PublishedRun]:
    """Return the published runs."""
    with DATA.open(newline="", encoding="utf-8") as file:
        return [*_read(csv.DictReader(file))]


def _read(rows: Iterator[Mapping[str, str]] | csv.DictReader[str]) -> Iterator[PublishedRun]:
    for row in rows:
        sizes = {name: int(row[name]) for name in ("parameters", "active", "seq", "devices", *AXES)}
        setup = RunSetup(device=row["device"], precision=row["precision"], **sizes)
        yield PublishedRun(row["model"], setup, float(row["mfu"]), row["source"])


def family_of(device: str) -> str | None:
    """Return the key of :data:`GENERATIONS` of a device by its name, ``h100`` of ``h100-sxm5-80gb``; None if none."""
    return max((name for name in GENERATIONS if f"{device}-".startswith(f"{name}-")), key=len, default=None)


def setup_of(step: Step, device: str, devices: int, dtype: str) -> RunSetup | None:
    """Return the run of a captured step; None if it is no language model, or no published run has such devices.

    Args:
        step: the step, of all ranks or of one.
        device: name of the device.
        devices: number of devices.
        dtype: dtype of the products.
    """
    family, precision, seq, sizes = family_of(device), DTYPES.get(dtype), step.sequence, step.parameters
    if family is None or precision is None or seq is None or step.unit != "token":
        return None
    rank = step.report.trace.run.rank
    mesh = {} if rank is None else {axis: size for axis, size in rank.mesh if axis in AXES}
    return RunSetup(sizes.total, sizes.active, seq, family, devices, precision, **mesh)


def expected(setup: RunSetup, runs: Sequence[PublishedRun] | None = None) -> Expected:
    """Return the MFU to expect of a run from those nearest to it.

    The range covers the spread of the nearest runs and 7 %, and grows with their distance.

    Args:
        setup: the run.
        runs: the runs to compare it with; default: all published ones.
    """
    pairs = ((run, distance(setup, run.setup)) for run in (published_runs() if runs is None else runs))
    nearest = sorted(pairs, key=lambda pair: pair[1])[:NEAREST]
    weights = [1 / (0.3 + far) for _, far in nearest]
    middle = sum(w * log(run.mfu) for w, (run, _) in zip(weights, nearest, strict=True)) / sum(weights)
    spread = sum(w * (log(run.mfu) - middle) ** 2 for w, (run, _) in zip(weights, nearest, strict=True)) / sum(weights)
    half = 0.07 + sqrt(spread) + 0.03 * nearest[0][1]
    return Expected(exp(middle - half), exp(middle), exp(middle + half), nearest)


def distance(one: RunSetup, other: RunSetup) -> float:
    """Return how far two runs are from each other; the weights are chosen, and judged by leaving runs out."""
    far = 0.5 * _doublings(one.active, other.active)
    far += 0.3 * _doublings(one.seq, other.seq)
    far += 0.15 * _doublings(one.devices, other.devices)
    far += 0.1 * sum(_doublings(getattr(one, axis), getattr(other, axis)) for axis in AXES)
    far += 1.5 * abs(PRECISIONS[one.precision] - PRECISIONS[other.precision])
    far += 2 * (one.has_experts != other.has_experts)
    if one.device == other.device:
        return far
    a, b = GENERATIONS[one.device], GENERATIONS[other.device]
    return far + 1.5 * (1 if a == b else 2 if (a < 10) == (b < 10) else 4)


def _doublings(one: int, other: int) -> float:
    return abs(log2(one / other))


def nearest_runs(found: Expected) -> Table:
    """Return the runs that a range comes from as a table."""
    columns = [
        *(Column("model", "Model"), Column("device", "Device"), Column("devices", "Devices", "count")),
        *(Column("seq", "Sequence", "count"), Column("precision", "Precision"), Column("mesh", "Mesh")),
        *(Column("mfu", "MFU", "percent"), Column("distance", "Distance", "ratio"), Column("source", "Source")),
    ]
    rows = [
        {
            "model": run.model,
            **{name: getattr(run.setup, name) for name in ("device", "devices", "seq", "precision")},
            "mesh": ", ".join(f"{axis}={getattr(run.setup, axis)}" for axis in AXES if getattr(run.setup, axis) > 1),
            "mfu": Formatted(100 * run.mfu, f"{run.mfu:.1%}"),
            "distance": Formatted(far, f"{far:.1f}"),
            "source": run.source,
        }
        for run, far in found.nearest
    ]
    return Table("Nearest published runs", columns, rows, dropped_first=("source", "precision", "mesh"))
