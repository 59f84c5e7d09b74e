import json

import pytest

from costcore import CostError, Report
from tests.core.toy_networks import nested_report


def without(data, key):
    return {k: v for k, v in data.items() if k != key}


def set_in(path, value):
    """A change of one place of a file."""

    def change(data):
        *way, last = path
        place = data
        for step in way:
            place = place[step]
        place[last] = value
        return data

    return change


MALFORMED = {
    "no object": (lambda data: [data], "expected an object"),
    "another schema": (set_in(["schema"], "costcore.report/2"), "schema: it says 'costcore.report/2'"),
    "a missing field": (lambda data: without(data, "calls"), "'calls' is missing"),
    "a field too many": (set_in(["color"], 1), "unknown 'color'"),
    "true for an integer": (set_in(["calls", 0, "layer"], True), r"calls\[0\].layer: expected an integer, got True"),
    "a layer that is not there": (set_in(["calls", 0, "layer"], 9), r"calls\[0\].layer: there is no layer 9"),
    "a negative place": (set_in(["calls", 0, "cost"], -1), "there is no cost -1"),
    "a float for a cost": (set_in(["costs", 0, "mread"], 1.5), r"costs\[0\].mread: expected an integer or a string"),
    "a negative size": (set_in(["layers", 0, "inputs", 0, "shape"], [-1]), "expected at least 0, got -1"),
    "an unknown element type": (set_in(["layers", 0, "outputs", 0, "dtype"], "float31"), "expected one of int1"),
    "an unknown role": (set_in(["layers", 0, "outputs", 0, "role"], "x"), "expected one of data, param"),
    "an unknown phase": (set_in(["calls", 0, "phase"], "sideways"), "expected one of forward"),
    "one name twice": (set_in(["calls", 1, "name"], "Dense-1"), "two calls have the same name"),
    "an unknown parameter": (set_in(["calls", 0, "parameters"], [5]), "5 is not among the parameters"),
    "an unknown symbol": (set_in(["costs", 0, "macs"], "k"), "'k' is not among the symbols"),
    "an unknown expression": (set_in(["costs", 0, "macs"], ["eval", "1"]), "unknown expression 'eval'; known are add"),
    "a word of another type": (set_in(["costs", 0, "macs"], [{}, 1]), "expected an integer, a symbol"),
    "a power of gigabytes": (set_in(["costs", 0, "macs"], ["pow", 10, 10**9]), "the power is too large"),
    "a tower of powers": (
        set_in(["costs", 0, "macs"], ["pow", ["pow", ["pow", 9, 99], 99], 99]),
        "the power is too large",
    ),
    "a ratio of nothing": (set_in(["costs", 0, "macs"], ["ratio", 1, 0]), "a ratio is of two integers"),
    "FLOPs of other operations": (set_in(["costs", 0, "flops"], 1), "come to other FLOPs than it states"),
    "a total that is none": (set_in(["total", "flops"], 1), "total: it is not the sum of the calls"),
    "a status that is none": (set_in(["status"], "partial"), "its calls make it complete"),
    "a cost that went": (lambda data: {**data, "calls": [without(data["calls"][0], "cost")]}, "neither a cost nor"),
    "a list in a layer": (set_in(["layers", 0, "attrs"], {"a": {"list": []}}), "settings of a layer do not change"),
    "a setting of no kind": (set_in(["layers", 0, "attrs"], {"a": {"b": 1}}), "expected one of expr, float"),
    "a float of no kind": (set_in(["layers", 0, "attrs"], {"a": {"float": "9"}}), "is no float"),
    "a symbol that contradicts itself": (
        lambda data: {
            **set_in(["costs", 0, "macs"], "k")(data),
            "symbols": {"k": {"name": "k", "assumptions": {"even": True, "odd": True}}},
        },
        "contradicts itself",
    ),
    "negative time": (set_in(["calls", 0, "seconds"], -1.0), "expected at least 0"),
    "a note that is no text": (set_in(["notes"], [1]), "notes: expected strings"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_report_is_a_sentence(toy, kind):
    change, sentence = MALFORMED[kind]
    data = change(json.loads(nested_report(toy).to_json()))
    text = " " + json.dumps(data) if isinstance(data, dict) else json.dumps(data).encode()
    with pytest.raises(CostError, match=sentence):
        Report.from_json(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "is no JSON"),
        ("{", "is no JSON"),
        (b"\xff\xfe\x00", "is no JSON"),
        ('{"schema": NaN}', "NaN is no number"),
        ('{"schema": ' + "9" * 10_000 + "}", "is no JSON"),
        ('{"schema": ' + "[" * 100_000, "nested too deeply"),
        ("no such file.json", "no such file.json cannot be read"),
        ("", "cannot be read"),
        ("a\0b", "cannot be read"),
    ],
)
def test_what_is_no_report_at_all_is_a_sentence(text, sentence):
    with pytest.raises(CostError, match=sentence):
        Report.from_json(text)


def test_a_report_is_read_from_text_or_a_path():
    with pytest.raises(TypeError, match="expected the text or the path"):
        Report.from_json(3)
