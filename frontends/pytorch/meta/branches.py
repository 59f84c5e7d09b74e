"""Assumptions about tensors without values: the side of a branch, the outcome of a check, the result of an operator."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from math import prod
from textwrap import dedent
from tokenize import TokenError
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from costcore.errors import CostError
from costcore.trace.call import user_frames

from .values import Bounds, compressed_on_meta, coo_on_meta, ctc_results

CONDITION_IS_FALSE = (
    "data-dependent branch: condition assumed False, the more expensive side, because meta tensors hold no values"
)

OTHER_SIDE_FAILS = "data-dependent branch: condition assumed False, because the model fails if it is True"

LARGEST_FAILS = "a random number was assumed to be {:g}, because the model fails if it is {:g}"

NUMBERS_ARE_SMALL = "a random number was assumed to be {:g}, which makes the pass more expensive"

MAX_READS = 1000
"""The maximum reads of a condition in a run on the other side of a branch; more suggest an endless loop."""

MAX_ROUNDS = 64
"""The maximum reads of the condition of a ``while`` in such a run: data without values never change it."""

MANY_TIMES = 8
"""Inside a ``while``, a condition read this many times as often as in the previous run suggests an endless loop."""

_BETWEEN = ("torch._tensor", "torch.overrides", "torch.utils._device")
"""Modules of frames between the user's code and the operator."""

Branch: TypeAlias = "tuple[object, int, str | None]"
"""The code object that reads a condition, the offset in it, and the path of the module; None for every module."""


class EndlessLoopError(CostError):
    """A run whose loop does not end, because assumed data never change."""


class Branches:
    """The branches of one run.

    Args:
        sides: the condition assumed for a branch; True for all others.
        passing: the branches whose side is fixed, because the model fails on the other side.
        before: how often the previous run read the condition of each branch.

    Attributes:
        met: how often the condition of each branch, or a number, was read, in the order of the first reads.
        last: the branch that was read last.
    """

    def __init__(
        self,
        sides: Mapping[Branch, bool],
        passing: Collection[Branch] = (),
        before: Mapping[Branch, int] | None = None,
    ) -> None:
        self.sides = sides
        self.before = before or {}
        self.passing = passing
        self.met: Counter[Branch] = Counter()
        self.last: Branch | None = None

    def decide(self, path: str) -> tuple[bool, str]:
        """Return the value of the condition that is read now, and the assumption behind it.

        Args:
            path: the path of the module that runs.

        Raises:
            EndlessLoopError: if a condition is read too often in a run on another side.
        """
        side = self._side(path)
        if side:
            return side, CONDITION_IS_TRUE
        return side, OTHER_SIDE_FAILS if self.last in self.passing else CONDITION_IS_FALSE

    def decide_number(self, path: str, bounds: Bounds) -> tuple[float, str]:
        """Return the random number that is read now, on which a branch may depend, and the assumption behind it.

        Args:
            path: the path of the module that runs.
            bounds: the smallest and the largest number that it may be.

        Raises:
            EndlessLoopError: if a number is read too often in a run on another side.
        """
        smallest, largest = bounds
        if self._side(path):
            return largest, NUMBERS_ARE_ONE if f"{largest:g}" == "1" else NUMBERS_ARE_LARGE.format(largest)
        if self.last in self.passing:
            return smallest, LARGEST_FAILS.format(smallest, largest)
        return smallest, NUMBERS_ARE_SMALL.format(smallest)

    def _side(self, path: str) -> bool:
        found = _reader()
        code, position = (None, 0) if found is None else (found[0].f_code, found[0].f_lasti)
        branch: Branch = (code, position, path)
        self.met[branch] += 1
        self.last = branch
        n_reads = self.met[branch]
        if self.sides and n_reads % MAX_ROUNDS == 1 and n_reads > 1 and self._is_endless(branch, found):
            raise EndlessLoopError(f"module {path!r}: a loop does not end on the other side of a branch")
        return self.sides.get(branch, self.sides.get((code, position, None), True))

    def _is_endless(self, branch: Branch, found: tuple[FrameType, int] | None) -> bool:
        n_reads, n_before = self.met[branch], self.before.get(branch, 0)
        if n_reads > MAX_READS or (found is not None and _is_condition_of_while(*found)):
            return True
        # The ``while`` may be in a calling function: a solver rejects every step.
        return 0 < MANY_TIMES * n_before < n_reads and any(_is_in_while(*each) for each in user_frames())


# Checks: conditions that only guard an error or a warning, ``if (x < 0).any(): raise``
#
# A run that completes has passed its checks, so a condition without data gets the value that does not raise. A warning
# costs nothing on either side.


CHECK_PASSES = "a check of values without data was assumed to pass"

_WARNINGS = re.compile(
    r"print|warnings\.warn|(self\.)?_?(log|logger|logging)\.(warn|warning|warning_once|info|debug|error)", re.IGNORECASE
)

_TEXT = frozenset(("getattr", "len", "str", "repr", "type"))
"""Functions that may build the text of a warning."""

_OF_WARNINGS = (
    *(ast.If, ast.Expr, ast.Assign, ast.AugAssign, ast.Pass, ast.Call, ast.keyword, ast.Name, ast.Attribute),
    *(ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.Add, ast.Compare, ast.cmpop, ast.BoolOp),
    *(ast.boolop, ast.expr_context),
)
"""The syntax of a branch that builds a text and writes it; none of it runs an operator."""


def passing_value() -> tuple[bool, str] | None:
    """Return the value of a condition on which a check passes, and the assumption behind it (``""`` for a warning).

    The condition is being read from a tensor, in the running line of the user's code. The result is None if this line
    is not a check: an ``assert``, or an ``if`` with a branch that raises or only warns.
    """
    found = _reader()
    return None if found is None else _passing_value(found[0].f_code, found[1])


def _reader() -> tuple[FrameType, int] | None:
    # The frame of the user's code that reads a condition, and its line.
    return next((each for each in user_frames() if each[0].f_globals.get("__name__") not in _BETWEEN), None)


def is_inside_while() -> bool:
    """Return whether the running line of the user's code, which reads a value, is inside a ``while`` loop."""
    found = _reader()
    return found is not None and _is_in_while(*found)


def _is_in_while(frame: FrameType, line: int) -> bool:
    tree, line = _source(frame.f_code, line)
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.While))
    return any(node.lineno <= line <= (node.end_lineno or 0) for node in loops)


def _is_condition_of_while(frame: FrameType, line: int) -> bool:
    tree, line = _source(frame.f_code, line)
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.While))
    return any(node.test.lineno <= line <= (node.test.end_lineno or 0) for node in loops)


def _source(code: CodeType, line: int) -> tuple[ast.AST, int]:
    # The syntax tree of a function, and the line in it. The tree is empty if there is no source.
    try:
        lines, first = inspect.getsourcelines(code)
        return ast.parse(dedent("".join(lines))), line - max(first, 1) + 1
    except (OSError, SyntaxError, TokenError):  # typed at a prompt, inside an expression, or changed since
        return ast.Module([], []), line


@lru_cache(maxsize=1024)
def _passing_value(code: CodeType, line: int) -> tuple[bool, str] | None:
    tree, line = _source(code, line)
    for node in ast.walk(tree):
        assumption = CHECK_PASSES
        if isinstance(node, ast.Assert):
            value = True
        elif isinstance(node, ast.If) and not node.orelse and _only_warns(node, tree):
            value, assumption = False, ""
        elif isinstance(node, ast.If) and _fails(node.body[-1]):
            value = False
        elif isinstance(node, ast.If) and node.orelse and _fails(node.orelse[-1]):
            value = True
        else:
            continue
        if node.test.lineno <= line <= (node.test.end_lineno or 0):
            found = _value_of_operands(node.test, value)
            return None if found is None else (found, assumption)
    return None


def _fails(statement: ast.stmt) -> bool:
    # ``raise``, ``assert False`` or ``torch._assert(False, "…")``, which TorchScript needs in their place
    test: ast.expr | None = None
    if isinstance(statement, ast.Assert):
        test = statement.test
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        test = statement.value.args[0] if ast.unparse(statement.value.func).endswith(("_assert", "_check")) else None
    return isinstance(statement, ast.Raise) or (isinstance(test, ast.Constant) and test.value is False)


def _only_warns(branch: ast.If, function: ast.AST) -> bool:
    """Return whether a branch only builds a text and writes it, and assigns no variable that other code reads."""
    body = {node for statement in branch.body for node in ast.walk(statement)}
    called = [ast.unparse(node.func) for node in body if isinstance(node, ast.Call)]
    stored = [node for node in body if isinstance(getattr(node, "ctx", None), ast.Store)]
    if not all(isinstance(node, _OF_WARNINGS) for node in body) or not all(isinstance(x, ast.Name) for x in stored):
        return False
    names = {node.id for node in stored if isinstance(node, ast.Name)}
    others = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and node not in body}
    return (
        names.isdisjoint(others)
        and any(map(_WARNINGS.fullmatch, called))
        and all(_WARNINGS.fullmatch(name) or name in _TEXT for name in called)
        and all(_is_text(node) for node in body if isinstance(node, ast.BinOp))
    )


def _is_text(joined: ast.BinOp) -> bool:
    texts = (ast.JoinedStr, ast.Constant)
    return isinstance(joined.op, ast.Add) and isinstance(joined.left, texts) and isinstance(joined.right, texts)


def _value_of_operands(test: ast.expr, value: bool) -> bool | None:
    # Operands of ``and`` and ``or`` are read one by one: all get the value of the condition, unless there is a ``not``.
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, value = test.operand, not value
    has_opposite = any(isinstance(node, ast.Not) for node in ast.walk(test))
    return None if has_opposite else value


# Assumed results of operators that PyTorch cannot run on the meta device
#
# If a result depends on data, the largest size, True or 1 is assumed, and the assumption is reported. Other results
# follow from shapes alone: PyTorch just has no meta kernel.


AssumedResult: TypeAlias = "Callable[..., tuple[Any, str] | None]"
"""Returns the result of a call and what it assumes (``""``: nothing); None if PyTorch can run the call."""

CONDITION_IS_TRUE = "data-dependent branch: condition assumed True, because meta tensors hold no values"

NUMBERS_ARE_ONE = "a number read from a tensor without data was assumed to be 1"

NUMBERS_ARE_LARGE = "a random number was assumed to be {:g}, the end of its range"

NUMBERS_HAVE_BINS = "all numbers without data were assumed to be smaller than the minlength of bincount"

MASK_SELECTS_ALL = "a mask without data was assumed to select every element"

ALL_NONZERO = "all elements of a tensor without data were assumed to be nonzero"

PADDING_IS_COUNTED = (
    "padded positions are counted: without gradients, nn.TransformerEncoder skips them if enable_nested_tensor is True"
)

ALL_BOXES = "non-maximum suppression without data was assumed to keep every box"

LONGEST_SEQUENCES = "every sequence of unknown length was taken at its full length"


def _scalar(x: Tensor, **_: Any) -> tuple[Any, str]:
    if x.dtype is torch.bool:
        return _condition()
    number = 1.0 if x.is_floating_point() else complex(1) if x.is_complex() else 1
    return number, NUMBERS_ARE_ONE


def _condition(*_: Any, **__: Any) -> tuple[Any, str]:
    return passing_value() or (True, CONDITION_IS_TRUE)


def _nonzero(x: Tensor, **_: Any) -> tuple[Any, str]:
    return x.new_empty((x.numel(), x.dim()), dtype=torch.int64), ALL_NONZERO


def _index(x: Tensor, indices: Any, *_: Any, **__: Any) -> tuple[Any, str] | None:
    if not any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return None
    all_elements: list[Tensor | None] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
            all_elements += [index.new_empty((index.numel(),), dtype=torch.int64)] * index.dim()
        else:
            all_elements.append(index)
    return torch.ops.aten.index(x, all_elements), MASK_SELECTS_ALL


def _masked_select(x: Tensor, mask: Tensor, **_: Any) -> tuple[Any, str]:
    size = prod(torch.broadcast_shapes(x.shape, mask.shape))
    return x.new_empty((size,)), MASK_SELECTS_ALL


ALL_DIFFERENT = "all elements of a tensor without data were assumed to be different"


def _unique(
    x: Tensor, is_sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Any, str]:
    indices = x.new_empty(x.shape if return_inverse else (0,), dtype=torch.int64)
    counts = x.new_empty((x.numel() if return_counts else 0,), dtype=torch.int64)
    return (x.new_empty((x.numel(),)), indices, counts), ALL_DIFFERENT


def _unique_with_inverse(x: Tensor, is_sorted: bool = True, return_inverse: bool = False) -> tuple[Any, str]:
    (elements, inverse, _), assumed = _unique(x, is_sorted, return_inverse)
    return (elements, inverse), assumed


def _unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Any, str]:
    return _unique(x, True, return_inverse, return_counts) if dim is None else _unique_dim(x, dim)


def _unique_dim(x: Tensor, dim: int, *_: Any, **__: Any) -> tuple[Any, str]:
    count = x.new_empty((x.shape[dim],), dtype=torch.int64)
    return (torch.empty_like(x), count, torch.empty_like(count)), ALL_DIFFERENT


def _to_sparse(
    x: Tensor, sparse_dim: int | None = None, *, layout: torch.layout | None = None, **_: Any
) -> tuple[Any, str] | None:
    if layout in (torch.sparse_csr, torch.sparse_csc):
        return _to_compressed(layout, x)
    if x.layout is not torch.strided or layout not in (None, torch.sparse_coo):
        return None
    n_axes = x.dim() if sparse_dim is None else sparse_dim
    count = prod(x.shape[:n_axes])
    indices = x.new_empty((n_axes, count), dtype=torch.int64)
    return coo_on_meta(x, tuple(x.shape), indices, x.new_empty((count, *x.shape[n_axes:])), True), ALL_NONZERO


def _to_compressed(layout: torch.layout, x: Tensor, *_: Any) -> tuple[Any, str] | None:
    if x.layout is not torch.strided or x.dim() != 2:
        return None
    return compressed_on_meta(x, x.new_empty(x.numel()), layout), ALL_NONZERO


def _pack_padded_sequence(x: Tensor, lengths: Tensor, batch_first: bool = False) -> tuple[Any, str]:
    batch, steps = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    counts = torch.full((batch,), steps) if lengths.is_meta else lengths
    running = counts > torch.arange(int(counts.max()))[:, None]
    packed = x.new_empty((int(counts.sum()), *x.shape[2:]))
    return (packed, running.sum(1)), LONGEST_SEQUENCES if lengths.is_meta else ""


def _bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0, **_: Any) -> tuple[Any, str]:
    dtype = torch.int64 if weights is None else weights.dtype if weights.is_floating_point() else torch.float64
    assumption = NUMBERS_HAVE_BINS if minlength > 1 else NUMBERS_ARE_ONE
    return x.new_empty((max(minlength, 2),), dtype=dtype), assumption


def _repeat_interleave(
    repeats: Tensor, *rest: Any, output_size: int | None = None, **__: Any
) -> tuple[Any, str] | None:
    if rest or output_size is not None:
        return None
    return repeats.new_empty(repeats.shape, dtype=torch.int64), "every repeat count without data was assumed to be 1"


def _to_copy(x: Tensor, *, device: Any = None, **kwargs: Any) -> tuple[Any, str] | None:
    if device is None or torch.device(device).type == "meta":
        return None
    kwargs["non_blocking"] = False
    # Not an assumption: the copy decides nothing by itself.
    return torch.ops.aten._to_copy(x, device=x.device, **kwargs), ""


def _clone(x: Tensor, *, memory_format: Any = None) -> tuple[Any, str] | None:
    # PyTorch's meta kernel loses the elements of sparse tensors.
    if x.layout is not torch.sparse_coo:
        return None
    return torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
        *(x.sparse_dim(), x.dense_dim(), x.shape, x._indices().clone(), x._values().clone()),
        dtype=x.dtype,
        layout=x.layout,
        device=x.device,
        is_coalesced=x.is_coalesced(),
    ), ""


def _left_aligned(x: Tensor, mask: Tensor, **_: Any) -> tuple[Any, str]:
    # PyTorch has no nested tensors on the meta device: the encoder keeps its dense path.
    return False, PADDING_IS_COUNTED


def _nms(boxes: Tensor, *_: Any, **__: Any) -> tuple[Any, str]:
    return boxes.new_empty((boxes.shape[0],), dtype=torch.int64), ALL_BOXES


def _grouped_mm(
    x: Tensor, w: Tensor, offs: Tensor | None = None, bias: Any = None, out_dtype: torch.dtype | None = None
) -> tuple[Any, str]:
    # The ranks decide which operand is split into groups; its axis then contains all groups.
    groups = () if offs is None else tuple(offs.shape)
    if x.dim() == w.dim() == 3:
        shape: tuple[int, ...] = (*x.shape[:2], w.shape[2])
    elif x.dim() == w.dim() == 2:
        shape = (*groups, x.shape[0], w.shape[1])
    else:
        shape = (x.shape[-2], w.shape[-1])
    return x.new_empty(shape, dtype=out_dtype or x.dtype), ""


def _weight_norm_gradients(dy: Tensor, v: Tensor, g: Tensor, *_: Any) -> tuple[Any, str]:
    return (torch.empty_like(v), torch.empty_like(g)), ""


def _kth_value(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, str] | None:
    if x.dim() and not 1 <= k <= x.shape[dim]:
        return None
    values = x.amax(dim, keepdim)
    return (values, torch.empty_like(values, dtype=torch.int64)), ""


def _histogram(x: Tensor, bins: Any, *_: Any, **__: Any) -> tuple[Any, str] | None:
    edges = x.new_empty((bins + 1,)) if isinstance(bins, int) else bins
    return (x.new_empty((edges.shape[0] - 1,)), torch.empty_like(edges)), ""


def _geqrf(x: Tensor, **_: Any) -> tuple[Any, str]:
    return (torch.empty_like(x), x.new_empty((*x.shape[:-2], min(x.shape[-2:])))), ""


def _lstsq(x: Tensor, b: Tensor, rcond: Any = None, *, driver: str | None = None, **_: Any) -> tuple[Any, str]:
    *batch, rows, columns = x.shape
    many = b if b.dim() == x.dim() else b.unsqueeze(-1)
    solution = x.new_empty((*batch, columns, *((many.shape[-1],) if many is b else ())))
    residuals = x.new_empty((*batch, many.shape[-1]) if rows > columns and driver != "gelsy" else (0,))
    rank = x.new_empty(batch if driver != "gels" else (0,), dtype=torch.int64)
    values = x.new_empty((*batch, min(rows, columns)) if driver in ("gelsd", "gelss") else (0,))
    return (solution, residuals, rank, values), ""


def _ctc_loss(x: Tensor, targets: Tensor, *_: Any, **__: Any) -> tuple[Any, str] | None:
    if not targets.dim() or x.dim() != 3:
        return None
    return ctc_results(x, targets.shape[-1]), "every target sequence without data was taken at its full length"


def _like_second(gradient: Tensor, x: Tensor, *_: Any, **__: Any) -> tuple[Tensor, str]:
    return torch.empty_like(x), ""


_WITHOUT_GRADIENT = ("_ctc_loss", "multi_margin_loss", "multilabel_margin_loss", "fractional_max_pool3d")
"""Operators whose backward kernels PyTorch lacks on the meta device; a gradient is like its input."""

ASSUMED_RESULTS: Mapping[str, AssumedResult] = {
    "aten::item": _scalar,
    "aten::_local_scalar_dense": _scalar,
    "aten::is_nonzero": _condition,
    "aten::equal": _condition,
    "aten::allclose": _condition,
    "aten::index": _index,
    "aten::nonzero": _nonzero,
    "aten::masked_select": _masked_select,
    "aten::_to_sparse": _to_sparse,
    "aten::_to_sparse_csr": partial(_to_compressed, torch.sparse_csr),
    "aten::_to_sparse_csc": partial(_to_compressed, torch.sparse_csc),
    "aten::_unique": _unique_with_inverse,
    "aten::_unique2": _unique,
    "aten::unique_consecutive": _unique_consecutive,
    "aten::unique_dim": _unique_dim,
    "aten::unique_dim_consecutive": _unique_dim,
    "aten::bincount": _bincount,
    "aten::clone": _clone,
    "aten::_nested_tensor_from_mask_left_aligned": _left_aligned,
    "aten::repeat_interleave": _repeat_interleave,
    "aten::_pack_padded_sequence": _pack_padded_sequence,
    "aten::_to_copy": _to_copy,
    "aten::_ctc_loss": _ctc_loss,
    **dict.fromkeys((f"aten::{name}_backward" for name in _WITHOUT_GRADIENT), _like_second),
    "aten::_grouped_mm": _grouped_mm,
    "aten::_weight_norm_interface_backward": _weight_norm_gradients,  # no kernel until PyTorch 2.9
    "aten::kthvalue": _kth_value,  # no kernel until PyTorch 2.6
    "aten::histogram": _histogram,
    "aten::geqrf": _geqrf,
    "aten::linalg_lstsq": _lstsq,
    "torchvision::nms": _nms,
}
"""The functions, by operator."""
