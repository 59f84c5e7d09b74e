import gc
import sys
from importlib import import_module

import pytest

from costcore.trace.interrupts import collector_off


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that has not been imported."""
    (tmp_path / "many_objects.py").write_text("made = [[] for _ in range(1000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "many_objects"
    monkeypatch.delitem(sys.modules, "many_objects")


def generation(wanted):
    """Return the number of the generation that an object is in; None while it is frozen."""
    return next((n for n in range(3) if any(found is wanted for found in gc.get_objects(n))), None)


@pytest.fixture
def no_collector():
    """Disables the garbage collector, so that only the code under test moves objects."""
    gc.disable()
    yield
    gc.enable()


def test_objects_of_imported_modules_are_not_scanned_as_new_ones(module, no_collector):
    with collector_off():
        made = import_module(module).made
        assert generation(made) == 0
    assert generation(made) == 2


def test_without_an_import_new_objects_stay_new(no_collector):
    with collector_off():
        made = [[]]
    assert generation(made) == 0


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_as_it_was_before(is_on, no_collector):
    if is_on:
        gc.enable()
    with collector_off():
        assert not gc.isenabled()
    assert gc.isenabled() == is_on


def test_objects_that_the_user_froze_stay_frozen(module):
    kept = [[]]
    gc.freeze()
    try:
        with collector_off():
            import_module(module)
        assert generation(kept) is None
    finally:
        gc.unfreeze()
