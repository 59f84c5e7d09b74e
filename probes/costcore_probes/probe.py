"""Probes: a network, a question about it, and the answer with its derivation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .arithmetic import evaluate

__all__ = ["FORMATS", "QUANTITIES", "Builder", "Probe"]

Builder = Callable[[Any], Any]
"""A function that builds a network from the helpers in a module of ``costcore_probes.frameworks``."""

FORMATS = ("torch", "onnx", "jax", "tensorflow")

QUANTITIES = {
    "macs": "multiply-accumulates of one forward pass: the products of convolutions, matrix products, attention and "
    "recurrent gates, each with the addition that accumulates it; taps on padding count, biases do not",
    "macs_backward": "multiply-accumulates of the backward pass of the sum of the output, for the gradients of every "
    "parameter and input that requires one",
    "params": "elements of all parameters, trainable or frozen, each counted once",
    "trainable_params": "elements of the parameters that require a gradient, each counted once",
    "additions": "additions, subtractions and negations of one forward pass that are not part of a multiply-accumulate",
    "multiplications": "multiplications of one forward pass that no addition accumulates",
    "divisions": "divisions of one forward pass",
    "comparisons": "comparisons of two numbers in one forward pass: maximum, minimum, clamp",
    "special_functions": "evaluations of exp, log, square root, tanh, erf, sine or cosine in one forward pass",
    "bytes_read": "bytes of the input elements that each operator of one forward pass needs, every element once per "
    "operator; views move nothing, padding is not read",
    "bytes_written": "bytes of the output elements of each operator of one forward pass; views write nothing",
    "peak_bytes": "the largest number of bytes of parameters, inputs and values between operators that are alive at "
    "the same time, if one forward pass runs without gradients, in order, and a value dies after its last use",
    "receptive_field": "rows of the input that one row of the output depends on, away from borders",
    "optimizer_fma": "multiply-accumulates of one step of the optimizer",
}
"""Every quantity with its definition."""


@dataclass(frozen=True)
class Probe:
    """A network and one question about it.

    Attributes:
        id: the name of the probe, ``kind.name``.
        network: one sentence that describes the network.
        quantity: the quantity in question, a key of :data:`QUANTITIES`.
        derivation: arithmetic with words; its value is the answer (:func:`~costcore_probes.arithmetic.evaluate`).
        loops: executes the definition, and yields one item per counted unit. For multiply-accumulates of one operator,
            the item is a triple of indices, see :mod:`costcore_probes.loops`.
        torch: builds a PyTorch module and its inputs. ``onnx`` builds a model file, ``jax`` and
            ``tensorflow`` a function and its inputs.
        small: the answer for a smaller network of the same layers, on which the loops run; None if they run on this
            network.
        extras: the numbers of other operations by name, for which tools state rules; see README.md.
        tags: properties for which tools state limits, such as ``functional``; see README.md.
        source: the publication of the answer, if there is one.
    """

    id: str
    network: str
    quantity: str
    derivation: str
    loops: Callable[[], Iterable[Any]]
    torch: Builder | None = None
    onnx: Builder | None = None
    jax: Builder | None = None
    tensorflow: Builder | None = None
    small: int | None = None
    extras: Mapping[str, int] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    source: str = ""

    @property
    def kind(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]

    @property
    def answer(self) -> int:
        """The value of the derivation."""
        return evaluate(self.derivation)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats in which the network can be built."""
        return tuple(name for name in FORMATS if getattr(self, name) is not None)

    def counted(self) -> int:
        """Run the loops, and return the number of items."""
        return sum(1 for _ in self.loops())
