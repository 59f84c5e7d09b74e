"""What a rule receives: the layer, how its operands depend on the input, and the name of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from costcore.analyses.receptive_field.dependence import CannotFollowError, Dependence, carries, contracted, slid
from costcore.analyses.receptive_field.periodic_map import Taps
from costcore.analyses.receptive_field.union import broadcast, united
from costcore.ir import Layer, Tensor
from costcore.numbers.dims import Dim

Rule: TypeAlias = "Callable[[Site], Sequence[Dependence | None]]"
"""Returns how each output depends on one axis of the input; None for an output that does not.

It raises ``CannotFollowError`` if it cannot say."""


@dataclass(slots=True)
class Site:
    """One call, seen from one axis of the input.

    Attributes:
        layer: the operator.
        node: name of the call in results.
        operands: by name, the operands that depend on the input.
        slides: whether a window moved along an axis that carries positions; set by :meth:`slide`.
    """

    layer: Layer
    node: str
    operands: Mapping[str, Dependence]
    slides: bool = False

    @property
    def x(self) -> Tensor:
        """The first operand."""
        return next(iter(self.layer.inputs.values()))

    @property
    def y(self) -> Tensor:
        """The first output."""
        return self.layer.out

    @property
    def of_x(self) -> Dependence | None:
        """How the first operand depends on the input."""
        return self.operands.get(next(iter(self.layer.inputs)))

    def slide(self, dependence: Dependence, axis: int, taps: Taps, size: Dim, new_size: Dim) -> Dependence:
        """Return the dependence of a value whose indices along ``axis`` read those at ``taps``."""
        result = slid(dependence, axis, taps, size, new_size)
        self.slides |= carries(dependence, axis)
        return result

    def pool(self, dependence: Dependence, axis: int) -> Dependence:
        """Return the dependence of a value that combines all indices of an axis of positions, as one window."""
        self.slides |= carries(dependence, axis)
        return self.contract(dependence, [axis])

    def contract(self, dependence: Dependence, axes: Iterable[int]) -> Dependence:
        """Return the dependence of a value that combines all indices of some axes, which remain."""
        return contracted(dependence, axes, self.node)

    def unite(self, dependences: Iterable[Dependence | None]) -> Dependence | None:
        """Return the dependence of a value that sees what all of these see."""
        return united(dependences, self.node)

    def in_context(self, dependence: Dependence, axes: Iterable[int]) -> Dependence:
        """Return the dependence of a value computed from its own position and statistics along some axes."""
        result = self.unite([dependence, self.contract(dependence, axes)])
        assert result is not None
        return result

    def elementwise(self, shape: tuple[Dim, ...], names: Iterable[str] | None = None) -> Dependence | None:
        """Return the dependence of a value of ``shape``, each element of which reads one of each operand."""
        chosen = self.operands if names is None else [name for name in names if name in self.operands]
        tensors = self.layer.inputs
        return self.unite(broadcast(self.operands[name], tensors[name].shape, shape, self.node) for name in chosen)

    def all_outputs(self, dependence: Dependence | None) -> list[Dependence | None]:
        """Return the same dependence for every output."""
        return [dependence] * len(self.layer.outputs)

    def attribute(self, name: str) -> object:
        """Return an attribute that the rule needs.

        Raises:
            CannotFollowError: if the layer does not have it.
        """
        if name not in self.layer.attrs:
            raise CannotFollowError(f"no attribute {name!r}")
        return self.layer.attrs[name]
