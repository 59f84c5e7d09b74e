"""Match the calls of two reports, compare the calls of a pair, and name rewrites of a graph by a tool.

Calls of two versions of a model are matched by module; calls of a model and its conversion by order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeAlias, cast

from costcore.ir import BITS, prod
from costcore.numbers import Dim, is_symbolic, share
from costcore.reports.data import ReportData
from costcore.tables.quantity import AMOUNTS
from costcore.text.amounts import readable
from costcore.trace.call import Call

Entry: TypeAlias = "Mapping[str, Any]"

Calls: TypeAlias = "tuple[Entry | None, Entry | None]"
"""Matching calls; None stands for a missing counterpart."""

Pair: TypeAlias = "tuple[int | None, int | None]"
"""Indices in the old and in the new report; None stands for a missing counterpart."""


def is_free(entry: Entry) -> bool:
    """Return whether a call costs nothing: neither FLOPs nor memory traffic."""
    return bool(entry["flops"] == 0 and entry["mrw"] == 0)


def only_moves(entry: Entry) -> bool:
    """Return whether a call computes nothing: it copies, transposes, casts or looks up."""
    return bool(entry["flops"] == 0)


def are_related(old: Entry, new: Entry) -> bool:
    """Return whether one call may replace the other: equal output sizes, and both compute or both only move data."""
    return only_moves(old) == only_moves(new) and output_size(old) == output_size(new)


def by_module(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    """Return the matching calls of two versions of a model, in order of the model.

    Calls are matched in three steps. Each step considers the calls that are still without a counterpart:

    1. The same operator, quantized or not, in the same module and phase. If one report has more such
       calls than the other, calls with equal costs and shapes are matched first.
    2. The same operator with equal costs and shapes in another module, because modules can be renamed or moved.
    3. Different operators in the same phase and module (not the root), by position, if both reports have equally many
       unmatched calls there and the two calls are related, see :func:`are_related`.
    """
    pairs: list[tuple[int, int]] = []

    def match(key: Callable[[Entry], Hashable], match_group: Callable[[list[int], list[int]], Iterator[Pair]]) -> None:
        used_old, used_new = {i for i, _ in pairs}, {j for _, j in pairs}
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for side, entries, used in ((0, old, used_old), (1, new, used_new)):
            for index, entry in enumerate(entries):
                if index not in used:
                    groups.setdefault(key(entry), ([], []))[side].append(index)
        for olds, news in groups.values():
            pairs.extend((i, j) for i, j in match_group(olds, news) if i is not None and j is not None)

    def in_order(olds: list[int], news: list[int]) -> Iterator[Pair]:
        if len(olds) == len(news):
            return zip(olds, news, strict=True)
        return aligned(old, new, olds, news, _costs_and_shapes, pair_replaced=True)

    def in_another_module(olds: list[int], news: list[int]) -> Iterator[Pair]:
        return aligned(old, new, olds, news, lambda entry: (entry["op"], *_costs_and_shapes(entry)))

    def replaced_in_place(olds: list[int], news: list[int]) -> Iterator[Pair]:
        is_in_module = olds and old[olds[0]]["module"]
        pairs = zip(olds, news, strict=True) if is_in_module and len(olds) == len(news) else ()
        return ((i, j) for i, j in pairs if are_related(old[i], new[j]))

    match(lambda entry: (entry["module"], unquantized(entry["op"]), entry["phase"]), in_order)
    match(lambda entry: entry["phase"], in_another_module)
    match(lambda entry: (entry["module"], entry["phase"]), replaced_in_place)
    return _in_model_order(pairs, len(old), len(new))


CLASSES: Mapping[str, str] = {
    **dict.fromkeys(("relu6", "hardtanh", "clamp"), "clip"),
    **dict.fromkeys(("avg_pool", "adaptive_avg_pool"), "reduce_mean"),
    **dict.fromkeys(("gather", "gather_elements"), "embedding"),
    "mean_variance_norm": "layer_norm",
    "matmul": "linear",
}
"""The canonical name of operators that have several names or variants."""


def class_of(op: str) -> str:
    """Return the canonical name of an operator, whether quantized or fused."""
    op = unquantized(op).removeprefix("fused_")
    return CLASSES.get(op, op)


def unquantized(op: str) -> str:
    """Return the floating-point operator of a quantized one."""
    return op.removeprefix("dynamic_").removeprefix("quantized_")


def by_order(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    """Return the matching calls of a model and its conversion, in order of execution, regardless of module paths.

    Matrix products with equal MACs are matched first, then the calls between two consecutive matches; these may
    include the operators into which a conversion decomposed a product. Zero-cost calls are not matched, because
    frameworks represent them differently: as views, reshapes, constants or shape operators.
    """
    kept_old = [i for i, entry in enumerate(old) if not is_free(entry)]
    kept_new = [j for j, entry in enumerate(new) if not is_free(entry)]
    pairs = _matched_by_order([old[i] for i in kept_old], [new[j] for j in kept_new])
    return [(None if i is None else kept_old[i], None if j is None else kept_new[j]) for i, j in pairs]


def _matched_by_order(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    olds, news = ([i for i, entry in enumerate(entries) if entry["macs"] != 0] for entries in (old, new))
    products: list[tuple[int, int]] = [
        (i, j)
        for i, j in aligned(old, new, olds, news, lambda entry: (entry["macs"], entry["phase"], _is_recurrent(entry)))
        if i is not None and j is not None
    ]
    products += _padded_products(old, new, olds, news, products)
    products.sort()
    pairs: list[Pair] = []
    last_old, last_new = -1, -1
    for i, j in [*products, (len(old), len(new))]:
        pairs += _matched_between(old, new, list(range(last_old + 1, i)), list(range(last_new + 1, j)))
        pairs.append((i, j))
        last_old, last_new = i, j
    return pairs[:-1]


def _is_recurrent(entry: Entry) -> bool:
    return class_of(entry["op"]).partition("_")[0] in ("gru", "lstm", "rnn")


def _padded_products(
    old: Sequence[Entry], new: Sequence[Entry], olds: Sequence[int], news: Sequence[int], pairs: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    # A converter may pad sizes: equally many products of the same classes between two matches are taken as matching.
    last_old, last_new = -1, -1
    for i, j in [*pairs, (len(old), len(new))]:
        left, right = [k for k in olds if last_old < k < i], [k for k in news if last_new < k < j]
        if len(left) == len(right) and all(_is_padded(old[m], new[n]) for m, n in zip(left, right, strict=True)):
            yield from zip(left, right, strict=True)
        last_old, last_new = i, j


def _is_padded(old: Entry, new: Entry) -> bool:
    ratio = share(new["macs"], old["macs"])
    is_near = ratio is not None and 0.5 <= ratio <= 2
    return is_near and class_of(old["op"]) == class_of(new["op"]) and bool(old["n_params"]) == bool(new["n_params"])


def aligned(
    old: Sequence[Entry],
    new: Sequence[Entry],
    olds: Sequence[int],
    news: Sequence[int],
    key: Callable[[Entry], Hashable],
    pair_replaced: bool = False,
) -> Iterator[Pair]:
    """Yield pairs of calls with equal keys, without changing the order on either side.

    Every call is yielded once, with None if it has no counterpart.

    Args:
        old: entries of the old report.
        new: entries of the new report.
        olds: indices of the calls in the old report to match.
        news: indices of the calls in the new report to match.
        key: returns the value to match by.
        pair_replaced: also pair, by position, calls with different keys between two consecutive matches.
    """
    left, right = [key(old[i]) for i in olds], [key(new[j]) for j in news]
    # SequenceMatcher is quadratic, so the common prefix and suffix, usually most of the calls, are matched first. With
    # few calls only the prefix is: a suffix can cut a longer run of equal calls in two.
    start = _common_prefix(left, right)
    end = _common_prefix(left[start:][::-1], right[start:][::-1]) if len(left) + len(right) > FEW else 0
    yield from zip(olds[:start], news[:start], strict=True)
    inner_olds, inner_news = olds[start : len(olds) - end], news[start : len(news) - end]
    yield from _aligned_between(left[start:], right[start:], inner_olds, inner_news, pair_replaced)
    yield from zip(olds[len(olds) - end :], news[len(news) - end :], strict=True)


FEW = 100
"""The maximum number of calls whose common suffix is left to SequenceMatcher."""


def _common_prefix(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def _aligned_between(
    left: Sequence[Hashable], right: Sequence[Hashable], olds: Sequence[int], news: Sequence[int], pair_replaced: bool
) -> Iterator[Pair]:
    matcher = SequenceMatcher(None, left[: len(olds)], right[: len(news)], autojunk=False)
    for tag, i0, i1, j0, j1 in matcher.get_opcodes():
        n_pairs = min(i1 - i0, j1 - j0) if tag == "equal" or pair_replaced else 0
        yield from zip(olds[i0 : i0 + n_pairs], news[j0 : j0 + n_pairs], strict=True)
        yield from ((i, None) for i in olds[i0 + n_pairs : i1])
        yield from ((None, j) for j in news[j0 + n_pairs : j1])


def _matched_between(old: Sequence[Entry], new: Sequence[Entry], olds: list[int], news: list[int]) -> Iterator[Pair]:
    def work(entry: Entry) -> Hashable:
        return class_of(entry["op"]), entry["phase"], entry["flops"], in_any_layout(entry["output_shapes"])

    def operator(entry: Entry) -> Hashable:
        return class_of(entry["op"]), entry["phase"], output_size(entry), entry["macs"]

    # Among equal calls the last ones match, because the first ones can be parts of a decomposed product, e.g. its bias.
    last_first = [*aligned(old, new, olds[::-1], news[::-1], work)]
    for some_olds, some_news in _split_at_pairs(reversed(last_first)):
        if len(some_olds) == len(some_news) == 1:
            before, after = old[some_olds[0]], new[some_news[0]]
            are_equal = in_any_layout(before["output_shapes"]) == in_any_layout(after["output_shapes"])
            if are_equal and are_related(before, after):
                yield some_olds[0], some_news[0]
                continue
        yield from aligned(old, new, some_olds, some_news, operator)


def _split_at_pairs(pairs: Iterator[Pair]) -> Iterator[tuple[list[int], list[int]]]:
    olds: list[int] = []
    news: list[int] = []
    for i, j in pairs:
        if i is not None and j is not None:
            yield olds, news
            yield [i], [j]
            olds, news = [], []
        elif i is not None:
            olds.append(i)
        elif j is not None:
            news.append(j)
    yield olds, news


def _in_model_order(pairs: list[tuple[int, int]], n_old: int, n_new: int) -> list[Pair]:
    old_of = {j: i for i, j in pairs}
    placed: list[tuple[tuple[int, int, int], Pair]] = []
    paired = dict(pairs)
    placed += [((i, 0, 0), (i, paired.get(i))) for i in range(n_old)]
    last = -1
    for j in range(n_new):
        last = old_of.get(j, last)
        if j not in old_of:
            placed.append(((last, 1, j), (None, j)))
    return [pair for _, pair in sorted(placed)]


def _costs_and_shapes(entry: Entry) -> tuple[Hashable, ...]:
    return entry["macs"], entry["flops"], _shapes(entry["input_shapes"]), _shapes(entry["output_shapes"])


def _shapes(shapes: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(shape) for shape in shapes)


def in_any_layout(shapes: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    """Return shapes regardless of layout: NCHW and NHWC are equal, and a matrix is an image of one pixel."""
    return tuple(tuple(sorted((size for size in shape if size != 1), key=str)) for shape in shapes)


def output_size(entry: Entry) -> Dim:
    """Return the elements of the first output."""
    shapes = entry["output_shapes"]
    return prod(shapes[0]) if shapes else 0


# Changes of costs, calls and memory blocks.


COMPARED = tuple(name for name in AMOUNTS if name != "mrw")
"""The costs that are always compared; ``mcomm`` only if a run communicates."""


class Delta(NamedTuple):
    """A cost before and after."""

    old: Dim
    new: Dim

    @property
    def difference(self) -> Dim:
        """New minus old, exact."""
        return self.new - self.old

    @property
    def ratio(self) -> float | None:
        """New divided by old; None if old is 0, or if the ratio depends on the values of symbolic dimensions."""
        return None if self.old == 0 else share(self.new, self.old)

    @property
    def factor(self) -> str:
        """The ratio as text, ``×0.9967``; empty without one."""
        return "" if self.ratio is None else f"×{self.ratio:.4f}" if self.ratio else "×0"

    @property
    def equal(self) -> bool:
        """Whether nothing changed."""
        difference = self.difference
        return bool((cast(Any, difference).expand() if is_symbolic(difference) else difference) == 0)


class Difference(NamedTuple):
    """A call that was added, removed or changed.

    Attributes:
        change: ``added``, ``removed`` or ``changed``.
        old: its entry in the old ``layer_report``; None if it was added.
        new: its entry in the new ``layer_report``; None if it was removed.
        compared: the names of the costs that are compared.
    """

    change: str
    old: Entry | None
    new: Entry | None
    compared: tuple[str, ...] = COMPARED

    @property
    def entry(self) -> Entry:
        """The new entry, or the old one if the call was removed."""
        entry = self.new if self.new is not None else self.old
        return entry if entry is not None else {}

    @property
    def costs(self) -> dict[str, Delta]:
        """The costs that differ, by name."""
        deltas = {key: Delta(_cost(self.old, key), _cost(self.new, key)) for key in self.compared}
        return {key: delta for key, delta in deltas.items() if not delta.equal}

    @property
    def settings(self) -> dict[str, tuple[Any, Any]]:
        """Operator, dtype, shapes and attributes that differ in a changed call: old and new value by name."""
        if self.old is None or self.new is None:
            return {}
        changed = {}
        for key in ("op", "dtype", "input_shapes", "output_shapes"):
            if self.old[key] != self.new[key]:
                changed[key] = (self.old[key], self.new[key])
        old, new = self.old["params"], self.new["params"]
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                changed[key] = (old.get(key), new.get(key))
        return changed


def _cost(entry: Entry | None, key: str) -> Dim:
    return 0 if entry is None else entry.get(key) or 0


# Summarize graph rewrites: operators that a tool quantized, fused, folded, pruned or replaced.
#
# :func:`kinds_of_change` compares the numbers of operators in two graphs, and :func:`in_words` puts them into a
# sentence. For reports of two frameworks, see the conversions of :mod:`costcore.studies.comparisons.data`.


FORMS: Mapping[str, str] = {
    "quantized_": "became {dtype}",
    "dynamic_quantized_": "became {dtype}, dynamically quantized",
    "packed_": "with {dtype} weights ({type}), dequantized on use",
}
"""Operator prefix to description of the new form."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "linear": ("linear", "matmul"),
    "matmul": ("matmul", "linear"),
    "embedding": ("embedding", "gather"),
}
"""Floating-point operators that a form can come from, likeliest first: tools turn linear into matmul, and back."""

SCALING = ("quantize", "dequantize", "dynamic_quantize")
"""Operators that convert to integers and back."""

REAL = ("float16", "bfloat16", "float32", "float64")
"""Dtypes of products that are not quantized."""


class Kind(NamedTuple):
    """One kind of change.

    Attributes:
        text: the change, as a part of a sentence; empty if the text of another kind includes it.
        what: the operators before and after, for a table.
        calls: the number of calls.
        macs, mrw: MACs and bytes of these calls.
    """

    text: str
    what: str
    calls: Delta
    macs: Delta
    mrw: Delta


def kinds_of_change(old: ReportData, new: ReportData) -> list[Kind]:
    """Return the kinds of change between two graphs; none if both have the same operators in the same precision.

    Graphs come from files; for programs that ran, the list is empty.
    """
    if old.trace.run.dataflow is None or new.trace.run.dataflow is None:
        return []
    sides = _Side(old), _Side(new)
    return [*_other_forms(sides), *_scaling(sides), *_precision(sides), *_replaced(sides)]


def in_words(old: ReportData, new: ReportData, kinds: Iterable[Kind]) -> str:
    """Return one sentence on the kinds of change, and on MACs and weights."""
    parts = list(dict.fromkeys(kind.text for kind in kinds if kind.text))
    if not parts:
        return "; ".join(filter(None, (_opset(old, new), _change_of_free_calls(old, new) or _no_change(old, new))))
    parts += filter(None, [_opset(old, new)])
    macs = Delta(old.total_report["macs"], new.total_report["macs"])
    blocks = "convolutions run in blocks of channels" if _in_blocks(new) and not _in_blocks(old) else ""
    if macs.equal:
        parts += filter(None, (blocks, "MACs unchanged"))
    elif macs.ratio is not None and not is_symbolic(macs.new) and not is_symbolic(macs.old):
        parts.append(f"{100 * (macs.ratio - 1):+.1f} % MACs" + (f" ({blocks}, which are padded)" if blocks else ""))
    weights = Delta(*(_weight_bytes(report) for report in (old, new)))
    if not weights.equal and not any(map(is_symbolic, weights)):
        parts.append(f"weights {readable(weights.new, 'bytes')} instead of {readable(weights.old, 'bytes')}")
    return "; ".join(parts)


def _change_of_free_calls(old: ReportData, new: ReportData) -> str:
    counts = Delta(*(sum(map(is_free, report.ledger.entries.values())) for report in (old, new)))
    graphs = old.trace.run.dataflow is not None and new.trace.run.dataflow is not None
    if counts.equal or not graphs or old.total_report["mrw"] != new.total_report["mrw"]:
        return ""
    return f"no operator that costs anything changed; calls that cost nothing: {_more(counts)}"


def _opset(old: ReportData, new: ReportData) -> str:
    versions = [report.trace.run.opsets.get("ai.onnx") for report in (old, new)]
    return f"opset {versions[1]} in place of {versions[0]}" if None not in versions and len({*versions}) > 1 else ""


def _no_change(old: ReportData, new: ReportData) -> str:
    types = [Counter(call.type for call in report.trace.calls) for report in (old, new)]
    graphs = old.trace.run.dataflow is not None and new.trace.run.dataflow is not None
    same = all(old.total_report[key] == new.total_report[key] for key in ("macs", "flops", "mrw", "n_params"))
    return "no operator changed" if graphs and same and types[0] == types[1] else ""


class _Side:
    def __init__(self, report: ReportData) -> None:
        self.sums: dict[str, dict[str, Dim]] = {}
        self.calls: dict[str, list[Call]] = {}
        self.every = report.trace.calls
        self.macs = {call.name: report.ledger.entries.get(call.name, {}).get("macs", 0) for call in self.every}
        self.biased = sum("b" in call.layer.inputs for call in self.every if _name(call).endswith(("linear", "matmul")))
        """The number of products with a bias."""
        self.constant: Counter[str] = Counter()
        """The number of calls with constant operands only, by operator."""
        self.constant_macs: dict[str, Dim] = {}
        known: set[int] = set()
        for record in report.trace:
            call, cost = record.call, record.cost
            op, entry = _name(call), report.ledger.entries.get(call.name, {})
            sums = self.sums.setdefault(op, {"macs": 0, "mrw": 0, "flops": 0})
            sums.update({key: amount + entry.get(key, 0) for key, amount in sums.items()})
            if all(
                x.role != "data" or i in known for i, x in zip(call.inputs, call.layer.inputs.values(), strict=True)
            ):
                known.update(call.outputs)
                self.constant[op] += bool(call.inputs)
                macs = cost.macs if cost is not None else 0
                self.constant_macs[op] = self.constant_macs.get(op, 0) + macs
            if cost is None or cost.mread or cost.mwrite or cost.macs:
                self.calls.setdefault(op, []).append(call)
        self.left = Counter({op: len(calls) for op, calls in self.calls.items()})

    def amount(self, ops: Iterable[str], key: str) -> Dim:
        """Return a sum over operators."""
        return sum(self.sums[op][key] for op in dict.fromkeys(ops) if op in self.sums)


FUSED_PRODUCTS: Mapping[str, str] = {
    "com.microsoft::FusedMatMul": "fused_matmul",
    "com.microsoft::FusedGemm": "fused_linear",
}
"""Products that a tool writes for several operators, whatever is fused to them."""


def _name(call: Call) -> str:
    # FusedMatMul and FusedGemm are fused products even if nothing is fused to them.
    return FUSED_PRODUCTS.get(call.native, call.layer.op)


def _kind(text: str, sides: tuple[_Side, _Side], olds: Iterable[str], news: Iterable[str], calls: Delta) -> Kind:
    olds, news = list(olds), list(news)
    macs, mrw = (Delta(sides[0].amount(olds, key), sides[1].amount(news, key)) for key in ("macs", "mrw"))
    what = " → ".join(filter(None, (", ".join(olds), ", ".join(op for op in news if op not in olds))))
    return Kind(text, what, calls, macs, mrw)


def _other_forms(sides: tuple[_Side, _Side]) -> Iterable[Kind]:
    old, new = sides
    found: dict[str, Counter[str]] = {}
    for op, calls in new.calls.items():
        prefix = next((prefix for prefix in FORMS if op.startswith(prefix)), None)
        more, seen = new.left[op] - old.left[op], set[str]()
        own = op.removeprefix(prefix or "")
        # The own name comes twice: at the end, new calls of that name may hide converted ones.
        for base in (*ALIASES.get(own, (own,)), own) if prefix and more > 0 else ():
            count = min(more, old.left[base] - (new.left[base] if base not in seen else 0))
            seen.add(base)
            if count <= 0:
                continue
            text = FORMS[prefix or ""].format(dtype=_narrow_dtype(calls[-1]), type=calls[-1].type)
            found.setdefault(text, Counter())[base] += count
            yield _kind("", sides, [base], [op], Delta(count, count))
            old.left[base] -= count
            new.left[op] -= count
            more -= count
    for text, counts in found.items():
        yield Kind(
            f"{listed((count, op) for op, count in counts.items())} {text}", "", Delta(0, 0), Delta(0, 0), Delta(0, 0)
        )


def _scaling(sides: tuple[_Side, _Side]) -> Iterable[Kind]:
    counts = Delta(*(sum(side.left[op] for op in SCALING) for side in sides))
    if not counts.equal:
        ops = [op for op in SCALING if any(op in side.calls for side in sides)]
        is_dynamic = "dynamic_quantize" in sides[1].calls and "dynamic_quantize" not in sides[0].calls
        how = ", dynamically" if is_dynamic else ""
        yield _kind(f"calls that quantize or dequantize: {_more(counts)}{how}", sides, ops, ops, counts)
    for side in sides:
        for op in SCALING:
            side.left.pop(op, None)


def _precision(sides: tuple[_Side, _Side]) -> Iterable[Kind]:
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for op, calls in sides[1].calls.items():
        if op not in sides[0].calls or not sides[1].amount([op], "macs"):
            continue
        before, after = (Counter(_weight_dtype(call) for call in each) for each in (sides[0].calls[op], calls))
        (earlier,), (later,) = ((*(side - other), "")[:1] for side, other in ((before, after), (after, before)))
        if earlier in REAL and later in REAL:
            count = min(before[earlier], after[later])
            found.setdefault((earlier, later), []).append((count, op))
            yield _kind("", sides, [op], [op], Delta(count, count))
    for (earlier, later), each in found.items():
        text = f"{listed(each)} in {later} instead of {earlier}"
        yield Kind(text, "", Delta(0, 0), Delta(0, 0), Delta(0, 0))


def _replaced(sides: tuple[_Side, _Side]) -> Iterable[Kind]:
    old, new = sides
    gone, more = old.left - new.left, new.left - old.left
    folded = (old.constant - new.constant) & gone
    if folded:
        gone -= folded
        macs = sum(old.constant_macs[op] - new.constant_macs.get(op, 0) for op in folded)
        products = "" if is_symbolic(macs) or not macs else f" ({readable(macs, 'count')} MACs)"
        text = f"{_counted(folded)} of constants{products} folded"
        yield _kind(text, sides, folded, [], Delta(folded.total(), 0))
    norms = gone.pop("batch_norm", 0)
    if norms:
        is_folded = any(op.endswith(("conv", "linear", "matmul")) for op in new.calls)
        text = f"{norms} batch_norm folded into products" if is_folded else f"gone: {norms} batch_norm"
        yield _kind(text, sides, ["batch_norm"], [], Delta(norms, 0))
    if gone["pad"] and any(op.endswith("conv") for op in new.calls):
        count = gone.pop("pad")
        yield _kind(f"{count} pad folded into conv", sides, ["pad"], [], Delta(count, 0))
    limits = Counter({op: gone.pop(op) for op in ("relu", "clip") if gone[op] and _is_quantized(new)})
    if limits:
        text = f"{_counted(limits)} folded into quantization ranges"
        yield _kind(text, sides, limits, [], Delta(limits.total(), 0))
    biases = new.biased - old.biased
    for fused in take_fused(gone, more, old.left):
        olds, news = [fused.fusion.base, *fused.parts], [fused.fusion.into]
        yield _kind(fused.text, sides, olds, news, Delta(fused.into + fused.parts.total(), fused.into))
        biases -= fused.parts["add"] if fused.fusion.into == "linear" else 0
    if biases > 0 and gone["add"] and _is_quantized(new):
        count = min(biases, gone["add"])
        gone["add"] -= count
        yield _kind(f"{count} add fused into {count} matmul", sides, ["add"], [], Delta(count, 0))
    gone, more = +gone, +more
    for path, ops in _pruned(sides, gone):
        gone -= ops
        yield _kind(f"{path} pruned ({_counted(ops)})", sides, ops, [], Delta(ops.total(), 0))
    before, after = _counted(gone), _counted(more)
    if before and after and new.amount(more, "flops"):
        yield _kind(f"{after} in place of {before}", sides, gone, more, Delta(gone.total(), more.total()))
        return
    if before:
        yield _kind(f"gone: {before}", sides, gone, [], Delta(gone.total(), 0))
    if after:
        why = ", to scale results" if "dynamic_quantize" in new.calls and {*more} <= {"mul", "cast", "add"} else ""
        yield _kind(f"new{why}: {after}", sides, [], more, Delta(0, more.total()))


def _pruned(sides: tuple[_Side, _Side], gone: Counter[str]) -> list[tuple[str, Counter[str]]]:
    old, new = sides
    kept = {path for call in new.every for path in _enclosing_paths(call.module)}
    lost: dict[str, list[Call]] = {}
    for call in old.every if kept else ():
        path = next((path for path in _enclosing_paths(call.module) if path not in kept), "")
        if path:
            lost.setdefault(path, []).append(call)
    # Only modules with MACs that are gone as well: tools that fuse operators also drop module names.
    fewer = sum(old.macs.values()) - sum(new.macs.values())
    found = []
    for path, calls in lost.items():
        macs = sum(old.macs[call.name] for call in calls)
        if not is_symbolic(macs) and not is_symbolic(fewer) and 0 < macs <= fewer:
            found.append((path, Counter(_name(call) for call in calls) & gone))
    return found


def _enclosing_paths(path: str) -> list[str]:
    # Outermost first.
    parts = path.split(".") if path else []
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _is_quantized(side: _Side) -> bool:
    return any(op.startswith("quantized_") for op in side.calls)


def _counted(counts: Counter[str]) -> str:
    return listed((count, op) for op, count in counts.most_common())


def _more(counts: Delta) -> str:
    return f"{abs(counts.difference)} {'more' if counts.difference > 0 else 'fewer'}"


def _weight_dtype(call: Call) -> str:
    # Without a weight: the last operand that is neither bias nor scale.
    inputs = call.layer.inputs
    named = [name for name in ("w", "x1", "w0", "x", "x0") if name in inputs]
    return inputs[named[0]].dtype if named else ""


def _narrow_dtype(call: Call) -> str:
    weight = _weight_dtype(call)
    tensors = [tensor for name, tensor in call.layer.inputs.items() if not name.endswith(("_scale", "_zero_point"))]
    return min([x.dtype for x in (*tensors, *call.layer.outputs)], key=BITS.__getitem__) if weight in REAL else weight


def _weight_bytes(report: ReportData) -> Dim:
    # A shared weight counts once.
    found: dict[int, Dim] = {}
    for call in report.trace.calls:
        for identity, tensor in zip(call.inputs, call.layer.inputs.values(), strict=True):
            if tensor.role == "param":
                found[identity] = tensor.nbytes
    return sum(found.values())


def _in_blocks(report: ReportData) -> bool:
    # ONNX Runtime's NCHWc layout pads channels to the block size.
    return any(call.native.startswith("com.microsoft.nchwc::Conv") for call in report.trace.calls)


# Fused operators, found from the numbers of removed and added operators.


LIMITS = ("relu", "clip", "leaky_relu", "sigmoid", "tanh", "hard_sigmoid", "hard_swish")
"""Activations that a convolution may apply to its result."""


class Fusion(NamedTuple):
    """One way to merge operators.

    Attributes:
        into: the operator of the new graph.
        base: the operator of the old graph that each fused operator includes once.
        parts: the other operators, with the maximum number in one fused operator.
        is_decomposed: whether the base is one step of a decomposed operator.
    """

    into: str
    base: str
    parts: Mapping[str, int]
    is_decomposed: bool = False


GELU = {"div": 1, "add": 1, "mul": 2}

FUSIONS = (
    Fusion("fused_conv", "conv", {**dict.fromkeys(LIMITS, 1), "add": 1}),
    Fusion("fused_linear", "linear", dict.fromkeys(LIMITS, 1)),
    Fusion("linear", "matmul", {"add": 1}),
    Fusion("gelu", "erf", GELU, is_decomposed=True),
    Fusion("silu", "sigmoid", {"mul": 1}, is_decomposed=True),
    Fusion("biased_activation", "gelu", {"add": 1}),
    Fusion("biased_activation", "erf", {**GELU, "add": 2}, is_decomposed=True),
    Fusion("fused_matmul", "matmul", {"transpose": 2, "mul": 2, "div": 1}),
    Fusion("fused_layer_norm", "layer_norm", {"add": 2}),
    Fusion("fused_rms_norm", "rms_norm", {"add": 2}),
)
"""The known fusions; fusions that may include more of an operator come last."""


class Fused(NamedTuple):
    """A fusion found in a graph.

    Attributes:
        fusion: how.
        parts: the operators that are gone, with their number.
        into: the number of operators that they were merged into.
    """

    fusion: Fusion
    parts: Counter[str]
    into: int

    @property
    def text(self) -> str:
        """The same in words: ``17 relu, 8 add fused into 17 conv``."""
        fusion = self.fusion
        shown = (fusion.into if fusion.into != "biased_activation" else "gelu") if fusion.is_decomposed else fusion.base
        parts = Counter({fusion.base: self.into}) + self.parts if fusion.is_decomposed else self.parts
        return f"{listed((count, op) for op, count in parts.items())} fused into {self.into} {shown}"


def take_fused(gone: Counter[str], more: Counter[str], old: Mapping[str, int]) -> Iterable[Fused]:
    """Yield the fusions, and remove their operators from ``gone`` and ``more``.

    ``old`` counts the operators of the old graph. A fused operator may appear again if others were fused into it.
    """
    for fusion in FUSIONS:
        may_reappear = fusion.base in ("linear", "matmul")
        count = min(old.get(fusion.base, 0) if may_reappear else gone[fusion.base], more[fusion.into])
        parts = Counter({op: min(gone[op], count * most) for op, most in fusion.parts.items()})
        if +parts:
            gone.subtract(parts)
            again = max(count - gone[fusion.base], 0)
            gone[fusion.base] -= count - again
            more[fusion.base] += again
            more[fusion.into] -= count
            yield Fused(fusion, +parts, count)


def listed(counts: Iterable[tuple[int, str]]) -> str:
    """Return ``11 conv, 2 add``."""
    return ", ".join(f"{count} {op}" for count, op in counts)
