"""Rules of data movement: views, copies, slices, joins, shifts and gathers. No element is combined with another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from costcore.analyses.receptive_field.dependence import (
    CannotFollowError,
    Dependence,
    Path,
    Rule,
    RuleContext,
    Stencil,
    broadcast,
    carries,
    exact_quotient,
    fixed,
    moved,
    number,
    plain_digit,
    reshaped,
)
from costcore.analyses.receptive_field.rules.mixing import scale_of
from costcore.ir import prod
from costcore.numbers import Dim, is_symbolic

Shape = tuple[Dim, ...]


def element_wise(site: RuleContext) -> list[Dependence | None]:
    """Every element depends on that at its place."""
    return site.all_outputs(site.elementwise(site.y.shape))


def _independent(site: RuleContext) -> list[Dependence | None]:
    return site.all_outputs(None)


def _reshape(site: RuleContext) -> list[Dependence | None]:
    dependence, x, y = site.of_x, site.x, site.y
    return site.all_outputs(None if dependence is None else reshaped(dependence, x.shape, y.shape))


def _expand(site: RuleContext) -> list[Dependence | None]:
    return site.all_outputs(broadcast(site.of_x, site.x.shape, site.y.shape, site.node))


def _transpose(site: RuleContext) -> list[Dependence | None]:
    dependence, axes = site.of_x, site.attribute("axes")
    assert isinstance(axes, tuple)
    return site.all_outputs(None if dependence is None else moved(dependence, map(axes.index, range(len(axes)))))


def _range_of_axis(
    dependence: Dependence | None, axis: int, start: int, step: int, size: Dim, new: Dim
) -> Dependence | None:
    # A negative start counts elements before the first: padding.
    path = None if dependence is None else dependence.path
    on_axis = [] if path is None else [digit for digit in path.digits if digit.axis == axis]
    if dependence is None or path is None or not on_axis:
        return dependence
    digit = on_axis[0]
    if len(on_axis) == 1 and digit.unit == 1 and digit.size == size and digit.start == 0:
        taps = Stencil.every(step, start)
        if len(path.digits) == 1:
            return dependence.with_path(Path(path.map.through(taps, size), (replace(digit, size=new),)))
        if step < 1:
            raise CannotFollowError("a part of positions reversed")
        shifted = path.map.through(Stencil.every(1, start * digit.weight))
        taken = replace(digit, size=new, weight=digit.weight * step)
        rest = [taken if each == digit else each for each in path.digits]
        return dependence.with_path(Path(shifted, tuple(sorted(rest, key=lambda each: -each.weight))))
    ends = [each.start + each.unit * each.size for each in on_axis]
    if step == 1 and not any(map(is_symbolic, (*ends, new, digit.start))):
        if digit.start >= start and max(ends) <= start + new:
            moved_digits = (replace(d, start=d.start - start) if d.axis == axis else d for d in path.digits)
            return dependence.with_path(Path(path.map, tuple(moved_digits)))
        if digit.start >= start + new:
            return _unreached(dependence)
    raise CannotFollowError("cannot slice an axis that merges spatial and other dimensions")


def _unreached(dependence: Dependence) -> Dependence | None:
    # The path does not reach these elements; other marks stay.
    return dependence.with_path(None) if dependence != Dependence(dependence.path) else None


def _first_index(start: Any, size: Dim, step: int) -> int:
    if start is None:
        start = 0 if step > 0 else -1
    if is_symbolic(start):
        raise CannotFollowError("a slice from a symbolic index")
    if start < 0:
        return max(number(size, "a slice from the end of an axis") + int(start), 0)
    return int(start) if is_symbolic(size) else min(int(start), int(size) - (step < 0))


def _slice(site: RuleContext) -> list[Dependence | None]:
    # An integer index has no step, and removes its axis.
    dependence, x, y = site.of_x, site.x, site.y
    if dependence is None or dependence.path is None:
        return site.all_outputs(dependence)
    if any(name != next(iter(site.layer.inputs)) for name in site.operands):
        raise CannotFollowError("a slice at indices that are data")
    starts: Any = site.attribute("start")
    axes: Any = site.layer.attrs.get("axis")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps: Any = site.layer.attrs.get("step") or (1,) * len(starts)
    sizes = list(x.shape)
    for axis, start, given in zip(axes, starts, steps, strict=True):
        step = 1 if given is None else number(given, "a step")
        first = _first_index(start, x.shape[axis], step)
        sizes[axis] = 1 if given is None else _slice_size(site, axis, axes, step)
        dependence = _range_of_axis(dependence, axis, first, step, x.shape[axis], sizes[axis])
    if dependence is not None and len(sizes) != y.ndim:
        dependence = reshaped(dependence, tuple(sizes), y.shape)
    return site.all_outputs(dependence)


def _slice_size(site: RuleContext, axis: int, axes: tuple[int, ...], step: int) -> Dim:
    x, y, attrs = site.x, site.y, site.layer.attrs
    if x.ndim == y.ndim:
        return y.shape[axis]
    i = axes.index(axis)
    bounds: Any = attrs["start"][i], attrs["stop"][i], step
    return len(range(*slice(*bounds).indices(number(x.shape[axis], "a slice of an axis"))))


def _at_index(dependence: Dependence | None, axis: int, index: int, shape: Shape) -> Dependence | None:
    path = None if dependence is None else dependence.path
    if dependence is None or path is None:
        return dependence
    for digit in [each for each in path.digits if each.axis == axis]:
        if is_symbolic(digit.start) or index < digit.start:
            return _unreached(dependence)
        current = next(each for each in path.digits if each.place == digit.place)
        unit, size = number(digit.unit, "a block"), digit.size
        value = (index - digit.start) // unit
        path = fixed(path, current, value if is_symbolic(size) else value % size)
    return moved(dependence.with_path(path), [*range(axis), None, *range(axis, len(shape) - 1)])


def select(site: RuleContext) -> list[Dependence | None]:
    """Return the dependence of one index of an axis, which is removed."""
    axis, index = site.attribute("axis"), site.attribute("index")
    assert isinstance(axis, int)
    return site.all_outputs(_at_index(site.of_x, axis, _first_index(index, site.x.shape[axis], 1), site.x.shape))


def _split(site: RuleContext) -> list[Dependence | None]:
    axis, x = site.attribute("axis"), site.x
    assert isinstance(axis, int)
    outputs: list[Dependence | None] = []
    start = 0
    for y in site.layer.outputs:
        if y.ndim < x.ndim:
            outputs.append(_at_index(site.of_x, axis, start, x.shape))
            start += 1
            continue
        is_carried = carries(site.of_x, axis)
        outputs.append(
            _range_of_axis(site.of_x, axis, start, 1, x.shape[axis], y.shape[axis]) if is_carried else site.of_x
        )
        start += number(y.shape[axis], "a part") if is_carried else 0
    return outputs


def _view(site: RuleContext) -> list[Dependence | None]:
    # Frontends state what kind of view it is by attributes; without, it is a reshape or an expansion.
    attrs = site.layer.attrs
    if "rearranged" in attrs:
        raise CannotFollowError("a view with other strides")
    if "axes" in attrs:
        return _transpose(site)
    if "start" in attrs:
        return _slice(site)
    if "index" in attrs:
        return select(site)
    if "axis" in attrs:
        return _split(site)
    return _reshape(site) if exact_quotient(prod(site.x.shape), prod(site.y.shape)) == 1 else _expand(site)


def _concatenated(site: RuleContext, axis: int, shapes: Mapping[str, Shape]) -> Dependence | None:
    # Several operands with positions along the axis give a bound, or a cyclic shift as exporters write it.
    total: Dim = 0
    parts: list[tuple[Dependence, Shape, Dim]] = []
    for name, shape in shapes.items():
        if name in site.operands:
            parts.append((site.operands[name], shape, total))
        total = total + shape[axis]
    if sum(carries(dependence, axis) for dependence, _, _ in parts) > 1:
        return _cyclic_shift(site, axis, parts) or _bound_of_parts(site, axis, parts)
    moved_parts = []
    for dependence, shape, offset in parts:
        path = dependence.path
        if path is not None and carries(dependence, axis) and len(shapes) > 1:
            digits = (replace(d, start=d.start + offset) if d.axis == axis else d for d in path.digits)
            dependence = dependence.with_path(Path(path.map, tuple(digits)))
        own = tuple(shape[axis] if i == axis else size for i, size in enumerate(site.y.shape))
        moved_parts.append(broadcast(dependence, shape, own, site.node))
    return site.unite(moved_parts)


def _cyclic_shift(site: RuleContext, axis: int, parts: Sequence[tuple[Dependence, Shape, Dim]]) -> Dependence | None:
    # A cyclic shift joins two slices of one value: the other part continues the larger one at its other end.
    if len(parts) != 2 or len(site.layer.inputs) != 2:
        return None
    (one, first, _), (other, second, cut) = parts
    size = site.y.shape[axis]
    if any(map(is_symbolic, (first[axis], second[axis]))):
        return None
    assert one.path is not None and other.path is not None  # both count positions along the axis
    early, late = (plain_digit(path, axis, shape[axis]) for path, shape in ((one.path, first), (other.path, second)))
    assert early is not None and late is not None
    if early[1].weight != late[1].weight:
        return None
    weight, length = early[1].weight, number(size, "an axis")
    before = early[0].map.through(Stencil.every(1, -weight * length))
    after = late[0].map.through(Stencil.every(1, -weight * number(cut, "a part")))
    rest, other_rest = (tuple(d for d in path.digits if d != digit) for path, digit in (early, late))
    if rest != other_rest or before != after:
        return None
    shifted, digit = (early[0].map, early[1]) if 2 * first[axis] >= length else (after, late[1])
    digits = (replace(digit, size=size), *rest)
    path = Path(shifted, tuple(sorted(digits, key=lambda each: -each.weight)))
    return one.with_path(path).marks(other).marks(Dependence(wrapped=site.node))


def _bound_of_parts(site: RuleContext, axis: int, parts: Sequence[tuple[Dependence, Shape, Dim]]) -> Dependence | None:
    # Every position sees what it would see in any of the parts.
    moved_parts = []
    for dependence, shape, offset in parts:
        found = None if dependence.path is None else plain_digit(dependence.path, axis, shape[axis])
        if found is not None:
            path, digit = found
            if len(path.digits) > 1:
                raise CannotFollowError("parts of positions joined along an axis")
            shifted = path.map.through(Stencil.every(1, -number(offset, "a part")), shape[axis])
            dependence = dependence.with_path(Path(shifted, (replace(digit, size=site.y.shape[axis]),)))
        moved_parts.append(dependence)
    united = site.unite(moved_parts)
    return None if united is None else united.marks(Dependence(bounded=site.node))


def _concat(site: RuleContext) -> list[Dependence | None]:
    axis = site.attribute("axis")
    assert isinstance(axis, int)
    axis %= site.y.ndim
    return site.all_outputs(_concatenated(site, axis, {name: t.shape for name, t in site.layer.inputs.items()}))


def _stack(site: RuleContext) -> list[Dependence | None]:
    axis = site.attribute("axis")
    assert isinstance(axis, int)
    axis %= site.y.ndim
    numbers = tuple(i + (i >= axis) for i in range(site.y.ndim - 1))
    return site.all_outputs(site.unite(moved(dependence, numbers) for dependence in site.operands.values()))


def _pad(site: RuleContext) -> list[Dependence | None]:
    # A border of any kind is outside of the field, like the padding of a convolution.
    before, dependence = site.attribute("before"), site.of_x
    assert isinstance(before, tuple)
    for axis, width in enumerate(before):
        size, new = site.x.shape[axis], site.y.shape[axis]
        if size != new or width != 0:
            dependence = _range_of_axis(dependence, axis, -number(width, "padding"), 1, size, new)
    return site.all_outputs(dependence)


def _flip(site: RuleContext) -> list[Dependence | None]:
    dependence, axes = site.of_x, site.attribute("axis")
    assert isinstance(axes, tuple)
    for axis in axes:
        if dependence is not None and dependence.path is not None:
            size = site.x.shape[axis]
            if carries(dependence, axis):
                dependence = _range_of_axis(dependence, axis, number(size, "a flip") - 1, -1, size, size)
    return site.all_outputs(dependence)


def _roll(site: RuleContext) -> list[Dependence | None]:
    # Counted as a shift: what wraps around is like a border, and marked.
    dependence, axes, shifts = site.of_x, site.attribute("axis"), site.attribute("shift")
    assert isinstance(axes, tuple) and isinstance(shifts, tuple)
    for axis, shift in zip(axes, shifts, strict=True):
        path = None if dependence is None else dependence.path
        if dependence is not None and path is not None and carries(dependence, axis):
            size = site.x.shape[axis]
            plain_digit(path, axis, size)
            dependence = _range_of_axis(dependence, axis, -number(shift, "a shift"), 1, size, size)
            assert dependence is not None
            dependence = dependence.marks(Dependence(wrapped=site.node))
    return site.all_outputs(dependence)


def _blocks(site: RuleContext) -> list[Dependence | None]:
    dependence, x, y = site.of_x, site.x, site.y
    if dependence is not None:
        dependence = site.contract(dependence, [x.ndim - 3])
        for axis in (x.ndim - 2, x.ndim - 1):
            old, new = x.shape[axis], y.shape[axis]
            if site.layer.op == "space_to_depth":
                block = scale_of(old, new).numerator
                taps = Stencil.window(block, block)
            else:
                taps = Stencil.repeated(scale_of(new, old).numerator)
            dependence = site.slide(dependence, axis, taps, old, new)
    return site.all_outputs(dependence)


def _channel_shuffle(site: RuleContext) -> list[Dependence | None]:
    dependence = site.of_x
    return site.all_outputs(None if dependence is None else site.contract(dependence, [1]))


def _one_hot(site: RuleContext) -> list[Dependence | None]:
    return site.all_outputs(site.of_x)


def _broadcast_arrays(site: RuleContext) -> list[Dependence | None]:
    return [
        broadcast(site.operands.get(name), tensor.shape, y.shape, site.node)
        for (name, tensor), y in zip(site.layer.inputs.items(), site.layer.outputs, strict=True)
    ]


LAYOUT_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("identity", "copy", "cast", "triu", "tril"), element_wise),
    **dict.fromkeys(("shape", "size", "constant", "empty", "full", "arange", "eye", "triangle_indices"), _independent),
    "reshape": _reshape,
    "view": _view,
    "transpose": _transpose,
    "slice": _slice,
    "select": select,
    **dict.fromkeys(("split", "unbind"), _split),
    "concat": _concat,
    "stack": _stack,
    "pad": _pad,
    "flip": _flip,
    "roll": _roll,
    **dict.fromkeys(("depth_to_space", "pixel_shuffle", "space_to_depth"), _blocks),
    "channel_shuffle": _channel_shuffle,
    **dict.fromkeys(("broadcast_to", "tile"), _expand),  # of an axis of size 1 alone is a position followed
    "one_hot": _one_hot,
    "broadcast_arrays": _broadcast_arrays,
}


# Gathers and embeddings: an index keeps its position, an indexed axis loses it.


def _embedding(site: RuleContext) -> list[Dependence | None]:
    if "w" in site.operands:
        raise CannotFollowError("a table that depends on the input")
    return site.all_outputs(site.operands.get("x"))


def _gather(site: RuleContext) -> list[Dependence | None]:
    # The axes of the indices replace the axis; a constant index is a selection.
    if "index" in site.layer.attrs:
        return select(site)
    axis, dependence = site.attribute("axis"), site.operands.get("x")
    if len(site.operands) > (dependence is not None) or not isinstance(axis, int):
        raise CannotFollowError("indices that depend on the input")
    if dependence is None:
        return site.all_outputs(None)
    added, rank = site.y.ndim - site.layer["x"].ndim, site.y.ndim
    return site.all_outputs(moved(dependence, [*range(axis), None, *range(axis + 1 + added, rank)]))


def _reject_data_dependent(site: RuleContext) -> list[Dependence | None]:
    raise CannotFollowError("places that depend on data")


AT_DATA = """
grid_sample deform_conv roi_align ps_roi_align roi_max_pool roi_avg_pool ps_roi_avg_pool crop_and_resize gather_elements
gather_nd masked_select masked_gather compress upsample fractional_max_pool
"""
"""Operators that read or write places known only in a run."""

INDEXING_RULES: Mapping[str, Rule] = {
    "embedding": _embedding,
    "gather": _gather,
    **dict.fromkeys(AT_DATA.split(), _reject_data_dependent),
}


RULES: Mapping[str, Rule] = {**LAYOUT_RULES, **INDEXING_RULES}
