"""Turn inputs of an estimate into meta tensors, and run outputs that compute only when the caller reads them.

``(64, 64)`` may be the shape of a tensor or two integers: annotations, defaults, names and the code of ``forward``
decide. The last section runs both sides of branches that depend on data.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence, Set, Sized
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import fields, is_dataclass
from enum import Enum, auto
from functools import lru_cache, partial
from io import IOBase
from operator import index, is_
from textwrap import dedent
from tokenize import TokenError
from types import AsyncGeneratorType, CodeType, CoroutineType, FunctionType, MethodType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from costcore.errors import CostError, short_repr
from costcore.graphs import most_expensive
from costcore.ir import Tensor as Operand
from costcore.numbers import is_symbolic
from costcore.trace.run import Recorder
from costcore.trace.trace import Value

from .capture.dispatch_mode import CaptureMode
from .meta.branches import Branch, Branches
from .meta.model_copy import meta_copy
from .meta.object_copy import deep_copy
from .meta.values import META, PLAIN, Values, is_small, is_small_integer, sparse_on_meta
from .recording.recording import Recording
from .tensors import SPARSE_LAYOUTS

EXPECTED = (
    "a shape (a tuple of ints), a costcore.Tensor, a costcore.Value, a tensor or array, an object that holds tensors, "
    "or a tuple, list or dict of these"
)

WRAPPER = "count a real run inside ComputationalCostHook, or wrap the model in a module that makes this input"
"""How to count a model on an input that has no copy on the meta device."""


def model_arguments(
    inputs: Any,
    dtype: torch.dtype,
    values: Values,
    forward: Callable[..., Any] | None = None,
    notes: list[str] | None = None,
    memo: dict[int, Any] | None = None,
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the positional and the keyword arguments of a module, with tensors on the meta device.

    Args:
        inputs: the inputs in any form that :func:`~costcore.frontends.pytorch.estimate.estimate` takes.
        dtype: the dtype of inputs given as shapes alone.
        values: receives the values of inputs of integers or bools that have data.
        forward: the function that is called with them; its signature and code distinguish shapes from integer lists.
        notes: receives a note if a list inside other inputs is read as a shape.
        memo: existing copies by id of the original, as in ``copy.deepcopy``; receives new copies of objects.

    Raises:
        TypeError: for an input in any other form.
        ValueError: for a negative size.
    """
    if inputs is None:
        return (), {}
    if forward is not None and _is_single_argument(forward, inputs):
        inputs = (inputs,)
    reader = _Reader(dtype, values, {} if memo is None else memo)
    reader.copy_modules([*inputs.values()] if isinstance(inputs, Mapping) else inputs)
    is_by_name = isinstance(inputs, Mapping)
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    if is_by_name:
        kind_of = kinds_of_arguments(forward, inputs, is_by_name)
        kwargs = {name: reader.read(value, name, kind_of(name)) for name, value in inputs.items()}
    elif _is_shape(inputs) or _is_shape_with_dtype(inputs) or not isinstance(inputs, (list, tuple)):
        if isinstance(inputs, (bool, int, float, str)):
            kind = "Text" if isinstance(inputs, str) else "A number"
            remedy = f". {kind} goes into a tuple: ({short_repr(inputs)},)"
            raise TypeError(f"inputs: expected {EXPECTED}, got {short_repr(inputs)}{remedy}")
        is_numbers = forward is not None and _is_shape(inputs) and takes_integers(forward, inputs)
        args = (reader.read(inputs, "inputs", Kind.NUMBERS if is_numbers else Kind.SHAPE),)
    else:
        if any(type(item) is int for item in inputs) and all(map(_is_scalar, inputs)):  # meant as a shape
            _sizes(inputs, "inputs")
        kind_of = kinds_of_arguments(forward, inputs, is_by_name)
        args = [reader.read(value, f"inputs[{i}]", kind_of(i)) for i, value in enumerate(inputs)]
    if notes is not None and reader.guessed:
        notes.append(_note_on(reader.guessed))
    return args, kwargs


def variants_with_numbers(forward: Callable[..., Any], inputs: Any) -> Iterator[tuple[Any, str]]:
    """Yield the inputs with one ambiguous list passed as integers instead of a tensor of that shape, and a note.

    A list is ambiguous if neither the signature nor the code of the model shows its meaning.
    """
    is_by_name = isinstance(inputs, Mapping)
    if not is_by_name and isinstance(inputs, (list, tuple)) and inputs and all(type(item) is int for item in inputs):
        if _accepts(forward, inputs, {}):
            text = ", ".join(map(str, inputs))
            yield (
                [*map(Value, inputs)],
                f"inputs: {text} were read as numbers: the model does not run on a tensor of that shape",
            )
        return
    if not is_by_name and (not isinstance(inputs, (list, tuple)) or _is_shape(inputs) or _is_shape_with_dtype(inputs)):
        return
    kind_of = kinds_of_arguments(forward, inputs, is_by_name)
    for key, value in inputs.items() if is_by_name else enumerate(inputs):
        if isinstance(value, (list, tuple)) and not _is_shape_with_dtype(value) and kind_of(key) is Kind.UNKNOWN:
            name = key if is_by_name else f"inputs[{key}]"
            reading = f"{name}: {short_repr(value)} was read as numbers"
            given = inputs.items() if is_by_name else enumerate(inputs)
            changed = {k: Value(v) if k == key else v for k, v in given}
            note = f"{reading}: the model does not run on a tensor of that shape"
            yield (changed if is_by_name else [*changed.values()]), note


def variants_with_arrays(inputs: Any) -> Iterator[tuple[Any, str]]:
    """Yield the inputs with all arrays unchanged instead of as tensors, and a note; nothing without arrays."""
    changed = _with_arrays(inputs)
    if changed is not inputs:
        yield changed, "arrays among the inputs were passed as arrays: the model does not run on tensors"


def variants_as_one(forward: Callable[..., Any], inputs: Any) -> Iterator[tuple[Any, str]]:
    """Yield the inputs with a dict or named tuple as a single argument instead of unpacked, and a note."""
    if (isinstance(inputs, Mapping) or _is_named_tuple(inputs)) and _accepts(forward, (0,), {}):
        kind = "named tuple" if _is_named_tuple(inputs) else type(inputs).__name__
        yield (
            (inputs,),
            f"inputs: the {kind} was passed as one argument, as the model does not take its items",
        )


def _is_single_argument(forward: Callable[..., Any], inputs: Any) -> bool:
    # A named tuple, or a mapping of a library, such as a TensorDict. A plain dict is always unpacked, so that a wrong
    # name in it is an error.
    if _is_named_tuple(inputs):
        has_names = _accepts(forward, inputs, {})
    elif isinstance(inputs, Mapping) and type(inputs) not in _DICTS:
        has_names = _accepts(forward, (), inputs)
    else:
        return False
    return not has_names and _accepts(forward, (0,), {})


def _with_arrays(value: Any) -> Any:
    if type(value) in _DICTS:
        items = [_with_arrays(item) for item in value.values()]
        return value if all(map(is_, items, value.values())) else type(value)(zip(value, items, strict=True))
    if type(value) in (list, tuple):
        items = [_with_arrays(item) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    return Value(value) if not isinstance(value, (Tensor, Value)) and _is_array_of_numbers(value) else value


def _accepts(forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _note_on(guessed: Mapping[str, Sequence[int]]) -> str:
    (name, value), *rest = guessed.items()
    others = f", and {len(rest)} other list{'s' * (len(rest) > 1)} likewise" if rest else ""
    text = short_repr([*value])
    return f"{name}: {text} was read as the shape of a tensor{others}; costcore.Value({text}) passes the numbers"


def torch_dtype(name: str, place: str) -> torch.dtype:
    """Return the dtype of a name such as ``"int64"``.

    Raises:
        ValueError: for an unknown name; starts with ``place``.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{place}: unknown dtype {name!r} (expected the name of a PyTorch dtype, such as 'int64')")
    return dtype


class _Reader:
    def __init__(self, dtype: torch.dtype, values: Values, memo: dict[int, Any]) -> None:
        self._dtype = dtype
        self._values = values
        self._memo = memo
        self._made: dict[int, Tensor] = {}
        self.guessed: dict[str, Sequence[int]] = {}

    def copy_modules(self, inputs: Any) -> None:
        """Copy the modules among the inputs before objects that refer to their parameters, such as an optimizer."""
        for value in inputs if isinstance(inputs, (list, tuple)) else ():
            if isinstance(value, Module):
                self._copied(value, "")

    def read(self, value: Any, name: str, kind: Kind) -> Any:
        """Return an argument of the model, with meta tensors in place of shapes, tensors and arrays.

        Args:
            value: the argument.
            name: its name, for messages.
            kind: the meaning of its lists and tuples of integers.
        """
        if isinstance(value, Value):
            is_array = not isinstance(value.value, Tensor) and _is_array_of_numbers(value.value)
            if is_array:
                return deepcopy(value.value)
            read = self.read(value.value, name, Kind.NUMBERS)
            if type(value.value) is Tensor and _is_dense(value.value) and is_small(value.value):
                self._values.give(read, value.value.detach())  # values of floats, too
            return read
        if isinstance(value, Tensor):
            return self._meta_tensor(value, name)
        if isinstance(value, Operand):
            return _empty(value.shape, torch_dtype(value.dtype, name), name)
        if _is_shape_with_dtype(value):
            shape, dtype = value
            return _empty(shape, dtype, name)
        if _is_shape(value) or (type(value) is tuple and not value):
            return self._integers(value, name, kind)
        if type(value) in _DICTS:
            return type(value)(
                (key, self.read(item, f"{name}[{key!r}]", _kind_in(value, key, kind))) for key, item in value.items()
            )
        if type(value) in (list, tuple) or _is_named_tuple(value):
            items = [self.read(item, f"{name}[{i}]", kind) for i, item in enumerate(value)]
            return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)
        if _is_array_of_numbers(value):
            is_scalar = not getattr(value, "shape", (1,)) and hasattr(value, "item") and hasattr(value, "tobytes")
            return value if is_scalar else _to_meta(torch.as_tensor(value), self._values)
        return value if type(value) in _ATOMS else self._copied(value, name)

    def _meta_tensor(self, tensor: Tensor, name: str) -> Tensor:
        if tensor.is_quantized:
            raise CostError(f"{name}: PyTorch has no kernels for quantized tensors without data; {WRAPPER}")
        if id(tensor) in self._memo:  # a parameter of the model, or a tensor that it shares
            return self._memo[id(tensor)]
        if id(tensor) not in self._made:  # the same tensor has the same copy: some models compare inputs by identity
            try:
                self._made[id(tensor)] = _to_meta(tensor, self._values)
            except (RuntimeError, AttributeError) as error:
                layout = "torch.strided (torch.jagged works)" if tensor.is_nested else tensor.layout
                kind = f"{'nested ' * tensor.is_nested}{type(tensor).__name__} of layout {layout}"
                raise CostError(f"{name}: PyTorch cannot move a {kind} to the meta device; {WRAPPER}") from error
        return self._made[id(tensor)]

    def _copied(self, value: Any, name: str) -> Any:
        # An object of any class: a batch, a cache, a configuration, a function.
        if isinstance(value, PackedSequence):
            rest = [None if x is None else self._meta_tensor(x, name) for x in value[2:]]
            return PackedSequence(self._meta_tensor(value.data, name), value.batch_sizes, *rest)
        if isinstance(value, Module):
            return self._memo[id(value)] if id(value) in self._memo else meta_copy(value, self._values, memo=self._memo)
        with _TensorCopies(partial(self._meta_tensor, name=name)):
            return deep_copy(value, self._memo)

    def _integers(self, value: Sequence[int], name: str, kind: Kind) -> Any:
        if kind is Kind.NUMBERS or (kind is Kind.LIST_IS_NUMBERS and isinstance(value, list)):
            return value
        if kind is Kind.UNKNOWN and isinstance(value, list):
            self.guessed[name] = value
        return _empty(value, self._dtype, name)


def _is_array_of_numbers(value: Any) -> bool:
    # Not an image, a table, or an array of objects or texts.
    if not (hasattr(value, "__array_interface__") or hasattr(value, "__array__")):
        return False
    return getattr(getattr(value, "dtype", None), "kind", "O") not in "OSUVMm"


def _kind_in(holder: Mapping[Any, Any], key: Any, kind: Kind) -> Kind:
    # A dict of metadata, ``{"img_shape": (480, 640)}``, has integers. In other dicts, lists have integers, and tuples
    # are shapes of tensors.
    if kind is Kind.NUMBERS or is_metadata(holder) or is_name_of_sizes(key):
        return Kind.NUMBERS
    return Kind.LIST_IS_NUMBERS


_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))

_DICTS = (dict, OrderedDict)


class _TensorCopies(TorchFunctionMode):
    # A mode for ``copy.deepcopy``: it replaces the result of ``Tensor.__deepcopy__``.
    def __init__(self, like: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._like = like

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return a meta tensor for a tensor that is copied."""
        with torch._C.DisableTorchFunction():
            return self._like(args[0]) if func is Tensor.__deepcopy__ else func(*args, **(kwargs or {}))


def _to_meta(tensor: Tensor, values: Values) -> Tensor:
    # Only integers and bools keep their values.
    if tensor.layout in SPARSE_LAYOUTS:
        return sparse_on_meta(tensor)
    if tensor.layout is not torch.strided or tensor.is_nested or _is_wrapper(tensor):
        moved = tensor.detach().to(META)
        if tensor.layout is torch.jagged and is_small_integer(tensor.offsets()):
            values.give(moved.offsets(), tensor.offsets())
        return moved.requires_grad_(tensor.requires_grad)
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)
    if is_small_integer(tensor):
        values.give(made, tensor)
    return made.requires_grad_(tensor.requires_grad)


def _is_wrapper(tensor: Tensor) -> bool:
    # A DTensor or a quantized tensor. Wrappers of integers (indices of PyTorch Geometric) are copied as plain tensors.
    return type(tensor) not in PLAIN and tensor.is_floating_point() and is_traceable_wrapper_subclass(tensor)


def _is_dense(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_meta


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(size, int) and not isinstance(size, bool) for size in value)
    )


def _is_shape_with_dtype(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], torch.dtype):
        return False
    return isinstance(value[0], (list, tuple))


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields") and not isinstance(value, PackedSequence)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str)) or value is None or is_symbolic(value)


def _empty(shape: Sequence[Any], dtype: torch.dtype, name: str) -> Tensor:
    sizes = _sizes(shape, name)
    try:
        return torch.empty(sizes, dtype=dtype, device=META)
    except RuntimeError as error:
        raise CostError(f"{name}: PyTorch cannot make a tensor of shape {sizes}: {error}") from error


def _sizes(shape: Sequence[Any], name: str) -> tuple[int, ...]:
    for size in shape:
        if isinstance(size, bool) or is_symbolic(size) or not hasattr(size, "__index__"):
            raise TypeError(
                f"{name}: invalid size {size!r} in the shape {tuple(shape)} (expected an integer, "
                "or a name for formulas in sizes)"
            )
        if size < 0:
            raise ValueError(f"{name}: the shape {tuple(shape)} has a negative size")
    return tuple(map(index, shape))


# Shapes or numbers among the arguments of ``forward``


class Kind(Enum):
    """The meaning of a list or tuple of integers among the arguments."""

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

_SIZE_ARGUMENTS = frozenset(
    (
        *("size", "output_size", "target_size", "shape", "dim", "dims", "kernel_size", "stride", "padding"),
        *("dilation", "split_size_or_sections", "sections", "normalized_shape", "repeats", "pad", "shifts"),
    )
)
"""Keyword arguments of PyTorch that take integers."""

_TAKE_INTEGERS = frozenset(("range", "Size", "zeros", "ones", "empty", "rand", "randn", "full"))
"""Functions whose arguments are integers."""

_TAKE_TENSOR_AND_INTEGERS = frozenset(
    (
        *("interpolate", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
        *("adaptive_max_pool2d", "upsample", "pad", "split", "split_with_sizes", "unflatten", "view"),
        *("reshape", "expand", "repeat", "permute", "tile", "new_zeros", "new_ones", "new_empty"),
    )
)
"""Functions and methods that take integers after the tensor."""

_MAKE_TENSORS = frozenset(("tensor", "as_tensor", "LongTensor", "IntTensor"))
"""Functions that make a tensor from a list of integers."""

_NAMESPACES = frozenset(("torch", "F", "functional"))


def kinds_of_arguments(forward: Callable[..., Any] | None, inputs: Any, is_by_name: bool) -> Callable[[Any], Kind]:
    """Return a function that maps the position or name of an argument to the kind of its integers.

    Args:
        forward: the function with which the model is called; None if unknown.
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
    code = getattr(inspect.unwrap(forward), "__code__", None)
    return code is not None and any(_uses_numbers(node, name, value) for node in _uses(code))


@lru_cache(maxsize=1024)
def _uses(code: CodeType) -> tuple[ast.AST, ...]:
    try:
        tree = ast.parse(dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TokenError):  # typed at a prompt, or made by a tool
        return ()
    kinds = (ast.Call, ast.Assign, ast.For, ast.comprehension)
    return tuple([node for node in ast.walk(tree) if isinstance(node, kinds)])


def _uses_numbers(node: ast.AST, name: str, value: Any) -> bool:
    is_list = isinstance(value, list) and _is_flat(value)  # else it may be a list of tensors
    if isinstance(node, ast.Call):
        is_converted = is_list and _called(node)[0] in _MAKE_TENSORS and any(_is_named(x, name) for x in node.args)
        return is_converted or any(_is_named(argument, name) for argument in _integers_of(node))
    if isinstance(node, ast.Assign):
        return _is_named(node.value, name) and _unpacks(node.targets[0], [value])
    if isinstance(node, (ast.For, ast.comprehension)):
        if _is_named(node.iter, name):
            items = value if isinstance(value, (list, tuple)) else ()
            return is_list or _unpacks(node.target, items) or (isinstance(node, ast.For) and _is_used_as_index(node))
        is_iterated = isinstance(node.iter, ast.Call) and _called(node.iter)[0] in ("enumerate", "reversed", "zip")
        return is_list and is_iterated and any(_is_named(x, name) for x in node.iter.args)  # type: ignore[attr-defined]
    return False


def _called(call: ast.Call) -> tuple[str, bool]:
    # The name of the function, and whether it is a method of an object, not a function of a namespace.
    function = call.func
    if not isinstance(function, ast.Attribute):
        return getattr(function, "id", ""), False
    return function.attr, not (isinstance(owner := function.value, ast.Name) and owner.id in _NAMESPACES)


def _integers_of(call: ast.Call) -> Iterator[ast.expr]:
    yield from (keyword.value for keyword in call.keywords if keyword.arg in _SIZE_ARGUMENTS)
    called, is_method = _called(call)
    if called in _TAKE_INTEGERS:
        yield from call.args
    elif called in _TAKE_TENSOR_AND_INTEGERS:
        if not is_method:
            yield from call.args[1:]
        else:
            yield from call.args[:1] if called == "split" else call.args


def _is_named(node: ast.expr, name: str) -> bool:
    # Also ``*name``, ``name[0]``, lists and arithmetic of these.
    if isinstance(node, (ast.Starred, ast.Subscript)):
        return _is_named(node.value, name)
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_is_named(item, name) for item in node.elts)
    if isinstance(node, ast.BinOp):
        return _is_named(node.left, name) or _is_named(node.right, name)
    return isinstance(node, ast.Name) and node.id == name


def _unpacks(target: ast.expr, values: Sequence[Any]) -> bool:
    # ``a, b = x`` cannot unpack a tensor of shape (5, 7): it has five rows for two names. So x is a pair of numbers.
    if not isinstance(target, (ast.Tuple, ast.List)):
        return False
    n = len(target.elts)
    flat = [x for x in values if isinstance(x, (list, tuple)) and len(x) == n and all(type(y) is int for y in x)]
    return bool(flat) and len(flat) == len(values) and any(x[0] != n for x in flat)


def _is_used_as_index(loop: ast.For) -> bool:
    # ``self.layers[i]`` shows that the loop variable ``i`` is an integer.
    if not isinstance(loop.target, ast.Name):
        return False
    variable = loop.target.id
    subscripts = (node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Subscript))
    return any(
        isinstance(each.slice, ast.Name) and each.slice.id == variable and isinstance(each.value, ast.Attribute)
        for each in subscripts
    )


def is_metadata(value: Mapping[Any, Any]) -> bool:
    """Return whether a dict has metadata, not inputs: some value is a string or a float."""
    return any(isinstance(item, (str, float)) for item in value.values())


# Lazy outputs: generators and other iterators, futures, functions


MAX_ITEMS = 2**16
"""The maximum number of values that are taken from the iterators that one pass returned."""

MAX_CALLS = 2**20
"""The number of calls after which iterators are assumed to be endless."""

MAX_DEPTH = 16
"""The maximum nesting of containers and iterators."""

_FUNCTIONS = (FunctionType, MethodType, partial)

_NOT_LAZY = (Tensor, Module, str, bytes, type, Sized, Mapping, Sequence, Set)


class Consumed(list[Any]):
    """The values of an iterator; also itself an iterator, because a ``loss`` of the user may call ``next`` on it."""

    _rest: Iterator[Any] | None = None

    def __next__(self) -> Any:
        if self._rest is None:
            self._rest = iter([*self])
        return next(self._rest)


class _Consumer:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.values: list[Any] = []
        self._holders: list[Any] = []
        """The containers around the current value; they end the recursion in a container that contains itself."""
        self._first = self._n_calls()

    def _n_calls(self) -> int:
        return max((log.n_calls() for log in self._recording.logs), default=0)

    def consumed(self, value: Any) -> Any:
        """Return an output with a list in place of each iterator; containers change in place."""
        if isinstance(value, (Tensor, Module)) or len(self._holders) > MAX_DEPTH:
            return value
        if any(value is holder for holder in self._holders):
            return value
        self._holders.append(value)
        try:
            return self._consumed(value)
        finally:
            self._holders.pop()

    def _consumed(self, value: Any) -> Any:
        if isinstance(value, _FUNCTIONS):
            self._note(f"the function {_name(value)}")
        elif inspect.isawaitable(value) and not _has_result(value):
            self._note(f"the coroutine {_name(value)}")
            if isinstance(value, CoroutineType):
                value.close()  # Python warns of a coroutine that is never awaited
        elif isinstance(value, AsyncGeneratorType):
            self._note(f"the asynchronous generator {_name(value)}")
        elif _has_result(value):
            return self._taken(value.result() if isinstance(value, Future) else value.wait())
        elif _is_lazy(value):
            return self._all_values(value)
        else:
            return self._in_container(value)
        return value

    def _note(self, what: str) -> None:
        self._recording.assumptions.note(
            f"forward returned {what}, which an estimate does not run: its cost is not counted"
        )

    def _taken(self, value: Any) -> Any:
        value = self.consumed(value)
        self.values.append(value)
        return value

    def _all_values(self, value: Iterable[Any]) -> Any:
        found, before = Consumed(), self._n_calls()
        iterator = iter(value)
        while len(self.values) < MAX_ITEMS and self._n_calls() - self._first < MAX_CALLS:
            try:
                item = next(iterator)
            except StopIteration:
                is_container = iterator is not value and self._n_calls() == before
                return value if is_container else found
            found.append(self._taken(item))
        self._recording.assumptions.note(
            f"forward returned an iterator ({type(value).__name__}) that seems endless: the first "
            f"{len(self.values):,} values are counted"
        )
        return found

    def _in_container(self, value: Any) -> Any:
        if isinstance(value, MutableMapping):
            for key, item in [*value.items()]:
                if (new := self.consumed(item)) is not item:
                    value[key] = new
        elif isinstance(value, MutableSequence):
            for i, item in enumerate([*value]):
                if (new := self.consumed(item)) is not item:
                    value[i] = new
        elif isinstance(value, tuple):
            items = [self.consumed(item) for item in value]
            if any(new is not old for new, old in zip(items, value, strict=True)):
                return type(value)(items) if type(value) is tuple else type(value)(*items)
        elif isinstance(value, (set, frozenset)):
            for item in value:
                self.consumed(item)
        elif isinstance(value, SimpleNamespace) or is_dataclass(value) or _is_of_user(type(value)):
            self._in_attributes(value)
        return value

    def _in_attributes(self, value: Any) -> None:
        # All fields of a dataclass, but only iterators among the attributes of other objects
        attributes = getattr(value, "__dict__", None)
        has_fields = isinstance(value, SimpleNamespace) or is_dataclass(value)
        names = [field.name for field in fields(value)] if is_dataclass(value) else attributes or ()
        for name in [*names]:
            item = getattr(value, name, None)
            if (has_fields or _is_lazy(item)) and (new := self.consumed(item)) is not item:
                object.__setattr__(value, name, new)


def consume(mode: CaptureMode, model: Module, result: Any) -> Any:
    """Run the iterators in a result to their ends, as a caller would, and return the result.

    Their calls belong to the modules that made them. Functions, coroutines, and iterators beyond :data:`MAX_ITEMS`
    values do not run; each is listed as an assumption.

    Args:
        mode: the capture.
        model: the module that ran.
        result: its result.
    """
    if isinstance(result, Tensor):
        return result
    recording = mode.recording
    consumer = _Consumer(recording)
    recording.modules.enter(model)
    try:
        result = consumer.consumed(result)
    finally:
        recording.modules.leave()
    if consumer.values:
        recording.record_returned(consumer.values)
        if mode.ledgers:
            mode.note_returned(consumer.values)
    return result


def _is_lazy(value: Any) -> bool:
    if isinstance(value, Iterator):
        return not isinstance(value, (IOBase, Consumed))
    return _is_of_user(type(value)) and isinstance(value, Iterable) and not isinstance(value, _NOT_LAZY)


def _has_result(value: Any) -> bool:
    return isinstance(value, (Future, torch.futures.Future, torch._C.Future))


def _is_of_user(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in ("torch", "builtins", "numpy")


def _name(value: Any) -> str:
    while isinstance(value, partial):
        value = value.func
    return str(getattr(value, "__qualname__", type(value).__name__)).rpartition("<locals>.")[2]


# Data-dependent branches: both sides run, and the more expensive one is counted


MAX_RUNS = 16
"""The maximum number of runs on other sides of branches in an estimate."""


def count_most_expensive(
    recorder: Recorder, first: Branches, record: Callable[[Recorder, Branches], object]
) -> Sequence[CostError]:
    """Replace the recorded run by one that takes the most expensive side of every branch.

    The other side of a branch is tried in all modules that share its code, and then in each of these modules alone. A
    side on which the model fails, or does not end, is not taken.

    Args:
        recorder: has the first run, in which all conditions are True.
        first: the branches of that run.
        record: records a run with the given sides of branches.

    Returns:
        The errors of the sides on which the model fails.
    """
    best, branches = recorder, first
    failed = []
    tried: set[Branch] = set()
    n_runs = 0
    while n_runs < MAX_RUNS:
        branch = next((each for each in _candidates(branches) if each not in tried), None)
        if branch is None:
            break
        tried.add(branch)
        n_runs += 1
        sides = {**branches.sides, branch: not branches.sides.get(branch, _common_side(branches.sides, branch))}
        other, met = recorder.of_another_run(), Branches(sides, branches.passing, branches.met)
        try:
            record(other, met)
        except CostError as error:
            failed.append(error)
            continue
        if most_expensive({False: best.calls, True: other.calls}, recorder).counted:
            best, branches = other, met
    left = [each for each in _candidates(branches) if each not in tried and each[2] is None]
    if left:
        best.notes.append(
            f"{len(left)} data-dependent branch{'es' * (len(left) > 1)} assumed True without a comparison: other sides "
            f"are tried in at most {MAX_RUNS} runs"
        )
    if best is not recorder:
        recorder.adopt(best)
    return failed


def _common_side(sides: Mapping[Branch, bool], branch: Branch) -> bool:
    return sides.get((*branch[:2], None), True)


def _candidates(branches: Branches) -> list[Branch]:
    # Each branch in all modules that share its code; then, if there are several, in each module alone.
    everywhere: list[Branch] = [*dict.fromkeys((code, position, None) for code, position, _ in branches.met)]
    n_modules = {each: sum(met[:2] == each[:2] for met in branches.met) for each in everywhere}
    return everywhere + [met for met in branches.met if n_modules[met[0], met[1], None] > 1]
