"""Count a ``chainer.Link``, a method of one, or a function that calls links, by running a copy."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import chainer
import numpy

from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.trace.call import Module, global_names, qualified_bases
from costcore.trace.run import Recorder
from costcore.trace.trace import Value

from .arrays import ArrayIds, is_array, native_names
from .capture import Capture, dotted, link_paths
from .rows import ROWS


def accepts(model: object) -> bool:
    """Return True for a ``chainer.Link``, a method of one, a function that uses links, or a function of Chainer."""
    if isinstance(model, chainer.Link):
        return True
    is_of_chainer = isinstance(model, FunctionType) and model.__module__.partition(".")[0] == "chainer"
    return is_of_chainer or next(_links_in(model), None) is not None


def estimate(recorder: Recorder, model: Any, inputs: Any, *, backward: bool = False) -> None:
    """Run a copy of ``model`` once and record it.

    The copy shares the arrays of parameters. The link, its statistics, states and uninitialized parameters, and the
    random number generators do not change. ``chainer.config.train`` keeps the value of the caller.

    Args:
        recorder: the recorder to write to.
        model: a ``chainer.Link``, a method of one, or a function. A function that refers to links or optimizers runs
            with copies of these.
        inputs: the arguments: a shape (becomes zeros of float32), a :class:`Tensor` (becomes zeros of its dtype), an
            array or a Variable. Pass several arguments as a tuple or list, and arguments by name as a dict. A list
            inside them becomes a list of arrays.
        backward: whether to also run the backward pass, with gradients of ones for every output.

    Raises:
        CostError: if the link cannot be copied or fails on these inputs, or an input is not one of the above.
    """
    is_link = isinstance(model, chainer.Link)
    called = private_copy(model) if is_link else _copied(model, {})
    link = called if is_link else _root(called)
    link.cleargrads()
    positional, by_name = arguments(inputs, link)
    name = getattr(_innermost(model), "__name__", type(model).__name__)
    with _random_state_restored(), _model_errors(name), Capture(recorder) as capture:
        if not is_link:
            capture.recording.links.begin(link)
        with chainer.using_config("enable_backprop", backward or not is_link):  # a function may call ``backward``
            outputs = called(*positional, **by_name)
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
    return _deep_copy(link, {id(array): array for array in shared if array is not None})


def _deep_copy(link: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(link, memo)
    except (TypeError, RuntimeError) as error:
        raise CostError(
            f"{type(link).__name__}: the link cannot be copied ({error}), and running the original would change it. "
            "Run it yourself inside a ComputationalCostHook."
        ) from error


# Functions and methods


def _links_in(function: Any, seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the links that a function refers to, each with the name of its variable."""
    seen = set() if seen is None else seen
    for name, value in _parts(function):
        if id(value) in seen:  # such as a function that calls itself
            continue
        seen.add(id(value))
        if isinstance(value, chainer.Link):
            yield name, value
        elif isinstance(value, chainer.Optimizer):
            yield name, value.target
        else:
            yield from ((inner or name, link) for inner, link in _links_in(value, seen))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, partial):
        yield from (("", value.func), *((str(i), part) for i, part in enumerate(value.args)), *value.keywords.items())
    elif isinstance(value, MethodType):
        yield "", value.__self__
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with suppress(ValueError):  # a variable that has no value yet
                yield name, cell.cell_contents
        yield from _globals_in(value).items()
        yield from _numbered(value.__defaults__ or ())
        yield from (value.__kwdefaults__ or {}).items()
    elif isinstance(value, dict) and len(value) <= _MOST_ITEMS:
        yield from ((str(key), part) for key, part in value.items())
    elif type(value) in (list, tuple) and len(value) <= _MOST_ITEMS:
        yield from _numbered(value)


_MOST_ITEMS = 1000
"""The maximum number of items of a list or dict that is searched for links."""

_SEARCHED = (chainer.Link, chainer.Optimizer, FunctionType, partial, dict, list, tuple)
"""The types of global variables that are searched."""


def _numbered(values: Any) -> Iterator[tuple[str, Any]]:
    return ((str(i), value) for i, value in enumerate(values))


def _globals_in(function: FunctionType) -> dict[str, Any]:
    names = function.__globals__
    if "site-packages" in str(names.get("__file__")):
        return {}
    found = {name: names[name] for name in global_names(function.__code__) if name in names}
    return {name: value for name, value in found.items() if isinstance(value, _SEARCHED)}


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Copy a function, with the links and optimizers that it refers to; return it unchanged if there are none."""
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, (chainer.Link, chainer.Optimizer)):
        return _deep_copy(value, memo)
    if next(_links_in(value), None) is None:
        return value
    if isinstance(value, partial):
        keywords = {name: _copied(part, memo) for name, part in value.keywords.items()}
        return partial(_copied(value.func, memo), *[_copied(part, memo) for part in value.args], **keywords)
    if isinstance(value, MethodType):
        return MethodType(value.__func__, _copied(value.__self__, memo))
    if isinstance(value, dict):
        return {key: _copied(part, memo) for key, part in value.items()}
    if not isinstance(value, FunctionType):
        return type(value)(_copied(part, memo) for part in value)
    names, cells = dict(value.__globals__), tuple(CellType() for _ in value.__closure__ or ())
    made = memo[id(value)] = FunctionType(value.__code__, names, value.__name__, None, cells)
    names |= {name: _copied(part, memo) for name, part in _globals_in(value).items()}
    for old, new in zip(value.__closure__ or (), cells, strict=True):
        with suppress(ValueError):
            new.cell_contents = _copied(old.cell_contents, memo)
    made.__defaults__ = value.__defaults__ and tuple(_copied(part, memo) for part in value.__defaults__)
    made.__kwdefaults__ = {name: _copied(part, memo) for name, part in (value.__kwdefaults__ or {}).items()}
    return made


def _root(function: Callable[..., Any]) -> Any:
    """Return the link of a method, or a new chain of the links of a function, named after their variables."""
    owner = getattr(_innermost(function), "__self__", None)
    if isinstance(owner, chainer.Link):
        return owner
    root = chainer.Chain()
    with root.init_scope():
        for name, link in _links_in(function):
            if all(link is not child for child in root.children()):
                setattr(root, name if name.isidentifier() and not hasattr(root, name) else f"link_{name}", link)
    return root


def _innermost(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


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
def _model_errors(name: str) -> Iterator[None]:
    try:
        yield
    except CostError:
        raise
    except Exception as error:
        problem = " ".join(str(error).split())
        raise CostError(f"{name}: the run raised {type(error).__name__}: {problem}") from error


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
