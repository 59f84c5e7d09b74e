"""Limits on the least time of a run on a device."""

from __future__ import annotations

import pytest

from costcore import CostError, check
from tests.command_line import main
from tests.core.given_costs import dense, net, relu

DEVICE = 'name = "mine"\nkind = "gpu"\n[peak.vector]\nfloat32 = 1\n[memory]\ndram_gbs = 1000\n'
"""Per second: 1e12 FLOP and 1e12 bytes, without a cache."""

MODEL = net(dense("a", 1000), relu("b", 1000), framework="torch")
LEAST = 4_008_000 / 1e12 + 8000 / 1e12
"""Seconds in which both calls move their bytes: 4,004,000 read and 4,000 written, then 4,000 each."""


@pytest.fixture
def budget(tmp_path):
    (tmp_path / "mine.toml").write_text(DEVICE)

    def write(limit):
        path = tmp_path / "budget.toml"
        path.write_text(f'[time."mine.toml"]\n{limit}\n')
        return path

    return write


def test_a_run_within_its_time(budget):
    assert check(MODEL, budget('bound_seconds = "4.02 µs"')) == []
    assert check(MODEL, budget("bound_seconds = 0.1")) == []


def test_a_run_that_must_take_longer_is_a_violation(budget, tmp_path):
    path = budget('bound_seconds = "3us"')
    (violation,) = check(MODEL, path)
    assert violation == (f"time on {tmp_path / 'mine.toml'}", "bound_seconds", round(LEAST * 1e9), 3000, "")
    assert str(violation).endswith("mine.toml: 4.016 µs at least, limit 3.0 µs, 1.016 µs over, 33.87 %")


def test_options_are_those_of_the_time(budget):
    assert check(MODEL, budget('bound_seconds = "2.1 µs"'))
    assert check(MODEL, budget('bound_seconds = "2.1 µs"\ndtype = "float16"')) == []  # half the bytes
    assert check(MODEL, budget('bound_seconds = "4.010 µs"\nfusion = "none"'))


def test_limits_on_time_stand_beside_those_on_costs():
    budget = {"total": {"macs": 1}, "time": {"l4": {"bound_seconds": 1e-12, "tf32": ["conv"]}}}
    assert [violation.metric for violation in check(MODEL, budget)] == ["macs", "bound_seconds"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"l5": {"bound_seconds": 1}}, "time.l5: unknown device 'l5'. `costcore devices` lists"),
        ({"l4": {}}, 'bound_seconds must be a number of seconds or a string such as "5 ms" (got None)'),
        ({"l4": {"bound_seconds": "5 min"}}, "such as \"5 ms\" (got '5 min')"),
        ({"l4": {"bound_seconds": 0}}, "bound_seconds must be positive (got 0)"),
        ({"l4": {"bound_seconds": True}}, "(got True)"),
        ({"l4": {"seconds": 1}}, "unknown key 'seconds' (expected bound_seconds, dtype, fusion, cores, tf32). Did you"),
        ({"l4": 3}, "must be a table of limits"),
        (3, "must be a table of limits"),
    ],
)
def test_what_is_wrong_is_stated(section, message):
    with pytest.raises(CostError) as raised:
        check(MODEL, {"time": section})
    assert message in str(raised.value)


def test_the_command_fails(budget, tmp_path, capsys):
    MODEL.to_json(tmp_path / "net.json")
    path = budget('bound_seconds = "3 µs"')
    assert main(["check", str(tmp_path / "net.json"), "--budget", str(path)]) == 1
    assert "4.016 µs at least, limit 3.0 µs" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "net.json"), "--budget", str(path), "--format", "md"]) == 1
    assert "| at least | 4.016 µs | 3.0 µs | 1.016 µs |" in capsys.readouterr().out


def test_an_unknown_time_is_not_within_its_limit():
    (violation,) = check(MODEL, {"time": {"ethos-u55-256": {"bound_seconds": 1}}})
    assert str(violation).startswith("time on ethos-u55-256: partial: ethos-u55-256 computes int8 only; the run has")
    assert check(MODEL, {"time": {"ethos-u55-256": {"bound_seconds": 1, "dtype": "int8"}}}) == []


def test_options_that_no_time_has_are_errors_of_the_budget():
    with pytest.raises(CostError, match="budget: time on l4: unknown dtype 'bfloat61'"):
        check(MODEL, {"time": {"l4": {"bound_seconds": 1, "dtype": "bfloat61"}}})


def test_a_partial_time_violates_a_strict_budget_or_one_that_it_exceeds(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(DEVICE.replace("[peak.vector]\nfloat32 = 1\n", ""))
    limits = {"time": {str(path): {"bound_seconds": "5us"}}}
    assert check(MODEL, limits) == []
    (violation,) = check(MODEL, {"strict": True, **limits})
    assert violation.reason == "mine: unknown, not part of the bound: the peak of its vector engine"
    (violation,) = check(MODEL, {"time": {str(path): {"bound_seconds": "3us"}}})
    assert violation.metric == "bound_seconds"
