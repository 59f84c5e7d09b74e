"""One captured micro-batch: its FLOPs by phase and kind of product, its tokens, and the parameters of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

from costcore.analyses.conventions.whole import Transformer
from costcore.errors import CostError
from costcore.ir import OPERATION_CLASSES, Operations
from costcore.numbers.symbolic import as_text
from costcore.reports.data.report_data import ReportData
from costcore.studies.training.products import EXPERTS, KINDS, WEIGHTS, Packing, Products
from costcore.studies.training.utilization import HARDWARE_PHASES, MODEL_PHASES
from costcore.trace.call import PHASES


class Parameters(NamedTuple):
    """Numbers of parameters of a model.

    Attributes:
        total: all parameters.
        trainable: those that are trained; None if the report does not know the modules.
        active: those that a token meets: all but those of the experts that it is not sent to.
        multiplying: MACs with weights per token in the forward pass: no embedding tables, norms or biases, a tied
            output layer once, experts that a token meets; None if it is not a whole number.
    """

    total: int
    trainable: int | None
    active: int
    multiplying: int | None


class Step:
    """A captured micro-batch, as a ledger counts it.

    Args:
        report: its report.
        packing: what is known of masks.
        tokens: tokens (or samples) of the micro-batch; default: those that the report shows.
        capacity_factor: tokens that experts compute, per token that they are sent, if experts pad to a capacity.

    Raises:
        CostError: if sizes are symbolic, tokens are unknown, or a capacity is given for a model without experts.
    """

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
        self.unit, self.tokens = _tokens(report) if tokens is None else (_unit(report), tokens)
        if capacity_factor is not None and not any(product.kind == EXPERTS for product in self.products):
            raise CostError(
                "capacity_factor needs experts that run as one operator (grouped_mm); this report has no such operator"
            )

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
        """FLOPs of the rows by which experts pad to their capacity; rounded to a whole number."""
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
    def _sums(self) -> dict[str, Counter[tuple[str, str]]]:
        return {}

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
        """Parameters of experts that a token does not meet, if experts are balanced; rounded down."""
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
        """The shapes of the inputs of the model; of the data that the first call reads, if inputs are unknown."""
        given = self.report.trace.run.inputs
        shapes: dict[int, tuple[int, ...]] = {}
        for call in self.report.trace.calls:
            for position, (each, tensor) in enumerate(zip(call.inputs, call.layer.inputs.values(), strict=False)):
                if each in given or (not given and not shapes and not position):
                    shapes.setdefault(each, tensor.shape)
        return list(shapes.values())

    @property
    def masked(self) -> int:
        """Number of modules whose attention may be causal: by a mask that is a tensor, or written as products."""
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
    """Return what the batch consists of, and how many of it there are.

    Raises:
        CostError: if the first call reads no data.
    """
    if _unit(report) == "token":
        return "token", int(Transformer(report.trace).tokens)
    given = report.trace.run.inputs  # sharded parameters that are gathered are data too
    for known in (given, None) if given else (None,):
        for call in report.trace.calls:
            for each, tensor in zip(call.inputs or repeat(None), call.layer.inputs.values(), strict=False):
                is_read = tensor.role == "data" and tensor.ndim and call.phase == "forward"
                if is_read and (known is None or each in known):
                    return "sample", int(tensor.shape[0])
    raise CostError(f"the batch is unknown: {as_text(report.total_report['n_layers'])} calls read no data. Give batch=")


def _unit(report: ReportData) -> str:
    """Return ``token`` if the model looks up embeddings, else ``sample``."""
    return "token" if Transformer(report.trace).n_tables else "sample"
