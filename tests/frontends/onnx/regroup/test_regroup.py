"""Operators that exporters decompose are counted as one operator, and nothing that only looks like them is."""

from __future__ import annotations

import pytest
from onnx import ModelProto, TensorProto, helper

from costcore import estimate
from tests.frontends.onnx.regroup.decompositions import (
    BOOL,
    BY_NAME,
    CASES,
    FLOAT,
    QKV,
    Case,
    Spelled,
    X,
    attention_where,
    from_operation,
    is_as_before,
    linear,
    model,
    priced,
    scores,
)

every_case = pytest.mark.parametrize("case", CASES, ids=BY_NAME)


@every_case
def test_it_is_counted_as_the_one_operator_it_is(case):
    report = estimate(model(case), regroup=True)
    assert priced(report) == [(case.op, case.flops, case.mread, case.mwrite)]


@every_case
def test_it_is_listed_with_its_nodes(case):
    made = model(case)
    (note,) = [note for note in estimate(made, regroup=True).notes if note.startswith("regrouped")]
    assert note.startswith(f"regrouped as {case.op}: ")
    assert f"the {made.graph.node[-1].op_type} node that produces {made.graph.output[0].name!r}" in note


def between(case: Case) -> list[str]:
    """The values between the nodes of a group: all that nodes make but constants, shapes and the last."""
    names = [node.output[0] for node in model(case).graph.node]
    calls = estimate(model(case)).calls
    return [n for n, call in zip(names, calls, strict=True) if call.layer.op not in ("constant", "shape")][:-1]


BETWEEN = [(case, name) for case in CASES for name in between(case)]
every_value = pytest.mark.parametrize(("case", "name"), BETWEEN, ids=[f"{c.write.__name__}-{n}" for c, n in BETWEEN])


def is_still_made(changed: ModelProto, name: str) -> bool:
    """Whether a value is made by a call of its own, or is the last that a smaller group makes."""
    groups = [note.partition(": ")[2].split(", ") for note in estimate(changed, regroup=True).notes]
    return not any(node.endswith(f" makes {name!r}") for nodes in groups for node in nodes[:-1])


@every_value
def test_a_value_that_another_node_reads_keeps_it_apart(case, name):
    changed = model(case)
    changed.graph.node.append(helper.make_node("Neg", [name], ["other"]))
    changed.graph.output.append(helper.make_tensor_value_info("other", FLOAT, None))
    assert is_still_made(changed, name)


@every_value
def test_a_value_that_is_an_output_keeps_it_apart(case, name):
    changed = model(case)
    changed.graph.output.append(helper.make_tensor_value_info(name, FLOAT, None))
    assert is_still_made(changed, name)


@every_value
def test_a_value_that_an_inner_graph_captures_keeps_it_apart(case, name):
    changed = model(case)
    body = helper.make_graph(
        [helper.make_node("Neg", [name], ["z"])], "body", [], [helper.make_tensor_value_info("z", FLOAT, None)]
    )
    changed.graph.input.append(helper.make_tensor_value_info("c", BOOL, ()))
    changed.graph.node.append(helper.make_node("If", ["c"], ["other"], then_branch=body, else_branch=body))
    changed.graph.output.append(helper.make_tensor_value_info("other", FLOAT, None))
    assert is_still_made(changed, name)


def constants(case: Case) -> list[int]:
    """The stored floats that the definition of the operator fixes."""
    stored = model(case).graph.initializer
    return [
        i
        for i, tensor in enumerate(stored)
        if tensor.data_type == FLOAT and tensor.float_data and tensor.float_data[0] not in _rounded(case.any_number)
    ]


def _rounded(numbers: tuple[float, ...]) -> list[float]:
    return [helper.make_tensor("", FLOAT, (), [number]).float_data[0] for number in numbers]


CONSTANTS = [(case, i) for case in CASES for i in constants(case)]


@pytest.mark.parametrize(("case", "i"), CONSTANTS, ids=[f"{c.write.__name__}-{i}" for c, i in CONSTANTS])
def test_another_constant_keeps_it_apart(case, i):
    changed = model(case)
    tensor = changed.graph.initializer[i]
    tensor.float_data[0] = tensor.float_data[0] * 1.001 if abs(tensor.float_data[0]) in range(1, 10) else 0.37
    if case.op == "attention" and case.write is not attention_where:  # it is attention still, with a mask that is added
        (call,) = (call for call in estimate(changed, regroup=True).calls if call.layer.op == "attention")
        assert "mask" in call.layer
        assert not call.layer.attrs["causal"]
    else:
        assert is_as_before(changed, case.op)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("layer_norm", {"axes": (1,)}),
        ("layer_norm", {"axes": (0, 1)}),
        ("layer_norm", {"axes": (-1,), "other": (1, 2)}),
        ("rms_norm", {"axes": (1,)}),
    ],
)
def test_another_axis_keeps_it_apart(name, options):
    assert is_as_before(model(BY_NAME[name], **options), BY_NAME[name].op)


@pytest.mark.parametrize("length", [4, 197])  # of 197 x 197, no element is known but those that are repeated
@pytest.mark.parametrize("last", [True, False])
def test_a_constant_mask_that_masks_nothing_is_none(length, last):
    g = Spelled()
    allowed = g("Reshape", g.number(*[True] * (length - 1), last, dtype=TensorProto.BOOL), g.number(1, 1, length, 1))
    allowed = g("Expand", allowed, g.number(2, 1, length, length))
    weights = scores(g, g("Where", allowed, g.scalar(0.0), g.scalar(float("-inf"))))
    report = estimate(g.model(dict.fromkeys("qkv", (2, 3, length, 8)), g("MatMul", weights, "v")), regroup=True)
    (call,) = (call for call in report.calls if call.layer.op == "attention")
    assert ("mask" in call.layer) is not last


@pytest.mark.parametrize("is_learned", [True, False])
def test_parts_of_learned_tensors_are_weights_and_biases(is_learned):
    """The first 5 of 6 features; of what is computed nothing is a weight."""
    g = Spelled()
    w, b = g.weight(8, 6), g.weight(6)
    whole = b if is_learned else g("Exp", b)
    w, b = (g("Slice", t, g.number(0), g.number(5), g.number(-1)) for t in (w, whole))
    report = estimate(g.model(X, g("Add", g("MatMul", "x", w), b)), regroup=True, layout="free")
    found = [call.layer.op for call in report.calls if call.layer.out.shape == (*X["x"][:-1], 5)]
    assert found == (["linear"] if is_learned else ["matmul", "add"])
    assert report.total_report["n_params"] == 8 * 6 + 6


def test_nodes_that_are_said_to_be_several_operations_stay_apart():
    case = BY_NAME["silu"]
    assert priced(estimate(from_operation(model(case), "silu", "silu"), regroup=True))[0][0] == "silu"
    assert is_as_before(from_operation(model(case), "sigmoid", "mul"), "silu")


def test_an_operation_that_pytorch_takes_apart_is_known_by_its_call():
    case, kinds = BY_NAME["rms_norm"], ("pow", "mean", "add", "rsqrt", "rsqrt", "mul", "mul_1")
    for call in ("return F.rms_norm(x, shape, weight)", "y = torch.rms_norm(x, (8,)) + x"):
        assert len(priced(estimate(from_operation(model(case), *kinds, line=call), regroup=True))) == 1
    for own in ("return x * rsqrt(x.pow(2).mean(-1) + eps)", "return my_rms_norm(x)"):
        assert is_as_before(from_operation(model(case), *kinds, line=own), "rms_norm")


def by_pytorch(case: Case) -> ModelProto:
    """The model as PyTorch's older exporter would sign it, which notes no operations."""
    made = model(case)
    made.producer_name = "pytorch"
    return made


@pytest.mark.parametrize("name", ["gelu_tanh", "gelu_of_half", "rms_norm", "rms_norm_by_division"])
def test_what_the_older_exporter_never_writes_for_one_operation_was_several(name):
    case = BY_NAME[name]
    assert is_as_before(by_pytorch(case), case.op)
    assert len(priced(estimate(model(case), regroup=True))) == 1


def test_heads_that_the_exporter_repeats_are_read_once():
    def made(*operations: str) -> ModelProto:
        g = Spelled()

        def many(name: str) -> str:
            spread = g("Expand", g("Unsqueeze", name, g.number(2)), g.number(2, 3, 2, 4, 8))
            return g("Reshape", spread, g.number(2, 6, 4, 8))

        k, v = many("k"), many("v")
        y = g("MatMul", scores(g, k=k), v)
        result = g.model({**QKV, "q": (2, 6, 4, 8)}, y)
        return from_operation(result, *operations) if operations else result

    report = estimate(made(*["attention"] * 12), regroup=True)
    assert [row[0] for row in priced(report)] == ["attention"]
    assert report.total_report["mread"] == 4 * (384 + 192 + 192)
    byhand = estimate(made(*["repeat"] * 6, *["attention"] * 6), regroup=True)
    assert byhand.calls[-1].layer["k"].shape == (2, 6, 4, 8)
    assert estimate(made(), regroup=True).calls[-1].layer["k"].shape == (2, 6, 4, 8)


def test_some_groups_only():
    g = Spelled()
    x = g("Relu", linear(g))
    made = g.model(X, g("Mul", x, g("Sigmoid", x)))
    before = ["transpose", "matmul", "add", "relu"]
    assert [row[0] for row in priced(estimate(made, regroup=("silu",)))] == [*before, "silu"]
    assert [row[0] for row in priced(estimate(made, regroup=["linear"]))] == ["linear", "relu", "sigmoid", "mul"]
    with pytest.raises(ValueError, match="unknown pattern 'sylu'"):
        estimate(made, regroup=["sylu"])
    for wrong in ("linear", 3):
        with pytest.raises(TypeError, match="regroup must be True, False or names"):
            estimate(made, regroup=wrong)
