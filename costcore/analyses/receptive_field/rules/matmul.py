"""Matrix products: the contracted axis is combined, all others keep their positions."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence, moved
from costcore.analyses.receptive_field.site import Rule, Site
from costcore.analyses.receptive_field.union import broadcast


def _linear(site: Site) -> list[Dependence | None]:
    x = site.layer["x"]
    dependence, weights = site.operands.get("x"), site.operands.get("w")
    if dependence is not None:
        dependence = site.contract(dependence, [x.ndim - 1])
    if weights is not None:
        weights = site.contract(weights, range(site.layer["w"].ndim))
    added = site.elementwise(site.y.shape, [name for name in site.operands if name not in ("x", "w")])
    return site.all_outputs(site.unite([dependence, weights, added]))


def _matmul(site: Site) -> list[Dependence | None]:
    """``x0[..., M, K] @ x1[..., K, N]``: along K all is combined."""
    x0, x1, y = site.layer["x0"], site.layer["x1"], site.y
    left, right = site.operands.get("x0"), site.operands.get("x1")
    if left is not None:
        left = site.contract(left, [x0.ndim - 1])
        left = broadcast(left, x0.shape[:-1] if x1.ndim == 1 else x0.shape, y.shape, site.node)
    if right is not None:
        right = site.contract(right, [max(x1.ndim - 2, 0)])
        shape = () if x1.ndim == 1 else x1.shape
        if x0.ndim == 1 and x1.ndim > 1:
            right = moved(right, [*range(x1.ndim - 2), None, x1.ndim - 2])
            shape = (*x1.shape[:-2], x1.shape[-1])
        right = broadcast(right, shape, y.shape, site.node)
    added = site.elementwise(y.shape, [name for name in site.operands if name not in ("x0", "x1")])
    return site.all_outputs(site.unite([left, right, added]))


def _einsum(site: Site) -> list[Dependence | None]:
    equation = str(site.attribute("equation")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    names = [name for name in site.layer.inputs if name.startswith("x")]
    if "." in equation or not arrow or len(terms.split(",")) != len(names) or len(site.operands.keys() - set(names)):
        raise CannotFollowError("an equation with implicit axes")
    parts = []
    for name, letters in zip(names, terms.split(","), strict=True):
        dependence = site.operands.get(name)
        if dependence is not None:
            if len(set(letters)) < len(letters):
                raise CannotFollowError("an equation with a diagonal")
            gone = [axis for axis, letter in enumerate(letters) if letter not in result]
            dependence = moved(
                site.contract(dependence, gone), [result.index(each) if each in result else None for each in letters]
            )
        parts.append(dependence)
    return site.all_outputs(site.unite(parts))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("linear", "packed_linear"), _linear),
    "matmul": _matmul,
    "einsum": _einsum,
}
