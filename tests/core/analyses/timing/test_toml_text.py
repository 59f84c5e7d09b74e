"""TOML text, read back by the parser of the standard library."""

from __future__ import annotations

import sys

import pytest

from costcore.analyses.timing.calibrated import from_table
from costcore.analyses.timing.time_report import toml_text
from tests.core.analyses.timing.toy_calibration import CONDITIONS, POINTS, table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.mark.parametrize(
    "content",
    [
        {"a": 1, "b": -2.5, "c": 1e-07, "d": 1e22, "e": True, "f": "text"},
        {"text": 'quotes " and \\ and \n and \t and \x7f and \x00 and µ and 😀'},
        {"list": [1, 2], "nested": [[1.0, 2.0], [3.0]], "texts": ["a", "b"], "empty": []},
        {"table": {"x": 1, "inner": {"y": 2}}, "z": 3},
        {"tables": [{"a": 1, "t": {"b": 2}}, {"a": 2}]},
        {"a key with spaces": 1, "table": {"conv 1x1": 0.5, "": 1}},
    ],
    ids=lambda content: next(iter(content)),
)
def test_what_is_written_is_read_back(content):
    assert tomllib.loads(toml_text(content)) == content


def test_none_is_left_out():
    assert tomllib.loads(toml_text({"a": None, "b": 1})) == {"b": 1}


def test_a_calibration_is_read_back():
    calibration, conditions = from_table(tomllib.loads(toml_text({"calibration": table()}))["calibration"], "toy")
    assert conditions == CONDITIONS
    assert sorted(calibration.points) == sorted(POINTS)
