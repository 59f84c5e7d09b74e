"""The mapping rules of JAX primitives, by family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any, NamedTuple

from costcore.ir import prod
from costcore.numbers import Dim, minimum
from costcore.translate import Arguments, Row, Source

from .values import Value, dim_of

# Operands and arguments


def operand(index: int) -> Callable[[Arguments], Any]:
    """Return a source that reads an input by index; None if it is absent."""
    return lambda a: a["inputs"][index] if index < len(a["inputs"]) else None


def output(index: int) -> Callable[[Arguments], Value]:
    """Return a source that reads an output by index."""

    def read(a: Arguments) -> Value:
        value: Value = a["outputs"][index]
        return value

    return read


def sizes(name: str) -> Callable[[Arguments], Any]:
    """Return a source that reads a parameter with sizes."""
    return lambda a: None if a.get(name) is None else tuple(map(dim_of, a[name]))


def axes(name: str) -> Callable[[Arguments], Any]:
    """Return a source that reads a parameter with one axis or several."""
    return lambda a: tuple(map(int, a[name])) if isinstance(a[name], (tuple, list)) else int(a[name])


X: Mapping[str, Source] = {"x": operand(0)}
XS: Mapping[str, Source] = {"x*": "inputs"}


def row(primitive: str, op: str, inputs: Mapping[str, Source] = X, **attrs: Source) -> Row:
    """Return the row of a primitive."""
    return Row(f"jax::{primitive}", op, inputs, attrs)


def constant(value: Any) -> Callable[[Arguments], Any]:
    """Return a source for a fixed value."""
    return lambda a: value


def is_bool(a: Arguments) -> bool:
    """Return whether the first input is bool."""
    return bool(a["inputs"][0].dtype == "bool")


# Elementwise


UNARY: Mapping[str, str] = {
    **{
        name: name
        for name in (
            *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "conj", "cos", "cosh"),
            *("digamma", "erf", "erfc", "exp", "exp2", "expm1", "floor", "lgamma", "log", "log1p", "neg", "round"),
            *("rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
        )
    },
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "erf_inv": "erfinv",
    "is_finite": "isfinite",
    "logistic": "sigmoid",
}

NARY: Mapping[str, str] = {
    "add": "add",
    "add_any": "add",
    "atan2": "atan2",
    "complex": "complex",
    "div": "div",
    "eq": "equal",
    "eq_to": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "igamma": "igamma",
    "igammac": "igammac",
    "le": "less_equal",
    "le_to": "less_equal",
    "lt": "less",
    "lt_to": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "mul",
    "ne": "not_equal",
    "nextafter": "nextafter",
    "polygamma": "polygamma",
    "rem": "fmod",
    "shift_left": "bitwise_left_shift",
    "shift_right_arithmetic": "bitwise_right_shift",
    "shift_right_logical": "bitwise_right_shift",
    "sub": "sub",
    "zeta": "zeta",
}

LOGIC: Mapping[str, tuple[str, str]] = {
    "and": ("logical_and", "bitwise_and"),
    "not": ("logical_not", "bitwise_not"),
    "or": ("logical_or", "bitwise_or"),
    "xor": ("logical_xor", "bitwise_xor"),
}
"""The operators of a primitive for bool and for integers."""


def _logic(of_bool: str, of_integers: str) -> Callable[[Arguments], str]:
    return lambda a: of_bool if is_bool(a) else of_integers


def _literal(index: int) -> Callable[[Arguments], Any]:
    """Return a source that reads the number of a literal input; None if the input is computed."""

    def read(a: Arguments) -> Any:
        number = a["inputs"][index].number
        return int(number) if isinstance(number, float) and number.is_integer() else number

    return read


def _computed(index: int) -> Callable[[Arguments], Any]:
    """Return a source that reads an input; None if it is a literal."""
    return lambda a: None if a["inputs"][index].number is not None else a["inputs"][index]


def _selected(a: Arguments) -> Any:
    """Return the case that a literal selects; None if the choice is computed."""
    choice = a["inputs"][0].number
    return a["inputs"][1 + int(choice)] if isinstance(choice, (bool, int)) else None


ELEMENTWISE: tuple[Row, ...] = (
    *(row(name, op) for name, op in UNARY.items()),
    *(row(name, op, XS) for name, op in NARY.items()),
    *(Row(f"jax::{name}", _logic(*ops), X if name == "not" else XS, ops=ops) for name, ops in LOGIC.items()),
    Row("jax::integer_pow", "square", X, when=lambda a: a["y"] == 2),
    row("integer_pow", "pow", {"x0": operand(0)}, exponent=lambda a: int(a["y"])),
    row("pow", "pow", {"x0": operand(0), "x1": _computed(1)}, exponent=_literal(1)),
    row(
        "clamp",
        "clip",
        {"x": operand(1), "lower": _computed(0), "upper": _computed(2)},
        lower=_literal(0),
        upper=_literal(2),
    ),
    Row("jax::select_n", "identity", {"x": _selected}, when=lambda a: _selected(a) is not None),
    row("select_n", "where", {"condition": operand(0), "x*": lambda a: a["inputs"][1:]}),
    *(row(name, f"jax::{name}", XS) for name in ("clz", "mulhi", "population_count", "random_gamma_grad")),
    *(row(name, f"jax::{name}", XS) for name in ("igamma_grad_a", "regularized_incomplete_beta")),
)


# Products


class Axes(NamedTuple):
    """The axes of one operand of a product.

    Attributes:
        batch: the batch axes, shared by both operands and the output.
        contracted: the axes that are summed over.
        free: all other axes.
    """

    batch: tuple[int, ...]
    contracted: tuple[int, ...]
    free: tuple[int, ...]


def axes_of(a: Arguments) -> tuple[Axes, Axes]:
    """Return the axes of both operands of ``dot_general``."""
    contracted, batch = a["dimension_numbers"]
    return tuple(  # type: ignore[return-value]
        _axes(value.ndim, tuple(map(int, batch[i])), tuple(map(int, contracted[i])))
        for i, value in enumerate(a["inputs"][:2])
    )


def _axes(rank: int, batch: tuple[int, ...], contracted: tuple[int, ...]) -> Axes:
    return Axes(batch, contracted, tuple(i for i in range(rank) if i not in batch and i not in contracted))


def weight_position(a: Arguments) -> int | None:
    """Return the position of the weight; None if the product is not a linear layer.

    In a linear layer, one operand is a weight and the other is data; there are contracted axes, but no batch axes.
    """
    left, right = a["inputs"][:2]
    axes = axes_of(a)[0]
    if axes.batch or not axes.contracted or left.is_weight == right.is_weight:
        return None
    return 0 if left.is_weight else 1


def _data(a: Arguments) -> Value:
    """Return the data of a linear layer with the features in the last axis."""
    position = 1 - (weight_position(a) or 0)
    value, axes = a["inputs"][position], axes_of(a)[position]
    if axes.contracted == (value.ndim - 1,):
        return _value(value)
    return _value(value).viewed(*_sizes(value, axes.free), prod(_sizes(value, axes.contracted)))


def _weight(a: Arguments) -> Value:
    """Return the weight of a linear layer as ``[F_out, F_in]``."""
    position = weight_position(a) or 0
    value, axes = a["inputs"][position], axes_of(a)[position]
    return _value(value).viewed(prod(_sizes(value, axes.free)), prod(_sizes(value, axes.contracted)))


def _value(value: Any) -> Value:
    found: Value = value
    return found


def _sizes(value: Value, axes: Sequence[int]) -> list[Dim]:
    return [value.shape[axis] for axis in axes]


def is_matmul(a: Arguments) -> bool:
    """Return whether the operands are ``[..., M, K]`` and ``[..., K, N]``, as in ``numpy.matmul``."""
    left, right = axes_of(a)
    batch = tuple(range(len(left.batch)))
    return (
        (left.batch, right.batch) == (batch, batch)
        and left.contracted == (a["inputs"][0].ndim - 1,)
        and right.contracted == (len(batch),)
        and len(right.free) == 1
        and (len(left.free) == 1 or not batch)
    )


def equation(a: Arguments) -> str:
    """Return the ``einsum`` equation of a product. The output has batch axes first, then free axes."""
    left, right = axes_of(a)
    letters = iter(ascii_letters)
    of_left = {axis: next(letters) for axis in range(a["inputs"][0].ndim)}
    of_right = {axis: of_left[other] for axis, other in zip(right.batch, left.batch, strict=True)}
    of_right |= {axis: of_left[other] for axis, other in zip(right.contracted, left.contracted, strict=True)}
    of_right |= {axis: next(letters) for axis in right.free}
    result = [of_left[i] for i in (*left.batch, *left.free)] + [of_right[i] for i in right.free]
    terms = ("".join(labels[i] for i in sorted(labels)) for labels in (of_left, of_right))
    return f"{','.join(terms)}->{''.join(result)}"


def _numbers(value: Any) -> Any:
    """Convert nested lists of axes to tuples of ints."""
    return tuple(map(_numbers, value)) if isinstance(value, (tuple, list)) else int(value)


def _rows(a: Arguments) -> Value:
    """Return the left operand of a ragged product as ``[M, K]``."""
    value, (contracted, _) = a["inputs"][0], _ragged_axes(a)
    free = [i for i in range(value.ndim) if i not in contracted]
    return _value(value).viewed(prod(_sizes(value, free)), prod(_sizes(value, contracted)))


def _matrices(a: Arguments) -> Value:
    """Return the right operand of a ragged product as ``[G, K, N]``, or ``[K, N]`` if the groups are along K."""
    value, (_, contracted) = a["inputs"][1], _ragged_axes(a)
    groups = [*map(int, a["ragged_dot_dimension_numbers"].rhs_group_dimensions)]
    free = [i for i in range(value.ndim) if i not in contracted and i not in groups]
    inner = (prod(_sizes(value, contracted)), prod(_sizes(value, free)))
    return _value(value).viewed(*_sizes(value, groups), *inner)


def _ragged_axes(a: Arguments) -> Any:
    """Return the contracted axes of both operands of a ragged product."""
    return _numbers(a["ragged_dot_dimension_numbers"].dot_dimension_numbers[0])


# Products of sparse matrices (``jax.experimental.sparse``) and dense ones: values, indices, then the dense matrix


def is_matrix_times_dense(a: Arguments) -> bool:
    """Return whether a sparse matrix without batch or dense axes multiplies a vector or a matrix."""
    values, dense = a["inputs"][0], a["inputs"][-1]
    contracted, batch = a.get("dimension_numbers", (((0,), (0,)), ((), ())))
    return values.ndim == 1 and dense.ndim in (1, 2) and len(contracted[0]) == 1 and not any(batch)


def _dense(a: Arguments) -> Value:
    """Return the dense operand with the contracted axis first."""
    value = _value(a["inputs"][-1])
    contracted = int(a["dimension_numbers"][0][1][0]) if "dimension_numbers" in a else 0
    return value.viewed(value.shape[contracted], value.shape[1 - contracted] if value.ndim == 2 else 1)


def _sparse(primitive: str, *names: str) -> Row:
    inputs: dict[str, Source] = {name: operand(i) for i, name in enumerate(names)}
    inputs |= {"x0": operand(0), "x1": _dense}
    return Row(f"jax::{primitive}", "sparse_matmul", inputs, when=is_matrix_times_dense)


PRODUCTS: tuple[Row, ...] = (
    _sparse("bcoo_dot_general", "x0", "rows"),
    *(_sparse(name, "x0", "columns", "rows") for name in ("bcsr_dot_general", "csr_matmat", "csr_matvec")),
    *(_sparse(name, "x0", "rows", "columns") for name in ("coo_matmat", "coo_matvec")),
    Row("jax::dot_general", "linear", {"x": _data, "w": _weight}, when=lambda a: weight_position(a) is not None),
    Row("jax::dot_general", "matmul", XS, when=is_matmul),
    row("dot_general", "einsum", XS, equation=equation),
    row("ragged_dot_general", "grouped_matmul", {"x0": _rows, "x1": _matrices, "offsets": operand(2)}),
    row("scaled_dot", "jax::scaled_dot", XS, dimension_numbers=lambda a: _numbers(a["dimension_numbers"])),
    row("symmetric_product", "jax::symmetric_product", {"x": operand(0), "x1": operand(1)}),
    row("cholesky_update", "jax::cholesky_update", {"x": operand(0), "x1": operand(1)}),
)


# Convolutions


def _ordered(index: int, spec: str) -> Callable[[Arguments], Value]:
    """Return a source that reads an operand with axes in the order of the formulas: ``[N, C, …]``, ``[O, I, …]``."""

    def read(a: Arguments) -> Value:
        value: Value = a["inputs"][index]
        return value.viewed(*(value.shape[axis] for axis in getattr(a["dimension_numbers"], spec)))

    return read


def is_transposed(a: Arguments) -> bool:
    """Return whether the input is dilated, as in a transposed convolution."""
    return any(step != 1 for step in a["lhs_dilation"])


def is_gradient(a: Arguments) -> bool:
    """Return whether it is the input gradient of a convolution with stride 1, which has a reversed kernel.

    It is counted as a transposed convolution: every element of dy is multiplied by every kernel element. JAX writes it
    as a convolution with up to k - 1 padding on each side.
    """
    return bool(a["inputs"][1].is_reversed and all(step == 1 for step in a["window_strides"]))


def kernel_fits(a: Arguments) -> bool:
    """Return whether the kernel fits into the output, as in a transposed convolution."""
    y, kernel = _output(a).shape[2:], _kernel(a)
    return all(minimum(k, size) == k for k, size in zip(kernel, y, strict=True))


def _output(a: Arguments) -> Value:
    """Return the output as ``[N, C, …]``."""
    value: Value = a["outputs"][0]
    return value.viewed(*(value.shape[axis] for axis in a["dimension_numbers"].out_spec))


def _swapped(a: Arguments) -> Value:
    """Return the kernel of a transposed convolution as ``[C_in, C_out/G, …]``; JAX stores ``[C_out, C_in/G, …]``."""
    kernel, groups = _ordered(1, "rhs_spec")(a), a["feature_group_count"]
    outputs, inputs, *space = kernel.shape
    return kernel.viewed(inputs * groups, outputs // groups, *space)


def _kernel(a: Arguments) -> Any:
    return tuple(_ordered(1, "rhs_spec")(a).shape[2:])


def _setting(name: str) -> Callable[[Arguments], Any]:
    return lambda a: tuple(int(step) for step in a[name])


def _padding(a: Arguments) -> Any:
    return tuple((dim_of(before), dim_of(after)) for before, after in a["padding"])


def _is_permuted(a: Arguments) -> bool | None:
    """Return True if the data is not ``[N, C, …]``."""
    numbers = a["dimension_numbers"]
    return True if any(tuple(spec) != tuple(sorted(spec)) for spec in (numbers.lhs_spec, numbers.out_spec)) else None


SETTINGS = {
    "kernel": _kernel,
    "permuted": _is_permuted,
    "padding": _padding,
    "dilation": _setting("rhs_dilation"),
    "groups": lambda a: a["feature_group_count"],
}

CONVOLUTIONS: tuple[Row, ...] = (
    Row(
        "jax::conv_general_dilated",
        "conv_transpose",
        {"x": _ordered(0, "lhs_spec"), "w": _swapped},
        {**SETTINGS, "stride": _setting("lhs_dilation")},
        when=lambda a: a["batch_group_count"] == 1 and (kernel_fits(a) if is_transposed(a) else is_gradient(a)),
    ),
    Row(
        "jax::conv_general_dilated",
        "input_dilated_conv",
        {"x": _ordered(0, "lhs_spec"), "w": _ordered(1, "rhs_spec")},
        {
            **SETTINGS,
            "groups": lambda a: a["feature_group_count"] * a["batch_group_count"],
            "reached": lambda a: tuple(map(minimum, _kernel(a), _output(a).shape[2:])),
        },
        when=is_transposed,
    ),
    Row(
        "jax::conv_general_dilated",
        "conv",
        {"x": _ordered(0, "lhs_spec"), "w": _ordered(1, "rhs_spec")},
        {**SETTINGS, "stride": _setting("window_strides")},
    ),
)


# Reductions


REDUCTIONS: Mapping[str, str] = {
    "reduce_and": "reduce_all",
    "reduce_max": "reduce_max",
    "reduce_min": "reduce_min",
    "reduce_or": "reduce_any",
    "reduce_prod": "reduce_prod",
    "reduce_sum": "reduce_sum",
    "reduce_xor": "reduce_xor",
}

BY_BODY: Mapping[str, str] = {
    "add": "reduce_sum",
    "and": "reduce_all",
    "max": "reduce_max",
    "min": "reduce_min",
    "mul": "reduce_prod",
    "or": "reduce_any",
    "xor": "reduce_xor",
}
"""Reductions by the primitive in their body."""

CUMULATIVE: Mapping[str, str] = {
    "cumlogsumexp": "logcumsumexp",
    "cummax": "cummax",
    "cummin": "cummin",
    "cumprod": "cumprod",
    "cumsum": "cumsum",
}


def body(a: Arguments, name: str = "jaxpr") -> str:
    """Return the primitive that combines two elements; empty if there are several."""
    jaxpr: Any = getattr(a[name], "jaxpr", a[name])
    return jaxpr.eqns[0].primitive.name if len(jaxpr.eqns) == 1 and len(jaxpr.outvars) == 1 else ""


def _nonnegative_axis(name: str) -> Callable[[Arguments], Any]:
    return lambda a: int(a[name]) % a["inputs"][0].ndim


REDUCTION: tuple[Row, ...] = (
    *(row(name, op, axis=axes("axes")) for name, op in REDUCTIONS.items()),
    *(row(f"arg{kind}", f"arg{kind}", axis=axes("axes")) for kind in ("max", "min")),
    *(row(name, op, axis=axes("axis")) for name, op in CUMULATIVE.items()),
    Row(
        "jax::reduce",
        lambda a: BY_BODY[body(a)],
        X,
        {"axis": axes("dimensions")},
        when=lambda a: len(a["outputs"]) == 1 and body(a) in BY_BODY,
        ops=tuple(BY_BODY.values()),
    ),
    row("sort", "sort", {"x": operand(0), "x*": lambda a: a["inputs"][1:]}, axis=_nonnegative_axis("dimension")),
    row("top_k", "topk", X, axis=lambda a: int(a.get("axis", -1)) % a["inputs"][0].ndim, k=lambda a: a["k"]),
    row("approx_top_k", "topk", X, axis=_nonnegative_axis("reduction_dimension"), k=lambda a: a["k"]),
)


# Pooling


def _window_padding(a: Arguments) -> Any:
    return tuple((int(before), int(after)) for before, after in a["padding"])


WINDOW = {
    "kernel": sizes("window_dimensions"),
    "stride": sizes("window_strides"),
    "padding": _window_padding,
}

WINDOW_FUNCTIONS = ("add", "max", "min", "mul")
"""Primitives that combine two elements of a window."""

POOLING: tuple[Row, ...] = (
    Row("jax::reduce_window_max", "max_pool", X, WINDOW),
    Row("jax::reduce_window_min", "window_reduction", X, {**WINDOW, "by": lambda a: "min"}),
    Row("jax::reduce_window_sum", "window_reduction", X, {**WINDOW, "by": lambda a: "add"}),
    Row(
        "jax::reduce_window",
        "window_reduction",
        X,
        {**WINDOW, "by": body},
        when=lambda a: len(a["outputs"]) == 1 and body(a) in WINDOW_FUNCTIONS,
    ),
    row("select_and_scatter_add", "jax::select_and_scatter_add", {"dy": operand(0), "x": operand(1)}, **WINDOW),
    Row(
        "jax::select_and_scatter",
        "jax::select_and_scatter_add",
        {"dy": operand(1), "x": operand(0)},
        WINDOW,
        when=lambda a: body(a, "scatter_jaxpr") == "add",
    ),
    row("select_and_gather_add", "jax::select_and_gather_add", {"dy": operand(0), "x": operand(1)}, **WINDOW),
)


# Linear algebra


def _vectors(a: Arguments) -> str:
    """Return which singular vectors are computed."""
    if not a["compute_uv"]:
        return "none"
    return "full" if a["full_matrices"] else "thin"


def _has_vectors(a: Arguments) -> bool:
    """Return whether left or right eigenvectors are computed."""
    return bool(a["compute_left_eigenvectors"] or a["compute_right_eigenvectors"])


def _is_unit(a: Arguments) -> bool | None:
    """Return True if the diagonal is assumed to be ones, so no division is needed."""
    return True if a["unit_diagonal"] else None


def _right_side(a: Arguments) -> Value:
    """Return the right-hand sides as columns; with ``left_side=False`` they are rows."""
    value: Value = a["inputs"][1]
    return value if a["left_side"] else value.viewed(*value.shape[:-2], value.shape[-1], value.shape[-2])


LINEAR_ALGEBRA: tuple[Row, ...] = (
    row("cholesky", "cholesky"),
    row("eig", "eigen", vectors=_has_vectors),
    row("eigh", "symmetric_eigen"),
    row("lu", "lu_factor"),
    row("qr", "qr", mode=lambda a: "complete" if a["full_matrices"] else "reduced"),
    row("geqrf", "qr_factor"),
    row("geqp3", "qr_factor"),
    row("householder_product", "householder_product", {"x": operand(0), "tau": operand(1)}),
    row("ormqr", "householder_multiply", {"x": operand(0), "tau": operand(1), "x1": operand(2)}),
    row("svd", "singular_values", X, vectors=_vectors),
    row("triangular_solve", "triangular_solve", {"x0": operand(0), "x1": _right_side}, unit=_is_unit),
    row("lu_pivots_to_permutation", "shape", {}),
    row("tridiagonal_solve", "jax::tridiagonal_solve", XS),
)


# Fourier transforms


FOURIER_OPERATORS = ("fft", "real_fft", "inverse_real_fft")


def _kind(a: Arguments) -> str:
    name = str(a["fft_type"]).rpartition(".")[2].lower()
    return {"rfft": "real_fft", "irfft": "inverse_real_fft", "2": "real_fft", "3": "inverse_real_fft"}.get(name, "fft")


def _transformed_axes(a: Arguments) -> Any:
    rank = a["inputs"][0].ndim
    return tuple(range(rank - len(a["fft_lengths"]), rank))


TRANSFORMS: tuple[Row, ...] = (Row("jax::fft", _kind, X, {"axes": _transformed_axes}, ops=FOURIER_OPERATORS),)


# Layout


IDENTITIES = (
    *("copy_p", "device_put", "layout_constraint", "name", "optimization_barrier", "pvary", "reshard", "tie"),
    *("sharding_constraint", "stop_gradient", "to_edtype", "from_edtype", "reduced_vary_cast_p"),
    *("vary_unreduced_cast_p", "with_memory_space_constraint", "pin", "unpin", "dce_sink", "empty_ref", "new_ref"),
    *("freeze", "free_ref", "create_linear", "stage"),
)
"""Primitives that return their operands."""

WITHOUT_ELEMENTS = (
    *("after_all", "axis_index", "create_token", "debug_callback", "debug_print", "dim_as_value", "dimension_size"),
    *("box_get", "box_set", "log_extend", "log_read", "new_box", "new_log"),
    *("inspect_sharding", "iota_2x32_shape", "platform_index", "shape_assertion", "check", "unreachable"),
)
"""Primitives that compute no tensor elements."""


def _keeps_elements(a: Arguments) -> bool:
    """Return whether a broadcast only adds axes of size 1."""
    return bool(a["inputs"]) and a["inputs"][0].size == a["outputs"][0].size


def _is_number(a: Arguments) -> bool:
    """Return whether a broadcast repeats one literal."""
    return bool(a["inputs"][0].number is not None)


def _is_same_dtype(a: Arguments) -> bool:
    return bool(a["inputs"][0].dtype == a["outputs"][0].dtype)


def _pads(a: Arguments) -> Any:
    return tuple((int(low), int(high), int(between)) for low, high, between in a["padding_config"])


def _dtype(a: Arguments) -> str:
    found: str = a["outputs"][0].dtype
    return found


LAYOUT: tuple[Row, ...] = (
    *(Row(f"jax::{name}", "identity", X if name != "empty_ref" else {}) for name in IDENTITIES),
    *(Row(f"jax::{name}", "shape") for name in WITHOUT_ELEMENTS),
    *(row(name, "reshape") for name in ("reshape", "squeeze", "expand_dims")),
    Row("jax::broadcast_in_dim", "reshape", X, when=_keeps_elements),
    Row("jax::broadcast_in_dim", "full", when=_is_number),
    Row("jax::broadcast_in_dim", "broadcast_to", X),
    row("broadcast_to", "broadcast_to"),
    Row("jax::convert_element_type", "identity", X, when=_is_same_dtype),
    row("convert_element_type", "cast", dtype=_dtype),
    row("bitcast_convert_type", "bitcast"),
    row("reduce_precision", "cast"),
    row("real", "copy"),
    row("imag", "copy"),
    row("copy", "copy"),
    row("transpose", "transpose", axes=axes("permutation")),
    row("rev", "flip", axis=axes("dimensions")),
    row("concatenate", "concat", XS, axis=axes("dimension")),
    row("stack", "stack", XS, axis=lambda a: int(a.get("axis", 0))),
    row("unstack", "unbind", X, axis=lambda a: int(a.get("axis", 0))),
    row("tile", "tile", repeats=sizes("reps")),
    row("pad", "pad", X, padding=_pads),
    row("slice", "slice", X, start=sizes("start_indices"), stop=sizes("limit_indices"), step=sizes("strides")),
    row("split", "split", X, axis=axes("axis")),
    row("dynamic_slice", "slice", X),
    row("dynamic_update_slice", "slice_scatter", {"x": operand(0), "updates": operand(1)}),
    row("iota", "arange", {}),
    *(row(name, "empty", {}) for name in ("empty", "empty2", "zeros_like")),
)


# Indexing


SCATTERS = {
    "scatter": "none",
    "scatter-add": "add",
    "scatter-max": "max",
    "scatter-min": "min",
    "scatter-mul": "mul",
    "scatter-sub": "add",
    "scatter_add": "add",
    "scatter_max": "max",
    "scatter_min": "min",
    "scatter_mul": "mul",
    "scatter_sub": "add",
}
"""The function that combines an element and its update. A subtraction costs as much as an addition."""


def _is_embedding(a: Arguments) -> bool:
    """Return whether a gather looks up whole rows of a learned matrix."""
    table, numbers = a["inputs"][0], a["dimension_numbers"]
    rows = tuple(a["slice_sizes"])[1:] == tuple(table.shape[1:])
    return bool(table.is_weight and table.ndim == 2 and tuple(numbers.start_index_map) == (0,) and rows)


def _axis(a: Arguments) -> Any:
    """Return the indexed axis, or the axes if there are several."""
    found = tuple(map(int, a["dimension_numbers"].start_index_map))
    return found[0] if len(found) == 1 else found


INDEXING: tuple[Row, ...] = (
    Row("jax::gather", "embedding", {"x": operand(1), "w": operand(0)}, when=_is_embedding),
    row("gather", "gather", {"x": operand(0), "indices": operand(1)}, axis=_axis),
    *(
        Row(
            f"jax::{name}",
            "scatter_nd",
            {"x": operand(0), "indices": operand(1), "updates": operand(2)},
            {"reduction": constant(reduction)},
        )
        for name, reduction in SCATTERS.items()
    ),
    # reads and writes of references to mutable arrays
    row("get", "copy"),
    row("swap", "assign", {"x": operand(0), "updates": operand(1)}),
    row("addupdate", "jax::addupdate", {"x": operand(0), "updates": operand(1)}),
    row("accum_grad_in_ref", "jax::addupdate", {"x": operand(0), "updates": operand(1)}),
)


# Random numbers


KEYS = ("random_clone", "random_fold_in", "random_seed", "random_split", "random_unwrap", "random_wrap")
"""Primitives on random keys, which cost nothing."""

BITS = (
    *("random_bits", "rng_bit_generator", "rng_uniform", "threefry2x32", "threefry4x32"),
    *("philox2x32", "philox4x32"),
)
"""Primitives that generate random bits, which count as no operations."""

RANDOM: tuple[Row, ...] = (
    *(row(name, "empty", {}) for name in KEYS),
    *(row(name, "random", {}) for name in BITS),
    row("random_gamma", "sample", {"x": lambda a: a["inputs"][1]}),
)


# Collectives


COLLECTIVES: Mapping[str, str] = {
    "all_gather": "all_gather",
    "all_gather_invariant": "all_gather",
    "all_gather_reduced": "all_gather",
    "all_to_all": "all_to_all",
    "pbroadcast": "broadcast",
    "pgather": "all_gather",
    "ppermute": "send",
    "precv": "recv",
    "psend": "send",
    "ragged_all_to_all": "all_to_all",
}
"""Collectives without a reduction."""

REDUCING: Mapping[str, tuple[str, str]] = {
    "pmax": ("all_reduce", "max"),
    "pmin": ("all_reduce", "min"),
    "psum": ("all_reduce", "sum"),
    "psum2": ("all_reduce", "sum"),
    "psum_invariant": ("all_reduce", "sum"),
    "unreduced_psum": ("all_reduce", "sum"),
    "preduced": ("all_reduce", "sum"),
    "reduce_scatter": ("reduce_scatter", "sum"),
    "unreduced_reduce_scatter": ("reduce_scatter", "sum"),
}
"""Collectives with a reduction: the operator and the reduction."""

OPERATORS: Mapping[str, str] = {**COLLECTIVES, **{name: op for name, (op, _) in REDUCING.items()}}

ASYNCHRONOUS = (
    *("all_gather", "all_gather_reduced", "all_to_all", "pbroadcast", "ppermute", "psum", "psum_invariant"),
    *("reduce_scatter", "unreduced_psum", "unreduced_reduce_scatter"),
)
"""Asynchronous collectives: ``…_start`` starts the communication, ``…_done`` waits for it."""


def axis_names(a: Arguments) -> tuple[str, ...]:
    """Return the names of the mesh axes along which an equation communicates."""
    names = a.get("axes", a.get("axis_name", ()))
    return tuple(name for name in (names if isinstance(names, (tuple, list)) else (names,)) if isinstance(name, str))


def group_size(a: Arguments) -> int:
    """Return the number of communicating devices: of a group, or along the mesh axes."""
    groups = a.get("axis_index_groups")
    return len(groups[0]) if groups else prod(a["device_axes"][name] for name in axis_names(a))


def is_known(a: Arguments) -> bool:
    """Return whether ``shard_map`` gives the sizes of the mesh axes."""
    return all(name in a["device_axes"] for name in axis_names(a))


COMMUNICATION: tuple[Row, ...] = (
    *(Row(f"jax::{name}", op, X, {"group_size": group_size}, is_known) for name, op in COLLECTIVES.items()),
    *(
        Row(f"jax::{name}", op, XS, {"group_size": group_size, "reduce": constant(how)}, is_known)
        for name, (op, how) in REDUCING.items()
    ),
    *(Row(f"jax::{name}_start", OPERATORS[name], XS, {"group_size": group_size}, is_known) for name in ASYNCHRONOUS),
    *(Row(f"jax::{name}_done", "identity", X) for name in ASYNCHRONOUS),
)


# All rows


ROWS: tuple[Row, ...] = (
    *COMMUNICATION,
    *CONVOLUTIONS,
    *ELEMENTWISE,
    *INDEXING,
    *LAYOUT,
    *LINEAR_ALGEBRA,
    *PRODUCTS,
    *POOLING,
    *RANDOM,
    *REDUCTION,
    *TRANSFORMS,
)
"""All rows. Their arguments are ``inputs``, ``outputs`` and the parameters of the primitive."""

CUDNN = tuple(f"{kind}{wrapper}" for kind in ("fwd", "bwd", "fp8_fwd", "fp8_bwd") for wrapper in ("", "_wrapper"))

UNKNOWN: Mapping[str, str] = {
    **dict.fromkeys(("pure_callback", "io_callback", "ffi_call", "call_exported"), "code outside of JAX"),
    **dict.fromkeys(("cudnn_fusion", "tpu_custom_call", "triton_call"), "an opaque kernel"),
    **dict.fromkeys(("scaled_matmul", "scaled_matmul_wrapper"), "an opaque kernel"),
    **dict.fromkeys((f"dot_product_attention_{part}" for part in CUDNN), "an opaque kernel"),
    **dict.fromkeys(("call_hi_primitive", "call_hi_primitive_linearized"), "a primitive of a library"),
    "custom_lin": "exists inside of derivatives only",
    **dict.fromkeys(("hessenberg", "schur", "tridiagonal"), "a decomposition without a formula"),
}
"""Primitives that cannot be counted, and why; reports list them in ``ignored_layers``."""
