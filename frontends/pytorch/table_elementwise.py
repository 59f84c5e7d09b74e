"""Rows of element-wise operators, comparisons and reductions."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from .rules import axes, axis, first, given, is_tensor, same, value_or_number

_X: dict[str, Source] = {"x": first}
_SELF = value_or_number("self")
_OTHER = value_or_number("other")
_PAIR: dict[str, Source] = {"x0": _SELF, "x1": _OTHER}

UNARY = tuple(
    same(
        "neg abs sign sgn=sign ceil floor trunc round frac exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal "
        "square sin cos tan asin acos atan sinh cosh asinh acosh atanh sinc erf erfc erfinv lgamma digamma i0 "
        "special_i0e=i0e special_i1=i1 special_i1e=i1e special_ndtri=ndtri special_log_ndtr=log_ndtr "
        "special_erfcx=erfcx special_entr=entropy "
        "deg2rad rad2deg signbit logical_not bitwise_not isnan isinf isposinf isneginf isfinite nan_to_num angle",
        _X,
    )
)


def _exponent(args: Arguments) -> Any:
    value = args["exponent"]
    return value if isinstance(value, (int, float)) else None


def _rounded(args: Arguments) -> str:
    return {None: "div", "floor": "floor_div", "trunc": "div"}[args.get("rounding_mode")]


def _alpha_of(native: str, op: str) -> Row:
    return Row(f"aten::{native}", op, _PAIR, {"alpha": given("alpha", 1)})


BINARY = (
    _alpha_of("add", "add"),
    _alpha_of("sub", "sub"),
    Row("aten::rsub", "sub", {"x0": _OTHER, "x1": _SELF}, {"alpha": given("alpha", 1)}),
    Row("aten::div", _rounded, _PAIR, ops=("div", "floor_div")),
    *same(
        "mul maximum minimum fmax=maximum fmin=minimum floor_divide=floor_div remainder=mod fmod atan2 hypot copysign "
        "nextafter logaddexp logaddexp2 xlogy special_xlog1py=xlog1py gcd lcm igamma igammac "
        "eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal "
        "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor __lshift__=bitwise_left_shift "
        "__rshift__=bitwise_right_shift bitwise_left_shift bitwise_right_shift",
        _PAIR,
    ),
    Row("aten::heaviside", "heaviside", {"x0": "self", "x1": "values"}),
    Row("aten::polar", "polar", {"x0": "abs", "x1": "angle"}),
    Row("aten::complex", "complex", {"x0": "real", "x1": "imag"}),
    Row("aten::pow", "pow", {"x0": _SELF, "x1": value_or_number("exponent")}, {"exponent": _exponent}),
    Row("aten::max.other", "maximum", _PAIR),
    Row("aten::min.other", "minimum", _PAIR),
)

_BOUNDS: dict[str, Source] = {"lower": "min", "upper": "max"}

TERNARY = (
    Row("aten::where", "where", {"condition": "condition", "x0": _SELF, "x1": _OTHER}),
    Row(
        "aten::masked_fill",
        "where",
        {"condition": "mask", "x0": "self", "x1": value_or_number("value")},
    ),
    *(
        Row(f"aten::{name}", name, {"x0": "self", "x1": "tensor1", "x2": "tensor2"}, {"value": given("value", 1)})
        for name in ("addcmul", "addcdiv")
    ),
    Row("aten::lerp", "lerp", {"x0": "self", "x1": "end", "x2": value_or_number("weight")}),
    *(Row(f"aten::{name}.Tensor", "clip", {"x": "self", **_BOUNDS}) for name in ("clamp", "clip")),
    *(Row(f"aten::{name}", "clip", {"x": "self"}, _BOUNDS) for name in ("clamp", "clip")),
    Row("aten::clamp_min.Tensor", "clip", {"x": "self", "lower": "min"}),
    Row("aten::clamp_max.Tensor", "clip", {"x": "self", "upper": "max"}),
    Row("aten::clamp_min", "clip", {"x": "self"}, {"lower": "min"}),
    Row("aten::clamp_max", "clip", {"x": "self"}, {"upper": "max"}),
)

_AXES: dict[str, Source] = {"axis": axes(), "keepdims": "keepdim"}


def _norm(name: str) -> Any:
    kinds = {1: "reduce_l1", 2: "reduce_l2", float("inf"): "reduce_linf"}

    def op(args: Arguments) -> str:
        order = args.get(name)
        return kinds.get(2 if order is None else order, "reduce_lp")

    return op


_NORMS = ("reduce_l1", "reduce_l2", "reduce_linf", "reduce_lp")

REDUCTIONS = (
    *same(
        "sum=reduce_sum nansum=reduce_nansum mean=reduce_mean prod=reduce_prod amax=reduce_max amin=reduce_min "
        "max=reduce_max min=reduce_min all=reduce_all any=reduce_any argmax argmin logsumexp=reduce_log_sum_exp "
        "aminmax=min_max",
        _X,
        _AXES,
    ),
    Row("aten::count_nonzero", "count_nonzero", _X, {"axis": axes()}),
    *same("var std var_mean std_mean", _X, {**_AXES, "correction": "correction"}),
    Row("aten::linalg_vector_norm", _norm("ord"), _X, {**_AXES, "p": "ord"}, ops=_NORMS),
    Row("aten::norm", _norm("p"), _X, {**_AXES, "p": "p"}, ops=_NORMS),
    Row("aten::trace", "trace", _X),
    *same(
        "cumsum cumprod cummax cummin logcumsumexp _cummax_helper=cummax _cummin_helper=cummin", _X, {"axis": axis()}
    ),
    *same("sort argsort", _X, {"axis": axis()}),
    Row("aten::topk", "topk", _X, {"axis": axis(), "k": "k"}),
    Row("aten::kthvalue", "kth_value", _X, {"axis": axis(), "k": "k"}),
    Row("aten::median.dim", "median", _X, {"axis": axis()}),
    Row("aten::median", "median", _X),
    Row("aten::mode", "mode", _X, {"axis": axis()}),
    *same("_unique2=unique unique_consecutive=unique unique_dim=unique unique_dim_consecutive=unique", _X),
    Row("aten::nonzero", "nonzero", _X),
    Row("aten::masked_select", "masked_select", {"x": "self", "mask": "mask"}),
    *same("bincount=bin_count histc=histogram", _X),
    Row(
        "aten::searchsorted",
        "search_sorted",
        {"x": value_or_number("self"), "sorted": "sorted_sequence", "sorter": "sorter"},
    ),
    Row("aten::bucketize", "search_sorted", {"x": value_or_number("self"), "sorted": "boundaries"}),
)

_FOREACH_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)


def _lists(*names: str) -> Any:
    def tensors(args: Arguments) -> list[Any]:
        found: list[Any] = []
        for name in names:
            value = args.get(name)
            if isinstance(value, (list, tuple)):
                found += [item for item in value if not isinstance(item, (int, float, complex))]
            elif is_tensor(name)(args):
                found.append(value)
        return found

    return tensors


FOREACH = (
    *(Row(f"aten::_foreach_{name}", f"foreach_{name}", {"x*": "self"}) for name in _FOREACH_UNARY.split()),
    *(
        Row(f"aten::_foreach_{name}", f"foreach_{op}", {"x*": _lists("self", "other")}, {"alpha": given("alpha", 1)})
        for name, op in (
            *(("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("maximum", "maximum")),
            *(("minimum", "minimum"), ("clamp_min", "maximum"), ("clamp_max", "minimum")),
        )
    ),
    Row("aten::_foreach_pow", "foreach_pow", {"x*": _lists("self", "exponent")}),
    *(
        Row(
            f"aten::_foreach_{name}",
            f"foreach_{name}",
            {"x*": _lists("self", "tensor1", "tensor2", "scalars")},
            {"value": given("value", 1)},
        )
        for name in ("addcmul", "addcdiv")
    ),
    Row("aten::_foreach_lerp", "foreach_lerp", {"x*": _lists("self", "tensors1", "weights", "weight")}),
    Row("aten::_foreach_copy", "foreach_copy", {"x*": "src"}),
    Row("aten::_foreach_norm", "foreach_norm", {"x*": "self"}, {"p": "ord"}),
)

ROWS = (*UNARY, *BINARY, *TERNARY, *REDUCTIONS, *FOREACH)
