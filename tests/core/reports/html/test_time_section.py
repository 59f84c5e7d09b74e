"""The section with the time of a run: the places of dots and roofs, by hand on a device with round rates."""

from __future__ import annotations

import re
from math import log10
from xml.etree import ElementTree

import pytest

from costcore import CostError, Layer, Operations, Tensor
from costcore.ir import Cost
from tests.core import html_reports
from tests.core.analyses.timing.toy_device import TOY, calibrated_device
from tests.core.given_costs import dense, net, relu
from tests.core.traces import Call, Recorder, report_of


def timed(*steps, **options):
    return net(*steps, framework="torch").time(TOY, **options)


def section_of(time):
    """Return the section of the page, and its roofline."""
    (section,) = re.findall(r"<section id='time' .*?</section>", time.to_html(), re.DOTALL)
    return section


def legend(time):
    """Return the text of the legend by limit."""
    return dict(re.findall(r"<rect class='(\w+)' width='1' height='1'/></svg>(.*?)</span>", section_of(time)))


def roofs(time):
    """Return the names of the roofs, as they stand on their lines."""
    return re.findall(r"<line class='roof .*?<text class='label'[^>]*>([^<]*)<", section_of(time))


def test_a_dot_is_the_speed_of_the_bound():
    report = net(dense("a", 1000), relu("b", 1000), framework="torch")
    _, intensity, rate, _, _ = next(row for row in report.plot("roofline", device=TOY) if row[0] == "linear-1")
    # 2e6 FLOP; of 4,004,000 bytes read and 4,000 written memory delivers 3,004,000 in 3.004 µs
    assert intensity == pytest.approx(2e6 / 3_004_000)
    assert rate == pytest.approx(2e6 / 3.004e-6)


def test_the_roofs_are_those_of_the_dtypes_of_the_run():
    time = timed(dense("a", 1000), dtype="float16")
    assert legend(time) == {"matrix": "matrix", "vector": "vector", "dram": "dram binds 100% of the time"}
    assert roofs(time) == ["matrix 8 TFLOP/s, float16", "vector 2 TFLOP/s, float16", "dram 1 TB/s"]


def test_roofs_meet_at_their_ridges():
    """At 1 TB/s the float16 engines of 2 and 8 TFLOP/s limit from 2 and 8 FLOP per byte on.

    The axes cover 0.01 to 100 and 1e12 to 1e14, a decade in 25 % of the width and 46 % of the height: the ridges are at
    50 + 25 * log10(2) = 57.53 % and 50 + 25 * log10(8) = 72.58 %, 92 - 46 * log10(2) = 78.15 % and 50.46 % down.
    """
    section = section_of(timed(dense("a", 1000), dtype="float16"))
    lines = re.findall(r"<line class='roof (\w+)' x1='(.*?)%' y1='(.*?)%' x2='(.*?)%' y2='(.*?)%'>", section)
    assert {name: [float(each) for each in places] for name, *places in lines} == {
        "vector": pytest.approx([57.53, 78.15, 100, 78.15]),
        "matrix": pytest.approx([72.58, 50.46, 100, 50.46]),
        "dram": pytest.approx([50, 92, 72.58, 50.46]),
    }


def test_products_in_float32_have_the_roof_of_tf32_only_where_it_is_allowed():
    assert roofs(timed(dense("a", 1000), tf32=["matmul"]))[0] == "matrix 4 TFLOP/s, tfloat32"
    assert "matrix" not in legend(timed(dense("a", 1000)))  # a linear layer of PyTorch is not rounded by default
    assert "matrix" not in legend(timed(dense("a", 1000), tf32=["conv"]))


def test_dots_lie_where_the_axes_say():
    text = section_of(timed(dense("a", 1000)))
    # 0.666 FLOP per byte at 6.66e11 FLOP/s; the axes cover 0.01 to 10 and 1e11 to 1e13, as the highest roof is 1e12
    x, y = map(float, re.search(r"<circle class='dram' cx='([\d.]+)%' cy='([\d.]+)%' r='14.0'>", text).groups())
    assert x == pytest.approx(100 / 3 * (log10(0.6658) + 2), abs=0.02)
    assert y == pytest.approx(92 * (13 - log10(6.66e11)) / 2, abs=0.02)
    assert "<text x='66.67%' y='98%' text-anchor='middle'>1</text>" in text
    assert "<text x='4' y='46.00%' dy='-4'>1 TFLOP/s</text>" in text
    assert "linear-1: at least 3.004 µs, bound by dram, 0.666 FLOP per byte" in text


def test_the_section_states_totals_rows_and_what_they_mean():
    section = section_of(timed(dense("a", 1000), relu("b", 1000)))
    assert "<dt>At least</dt><dd>3.006 µs</dd><dd class='note'>one kernel per call</dd>" in section
    (row,) = re.findall(r"<tr><td>linear</td>.*?</tr>", section)
    assert re.findall(r">([^<>]+)<", row) == ["linear", "1", "3.004 µs", "99.9%", "dram"]
    assert "bound: lower bound on toy with one kernel per call" in section


def test_the_types_with_the_largest_bounds_come_first_and_the_others_are_summed():
    """Twelve types have rows; of fifteen, the others move 2 * (4 + 8 + 12) thousand bytes in the cache, at 4 TB/s."""
    section = section_of(timed(*(relu(f"m{n}", 1000 * n, type=f"type{n:02}") for n in range(1, 16))))
    assert re.findall(r"<tr><td>(\w+)</td>", section) == [*(f"type{n:02}" for n in range(15, 3, -1)), "others"]
    assert re.search(r"<td>others</td><td class='n'>3</td><td class='n'[^>]*>12.00 ns</td>", section)


@pytest.mark.parametrize(
    ("n_float32", "n_float16", "label"), [(10, 1000, "2 TFLOP/s, float16"), (1000, 10, "1 TFLOP/s, float32")]
)
def test_the_roof_is_that_of_the_dtype_with_the_most_operations(n_float32, n_float16, label):
    assert f"vector {label}" in roofs(html_time(n_float32, n_float16))


def html_time(n_float32, n_float16):
    """The time of two activations, in float32 and in float16."""
    recorder = Recorder()
    for dtype, n in (("float32", n_float32), ("float16", n_float16)):
        tensor = Tensor((n,), dtype)
        layer = recorder.intern(Layer("relu", {"x": tensor}, [tensor]))
        recorder.record(Call(layer, "relu"), Cost(Operations(cmp=n), tensor.nbytes, tensor.nbytes, {}))
    return report_of(recorder).time(TOY)


def test_a_run_without_work_has_no_section_of():
    assert "<svg" not in section_of(net().time(TOY))
    assert "At least" in section_of(net().time(TOY))


def test_the_page_contains_the_section_only_if_a_run_was_timed(tmp_path):
    time = timed(dense("a", 1000))
    page = time.to_html(tmp_path / "page.html", title="Mine")
    assert (tmp_path / "page.html").read_text() == page
    assert "<h1><bdi>Mine</bdi></h1>" in page and "id='roofline'" in page and "#roofline {" in page
    assert "id='roofline'" not in html_reports.small().to_html()


def test_hostile_names_stay_text():
    records = [html_reports.call("mul", "", 10, 5_000_000, 8, name=name) for name in html_reports.HOSTILE]
    section = section_of(html_reports.report(records).time(TOY))
    assert "<script" not in section and "<img" not in section


def test_dots_at_one_place_are_one_with_their_number():
    """Activations have one intensity and one rate, whatever their size; twelve equal products have another."""
    text = section_of(timed(*(relu("b", 10**5 + i) for i in range(12)), *(dense("a", 1000) for _ in range(12))))
    assert re.findall(r"<circle class='(\w+)' cx='", text) == ["dram", "vector"]
    assert "12 dots here, 36.048 µs together" in text and ">×12</text>" in text


def test_the_roofline_is_also_a_picture_of_its_own(tmp_path):
    time = timed(dense("a", 1000), relu("b", 1000))
    drawing = time.to_svg(tmp_path / "time.svg")
    assert (tmp_path / "time.svg").read_text() == drawing
    root = ElementTree.fromstring(drawing)
    circles = [each.get("class") for each in root.iter("{http://www.w3.org/2000/svg}circle")]
    assert sorted(circles) == sorted(["dram", "vector", "dram", "vector"])  # dots and legend
    assert all(f"circle.{name}{{" in drawing and f"line.{name}{{" in drawing for name in circles)


def test_a_run_without_work_cannot_be_drawn():
    with pytest.raises(CostError, match="there is nothing to draw"):
        net().time(TOY).to_svg()


def test_a_calibrated_device_has_a_usual_time_with_its_error():
    time = net(relu("b", 1000), framework="torch").time(calibrated_device())
    assert time.seconds > time.bound_seconds
    section = section_of(time)
    assert re.search(r"<dt>Calibrated</dt><dd>[\d.]+ (µs|ns)</dd>", section)
    assert "<dd class='note'>estimated on this device, ± 70%</dd>" in section  # the error of relu in the file


def cells(table):
    """The text of each cell of a table, by row; the first row is its head."""
    return [
        re.findall(r"<t[hd][^>]*>(?:<svg.*?</svg><span>)?([^<]*)(?:</span>)?</t[hd]>", row)
        for row in re.findall(r"<tr>(.*?)</tr>", table)
    ]


def test_a_calibrated_device_has_its_time_by_type():
    """relu of 1024 elements takes 1 µs as measured; the product 1 µs more than its 4 (1024² + 2048) bytes at 1e12."""
    time = net(dense("a", 1024), relu("b", 1024), framework="torch").time(calibrated_device())
    head, *rows = cells(section_of(time))
    assert head[:3] == ["Layer type", "# Groups", "Calibrated"]
    by_type = {row[0]: row[2] for row in rows}
    assert by_type["relu"] == "1.000 µs"
    assert by_type["linear"] == "5.202 µs"


def test_a_device_without_calibration_has_no_column_of_it():
    head, *rows = cells(section_of(timed(dense("a", 1000))))
    assert head == ["Layer type", "# Groups", "Bound", "Bound (%)", "Bound by"]
    assert {len(row) for row in rows} == {len(head)}
