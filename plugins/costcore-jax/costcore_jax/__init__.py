"""The JAX frontend of costcore: counts functions and modules from their jaxpr, without arrays or compilation."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.frontend import FrontendSpec
from costcore.ir import Calculator
from costcore.plugins import hookimpl

OPTIONS = ("params", "dtype", "backward", "regroup", "explain_regroup", "trips")
"""The options of :func:`costcore.estimate` for JAX."""


@hookimpl
def costcore_frontends() -> tuple[FrontendSpec, ...]:
    """Return the frontend, which imports JAX when it is used."""
    models = ("a function on JAX", "a module of Flax, Haiku, Equinox or Keras on JAX", "an object with arrays of JAX")
    return (
        FrontendSpec(
            "jax",
            "jax",
            "costcore_jax.frontend",
            model_options=OPTIONS,
            models=models,
            unhooked="Count a function or a module with costcore.estimate(model, shapes).",
            abilities={"default_inputs": "costcore_jax.frontend:default_inputs"},
        ),
    )


@hookimpl
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return the formulas of primitives that only JAX has."""
    from .costs import CALCULATORS

    return CALCULATORS
