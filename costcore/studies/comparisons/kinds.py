"""What a tool did to a graph: its operators in other forms, and in place of others, in words and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from costcore.ir import BITS
from costcore.numbers.dims import Dim, is_symbolic
from costcore.reports.data.report_data import ReportData
from costcore.studies.comparisons.differences import Delta
from costcore.studies.comparisons.fusing import listed, take_fused
from costcore.studies.comparisons.matching import is_free
from costcore.text.amounts import readable
from costcore.trace.call import Call

FORMS: Mapping[str, str] = {
    "quantized_": "became {dtype}",
    "dynamic_quantized_": "became {dtype}, quantized by their range as they run",
    "packed_": "with {dtype} weights ({type}), dequantized as they are used",
}
"""What became of operators whose name is now preceded so."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "linear": ("linear", "matmul"),
    "matmul": ("matmul", "linear"),
    "embedding": ("embedding", "gather"),
}
"""Operators of which another one may be the form, the likeliest first."""

SCALING = ("quantize", "dequantize", "dynamic_quantize")
"""Operators that convert to integers and back."""

REAL = ("float16", "bfloat16", "float32", "float64")
"""Dtypes of products that are not quantized."""


class Kind(NamedTuple):
    """One kind of change.

    Attributes:
        text: what happened, as a part of a sentence; empty if it is part of another one.
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

    A graph is what a file holds; of programs that ran, the list is empty.
    """
    if old.trace.run.dataflow is None or new.trace.run.dataflow is None:
        return []
    sides = _Side(old), _Side(new)
    return [*_other_forms(sides), *_scaling(sides), *_precision(sides), *_replaced(sides)]


def in_words(old: ReportData, new: ReportData, kinds: Iterable[Kind]) -> str:
    """Return one sentence on the kinds of change, and on MACs and weights."""
    parts = list(dict.fromkeys(kind.text for kind in kinds if kind.text))
    if not parts:
        return "; ".join(filter(None, (_opset(old, new), _only_free(old, new) or _nothing(old, new))))
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


def _only_free(old: ReportData, new: ReportData) -> str:
    """Return a sentence if the calls of two graphs differ only in those that cost nothing; else an empty text."""
    counts = Delta(*(sum(map(is_free, report.ledger.entries.values())) for report in (old, new)))
    graphs = old.trace.run.dataflow is not None and new.trace.run.dataflow is not None
    if counts.equal or not graphs or old.total_report["mrw"] != new.total_report["mrw"]:
        return ""
    return f"no operator that costs anything changed; calls that cost nothing: {_more(counts)}"


def _opset(old: ReportData, new: ReportData) -> str:
    """Return which version of the standard operators a file uses in place of which; empty for the same one."""
    versions = [report.trace.run.opsets.get("ai.onnx") for report in (old, new)]
    return f"opset {versions[1]} in place of {versions[0]}" if None not in versions and len({*versions}) > 1 else ""


def _nothing(old: ReportData, new: ReportData) -> str:
    """Return a sentence if two graphs have the same operators, which cost the same; else an empty text."""
    types = [Counter(call.type for call in report.trace.calls) for report in (old, new)]
    graphs = old.trace.run.dataflow is not None and new.trace.run.dataflow is not None
    same = all(old.total_report[key] == new.total_report[key] for key in ("macs", "flops", "mrw", "n_params"))
    return "no operator changed" if graphs and same and types[0] == types[1] else ""


class _Side:
    """The calls of a report that cost something, by operator."""

    def __init__(self, report: ReportData) -> None:
        self.sums: dict[str, dict[str, Dim]] = {}
        self.calls: dict[str, list[Call]] = {}
        self.every = report.trace.calls
        self.macs = {call.name: report.ledger.entries.get(call.name, {}).get("macs", 0) for call in self.every}
        self.biased = sum("b" in call.layer.inputs for call in self.every if _name(call).endswith(("linear", "matmul")))
        """The number of products that add a bias."""
        self.constant: Counter[str] = Counter()
        """The number of calls whose operands all follow from stored ones."""
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
    """Return the operator of a call, and whether others are fused to it."""
    return FUSED_PRODUCTS.get(call.native, call.layer.op)


def _kind(text: str, sides: tuple[_Side, _Side], olds: Iterable[str], news: Iterable[str], calls: Delta) -> Kind:
    """Return a kind of change from some operators to others."""
    olds, news = list(olds), list(news)
    macs, mrw = (Delta(sides[0].amount(olds, key), sides[1].amount(news, key)) for key in ("macs", "mrw"))
    what = " → ".join(filter(None, (", ".join(olds), ", ".join(op for op in news if op not in olds))))
    return Kind(text, what, calls, macs, mrw)


def _other_forms(sides: tuple[_Side, _Side]) -> Iterable[Kind]:
    """Yield the operators that are now quantized, or have packed weights."""
    old, new = sides
    found: dict[str, Counter[str]] = {}
    for op, calls in new.calls.items():
        prefix = next((prefix for prefix in FORMS if op.startswith(prefix)), None)
        more, seen = new.left[op] - old.left[op], set[str]()
        own = op.removeprefix(prefix or "")
        for base in (*ALIASES.get(own, (own,)), own) if prefix and more > 0 else ():  # its own name last: some are new
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
    """Yield the calls that quantize and dequantize."""
    counts = Delta(*(sum(side.left[op] for op in SCALING) for side in sides))
    if not counts.equal:
        ops = [op for op in SCALING if any(op in side.calls for side in sides)]
        is_dynamic = "dynamic_quantize" in sides[1].calls and "dynamic_quantize" not in sides[0].calls
        how = ", by the range that values have as they run" if is_dynamic else ""
        yield _kind(f"calls that quantize or dequantize: {_more(counts)}{how}", sides, ops, ops, counts)
    for side in sides:
        for op in SCALING:
            side.left.pop(op, None)


def _precision(sides: tuple[_Side, _Side]) -> Iterable[Kind]:
    """Yield the products that compute in another floating-point type."""
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
    """Yield the operators that are gone, new, or in place of others."""
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
        text = f"{_counted(limits)} folded into the limits of quantized values"
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
    """Return the outermost modules of which no call is left, with their operators among those that are gone.

    Only modules with products are taken, whose MACs are gone as well: tools that merge operators drop names of modules.
    """
    old, new = sides
    kept = {path for call in new.every for path in _around(call.module)}
    lost: dict[str, list[Call]] = {}
    for call in old.every if kept else ():
        path = next((path for path in _around(call.module) if path not in kept), "")
        if path:
            lost.setdefault(path, []).append(call)
    fewer = sum(old.macs.values()) - sum(new.macs.values())
    found = []
    for path, calls in lost.items():
        macs = sum(old.macs[call.name] for call in calls)
        if not is_symbolic(macs) and not is_symbolic(fewer) and 0 < macs <= fewer:
            found.append((path, Counter(_name(call) for call in calls) & gone))
    return found


def _around(path: str) -> list[str]:
    """Return a path of modules and those around it, the outermost first."""
    parts = path.split(".") if path else []
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _is_quantized(side: _Side) -> bool:
    return any(op.startswith("quantized_") for op in side.calls)


def _counted(counts: Counter[str]) -> str:
    """Return ``11 conv, 2 add``, the most first."""
    return listed((count, op) for op, count in counts.most_common())


def _more(counts: Delta) -> str:
    """Return ``2 more`` or ``2 fewer``."""
    return f"{abs(counts.difference)} {'more' if counts.difference > 0 else 'fewer'}"


def _weight_dtype(call: Call) -> str:
    """Return the dtype of the weight of a call, or of its last operand that is neither bias nor scale."""
    inputs = call.layer.inputs
    named = [name for name in ("w", "x1", "w0", "x", "x0") if name in inputs]
    return inputs[named[0]].dtype if named else ""


def _narrow_dtype(call: Call) -> str:
    """Return the dtype of a weight of integers; of a call without one, its narrowest dtype."""
    weight = _weight_dtype(call)
    tensors = [tensor for name, tensor in call.layer.inputs.items() if not name.endswith(("_scale", "_zero_point"))]
    return min([x.dtype for x in (*tensors, *call.layer.outputs)], key=BITS.__getitem__) if weight in REAL else weight


def _weight_bytes(report: ReportData) -> Dim:
    """Return the bytes of the learned parameters that a run reads, each once."""
    found: dict[int, Dim] = {}
    for call in report.trace.calls:
        for identity, tensor in zip(call.inputs, call.layer.inputs.values(), strict=True):
            if tensor.role == "param":
                found[identity] = tensor.nbytes
    return sum(found.values())


def _in_blocks(report: ReportData) -> bool:
    """Return whether convolutions run in blocks of channels."""
    return any(call.native.startswith("com.microsoft.nchwc::Conv") for call in report.trace.calls)
