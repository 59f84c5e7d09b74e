"""The JAX frontend: the functions of the protocol :class:`costcore.frontend.Frontend`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import jax
from jax.extend.core import Primitive

from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.trace.patterns import selected_patterns
from costcore.trace.run import Dataflow, Recorder

from .adapters import adapter_of
from .regroup import PATTERNS, regroup_calls
from .rows import ROWS
from .values import Owner, Program, Value, arguments, is_static, value_of
from .walk import HANDLERS, Place, Recording, Walker, constant_of, modules, root_of, without_dead_code

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]


def capture(recorder: Recorder) -> AbstractContextManager[object] | None:
    """Return None: JAX has no hook that sees every operator of a run."""
    return None


def native_names(op: object) -> tuple[str, ...]:
    """Return the full name of a primitive, given as ``"jax::dot_general"`` or as ``dot_general_p``."""
    if isinstance(op, Primitive):
        return (f"jax::{op.name}",)
    if isinstance(op, str) and op.startswith("jax::"):
        return (op,)
    return ()


# Estimates


def accepts(model: object) -> bool:
    """Return True for a function, and for a module of Flax, Haiku, Equinox or Keras on the JAX backend."""
    return adapter_of(model) is not None


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any,
    *,
    params: int | Sequence[int] = (),
    dtype: Any = None,
    backward: bool = False,
    regroup: bool | Collection[str] = False,
    explain_regroup: bool | Collection[str] = False,
    trips: int | None = None,
) -> None:
    """Trace ``model`` on abstract values and record the equations.

    Args:
        recorder: the recorder to write to.
        model: a function, or a module of a library on JAX.
        inputs: the arguments: a shape (tuple of ints), a ``costcore.Tensor``, a ``jax.ShapeDtypeStruct``, an array, or
            a pytree of these; several as a tuple or list, by name as a dict. Numbers, strings and functions are passed
            unchanged.
        params: positions of the arguments of a function that are learned parameters; default: models, train states,
            variables of Flax, arguments named ``params`` or ``variables``, else a first argument that is a tree of
            floating-point arrays (an assumption).
        dtype: the dtype of inputs given as shapes; default: float32.
        backward: whether to also count the gradients of the parameters, or of all inputs if there are no parameters.
            The gradients of the outputs are given as inputs.
        regroup: count each decomposed operator as one call; names of patterns, or True for all.
        explain_regroup: whether to note why other equations do not match these patterns; or names of some of them.
        trips: iterations of each loop with a data-dependent trip count; default: a symbol for each.

    Raises:
        CostError: if the function fails on these inputs, or an argument is not one of the above.
        TypeError, ValueError: for an invalid option.
    """
    adapt = adapter_of(model)
    if adapt is None:
        raise CostError(f"{type(model).__name__} is not a function or a module on JAX")
    positional, by_name = arguments(inputs, dtype)
    positions = _positions(params, len(positional))
    name = getattr(model, "__name__", type(model).__name__)
    with _model_errors(name):
        program = adapt(model, positional, by_name, positions)
    record_program(
        *(recorder, program, positional, by_name),
        name=name,
        backward=backward,
        regroup=regroup,
        explain_regroup=explain_regroup,
        trips=trips,
    )


def record_program(
    recorder: Recorder,
    program: Program,
    positional: list[Any],
    by_name: dict[str, Any],
    *,
    name: str = "the program",
    backward: bool = False,
    regroup: bool | Collection[str] = False,
    explain_regroup: bool | Collection[str] = False,
    trips: int | None = None,
) -> None:
    """Trace a program on abstract values and record the equations.

    Args:
        recorder: the recorder to write to.
        program: a function with its variables.
        positional: its other arguments by position, pytrees of abstract values.
        by_name: its other arguments by name.
        name: its name in messages.
        backward: see :func:`estimate`, as for the options after it.
        regroup: names of patterns, or True for all.
        explain_regroup: names of patterns to explain, or True for all.
        trips: iterations of each loop with a data-dependent trip count.

    Raises:
        CostError: if the function fails on these arguments.
        ValueError: for an invalid option.
    """
    patterns = {name: PATTERNS[name] for name in selected_patterns(regroup, PATTERNS)}
    explained = selected_patterns(explain_regroup, patterns, "explain_regroup")
    if trips is not None and (not isinstance(trips, int) or isinstance(trips, bool) or trips < 0):
        raise ValueError(f"trips must be an integer of 0 or more (got {trips!r})")
    with _model_errors(name):
        captured = _Capture(program, positional, by_name, backward=backward)
        closed, removed = without_dead_code(captured.trace())
    recorder.frameworks["jax"] = jax.__version__
    if program.assumed:
        recorder.assume(program.assumed)
    if removed:
        recorder.notes.append(f"equations that no output needs are not counted, as XLA removes them: {removed}")
    values = captured.values(recorder)
    owned = list(captured.owned(values))
    recording = Recording(recorder, program.root or root_of(closed.jaxpr, [owner for owner, _ in owned]))
    walker = Walker(recording, HANDLERS, trips)
    constants = [constant_of(array) for array in closed.consts]
    outputs = walker.walk(closed.jaxpr, constants, values, Place())
    recording.find_optimizer()
    given = values[: len(values) - captured.n_gradients]
    recorder.inputs += [recording.identity(value) for value in given if value.role == "data"]
    recorder.buffers += [recording.identity(value) for value in values if value.role == "state"]
    recorder.returned += [recording.identity(value) for value in outputs if value.dtype]
    if any(call.region for call in recorder.calls):
        recorder.dataflow = Dataflow(
            unknown=("values that loops and branches of a jaxpr carry or stack are not tracked",)
        )
    recorder.n_params_model = captured.n_params(values)
    closed_over = sum(value.size for value in constants if value.shape and "float" in value.dtype)
    if closed_over and recorder.n_params_model is None:
        recorder.notes.append(
            f"{closed_over} elements of arrays that the function closes over are not counted as parameters. "
            "Pass the arrays as an argument named params, or give its position as params=…"
        )
    recorder.modules.update(modules(program, recorder.calls, owned))
    if patterns:
        regroup_calls(recording, patterns, outputs, explained)


def _positions(params: int | Sequence[int], count: int) -> tuple[int, ...]:
    found = (params,) if isinstance(params, int) else tuple(params)
    if any(not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < count for i in found):
        raise ValueError(f"params must be positions of arguments, 0 to {count - 1} (got {params!r})")
    return found


class _Capture:
    """A program as a function of its array arguments alone, ready to trace.

    Args:
        program: the function and its variables.
        positional, by_name: the other arguments.
        backward: whether to compute gradients, too.
    """

    def __init__(self, program: Program, positional: list[Any], by_name: dict[str, Any], *, backward: bool) -> None:
        paths, self._tree = jax.tree_util.tree_flatten_with_path((program.variables, positional, by_name))
        self._leaves = [leaf for _, leaf in paths]
        self._traced = [i for i, leaf in enumerate(self._leaves) if not is_static(leaf)]
        self._owners = [_owner(program, path) for path, _ in paths]
        self._program = program
        self._backward = backward
        self._gradients: list[Any] = []

    def trace(self) -> Any:
        """Return the closed jaxpr. With ``backward``, its last inputs are the gradients of the outputs."""
        abstract = [self._leaves[i] for i in self._traced]
        if not self._backward:
            return jax.make_jaxpr(self._run)(*abstract)
        self._gradients = jax.eval_shape(self._differentiable, abstract)
        return jax.make_jaxpr(self._run_backward)(abstract, self._gradients)

    def values(self, recorder: Recorder) -> list[Value]:
        """Return the values of the inputs of the traced jaxpr."""
        found = []
        for i in self._traced:
            value, owner = value_of(self._leaves[i]), self._owners[i]
            value.role = owner.role if _is_float(self._leaves[i]) or owner.role == "state" else "data"
            if value.role == "param":
                value.parameter = value.identity = recorder.parameter(value.size)
                value.is_weight = True
            found.append(value)
        return [*found, *map(value_of, self._gradients)]

    @property
    def n_gradients(self) -> int:
        """The number of gradients of outputs, the last inputs of the jaxpr."""
        return len(self._gradients)

    def n_params(self, values: Sequence[Value]) -> Any:
        """Return the number of elements of all parameters; None if the program declares none."""
        sizes = [value.size for value in values if value.role == "param"]
        return sum(sizes) if sizes else None

    def owned(self, values: Sequence[Value]) -> Iterator[tuple[Owner, Value]]:
        """Yield every variable of the model with its owner."""
        for i, value in zip(self._traced, values, strict=False):
            if value.role != "data":
                yield self._owners[i], value

    def _run(self, *traced: Any) -> Any:
        leaves = list(self._leaves)
        for i, array in zip(self._traced, traced, strict=True):
            leaves[i] = array
        variables, positional, by_name = jax.tree.unflatten(self._tree, leaves)
        return self._program.function(variables, *positional, **by_name)

    def _differentiable(self, traced: Sequence[Any]) -> list[Any]:
        return self._split(traced)[0]

    def _split(self, traced: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the floating-point outputs, and separately other outputs with the updated state."""
        made, updated = self._run(*traced)
        outputs = jax.tree.leaves(made)
        others = [leaf for leaf in outputs if not _is_float(leaf)]
        return [leaf for leaf in outputs if _is_float(leaf)], [*others, *jax.tree.leaves(updated)]

    def _run_backward(self, traced: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        chosen = self._differentiated()

        def of_chosen(arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            changed = list(traced)
            for i, array in zip(chosen, arrays, strict=True):
                changed[i] = array
            return self._split(changed)

        outputs, pull, others = jax.vjp(of_chosen, [traced[i] for i in chosen], has_aux=True)
        return outputs, others, pull(list(cotangents))

    def _differentiated(self) -> list[int]:
        """Return the positions of parameters among the traced arguments, or of all floats if there are none."""
        floats = [i for i, leaf in enumerate(self._traced) if _is_float(self._leaves[leaf])]
        owners = [self._owners[self._traced[i]] for i in floats]
        learned = [i for i, owner in zip(floats, owners, strict=True) if owner.role == "param" and not owner.is_frozen]
        return learned or floats


def _owner(program: Program, path: Any) -> Owner:
    """Return the owner of an argument, by its path in ``(variables, positional, by_name)``."""
    if path[0].idx != 0:
        return Owner("data")
    return program.owner(path[1:])


def _is_float(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact))


@contextmanager
def _model_errors(name: str) -> Iterator[None]:
    """Turn an exception of the program into a CostError with the name of the program."""
    try:
        yield
    except CostError:
        raise
    except Exception as error:
        suggestion = ". Pass the model as an argument of the function" if _changes_closure(error) else ""
        raise CostError(f"{name}: tracing raised {type(error).__name__}: {_short(error)}{suggestion}") from error


def _changes_closure(error: Exception) -> bool:
    # A Flax NNX model in the closure of a function cannot update its state while the function is traced.
    return type(error).__name__ == "TraceContextError"


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


# Default inputs


class DefaultInputs(NamedTuple):
    """The default inputs of a model; see :class:`costcore.frontend.DefaultInputs`.

    Attributes:
        inputs: the inputs; an open batch size becomes 1.
        source: their origin.
    """

    inputs: Any
    source: str


def default_inputs(model: object, name: str = "") -> DefaultInputs | None:
    """Return the declared inputs of a Keras model if only batch sizes are open; None for any other model."""
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(model, keras.Model) or not model.built:
        return None
    declared = getattr(model, "inputs", None)  # a subclass of Model has none
    if not isinstance(declared, list) or not declared:
        return None
    shapes = [(1 if x.shape[0] is None else x.shape[0], *x.shape[1:]) for x in declared]
    if any(size is None for shape in shapes for size in shape):
        return None
    tensors = [Tensor(shape, x.dtype) for shape, x in zip(shapes, declared, strict=True)]
    return DefaultInputs(tensors[0] if len(tensors) == 1 else tensors, "the inputs of the Keras model")
