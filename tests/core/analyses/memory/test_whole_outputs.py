"""Memory of small runs as a whole: plans, allocators, texts, pictures; ``--overwrite`` regenerates tests/golden/memory.

That plans are right is tested beside, against definitions that are executed directly and against all orders; here every
step of them counts, and every place of what is drawn.
"""

from __future__ import annotations

from io import StringIO
from random import Random

import pytest

from costcore import Report, Trace
from tests.core import html_reports
from tests.core.analyses.memory.graphs import Node, arena_of, memory_of, random_trace, section, trace
from tests.core.traces import Block, Dataflow, MemoryLedger, Step, Value
from tests.frameworks import optional
from tests.whole_text import as_json, drawing

MIB = 2**20
COLUMNS = ["kind", "module", "name", "call", "phase", "born", "dies", "shape", "dtype", "nbytes", "nbytes%"]
OPS = (*["conv"] * 4, "relu", "add", "mul", "reshape", "softmax", "mish", "tanh")
SIZES = (0, 1, 2, 3, 5, 8, 8, 16)


def with_loops(random: Random, n: int) -> Trace:
    """A run of ``n`` parts: calls with views and results over operands, and loops that carry a value."""
    inputs, stored = (Value(1, 8, "pixels"), Value(2, 3, "mask"), Value(3, 5, "unread")), (Value(4, 100, "w"),)
    sizes, nodes, steps, spans, views = {1: 8, 2: 3, 4: 100}, [], [], [], []
    ids = iter(range(10, 1000))

    def call(among: list[int]) -> int:
        op = random.choice(OPS)
        reads = tuple(
            random.choice(among) for _ in range(random.choice([1, 2, 3]) if op == "conv" else 1 + (op == "add"))
        )
        made = next(ids)
        sizes[made] = random.choice(SIZES) if op == "conv" else sizes[reads[0]]
        nodes.append(Node(op, reads, made, sizes[made]))
        return made

    values = [1, 2]
    for _ in range(n):
        if random.random() < 0.75:
            values.append(call([*values[-4:], 4]))
            if random.random() < 0.2:  # a part of a larger operator, which reads one more value and makes another
                beside = next(ids)
                sizes[beside] = random.choice(SIZES)
                steps.append(Step(values[-1], (random.choice(values),), (Value(beside, sizes[beside], "beside"),)))
                values.append(beside)
            if random.random() < 0.2:  # of a node that is none of the calls
                steps.append(Step(next(ids), (random.choice(values),)))
            continue
        first, carried, before = next(ids), next(ids), random.choice(values[-3:])
        sizes[carried] = sizes[before]
        steps.append(
            Step(
                first, (before,), (Value(carried, sizes[carried], "carried"),), ((carried, before),), name="loop: start"
            )
        )
        inside = [carried]
        for _ in range(random.choice([1, 2, 3])):
            inside.append(call([*inside[-2:], random.choice(values[-3:])]))
        last, made = next(ids), next(ids)
        sizes[made] = sizes[inside[-1]]
        steps.append(
            Step(last, (inside[-1],), (Value(made, sizes[made], "result"),), ((made, inside[-1]),), name="loop: end")
        )
        spans.append((first, last))
        values.append(made)
    if random.random() < 0.5:
        view = next(ids)
        views.append((view, values[-1]))
        sizes[view] = sizes[values[-1]]
        nodes.append(Node("conv", (view,), next(ids), 4))
    flow = Dataflow(inputs, stored, tuple(steps), tuple(views), tuple(spans))
    returned = random.sample(values[3:], 2) if random.random() < 0.8 else []
    return trace(nodes, {key: sizes[key] for key in (1, 2, *(view for view, _ in views))}, returned, flow)


def planned(graph: Trace, **options: bool) -> list[object]:
    arena = arena_of(graph, 4, **options)
    best = arena.in_best_order()
    return [
        [arena.peak, arena.at, arena.size, arena.strategy, arena.lower_bound, arena.is_exact, arena.order_peak],
        [arena.peak_with_reuse, arena.weights, best.peak, best.size],
        arena.order,
        [live for _, live in arena.timeline],
        [live for _, live in best.timeline],
        [str(slot[:6]) for slot in arena.slots],
        arena.sizes,
        arena.notes,
    ]


@pytest.mark.parametrize("kind", ["calls", "loops"])
def test_arenas(golden, kind):
    found = {}
    for seed in range(10):
        random = Random(seed)
        graph = random_trace(random, 14) if kind == "calls" else with_loops(random, 9)
        for inplace, count_inputs in ((False, True), (True, False)):
            found[f"{seed} {inplace}"] = planned(graph, inplace=inplace, count_inputs=count_inputs)
    golden(f"memory/arenas_of_{kind}.json", as_json(found))


SETTINGS = (
    {},
    {"roundup_power2_divisions": 4},
    {"max_split_size": 24 * MIB},
    {"expandable_segments": True},
    {"large_segment_size": 32 * MIB, "roundup_power2_divisions": 1},
)


def requests(random: Random, n: int) -> MemoryLedger:
    """Blocks of 1 B to 70 MiB, many at limits; two events in three belong to a call."""
    sizes = (
        1,
        511,
        512,
        513,
        3000,
        2**19,
        MIB - 1,
        MIB,
        MIB + 1,
        3 * MIB,
        5 * MIB + 3,
        10 * MIB - 1,
        10 * MIB,
        11 * MIB,
    )
    blocks, events = [], 2 * n
    for i in range(n):
        nbytes = random.choice(sizes) if random.random() < 0.7 else random.randrange(1, 70 * MIB)
        born = 0 if i < 3 else random.randrange(1, events - 1)
        died = None if random.random() < 0.1 else min(events, born + random.randrange(1, events // 3))
        blocks.append(Block(i + 1, nbytes, "temporary", born, died, born // 2, (nbytes,), "int8"))
    return MemoryLedger(tuple(blocks), tuple(event // 2 for event in range(events)))


def test_allocators(golden):
    found = {}
    for seed, settings in enumerate(SETTINGS * 3):
        made = memory_of(requests(Random(seed), 60), [html_reports.call("mul", "", 1, 1, 1)] * 60).allocator(
            "cuda", **settings
        )
        segments = [[*segment] for segment in made.segments]
        found[f"{seed} {settings}"] = [[made.requested, made.allocated, made.reserved, made.least_memory], segments]
    golden("memory/allocators.json", as_json(found))
    golden("memory/allocator.txt", f"{made!r}\n{made}\n{made.describe()}\n{as_json(made.to_dict())}")


def shown(method, **options) -> str:
    stream = StringIO()
    method(stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("count_inputs", [True, False])
def test_texts_and_pictures_of_an_arena(golden, count_inputs):
    report = Report(with_loops(Random(4), 12))
    arena = report.arena(inplace=not count_inputs, count_inputs=count_inputs)
    parts = [
        repr(arena),
        str(arena),
        as_json(arena.to_dict()),
        shown(report.show_arena, mode="csv", count_inputs=count_inputs),
        shown(report.show_arena, mode="table", sort="name", top=3, align=16, inplace=True),
        section(report, "arena").replace("><", ">\n<"),
    ]
    golden(f"memory/arena_{count_inputs}.txt", "\n".join(parts) + "\n")


def training() -> Report:
    """A step of 11 forward, 5 backward and 16 optimizer calls that make and free blocks of all kinds.

    Before it, a weight of 4,000 B, a buffer of 52 B and an input of 900 B are alive: 4,952 B.
    """
    phases = ["forward"] * 11 + ["backward"] * 5 + ["optimizer"] * 16
    calls = [
        html_reports.call("mul", f"layer.{i % 3}", 10 + i, 4, 4, phase=phase, name=f"mul-{i}")
        for i, phase in enumerate(phases)
    ]
    random = Random(3)
    blocks = [
        Block(1, 4000, "parameter", 0, None, -1, (1000,), "float32", "layer.0.weight"),
        Block(2, 52, "buffer", 0, None, -1, (13,), "float32", "layer.1.mean"),
        Block(3, 900, "input", 0, 40, -1, (225,), "float32"),
    ]
    kinds = {
        "forward": ("saved", "temporary", "output"),
        "backward": ("gradient", "temporary"),
        "optimizer": ("optimizer",),
    }
    for i, phase in enumerate(phases):
        for _ in range(2):
            n = random.randrange(1, 700)
            kind = random.choice(kinds[phase])
            died = 2 * i + 2 + random.randrange(1, 30) if kind in ("saved", "temporary") else None
            died = None if died is None or died > 2 * len(phases) else died
            blocks.append(Block(len(blocks) + 1, 4 * n, kind, 2 * i + 1, died, i, (n,), "float32"))
    ledger = MemoryLedger(tuple(blocks), tuple(i // 2 for i in range(2 * len(phases))), ("a note of the run",))
    return html_reports.report(calls, memory=ledger)


def test_texts_and_pictures_of_a_step(golden):
    report = training()
    memory = report.memory
    assert memory.base == 4952
    parts = [
        repr(memory),
        str(memory),
        as_json(memory.to_dict()),
        memory.to_csv(),
        memory.to_csv(table=0),
        shown(
            report.show_memory,
            mode="csv",
            columns=COLUMNS,
        ),
        shown(report.show_memory, mode="table", top=4),
        section(report, "memory").replace("><", ">\n<"),
        as_json(html_reports.page_data(report)["memory"]),
    ]
    golden("memory/step.txt", "\n".join(parts))


def test_the_plot_of_a_step(golden):
    optional("matplotlib")
    picture = training().plot("memory")
    (axes,) = picture.figure().axes
    golden("memory/plot.json", as_json({"columns": picture.columns, "rows": [*picture], "axes": drawing(axes)}))


def test_a_section_of_many_blocks(golden):
    """120 blocks before the run, of which 100 have rows, and a run of 1,400 calls, three to a column, in 13 phases."""
    blocks = [Block(i + 1, 10 + i, "parameter", 0, None, -1, (10 + i,), "int8", f"m.{i}.w") for i in range(120)]
    calls = [
        html_reports.call("mul", "m", 1, 1, 1, phase=f"phase {i * 13 // 1400}", name=f"mul-{i}") for i in range(1400)
    ]
    blocks += [
        Block(200 + i, i * 37 % 5000, "temporary", 2 * i + 1, 2 * i + 2, i, (1,), "int8") for i in range(0, 1400, 2)
    ]
    report = html_reports.report(calls, memory=MemoryLedger(tuple(blocks), tuple(i // 2 for i in range(2800))))
    golden("memory/many.html", section(report, "memory").replace("><", ">\n<") + "\n")
