"""Which values are inputs, which axes are reported, and values that a run says little of."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costcore import Report, Trace
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.command_line import main
from tests.core.analyses.receptive_field.fields import read_inputs, receptive_fields
from tests.core.traces import Call, CallCost, Run


def call(op, reads, made, *, shape=(4, 6), name="", **more):
    """A call of operands, each an id with a shape, and outputs of one shape."""
    operands = {f"x{i}" if len(reads) > 1 else "x": Tensor(size, role=role) for i, (_, size, role) in enumerate(reads)}
    attrs = more.pop("attrs", {})
    layer = Layer(op, operands, [Tensor(shape) for _ in made], attrs)
    return Call(
        layer,
        op,
        name=name or f"{op}-{made[0] if made else 0}",
        inputs=tuple(i for i, *_ in reads),
        outputs=made,
        **more,
    )


def data(identity, shape=(4, 6)):
    return identity, shape, "data"


def trace(*calls, **recorded):
    return Trace(tuple(CallCost(each, None) for each in calls), Run().recording(**recorded))


def test_without_recorded_inputs_what_no_call_produces_may_be_one():
    run = trace(call("add", [data(1), (2, (4, 6), "param")], (5,)), call("add", [data(5), data(3)], (6,)), buffers=(3,))
    assert read_inputs(run) == [1]
    assert read_inputs(trace(*run.calls, inputs=(3, 1))) == [1, 3]


def test_what_calls_outside_of_modules_create_is_an_input_if_nothing_else_is():
    made = call("random", [], (5,))
    inside = call("full", [], (6,), module="body")
    unread = call("full", [], (7,))
    run = trace(made, inside, unread, call("add", [data(5), data(6)], (8,)))
    assert read_inputs(run) == [5]


def test_operands_without_an_id_and_other_inputs_say_nothing():
    run = trace(call("add", [data(1), data(0)], (5,)), call("add", [data(5), data(2)], (6,)), inputs=(1, 2))
    assert not any(field.unknown_by for field in receptive_fields(run).values())
    lost = trace(call("add", [data(1), data(9)], (5,)), inputs=(1,))
    assert receptive_fields(lost)["add-5"].unknown_by == "add-5 reads a value that no recorded call produces"


def test_a_produced_value_read_in_another_shape_is_unknown():
    run = trace(call("relu", [data(1)], (5,)), call("relu", [data(5, (6, 4))], (6,), shape=(6, 4)), inputs=(1,))
    assert receptive_fields(run)["relu-6"].unknown_by == "relu-6 (reads a value in another shape)"
    assert not receptive_fields(run)["relu-5"].unknown_by


def test_calls_without_outputs_and_of_other_phases_have_no_field():
    run = trace(
        call("print", [data(1)], ()),
        call("relu", [data(1)], (5,)),
        call("relu", [data(5)], (6,), phase="backward"),
        call("relu", [data(5)], (7,), phase="recompute"),
        inputs=(1,),
    )
    fields = receptive_fields(run)
    assert list(fields) == ["relu-5", "relu-7"] and len(fields) == 2
    with pytest.raises(KeyError):
        fields["print-0"]


def test_what_is_written_in_place_into_a_part_loses_the_whole():
    """Memory 50: the copy writes what depends on the input into a view of a buffer, and the buffer is read later."""
    view = call("view", [data(3)], (5,), shape=(2, 6), attrs={"axis": (0,), "start": (0,), "step": (1,)})
    run = trace(
        view._replace(storages=(50, 50)),
        call("copy", [data(1, (2, 6))], (6,), shape=(2, 6))._replace(storages=(51, 50)),
        call("relu", [data(3)], (7,))._replace(storages=(50, 52)),
        inputs=(1,),
        buffers=(3,),
    )
    assert receptive_fields(run)["relu-7"].unknown_by == "copy-6 (writes in place into a part of another value)"
    both = trace(
        call("relu", [data(1)], (3,))._replace(storages=(49, 50)),
        view._replace(storages=(50, 50)),
        call("exp", [data(1, (2, 6))], (6,), shape=(2, 6))._replace(storages=(49, 50)),
        call("relu", [data(3)], (7,))._replace(storages=(50, 52)),
        inputs=(1,),
    )
    assert receptive_fields(both)["relu-7"].unknown_by == "exp-6 (writes in place into a part of another value)"


def test_a_function_in_place_keeps_what_views_of_its_operand_see():
    first = call("relu", [data(1)], (5,))._replace(storages=(49, 50))
    view = call("view", [data(5)], (6,))._replace(storages=(50, 50))
    again = call("exp", [data(5)], (7,))._replace(storages=(50, 50))
    fields = receptive_fields(trace(first, view, again, call("add", [data(6), data(7)], (8,)), inputs=(1,)))
    assert not any(field.unknown_by for field in fields.values())


def test_every_value_in_memory_is_lost_that_is_written_over_again():
    """Three values in memory 50, one after the other, which are read at the end."""
    made = [call(op, [data(1)], (i,))._replace(storages=(49, 50)) for op, i in (("relu", 5), ("exp", 6), ("tanh", 7))]
    fields = receptive_fields(trace(*made, *(call("neg", [data(i)], (10 + i,)) for i in (5, 6, 7)), inputs=(1,)))
    unknown = {name: field.unknown_by.partition(" ")[0] for name, field in fields.items() if field.unknown_by}
    assert unknown == {"neg-15": "exp-6", "neg-16": "tanh-7"}


@pytest.mark.parametrize("aligned", [False, True])
def test_a_resize_of_4096_phases_is_the_finest(aligned):
    settings = {"mode": "nearest", "align_corners": aligned, "axes": (0,)}

    def unknown(size, new):
        made = call("resize", [data(1, (size,))], (5,), shape=(new,), attrs=settings)
        return receptive_fields(trace(made, inputs=(1,)))["resize-5"].unknown_by

    assert unknown(4096 - 1, 4096) == ""
    assert unknown(4096, 4096 + 1) == "resize-5 (the pattern repeats after too many positions)"


@pytest.mark.parametrize(("first", "padding"), [(3, 3), (4, -4), (5, -3)])
def test_a_cyclic_shift_by_parts_is_that_of_the_larger_part_or_of_the_first(first, padding):
    """The last 3, 4 or 5 of 8 positions come before the others.

    Position 3 is the first of the larger part behind 3 and sees 0; of parts of 4, position 0 sees 4; of 5, it sees 3.
    """
    cut = 8 - first
    slices = [{"axis": (0,), "start": (a,), "stop": (b,), "step": (1,)} for a, b in ((cut, 8), (0, cut))]
    run = trace(
        call("slice", [data(1, (8,))], (5,), shape=(first,), attrs=slices[0]),
        call("slice", [data(1, (8,))], (6,), shape=(cut,), attrs=slices[1]),
        call("concat", [data(5, (first,)), data(6, (cut,))], (7,), shape=(8,), attrs={"axis": 0}),
        inputs=(1,),
    )
    found = receptive_fields(run)["concat-7"]
    assert (found.padding, found.size, found.wrapped_by) == ((padding,), (1,), "concat-7")


@pytest.mark.parametrize("op", ["max_pool", "conv_transpose"])
def test_windows_of_one_element_keep_parts_of_positions(op):
    """12 positions as 3 rows of 4: the element (1, 2) is position 6. A window of 2 along a row meets no whole row."""
    x, w = (1, 2, 12), {} if op == "max_pool" else {"w": Tensor((2, 2, 1, 1), role="param")}

    def field(kernel, columns):
        windows = {"kernel": kernel, "stride": (1, 1), "padding": (0, 0)}
        layer = Layer(op, {"x": Tensor((1, 2, 3, 4)), **w}, [Tensor((1, 2, 3, columns))], windows)
        made = Call(layer, op, name=op, inputs=(5, 9)[: 1 + len(w)], outputs=(6,))
        run = trace(call("reshape", [data(1, x)], (5,), shape=(1, 2, 3, 4)), made, inputs=(1,))
        return receptive_fields(run, axes=(2,))[op]

    assert field((1, 1), 4).region(1, 2) == ((6, 6),)
    columns = 3 if op == "max_pool" else 5
    assert field((1, 2), columns).unknown_by == f"{op} (a window over a part of positions)"


def test_a_sum_with_the_mean_of_the_middle_parts():
    """24 positions as 2 blocks of 3 rows of 4: the mean of a column of a block sees 9 positions, from its first row on.

    The element (1, 1, 2) is position 12 + 4 + 2; the column 2 of block 1 has the positions 14, 18 and 22.
    """
    whole, column = (2, 3, 4), (2, 1, 4)
    run = trace(
        call("reshape", [data(1, (24,))], (5,), shape=whole),
        call("reduce_mean", [data(5, whole)], (6,), shape=column, attrs={"axis": 1}),
        call("add", [data(5, whole), data(6, column)], (7,), shape=whole),
        inputs=(1,),
    )
    fields = receptive_fields(run)
    assert fields["reduce_mean-6"].region(1, 2) == ((14, 22),)
    found = fields["add-7"]
    assert [found.region(*at) for at in ((0, 0, 0), (0, 2, 3), (1, 1, 2))] == [((0, 8),), ((3, 11),), ((14, 22),)]
    assert (found.size, found.stride, found.global_by) == ((9,), (1,), ("",))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_resize_of_one_position_repeats_it(mode):
    """One window of four positions, three times: a stride of 4 between windows would be 4/3 between the elements."""
    run = trace(
        call("max_pool", [data(1, (1, 1, 4))], (5,), shape=(1, 1, 1), attrs={"kernel": (4,), "stride": (4,)}),
        call("resize", [data(5, (1, 1, 1))], (6,), shape=(1, 1, 3), attrs={"mode": mode}),
        inputs=(1,),
    )
    found = receptive_fields(run, axes=(2,))["resize-6"]
    assert [found.region(at) for at in range(3)] == [((0, 3),)] * 3
    assert (found.stride, found.bounded_by) == ((Fraction(4, 3),), "")


def test_neither_conventions_nor_fusion_change_receptive_fields(tmp_path, capsys):
    counted = Cost(Operations(cmp=24), 96, 96, {})
    run = trace(call("relu", [data(1)], (5,)), inputs=(1,))
    path = str(tmp_path / "report.json")
    Report(Trace((run.records[0]._replace(cost=counted),), run.run)).save(path)
    assert main([path, "--receptive-field", "--format", "csv", "--convention", "fvcore"]) == 0
    assert "MACs (fvcore" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([path, "--receptive-field", "--fusion", "pointwise"])
    assert "--fusion cannot be used with --receptive-field, which fusion does not change" in capsys.readouterr().err


def test_rows_that_are_added_to_positions_see_nothing():
    """6 positions as 2 rows of 3, and a row of padding before and after: the element (1, 1) is position 1."""
    run = trace(
        call("reshape", [data(1, (6,))], (5,), shape=(2, 3)),
        call("pad", [data(5, (2, 3))], (6,), shape=(4, 3), attrs={"before": (1, 0)}),
        inputs=(1,),
    )
    found = receptive_fields(run)["pad-6"]
    regions = [found.region(row, column) for row, column in ((0, 0), (0, 2), (1, 1), (2, 2), (3, 0), (3, 1))]
    assert regions == [(None,), (None,), ((1, 1),), ((5, 5),), (None,), (None,)]


@pytest.mark.parametrize(
    ("op", "antialias", "region"),
    [
        ("resize", False, (2, 3)),
        ("resize", True, (1, 4)),
        ("antialiased_resize", False, (1, 4)),
        ("antialiased_resize", True, (1, 4)),
    ],
)
def test_antialiasing_widens_the_kernel_of_a_reduction(op, antialias, region):
    """8 elements as 4: sample 1 is at 2.5, between 2 and 3; a kernel twice as wide reaches less than 2 from there."""
    made = call(op, [data(1, (8,))], (5,), shape=(4,), attrs={"mode": "linear", "antialias": antialias, "axes": (0,)})
    assert receptive_fields(trace(made, inputs=(1,)))[f"{op}-5"].region(1) == (region,)


@pytest.mark.parametrize(
    ("shapes", "followed", "kept", "combined"),
    [
        (((4,), (2, 4, 5), (2, 5)), 1, (0, 2), 1),
        (((2, 3, 4), (4,), (2, 3)), 0, (0, 1), 2),
        (((3, 4), (2, 4, 5), (2, 3, 5)), 1, (0, 2), 1),
        (((2, 3, 4), (4, 5), (2, 3, 5)), 0, (0, 1), 2),
        (((6, 1, 3, 4), (2, 4, 5), (6, 2, 3, 5)), 0, (0, 2), 3),
    ],
)
def test_products_of_vectors_and_of_batches_of_matrices(shapes, followed, kept, combined):
    """An axis of 4 is combined; along the other two each position of the result sees one of the operand."""
    *operands, shape = shapes
    reads = [(i + 1, size, "data" if i == followed else "param") for i, size in enumerate(operands)]
    run = trace(call("matmul", reads, (5,), shape=shape), inputs=(followed + 1,))
    found = receptive_fields(run, axes=kept)["matmul-5"]
    assert found.region(1, 2) == ((1, 1), (2, 2)) and found.global_by == ("", "")
    assert receptive_fields(run, axes=(combined,))["matmul-5"].global_by == ("matmul-5",)
