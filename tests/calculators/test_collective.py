"""Communication, against ring algorithms that n simulated processes run step by step."""

from __future__ import annotations

import pytest

from costcore.ir import Cost, Operations
from tests.calculators.layer_costs import layer_cost


class Process:
    """A process of a ring that holds n equal parts of numbers, and counts what it sends and adds."""

    def __init__(self, rank: int, n: int, length: int) -> None:
        self.rank, self.sent, self.added = rank, 0, 0
        self.parts = [[rank + 1] * length for _ in range(n)]


def reduce_scatter(ring: list[Process]) -> None:
    """In each step every process sends the part that it has just added to, and adds what it receives."""
    n = len(ring)
    for step in range(n - 1):
        moving = [(p.rank - step) % n for p in ring]
        received = [list(ring[(p.rank - 1) % n].parts[moving[(p.rank - 1) % n]]) for p in ring]
        for p, part in zip(ring, received, strict=True):
            at = moving[(p.rank - 1) % n]
            p.parts[at] = [a + b for a, b in zip(p.parts[at], part, strict=True)]
            p.added += len(part)
            p.sent += len(part)


def all_gather(ring: list[Process]) -> None:
    """In each step every process passes on the complete part that it received last."""
    n = len(ring)
    for step in range(n - 1):
        moving = [(p.rank + 1 - step) % n for p in ring]
        received = [list(ring[(p.rank - 1) % n].parts[moving[(p.rank - 1) % n]]) for p in ring]
        for p, part in zip(ring, received, strict=True):
            p.parts[moving[(p.rank - 1) % n]] = part
            p.sent += len(part)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_all_reduce_is_a_ring(n):
    ring = [Process(rank, n, 5) for rank in range(n)]
    reduce_scatter(ring)
    after_reduce_scatter = [(p.added, p.sent) for p in ring]
    all_gather(ring)
    assert all(part == [n * (n + 1) // 2] * 5 for p in ring for part in p.parts)
    for p, (added, sent) in zip(ring, after_reduce_scatter, strict=True):
        whole, shard = (n, 5), (1, 5)
        cost = layer_cost("all_reduce", {"x": whole}, whole, group_size=n, reduce="sum")
        assert cost == Cost(Operations(add=p.added), 20 * n, 20 * n, cost.params, 0, 4 * p.sent)
        cost = layer_cost("reduce_scatter", {"x": whole}, shard, group_size=n, reduce="sum")
        assert cost == Cost(Operations(add=added), 20 * n, 20, cost.params, 0, 4 * sent)
        cost = layer_cost("all_gather", {"x": shard}, whole, group_size=n)
        assert cost == Cost(Operations(), 20, 20 * n, cost.params, 0, 4 * (p.sent - sent))


def test_reductions_by_kind():
    """12 elements in a ring of 4: each process combines 3 elements 3 times, and divides 3 for an average."""

    def operations(reduction):
        return layer_cost("all_reduce", {"x": (12,)}, (12,), group_size=4, reduce=reduction).flops

    assert operations("avg") == Operations(add=9, div=3)
    assert operations("product") == Operations(mul=9)
    assert operations("premul_sum") == Operations(add=9, mul=12)
    assert operations("max") == Operations(cmp=9)
    assert layer_cost("reduce_scatter", {"x": (12,)}, (3,), group_size=4, reduce="avg").flops.div == 3


@pytest.mark.parametrize(("n", "sent", "added"), [(1, 0, 0), (2, 32, 8), (3, 32, 8)])
def test_every_process_of_several_passes_a_whole_tensor_on(n, sent, added):
    """8 elements of 4 bytes: as they are, or the sum of its own and of what it received. One alone sends nothing."""
    assert layer_cost("broadcast", {"x": (8,)}, group_size=n).mcomm == sent
    for reduction, operations in (
        ("sum", Operations(add=added)),
        ("max", Operations(cmp=added)),
        ("avg", Operations(add=added, div=added)),
    ):
        cost = layer_cost("reduce_to_root", {"x": (8,)}, (8,), group_size=n, reduce=reduction)
        assert (cost.flops, cost.mcomm) == (operations, sent)


def test_several_tensors_are_reduced_as_one():
    """5 and 7 elements in a ring of 4: 3 * 12 / 4 additions, 2 * 48 * 3/4 bytes; halves of them are scattered."""
    cost = layer_cost("all_reduce", {"x0": (5,), "x1": (7,)}, (5,), (7,), group_size=4)
    assert (cost.flops, cost.mread, cost.mwrite, cost.mcomm) == (Operations(add=9), 48, 48, 72)
    cost = layer_cost("reduce_scatter", {"x0": (4,), "x1": (8,)}, (2,), (4,), group_size=2, reduce="avg")
    assert (cost.flops, cost.mread, cost.mwrite, cost.mcomm) == (Operations(add=6, div=6), 48, 24, 24)


def test_parts_that_are_not_equal_are_rounded_up():
    """10 elements of 4 bytes in a ring of 4: 2 * 40 * 3/4 = 60 bytes; 3 elements: 2 * 12 * 3/4 = 18; 5: 30."""
    sent = [layer_cost("all_reduce", {"x": (n,)}, (n,), group_size=4).mcomm for n in (10, 3, 5)]
    assert sent == [60, 18, 30]
    assert layer_cost("all_reduce", {"x": (1,)}, (1,), group_size=3).mcomm == 6  # 2 * 4 * 2/3 = 5.33


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "expected"),
    [
        ("all_to_all", [(8,)], [(8,)], (32, 32, 24)),  # one of four parts stays
        ("broadcast", [(8,)], [], (32, 0, 32)),
        ("broadcast", [], [(8,)], (0, 32, 32)),
        ("reduce_to_root", [(8,)], [(8,)], (32, 32, 32)),
        ("gather_to_root", [(8,)], [], (32, 0, 32)),
        ("gather_to_root", [(8,)], [(32,)], (32, 128, 0)),
        ("scatter_from_root", [(32,)], [(8,)], (128, 32, 96)),
        ("scatter_from_root", [], [(8,)], (0, 32, 0)),
        ("send", [(8,)], [], (32, 0, 32)),
        ("recv", [], [(8,)], (0, 32, 0)),
        ("barrier", [], [], (0, 0, 0)),
    ],
)
def test_bytes_read_written_and_sent(op, inputs, outputs, expected):
    cost = layer_cost(op, {f"x{i}": x for i, x in enumerate(inputs)}, *outputs, group_size=4)
    assert (cost.mread, cost.mwrite, cost.mcomm) == expected
