"""Calibrations of 250 points as a whole; ``--overwrite`` regenerates tests/golden/time.

What the figures mean is tested by hand in ``test_left_out.py``, ``test_kernel_curves.py`` and ``test_calibration.py``;
here every step counts, with numbers of points and families at, below and above each limit.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp
from random import Random

import pytest

from costcore.analyses.timing.calibrated import from_table, to_table
from costcore.analyses.timing.calibration import Calibration, Curves, Point, Rates, errors_of_runs, left_out_errors
from costcore.analyses.timing.families import OpSignature
from costcore.analyses.timing.times import KERNEL_CLOCK
from tests.core.analyses.timing.toy_calibration import CONDITIONS
from tests.core.analyses.timing.toy_device import Device, Memory
from tests.whole_text import as_json

DEVICE = Device(
    "toy",
    "gpu",
    units=10,
    peak={"matrix": {"bfloat16": 100.0, "float16": 80.0}, "vector": {"bfloat16": 10.0, "float16": 20.0}},
    memory=Memory(1000),
)

COUNTS = {
    ("many", "special", "bfloat16"): 102,  # of which each second one is left out
    ("twenty", "special", "bfloat16"): 22,  # of which 11 stand for the family
    ("eight", "special", "bfloat16"): 8,
    ("seven", "special", "float16"): 7,
    ("five", "special", "bfloat16"): 5,
    ("one", "arithmetic", "bfloat16"): 1,
    ("few", "arithmetic", "float16"): 12,
    ("linear", "product", "bfloat16"): 20,
    ("linear", "product", "float16"): 19,
    ("conv kxk", "product", "bfloat16"): 13,
    ("matmul", "product", "float16"): 1,
    ("copy", "move", "bfloat16"): 62,  # of which each second one determines the curve
    ("sort", "opaque", "bfloat16"): 9,
    ("view", "free", "bfloat16"): 3,
}


def points() -> list[Point]:
    random = Random(11)
    found = []
    for number, ((family, kind, dtype), n) in enumerate(COUNTS.items()):
        for _ in range(n):
            log_bytes, log_flops = random.uniform(8, 30), random.uniform(8, 40) if kind != "move" else 0.0
            others = [float(random.randrange(3)) for _ in range(2)]
            axes = (log_bytes, log_flops, *others, 1.0, 0.5)
            flops = 2**log_flops if kind not in ("move", "free") else 0.0
            if kind == "product":  # rows, columns and depth
                axes = (*(random.uniform(3, 12) for _ in range(3)), 0.0, 0.0, 0.5)
                flops = 2 ** (1 + sum(axes[:3]))
            place = OpSignature(family, kind, axes, flops, 2**log_bytes, dtype)
            slow = exp(random.gauss(0.1 * number, 0.2))
            found.append(Point(place, 2e-6 + slow * max(place.flops / 4e13, place.nbytes / 8e11)))
    return found


def calls() -> list[OpSignature]:
    """Calls at, near and far from the points, of known and unknown families, kinds and dtypes."""
    random = Random(5)
    found = [point.site for point in points()[::17]]
    for family, kind, dtype in (*COUNTS, ("erf", "special", "bfloat16"), ("other", "product", "float16")):
        for distance in (1.0, 3.5, 9.0, 30.0):
            axes = (random.uniform(8, 14), random.uniform(8, 14) + distance, 9.0, 0.0, 1.0, 1.5, 2.5)
            found.append(OpSignature(family, kind, axes, 2 ** axes[1], 2 ** axes[0], dtype))
    return [*found, *(each._replace(dtype="float16", family="linear", kind="product") for each in found[-2:])]


def said(calibration: Calibration) -> dict[str, object]:
    estimates = [(f"{site.family} {site.dtype}", *calibration.estimate(site)) for site in calls()]
    return {
        "rates": calibration.rates,
        "dtypes": sorted(calibration.dtypes),
        "families": calibration.errors.families,
        "kinds": calibration.errors.kinds,
        "estimates": estimates,
    }


def test_a_sweep(golden):
    known = points()
    calibration = Calibration(known, left_out_errors(known, Rates.of(known, units=10)), units=10)
    golden("time/sweep.json", as_json(said(calibration)))
    table = to_table(calibration, CONDITIONS)
    again, conditions = from_table(table, "a device")
    assert conditions == CONDITIONS and to_table(again, conditions) == table
    golden("time/table.json", as_json({**table, "family": table["family"][:2]}))


def test_traces(golden):
    known = points()
    sources = [i % 3 for i in range(len(known))]
    curves = Curves(known, DEVICE)
    calibration = Calibration(known, errors_of_runs(known, sources, DEVICE), 10, curves=curves)
    ideals = [(site.family, curves.work(site), curves.ideal(site)) for site in calls()]
    kinds = {kind: curves.of_kind(kind) for kind in ("product", "special", "arithmetic", "move", "opaque")}
    golden("time/traces.json", as_json({**said(calibration), "curves": ideals, "kinds of curves": kinds}))
    table = to_table(calibration, replace(CONDITIONS, clock=KERNEL_CLOCK))
    again, _ = from_table(table, "a device", DEVICE)  # also with calls that cost nothing
    assert again.estimate(calls()[0]).seconds == pytest.approx(calibration.estimate(calls()[0]).seconds, rel=1e-4)


def test_a_file_of_the_first_version_has_the_errors_that_are_found_again():
    known = [point for point in points() if point.site.dtype == "bfloat16"]
    table = to_table(Calibration(known, left_out_errors(known, Rates.of(known))), CONDITIONS)
    old = {key: value for key, value in table.items() if key != "errors_of_other_families"}
    old["format"], old["error_of_other_families"] = 1, 0.5
    old["family"] = [{**{k: v for k, v in each.items() if k != "errors"}, "error": 0.25} for each in table["family"]]
    found, _ = from_table(old, "a device")
    assert found.errors == left_out_errors(found.points, Rates.of(found.points))
