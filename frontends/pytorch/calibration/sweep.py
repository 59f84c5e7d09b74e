"""The sweep: chains of operators in shuffled order, measured call by call.

Libraries compile a kernel for each shape when it is first seen, and forget those of shapes that were not seen for long.
A network that runs again and again finds its kernels compiled. Chains therefore run in groups: once so that all kernels
are compiled, then measured, in other orders, so that the operands of a chain left the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from statistics import median

from costcore.analyses.timing.calibration import Point
from costcore.analyses.timing.families import Site, site_of
from costcore.api.build_report import make_report
from costcore.registry.custom import CustomCalculators
from costcore.trace.recorder import CPU_TIME, Recorder
from costcore.trace.trace import CallCost

from ..capture.context import capture
from .chains import Chain

N_SENTINELS = 10
"""How many chains are repeated at the start, in the middle and at the end."""

GROUP = 40
"""So many chains run one after another before the first of them runs again."""

REPEATS = 2
"""How often each chain of a group is measured."""

SENTINEL_RUNS = 3
"""How often each of them runs at each of these times."""

CLOCK_TOLERANCE = 0.03
"""A round is left out if the clock after it differs by more from the median of all rounds."""


class Sweep:
    """Measures chains on a device.

    Args:
        chains: the chains, on the device.
        clock: True, or :data:`CPU_TIME`.
        seed: of the order of chains.
        before: called before every chain.
        clock_mhz: returns the clock of the device; rounds at another clock than the median are left out.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        clock: bool | str = CPU_TIME,
        seed: int = 0,
        before: Callable[[], object] = lambda: None,
        clock_mhz: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._chains = chains
        self._clock = clock
        self._before = before
        self._shuffle = Random(seed).shuffle
        self._clock_mhz = clock_mhz
        self._rounds: list[tuple[float, dict[Site, list[float]]]] = []
        self._sentinels: list[list[list[float]]] = []

    def run(self, rounds: int, after_round: Callable[[], object] = lambda: None) -> None:
        """Measure all chains ``rounds`` times, each time in other groups and orders.

        ``after_round`` is called after every round.
        """
        self._watch_sentinels()
        for i in range(rounds):
            found = self._round()
            self._rounds.append((self._clock_mhz(), found))
            after_round()
            if i == rounds // 2:
                self._watch_sentinels()
        self._watch_sentinels()

    def points(self) -> list[Point]:
        """Return the median time of every kind of call."""
        usual = median(clock for clock, _ in self._rounds)
        found: dict[Site, list[float]] = {}
        for clock, round_ in self._rounds:
            if abs(clock - usual) <= CLOCK_TOLERANCE * usual:
                for site, seconds in round_.items():
                    found.setdefault(site, []).extend(seconds)
        return [Point(site, median(seconds)) for site, seconds in found.items()]

    def noise(self) -> float:
        """Return by how much the time of a chain differs between start, middle and end: the median of chains."""
        spreads: list[float] = []
        for times in zip(*self._sentinels, strict=True):
            middles = [median(each) for each in times]
            spreads.append((max(middles) - min(middles)) / median(middles))
        return median(spreads)

    def _round(self) -> dict[Site, list[float]]:
        order = list(range(len(self._chains)))
        self._shuffle(order)
        found: dict[Site, list[float]] = {}
        for start in range(0, len(order), GROUP):
            for records in self._of_group(order[start : start + GROUP]):
                for call, cost, _, _, seconds in records:
                    if cost is not None and seconds is not None:
                        found.setdefault(site_of(call, cost), []).append(seconds)
        return found

    def _of_group(self, group: list[int]) -> list[Sequence[CallCost]]:
        """Return the calls of each chain of a group, which runs once before it is measured."""
        measured: list[Sequence[CallCost]] = []
        for repeat in range(1 + REPEATS):
            self._shuffle(group)
            found = self._measure([self._chains[i] for i in group])
            measured += found if repeat else []
        return measured

    def _watch_sentinels(self) -> None:
        step = max(1, len(self._chains) // N_SENTINELS)
        chains = self._chains[::step][:N_SENTINELS]
        times: list[list[float]] = [[] for _ in chains]
        for _ in range(SENTINEL_RUNS):
            for mine, records in zip(times, self._measure(chains), strict=True):
                mine.append(sum(record.seconds or 0.0 for record in records))
        self._sentinels.append(times)

    def _measure(self, chains: Sequence[Chain]) -> list[Sequence[CallCost]]:
        """Return the calls of each chain."""
        recorder = Recorder(measure_time=self._clock)
        ends = [0]
        with capture(recorder) as mode:
            log = mode.recording.logs[-1]
            for chain in chains:
                self._before()
                chain.run()
                ends.append(log.n_calls())
        records = make_report(recorder, CustomCalculators(True), True, "framework").trace.records
        return [records[start:end] for start, end in pairwise(ends)]
