"""Which arguments of ``forward`` are numbers: ``(64, 64)`` may be the shape of a tensor, or a size."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from textwrap import dedent
from tokenize import TokenError
from types import CodeType
from typing import Any

from torch import Tensor


class Kind(Enum):
    """What a list or tuple of integers among the arguments is."""

    SHAPE = auto()
    """The shape of a tensor."""
    NUMBERS = auto()
    """Integers for the code of the model."""
    LIST_IS_NUMBERS = auto()
    """Integers in a list, the shape of a tensor in a tuple."""
    UNKNOWN = auto()
    """Neither the signature nor the code tells."""


_TENSORS = re.compile(r"Tensor\b|ndarray|Array|_like")
_SEQUENCES = re.compile(
    r"(?i)\b(list|tuple|sequence|iterable|collection|set|size|range)\b|_size_(\d|any)_|\b\w+List\b|int\.\.\."
)
_NUMBERS = re.compile(r"\bint\b|\bfloat\b|\bSize\b|_size_|\brange\b|IntList")
_LISTS = re.compile(r"(?i)\b(list|sequence|iterable|collection)\b")
_NAME_OF_SIZES = re.compile(r"(^|_)(sizes?|shapes?|hw|resolutions?)$")

_TEXT_SIZE_ARGUMENTS = """
size output_size target_size shape dim dims kernel_size stride padding dilation split_size_or_sections
sections  normalized_shape repeats pad shifts
"""
_SIZE_ARGUMENTS = frozenset(_TEXT_SIZE_ARGUMENTS.split())
"""Keyword arguments of PyTorch that take integers."""

_TEXT_OF_INTEGERS = """
range Size zeros ones empty rand randn full
"""
_OF_INTEGERS = frozenset(_TEXT_OF_INTEGERS.split())
"""Functions whose arguments are integers."""

_TEXT_OF_TENSOR_AND_INTEGERS = """
interpolate adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d upsample pad split
split_with_sizes unflatten view reshape expand repeat permute tile new_zeros new_ones new_empty
"""
_OF_TENSOR_AND_INTEGERS = frozenset(_TEXT_OF_TENSOR_AND_INTEGERS.split())
"""Functions and methods that take integers after the tensor."""

_TEXT_OF_LISTS = """
tensor as_tensor LongTensor IntTensor
"""
_OF_LISTS = frozenset(_TEXT_OF_LISTS.split())
"""Functions that make a tensor of a list of integers."""

_NAMESPACES = frozenset(("torch", "F", "functional"))


def kinds_of_arguments(forward: Callable[..., Any] | None, inputs: Any, is_by_name: bool) -> Callable[[Any], Kind]:
    """Return a function from the position or the name of an argument to what its lists and tuples of integers are.

    Args:
        forward: the function that the model is called with; None if nothing is known of it.
        inputs: its arguments, in a list or dict.
        is_by_name: whether they are in a dict.
    """
    values = inputs.values() if is_by_name else inputs
    if forward is None or not any(isinstance(value, (list, tuple, Mapping)) for value in values):
        return lambda key: Kind.UNKNOWN
    try:
        parameters = inspect.signature(forward).parameters
    except (TypeError, ValueError):  # C functions have none
        return lambda key: Kind.UNKNOWN
    called = forward
    takes_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter for parameter in parameters.values() if parameter.kind in takes_position]

    def kind_of(key: Any) -> Kind:
        parameter = parameters.get(key) if is_by_name else next(iter(positional[key : key + 1]), None)
        if parameter is None:
            return Kind.NUMBERS if is_by_name and _NAME_OF_SIZES.search(str(key)) else Kind.UNKNOWN
        return _kind_of(called, parameter, inputs[key])

    return kind_of


def takes_integers(forward: Callable[..., Any], inputs: Any) -> bool:
    """Return whether the first argument of a function is annotated as a list of integers."""
    if not getattr(forward, "__annotations__", None):
        return False
    try:
        first = next(iter(inspect.signature(forward).parameters.values()), None)
    except (TypeError, ValueError):
        return False
    return first is not None and _by_annotation(first.annotation, inputs) is Kind.NUMBERS


def _kind_of(forward: Callable[..., Any], parameter: inspect.Parameter, value: Any) -> Kind:
    kind = _by_annotation(parameter.annotation, value)
    if kind is Kind.UNKNOWN:
        kind = _by_default(parameter.default)
    if kind is Kind.UNKNOWN and (
        is_name_of_sizes(parameter.name) or _is_used_as_numbers(forward, parameter.name, value)
    ):
        kind = Kind.NUMBERS
    return kind


def is_name_of_sizes(name: object) -> bool:
    """Return whether an argument or a key is the name of a size or a shape: ``img_shape``."""
    return isinstance(name, str) and _NAME_OF_SIZES.search(name) is not None


def _by_annotation(annotation: Any, value: Any) -> Kind:
    if annotation is inspect.Parameter.empty or annotation is Any:
        return Kind.UNKNOWN
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    if text in ("Any", "typing.Any"):
        return Kind.UNKNOWN
    has_tensors, has_sequences = _TENSORS.search(text), _SEQUENCES.search(text)
    if has_tensors:
        is_either = re.search(r"(?i)\b(list|sequence|tuple)\[\s*(int|float)", text)
        return Kind.NUMBERS if is_either and _LISTS.search(text) and isinstance(value, list) else Kind.SHAPE
    if has_sequences and (_NUMBERS.search(text) or _is_flat(value)):  # else it may be a list of tensors
        return Kind.NUMBERS
    return Kind.UNKNOWN


def _is_flat(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, int) for item in value)


def _by_default(default: Any) -> Kind:
    if isinstance(default, Tensor):
        return Kind.SHAPE
    return Kind.NUMBERS if isinstance(default, (list, tuple)) and default and _is_numbers(default) else Kind.UNKNOWN


def _is_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) for value in values)


def _is_used_as_numbers(forward: Callable[..., Any], name: str, value: Any) -> bool:
    """Return whether the code of a function uses an argument as only integers can be used."""
    code = getattr(inspect.unwrap(forward), "__code__", None)
    return code is not None and any(_uses_numbers(node, name, value) for node in _uses(code))


@lru_cache(maxsize=1024)
def _uses(code: CodeType) -> tuple[ast.AST, ...]:
    """Return the calls, assignments and loops in the source of a function."""
    try:
        tree = ast.parse(dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TokenError):  # typed at a prompt, or made by a tool
        return ()
    kinds = (ast.Call, ast.Assign, ast.For, ast.comprehension)
    return tuple([node for node in ast.walk(tree) if isinstance(node, kinds)])


def _uses_numbers(node: ast.AST, name: str, value: Any) -> bool:
    is_list = isinstance(value, list) and _is_flat(value)  # else it may be a list of tensors
    if isinstance(node, ast.Call):
        is_converted = is_list and _called(node)[0] in _OF_LISTS and any(_is_named(x, name) for x in node.args)
        return is_converted or any(_is_named(argument, name) for argument in _integers_of(node))
    if isinstance(node, ast.Assign):
        return _is_named(node.value, name) and _unpacks(node.targets[0], [value])
    if isinstance(node, (ast.For, ast.comprehension)):
        if _is_named(node.iter, name):
            items = value if isinstance(value, (list, tuple)) else ()
            return is_list or _unpacks(node.target, items) or (isinstance(node, ast.For) and _is_index(node))
        is_iterated = isinstance(node.iter, ast.Call) and _called(node.iter)[0] in ("enumerate", "reversed", "zip")
        return is_list and is_iterated and any(_is_named(x, name) for x in node.iter.args)  # type: ignore[attr-defined]
    return False


def _called(call: ast.Call) -> tuple[str, bool]:
    """Return the name of a called function, and whether it is a method of a tensor."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return getattr(function, "id", ""), False
    return function.attr, not (isinstance(owner := function.value, ast.Name) and owner.id in _NAMESPACES)


def _integers_of(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments of a call that PyTorch takes integers for."""
    yield from (keyword.value for keyword in call.keywords if keyword.arg in _SIZE_ARGUMENTS)
    called, is_method = _called(call)
    if called in _OF_INTEGERS:
        yield from call.args
    elif called in _OF_TENSOR_AND_INTEGERS:
        yield from call.args if is_method and called != "split" else call.args[:1] if is_method else call.args[1:]


def _is_named(node: ast.expr, name: str) -> bool:
    """Return whether an expression is a name, ``*name``, an element of it, or a list or an arithmetic of these."""
    if isinstance(node, (ast.Starred, ast.Subscript)):
        return _is_named(node.value, name)
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_is_named(item, name) for item in node.elts)
    if isinstance(node, ast.BinOp):
        return _is_named(node.left, name) or _is_named(node.right, name)
    return isinstance(node, ast.Name) and node.id == name


def _unpacks(target: ast.expr, values: Sequence[Any]) -> bool:
    """Return whether values are unpacked into as many names as they have integers, and tensors would have others."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        return False
    n = len(target.elts)
    flat = [x for x in values if isinstance(x, (list, tuple)) and len(x) == n and all(type(y) is int for y in x)]
    return bool(flat) and len(flat) == len(values) and any(x[0] != n for x in flat)


def _is_index(loop: ast.For) -> bool:
    """Return whether what a loop runs over selects among attributes: ``self.layers[i]``."""
    if not isinstance(loop.target, ast.Name):
        return False
    variable = loop.target.id
    subscripts = (node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Subscript))
    return any(
        isinstance(each.slice, ast.Name) and each.slice.id == variable and isinstance(each.value, ast.Attribute)
        for each in subscripts
    )


def is_metadata(value: Mapping[Any, Any]) -> bool:
    """Return whether a dict describes data rather than holds it: it has a text or a fraction."""
    return any(isinstance(item, (str, float)) for item in value.values())
