"""Find the execution order of a run with the lowest peak memory, and a lower bound for every order.

The graph is cut where all earlier nodes lead into one. Between two cuts a dynamic program over the sets of finished
nodes is exact while these are few; otherwise the given order or a greedy one is kept. Only the last section allows
symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Any, NamedTuple

from costcore.analyses.memory.liveness import Block, Lifetimes, merged
from costcore.numbers import Dim, Evaluation, as_dim, coefficients, expanded, is_symbolic, symbols_of

MOST_STATES = 100_000
"""The maximum number of sets of finished nodes to visit in the search for the best order, in all parts together."""

MOST_BITS = 400_000_000
"""The maximum size of all these sets (bits)."""


class BestOrder(NamedTuple):
    """The best order that was found, and a bound for every order, in bytes.

    Attributes:
        lower_bound: no order needs less.
        is_exact: whether the order reaches the bound.
        order: indices of the steps, in the best order that was found.
        peak: the bytes that this order needs.
    """

    lower_bound: int
    is_exact: bool
    order: list[int]
    peak: int


def best_order(lifetimes: Lifetimes, inplace: bool, count_inputs: bool, most_states: int = MOST_STATES) -> BestOrder:
    """Find the execution order with the lowest peak memory, and a lower bound.

    The graph is cut after every node that all other nodes precede or follow. The largest need of a single node is a
    bound for every order; parts that are already at the bound keep their order. In other parts the search is exact
    while at most ``most_states`` sets of finished nodes are visited. Beyond, the order is the given one, or a greedy
    one (next the node with the smallest growth) if that needs less.

    Args:
        lifetimes: the values of the run; their sizes are numbers.
        inplace: whether element-wise results are written over operands.
        count_inputs: whether the inputs of the model count.
        most_states: the maximum number of visited sets.
    """
    graph = _Graph(lifetimes, inplace, count_inputs)
    parts: list[_Part | _SingleNode] = []
    alive = graph.start - graph.unread
    for nodes in graph.parts():
        parts.append(_SingleNode(graph, nodes, alive) if len(nodes) == 1 else _Part(graph, nodes, alive))
        alive = parts[-1].alive_after
    bound = max([graph.start, *(part.bound for part in parts)])
    for part in sorted(parts, key=lambda part: -part.peak):
        if isinstance(part, _Part) and part.peak > bound:
            most_states -= part.improve(most_states)
            bound = max(bound, part.bound)
    peak = max([graph.start, *(part.peak for part in parts)])
    steps = [step for part in parts for i in part.order for step in graph.nodes[part.nodes[i]].steps]
    return BestOrder(bound, bound == peak, steps, peak)


@dataclass(slots=True)
class _Node:
    """A call, or all steps of a loop or branch, as one node of the graph.

    Attributes:
        steps: indices of its steps.
        reads: blocks of earlier nodes that it needs.
        makes: blocks that it makes for later nodes.
        inner: the maximum bytes of its own blocks that are alive at once while it runs.
        savings: blocks that may take over memory of earlier nodes: block, size, and the blocks to take over.
        needs: for a node of several steps, returns ``inner`` without blocks that take over memory of earlier nodes.
        before: nodes that must run before it.
        after: nodes that must run after it.
    """

    steps: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)
    inner: int = 0
    savings: list[tuple[int, int, list[int]]] = field(default_factory=list)
    needs: Callable[[frozenset[int]], int] | None = None
    before: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)


class _Graph:
    """The nodes of a run in the given order, and the blocks that each needs.

    Attributes:
        nodes: the nodes.
        sizes: the size of each block; 0 for inputs that do not count.
        readers: the nodes that read each block.
        is_kept: for each block whether it is needed at the end.
        is_input: for each block whether it is an input, which nothing writes over.
        start: the bytes of all inputs.
        unread: the bytes of inputs that no node reads.
    """

    def __init__(self, lifetimes: Lifetimes, inplace: bool, count_inputs: bool) -> None:
        blocks = lifetimes.blocks
        self.is_input = [block.kind == "input" for block in blocks]
        self.is_kept = [block.is_kept for block in blocks]
        self.sizes: list[Any] = [0 if block.kind == "input" and not count_inputs else block.nbytes for block in blocks]
        self.nodes: list[_Node] = []
        self.readers: list[set[int]] = [set() for _ in blocks]
        node_of = self._group(lifetimes)
        maker = [-1] * len(blocks)
        for i, step in enumerate(lifetimes.steps):
            node = self.nodes[node_of[i]]
            for block in step.makes:
                maker[block] = node_of[i]
            for block in step.reads:
                self.readers[block].add(node_of[i])
            node.before.update(node_of[earlier] for earlier in step.after)
        for number, node in enumerate(self.nodes):
            node.before.discard(number)
            for other in node.before:
                self.nodes[other].after.add(number)
            self._find_blocks(number, node, lifetimes, maker, inplace)
        self.start = sum(size for size, is_input in zip(self.sizes, self.is_input, strict=True) if is_input)
        self.unread = sum(
            size
            for i, size in enumerate(self.sizes)
            if self.is_input[i] and not self.readers[i] and not self.is_kept[i]
        )

    def _group(self, lifetimes: Lifetimes) -> list[int]:
        ends = dict(lifetimes.spans)
        node_of: list[int] = []
        end = 0
        for i in range(len(lifetimes.steps)):
            if i >= end:
                end = ends.get(i, i) + 1
                self.nodes.append(_Node())
            self.nodes[-1].steps.append(i)
            node_of.append(len(self.nodes) - 1)
        return node_of

    def _find_blocks(self, number: int, node: _Node, lifetimes: Lifetimes, maker: Sequence[int], inplace: bool) -> None:
        steps = [lifetimes.steps[step] for step in node.steps]
        touched = dict.fromkeys(block for step in steps for block in (*step.reads, *step.makes))
        node.reads = [block for block in touched if maker[block] != number]
        made = [block for block in touched if maker[block] == number]
        node.makes = [block for block in made if self.is_kept[block] or self.readers[block] - {number}]
        others: dict[int, list[int]] = {}
        for step in steps:
            pairs = [*step.takes, *step.overwrites] if inplace else step.takes
            for block, other in pairs:
                if maker[other] == number or self.is_input[other] or self.sizes[block] != self.sizes[other]:
                    continue
                if sum(other in each.reads for each in steps) == 1:
                    others.setdefault(block, []).append(other)
        node.savings = [(block, self.sizes[block], candidates) for block, candidates in others.items()]
        node.inner = sum(self.sizes[block] for block in made)
        if len(steps) > 1:
            node.needs = cache(partial(self._peak_inside, node, lifetimes, inplace))
            node.inner = node.needs(frozenset())

    def _peak_inside(self, node: _Node, lifetimes: Lifetimes, inplace: bool, taken: frozenset[int]) -> int:
        # Blocks in ``taken`` take over memory of earlier nodes, so they do not count here.
        first, last = node.steps[0], node.steps[-1]
        names = {lifetimes.blocks[block].name for block in taken}
        inside = [
            replace(block, born=block.born - first, last_use=min(block.last_use, last) - first)
            for block in merged(lifetimes, inplace, first, last)
            if block.name not in names
        ]
        return max(map(int, live_bytes(inside, len(node.steps))))

    def parts(self) -> Iterator[list[int]]:
        """Yield the nodes between two cuts: in any order, every node before a cut runs before every node after it.

        A cut follows a node that all earlier nodes lead to, and that leads to all later nodes.
        """
        n = len(self.nodes)
        crossing = [0] * (n + 1)
        for i, node in enumerate(self.nodes):
            last = max(node.before, default=-1)
            crossing[last + 1] += 1
            crossing[i] -= 1
        n_last = crossed = 0
        has_successor = [False] * n
        part: list[int] = []
        for i, node in enumerate(self.nodes):
            crossed += crossing[i]
            n_last += 1
            for other in node.before:
                if not has_successor[other]:
                    has_successor[other] = True
                    n_last -= 1
            part.append(i)
            if n_last == 1 and not crossed:
                yield part
                part = []
        if part:
            yield part


class _SingleNode:
    # A part of one node has one order. Attributes are as in :class:`_Part`.

    __slots__ = ("alive_after", "bound", "nodes", "order", "peak")

    def __init__(self, graph: _Graph, nodes: Sequence[int], alive: int) -> None:
        self.nodes, self.order = nodes, (0,)
        (number,) = nodes
        node, sizes, readers, is_kept = graph.nodes[number], graph.sizes, graph.readers, graph.is_kept
        freed = {block for block in node.reads if not is_kept[block] and max(readers[block]) <= number}
        need = alive + node.inner - (_saved(node, freed.__contains__) if node.savings else 0)
        self.peak = self.bound = max(alive, need)
        self.alive_after = alive
        for block in freed:
            self.alive_after -= sizes[block]
        for block in node.makes:  # later nodes or the caller read these
            self.alive_after += sizes[block]


class _Part:
    """A part of the graph; nodes have the numbers 0, 1 … in the given order.

    Args:
        graph: the graph.
        nodes: its nodes.
        alive: the bytes that are alive when it begins.

    Attributes:
        nodes: its nodes in the graph.
        order: the order that was found: the given one until it is improved.
        peak: the bytes that this order needs.
        bound: bytes that every order needs.
        alive_after: the bytes that are alive when the part has ended.
    """

    def __init__(self, graph: _Graph, nodes: Sequence[int], alive: int) -> None:
        self.nodes = nodes
        self._nodes = [graph.nodes[node] for node in nodes]
        self._alive = alive
        self._sizes = graph.sizes
        self._is_input = graph.is_input
        number = {node: i for i, node in enumerate(nodes)}
        self._before = [[number[other] for other in node.before if other in number] for node in self._nodes]
        self._after = [[number[other] for other in node.after if other in number] for node in self._nodes]
        self._readers: dict[int, list[int]] = {}
        """The nodes that read a block; blocks that stay alive are missing."""
        last = nodes[-1]
        permanent = self.alive_after = alive
        made = {block for node in self._nodes for block in node.makes}
        for block in dict.fromkeys(block for node in self._nodes for block in (*node.reads, *node.makes)):
            readers = graph.readers[block]
            stays = graph.is_kept[block] or max(readers) > last
            if not stays:
                self._readers[block] = [number[reader] for reader in readers if reader in number]
                if block not in made:
                    permanent -= graph.sizes[block]
                    self.alive_after -= graph.sizes[block]
            elif block in made:
                self.alive_after += graph.sizes[block]
        self.order: list[int] = list(range(len(nodes)))
        self.peak = self.need(self.order)
        self.bound = permanent + max(map(self._min_need, self._nodes))

    def _min_need(self, node: _Node) -> int:
        read = sum([self._sizes[block] for block in node.reads if block in self._readers])
        return int(read + node.inner - _saved(node, lambda _: True))

    def improve(self, most_states: int) -> int:
        """Search for a better order and bound; return the number of sets of nodes that were visited."""
        found, visited = self._search(min(most_states, MOST_BITS // len(self._nodes)))
        if found is not None:
            self.peak, self.order = found
            self.bound = max(self.bound, self.peak)
        else:
            order = self._greedy_order()
            peak = self.need(order)
            if peak < self.peak:
                self.peak, self.order = peak, order
        return visited

    def need(self, order: Sequence[int]) -> int:
        """Return the bytes that an order needs."""
        left = {block: len(readers) for block, readers in self._readers.items()}
        sizes = self._sizes
        live = peak = self._alive
        for i in order:
            node = self._nodes[i]
            need = live + node.inner
            freed = 0
            for block in node.reads:
                if block in left:
                    left[block] -= 1
                    if not left[block]:
                        freed += sizes[block]
            if node.savings:
                need -= _saved(node, lambda block: left.get(block) == 0)
            peak = max(peak, need)
            live -= freed
            for block in node.makes:
                live += sizes[block]
        return int(peak)

    def _search(self, most_states: int) -> tuple[tuple[int, list[int]] | None, int]:
        """Return the minimum bytes with an order that reaches them, and the number of sets of nodes that were visited.

        Live bytes depend only on the set of finished nodes, so this is a dynamic program over these sets, by size. The
        first result is None if there are too many sets.
        """
        n, visited = len(self._nodes), 0
        if n > most_states:
            return None, 0
        readers = {block: sum(1 << reader for reader in found) for block, found in self._readers.items()}
        waits = [sum(1 << other for other in before) for before in self._before]
        ready = sum(1 << i for i, mask in enumerate(waits) if not mask)
        states: dict[int, tuple[int, int, int]] = {0: (0, self._alive, ready)}
        steps: list[dict[int, int]] = []
        for _ in range(n):
            found: dict[int, tuple[int, int, int]] = {}
            last: dict[int, int] = {}
            for done, (peak, live, ready) in states.items():
                waiting = ready
                while waiting:
                    bit = waiting & -waiting
                    waiting ^= bit
                    i = bit.bit_length() - 1
                    new = done | bit
                    need = live + self._nodes[i].inner
                    if self._nodes[i].savings:
                        need -= _saved(self._nodes[i], lambda block: block in readers and not readers[block] & ~new)  # noqa: B023
                    need = max(peak, need)
                    known = found.get(new)
                    if known is None:
                        visited += 1
                        if visited > most_states:
                            return None, visited
                        now = ready ^ bit
                        for other in self._after[i]:
                            if waits[other] & ~new == 0:
                                now |= 1 << other
                        found[new] = need, live + self._growth(i, new, readers), now
                        last[new] = i
                    elif need < known[0]:
                        found[new] = need, *known[1:]
                        last[new] = i
            states = found
            steps.append(last)
        ((at, (peak, _, _)),) = states.items()
        order: list[int] = []
        for last in reversed(steps):
            order.append(last[at])
            at ^= 1 << last[at]
        return (peak, order[::-1]), visited

    def _growth(self, i: int, done: int, readers: Mapping[int, int]) -> int:
        # ``done`` includes the node.
        node, sizes = self._nodes[i], self._sizes
        growth = 0
        for block in node.makes:
            growth += sizes[block]
        for block in node.reads:
            mask = readers.get(block)
            if mask is not None and not mask & ~done:
                growth -= sizes[block]
        return int(growth)

    def _greedy_order(self) -> list[int]:
        # Next is always the node after which the fewest bytes are alive.
        left = {block: len(readers) for block, readers in self._readers.items()}
        # The XOR of the readers of a block that have not run: once one reader is left, it is that reader.
        unfinished: dict[int, int] = {}
        for i, node in enumerate(self._nodes):
            for block in node.reads:
                if block in left:
                    unfinished[block] = unfinished.get(block, 0) ^ i
        waits = [len(before) for before in self._before]
        done = [False] * len(self._nodes)

        def growth(i: int) -> int:
            node = self._nodes[i]
            freed = sum(self._sizes[block] for block in node.reads if left.get(block) == 1)
            return int(sum(self._sizes[block] for block in node.makes) - freed)

        queue = [(growth(i), i) for i, waiting in enumerate(waits) if not waiting]
        heapify(queue)
        order: list[int] = []
        while queue:
            key, i = heappop(queue)
            if done[i] or key != growth(i):
                continue  # outdated: the queue has or had a newer entry of this node
            done[i] = True
            order.append(i)
            for block in self._nodes[i].reads:
                if block in left:
                    left[block] -= 1
                    unfinished[block] ^= i
                    if left[block] == 1 and not waits[unfinished[block]] and not done[unfinished[block]]:
                        heappush(queue, (growth(unfinished[block]), unfinished[block]))
            for other in self._after[i]:
                waits[other] -= 1
                if not waits[other]:
                    heappush(queue, (growth(other), other))
        return order


def _saved(node: _Node, is_last_reader: Callable[[int], bool]) -> int:
    saved = 0
    used: set[int] = set()
    taken = []
    for made, size, candidates in node.savings:
        for block in candidates:
            if block not in used and is_last_reader(block):
                used.add(block)
                taken.append(made)
                saved += size
                break
    return saved if node.needs is None or not taken else node.inner - node.needs(frozenset(taken))


# Live bytes at every step, and their maximum; sizes may be symbolic.


SAMPLES = (1, 2, 64, 4096)
"""Values of all symbols, at which two sums are compared before a proof is tried."""


def live_bytes(blocks: Sequence[Block], n_steps: int) -> list[Dim]:
    """Return the bytes that are alive at every step."""
    if not any(is_symbolic(block.nbytes) for block in blocks):
        changes: list[Any] = [0] * (n_steps + 1)
        for block in blocks:
            changes[block.born] += block.nbytes
            changes[block.last_use + 1] -= block.nbytes
        return list(accumulate(changes[:n_steps]))
    return [_expression(terms) for terms in _sums(blocks, n_steps)]


def _sums(blocks: Sequence[Block], n_steps: int) -> Iterable[frozenset[tuple[Any, Any]]]:
    changes: list[list[tuple[Any, int]]] = [[] for _ in range(n_steps + 1)]
    for block in blocks:
        for term, number in coefficients(block.nbytes).items():
            changes[block.born].append((term, number))
            changes[block.last_use + 1].append((term, -number))
    live: dict[Any, Any] = {}
    for change in changes[:n_steps]:
        for term, number in change:
            live[term] = live.get(term, 0) + number
        yield frozenset((term, number) for term, number in live.items() if number)


@lru_cache(maxsize=1 << 12)
def _expression(terms: frozenset[tuple[Any, Any]]) -> Dim:
    from sympy import Add, Mul

    return as_dim(Add(*[Mul(number, term) for term, number in terms]))


def highest(amounts: Iterable[Dim]) -> Dim:
    """Return the largest amount; ``Max(…)`` of the expressions that can be the largest for some sizes."""
    distinct = list(dict.fromkeys(amounts))
    if not any(map(is_symbolic, distinct)):
        return max(distinct, default=0)
    samples = [Evaluation({}, default=number) for number in SAMPLES]
    known = {amount: [_value_at(evaluate, amount) for evaluate in samples] for amount in distinct}
    kept: list[Any] = []
    for amount in sorted(distinct, key=lambda each: known[each][::-1], reverse=True):
        if not any(_is_at_most(amount, other, known) for other in kept):
            kept = [other for other in kept if not _is_at_most(other, amount, known)]
            kept.append(amount)
    if len(kept) == 1:
        return as_dim(kept[0])
    from sympy import Max

    return as_dim(Max(*kept, evaluate=False))


def _value_at(evaluate: Evaluation, amount: Dim) -> int:
    if not is_symbolic(amount):
        return int(amount)
    try:
        value = evaluate(amount)
    except (ArithmeticError, ValueError, TypeError):
        return -1
    return value if isinstance(value, int) else -1


def _is_at_most(a: Any, b: Any, known: Mapping[Any, Sequence[Any]]) -> bool:
    """Return True if ``a <= b`` is proved for all positive sizes of their symbols."""
    if any(x > y or x < 0 or y < 0 for x, y in zip(known[a], known[b], strict=True)):
        return False
    difference = expanded(b - a)
    if not is_symbolic(difference):
        return bool(difference >= 0)
    more = {symbol: symbol + 1 for symbol in symbols_of([difference]) if symbol.is_positive}
    if more:
        difference = expanded(difference.xreplace(more))
    terms = coefficients(difference)
    return all(number >= 0 and term.is_nonnegative for term, number in terms.items())


def first_step_of(live: Sequence[Dim], peak: Dim) -> int:
    """Return the first step at the peak; for a symbolic peak, the step of one of its terms."""
    if peak in live:
        return live.index(peak)
    return next(i for i, amount in enumerate(live) if amount in peak.args)  # type: ignore[union-attr]
