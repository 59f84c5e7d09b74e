"""Assignments to parts of tensors, and tensors of one number, as ``torch.export``-based exporters write them."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto

from costcore import estimate
from tests.frontends.onnx.regroup.decompositions import FLOAT, Spelled, from_operation, is_as_before, priced

X = {"x": (6, 8), "v": (FLOAT, ())}
ROWS, COLUMNS = "0, 2, 5", "1, 1, 4"


def note(result: str, name: str, *args: str) -> str:
    """What the exporter notes of an operation."""
    call = f"target=torch.ops.aten.{name}](args = ({', '.join(args)}), kwargs = {{}})"
    return f"%{result} : [num_users=1] = call_function[{call}"


class Noted(Spelled):
    """A graph whose nodes all are given the note of the moment."""

    def __init__(self) -> None:
        super().__init__()
        self.note, self.notes = "", []

    def __call__(self, op: str, *inputs: str, **settings: Any) -> Any:
        self.notes.append(self.note)
        return super().__call__(op, *inputs, **settings)

    def noted(self, y: str, line: str = "") -> ModelProto:
        return from_operation(self.model(X, y), *self.notes, line=line)

    def part(self, x: str, axis: int, start: int, stop: int) -> str:
        return self("Slice", x, *(self.number(i) for i in (start, stop, axis)))

    def places(self, x: str, axis: int, start: int, stop: int) -> str:
        """Places of an axis, counted up."""
        zero, one = (self.number(i, scalar=True) for i in (0, 1))
        count = self("Gather", self("Shape", x), self.number(axis, scalar=True))
        places = self("Slice", self("Range", zero, count, one), *(self.number(i) for i in (start, stop, 0)))
        return self("Unsqueeze", places, self.number(-1))


def assigned(
    part: tuple[str, ...] = ("%x", ROWS),
    write: str = "fill.Tensor",
    into: tuple[str, ...] = ("%x", "%fill", ROWS),
    reduction: str = "none",
    other: str = "",
) -> ModelProto:
    """``x[2:5] = v``, or whatever notes say that it was."""
    g = Noted()
    g.note = note("slice_1", "slice.Tensor", *part)
    rows = g.part("x", 0, 2, 5)
    g.note = note("fill", write, "%slice_1", "%v")
    filled = g("Expand", "v", g("Shape", rows))
    g.note = note("slice_scatter", "slice_scatter.default", *into)
    places = g.places("x", 0, 2, 5)
    g.note = other or g.note
    return g.noted(g("ScatterND", "x", places, filled, reduction=reduction))


def kinds(made: ModelProto) -> list[str]:
    return [row[0] for row in priced(estimate(made, regroup=True)) if row[0] not in ("slice", "broadcast_to")]


@pytest.mark.parametrize(("write", "before"), [("fill.Tensor", ["full"]), ("copy.default", [])])
def test_an_assignment_to_a_part_moves_the_part(write, before):
    report = estimate(assigned(write=write), regroup=True)
    assert priced(report)[-1] == ("assign", 0, 4 * 3 * 8, 4 * 3 * 8)
    assert kinds(assigned(write=write)) == [*before, "assign"]
    # one number that is assigned to a part fills it, which is no mere move
    free = estimate(assigned(write=write), regroup=True, layout="free").total_report
    assert free["mrw"] == 4 * 3 * 8 * len(before)
    assert any(note.startswith("regrouped as assign: ") for note in report.notes)


@pytest.mark.parametrize("copied", ["%copy", "%copy_12"])
def test_a_copy_that_has_no_node_is_known_by_its_name(copied):
    assert priced(estimate(assigned(into=("%x", copied, ROWS)), regroup=True))[-1] == (
        "assign",
        0,
        4 * 3 * 8,
        4 * 3 * 8,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"part": ("%x", "0, 1, 4")},
        {"part": ("%x", "0, 2, 5, 2")},
        {"part": ("%other", ROWS)},
        {"into": ("%x", "%v", ROWS)},
        {"into": ("%x", "%slice_1", ROWS)},
        {"into": ("%other", "%fill", ROWS)},
        {"into": ("%x", "%copy_of_rows", ROWS)},
        {"into": ("%x",)},
        {"write": "zeros_like.default"},
        {"write": "add.Tensor"},
        {"reduction": "add"},
        {"other": note("slice_scatter", "index_put.default", "%x", "%fill", ROWS)},
        {"other": "nothing of this kind"},
    ],
)
def test_other_programs_ask_for_a_scatter(options):
    assert is_as_before(assigned(**options), "assign")


def nested(rows_again: str = ROWS) -> ModelProto:
    """``x[2:5, 1:4] = v``: columns are scattered into a copy of the rows, which are taken again for it."""
    g = Noted()
    g.note = note("slice_1", "slice.Tensor", "%x", ROWS)
    rows = g.part("x", 0, 2, 5)
    g.note = note("slice_2", "slice.Tensor", "%slice_1", COLUMNS)
    part = g.part(rows, 1, 1, 4)
    g.note = note("fill", "fill.Tensor", "%slice_2", "%v")
    filled = g("Expand", "v", g("Shape", part))
    g.note = note("slice_3", "slice.Tensor", "%x", rows_again)
    rows = g.part("x", 0, 2, 5)
    g.note = note("slice_scatter", "slice_scatter.default", "%slice_3", "%fill", COLUMNS)
    turned = (g("Transpose", value, perm=[1, 0]) for value in (rows, filled))
    rows = g("ScatterND", next(turned), g.places(rows, 1, 1, 4), next(turned))
    rows = g("Transpose", rows, perm=[1, 0])
    g.note = note("slice_scatter_1", "slice_scatter.default", "%x", "%slice_scatter", ROWS)
    return g.noted(g("ScatterND", "x", g.places("x", 0, 2, 5), rows))


def test_parts_of_parts_are_assigned_to():
    assert kinds(nested()) == ["full", "assign", "assign"]
    assert estimate(nested(), regroup=True, layout="free").total_report["mrw"] == 4 * 3 * 3
    assert is_as_before(nested("0, 1, 4"), "assign")


def test_one_place_is_assigned_to():
    def made(place: str) -> ModelProto:
        g = Noted()
        g.note = note("select_1", "select.int", "%x", "0, 3")
        row = g("Gather", "x", g.number(3, scalar=True))
        g.note = note("copy", "copy.default", "%select_1", "%v")
        copied = g("Expand", "v", g("Shape", row))
        g.note = note("select_scatter", "select_scatter.default", "%x", "%copy", place)
        copied = g("Unsqueeze", copied, g.number(0))
        places = g("Expand", g.number(3, scalar=True), g("Shape", copied))
        return g.noted(g("ScatterElements", "x", places, copied, axis=0))

    report = estimate(made("0, 3"), regroup=True)
    assert priced(report)[-1] == ("assign", 0, 4 * 8, 4 * 8)
    assert is_as_before(made("0, 2"), "assign")


def zeros(line: str = "", name: str = "zeros.default", is_written: bool = False, shape: str = "") -> ModelProto:
    """A tensor of zeros, of which a part may be assigned to."""
    g = Noted()
    g.note = note("zeros", name, "[6, 8]")
    base = g("CastLike", g("Expand", g.scalar(0.0), shape or g.number(6, 8)), "x")
    if is_written:
        g.note = note("slice_1", "slice.Tensor", "%zeros", ROWS)
        rows = g.part(base, 0, 2, 5)
        g.note = note("fill", "fill.Tensor", "%slice_1", "%v")
        filled = g("Expand", "v", g("Shape", rows))
        g.note = note("slice_scatter", "slice_scatter.default", "%zeros", "%fill", ROWS)
        base = g("ScatterND", base, g.places(base, 0, 2, 5), filled)
    g.note = note("add", "add.Tensor", "%x", "%zeros")
    return g.noted(g("Add", "x", base), line)


ADDED = ("add", 48, 2 * 4 * 48, 4 * 48)


@pytest.mark.parametrize("line", ["x + torch.zeros(6, 8)", "mask = zeros((6, 8), device=x.device)"])
def test_zeros_that_the_program_makes_are_written(line):
    assert priced(estimate(zeros(), regroup=True))[-1] == ADDED
    assert priced(estimate(zeros(line), regroup=True)) == [("full", 0, 0, 4 * 48), ADDED]


@pytest.mark.parametrize(("line", "rows"), [("x[torch.arange(6)]", ["arange"]), ("F.grid_sample(x, y)", [])])
def test_what_the_program_counts_up_is_written(line, rows):
    g = Noted()
    g.note = note("arange", "arange.default", "6")
    y = g("Range", *(g.number(i, scalar=True) for i in (0, 6, 1)))
    g.note = note("index", "index.Tensor", "%x", "[%arange]")
    report = estimate(g.noted(g("Gather", "x", y), line), regroup=True)
    assert [row for row in priced(report) if row[0] == "arange"] == [("arange", 0, 0, 8 * 6) for _ in rows]
