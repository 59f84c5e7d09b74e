"""Rules that a later release of a tool has instead: chosen by the release that made a run, or by the user."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costcore import CostError, Report, Trace
from tests.core.given_costs import dense, net

TEXT = """
name = "mine"
tool = "counter"
version = "1.4"
unit = "MAC"
[[count]]
[count.rules]
linear = "macs"
conv = "macs"
[[release]]
since = "1.10"
version = "1.12"
[[release.count]]
[release.count.rules]
linear = "3 * macs"
[[release]]
since = "2"
[[release.count]]
[release.count.rules]
conv = "x"
"""

HEIR = """
name = "heir"
tool = "counter"
version = "1.4"
unit = "MAC"
extends = "mine.toml"
[[count]]
[count.rules]
linear = "5 * macs"
"""

MACS = 16  # of the only layer


@pytest.fixture
def convention(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(TEXT, encoding="utf-8")
    return file


def made_by(version):
    report = net(dense("body", 4))
    run = replace(report.trace.run, frameworks={"counter": version} if version else {})
    return Report(Trace(report.trace.records, run))


@pytest.mark.parametrize(
    ("version", "factor", "compared"),
    [("", 1, "1.4"), ("1.9.1", 1, "1.4"), ("1.10", 3, "1.12"), ("1.11.0+cpu", 3, "1.12"), ("1.10.0a0+git", 3, "1.12")],
)
def test_the_release_that_made_the_run_decides(convention, tmp_path, version, factor, compared):
    view = made_by(version).under(tmp_path / "mine.toml")
    assert view.total == factor * MACS
    assert view.counts.convention.version == compared


def test_a_later_release_replaces_the_rules_of_the_first(convention):
    newest = made_by("2.1").under(convention).counts.convention
    rules = {key: rule.text for key, rule in newest.counts[0].rules.items()}
    assert rules == {"linear": "macs", "conv": "x"}
    assert (newest.since, newest.version, newest.name) == ("2", "1.4", "mine")


def test_a_convention_inherits_releases(convention, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "heir.toml"
    file.write_text(HEIR, encoding="utf-8")
    found = {since: made_by(since).under(file).counts.convention.counts[0].rules for since in ("2", "1.10")}
    assert found["2"]["conv"].text == "x"
    assert found["1.10"]["linear"].text == "5 * macs"


def test_the_user_can_state_the_release():
    found = {
        version: made_by("").under(f"torch-cpu=={version}").counts.convention.counts[0].rules["attention"].text
        for version in ("2.14", "2.15")
    }
    assert found["2.15"] == "2 * element_macs" != found["2.14"]
    with pytest.raises(ValueError, match="unknown convention 'torch-gpu'"):
        made_by("").under("torch-gpu==2.13")
    with pytest.raises(ValueError, match=r"a release of torch must be a version, such as 2\.13\.0 .got 'newest'."):
        made_by("").under("torch-cpu==newest")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[[release]]\nsince = "new"', r"release: since must be a version, such as 2\.15 .got 'new'."),
        ("[[release]]", r"release: since must be a version"),
        ('[[release]]\nsince = "2"\nrules = 1', "release 2: unknown key 'rules'"),
        ("release = 3", r"release must be a list of tables, \[\[release\]\]"),
    ],
)
def test_a_wrong_release_is_refused(tmp_path, table, message):
    file = tmp_path / "mine.toml"
    head, tables = ('name = "mine"\nunit = "MAC"\n', '[[count]]\n[count.rules]\nlinear = "macs"\n')
    file.write_text(head + (f"{table}\n{tables}" if "=" in table[:10] else f"{tables}{table}\n"), encoding="utf-8")
    with pytest.raises(CostError, match=message):
        made_by("").under(file)
