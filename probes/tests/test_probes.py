"""Every probe: the derivation, the loops and the answer agree."""

import re

import pytest

from costcore_probes import all_probes, find
from costcore_probes.probe import QUANTITIES

PROBES = all_probes()


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_loops_count_what_the_derivation_says(probe):
    assert probe.counted() == (probe.answer if probe.small is None else probe.small)


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_a_probe_says_what_it_asks(probe):
    assert re.fullmatch(r"[a-z_]+\.[a-z0-9_]+", probe.id)
    assert probe.quantity in QUANTITIES
    assert probe.formats
    assert len(probe.network) > 10
    assert not probe.network.endswith(".")


def test_no_two_probes_ask_the_same():
    asked = [(probe.network, probe.quantity) for probe in PROBES.values()]
    assert len(set(asked)) == len(asked)


def test_an_unknown_probe_is_answered_with_those_of_its_kind():
    with pytest.raises(ValueError, match=r"no probe 'conv\.nothing'; expected one of conv\.\w+, "):
        find("conv.nothing")
    with pytest.raises(ValueError, match=r"expected one of .*\bconv, "):
        find("nothing")
