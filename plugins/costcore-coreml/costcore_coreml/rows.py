"""The mapping rules of MIL operations, for all opsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costcore.ir import Calculator, Cost, Layer, Operations, element_wise
from costcore.translate import Arguments, Row, Source

from .shapes import axes_of, flat_vectors, number, paddings, sizes_of, values

UNARY: Mapping[str, str] = {
    **{
        name: name
        for name in (
            *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2"),
            *("floor", "log"),
            *("logical_not", "relu", "relu6", "round", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "softplus"),
            *("softsign", "sqrt", "square", "tan", "tanh"),
        )
    },
    "clamped_relu": "leaky_clip",
    "inverse": "reciprocal",
    "linear_activation": "scale_and_shift",
    "scaled_tanh": "scaled_tanh",
    "sigmoid_hard": "hard_sigmoid",
    "threshold": "threshold",
    "thresholded_relu": "threshold",
}
"""Functions of one tensor; further arguments are constants that do not affect the cost."""

BINARY: Mapping[str, str] = {
    **{
        name: name
        for name in (
            *("add", "equal", "floor_div", "greater", "greater_equal", "less", "less_equal", "logical_and"),
            *("logical_or", "logical_xor", "maximum", "minimum", "mod", "mul", "not_equal", "pow", "sub"),
        )
    },
    "real_div": "div",
}
"""Functions of two operands."""

REDUCTIONS: Mapping[str, str] = {
    "reduce_l1_norm": "reduce_l1",
    "reduce_l2_norm": "reduce_l2",
    **{
        f"reduce_{name}": f"reduce_{name}"
        for name in ("log_sum", "log_sum_exp", "max", "mean", "min", "prod", "sum", "sum_square")
    },
}

FREE: Mapping[str, str] = {
    "expand_dims": "reshape",
    "flatten2d": "reshape",
    "identity": "reshape",
    "old_flatten": "reshape",
    "old_reshape": "reshape",
    "reshape": "reshape",
    "reshape_like": "reshape",
    "shape": "shape",
    "squeeze": "reshape",
}

MOVES: Mapping[str, str] = {
    "band_part": "tril",
    "batch_to_space": "copy",
    "broadcast_like": "broadcast_to",
    "broadcast_to": "broadcast_to",
    "crop": "slice",
    "crop_like": "slice",
    "depth_to_space": "depth_to_space",
    "pad": "pad",
    "pixel_shuffle": "pixel_shuffle",
    "pixel_unshuffle": "space_to_depth",
    "reverse": "flip",
    "slice_axis": "slice",
    "slice_by_index": "slice",
    "slice_by_size": "slice",
    "sliding_windows": "im2col",
    "space_to_batch": "copy",
    "space_to_depth": "space_to_depth",
    "split": "split",
    "tile": "tile",
    "transpose": "transpose",
}
"""Operations that copy elements of ``x``."""

OLDER = frozenset(
    (
        *("acosh", "asinh", "broadcast_like", "broadcast_to", "cosine_similarity", "crop_like", "dot", "mvn"),
        *("old_embedding", "old_flatten", "old_gru", "old_linear", "old_lstm", "old_reshape", "old_rnn"),
        *("random_bernoulli_like", "random_normal_like", "random_uniform_like", "slice_axis", "subtract_mean"),
        *("array feature extractor", "one-hot encoder"),
    )
)
"""Operations that MIL lacks: they stand for layers of the older format and for pipeline stages."""

LEARNED_BY = frozenset(("add", "gather", "matmul", "mul", "real_div", "sub"))
"""Elementary operations whose constants of several floats are learned. Rows of layers name their learned operands."""

WALKED = frozenset(("cond", "const", "read_state", "while_loop"))
"""Operations without a row: constants, states, branches and loops, which the walker handles."""

OPERANDS: Mapping[str, Sequence[str]] = {
    name: operands.split()
    for names, operands in (
        ((*UNARY, *REDUCTIONS, *FREE, *MOVES), "x"),
        (BINARY, "x y"),
        (("conv", "conv_quantized", "conv_transpose", "linear", "old_linear"), "x weight"),
        (("avg_pool", "instance_norm", "l2_pool", "max_pool"), "x"),
        (("crop_resize", "resize", "resize_bilinear", "resize_nearest_neighbor"), "x"),
        (("upsample_bilinear", "upsample_nearest_neighbor"), "x"),
        (("cosine_similarity", "dot", "matmul"), "x y"),
        (("scaled_dot_product_attention",), "query key value"),
        (("lstm", "gru", "rnn", "old_lstm", "old_gru", "old_rnn"), "x weight_ih weight_hh"),
        (("classify",), "probabilities"),
        (("list_read", "list_gather", "list_length"), "ls"),
        (("list_scatter", "list_write"), "ls value"),
        (("concat", "stack", "einsum"), "values"),
        (("gather", "gather_along_axis", "gather_nd", "old_embedding"), "x indices"),
        (("scatter", "scatter_along_axis", "scatter_nd"), "data indices updates"),
        (("select",), "cond a b"),
        (("slice_update",), "x update"),
        (("read_state",), "input"),
        (("coreml_update_state",), "state value"),
        (("quantize", "dequantize"), "input scale"),
        (("batch_norm",), "x mean variance"),
        (("prelu",), "x alpha"),
        (("resample",), "x coordinates"),
        (("affine",), "x transform_matrix"),
        (("non_maximum_suppression",), "boxes scores"),
        (("one_hot",), "indices"),
        (("reverse_sequence",), "x lengths"),
        (("write_state",), "input data"),
        (("argsort", "cast", "clip", "cumsum", "elu", "gelu", "l2_norm", "layer_norm", "leaky_relu", "mvn"), "x"),
        (("local_response_norm", "non_zero", "random_categorical", "reduce_argmax", "reduce_argmin", "softmax"), "x"),
        (("softplus_parametric", "subtract_mean", "topk"), "x"),
    )
    for name in names
}
"""The operands that an operation needs."""

LEAST_AXES: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("conv", "conv_quantized", "conv_transpose", "cosine_similarity", "dot"), (3, 3)),
    **dict.fromkeys(("avg_pool", "instance_norm", "l2_pool", "max_pool"), (3,)),
    **dict.fromkeys(("crop_resize", "resize", "resize_bilinear", "resize_nearest_neighbor"), (2,)),
    **dict.fromkeys(("upsample_bilinear", "upsample_nearest_neighbor"), (2,)),
    **dict.fromkeys(("linear", "old_linear"), (1, 2)),
    "matmul": (1, 1),
    "scaled_dot_product_attention": (2, 2, 2),
    **dict.fromkeys(("lstm", "gru", "rnn"), (3, 2, 2)),
    **dict.fromkeys(("old_lstm", "old_gru", "old_rnn"), (2, 2, 2)),
    **dict.fromkeys(("list_read", "list_gather", "list_length", "list_scatter", "list_write"), (1,)),
    **dict.fromkeys(("classify", "mvn", "subtract_mean", "topk"), (1,)),
    "old_embedding": (2,),
    "batch_norm": (2, 1, 1),
    **dict.fromkeys(("affine", "resample"), (4,)),
}
"""The minimum rank of the operands in :data:`OPERANDS`, in the same order; others may be scalars."""


@element_wise
def calc_elements(layer: Layer) -> Cost:
    """Elementwise functions that only Core ML has."""
    return Cost(PER_ELEMENT[layer.op] * layer["x"].size, layer.read, layer.written, layer.attrs)


PER_ELEMENT: Mapping[str, Operations] = {
    "leaky_clip": Operations(mul=1, cmp=2),  # min(beta, x > 0 ? x : alpha x)
    "parametric_softplus": Operations(mul=2, add=1, special=2),  # alpha log(1 + exp(beta x))
    "scale_and_shift": Operations(fma=1),  # alpha x + beta
}

CALCULATORS: Mapping[str, Calculator] = dict.fromkeys(PER_ELEMENT, calc_elements)


def operand(name: str) -> Source:
    """Return a source that reads an operand; None if it is absent."""
    return lambda a: a.get(name)


def setting(name: str, default: Any = None) -> Source:
    """Return a source that reads a scalar constant operand."""
    return lambda a: number(a, name, default)


def parts(name: str) -> Source:
    """Return a source that reads the scales, tables and masks of a compressed operand."""
    return lambda a: getattr(a.get(name), "beside", None)


def _axis(name: str = "axis", default: int = -1, of: str = "x") -> Source:
    return lambda a: int(number(a, name, default)) % max(a[of].ndim, 1)


def _axes(name: str = "axes") -> Source:
    return lambda a: axes_of(a, name, a["x"].ndim)


def _topk_size(a: Arguments) -> Any:
    return a["outputs"][0].shape[int(number(a, "axis", -1))]


X: Mapping[str, Source] = {"x": operand("x")}
XY: Mapping[str, Source] = {"x*": lambda a: [a["x"], a["y"]]}
XS: Mapping[str, Source] = {"x*": operand("values")}
WB: Mapping[str, Source] = {"w": operand("weight"), "w*_scale": parts("weight"), "b": operand("bias")}


def _kernel(a: Arguments) -> tuple[Any, ...]:
    return a["weight"].shape[2:] if "weight" in a else values(a, "kernel_sizes") or ()


def _spatial(name: str) -> Source:
    return lambda a: sizes_of(a, name, len(_kernel(a)))


def _padding(a: Arguments) -> Any:
    """Return the padding, one number for each axis if both ends are equal."""
    kernel = _kernel(a)
    found = paddings(a, kernel, sizes_of(a, "dilations", len(kernel)))
    return tuple(before for before, _ in found) if all(before == after for before, after in found) else found


WINDOWS: Mapping[str, Source] = {
    "kernel": _kernel,
    "stride": _spatial("strides"),
    "padding": _padding,
    "dilation": _spatial("dilations"),
}
CONV: Mapping[str, Source] = {**WINDOWS, "groups": setting("groups", 1)}
POOL: Mapping[str, Source] = {**WINDOWS, "ceil_mode": setting("ceil_mode", False)}


def _side(name: str) -> Callable[[Arguments], Any]:
    """Return a source that reads one side of a product, transposed if the operation says so."""

    def read(a: Arguments) -> Any:
        value = a[name]
        turned = number(a, f"transpose_{name}", False) and value.ndim > 1
        return value.permuted(*range(value.ndim - 2), value.ndim - 1, value.ndim - 2) if turned else value

    return read


def _is_linear(a: Arguments) -> bool:
    """Return whether a product is a linear layer: data times a stored matrix."""
    x, y = a["x"], a["y"]
    return bool(y.is_stored and not x.is_stored and y.ndim == 2 and not number(a, "transpose_x", False))


def _matrix(a: Arguments) -> Any:
    """Return the matrix of a linear layer as ``[F_out, F_in]``."""
    return a["y"] if number(a, "transpose_y", False) else a["y"].permuted(1, 0)


def _is_table(a: Arguments) -> bool:
    """Return whether a gather looks up rows of a stored matrix."""
    x = a["x"]
    return bool(x.is_stored and x.is_parameter and x.ndim == 2 and number(a, "axis", 0) in (0, -2))


def _vectors(name: str, shape: tuple[int, int]) -> Source:
    """Return a source that views vectors ``[…, C, 1, 1]`` as matrices of ``shape``, where -1 stands for C."""
    return lambda a: a[name].viewed(*a[name].shape[:-3], *(a[name].shape[-3] if n < 0 else n for n in shape))


def _recurrent(native: str, state: bool = False) -> Row:
    """Return the row of a recurrent layer with input ``[T, N, I]`` and weights ``[gates H, I]``, ``[gates H, H]``."""
    inputs: dict[str, Source] = {
        "x": operand("x"),
        "h0": operand("initial_h"),
        "c0": operand("initial_c") if state else lambda a: None,
        "w0": operand("weight_ih"),
        "w1": operand("weight_hh"),
        "b0": operand("bias"),
        "w2": operand("weight_ih_back"),
        "w3": operand("weight_hh_back"),
        "b1": operand("input_bias" if native == "gru" else "bias_back"),
        "w4": operand("peephole"),
        "w5": operand("peephole_back"),
    }
    return Row(
        f"coreml::{native}",
        native,
        inputs,
        {
            "hidden": lambda a: a["weight_hh"].shape[1],
            "layers": lambda a: 1,
            "bidirectional": lambda a: number(a, "direction") == "bidirectional",
            **({"reset_after": setting("reset_after", False)} if native == "gru" else {}),
            **({"peephole": lambda a: "peephole" in a or None} if native == "lstm" else {}),
        },
    )


def _steps(a: Arguments) -> Any:
    """Return the input of an older recurrent layer as ``[T, N, I]``; its first axis is time."""
    x = a["x"]
    return x.viewed(x.shape[0], 1, x.shape[1]) if x.ndim in (2, 4) else x.viewed(*x.shape[:3])


def _old(row: Row) -> Row:
    """Return the row of a recurrent layer of the older format."""
    return Row(f"coreml::old_{row.op}", row.op, {**row.inputs, "x": _steps}, row.attrs)


def row(native: str, op: str, inputs: Mapping[str, Source] = X, **attrs: Source) -> Row:
    """Return the row of an operation."""
    return Row(f"coreml::{native}", op, inputs, attrs)


DATA = {"x": operand("data"), "indices": operand("indices"), "updates": operand("updates")}
SCATTER_MODES = {"sub": "add", "update": "none"}
"""Names of scatter modes in formulas. A subtraction costs as much as an addition."""

MODE: Source = lambda a: SCATTER_MODES.get(found := number(a, "mode", "add"), found)  # noqa: E731
LINEAR: Source = lambda a: "linear"  # noqa: E731
NEAREST: Source = lambda a: "nearest"  # noqa: E731

_RECURRENT = (_recurrent("lstm", state=True), _recurrent("gru"), _recurrent("rnn"))

ROWS: tuple[Row, ...] = (
    Row("coreml::conv", "conv", {**X, **WB}, CONV),
    Row("coreml::conv_quantized", "conv", {**X, **WB}, CONV),
    Row("coreml::conv_transpose", "conv_transpose", {**X, **WB}, CONV),
    Row("coreml::linear", "linear", {**X, **WB}),
    Row("coreml::old_linear", "linear", {"x": lambda a: a["x"].viewed(*flat_vectors(a["x"].shape)), **WB}),
    row("dot", "matmul", {"x0": _vectors("x", (1, -1)), "x1": _vectors("y", (-1, 1))}),
    row(
        "cosine_similarity",
        "cosine_similarity",
        {"x0": operand("x"), "x1": operand("y")},
        axis=lambda a: a["x"].ndim - 3,
    ),
    Row("coreml::matmul", "linear", {**X, "w": _matrix, "w*_scale": parts("y")}, when=_is_linear),
    Row("coreml::matmul", "matmul", {"x0": _side("x"), "x1": _side("y")}),
    row("einsum", "einsum", XS, equation=setting("equation")),
    row(
        "scaled_dot_product_attention",
        "attention",
        {"q": operand("query"), "k": operand("key"), "v": operand("value"), "mask": operand("attn_mask")},
        causal=lambda a: False,
    ),
    *(
        Row(f"coreml::{native}", op, X, {**POOL, **({"p": lambda a: 2} if op == "lp_pool" else {})})
        for native, op in (("avg_pool", "avg_pool"), ("max_pool", "max_pool"), ("l2_pool", "lp_pool"))
    ),
    *(each for row in _RECURRENT for each in (row, _old(row))),
    *(row(native, op) for native, op in {**UNARY, **FREE, **MOVES}.items()),
    *(row(native, op, XY) for native, op in BINARY.items()),
    *(row(native, op, axis=_axes(), keepdims=setting("keep_dims", False)) for native, op in REDUCTIONS.items()),
    row("reduce_argmax", "argmax", axis=_axis()),
    row("reduce_argmin", "argmin", axis=_axis()),
    row("clip", "clip", lower=setting("alpha"), upper=setting("beta")),
    row("elu", "elu", alpha=setting("alpha")),
    row("leaky_relu", "leaky_relu", slope=setting("alpha")),
    Row(
        "coreml::gelu",
        lambda a: "quick_gelu" if number(a, "mode") == "SIGMOID_APPROXIMATION" else "gelu",
        X,
        {"approximate": lambda a: "tanh" if number(a, "mode") == "TANH_APPROXIMATION" else None},
        ops=("gelu", "quick_gelu"),
    ),
    row("prelu", "prelu", {**X, "w": operand("alpha")}),
    row("softplus_parametric", "parametric_softplus", {**X, "w": operand("alpha"), "b": operand("beta")}),
    row("softmax", "softmax", axis=_axis()),
    row("cast", "cast", dtype=lambda a: a["outputs"][0].dtype),
    row("select", "where", {"condition": operand("cond"), "x0": operand("a"), "x1": operand("b")}),
    row(
        "batch_norm",
        "batch_norm",
        {**X, "w": operand("gamma"), "b": operand("beta"), "mean": operand("mean"), "var": operand("variance")},
        training=lambda a: False,
    ),
    row("instance_norm", "instance_norm", {**X, "w": operand("gamma"), "b": operand("beta")}),
    row("layer_norm", "layer_norm", {**X, "w": operand("gamma"), "b": operand("beta")}, axis=_axes()),
    row("l2_norm", "l2_normalize", axis=lambda a: tuple(range(max(a["x"].ndim - 3, 0), a["x"].ndim))),
    row("local_response_norm", "local_response_norm", size=setting("size")),
    *(row(f"{kind}_bilinear", "resize", mode=LINEAR) for kind in ("resize", "upsample")),
    *(row(f"{kind}_nearest_neighbor", "resize", mode=NEAREST) for kind in ("resize", "upsample")),
    row(
        "resize",
        "resize",
        mode=lambda a: "linear" if number(a, "interpolation_mode", "LINEAR") == "LINEAR" else "nearest",
    ),
    row(
        "crop_resize",
        "crop_and_resize",
        {**X, "rois": lambda a: a.get("roi", a.get("boxes")), "indices": operand("box_indices")},
        mode=LINEAR,
    ),
    row("resample", "grid_sample", {**X, "grid": operand("coordinates")}, mode=LINEAR),
    row("affine", "grid_sample", {**X, "grid": operand("transform_matrix")}, mode=LINEAR),
    row("concat", "concat", XS, axis=lambda a: int(number(a, "axis", 0)) % max(a["outputs"][0].ndim, 1)),
    row("stack", "stack", XS, axis=lambda a: int(number(a, "axis", 0)) % a["outputs"][0].ndim),
    Row(
        "coreml::gather",
        "embedding",
        {"x": operand("indices"), "w": operand("x"), "w*_scale": parts("x")},
        when=_is_table,
    ),
    row("old_embedding", "embedding", {"x": operand("indices"), "w": operand("x")}),
    row("mvn", "mean_variance_norm", axis=_axes()),
    row("subtract_mean", "subtract_mean", axis=_axes()),
    row("classify", "argmax", {"x": operand("probabilities")}, axis=lambda a: a["probabilities"].ndim - 1),
    row("gather", "gather", {**X, "indices": operand("indices")}, axis=_axis(default=0)),
    row("gather_along_axis", "gather_elements", {**X, "indices": operand("indices")}, axis=_axis(default=0)),
    row("gather_nd", "gather_nd", {**X, "indices": operand("indices")}),
    *(row(name, "scatter_elements", DATA, reduction=MODE) for name in ("scatter", "scatter_along_axis")),
    row("scatter_nd", "scatter_nd", DATA, reduction=MODE),
    row("slice_update", "slice_scatter", {**X, "updates": operand("update")}),
    row("write_state", "copy", {"x": operand("data")}),
    row("coreml_update_state", "copy", {"x": operand("value")}),
    row("fill", "full", {}),
    row("fill_like", "full", {}),
    row("range_1d", "arange", {}),
    *(
        row(f"random_{kind}{like}", "random", {})
        for kind in ("bernoulli", "normal", "uniform")
        for like in ("", "_like")
    ),
    row("random_categorical", "multinomial"),
    row("one_hot", "one_hot", {"x": operand("indices")}),
    row("array feature extractor", "slice", {"x": operand("x0")}),
    row("one-hot encoder", "one_hot", {"x": operand("x0")}),
    row("make_list", "empty", {}),
    row("list_read", "slice", {"x": operand("ls")}),
    row("list_gather", "gather", {"x": operand("ls"), "indices": operand("indices")}, axis=lambda a: 0),
    *(
        row(name, "slice_scatter", {"x": operand("ls"), "updates": operand("value")})
        for name in ("list_scatter", "list_write")
    ),
    row("list_length", "shape", {"x": operand("ls")}),
    row("topk", "topk", axis=_axis(), k=_topk_size),
    row("argsort", "argsort", axis=_axis()),
    row("non_zero", "nonzero"),
    row("cumsum", "cumsum", axis=_axis(default=0)),
    row("reverse_sequence", "reverse_sequence", {**X, "lengths": operand("lengths")}),
    row("non_maximum_suppression", "non_max_suppression", {"x0": operand("boxes"), "x1": operand("scores")}),
    row(
        "quantize",
        "quantize",
        {"x": operand("input"), "y_scale": operand("scale"), "y_zero_point": operand("zero_point")},
    ),
    row(
        "dequantize",
        "dequantize",
        {"x": operand("input"), "x_scale": operand("scale"), "x_zero_point": operand("zero_point")},
    ),
)
