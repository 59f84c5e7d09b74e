"""Every primitive of the installed JAX is priced, free, walked or named."""

from __future__ import annotations

import sys

import jax
import jax.extend
import jax.extend.core.primitives
import jax.image
import jax.lax
import jax.nn
import jax.numpy
import jax.scipy
import pytest
from jax.extend.core import Primitive

from costcore.registry import calculators
from costcore_jax.rows import ROWS, UNKNOWN
from costcore_jax.walk import BOOKKEEPING, HANDLERS, INLINED

HANDLED = {row.native.removeprefix("jax::") for row in ROWS}


def primitives():
    """Return the name of every primitive that JAX defines in a module that it has loaded.

    Those of kernels run inside ``pallas_call``, which is named as unknown; experimental ones come and go.
    """
    others = ("jax._src.pallas", "jax.experimental")
    loaded = list(sys.modules.items())
    modules = [module for name, module in loaded if name.startswith("jax") and not name.startswith(others)]
    found = {value.name for module in modules for value in vars(module).values() if isinstance(value, Primitive)}
    public = {value.name for name, value in vars(jax.lax).items() if name.endswith("_p")}
    assert len(public) > 140
    assert public <= found
    return found


def test_every_primitive_is_priced_free_walked_or_named():
    known = HANDLED | INLINED.keys() | HANDLERS.keys() | BOOKKEEPING | UNKNOWN.keys()
    assert sorted(primitives() - known) == []


def test_no_primitive_is_both_known_and_unknown():
    assert not UNKNOWN.keys() & (HANDLED | INLINED.keys() | HANDLERS.keys())


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row.op, str)], ids=lambda row: row.native)
def test_the_operator_of_a_row_has_a_formula(row):
    assert row.op in calculators()


def test_the_operators_that_a_function_chooses_have_formulas():
    chosen = {name for row in ROWS for name in row.ops}
    assert chosen
    assert chosen <= calculators().keys()
