"""The stored tensors that a walk finds, each once: initializers, and constants that nodes hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..reading.initializers import read_initializers
from ..values.value import StoredTensor, Value
from .configuring import configuring


class InitializerTable:
    """The stored tensors of a model.

    Args:
        parameters_are_initializers: whether the exporter keeps all learned tensors as initializers, so that the tensor
            of a ``Constant`` node is a plain number.
        is_rewritten: whether a tool that drops marks of exporters wrote the file.
    """

    def __init__(self, parameters_are_initializers: bool = False, is_rewritten: bool = False) -> None:
        self._parameters_are_initializers = parameters_are_initializers
        self._is_rewritten = is_rewritten
        self._by_name: dict[tuple[str, str], StoredTensor] = {}
        self._of_graphs: dict[StoredTensor, None] = {}
        self._configuring: dict[str, Mapping[str, bool]] = {}
        """Names of values that only configure, by the part of the file that holds them."""
        self._read_in_skipped_branches: set[StoredTensor] = set()

    @property
    def tensors(self) -> Collection[StoredTensor]:
        """All stored tensors, in order."""
        return self._by_name.values()

    def read(self, graph: Any, source: str, note: Callable[[str], None]) -> dict[str, Value]:
        """Return the initializers of a graph by name.

        Args:
            graph: the ``GraphProto``.
            source: the part of the file that holds it.
            note: receives notes on the stored bytes.
        """
        found: dict[str, Value] = {}
        names = self._configuring.get(source)
        if names is None:
            names = self._configuring[source] = configuring(graph)
        has_names = self._parameters_are_initializers
        for name, value in read_initializers(graph, note, has_names, names, self._is_rewritten):
            found[name] = self.add(value, source, name)
            if value.stored is not None:
                self._of_graphs.setdefault(value.stored)
        return found

    def add(self, value: Value, source: str, name: str) -> Value:
        """Return the value with the stored tensor of this name, which is the same in every walk of ``source``."""
        if value.stored is not None:
            value.stored = self._by_name.setdefault((source, name), value.stored)
        return value

    def add_constant(self, value: Value, source: str, is_number: bool) -> None:
        """Add a tensor that a node holds.

        Args:
            value: the tensor.
            source: the part of the file that holds the node.
            is_number: whether it is a plain number if the exporter keeps learned tensors elsewhere.
        """
        if value.stored is None:
            return
        if is_number and self._parameters_are_initializers:
            value.role, value.stored.is_number = "const", True
        if value.stored.name in self._configuring.get(source, ()):
            value.role, value.stored.is_buffer = "const", True
        self.add(value, source, value.stored.name)

    def mark_skipped(self, values: Iterable[Value | None]) -> None:
        """Note that a branch that is not walked reads these values."""
        stored = (value.stored for value in values if value is not None)
        self._read_in_skipped_branches.update(tensor for tensor in stored if tensor is not None)

    def unused(self, outputs: Collection[str]) -> list[str]:
        """Return the names of the initializers that no node reads, ``outputs`` of the model excluded."""
        unread = (t for t in self._of_graphs if not t.uses and t not in self._read_in_skipped_branches)
        return [tensor.name for tensor in unread if tensor.name not in outputs]
