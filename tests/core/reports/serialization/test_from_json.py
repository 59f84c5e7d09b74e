import json

import pytest

from costcore import CostError, Report
from tests.core.toy_networks import nested_report


def without(data, key):
    return {k: v for k, v in data.items() if k != key}


def set_in(path, value):
    """Return a function that changes one value of a file."""

    def change(data):
        *parents, last = path
        inner = data
        for key in parents:
            inner = inner[key]
        inner[last] = value
        return data

    return change


MALFORMED = {
    "not an object": (lambda data: [data], r"the file: wrong type \(got \[.*, expected an object\)"),
    "another schema": (
        set_in(["schema"], "costcore.report/2"),
        r"schema: unknown schema \(got 'costcore.report/2', expected 'costcore.report/1'\)",
    ),
    "a missing field": (lambda data: without(data, "calls"), "'calls' is missing"),
    "an unknown field": (set_in(["color"], 1), "unknown 'color'"),
    "true for an integer": (
        set_in(["calls", 0, "layer"], True),
        r"calls\[0\].layer: wrong type \(got True, expected an integer\)",
    ),
    "a layer that is not there": (
        set_in(["calls", 0, "layer"], 9),
        r"calls\[0\].layer: index out of range \(got 9, expected less than 2, at least 0\)",
    ),
    "operands without tensors": (
        set_in(["calls", 0, "inputs"], [1, 2, 3, 4, 5, 6, 7]),
        r"calls\[0\].inputs: wrong length \(got \[1, 2, 3, 4, 5, 6, 7\], expected none or \d, as the layer has\)",
    ),
    "outputs without tensors": (set_in(["calls", 0, "outputs"], [8, 9]), r"calls\[0\].outputs: wrong length"),
    "memory of no operand": (set_in(["calls", 0, "storages"], [1] * 9), r"calls\[0\].storages: wrong length"),
    "a negative index": (set_in(["calls", 0, "cost"], -1), r"calls\[0\].cost: index out of range \(got -1,"),
    "a float for a cost": (
        set_in(["costs", 0, "mread"], 1.5),
        r"costs\[0\].mread: wrong type \(got 1.5, expected an integer or a string",
    ),
    "a negative size": (set_in(["layers", 0, "inputs", 0, "shape"], [-1]), r"negative \(got -1, expected at least 0\)"),
    "an unknown dtype": (set_in(["layers", 0, "outputs", 0, "dtype"], "float31"), "expected one of int1"),
    "an unknown role": (set_in(["layers", 0, "outputs", 0, "role"], "x"), "expected one of data, param"),
    "an unknown phase": (set_in(["calls", 0, "phase"], "sideways"), "expected one of forward"),
    "one name twice": (set_in(["calls", 1, "name"], "Dense-1"), "two calls have the same name"),
    "an unknown parameter": (set_in(["calls", 0, "parameters"], [5]), "parameter 5 is not declared"),
    "an unknown symbol": (set_in(["costs", 0, "macs"], "k"), "symbol 'k' is not declared"),
    "an unknown expression": (
        set_in(["costs", 0, "macs"], ["eval", "1"]),
        r"unknown function \(got 'eval', expected one of add",
    ),
    "a function that is not a string": (set_in(["costs", 0, "macs"], [{}, 1]), "expected an integer, a symbol"),
    "a power of gigabytes": (
        set_in(["costs", 0, "macs"], ["pow", 10, 10**9]),
        "the base of a power must contain a symbol",
    ),
    "a tower of powers": (
        set_in(["costs", 0, "macs"], ["pow", ["pow", ["pow", 9, 99], 99], 99]),
        "the base of a power must contain a symbol",
    ),
    "a rounded number": (set_in(["costs", 0, "macs"], ["floor", ["ratio", 7, 2]]), "a function of numbers"),
    "a minimum of one": (set_in(["costs", 0, "macs"], ["min", 7]), r"wrong number of arguments \(1\)"),
    "a ratio by zero": (set_in(["costs", 0, "macs"], ["ratio", 1, 0]), "a ratio needs two integers"),
    "FLOPs that contradict the operations": (
        set_in(["costs", 0, "flops"], 1),
        "'flops' is not the sum of 'operations'",
    ),
    "a wrong total": (
        set_in(["total", "flops"], 1),
        "the report: total is not the sum of the calls; the file was edited, or written by another version",
    ),
    "a wrong status": (set_in(["status"], "partial"), "status: it contradicts the calls"),
    "a missing cost": (
        lambda data: {**data, "calls": [without(data["calls"][0], "cost")]},
        "expected 'cost', or 'reason'",
    ),
    "a list in a layer": (
        set_in(["layers", 0, "attrs"], {"a": {"list": []}}),
        "attributes of a layer must be immutable",
    ),
    "an attribute of an unknown kind": (
        set_in(["layers", 0, "attrs"], {"a": {"b": 1}}),
        "expected an object with one key of expr, float",
    ),
    "an invalid float": (set_in(["layers", 0, "attrs"], {"a": {"float": "9"}}), "is not a valid float"),
    "an invalid complex number": (set_in(["layers", 0, "attrs"], {"a": {"complex": []}}), "is not a valid complex"),
    "a symbol with contradictory assumptions": (
        lambda data: {
            **set_in(["costs", 0, "macs"], "k")(data),
            "symbols": {"k": {"name": "k", "assumptions": {"even": True, "odd": True}}},
        },
        "the assumptions of 'k' are contradictory",
    ),
    "a module call that is not there": (set_in(["calls", 0, "module_call"], 1), "expected the number of a module call"),
    "an operand that is not there": (set_in(["calls", 0, "strided"], [7]), "expected positions of inputs"),
    "a module call inside a later one": (
        set_in(["module_calls"], [{"module": "", "parent": 1}]),
        r"module_calls\[0\].parent: wrong value \(got 1, expected the number of an earlier module call\)",
    ),
    "a shape that is not a list": (
        set_in(["module_calls"], [{"module": "", "inputs": [3]}]),
        r"module_calls\[0\].inputs\[0\]: wrong type \(got 3, expected a list of sizes\)",
    ),
    "a negative size of a parameter": (set_in(["modules", 0, "own"], {"w": -1}), r"modules\[0\].own.w: negative"),
    "bases that are not text": (set_in(["modules", 0, "bases"], [1]), r"modules\[0\].bases: wrong type"),
    "negative time": (set_in(["calls", 0, "seconds"], -1.0), "a finite number of at least 0"),
    "a note that is not text": (set_in(["notes"], [1]), r"notes: wrong type \(got \[1\], expected strings\)"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_report_is_an_error_with_the_location(toy, kind):
    change, sentence = MALFORMED[kind]
    data = change(json.loads(nested_report(toy).to_json()))
    text = " " + json.dumps(data) if isinstance(data, dict) else json.dumps(data).encode()
    with pytest.raises(CostError, match=sentence):
        Report.from_json(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "it is empty. Write it again"),
        ("{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        ('{"schema": NaN}', "NaN is not a JSON number"),
        ('{"schema": ' + "9" * 10_000 + "}", "a number of 10000 digits is too large"),
        ('{"schema": ' + "[" * 100_000, "nested too deeply"),
        ('{"title": "Fruit", "figures": {}, "tables": []}', "it is a saved result. Pass a report that"),
        ("no such file.json", "no such file.json cannot be read"),
        ("", "cannot be read"),
        ("a\0b", "cannot be read"),
    ],
)
def test_a_file_that_is_not_a_report_is_an_error_with_its_name(text, sentence):
    with pytest.raises(CostError, match=sentence):
        Report.from_json(text)


def test_a_report_is_read_from_text_or_a_path():
    with pytest.raises(TypeError, match="expected a report as JSON text or as a path"):
        Report.from_json(3)
