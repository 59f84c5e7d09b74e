"""Rows of products, linear algebra, convolutions, pooling, resizing and recurrence, and of their gradients.

Spatial transformers and Fourier transforms are included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import Any

import numpy

from costcore.translate import Arguments, Row, Source

from ..arrays import (
    ALL_INPUTS,
    DY,
    WINDOW_2D,
    X_DY,
    Reshaped,
    X,
    array_attribute,
    attribute,
    attributes,
    constant,
    input_at,
    operands,
    output_gradient,
    pooling_attribute,
    row,
    rows_by_name,
    with_saved_array,
)

SPARSE_INDICES = {"rows": array_attribute("sp_row"), "columns": array_attribute("sp_col")}


def as_matrices(index: int) -> Source:
    """Read an operand of a batched product as [batch, rows, columns], a vector as one column."""

    def read(args: Arguments) -> Reshaped:
        x = args["inputs"][index]
        return Reshaped(x, (*x.shape[:2], numpy.prod(x.shape[2:], dtype=int).item()))

    return read


def as_matrix(index: int) -> Source:
    """Read an operand as [rows, features]."""

    def read(args: Arguments) -> Reshaped:
        x = args["inputs"][index]
        return Reshaped(x, (len(x), x.size // max(len(x), 1)))

    return read


def features_first(index: int) -> Source:
    """Read a bilinear weight [in, in, out] as [out, in, in]."""

    def read(args: Arguments) -> Reshaped:
        w = args["inputs"][index]
        return Reshaped(w, (w.shape[2], *w.shape[:2]))

    return read


def is_transposed(index: int, name: str) -> Source:
    """Return True if an operand is stored transposed, else None, the default."""
    return lambda args: True if getattr(args["function"], name) and args["inputs"][index].ndim > 1 else None


def has_inputs(count: int) -> Any:
    """Return a condition: the function has this number of inputs."""
    return lambda args: len(args["inputs"]) == count


def einsum_equation(args: Arguments) -> str:
    """Return the subscripts of ``F.einsum``, in which Chainer writes ``@`` for the ellipsis."""
    function = args["function"]
    return f"{function.in_subs}->{function.out_sub}".replace("@", "...")


def diag_einsum_equation(args: Arguments) -> str:
    """Return the subscripts of a gradient of ``F.einsum``, without the axes along which the result is repeated."""
    inputs = args["function"].in_subs
    return f"{inputs}->{''.join(c for c in args['function'].out_sub if c in inputs)}".replace("@", "...")


def tensordot_equation(args: Arguments) -> str:
    """Return the subscripts of ``F.tensordot``, which sums over pairs of axes."""
    a, b = (x.ndim for x in args["inputs"])
    left, right = list(ascii_letters[:a]), list(ascii_letters[a : a + b])
    for i, j in zip(args["function"].a_axes[1], args["function"].b_axes[0], strict=True):
        right[j] = left[i]
    free = [left[i] for i in args["function"].a_axes[0]] + [right[j] for j in args["function"].b_axes[1]]
    return f"{''.join(left)},{''.join(right)}->{''.join(free)}"


def with_mask(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs, and the mask that the function sampled."""
    return (*outputs, args["function"].mask)


TRANSPOSED = {"transpose_x0": is_transposed(0, "transa"), "transpose_x1": is_transposed(1, "transb")}

BILINEAR = {"x0": as_matrix(0), "x1": as_matrix(1), "w": features_first(2)}

BIAFFINE = {"x0": as_matrix(0), "x1": as_matrix(1), "w0": features_first(2), "w1": input_at(3), "w2": input_at(4)}

MATMUL_ROWS: tuple[Row, ...] = (
    row("LinearFunction", "linear", operands("x", "w", "b")),
    Row(
        "chainer::SimplifiedDropconnect",
        "dropconnect_linear",
        {"x": as_matrix(0), "w": input_at(1), "b": input_at(2)},
        {"rate": attribute("ratio")},
        outputs=with_mask,
    ),
    row("MatMul", "matmul", operands("x0", "x1"), **TRANSPOSED),
    row("BatchMatMul", "matmul", {"x0": as_matrices(0), "x1": as_matrices(1)}, **TRANSPOSED),
    row("EinSum", "einsum", ALL_INPUTS, equation=einsum_equation),
    row("DiagEinSum", "einsum", ALL_INPUTS, equation=diag_einsum_equation),
    row("TensorDot", "einsum", ALL_INPUTS, equation=tensordot_equation),
    row(
        "CooMatMul",
        "sparse_matmul",
        {"x0": input_at(0), **SPARSE_INDICES, "x1": input_at(1)},
        transpose_x1=is_transposed(1, "transb"),
    ),
    row("CooMatMulGradSP", "sampled_matmul", {**operands("x0", "x1"), **SPARSE_INDICES}, **TRANSPOSED),
    Row("chainer::BilinearFunction", "bilinear", BILINEAR, when=has_inputs(3)),
    row("BilinearFunction", "biaffine", {**BIAFFINE, "b": input_at(5)}),
    # gradients
    row("LinearGradData", "matmul", {"x0": input_at(1), "x1": input_at(0)}),
    row("LinearGradWeight", "matmul", {"x0": input_at(1), "x1": input_at(0)}, transpose_x0=constant(True)),
    row(
        "BatchMatMulGrad",
        "matmul_backward",
        {"dy": input_at(2), "x0": as_matrices(0), "x1": as_matrices(1)},
        **TRANSPOSED,
        needs=constant(("x0", "x1")),
    ),
    Row("chainer::BilinearFunctionGrad", "bilinear_backward", {"dy": input_at(3), **BILINEAR}, when=has_inputs(4)),
    row("BilinearFunctionGrad", "biaffine_backward", {"dy": input_at(5), **BIAFFINE}),
)


# Inverses, determinants and factorizations.


MATRIX_FUNCTIONS: Mapping[str, str] = {
    "BatchDet": "det",
    "BatchInv": "inverse",
    "Cholesky": "cholesky",
    "Inv": "inverse",
    "TriangularInv": "triangular_inverse",
}

LINALG_ROWS: tuple[Row, ...] = (*rows_by_name(MATRIX_FUNCTIONS, X),)


# Rows of convolutions, pooling, resizing, spatial transformers and Fourier transforms, and of their gradients.

XWB = operands("x", "w", "b")

GROUPS = attribute("groups")

DILATION_2D = attributes("dy", "dx")

WEIGHT = constant(("w",))


def kernel_size(args: Arguments) -> tuple[int, ...]:
    """Return the spatial sizes of the weight: all but its first two."""
    return tuple(args["inputs"][1].shape[2:])


CONV_2D: Mapping[str, Source] = {**WINDOW_2D, "kernel": kernel_size, "dilation": DILATION_2D, "groups": GROUPS}

CONV_ND: Mapping[str, Source] = {
    "kernel": kernel_size,
    "stride": attribute("stride"),
    "padding": attribute("pad"),
    "dilation": attribute("dilate"),
    "groups": GROUPS,
}

CONV_ROWS: tuple[Row, ...] = (
    row("Convolution2DFunction", "conv", XWB, **CONV_2D),
    row("ConvolutionND", "conv", XWB, **CONV_ND),
    row("Deconvolution2DFunction", "conv_transpose", XWB, **CONV_2D),
    row("DeconvolutionND", "conv_transpose", XWB, **CONV_ND),
    row(
        "LocalConvolution2DFunction",
        "local_conv",
        XWB,
        kernel=lambda args: tuple(args["inputs"][1].shape[-2:]),
        stride=attributes("sy", "sx"),
    ),
    # gradients
    row(
        "Convolution2DGradW",
        "conv_backward",
        X_DY,
        needs=WEIGHT,
        groups=GROUPS,
        **WINDOW_2D,
        dilation=DILATION_2D,
    ),
    row(
        "ConvolutionNDGradW",
        "conv_backward",
        X_DY,
        needs=WEIGHT,
        groups=GROUPS,
        kernel=attribute("ksize"),
        stride=attribute("stride"),
        padding=attribute("pad"),
        dilation=attribute("dilate"),
    ),
)


# Pooling, unpooling, and regions of interest.


WINDOW_ND: Mapping[str, Source] = {
    "kernel": attribute("ksize"),
    "stride": attribute("stride"),
    "padding": attribute("pad"),
}

ROI_INPUTS = operands("x", "rois", "roi_indices")

ROI_GRADIENT_INPUTS = {"dy": output_gradient(0), "rois": input_at(1), "roi_indices": input_at(2)}

ROI_ALIGN_MODES: Mapping[str, str] = {"ROIAverageAlign2D": "avg", "ROIMaxAlign2D": "max"}


def sampling(args: Arguments) -> tuple[int, ...]:
    """Return the samples along each axis of a bin, 0 if they depend on the size of the region."""
    return tuple(ratio or 0 for ratio in args["function"].sampling_ratio)


POOLING_ROWS: tuple[Row, ...] = (
    Row(
        "chainer::MaxPoolingND",
        "max_pool",
        X,
        {**WINDOW_ND, "ceil_mode": attribute("cover_all")},
        outputs=with_saved_array("indexes"),
    ),
    row("AveragePooling2D", "avg_pool", X, **WINDOW_2D),
    row("AveragePoolingND", "avg_pool", X, **WINDOW_ND),
    row("Unpooling2D", "unpool", X, **WINDOW_2D),
    row("UnpoolingND", "unpool", X, **WINDOW_ND),
    row("Upsampling2D", "upsample", {"x": input_at(0), "indices": array_attribute("indexes")}, **WINDOW_2D),
    # gradients
    row("AveragePooling2DGrad", "avg_pool_backward", DY, **WINDOW_2D),
    row("AveragePoolingNDGrad", "avg_pool_backward", DY, kernel=pooling_attribute("ksize")),
    row(
        "MaxPoolingNDGrad",
        "max_pool_backward",
        {"dy": input_at(0), "indices": pooling_attribute("indexes")},
        kernel=pooling_attribute("ksize"),
    ),
    row("Unpooling2DGrad", "unpool_backward", DY, **WINDOW_2D),
    row("UnpoolingNDGrad", "unpool_backward", DY, kernel=attribute("ksize")),
    row("Upsampling2DGrad", "unpool_backward", {"dy": input_at(0), "indices": array_attribute("indexes")}, **WINDOW_2D),
    # regions of interest
    Row("chainer::ROIPooling2D", "roi_max_pool", operands("x", "rois"), outputs=with_saved_array("argmax_data")),
    row("ROIAveragePooling2D", "roi_avg_pool", ROI_INPUTS),
    Row("chainer::ROIMaxPooling2D", "roi_max_pool", ROI_INPUTS, outputs=with_saved_array("argmax_data")),
    *(
        Row(
            f"chainer::{name}",
            "roi_align",
            ROI_INPUTS,
            {"sampling": sampling, "mode": constant(mode)},
            outputs=with_saved_array("argmax_data"),
        )
        for name, mode in ROI_ALIGN_MODES.items()
    ),
    # gradients of regions of interest
    row(
        "ROIPooling2DGrad",
        "roi_max_pool_backward",
        {"dy": input_at(1), "rois": input_at(0), "indices": array_attribute("argmax_data")},
    ),
    row(
        "ROIMaxPooling2DBackward",
        "roi_max_pool_backward",
        {**ROI_GRADIENT_INPUTS, "indices": array_attribute("argmax_data")},
    ),
    row("ROIAveragePooling2DBackward", "roi_avg_pool_backward", ROI_GRADIENT_INPUTS),
    *(
        row(
            f"{name}Backward",
            "roi_align_backward",
            {**ROI_GRADIENT_INPUTS, "indices": array_attribute("argmax_data")},
            sampling=sampling,
            mode=constant(mode),
        )
        for name, mode in ROI_ALIGN_MODES.items()
    ),
)


# Resizing and spatial transformers.


LINEAR = constant("linear")


def resize_mode(args: Arguments) -> str:
    """Return the interpolation mode of ``F.resize_images``, by its name for any rank."""
    return "linear" if args["function"].mode == "bilinear" else "nearest"


def aligns_corners(args: Arguments) -> bool | None:
    """Return whether linear interpolation aligns the corners; the mode nearest has no such option."""
    return None if resize_mode(args) == "nearest" else bool(args["function"].align_corners)


def coordinates(args: Arguments) -> str | None:
    """Return the coordinate mode: nearest interpolation samples at the first corner of elements."""
    return "asymmetric" if resize_mode(args) == "nearest" else None


RESIZE = {"mode": resize_mode, "align_corners": aligns_corners, "coordinates": coordinates}

RESAMPLING_ROWS: tuple[Row, ...] = (
    row("ResizeImages", "resize", X, **RESIZE),
    row("ResizeImagesGrad", "resize_backward", DY, **RESIZE),
    row("SpatialTransformerGrid", "affine_grid", operands("theta")),
    row("SpatialTransformerGridBackward", "affine_grid_backward", {"dy": output_gradient(0), "theta": input_at(0)}),
    row("SpatialTransformerSampler", "grid_sample", operands("x", "grid"), mode=LINEAR),
    row(
        "SpatialTransformerSamplerBackward",
        "grid_sample_backward",
        {"dy": output_gradient(0), "x": input_at(0), "grid": input_at(1)},
        mode=LINEAR,
    ),
)


# Fourier transforms.


def is_inverse(args: Arguments) -> bool | None:
    """Return True for an inverse Fourier transform, None for a forward one, which is the default."""
    return True if args["function"]._method == "ifft" else None


SIGNAL_ROWS: tuple[Row, ...] = (row("FFT", "fft", operands("real", "imaginary"), inverse=is_inverse),)


# Rows of recurrent cells, and of multi-layer recurrent networks as cuDNN runs them.

MATRICES = {"lstm": 8, "gru": 6, "rnn": 2}
"""The number of weight matrices, and of biases, of one layer in one direction."""

NETWORKS: Mapping[str, tuple[str, bool, str | None]] = {
    "NStepLSTM": ("lstm", False, None),
    "NStepBiLSTM": ("lstm", True, None),
    "NStepGRU": ("gru", False, None),
    "NStepBiGRU": ("gru", True, None),
    "NStepRNNTanh": ("rnn", False, "tanh"),
    "NStepBiRNNTanh": ("rnn", True, "tanh"),
    "NStepRNNReLU": ("rnn", False, "relu"),
    "NStepBiRNNReLU": ("rnn", True, "relu"),
}
"""Operator, whether it is bidirectional, activation."""


def bias_size(op: str, args: Arguments) -> int:
    """Return the number of elements of all biases."""
    states = args["inputs"][0]
    return MATRICES[op] * int(states.shape[0] * states.shape[2])


def weights(op: str) -> Source:
    """Read the weights from the single array in which cuDNN stores weights and biases."""

    def read(args: Arguments) -> Reshaped:
        w = args["inputs"][-2]
        return Reshaped(w, (w.size - bias_size(op, args),))

    return read


def biases(op: str) -> Source:
    """Read the biases from the single array in which cuDNN stores weights and biases."""
    return lambda args: Reshaped(args["inputs"][-2], (bias_size(op, args),))


def last_input(args: Arguments) -> Any:
    """Return the last input."""
    return args["inputs"][-1]


def network_rows(name: str) -> tuple[Row, Row]:
    """Return the rows of a multi-layer network and of its backward pass."""
    op, bidirectional, activation = NETWORKS[name]
    cells = {"c0": input_at(1)} if op == "lstm" else {}
    inputs = {"x": last_input, "h0": input_at(0), **cells, "w0": weights(op), "b0": biases(op)}
    attrs: dict[str, Source] = {
        "hidden": lambda args: args["inputs"][0].shape[2],
        "layers": lambda args: args["function"].n_layers,
        "bidirectional": lambda args: bidirectional,
        "activation": lambda args: activation,
        "reset_after": lambda args: True if op == "gru" else None,
    }
    outputs = ("dhn", "dcn", "dy") if cells else ("dhn", "dy")
    gradients: dict[str, Any] = {outputs[i]: output_gradient(i) for i in reversed(range(len(outputs)))}
    return row(name, op, inputs, **attrs), row(f"{name}Backward", f"{op}_backward", {**gradients, **inputs}, **attrs)


SLSTM_GRADIENT_INPUTS = operands("c0", "c1", "x0", "x1", "c", "dc", "dh")


def child_cells(args: Arguments) -> list[Any]:
    """Return the cell states of the children of a tree node: all inputs but the last."""
    return list(args["inputs"][:-1])


RECURRENT_ROWS: tuple[Row, ...] = (
    row("LSTM", "lstm_gates", {"x": input_at(1), "c0": input_at(0)}),
    row("LSTMGrad", "lstm_gates_backward", operands("c0", "x", "c", "dc", "dh")),
    row(
        "LSTMGradBackward",
        "lstm_gates_double_backward",
        {**operands("c0", "x", "c", "dc", "dh"), "vc": output_gradient(0), "vx": output_gradient(1)},
    ),
    row("SLSTM", "slstm_gates", operands("c0", "c1", "x0", "x1")),
    row("SLSTMGrad", "slstm_gates_backward", SLSTM_GRADIENT_INPUTS),
    row(
        "SLSTMGradBackward",
        "slstm_gates_double_backward",
        {
            **SLSTM_GRADIENT_INPUTS,
            "vc0": output_gradient(0),
            "vc1": output_gradient(1),
            "vx0": output_gradient(2),
            "vx1": output_gradient(3),
        },
    ),
    row("TreeLSTM", "tree_lstm_gates", {"c*": child_cells, "x": last_input}),
    row(
        "TreeLSTMBackward",
        "tree_lstm_gates_backward",
        {"c*": child_cells, "x": last_input, "dc": output_gradient(0), "dh": output_gradient(1)},
    ),
    *(each for name in NETWORKS for each in network_rows(name)),
)


ROWS: tuple[Row, ...] = (
    *(*MATMUL_ROWS, *LINALG_ROWS, *RECURRENT_ROWS),
    *(*CONV_ROWS, *POOLING_ROWS, *RESAMPLING_ROWS, *SIGNAL_ROWS),
)
