"""Tensors as operands: shape, canonical dtype and role. Below: all modules of a model, and packed weights."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.utils._python_dispatch import _disable_current_modes

from costcore.ir import BITS, Role
from costcore.ir import Tensor as Operand

_DTYPES = {
    "quint8": "uint8",
    "qint8": "int8",
    "qint32": "int32",
    "quint4x2": "uint4",
    "quint2x4": "uint2",
    "float8_e8m0fnu": "float8_e8m0",
    "float4_e2m1fn_x2": "uint8",  # two packed elements, which PyTorch counts as one
    "bits8": "uint8",
    "bits16": "uint16",
    "bits1x8": "uint8",
    "bits2x4": "uint8",
    "bits4x2": "uint8",
}


class Number(NamedTuple):
    """A Python number passed as an operand; it occupies no memory."""

    value: complex


class DataOperand(NamedTuple):
    """An operand that is data although its canonical name is used for parameters: class weights, an addend."""

    value: Any


_SCALARS = frozenset((type(None), bool, int, float, complex, str))

SPARSE_LAYOUTS = frozenset((torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc))


@cache
def dtype_name(dtype: torch.dtype) -> str:
    """Return the canonical name of a dtype."""
    name = str(dtype).removeprefix("torch.")
    name = _DTYPES.get(name, name)
    return name if name in BITS else f"uint{dtype.itemsize * 8}"


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape in ints.

    For a sparse tensor, it is the shape of its values; for a nested tensor, the shape of its packed samples.
    """
    if tensor.layout in SPARSE_LAYOUTS:
        with _disable_current_modes():
            held = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
        return tuple([int(size) for size in held.shape])
    if not tensor.is_nested:
        return tuple([int(size) for size in tensor.shape])
    with _disable_current_modes():
        return _nested_shape(tensor)


def _nested_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    # The samples are concatenated along the ragged axis; 1-d if several are ragged.
    if tensor.layout is torch.jagged:
        return (1, *tensor.values().shape)
    sizes, ragged = tensor._nested_tensor_size(), _ragged_axes(tensor)
    if len(ragged) > 1:
        return (int(sizes.prod(-1).sum()),)
    packed: list[int] = sizes[0].tolist()
    axis = ragged[0] if ragged else 0
    packed[axis] = int(sizes[:, axis].sum())
    return (1, *packed)


def _ragged_axes(tensor: torch.Tensor) -> list[int]:
    sizes = tensor._nested_tensor_size()
    return [axis for axis in range(sizes.shape[1]) if sizes[:, axis].unique().numel() > 1]


def stored_elements(tensor: torch.Tensor) -> int | None:
    """Return the number of elements in memory of a view that repeats them; None if it repeats none.

    An axis of stride 0 (``expand``) repeats all elements, overlapping windows (``unfold``) some of them. If the strides
    of two axes are multiples of each other, the count is exact; otherwise it is the maximum.
    """
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_contiguous():
        return None
    size = math.prod(map(int, tensor.shape))
    runs: list[tuple[int, int]] = []  # (stride, count) of merged axes; an axis that fills or overlaps a run extends it
    for stride, count in sorted(zip(map(int, tensor.stride()), map(int, tensor.shape), strict=True)):
        if stride == 0:
            continue
        for i, (step, length) in enumerate(runs):
            if stride % step == 0 and stride // step <= length:
                runs[i] = step, length + stride // step * (count - 1)
                break
        else:
            runs.append((stride, count))
    stored = min(math.prod(count for _, count in runs), 1 + sum(stride * (count - 1) for stride, count in runs))
    return stored if stored < size else None


def is_contiguous(tensor: torch.Tensor) -> bool:
    """Return whether the elements are in memory in their order; True for sparse and nested tensors too."""
    return tensor.layout is not torch.strided or tensor.is_nested or tensor.is_contiguous()


def nested_tensors(value: Any) -> list[torch.Tensor]:
    """Return every tensor in nested lists, tuples, dicts and dataclasses, in order."""
    found: list[torch.Tensor] = []
    waiting: list[Any] = [value]
    around: set[int] = set()  # the containers that are being read, so that one that contains itself ends
    while waiting:
        item = waiting.pop()
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif type(item) is _EndOfContainer:
            around.remove(item.container)
        elif type(item) not in _SCALARS and id(item) not in around and (inside := _items(item)):
            around.add(id(item))
            waiting.append(_EndOfContainer(id(item)))
            waiting += reversed(inside)
    return found


def tensors_in_object(value: Any) -> list[torch.Tensor]:
    """Return every tensor in the attributes of an object, such as a distribution, each once."""
    found: dict[int, torch.Tensor] = {}
    waiting, seen = [value], set[int]()
    while waiting:
        item = waiting.pop()
        if isinstance(item, torch.Tensor):
            found.setdefault(id(item), item)
        elif id(item) not in seen and type(item) not in _SCALARS and not isinstance(item, (Module, type)):
            seen.add(id(item))
            waiting += reversed([*_items(item), *attributes_of(item).values()])
    return [*found.values()]


def attributes_of(value: object) -> Mapping[str, Any]:
    """Return the attributes of an object by name; empty if its ``__dict__`` is not a dict, as in some C libraries."""
    held = getattr(value, "__dict__", None)
    return held if isinstance(held, dict) else {}


CACHES_STATES = "cache_params"
"""The argument and output name of the cache in state-space models of transformers."""

CACHES = ("past_key_values", "cache", CACHES_STATES)
"""Argument and output names of caches in models of transformers; ``cache`` since 5.24."""


def cached_tensors(values: Any) -> list[torch.Tensor]:
    """Return the tensors of caches among the keyword arguments or the outputs of a model."""
    named = values if isinstance(values, Mapping) else {}
    return [tensor for name in CACHES if name in named for tensor in tensors_in_object(named[name])]


def with_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a value with its tensors replaced; containers and objects are copied if a tensor inside changes.

    Args:
        value: any result of a model; modules in it do not change.
        change: returns the replacement of a tensor; called in the order of :func:`nested_tensors`.
    """
    return _with_tensors(value, change, set())


def _with_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor], around: set[int]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in _SCALARS or isinstance(value, (Module, type, FunctionType, ModuleType)) or id(value) in around:
        return value
    around = {*around, id(value)}
    if isinstance(value, (list, tuple)):
        items = [_with_tensors(item, change, around) for item in value]
        if all(old is new for old, new in zip(value, items, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Mapping):
        made = {key: _with_tensors(item, change, around) for key, item in value.items()}
        if all(made[key] is item for key, item in value.items()):
            return value
        if type(value) is dict or not isinstance(value, MutableMapping):
            return made
        copied = copy.copy(value)
        copied.update(made)
        return copied
    held = attributes_of(value)
    other = {name: made for name, item in held.items() if (made := _with_tensors(item, change, around)) is not item}
    if not other:
        return value
    copied = copy.copy(value)
    vars(copied).update(other)
    return copied


class _EndOfContainer(NamedTuple):
    container: int  # its id


def _items(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [*value]
    if isinstance(value, Mapping):
        return [*value.values()]
    return [getattr(value, name, None) for name in getattr(type(value), "__dataclass_fields__", ())]


def sample_lengths(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return the last size but one, the length, of every sample of a nested tensor; None for any other tensor."""
    if not tensor.is_nested:
        return None
    with _disable_current_modes():
        if tensor.layout is not torch.jagged:
            return tuple(tensor._nested_tensor_size()[:, -2].tolist())
        lengths = tensor.lengths()
        if lengths is not None:
            return tuple(lengths.tolist())
        # In an estimate the values of the offsets are known, but not those of tensors computed from them here.
        return tuple(end - start for start, end in pairwise(tensor.offsets().tolist()))


def is_twice_ragged(value: Any) -> bool:
    """Return whether the samples of a nested tensor differ in more than one size."""
    if not isinstance(value, torch.Tensor) or not value.is_nested or value.layout is torch.jagged:
        return False
    with _disable_current_modes():
        return len(_ragged_axes(value)) > 1


def operand(value: Any, role: Role) -> Operand | None:
    """Return the operand of a tensor or a :class:`Number`; None for any other value."""
    if isinstance(value, torch.Tensor):
        return Operand(shape_of(value), dtype_name(value.dtype), role, stored_elements(value))
    if type(value) is Number:
        return Operand((), _number_type(value.value), "const")
    return None


def _number_type(value: complex) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    return "complex64" if isinstance(value, complex) else "float32"


# Modules below a module, with their paths


COMPILED = "OptimizedModule"
"""Name of the class of compiled modules; importing the class would import the compiler."""

ORIGINAL = "_orig_mod"
"""Name of the original module inside a compiled module."""


def join(path: str, name: str) -> str:
    """Return the path of a child."""
    return f"{path}.{name}" if path and name else path or name


def not_compiled(module: Module) -> Module:
    """Return the module that ``torch.compile`` compiled into this one; any other module unchanged."""
    while type(module).__name__ == COMPILED and isinstance(module._modules.get(ORIGINAL), Module):
        module = module._modules[ORIGINAL]
    return module


def walk(model: Module) -> Iterator[tuple[str, Module, bool]]:
    """Yield path and module of ``model`` and all modules below it, and whether each is new.

    Modules come in the order of the model. A repeated module is yielded again but not entered again, so that cycles
    end. The original of a compiled module has the path of the compiled module.
    """
    seen: set[int] = set()
    waiting: list[tuple[str, Module]] = [("", model)]
    while waiting:
        path, module = waiting.pop()
        is_first = id(module) not in seen
        yield path, module, is_first
        if is_first:
            seen.add(id(module))
            children = module._modules
            if not children:
                continue
            if type(module).__name__ == COMPILED and ORIGINAL in children:
                waiting.append((path, children[ORIGINAL]))
                continue
            before = f"{path}." if path else ""
            waiting += [(before + name, x) for name, x in reversed(children.items()) if x is not None]


def modules_of(model: Module) -> Iterator[Module]:
    """Return every module in ``model`` once, itself first."""
    return (module for _, module, is_first in walk(model) if is_first)


# Weights of quantized modules, which PyTorch packs into objects
#
# A packed object is passed to an operator in place of its weight and bias. Shapes, dtypes, scales and settings are read
# from it once.


_SETTINGS = ("stride", "padding", "output_padding", "dilation", "groups", "transpose")
"""The methods of a packed convolution that return its settings."""

_TYPES = "__torch__.torch.classes.quantized."
"""The prefix of the names of the types of packed objects."""

_EMBEDDING = "quantized::embedding_byte"

_PRODUCTS = ("quantized::linear", "quantized::conv", _EMBEDDING)

_QUANTIZATION = ("scale", "zero_point")

META = torch.device("meta")


class PackedWeight(NamedTuple):
    """The content of a packed object, without data.

    Attributes:
        w: the weight, in its packed dtype.
        b: the bias, if there is one.
        scales: one scale per channel; None if one number scales all weights.
        has_zero_point: whether any weight is stored with an offset.
        settings: stride, padding, output padding, dilation, groups and transposition of a convolution.
    """

    w: Parameter
    b: Parameter | None
    scales: Tensor | None
    has_zero_point: bool
    settings: Mapping[str, Any]


def matching(model: Module, patterns: Iterable[str]) -> Iterator[tuple[str, Module]]:
    """Yield the modules with names that match a pattern entirely; ``*`` is one part of a name."""
    forms = [re.compile(re.escape(pattern).replace(r"\*", r"[^.]+")) for pattern in patterns]
    for name, module in model.named_modules():
        if any(form.fullmatch(name) for form in forms):
            yield name, module


def is_packed(schema_type: str) -> bool:
    """Return whether arguments of a type, as named in a schema, are packed objects."""
    return schema_type.startswith(_TYPES)


class PackedWeights:
    """The packed weights of one run, each unpacked once.

    Python gets a new wrapper at every call, with the hash of the packed object behind it.
    """

    def __init__(self) -> None:
        self._unpacked: dict[int, tuple[Any, Any]] = {}

    def replace(self, arguments: Sequence[Any], is_1d: bool) -> list[Any]:
        """Return arguments with a :class:`PackedWeight` in place of every packed object that can be read."""
        return [self._weight(x, is_1d) if isinstance(x, torch.ScriptObject) else x for x in arguments]

    def _weight(self, packed: Any, is_1d: bool) -> Any:
        found = self._unpacked.get(hash(packed))
        if found is None:
            try:
                with _disable_current_modes():
                    found = (packed, _unpack(packed, is_1d))
            except RuntimeError:  # of a type that this engine cannot unpack: its calls are listed as not counted
                found = (packed, packed)
            self._unpacked[hash(packed)] = found
        return found[1]

    def of(self, model: Module) -> Iterator[PackedWeight]:
        """Return the packed weights that quantized modules in a model hold, each once."""
        quantized = (module for module in modules_of(model) if type(module).__module__.startswith("torch.ao."))
        held = (value for module in quantized for value in vars(module).values())
        packed = {hash(value): value for value in held if isinstance(value, torch.ScriptObject)}
        return (x for x in self.replace([*packed.values()], False) if isinstance(x, PackedWeight))


def _unpack(packed: Any, is_1d: bool) -> PackedWeight:
    if not packed._has_method("unpack"):
        raise RuntimeError("this object holds no weight of its own")
    unpacked = packed.unpack()
    weight, bias = unpacked if isinstance(unpacked, tuple) else (unpacked, None)
    shape = list(weight.shape)
    if is_1d:  # stored as a 2-d convolution of height 1
        del shape[2]
    scales, zero_points = None, 0
    dtype = weight.dtype
    if weight.is_quantized:
        dtype = torch.int8 if dtype is torch.qint8 else torch.uint8
        if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
            scales = torch.empty(weight.q_per_channel_scales().shape, device=META)
            zero_points = int(weight.q_per_channel_zero_points().count_nonzero())
        else:
            zero_points = weight.q_zero_point()
    elif dtype is torch.float32:  # a method unpacks half-precision weights
        dtype = torch.float16
    rank = len(shape) - 2
    settings = {name: getattr(packed, name)() for name in _SETTINGS if packed._has_method(name)}
    return PackedWeight(
        Parameter(torch.empty(shape, dtype=dtype, device=META), requires_grad=False),
        None if bias is None else Parameter(torch.empty_like(bias, device=META), requires_grad=False),
        scales,
        bool(zero_points),
        {name: tuple(value[-rank:]) if isinstance(value, list) else value for name, value in settings.items()},
    )


def without_run(native: str, arguments: Mapping[str, Any]) -> Tensor | None:
    """Return the result of a product with a packed weight on meta tensors, for which PyTorch has no kernel.

    It is None if a kernel must run: on tensors with data, and for operators that are not such products.

    Args:
        native: the full name of the operator.
        arguments: all arguments by name, with a :class:`PackedWeight` in place of the packed object.
    """
    packed = next((value for value in arguments.values() if isinstance(value, PackedWeight)), None)
    x = next((value for value in arguments.values() if isinstance(value, Tensor)), None)
    if packed is None or x is None or not x.is_meta or not native.startswith(_PRODUCTS):
        return None
    if native.startswith(_EMBEDDING):
        return x.new_empty((*x.shape, packed.w.shape[-1]), dtype=torch.float32)
    shape = output_shape(x, packed)
    return _empty_quantized(shape, arguments) if x.is_quantized else x.new_empty(shape)


def _empty_quantized(shape: Sequence[int], arguments: Mapping[str, Any]) -> Tensor:
    scale, zero_point = (arguments.get(f"output_{name}", arguments.get(f"Y_{name}_i")) for name in _QUANTIZATION)
    made: Tensor = torch._empty_affine_quantized(
        shape, scale=scale, zero_point=zero_point, dtype=torch.quint8, device=META
    )
    return made


def output_shape(x: Tensor, packed: PackedWeight) -> tuple[int, ...]:
    """Return the shape of the product of an input and a packed weight."""
    w, settings = packed.w, packed.settings
    if not settings:
        return (*x.shape[:-1], w.shape[0])
    names = ("stride", "padding", "dilation", "output_padding")
    sizes = zip(x.shape[2:], w.shape[2:], *(settings[name] for name in names), strict=True)
    if settings["transpose"]:
        made = [(n - 1) * s - 2 * p + d * (k - 1) + more + 1 for n, k, s, p, d, more in sizes]
        return (x.shape[0], w.shape[1] * settings["groups"], *made)
    return (x.shape[0], w.shape[0], *((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in sizes))


def with_modules(model: Module, others: Mapping[int, Module]) -> Module:
    """Return a copy of a model with some modules replaced, by id; it shares all tensors with the model."""
    # A module that is used twice has one copy.
    made: dict[int, Module] = dict(others)
    for each in [*model.modules()][::-1]:
        if id(each) not in made:
            made[id(each)] = copy.copy(each)
    for each in model.modules():
        copied = made[id(each)]
        if id(each) not in others:
            copied._modules = {name: child and made[id(child)] for name, child in each._modules.items()}
    return made[id(model)]
