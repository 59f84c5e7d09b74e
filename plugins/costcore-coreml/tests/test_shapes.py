"""Sizes that a program leaves open follow from operands, as coremltools 9.0 infers them. Worked out by hand."""

from math import prod

import pytest
from program import Op, Packed, V, model

from costcore import estimate

X = V((None, 3, 8, 9))
"""The input ``x`` of a row without another one; its open axis has 6 elements."""

WEIGHT = V((4, 3, 3, 2), stored=True)

SHAPES = [
    # (8 + 1 - 5) // 2 + 1 rows of a window dilated to 5, (9 + 3 - 2) // 3 + 1 columns
    (
        "conv",
        {"weight": WEIGHT, "pad_type": "custom", "pad": (1, 0, 2, 1), "strides": (2, 3), "dilations": (2, 1)},
        [(6, 4, 3, 4)],
    ),
    ("conv", {"weight": WEIGHT, "pad_type": "same_lower", "strides": (3, 2)}, [(6, 4, 3, 5)]),
    ("conv", {"weight": WEIGHT, "pad_type": "valid"}, [(6, 4, 6, 8)]),
    # (8 - 1) 2 + 3 - 1 rows; (9 - 1) 3 + 3 - 1 columns of a window dilated to 3
    (
        "conv_transpose",
        {
            "weight": V((3, 4, 3, 2), stored=True),
            "pad_type": "custom",
            "pad": (1, 0, 0, 1),
            "strides": (2, 3),
            "dilations": (1, 2),
            "groups": 3,
        },
        [(6, 12, 16, 26)],
    ),
    (
        "conv_transpose",
        {"weight": V((3, 4, 3, 2), stored=True), "pad_type": "same", "strides": (2, 3)},
        [(6, 4, 16, 27)],
    ),
    (
        "conv_transpose",
        {"weight": V((3, 4, 3, 2), stored=True), "pad_type": "valid", "output_shape": (6, 4, 10, 11)},
        [(6, 4, 10, 11)],
    ),
    ("avg_pool", {"kernel_sizes": (3, 2), "strides": (2, 2), "pad_type": "valid"}, [(6, 3, 3, 4)]),
    (
        "max_pool",
        {"kernel_sizes": (3, 2), "strides": (2, 2), "pad_type": "valid", "ceil_mode": True},
        [(6, 3, 4, 5)],
    ),
    ("linear", {"x": V((None, 8)), "weight": V((5, 8), stored=True)}, [(6, 5)]),
    ("matmul", {"x": V((None, 4, 8)), "y": V((5, 8)), "transpose_y": True}, [(6, 4, 5)]),
    ("matmul", {"x": V((None, 8, 4)), "y": V((8, 5)), "transpose_x": True}, [(6, 4, 5)]),
    ("matmul", {"x": V((None, 4, 8)), "y": V((8, 5))}, [(6, 4, 5)]),
    (
        "scaled_dot_product_attention",
        {"query": V((None, 2, 5, 4)), "key": V((6, 2, 7, 4)), "value": V((6, 2, 7, 3))},
        [(6, 2, 5, 3)],
    ),
    ("add", {"x": V((None, 1, 9)), "y": V((1, 8, 1))}, [(6, 8, 9)]),
    ("select", {"cond": V((None, 1), "bool"), "a": V((1, 5)), "b": V((1, 1))}, [(6, 5)]),
    ("transpose", {"perm": (1, 0, 3, 2)}, [(3, 6, 9, 8)]),
    ("reshape", {"shape": (-1, 0, 24)}, [(18, 3, 24)]),
    ("expand_dims", {"axes": (0, -1)}, [(1, 6, 3, 8, 9, 1)]),
    ("squeeze", {"x": V((None, 1, 8, 1)), "axes": (1,)}, [(6, 8, 1)]),
    ("squeeze", {"x": V((None, 1, 8, 1))}, [(6, 8)]),
    ("concat", {"values": ["%x", "%x", "%x"], "axis": -2}, [(6, 3, 24, 9)]),
    ("concat", {"values": ["%x", "%x"], "axis": 0}, [(12, 3, 8, 9)]),
    ("stack", {"values": ["%x", "%x"], "axis": 1}, [(6, 2, 3, 8, 9)]),
    ("stack", {"values": ["%x", "%x"], "axis": -1}, [(6, 3, 8, 9, 2)]),
    ("split", {"num_splits": 3, "axis": 1}, [(6, 1, 8, 9)] * 3),
    ("split", {"split_sizes": (5, 2, 2), "axis": -1}, [(6, 3, 8, 5), (6, 3, 8, 2), (6, 3, 8, 2)]),
    ("gather", {"indices": (0, 2), "axis": 1}, [(6, 2, 8, 9)]),
    ("gather", {"indices": V((6, 5), "int32"), "axis": 1, "batch_dims": 1}, [(6, 5, 8, 9)]),
    ("gather_along_axis", {"indices": V((6, 3, 2, 9), "int32"), "axis": 2}, [(6, 3, 2, 9)]),
    ("gather_nd", {"indices": V((5, 2), "int32")}, [(5, 8, 9)]),
    ("gather_nd", {"indices": V((6, 5, 2), "int32"), "batch_dims": 1}, [(6, 5, 9)]),
    ("pad", {"pad": (1, 2, 3, 4), "mode": "constant", "constant_val": 0.0}, [(6, 3, 11, 16)]),
    ("tile", {"reps": (1, 2, 1, 3)}, [(6, 6, 8, 27)]),
    ("fill", {"shape": (2, 5), "value": 0.0}, [(2, 5)]),
    ("fill_like", {"ref_tensor": V((None, 4)), "value": 0.0}, [(6, 4)]),
    ("flatten2d", {"axis": 2}, [(18, 72)]),
    ("resize_bilinear", {"target_size_height": 16, "target_size_width": 5}, [(6, 3, 16, 5)]),
    ("upsample_nearest_neighbor", {"scale_factor_height": 2, "scale_factor_width": 3}, [(6, 3, 16, 27)]),
    ("upsample_bilinear", {"scale_factor_height": 1.1, "scale_factor_width": 2.5}, [(6, 3, 8, 22)]),  # 8.8 and 22.5
    ("reduce_argmax", {"axis": 1, "keep_dims": False}, [(6, 8, 9)]),
    ("reduce_mean", {"axes": (2, 3), "keep_dims": True}, [(6, 3, 1, 1)]),
    ("reduce_sum", {"axes": (-1,), "keep_dims": False}, [(6, 3, 8)]),
    ("reduce_max", {"keep_dims": False}, [()]),
    (
        "batch_to_space",
        {"x": V((None, 3, 4, 5)), "block_shape": (2, 1), "crops": (1, 0, 0, 2)},
        [(3, 3, 7, 3)],
    ),
    ("space_to_batch", {"block_shape": (2, 3), "paddings": (1, 1, 0, 0)}, [(36, 3, 5, 3)]),
    ("depth_to_space", {"x": V((None, 12, 3, 4)), "block_size": 2}, [(6, 3, 6, 8)]),
    ("pixel_shuffle", {"x": V((None, 18, 3, 4)), "upscale_factor": 3}, [(6, 2, 9, 12)]),
    ("space_to_depth", {"x": V((None, 3, 4, 6)), "block_size": 2}, [(6, 12, 2, 3)]),
    ("broadcast_to", {"x": V((None, 1, 9)), "shape": (6, 8, 9)}, [(6, 8, 9)]),
    ("crop", {"crop_height": (1, 2), "crop_width": (0, 3)}, [(6, 3, 5, 6)]),
    ("crop_resize", {"roi": V((5, 1, 4, 1, 1)), "target_height": 2, "target_width": 7}, [(5, 6, 3, 2, 7)]),
    ("crop_resize", {"roi": V((5, 1, 5, 1, 1)), "target_height": 2, "target_width": 7}, [(5, 1, 3, 2, 7)]),
    (
        "crop_resize",
        {"boxes": V((5, 4)), "box_indices": V((5,), "int32"), "target_height": 2, "target_width": 7},
        [(5, 3, 2, 7)],
    ),
    ("crop_like", {"reference": V((1, 1, 4, 5))}, [(6, 3, 4, 5)]),
    ("einsum", {"x": None, "values": ["%p", "%q"], "equation": "nabc,ncd->nabd"}, [(6, 2, 4, 7)]),
    ("one_hot", {"x": None, "indices": V((None,), "int32"), "one_hot_vector_size": 7}, [(6, 7)]),
    ("one_hot", {"x": None, "indices": V((None, 2), "int32"), "one_hot_vector_size": 7, "axis": 1}, [(6, 7, 2)]),
    ("random_categorical", {"x": V((None, 7)), "size": 5}, [(6, 5)]),
    ("random_normal", {"x": None, "shape": (2, 3)}, [(2, 3)]),
    ("range_1d", {"x": None, "start": 2, "end": 12, "step": 3}, [(4,)]),
    ("range_1d", {"x": None, "start": 0.0, "end": 1.0, "step": 0.3}, [(4,)]),
    ("range_1d", {"x": None, "start": 3.0, "end": 1.0, "step": 0.5}, [(0,)]),
    ("resample", {"coordinates": V((6, 4, 5, 2))}, [(6, 3, 4, 5)]),
    ("scatter", {"x": None, "data": V((None, 4)), "indices": V((2,), "int32"), "updates": V((2, 4))}, [(6, 4)]),
    ("slice_by_size", {"begin": (1, 0, 2, 3), "size": (-1, 2, -1, 4)}, [(5, 2, 6, 4)]),
    # 1 and 3; the second axis is dropped; 7, 5 and 3; the last three
    (
        "slice_by_index",
        {
            "begin": (1, 0, 7, -3),
            "end": (5, 1, 1, 0),
            "stride": (2, 1, -2, 1),
            "end_mask": (False, False, False, True),
            "squeeze_mask": (False, True, False, False),
        },
        [(2, 3, 3)],
    ),
    ("sliding_windows", {"x": V((None, 3, 9)), "axis": 2, "size": 3, "stride": 2}, [(6, 3, 4, 3)]),
    ("topk", {"k": 2, "axis": -1}, [(6, 3, 8, 2)] * 2),
    (
        "non_maximum_suppression",
        {
            "x": None,
            "boxes": V((None, 20, 4)),
            "scores": V((6, 20, 3)),
            "max_boxes": 5,
            "iou_threshold": 0.5,
            "score_threshold": 0.5,
        },
        [(6, 5, 4), (6, 5, 3), (6, 5), (6,)],
    ),
    ("softmax", {"axis": -1}, [(6, 3, 8, 9)]),
    # one axis of space, and the fewest axes of others
    ("conv", {"x": V((None, 3, 9)), "weight": V((4, 3, 2), stored=True)}, [(6, 4, 8)]),
    ("conv_transpose", {"x": V((None, 3, 9)), "weight": V((3, 4, 2), stored=True), "strides": (2,)}, [(6, 4, 18)]),
    ("avg_pool", {"x": V((None, 3, 9)), "kernel_sizes": (2,), "strides": (3,), "pad_type": "same"}, [(6, 3, 3)]),
    ("instance_norm", {"x": V((None, 3, 9))}, [(6, 3, 9)]),
    ("batch_norm", {"x": V((None, 3)), "mean": V((3,), stored=True), "variance": V((3,), stored=True)}, [(6, 3)]),
    ("crop", {"x": V((None, 9)), "crop_height": (1, 2), "crop_width": (0, 3)}, [(3, 6)]),
    ("crop_like", {"x": V((None, 3, 8)), "reference": V((1, 2, 5))}, [(6, 2, 5)]),
    ("resize_nearest_neighbor", {"x": V((None, 9)), "target_size_height": 4, "target_size_width": 5}, [(4, 5)]),
    ("upsample_nearest_neighbor", {"x": V((None, 9)), "scale_factor_height": 2}, [(12, 9)]),
    ("linear", {"x": V((8,)), "weight": V((5, 8), stored=True)}, [(5,)]),
    ("matmul", {"x": V((8,)), "y": V((8,))}, [()]),
    ("mvn", {"x": V((None,)), "axes": (-1,)}, [(6,)]),
    ("topk", {"x": V((None,)), "k": -1}, [(6,)] * 2),
    ("topk", {"x": V((4, None))}, [(4, 1)] * 2),
    (
        "scaled_dot_product_attention",
        {"query": V((None, 4)), "key": V((7, 4)), "value": V((7, 3))},
        [(6, 3)],
    ),
    # padding behind the last window of 3 rows: ceil((8 + 2 - 2) / 5) + 1 = 3, the last of which begins at 10 > 8 + 1
    (
        "max_pool",
        {"kernel_sizes": (2, 3), "strides": (5, 4), "pad_type": "custom", "pad": (1, 1, 0, 0), "ceil_mode": True},
        [(6, 3, 2, 3)],
    ),
    # one row of padding below: ceil((8 + 1 - 1) / 4) + 1 = 3, the last of which begins at 8, in the padding
    (
        "max_pool",
        {"kernel_sizes": (1, 3), "strides": (4, 4), "pad_type": "custom", "pad": (0, 1, 0, 0), "ceil_mode": True},
        [(6, 3, 2, 3)],
    ),
    ("reduce_argmin", {"keep_dims": False}, [(6, 3, 8)]),
    ("reduce_argmax", {"axis": 0, "keep_dims": True}, [(1, 3, 8, 9)]),
    ("resize", {"shape": (0, 5), "resized_dims": 2}, [(6, 3, 8, 5)]),
    ("concat", {"values": ["%x", "%x"], "axis": 1, "interleave": True}, [(6, 6, 8, 9)]),
    (
        "reshape_like",
        {
            "x": V((None, 14)),
            "ref_tensors": ["%p", "%q"],
            "begins": [0, 2],
            "ends": [2, 0],
            "end_masks": [False, True],
        },
        [(6, 2, 7)],
    ),
    ("reshape_like", {"x": V((8,)), "ref_tensors": ["%p"], "begins": [1], "ends": [3], "end_masks": [False]}, [(2, 4)]),
    ("tile", {"reps": (-1, 2, 1, 1)}, [(6, 6, 8, 9)]),  # -1 / size, as integers
    *(
        ("tile", {"reps": Packed((2, 1, 3, 1), dtype)}, [(12, 3, 24, 9)])
        for dtype in ("int8", "int16", "int64", "uint8", "uint16", "uint32")
    ),
    *(
        ("upsample_bilinear", {"scale_factor_height": Packed((1.5,), dtype)}, [(6, 3, 12, 9)])
        for dtype in ("float16", "float64")
    ),
    ("random_categorical", {"x": V((None, 7))}, [(6, 1)]),
    ("crop_resize", {"boxes": V((5, 4)), "box_indices": V((5,), "int32")}, [(5, 3, 1, 1)]),
    ("affine", {"transform_matrix": V((6, 6)), "output_height": 4, "output_width": 5}, [(6, 3, 4, 5)]),
    ("quantize", {"x": None, "input": V((None, 3)), "scale": 0.5}, [(6, 3)]),
    ("dequantize", {"x": None, "input": V((None, 3)), "scale": V((3,), stored=True)}, [(6, 3)]),
    ("classify", {"x": None, "probabilities": V((None,))}, [()]),
    ("slice_by_index", {"begin": (0, 0, 7, 0), "end": (6, 3, 0, 9), "stride": (4, 1, -3, 2)}, [(2, 3, 3, 5)]),
    # the fourth axis is whole; -1 of a size is the rest
    ("pad", {"pad": (1, 0, 0, 0, 0, 2, 3, 4), "mode": "constant"}, [(7, 3, 10, 16)]),
    ("pixel_unshuffle", {"x": V((None, 3, 4, 6)), "downscale_factor": 2}, [(6, 12, 2, 3)]),
    ("gather", {"indices": 1, "axis": 1}, [(6, 8, 9)]),
    ("list_gather", {"x": None, "ls": V((4, None), is_list=True), "indices": V((3,), "int32")}, [(3, 6)]),
    ("list_length", {"x": None, "ls": V((4, None), is_list=True)}, [()]),
    (
        "list_scatter",
        {"x": None, "ls": V((4, None), is_list=True), "indices": V((3,), "int32"), "value": V((3, 5))},
        [(4, 5)],
    ),
    ("list_write", {"x": None, "ls": V((4, None), is_list=True), "index": 1, "value": V((5,))}, [(4, 5)]),
    ("reduce_sum", {"x": V((None,)), "axes": (-1,), "keep_dims": True}, [(1,)]),
    ("flatten2d", {}, [(6, 216)]),
]

OTHERS = {"p": V((None, 2, 4, 3)), "q": V((6, 3, 7))}
"""Operands of the rows that have several in one argument."""


def of_row(inputs):
    """Return the inputs of the program, and the operands: values without data are inputs."""
    operands = {"x": X, **inputs}
    if operands["x"] is None or any(name in inputs for name in ("query", "ref_tensor", "cond", "values")):
        del operands["x"]
    given = {name: value for name, value in operands.items() if isinstance(value, V) and not value.stored}
    listed = [name[1:] for name in (*operands.get("values", []), *operands.get("ref_tensors", []))]
    given |= {name: X if name == "x" else OTHERS[name] for name in listed}
    return given, {name: f"%{name}" if name in given else value for name, value in operands.items()}


def sizes(report):
    return [shape for each in report.layer_report.values() for shape in each["output_shapes"]]


@pytest.mark.parametrize(("kind", "inputs", "expected"), SHAPES, ids=[f"{row[0]}-{i}" for i, row in enumerate(SHAPES)])
def test_sizes_follow_from_operands(kind, inputs, expected):
    given, operands = of_row(inputs)
    results = {f"y{i}": V((None,) * len(shape)) for i, shape in enumerate(expected)}
    path = model(given or {"x": X}, Op(kind, operands, results))
    symbols = [str(size) for size in estimate(path).symbols]
    report = estimate(path, dims=dict.fromkeys(symbols, 6))
    assert (sizes(report), report.status) == (expected, "complete")
    assert sizes(estimate(path).subs(dict.fromkeys(symbols, 6))) == expected


def test_a_shape_is_computed_from_sizes():
    """x of 6 x 3 x 8 x 9: (3 + 8) 2 - 2 = 20 is no size of it, 9 * 8 is; 6 * 3 * 72 / 36 = 36."""
    scalar, vector = V((), "int32"), V((None,), "int32")
    steps = [
        Op("shape", {"x": "%x"}, {"s": vector}),
        Op("slice_by_index", {"x": "%s", "begin": (1,), "end": (2,), "squeeze_mask": (True,)}, {"c": scalar}),
        Op("gather", {"x": "%s", "indices": 2, "axis": 0}, {"h": scalar}),
        Op("gather", {"x": "%s", "indices": -1, "axis": 0}, {"w": scalar}),
        Op("mul", {"x": "%h", "y": "%w"}, {"hw": scalar}),
        Op("sub", {"x": "%hw", "y": "%w"}, {"less": scalar}),  # 63
        Op("add", {"x": "%less", "y": "%w"}, {"again": scalar}),  # 72
        Op("floor_div", {"x": "%again", "y": 2}, {"half": scalar}),  # 36
        Op("mod", {"x": "%half", "y": 11}, {"rest": scalar}),  # 3
        Op("maximum", {"x": "%rest", "y": 2}, {"most": scalar}),  # 3
        Op("minimum", {"x": "%most", "y": "%c"}, {"least": scalar}),  # 3
        Op("concat", {"values": ["%half", "%least"], "axis": 0}, {"found": vector}),
        Op("concat", {"values": ["%found", "%tail"], "axis": 0}, {"shape": vector}),
        Op("reshape", {"x": "%x", "shape": "%shape"}, {"y": V((None, None, None))}),
    ]
    tail = Op("const", {"val": (-1,)}, {"tail": V((1,), "int32")})
    report = estimate(model({"x": X}, tail, *steps), dims={"x_0": 6})
    assert sizes(report)[-1] == (36, 3, 12)


ELEMENTS = [
    # operands, and the elements of the result, which are the sizes of another value
    ("shape", {"x": "%x"}, (6, 3, 8, 9)),
    ("add", {"x": (2, 3), "y": (4, 5)}, (6, 8)),
    ("sub", {"x": (9, 7), "y": (4, 5)}, (5, 2)),
    ("mul", {"x": (2, 3), "y": 4}, (8, 12)),
    ("floor_div", {"x": (9, 7), "y": (2, 3)}, (4, 2)),
    ("real_div", {"x": (8, 9), "y": (2, 3)}, (4, 3)),
    ("mod", {"x": (9, 7), "y": (4, 5)}, (1, 2)),
    ("maximum", {"x": (2, 9), "y": 4}, (4, 9)),
    ("minimum", {"x": (2, 9), "y": 4}, (2, 4)),
    ("equal", {"x": (1, 2), "y": 2}, (0, 1)),
    ("select", {"cond": (False, True), "a": (5, 6), "b": (7, 8)}, (7, 6)),
    ("concat", {"values": [(2, 3), (4, 5)], "axis": 0}, (2, 3, 4, 5)),
    ("concat", {"values": [(2, 3), (4, 5)], "axis": 0, "interleave": True}, None),
    ("range_1d", {"start": 2, "end": 9, "step": 3}, (2, 5, 8)),
    ("cast", {"x": (2.5, 3.0), "dtype": "int32"}, (2, 3)),
    ("floor", {"x": (2.5, 3.0)}, (2, 3)),
    ("ceil", {"x": (2.5, 3.0)}, (3, 3)),
    ("expand_dims", {"x": 4, "axes": (0,)}, (4,)),
    ("squeeze", {"x": (4, 5)}, (4, 5)),
    ("identity", {"x": (4, 5)}, (4, 5)),
    ("reshape", {"x": (4, 5), "shape": (-1,)}, (4, 5)),
    ("gather", {"x": (4, 5, 6), "indices": (2, -3), "axis": 0}, (6, 4)),
    ("slice_by_index", {"x": (4, 5, 6, 7), "begin": (1,), "end": (3,)}, (5, 6)),
    ("slice_by_index", {"x": (4, 5, 6, 7), "begin": (1,), "end": (3,), "begin_mask": (True,)}, (4, 5, 6)),
    ("slice_by_index", {"x": (4, 5, 6, 7), "begin": (1,), "end": (3,), "end_mask": (True,)}, (5, 6, 7)),
    ("slice_by_index", {"x": (4, 5, 6), "begin": (0,), "end": (3,), "stride": (2,)}, (4, 6)),
    ("slice_by_index", {"x": (4, 5, 6), "begin": (-1,), "end": (0,), "squeeze_mask": (True,)}, 6),
    ("reduce_prod", {"x": (2, 3, 4), "axes": (0,), "keep_dims": True}, (24,)),
    ("reduce_sum", {"x": (2, 3, 4), "axes": (0,), "keep_dims": True}, (9,)),
    ("reduce_max", {"x": (2, 4, 3), "axes": (0,), "keep_dims": True}, (4,)),
    ("reduce_min", {"x": (3, 2, 4), "axes": (0,), "keep_dims": True}, (2,)),
]


@pytest.mark.parametrize(
    ("kind", "operands", "expected"), ELEMENTS, ids=[f"{row[0]}-{i}" for i, row in enumerate(ELEMENTS)]
)
def test_elements_follow_from_operands(kind, operands, expected):
    is_scalar = isinstance(expected, int)
    sizes_of = Op(kind, operands, {"s": V(() if is_scalar else (None,), "int32")})
    vector = Op("expand_dims", {"x": "%s", "axes": (0,)}, {"v": V((1,), "int32")})
    wanted = (expected,) if is_scalar else expected or (1,) * 4
    made = Op("fill", {"shape": "%v" if is_scalar else "%s", "value": 0.0}, {"y": V((None,) * len(wanted))})
    path = model({"x": X}, sizes_of, *([vector] if is_scalar else []), made)
    found = estimate(path, dims={"x_0": 6}).calls[-1].layer.out.shape
    assert [str(size) for size in found] == [f"y_{i}" if expected is None else str(n) for i, n in enumerate(wanted)]


GRU = [(6, 2, 4), (2, 4)]

LSTM = {"weight_ih": V((16, 3), stored=True), "weight_hh": V((16, 4), stored=True)}


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("lstm", {"output_sequence": True}, [(6, 2, 4), (2, 4), (2, 4)]),
        ("lstm", {"output_sequence": False}, [(1, 2, 4), (2, 4), (2, 4)]),
        (
            "lstm",
            {
                "output_sequence": True,
                "direction": "bidirectional",
                "weight_ih_back": V((16, 3), stored=True),
                "weight_hh_back": V((16, 4), stored=True),
            },
            [(6, 2, 8), (2, 8), (2, 8)],
        ),
        ("gru", {"output_sequence": True}, [(6, 2, 4), (2, 4)]),
        ("gru", {"output_sequence": True, "bias": V((12,), stored=True), "input_bias": V((12,), stored=True)}, GRU),
    ],
)
def test_steps_of_recurrent_layers(kind, options, expected):
    width = expected[1][1]
    given = {"x": V((None, 2, 3)), "initial_h": V((2, width))} | (
        {"initial_c": V((2, width))} if kind == "lstm" else {}
    )
    results = {f"y{i}": V((None,) * len(shape)) for i, shape in enumerate(expected)}
    operands = {**{name: f"%{name}" for name in given}, **LSTM, **options}
    report = estimate(model(given, Op(kind, operands, results)), dims={"x_0": 6})
    assert sizes(report) == expected
    stored = [value for value in operands.values() if isinstance(value, V)]
    assert report.total_report["n_params"] == sum(prod(value.shape) for value in stored)
