"""Reports of the toy decoder."""

from __future__ import annotations

import pytest

from costcore import ServingReport
from tests.core.studies.serving.toy_decoder import ToyDecoder


@pytest.fixture
def served(monkeypatch):
    def make(model=None, **options) -> ServingReport:
        model = model or ToyDecoder()
        monkeypatch.setattr("costcore.studies.serving.report._cached_model", lambda *_: model)
        return ServingReport(None, **options)

    return make
