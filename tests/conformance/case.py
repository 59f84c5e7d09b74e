"""A row of the conformance table."""

from __future__ import annotations

from typing import NamedTuple

from costcore import Operations


class Case(NamedTuple):
    """A layer and its cost by hand.

    Attributes:
        name: what builders go by.
        op: neutral name of the operator the cost is of; what else a framework does around it is not looked at.
        operations: by kind.
        mread, mwrite: bytes.
        macs: products of matrix multiplications.
        n_params: learned parameters read, of the whole run.
    """

    name: str
    op: str
    operations: Operations
    mread: int
    mwrite: int
    macs: int = 0
    n_params: int = 0
