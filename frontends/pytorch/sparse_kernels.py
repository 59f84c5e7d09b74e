"""Calls on objects that hold sparse points or sparse matrices: spconv, torchsparse, torch-sparse.

The numbers of products and of output points depend on coordinates. They are exact if the coordinates are known.
Otherwise they are upper bounds, which the report lists as an assumption.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.weak import WeakTensorKeyDictionary

from costcore.errors import CostError


class KnownValues(Protocol):
    """Known values of meta tensors: ``frontends.pytorch.meta.values.Values``."""

    def of(self, tensor: Tensor) -> Tensor | None:
        """Return the values of a tensor on the CPU; None if they are unknown."""

    def give(self, tensor: Tensor, data: Tensor) -> None:
        """Set the values of a new meta tensor."""


class Made(NamedTuple):
    """The result of a call that reads or returns objects.

    Attributes:
        outputs: the result of the call, with new meta tensors.
        facts: operands and attributes by the names that the row reads.
        assumption: the assumption about unknown values; "" for none.
        parts: returns the tensors that a call writes from its result, ``parts(result)``; None for all.
    """

    outputs: Any
    facts: Mapping[str, Any]
    assumption: str = ""
    parts: Callable[[Any], Sequence[Tensor]] | None = None


# Convolutions of points: spconv, torchsparse
#
# A rulebook has a pair for every input point and position of the kernel that reach an output point. Coordinates are
# [N, 1 + d], the sample first. A strided convolution leads from a fine to a coarse grid: a fine point p reaches the
# coarse point (p + padding - k * dilation) / stride.


class _Window(NamedTuple):
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def shape(self, shape: Sequence[int]) -> list[int]:
        """Return the shape of the coarse grid."""
        settings = zip(shape, *self, strict=True)
        return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in settings]

    def max_pairs(self) -> int:
        """Return the maximum number of pairs of a fine point."""
        axes = zip(self.kernel, self.stride, self.dilation, strict=True)
        return math.prod(-(-k // (s // math.gcd(s, d))) for k, s, d in axes)

    def reached(self, points: Tensor, shape: Sequence[int], to_fine: bool = False) -> Iterator[Tensor]:
        """Yield the keys of the grid points that ``points`` reach, for every position of the kernel."""
        stride, padding, dilation = map(torch.tensor, self[1:])
        for position in product(*map(range, self.kernel)):
            shift = torch.tensor(position) * dilation - padding
            if to_fine:
                places = points[:, 1:] * stride + shift
                is_inside = (places >= 0) & (places < torch.tensor(shape))
            else:
                places = points[:, 1:] - shift
                is_inside = (places % stride == 0) & (places >= 0)
                places = places // stride
                is_inside &= places < torch.tensor(shape)
            is_inside = is_inside.all(1)
            yield _keys(torch.cat((points[is_inside, :1], places[is_inside]), 1), shape)


def _keys(points: Tensor, shape: Sequence[int]) -> Tensor:
    # A number for every point of a grid.
    key = points[:, 0]
    for axis, size in enumerate(shape):
        key = key * size + points[:, axis + 1]
    return key


def _points_of(keys: Tensor, shape: Sequence[int]) -> Tensor:
    columns = []
    for size in reversed(shape):
        columns.append(keys % size)
        keys = keys // size
    return torch.stack((keys, *reversed(columns)), 1)


def _window_of(module: Module, n_axes: int) -> _Window:
    defaults = {"kernel_size": 3, "stride": 1, "padding": 0, "dilation": 1}
    given = (getattr(module, name, default) for name, default in defaults.items())
    return _Window(*((x,) * n_axes if isinstance(x, int) else tuple(map(int, x)) for x in given))


class _Rules(NamedTuple):
    # Coordinates of the outputs, the number of pairs, whether both are exact, and whether the coordinates are new.
    coordinates: Tensor
    pairs: int
    is_exact: bool = True
    is_new: bool = False


def _known_points(values: KnownValues, coordinates: Tensor) -> Tensor | None:
    known = values.of(coordinates) if coordinates.is_meta else coordinates.detach().cpu()
    return None if known is None else known.long()


def _pairs_between(values: KnownValues, fine: Tensor, coarse: Tensor, shape: Sequence[int], window: _Window) -> _Rules:
    # Pairs of given fine and coarse points: the layer makes no new points.
    points, known = _known_points(values, fine), _known_points(values, coarse)
    if points is None or known is None:
        volume = math.prod(window.kernel)
        pairs = min(fine.shape[0] * window.max_pairs(), coarse.shape[0] * volume)
        return _Rules(coarse, pairs, is_exact=fine is coarse and volume == 1)
    counted = _COUNTED_PAIRS.setdefault(coarse, {}) if fine is coarse else {}
    key = (window, tuple(shape), coarse._version)
    if key not in counted:
        keys = _keys(known, shape).unique()
        counted[key] = sum(_n_found(reached, keys) for reached in window.reached(points, shape))
    return _Rules(coarse, counted[key])


_COUNTED_PAIRS = WeakTensorKeyDictionary()
"""The pairs of points with their neighbors, which layers of one resolution share."""


def _n_found(wanted: Tensor, keys: Tensor) -> int:
    places = torch.searchsorted(keys, wanted).clamp_(max=max(len(keys) - 1, 0))
    return int((keys[places] == wanted).sum()) if len(keys) else 0


def _all_reached(
    values: KnownValues, given: Tensor, n_samples: int, shape: Sequence[int], window: _Window, to_fine: bool = False
) -> _Rules:
    # The layer makes all points that the given ones reach.
    points = _known_points(values, given)
    if points is None:
        pairs = given.shape[0] * (math.prod(window.kernel) if to_fine else window.max_pairs())
        n_points = min(pairs, n_samples * math.prod(shape))
        made = torch.empty(n_points, given.shape[1], dtype=given.dtype, device="meta")
        return _Rules(made, min(pairs, n_points * math.prod(window.kernel)), is_exact=False, is_new=True)
    keys = [*window.reached(points, shape, to_fine)]
    found = _points_of(torch.cat(keys).unique(), shape).to(given.dtype)
    made = torch.empty_like(found, device="meta")
    values.give(made, found)
    return _Rules(made, sum(len(each) for each in keys), is_new=True)


def _sparse_result(
    module: Module,
    given: Any,
    features: Tensor,
    given_at: Tensor,
    width: int,
    rules: _Rules,
    changes: Mapping[str, Any],
) -> Made:
    # The output is a copy of the input object with new features and coordinates.
    name = next(name for name in ("features", "_features", "feats") if name in vars(given))
    places = "coords" if name == "feats" else "indices"
    outputs = copy.copy(given)
    made = features.new_empty((rules.coordinates.shape[0], width), device="meta")
    vars(outputs).update({**changes, name: made, places: rules.coordinates})

    def parts(result: Any) -> Sequence[Tensor]:
        written, coordinates = (vars(result)[key] for key in (name, places))
        return (written, coordinates) if rules.is_new else (written,)

    assumption = "" if rules.is_exact else POINTS_ASSUMED.format(type(module).__name__, rules.pairs)
    return Made(outputs, {"features": features, "indices": given_at, "pairs": rules.pairs}, assumption, parts)


POINTS_ASSUMED = "{}: coordinates without values; counts {} pairs, an upper bound (every point reaches all it can)"


def spconv(kind: str) -> Callable[..., Made]:
    """Return the rule of layers of spconv: ``subm``, ``strided``, ``transposed``, ``inverse`` or ``pool``."""

    def objects(values: KnownValues, module: Any, input: Any, add_input: Any = None) -> Made:
        shape, indices, features = [*input.spatial_shape], input.indices, input.features
        window, key = _window_of(module, len(shape)), getattr(module, "indice_key", None)
        books, coarse, stored = getattr(input, "indice_dict", None) or {}, shape, None
        if kind == "subm" or getattr(module, "subm", False):
            centered = tuple(k // 2 * d for k, d in zip(window.kernel, window.dilation, strict=True))
            window = window._replace(stride=(1,) * len(shape), padding=centered)
            rules = _pairs_between(values, indices, indices, shape, window)
        elif kind == "inverse":
            if key not in books:
                raise CostError(f"indice_key {key!r} is unknown: no earlier sparse convolution or pooling has it")
            book = books[key]
            coarse = [*book.spatial_shape]
            window = _Window(*map(tuple, (book.ksize, book.stride, book.padding, book.dilation)))
            rules = _pairs_between(values, book.indices, indices, window.shape(coarse), window)
            rules = rules._replace(coordinates=book.indices)
        else:
            if kind == "transposed":
                more = _window_of(SimpleNamespace(padding=getattr(module, "output_padding", 0)), len(shape)).padding
                sizes = zip(shape, *window[:3], more, strict=True)
                coarse = [(n - 1) * s - 2 * p + k + extra for n, k, s, p, extra in sizes]
            else:
                coarse = window.shape(shape)
            n_samples = int(getattr(input, "batch_size", indices.shape[0]))
            rules = _all_reached(values, indices, n_samples, coarse, window, kind == "transposed")
            stored = SimpleNamespace(indices=indices, out_indices=rules.coordinates, is_subm=False)
            stored.spatial_shape, stored.out_spatial_shape = shape, coarse
            stored.ksize, stored.stride, stored.padding, stored.dilation = map(list, window)
        books = books if stored is None or key is None else {**books, key: stored}
        width = getattr(module, "out_channels", features.shape[1])
        changes = {"spatial_shape": coarse, "indice_dict": books}
        made = _sparse_result(module, input, features, indices, width, rules, changes)
        return made if add_input is None else made._replace(facts={**made.facts, "added": add_input.features})

    return objects


def torchsparse(values: KnownValues, module: Any, input: Any) -> Made:
    """Return the result of ``torchsparse.nn.Conv3d``."""
    if getattr(module, "generative", False):
        raise CostError("generative convolutions of torchsparse have no cost here. Pass calculators={Conv3d: …}")
    features, coordinates, stride = input.feats, input.coords, tuple(getattr(input, "stride", (1, 1, 1)))
    window, limits = _window_of(module, 3), getattr(input, "spatial_range", None)
    caches = vars(input).get("_caches") or SimpleNamespace(kmaps={}, cmaps={})
    caches.cmaps.setdefault(stride, (coordinates, limits))
    if getattr(module, "transposed", False):
        stride = tuple(n // s for n, s in zip(stride, window.stride, strict=True))
        if stride not in caches.cmaps:
            raise CostError(f"no earlier convolution has the stride {stride} that this transposed one returns")
        fine, limits = caches.cmaps[stride]
        rules = _pairs_between(values, fine, coordinates, window.shape(_grid(values, fine, limits)), window)
        rules = rules._replace(coordinates=fine)
    elif max(window.stride) == 1:
        rules = _pairs_between(values, coordinates, coordinates, _grid(values, coordinates, limits), window)
    else:
        shape = window.shape(_grid(values, coordinates, limits))
        rules = _all_reached(
            values, coordinates, coordinates.shape[0] if limits is None else int(limits[0]), shape, window
        )
        stride = tuple(n * s for n, s in zip(stride, window.stride, strict=True))
        limits = None if limits is None else (limits[0], *shape)
        caches.cmaps.setdefault(stride, (rules.coordinates, limits))
    changes = {"stride": stride, "spatial_range": limits, "_caches": caches}
    return _sparse_result(module, input, features, coordinates, module.out_channels, rules, changes)


def _grid(values: KnownValues, coordinates: Tensor, limits: Any) -> list[int]:
    # Without a range: the extent of the points; if they are unknown, too, a size beyond any scene.
    if limits is not None:
        return [*map(int, limits[1:])]
    points = _known_points(values, coordinates)
    return [2**15] * 3 if points is None else [int(n) + 1 for n in points[:, 1:].amax(0)]


# Sparse matrices of torch-sparse


class _Matrix(NamedTuple):
    # Row and column of every stored value, if known.
    rows: Tensor | None
    columns: Tensor | None
    shape: tuple[int, int]
    n_values: int


def _matrix(values: KnownValues, rows: Tensor | None, ends: Tensor | None, columns: Tensor, shape: Any) -> _Matrix:
    known = None if rows is None else _known_points(values, rows)
    if known is None and ends is not None and (found := _known_points(values, ends)) is not None:
        known = torch.arange(len(found) - 1).repeat_interleave(found.diff())
    return _Matrix(known, _known_points(values, columns), (int(shape[0]), int(shape[1])), columns.shape[0])


def _stored(values: KnownValues, matrix: Any) -> _Matrix:
    held = vars(matrix.storage)  # its methods may run kernels
    return _matrix(values, held.get("_row"), held.get("_rowptr"), held["_col"], held["_sparse_sizes"])


def _value_of(matrix: Any) -> Tensor | None:
    return vars(matrix.storage).get("_value")


def _sparse_dense(dense: Tensor, rows: int, stored: Tensor | None, n_values: int, n_indices: int, reduce: str) -> Made:
    dense = dense.unsqueeze(-1) if dense.dim() == 1 else dense
    outputs = dense.new_empty((*dense.shape[:-2], rows, dense.shape[-1]), device="meta")
    reduction = {"add": "sum", "max": "amax", "min": "amin"}.get(reduce, reduce)
    width = dense.shape[-1] * math.prod(dense.shape[:-2])
    return Made(
        outputs,
        {
            **({} if stored is None else {"values": stored}),
            "dense": dense,
            "n_values": n_values,
            "n_indices": n_indices,
            "width": width,
            "reduction": None if reduction == "sum" else reduction,
        },
    )


class _Product(NamedTuple):
    # The product of two sparse matrices: row and column of its values, number of scalar products, and the assumption.
    places: Tensor
    n_products: int
    assumption: str


def _sparse_product(values: KnownValues, left: _Matrix, right: _Matrix) -> _Product:
    shape = left.shape[0], right.shape[1]
    if left.rows is None or left.columns is None or right.rows is None or right.columns is None:
        count = min(left.n_values * min(right.n_values, shape[1]), right.n_values * min(left.n_values, shape[0]))
        places = torch.empty(2, min(count, math.prod(shape)), dtype=torch.int64, device="meta")
        return _Product(places, count, PRODUCTS_ASSUMED.format(count))
    row_lengths = torch.bincount(right.rows, minlength=right.shape[0])
    counts = row_lengths[left.columns]
    n_products = int(counts.sum())
    if n_products > MOST_PRODUCTS:
        places = torch.empty(2, min(n_products, math.prod(shape)), dtype=torch.int64, device="meta")
        return _Product(places, n_products, PRODUCTS_ASSUMED.format(n_products))
    # A value of the left matrix in column k multiplies every value in row k of the right one.
    order = right.rows.argsort(stable=True)
    begins = (row_lengths.cumsum(0) - row_lengths)[left.columns] - (counts.cumsum(0) - counts)
    columns = right.columns[order][begins.repeat_interleave(counts) + torch.arange(n_products)]
    keys = (left.rows.repeat_interleave(counts) * shape[1] + columns).unique()
    found = torch.stack((keys // shape[1], keys % shape[1]))
    places = torch.empty_like(found, device="meta")
    values.give(places, found)
    return _Product(places, n_products, "")


MOST_PRODUCTS = 2**26
"""Maximum scalar products for which the rows and columns of a sparse product are computed: 0.5 GB of memory."""

PRODUCTS_ASSUMED = "a product of sparse matrices without known indices counts {} products, an upper bound"


def matmul(values: KnownValues, src: Any, other: Any, reduce: str = "sum") -> Made:
    """Return the product of a ``torch_sparse.SparseTensor`` and a dense or sparse matrix."""
    matrix, stored = _stored(values, src), _value_of(src)
    if isinstance(other, Tensor):
        n_indices = matrix.n_values + matrix.shape[0] + 1
        return _sparse_dense(other, matrix.shape[0], stored, matrix.n_values, n_indices, reduce)
    right, other_values = _stored(values, other), _value_of(other)
    made = _sparse_product(values, matrix, right)
    first = other_values if stored is None else stored
    found = None if first is None else first.new_empty(made.places.shape[1], device="meta")
    outputs, storage = copy.copy(src), copy.copy(src.storage)
    caches = dict.fromkeys(("_rowptr", "_rowcount", "_colptr", "_colcount", "_csr2csc", "_csc2csr"))
    row, column = made.places.unbind(0)
    shape = (matrix.shape[0], right.shape[1])
    vars(storage).update({**caches, "_row": row, "_col": column, "_value": found, "_sparse_sizes": shape})
    outputs.storage = storage
    factors = _facts_of(stored, other_values, made, 2 * (matrix.n_values + right.n_values))
    return Made(outputs, factors, made.assumption)


def _facts_of(left: Tensor | None, right: Tensor | None, made: _Product, n_indices: int) -> Mapping[str, Any]:
    operands = {name: x for name, x in (("values", left), ("dense", right)) if x is not None}
    return {**operands, "n_products": made.n_products, "n_indices": n_indices}


def spmm(values: KnownValues, index: Tensor, value: Tensor, m: int, n: int, matrix: Tensor) -> Made:
    """Return ``torch_sparse.spmm``, a sparse times a dense matrix."""
    return _sparse_dense(matrix, m, value, index.shape[1], index.numel(), "sum")


def spspmm(
    values: KnownValues,
    indexA: Tensor,  # noqa: N803
    valueA: Tensor,  # noqa: N803
    indexB: Tensor,  # noqa: N803
    valueB: Tensor,  # noqa: N803
    m: int,
    k: int,
    n: int,
    coalesced: bool = False,
) -> Made:
    """Return ``torch_sparse.spspmm``, the product of two sparse matrices, as indices and values."""
    left = _matrix(values, indexA[0], None, indexA[1], (m, k))
    right = _matrix(values, indexB[0], None, indexB[1], (k, n))
    made = _sparse_product(values, left, right)
    outputs = (made.places, valueA.new_empty(made.places.shape[1], device="meta"))
    return Made(outputs, _facts_of(valueA, valueB, made, indexA.numel() + indexB.numel()), made.assumption)
