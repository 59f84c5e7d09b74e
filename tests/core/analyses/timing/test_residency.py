"""What a run must bring from memory, whatever a cache keeps: by hand, and against every policy on small runs."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from costcore import Report, Trace
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.analyses.timing.toy_device import TOY, Cache, Memory, device
from tests.core.traces import Call, CallCost, Run


def run(*calls, size=200_000):
    """A run of calls, each the ids that it reads and those that it writes, of values of ``size`` elements of 4 B."""
    x = Tensor((size,))
    records = []
    for i, (reads, writes) in enumerate(calls):
        layer = Layer("custom", {f"x{k}": x for k in range(len(reads))}, [x] * len(writes))
        cost = Cost(Operations(), x.nbytes * len(reads), x.nbytes * len(writes), {})
        records.append(CallCost(Call(layer, "custom", name=f"custom-{i}", inputs=reads, outputs=writes), cost))
    return Report(Trace(tuple(records), Run()))


def test_weights_that_are_read_in_turn_come_from_memory_in_every_turn():
    """Two weights of 0.8 MB behind a cache of 1 MB: of every pair 0.6 MB come from memory, at 1 TB/s."""
    time = run(*[((1,), (10 + i,)) if i % 2 == 0 else ((2,), (10 + i,)) for i in range(8)]).time(TOY)
    assert time.whole_run.seconds == pytest.approx(0.6e-6)  # both once
    assert time.bound_seconds == pytest.approx(4 * 0.6e-6)
    assert all(group.bound_seconds == 0 for group in time.groups)


def test_what_was_written_just_before_may_be_in_the_cache():
    """Each call reads what the last one wrote, 0.8 MB of 1 MB, after the first value."""
    time = run(*[((i,), (i + 1,)) for i in range(1, 9)]).time(TOY)
    assert time.bound_seconds == 0


def test_a_value_that_is_read_again_after_others():
    """A skip connection: value 2 of 0.8 MB is read again after eight others; of it and the last, 0.6 MB do not fit."""
    chain = [((i,), (i + 1,)) for i in range(1, 10)]
    assert run(*chain, ((10, 2), (11,))).time(TOY).bound_seconds == pytest.approx(0.6e-6)


def least_traffic(calls, capacity):
    """The fewest reads from memory by any policy, with any content of the cache at the start; values have size 1."""
    values = {value for reads, writes in calls for value in (*reads, *writes)}

    def states(of):
        return [frozenset(each) for n in range(capacity + 1) for each in combinations(sorted(of), n)]

    outside = values - {value for _, writes in calls for value in writes}
    best = dict.fromkeys(states(outside), 0)
    for reads, writes in calls:
        after = {}
        for state, traffic in best.items():
            traffic += len({*reads} - state)
            for kept in states(state | {*reads} | {*writes}):
                after[kept] = min(traffic, after.get(kept, traffic))
        best = after
    return min(best.values())


@pytest.mark.parametrize("seed", range(40))
def test_no_policy_needs_less(seed):
    rng = Random(seed)
    capacity, made, calls = rng.choice([1, 2]), [1, 2, 3], []
    for i in range(7):
        reads = tuple(rng.sample(made, rng.choice([1, 1, 2])))
        writes = (10 + i,) if rng.random() < 0.5 else ()
        calls.append((reads, writes))
        made = [*made, *writes][-4:]
    unit = 4 * 1000
    cached = device(peak={}, memory=Memory(1000.0, (Cache(capacity * unit),)))
    found = run(*calls, size=1000).time(cached).least_seconds * 1e12 / unit
    assert found <= least_traffic(calls, capacity) + 1e-9
