import json

import pytest
import sympy

from costcore import CostError
from costcore.ir import ceil_div, ceil_log2, gcd, maximum, minimum
from costcore.reports.serialization.codec import Decoder, Encoder

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
