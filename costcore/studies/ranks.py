"""The ranks of a job, from a trace of each: compute, exposed communication, waiting, idle time, and the straggler.

Clocks of hosts differ by more than a collective takes, so times of two ranks are never compared, only durations. All
ranks leave a collective at about the same time, and the rank with its shortest kernel arrived last. A longer kernel
waited at its beginning, for as long as it exceeds the shortest one.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fsdecode
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError, FileError
from costcore.files import exists, is_folder
from costcore.registry import ability, frontend_for_file, specs
from costcore.tables.answer import Content, Figure
from costcore.tables.html import Span, key, section, timeline
from costcore.tables.pictures import Picture, Theme, filled_bars
from costcore.tables.result import Result, Table
from costcore.text.amounts import duration
from costcore.text.output import Column

Interval: TypeAlias = tuple[int, int]
"""Start and end in nanoseconds, of the clock of one rank."""

NOTED = 0.01
"""A rank is a straggler if others wait for it for at least this share of the span; less is noise of clocks."""

EVEN = 1.005
"""Below this ratio of maximum and mean, ranks are even."""

CLOCKS = (
    "waiting: the time by which a kernel exceeds the shortest one of its collective, on the rank that arrived last; "
    "clocks of ranks are not compared"
)

COLUMNS = (
    Column("rank", "Rank", "count"),
    Column("span", "Span", "duration", "measured"),
    Column("busy", "Busy", "duration", "measured"),
    Column("compute", "Compute", "duration", "measured"),
    Column("communication", "Communication", "duration", "measured"),
    Column("exposed", "Exposed", "duration", "measured"),
    Column("waiting", "Waiting", "duration", "measured"),
    Column("copies", "Copies", "duration", "measured"),
    Column("idle", "Idle", "duration", "measured"),
    Column("last", "Last", "percent", "measured"),
    Column("held_up", "Held up", "duration", "measured"),
)

PARTS = {
    "compute": "value",
    "exposed communication": "saved",
    "waiting": "temporary",
    "copies and fills": "optimizer",
    "idle": "free",
}
"""The parts of a bar, which add up to the span, with their class in the style sheet."""

MOST_BARS = 9
"""The ranks that a page draws."""

MOST_NAMED = 5
"""The ranks and groups that a remark names."""

MOST_FILES = 2**14
"""The files of a job."""


def profile_ranks(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]], *, profiler_step: int | None = None
) -> RankProfiles:
    """Return where the time of each rank of a job goes, from the traces of its ranks.

    ::

        print(profile_ranks(["rank0.json.gz", "rank1.json.gz"]))
        profile_ranks("traces").straggler

    The files are read one after the other, and only their intervals are kept.

    Args:
        paths: a trace with work of a device for each rank, or the folder with them; plain or compressed by gzip.
        profiler_step: number of the step of the profiler that counts, 6 for ``ProfilerStep#6``. Default: all steps
            together; without steps everything.

    Raises:
        TypeError: if ``profiler_step`` is not an integer.
        CostError: if a file cannot be read, is not a trace or has no work of a device; if two files are of one rank,
            or files are of different jobs or steps.
    """
    if profiler_step is not None and type(profiler_step) is not int:
        raise TypeError(f"profiler_step must be the number of a step of the profiler (got {profiler_step!r})")
    ranks = []
    for path in trace_files(paths):
        spec = specs().get(frontend_for_file(path))
        read = None if spec is None else ability(spec, "rank_work")
        if read is None:
            if not exists(path):
                raise FileError(f"{path} cannot be read: No such file or directory")
            raise CostError(f"{path} is not a trace of a rank. Pass traces of torch.profiler: rank0.json.gz")
        ranks.append(Rank(read(path, profiler_step)))
    return RankProfiles(_numbered(ranks))


def trace_files(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[str]:
    """Return the paths of traces; for a folder, its trace files in numeric order.

    Raises:
        CostError: if there are none, or too many.
    """
    if isinstance(paths, (str, PathLike)):
        name = fsdecode(paths)
        if not is_folder(name):
            return [name]
        try:
            with os.scandir(name) as entries:
                files = sorted((entry.path for entry in entries if entry.is_file()), key=_natural)
        except OSError as error:
            raise FileError(f"{name} cannot be read: {error.strerror or error}") from error
        files = [file for file in files if "rank_work" in _abilities(file)]
        if not files:
            raise CostError(f"{name} has no traces. Pass the files of the ranks: rank0.json.gz rank1.json.gz")
    else:
        files = [fsdecode(path) for path in paths]
        if not files:
            raise CostError("there are no traces. Pass a file for each rank: rank0.json.gz rank1.json.gz")
    if len(files) > MOST_FILES:
        raise CostError(f"a job has at most {MOST_FILES:,} traces (got {len(files):,}). Pass fewer")
    return files


def _abilities(path: str) -> Mapping[str, str]:
    spec = specs().get(frontend_for_file(path))
    return {} if spec is None else spec.abilities


def _natural(name: str) -> list[tuple[int, str]]:
    # rank10 comes after rank9
    return [(int(word), "") if word.isdecimal() and len(word) < 20 else (-1, word) for word in re.split(r"(\d+)", name)]


# The content of one trace.


class Group(NamedTuple):
    """A process group.

    Attributes:
        name: its name; empty if unknown.
        members: its ranks as text, ``[0, 1, 2, 3]``; empty if unknown.
        size: the number of its ranks; 0 if unknown.
    """

    name: str
    members: str
    size: int

    def __str__(self) -> str:
        if not (self.name or self.members):
            return "the collectives without a process group"
        return f"process group {self.name or '?'}" + (f" {self.members}" if self.members else "")

    def may_have(self, rank: int, n_ranks: int) -> bool:
        """Return whether a rank may belong to the group: traces cut long lists of ranks."""
        if "." in self.members or not self.members:
            return not self.size or self.size == n_ranks
        return str(rank) in re.findall(r"\d+", self.members)


class Collective(NamedTuple):
    """The kernel of a collective that all ranks of its group leave at about the same time.

    Attributes:
        start, end: when it ran.
        group: its process group.
        what: the operation, with what it moves if that is the same on all ranks.
    """

    start: int
    end: int
    group: Group
    what: str


class RankWork(NamedTuple):
    """The content of one trace, as the hook ``rank_work`` of a frontend returns it.

    Attributes:
        path: the file.
        rank, n_ranks: number of the rank, and the number of ranks of the job; None if unknown.
        device: the name of the device; empty if unknown.
        steps: numbers of the steps of the profiler that count; empty without steps.
        compute, communication, copies: the intervals of kernels, of communication, and of copies and fills.
        collectives: the collectives whose waiting time is known.
        remarks: further problems of the trace.
    """

    path: str
    rank: int | None
    n_ranks: int | None
    device: str
    steps: tuple[int, ...]
    compute: Sequence[Interval]
    communication: Sequence[Interval]
    copies: Sequence[Interval]
    collectives: Sequence[Collective]
    remarks: Sequence[str] = ()


class Rank:
    """The time of one rank, in nanoseconds.

    :attr:`compute`, :attr:`exposed`, :attr:`copies` and :attr:`idle` add up to :attr:`span`.

    Attributes:
        number: number of the rank.
        path, device, steps, remarks: as in :class:`RankWork`.
        span: from the start of its first kernel, copy or fill to the end of its last one.
        busy: the part in which any of them ran.
        compute: the part in which kernels other than communication ran.
        communication: the part in which communication ran.
        exposed: the part of ``communication`` in which no other kernel ran.
        copies: the part in which only copies and fills ran.
        waiting: the part in which it waited in collectives; None if unknown.
        exposed_waiting: the part of ``waiting`` in which no other kernel ran; None if unknown.
        n_collectives: the number of collectives compared with other ranks.
        n_last: the number of compared collectives in which it arrived last.
        held_up: the time in which all others of a group waited for it alone.
    """

    number: int
    waiting: int | None = None
    exposed_waiting: int | None = None
    n_collectives: int = 0
    n_last: int = 0
    held_up: int = 0

    def __init__(self, work: RankWork) -> None:
        self.path, self.device, self.steps, self.remarks = work.path, work.device, work.steps, work.remarks
        self.stated, self.n_ranks = work.rank, work.n_ranks
        compute, communication = merged(work.compute), merged(work.communication)
        kernels = merged([*compute, *communication])
        busy = merged([*kernels, *work.copies])
        self.span = busy[-1][1] - busy[0][0]
        self.busy = length(busy)
        self.compute, self.communication = length(compute), length(communication)
        self.hidden = common(communication, compute)
        self.exposed = self.communication - length(self.hidden)
        self.copies = self.busy - length(kernels)
        self.groups: dict[Group, list[Collective]] = defaultdict(list)
        for each in sorted(work.collectives):
            self.groups[each.group].append(each)

    def __repr__(self) -> str:
        return f"<Rank {self.number}: {duration(self.span / 1e9)}>"

    @property
    def idle(self) -> int:
        """The part of the span in which nothing ran."""
        return self.span - self.busy

    @property
    def parts(self) -> dict[str, int]:
        """The parts of :data:`PARTS`, which add up to the span; waiting that is hidden is compute."""
        waiting = self.exposed_waiting or 0
        return dict(zip(PARTS, (self.compute, self.exposed - waiting, waiting, self.copies, self.idle), strict=True))


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals, in order; empty ones are left out."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = found[-1][0], end
        elif start < end:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> int:
    """Return how long disjoint intervals are together."""
    return sum(end - start for start, end in intervals)


def common(a: Sequence[Interval], b: Sequence[Interval]) -> list[Interval]:
    """Return the intersection of two unions."""
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            found.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def _numbered(ranks: list[Rank]) -> list[Rank]:
    # The ranks in order; files without numbers are numbered as they were given.
    named = [rank for rank in ranks if rank.stated is not None]
    if named and len(named) < len(ranks):
        other = next(rank for rank in ranks if rank.stated is None)
        raise CostError(f"{other.path} does not say which rank it is, and {named[0].path} does. Leave one of them out")
    by_number: dict[int, Rank] = {}
    for i, rank in enumerate(ranks):
        rank.number = i if rank.stated is None else rank.stated
        twin = by_number.setdefault(rank.number, rank)
        if twin is not rank:
            raise CostError(f"{twin.path} and {rank.path} are both of rank {rank.number}. Pass one file for each rank")
    first = ranks[0]
    for rank in ranks:
        if rank.n_ranks != first.n_ranks:
            raise CostError(
                f"{first.path} is of a job of {first.n_ranks or 'unknown'} ranks, and {rank.path} of "
                f"{rank.n_ranks or 'unknown'}. Pass the traces of one job"
            )
        if rank.n_ranks is not None and rank.number >= rank.n_ranks:
            raise CostError(f"{rank.path} is damaged: it is of rank {rank.number} of {rank.n_ranks}. Record it again")
        if rank.steps != first.steps:
            both = sorted({*rank.steps} & {*first.steps})
            fix = f"Pass a step that both have: profiler_step={both[0]}" if both else "Record the same steps"
            raise CostError(
                f"{first.path} has {_steps(first.steps)} of the profiler, and {rank.path} {_steps(rank.steps)}. {fix}"
            )
    return [by_number[number] for number in sorted(by_number)]


def _steps(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no steps"
    more = ", …" if len(numbers) > MOST_NAMED else ""
    return f"the steps {', '.join(map(str, numbers[:MOST_NAMED]))}{more}"


# Waiting: the kernels of one collective on all ranks.


def compare_collectives(ranks: Sequence[Rank]) -> list[str]:
    """Set how long each rank waited in collectives; return remarks on collectives that cannot be compared.

    The collectives of a process group are the same on all of its ranks, in the same order.
    """
    remarks: list[str] = []
    waits: dict[int, list[Interval]] = {rank.number: [] for rank in ranks}
    unknown: set[int] = set()
    groups: dict[Group, list[Rank]] = defaultdict(list)
    for rank in ranks:
        for group in rank.groups:
            groups[group].append(rank)
    absent: list[str] = []
    for group, members in groups.items():
        silent = [rank for rank in ranks if rank not in members and group.may_have(rank.number, len(ranks))]
        problem = _difference(group, [*members, *silent])
        if problem:
            remarks.append(problem)
            unknown.update(rank.number for rank in members)
        elif len(members) < max(group.size, 2):
            absent.append(str(group))
        if problem or len(members) < 2:
            unknown.update(rank.number for rank in members)
            continue
        for kernels in zip(*(rank.groups[group] for rank in members), strict=True):
            _add_waiting(members, kernels, waits)
    for rank in ranks:
        if rank.number not in unknown and (rank.groups or len(ranks) > 1):
            found = merged(waits[rank.number])
            rank.waiting = length(found)
            rank.exposed_waiting = rank.waiting - length(common(found, rank.hidden))
    if absent:
        names = ", ".join(absent[:MOST_NAMED])
        remarks.append(
            f"ranks of {names} have no trace here: how long others waited for them is unknown, "
            "so waiting is a lower bound"
        )
    if any(not group.name and not group.size for group in groups) and len(ranks) > 1:
        remarks.append(
            "assumed: collectives without a process group in the file are of all ranks, and the same in the same order"
        )
    return remarks


def _difference(group: Group, members: Sequence[Rank]) -> str:
    # Why the collectives of a group cannot be compared; empty if they can.
    fix = "Record the same steps on all ranks, or choose one: profiler_step=…"
    if group.size and len(members) > group.size:
        return (
            f"waiting in {group} is unknown: it has {group.size} ranks, and {len(members)} traces do not say which "
            "of them are together. Record with a newer PyTorch"
        )
    first = members[0]
    own = first.groups.get(group, [])
    for other in members[1:]:
        theirs = other.groups.get(group, [])
        if len(own) != len(theirs):
            return (
                f"waiting in {group} is unknown: rank {first.number} has {len(own):,} collectives, and rank "
                f"{other.number} {len(theirs):,}. {fix}"
            )
        for i, (a, b) in enumerate(zip(own, theirs, strict=True)):
            if a.what != b.what:
                return (
                    f"waiting in {group} is unknown: its collective {i + 1:,} is {a.what} on rank {first.number}, and "
                    f"{b.what} on rank {other.number}. {fix}"
                )
    return ""


def _add_waiting(members: Sequence[Rank], kernels: Sequence[Collective], waits: Mapping[int, list[Interval]]) -> None:
    lengths = [each.end - each.start for each in kernels]
    shortest, second = sorted(lengths)[:2]
    for rank, kernel, took in zip(members, kernels, lengths, strict=True):
        rank.n_collectives += 1
        if took > shortest:
            waits[rank.number].append((kernel.start, kernel.end - shortest))
    if second > shortest:
        last = members[lengths.index(shortest)]
        last.n_last += 1
        last.held_up += second - shortest


# The table of ranks.


class RankProfiles(Result):
    """Where the time of each rank of a job goes, and which rank the others wait for.

    Args:
        ranks: the ranks, by number.

    Attributes:
        ranks: the ranks, by number.
        remarks: limits of the figures.
    """

    ranks: list[Rank]
    remarks: list[str]

    def __init__(self, ranks: Sequence[Rank]) -> None:
        self.ranks = [*ranks]
        self.remarks = [CLOCKS] if len(ranks) > 1 else []
        self.remarks += self._missing()
        self.remarks += compare_collectives(self.ranks)
        for rank in self.ranks:  # the intervals are not needed any more
            rank.groups, rank.hidden = {}, []
        found = Counter(remark for rank in self.ranks for remark in rank.remarks)
        where = {remark: [rank.number for rank in self.ranks if remark in rank.remarks] for remark in found}
        self.remarks += [f"{_named(numbers)}: {remark}" for remark, numbers in where.items()]

    def __repr__(self) -> str:
        straggler = self.straggler
        word = "no straggler" if straggler is None else f"straggler {straggler.number}"
        return f"<RankProfiles: {len(self.ranks)} ranks, {word}>"

    @property
    def straggler(self) -> Rank | None:
        """The rank with the largest ``held_up``; None if that is less than 1 % of the mean span."""
        worst = max(self.ranks, key=lambda rank: rank.held_up)
        return worst if worst.held_up >= NOTED * self._mean("span") and worst.held_up else None

    def imbalance(self, key: str = "compute") -> float | None:
        """Return the maximum of a time of :class:`Rank` over its mean; None if it is 0 or unknown.

        Raises:
            AttributeError: if a rank has no such time.
        """
        values = [getattr(rank, key) for rank in self.ranks]
        known = [value for value in values if value is not None]
        return max(known) * len(known) / sum(known) if len(known) == len(values) and sum(known) else None

    def _mean(self, key: str) -> float:
        total: int = sum(getattr(rank, key) for rank in self.ranks)
        return total / len(self.ranks)

    def _missing(self) -> list[str]:
        n = self.ranks[0].n_ranks
        if n is None:
            numbered = self.ranks[0].stated is None and len(self.ranks) > 1
            return ["the files do not say which rank they are: they are numbered in their order"] * numbered
        missing = n - len(self.ranks)
        if not missing:
            return []
        have = {rank.number for rank in self.ranks}
        names = [number for number in range(min(n, len(have) + MOST_NAMED)) if number not in have][:MOST_NAMED]
        more = f" and {missing - len(names):,} more" if missing > len(names) else ""
        verb = "has" if missing == 1 else "have"
        return [f"of {n:,} ranks, {_named(names)}{more} {verb} no trace: the straggler can be one of them"]

    def table(self) -> Table:
        """Return a table of the ranks, with their mean below."""
        rows = [self._row(rank) for rank in self.ranks]
        total: dict[str, Any] = {"rank": "mean"}
        for column in COLUMNS[1:]:
            values = [row[column.key] for row in rows]
            if None not in values:
                total[column.key] = sum(values) / len(values)
        first = ("copies", "busy", "communication", "span")
        return Table("Ranks", [*COLUMNS], rows, total=total, remarks=self.remarks, dropped_first=first)

    def _row(self, rank: Rank) -> dict[str, Any]:
        times = (column.key for column in COLUMNS if column.kind == "duration")
        row: dict[str, Any] = {"rank": rank.number}
        row |= {key: None if (value := getattr(rank, key)) is None else value / 1e9 for key in times}
        row["last"] = 100 * rank.n_last / rank.n_collectives if rank.n_collectives else None
        if not rank.n_collectives:
            row["held_up"] = None
        return row

    def _content(self) -> Content:
        n, first = len(self.ranks), self.ranks[0]
        longest = max(self.ranks, key=lambda rank: rank.span)
        where = f", {first.device}" if first.device else ""
        steps = f"{_steps(first.steps)} of the profiler" if first.steps else "the whole trace"
        figures = [
            Figure("ranks", "Ranks", n, "count", f"of {first.n_ranks or 'an unknown number'}{where}", "measured"),
            Figure("span", "Span", longest.span / 1e9, "duration", f"rank {longest.number}, {steps}", "measured"),
            self._figure("compute", "Compute"),
            self._figure("exposed", "Exposed communication"),
            self._figure("waiting", "Waiting in collectives"),
            self._figure("idle", "Idle"),
        ]
        figures.append(Figure("straggler", "Straggler", *self._verdict(), "measured"))
        return Content("Where the time of the ranks goes", figures, [self.table()], self.remarks)

    def _figure(self, name: str, title: str) -> Figure:
        values = [getattr(rank, name) for rank in self.ranks]
        if None in values:
            return Figure(name, title, None, "duration", "see the remarks", "measured")
        most = max(self.ranks, key=lambda rank: getattr(rank, name))
        mean, ratio = self._mean(name), self.imbalance(name)
        note = f"mean, {mean / self._mean('span'):.1%} of the span"
        if ratio is not None and ratio >= EVEN:
            note += f"; most on rank {most.number}: {ratio:.2f} of the mean"
        return Figure(name, title, mean / 1e9, "duration", note, "measured")

    def _verdict(self) -> tuple[str, str, str]:
        straggler = self.straggler
        if straggler is not None:
            share = straggler.n_last / straggler.n_collectives
            return (
                f"rank {straggler.number}",
                "text",
                f"last in {share:.0%} of {straggler.n_collectives:,} collectives; all others waited for it alone "
                f"for {duration(straggler.held_up / 1e9)}, {straggler.held_up / self._mean('span'):.1%} of the span",
            )
        if not any(rank.n_collectives for rank in self.ranks):
            return "unknown", "text", "no collective of several ranks was compared"
        return "none", "text", f"no rank holds up all others for {NOTED:.0%} of the span"

    def _shown(self) -> list[Rank]:
        # The ranks that waited least and most, in the order of their numbers.
        ranks = sorted(self.ranks, key=lambda rank: rank.waiting or 0)
        if len(ranks) > MOST_BARS:
            ranks = ranks[: MOST_BARS // 2] + ranks[-(MOST_BARS - MOST_BARS // 2) :]
        return sorted(ranks, key=lambda rank: rank.number)

    def _pictures(self) -> str:
        shown, lanes = self._shown(), []
        for rank in shown:
            spans, at = [], 0
            for name, took in rank.parts.items():
                spans.append(Span(at / 1e9, took / 1e9, PARTS[name], f"rank {rank.number}, {name}"))
                at += took
            lanes.append((f"rank {rank.number}", [span for span in spans if span.seconds]))
        keys = "".join(key(kind, name) for name, kind in PARTS.items())
        most = f" ({len(shown)} of {len(self.ranks)} ranks: least and most waiting)" * (len(shown) < len(self.ranks))
        drawn = timeline(lanes, max(rank.span for rank in shown) / 1e9, keys, has_places=False)
        return section(f"Parts of the span by rank{most}", drawn)

    def _picture(self, theme: Theme) -> Picture:
        bars = {
            f"rank {rank.number}": ({name: took / 1e9 for name, took in rank.parts.items()}, None)
            for rank in self._shown()
        }
        column = Column("span", "Span", "duration")
        return filled_bars(bars, "Where the time of the ranks goes", theme, ("rank", "part"), column)


def _named(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - MOST_NAMED:,} more" if len(numbers) > MOST_NAMED else ""
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(map(str, numbers[:MOST_NAMED]))}{more}"
