"""The optimizer of TorchScript, which runs operators before the first runs of a compiled model."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

from torch import Tensor
from torch.jit import ScriptModule
from torch.nn import Module

EQUAL = "aten::equal"
"""The operator by which the optimizer compares the constants of a graph, to merge equal ones."""


class GraphConstants:
    """The tensors in the graphs of the compiled model that runs, such as the weights of a frozen one."""

    def __init__(self) -> None:
        self._model: ref[Module] | None = None
        self._addresses: frozenset[int] = frozenset()

    def include(self, model: Module | None, tensors: Sequence[object]) -> bool:
        """Return whether all operands of a comparison are constants that TorchScript compiled.

        A program compares other tensors: TorchScript computes what follows from constants when it compiles. Constants
        without dimensions arrive as numbers, which no program can compare by this operator.
        """
        compared = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
        if compared and not isinstance(model, ScriptModule):
            return False
        if isinstance(model, ScriptModule) and (self._model is None or self._model() is not model):
            self._model, self._addresses = ref(model), _constants(model)
        return all(tensor.data_ptr() in self._addresses for tensor in compared)


def _constants(model: ScriptModule) -> frozenset[int]:
    """Return the addresses of the constants in all methods of a model."""
    nodes = (
        node
        for name in model._c._method_names()
        for node in model._c._get_method(name).graph.findAllNodes("prim::Constant")
        if node.hasAttribute("value") and node.kindOf("value") == "t"
    )
    return frozenset(node.t("value").data_ptr() for node in nodes) - {0}
