"""Changed files of every kind work in every view or are refused with a sentence: a sample of tools/fuzz_files.py."""

from __future__ import annotations

import pytest

from tests.frameworks import optional

optional("torch")

SAMPLE = {"report": 12, "trace": 3, "rows": 60, "config": 20}
"""How many files of a kind are tried; 25 of all others."""


@pytest.mark.parametrize(
    "name", ["report", "budget", "baseline", "calibration", "config", "convention", "device", "rows", "trace"]
)
def test_changed_files_are_used_or_refused(name):
    if name == "config":
        optional("transformers")
    from tools.fuzz_files import KINDS, fuzzed

    n = SAMPLE.get(name, 25)
    tally = fuzzed(KINDS[name], 0, n)
    assert tally.foreign == {}
    assert tally.accepted + tally.refused.total() == n
    assert tally.accepted >= n / 2, tally.refused


def test_a_number_determines_its_file():
    from random import Random

    from tools.fuzz_files import changed

    data = {"a": [1, 2, {"b": "text", "c": True}], "d": {"b": "other"}, "e": 0.5}
    made = [changed(data, Random(number)) for number in range(200)]
    assert made == [changed(data, Random(number)) for number in range(200)]
    assert data == {"a": [1, 2, {"b": "text", "c": True}], "d": {"b": "other"}, "e": 0.5}
    assert sum(each != data for each in made) > 100
