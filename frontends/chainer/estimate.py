"""Count a ``chainer.Link`` by running a copy that shares its parameters."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import chainer
import numpy

from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.trace.call import Module, qualified_bases
from costcore.trace.run import Recorder
from costcore.trace.trace import Value

from .arrays import ArrayIds, is_array, native_names
from .capture import Capture, dotted, link_paths
from .rows import ROWS


def accepts(model: object) -> bool:
    """Return True if ``model`` is a ``chainer.Link``."""
    return isinstance(model, chainer.Link)


def estimate(recorder: Recorder, model: Any, inputs: Any, *, backward: bool = False) -> None:
    """Run a copy of ``model`` once and record it.

    The copy shares the arrays of parameters. The link, its statistics, states and uninitialized parameters, and the
    random number generators do not change. ``chainer.config.train`` is that of the caller.

    Args:
        recorder: the recorder to write to.
        model: a ``chainer.Link``.
        inputs: the arguments: a shape (becomes zeros of float32), a :class:`Tensor` (becomes zeros of its dtype), an
            array or a Variable. Several arguments are a tuple or list, arguments by name a dict. A list inside them is
            a list of arrays.
        backward: whether to also run the backward pass, with gradients of ones for every output.

    Raises:
        CostError: if the link cannot be copied or fails on these inputs, or an input is not one of the above.
    """
    link = private_copy(model)
    link.cleargrads()
    positional, by_name = arguments(inputs, link)
    with _random_state_restored(), _model_errors(link), Capture(recorder) as capture:
        with chainer.using_config("enable_backprop", backward):
            outputs = link(*positional, **by_name)
        if backward:
            run_backward(outputs)
    recorder.returned += [capture.recording.arrays.operand(value) for value in _returned(outputs)]
    recorder.n_params_model = sum(parameter.size for parameter in {id(p): p for p in link.params()}.values())
    recorder.modules.update(modules(link, capture.recording.arrays))


def private_copy(link: Any) -> Any:
    """Copy a link, except the arrays of its parameters.

    Raises:
        CostError: if the link cannot be copied.
    """
    shared = [array for parameter in link.params() for array in (parameter.array, parameter._grad)]
    try:
        return copy.deepcopy(link, {id(array): array for array in shared if array is not None})
    except (TypeError, RuntimeError) as error:
        raise CostError(
            f"{type(link).__name__}: the link cannot be copied ({error}), and running the original would change it. "
            "Run it yourself inside a ComputationalCostHook."
        ) from error


def arguments(inputs: Any, link: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments to call the link with, by position and by name.

    Raises:
        CostError: for an input that is not a shape, an array, or a tuple, list or dict of these.
    """
    if isinstance(inputs, Mapping):
        return [], {name: _argument(value, link, repr(name)) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)) and not _is_shape(inputs):
        return [_argument(value, link, str(i)) for i, value in enumerate(inputs)], {}
    return [_argument(inputs, link, "0")], {}


def _is_shape(value: Any) -> bool:
    integers = isinstance(value, (tuple, list)) and all(isinstance(size, (int, numpy.integer)) for size in value)
    return integers and (isinstance(value, tuple) or bool(value))


def _argument(value: Any, link: Any, label: str) -> Any:
    if isinstance(value, chainer.Variable) or is_array(value):
        return value
    if isinstance(value, Value):
        return value.value
    if isinstance(value, Tensor):
        return _zeros(link, value.shape, value.dtype)
    if _is_shape(value):
        return _zeros(link, value, "float32")
    if isinstance(value, (tuple, list)):
        return [_argument(item, link, label) for item in value]
    raise CostError(
        f"{type(link).__name__}: argument {label} is {value!r} (expected a shape as a tuple of ints, "
        "a costcore.Tensor, an array, a Variable, or a list of these)"
    )


def _zeros(link: Any, shape: Any, dtype: str) -> Any:
    with chainer.using_device(link.device):
        return link.xp.zeros(shape, dtype=dtype)


def run_backward(outputs: Any) -> None:
    """Run the backward pass from every Variable in ``outputs``, each with a gradient of ones."""
    found = [value for value in _returned(outputs) if isinstance(value, chainer.Variable) and value.creator is not None]
    for variable in found:
        if variable.grad is None:
            variable.grad = variable.xp.ones_like(variable.array)
    chainer.backward(found)


def _returned(value: Any) -> Iterator[Any]:
    if isinstance(value, chainer.Variable) or is_array(value):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _returned(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _returned(item)


def modules(model: Any, arrays: ArrayIds) -> dict[str, Module]:
    """Return the links of a model by path."""
    first_paths = link_paths(model)
    found = {}
    for slashed, link in model.namedlinks():
        path = dotted(slashed)
        own = [p for p in link.params(include_uninit=False) if p.name is not None and vars(link).get(p.name) is p]
        ids = tuple(arrays.parameter(p.array) for p in own)
        frozen = tuple(
            i for i, p in zip(ids, own, strict=True) if p.update_rule is not None and not p.update_rule.enabled
        )
        state = sum(value.size for name, value in vars(link).items() if name in link._persistent and is_array(value))
        first = first_paths[id(link)]
        sizes = () if first != path else tuple((p.name, p.size) for p in own)
        bases = qualified_bases(type(link), chainer.Link)
        same_as = "" if first == path else first
        found[path] = Module(type(link).__name__, ids, frozen, state, same_as, bases, sizes)
    return found


@contextmanager
def _model_errors(link: Any) -> Iterator[None]:
    try:
        yield
    except CostError:
        raise
    except Exception as error:
        problem = " ".join(str(error).split())
        raise CostError(f"{type(link).__name__}: the run raised {type(error).__name__}: {problem}") from error


@contextmanager
def _random_state_restored() -> Iterator[None]:
    state, numpy_state = random.getstate(), numpy.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        numpy.random.set_state(numpy_state)


# The frontend, see :class:`costcore.frontend.Frontend`.


capture = Capture

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]
