"""What a conversion to another framework did to a network: replaced, folded, dropped and added operators.

:func:`conversions` reads it from calls that are matched by order; together they are every difference.
:func:`conversion_in_words` and :func:`conversion_of_macs` put it into sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from costcore.numbers import Dim, is_symbolic, magnitude
from costcore.reports.data import ReportData
from costcore.studies.comparisons.matching import (
    LIMITS,
    Calls,
    Delta,
    Entry,
    class_of,
    in_any_layout,
    is_free,
    listed,
    only_moves,
    output_size,
    unquantized,
)
from costcore.text.amounts import brief, exact, readable

FOLDABLE = {"batch_norm", "mul", "add", "div", "sub"}
"""Operators that a converter can fold into the weights of the preceding matrix product."""

FOLD_INTO = {"conv", "conv_transpose", "linear", "matmul"}
"""Matrix products with weights that a converter can fold operators into."""


class Recipe(NamedTuple):
    """The operators that a format without some operator uses in its place.

    Attributes:
        core: the operators it needs, in order.
        beside: operators that may be before and between them.
        tail: operators that may follow.
        is_learned: whether any of them may have parameters.
    """

    core: tuple[str, ...]
    beside: frozenset[str] = frozenset()
    tail: frozenset[str] = frozenset()
    is_learned: bool = True

    def found(self, entries: Sequence[Entry], start: int) -> Sequence[int]:
        """Return the places of the calls, from ``start`` on, that are one operator; none if they are not."""
        places, left = [], [*self.core]
        for i in range(start, len(entries)):
            op, is_learned = entries[i]["op"], entries[i]["n_params"] != 0
            if left and op == left[0] and (self.is_learned or not is_learned):
                left.pop(0)
            elif op not in (self.beside if left else self.tail) or (is_learned and not self.is_learned):
                break
            places.append(i)
        return () if left else places


_ARITHMETIC = frozenset(("add", "cast", "div", "mul", "pow", "sub"))
_MASKING = _ARITHMETIC | {"isnan", "where", "equal", "logical_not"}
_SCALE = frozenset(("add", "mul"))

RECIPES: Mapping[str, tuple[Recipe, ...]] = {
    "attention": (Recipe(("matmul", "softmax", "matmul"), _MASKING, is_learned=False),),
    "gelu": (Recipe(("erf",), _ARITHMETIC, _ARITHMETIC), Recipe(("tanh",), _ARITHMETIC, _ARITHMETIC)),
    "silu": (Recipe(("sigmoid", "mul")),),
    "hard_swish": (Recipe(("hard_sigmoid", "mul")), Recipe(("clip", "mul"), _ARITHMETIC, frozenset(("div", "mul")))),
    "layer_norm": (
        Recipe(("mean_variance_norm",), tail=_SCALE),
        Recipe(("reduce_mean", "sub", "reduce_mean"), _ARITHMETIC, _ARITHMETIC | {"sqrt", "rsqrt"}),
    ),
    "rms_norm": (Recipe(("reduce_mean",), _ARITHMETIC, _ARITHMETIC | {"sqrt", "rsqrt"}),),
    "batch_norm": (Recipe(("mul", "add")), Recipe(("sub", "mul", "add"), _ARITHMETIC)),
}
"""What formats write for operators that they lack."""


class Conversion(NamedTuple):
    """One change that a conversion made.

    Attributes:
        what: see :class:`ConversionChange`.
        old: calls before the conversion.
        new: calls after the conversion.
        into: the product into which they were folded; empty for other changes.
    """

    what: str
    old: Sequence[Entry]
    new: Sequence[Entry]
    into: str = ""

    def amount(self, name: str) -> Delta:
        """Return a cost of all its calls before and after."""
        return Delta(*(sum(entry[name] for entry in side) for side in (self.old, self.new)))


class ConversionChange(NamedTuple):
    """One kind of change that a conversion made.

    Attributes:
        what: ``became`` (the operators were replaced by others), ``folded`` (a scale or shift absorbed by the
            matrix product before it, whose MACs are unchanged), ``dropped``, ``added`` or ``changed`` (the operator is
            the same and costs more or less).
        old: operators before the conversion.
        new: operators after the conversion.
        times: number of changes of this kind.
        flops, mrw, macs: FLOPs, bytes and MACs of all changes of this kind together.
        into: the products into which operators were folded.
    """

    what: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    times: int
    flops: Delta
    mrw: Delta
    macs: Delta = Delta(0, 0)
    into: str = ""

    @property
    def is_renamed(self) -> bool:
        """Whether this is a pure rename, such as that of a quantized operator."""
        one = [class_of(op) for op in (*self.old, *self.new)]
        return self.what == "became" and len(self.old) == len(self.new) == 1 and one[0] == one[1]

    @property
    def text(self) -> str:
        """The change in words: ``20 batch_norm folded into conv``."""
        old, new = (listed_once(side) for side in (self.old, self.new))
        biased = "is a call of its own"
        if self.what == "folded":
            return f"{self.times} {old} folded into {self.into}" + f", whose bias {biased}" * bool(new)
        if self.what == "became" and self.new[1:] == ("add",) and self.new[:1] == self.old:
            return f"the bias of {self.times} {old} {biased}"
        if self.what == "became":
            return f"{self.times} × {old} became {new}" if len(self.old) > 1 else f"{self.times} {old} became {new}"
        return f"{self.times} {old or new} {self.what}"


MOST_KINDS = 8
"""The maximum number of changes of a conversion in a sentence."""


def conversion_in_words(changes: Sequence[ConversionChange], old: ReportData, new: ReportData) -> list[str]:
    """Return sentences on what a conversion to another framework did; none if nothing is different."""
    lines = []
    written = [each.text for each in changes if each.what in ("folded", "became") and not each.is_renamed]
    if written:
        more = len(written) - MOST_KINDS
        lines.append("; ".join([*written[:MOST_KINDS], *[f"{more} more kinds of change (Conversion)"] * (more > 0)]))
    renamed = [each for each in changes if each.is_renamed]
    quantized = [each for each in renamed if unquantized(each.new[0]) != each.new[0]]
    if quantized:
        lines.append(f"quantized: {listed((each.times, each.old[0]) for each in quantized)}")
    if others := [f"{each.times} {each.old[0]} ({each.new[0]})" for each in renamed if each not in quantized]:
        lines.append(f"with another name: {', '.join(others)}")
    for what in ("added", "dropped"):
        alone = [each for each in changes if each.what == what]
        if alone:
            shown = listed((each.times, (each.old or each.new)[0]) for each in alone)
            moved = brief(sum(each.mrw.difference for each in alone), "bytes", signed=True)
            n_views = _viewed(new if what == "dropped" else old, alone)
            views = f"; {n_views} of them {'are' if what == 'dropped' else 'were'} views, which cost nothing"
            lines.append(f"{what}: {shown} ({moved}){views * bool(n_views)}")
    for what, find in (("weights", _weights_by_dtype), ("values", _values_by_dtype)):
        sides = [find(report) for report in (old, new)]
        before, after = (max(side, key=lambda dtype: side[dtype], default="") for side in sides)
        if before != after and before and after:
            nbytes = [readable(sum(side.values()), "bytes") for side in sides]
            lines.append(f"{what} in {after} instead of {before}: {nbytes[1]} instead of {nbytes[0]}")
    return lines


VIEWS: Mapping[str, tuple[str, ...]] = {
    "transpose": ("permute", "transpose", "t", "mT", "movedim", "swapaxes"),
    "slice": ("slice", "narrow", "split", "chunk"),
    "gather": ("select", "index"),
    "broadcast_to": ("expand", "broadcast_to"),
}
"""Views of PyTorch that are copies elsewhere, by the copying operator."""


def _viewed(report: ReportData, changes: Iterable[ConversionChange]) -> int:
    # The number of changed calls that are free views in a report.
    free = Counter(entry["type"] for entry in report.ledger.entries.values() if is_free(entry))
    counts: Counter[str] = Counter()
    for each in changes:
        counts[(each.old or each.new)[0]] += each.times
    return sum(min(count, sum(free[view] for view in VIEWS.get(op, ()))) for op, count in counts.items())


MOST_PRODUCTS = 3
"""The maximum number of calls in the sentence on the difference of MACs."""


def conversion_of_macs(conversions: Iterable[Conversion]) -> str:
    """Return the calls that add up to the difference of the MACs, the largest first; empty if each has the same."""
    found = [(each, each.amount("macs")) for each in conversions]
    found = [(each, macs) for each, macs in found if not macs.equal]
    found.sort(key=lambda pair: abs(magnitude(pair[1].difference)), reverse=True)
    parts = [f"{_product_text(each)} ({exact(macs.difference, signed=True)})" for each, macs in found[:MOST_PRODUCTS]]
    if rest := found[MOST_PRODUCTS:]:
        parts.append(f"{len(rest)} more calls ({exact(sum(macs.difference for _, macs in rest), signed=True)})")
    return f"the difference in MACs: {', '.join(parts)}" if parts else ""


def _product_text(each: Conversion) -> str:
    entry = next(entry for entry in (*each.old, *each.new) if entry["macs"] != 0)
    name = f"{entry['op']} {entry['module']}".rstrip()
    if not (each.old and each.new):
        return f"{name} {each.what}"
    pairs = zip(each.old[0]["input_shapes"], each.new[0]["input_shapes"], strict=False)
    sizes = (f"{a} → {b}" for a, b in pairs if in_any_layout([a]) != in_any_layout([b]))
    return f"{name} {next(sizes, '')}".rstrip()


def _weights_by_dtype(report: ReportData) -> Counter[str]:
    # Bytes; a shared weight counts once.
    weights = {
        identity: tensor
        for call in report.trace.calls
        for identity, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False)
        if tensor.role == "param" and not is_symbolic(tensor.nbytes)
    }
    found: Counter[str] = Counter()
    for tensor in weights.values():
        found[tensor.dtype] += tensor.nbytes
    return found


def _values_by_dtype(report: ReportData) -> Counter[str]:
    found: Counter[str] = Counter()
    for call in report.trace.calls:
        for tensor in call.layer.outputs:
            if not is_symbolic(call.times * tensor.nbytes):
                found[tensor.dtype] += call.times * tensor.nbytes
    return found


def listed_once(ops: Sequence[str]) -> str:
    """Return operators, each once with how often it is there: ``2 mul, softmax``."""
    return ", ".join(f"{count} {op}" if count > 1 else op for op, count in Counter(ops).items())


def counts_in_words(conversions: Iterable[Conversion]) -> str:
    """Return ``9 dropped, 18 replaced``."""
    words = Counter("replaced" if each.what == "became" else each.what for each in conversions)
    return ", ".join(f"{count:,} {word}" for word, count in words.items())


def conversion_changes(conversions: Iterable[Conversion]) -> list[ConversionChange]:
    """Return the changes of a conversion, one per kind, in order of first appearance."""
    changes: dict[Hashable, ConversionChange] = {}
    for each in conversions:
        names = [tuple(entry["op"] for entry in side) for side in (each.old, each.new)]
        key = each.what, *(tuple(sorted(side)) for side in names), each.into
        none = Delta(0, 0)
        one = changes.get(key) or ConversionChange(each.what, names[0], names[1], 0, none, none, none, each.into)
        flops, mrw, macs = (
            Delta(total.old + more.old, total.new + more.new)
            for total, more in ((getattr(one, name), each.amount(name)) for name in ("flops", "mrw", "macs"))
        )
        changes[key] = one._replace(times=one.times + 1, flops=flops, mrw=mrw, macs=macs)
    return list(changes.values())


def conversions(pairs: Sequence[Calls]) -> Iterator[Conversion]:
    """Yield the changes of a conversion, from matched calls in order; together they are all that differs."""
    olds: list[Entry] = []
    news: list[Entry] = []
    head: Calls = (None, None)
    for old, new in [*pairs, (None, None)]:
        # A change is the run of added and removed calls between two matching pairs that compute.
        if old is not None and new is not None and only_moves(old) and only_moves(new):
            yield from _differing([old], [new])
        elif (old is None) == (new is None):
            yield from _explained(head, olds, news)
            olds, news, head = [], [], (old, new)
        else:
            olds += [old] if old is not None else []
            news += [new] if new is not None else []


def _explained(head: Calls, olds: list[Entry], news: list[Entry]) -> Iterator[Conversion]:
    old, new = head
    into = new["op"] if new is not None and class_of(new["op"]) in FOLD_INTO else ""
    norms = olds[:1] if into and olds and olds[0]["op"] == "batch_norm" and not _written(olds[0], news) else []
    olds = olds[len(norms) :]
    if old is not None and new is not None:
        sides = [old], [new]
        for own, other, left in ((old, new, news), (new, old, olds)) if into else ():
            # The addition of a bias is a call of its own on one side.
            place = next((i for i, entry in enumerate(left) if not only_moves(entry)), 0)
            if _adds_bias(own, other, left[place:]) and not (left is news and norms):
                sides[left is news].append(left.pop(place))
        is_fused = into and into != class_of(into)
        if is_fused and olds and class_of(olds[0]["op"]) in LIMITS:
            sides[0].append(olds.pop(0))
        yield from _differing(*sides)
    if norms:
        yield Conversion("folded", norms, [news.pop(0)] if news and news[0]["op"] == "add" else [], class_of(into))
    # Calls that only move data do not become calls that compute, nor the reverse.
    for moves in (False, True):
        yield from _replacements(into, *([e for e in entries if only_moves(e) is moves] for entries in (olds, news)))


def _differing(olds: Sequence[Entry], news: Sequence[Entry]) -> Iterator[Conversion]:
    if [entry["op"] for entry in olds] != [entry["op"] for entry in news]:
        yield Conversion("became", olds, news)
    elif any(
        old[name] != new[name] for old, new in zip(olds, news, strict=True) for name in ("flops", "mread", "mwrite")
    ):
        yield Conversion("changed", olds, news)


def _adds_bias(product: Entry, other: Entry, left: Sequence[Entry]) -> bool:
    if not left or left[0]["op"] != "add" or output_size(left[0]) != output_size(other):
        return False
    n_params = product["n_params"] - other["n_params"]
    return bool(product["op"] != other["op"] or n_params == left[0]["n_params"] != 0)


def _replacements(into: str, olds: list[Entry], news: list[Entry]) -> Iterator[Conversion]:
    sides = ((olds, news), (news, olds)) if len(olds) * len(news) <= MOST_SEARCHED else ()
    for find in (_written, _split):
        for side, other in sides:
            for entry in [*side]:
                if found := find(entry, other):
                    at = side.index(entry)
                    bias = side[at + 1 : at + 2] if find is _split else []
                    n_calls = 1 + ([each["op"] for each in bias] == ["add"] and bias[0]["n_params"] != 0)
                    whole, parts = _taken(side, range(at, at + n_calls)), _taken(other, found)
                    yield Conversion("became", *((whole, parts) if side is olds else (parts, whole)))
    if news and (moved := [entry for entry in olds if entry["op"] not in CREATED]):
        yield from (Conversion("dropped", [entry], []) for entry in olds if entry["op"] in CREATED)
        yield from _differing(moved, news)
        return
    for entry in olds:
        is_folded = into and entry["op"] in FOLDABLE
        yield Conversion("folded" if is_folded else "dropped", [entry], [], into if is_folded else "")
        into = into if is_folded else ""
    for entry in news:
        yield Conversion("added", [], [entry])


MOST_SEARCHED = 250_000
"""Runs of unmatched calls are not searched for patterns if ``len(olds) * len(news)`` exceeds this."""

CREATED = ("arange", "constant", "full")
"""Operators that make values of nothing, which never become others."""


def _taken(entries: list[Entry], places: Sequence[int]) -> list[Entry]:
    taken = [entries[i] for i in places]
    entries[:] = [entry for i, entry in enumerate(entries) if i not in places]
    return taken


def _written(entry: Entry, others: Sequence[Entry]) -> Sequence[int]:
    # The places of the calls that a format writes for an operator; none if it does not.
    ways = (recipe.found(others, i) for recipe in RECIPES.get(entry["op"], ()) for i in range(len(others)))
    return next(filter(None, ways), ())


def _split(entry: Entry, others: Sequence[Entry]) -> Sequence[int]:
    # Products that together are one: the query, key and value of attention.
    if entry["macs"] == 0:
        return ()
    places: list[int] = []
    macs: Dim = 0
    for i, other in enumerate(others):
        if class_of(other["op"]) == class_of(entry["op"]) and other["macs"] != 0:
            places.append(i)
            macs = macs + other["macs"]
            if macs == entry["macs"]:
                return places
    return ()
