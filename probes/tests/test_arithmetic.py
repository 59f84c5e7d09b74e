"""Derivations are arithmetic on integers with words."""

import pytest

from costcore_probes.arithmetic import evaluate


@pytest.mark.parametrize(
    ("derivation", "value"),
    [
        ("2 rows * 4 outputs * 8 inputs", 64),
        ("3 * (9 * 8 + 8 * 6) - 1 last", 359),
        ("6 channels * (6 // 3) inputs + 2 ** 3", 20),
        ("0 summed", 0),
        (" + ".join(["2 * 3 layers"] * 300), 1800),
    ],
)
def test_values(derivation, value):
    assert evaluate(derivation) == value


@pytest.mark.parametrize("derivation", ["4 / 2", "2.5 rows", "rows", "2 *", "True", "1 if 2 else 3", "~1"])
def test_what_is_not_arithmetic_on_integers_is_an_error(derivation):
    with pytest.raises(ValueError, match="not arithmetic on integers"):
        evaluate(derivation)
