"""The largest batch of a model, and plans for more samples than fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from costcore.api.target import model_and_inputs
from costcore.renamed import renamed
from costcore.studies.batch_size import sentences
from costcore.studies.batch_size.accumulation import Accumulation, accumulate, check_global_batch
from costcore.studies.batch_size.captures import Captures, check_model
from costcore.studies.batch_size.inputs import inputs_of_batch
from costcore.studies.batch_size.largest import FIRST, LargestBatch, find_largest
from costcore.studies.batch_size.limit import CONTEXT, Limit, make_limit
from costcore.studies.batch_size.recomputation import Recomputation, recompute
from costcore.studies.batch_size.rule_of_thumb import MOMENTS, RuleOfThumb, rule_of_thumb
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result


@dataclass(frozen=True, repr=False)
class Fit(Result):
    """What fits into the memory of a device.

    Attributes:
        largest: the largest batch.
        accumulation: the plan for a global batch; None for inference.
        recomputation: what checkpointing saves; None for inference.
        rule: the rule of thumb for parameters and state; None if there is none.
    """

    largest: LargestBatch
    accumulation: Accumulation | None
    recomputation: Recomputation | None
    rule: RuleOfThumb | None

    @property
    def lines(self) -> list[str]:
        """The answer: five lines for training, three for inference."""
        lines = [sentences.largest_line(self.largest), sentences.peak_line(self.largest)]
        if self.accumulation is not None:
            lines.append(sentences.accumulation_line(self.accumulation))
        if self.recomputation is not None:
            lines.append(sentences.recomputation_line(self.recomputation))
        return [*lines, sentences.limit_line(self.largest, self.rule)]

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        return "\n".join(self.lines)

    def _answer(self) -> Answer:
        figures = [Figure("batch", "Largest batch", self.largest.batch, "count")]
        return Answer("Largest batch that fits", figures, (), [*self.lines, *self.notes])

    @property
    def notes(self) -> list[str]:
        """What was assumed, each once."""
        notes = self.largest.notes
        plan = () if self.accumulation is None else self.accumulation.notes
        return [*notes, *(note for note in plan if note.removeprefix("micro-batch: ") not in notes)]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures in plain JSON types."""
        rule = self.rule
        return {
            **super().to_dict(),
            "largest": self.largest.to_dict(),
            "accumulation": None if self.accumulation is None else self.accumulation.to_dict(),
            "recomputation": None if self.recomputation is None else self.recomputation.to_dict(),
            "rule_of_thumb": None if rule is None else {**rule._asdict(), "nbytes": rule.nbytes},
            "lines": self.lines,
        }


@renamed(device="allocator")
def max_batch(
    model: Any,
    inputs: Any,
    memory: int | str,
    *,
    train: bool = False,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    allocator: str | None = None,
    context: int | str = CONTEXT,
    workspace: int | str = 0,
    fragmentation: float = 0.0,
    **options: Any,
) -> LargestBatch:
    """Return the largest batch that fits into the memory of a device.

    Two captures give the peak of every batch in closed form. The batch that follows from it is captured, and the next
    one, so that it is certain that the first fits and the second does not. Where the peak has no closed form, captures
    of further batches find the largest one, and the notes of the result say so.

    A batch fits if ``peak * (1 + fragmentation) + workspace + context <= memory``.

    Args:
        model: a ``torch.nn.Module``. It is neither changed nor run; each module is in its present train or eval mode.
        inputs: inputs as :func:`costcore.estimate` takes them, with a name for the batch dimension, ``("batch", 3, 224,
            224)`` or ``{"input_ids": (("batch", 128), "int64")}``. Without a name it is the first dimension of every
            input, whatever its size. Or a function that returns the inputs of a batch.
        memory: the memory of the device in bytes, or as ``"24 GiB"``.
        train: whether a training step is run, instead of inference; an optimizer or a loss implies it.
        optimizer: the optimizer of the step, and ``loss`` its loss; see :func:`costcore.estimate`.
        loss: as above. A loss with targets makes them of the batch that it is given.
        allocator: ``"cuda"``: the peak is the least memory with which the caching allocator of PyTorch runs on a GPU,
            where optimizers work on lists (``foreach``). ``"tensors"`` or None: the peak of tensors.
        context: what a process takes of the device before its first tensor. The default is an assumption.
        workspace: what kernels take beside tensors.
        fragmentation: the share of the peak that an allocator loses on top of it.
        options: further options of :func:`costcore.estimate`, such as ``dtype`` or ``checkpoint``.

    Raises:
        CostError: if the model is not supported, fails on a batch, or its peak does not grow with the batch.
        TypeError, ValueError: if an argument is invalid.
    """
    limit = make_limit(memory, context, workspace, fragmentation, allocator)
    captures = _captures(model, inputs, limit.allocator, train, optimizer, loss, options)
    return find_largest(captures, limit)


@renamed(device="allocator")
def accumulation(
    model: Any,
    inputs: Any,
    *,
    global_batch: int,
    memory: int | str,
    replicas: int = 1,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    allocator: str | None = None,
    context: int | str = CONTEXT,
    workspace: int | str = 0,
    fragmentation: float = 0.0,
    **options: Any,
) -> Accumulation:
    """Return the micro-batches into which gradient accumulation divides a batch that does not fit.

    From the second micro-batch on, the gradients of the earlier ones are alive through the forward pass. The
    micro-batch is the largest one that fits beside them.

    Args:
        model: the model, and ``inputs``, ``memory``, ``optimizer``, ``loss``, ``allocator``, ``context``,
            ``workspace``, ``fragmentation`` and ``options`` as in :func:`max_batch`.
        inputs: as above.
        global_batch: samples per step of the optimizer.
        memory: as above.
        replicas: how many devices share the samples, each with a copy of the model.
        optimizer: as above.
        loss: as above.
        allocator: as above.
        context: as above.
        workspace: as above.
        fragmentation: as above.
        options: as above.

    Raises:
        CostError, TypeError, ValueError: as :func:`max_batch`; for a ``global_batch`` or ``replicas`` below 1 too.
    """
    check_global_batch(global_batch, replicas)
    limit = make_limit(memory, context, workspace, fragmentation, allocator)
    captures = _captures(model, inputs, limit.allocator, True, optimizer, loss, options)
    return accumulate(captures, limit, global_batch, replicas, find_largest(captures, limit))


def fit(
    model: Any,
    inputs: Any,
    limit: Limit,
    *,
    train: bool,
    optimizer: Any = None,
    global_batch: int,
    replicas: int = 1,
    options: Mapping[str, Any],
) -> Fit:
    """Return the largest batch and, for training, the plans for more samples; arguments as above."""
    captures = _captures(model, inputs, limit.allocator, train, optimizer, None, options)
    is_training = captures.options["backward"]
    largest = find_largest(captures, limit)
    n_parameters = captures.report(FIRST).trace.run.n_params_model or 0
    return Fit(
        largest,
        accumulate(captures, limit, global_batch, replicas, largest) if is_training else None,
        recompute(captures, limit, largest) if is_training else None,
        rule_of_thumb(largest.memory, n_parameters, is_training, optimizer),
    )


def _captures(
    model: Any, inputs: Any, allocator: str, train: bool, optimizer: Any, loss: Any, options: Mapping[str, Any]
) -> Captures:
    """Return captures of a model with the options of a run."""
    is_step = train is True or optimizer is not None or loss is not None
    model, inputs = model_and_inputs(model, inputs, is_step=is_step)
    check_model(model)
    return Captures(model, inputs_of_batch(inputs), step_options(train, optimizer, loss, options, allocator))


def step_options(train: bool, optimizer: Any, loss: Any, options: Mapping[str, Any], allocator: str) -> dict[str, Any]:
    """Return the options of :func:`costcore.estimate` for an inference or a training step.

    Args:
        train: whether it is a step; an optimizer or a loss implies it.
        optimizer: the optimizer.
        loss: the loss.
        options: further options.
        allocator: one of :data:`costcore.studies.batch_size.limit.ALLOCATORS`; on CUDA, optimizers work on lists.

    Raises:
        TypeError: if ``train`` is not a bool.
    """
    if not isinstance(train, bool):
        raise TypeError(f"train must be True or False (got {train!r})")
    backward = train or optimizer is not None or loss is not None or options.get("backward") is True
    chosen: dict[str, Any] = {**options, "backward": backward}
    if optimizer is not None:
        is_named = allocator == "cuda" and isinstance(optimizer, str) and optimizer in MOMENTS
        chosen["optimizer"] = f"{optimizer}_foreach" if is_named else optimizer
    if loss is not None:
        chosen["loss"] = loss
    return chosen
