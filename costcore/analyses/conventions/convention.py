"""Counting conventions of other tools as data: declaration, TOML parser, lookup by name, and evaluation.

A convention is a list of passes. Each pass maps operators, modules or functions to an arithmetic expression over the
quantities of a call. Two kinds of pass do not count operator calls: closed forms of transformers, and rules per module
call.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from costcore.analyses.conventions import quantities
from costcore.analyses.conventions.quantities import ModuleIndex
from costcore.errors import CostError, short_repr, unknown
from costcore.files import read_toml
from costcore.ir import Layer, prod
from costcore.numbers import Dim, expanded_sum
from costcore.plugins import cached, objects_from_plugins, with_plugin_hint
from costcore.trace.call import PHASES, Call
from costcore.trace.trace import Trace

UNITS = ("MAC", "FLOP", "MULT", "BOP", "OP")
"""The unit that a convention counts: multiply-adds, floating-point operations, products, bit operations, operations."""

UNIT_NAMES = {"MAC": "MACs", "FLOP": "FLOPs", "MULT": "products", "BOP": "bit operations", "OP": "operations"}
"""The units in the plural."""

BY = ("op", "module", "function", "module call", "whole")
"""The key by which a pass finds the rule of a call: its operator, its module, or the API function that the code called.
Other passes count each module call, or the whole network."""


def _version_numbers(version: str) -> tuple[int, ...]:
    # A suffix such as ``+cpu`` or ``rc1`` does not count: 2.15.0+cpu is (2, 15, 0).
    return tuple(map(int, re.findall(r"\d+", re.split(r"[^\d.]", version)[0])))


@dataclass(frozen=True)
class Pass:
    """Rules for all calls of a run; the amounts of several passes add up.

    Attributes:
        by: one of :data:`BY`.
        rules: expressions by key; an operator (``conv``), a native operator (``aten:conv2d``, ``aten:conv2d.padding``),
            a module and its operator (``nn.Conv2d/conv``), a function (``F.relu``, ``F.interpolate(size)``), or a part
            of the class name of a called module (``*Conv*``). The most specific key of a call decides.
        default: the expression for calls without a rule; None does not count them.
        phases: the phases that are counted.
        live: count only calls that the outputs of the model depend on, because tracing drops all others.
        types: ``exact`` matches the class of a module, ``subclasses`` also its base classes.
        leaf: count only calls of modules without children.
        closed: do not count calls inside the children of a module that has a rule.
        listed: further types whose children are not counted if ``closed``.
        last_call: count only the last call of each module, because the tool overwrites the amounts of earlier calls.
        alias: how often a module with ``n`` chains of parents counts: ``n ** alias`` times; ``alias`` is 0, 1 or 2.
        per_item: divide amounts by the first dimension of the model's input, if the model has only one input.
        outside: types (and their subclasses) in which, at any depth, calls are not counted.
        bound: functions by type of module. These modules keep a reference to the original function, which the tool has
            patched, so their calls are not counted.
        skip_self_attention: do not count ``nn.MultiheadAttention`` of one sequence with itself, nor
            ``nn.TransformerEncoderLayer`` around it, if each runs as one fused operator without gradients.
        skip_frozen_attention: the same, but only for modules that need no gradient in a run with gradients.
    """

    by: str
    rules: Mapping[str, Expression] = field(default_factory=dict)
    default: Expression | None = None
    phases: tuple[str, ...] = PHASES[:1]
    live: bool = False
    types: str = "exact"
    leaf: bool = False
    closed: bool = False
    last_call: bool = False
    listed: tuple[str, ...] = ()
    alias: int = 0
    per_item: bool = False
    outside: tuple[str, ...] = ()
    bound: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skip_self_attention: bool = False
    skip_frozen_attention: bool = False


@dataclass(frozen=True, repr=False)
class Convention:
    """The counting rules of a tool or a closed form.

    Attributes:
        name: the name, ``fvcore``.
        tool: the tool, ``ptflops``.
        version: the version against which the rules were checked.
        variant: the option or part of the tool, ``backend=aten``; empty if there is only one.
        unit: one of :data:`UNITS`.
        calls_it: the name of the number in the tool, ``flops``.
        aliases: other names.
        description: its peculiarities, in one or two sentences.
        sources: where the rules come from.
        counts: the passes, which add up.
        notes: known differences from the tool, with the size of the gap.
        is_printed: whether such numbers are published; explanations prefer these conventions.
        frameworks: the frameworks that the tool supports; explanations try it for these only. Empty for all.
        since: the first release of the tool with these rules; empty for the oldest known rules.
        releases: this convention with the rules of later releases of the tool, in order.
        year: the year of the first release with these rules; 0 if unknown.
    """

    name: str
    tool: str
    version: str
    unit: str
    calls_it: str
    counts: tuple[Pass, ...]
    variant: str = ""
    aliases: tuple[str, ...] = ()
    description: str = ""
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_printed: bool = True
    frameworks: tuple[str, ...] = ()
    since: str = ""
    releases: tuple[Convention, ...] = ()
    year: int = 0

    def __repr__(self) -> str:
        return f"<Convention {self.name}: {self.unit}, {self.n_rules} rule{'s' * (self.n_rules != 1)}>"

    def of_release(self, version: str) -> Convention:
        """Return this convention with the rules of a release of its tool, ``2.15.1``; empty: the oldest release."""
        later = [each for each in self.releases if _version_numbers(each.since) <= _version_numbers(version)]
        return later[-1] if later else self

    @property
    def label(self) -> str:
        """The tool with its version and variant, ``ptflops 0.7.5, backend=aten``."""
        return ", ".join(filter(None, (f"{self.tool} {self.version}".strip(), self.variant)))

    @property
    def n_rules(self) -> int:
        """The number of rules."""
        return sum(len(each.rules) + (each.default is not None) for each in self.counts)

    @property
    def native_namespaces(self) -> frozenset[str]:
        """The namespaces of native operators in the rules, ``aten``; empty if a rule is not for a native operator."""
        keys = [key for each in self.counts for key in each.rules]
        if not all(each.by == "op" for each in self.counts) or not all(":" in key for key in keys):
            return frozenset()
        return frozenset(key.partition(":")[0] for key in keys)

    @property
    def needs_functions(self) -> bool:
        """Whether it needs recorded API calls or module calls."""
        return any(each.by in ("function", "module call") or each.per_item for each in self.counts)

    @property
    def needs_modules(self) -> bool:
        """Whether it needs the types of modules, which only PyTorch captures have."""
        return all(each.by in ("module", "function", "module call") for each in self.counts)


# Rule expressions: parsed with an allowlist of syntax, never executed as code.


MAX_LENGTH = 500
"""The maximum length of an expression; the longest in a built-in convention has about 150 characters."""

MAX_NODES = 150
"""The maximum number of nodes of a syntax tree, which also limits the recursion depth."""

MAX_BITS = 1 << 13
"""The maximum bits of a value; Python prints integers of up to 4,300 digits."""


class ConventionError(CostError):
    """An invalid convention; the message includes the file and the key."""


Lookup: TypeAlias = "Callable[[str], Any]"

_Evaluator: TypeAlias = "Callable[[Lookup], Any]"

_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_COMPARISONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Expression:
    """An arithmetic expression, ``macs + y * bias``.

    It may contain numbers, strings, names, ``+ - * // %``, comparisons, ``and or not``, ``a if c else b`` and function
    calls. A function that takes an operand takes its name as first argument: ``shape(x, 0)``.

    Args:
        text: the expression.
        names: the allowed names.
        functions: the allowed functions, with the number of their arguments.
        place: the file and the rule, for errors.

    Attributes:
        text: the expression.
        names: the names and functions that it contains.

    Raises:
        ConventionError: if the text is not such an expression, or contains an unknown name.
    """

    text: str

    def __init__(self, text: str, names: Collection[str], functions: Mapping[str, int], place: str = "") -> None:
        self._place = place
        self.text = " ".join(text.split())
        self._allowed = names
        self._functions = functions
        self.names: set[str] = set()
        if len(text) > MAX_LENGTH:
            raise self._error(f"has {len(text)} characters (expected at most {MAX_LENGTH})")
        try:
            tree = ast.parse(self.text, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self._error("is not an expression") from error
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise self._error(f"is too long (expected at most {MAX_NODES} names, numbers and operators)")
        self._evaluate = self._compiled(tree.body)

    def __call__(self, lookup: Lookup) -> Any:
        """Evaluate the expression; ``lookup`` returns the value of a name, or a callable for a function.

        Raises:
            ConventionError: if the value is undefined (division by zero), not a number, or too large.
            CostError: if ``lookup`` raises it.
        """
        try:
            value = self._evaluate(lookup)
            if isinstance(value, _NOT_NUMBERS):
                raise TypeError(f"it is {short_repr(value)}, not a number")
        except CostError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._error(f"cannot be computed: {error}") from error
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise self._error(f"cannot be computed: it has more than {MAX_BITS} bits")
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __reduce__(self) -> tuple[type, tuple[str, Collection[str], Mapping[str, int], str]]:
        return type(self), (self.text, self._allowed, self._functions, self._place)

    def _error(self, problem: str) -> ConventionError:
        return ConventionError(f"{self._place}{': ' * bool(self._place)}{short_repr(self.text)} {problem}")

    def _compiled(self, node: ast.expr) -> _Evaluator:
        if isinstance(node, ast.Constant) and type(node.value) in (int, bool, str):
            value = node.value
            return lambda lookup: value
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _apply(_numeric(_BINARY[type(node.op)]), self._compiled(node.left), self._compiled(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            operand, is_not = self._compiled(node.operand), isinstance(node.op, ast.Not)
            return lambda lookup: not operand(lookup) if is_not else -operand(lookup)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            left, right = self._compiled(node.left), self._compiled(node.comparators[0])
            return _apply(_COMPARISONS[type(node.ops[0])], left, right)
        if isinstance(node, ast.BoolOp):
            parts, is_and = [self._compiled(value) for value in node.values], isinstance(node.op, ast.And)
            return lambda lookup: (all if is_and else any)(part(lookup) for part in parts)
        if isinstance(node, ast.IfExp):
            test, then, otherwise = map(self._compiled, (node.test, node.body, node.orelse))
            return lambda lookup: then(lookup) if test(lookup) else otherwise(lookup)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, node.args)
        raise self._error(f"contains {short_repr(ast.unparse(node))}, which rules cannot use")

    def _name(self, name: str) -> _Evaluator:
        if name not in self._allowed:
            raise self._error(f"contains an {unknown('name', name, sorted(self._allowed))}")
        self.names.add(name)
        return lambda lookup: lookup(name)

    def _call(self, function: str, arguments: list[ast.expr]) -> _Evaluator:
        if function not in self._functions:
            raise self._error(f"contains an {unknown('function', function, sorted(self._functions))}")
        if len(arguments) != self._functions[function]:
            raise self._error(
                f"passes {len(arguments)} arguments to {function}() (expected {self._functions[function]})"
            )
        self.names.add(function)
        values: list[_Evaluator] = []
        for argument in arguments:
            if isinstance(argument, ast.Name):
                values.append(_operand(argument.id))  # functions take operands by name
            else:
                values.append(self._compiled(argument))
        return lambda lookup: lookup(function)(*[value(lookup) for value in values])


_NOT_NUMBERS = (str, bytes, tuple, list)


def _numeric(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    # Python also multiplies and adds strings and lists, with results of any size: reject these.
    def checked(left: Any, right: Any) -> Any:
        for value in (left, right):
            if isinstance(value, _NOT_NUMBERS):
                raise TypeError(f"{short_repr(value)} is not a number")
        return function(left, right)

    return checked


def _apply(function: Callable[[Any, Any], Any], left: _Evaluator, right: _Evaluator) -> _Evaluator:
    return lambda lookup: function(left(lookup), right(lookup))


def _operand(name: str) -> _Evaluator:
    return lambda lookup: name


# Registry: built-in conventions, plug-ins and user files.


DATA = Path(__file__).parent / "data"


def conventions() -> dict[str, Convention]:
    """Return all known conventions by name: built in first, then plug-ins.

    Each has ``name``, ``tool``, ``version``, ``unit``, ``calls_it``, ``aliases``, ``description`` and ``notes``.

    Raises:
        CostError: if a convention of a plug-in is invalid.
    """
    return dict(_known())


def find_convention(convention: str | PathLike[str]) -> Convention:
    """Return a convention by its name, an alias, or the path of a TOML file.

    A name with a release of the tool, ``torch-cpu==2.15``, selects the rules of this release, not of the installed one.

    Raises:
        TypeError: if ``convention`` is not a name or path.
        ValueError: if the name is unknown; the message lists known names.
        CostError: if the file is not a convention.
        OSError: if the file cannot be read.
    """
    if not isinstance(convention, (str, PathLike)):
        raise TypeError(f"a convention must be a name or the path of a TOML file (got {convention!r})")
    if str(convention).endswith(".toml"):
        return _read(convention)
    name, is_stated, release = str(convention).partition("==")
    found = _by_any_name().get(name)
    if found is None:
        raise ValueError(with_plugin_hint(unknown("convention", name, [*_known(), "the path of a .toml file"])))
    if not is_stated:
        return found
    if not release[:1].isdigit():
        example = found.version or "1.0"
        raise ValueError(f"a release of {found.tool} must be a version, such as {example} (got {release!r})")
    return replace(found.of_release(release), releases=())


def _read(path: str | PathLike[str], extended_by: tuple[str, ...] = ()) -> Convention:
    def base(name: str) -> Convention:
        return _read(name, (*extended_by, str(path))) if name.endswith(".toml") else find_convention(name)

    if str(path) in extended_by:
        raise ConventionError(f"{path}: it extends itself, by {' and '.join(extended_by)}")
    return read_convention(path, base)


def needs_functions(convention: str | PathLike[str] | None) -> bool:
    """Return whether a convention, if one is given, needs API calls."""
    return convention not in (None, "") and find_convention(convention).needs_functions


@cached
def _known() -> Mapping[str, Convention]:
    known: dict[str, Convention] = {}

    def base(name: str) -> Convention:
        if name not in known:
            known[name] = read_convention(DATA / f"{name}.toml", base)
        return known[name]

    for file in sorted(DATA.glob("*.toml")):
        base(file.stem)
    for paths in objects_from_plugins("costcore_conventions", Path):
        for path in paths:
            convention = read_convention(path, base)
            known[convention.name] = convention
    return known


@cached
def _by_any_name() -> Mapping[str, Convention]:
    known = _known()
    aliases = {alias: convention for convention in known.values() for alias in convention.aliases}
    return {**aliases, **known}


# Closed forms of transformers.


WHOLE_NAMES: Mapping[str, str] = {
    "n_params": "parameters of the model without embeddings",
    "n_embedding": "parameters of embeddings, one table for input and output if they are tied",
    "n_all": "all parameters of the model",
    "n_frozen": "parameters of the model that are not trained",
    "n_tables": "parameters of all embedding tables",
    "n_positions": "parameters of all embedding tables except the first, the token table",
    "tokens": "tokens of all sequences",
    "seq": "tokens of one sequence",
    "layers": "layers with attention",
    "heads": "attention heads",
    "head_dim": "features of a head",
    "hidden": "features of a token",
    "vocab": "entries of the vocabulary",
}
"""The names available in closed forms."""


def count_whole(trace: Trace, rules: Mapping[str, Expression]) -> Iterator[tuple[str, str, Dim]]:
    """Yield the name, expression and amount of each term.

    Raises:
        CostError: if the network has no attention or no tokens.
    """
    transformer = Transformer(trace)
    for name, expression in rules.items():
        yield name, expression.text, expression(lambda quantity: getattr(transformer, quantity))


class Transformer:
    """The sizes of a transformer, read from its calls; :data:`WHOLE_NAMES` explains each.

    Reading a size that the calls do not show raises a ``CostError``.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._calls = [call for call in trace.calls if call.phase == "forward"]
        self._attention = [*_attention(trace)]

    @cached_property
    def _embeddings(self) -> list[Call]:
        return [call for call in self._calls if call.layer.op == "embedding" and "w" in call.layer]

    @cached_property
    def _embeddings_of_inputs(self) -> list[Call]:
        # Inputs of the model (token ids) come first, then computed indices such as positions.
        given = set(self._trace.run.inputs)
        for call in self._calls:
            if call.layer.op in ("view", "cast", "copy") and not given.isdisjoint(call.inputs[:1]):
                given.update(call.outputs)

        def ids(call: Call) -> int:
            return dict(zip(call.layer.inputs, call.inputs, strict=False)).get("x", 0)

        return sorted(self._embeddings, key=lambda call: ids(call) not in given)

    @cached_property
    def _tokens(self) -> tuple[Dim, ...]:
        # A model with patch embeddings has no token ids: its tokens are the queries of the first attention.
        for call in self._embeddings_of_inputs:
            if call.layer["x"].ndim >= 1:
                shape: tuple[Dim, ...] = call.layer["x"].shape
                return shape
        if not self._attention:
            raise CostError("closed forms of transformers need a model with attention")
        batch, _, queries = self._attention[0][:3]
        return batch, queries

    @cached_property
    def tokens(self) -> Dim:
        """Tokens of all sequences."""
        return prod(self._tokens)

    @cached_property
    def seq(self) -> Dim:
        """Tokens of one sequence."""
        return self._tokens[-1]

    @cached_property
    def layers(self) -> int:
        """Layers with attention."""
        return len(self._attention)

    @cached_property
    def heads(self) -> Dim:
        """Attention heads."""
        return self._first_attention[1]

    @cached_property
    def head_dim(self) -> Dim:
        """Features of a head."""
        return self._first_attention[3]

    @cached_property
    def hidden(self) -> Dim:
        """Features of a token."""
        return self.heads * self.head_dim

    @cached_property
    def vocab(self) -> Dim:
        """Entries of the vocabulary."""
        return self._embeddings_of_inputs[0].layer["w"].shape[0] if self._embeddings else 0

    @cached_property
    def n_embedding(self) -> Dim:
        """Parameters of embeddings, one table for input and output if they are tied."""
        parameters = self._trace.run.parameters
        if not self._embeddings:
            return 0
        read = {parameter for call in self._embeddings for parameter in call.parameters}
        head = [call for call in self._calls if call.layer.op == "linear" and call.layer["w"].shape[0] == self.vocab]
        read |= {parameter for call in head[-1:] for parameter in call.parameters}
        return expanded_sum(parameters[parameter] for parameter in read)

    @cached_property
    def n_params(self) -> Dim:
        """Parameters of the model without embeddings."""
        return self.n_all - self.n_embedding

    @cached_property
    def n_all(self) -> Dim:
        """All parameters of the model."""
        run = self._trace.run
        return expanded_sum(run.parameters.values()) if run.n_params_model is None else run.n_params_model

    @cached_property
    def n_frozen(self) -> Dim:
        """Parameters of the model that are not trained."""
        run = self._trace.run
        frozen = {parameter for module in run.modules.values() for parameter in module.frozen}
        return expanded_sum(run.parameters[parameter] for parameter in frozen)

    @cached_property
    def n_tables(self) -> Dim:
        """Parameters of all embedding tables."""
        return self._n_looked_up(self._embeddings)

    @cached_property
    def n_positions(self) -> Dim:
        """Parameters of all embedding tables except the first, the token table."""
        return self.n_tables - self._n_looked_up(self._embeddings_of_inputs[:1])

    def _n_looked_up(self, calls: list[Call]) -> Dim:
        tables = {parameter for call in calls for parameter in call.parameters}
        return expanded_sum(self._trace.run.parameters[parameter] for parameter in tables)

    @property
    def _first_attention(self) -> tuple[Dim, Dim, Dim, Dim]:
        if not self._attention:
            raise CostError("closed forms of transformers need a model with attention")
        return self._attention[0]


def _attention(trace: Trace) -> Iterator[tuple[Dim, Dim, Dim, Dim]]:
    # Yield batch, heads, queries and features of a head. If attention is two matrix products, the softmax reads the
    # first, maybe through scaling, masks and views.
    made: dict[int, Layer] = {}
    for call in trace.calls:
        if call.phase != "forward":
            continue
        if call.layer.op == "attention":
            q = call.layer["q"].shape
            yield prod(q[:-3]), q[-3] if len(q) > 2 else 1, q[-2], q[-1]
        elif call.layer.op == "softmax" and (source := made.get(call.inputs[0] if call.inputs else 0)) is not None:
            q = source["x0"].shape
            yield prod(q[:-3]), q[-3] if len(q) > 2 else 1, q[-2], q[-1]
        origin = call.layer if call.layer.op == "matmul" else None
        if call.layer.op in ("add", "mul", "div", "masked_fill", "where", "view", "copy", "cast", "softmax"):
            origin = next((made[each] for each in call.inputs if each in made), None)
        if origin is not None and call.layer.op != "softmax":
            made.update(dict.fromkeys(call.outputs, origin))


# Rules per module call: parameters times output size.


MODULE_CALLS_NAMES: Mapping[str, str] = {
    "N": "first dimension of the output of the module",
    "positions": "product of the output dimensions after the second",
    "first_two": "product of the first two output dimensions",
    "named": "elements of the module's own parameters called weight or bias",
    "partly_named": "elements of the module's own parameters with weight or bias in a longer name",
}
"""The names available in rules per module call."""


def count_module_calls(
    trace: Trace, modules: ModuleIndex, rules: Mapping[str, Expression]
) -> Iterator[tuple[int | None, str, str, Dim]]:
    """Yield position, rule, expression and amount for each call of a module without children.

    Keys of rules are ``*``, or a part of the class name such as ``*Conv*``; the first match counts.
    """
    for path, shape, position in _module_calls(trace, modules):
        module = modules.get(path)
        if module is None or not module.own or not shape or not modules.is_leaf(path):
            continue
        values = _values(module.own, shape)
        for key, expression in rules.items():
            if key.strip("*") in module.type:
                yield position, key, expression.text, expression(values.__getitem__)
                break


def _values(own: tuple[tuple[str, Dim], ...], shape: tuple[Dim, ...]) -> dict[str, Dim]:
    named = [size for name, size in own if name in ("weight", "bias")]
    others = [size for name, size in own if name not in ("weight", "bias") and ("weight" in name or "bias" in name)]
    return {
        "N": shape[0],
        "positions": prod(shape[2:]),
        "first_two": prod(shape[:2]),
        "named": sum(named),
        "partly_named": sum(others),
    }


def _module_calls(trace: Trace, modules: ModuleIndex) -> Iterator[tuple[str, tuple[Dim, ...], int | None]]:
    if trace.run.module_calls:
        last = {record.call.module_call: position for position, record in enumerate(trace.records)}
        for number, module_call in enumerate(trace.run.module_calls, 1):
            if module_call.outputs:
                yield module_call.module, module_call.outputs[0], last.get(number)
        return
    # Without recorded module calls, consecutive operators of a module count as one call.
    for position, call in enumerate(trace.calls):
        following = trace.calls[position + 1 : position + 2]
        is_last = not following or following[0].module != call.module
        if is_last and call.phase == "forward" and call.layer.outputs:
            yield call.module, call.layer.out.shape, position


# TOML reader.


TEXTS = ("name", "tool", "version", "unit", "variant", "calls_it", "description", "extends")

LISTS = ("aliases", "sources", "notes", "frameworks")

RELEASE_KEYS = ("since", "version", "count")

PASS_KEYS = tuple(field.name for field in fields(Pass))

_NAMES: Mapping[str, tuple[Iterable[str], Mapping[str, int]]] = {
    **dict.fromkeys(("op", "module", "function"), (quantities.NAMES, quantities.ARITIES)),
    "module call": (MODULE_CALLS_NAMES, {}),
    "whole": (WHOLE_NAMES, {}),
}
"""The names and functions available in rules, by the ``by`` of their pass."""


def read_convention(path: str | PathLike[str], base: Callable[[str], Convention]) -> Convention:
    """Return the convention in a file.

    ::

        name = "fvcore"
        tool = "fvcore FlopCountAnalysis"
        version = "0.1.5"
        unit = "MAC"                       # MAC, FLOP, MULT, BOP or OP
        calls_it = "flops"
        year = 2019                        # of the first release with these rules
        [[count]]                          # passes add up
        by = "op"                          # op, module, function, module call or whole
        live = true                        # only calls that the outputs depend on
        [count.rules]
        conv = "macs"
        "aten:matmul" = "x0 * last(x1)"
        batch_norm = "x * (2 if affine else 1)"

    With ``extends``, the file starts from the passes of another convention, and its rules replace or complete the rules
    there. Rules of later releases of the tool are in tables ``[[release]]`` with ``since = "2.15"`` and
    ``[[release.count]]``.

    Args:
        path: the file.
        base: returns the convention that ``extends`` names.

    Raises:
        ConventionError: if it is invalid; the message includes the file and the key.
        OSError: if the file cannot be read.
    """
    file = Path(path)
    content, _ = read_toml(file, ConventionError)
    return _Reader(str(file), base).convention(content)


class _Reader:
    def __init__(self, source: str, base: Callable[[str], Convention]) -> None:
        self._source = source
        self._base = base

    def convention(self, content: Mapping[str, Any]) -> Convention:
        expected = (*TEXTS, *LISTS, "is_printed", "year", "count", "release")
        if unexpected := [key for key in content if key not in expected]:
            raise self._error(unknown("key", unexpected, expected))
        texts = {key: self._text(content, key) for key in TEXTS}
        lists = {key: self._texts(content.get(key, []), key) for key in LISTS}
        parent = texts.pop("extends")
        for key in ("name", "unit"):
            if not texts[key]:
                raise self._error(f"{key} is missing")
        if texts["unit"] not in UNITS:
            raise self._error(unknown("unit", texts["unit"], UNITS))
        try:
            base = self._base(parent) if parent else None
        except ConventionError:
            raise
        except ValueError as error:
            raise self._error(f"extends: {error}") from error
        counts = self._counts(content.get("count", []), base.counts if base else ())
        is_printed = self._of_type(content.get("is_printed", True), bool, "is_printed")
        year = self._of_type(content.get("year", 0), int, "year")
        made = Convention(counts=counts, is_printed=is_printed, year=year, **texts, **lists)  # type: ignore[arg-type]
        return replace(made, releases=tuple(self._releases(content, made, base)))

    def _releases(self, content: Mapping[str, Any], first: Convention, base: Convention | None) -> Iterator[Convention]:
        own = {self._text(table, "since"): table for table in self._tables(content.get("release", []), "release")}
        if wrong := [since for since in own if not re.fullmatch(r"\d+(\.\d+)*", since)]:
            raise self._error(f"release: since must be a version, such as 2.15 (got {short_repr(wrong[0])})")
        inherited = {each.since: each for each in base.releases} if base else {}
        for since in sorted({**inherited, **own}, key=lambda version: [*map(int, version.split("."))]):
            table = own.get(since, {})
            if unexpected := [key for key in table if key not in RELEASE_KEYS]:
                raise self._error(f"release {since}: {unknown('key', unexpected, RELEASE_KEYS)}")
            counts = self._counts(content.get("count", []), base.of_release(since).counts if base else ())
            counts = self._counts(table.get("count", []), counts)
            version = self._text(table, "version") or inherited.get(since, first).version
            yield replace(first, since=since, version=version, counts=counts)

    def _counts(self, tables: Any, inherited: tuple[Pass, ...]) -> tuple[Pass, ...]:
        own = [self._pass(table, i, inherited[i : i + 1]) for i, table in enumerate(self._tables(tables, "count"))]
        if not own and not inherited:
            raise self._error("there is nothing to count; add a table [[count]]")
        return (*own, *inherited[len(own) :])

    def _tables(self, value: Any, place: str) -> list[Mapping[str, Any]]:
        if not isinstance(value, list) or not all(isinstance(table, Mapping) for table in value):
            raise self._error(f"{place} must be a list of tables, [[{place}]] (got {short_repr(value)})")
        return value

    def _pass(self, table: Mapping[str, Any], number: int, inherited: tuple[Pass, ...]) -> Pass:
        place = f"count {number + 1}"
        if unexpected := [key for key in table if key not in PASS_KEYS]:
            raise self._error(f"{place}: {unknown('key', unexpected, PASS_KEYS)}")
        by = table.get("by", inherited[0].by if inherited else "op")
        if by not in BY:
            raise self._error(f"{place}: {unknown('value of by', by, BY)}")
        rules = table.get("rules", {})
        if not isinstance(rules, Mapping):
            raise self._error(f"{place}: rules must be a table (got {short_repr(rules)})")
        values: dict[str, Any] = {
            "rules": {key: self._expression(by, text, f"{place}, {key}") for key, text in rules.items()}
        }
        if "default" in table:
            values["default"] = self._expression(by, table["default"], f"{place}, default")
        for key in ("live", "leaf", "closed", "last_call", "per_item", "skip_self_attention", "skip_frozen_attention"):
            if key in table:
                values[key] = self._of_type(table[key], bool, f"{place}, {key}")
        for key in ("listed", "outside", "phases"):
            if key in table:
                values[key] = self._texts(table[key], f"{place}, {key}")
        if wrong := [phase for phase in values.get("phases", ()) if phase not in PHASES]:
            raise self._error(f"{place}: {unknown('phase', wrong, PHASES)}")
        if "types" in table:
            values["types"] = table["types"]
            if table["types"] not in ("exact", "subclasses"):
                raise self._error(f"{place}: {unknown('value of types', table['types'], ('exact', 'subclasses'))}")
        if "alias" in table:
            values["alias"] = self._of_type(table["alias"], int, f"{place}, alias")
            if values["alias"] not in (0, 1, 2):
                raise self._error(f"{place}: alias must be 0, 1 or 2 (got {values['alias']})")
        if "bound" in table:
            bound = self._of_type(table["bound"], dict, f"{place}, bound")
            values["bound"] = {kind: self._texts(names, f"{place}, bound {kind}") for kind, names in bound.items()}
        if inherited:
            values["rules"] = {**inherited[0].rules, **values["rules"]}
            return replace(inherited[0], **values)
        return Pass(by, **values)

    def _expression(self, by: str, text: Any, place: str) -> Expression:
        if isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(text, str):
            raise self._error(f"{place} must be an expression (got {short_repr(text)})")
        names, functions = _NAMES[by]
        return Expression(text, frozenset(names), functions, f"{self._source}: {place}")

    def _text(self, content: Mapping[str, Any], key: str) -> str:
        return str(self._of_type(content.get(key, ""), str, key))

    def _texts(self, value: Any, place: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(f"{place} must be a list of texts (got {short_repr(value)})")
        return tuple(value)

    def _of_type(self, value: Any, kind: type, place: str) -> Any:
        if type(value) is not kind:
            names = {bool: "true or false", int: "a number", str: "a text", dict: "a table"}
            raise self._error(f"{place} must be {names[kind]} (got {short_repr(value)})")
        return value

    def _error(self, problem: str) -> ConventionError:
        return ConventionError(f"{self._source}: {problem}")
