"""ONNX operators, read from models of one node; names begin with ``onnx``. Inputs that give a shape or a count are "
"not read."""

from __future__ import annotations

from onnx import TensorProto, helper

from .row import FLOAT, INT, Row

F32, I64, U8, I8, I32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32


def values(data, kind=I64):
    """Return a constant one-dimensional operand."""
    return data, kind


def node(op, why, inputs, expected, *, types=None, outputs=(F32,), name="", opset=21, **attributes):
    """Return the row of one node.

    Args:
        op: the operator.
        why: the derivation.
        inputs: per operand a shape, None if absent, or constant :func:`values`.
        expected: the cost.
        types: element types of the operands by position; float32 if absent.
        outputs: element types of the outputs.
        name: what is special about the row.
        opset: version of the operator set.
        attributes: attributes of the node.
    """

    def model():
        graph_inputs, constants, names = [], [], []
        for i, operand in enumerate(inputs):
            names.append("" if operand is None else f"in{i}")
            if isinstance(operand, tuple) and operand and isinstance(operand[0], list):
                data, kind = operand
                constants.append(helper.make_tensor(names[-1], kind, [len(data)], data))
            elif operand is not None:
                kind = (types or {}).get(i, F32)
                graph_inputs.append(helper.make_tensor_value_info(names[-1], kind, operand))
        results = [helper.make_tensor_value_info(f"out{i}", kind, None) for i, kind in enumerate(outputs)]
        the_node = helper.make_node(op, names, [result.name for result in results], **attributes)
        graph = helper.make_graph([the_node], "one", graph_inputs, results, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])

    return Row(f"onnx-{op}{'-' * bool(name)}{name}", model, None, why, expected)


X = (3, 5)
N = 15
ONCE = {"read": FLOAT * N, "written": FLOAT * N}
ROW_C8 = {"fma": 6 * 15, "mul": 6 * 9, "add": 6 * 16, "div": 6 * 3, "special": 6}  # layer_norm, 6 rows of 8

ROWS = [
    # Element-wise.
    node("Relu", "1 cmp", [X], {"cmp": N} | ONCE),
    node("HardSwish", "2 mul, 1 add, 2 cmp", [X], {"mul": 2 * N, "add": N, "cmp": 2 * N} | ONCE),
    node("Softplus", "log(1 + exp x)", [X], {"add": N, "special": 2 * N} | ONCE),
    node("Mish", "x tanh(log(1 + exp x))", [X], {"mul": N, "add": N, "special": 3 * N} | ONCE),
    node("Gelu", "x/2 (1 + erf(x/√2))", [X], {"mul": 3 * N, "add": N, "special": N} | ONCE),
    node("ThresholdedRelu", "x if x > α else 0: 1 cmp", [X], {"cmp": N} | ONCE),
    node(
        "PRelu",
        "24 elements, 1 mul, 1 cmp; reads 24 and 3 slopes",
        [(2, 3, 4), (3, 1)],
        {"mul": 24, "cmp": 24, "read": FLOAT * 27, "written": FLOAT * 24},
    ),
    node(
        "Celu",
        "as ELU a select, x or α (exp(x / α) − 1): 1 cmp, 1 add, 1 mul, 1 div, 1 exp",
        [X],
        {"mul": N, "div": N, "add": N, "cmp": N, "special": N} | ONCE,
        alpha=2.0,
    ),
    node("Sum", "three operands: 2 add", [X, X, X], {"add": 2 * N, "read": FLOAT * 3 * N, "written": FLOAT * N}),
    node("Mean", "2 add, 1 div", [X, X, X], {"add": 2 * N, "div": N, "read": FLOAT * 3 * N, "written": FLOAT * N}),
    node("Max", "2 cmp", [X, X, X], {"cmp": 2 * N, "read": FLOAT * 3 * N, "written": FLOAT * N}),
    node(
        "Pow",
        "the exponent is an operand without a value: 1 special; reads both",
        [X, X],
        {"special": N, "read": FLOAT * 2 * N, "written": FLOAT * N},
    ),
    node(
        "Pow",
        "a constant exponent 2 is 1 mul, and is not needed then",
        [X, values([2.0], F32)],
        {"mul": N, "read": FLOAT * N, "written": FLOAT * N},
        name="2",
    ),
    node(
        "Pow",
        "a constant exponent 3 is 2 mul, and is not needed then",
        [X, values([3.0], F32)],
        {"mul": 2 * N, "read": FLOAT * N, "written": FLOAT * N},
        name="3",
    ),
    node(
        "Where",
        "1 select; a bool has 1 byte",
        [X, X, X],
        {"cmp": N, "read": N + FLOAT * 2 * N, "written": FLOAT * N},
        types={0: TensorProto.BOOL},
    ),
    node("Cast", "0 operations; writes 2 bytes each", [X], {"read": 4 * N, "written": 2 * N}, outputs=[10], to=10),
    # Products.
    node(
        "MatMul",
        "30 outputs of 4: 1 mul, 3 fma; reads 24 + 20",
        [(2, 3, 4), (4, 5)],
        {"mul": 30, "fma": 90, "macs": 120, "read": FLOAT * 44, "written": FLOAT * 30},
    ),
    node(
        "Gemm",
        "15 outputs of 4 onto the operand; reads 12 + 20 + 5",
        [(3, 4), (5, 4), (5,)],
        {"fma": 60, "macs": 60, "read": FLOAT * 37, "written": FLOAT * 15},
        transB=1,
    ),
    node(
        "Gemm",
        "α A B + β C, 15 elements: β C 1 mul; 1 mul, 3 fma; α (…) added 1 fma; reads 12 + 20 + 15",
        [(3, 4), (4, 5), (3, 5)],
        {"mul": 30, "fma": 60, "macs": 60, "read": FLOAT * 47, "written": FLOAT * 15},
        name="alpha-beta",
        alpha=0.5,
        beta=2.0,
    ),
    node(
        "Einsum",
        "8 outputs, contraction of 3",
        [(2, 3), (3, 4)],
        {"mul": 8, "fma": 16, "macs": 24, "read": FLOAT * 18, "written": FLOAT * 8},
        equation="ij,jk->ik",
    ),
    node(
        "MatMulInteger",
        "8 outputs of 3 in int32; no zero points",
        [(2, 3), (3, 4)],
        {"mul": 8, "fma": 16, "macs": 24, "read": 18, "written": 4 * 8},
        types={0: U8, 1: I8},
        outputs=[I32],
    ),
    node(
        "MatMulInteger",
        "zero points are subtracted from 6 and 12 elements: 18 add; they are read, 1 byte each",
        [(2, 3), (3, 4), (), ()],
        {"mul": 8, "fma": 16, "add": 18, "macs": 24, "read": 20, "written": 4 * 8},
        name="zero-points",
        types={0: U8, 1: I8, 2: U8, 3: I8},
        outputs=[I32],
    ),
    node(
        "ConvInteger",
        "y 4, dot products of 4; reads 9 + 4 bytes",
        [(1, 1, 3, 3), (1, 1, 2, 2)],
        {"mul": 4, "fma": 12, "macs": 16, "read": 13, "written": 4 * 4},
        types={0: U8, 1: U8},
        outputs=[I32],
    ),
    node(
        "Conv",
        "⌈5/2⌉ = 3: y 27, dot products of 2·9 onto the bias; reads 50 + 54 + 3",
        [(1, 2, 5, 5), (3, 2, 3, 3), (3,)],
        {"fma": 486, "macs": 486, "read": FLOAT * 107, "written": FLOAT * 27},
        strides=[2, 2],
        auto_pad="SAME_UPPER",
    ),
    node(
        "ConvTranspose",
        "(5 − 1)·2 − 2 + 3 + 1 = 10: y 600; 100·6·9 products added; reads 100 + 216 + 6",
        [(1, 4, 5, 5), (4, 6, 3, 3), (6,)],
        {"fma": 5400, "macs": 5400, "read": FLOAT * 322, "written": FLOAT * 600},
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    ),
    # Quantization: a scale is a tensor, so its division is a division.
    node(
        "QuantizeLinear",
        "round(x / s) + z, saturated: 1 div, 1 cmp, 1 add, 2 cmp; reads 60 + 4 + 1, writes bytes",
        [X, (), ()],
        {"div": N, "add": N, "cmp": 3 * N, "read": FLOAT * (N + 1) + 1, "written": N},
        types={2: U8},
        outputs=[U8],
    ),
    node(
        "DequantizeLinear",
        "(x − z) · s: 1 add, 1 mul; reads 15 + 4 + 1 bytes",
        [X, (), ()],
        {"add": N, "mul": N, "read": N + 4 + 1, "written": FLOAT * N},
        types={0: U8, 2: U8},
    ),
    node(
        "DequantizeLinear",
        "x · s: 1 mul; no zero point",
        [X, ()],
        {"mul": N, "read": N + 4, "written": FLOAT * N},
        name="symmetric",
        types={0: I8},
    ),
    # Normalization.
    node(
        "LRN",
        "window n = 3, 16 elements: 1 fma, 2 mul, n − 1 add, 1 special",
        [(1, 4, 2, 2)],
        {"fma": 16, "mul": 32, "add": 32, "special": 16, "read": FLOAT * 16, "written": FLOAT * 16},
        size=3,
    ),
    node(
        "LpNormalization",
        "L2 normalization of the table, whatever the framework: 1 mul, 4 fma, + ε 1 add, 1 special, 5 div a row",
        [X],
        {"mul": 3, "fma": 12, "add": 3, "special": 3, "div": N} | ONCE,
        axis=1,
        p=2,
    ),
    node(
        "LayerNormalization",
        "6 rows of 8; reads 48 + 8 + 8",
        [(6, 8), (8,), (8,)],
        ROW_C8 | {"read": FLOAT * 64, "written": FLOAT * 48},
    ),
    node(
        "InstanceNormalization",
        "6 rows of 8; reads 48 + 3 + 3",
        [(2, 3, 8), (3,), (3,)],
        ROW_C8 | {"read": FLOAT * 54, "written": FLOAT * 48},
    ),
    node(
        "GroupNormalization",
        "6 groups of 8; reads 48 + 6 + 6",
        [(2, 6, 4), (6,), (6,)],
        ROW_C8 | {"read": FLOAT * 60, "written": FLOAT * 48},
        num_groups=3,
    ),
    node(
        "RMSNormalization",
        "6 rows of 8: fma 7, mul 17, add 1, div 2, special 1; reads 48 + 8",
        [(6, 8), (8,)],
        {"fma": 42, "mul": 102, "add": 6, "div": 12, "special": 6, "read": FLOAT * 56, "written": FLOAT * 48},
        opset=23,
    ),
    node(
        "BatchNormalization",
        "the folded scale and shift: 60 fma; reads 60 + 2 · 3",
        [(4, 3, 5), (3,), (3,), (3,), (3,)],
        {"fma": 60, "read": FLOAT * 66, "written": FLOAT * 60},
    ),
    node(
        "Softmax",
        "3 rows of 5",
        [X],
        {"add": 12, "div": N, "special": N} | ONCE,
    ),
    node("Hardmax", "the greatest of a row: 4 cmp", [X], {"cmp": 12} | ONCE),
    # Reductions and sorting.
    node("ReduceSumSquare", "1 mul, 4 fma a row", [X, values([1])], {"mul": 3, "fma": 12, "read": 60, "written": 12}),
    node("ReduceL2", "and 1 special", [X, values([1])], {"mul": 3, "fma": 12, "special": 3, "read": 60, "written": 12}),
    node("ReduceL1", "|x| 5 add, sum 4 add a row", [X, values([1])], {"add": 27, "read": 60, "written": 12}),
    node("ReduceLogSum", "4 add, 1 log a row", [X, values([1])], {"add": 12, "special": 3, "read": 60, "written": 12}),
    node(
        "ReduceLogSumExp",
        "5 exp, 4 add, 1 log a row",
        [X, values([1])],
        {"add": 12, "special": 18, "read": 60, "written": 12},
    ),
    node("CumSum", "4 add a row", [X, values([1])], {"add": 12} | ONCE),
    node(
        "TopK",
        "2 rows of 8, k = 2: 8·⌈log2 3⌉ = 16 cmp; writes 2 values and 2 indices a row",
        [(2, 8), values([2])],
        {"cmp": 32, "read": FLOAT * 16, "written": (FLOAT + INT) * 4},
        outputs=[F32, I64],
    ),
    # Pooling.
    node(
        "MaxPool",
        "27 windows of 4: 3 cmp; the indices output is absent",
        [(1, 3, 6, 6)],
        {"cmp": 81, "read": FLOAT * 108, "written": FLOAT * 27},
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    node(
        "MaxPool",
        "values and int64 indices",
        [(1, 3, 6, 6)],
        {"cmp": 81, "read": FLOAT * 108, "written": (FLOAT + INT) * 27},
        name="indices",
        outputs=[F32, I64],
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    node(
        "LpPool",
        "p = 2, 27 windows of 4: 1 mul, 3 fma, 1 special",
        [(1, 3, 6, 6)],
        {"mul": 27, "fma": 81, "special": 27, "read": FLOAT * 108, "written": FLOAT * 27},
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    node(
        "GlobalAveragePool",
        "3 means of 36: 35 add, 1 div",
        [(1, 3, 6, 6)],
        {"add": 105, "div": 3, "read": FLOAT * 108, "written": FLOAT * 3},
    ),
    # Losses.
    node(
        "SoftmaxCrossEntropyLoss",
        "4 rows of 5: 9 add, 6 special; negate; mean 3 add, 1 div",
        [(4, 5), (4,)],
        {"add": 43, "div": 1, "special": 24, "read": FLOAT * 20 + INT * 4, "written": FLOAT},
        types={1: I64},
    ),
    node(
        "NegativeLogLikelihoodLoss",
        "4 elements picked: 4 negations, 3 add, 1 div",
        [(4, 5), (4,)],
        {"add": 7, "div": 1, "read": FLOAT * 4 + INT * 4, "written": FLOAT},
        types={1: I64},
    ),
    # Layout and indexing: ONNX moves data in every one of them, but reshapes.
    node("Reshape", "free", [X, values([5, 3])], {}),
    node("Transpose", "a copy", [X], ONCE),
    node(
        "Slice",
        "reads the 6 elements it writes",
        [X, values([1, 0]), values([3, 5]), values([0, 1]), values([1, 2])],
        {
            "read": FLOAT * 6,
            "written": FLOAT * 6,
        },
    ),
    node(
        "Expand",
        "as broadcast_to: reads 3, writes 15",
        [(3, 1), values([3, 5])],
        {"read": FLOAT * 3, "written": FLOAT * N},
    ),
    node("Tile", "reads 6, writes 24", [(2, 3), values([2, 2])], {"read": FLOAT * 6, "written": FLOAT * 24}),
    node("Pad", "reads 6, writes 2·5", [(2, 3), values([0, 1, 0, 1])], {"read": FLOAT * 6, "written": FLOAT * 10}),
    node("Concat", "reads both, writes both", [X, (2, 5)], {"read": FLOAT * 25, "written": FLOAT * 25}, axis=0),
    node(
        "Split",
        "every part is written",
        [(4, 3)],
        {"read": FLOAT * 12, "written": FLOAT * 12},
        outputs=[F32, F32],
        axis=0,
        num_outputs=2,
    ),
    node(
        "Trilu",
        "the 10 elements on and below the diagonal are needed",
        [(4, 4)],
        {"read": FLOAT * 10, "written": FLOAT * 16},
        upper=0,
    ),
    node("DepthToSpace", "a copy", [(1, 8, 2, 2)], {"read": FLOAT * 32, "written": FLOAT * 32}, blocksize=2),
    node(
        "Gather",
        "reads 3 rows of 4 and 3 indices",
        [(5, 4), (3,)],
        {"read": FLOAT * 12 + INT * 3, "written": FLOAT * 12},
        types={1: I64},
        axis=0,
    ),
    node(
        "GatherElements",
        "reads 6 elements and 6 indices",
        [X, (3, 2)],
        {"read": FLOAT * 6 + INT * 6, "written": FLOAT * 6},
        types={1: I64},
        axis=1,
    ),
    node(
        "ScatterND",
        "reads 20, 3 indices, 12 updates; writes 20",
        [(5, 4), (3, 1), (3, 4)],
        {"read": FLOAT * 32 + INT * 3, "written": FLOAT * 20},
        types={1: I64},
    ),
    node(
        "ScatterElements",
        "6 updates are added",
        [X, (3, 2), (3, 2)],
        {"add": 6, "read": FLOAT * 21 + INT * 6, "written": FLOAT * N},
        types={1: I64},
        axis=1,
        reduction="add",
    ),
    # Resampling.
    node(
        "Resize",
        "three linear steps: 3 mul, 6 add for each of 72; reads min(4·72, 18)",
        [(1, 2, 3, 3), None, values([1.0, 1.0, 2.0, 2.0], F32)],
        {"mul": 216, "add": 432, "read": FLOAT * 18, "written": FLOAT * 72},
        name="linear",
        mode="linear",
    ),
    node(
        "Resize",
        "0 operations; reads min(72, 18)",
        [(1, 2, 3, 3), None, values([1.0, 1.0, 2.0, 2.0], F32)],
        {"read": FLOAT * 18, "written": FLOAT * 72},
        name="nearest",
        mode="nearest",
    ),
    node(
        "GridSample",
        "18 outputs of 3 mul, 6 add; reads the grid 18 and min(4·18, 32)",
        [(1, 2, 4, 4), (1, 3, 3, 2)],
        {"mul": 54, "add": 108, "read": FLOAT * 50, "written": FLOAT * 18},
        mode="linear",
    ),
    # Recurrent: I = 3, H = 4, T = 5, batch 2: 40 unit steps; no initial state is given.
    node(
        "LSTM",
        "4·7 fma + 1, 2 mul, 6 add, 3 div, 5 special; reads 30 + 48 + 64 + 32; writes 40 + 8 + 8",
        [(5, 2, 3), (1, 16, 3), (1, 16, 4), (1, 32)],
        {
            "fma": 40 * 29,
            "mul": 80,
            "add": 240,
            "div": 120,
            "special": 200,
            "macs": 1120,
            "read": FLOAT * 174,
            "written": FLOAT * 56,
        },
        outputs=[F32, F32, F32],
        hidden_size=4,
    ),
    node(
        "LSTM",
        "peepholes add a product to three gates: 3 fma more, no macs; reads 12 more",
        [(5, 2, 3), (1, 16, 3), (1, 16, 4), (1, 32), None, None, None, (1, 12)],
        {
            "fma": 40 * 32,
            "mul": 80,
            "add": 240,
            "div": 120,
            "special": 200,
            "macs": 1120,
            "read": FLOAT * 186,
            "written": FLOAT * 56,
        },
        name="peepholes",
        outputs=[F32, F32, F32],
        hidden_size=4,
    ),
    node(
        "GRU",
        "reset before: one accumulator a gate onto both biases: 3·7 fma + 1, 2 mul; two sigmoids 4 add, 2 div; 1 − z "
        "1 add; 3 special; reads 30 + 36 + 48 + 24; writes 40 + 8",
        [(5, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24)],
        {
            "fma": 40 * 22,
            "mul": 80,
            "add": 200,
            "div": 80,
            "special": 120,
            "macs": 840,
            "read": FLOAT * 138,
            "written": FLOAT * 48,
        },
        outputs=[F32, F32],
        hidden_size=4,
    ),
    node(
        "GRU",
        "reset before, onto nothing: 1 mul, 6 fma a gate: 18 fma + 1, 2 + 3 mul",
        [(5, 2, 3), (1, 12, 3), (1, 12, 4)],
        {
            "fma": 40 * 19,
            "mul": 200,
            "add": 200,
            "div": 80,
            "special": 120,
            "macs": 840,
            "read": FLOAT * 114,
            "written": FLOAT * 48,
        },
        name="no-bias",
        outputs=[F32, F32],
        hidden_size=4,
    ),
    node(
        "GRU",
        "reset after: the candidate's parts are added: 1 add more",
        [(5, 2, 3), (1, 12, 3), (1, 12, 4), (1, 24)],
        {
            "fma": 40 * 22,
            "mul": 80,
            "add": 240,
            "div": 80,
            "special": 120,
            "macs": 840,
            "read": FLOAT * 138,
            "written": FLOAT * 48,
        },
        name="reset-after",
        outputs=[F32, F32],
        hidden_size=4,
        linear_before_reset=1,
    ),
    node(
        "RNN",
        "80 unit steps of 7 fma and tanh; x is read once: 30 + 24 + 32 + 16; writes 80 + 16",
        [(5, 2, 3), (2, 4, 3), (2, 4, 4), (2, 8)],
        {"fma": 560, "special": 80, "macs": 560, "read": FLOAT * 102, "written": FLOAT * 96},
        name="bidirectional",
        outputs=[F32, F32],
        hidden_size=4,
        direction="bidirectional",
    ),
    # Attention.
    node(
        "Attention",
        "30 scores of 4 (1 mul, 3 fma), scale 30 mul; 6 rows of softmax over 5; 36 outputs of 5 (1 mul, 4 fma); 120 + "
        "180 macs; reads 24 + 40 + 60",
        [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)],
        {
            "fma": 234,
            "mul": 96,
            "add": 24,
            "div": 30,
            "special": 30,
            "macs": 300,
            "read": FLOAT * 124,
            "written": FLOAT * 36,
        },
        opset=23,
    ),
    node(
        "Attention",
        "4 query heads on 2 key and value heads: 36 scores of 8; 12 rows over 3; 96 outputs of 3; reads 96 + 48 + 48",
        [(1, 4, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8)],
        {
            "fma": 444,
            "mul": 168,
            "add": 24,
            "div": 36,
            "special": 36,
            "macs": 576,
            "read": FLOAT * 192,
            "written": FLOAT * 96,
        },
        name="grouped",
        opset=23,
    ),
    node(
        "RotaryEmbedding",
        "x1 cos − x2 sin, x1 sin + x2 cos for 12 pairs, as a complex product: 4 mul, 2 add; reads 24 + 6 + 6",
        [(1, 2, 3, 4), (1, 3, 2), (1, 3, 2)],
        {"mul": 48, "add": 24, "read": FLOAT * 36, "written": FLOAT * 24},
        opset=23,
    ),
    node("Dropout", "an identity at inference", [X], {}),
    node(
        "Col2Im",
        "72 elements are added to an output of zeros",
        [(1, 8, 9), values([4, 4]), values([2, 2])],
        {"add": 72, "read": FLOAT * 72, "written": FLOAT * 32},
    ),
    node(
        "Shrink",
        "x − b where x > λ, x + b where x < −λ, both computed: 2 add, 2 cmp",
        [X],
        {"add": 2 * N, "cmp": 2 * N} | ONCE,
        lambd=0.5,
        bias=0.5,
    ),
    node(
        "GlobalMaxPool",
        "3 windows of 36: 35 cmp",
        [(1, 3, 6, 6)],
        {"cmp": 105, "read": FLOAT * 108, "written": FLOAT * 3},
    ),
    node(
        "MaxUnpool",
        "upsampling with indexes: reads 27 values and 27 indices; writes 108",
        [(1, 3, 3, 3), (1, 3, 3, 3)],
        {"read": (FLOAT + INT) * 27, "written": FLOAT * 108},
        types={1: I64},
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    node(
        "BatchNormalization",
        "batch norm in training as in the table, whatever the framework; 3 channels of m = 20: fma 42, mul 5, add 40, "
        "div 3, special 1. Reads 60 + 4 · 3; writes 60 + 2 · 3",
        [(4, 3, 5), (3,), (3,), (3,), (3,)],
        {"fma": 126, "mul": 15, "add": 120, "div": 9, "special": 3, "read": FLOAT * 72, "written": FLOAT * 66},
        name="training",
        outputs=[F32, F32, F32],
        training_mode=1,
    ),
    node("Sigmoid", "−x, exp, 1 +, 1 /", [X], {"add": 2 * N, "div": N, "special": N} | ONCE),
    node("Softsign", "x / (1 + |x|) in one operator: 2 add, 1 div", [X], {"add": 2 * N, "div": N} | ONCE),
    node("Elu", "α (exp x − 1), select", [X], {"mul": N, "add": N, "cmp": N, "special": N} | ONCE),
    node("Selu", "scale · elu", [X], {"mul": 2 * N, "add": N, "cmp": N, "special": N} | ONCE),
    node("Round", "1 cmp", [X], {"cmp": N} | ONCE),
    node("IsNaN", "x ≠ x: 1 cmp", [X], {"cmp": N, "read": FLOAT * N, "written": N}, outputs=[9]),
    node("Equal", "1 cmp", [X, X], {"cmp": N, "read": FLOAT * 2 * N, "written": N}, outputs=[9]),
    node(
        "Clip",
        "two bounds, each of one element",
        [X, (), ()],
        {"cmp": 2 * N, "read": FLOAT * (N + 2), "written": FLOAT * N},
    ),
    node("LogSoftmax", "3 rows of 5: 9 add, 6 special", [X], {"add": 27, "special": 18} | ONCE),
    node(
        "Mul",
        "broadcasting is not materialized: reads 15 + 3",
        [X, (3, 1)],
        {"mul": N, "read": FLOAT * (N + 3), "written": FLOAT * N},
        name="broadcast",
    ),
    node("ReduceMean", "4 add, 1 div a row", [X, values([1])], {"add": 12, "div": 3, "read": 60, "written": 12}),
    node("ReduceProd", "4 mul a row", [X, values([1])], {"mul": 12, "read": 60, "written": 12}),
    node("ArgMax", "4 cmp a row; int64", [X], {"cmp": 12, "read": 60, "written": INT * 3}, outputs=[I64], axis=1),
    node("SpaceToDepth", "a copy", [(1, 2, 4, 4)], {"read": FLOAT * 32, "written": FLOAT * 32}, blocksize=2),
    node("Flatten", "free", [(2, 3, 4)], {}),
    node("Identity", "free", [X], {}),
    node("Unsqueeze", "free", [X, values([0])], {}),
    node(
        "GatherND",
        "reads 3 rows of 4 and 3 indices",
        [(5, 4), (3, 1)],
        {"read": FLOAT * 12 + INT * 3, "written": FLOAT * 12},
        types={1: I64},
    ),
    node(
        "Attention",
        "30 add more; the mask of 15 elements is read",
        [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6), (3, 5)],
        {
            "fma": 234,
            "mul": 96,
            "add": 54,
            "div": 30,
            "special": 30,
            "macs": 300,
            "read": FLOAT * 139,
            "written": FLOAT * 36,
        },
        name="mask",
        opset=23,
    ),
    node(
        "Attention",
        "2 heads of 4 in rank 3: as without; causal flag free",
        [(1, 3, 8), (1, 5, 8), (1, 5, 12)],
        {
            "fma": 234,
            "mul": 96,
            "add": 24,
            "div": 30,
            "special": 30,
            "macs": 300,
            "read": FLOAT * 124,
            "written": FLOAT * 36,
        },
        name="rank-3",
        opset=23,
        q_num_heads=2,
        kv_num_heads=2,
        is_causal=1,
    ),
    node(
        "AveragePool",
        "y 27, windows of 9, taps on padding count: 8 add, 1 div; reads 75",
        [(1, 3, 5, 5)],
        {"add": 216, "div": 27, "read": FLOAT * 75, "written": FLOAT * 27},
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    node(
        "Resize",
        "20 mul, 15 add for each of 72; reads min(16·72, 18)",
        [(1, 2, 3, 3), None, values([1.0, 1.0, 2.0, 2.0], F32)],
        {"mul": 1440, "add": 1080, "read": FLOAT * 18, "written": FLOAT * 72},
        name="cubic",
        mode="cubic",
    ),
    node(
        "Pad",
        "a negative pad cuts: reads the 4 elements it writes",
        [(2, 3), values([0, -1, 0, 0])],
        {"read": FLOAT * 4, "written": FLOAT * 4},
        name="crop",
    ),
    node(
        "CenterCropPad",
        "cuts to the middle 2 by 2: reads the 4 elements it writes",
        [(4, 4), values([2, 2])],
        {"read": FLOAT * 4, "written": FLOAT * 4},
        name="crop",
    ),
    node(
        "NegativeLogLikelihoodLoss",
        "4 negations; Σ w l 1 mul, 3 fma; Σ w 3 add; 1 div. Reads 4 elements, 4 weights, 4 labels",
        [(4, 5), (4,), (5,)],
        {"fma": 3, "mul": 1, "add": 7, "div": 1, "read": FLOAT * 8 + INT * 4, "written": FLOAT},
        name="weights",
        types={1: I64},
    ),
]
