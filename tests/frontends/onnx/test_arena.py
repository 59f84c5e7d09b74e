"""The memory of ONNX files: the hand graphs of the notes, whose figures were compared with ONNX Runtime's profile."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

from costcore import check, estimate
from costcore.errors import ArenaError, CostError
from tests.command_line import main
from tests.frontends.onnx.small_models import model, node
from tests.work import at_most

KIB = 1024


def zeros(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def graph(*nodes: Any, weights: tuple[Any, ...] = (), **inputs: Any) -> ModelProto:
    """A model that returns ``y``."""
    made = model(*nodes, **inputs)
    made.graph.initializer.extend(weights)
    return made


def chain() -> ModelProto:
    """x 4 x 32 -> MatMul 256 -> Relu -> MatMul 64 -> Relu -> MatMul 10."""
    return graph(
        node("MatMul", ["x", "w1"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("MatMul", ["b", "w2"], ["c"]),
        node("Relu", ["c"], ["d"]),
        node("MatMul", ["d", "w3"], ["y"]),
        weights=(zeros("w1", 32, 256), zeros("w2", 256, 64), zeros("w3", 64, 10)),
        x=(4, 32),
    )


def residual() -> ModelProto:
    """Four residual blocks, conv-relu-conv-add, 1 x 8 x 16 x 16."""
    nodes: list[Any] = []
    for i in range(4):
        x, y = "x" if i == 0 else f"y{i - 1}", "y" if i == 3 else f"y{i}"
        nodes += [
            node("Conv", [x, "w"], [f"a{i}"], pads=[1, 1, 1, 1]),
            node("Relu", [f"a{i}"], [f"b{i}"]),
            node("Conv", [f"b{i}", "w"], [f"c{i}"], pads=[1, 1, 1, 1]),
            node("Add", [f"c{i}", x], [y]),
        ]
    return graph(*nodes, weights=(zeros("w", 8, 8, 3, 3),), x=(1, 8, 16, 16))


def wide() -> ModelProto:
    """s (8 KiB) -> two 1 x 1 convolutions to 64 channels (64 KiB each, first both) -> back to 8 KiB -> Add."""
    return graph(
        node("Conv", ["x", "w0"], ["s"], pads=[1, 1, 1, 1]),
        node("Conv", ["s", "w1"], ["p"]),
        node("Conv", ["s", "w1"], ["q"]),
        node("Conv", ["p", "w2"], ["r"]),
        node("Conv", ["q", "w2"], ["t"]),
        node("Add", ["r", "t"], ["y"]),
        weights=(zeros("w0", 8, 8, 3, 3), zeros("w1", 64, 8, 1, 1), zeros("w2", 8, 64, 1, 1)),
        x=(1, 8, 16, 16),
    )


# by hand; ONNX Runtime 1.31 and 1.32 measured the in-place figure of the first,
# 24,576 for the second, and 81,920 for the third, which it runs depth first
@pytest.mark.parametrize(
    ("make", "peak", "inplace", "best", "weights"),
    [
        # Relu: 4 * 256 * 4 B twice; in place MatMul: 4 * 256 * 4 + 4 * 64 * 4
        (chain, 4096 + 4096, 4096 + 1024, 8192, 4 * (32 * 256 + 256 * 64 + 64 * 10)),
        (residual, 3 * 8 * KIB, 3 * 8 * KIB, 24576, 4 * 8 * 8 * 9),
        # the second convolution: s, p and q; depth first: s (or r), p and r (or t)
        (wide, 8 * KIB + 2 * 64 * KIB, 139264, 81920, 4 * (8 * 8 * 9 + 2 * 64 * 8)),
    ],
)
def test_hand_graphs(make, peak, inplace, best, weights):
    report = estimate(make())
    arena = report.arena()
    assert (arena.peak, arena.size, arena.weights) == (peak, peak, weights)
    assert arena.is_exact
    assert arena.lower_bound == best
    assert report.arena(align=16).size == peak
    assert report.arena(inplace=True).peak == inplace
    assert report.arena(inplace=True).lower_bound <= inplace
    assert report.arena(count_inputs=False).peak == peak, "no input is alive at the peak, or one more value could be"


def test_unknown_sizes_give_a_symbolic_peak_that_is_right_for_every_size():
    made = graph(
        node("Conv", ["x", "w"], ["a"]),
        node("ReduceMean", ["a"], ["b"], axes=[2, 3]),
        node("Conv", ["b", "v"], ["y"]),
        weights=(zeros("w", 2, 3, 1, 1), zeros("v", 500, 2, 1, 1)),
        opset=17,
        x=("n", 3, 8, "width"),
    )
    report = estimate(made)
    arena = report.arena()
    assert arena.symbols == ["n", "width"]
    # Conv: x and a, 4 * n * 8 * width * (3 + 2); last Conv: b and y, 4 * n * (2 + 500)
    assert str(arena.peak) == "Max(2008*n, 160*n*width)"
    for n, width in ((1, 1), (1, 12), (1, 13), (7, 100)):
        assert report.subs(n=n, width=width).arena().peak == max(2008 * n, 160 * n * width)
    assert report.subs(n=2, width=1).arena().size == 64 * -(-16 // 64) + 64 * -(-4000 // 64)
    remedy = r"Substitute them, as in report\.subs\(.*\)\.arena\(\), or --dim n=1 --dim width=1 on the command line"
    with pytest.raises(ArenaError, match=rf"a layout needs numbers, but sizes depend on n, width\. {remedy}"):
        _ = arena.size
    with pytest.raises(ArenaError, match="an order needs numbers"):
        _ = arena.lower_bound
    assert arena.to_dict()["peak"] == "Max(2008*n, 160*n*width)"
    assert arena.to_dict()["size"] is None


def test_the_table_lists_the_largest_values_with_their_places(capsys):
    estimate(wide()).show_arena(mode="csv", unit=None, top=2, columns=("name", "nbytes", "born", "dies", "at_peak"))
    assert capsys.readouterr().out.splitlines() == [
        "Value,Memory B,From,To,At peak",
        "Conv-2,65536,Conv-2,Conv-4,yes",
        "Conv-3,65536,Conv-3,Conv-5,yes",
        "others (5),40960,,,",
        "arena,139264,,,",
    ]
    estimate(chain()).show_arena(align=16)
    out = capsys.readouterr().out
    assert "flash (weights and constants): 100,864 B" in out
    assert "peak, in execution order: 8,192 B, at Relu-1" in out
    assert "peak SRAM (arena, aligned to 16): 8,192 B" in out
    assert "best order: 8,192 B" in out


def test_the_command_shows_the_arena_of_a_file(tmp_path, capsys):
    file = tmp_path / "chain.onnx"
    file.write_bytes(chain().SerializeToString())
    assert main([str(file), "--arena", "--inplace", "--align", "16"]) == 0
    out = capsys.readouterr().out
    assert "peak SRAM (arena, aligned to 16): 5,120 B" in out
    assert "element-wise results overwrite their operands" in out
    with pytest.raises(SystemExit):
        main([str(file), "--align", "16"])
    assert "--align requires --arena" in capsys.readouterr().err
    assert main([str(file), "--arena", "--align", "0"]) == 1
    assert "align must be at least 1 (got 0)" in capsys.readouterr().err


def test_a_budget_limits_the_arena():
    report = estimate(chain())
    assert check(report, {"total": {"arena": "8 KiB"}}) == []
    violation = check(report, {"total": {"arena": 8000}})
    assert [str(each) for each in violation] == ["total: 8,192 bytes of arena, limit 8,000, 192 over, 2.40 %"]
    grown = {"baseline": report, "total": {"max_increase": {"arena": "1%"}}}
    assert [each.value for each in check(estimate(wide()), grown)] == [139264]
    with pytest.raises(CostError, match="arena is known of the whole run only"):
        check(report, {"module": {"*": {"arena": 1}}})
    symbolic = estimate(graph(node("Relu", ["x"], ["y"]), x=("n", 4)))
    with pytest.raises(CostError, match="sizes depend on n"):
        check(symbolic, {"total": {"arena": "1 KiB"}})


def test_the_page_has_a_picture_of_the_arena():
    page = estimate(wide()).to_html()
    picture = page[page.index("<section id='arena'") : page.index('id="basis"')]
    assert picture.count("<rect class='value'") - 1 == 5, "x and y have another class; one more is in the key"
    assert "Conv-2: 65,536 B at" in picture
    assert "139,264 B, peak SRAM, aligned to 64 bytes" in picture
    symbolic = estimate(graph(node("Relu", ["x"], ["y"]), x=("n", 4))).to_html()
    assert "A layout needs numbers for the symbolic sizes" in symbolic


def test_calls_without_cost_have_no_place_in_the_picture_and_no_row_of_their_own():
    """x -> Identity -> Relu -> Identity -> Relu: two steps of 1000 / 2, x in the first, the first result in both."""
    nodes = [node("Identity", ["x"], ["a"]), node("Relu", ["a"], ["b"]), node("Identity", ["b"], ["c"])]
    report = estimate(graph(*nodes, node("Relu", ["c"], ["y"]), x=(2, 4)))
    page = report.to_html()
    picture = re.search(r"<svg id='arena-map'.*?</svg>", page, re.DOTALL)[0]
    places = re.findall(r"<rect class='\w+' x='(\d+)' y='[\d.]+' width='(\d+)'", picture)
    assert places == [("0", "500"), ("0", "1000"), ("500", "500")]
    assert ", Relu-1 to Relu-2</title>" in picture
    assert "Identity" not in picture
    assert "execution order without 2 calls that cost nothing" in page
    assert re.findall(r"^\| (\w+) +\| +(\d+)", str(report), re.MULTILINE) == [("Relu", "2"), ("others", "2")]


def test_work_of_a_file_grows_with_its_nodes():
    def work(n: int) -> int:
        nodes = [node("Relu", ["x" if i == 0 else f"a{i}"], ["y" if i == n - 1 else f"a{i + 1}"]) for i in range(n)]
        arena = estimate(graph(*nodes)).arena()
        with at_most(1_000_000) as counted:
            assert (arena.peak, arena.size, arena.lower_bound) == (32, 128, 32)
        return counted.calls

    assert work(2000) < 11 * work(200)
