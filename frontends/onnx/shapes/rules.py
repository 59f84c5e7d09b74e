"""What a rule of shapes is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..node import Node
from ..values.value import Value

Rule: TypeAlias = Callable[[Node], Sequence[Value]]
"""Makes the outputs of a node from its inputs: as many as the operator can have. Raises ``CostError`` where the node
is wrong, and ``Undetermined`` where a setting that decides is not known."""
