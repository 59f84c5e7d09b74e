"""Networks and their reports, built once for all tests."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest

from costcore import Report
from tests.whole_networks.reports.subjects import SUBJECTS, Subject


class Counted(NamedTuple):
    """A network and its report."""

    name: str
    subject: Subject
    model: Any
    report: Report


@pytest.fixture(scope="session")
def counted():
    """Return a function that builds and counts a network on first use."""

    @cache
    def build_and_count(name: str) -> Counted:
        model = SUBJECTS[name].build()
        return Counted(name, SUBJECTS[name], model, SUBJECTS[name].count(model))

    return build_and_count


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.frontend(*subject.frontends)) for name, subject in SUBJECTS.items()]
)
def each(request, counted) -> Counted:
    """Return each network in turn."""
    return counted(request.param)


@pytest.fixture
def report(each) -> Report:
    """Return the report of each network in turn."""
    return each.report
