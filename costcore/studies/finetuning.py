"""What can be fine-tuned on a device: the memory of models by method, with and without activation checkpointing.

Every cell is a captured training step; see :func:`costcore.fit`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from costcore.api.estimate import finetuned, model_of
from costcore.errors import CostError, CostWarning, unknown
from costcore.registry import needed_ability
from costcore.studies.fit import FitResult, fit
from costcore.tables.answer import Content, Figure
from costcore.tables.result import Result, Table
from costcore.text.output import Column


class Method(NamedTuple):
    """A way to fine-tune a model.

    Attributes:
        name: its name.
        optimizer: the optimizer.
        is_adapted: whether adapters of low rank alone are trained.
        base: the format of the weights below adapters; None: as they are.
    """

    name: str
    optimizer: str
    is_adapted: bool = False
    base: str | None = None


METHODS: Mapping[str, Method] = {
    each.name: each
    for each in (
        Method("full, AdamW", "adamw"),
        Method("full, 8-bit AdamW", "adamw_8bit"),
        Method("full, Adafactor", "adafactor"),
        Method("LoRA", "adamw", True),
        Method("QLoRA", "paged_adamw", True, "nf4"),
    )
}
"""The methods by name. Full fine-tuning of weights in 16 bits keeps float32 copies of them for AdamW and Adafactor; a
step of 8-bit AdamW updates the weights themselves. Adapters are in float32; paged state lies in host memory."""


class FineTuningRow(NamedTuple):
    """A model with a method.

    Attributes:
        model: name of the model.
        method: name of the method.
        needs: bytes of a step, as :class:`costcore.studies.fit.FitResult` has them; None if it cannot be captured.
        needs_checkpointed: the same with activation checkpointing of the blocks of the model.
        fits: ``yes``, ``checkpointed`` or ``no``; ``unknown`` if it cannot be captured.
        batch: the largest batch that fits, if the inputs name their batch.
    """

    model: str
    method: str
    needs: int | None
    needs_checkpointed: int | None
    fits: str
    batch: int | None = None


COLUMNS = (
    *(Column("model", "Model"), Column("method", "Method"), Column("fits", "Fits")),
    *(Column("needs", "Needs", "bytes"), Column("needs_checkpointed", "Checkpointed", "bytes")),
    Column("batch", "Largest batch", "count"),
)


@dataclass(frozen=True, repr=False)
class FineTuning(Result):
    """The memory of models by method of fine-tuning.

    Attributes:
        target: name of the device, or its memory.
        rows: a row per model and method.
        notes: the terms of the memory, and what could not be captured.
    """

    target: str
    rows: tuple[FineTuningRow, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<FineTuning: {self._n_fits} of {len(self.rows)} fit {self.target}>"

    @property
    def _n_fits(self) -> int:
        return sum(row.fits in ("yes", "checkpointed") for row in self.rows)

    def _content(self) -> Content:
        figures = [Figure("n_fits", f"On {self.target}", self._n_fits, "count", f"of {len(self.rows)} fit")]
        columns = [column for column in COLUMNS if column.key != "batch" or any(row.batch for row in self.rows)]
        rows, dropped = [row._asdict() for row in self.rows], ("needs_checkpointed", "batch", "needs")
        table = Table("Methods of fine-tuning", columns, rows, n_digits=2, dropped_first=dropped, labels=3)
        return Content("What can be fine-tuned?", figures, [table], self.notes, n_digits=2)


def finetuning(
    models: Any,
    inputs: Any,
    target: object,
    *,
    rank: int = 16,
    methods: Iterable[str] = tuple(METHODS),
    **options: Any,
) -> FineTuning:
    """Return the memory of models by method of fine-tuning, and whether it fits a device.

    ::

        finetuning({"8B": llama}, {"input_ids": ((1, 2048), "int64")}, "24 GB")

    Args:
        models: a model, a target such as ``"hf:config.json"``, or several by name.
        inputs: the inputs of each; if a dimension has a name, the largest batch that fits is found.
        target: the device or its memory, as for :func:`costcore.fit`.
        rank: the rank of adapters.
        methods: names of :data:`METHODS`.
        options: further options of :func:`costcore.fit`.

    Raises:
        ValueError: for an unknown method.
        CostError: if a model cannot be made.
    """
    names = [*methods]
    if missing := [name for name in names if name not in METHODS]:
        raise ValueError(unknown("method", missing[0], METHODS))
    by_name = models if isinstance(models, Mapping) else {_name(models): models}
    rows, notes = [], []
    for name, model in by_name.items():
        model = model_of(model, is_step=True)
        block = needed_ability("distribution", model, "a method of fine-tuning")(model).kind
        for method in (METHODS[each] for each in names):
            row, found = _row(name, model, method, inputs, target, rank, block, options)
            rows.append(row)
            notes += found
    return FineTuning(str(target), tuple(rows), tuple(dict.fromkeys(notes)))


def _name(model: Any) -> str:
    return model if isinstance(model, str) else type(model).__name__


def _row(
    name: str,
    model: Any,
    method: Method,
    inputs: Any,
    target: object,
    rank: int,
    block: str,
    options: Mapping[str, Any],
) -> tuple[FineTuningRow, list[str]]:
    if method.is_adapted:
        model = finetuned(model, rank, base=method.base)
    terms = {"optimizer": method.optimizer, "suggestions": False, **options}
    if method.optimizer.endswith("8bit"):
        terms.setdefault("precision", None)  # its weights have no copies
    found: list[FitResult | None] = []
    notes = []
    choices: list[dict[str, Any]] = [{}, {"checkpoint": block}]
    for more in choices if block else choices[:1]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CostWarning)
                found.append(fit(model, inputs, target, train=True, **terms, **more))
        except CostError as error:
            found.append(None)
            notes.append(f"{name}, {method.name}: {error}")
    kept = [note for each in found if each is not None for note in each.notes]
    notes += [note for note in kept if note.startswith("limit:")]
    notes += [f"{method.name}: {note}" for note in kept if note.startswith("assumed:")]
    plain, checkpointed = found[0], found[1] if block else None
    fitting = [each for each in (plain, checkpointed) if each is not None and each.fits]
    known = any(each is not None and each.fits is not None for each in found)
    word = ("yes" if fitting[0] is plain else "checkpointed") if fitting else "no" if known else "unknown"
    batch = max((each.batch for each in fitting if each.batch), default=None)
    return FineTuningRow(name, method.name, _needs(plain), _needs(checkpointed), word, batch), notes


def _needs(found: FitResult | None) -> int | None:
    return None if found is None else next(iter(found.needs.values()), None)
