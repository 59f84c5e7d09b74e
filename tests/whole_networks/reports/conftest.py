"""Networks and their reports, made once for all tests that look at them."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest

from costcore import Report
from tests.whole_networks.reports.subjects import SUBJECTS, Subject


class Counted(NamedTuple):
    """A network, built and counted."""

    name: str
    subject: Subject
    model: Any
    report: Report


@pytest.fixture(scope="session")
def counted():
    """Builds and counts a network the first time it is asked for."""

    @cache
    def make(name: str) -> Counted:
        model = SUBJECTS[name].build()
        return Counted(name, SUBJECTS[name], model, SUBJECTS[name].count(model))

    return make


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.frontend(*made.frontends)) for name, made in SUBJECTS.items()]
)
def each(request, counted) -> Counted:
    """One network after the other."""
    return counted(request.param)


@pytest.fixture
def report(each) -> Report:
    """The report of one network after the other."""
    return each.report
