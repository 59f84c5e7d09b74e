"""Pictures of reports: the rows that they show, by hand, and that text and marks are in the files."""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree

import pytest
import sympy

from costcore import CostError, fit
from tests.command_line import main
from tests.core import html_reports
from tests.core.analyses.timing.toy_device import TOY
from tests.core.given_costs import dense, net, relu
from tests.core.traces import Module
from tests.frameworks import optional


def small():
    """300 of 400 FLOPs in one module, of which 200 in its first child; a view without cost."""
    calls = [html_reports.call("mul", "large.a", 200, 8, 8), html_reports.call("add", "large.b", 100, 8, 8)]
    return html_reports.report(
        [*calls, html_reports.call("add", "small", 100, 4, 4), html_reports.call("v", "", 0, 0, 0)]
    )


def texts(svg):
    """The text elements of an SVG document."""
    return [" ".join(each.itertext()) for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_operators_are_bars_with_their_share():
    optional("matplotlib")
    picture = small().plot()
    assert picture == [("mul", 200), ("add", 200)]
    (axes,) = picture.figure().axes
    assert [bar.get_width() for bar in axes.patches] == [200, 200]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["mul", "add"]
    assert texts(picture._repr_svg_()).count("50.0%") == 2


def test_the_operators_beyond_the_last_bar_are_summed():
    """Twenty operators with 1 to 20 FLOPs: of 15 bars the least is 6, and 1 + … + 5 are 15."""
    optional("matplotlib")
    picture = html_reports.report([html_reports.call(f"op{n:02}", "", n, 4, 4) for n in range(1, 21)]).plot("operators")
    assert len(picture) == 20
    (axes,) = picture.figure().axes
    assert [bar.get_width() for bar in axes.patches][-2:] == [6, 15]
    assert axes.get_yticklabels()[-1].get_text() == "5 others"


def test_modules_lie_inside_their_parents_in_proportion():
    optional("matplotlib")
    picture = small().plot("modules")
    assert picture == [("", 0, 400), ("large", 1, 300), ("large.a", 2, 200), ("large.b", 2, 100), ("small", 1, 100)]
    (axes,) = picture.figure().axes
    boxes = [(box.get_x(), box.get_y(), box.get_height()) for box in axes.patches]
    assert boxes == [(0, 0, 400), (1, 0, 300), (2, 0, 200), (2, 200, 100), (1, 300, 100)]
    middles = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert middles == {"total 100.0%": 200, "large 75.0%": 150, "a 50.0%": 100, "b 25.0%": 250, "small 25.0%": 350}
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == ["mul", "add"]
    assert "large 75.0%" in texts(picture._repr_svg_())


def test_equal_modules_in_a_row_are_one_box():
    """Three blocks of an activation and a product each, 50 FLOPs, beside a head of 50, whose color is the product's."""
    parts = (("gelu", 10), ("linear", 40))
    calls = [html_reports.call(op, f"layers.{i}.{op}", flops, 8, 8) for i in range(3) for op, flops in parts]
    calls += [html_reports.call(op, "head", flops, 8, 8) for op, flops in parts]
    modules = {"": Module("Net"), **{f"layers.{i}": Module("Block") for i in range(3)}}
    report = html_reports.report(calls, modules=modules)
    assert report.plot("modules") == [
        *[("", 0, 200), ("layers", 1, 150), ("layers.0 to 2", 2, 150)],
        *[("layers.0.linear", 3, 120), ("layers.0.gelu", 3, 30), ("head", 1, 50)],
    ]
    optional("matplotlib")
    (axes,) = report.plot("modules").figure().axes
    assert "3 × Block 75.0%" in [text.get_text() for text in axes.texts]
    assert axes.get_title("left") == "Net"
    linear, gelu, head = (box.get_facecolor() for box in axes.patches[3:])
    assert head == linear != gelu


def test_no_dot_of_a_roofline_lies_above_its_roof_and_equal_layers_are_one():
    optional("matplotlib")
    steps = [step for i in range(4) for step in (dense(f"a{i}", 1000), relu(f"b{i}", 10**5))]
    picture = net(*steps, framework="torch").plot("roofline", device=TOY)
    assert all(rate <= min(1e12 * intensity, 1e12) * 1.0001 for _, intensity, rate, *_ in picture)
    (axes,) = picture.figure().axes
    assert sum(len(each.get_offsets()) for each in axes.collections) == 2
    assert [text.get_text() for text in axes.texts].count("×4") == 1  # the other dot is near


def test_fused_reports_and_conventions_have_pictures():
    """fvcore counts 1000 x 1000 MACs of the product and nothing of the activation, whose bytes fusion saves in part."""
    report = net(dense("a", 1000), relu("b", 1000), framework="torch")
    counted = report.under("fvcore").plot()
    assert counted == [("linear", 1_000_000)]
    if optional("matplotlib"):
        assert "MACs" in "".join(texts(counted._repr_svg_()))
    assert sum(row[1] for row in report.fused().plot(column="mrw")) == report.fused().total_report["mrw"]


def test_a_shared_parameter_is_in_one_module_and_operator():
    """Parameter 1 (1000) is in both, 2 (24) in the second."""
    calls = [html_reports.call("linear", "a", 8, 4, 4, 4, (1,)), html_reports.call("conv", "b", 8, 4, 4, 4, (1, 2))]
    report = html_reports.report(calls, parameters={1: 1000, 2: 24})
    assert report.plot("modules", column="n_params") == [("", 0, 1024), ("a", 1, 1000), ("b", 1, 24)]
    assert report.plot(column="n_params") == [("linear", 1000), ("conv", 24)]


def test_intensity_has_a_dot_per_call_with_flops_and_bytes():
    optional("matplotlib")
    picture = small().plot("intensity")
    assert [row[1:] for row in picture] == [("mul", 200, 16), ("add", 100, 16), ("add", 100, 8)]
    (axes,) = picture.figure().axes
    assert axes.collections[0].get_offsets().tolist() == [[16, 200], [16, 100], [8, 100]]
    assert [text.get_text() for text in axes.texts] == ["10"]  # FLOPs per byte; the dots have 6.25 and 12.5
    (low, high), ticks = axes.get_xlim(), axes.xaxis.get_major_formatter()
    shown = [ticks(value, None) for value in axes.get_xticks() if low <= value <= high]
    assert shown == ["8 B", "16 B"]
    many = [html_reports.call("mul", f"m{n}", n, 4, 4) for n in (4000, 16_000)]  # 500 and 2000 FLOPs per byte
    (axes,) = html_reports.report(many).plot("intensity").figure().axes
    assert [text.get_text() for text in axes.texts] == ["1k", "10k"]
    alike = html_reports.report([html_reports.call("mul", f"m{i}", 200, 8, 8) for i in range(3)])
    assert "×3" in texts(alike.plot("intensity")._repr_svg_())


def test_many_calls_are_a_small_file():
    """10,000 calls of which most differ."""
    optional("matplotlib")
    report = html_reports.many(10_000)
    assert len(report.plot("intensity")) == 9000  # a tenth has no FLOPs
    for kind in ("operators", "modules", "intensity"):
        assert len(report.plot(kind)._repr_svg_()) < 500_000


def test_memory_is_stacked_by_kind():
    """Live bytes of the calls: 1536, 2816 with a temporary of 256, 2176; see the table of :func:`html_reports.step`."""
    optional("matplotlib")
    picture = html_reports.step().plot("memory")
    assert picture.columns == ("call", "live", "parameter", "gradient", "saved", "temporary")
    assert picture == [(0, 1536, 1024, 0, 512, 0), (1, 2816, 1024, 1024, 512, 256), (2, 2176, 1024, 1024, 0, 128)]
    (axes,) = picture.figure().axes
    tops = [max(point[1] for path in area.get_paths() for point in path.vertices) for area in axes.collections]
    assert tops[-1] == 2816 / 1024  # KiB
    assert {"parameter", "gradient", "saved", "temporary", "peak"} <= set(texts(picture._repr_svg_()))


def test_what_fills_a_memory_is_stacked_up_to_its_limit():
    """2,816 of 4,096 bytes at the peak, beside a limit."""
    optional("matplotlib")
    picture = fit(html_reports.step(), None, "4 KiB", context=0).plot()
    parts = {"parameter": 1024, "gradient": 1024, "saved": 512, "temporary": 256}
    assert picture == [("memory", kind, nbytes) for kind, nbytes in parts.items()]
    (axes,) = picture.figure().axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0, 1), (1, 1), (2, 0.5), (2.5, 0.25)]
    assert [[*line.get_xdata()] for line in axes.lines] == [[4, 4]] and axes.get_xlabel() == "Memory (KiB)"
    assert {"memory", "limit", *parts} <= set(texts(picture._repr_svg_()))


def test_a_roofline_has_dots_and_roofs():
    optional("matplotlib")
    report = net(dense("a", 1000), relu("b", 10**5), framework="torch")
    picture = report.plot("roofline", device=TOY)
    # 2e6 FLOP; of 4,004,000 bytes read and 4,000 written memory delivers 3,004,000 in 3.004 µs
    (name, intensity, rate, binds, seconds) = next(row for row in picture if row[0].startswith("linear"))
    assert (name, binds) == ("linear-1", "dram")
    assert (intensity, rate, seconds) == pytest.approx((2e6 / 3_004_000, 2e6 / 3.004e-6, 3.004e-6))
    assert {"dram 1 TB/s", "vector 1 TFLOP/s, float32"} <= set(texts(picture._repr_svg_()))
    assert report.plot("roofline", device=TOY, dtype="float16") != picture


@pytest.mark.parametrize("kind", ["operators", "modules", "intensity"])
def test_names_of_a_model_are_only_text(kind):
    """They are neither formulas of matplotlib nor markup of SVG."""
    optional("matplotlib")
    names = ("$\\frac{", "_hidden", "<script>", "a&b", "right\u202eleft", "x" * 300)
    report = html_reports.report(html_reports.call(name, name.replace(".", "_"), 10, 4, 4) for name in names)
    svg = report.plot(kind)._repr_svg_()
    assert "<script" not in svg and "\u202e" not in svg
    assert max(map(len, texts(svg))) < 100


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_legible_on_the_background(theme):
    """The luminance of ink and paper differ by the 4.5 times that WCAG 2 asks for."""
    optional("matplotlib")
    from matplotlib.colors import to_rgb

    def luminance(color):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    figure = small().plot("intensity", theme=theme).figure()
    (axes,) = figure.axes
    for color in (axes.xaxis.label.get_color(), axes.get_yticklabels()[0].get_color(), axes.texts[0].get_color()):
        low, high = sorted((luminance(color), luminance(figure.get_facecolor())))
        assert (high + 0.05) / (low + 0.05) > 4.5


def test_files_of_all_types_and_equal_pictures_are_equal_files(tmp_path):
    optional("matplotlib")
    for name, start in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.csv", b"operator,flops\n")):
        small().plot(target=tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    small().plot(target=tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_rows_need_no_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    picture = small().plot("operators", target=tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text() == "operator,flops\nmul,200\nadd,200\n"
    assert picture._repr_svg_() is None
    with pytest.raises(CostError, match=r"needs matplotlib.*pip install matplotlib"):
        picture.save(tmp_path / "rows.svg")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kind": "bars"}, ValueError, "unknown kind of plot 'bars'"),
        ({"kind": "operator"}, ValueError, "operators"),
        ({"column": "flop"}, ValueError, "unknown column 'flop'"),
        ({"kind": "intensity", "column": "macs"}, ValueError, "a plot of kind 'intensity' has no column"),
        ({"kind": "sizes"}, ValueError, "over=… is needed for kind 'sizes'"),
        ({"kind": "modules", "over": "n"}, ValueError, "over=… is for kind 'sizes', not for kind 'modules'"),
        ({"kind": "roofline"}, ValueError, "device=… is needed for kind 'roofline'"),
        ({"at": {"n": 1}}, ValueError, "at=… and sizes=… need over=…"),
        ({"sizes": [1, 2]}, ValueError, "at=… and sizes=… need over=…"),
        ({"dtype": "float16"}, TypeError, "plot has no argument dtype"),
        ({"theme": "sepia"}, ValueError, "unknown theme 'sepia'"),
        ({"target": "a.gif"}, ValueError, "'a.gif' has an unknown suffix"),
        ({"kind": "memory"}, CostError, "memory was not recorded. Pass memory=True"),
    ],
)
def test_mistakes(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        small().plot(**options)


def test_symbolic_costs_and_empty_reports_cannot_be_drawn():
    n = sympy.Symbol("batch", integer=True, positive=True)
    symbolic = html_reports.report([html_reports.call("linear", "fc", 10 * n, 4 * n, 2 * n)])
    for kind in ("operators", "modules", "intensity"):
        with pytest.raises(CostError, match=r"needs numbers.*report\.subs"):
            symbolic.plot(kind)
        assert symbolic.subs(batch=2).plot(kind)
        empty = html_reports.report([]).plot(kind)
        assert empty == [] and empty._repr_svg_() is None


def test_the_command(tmp_path, capsys):
    saved, image = str(tmp_path / "report.json"), tmp_path / "a.svg"
    small().to_json(saved)
    assert main(["plot", saved]) == 0
    assert capsys.readouterr().out == "operator,flops\nmul,200\nadd,200\n"
    assert main(["plot", saved, "--kind", "modules", "--column", "mrw"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["module,depth,mrw", ",0,40"]
    if optional("matplotlib"):
        assert main(["plot", saved, "--theme", "dark", "--output", str(image)]) == 0
        assert "mul" in texts(image.read_text())
        absent = tmp_path / "none" / "a.png"
        assert main(["plot", saved, "--output", str(absent)]) == 1
        assert capsys.readouterr().err == f"costcore: {absent} cannot be written: No such file or directory\n"
    for mistake in (["--kind", "roofline"], ["--output", "a.gif"], ["--kind", "intensity", "--column", "macs"]):
        with pytest.raises(SystemExit) as failed:
            main(["plot", saved, *mistake])
        assert failed.value.code == 2
    assert main(["plot", saved, "--kind", "memory"]) == 1
    assert "memory was not recorded" in capsys.readouterr().err
