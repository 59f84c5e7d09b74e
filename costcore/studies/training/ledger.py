"""The training ledger: the FLOPs of a training run stage by stage, with its days, energy and price.

:class:`TrainingLedger` captures one micro-batch per stage, optionally the largest one that fits the device. Sums and
rules are in :mod:`costcore.studies.training.figures`; here are the tables of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple

from costcore.analyses.devices.device import Device, find_device
from costcore.api.estimate import estimate, model_and_inputs
from costcore.errors import CostError, unknown
from costcore.reports.data import ReportData
from costcore.reports.report import Report
from costcore.studies.batch_inputs import inputs_of_batch, make_limit
from costcore.studies.batch_size import Captures, LargestBatch, check_model, find_largest, step_options
from costcore.studies.serving.report import memory_of
from costcore.studies.training.figures import (
    ALL,
    CAUSAL,
    HARDWARE,
    PACKED,
    Crossing,
    LedgerData,
    RuleFigure,
    Stage,
    check_share,
    crossings,
    whole,
)
from costcore.studies.training.step import (
    ATTENTION,
    INSIDE,
    KINDS,
    MODEL_PHASES,
    NEAREST,
    PAIRS,
    Expected,
    Packing,
    Step,
    check_documents,
    check_positive,
    expected,
    nearest_runs,
    setup_of,
)
from costcore.tables.answer import Content, Figure
from costcore.tables.result import Result, StaticResult, Table
from costcore.text.amounts import Formatted, exact, short
from costcore.text.output import Column, Target
from costcore.trace.trace import has_names, with_tensors


class TrainingLedger(Result, LedgerData):
    """The FLOPs of a training run: of one stage, or of several that add up.

    Model FLOPs are two per MAC of the captured forward and backward pass: LoRA, frozen parts and experts count as
    they ran. Recomputation, the padding of experts and the optimizer are separate. All are exact integers.
    ::

        ledger = TrainingLedger(model, {"input_ids": Tensor((1, 8192), "int64")}, tokens=15.6e12)
        ledger.model_flops, ledger.hardware_flops
        ledger.show()

        ledger = TrainingLedger(devices=64, device="h100-sxm5-80gb")
        ledger.add("pre-training", report, tokens=1e12)
        ledger.add("fine-tuning", lora_report, steps=2000, accumulation=4)
        ledger.mfu(step_seconds=3.1, stage="pre-training")

    Args:
        model: a model as :func:`costcore.estimate` takes it, to capture its forward and backward pass; a report of a
            training step, captured or saved; or None for a ledger without a stage.
        inputs: inputs of the model, one micro-batch.
        devices: number of devices.
        device: the device, for peaks: a name that ``costcore devices`` lists, a ``.toml`` file or a device.
        dtype: dtype of the products, which selects the peak.
        peak: FLOP/s of one device, instead of that of a known device.
        pairs: how :attr:`model_flops` counts pairs of attention. ``all``: every query with every key, as papers do;
            ``causal``: only pairs within causal flags and windows; ``packed``: only those within one document. Tables
            always show all three counts.
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
        context: int | str | None = None,
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
            batch: tokens (or samples) of a micro-batch; default: from the report.
            document_lengths: tokens of the documents packed into the sequences of a micro-batch. They have to fill
                whole sequences. FLOPs of all pairs do not change: ``pairs="packed"`` has only pairs within a document.
            masks: ``causal`` states that mask tensors are causal, also in attention that the model writes as products.
                ``unknown`` counts all of their pairs.
            padding_share: the share of tokens that are padding. Devices compute them, so they are part of all FLOPs.
                Published rules that leave out padding use the share.
            capacity_factor: rows that experts compute per row routed to them, if they pad to a fixed capacity; part of
                hardware FLOPs only.
            because: why the stage belongs to the total.
            device_memory: the memory of a device, as ``"80 GB"``; default: that of the device of the ledger.
            context: memory that a process takes before its first tensor.
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
        has_named_batch = not isinstance(report, ReportData) and has_names(with_tensors(inputs))
        if has_named_batch and device_memory is None and self.device is not None:
            device_memory = memory_of(self.device)
        largest: LargestBatch | None = None
        captured: ReportData | None = None
        if has_named_batch and device_memory is not None:
            accumulates = whole(accumulation, "accumulation") > 1
            terms: dict[str, Any] = {"context": context, "accumulates": accumulates, **options}
            largest, captured = largest_step(report, inputs, device_memory, **terms)
        if captured is None:
            captured = _captured(report, inputs, options)
        step = Step(captured, packing, None if batch is None else whole(batch, "batch"), _capacity(capacity_factor))
        if not captured.trace.has_backward:
            raise CostError(f"{stage}: the report has no backward pass: capture a training step (backward=True)")
        if packing.masks_are_causal and not any(product.kind == ATTENTION for product in step.products):
            raise ValueError('masks="causal" (--masks causal) needs a model with attention: leave it out')
        if packing.documents:
            if step.sequence is None:
                raise ValueError("document_lengths needs a model with attention")
            check_documents(packing.documents, step.sequence)
        if replicas is None:
            replicas = self.devices if captured.trace.run.rank is None else 1
        micro_batches = whole(accumulation, "accumulation") * whole(replicas, "replicas")
        n_steps = 1 if steps is None else whole(steps, "steps")
        total = n_steps * micro_batches * step.tokens if tokens is None else whole(tokens, "tokens")
        share = check_share(padding_share, "padding_share")
        self.stages.append(Stage(stage, step, total, accumulation, replicas, share, because, largest))
        # A cached property, which depends on the stages.
        self.__dict__.pop("rules", None)
        return self.stages[-1]

    def _content(self) -> Content:
        return answer_of(self)

    def to_dict(self, **arguments: Any) -> dict[str, Any]:
        """Return the ledger in plain JSON types, as ``costcore/studies/training/ledger.schema.json`` describes them.

        Args:
            arguments: of :func:`costcore.studies.training.figures.to_dict`: ``base_flops``, ``base_source``,
                ``step_seconds`` by stage, ``date``.
        """
        from costcore.studies.training.figures import to_dict

        return to_dict(self, **arguments)

    def to_json(self, target: Target = None, indent: int | None = None, **arguments: Any) -> str:
        """Return :meth:`to_dict` as JSON text, and write it to ``target`` if given."""
        from costcore.reports.json import to_json

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
            mode: as for every result; ``json`` is :meth:`to_json`, without the options below.
            unit: as for every result.
            n_digits: as for every result.
            step_seconds: measured seconds per step, for MFU and HFU, by name of the stage; or a number, if there is one
                stage.
            base_flops: training FLOPs of the model that this run modifies.
            mfu: the utilization of stages that were not measured; default: the mean of the nearest published runs, of
                dense models or of models with experts, else 0.4.
            price: the price of one device for an hour, in any currency.
            watts: the power of one device.
            thresholds: list thresholds of laws even if the run stays below a tenth of each.

        Raises:
            TypeError, ValueError: if an argument is invalid.
            CostError: if seconds, an MFU, a price or a power are given and no device is known.
        """
        if mode == "json":
            super().show(ost, mode)
        else:
            given: Any = {"step_seconds": step_seconds, "base_flops": base_flops, "mfu": mfu, "price": price}
            answered(self, **given, watts=watts, thresholds=thresholds).show(ost, mode, unit, n_digits)


def _captured(report: Any, inputs: Any, options: dict[str, Any]) -> ReportData:
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


# The largest micro-batch that fits a device.


def largest_step(
    model: Any,
    inputs: Any,
    memory: int | str,
    *,
    context: int | str | None = None,
    accumulates: bool = False,
    optimizer: Any = None,
    **options: Any,
) -> tuple[LargestBatch, Report]:
    """Return the largest batch of one pass that fits, and the report of that pass.

    The next larger batch is captured too, to confirm that it does not fit.

    Args:
        model: the model.
        inputs: inputs with a named batch.
        memory: the memory of a device.
        context: memory that a process takes before its first tensor.
        accumulates: whether the pass begins with gradients of earlier micro-batches.
        optimizer: the optimizer.
        options: further options of :func:`costcore.estimate`, such as ``mesh``, ``plan`` and ``checkpoint``.

    Raises:
        CostError: if not even the smallest batch fits, or the model cannot be captured.
        TypeError, ValueError: if an argument is invalid.
    """
    limit = make_limit(memory, context)
    model, inputs = model_and_inputs(model, inputs, is_step=True)
    check_model(model)
    chosen = step_options(True, optimizer, None, options, limit.allocator)
    if accumulates:
        chosen["step"] = "accumulated"
    captures = Captures(model, inputs_of_batch(inputs), chosen)
    found = find_largest(captures, limit)
    if not found.batch:
        needed, memory_of_device = (short(nbytes, "bytes") for nbytes in (found.needed, limit.memory))
        raise CostError(f"not even the smallest batch fits: it needs {needed} of {memory_of_device}")
    return found, captures.report(found.batch)


# Devices, energy and money of a run, at rates given by the user.


USUAL_MFU = 0.4
"""The default utilization, without a measured step, an MFU or published runs."""


class Rates(NamedTuple):
    """The utilization, price and power of devices.

    Attributes:
        mfu: the utilization of stages that were not measured; None for that of published runs.
        price: the price of one device for an hour, in any currency; None if unknown.
        watts: the power of one device; None if unknown.
    """

    mfu: float | None = None
    price: float | None = None
    watts: float | None = None

    def checked(self) -> Rates:
        """Return the rates after validation.

        Raises:
            TypeError, ValueError: if one is not a positive number.
        """
        check_positive(**{name: value for name, value in self._asdict().items() if value is not None})
        return self

    def of(self, device_hours: float) -> dict[str, float]:
        """Return price and energy (kWh) of device hours, if known."""
        found = {}
        if self.price is not None:
            found["price"] = device_hours * self.price
        if self.watts is not None:
            found["kwh"] = device_hours * self.watts / 1000
        return found


# Figures and tables of a ledger.


NAMES = {"all": ALL, "causal": CAUSAL, "packed": PACKED}
"""The names of the counts by how pairs of attention are counted."""

NEAR = 10
"""Thresholds are listed from a tenth of their value."""

NONE: Mapping[str, float] = {}


def answer_of(
    ledger: LedgerData,
    base_flops: int | None = None,
    step_seconds: Mapping[str, float] = NONE,
    rates: Rates = Rates(),  # noqa: B008  # it is immutable
    all_thresholds: bool = False,
) -> Content:
    """Return the FLOPs by count, the stages, published rules, thresholds, and remarks.

    Args:
        ledger: the ledger.
        base_flops: FLOPs of the training of the base model, if there is one.
        step_seconds: measured seconds per step, by name of the stage.
        rates: the utilization, price and power of devices.
        all_thresholds: whether to list thresholds far above the run, too.
    """
    title = f"Training, {len(ledger.stages)} stage{'s' * (len(ledger.stages) != 1)}, {ledger.pairs} pairs"
    tables = [_stages(ledger), _models(ledger), _steps(ledger, step_seconds), _per_token(ledger), _rules(ledger)]
    published = None if step_seconds else _published(ledger)
    if published is not None:
        tables.insert(3, nearest_runs(published))
    mfu = rates.mfu or (USUAL_MFU if published is None else published.middle)
    found = crossings(ledger.counts, base_flops)
    if all_thresholds or _is_near(found, max(ledger.counts.values()) + (base_flops or 0)):
        tables.append(_thresholds(found, base_flops))
    figures = [*_figures(ledger, step_seconds, rates, mfu, published), *_published_figures(ledger, published, rates)]
    return Content(title, figures, tables, [*_remarks(ledger), *_off_published(published, mfu)])


def answered(
    ledger: TrainingLedger,
    *,
    step_seconds: float | Mapping[str, float] | None = None,
    base_flops: float | None = None,
    mfu: float | None = None,
    price: float | None = None,
    watts: float | None = None,
    thresholds: bool = False,
) -> StaticResult:
    """Return the content that :meth:`TrainingLedger.show` writes with these arguments."""
    base = None if base_flops is None else whole(base_flops, "base_flops")
    if not (mfu is price is watts is None):
        ledger.known_peak()
    rates = Rates(mfu, price, watts).checked()
    return StaticResult(answer_of(ledger, base, ledger.seconds_by_stage(step_seconds), rates, thresholds))


def flops(amount: float) -> str:
    """Return FLOPs with four digits, ``2.625e12``.

    >>> flops(2625000000000)
    '2.625e12'
    """
    mantissa, _, exponent = f"{amount:.3e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def _figures(
    ledger: LedgerData, step_seconds: Mapping[str, float], rates: Rates, mfu: float, published: Expected | None
) -> Iterator[Figure]:
    yield _figure("model_flops", "Model FLOPs", ledger.model_flops)
    yield _figure("hardware_flops", "Hardware FLOPs", ledger.hardware_flops)
    others = {name: amount for name, amount in ledger.counts.items() if name not in (HARDWARE, NAMES[ledger.pairs])}
    yield from (_figure(f"flops, {name}", f"FLOPs, {name}", amount) for name, amount in others.items())
    if ledger.optimizer_flops:
        yield _figure("optimizer_flops", "Operations of the optimizer", ledger.optimizer_flops, "in neither; ")
    for stage in ledger.stages:
        if stage.largest is not None:
            room = short(stage.largest.limit.memory, "bytes")
            needed = f"{short(stage.largest.needed, 'bytes')} of {room}"
            of = f" of {stage.name}" if len(ledger.stages) > 1 else ""
            yield Figure(f"largest, {stage.name}", f"Largest batch per rank{of}", stage.largest.batch, "count", needed)
    yield Figure("tokens", f"{_unit(ledger).capitalize()}s", ledger.tokens, "count")
    if ledger.peak is not None:
        if len(step_seconds) == len(ledger.stages) == 1:  # of several stages, the table has them
            ((stage_name, seconds),) = step_seconds.items()
            shares = {"mfu": ledger.mfu(seconds, stage_name), "hfu": ledger.hfu(seconds, stage_name)}
            for (name, share), of in zip(shares.items(), ("model", "hardware"), strict=True):
                shown = Formatted(share, f"{100 * share:.1f} %")
                yield Figure(name, name.upper(), shown, "ratio", f"of {of} FLOPs", "measured")
        days = ledger.days(mfu, step_seconds)
        of_peak = f"{ledger.dtype}, dense{', data sheet' * (ledger.device is not None)}"
        on = f"on {ledger.devices:,} x {ledger.peak / 1e12:,.1f} TFLOP/s ({of_peak})"
        because = f"{_basis_of_days(ledger, step_seconds, _utilization(rates, mfu, published))} {on}"
        yield Figure("days", "Time", Formatted(days, _in_days(days)), "ratio", because)
        hours = 24 * days * ledger.devices
        yield Figure("device_hours", "Devices", Formatted(hours, f"{hours:,.2f} {ledger.device_hours_name}"), "ratio")
        of_rates = rates.of(hours)
        if rates.price is not None:
            price = of_rates["price"]
            yield Figure("price", "Price", Formatted(price, f"{price:,.2f}"), "ratio", f"at {rates.price:g} an hour")
        if rates.watts is not None:
            kwh = of_rates["kwh"]
            yield Figure("kwh", "Energy", Formatted(kwh, f"{kwh:,.2f} kWh"), "ratio", f"at {rates.watts:g} W")


def _published(ledger: LedgerData) -> Expected | None:
    if len(ledger.stages) != 1 or ledger.device is None:
        return None
    setup = setup_of(ledger.stages[0].step, find_device(ledger.device).name, ledger.devices, ledger.dtype)
    if setup is None:
        return None
    # Published runs count all pairs.
    found, share = expected(setup), ledger.model_flops / ledger.model_flops_with("all")
    return found._replace(low=share * found.low, middle=share * found.middle, high=share * found.high)


def _published_figures(ledger: LedgerData, found: Expected | None, rates: Rates) -> Iterator[Figure]:
    if found is None:
        return
    shown = f"{100 * found.low:.0f} to {100 * found.high:.0f} % MFU"
    counted = "" if ledger.pairs == "all" else f", with {ledger.pairs} pairs"
    because = f"from the {NEAREST} nearest{counted}; such ranges contain {INSIDE:.0%} of runs left out"
    yield Figure("published_mfu", "Published runs", Formatted(found.middle, shown), "ratio", because, "calibrated")
    slow, middle, fast = (ledger.days(share, {}) for share in (found.low, found.middle, found.high))
    shown = _in_days(fast, slow)
    yield Figure("published_days", "Time at that MFU", Formatted(middle, shown), "ratio")
    costs = [rates.of(24 * days * ledger.devices) for days in (fast, middle, slow)]
    titles = {"price": ("Price at that MFU", ""), "kwh": ("Energy at that MFU", " kWh")}
    for name in costs[0]:
        title, unit = titles[name]
        least, usual, most = (each[name] for each in costs)
        yield Figure(f"published_{name}", title, Formatted(usual, f"{least:,.2f} to {most:,.2f}{unit}"), "ratio")


def _utilization(rates: Rates, mfu: float, found: Expected | None) -> str:
    share = f"{100 * mfu:.0f} % MFU"
    if rates.mfu is None and found is not None:
        kind = "models with experts" if found.nearest[0][0].setup.has_experts else "dense models"
        return f"{share}, the mean of the nearest published runs of {kind},"
    side = _side(found, mfu)
    return f"{share}, {side} published runs," if side else share if rates.mfu else f"{share}, an assumption,"


def _side(found: Expected | None, mfu: float) -> str:
    if found is None or found.low <= mfu <= found.high:
        return ""
    return "above" if mfu > found.high else "below"


def _off_published(found: Expected | None, mfu: float) -> Iterator[str]:
    if found is not None and (side := _side(found, mfu)):
        reached = f"{100 * found.low:.0f} to {100 * found.high:.0f} %"
        yield (
            f"{100 * mfu:.0f} % MFU is {side} the {reached} of the nearest published runs: "
            f"their mean is --mfu {100 * found.middle:.0f}%"
        )


def _in_days(*days: float) -> str:
    factor, unit = (1, "days") if max(days) >= 1 else (24, "hours")
    return f"{' to '.join(f'{factor * each:,.2f}' for each in days)} {unit}"


def _figure(name: str, title: str, amount: int, because: str = "") -> Figure:
    return Figure(name, title, _rounded(amount), "flops", because + exact(amount))


def _unit(ledger: LedgerData) -> str:
    return ledger.stages[0].step.unit if ledger.stages else "token"


def _basis_of_days(ledger: LedgerData, step_seconds: Mapping[str, float], utilization: str) -> str:
    usual = f"at {utilization}"
    left = [stage.name for stage in ledger.stages if stage.name not in step_seconds]
    if not left:
        return "of measured steps"
    return f"of measured steps, {', '.join(left)} {usual.rstrip(',')}," if step_seconds else usual


def _stages(ledger: LedgerData) -> Table:
    unit = _unit(ledger)
    columns = [
        *(
            Column("stage", "Stage"),
            Column("because", "Part of it"),
            Column("tokens", f"{unit.capitalize()}s", "count"),
        ),
        Column("flops_per_token", f"Model FLOPs per {unit}", "ratio"),
        *(Column("model_flops", "Model FLOPs", "count"), Column("hardware_flops", "Hardware FLOPs", "count")),
    ]
    rows = [
        {
            "stage": stage.name,
            "because": stage.because,
            "tokens": _counted(stage.tokens),
            "flops_per_token": _rounded(stage.step.model_flops(ledger.pairs) / stage.step.tokens),
            "model_flops": _rounded(stage.model_flops(ledger.pairs)),
            "hardware_flops": _rounded(stage.hardware_flops(ledger.pairs)),
        }
        for stage in ledger.stages
    ]
    return _table("Stages", columns, rows)


def _models(ledger: LedgerData) -> Table:
    columns = [
        *(Column("stage", "Stage"), Column("n_params", "Parameters", "count"), Column("active", "Active", "count")),
        *(Column("multiplying", "In matmuls", "count"), Column("trainable", "Trained", "count")),
        Column("input", "Input", "shapes"),
    ]
    rows = []
    for stage in ledger.stages:
        found = stage.step.parameters
        rows.append(
            {
                "stage": stage.name,
                "n_params": _counted(found.total),
                "active": "" if found.active == found.total else _counted(found.active),
                "multiplying": None if found.multiplying is None else _counted(found.multiplying),
                "trainable": "" if found.trainable in (None, found.total) else _counted(found.trainable),
                "input": Formatted(
                    stage.step.input_shapes, ", ".join("x".join(map(str, s)) for s in stage.step.input_shapes)
                ),
            }
        )
    return _table("Models, one micro-batch each", columns, rows)


def _steps(ledger: LedgerData, step_seconds: Mapping[str, float]) -> Table:
    columns = [
        *(Column("stage", "Stage"), Column("micro_batches", "Micro-batches", "count")),
        *(Column("replicas", "Replicas", "count"), Column("tokens", f"{_unit(ledger).capitalize()}s", "count")),
        *(Column("padding", "Padding", "percent"), Column("model_flops", "Model FLOPs", "count")),
        *(Column("optimizer_flops", "Optimizer", "count"), Column("seconds", "Measured", "ratio", "measured")),
        *(Column("mfu", "MFU", "percent", "measured"), Column("hfu", "HFU", "percent", "measured")),
    ]
    rows = []
    for stage in ledger.stages:
        row: dict[str, Any] = {
            "stage": stage.name,
            "micro_batches": stage.accumulation if stage.micro_batches > 1 else "",
            "replicas": stage.replicas if stage.micro_batches > 1 else "",
            "tokens": _counted(stage.tokens_per_step),
            "padding": _share(stage.padding_share) if stage.padding_share else "",
            "model_flops": _rounded(stage.step.model_flops(ledger.pairs) * stage.micro_batches),
            "optimizer_flops": _rounded(stage.step.optimizer_flops) if stage.step.optimizer_flops else "",
        }
        if seconds := step_seconds.get(stage.name):
            row |= {"seconds": Formatted(seconds, f"{seconds:g} s")}
            row |= {"mfu": _share(ledger.mfu(seconds, stage.name)), "hfu": _share(ledger.hfu(seconds, stage.name))}
        rows.append(row)
    return _table("A step", columns, rows)


def _per_token(ledger: LedgerData) -> Table:
    columns = [
        *(Column("stage", "Stage"), *(Column(kind, kind.capitalize(), "ratio") for kind in KINDS)),
        *(Column(NAMES[pairs], NAMES[pairs].capitalize(), "ratio") for pairs in PAIRS),
        *(Column("recompute", "Recomputation", "ratio"), Column("capacity", "Padding of experts", "ratio")),
    ]
    rows = [{"stage": stage.name, **_amounts_per_token(stage, ledger.pairs)} for stage in ledger.stages]
    return _table(f"FLOPs per {_unit(ledger)}", columns, rows)


def _amounts_per_token(stage: Stage, pairs: str) -> dict[str, Any]:
    step = stage.step
    amounts = {kind: sum(2 * step.macs(phase, kind, pairs) for phase in MODEL_PHASES) for kind in KINDS}
    counted = [other for other in PAIRS if other != "packed" or step.packing.documents]
    amounts |= {NAMES[other]: step.model_flops(other) for other in counted}
    amounts |= {"recompute": step.recompute_flops(pairs), "capacity": step.capacity_flops}
    return {name: _rounded(amount / step.tokens) for name, amount in amounts.items() if amount}


def _rules(ledger: LedgerData) -> Table:
    rows = [
        {
            "rule": each.rule.label,
            "flops": _rounded(each.flops),
            "difference": "" if each.share is None else Formatted(100 * each.share, f"{each.share:+.1%}"),
            "of": "hardware" if each.rule.is_hardware else "model",
            "causes": ", ".join(f"{cause} {share:+.1%}" for cause, share in _visible(each)),
        }
        for each in ledger.rules
        if each.flops is not None and ledger.stages
    ]
    columns = [
        *(Column("rule", "Rule"), Column("flops", "FLOPs", "count"), Column("difference", "Difference", "ratio")),
        *(Column("of", "FLOPs of"), Column("causes", "Causes")),
    ]
    return Table("Rules, and their difference from the count of all pairs", columns, rows)


def _visible(figure: RuleFigure) -> list[tuple[str, float]]:
    shares = {cause: part / figure.counted for cause, part in figure.causes.items() if figure.counted}
    # Shares that round to 0.0 % are left out.
    visible = [(cause, share) for cause, share in shares.items() if abs(share) >= 0.0005]
    return sorted(visible, key=lambda item: -abs(item[1]))


def _is_near(found: Sequence[Crossing], most: int) -> bool:
    return any(each.value is not None and NEAR * most >= each.value for each in found)


def _thresholds(found: Sequence[Crossing], base_flops: int | None) -> Table:
    base = "" if base_flops is None else f", with {flops(base_flops)} of the base model where compute is cumulative"
    rows = [
        {
            "flops": _rounded(each.value),
            "exceeded": _verdict(each),
            "name": each.threshold.name,
            "status": each.threshold.status,
        }
        for each in found
        if each.value is not None
    ]
    columns = [Column("flops", "FLOPs", "count"), Column("exceeded", "Exceeded")]
    columns += [Column("name", "Threshold"), Column("status", "Status")]
    as_of = min(each.threshold.as_of for each in found)
    return Table(f"Thresholds, as of {as_of}; to_json has sources{base}", columns, rows)


def _verdict(crossing: Crossing) -> str:
    over = [name for name, exceeded in crossing.exceeded.items() if exceeded]
    if not crossing.depends_on_count:
        return "by all counts" if over else "by no count"
    return f"by {', '.join(over)} only"


def _remarks(ledger: LedgerData) -> Iterator[str]:
    if ledger.pairs == "packed" and ledger.stages and not any(each.step.packing.documents for each in ledger.stages):
        yield "packed pairs are the causal ones: no stage has document_lengths"
    if ledger.device is not None:
        yield from find_device(ledger.device).describe_peak(ledger.dtype, is_printed=True)
    reasons: dict[str, list[str]] = {}
    for figure in ledger.rules:
        if figure.flops is None:
            reasons.setdefault(figure.reason, []).append(figure.rule.label)
    yield from (f"rules that do not apply ({reason}): {', '.join(labels)}" for reason, labels in reasons.items())
    for stage in ledger.stages:
        step = stage.step
        if step.idle_expert_parameters:
            active, total = step.parameters.active, step.parameters.total
            yield (
                f"{stage.name}: {active:,} of {total:,} parameters process a token; 6ND and thresholds use these "
                "active parameters, and rules that use all are listed as such"
            )
        if step.masked:
            yield (
                f"{stage.name}: whether attention in {step.masked} modules is causal is unknown (mask tensors, "
                "or attention written as products), so the causal count has all of its pairs. Type --masks causal "
                '(masks="causal"), or --attention computed to count the pairs that masks allow'
            )
        yield from (f"{stage.name}: {remark}" for remark in step.report.remarks)
        if stage.largest is not None:
            yield f"{stage.name}: limit: {stage.largest.limit.describe()}"


def _table(title: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> Table:
    # Columns without a value are left out.
    used = [column for column in columns if any(row.get(column.key, "") != "" for row in rows)]
    return Table(title, used or columns, rows)


def _rounded(amount: float) -> Formatted:
    return Formatted(amount, flops(amount))


def _counted(number: int) -> Formatted:
    return Formatted(number, f"{number:,}")


def _share(share: float) -> Formatted:
    return Formatted(100 * share, f"{share:.1%}")
