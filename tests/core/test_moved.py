"""Modules under the names that the documentation had for them before."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from costcore.moved import MOVED


@pytest.mark.parametrize(("former", "now"), MOVED.items())
def test_a_former_name_is_the_same_module(former, now, monkeypatch):
    for name in sys.modules.keys() & MOVED.keys():
        monkeypatch.delitem(sys.modules, name)
    with pytest.warns(DeprecationWarning, match=f"{former} is now {now}; the old name works until version 0.3"):
        module = import_module(former)
    assert module is import_module(now)
    assert (module.__name__, module.__spec__.name) == (now, now)


def test_another_name_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'costcore\.dim'"):
        import_module("costcore.dim")
