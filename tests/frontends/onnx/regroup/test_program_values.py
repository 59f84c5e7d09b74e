"""What the user's program computes in every run is counted, where its exporter wrote constants or other dtypes."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto, TensorProto, helper

from costcore import estimate
from tests.frontends.onnx.regroup.decompositions import from_operation, priced
from tests.frontends.onnx.regroup.test_assignment import note

ARANGE = ("arange", 0, 0, 6 * 8)
PLACES = ("add", 6, 6 * 8, 6 * 8)
"""Six numbers of 8 bytes are read, and a number of the program; six are written."""
SUM = ("add", 24, (24 + 6) * 8, 24 * 8)


def program(
    dtype: int,
    nodes: list[tuple[str, list[str], str, str]],
    line: str = "",
    outputs: tuple[str, ...] = (),
    **numbers: Any,
) -> ModelProto:
    """The model of nodes (op_type, inputs, output, origin), the last of which makes its output; x is 4 x 6."""
    made = [helper.make_node(op, inputs, [output]) for op, inputs, output, _ in nodes]
    stored = [helper.make_tensor(name, kind, (), [value]) for name, (kind, value) in numbers.items()]
    x = helper.make_tensor_value_info("x", dtype, (4, 6))
    names = (*outputs, nodes[-1][2])
    results = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in names]
    graph = helper.make_graph(made, "net", [x], results, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return from_operation(model, *(origin for *_, origin in nodes), line=line)


def counted_up(result: str = "places") -> ModelProto:
    """``x + (arange(6) + 1)``, in a function whose lines the exporter leaves out."""
    integer = TensorProto.INT64
    return program(
        integer,
        [
            ("Range", ["zero", "six", "one"], "numbers", note("numbers", "arange.default", "6")),
            ("Add", ["numbers", "one"], "places", note(result, "add.Tensor", "%numbers", "1")),
            ("Add", ["x", "places"], "y", note("y", "add.Tensor", "%x", "%places")),
        ],
        "mask = self.make_mask(x)",
        zero=(integer, 0),
        six=(integer, 6),
        one=(integer, 1),
    )


def test_operations_on_constants_are_counted_as_pytorch_computes_them():
    report = estimate(counted_up(), regroup=True)
    assert priced(report) == [ARANGE, PLACES, SUM]
    assert "regroup: PyTorch computes 1 constants in every run; they are counted" in report.notes
    assert priced(estimate(counted_up())) == [SUM]


def test_a_constant_that_is_a_part_of_an_operation_is_no_operation():
    assert priced(estimate(counted_up("index"), regroup=True)) == [ARANGE, SUM]


def cumulative(*outputs: str, origin: str = "") -> ModelProto:
    """``x.cumsum(1)`` of booleans, whose exporter converts them first."""
    call = "%int : [num_users=1] = call_function[target=torch.ops.prims.convert_element_type.default](args = (%x,), "
    nodes = [
        ("Cast", ["x"], "int", origin or f"{call}kwargs = {{dtype: torch.int64}})"),
        ("CumSum", ["int", "axis"], "y", note("y", "cumsum.default", "%int", "1")),
    ]
    model = program(TensorProto.BOOL, nodes, outputs=outputs, axis=(TensorProto.INT64, 1))
    model.graph.node[0].attribute.append(helper.make_attribute("to", TensorProto.INT64))
    return model


# Four rows of six are summed by 5 additions each; a boolean has 1 byte, a sum 8.
CONVERTED, SUMMED = ("cast", 0, 24, 24 * 8), ("cumsum", 4 * 5, 24 * 8, 24 * 8)


def test_what_an_operator_converts_by_itself_is_no_conversion():
    assert priced(estimate(cumulative(), regroup=True)) == [("cumsum", 4 * 5, 24, 24 * 8)]
    assert priced(estimate(cumulative())) == [CONVERTED, SUMMED]


def test_what_the_program_converts_or_returns_is_a_conversion():
    by_program = cumulative(origin=note("int", "_to_copy.default", "%x"))
    assert priced(estimate(by_program, regroup=True)) == [CONVERTED, SUMMED]
    assert priced(estimate(cumulative("int"), regroup=True)) == [CONVERTED, SUMMED]


def test_a_buffer_of_one_element_is_read_unlike_a_number_of_the_program():
    nodes = [("Mul", ["x", "scale"], "y", note("y", "mul.Tensor", "%x", "%scale"))]
    model = program(TensorProto.FLOAT, nodes, scale=(TensorProto.FLOAT, 3.0))
    assert priced(estimate(model, regroup=True)) == [("mul", 24, 24 * 4, 24 * 4)]
    scale = model.graph.value_info.add()
    scale.CopyFrom(helper.make_tensor_value_info("scale", TensorProto.FLOAT, ()))
    scale.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value="BUFFER")
    assert priced(estimate(model, regroup=True)) == [("mul", 24, (24 + 1) * 4, 24 * 4)]
    assert priced(estimate(model)) == [("mul", 24, 24 * 4, 24 * 4)]
