"""The rule of thumb for parameters, gradients and the state of an optimizer, and what they are in a run.

A parameter of 4 bytes is kept with its gradient, and AdamW keeps two moments of it: 16 bytes (Rajbhandari et al. 2020,
arXiv:1910.02054, section 3.1, without its copies for mixed precision). The rule has no activations, nor temporaries.
"""

from __future__ import annotations

from typing import NamedTuple

from costcore.analyses.memory.report import Memory

MOMENTS = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
"""How many numbers an optimizer keeps per parameter."""

STATE = ("parameter", "gradient", "optimizer")
"""The kinds of blocks that the rule is about."""


class RuleOfThumb(NamedTuple):
    """The rule and what was measured, in bytes.

    Attributes:
        per_parameter: bytes per parameter.
        parameters: number of parameters.
        measured: parameters, gradients and the state of the optimizer at the end of a step.
    """

    per_parameter: int
    parameters: int
    measured: int

    @property
    def nbytes(self) -> int:
        """The bytes by the rule."""
        return self.per_parameter * self.parameters


def rule_of_thumb(memory: Memory, n_parameters: int, train: bool, optimizer: object) -> RuleOfThumb | None:
    """Return the rule for a run; None if it has none.

    The rule is for parameters of one size and optimizers that have a name.

    Args:
        memory: the memory of the run.
        n_parameters: number of parameters of the model.
        train: whether it is a training step.
        optimizer: the optimizer, as :func:`costcore.estimate` takes it.
    """
    alive = [block for block in memory.ledger.blocks if block.died is None]
    parameters = sum(block.nbytes for block in alive if block.kind == "parameter")
    name = optimizer.removesuffix("_foreach") if isinstance(optimizer, str) else optimizer
    if not n_parameters or parameters % n_parameters or name not in (None, *MOMENTS):
        return None
    copies = 1 + train + (MOMENTS[name] if isinstance(name, str) else 0)
    measured = sum(block.nbytes for block in alive if block.kind in STATE)
    return RuleOfThumb(copies * (parameters // n_parameters), n_parameters, measured)
