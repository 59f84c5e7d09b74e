"""Rows of pooling and its gradients."""

from __future__ import annotations

from costcore.translate import Arguments, Row, Source

from ..operators.saved_for_backward import is_differentiated
from .arguments import X, first_argument, non_default, ntuple, requested_indices


def _window(rank: int) -> dict[str, Source]:
    return {
        "kernel": ntuple("kernel_size", rank),
        "stride": ntuple("stride", rank, "kernel_size"),
        "padding": ntuple("padding", rank),
    }


def _saved_indices(args: Arguments) -> str | None:
    """Return the dtype of the indices that a pooling without indices keeps for its backward pass."""
    return "int64" if is_differentiated(first_argument(args)) else None


def _max_pool(name: str, rank: int, attrs: dict[str, Source]) -> Row:
    settings: dict[str, Source] = {"ceil_mode": "ceil_mode", "dilation": ntuple("dilation", rank)}
    return Row(f"aten::{name}", "max_pool", X, {**_window(rank), **settings, **attrs})


def _avg_pool_attributes(rank: int) -> dict[str, Source]:
    counted: dict[str, Source] = {"count_include_pad": non_default("count_include_pad", True)}
    return {**_window(rank), "ceil_mode": "ceil_mode", **counted}


def _adaptive_pool(name: str, kind: str, rank: int) -> Row:
    def sizes(args: Arguments) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(first_argument(args).shape[-rank:]), ntuple("output_size", rank)(args)

    def divides(args: Arguments) -> bool:
        return all(y > 0 and x % y == 0 for x, y in zip(*sizes(args), strict=True))

    def kernel(args: Arguments) -> tuple[int, ...] | None:
        return tuple(x // y for x, y in zip(*sizes(args), strict=True)) if divides(args) else None

    return Row(
        f"aten::{name}",
        lambda args: f"{kind}_pool" if divides(args) else f"adaptive_{kind}_pool",
        X,
        {"kernel": kernel, "stride": kernel, "adaptive": lambda args: True if divides(args) else None},
        outputs=requested_indices if kind == "max" else None,
        ops=(f"{kind}_pool", f"adaptive_{kind}_pool"),
    )


FORWARD = (
    *(_max_pool(f"max_pool{rank}d", rank, {"indices": _saved_indices}) for rank in (1, 2, 3)),
    *(_max_pool(f"max_pool{rank}d_with_indices", rank, {}) for rank in (1, 2, 3)),
    *(Row(f"aten::avg_pool{rank}d", "avg_pool", X, _avg_pool_attributes(rank)) for rank in (1, 2, 3)),
    *(_adaptive_pool(f"adaptive_{kind}_pool{rank}d", kind, rank) for kind in ("avg", "max") for rank in (1, 2, 3)),
    *(_adaptive_pool(f"_adaptive_avg_pool{rank}d", "avg", rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::fractional_max_pool{rank}d",
            "fractional_max_pool",
            {"x": "self", "samples": "random_samples"},
            {"kernel": ntuple("kernel_size", rank)},
            outputs=requested_indices,
        )
        for rank in (2, 3)
    ),
    *(Row(f"aten::max_unpool{rank}d", "upsample", {"x": "self", "indices": "indices"}) for rank in (2, 3)),
    *(
        Row(f"aten::{name}{rank}d", "max_pool", X, {"kernel": ntuple("kernel_size", rank)})
        for name, ranks in (("quantized_max_pool", (1, 2, 3)), ("mkldnn_max_pool", (2, 3)))
        for rank in ranks
    ),
)


LP = tuple(
    Row(
        f"torch.nn.functional::lp_pool{rank}d",
        "lp_pool",
        {"x": "input"},
        {
            "kernel": ntuple("kernel_size", rank),
            "stride": ntuple("stride", rank, "kernel_size"),
            "ceil_mode": "ceil_mode",
            "p": "norm_type",
        },
    )
    for rank in (1, 2, 3)
)


def _adaptive_avg_pool_backward(rank: int) -> Row:
    def kernel(args: Arguments) -> tuple[int, ...] | None:
        sizes = zip(args["self"].shape[-rank:], args["grad_output"].shape[-rank:], strict=True)
        pairs = [(int(x), int(y)) for x, y in sizes]
        return tuple(x // y for x, y in pairs) if all(y and x % y == 0 for x, y in pairs) else None

    return Row(
        f"aten::_adaptive_avg_pool{rank}d_backward",
        lambda args: "avg_pool_backward" if kernel(args) else "adaptive_avg_pool_backward",
        {"dy": first_argument},
        {"kernel": kernel, "stride": kernel},
        ops=("avg_pool_backward", "adaptive_avg_pool_backward"),
    )


_AT_INDICES: dict[str, Source] = {"dy": "grad_output", "indices": "indices"}

GRADIENTS = (
    *(
        Row(f"aten::max_pool{rank}d_with_indices_backward", "max_pool_backward", _AT_INDICES, _window(rank))
        for rank in (2, 3)
    ),
    *(
        Row(
            f"aten::fractional_max_pool{rank}d_backward",
            "max_pool_backward",
            _AT_INDICES,
            {"kernel": ntuple("kernel_size", rank)},
        )
        for rank in (2, 3)
    ),
    *(
        Row(f"aten::avg_pool{rank}d_backward", "avg_pool_backward", {"dy": "grad_output"}, _window(rank))
        for rank in (2, 3)
    ),
    *(Row(f"aten::adaptive_max_pool{rank}d_backward", "adaptive_max_pool_backward", _AT_INDICES) for rank in (2, 3)),
    *(_adaptive_avg_pool_backward(rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::{name}",
            "max_pool_backward",
            {"dy": "grad_output", "x": x},
            {"kernel": ntuple("kernel_size", rank)},
        )
        for name, x, rank in (
            ("max_pool2d_backward", "self", 2),
            ("mkldnn_max_pool2d_backward", "input", 2),
            ("mkldnn_max_pool3d_backward", "input", 3),
        )
    ),
)


def _sampling(args: Arguments) -> tuple[int, int]:
    """Return the samples of a bin along each axis; 0 if the size of the region decides."""
    return (max(int(args["sampling_ratio"]), 0),) * 2


_REGIONS: dict[str, Source] = {"x": "input", "rois": "rois"}
_DY_IN_REGIONS: dict[str, Source] = {"dy": "grad", "rois": "rois"}
_SAMPLED: dict[str, Source] = {"sampling": _sampling}

REGIONS = (
    Row("torchvision::roi_align", "roi_align", _REGIONS, _SAMPLED),
    Row("torchvision::ps_roi_align", "ps_roi_align", _REGIONS, _SAMPLED),
    Row("torchvision::roi_pool", "roi_max_pool", _REGIONS),
    Row("torchvision::ps_roi_pool", "ps_roi_avg_pool", _REGIONS),
    Row("torchvision::_roi_align_backward", "roi_align_backward", _DY_IN_REGIONS, _SAMPLED),
    Row(
        "torchvision::_ps_roi_align_backward",
        "ps_roi_align_backward",
        {**_DY_IN_REGIONS, "indices": "channel_mapping"},
        _SAMPLED,
    ),
    Row("torchvision::_roi_pool_backward", "roi_max_pool_backward", {**_DY_IN_REGIONS, "indices": "argmax"}),
    Row(
        "torchvision::_ps_roi_pool_backward",
        "ps_roi_avg_pool_backward",
        {**_DY_IN_REGIONS, "indices": "channel_mapping"},
    ),
)

ROWS = (*FORWARD, *LP, *GRADIENTS, *REGIONS)
