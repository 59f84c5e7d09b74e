"""Poolings and their inverses."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence
from costcore.analyses.receptive_field.periodic_map import Taps
from costcore.analyses.receptive_field.rules.windows import windows_of
from costcore.analyses.receptive_field.site import Rule, Site
from costcore.numbers.dims import ceil_div, gcd, is_symbolic


def _pool(site: Site) -> list[Dependence | None]:
    """An adaptive pooling to one element is global, whatever the size of the image; other windows are windows."""
    windows = windows_of(site)
    dependence = site.unite(site.operands.values())
    x, y, rank = site.x, site.y, len(windows.kernel)
    for i, axis in enumerate(range(x.ndim - rank, x.ndim)):
        if dependence is None:
            break
        size = x.shape[axis]
        if site.layer.attrs.get("adaptive") and y.shape[axis] == 1:
            dependence = site.pool(dependence, axis)
        else:
            dependence = site.slide(dependence, axis, windows.axis_taps(i), size, y.shape[axis])
    return site.all_outputs(dependence)


def _adaptive_pool(site: Site) -> list[Dependence | None]:
    """Window i of n over a length L ranges from floor(i*L/n) to ceil((i+1)*L/n), which repeats every n / gcd(L, n)."""
    dependence, x, y = site.of_x, site.x, site.y
    for axis in range(x.ndim):
        size, new = x.shape[axis], y.shape[axis]
        if dependence is None or size == new:
            continue
        if new == 1:
            dependence = site.pool(dependence, axis)
            continue
        if is_symbolic(size) or is_symbolic(new):
            raise CannotFollowError("windows of symbolic size")
        common = gcd(size, new)
        windows = (range(i * size // new, ceil_div((i + 1) * size, new)) for i in range(new // common))
        dependence = site.slide(dependence, axis, Taps(size // common, tuple(windows)), size, new)
    return site.all_outputs(dependence)


def _unpool(site: Site) -> list[Dependence | None]:
    """Every element is repeated over its window, or moved to an index inside it."""
    windows, dependence = windows_of(site), site.unite(site.operands.values())
    x, y, rank = site.x, site.y, len(windows.kernel)
    for axis, taps in zip(range(x.ndim - rank, x.ndim), windows.transposed_taps(), strict=True):
        if dependence is not None:
            dependence = site.slide(dependence, axis, taps, x.shape[axis], y.shape[axis])
    return site.all_outputs(dependence)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("max_pool", "avg_pool", "lp_pool", "masked_max_pool"), _pool),
    **dict.fromkeys(("adaptive_max_pool", "adaptive_avg_pool"), _adaptive_pool),
    "unpool": _unpool,
}
