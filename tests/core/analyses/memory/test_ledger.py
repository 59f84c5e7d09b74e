"""Kinds of blocks, and what a memory report says of a ledger written by hand."""

from __future__ import annotations

import pytest

from costcore import Cost, Layer
from tests.core.analyses.memory.graphs import memory_of
from tests.core.traces import Block, Call, MemoryLedger, RawBlock, RawLedger, Recorder, report_of

PHASES = ("forward", "forward", "backward", "optimizer")


def block(identity, nbytes, kind, born, died, call, name=""):
    return Block(identity, nbytes, kind, born, died, call, (nbytes // 4,), "float32", name)


def ledger():
    """Two forward calls, one backward and one optimizer call.

    ======  =====  ==============================  ====
    event   call   what                            live
    ======  =====  ==============================  ====
    0       –      weight 100, input 20             120
    1       0      a: 40                            160
    2       1      b: 8                             168
    3       2      gradient 100                     268
    4       2      a is freed                       228
    5       3      temporary 64                     292
    6       3      temporary is freed               228
    ======  =====  ==============================  ====
    """
    blocks = (
        block(1, 100, "parameter", 0, None, -1, "linear.weight"),
        block(2, 20, "input", 0, None, -1),
        block(3, 40, "", 1, 4, 0),
        block(4, 8, "", 2, None, 1),
        block(5, 100, "gradient", 3, None, 2, "linear.weight"),
        block(6, 64, "", 5, 6, 3),
    )
    return RawLedger([RawBlock(each, True) for each in blocks], (0, 1, 2, 2, 3, 3), {31: 3, 41: 4}, True)


def report(raw=None, phases=PHASES, **fields):
    """The report of calls in these phases, and of what a frontend recorded of their memory."""
    recorder = Recorder()
    for i, phase in enumerate(phases):
        recorder.record(Call(Layer("relu"), "f", module=f"m.{i}", phase=phase, **fields), Cost(0, 0, 0, {}))
    recorder.memory_ledger = lambda: raw or ledger()
    return report_of(recorder)


def kinds(raw, phases=PHASES):
    return {each.id: each.kind for each in report(raw, phases).trace.run.memory.blocks}


def memory():
    return report().memory


def test_what_lives_when_the_backward_pass_begins_is_saved():
    assert kinds(ledger()) == {1: "parameter", 2: "input", 3: "saved", 4: "saved", 5: "gradient", 6: "temporary"}


def test_what_is_freed_between_the_passes_is_not_saved():
    """Block 3 is freed after call 1, the last of the forward pass, and before call 2 makes a gradient."""
    raw = ledger()
    blocks = [each.block for each in raw.blocks]
    blocks[2], blocks[4] = blocks[2]._replace(died=3), blocks[4]._replace(born=4)
    raw = raw._replace(blocks=[RawBlock(each, True) for each in blocks])
    found = kinds(raw)
    assert (found[3], found[4]) == ("temporary", "saved")


def test_without_a_backward_pass_what_lives_at_the_end_is_saved_or_output():
    raw = ledger()._replace(blocks=[*ledger().blocks[:4]], calls=(0, 1, 1, 1))
    assert [*kinds(raw, PHASES[:2]).values()] == ["parameter", "input", "temporary", "saved"]
    assert kinds(raw._replace(returns=False), PHASES[:2])[4] == "output"


def test_what_an_earlier_pass_made_and_freed_is_not_saved():
    made = block(1, 4, "", 1, 2, 0), block(2, 4, "", 3, 5, 2), block(3, 4, "", 4, None, 3)
    raw = RawLedger([RawBlock(each, True) for each in made], (0, 0, 2, 3, 3), {}, True)
    assert [*kinds(raw, ("forward", "backward", "forward", "backward")).values()] == ["temporary", "saved", "output"]


def test_the_report_has_the_peak_and_its_parts():
    m = memory()
    assert (m.base, m.peak, m.at, m.end) == (120, 292, "f-4", 228)
    assert m.by_kind == {"parameter": 100, "input": 20, "gradient": 100, "saved": 8, "temporary": 64}
    assert sum(m.by_kind.values()) == m.peak
    assert m.phases == {"forward": 168, "backward": 268, "optimizer": 292}
    assert m.saved == 48  # a and b, when the backward pass begins
    assert [*m.by_module().items()] == [("linear", 200), ("m.3", 64), ("", 20), ("m.1", 8)]
    assert m.by_module(depth=1) == {"linear": 200, "m": 72, "": 20}
    of_devices = (block(n, 4 * n, "input", 0, None, -1)._replace(device=f"cuda:{n}") for n in (1, 2))
    assert [*memory_of(MemoryLedger((*of_devices,))).by_device.items()] == [("cuda:2", 8), ("cuda:1", 4)]


def test_the_timeline_has_the_highest_moment_of_every_call():
    assert [(i, live) for i, live, _ in memory().timeline] == [(0, 160), (1, 168), (2, 268), (3, 292)]
    assert memory().timeline[2][2] == {"parameter": 100, "input": 20, "gradient": 100, "saved": 48}
    assert all(sum(by_kind.values()) == live for _, live, by_kind in memory().timeline)


def test_blocks_are_listed_with_where_they_come_from():
    first, *_, last = memory().blocks()
    assert [first[key] for key in ("nbytes", "name", "module", "call", "born", "dies")] == [
        *(100, "linear.weight", "linear", "", "", "")  # from before the first call to after the last one
    ]
    assert (last["nbytes"], last["kind"], last["born"], last["dies"]) == (8, "saved", "f-2", "")
    assert [each["nbytes"] for each in memory().blocks(top=3)] == [100, 100, 64]


def test_live_bytes_by_call():
    assert memory().live_by_call() == [("f-1", 160, 160), ("f-2", 168, 168), ("f-3", 228, 268), ("f-4", 228, 292)]
    assert memory().saved_by_call() == [40, 8, 0, 0]
    assert memory().left_behind([0]) == 40
    assert memory().left_behind([0, 1]) == 48
    assert memory().left_behind([2]) == 0


def test_the_timeline_as_csv():
    lines = memory().to_csv().splitlines()
    assert (
        lines[0]
        == "call,phase,module,live_peak,parameter,buffer,input,gradient,optimizer,saved,output,temporary,cached"
    )
    assert lines[4] == "f-4,optimizer,m.3,292,100,0,20,100,0,8,0,64,0"


def test_saved_operands_of_forward_calls():
    found = report(phases=("forward", "backward", "backward", "backward"), inputs=(7,), outputs=(8,), storages=(31, 99))
    assert [call.saved for call in found.calls] == [(7,), (), (), ()]


def test_a_run_without_calls_has_its_base():
    empty = memory_of(MemoryLedger((block(1, 12, "parameter", 0, None, -1),)))
    assert (empty.peak, empty.base, empty.at, empty.timeline, empty.phases) == (12, 12, "", [], {})


def test_memory_is_compared_by_value():
    assert memory() == memory()
    assert memory() != memory_of(MemoryLedger())
    with pytest.raises(TypeError):
        hash(memory())
