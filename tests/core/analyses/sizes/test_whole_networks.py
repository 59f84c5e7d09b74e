"""Small networks as a whole: where each is captured, its formulas, notes, errors; ``--overwrite`` writes tests/golden.

Each network is a function of its sizes, so that every formula can be compared with it: at sizes beyond all captures the
totals of the formulas are those of a run there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from costcore import CostError, Dim, Report, Trace
from costcore.analyses.sizes.capture import NamedInputs, folded, limits_of
from costcore.analyses.sizes.fitting import trace_in_sizes
from costcore.analyses.sizes.formulas import parse_sizes, sizes_between
from costcore.counting import Pricer
from tests.core.analyses.fusion.runs import Calls
from tests.core.traces import Assumption, ModuleCall
from tests.registered import calculators
from tests.whole_text import as_json

Network = Callable[..., Trace]


def chain(n: int, side: int) -> Trace:
    """Three convolutions with strides of 2, 1 and 3, and a product."""
    calls = Calls()
    x, weights = calls.given(n, 4, side, side), calls.given(4, 4, 3, 3, role="param")
    for stride in (2, 1, 3):
        side = (side - 3) // stride + 1
        x = calls("conv", x, weights, shape=(n, 4, side, side), stride=(stride, stride), padding=(0, 0))
    flat = calls("view", x, shape=(n, 4 * side * side))
    return calls.trace(calls("relu", flat))


def tokens(batch: int, seq: int) -> Trace:
    """Scores of all pairs of tokens, and a part of a table of 77 positions, of which PyTorch slices no whole."""
    calls = Calls()
    x, weights = calls.given(batch, seq, 6), calls.given(6, 6, role="param")
    table = calls.given(77, 6)
    part = table if seq == 77 else calls("view", table, shape=(seq, 6))
    x = calls("add", calls("linear", x, weights), part)
    scores = calls("matmul", x, calls("view", x, shape=(batch, 6, seq)), shape=(batch, seq, seq))
    return calls.trace(calls("softmax", scores, axis=2))


def steps(seq: int) -> Trace:
    """A loop over the sequence, whose first step differs, with views; its outputs are stacked."""
    calls = Calls()
    x, weights = calls.given(seq, 5), calls.given(5, 5, role="param")
    state, states = calls("linear", calls("view", x, shape=(1, 5)), weights), []
    for _ in range(seq - 1):
        part = calls("view", x, shape=(1, 5))
        state = calls("tanh", calls("add", part, calls("linear", state, weights)))
        states.append(state)
    names = [f"x{i}" for i in range(len(states))]
    return calls.trace(calls("stack", *states, names=names, shape=(seq - 1, 1, 5), axis=0))


def two_loops(seq: int) -> Trace:
    """Two loops, of which the second has a view in every other step, so that its steps are not equal."""
    calls = Calls()
    x = calls.given(3, 7)
    for _ in range(seq):
        x = calls("exp", calls("relu", x))
    for i in range(2 * seq):
        x = calls("view", x, shape=(3, 7)) if i % 2 else x
        x = calls("tanh", x)
    return calls.trace(calls("gelu", x))


def ends(seq: int) -> Trace:
    """A loop of a view and a call with which the run ends."""
    calls = Calls()
    x = calls.given(3, 7)
    for _ in range(seq):
        x = calls("relu", calls("view", x, shape=(3, 7)))
    return calls.trace(x)


def odd_ids(seq: int) -> Trace:
    """A loop behind as many inputs as the size has binary ones, so that ids have no formula."""
    calls = Calls()
    given = [calls.given(3, 7) for _ in range(bin(seq).count("1"))]
    x = calls("add", given[-1], calls.given(7))
    for _ in range(seq):
        x = calls("exp", calls("relu", x))
    return calls.trace(x)


def quotients(a: int) -> Trace:
    """A dimension that is a rounded quotient, and one that is the square of another and the quotient itself."""
    calls = Calls()
    calls("relu", calls.given((a + 1) // 3, 2))
    return calls.trace(calls("relu", calls.given((a // 5) ** 2 + a // 5, 3)))


def sums(a: int) -> Trace:
    """Two rounded quotients, and a dimension that is their sum."""
    calls = Calls()
    calls("relu", calls.given(a // 3, 2))
    calls("relu", calls.given(a // 5, 2))
    return calls.trace(calls("relu", calls.given(a // 3 + a // 5, 3)))


def long_steps(a: int) -> Trace:
    """A dimension that rises at every 200th size."""
    calls = Calls()
    return calls.trace(calls("relu", calls.given(1 + (a + 3) // 200, 4)))


def products(a: int, b: int, c: int) -> Trace:
    calls = Calls()
    last = calls("relu", calls.given(a * b + c, b // 2 + 1, c))
    return calls.trace(calls("exp", last))


def of_modules(n: int) -> Trace:
    """A run whose module calls have sizes of their own."""
    calls = Calls()
    trace = calls.trace(calls("relu", calls.given(n, 3)))
    return Trace(trace.records, trace.run.recording(module_calls=(ModuleCall("body", -1, ((n, 3),), ((2 * n + 1,),)),)))


def failing(n: int, runs: Callable[[int], bool]) -> Trace:
    if not runs(n):
        raise CostError(f"does not run at {n}.")
    calls = Calls()
    return calls.trace(calls("relu", calls.given(n, 3)))


def further_views(n: int) -> Trace:
    """A run that takes a view at sizes beyond three."""
    calls = Calls()
    x = calls.given(n, 3)
    return calls.trace(calls("relu", calls("view", x, shape=(n, 3)) if n > 3 else x))


def assuming(n: int) -> Trace:
    """Above 2**20 elements, with more than 256 rows, an assumption is made; another one is always."""
    calls = Calls()
    trace = calls.trace(calls("relu", calls.given(n, 4096)))
    made = (Assumption("it is always true", "net.py:1"), *([Assumption("it is large", "net.py:2")] * (n > 256)))
    return Trace(trace.records, replace(trace.run, assumptions=made))


def special(n: int) -> Trace:
    """A size of one is special."""
    calls = Calls()
    return calls.trace(calls("relu", calls.given(n, 3 + (n == 1))))


def other_above(n: int) -> Trace:
    calls = Calls()
    return calls.trace(calls("exp" if n > 100 else "relu", calls.given(n, 3)))


CASES: dict[str, tuple[Network, Any, dict[str, tuple[int, int]]]] = {
    "chain": (lambda s: chain(s[0], s[2]), ("n", 4, "side", "side"), {}),
    "chain in a range": (lambda s: chain(s[0], s[2]), (3, 4, "side", "side"), {"side": (30, 200)}),
    "tokens": (lambda s: tokens(s[0], s[1]), ("batch", "seq", 6), {}),
    "tokens in a range": (lambda s: tokens(s[0], s[1]), ("batch", "seq", 6), {"seq": (2, 77), "batch": (1, 9)}),
    "steps": (lambda s: steps(s[0]), (("t", 5)), {}),
    "steps in a range": (lambda s: steps(s[0]), (("t", 5)), {"t": (2, 60)}),
    "two loops": (lambda s: two_loops(s[1]), (1, "t"), {}),
    "ends": (lambda s: ends(s[1]), (1, "t"), {"t": (3, 40)}),
    "odd ids": (lambda s: odd_ids(s[1]), (1, "t"), {"t": (3, 40)}),
    "quotients": (lambda s: quotients(s[1]), (1, "a"), {"a": (16, 90)}),
    "sums": (lambda s: sums(s[1]), (1, "a"), {"a": (16, 90)}),
    "two values": (lambda s: products(1 + s[1] // 64, 2, 3), (1, "a"), {"a": (16, 100)}),
    "a joint quotient": (lambda s: products((s[0] + s[1]) // 2, 2, 3), ("a", "b"), {"a": (2, 9), "b": (3, 7)}),
    "further views": (lambda s: further_views(s[1]), (1, "n"), {"n": (2, 9)}),
    "multiples of 4 and any": (lambda s: failing(s[1], lambda n: n % 4 == 0), ("a", "n", "b"), {}),
    "long steps": (lambda s: long_steps(s[1]), (1, "a"), {"a": (16, 3000)}),
    "products": (lambda s: products(*s), ("a", "b", "c"), {}),
    "sums of names": (lambda s: products(s[0], s[1] + 1, s[2]), ("2*a", "a+b", 5), {"b": (1, 40)}),
    "modules": (lambda s: of_modules(s[0]), ("n", 3), {}),
    "a cube": (lambda s: products(s[0], s[0], s[0]), ("n", 3), {}),
    "large fails": (lambda s: failing(s[1], lambda n: n < 300), (1, "n"), {}),
    "larger fails": (lambda s: failing(s[1], lambda n: n < 25), (1, "n"), {}),
    "small fails": (lambda s: failing(s[1], lambda n: n >= 50), (1, "n"), {}),
    "all fail": (lambda s: failing(s[1], lambda n: n > 9000), (1, "n"), {}),
    "a range fails": (lambda s: failing(s[1], lambda n: n > 9), (1, "n"), {"n": (3, 20)}),
    "multiples of 4": (lambda s: failing(s[1], lambda n: n % 4 == 0), (1, "n"), {}),
    "assuming": (lambda s: assuming(s[0]), ("n", 10), {}),
    "special": (lambda s: special(s[0]), ("n", 3), {"n": (1, 50)}),
    "special without a range": (lambda s: special(s[0]), ("n", 3), {}),
    "other above": (lambda s: other_above(s[0]), ("n", 3), {}),
    "other above in a range": (lambda s: other_above(s[0]), ("n", 3), {"n": (2, 150)}),
    "a stated size": (lambda s: special(s[0]), (Dim("n", 7, 90), 3), {"n": (7, 90)}),
}


def said(name: str) -> dict[str, Any]:
    network, shape, ranges = CASES[name]
    captured: list[Any] = []

    def capture(inputs: Any) -> Trace:
        captured.append(list(inputs))
        return network(inputs)

    inputs = NamedInputs(shape)
    try:
        trace = trace_in_sizes(inputs, capture, Pricer(calculators(), "framework"), limits_of(inputs, ranges))
    except CostError as error:
        return {"captured": captured, "error": str(error)}
    report = Report(trace)
    run = trace.run
    total = report.total_report
    return {
        "captured": captured,
        "calls": [
            [call.name, str(call.times), *(str(each.shape) for each in (*call.layer.inputs.values(), call.layer.out))]
            for call in trace.calls
        ],
        "totals": {key: str(total[key]) for key in ("macs", "flops", "mread", "mwrite", "n_layers")},
        "notes": [*run.notes],
        "ranges": {key: [*value] for key, value in run.ranges.items()},
        "assumed": [*map(str, run.assumptions), *map(str, run.assumed_above)],
        "modules": str(run.module_calls),
        "unfolded": str(run.unfolded)[:400],
    }


@pytest.mark.parametrize("name", CASES)
def test_a_network(golden, name):
    golden(f"sizes/{name.replace(' ', '_')}.json", as_json(said(name)))


@pytest.mark.parametrize("name", ["chain", "tokens", "two loops", "products"])
def test_formulas_hold_beyond_all_captures(name):
    network, shape, ranges = CASES[name]
    inputs = NamedInputs(shape)
    trace = trace_in_sizes(inputs, network, Pricer(calculators(), "framework"), limits_of(inputs, ranges))
    values = dict(zip(inputs.symbols, (41, 83, 29), strict=False))
    sizes = [values[each] if isinstance(each, str) else each for each in shape]
    expected = Report(network(sizes)).total_report
    found = Report(trace).subs(values).total_report
    assert {key: found[key] for key in ("macs", "flops", "mread", "mwrite")} == {
        key: expected[key] for key in ("macs", "flops", "mread", "mwrite")
    }


def test_folded_runs(golden):
    found = {}
    networks = {"steps": steps, "two loops": two_loops, "ends": ends, "odd ids": odd_ids}
    for name, network in networks.items():
        for seq in (1, 2, 3, 4, 9):
            for keeps_ids in (True, False):
                trace = folded(network(seq), keeps_ids)
                calls = [f"{call.name} x{call.times} {call.inputs} {call.layer.out.shape}" for call in trace.calls]
                found[f"{name} {seq} {keeps_ids}"] = [*calls, str(trace.run.unfolded), *trace.run.notes]
    golden("sizes/folded.json", as_json(found))


def test_sizes_of_curves(golden):
    texts = ("1,2,9", "3:20:5", "3:23:5", "3:100:log2", "5:80:log2", "7:7:1", "7:7:log2")
    found = {text: parse_sizes(text) for text in texts}
    limits = ((1, 3), (2, 4096), (0, 9), (5, 70), (9, 9))
    golden("sizes/curves.json", as_json({**found, **{str(each): sizes_between(*each) for each in limits}}))


@pytest.mark.parametrize("text", ["", "3:2:1", "0:5:1", "1:5:0", "1:5:log3", "1:5", "1:1000001:1", "a,b", "1,2:5:1"])
def test_texts_that_are_no_sizes(text):
    with pytest.raises(ValueError, match=r"is invalid|is more than"):
        parse_sizes(text)


def test_a_million_sizes_are_the_most():
    assert len(parse_sizes("1:1000000:1")) == 1_000_000
