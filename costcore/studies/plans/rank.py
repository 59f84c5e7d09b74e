"""What one rank of a distributed step needs and does, from captures of it with few blocks."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import ceil, fsum
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device
from costcore.api.estimate import estimate
from costcore.reports.report import Report
from costcore.studies.plans.setup import Setup
from costcore.studies.plans.tokens import with_part_of_tokens

DEPTHS = (3, 4)
"""So many blocks two captures have, from which the figures of more blocks follow: each block adds the same.

With three, one has a neighbor on each side, whose parameters sharded copies gather ahead.
"""


class Rank(NamedTuple):
    """The figures of one pass of one rank, or of a pass and a step of the optimizer.

    Attributes:
        peaks: the most bytes alive in each phase, and in each phase in each place of :func:`places_of`.
        base: bytes alive before the pass.
        end: bytes alive after it.
        saved: bytes that autograd keeps for the backward pass.
        seconds: the least time of the pass.
        step_seconds: the least time of the optimizer.
        sent: bytes that the pass sends.
        binds: the least time of the pass by what binds it.
        parameters: how many parameters the rank holds.
        expert_parameters: how many of them are those of experts, before they are sharded.
        state: bytes of the state of the optimizer.
    """

    peaks: Mapping[tuple[str, str], float]
    base: float
    end: float
    saved: float
    seconds: float
    step_seconds: float
    sent: float
    binds: Mapping[str, float]
    parameters: float
    expert_parameters: float
    state: float

    def with_step(self, step: Rank) -> Rank:
        """Return the figures of this pass with a step of the optimizer, which were captured with another micro-batch.

        The state of the optimizer is alive throughout. What the step needs beyond what is alive before it does not
        depend on the pass.

        Args:
            step: any pass with a step of the optimizer.
        """
        state, needed = step.state, step.peaks["optimizer", ""] - step.end
        peaks = {place: peak + state for place, peak in self.peaks.items()}
        return self._replace(
            peaks={**peaks, ("optimizer", ""): self.end + state + needed},
            base=self.base + state,
            end=self.end + state,
            step_seconds=step.step_seconds,
            state=state,
        )

    @staticmethod
    def sum_of(ranks: Sequence[tuple[float, Rank]]) -> Rank:
        """Return the sum of figures, each times a factor."""

        def added(values: Sequence[Any]) -> Any:
            if isinstance(values[0], Mapping):
                keys = dict.fromkeys(key for value in values for key in value)
                return {key: added([value.get(key, 0.0) for value in values]) for key in keys}
            return fsum(factor * value for (factor, _), value in zip(ranks, values, strict=True))

        return Rank(*map(added, zip(*(rank for _, rank in ranks), strict=True)))


class Ranks:
    """Captures of one rank in several ways, each made once.

    Args:
        model: the model.
        inputs: returns the inputs of a batch.
        distribution: how the model can be distributed, see :class:`costcore.frontend.DistributionOf`.
        device: the device.
        dtype: the dtype of products.
        optimizer: the optimizer.
        options: further options of :func:`costcore.estimate`.
    """

    def __init__(
        self,
        model: Any,
        inputs: Callable[[int], Any],
        distribution: Any,
        device: Device,
        dtype: str,
        optimizer: Any,
        options: Mapping[str, Any],
    ) -> None:
        self._model = model
        self._inputs = inputs
        self._distribution = distribution
        self._device = device
        self._dtype = dtype
        self._optimizer = optimizer
        self._options = options
        self._captured: dict[Any, Rank] = {}

    def of(self, setup: Setup, kinds: Sequence[int], exactly: bool = False) -> Rank:
        """Return the figures of a rank that has blocks of these kinds.

        Without ``exactly``, those of several blocks are on lines: of every kind, captures of :data:`DEPTHS` blocks say
        what a block adds.

        Args:
            setup: how the step runs.
            kinds: the kind of each block.
            exactly: whether all of them are captured. The times are then still those of the lines.

        Raises:
            CostError, TypeError, ValueError: if the model cannot be captured in this way.
        """
        few, more = DEPTHS
        counts = Counter(kinds)
        ((most, _),) = counts.most_common(1)
        terms = [(1.0, self._capture(setup, (most,) * few))]
        for kind, number in counts.items():
            share = (number - (few if kind == most else 0)) / (more - few)
            terms += [(share, self._capture(setup, (kind,) * more)), (-share, self._capture(setup, (kind,) * few))]
        lines = Rank.sum_of(terms)
        if not exactly:
            return lines
        whole = self._run(setup, tuple(kinds), with_step=True, with_times=False)
        return whole._replace(seconds=lines.seconds, step_seconds=lines.step_seconds, binds=lines.binds)

    def saved(self, setup: Setup, kinds: Sequence[int]) -> float:
        """Return the bytes that autograd keeps of blocks of these kinds, without the rest of the model."""
        few, more = DEPTHS
        depths = [(self._capture(setup, (kind,) * few), self._capture(setup, (kind,) * more)) for kind in kinds]
        return fsum((deeper.saved - fewer.saved) / (more - few) for fewer, deeper in depths)

    def _capture(self, setup: Setup, kinds: tuple[int, ...]) -> Rank:
        step = self._run(setup._replace(micro_batch=1, passes=1, checkpoints=False), kinds, with_step=True)
        return self._run(setup, kinds, with_step=False).with_step(step)

    def _run(self, setup: Setup, kinds: tuple[int, ...], with_step: bool, with_times: bool = True) -> Rank:
        mesh = setup.mesh
        sizes = {name: getattr(mesh, name) for name in ("fsdp", "tp", "cp", "ep")}
        accumulates = setup.passes > 1
        key = (*sizes.values(), setup.micro_batch, setup.checkpoints, setup.precision, accumulates, kinds, with_step)
        if key not in self._captured:
            layout = self._distribution.plan(kinds, **sizes)
            options = {
                **self._options,
                "backward": True,
                "memory": True,
                "mesh": layout.mesh,
                "plan": layout,
                "step": "accumulated" if accumulates else "steady",
                "precision": setup.precision,
                "checkpoint": self._distribution.kind if setup.checkpoints else None,
                "optimizer": self._optimizer if with_step else None,
            }
            inputs = with_part_of_tokens(self._inputs(setup.micro_batch), mesh.cp)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of formulas that are missing, and of code that is left out of a stage
                report = estimate(self._model, inputs, **options)
            self._captured[key] = self._figures(report, layout, with_times)
        return self._captured[key]

    def _figures(self, report: Report, layout: Any, with_times: bool) -> Rank:
        memory, rank = report.memory, report.trace.run.rank
        assert memory is not None and rank is not None
        groups = report.time(self._device, dtype=self._dtype, fusion="compiler").groups if with_times else ()
        passes = [group for group in groups if group.calls[0].phase != "optimizer"]
        steps = [group for group in groups if group.calls[0].phase == "optimizer"]
        binds: dict[str, float] = {}
        for group in passes:
            binds[group.bound.binds] = binds.get(group.bound.binds, 0.0) + group.bound_seconds
        return Rank(
            peaks=_peaks(report, layout.blocks),
            base=memory.base,
            end=memory.end,
            saved=memory.saved,
            seconds=fsum(group.bound_seconds for group in passes),
            step_seconds=fsum(group.bound_seconds for group in steps),
            sent=report.total_report.get("mcomm", 0),
            binds=binds,
            parameters=rank.n_params,
            expert_parameters=layout.expert_parameters,
            state=memory.ledger.live("optimizer")[0],
        )


def places_of(module: str, blocks: Sequence[str]) -> list[str]:
    """Return where in a model a module is: anywhere, and outside of its blocks, or in the first or the last one.

    The bytes alive in a place are on a line in the number of blocks. The place with the most can be another one with
    many blocks than with few.

    Args:
        module: its path.
        blocks: the paths of the blocks.

    >>> places_of("layers.2.mlp", ["layers.0", "layers.1", "layers.2"])
    ['', 'last']
    """
    inside = next((i for i, block in enumerate(blocks) if f"{module}.".startswith(f"{block}.")), None)
    if inside is None:
        return ["", "outside"]
    return ["", *(["first"] if inside == 0 else []), *(["last"] if inside == len(blocks) - 1 else [])]


def _peaks(report: Report, blocks: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return the most bytes alive in each phase and place."""
    assert report.memory is not None
    places: dict[str, list[str]] = {}
    found: dict[tuple[str, str], float] = {}
    for call, (_, _, most) in zip(report.trace.calls, report.memory.live_by_call(), strict=True):
        if call.module not in places:
            places[call.module] = places_of(call.module, blocks)
        for place in places[call.module]:
            found[call.phase, place] = max(found.get((call.phase, place), 0.0), most)
    return found


def peak_of(rank: Rank, block: float, waiting: int) -> int:
    """Return the most bytes that a rank holds at once.

    Args:
        rank: the figures of the rank.
        block: what autograd saves of its blocks in one pass.
        waiting: of how many further passes it keeps that.
    """
    peaks = (peak + (0 if phase == "optimizer" else waiting * block) for (phase, _), peak in rank.peaks.items())
    return ceil(max(peaks))
