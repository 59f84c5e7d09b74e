"""Files whose expressions were written by strangers: every read and every view works or is a CostError, in seconds."""

from __future__ import annotations

import contextlib
import io
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sympy

from costcore import CostError, Report, compare
from costcore.ir import ceil_div, ceil_log2, gcd, maximum, minimum
from costcore.reports import codec
from costcore.reports import json as from_json
from costcore.reports.codec import Decoder, Encoder
from costcore.reports.json import read
from tests.core.given_costs import Step, net

n = sympy.Symbol("n", integer=True, positive=True)
m = sympy.Symbol("m", integer=True, nonnegative=True)

EXPRESSIONS = [
    *(n, n + 1, 2 * n * m + 3, -n, n - m, (n + m) // 2, ceil_div(n, 3), (n + 1) ** 2 / 2, n % 4, 10**30 * n),
    *(maximum(n, m), minimum(n, maximum(m, 3)), gcd(n, m), 3 * gcd(n, 8), ceil_log2(n), sympy.factor(2 * n + 2)),
    *(((n - 3) // 2 + 1) * ((m + 2) // 2), n * sympy.Symbol("n", integer=True), abs(sympy.Symbol("k", even=True))),
    *(n // m, (n * m + 1) // (n * n), ceil_log2(2 * n * m), ceil_log2(ceil_div(n, 3) ** 2), n // (2 * m) + 2**4000 * n),
]


def test_powers_that_are_not_polynomials_are_not_written():
    for expression in (2**n, n**m, sympy.sqrt(n)):
        with pytest.raises(CostError, match="a report file cannot contain exponents that are not integers"):
            Encoder().dim(expression)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_expressions_come_back_equal(expression):
    encoder = Encoder()
    written = json.loads(json.dumps(encoder.dim(expression)))
    symbols = {key: (entry["name"], entry["assumptions"]) for key, entry in encoder.symbols.items()}
    again = Decoder(symbols).dim(written, "here")
    assert again == expression
    assert hash(again) == hash(expression)
    assert again.subs({"n": 5, "m": 7}) == expression.subs({"n": 5, "m": 7})


def test_expressions_are_in_prefix_form():
    encoder = Encoder()
    assert encoder.dim(n + 1) == ["add", 1, "n"]
    assert encoder.dim((n + 1) // 2) == ["floor", ["add", ["ratio", 1, 2], ["mul", ["ratio", 1, 2], "n"]]]
    assert encoder.symbols == {"n": {"name": "n", "assumptions": {"integer": True, "positive": True}}}


SECONDS = 20
"""A bound for one file and all its views on a busy machine; the slowest takes 3 s alone, most a tenth of it."""

FUNCTIONS = ("add", "mul", "pow", "floor", "ceiling", "mod", "min", "max", "abs", "log", "gcd", "ratio")
SYMBOLS = ("n", "m", "k", "a b")
ASSUMPTIONS: tuple[dict[str, bool], ...] = (
    {"integer": True, "positive": True},
    {"integer": True, "nonnegative": True},
    {"integer": True},
    {},
    {"odd": True},
    {"even": True, "negative": True},
    {"prime": True},
    {"real": True},
    {"zero": True},
    {"commutative": False},
    {"infinite": True},
    {"imaginary": True},
)


def report_with(amounts: dict[str, Any], symbols: dict[str, dict[str, bool]]) -> dict[str, Any]:
    """Return a file with one counted and one ignored call whose amounts and sizes are given."""
    shape, macs, times = amounts["shape"], amounts["macs"], amounts["times"]
    tensor = {"shape": shape, "dtype": amounts["dtype"], "role": "data"}
    layer = {"op": "mul", "inputs": [{"name": "x", **tensor}], "outputs": [tensor], "attrs": {"a": {"expr": macs}}}
    cost = {"flops": macs, "mread": amounts["mread"], "mwrite": macs, "macs": macs, "params": {"a": {"expr": macs}}}
    again = {**cost, "flops": amounts["mread"], "macs": amounts["mread"]}
    call = {"type": "Mul", "layer": 0, "parameters": [1], "inputs": [1], "outputs": [2]}
    calls = [
        {**call, "name": "Mul-1", "cost": 0, "times": times, "module": "a"},
        {**call, "name": "Mul-2", "cost": 1, "module": "a"},
        {**call, "name": "Mul-3", "reason": "no calculator"},
    ]
    return {
        "schema": "costcore.report/1",
        "versions": {"costcore": "1", "convention": "1", "frameworks": {}},
        "status": "partial",
        "settings": {"fma_1flop": True, "layout": "framework"},
        "total": {},
        "assumptions": [],
        "notes": [],
        "parameters": [{"id": 1, "size": amounts["size"]}],
        "n_params_model": amounts["size"],
        "modules": [
            {"path": "", "type": "Net", "parameters": [], "frozen": [], "buffers": 0, "same_as": ""},
            {"path": "a", "type": "Inner", "parameters": [1], "frozen": [], "buffers": amounts["size"], "same_as": ""},
        ],
        "layers": [layer],
        "costs": [cost, again],
        "calls": calls,
        "symbols": {name: {"name": name, "assumptions": assumptions} for name, assumptions in symbols.items()},
    }


def all_views(data: dict[str, Any]) -> None:
    """Read a file and show it in every way."""
    text = json.dumps(data)
    with pytest.raises(CostError):  # it states no total
        Report.from_json(text)
    report = Report(read(text).trace)
    for show in (report.show_report, report.show_layers, report.show_tree, report.show_summary_report):
        for unit in (None, "K", "autoaligned"):
            show(io.StringIO(), mode="md", unit=unit, sort="mrw", top=1)
    report.show_by("op", ost=io.StringIO(), mode="csv")
    views: list[Callable[[], Any]] = [
        report.to_html,
        report.to_csv,
        report.to_chrome_trace,
        report.to_model_explorer,
        report.to_model_card,
        report.tree,
        lambda: compare(report, report).to_html(),
        lambda: report.ignored_layers,
        lambda: report.subs(dict.fromkeys(data["symbols"], 3)).to_html(),
        lambda: report.subs(n=1).to_html(),
        lambda: Report.from_json(report.to_json()).to_html(),
    ]
    for view in views:
        try:
            view()
        except CostError:
            continue


def seconds_of(data: dict[str, Any]) -> float:
    """Return the time that reading and showing a file takes; a CostError is fine."""
    start = time.process_time()
    with contextlib.suppress(CostError):
        all_views(data)
    return time.process_time() - start


def size_file(amount: Any, **more: Any) -> dict[str, Any]:
    """Return a file in which everything is one amount."""
    amounts = {"shape": [amount, 3], "macs": amount, "times": amount, "mread": amount, "size": amount, "dtype": "int4"}
    return report_with({**amounts, **more}, dict.fromkeys(SYMBOLS, ASSUMPTIONS[0]))


def nested(levels: int, wrap: Callable[[Any], Any], inner: Any = "n") -> Any:
    for _ in range(levels):
        inner = wrap(inner)
    return inner


HUGE = 10**1200

HOSTILE: dict[str, Any] = {
    "powers to powers": nested(12, lambda x: ["pow", x, x]),
    "a tower of numbers": nested(12, lambda x: ["pow", x, 99]),
    "a power of a symbol to a symbol": ["pow", "n", ["pow", "m", "k"]],
    "a logarithm of -1": ["log", -1],
    "a logarithm of a logarithm": nested(9, lambda x: ["log", x]),
    "a division by zero": ["pow", 0, -1],
    "a division by a hidden zero": ["pow", ["add", "n", ["mul", -1, "n"]], -1],
    "a remainder by zero": ["mod", "n", 0],
    "a remainder of itself": nested(9, lambda x: ["mod", ["add", "m", x], x]),
    "a square root": ["pow", "n", ["ratio", 1, 2]],
    "huge numbers": HUGE,
    "too huge numbers": HUGE**2,
    "huge multiples": ["mul", HUGE, "n"],
    "powers of huge multiples": ["pow", ["mul", HUGE, "n"], 100],
    "huge degrees": ["pow", "n", 10**6],
    "sums of powers": ["pow", ["add", 1, *SYMBOLS], 100],
    "products of sums": ["mul", *[["add", i, *SYMBOLS] for i in range(1, 100)]],
    "roundings": nested(200, lambda x: ["floor", ["mul", ["ratio", 1, 2], ["add", 1, x]]]),
    "roundings of products": nested(38, lambda x: ["floor", ["mul", ["ratio", 1, 3], "m", x]]),
    "minima": nested(38, lambda x: ["min", ["add", x, "m"], ["add", 1, "k"]]),
    "many operands of a minimum": ["min", *[["add", i, "n"] for i in range(1, 1000)]],
    "doubling": nested(10, lambda x: ["max", ["add", x, "m"], ["mul", 2, x]]),
    "absolute values": nested(38, lambda x: ["abs", ["add", -3, x]]),
    "divisors": nested(38, lambda x: ["gcd", x, ["add", "m", 8]]),
    "fractions inside fractions": nested(38, lambda x: ["pow", ["add", 1, x], -1]),
    "many divisors": ["add", *[["pow", ["add", i, "n"], -1] for i in range(1, 1000)]],
    "many denominators": ["add", *[["mul", ["ratio", 1, p], ["pow", "n", p]] for p in range(3, 99, 2)]],
    "halves": ["mul", ["ratio", 1, 2], "n"],
    "a ratio": ["ratio", 1, 3],
    "a number as an expression": ["add", 1, -1],
    "one operand": ["add", "n"],
    "deep lists": nested(400, lambda x: ["add", 1, x]),
    "deep products": nested(150, lambda x: ["mul", "m", ["add", 1, x]]),
}


@pytest.mark.parametrize("amount", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_expression_is_read_and_shown_or_refused_in_seconds(amount):
    assert seconds_of(size_file(amount)) < SECONDS


def share(divisor: int) -> list[Any]:
    return ["mul", ["ratio", 1, divisor], "n"]


@pytest.mark.parametrize(
    ("within", "beyond", "problem"),
    [
        (*(nested(n, lambda x: ["add", "n", ["mul", 2, x]]) for n in (80, 81)), "more than 160 levels"),
        (*(nested(n, lambda x: ["floor", ["mul", ["ratio", 1, 2], x]]) for n in (40, 41)), "more than 40 functions"),
        (*(["add", *["n"] * n] for n in (4095, 4096)), "more than 4096 parts"),
        (["pow", "n", 2048], ["pow", "n", 2049], "more than 2048 factors"),
        (share(3**646), share(3**647), "more than 1024 bits in its denominators"),  # 1024 and 1026 bits
        # 2^k has k + 1 bits, a sum of two terms 2 more, and the symbol counts as 7.
        (*(["floor", ["pow", ["add", 2**k, "n"], -1]] for k in (4086, 4087)), "more than 4096 bits in its divisors"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_expression_has_limits(within, beyond, problem):
    read(json.dumps(size_file(within, shape=[3])))
    with pytest.raises(CostError, match=problem):
        read(json.dumps(size_file(beyond, shape=[3])))


def test_amounts_have_a_common_denominator_of_limited_size():
    near, far = (size_file(share(2**600), shape=[3], mread=share(divisor)) for divisor in (2**700, 3**400))
    read(json.dumps(near))
    with pytest.raises(CostError, match="too many different denominators"):
        read(json.dumps(far))


def test_amounts_that_are_small_one_by_one_can_be_printed_together():
    for data in (size_file(HUGE, shape=[HUGE] * 9), size_file(HUGE, shape=[["mul", HUGE, "n"]] * 3)):
        with pytest.raises(CostError, match="is not a shape: it is too large"):
            read(json.dumps(data))
    assert seconds_of(size_file(HUGE, shape=[3])) < SECONDS


def random_amount(choose: random.Random, levels: int) -> Any:
    """Return an expression of prefix form, most of them of the right numbers of operands."""
    if levels == 0 or choose.random() < 0.15:
        leaves = [*SYMBOLS, *SYMBOLS, 0, 1, 2, 3, -1, choose.randrange(-99, 99), 2**70]
        return choose.choice(leaves)
    function = choose.choice(FUNCTIONS)
    x, y, z = (random_amount(choose, levels - 1) for _ in range(3))
    if function == "ratio":
        return ["mul", ["ratio", choose.randrange(1, 9), choose.randrange(2, 9)], x]
    if function == "pow":
        return ["pow", x, choose.choice([-2, -1, 2, 3, 7, 2, -1, y])]
    if function == "log":
        return ["ceiling", ["mul", ["pow", ["log", 2], -1], ["log", x]]]
    if function in ("floor", "ceiling", "abs"):
        return [function, x]
    return [function, x, y] if function in ("mod", "gcd") or choose.random() < 0.6 else [function, x, y, z]


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_are_read_and_shown_or_refused_in_seconds(seed):
    choose, read_ones = random.Random(seed), 0
    for _ in range(40):
        first, second = (random_amount(choose, choose.randrange(1, 6)) for _ in range(2))
        amounts = {"shape": [first, 3], "macs": first, "times": second, "mread": second, "size": second}
        symbols = {name: choose.choice(ASSUMPTIONS[: choose.choice([3, 4, 8, 12])]) for name in SYMBOLS}
        data = report_with({**amounts, "dtype": choose.choice(["int4", "float32"])}, symbols)
        assert seconds_of(data) < SECONDS, json.dumps(data)
        try:
            read_ones += len(read(json.dumps(data)).trace) > 0
        except CostError:
            continue
    assert read_ones >= 3


def report_of(count: int, **costs: Any) -> Report:
    """The report of ``count`` calls of equal costs."""
    return net(*(Step("linear", f"layer{i}", **costs) for i in range(count)))


def expressions(data: Any) -> Iterator[str]:
    """The expressions in a file, each as text, with those inside them."""
    if isinstance(data, dict):
        for value in data.values():
            yield from expressions(value)
    elif isinstance(data, list):
        if data and data[0] in ("add", "mul", "pow", "floor", "max"):
            yield json.dumps(data)
        for value in data:
            yield from expressions(value)


def symbolic_report(count: int = 50) -> Report:
    m = sympy.Symbol("m", integer=True, positive=True)
    steps = [
        Step("linear", f"{i}", n * m * (i % 5 + 1), n * m * (i % 5), n + m, 4 * n * m, 4 * m, (n, 2 * m + i))
        for i in range(count)
    ]
    return net(*steps)


def test_equal_expressions_are_built_once(monkeypatch):
    text = symbolic_report().to_json()
    counts, built, build = Counter(expressions(json.loads(text))), [], codec.build
    monkeypatch.setattr(codec, "build", lambda function, operands: built.append(function) or build(function, operands))
    assert Report.from_json(text).to_json() == text
    assert len(built) <= len(counts) < sum(counts.values()) / 2, "each of them occurs several times"


def test_a_report_is_checked_without_an_entry_for_each_call(monkeypatch):
    text = symbolic_report().to_json()
    written: list[Any] = []
    dim = codec.Encoder.dim
    monkeypatch.setattr(from_json, "Ledger", None)
    monkeypatch.setattr(codec.Encoder, "dim", lambda self, value: written.append(value) or dim(self, value))
    Report.from_json(text)
    assert len(written) < 100, "the total, and not the costs of 50 calls"


@pytest.mark.parametrize("key", ["flops", "macs", "mread", "mwrite", "mrw", "n_layers", "n_params"])
def test_another_total_is_refused(key):
    data = json.loads(symbolic_report(3).to_json())
    data["total"][key] = 7 if data["total"][key] != 7 else 8
    with pytest.raises(CostError, match="total is not the sum of the calls"):
        Report.from_json(json.dumps(data))


def test_a_total_that_a_ledger_does_not_expand_is_read():
    """64 products of reads are expanded; with the bytes written these are 65 terms, which are left as they are."""
    a, b = (sum(sympy.symbols(f"{name}:8", integer=True, positive=True)) for name in "ab")
    report = report_of(1, mread=a * b, mwrite=n)
    total = report.total_report
    assert total["mrw"] != total["mread"] + total["mwrite"]
    assert Report.from_json(report.to_json()).total_report == total


def test_a_report_without_counted_calls_is_read():
    report = net(Step("unheard_of", known=False))
    assert Report.from_json(report.to_json()).to_json() == report.to_json()


def test_a_cost_in_a_loop_counts_as_often_as_it_runs():
    report = report_of(2, macs=3, fma=3, mread=8, mwrite=4)
    data = json.loads(report.to_json())
    data["calls"][1]["times"] = 5
    for key, once in (("flops", 3), ("macs", 3), ("mread", 8), ("mwrite", 4), ("mrw", 12)):
        data["total"][key] = 6 * once
    assert Report.from_json(json.dumps(data)).total_report["mrw"] == 6 * 12
