"""The training ledger: the FLOPs of a training run, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import IO, Any

from costcore.analyses.devices.device import Device
from costcore.api.estimate import estimate
from costcore.errors import CostError
from costcore.messages import unknown
from costcore.reports.data.report_data import ReportData
from costcore.studies.batch_size.largest import LargestBatch
from costcore.studies.batch_size.limit import CONTEXT
from costcore.studies.serving.capacity import memory_of
from costcore.studies.training.arguments import check_share, whole
from costcore.studies.training.largest import largest_step
from costcore.studies.training.ledger_data import LedgerData
from costcore.studies.training.pairs import check_documents
from costcore.studies.training.products import ATTENTION, Packing
from costcore.studies.training.stage import Stage
from costcore.studies.training.step import Step
from costcore.studies.training.utilization import check_positive
from costcore.tables.answer import Answer
from costcore.tables.result import Result, Stated
from costcore.text.targets import Target
from costcore.trace.input_shapes import has_names, with_tensors


class TrainingLedger(Result, LedgerData):
    """The FLOPs of a training run: of one stage, or of several that add up.

    Model FLOPs are two per MAC of the forward and backward pass of what was captured: LoRA, frozen parts and experts
    count as they ran. Recomputation, the padding of experts and the optimizer are stated apart. All are exact integers.
    ::

        ledger = TrainingLedger(model, {"input_ids": Tensor((1, 8192), "int64")}, tokens=15.6e12)
        ledger.model_flops, ledger.hardware_flops
        ledger.show()

        ledger = TrainingLedger(devices=64, device="h100-sxm5-80gb")
        ledger.add("pre-training", report, tokens=1e12)
        ledger.add("fine-tuning", lora_report, steps=2000, accumulation=4)
        ledger.mfu(step_seconds=3.1, stage="pre-training")

    Args:
        model: a model as :func:`costcore.estimate` takes it, whose forward and backward pass are captured; a report of
            a training step, captured or saved; or None for a ledger without a stage.
        inputs: inputs of the model, one micro-batch.
        devices: number of devices.
        device: the device, for peaks: a name that ``costcore devices`` lists, a ``.toml`` file or a device.
        dtype: dtype of the products, which selects the peak.
        peak: FLOP/s of one device, instead of that of a known device.
        pairs: how :attr:`model_flops` counts pairs of attention. ``all``: every query with every key, as papers do;
            ``causal``: those that causal flags and windows allow; ``packed``: those within one document too. The others
            are always shown as well.
        stage: name of the stage.
        options: arguments of :meth:`add` and :func:`costcore.estimate`.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if the model cannot be counted.
    """

    def __init__(
        self,
        model: Any = None,
        inputs: Any = None,
        *,
        devices: int = 1,
        device: str | PathLike[str] | Device | None = None,
        dtype: str = "bfloat16",
        peak: float | None = None,
        pairs: str = "all",
        stage: str = "training",
        **options: Any,
    ) -> None:
        super().__init__(devices, device, dtype, peak, pairs)
        if model is not None:
            self.add(stage, model, inputs, **options)
        elif options or inputs is not None:
            raise TypeError(f"a ledger without a model takes no {', '.join(options) or 'inputs'}: give them to add")

    def add(
        self,
        stage: str,
        report: Any,
        inputs: Any = None,
        *,
        steps: int | None = None,
        tokens: float | None = None,
        accumulation: int = 1,
        replicas: int | None = None,
        batch: int | None = None,
        document_lengths: Sequence[int] = (),
        masks: str = "unknown",
        padding_share: float = 0.0,
        capacity_factor: float | None = None,
        because: str = "",
        device_memory: int | str | None = None,
        context: int | str = CONTEXT,
        **options: Any,
    ) -> Stage:
        """Add a stage, such as pre-training, context extension or fine-tuning, and return it.

        Args:
            stage: its name.
            report: the report of one micro-batch, captured with ``backward=True``; or a model.
            inputs: inputs of the model, if it is one. If their batch has a name, ``(("batch", 8192), "int64")``, and
                the memory of a device is known, the micro-batch is the largest one that fits: :attr:`Stage.largest`.
            steps: number of steps of the optimizer; default: one, unless ``tokens`` are given.
            tokens: tokens (samples, of a model without embeddings) of the stage, instead of steps.
            accumulation: micro-batches of one replica per step.
            replicas: copies of the model that run micro-batches of their own (data parallelism); default: one per
                device, and 1 for the report of one rank of a mesh.
            batch: tokens (or samples) of a micro-batch; default: those that the report shows.
            document_lengths: tokens of the documents packed into the sequences of a micro-batch. They have to fill
                whole sequences. FLOPs of all pairs do not change: ``pairs="packed"`` has only pairs within a document.
            masks: ``causal`` if masks that are tensors are causal, also in attention that is written as products.
                ``unknown`` counts all of their pairs.
            padding_share: the share of tokens that are padding. Devices compute them, so they are part of all FLOPs.
                The share is stated, and used by rules that skip padding.
            capacity_factor: rows that experts compute, per row that they are sent, if they pad to a capacity; part of
                hardware FLOPs only.
            because: why the stage belongs to the total.
            device_memory: the memory of a device, as ``"80 GB"``; default: that of the device of the ledger.
            context: what a process takes of it before its first tensor.
            options: of :func:`costcore.estimate`, if a model is given, such as ``optimizer="adamw"``.

        Raises:
            TypeError, ValueError: if an argument is invalid.
            CostError: if the model cannot be counted, or the report has no backward pass or symbolic sizes.
        """
        if any(each.name == stage for each in self.stages):
            raise ValueError(f"the ledger already has a stage {stage!r}")
        if steps is not None and tokens is not None:
            raise ValueError("steps and tokens exclude each other")
        if masks not in ("unknown", "causal"):
            raise ValueError(unknown("value of masks", masks, ("unknown", "causal")))
        packing = Packing(tuple(document_lengths), masks == "causal")
        is_open = not isinstance(report, ReportData) and has_names(with_tensors(inputs))
        if is_open and device_memory is None and self.device is not None:
            device_memory = memory_of(self.device)
        largest: LargestBatch | None = None
        captured: ReportData | None = None
        if is_open and device_memory is not None:
            accumulates = whole(accumulation, "accumulation") > 1
            terms: dict[str, Any] = {"context": context, "accumulates": accumulates, **options}
            largest, captured = largest_step(report, inputs, device_memory, **terms)
        if captured is None:
            captured = _captured(report, inputs, options)
        step = Step(captured, packing, None if batch is None else whole(batch, "batch"), _capacity(capacity_factor))
        if not captured.trace.has_backward:
            raise CostError(f"{stage}: the report has no backward pass: capture a training step (backward=True)")
        if packing.documents:
            check_documents(packing.documents, _sequence(step))
        if replicas is None:
            replicas = self.devices if captured.trace.run.rank is None else 1
        micro_batches = whole(accumulation, "accumulation") * whole(replicas, "replicas")
        n_steps = 1 if steps is None else whole(steps, "steps")
        total = n_steps * micro_batches * step.tokens if tokens is None else whole(tokens, "tokens")
        share = check_share(padding_share, "padding_share")
        self.stages.append(Stage(stage, step, total, accumulation, replicas, share, because, largest))
        self.__dict__.pop("rules", None)
        return self.stages[-1]

    def _answer(self) -> Answer:
        from costcore.studies.training.answer import answer_of

        return answer_of(self)

    def to_dict(self, **arguments: Any) -> dict[str, Any]:
        """Return the ledger in plain JSON types, as ``costcore/studies/training/ledger.schema.json`` describes them.

        Args:
            arguments: of :func:`costcore.studies.training.document.to_dict`: ``base_flops``, ``base_source``,
                ``step_seconds`` by stage, ``date``.
        """
        from costcore.studies.training.document import to_dict

        return to_dict(self, **arguments)

    def to_json(self, target: Target = None, indent: int | None = None, **arguments: Any) -> str:
        """Return :meth:`to_dict` as JSON text, and write it to ``target`` if given."""
        from costcore.reports.serialization.to_json import to_json

        return to_json(self.to_dict(**arguments), target, indent)

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "auto",
        n_digits: int | None = None,
        *,
        step_seconds: float | Mapping[str, float] | None = None,
        base_flops: float | None = None,
        mfu: float | None = None,
        price: float | None = None,
        watts: float | None = None,
        thresholds: bool = False,
    ) -> None:
        """Write what ``print`` shows: FLOPs of the run and per token, the stages, rules, and thresholds.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: as for every result; JSON is that of :meth:`to_json`, without what follows.
            unit: as for every result.
            n_digits: as for every result.
            step_seconds: measured seconds per step, for MFU and HFU, by name of the stage; or a number, if there is one
                stage.
            base_flops: training FLOPs of the model that this run modifies.
            mfu: the utilization of stages that were not measured; default: 0.4.
            price: the price of one device for an hour, in any currency.
            watts: the power of one device.
            thresholds: list thresholds of laws also if the run reaches less than a tenth of each.

        Raises:
            TypeError, ValueError: if an argument is invalid.
            CostError: if seconds, an MFU, a price or a power are given and no device is known.
        """
        from costcore.studies.training.answer import answer_of
        from costcore.studies.training.rates import USUAL_MFU, Rates

        base = None if base_flops is None else whole(base_flops, "base_flops")
        if not (mfu is price is watts is None):
            self._known_peak()
        rates = Rates(USUAL_MFU if mfu is None else mfu, price, watts).checked()
        answer = answer_of(self, base, self.seconds_by_stage(step_seconds), rates, thresholds)
        if mode == "json":
            super().show(ost, mode)
        else:
            Stated(answer).show(ost, mode, unit, n_digits)


def _captured(report: Any, inputs: Any, options: dict[str, Any]) -> ReportData:
    """Return a report, or capture one of a model.

    Raises:
        TypeError: if a report is given with options for a capture.
    """
    if not isinstance(report, ReportData):
        return estimate(report, inputs, **{"backward": True, **options})
    if options or inputs is not None:
        given = ", ".join([*options, *(["inputs"] if inputs is not None else [])])
        raise TypeError(f"{given} cannot be used with a report, which is captured already")
    return report


def _capacity(factor: float | None) -> float | None:
    if factor is not None:
        check_positive(capacity_factor=factor)
        if factor < 1:
            raise ValueError(f"capacity_factor must be at least 1 (got {factor!r})")
    return factor


def _sequence(step: Step) -> int:
    """Return the longest sequence that attends to itself.

    Raises:
        ValueError: if there is no attention.
    """
    calls = [product.call for product in step.products if product.kind == ATTENTION]
    queries = [call.layer["q"].shape[-2] for call in calls if "q" in call.layer]
    queries += [call.layer["x0"].shape[-2] for call in calls if "x0" in call.layer and call.phase == "forward"]
    if not queries:
        raise ValueError("document_lengths needs a model with attention")
    return int(max(queries))
