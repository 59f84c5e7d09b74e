"""A StableHLO program as a function that JAX can trace: each operation binds its JAX primitive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from costcore_jax.values import LINES
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jaxlib.mlir import ir

from costcore.errors import CostError, unknown
from costcore.graphs import DEEPEST, MOST_NODES

from .attributes import aval_of, constant_of, get, is_real, lines_of, name_of
from .operators import BINARY, RULES, check_results, custom_call, direction

CONSTANTS = ("stablehlo.constant", "chlo.constant", "arith.constant", "sdy.constant")

DIALECTS = frozenset(("chlo", "mhlo", "sdy", "stablehlo"))
"""The dialects with rules. Of MHLO, TensorFlow writes only ``copy``."""

ENDS = frozenset(("func.return", "sdy.return", "stablehlo.return"))

ARGMAX_OPERATORS = frozenset(("and", "compare", "or", "return", "select"))
"""The only operators in the body of an argmax or argmin."""

BY_ELEMENT = frozenset((*BINARY, "compare"))
"""Binary operators, whose operands JAX broadcasts."""

WRAPPED = re.compile(r"(?:jvp|transpose|vmap|remat|checkpoint|custom_jvp|custom_vjp)\((.*)\)")

UNNAMED = re.compile(r"\w+\(.*\)|while|body|cond|branch_\d+_fun|closed_call|checkpoint|remat|rematted_computation|")
"""Parts of a name that are JAX functions and loops, not modules."""

FEW = 10
"""The maximum number of names in a message."""


class Argument(NamedTuple):
    """An argument of the program: its name in the file, and its MLIR type."""

    name: str
    type: Any


class Repeated(NamedTuple):
    """The result of a broadcast that is not expanded yet: elementwise operators use the smaller array.

    Attributes:
        part: a number, or an array with as many axes; broadcast axes have size 1.
        shape: the shape after the broadcast.
    """

    part: Any
    shape: tuple[int, ...]

    def array(self) -> Any:
        """Return the expanded array."""
        if isinstance(self.part, np.generic):
            return lax.full(self.shape, self.part, self.part.dtype)
        return lax.broadcast_in_dim(self.part, self.shape, range(len(self.shape)))


class FileProgram:
    """The functions of an MLIR module, and the function to run.

    Args:
        module: the module. Open sizes must be set by :func:`.model.refine` before the program runs.
        function: the function to run; default: ``main``, or the only public function.

    Attributes:
        arguments: the arguments of the function.
        name: the name of the function.
        title: its original name, if :meth:`make_main` renamed it.
        stored: the learned constants: abstract arrays by MLIR value.

    Raises:
        CostError: if there is no such function, or if several are public and none is ``main``; the message names them.
    """

    def __init__(self, module: Any, function: str | None = None) -> None:
        self._functions = {
            get(op.operation, "sym_name"): op.operation
            for op in module.body.operations
            if op.operation.name == "func.func" and op.operation.regions[0].blocks
        }
        self.name = self.title = self._chosen(function)
        block = self._functions[self.name].regions[0].blocks[0]
        names = [name_of(value.location) or self._name_inside(block, value) for value in block.arguments]
        self.arguments = [
            Argument(name or f"arg{i}", value.type)
            for i, (name, value) in enumerate(zip(names, block.arguments, strict=True))
        ]
        self.stored: dict[Any, Any] = {}
        self._given: Mapping[Any, Any] = {}
        self._n_operations = self._depth = 0
        self._scope = ""

    def _chosen(self, function: str | None) -> str:
        if function is not None:
            if function not in self._functions:
                raise CostError(unknown("function", function, self._functions))
            return function
        public = [name for name, op in self._functions.items() if get(op, "sym_visibility", "public") == "public"]
        if not public and len(self._functions) == 1:
            public = [*self._functions]
        if not public:
            raise CostError("the program has no public function")
        if "main" in public or len(public) == 1:
            return "main" if "main" in public else public[0]
        listed = ", ".join([*public[:FEW], *(["…"] if len(public) > FEW else [])])
        raise CostError(
            f"the program has {len(public)} public functions and no main ({listed}). "
            f"Choose one with function={public[0]!r} (--function {public[0]})"
        )

    def make_main(self) -> None:
        """Rename the function to ``main`` and remove functions that it does not call.

        The StableHLO passes of :func:`.model.refine` need a single entry.
        """
        if self.name == "main":
            return
        kept, waiting = set(), [self.name]
        while waiting:
            name = waiting.pop()
            if name in self._functions and name not in kept:
                kept.add(name)
                waiting += [get(op, "callee", "") for op in _operations(self._functions[name]) if _short(op) == "call"]
        for name, op in self._functions.items():
            if name not in kept:
                op.erase()
        self._functions[self.name].attributes["sym_name"] = ir.StringAttr.get("main")

    def fix(self, values: Mapping[int, int]) -> None:
        """Replace scalar arguments by constants, by position; sizes may depend on them.

        Raises:
            CostError: if the argument is not an integer scalar.
        """
        block = self._functions[self.name].regions[0].blocks[0]
        for i, value in values.items():
            kind = block.arguments[i].type
            element = getattr(kind, "element_type", None)
            if not isinstance(element, ir.IntegerType) or kind.rank or abs(value) >= 2 ** (element.width - 1):
                raise CostError(f"the argument {self.arguments[i].name} is {kind!s:.100}, not the integer {value:,}")
            stored = ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(element, value))
            with ir.InsertionPoint.at_block_begin(block):
                made = ir.Operation.create("stablehlo.constant", results=[kind], attributes={"value": stored})
            block.arguments[i].replace_all_uses_with(made.results[0])

    def _name_inside(self, block: Any, value: Any) -> str:
        """Return the name of an argument in the called function: for open sizes, JAX exports an unnamed wrapper."""
        for view in block.operations:
            if _short(view) == "call" and get(view.operation, "callee") in self._functions:
                inner = self._functions[get(view.operation, "callee")].regions[0].blocks[0].arguments
                pairs = zip(view.operation.operands, inner, strict=False)
                return next((name_of(named.location) for operand, named in pairs if operand == value), "")
        return ""

    def find_stored(self) -> None:
        """Find the learned constants: several floating-point elements that are not all equal."""
        for function in self._functions.values():
            for op in _operations(function):
                if op.name in CONSTANTS:
                    aval = aval_of(op.results[0].type)
                    if aval is not None and aval.size > 1 and is_real(aval.dtype) and not constant_of(op)[1]:
                        self.stored[op.results[0]] = aval

    def run(self, stored: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """Run the program on JAX tracers, and return its results.

        Args:
            stored: the learned constants, in the order of :attr:`stored`.
            arguments: the arguments.

        Raises:
            CostError: if the program is damaged, too large, or nested too deeply.
        """
        self._given = dict(zip(self.stored, stored, strict=True))
        self._n_operations = self._depth = 0
        with jax.named_scope(LINES):
            return self._call(self.name, arguments)

    def bind(self, name: str, op: Any, operands: Sequence[Any], **params: Any) -> list[Any]:
        """Bind a placeholder primitive of that name; its results have the types in the file."""
        avals = [aval_of(result.type) for result in op.results]
        made = tuple(ShapedArray(aval.shape, aval.dtype) for aval in avals if aval is not None)
        given = [operand for operand in operands if operand is not None]
        found = iter(_primitive(name).bind(*given, made=made, **params))
        return [None if aval is None else next(found) for aval in avals]

    def unknown(self, op: Any, operands: Sequence[Any], target: str = "") -> list[Any]:
        """Bind a placeholder for an operation without a rule, which is listed, but not counted."""
        return self.bind(f"{op.name.removeprefix('stablehlo.')}:{target}" if target else op.name, op, operands)

    def only_operator(self, region: Any) -> str:
        """Return the operator of a body without its dialect: empty for no operator, ``several`` for more than one."""
        inner = list(region.blocks[0].operations)[:-1]
        return "" if not inner else _short(inner[0]) if len(inner) == 1 else "several"

    def combiner(self, region: Any) -> Callable[..., Any]:
        """Return the binary function of a reduction."""
        function = BINARY.get(self.only_operator(region))
        return function or (lambda *elements: self._block(region.blocks[0], elements, {})[0])

    def extreme(self, region: Any) -> str:
        """Return the comparison direction of an argmax or argmin body, ``GT``; empty for other bodies."""
        inner = [op.operation for op in region.blocks[0].operations]
        if len(region.blocks[0].arguments) != 4 or any(_short(op) not in ARGMAX_OPERATORS for op in inner):
            return ""
        return next((direction(op) for op in inner if _short(op) == "compare"), "")

    def n_read(self, region: Any) -> int:
        """Return the number of operands of a sort that its comparison reads."""
        return sum(any(True for _ in value.uses) for value in list(region.blocks[0].arguments)[::2])

    def _call(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        if name not in self._functions:
            raise CostError(f"the program calls the function {name!r}, which is not in the file")
        if self._depth >= DEEPEST:
            raise CostError(f"functions call each other more than {DEEPEST} deep")
        self._depth += 1
        try:
            return self._block(self._functions[name].regions[0].blocks[0], arguments, {})
        finally:
            self._depth -= 1

    def _block(self, block: Any, arguments: Sequence[Any], values: dict[Any, Any]) -> list[Any]:
        """Run a block and return its results; ``values`` has the values of the enclosing blocks."""
        if len(block.arguments) != len(arguments):
            raise CostError(f"a body takes {len(block.arguments)} values and gets {len(arguments)}")
        values.update(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            op = view.operation
            operands = _operands(op, [values[operand] for operand in op.operands])
            if op.name in ENDS:
                return operands
            values.update(zip(op.results, self._operation(op, operands, values), strict=True))
        raise CostError("a body returns nothing")

    def _operation(self, op: Any, operands: Sequence[Any], values: dict[Any, Any]) -> Sequence[Any]:
        self._n_operations += 1
        if self._n_operations > MOST_NODES:
            raise CostError(f"the program expands to more than {MOST_NODES:,} operations")
        if op.name in CONSTANTS:
            return [self._constant(op)]
        inner, lines = scope_of(name_of(op.location)), lines_of(op.location)
        with jax.named_scope(f"{LINES}{lines}"), jax.named_scope(inner) if inner else nullcontext():
            if op.name == "stablehlo.broadcast_in_dim":
                return [_repeated(op, operands[0])]
            made = self._results(op, operands, values)
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        check_results(op, results)
        return results

    def _results(self, op: Any, operands: Sequence[Any], values: dict[Any, Any]) -> Any:
        dialect, _, short = op.name.partition(".")
        if short == "call":
            return self._call(get(op, "callee"), operands)
        if op.name == "stablehlo.while":
            return self._while(op, operands, values)
        if op.name in ("stablehlo.case", "stablehlo.if"):
            return self._branches(op, operands[0], values)
        if op.name == "sdy.manual_computation":
            return self._manual_computation(op, operands, values)
        if op.name == "stablehlo.composite":
            return self._composite(op, operands)
        if short == "custom_call":
            return custom_call(self, op, operands)
        if dialect not in DIALECTS or short not in RULES or (dialect == "mhlo" and short != "copy"):
            return self.unknown(op, operands)
        return RULES[short](self, op, operands)

    def _constant(self, op: Any) -> Any:
        given = self._given.get(op.results[0])
        if given is not None:
            return given
        elements, is_one = constant_of(op)
        shape = tuple(op.results[0].type.shape)
        return Repeated(elements, shape) if is_one and shape else elements

    def _while(self, op: Any, operands: Sequence[Any], values: dict[Any, Any]) -> Any:
        condition, body = (region.blocks[0] for region in op.regions)
        return lax.while_loop(
            lambda carried: self._block(condition, carried, values)[0],
            lambda carried: self._block(body, carried, values),
            list(operands),
        )

    def _branches(self, op: Any, which: Any, values: dict[Any, Any]) -> Any:
        branches = [lambda b=region.blocks[0]: self._block(b, (), values) for region in op.regions]
        if op.name == "stablehlo.case":
            return lax.switch(which, branches)
        return lax.cond(which, *branches)

    def _manual_computation(self, op: Any, operands: Sequence[Any], values: dict[Any, Any]) -> Sequence[Any]:
        """Run the body of a manual computation on the shards of one device."""
        block = op.regions[0].blocks[0]
        parts = self._resharded([value.type for value in block.arguments], operands)
        return self._resharded([result.type for result in op.results], self._block(block, parts, values))

    def _resharded(self, types: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """Convert operands to the shapes of other types, at no cost."""
        avals = [aval_of(kind) for kind in types]
        made = tuple(ShapedArray(aval.shape, aval.dtype) for aval in avals if aval is not None)
        if len(made) != len(operands):
            raise CostError(f"a body takes {len(made)} values and gets {len(operands)}")
        return list(_primitive("sharding_constraint").bind(*operands, made=made))

    def _composite(self, op: Any, operands: Sequence[Any]) -> Sequence[Any]:
        """Run a composite: ``top_k`` as a primitive, any other by the function that defines it."""
        if get(op, "name") == "chlo.top_k":
            return list(lax.top_k(operands[0], op.results[0].type.shape[-1]))
        return self._call(get(op, "decomposition"), operands)


@cache
def _primitive(name: str) -> Any:
    """Return a placeholder primitive; its parameter ``made`` has the results."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *operands, made, **params: list(made))
    return primitive


def _repeated(op: Any, x: Any) -> Any:
    """Return the result of a broadcast, unexpanded if it is larger than its operand."""
    shape, axes = tuple(op.results[0].type.shape), get(op, "broadcast_dimensions")
    if not shape:
        return x
    if isinstance(x, np.generic):
        return Repeated(x, shape)
    if len(axes) != x.ndim or any(not 0 <= axis < len(shape) for axis in axes):
        raise CostError(f"broadcast_in_dim puts {x.ndim} axes at {axes}")
    part = [1] * len(shape)
    for axis, size in zip(axes, x.shape, strict=True):
        part[axis] = size
    placed = x if x.shape == tuple(part) else lax.broadcast_in_dim(x, part, axes)
    return placed if placed.shape == shape else Repeated(placed, shape)


def _operands(op: Any, values: Sequence[Any]) -> list[Any]:
    """Return the operands of an operation. Broadcasts are expanded, unless JAX broadcasts them itself."""
    parts = [value.part if isinstance(value, Repeated) else value for value in values]
    if _short(op) in BY_ELEMENT and _broadcast_shape(parts) == tuple(op.results[0].type.shape):
        return parts
    return [value.array() if isinstance(value, Repeated) else value for value in values]


def _broadcast_shape(parts: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the broadcast shape of arrays and numbers; None if they do not fit."""
    try:
        return tuple(np.broadcast_shapes(*(part.shape for part in parts)))
    except ValueError:
        return None


def _short(op: Any) -> str:
    return str(op.operation.name.partition(".")[2])


def _operations(op: Any) -> Iterator[Any]:
    """Yield every operation nested in another."""
    waiting = [op]
    while waiting:
        for region in waiting.pop().regions:
            for block in region.blocks:
                for view in block.operations:
                    yield view.operation
                    waiting.append(view.operation)


def scope_of(name: str) -> str:
    """Return the module path in the name of an operation: ``Dense_0`` for ``jit(f)/Dense_0/jit(relu)/max``."""
    parts = []
    for part in name.split("/")[:-1]:
        while wrapped := WRAPPED.fullmatch(part):
            part = wrapped.group(1)
        if not UNNAMED.fullmatch(part):
            parts.append(part)
    return "/".join(parts)
