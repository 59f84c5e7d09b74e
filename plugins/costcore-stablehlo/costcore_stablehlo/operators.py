"""StableHLO operators as JAX primitives: a rule for each, which binds the primitive to its operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from costcore_jax.rows import operand
from costcore_jax.values import Value
from jax import lax
from jaxlib.mlir.dialects import stablehlo

from costcore.errors import CostError
from costcore.translate import Arguments, Row, Source

from .attributes import aval_of, dtype_of, get, has_shape

Rule: TypeAlias = "Callable[[Any, Any, Sequence[Any]], Any]"
"""A function ``rule(program, operation, operands)`` that returns the result, or a list of results."""

UNARY: Mapping[str, Callable[[Any], Any]] = {
    **{name: getattr(lax, name) for name in ("abs", "cbrt", "ceil", "clz", "cosh", "digamma", "erf", "erfc")},
    **{name: getattr(lax, name) for name in ("floor", "is_finite", "lgamma", "log", "logistic")},
    **{name: getattr(lax, name) for name in ("erf_inv", "rsqrt", "sign", "sqrt", "tan", "tanh", "sinh", "asin")},
    **{name: getattr(lax, name) for name in ("acos", "acosh", "asinh", "atan", "atanh", "conj", "square")},
    "bessel_i1e": lax.bessel_i1e,
    "cosine": lax.cos,
    "count_leading_zeros": lax.clz,
    "exponential": lax.exp,
    "exponential_minus_one": lax.expm1,
    "log_plus_one": lax.log1p,
    "imag": lambda x: lax.imag(x) if jnp.iscomplexobj(x) else lax.full_like(x, 0),
    "negate": lax.neg,
    "not": lax.bitwise_not,
    "popcnt": lax.population_count,
    "real": lambda x: lax.real(x) if jnp.iscomplexobj(x) else x,
    "round_nearest_afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_nearest_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "sine": lax.sin,
}
"""Functions of one operand, by name without the dialect."""

BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lax.add,
    "and": lax.bitwise_and,
    "atan2": lax.atan2,
    "complex": lax.complex,
    "divide": lax.div,
    "maximum": lax.max,
    "minimum": lax.min,
    "multiply": lax.mul,
    "next_after": lax.nextafter,
    "or": lax.bitwise_or,
    "polygamma": lax.polygamma,
    "power": lax.pow,
    "remainder": lax.rem,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
    "subtract": lax.sub,
    "xor": lax.bitwise_xor,
    "zeta": lax.zeta,
}


def _unary(function: Callable[[Any], Any]) -> Rule:
    return lambda program, op, operands: function(operands[0])


def _binary(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(program: Any, op: Any, operands: Sequence[Any]) -> Any:
        x, y = operands
        return lax.square(x) if function is lax.mul and x is y else function(x, y)

    return rule


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "EQ": lax.eq,
    "GE": lax.ge,
    "GT": lax.gt,
    "LE": lax.le,
    "LT": lax.lt,
    "NE": lax.ne,
}


def direction(op: Any) -> str:
    """Return the direction of a comparison, ``LT``."""
    return str(op.attributes["comparison_direction"]).partition(" ")[2].rstrip(">")


def _compare(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return COMPARISONS[direction(op)](*operands)


def _result(op: Any) -> Any:
    """Return the abstract array of the first result."""
    return aval_of(op.results[0].type)


def _reshape(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    shape = _result(op).shape
    return operands[0] if operands[0].shape == shape else lax.reshape(operands[0], shape)


def _convert(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return lax.convert_element_type(operands[0], _result(op).dtype)


def _slice(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return lax.slice(operands[0], get(op, "start_indices"), get(op, "limit_indices"), get(op, "strides"))


def _pad(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    ends = (get(op, f"edge_padding_{end}") for end in ("low", "high"))
    return lax.pad(*operands, list(zip(*ends, get(op, "interior_padding"), strict=True)))


def _iota(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    made = _result(op)
    return lax.broadcasted_iota(made.dtype, made.shape, get(op, "iota_dimension"))


def _gather(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    return lax.gather(
        operands[0],
        _vectors_last(operands[1], numbers.index_vector_dim),
        lax.GatherDimensionNumbers(
            offset_dims=tuple(numbers.offset_dims),
            collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
            start_index_map=tuple(numbers.start_index_map),
            operand_batching_dims=tuple(numbers.operand_batching_dims),
            start_indices_batching_dims=tuple(numbers.start_indices_batching_dims),
        ),
        tuple(get(op, "slice_sizes")),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _vectors_last(indices: Any, axis: int) -> Any:
    """Return indices with the index vectors in the last axis, as JAX needs them."""
    return lax.expand_dims(indices, (axis,)) if axis == indices.ndim else jnp.moveaxis(indices, axis, -1)


SCATTERS: Mapping[str, Callable[..., Any]] = {
    "add": lax.scatter_add,
    "maximum": lax.scatter_max,
    "minimum": lax.scatter_min,
    "multiply": lax.scatter_mul,
}


def _scatter(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    if len(operands) != 3:
        return program.unknown(op, operands)
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    body = program.only_operator(op.regions[0])
    if body and body not in SCATTERS:
        return program.unknown(op, operands)
    return SCATTERS.get(body, lax.scatter)(
        operands[0],
        _vectors_last(operands[1], numbers.index_vector_dim),
        operands[2],
        lax.ScatterDimensionNumbers(
            update_window_dims=tuple(numbers.update_window_dims),
            inserted_window_dims=tuple(numbers.inserted_window_dims),
            scatter_dims_to_operand_dims=tuple(numbers.scattered_dims_to_operand_dims),
            operand_batching_dims=tuple(numbers.input_batching_dims),
            scatter_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
        ),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _dot_general(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    contracted = (tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions))
    batch = (tuple(numbers.lhs_batching_dimensions), tuple(numbers.rhs_batching_dimensions))
    return lax.dot_general(*operands, (contracted, batch), preferred_element_type=_result(op).dtype)


def _dot(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    numbers = (((operands[0].ndim - 1,), (0,)), ((), ()))
    return lax.dot_general(*operands, numbers, preferred_element_type=_result(op).dtype)


def _einsum(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return jnp.einsum(get(op, "einsum_config"), *operands, preferred_element_type=dtype_of(op.results[0].type))


def _convolution(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    x, w = operands
    space = len(numbers.kernel_spatial_dimensions)
    reversals = get(op, "window_reversal", [])
    axes = [
        axis for axis, is_reversed in zip(numbers.kernel_spatial_dimensions, reversals, strict=False) if is_reversed
    ]
    return lax.conv_general_dilated(
        x,
        lax.rev(w, axes) if axes else w,
        get(op, "window_strides", [1] * space),
        get(op, "padding", [(0, 0)] * space),
        get(op, "lhs_dilation", [1] * space),
        get(op, "rhs_dilation", [1] * space),
        lax.ConvDimensionNumbers(
            (numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions),
            (
                *(numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension),
                *numbers.kernel_spatial_dimensions,
            ),
            (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions),
        ),
        get(op, "feature_group_count", 1),
        get(op, "batch_group_count", 1),
        preferred_element_type=_result(op).dtype,
    )


def _reduce(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    half = len(operands) // 2
    values, initial = list(operands[:half]), list(operands[half:])
    axes = tuple(get(op, "dimensions"))
    if half == 1:
        return lax.reduce(values[0], initial[0], program.combiner(op.regions[0]), axes)
    found = program.extreme(op.regions[0])
    if half == 2 and found and len(axes) == 1:
        search = lax.argmax if found in ("GT", "GE") else lax.argmin
        return program.bind(search.__name__, op, operands[:1], axes=axes)
    return program.unknown(op, operands)


def _windows(op: Any, rank: int) -> dict[str, Any]:
    return {
        "window_dimensions": tuple(get(op, "window_dimensions")),
        "window_strides": tuple(get(op, "window_strides", [1] * rank)),
        "padding": tuple(tuple(pair) for pair in get(op, "padding", [(0, 0)] * rank)),
    }


def _reduce_window(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    if len(operands) != 2:
        return program.unknown(op, operands)
    x, initial = operands
    return lax.reduce_window(
        x,
        initial,
        program.combiner(op.regions[0]),
        **_windows(op, x.ndim),
        base_dilation=get(op, "base_dilations"),
        window_dilation=get(op, "window_dilations"),
    )


def _select_and_scatter(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    x, dy, _ = operands
    selects, combines = map(program.only_operator, op.regions)
    if selects != "compare" or combines != "add":
        return program.unknown(op, operands)
    return lax.select_and_scatter_add_p.bind(dy, x, select_prim=lax.ge_p, **_windows(op, x.ndim))


def _sort(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    keys = max(1, min(program.n_read(op.regions[0]), len(operands)))
    axis = get(op, "dimension", -1)
    return list(lax.sort(tuple(operands), dimension=axis % max(operands[0].ndim, 1), num_keys=keys))


def _fft(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    kind = str(op.attributes["fft_type"]).partition(" ")[2].rstrip(">")
    return lax.fft(operands[0], kind, tuple(get(op, "fft_length")))


def _triangular_solve(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return lax.linalg.triangular_solve(
        *operands,
        left_side=get(op, "left_side"),
        lower=get(op, "lower"),
        unit_diagonal=get(op, "unit_diagonal", default=False),
    )


def _batch_norm(name: str) -> Rule:
    def rule(program: Any, op: Any, operands: Sequence[Any]) -> Any:
        return program.bind(name, op, operands, feature_index=get(op, "feature_index"))

    return rule


def _select(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    which, if_true, if_false = operands
    return lax.select_n(which, if_false, if_true)


def _dynamic_update_slice(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return lax.dynamic_update_slice(operands[0], operands[1], operands[2:])


def _random(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return program.bind("random_bits", op, [])


def _nothing(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return [None] * len(op.results)


COLLECTIVES: Mapping[str, str] = {
    "all_gather": "all_gather",
    "all_reduce": "psum",
    "all_to_all": "all_to_all",
    "collective_broadcast": "pbroadcast",
    "reduce_scatter": "reduce_scatter",
}
"""JAX primitives of collective operations."""


def _collective(name: str) -> Rule:
    def rule(program: Any, op: Any, operands: Sequence[Any]) -> Any:
        groups = get(op, "replica_groups")
        if not isinstance(groups, list) or not groups or not groups[0]:
            return program.unknown(op, operands)
        arguments: dict[str, Any] = {"axes": (), "axis_index_groups": tuple(map(tuple, groups))}
        return program.bind(name, op, operands, **arguments)

    return rule


def _top_k(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return list(lax.top_k(operands[0], get(op, "k")))


def _constant_like(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    return lax.full(operands[0].shape, get(op, "value"), operands[0].dtype)


RULES: Mapping[str, Rule] = {
    **{name: _unary(f) for name, f in UNARY.items()},
    **{name: _binary(f) for name, f in BINARY.items()},
    **{name: _collective(primitive) for name, primitive in COLLECTIVES.items()},
    **{name: _batch_norm(name) for name in ("batch_norm_inference", "batch_norm_training")},
    "after_all": _nothing,
    "bitcast_convert": lambda program, op, operands: lax.bitcast_convert_type(operands[0], _result(op).dtype),
    "cholesky": lambda program, op, operands: lax.linalg.cholesky_p.bind(operands[0]),
    "clamp": lambda program, op, operands: lax.clamp(*operands),
    "collective_permute": lambda program, op, operands: program.bind("ppermute", op, operands, axes=()),
    "compare": _compare,
    "concatenate": lambda program, op, operands: lax.concatenate(operands, get(op, "dimension")),
    "constant_like": _constant_like,
    "copy": lambda program, op, operands: program.bind("copy", op, operands),  # mhlo.copy
    "convert": _convert,
    "convolution": _convolution,
    "create_token": _nothing,
    "dot": _dot,
    "dot_general": _dot_general,
    "dynamic_slice": lambda program, op, operands: lax.dynamic_slice(operands[0], operands[1:], get(op, "slice_sizes")),
    "dynamic_update_slice": _dynamic_update_slice,
    **dict.fromkeys(("einsum", "unary_einsum"), _einsum),
    "fft": _fft,
    "gather": _gather,
    "iota": _iota,
    "optimization_barrier": lambda program, op, operands: list(lax.optimization_barrier(tuple(operands))),
    "pad": _pad,
    "partition_id": lambda program, op, operands: program.bind("axis_index", op, []),
    "reduce": _reduce,
    "reduce_precision": lambda program, op, operands: lax.reduce_precision(
        operands[0], get(op, "exponent_bits"), get(op, "mantissa_bits")
    ),
    "reduce_window": _reduce_window,
    "replica_id": lambda program, op, operands: program.bind("axis_index", op, []),
    "reshape": _reshape,
    "reverse": lambda program, op, operands: lax.rev(operands[0], get(op, "dimensions")),
    "rng": _random,
    "rng_bit_generator": _random,
    "scatter": _scatter,
    "select": _select,
    "select_and_scatter": _select_and_scatter,
    "slice": _slice,
    "sharding_constraint": lambda program, op, operands: list(operands),
    "sort": _sort,
    "top_k": _top_k,
    "transpose": lambda program, op, operands: lax.transpose(operands[0], get(op, "permutation")),
    "triangular_solve": _triangular_solve,
}
"""Rules of StableHLO and CHLO operators, by name without the dialect. Other operators are unsupported."""

IDENTITY_CALLS = frozenset(
    (
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"),
        *("mark_tensor", "tt.mark_argument", "xla.sdy.FuncResultSharding", "xla_mark_sharding"),
    )
)
"""Targets of ``custom_call`` that return their operands. JAX, PyTorch/XLA and compilers annotate values with them."""

FACTORIZATIONS: Mapping[str, str] = {
    "getrf": "lu",
    "potrf": "cholesky",
    "geqrf": "geqrf",
    "orgqr": "householder_product",
    "ungqr": "householder_product",
    "syevd": "eigh",
    "heevd": "eigh",
    "syevj": "eigh",
    "heevj": "eigh",
    "gesdd": "svd",
    "gesvd": "svd",
    "gesvdj": "svd",
}
"""Primitives by the LAPACK or cuSOLVER routine that implements them."""

ROUTINE = re.compile(r"(?:lapack_[sdcz]|(?:cu|hip)(?:solver|blas|solverdn)_)([a-z]+?)(?:_batched)?(?:_ffi)?")
"""A ``custom_call`` target of such a routine, ``lapack_sgetrf_ffi``."""

OTHER_CALLS: Mapping[str, str] = {
    **dict.fromkeys(("Qr",), "geqrf"),
    **dict.fromkeys(("Eigh",), "eigh"),
    **dict.fromkeys(("LuDecomposition",), "lu"),
    **dict.fromkeys(("ProductOfElementaryHouseholderReflectors",), "householder_product"),
    **dict.fromkeys(("cu_threefry2x32", "cu_threefry2x32_ffi", "hip_threefry2x32_ffi"), "threefry2x32"),
}
"""Primitives by the ``custom_call`` target that TPU and GPU compilers implement."""

EMPTY_CALLS = frozenset(("shape_assertion", "LayoutConstraint"))
"""Targets of ``custom_call`` without a computation, such as assertions."""


def _backend_config(op: Any) -> str:
    return str(op.attributes["mhlo.backend_config"]) if "mhlo.backend_config" in op.attributes else ""


def _vectors(op: Any) -> dict[str, bool]:
    """Return which singular vectors a call computes, from LAPACK's ``mode`` (N, S or A) or the cuSOLVER flags."""
    settings = _backend_config(op)
    mode = re.search(r"mode = (\d+)", settings)
    if mode is not None:
        return {"compute_uv": int(mode.group(1)) != ord("N"), "full_matrices": int(mode.group(1)) == ord("A")}
    return {name: f"{name} = false" not in settings for name in ("compute_uv", "full_matrices")}


def custom_call(program: Any, op: Any, operands: Sequence[Any]) -> Any:
    """Bind the primitive of a ``custom_call``, by its target."""
    target = str(get(op, "call_target_name"))
    if target in IDENTITY_CALLS and len(op.results) == len(operands):
        return list(operands)
    if target in EMPTY_CALLS:
        return list(operands)[: len(op.results)]
    if target in ("mhlo.topk", "TopK"):
        return list(lax.top_k(operands[0], _result(op).shape[-1]))
    routine = ROUTINE.fullmatch(target)
    if routine is not None and routine.group(1) == "trsm" and len(operands) > 1:
        settings = _backend_config(op)
        sides = {"left_side": f"side = {ord('R')} " not in settings, "unit_diagonal": f"diag = {ord('U')} " in settings}
        return program.bind("triangular_solve", op, operands, **sides)
    primitive = OTHER_CALLS.get(target) or (FACTORIZATIONS.get(routine.group(1)) if routine else None)
    if primitive is not None and operands and all(operand is not None for operand in operands):
        return program.bind(primitive, op, operands, **(_vectors(op) if primitive == "svd" else {}))
    return program.unknown(op, operands, target)


def check_results(op: Any, results: Sequence[Any]) -> None:
    """Check the number and shapes of results against the file.

    Raises:
        CostError: if they differ.
    """
    if len(results) != len(op.results):
        raise CostError(f"{op.name} has {len(op.results)} results in the file and makes {len(results)}")
    for result, made in zip(op.results, results, strict=True):
        if made is not None and not has_shape(result.type, jnp.shape(made)):
            raise CostError(f"{op.name} makes {jax.typeof(made)} where the file has {result.type!s:.100}")


# Mapping rules of operators that JAX lacks


def _channels_first(a: Arguments) -> Value:
    """Return the data of a batch norm with the features in the second axis."""
    value: Value = a["inputs"][0]
    feature = int(a["feature_index"])
    others = [size for axis, size in enumerate(value.shape) if axis != feature]
    return value.viewed(*others[:1], value.shape[feature], *others[1:])


def _batch_norm_row(*, training: bool) -> Row:
    inputs: dict[str, Source] = {"x": _channels_first, "w": operand(1), "b": operand(2)}
    if not training:
        inputs |= {"mean": operand(3), "var": operand(4)}
    name = "training" if training else "inference"
    return Row(
        f"jax::batch_norm_{name}",
        "batch_norm",
        inputs,
        {"training": lambda a: training},
        outputs=lambda a, outputs: outputs[:1],
    )


ROWS: tuple[Row, ...] = (_batch_norm_row(training=False), _batch_norm_row(training=True))
