"""The options that make two reports equal."""

from __future__ import annotations

from costcore.cli.comparing import suggestion
from tests.core.given_costs import Step, dense, net, relu

TRANSPOSE = Step("transpose", mread=16, mwrite=16)
GELU = Step("gelu", add=20, mread=16, mwrite=16)
ERF = [Step(op, add=4, mread=16, mwrite=16) for op in ("div", "erf", "add", "mul", "mul")]
NET = net(dense("a"), GELU, dense("b"))


def never():
    raise AssertionError("no file needs to be read again")


def test_equal_reports_need_no_option():
    assert suggestion((NET, NET), never) == ""


def test_data_movement_that_differs_is_free_with_layout_free():
    moved = net(dense("a"), TRANSPOSE, GELU, dense("b"))
    assert suggestion((NET, moved), never) == "counted with --layout free, MACs, FLOPs and bytes are equal"
    assert suggestion((moved, NET), never) == "counted with --layout free, MACs, FLOPs and bytes are equal"


def test_an_operator_in_pieces_is_regrouped():
    pieces = net(dense("a"), *ERF, dense("b"))
    assert suggestion((NET, pieces), lambda: (NET, NET)) == "counted with --regroup, MACs, FLOPs and bytes are equal"
    assert suggestion((NET, pieces), None) == "", "neither side is a file that can be regrouped"


def test_both_options_may_be_needed():
    pieces, regrouped = net(dense("a"), TRANSPOSE, *ERF, dense("b")), net(dense("a"), TRANSPOSE, GELU, dense("b"))
    found = suggestion((NET, pieces), lambda: (NET, regrouped))
    assert found == "counted with --regroup --layout free, MACs, FLOPs and bytes are equal"


def test_nothing_is_suggested_where_no_option_helps():
    other = net(dense("a"), relu("a"), dense("b"))
    assert suggestion((NET, other), lambda: (NET, other)) == ""


def test_options_that_are_given_are_not_suggested():
    moved = net(dense("a"), TRANSPOSE, GELU, dense("b"), layout="free")
    free = net(dense("a"), GELU, dense("b"), layout="free")
    assert suggestion((free, moved), None) == "", "the given costs do not follow the layout"
