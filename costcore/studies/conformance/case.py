"""A row of the conformance table."""

from __future__ import annotations

from typing import NamedTuple

from costcore.ir import Operations


class Case(NamedTuple):
    """A layer and its cost, worked out by hand.

    Attributes:
        name: the name under which each framework has a builder for it.
        op: canonical name of the operator that has this cost; other operators of the run are ignored.
        operations: number of operations by class.
        mread, mwrite: bytes read and written.
        macs: multiply-accumulates of matrix products.
        n_params: learned parameters that the whole run reads.
    """

    name: str
    op: str
    operations: Operations
    mread: int
    mwrite: int
    macs: int = 0
    n_params: int = 0
