"""What holds for a whole run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from costcore import __version__
from costcore.dims import Dim
from costcore.trace.call import Assumption, Module

CONVENTION = "costcore-1"
"""The counting rules of this version, as DETAILS.md has them."""


@dataclass(frozen=True, slots=True)
class Run:
    """What holds for a whole run.

    Attributes:
        fma_1flop: whether a fused multiply-add counts as one FLOP (True) or two.
        layout: ``framework`` or ``free``.
        parameters: elements of every learned parameter, by id.
        n_params_model: elements of all parameters of the model, used or not; None where no model was given.
        modules: the modules of the model by path, in the model's order, the root as ``""``; empty where not known.
        frameworks: versions, by framework.
        assumptions: what was assumed, and where.
        notes: what a reader should know about how the run was captured.
        version: the version of this tool that counted.
        convention: the named set of counting rules, the meaning of every number.
    """

    fma_1flop: bool = True
    layout: str = "framework"
    parameters: Mapping[int, Dim] = field(default_factory=dict)
    n_params_model: Dim | None = None
    modules: Mapping[str, Module] = field(default_factory=dict)
    frameworks: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = ()
    version: str = __version__
    convention: str = CONVENTION
