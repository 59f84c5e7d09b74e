"""The tool that counts random networks with every counter."""

from __future__ import annotations

import pytest

from tools import differential

pytestmark = [pytest.mark.frontend("pytorch"), pytest.mark.filterwarnings("ignore")]


def test_costcore_equals_counts_by_hand_and_explains_thop(capsys):
    assert differential.main(["--count", "8", "--tool", "costcore", "--tool", "thop"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].split()[:3] == ["costcore", "equal", "8"]
    assert "unexplained" not in lines[-1]


def test_a_seed_draws_the_same_network():
    assert differential.draw(5) == differential.draw(5)
    assert str(differential.make(differential.draw(5))[0]) == str(differential.make(differential.draw(5))[0])


def test_a_disagreement_is_reduced_to_the_layers_that_cause_it(monkeypatch):
    """thop does not see the products of a function: held to plain counts, it disagrees about that layer alone."""
    monkeypatch.setitem(differential.CONVENTIONS, "thop", "macs")
    convs, products = map(differential.GRAMMAR.index, (differential.conv, differential.products))
    drawn = (1, 4, 5, 5, [(convs, 1), (products, 1), (convs, 2)])
    assert differential.verdict("thop", drawn)[0] == "unexplained"
    assert differential.make(differential.minimized("thop", drawn))[3] == ["products"]
