"""Entry of this frontend: read a StableHLO program and record the calls of one pass."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from os import fspath
from typing import Any

import jax
from costcore_jax.adapters import owner
from costcore_jax.frontend import record_program
from costcore_jax.values import Owner, Program, arguments
from jaxlib.mlir.dialects import stablehlo

from costcore.errors import CostError, short_repr
from costcore.graphs.graph import ROWS, accepts, capture, in_file, native_names
from costcore.trace.run import Recorder

from .attributes import aval_of
from .model import quiet_context, read_module, refine
from .program import FileProgram

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

LEARNED = ("params", "variables", "weights")
"""Default prefixes of the names of learned arguments."""

STATE = "batch_stats"
"""The Flax collection of statistics, which are not learned."""

KEY = re.compile(r"\['([^']*)'\]|\[\"([^\"]*)\"\]|\[(\d+)\]|\.(\w+)")
"""A key in the name of an argument: ``params['Dense_0']['kernel']``."""


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    function: str | None = None,
    params: int | str | Sequence[int | str] | None = None,
    trips: int | None = None,
    regroup: bool | Collection[str] = False,
) -> None:
    """Record the calls of one pass of ``model``.

    Floating-point constants of several elements are learned parameters, unless all elements are equal.

    Args:
        recorder: receives the calls.
        model: the path of StableHLO text, or of a portable artifact.
        inputs: shapes of the arguments that are not learned, as for a JAX function; needed if the program has open
            sizes.
        function: the function to count; default: ``main``, or the only public function.
        params: arguments that are learned parameters: positions, or prefixes of their names; default: names that begin
            with ``params``, ``variables`` or ``weights``.
        trips: iterations of each loop with a data-dependent trip count; default: a symbol for each.
        regroup: count each decomposed layer as one operator; names of patterns, or True for all.

    Raises:
        CostError: if the file has another format, is damaged, or has open sizes; the message names the file.
        ValueError: for an invalid option.
    """
    with in_file(name := fspath(model)), quiet_context() as messages, jax.enable_x64(True):
        module = read_module(name, messages)
        program = FileProgram(module, function)
        learned = learned_positions(program, params)
        if inputs is not None:
            (types, values), title = given_types(program, learned, inputs), program.name
            program.make_main()
            program.fix(values)
            refine(module, types, messages)
            program = FileProgram(module)
            program.title = title
        program.find_stored()
        as_function, given = as_program(program, learned)
        recorder.frameworks["stablehlo"] = stablehlo.get_current_version()
        record_program(recorder, as_function, given, {}, trips=trips, regroup=regroup)
    if params is None and learned:
        recorder.notes.append(
            f"{len(learned)} arguments count as learned parameters because of their names; select others with params=…"
        )


def learned_positions(program: FileProgram, params: int | str | Sequence[int | str] | None) -> list[int]:
    """Return the positions of the learned arguments.

    Raises:
        ValueError: if there is no argument with a position or prefix in ``params``.
    """
    names = [argument.name for argument in program.arguments]
    if params is None:
        return [i for i, name in enumerate(names) if name.startswith(LEARNED)]
    wanted = [params] if isinstance(params, (int, str)) else list(params)
    found: list[int] = []
    for each in wanted:
        is_position = isinstance(each, int) and not isinstance(each, bool)
        matching = (
            [each]
            if is_position and 0 <= each < len(names)  # type: ignore[operator]  # an int
            else [i for i, name in enumerate(names) if isinstance(each, str) and name.startswith(each)]
        )
        if not matching:
            raise ValueError(
                f"params: no argument is {each!r} (expected 0 to {len(names) - 1}, or the beginning of a name such as "
                f"{names[0] if names else 'arg0'!r})"
            )
        found += [int(i) for i in matching]
    return sorted({*found})


def given_types(program: FileProgram, learned: Sequence[int], inputs: Any) -> tuple[list[str], dict[int, int]]:
    """Return the types of all arguments, and values of integer arguments. ``inputs`` are shapes of the others.

    Integers among the inputs are values of scalar arguments, returned by position: older JAX passes sizes like this.

    Raises:
        CostError: if the inputs do not fit the arguments.
    """
    dtypes = [str(argument.type.element_type) for argument in program.arguments]
    free = [i for i in range(len(dtypes)) if i not in learned]
    positional, by_name = arguments(inputs)
    names = {program.arguments[i].name: i for i in free}
    if unknown := [name for name in by_name if name not in names]:
        raise CostError(f"no argument is named {unknown[0]!r} (expected {', '.join(names)})")
    if not by_name and len(positional) != len(free):
        raise CostError(f"{len(positional)} inputs for {len(free)} arguments ({', '.join(names)})")
    given = {names[name]: leaf for name, leaf in by_name.items()} or dict(zip(free, positional, strict=True))
    values = {i: leaf for i, leaf in given.items() if isinstance(leaf, int)}
    for i, leaf in given.items():
        if i not in values and not hasattr(leaf, "shape"):
            raise CostError(
                f"the input {program.arguments[i].name} is {short_repr(leaf)} (expected a shape or an integer)"
            )
    shapes = {i: () if i in values else leaf.shape for i, leaf in given.items()}
    types = [
        f"tensor<{''.join(f'{size}x' for size in shapes.get(i, tuple(argument.type.shape)))}{dtypes[i]}>"
        for i, argument in enumerate(program.arguments)
    ]
    return types, values


def as_program(program: FileProgram, learned: Sequence[int]) -> tuple[Program, list[Any]]:
    """Return a program for the JAX plug-in, and the abstract arguments that are not learned."""
    avals = [aval_of(argument.type) for argument in program.arguments]
    names = [program.arguments[i].name for i in learned]

    def function(variables: Sequence[Any], *given: Any) -> tuple[Any, tuple[()]]:
        free, held = iter(given), dict(zip(learned, variables, strict=False))
        complete = [held[i] if i in held else next(free) for i in range(len(avals)) if avals[i] is not None]
        return program.run(variables[len(learned) :], complete), ()

    def owner_of(path: Any) -> Owner:
        position = path[0].idx
        return owner_by_name(names[position]) if position < len(names) else Owner("param", "", f"constant{position}")

    variables = [*(avals[i] for i in learned), *program.stored.values()]
    free = [aval for i, aval in enumerate(avals) if i not in learned and aval is not None]
    return Program(function, variables, owner_of, types={"": program.title}), free


def owner_by_name(name: str) -> Owner:
    """Return the owner of an argument by its name: module ``Dense_0`` for ``params['params']['Dense_0']['kernel']``."""
    keys = ["".join(found) for found in KEY.findall(name)]
    role = "state" if STATE in keys[:1] else "param"
    if keys[:1] in (["params"], [STATE]):
        keys = keys[1:]
    return owner(role, keys)  # type: ignore[arg-type]  # one of two roles
