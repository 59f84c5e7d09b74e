"""Calibrated time of reports, by hand on a device that reaches 1 TFLOP/s and 1 TB/s, and needs 1 µs per call."""

from __future__ import annotations

import json
from math import hypot, log2, sqrt

import pytest

from costcore import CostError, Layer, Operations, Report, Tensor, Trace
from costcore.ir import Cost
from tests.core.analyses.timing.toy_device import (
    CONDITIONS,
    ERRORS,
    POINTS,
    OpSignature,
    Point,
    calibrated_device,
    calibration,
    from_toml,
    growing,
    signature_of,
    table,
    to_toml,
)
from tests.core.given_costs import Step, dense, net, relu
from tests.core.traces import Call


def time_of(*steps, device=None, framework="torch", **options):
    return net(*steps, framework=framework).time(device or calibrated_device(), **options)


def test_the_time_of_a_run_is_the_sum_of_its_calls():
    """relu of 1024 elements: measured as 1 µs. The product of 1024: 1 µs, and 4 (1024² + 2048) bytes at 1e12."""
    time = time_of(dense("a", 1024), relu("b", 1024))
    product, activation = time.groups
    assert product.seconds == pytest.approx(1e-6 + 4 * (1024 * 1024 + 2 * 1024) / 1e12, rel=1e-3)
    assert activation.seconds == pytest.approx(1e-6, rel=0.02)
    assert time.seconds == pytest.approx(product.seconds + activation.seconds)
    # of other products 0.8 for one call, of relu 0.7; both families err independently of each other
    expected = hypot(0.8 * product.seconds, 0.7 * activation.seconds) / time.seconds
    assert time.error == pytest.approx(expected)
    assert "estimated from other operators (84% of the time): linear" in time.remarks
    assert f"calibrated: an estimate ± {expected:.0%}, measured on" in "".join(time.remarks)


def test_nothing_follows_from_other_operators_for_one_that_is_like_no_other():
    """Sorting 1024 elements is estimated from all points, the nearest of which is relu: nobody knows how wrongly."""
    time = time_of(relu("a", 1024), Step("sort", add=1024, mread=4096, mwrite=4096))
    assert time.seconds > 0 and time.error is None
    assert "calibrated: an estimate without ±, measured on" in "".join(time.remarks)
    assert "estimated from other operators (50% of the time): sort" in time.remarks
    assert "without ±, because nothing like it was measured (50% of the time): sort" in time.remarks
    assert "without ±" in repr(time) and "error" not in json.loads(time.to_json())["total"]


@pytest.mark.parametrize(
    ("width", "error"),
    [
        (1024, 0.7),
        (1024 * 4, 0.7),  # at a distance of 2 √2 in operations and bytes: see below
        (1024 * 16, None),  # 4 √2 is more than half way to 8, where the error is 1.4
        (1024 * 256, None),  # 8 √2: nothing so far was left out
    ],
)
def test_the_error_grows_with_the_distance_from_the_sweep(width, error):
    """The points of relu have 1024 operations and 8192 bytes; the error is 0.7 up to a distance of 2, and 1.4 at 8."""
    time = time_of(relu("a", width))
    distance = sqrt(2) * log2(width / 1024)
    expected = 0.7 * (1 + max(0.0, distance - 2) / 6)
    assert time.error == (None if error is None else pytest.approx(expected, rel=1e-3))
    is_far = any(line.startswith("far from the measured calls (100% of the time): relu") for line in time.remarks)
    assert is_far == (distance > 4)
    assert ("without ±, because it would be more than 100%" in time.remarks) == (expected > 1 and distance <= 8)
    assert any("nothing like it was measured" in line for line in time.remarks) == (distance > 8)


def test_no_estimate_is_below_the_bound():
    slow = calibrated_device(peak={"vector": {"float32": 1e-6}})
    (group,) = time_of(relu("a", 1024), device=slow).groups
    assert group.seconds == group.bound_seconds > 1e-4


def test_calls_that_repeat_take_their_time_every_time():
    trace = net(relu("a", 1024), framework="torch").trace
    repeated = [record._replace(call=record.call._replace(times=5)) for record in trace]
    once, often = (Report(each).time(calibrated_device()) for each in (trace, Trace(tuple(repeated), trace.run)))
    assert often.seconds == pytest.approx(5 * once.seconds)


def test_the_remarks_say_what_was_measured_where_and_how_sure_it_is():
    (line,) = (line for line in time_of(relu("b", 1024)).remarks if line.startswith("calibrated: "))
    assert line == (
        "calibrated: an estimate ± 70%, measured on 2026-11-22 on Toy 3000, float32, torch 2.13.0; the times of the "
        "sweep themselves differed by 4%"
    )


def test_other_versions_and_frameworks_are_remarks():
    report = net(relu("a", 1024), framework="torch")
    assert report.trace.run.frameworks["torch"] != "2.13.0"
    version = report.trace.run.frameworks["torch"]
    assert (
        f"calibrated with torch 2.13.0, but the run is of torch {version}" in report.time(calibrated_device()).remarks
    )
    remarks = time_of(relu("a", 1024), framework="onnx").remarks
    assert "calibrated with torch: a runtime of onnx has other kernels" in remarks


def test_an_operator_may_be_free_in_one_run_and_cost_time_in_another():
    """Dropout is free at inference; a sweep that has only this has no points for dropout in training."""
    free = Point(OpSignature("dropout (zero-cost)", "free", (0.0, 0.0), 0, 0), 2e-6)
    errors = ERRORS._replace(families={**ERRORS.families, free.signature.family: growing(0.1, 0.2)})
    measured = to_toml(calibration((*POINTS, free), errors), CONDITIONS)
    steps = Step("dropout"), Step("dropout", add=8, mread=1000, mwrite=1000)
    at_inference, in_training = time_of(*steps, device=calibrated_device(measured)).groups
    assert at_inference.seconds == pytest.approx(2e-6)
    assert in_training.seconds == pytest.approx(1e-6, rel=0.01)


def test_a_run_without_calls_has_no_calibrated_time():
    time = time_of()
    assert (time.seconds, time.error) == (None, None)
    assert not any(line.startswith("calibrated") for line in time.remarks)


def test_another_dtype_has_no_calibrated_time():
    time = time_of(dense("a", 1024), relu("b", 1024), dtype="bfloat16")
    assert time.seconds is None and time.error is None
    assert "no calibrated time: measured in float32, not bfloat16" in time.remarks


def test_another_number_of_cores_has_no_calibrated_time():
    cpu = calibrated_device(table(threads=10), kind="cpu", units=10)
    assert time_of(relu("a", 1024), device=cpu).seconds is not None
    time = time_of(relu("a", 1024), device=cpu, cores=4)
    assert time.seconds is None
    assert "no calibrated time: measured with 10 threads, not 4" in time.remarks


def test_fused_groups_are_estimated_as_their_main_call_and_the_report_says_so():
    steps = [relu("a", 1024) for _ in range(3)]
    alone, fused = time_of(*steps), time_of(*steps, fusion="pointwise")
    assert len(fused.groups) < 3
    assert fused.seconds < alone.seconds
    assert "calibrated on single calls: the time of fused groups is approximate" in fused.remarks


def test_seconds_and_their_error_are_in_json_and_in_tables_of_saved_reports():
    report = Report.from_json(net(dense("a", 1024), relu("b", 1024), framework="torch").to_json())
    time = report.time(calibrated_device())
    total = json.loads(time.to_json())["total"]
    assert total["seconds"] == pytest.approx(time.seconds) and total["error"] == pytest.approx(time.error)
    assert "± " in repr(time)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, r"format 99 belongs to another version \(expected 2\)\. Calibrate the device again"),
        ({"format": [2]}, r"format \[2\] belongs to another version"),
        ({"noise": "low"}, r"noise must be a number of at least 0 \(got 'low'\)"),
        ({"device": 3}, r"device must be a text \(got 3\)"),
        ({"threads": 1.5}, r"threads must be a whole number \(got 1.5\)"),
        ({"versions": []}, r"versions must be a table"),
        ({"family": {}}, r"family must be a list"),
        ({"family": []}, r"there are no measured points"),
        ({"speed": 1}, r"unknown key 'speed'"),
        ({"family": [{"name": "relu"}]}, r"family 1: expected a table with name, kind, errors, points"),
        ({"family": [{"name": "relu", "kind": "x", "errors": [], "points": []}]}, r"family 1: unknown kind 'x'"),
        (
            {"family": [{"name": "relu", "kind": "move", "dtype": "floct32", "errors": [], "points": []}]},
            r"family 1: unknown dtype",
        ),
        (
            {"family": [{"name": "relu", "kind": "move", "errors": [], "points": [[0, 1, 1]]}]},
            r"family 1: a point must be \[seconds, flops, bytes, coordinates …\] \(got \[0, 1, 1\]\)",
        ),
        (
            {"family": [{"name": "relu", "kind": "move", "errors": [], "points": [[1, 1, 1, 1], [1, 1, 1]]}]},
            r"family 1: all points of 'relu' need equally many coordinates",
        ),
        (
            {"family": [{"name": "relu", "kind": "arithmetic", "errors": [], "points": [[1, 0, 0, 0]]}]},
            r"family 1: all points of 'relu' need FLOPs or bytes",
        ),
        (
            {"family": [{"name": "relu", "kind": "move", "errors": [], "points": []}]},
            r"family 1: 'relu' needs points with coordinates of at most 200",
        ),
        (
            {"family": [{"name": "relu", "kind": "move", "errors": [], "points": [[1, 1, 1, 2000]]}]},
            r"family 1: 'relu' needs points with coordinates of at most 200",
        ),
        (
            {"family": [{"name": "relu", "kind": "move", "errors": [[0, 0.1]], "points": [[1, 1, 1]]}]},
            r"family 1: errors must be numbers \[distance, mean, most\] \(got \[0, 0.1\]\)",
        ),
        (
            {"family": [{"name": "relu", "kind": "move", "errors": [[2, 1, 1], [0, 1, 1]], "points": [[1, 1, 1]]}]},
            r"family 1: errors must be of rising distances \(got \[2.0, 0.0\]\)",
        ),
        ({"errors_of_other_families": 0.5}, r"errors_of_other_families: expected a table \(got 0.5\)"),
        ({"errors_of_other_families": {"x": [1, 1]}}, r"errors_of_other_families: unknown kind 'x'"),
        (
            {"errors_of_other_families": {"move": [1]}},
            r"errors_of_other_families: move must be a number of at least 0 \(got \[1\]\)",
        ),
    ],
)
def test_an_invalid_calibration_is_refused_with_its_key(change, message):
    with pytest.raises(CostError, match=rf"toy: calibration: {message}"):
        time_of(relu("a", 8), device=calibrated_device({**table(), **change}))


def test_more_coordinates_than_this_version_knows_are_refused():
    changed = table()
    next(each for each in changed["family"] if each["name"] == "relu")["points"] = [[1.0, 8.0, 8.0, *range(5)]]
    with pytest.raises(CostError, match=r"the points of 'relu' in the calibration have 5 coordinates, not 4"):
        time_of(relu("a", 8), device=calibrated_device(changed))


def old_table():
    """The calibration as the first format had it: one error per family, and one for all others."""
    families = [
        {"name": name, "kind": kind, "error": 0.01, "points": [*points]}
        for name, kind, points in (
            ("relu", "arithmetic", ([1e-6 + 8 * 2**i / 1e12, 2**i, 8 * 2**i, i, i + 3, 0, 0] for i in range(6, 30))),
            (
                "conv kxk",
                "product",
                ([2e-12 * 2**i, 2**i, 2**i / 9, i - 8, 2, 2, 2, 0, 0, 0, 0] for i in range(20, 40)),
            ),
        )
    ]
    kept = {key: value for key, value in table().items() if key not in ("errors_of_other_families", "family")}
    return {**kept, "format": 1, "error_of_other_families": 0.5, "family": families}


def test_files_of_the_first_format_are_read_and_their_errors_are_found_again():
    """24 calls take exactly 1 µs and 8 bytes per element at 1 TB/s: the stated error of 0.01 is not read."""
    device = calibrated_device(old_table())
    near, far = (time_of(relu("a", width), device=device) for width in (1024, 2**60))
    assert near.seconds == pytest.approx(1e-6, rel=0.02)
    assert near.error == 0.04  # that of the sweep: these points err by less
    assert far.error is None


def test_a_call_of_three_dimensions_is_no_call_of_two():
    """A file that was measured before convolutions had ranks says nothing of those of other ranks."""
    shape, settings = (1, 4, 8, 8, 8), {"kernel": (3, 3, 3), "stride": (1, 1, 1), "groups": 1}
    layer = Layer("conv", {"x": Tensor(shape), "w": Tensor((4, 4, 3, 3, 3))}, [Tensor(shape)], settings)
    calibration, _ = from_toml(old_table(), "old")
    place = signature_of(Call(layer, "conv"), Cost(Operations(fma=221184), 4000, 4000, {}, 221184))
    assert place.family == "conv kxk 3d"
    assert calibration.estimate(place).distance is None


def test_conditions_are_in_the_table():
    for name, value in vars(CONDITIONS).items():
        assert table()[name] == value
