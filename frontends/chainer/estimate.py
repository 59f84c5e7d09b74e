"""The cost of one pass of a link that nobody ran: it is run once, on a copy that shares its parameters."""

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
from costcore.trace.call import Module
from costcore.trace.recorder import Recorder

from .arrays import Arrays, is_array
from .capture.function_hook import Capture
from .capture.link_hook import paths


def accepts(model: object) -> bool:
    """Whether ``model`` is a ``chainer.Link``."""
    return isinstance(model, chainer.Link)


def estimate(recorder: Recorder, model: Any, inputs: Any, *, backward: bool = False, **options: Any) -> None:
    """Run ``model`` once and record it.

    The link, its statistics and states, uninitialised parameters and random number generators are left as they are:
    what runs is a copy, which shares the arrays of the parameters. ``chainer.config.train`` is the caller's.

    Args:
        recorder: what to write into.
        model: a ``chainer.Link``.
        inputs: the arguments: a shape (zeros of float32 stand for it), a :class:`Tensor` (zeros of its type), an
            array or a Variable; several as a tuple or list; by name as a dict. Lists within are lists of arrays.
        backward: whether to run the backward pass as well, from gradients of one for every output.
        options: none are known.

    Raises:
        CostError: for a link that cannot be copied, and for inputs that are none of the above.
        TypeError: for an unknown option.
    """
    if options:
        raise TypeError(
            f"estimate() of a chainer.Link does not know {', '.join(map(repr, sorted(options)))}; it knows 'backward'"
        )
    link = private_copy(model)
    link.cleargrads()
    positional, by_name = arguments(inputs, link)
    with _random_numbers_kept(), Capture(recorder) as capture:
        with chainer.using_config("enable_backprop", backward):
            outputs = link(*positional, **by_name)
        if backward:
            run_backward(outputs)
    recorder.n_params_model = sum(parameter.size for parameter in {id(p): p for p in link.params()}.values())
    recorder.modules.update(modules(link, capture.arrays))


def private_copy(link: Any) -> Any:
    """A copy of everything but the arrays of the parameters.

    Raises:
        CostError: for a link that cannot be copied.
    """
    shared = [array for parameter in link.params() for array in (parameter.array, parameter._grad)]
    try:
        return copy.deepcopy(link, {id(array): array for array in shared if array is not None})
    except (TypeError, RuntimeError) as error:
        raise CostError(
            f"{type(link).__name__} cannot be copied ({error}), and running it would change it; "
            "run it yourself inside a ComputationalCostHook"
        ) from error


def arguments(inputs: Any, link: Any) -> tuple[list[Any], dict[str, Any]]:
    """What to call the link with, by position and by name.

    Raises:
        CostError: for inputs that are no shape, array, or tuple, list or dict of these.
    """
    if isinstance(inputs, Mapping):
        return [], {name: _argument(value, link, repr(name)) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)) and not _is_shape(inputs):
        return [_argument(value, link, f"number {i}") for i, value in enumerate(inputs)], {}
    return [_argument(inputs, link, "number 0")], {}


def _is_shape(value: Any) -> bool:
    """Whether it is a tuple of ints, or a list of some."""
    integers = isinstance(value, (tuple, list)) and all(isinstance(size, (int, numpy.integer)) for size in value)
    return integers and (isinstance(value, tuple) or bool(value))


def _argument(value: Any, link: Any, which: str) -> Any:
    if isinstance(value, chainer.Variable) or is_array(value):
        return value
    if isinstance(value, Tensor):
        return _zeros(link, value.shape, value.dtype)
    if _is_shape(value):
        return _zeros(link, value, "float32")
    if isinstance(value, (tuple, list)):
        return [_argument(each, link, which) for each in value]
    raise CostError(
        f"argument {which} of {type(link).__name__} is {value!r}; accepted are a shape (a tuple of ints), "
        "a costcore.Tensor, an array or Variable, or a list of these"
    )


def _zeros(link: Any, shape: Any, dtype: str) -> Any:
    with chainer.using_device(link.device):
        return link.xp.zeros(shape, dtype=dtype)


def run_backward(outputs: Any) -> None:
    """Run the backward pass from every Variable among ``outputs``, each with a gradient of ones."""
    found = list(_variables(outputs))
    for variable in found:
        if variable.grad is None:
            variable.grad = variable.xp.ones_like(variable.array)
    chainer.backward(found)


def _variables(value: Any) -> Iterator[Any]:
    if isinstance(value, chainer.Variable):
        if value.creator is not None:
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _variables(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _variables(each)


def modules(model: Any, arrays: Arrays) -> dict[str, Module]:
    """The links of a model by path."""
    first = paths(model)
    found = {}
    for slashed, link in model.namedlinks():
        path = slashed.strip("/").replace("/", ".")
        own = [p for p in link.params(include_uninit=False) if p.name is not None and vars(link).get(p.name) is p]
        ids = tuple(arrays.parameter(p.array) for p in own)
        frozen = tuple(
            i for i, p in zip(ids, own, strict=True) if p.update_rule is not None and not p.update_rule.enabled
        )
        state = sum(value.size for name, value in vars(link).items() if name in link._persistent and is_array(value))
        found[path] = Module(
            type(link).__name__, ids, frozen, state, "" if first[id(link)] == path else first[id(link)]
        )
    return found


@contextmanager
def _random_numbers_kept() -> Iterator[None]:
    state, numpy_state = random.getstate(), numpy.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        numpy.random.set_state(numpy_state)
