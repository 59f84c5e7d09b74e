"""StableHLO programs that JAX exports of functions and modules."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
from jax import export

from costcore import Tensor

FOLDER = TemporaryDirectory()


def abstract(value: Any) -> Any:
    """Return an abstract array for a shape or a tensor, and everything else as it is."""
    if isinstance(value, Tensor):
        return jax.ShapeDtypeStruct(value.shape, jnp.dtype(value.dtype))
    return jax.ShapeDtypeStruct(value, jnp.float32) if isinstance(value, tuple) else value


def exported(model: Any, inputs: Sequence[Any], params: Iterable[int] = (), *, text: bool = False) -> Path:
    """Export a function, or a module of Flax with its variables, and return the file."""
    arguments = [abstract(value) for value in inputs]
    if hasattr(model, "apply"):
        arguments = [jax.eval_shape(model.init, jax.random.key(0), *arguments), *arguments]
        program = export.export(jax.jit(lambda variables, *given: model.apply(variables, *given)))(*arguments)
    else:
        program = export.export(jax.jit(named(model, len(arguments), {*params})))(*arguments)
    path = Path(FOLDER.name, "net.mlir" if text else "net.mlirbc")
    if text:
        path.write_text(program.mlir_module(), encoding="utf-8")
    else:
        path.write_bytes(program.mlir_module_serialized)
    return path


def named(function: Any, count: int, params: set[int]) -> Any:
    """Return the function with arguments named ``params0``, ``x1``, …, as exported programs keep their names."""

    def run(*given: Any) -> Any:
        return function(*given)

    names = [f"params{i}" if i in params else f"x{i}" for i in range(count)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    run.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return run
