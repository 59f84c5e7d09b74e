"""Values of a jaxpr with sizes, known numbers and module names; arguments and variables of a program."""

from __future__ import annotations

import ast
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp

from costcore.errors import CostError, short_repr
from costcore.ir import BITS, Role, Tensor
from costcore.numbers import Dim, as_dim, floor_div, maximum, minimum, symbol_of
from costcore.trace.trace import Value as TracedValue

# Sizes


OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}

SIZE_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "floordiv": floor_div,
    "mod": lambda a, b: a - b * floor_div(a, b),
    "max": maximum,
    "min": minimum,
}
"""Functions that JAX prints in symbolic sizes."""


def dim_of(size: Any) -> Dim:
    """Convert a JAX size to an int, or to an expression of integer symbols with the same names."""
    return _evaluate(str(size)) if jax.export.is_symbolic_dim(size) else as_dim(size)


@lru_cache(maxsize=4096)
def _evaluate(text: str) -> Dim:
    # JAX prints powers as n^2
    return _value(ast.parse(text.replace("^", "**"), mode="eval").body)


def _value(part: ast.expr) -> Dim:
    if isinstance(part, ast.BinOp):
        return as_dim(OPERATORS[type(part.op)](_value(part.left), _value(part.right)))
    if isinstance(part, ast.UnaryOp):
        return -_value(part.operand)
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
        return as_dim(SIZE_FUNCTIONS[part.func.id](*map(_value, part.args)))
    if isinstance(part, ast.Name):
        return symbol_of(part.id)
    return as_dim(ast.literal_eval(part))


# Values


DTYPES = {
    "float0": "bool",  # gradients of integers; JAX stores one byte per element
    "float4_e2m1fn": "float4_e2m1",
    "float6_e2m3fn": "float6_e2m3",
    "float6_e3m2fn": "float6_e3m2",
    "float8_e8m0fnu": "float8_e8m0",
}
"""Costcore names of dtypes, where they differ from JAX."""

KEY = "uint64"
"""The dtype of a random key, which is two 32-bit words for the default generator."""


@dataclass(eq=False, slots=True)
class Value:
    """A variable or a literal of a jaxpr.

    Attributes:
        shape: the sizes of the axes.
        dtype: a key of :data:`costcore.ir.BITS`; empty for tokens and other values without elements.
        role: ``param`` for a learned parameter and its reshaped views.
        identity: its operand id.
        parameter: the parameter id of a learned parameter; 0 for all others.
        is_weight: whether it is a learned parameter, or learned parameters that were only moved or cast.
        number: the value of a literal, or of an array filled with a literal.
        has_gradient: whether it depends on a result of the backward pass.
        is_reversed: whether it is the result of ``rev``, as the kernel is in the gradient of a convolution.
    """

    shape: tuple[Dim, ...]
    dtype: str
    role: Role = "data"
    identity: int = 0
    parameter: int = 0
    is_weight: bool = False
    number: Any = None
    has_gradient: bool = False
    is_reversed: bool = False

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return Tensor(self.shape).size

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def viewed(self, *shape: Dim) -> Value:
        """Return the same value with other axes."""
        return replace(self, shape=shape)

    def tensor(self) -> Tensor | None:
        """Return the operand; None for a value without elements."""
        return Tensor(self.shape, self.dtype, self.role) if self.dtype else None


def value_of(aval: Any, **fields: Any) -> Value:
    """Return the value of a JAX abstract value."""
    aval = getattr(aval, "inner_aval", aval)  # a reference to mutable memory
    shape = tuple(map(dim_of, getattr(aval, "shape", ())))
    return Value(shape, dtype_of(getattr(aval, "dtype", None)), **fields)


def dtype_of(dtype: Any) -> str:
    """Return the costcore name of a JAX dtype; empty for None."""
    if dtype is None:
        return ""
    name = str(dtype)
    if name.startswith("key<"):
        return KEY
    known = DTYPES.get(name, name)
    return known if known in BITS else f"uint{8 * dtype.itemsize}"


# Known numbers


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "eq": operator.eq,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "max": max,
    "min": min,
    "mul": operator.mul,
    "ne": operator.ne,
    "neg": operator.neg,
    "sqrt": math.sqrt,
    "sub": operator.sub,
}

PASSED_ON = frozenset(("broadcast_in_dim", "convert_element_type", "copy", "reshape", "squeeze", "stop_gradient"))
"""Primitives that pass on a number; every element of the output is the input."""


def number_of(primitive: str, inputs: Sequence[Value], dtype: str) -> Any:
    """Compute a primitive on known numbers; None if the result is unknown.

    Args:
        primitive: the name of the primitive.
        inputs: its inputs.
        dtype: the dtype of its output.
    """
    numbers = [value.number for value in inputs]
    if not numbers or any(not isinstance(number, (bool, int, float)) for number in numbers):
        return None
    if primitive in PASSED_ON:
        return numbers[0] if "int" not in dtype else int(numbers[0])
    if primitive == "div" and "int" not in dtype and numbers[1]:
        return numbers[0] / numbers[1]
    if primitive == "sqrt" and numbers[0] < 0:
        return None
    return FUNCTIONS[primitive](*numbers) if primitive in FUNCTIONS else None


# Module names and source lines


RECOMPUTED = "rematted_computation"
"""The scope in which ``jax.checkpoint`` repeats a forward pass."""

MARK = "@"
"""The prefix of a scope with the complete path of a module."""

LINES = "lines of "
"""The prefix of a scope that holds the source lines of an equation as a formatted traceback, not a module."""


class Names(NamedTuple):
    """The scopes around an equation (outermost first), its transformations, and source lines from a StableHLO file."""

    scopes: tuple[str, ...] = ()
    transformations: frozenset[str] = frozenset()
    lines: str | None = None

    def inside(self, equation: Any) -> Names:
        """Return these names extended by the name stack of an equation."""
        stack: Sequence[Any] = equation.source_info.name_stack.stack
        if not stack:
            return self
        is_transformation = [type(each).__name__ == "Transform" for each in stack]
        scopes = [each.name for each, is_one in zip(stack, is_transformation, strict=True) if not is_one]
        found = [each.name for each, is_one in zip(stack, is_transformation, strict=True) if is_one]
        lines = [scope.removeprefix(LINES) for scope in scopes if scope.startswith(LINES)]
        scopes = [scope for scope in scopes if not scope.startswith(LINES)]
        return Names((*self.scopes, *scopes), self.transformations | {*found}, lines[-1] if lines else self.lines)

    def module(self, root: str) -> str:
        """Return the module path. A leading scope ``root`` is the model itself and left out."""
        scopes = [scope for scope in self.scopes if scope != RECOMPUTED]
        complete = [scope for scope in scopes if scope.startswith(MARK)]
        if complete:
            return complete[-1].removeprefix(MARK)
        if root and scopes[:1] == [root]:
            del scopes[0]
        return ".".join(scope.replace("/", ".").strip(".") for scope in scopes)

    def phase(self, reads_gradient: bool) -> str:
        """Return the phase of an equation.

        An equation that reads gradients, but is outside of any derivative, belongs to the optimizer.
        """
        if RECOMPUTED in self.scopes:
            return "recompute"
        if "transpose" in self.transformations:
            return "backward"
        return "optimizer" if reads_gradient and not self.is_derivative else "forward"

    @property
    def is_derivative(self) -> bool:
        """Whether the equation is inside of a derivative; ``vmap`` is none."""
        return not self.transformations <= {"vmap"}


# Programs


class Owner(NamedTuple):
    """The role of a variable, and the module that owns it.

    Attributes:
        role: ``param`` if it is learned, ``state`` if the model updates it.
        module: the path of the module.
        name: its name in the module.
        is_frozen: whether it is a parameter that is not trained.
    """

    role: Role
    module: str = ""
    name: str = ""
    is_frozen: bool = False


def owner_without_module(path: Any) -> Owner:
    """Return an owner without a module, for variables of a plain function."""
    return Owner("param")


@dataclass(frozen=True)
class Program:
    """A traceable function with its parameters and state.

    Attributes:
        function: ``function(variables, *args, **kwargs)``; returns the outputs of the model and its updated state.
        variables: a pytree of abstract values.
        owner: returns the owner of a variable by its path in the pytree.
        root: the scope of the model itself.
        types: the class of every module by path; complete after the function was traced.
        assumed: an assumption about the variables; "": none.
    """

    function: Callable[..., Any]
    variables: Any = ()
    owner: Callable[[Any], Owner] = owner_without_module
    root: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    assumed: str = ""


# Inputs


JAX_NAMES = {"float8_e8m0": "float8_e8m0fnu", "float4_e2m1": "float4_e2m1fn"}
"""JAX names of dtypes, where they differ from costcore."""


def is_shape(value: object) -> bool:
    """Return whether a value is a shape: a non-empty tuple of ints or symbolic sizes."""
    return (
        isinstance(value, tuple)
        and not hasattr(value, "_fields")
        and bool(value)
        and all(_is_size(size) for size in value)
    )


def _is_size(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or jax.export.is_symbolic_dim(value)


def arguments(inputs: Any, dtype: Any = None) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments by position and by name; shapes, tensors and arrays become abstract values.

    Args:
        inputs: one argument, a tuple or list of several, or a dict of arguments by name.
        dtype: the dtype of inputs given as shapes; default: float32.

    Raises:
        CostError: for a leaf that is neither a shape nor an array.
    """
    if isinstance(inputs, Mapping):
        return [], {name: abstract(value, dtype, repr(name)) for name, value in inputs.items()}
    if inputs is None:
        return [], {}
    is_one = is_shape(inputs) or not isinstance(inputs, (tuple, list)) or inputs == () or hasattr(inputs, "_fields")
    positional: Sequence[Any] = [inputs] if is_one else inputs
    return [abstract(value, dtype, str(i)) for i, value in enumerate(positional)], {}


def abstract(argument: Any, dtype: Any = None, label: str = "") -> Any:
    """Convert the leaves of a pytree to abstract values; numbers, strings and functions stay unchanged."""
    if isinstance(argument, tuple) and argument == ():
        return _array((), dtype)
    return jax.tree.map(lambda leaf: _leaf(leaf, dtype, label), argument, is_leaf=_is_leaf)


def _is_leaf(value: Any) -> bool:
    # NNX objects may share variables, so nnx.split takes them apart later.
    return is_shape(value) or _is_object_of_nnx(value)


def _is_object_of_nnx(value: Any) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, nnx.Pytree)


def _leaf(leaf: Any, dtype: Any, label: str) -> Any:
    if isinstance(leaf, TracedValue):
        return leaf.value
    if is_shape(leaf):
        if any(isinstance(size, int) and size < 0 for size in leaf):
            raise CostError(f"argument {label} has a negative size: {leaf}")
        return _array(leaf, dtype)
    if isinstance(leaf, Tensor):
        return _array(leaf.shape, JAX_NAMES.get(leaf.dtype, leaf.dtype))
    if is_static(leaf) or _is_object_of_nnx(leaf):
        return leaf
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    raise CostError(
        f"argument {label} is {short_repr(leaf)} (expected a shape as a tuple of ints, a costcore.Tensor, "
        "a jax.ShapeDtypeStruct, an array, or a pytree of these)"
    )


def _array(shape: Sequence[Any], dtype: Any) -> jax.ShapeDtypeStruct:
    try:
        return jax.ShapeDtypeStruct(tuple(shape), jnp.float32 if dtype is None else jnp.dtype(dtype))
    except TypeError as error:
        raise ValueError(f"{error} (expected a dtype of JAX, such as 'bfloat16')") from error


def is_static(leaf: object) -> bool:
    """Return whether an argument is passed unchanged: a Python number, a string or a function."""
    return isinstance(leaf, (bool, int, float, complex, str)) or (callable(leaf) and not hasattr(leaf, "shape"))
