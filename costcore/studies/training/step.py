"""One captured micro-batch: model FLOPs and hardware FLOPs, products by phase and kind, tokens and parameters.

Every call with MACs is a :class:`Product`, of weights, experts, attention or activations. Pairs of attention are
counted in full, within causal limits, and within packed documents.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import repeat
from math import exp, isfinite, log, log2, sqrt
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from costcore.analyses.conventions.convention import Transformer
from costcore.analyses.devices.device import TF32, Device, find_device
from costcore.errors import CostError, unknown
from costcore.ir import BITS, OPERATION_CLASSES, Layer, Operations, prod
from costcore.numbers import Dim, as_text, expanded_sum, is_symbolic
from costcore.reports.data import ReportData
from costcore.tables.result import Table
from costcore.text.amounts import Formatted
from costcore.text.output import Column
from costcore.trace.call import PHASES, Call, pairs_of
from costcore.trace.trace import Trace

# Model FLOPs, hardware FLOPs and utilization (MFU, HFU).


MODEL_PHASES = ("forward", "backward")
"""The phases of model FLOPs."""

HARDWARE_PHASES = (*MODEL_PHASES, "recompute")
"""The phases of hardware FLOPs: all but the optimizer."""


def model_flops(report: ReportData) -> Dim:
    """Return the model FLOPs of a step: two per MAC of the forward and backward pass.

    MACs include matrix products, convolutions, attention and recurrent layers. Recomputation and the optimizer are
    not model FLOPs, and neither is element-wise arithmetic.

    Source: Chowdhery et al., PaLM, arXiv:2204.02311, appendix B.

    Args:
        report: the report of a step; one without a backward pass has the model FLOPs of the forward pass alone.

    Returns:
        An exact integer, or an expression in the symbolic dimensions of the report.
    """
    return 2 * macs_of(report, MODEL_PHASES)


def hardware_flops(report: ReportData) -> Dim:
    """Return the hardware FLOPs of a step: model FLOPs, and two per MAC of the phase ``recompute``.

    Recomputation inside a fused kernel (scores in the backward pass of attention) is not part of any call, and not
    counted.

    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 6.
    """
    return 2 * macs_of(report, HARDWARE_PHASES)


def macs_of(report: ReportData, phases: Container[str]) -> Dim:
    """Return the MACs of the calls of some phases, executions in loops included."""
    return expanded_sum(
        cost.macs * call.times for call, cost, *_ in report.trace.records if cost is not None and call.phase in phases
    )


def mfu(flops: Dim, seconds: float, devices: int, peak: float) -> float:
    """Return the share of the peak of all devices that a step reached: MFU of model FLOPs, HFU of hardware FLOPs.

    Args:
        flops: FLOPs of the step, on all devices together.
        seconds: duration of the step.
        devices: number of devices.
        peak: FLOP/s of one device, see :func:`peak_flops`.

    Returns:
        A share, 0.4 for 40 %. A value above 1 means that an argument is wrong.

    Raises:
        ValueError: if seconds, devices or peak are not positive.
        CostError: if the FLOPs have symbolic sizes.
    """
    check_positive(seconds=seconds, devices=devices, peak=peak)
    if is_symbolic(flops):
        raise CostError(f"utilization needs numbers: substitute the sizes with report.subs (got {as_text(flops)})")
    return float(flops / (devices * peak) / seconds)


def check_positive(**arguments: float) -> None:
    """Check that all arguments are positive, finite numbers.

    Raises:
        TypeError: if one is not a number.
        ValueError: if one is not positive or not finite.
    """
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number (got {value!r})")
        if not isfinite(value) or value <= 0:
            raise ValueError(f"{name} must be a positive number (got {value!r})")


def peak_flops(device: str | PathLike[str] | Device, dtype: str) -> float:
    """Return the dense peak of a device in FLOP/s as its vendor prints it: the usual reference of MFU.

    It is the peak of the matrix engine; if that does not multiply this dtype, of the vector engine. The printed peak of
    an H100 is 989.4e12 in bfloat16, at 1830 MHz; time bounds use 1070.5e12, at its highest clock. If the vendor does
    not print a peak, the one at the highest clock is returned.

    Args:
        device: a name that ``costcore devices`` lists, the path of a TOML file, or a device.
        dtype: the dtype of the operands, such as ``bfloat16``; ``tfloat32`` for float32 products rounded to TF32.

    Raises:
        TypeError, ValueError: if an argument is invalid, or there is no device of that name.
        CostError: if the device has no peak for this dtype, or its file is invalid.
    """
    if not isinstance(dtype, str):
        raise TypeError(f"dtype must be a string such as 'bfloat16' (got {dtype!r})")
    if dtype not in (*BITS, TF32):
        raise ValueError(unknown("dtype", dtype, (*BITS, TF32)))
    found = find_device(device)
    for engine in ("matrix", "vector"):
        if (peak := found.printed_rate(engine, dtype)) is not None:
            return peak
    peaks = ", ".join(sorted({name for peaks in found.peak.values() for name in peaks})) or "none"
    raise CostError(f"device {found.name!r} has no peak for {dtype} (peaks: {peaks}). Give peak= in FLOP/s.")


# Matrix products by phase and kind.


WEIGHTS, EXPERTS, ATTENTION, ACTIVATIONS = KINDS = ("weights", "experts", "attention", "activations")
"""Kinds of matrix products: with weights, with weights of experts, inside attention, and of other activations."""

EXPERT_OPERATORS = ("grouped_matmul", "grouped_matmul_backward", "moe")

ATTENTION_OPERATORS = ("attention", "attention_backward")

PRODUCT_OPERATORS = ("matmul", "einsum")

MOVING = ("cast", "copy", "view", "transpose", "permute", "slice", "concat", "quantize", "dequantize")
"""Operators that turn a weight into the same weight in another dtype or layout."""

Shares: TypeAlias = "tuple[tuple[int, int], ...]"


class Product(NamedTuple):
    """The products of one call, in all its executions.

    Attributes:
        call: the call.
        kind: one of :data:`KINDS`.
        macs: MACs over all pairs.
        shares: the counted fraction of the pairs for each of :data:`PAIRS`, as numerator and denominator; empty if all
            pairs count.
        is_masked: whether a mask of unknown values selects pairs; all pairs are then counted.
    """

    call: Call
    kind: str
    macs: int
    shares: Shares
    is_masked: bool

    def counted(self, pairs: str) -> int:
        """Return the MACs with pairs counted as one of :data:`PAIRS`."""
        if not self.shares:
            return self.macs
        part, whole = self.shares[PAIRS.index(pairs)]
        return self.macs * part // whole


@dataclass(frozen=True)
class Packing:
    """User input on masks.

    Attributes:
        documents: tokens of the documents that are packed; empty if every sequence is one document.
        masks_are_causal: whether mask tensors, and attention that a model writes as products, are causal.
    """

    documents: tuple[int, ...] = ()
    masks_are_causal: bool = False

    def shares(self, layer: Layer, queries: int, keys: int, is_masked: bool) -> Shares:
        """Return the shares of an attention, in the order of :data:`PAIRS`."""
        is_causal = is_masked and self.masks_are_causal and queries == keys
        limits = limits_of(layer, is_causal)
        causal = allowed_pairs(queries, keys, *limits), queries * keys
        packed = within_documents(self.documents, limits, queries, keys) if self.documents else causal
        return (1, 1), causal, packed


class Products:
    """The products of a run; iterating yields one for every call that has MACs, in order of execution.

    PyTorch may run the backward pass of attention as matrix products. A product of the backward pass counts as
    attention if attention in the same module multiplies matrices of the same sizes in the forward pass.

    Args:
        trace: the run.
        packing: user input on masks.
    """

    def __init__(self, trace: Trace, packing: Packing) -> None:
        self._trace = trace
        self._packing = packing
        self._weights = _weights(trace)
        self._with_softmax = {call.module for call in trace.calls if call.layer.op == "softmax"}
        self._forward: dict[Any, tuple[str, Shares, bool]] = {}

    def __iter__(self) -> Iterator[Product]:
        for call, cost, *_ in self._trace.records:
            if cost is not None and cost.macs != 0:
                macs = cost.macs * call.times
                yield Product(call, *self._kind(call, macs))

    def _kind(self, call: Call, macs: int) -> tuple[str, int, Shares, bool]:
        layer = call.layer
        if layer.op in EXPERT_OPERATORS:
            return EXPERTS, macs, (), False
        if layer.op == "token_major_attention" or "allowed" in layer.attrs:  # a kernel, or its backward pass
            everything = pairs_of(layer)
            allowed = layer.attrs.get("allowed", everything), everything
            return ATTENTION, macs * everything // layer.attrs["pairs"], ((1, 1), allowed, allowed), False
        if layer.op in ATTENTION_OPERATORS:
            kind, shares, is_masked = self._attention(call)
            if "pairs" in layer.attrs:  # attention="computed": the MACs are those of the computed pairs
                macs = macs * pairs_of(layer) // layer.attrs["pairs"]
        elif call.phase == "backward":
            found = (self._forward[key] for key in _matching_keys(call, macs) if key in self._forward)
            kind, shares, is_masked = next(found, (WEIGHTS, (), False))
        elif layer.op in PRODUCT_OPERATORS and not _has_weight(call, self._weights):
            kind, shares, is_masked = self._of_activations(call, macs)
        else:
            return WEIGHTS, macs, (), False
        if "scores" in layer.attrs:  # a product with masked scores
            scores = layer.out if layer.attrs["scores"] == "y" else layer[layer.attrs["scores"]]
            macs = macs * scores.size // layer.attrs["pairs"]
            queries, keys = scores.shape[-2:]
            # The backward pass of causal attention, as products, does not show that it is causal.
            known = shares[PAIRS.index("packed") :]
            shares = self._computed(layer, queries, keys, (layer.attrs["pairs"], scores.size), *known)
            kind, is_masked = ATTENTION, False
        return kind, macs, shares, is_masked

    def _computed(
        self, layer: Layer, queries: int, keys: int, computed: tuple[int, int], *known: tuple[int, int]
    ) -> Shares:
        # The mask may allow fewer pairs than are within documents, or more.
        everything, _, packed = self._packing.shares(layer, queries, keys, is_masked=True)
        return everything, computed, min(computed, packed, *known, key=lambda share: Fraction(*share))

    def _attention(self, call: Call) -> tuple[str, Shares, bool]:
        layer = call.layer
        is_masked = "mask" in layer and not layer.attrs.get("causal")
        shares = self._packing.shares(layer, layer["q"].shape[-2], layer["k"].shape[-2], is_masked)
        if "pairs" in layer.attrs:
            computed = layer.attrs["pairs"], pairs_of(layer)
            shares, is_masked = self._computed(layer, layer["q"].shape[-2], layer["k"].shape[-2], computed), False
        found = ATTENTION, shares, is_masked and not self._packing.masks_are_causal
        if layer.op == "attention":
            self._forward.update(((call.module, *sizes), found) for sizes in _sizes_of_attention(layer))
        return found

    def _of_activations(self, call: Call, macs: int) -> tuple[str, Shares, bool]:
        found: tuple[str, Shares, bool] = ACTIVATIONS, (), False
        # A softmax in the same module makes it attention.
        if call.module in self._with_softmax:
            side = next(_square_sides(call.layer), None)
            shares = () if side is None else self._packing.shares(call.layer, side, side, is_masked=True)
            found = ATTENTION, shares, side is not None and not self._packing.masks_are_causal
        self._forward.update((key, found) for key in _matching_keys(call, macs))
        return found


def _weights(trace: Trace) -> set[int]:
    # Ids of weights in another dtype or layout.
    weights: set[int] = set()
    for call in trace.calls:
        if call.layer.op in MOVING and call.inputs:
            source = next(iter(call.layer.inputs.values()))
            if source.role == "param" or call.inputs[0] in weights:
                weights.update(call.outputs)
    return weights


def _has_weight(call: Call, weights: set[int]) -> bool:
    roles = [tensor.role for name, tensor in call.layer.inputs.items() if not name.startswith("b")]
    return "param" in roles or not weights.isdisjoint(call.inputs)


def _square_sides(layer: Layer) -> Iterator[int]:
    # The side of a square of scores that the product makes or reads.
    for shape in (layer.out.shape, layer["x0"].shape):
        if len(shape) >= 3 and shape[-1] == shape[-2]:
            yield shape[-1]


def _sizes_of_attention(layer: Layer) -> Iterator[tuple[int, tuple[int, ...]]]:
    q, keys, values = layer["q"].shape, layer["k"].shape[-2], layer["v"].shape[-1]
    for width in (q[-1], values):
        yield prod(q[:-2]), tuple(sorted((q[-2], keys, width)))


def _matching_keys(call: Call, macs: int) -> Iterator[tuple[Any, ...]]:
    # Keys that match a product of the backward pass to its product in the forward pass: the module, with batch and
    # sizes or, as einsum does not show these, with the MACs.
    shapes: Sequence[tuple[int, ...]] = [call.layer[name].shape for name in ("x0", "x1") if name in call.layer]
    if len(shapes) != 2 or min(map(len, shapes)) < 2:
        return
    if call.layer.op == "einsum" or call.phase == "backward":
        yield call.module, macs // call.times
    if call.layer.op != "einsum":
        batch = max(prod(shape[:-2]) for shape in shapes)
        rows, inner, columns = shapes[0][-2], shapes[0][-1], shapes[1][-1]
        if inner != shapes[1][-2]:  # the second operand is transposed
            columns = shapes[1][-2]
        yield call.module, batch, tuple(sorted((rows, inner, columns)))


class Parameters(NamedTuple):
    """Numbers of parameters of a model.

    Attributes:
        total: all parameters.
        trainable: trained parameters; None if the report does not know the modules.
        active: parameters that process a token: all but the experts that it is not routed to.
        multiplying: parameters that multiply a token in the forward pass: MACs with weights per token. They include
            active experts and a tied output layer, but no embedding tables, norms and biases. None if it is not a whole
            number.
    """

    total: int
    trainable: int | None
    active: int
    multiplying: int | None


class Step:
    """A captured micro-batch, as a ledger counts it.

    Args:
        report: its report.
        packing: user input on masks.
        tokens: tokens (or samples) of the micro-batch; default: from the report.
        capacity_factor: rows that experts compute per row routed to them, if they pad to a fixed capacity.

    Raises:
        CostError: if sizes are symbolic, tokens are unknown, or a capacity is given for a model without experts.
    """

    products: list[Any]
    unit: str
    tokens: int

    def __init__(
        self, report: ReportData, packing: Packing, tokens: int | None = None, capacity_factor: float | None = None
    ) -> None:
        if report.symbols:
            raise CostError(
                f"a training ledger needs numbers: substitute {', '.join(report.symbols)} with report.subs first"
            )
        self.report = report
        self.packing = packing
        self.products = [*Products(report.trace, packing)]
        self.capacity_factor = capacity_factor
        self._sums: dict[str, Counter[tuple[str, str]]] = {}
        self.unit, self.tokens = _tokens(report) if tokens is None else (_unit(report), tokens)
        if capacity_factor is not None and not any(product.kind == EXPERTS for product in self.products):
            raise CostError(
                "capacity_factor needs experts that run as one operator (grouped_mm); this report has no such operator"
            )

    @property
    def sequence(self) -> int | None:
        """Tokens of a sequence, the queries of attention; None without attention."""
        calls = [product.call for product in self.products if product.kind == ATTENTION]
        queries = [call.layer["q"].shape[-2] for call in calls if "q" in call.layer]
        queries += [call.layer["x0"].shape[-2] for call in calls if "x0" in call.layer and call.phase == "forward"]
        return max(map(int, queries), default=None)

    def macs(self, phase: str, kind: str, pairs: str = "all") -> int:
        """Return the MACs of a phase with products of a kind."""
        return self._macs(pairs)[phase, kind]

    def model_flops(self, pairs: str = "all") -> int:
        """Return the FLOPs of the forward and backward pass."""
        return 2 * self._sum(pairs, MODEL_PHASES)

    def recompute_flops(self, pairs: str = "all") -> int:
        """Return the FLOPs of recomputation."""
        return 2 * self._sum(pairs, ("recompute",))

    @cached_property
    def capacity_flops(self) -> int:
        """FLOPs spent on capacity padding of experts; rounded to a whole number."""
        if self.capacity_factor is None:
            return 0
        return round(2 * self._sum("all", HARDWARE_PHASES, (EXPERTS,)) * (Fraction(str(self.capacity_factor)) - 1))

    def hardware_flops(self, pairs: str = "all") -> int:
        """Return model FLOPs, recomputation, and the padding of experts."""
        return self.model_flops(pairs) + self.recompute_flops(pairs) + self.capacity_flops

    def _sum(self, pairs: str, phases: tuple[str, ...], kinds: tuple[str, ...] = KINDS) -> int:
        return sum(self._macs(pairs)[phase, kind] for phase in phases for kind in kinds)

    def _macs(self, pairs: str) -> Counter[tuple[str, str]]:
        if pairs not in self._sums:
            sums: Counter[tuple[str, str]] = Counter()
            for product in self.products:
                sums[product.call.phase, product.kind] += product.counted(pairs)
            self._sums[pairs] = sums
        return self._sums[pairs]

    @cached_property
    def operations(self) -> Mapping[str, Operations]:
        """The operations by kind of each phase that ran, of all operators."""
        found: dict[str, Operations] = {}
        for call, cost, *_ in self.report.trace.records:
            if cost is not None:
                flops = cost.flops if isinstance(cost.flops, Operations) else Operations(add=cost.flops)
                found[call.phase] = found.get(call.phase, Operations()) + flops * call.times
        return {phase: found[phase] for phase in PHASES if phase in found}

    @property
    def optimizer_flops(self) -> int:
        """All operations of the optimizer, a fused multiply-add as two."""
        return int(self.operations.get("optimizer", Operations()).flops(False))

    @cached_property
    def parameters(self) -> Parameters:
        """The numbers of parameters of the model."""
        sizes = Transformer(self.report.trace)
        total = int(sizes.n_all)
        trainable = total - int(sizes.n_frozen) if self.report.trace.run.modules else None
        linear = self.macs("forward", WEIGHTS) + self.macs("forward", EXPERTS)
        multiplying = None if linear % self.tokens else linear // self.tokens
        return Parameters(total, trainable, total - self.idle_expert_parameters, multiplying)

    @cached_property
    def idle_expert_parameters(self) -> int:
        """Parameters of inactive experts of a token, if experts are balanced; rounded down."""
        sizes: dict[Any, int] = {}
        macs: Counter[Any] = Counter()
        for product in self.products:
            call = product.call
            if product.kind == EXPERTS and call.phase == "forward":
                weights = [each.size for name, each in call.layer.inputs.items() if _is_matrix(name, each)]
                sizes[call.parameters] = sum(weights)
                macs[call.parameters] += product.macs
        return sum(max(0, sizes[key] - macs[key] // self.tokens) for key in sizes)

    @cached_property
    def input_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the model inputs; if unknown, of the data read by the first call."""
        given = self.report.trace.run.inputs
        shapes: dict[int, tuple[int, ...]] = {}
        for call in self.report.trace.calls:
            for position, (each, tensor) in enumerate(zip(call.inputs, call.layer.inputs.values(), strict=False)):
                if each in given or (not given and not shapes and not position):
                    shapes.setdefault(each, tensor.shape)
        return list(shapes.values())

    @property
    def masked(self) -> int:
        """Number of modules with possibly causal attention: a mask tensor, or attention written as products."""
        return len({each.call.module for each in self.products if each.is_masked})

    @property
    def by_kind(self) -> dict[str, dict[str, int]]:
        """Operations by phase and kind as plain numbers, without zeros."""
        return {
            phase: {name: n for name in OPERATION_CLASSES if (n := int(getattr(operations, name)))}
            for phase, operations in self.operations.items()
        }


def _is_matrix(name: str, tensor: Any) -> bool:
    return tensor.role == "param" and not name.startswith("b") and tensor.ndim >= 2


def _tokens(report: ReportData) -> tuple[str, int]:
    if _unit(report) == "token":
        return "token", int(Transformer(report.trace).tokens)
    given = report.trace.run.inputs  # not every operand of role "data": gathered shards of parameters have it, too
    for known in (given, None) if given else (None,):
        for call in report.trace.calls:
            for each, tensor in zip(call.inputs or repeat(None), call.layer.inputs.values(), strict=False):
                is_read = tensor.role == "data" and tensor.ndim and call.phase == "forward"
                if is_read and (known is None or each in known):
                    return "sample", int(tensor.shape[0])
    raise CostError(f"the batch is unknown: {as_text(report.total_report['n_layers'])} calls read no data. Give batch=")


def _unit(report: ReportData) -> str:
    return "token" if Transformer(report.trace).n_tables else "sample"


# Pairs of query and key within a causal mask, a window and packed documents.


PAIRS = ("all", "causal", "packed")
"""How pairs are counted: all, within causal flags and windows, or also within one document."""


@lru_cache(maxsize=1024)
def allowed_pairs(queries: int, keys: int, left: int | None, right: int | None) -> int:
    """Return the pairs in which the key is at most ``left`` before and ``right`` behind the query; None for no limit.

    The first query is at the position of the first key, as in PyTorch and ONNX.

    >>> allowed_pairs(4, 4, None, 0)  # causal: 1 + 2 + 3 + 4
    10
    """
    first = [0 if left is None else max(0, query - left) for query in range(queries)]
    last = [keys - 1 if right is None else min(keys - 1, query + right) for query in range(queries)]
    return sum(max(0, end - start + 1) for start, end in zip(first, last, strict=True))


def limits_of(layer: Layer, is_causal: bool = False) -> tuple[int | None, int | None]:
    """Return the maximum distances of keys before and behind a query, by attributes of an attention; None: no limit.

    Args:
        layer: the attention.
        is_causal: whether it is causal even if no attribute states it.
    """
    window: Any = layer.attrs.get("window")
    sides = window if isinstance(window, Sequence) else (None if window is None else window - 1, None)
    left, right = (None if side is None or side < 0 else int(side) for side in sides)
    return left, 0 if is_causal or layer.attrs.get("causal") else right


@lru_cache(maxsize=1024)
def within_documents(
    lengths: tuple[int, ...], limits: tuple[int | None, int | None], queries: int, keys: int
) -> tuple[int, int]:
    """Return the share of pairs that are within one document and within the limits, as numerator and denominator.

    Documents fill sequences. Attention with different numbers of queries and keys is not packed.
    """
    if queries != keys:
        return allowed_pairs(queries, keys, *limits), queries * keys
    allowed = tokens = 0
    for length in lengths:
        allowed, tokens = allowed + allowed_pairs(length, length, *limits), tokens + length
    return allowed, tokens * keys


def check_documents(lengths: Sequence[int], sequence: int) -> None:
    """Check that documents can fill whole sequences.

    Raises:
        TypeError: if a length is not an integer.
        ValueError: if a length is not positive or longer than a sequence, or if the lengths fill no whole number of
            sequences.
    """
    for length in lengths:
        if isinstance(length, bool) or not isinstance(length, int):
            raise TypeError(f"document_lengths must be integers (got {length!r})")
        if not 0 < length <= sequence:
            raise ValueError(f"document_lengths must be between 1 and the sequence of {sequence} (got {length})")
    if (total := sum(lengths)) % sequence or not total:
        raise ValueError(
            f"document_lengths must fill whole sequences of {sequence} tokens (got {total} in all). "
            "Give padding as a document too."
        )


# The expected utilization of a training run, from published runs near it.
#
# A bound is the minimum time of a step; published steps took 1.4 to 4.8 times as long. ``published_runs.csv``
# has runs with their source: model FLOPs of all pairs per second, as a share of the dense peak of their precision
# (MFU). The published runs nearest to a given run yield a range of MFU.

DATA = Path(__file__).parent / "published_runs.csv"

NEAREST = 3
"""How many runs make a range."""

INSIDE, HALF_RANGE = 0.85, 0.14
"""Leave-one-out test: the share of published runs inside the range of the others, and the median half of that range."""

GENERATIONS = {
    "a100": 1,
    "h100": 2,
    "h200": 2,
    "b200": 3,
    "gb200": 3,
    "b300": 4,
    "gb300": 4,
    "tpu-v4": 11,
    "tpu-v5e": 12,
    "tpu-v5p": 13,
}
"""Generations of devices: of NVIDIA from 1, of other vendors from 11."""

PRECISIONS = {"bf16": 0, "fp8": 1, "mxfp8": 1, "nvfp4": 2}
"""Widths of products, from 16 bits."""

DTYPES = {"bfloat16": "bf16", "float16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float4_e2m1": "nvfp4"}


AXES = ("tp", "pp", "cp")
"""Axes of a mesh that a published run states: tensor, pipeline and context parallelism."""


class RunSetup(NamedTuple):
    """A training run of a language model.

    Attributes:
        parameters: number of parameters.
        active: parameters that process a token; with experts, fewer than all.
        seq: tokens of a sequence.
        device: family of the device, a key of :data:`GENERATIONS`.
        devices: number of devices.
        precision: a key of :data:`PRECISIONS`.
        tp: ranks of tensor parallelism.
        pp: stages of the pipeline.
        cp: ranks of context parallelism.
    """

    parameters: int
    active: int
    seq: int
    device: str
    devices: int
    precision: str
    tp: int = 1
    pp: int = 1
    cp: int = 1

    @property
    def has_experts(self) -> bool:
        """Whether far fewer than all parameters process a token."""
        return self.active < 0.6 * self.parameters


class PublishedRun(NamedTuple):
    """A published run.

    Attributes:
        model: its model.
        setup: its sizes and devices.
        mfu: its MFU, as a share.
        source: where it is published.
    """

    model: str
    setup: RunSetup
    mfu: float
    source: str


class Expected(NamedTuple):
    """An expected MFU, as shares.

    Attributes:
        low: the lower end of the range.
        middle: the weighted geometric mean of the nearest runs.
        high: the upper end.
        nearest: the nearest runs with their distances: about 1 for another generation of device, or for four times as
            many parameters.
    """

    low: float
    middle: float
    high: float
    nearest: Sequence[tuple[PublishedRun, float]]


@cache
def published_runs() -> Sequence[PublishedRun]:
    """Return the published runs."""
    with DATA.open(newline="", encoding="utf-8") as file:
        return [*_read(csv.DictReader(file))]


def _read(rows: Iterator[Mapping[str, str]] | csv.DictReader[str]) -> Iterator[PublishedRun]:
    for row in rows:
        sizes = {name: int(row[name]) for name in ("parameters", "active", "seq", "devices", *AXES)}
        setup = RunSetup(device=row["device"], precision=row["precision"], **sizes)
        yield PublishedRun(row["model"], setup, float(row["mfu"]), row["source"])


def family_of(device: str) -> str | None:
    """Return the key of :data:`GENERATIONS` of a device by its name, ``h100`` of ``h100-sxm5-80gb``; None if none."""
    return max((name for name in GENERATIONS if f"{device}-".startswith(f"{name}-")), key=len, default=None)


def setup_of(step: Step, device: str, devices: int, dtype: str) -> RunSetup | None:
    """Return the run of a captured step; None if it is no language model, or no published run has such devices.

    Args:
        step: the step, of all ranks or of one.
        device: name of the device.
        devices: number of devices.
        dtype: dtype of the products.
    """
    family, precision, seq, sizes = family_of(device), DTYPES.get(dtype), step.sequence, step.parameters
    if family is None or precision is None or seq is None or step.unit != "token":
        return None
    rank = step.report.trace.run.rank
    mesh = {} if rank is None else {axis: size for axis, size in rank.mesh if axis in AXES}
    return RunSetup(sizes.total, sizes.active, seq, family, devices, precision, **mesh)


def expected(setup: RunSetup, runs: Sequence[PublishedRun] | None = None) -> Expected:
    """Return the expected MFU of a run, from the published runs nearest to it.

    Dense models are compared with dense models, and models with experts with models with experts. Half of the range is
    7 % plus the spread of the nearest runs, and grows with the distance of the nearest one.

    Args:
        setup: the run.
        runs: the runs to compare it with; default: all published ones.
    """
    return _of_published(setup) if runs is None else _of_runs(setup, runs)


@cache
def _of_published(setup: RunSetup) -> Expected:
    return _of_runs(setup, published_runs())


def _of_runs(setup: RunSetup, known: Sequence[PublishedRun]) -> Expected:
    alike = [run for run in known if run.setup.has_experts == setup.has_experts]
    pairs = ((run, distance(setup, run.setup)) for run in (alike if len(alike) >= NEAREST else known))
    nearest = sorted(pairs, key=lambda pair: pair[1])[:NEAREST]
    weights = [1 / (0.3 + far) for _, far in nearest]
    middle = sum(w * log(run.mfu) for w, (run, _) in zip(weights, nearest, strict=True)) / sum(weights)
    spread = sum(w * (log(run.mfu) - middle) ** 2 for w, (run, _) in zip(weights, nearest, strict=True)) / sum(weights)
    half = 0.07 + sqrt(spread) + 0.03 * nearest[0][1]
    return Expected(exp(middle - half), exp(middle), exp(middle + half), nearest)


def distance(one: RunSetup, other: RunSetup) -> float:
    """Return how far two runs are from each other; its weights are a choice, tested by leaving runs out."""
    far = 0.5 * _doublings(one.active, other.active)
    far += 0.3 * _doublings(one.seq, other.seq)
    far += 0.15 * _doublings(one.devices, other.devices)
    far += 0.1 * sum(_doublings(getattr(one, axis), getattr(other, axis)) for axis in AXES)
    far += 1.5 * abs(PRECISIONS[one.precision] - PRECISIONS[other.precision])
    far += 2 * (one.has_experts != other.has_experts)
    if one.device == other.device:
        return far
    a, b = GENERATIONS[one.device], GENERATIONS[other.device]
    return far + 1.5 * (1 if a == b else 2 if (a < 10) == (b < 10) else 4)


def _doublings(one: int, other: int) -> float:
    return abs(log2(one / other))


def nearest_runs(found: Expected) -> Table:
    """Return the runs behind a range as a table."""
    columns = [
        *(Column("model", "Model"), Column("device", "Device"), Column("devices", "Devices", "count")),
        *(Column("seq", "Sequence", "count"), Column("precision", "Precision"), Column("mesh", "Mesh")),
        *(Column("mfu", "MFU", "percent"), Column("distance", "Distance", "ratio"), Column("source", "Source")),
    ]
    rows = [
        {
            "model": run.model,
            **{name: getattr(run.setup, name) for name in ("device", "devices", "seq", "precision")},
            "mesh": ", ".join(f"{axis}={getattr(run.setup, axis)}" for axis in AXES if getattr(run.setup, axis) > 1),
            "mfu": Formatted(100 * run.mfu, f"{run.mfu:.1%}"),
            "distance": Formatted(far, f"{far:.1f}"),
            "source": run.source,
        }
        for run, far in found.nearest
    ]
    return Table("Nearest published runs", columns, rows, dropped_first=("source", "precision", "mesh"))
