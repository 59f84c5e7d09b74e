"""Parts of a run: calls, modules, assumptions and records; the user's code that made a call; pairs of attention."""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, lru_cache
from inspect import currentframe
from itertools import dropwhile, takewhile
from operator import attrgetter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload

from costcore.ir import Layer, prod
from costcore.numbers import Dim, floor_div, maximum

PHASES = ("forward", "backward", "recompute", "optimizer")


class Uncounted(Enum):
    """Why a call has no cost.

    Attributes:
        template: the reason as a sentence; ``{op}`` stands for the name of the operator.
        hint: what the user can do about it; empty if there is nothing to add.
    """

    NO_CALCULATOR = (
        "no calculator for {op!r}",
        "see ignored_layers, or add one (--calculator FILE.py:NAME, calculators=… of estimate, "
        "add_custom_cost_calculator of a hook)",
    )
    NO_SHAPES = "no shapes for {op!r}", "the report's notes list the values whose shape is unknown"
    OTHER_THREADS = (
        "modules also ran in other threads",
        "a hook sees the thread that entered it, and threads started from there; enter a hook in every other thread",
    )
    CALCULATOR_FAILED = "", ""

    def __init__(self, template: str, hint: str) -> None:
        self.template = template
        self.hint = hint

    def reason(self, op: str) -> str:
        """Return the reason for an operator; empty for a failed calculator, whose error is the reason."""
        return self.template.format(op=op)

    @classmethod
    def of(cls, reason: str, op: str) -> Uncounted:
        """Return the member that gives this reason for ``op``; any other reason is the error of a calculator."""
        return next((member for member in cls if member.reason(op) == reason), cls.CALCULATOR_FAILED)


class Call(NamedTuple):
    """One execution of a layer: its operator, its location in the model and the ids of its operands.

    A frontend builds it with keywords and passes it to the recorder; it never changes afterwards.

    Attributes:
        layer: the operator with its shapes, dtypes and attributes.
        type: the framework's short name of the operator (``conv2d``, ``Convolution2DFunction``, ``Conv``).
        native: the framework's full name of the operator (``aten::conv2d``, ``aten::add_``, ``ai.onnx::Conv``).
        name: unique name in a report, ``<type>-<n>``. Until the report is made it is empty, or the key of the graph's
            nodes in :attr:`Recorder.nodes`.
        module: path of the module; ``""`` outside of any module.
        phase: ``forward``, ``backward``, ``recompute`` or ``optimizer``.
        times: how often the call runs, an int or a symbolic expression; in the body of a loop its trip count.
        region: the loop body or branch that the call belongs to; ``""`` if none.
        inputs, outputs: operand ids, in the order of the layer's tensors; equal ids are the same value.
        storages: storage ids of inputs, then outputs; equal ids are views of the same memory.
        parameters: parameter ids of the learned parameters that the call reads.
        saved: operand ids that autograd keeps for the backward pass.
        where: traceback of the user's code as formatted text; empty unless requested.
        uncounted: why the call cannot be counted, if the frontend knows; None lets its calculator count it.
        overload: name of the operator's overload (``padding`` of ``aten::conv2d.padding``); ``""`` for the default.
        strided: positions among the layer's inputs of tensors that are not contiguous.
        function: qualified name of the function in the user's code (``torch.nn.functional.relu``,
            ``torch.Tensor.matmul``), for a symbol such as ``+`` that of ``operator.add``; ``""`` if unknown. This field
            and the next two are recorded only with ``record_api_calls=True``.
        given: the passed arguments of a function with alternative arguments (``size`` or ``scale_factor``).
        module_call: number of the innermost module call, from 1, in :attr:`Run.module_calls`; 0 if unknown.
    """

    layer: Layer
    type: str
    native: str = ""
    name: str = ""
    module: str = ""
    phase: str = "forward"
    times: Dim = 1
    region: str = ""
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    storages: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()
    saved: tuple[int, ...] = ()
    where: str = ""
    uncounted: Uncounted | None = None
    overload: str = ""
    strided: tuple[int, ...] = ()
    function: str = ""
    given: tuple[str, ...] = ()
    module_call: int = 0

    @property
    def operator(self) -> str:
        """``native`` without the mark of in-place operators, for rules and calculators: ``aten::add`` for ``add_``."""
        native = self.native
        is_in_place = native.endswith("_") and native.startswith("aten::") and not native.endswith("__")
        return native[:-1] if is_in_place else native

    def named(self, name: str) -> Call:
        """Return the same call with a name."""
        return tuple.__new__(Call, (*self[:3], name, *self[4:]))  # _make would cost as much again


new_call: Callable[..., Call] = Call.__new__
"""Builds a call three times as fast: ``new_call(Call, layer=…)``; ``Call(…)`` first collects keywords in a dict."""


def with_names(calls: Iterable[Call]) -> list[Call]:
    """Return the calls with their names, ``<type>-<n>``, counted from 1 for each type."""
    counts: dict[str, int] = {}
    named = []
    for call in calls:
        kind = call.type
        n = counts[kind] = counts.get(kind, 0) + 1
        named.append(tuple.__new__(Call, (*call[:3], f"{kind}-{n}", *call[4:])))  # as Call.named, but faster
    return named


class _WhatAndWhere(NamedTuple):
    what: str
    where: str


class Assumption(_WhatAndWhere):
    """An assumption about something that depends on data: a pair of ``what`` and ``where``.

    Two assumptions are equal if both are; ``line`` and ``times`` are not compared.

    Attributes:
        what: the assumption as a sentence; a kind and a colon may precede it.
        where: path of the module, or name of the node.
        line: the line of the user's code that needed the value, ``model.py:12 in forward``; empty if it is unknown.
        times: how often it was made there.
        is_branch: whether it decided which code ran. Files do not keep this.
    """

    line: str
    times: int
    is_branch: bool

    def __new__(cls, what: str, where: str = "", line: str = "", times: int = 1, is_branch: bool = False) -> Assumption:
        """Return an assumption; see the attributes of the class."""
        self = super().__new__(cls, what, where)
        self.line, self.times, self.is_branch = line, times, is_branch
        return self

    def __str__(self) -> str:
        return self._text(f"module `{self.where}`" if self.line and self.where else self.where)

    def _text(self, place: str) -> str:
        inside = ", ".join(filter(None, (place, f"{self.times} times" if self.times > 1 else "")))
        place = f" ({inside})" if inside else ""
        if not self.line:
            return self.what + place
        kind, colon, rest = self.what.partition(": ")
        return f"{kind} at {self.line}{place}{colon}{rest}"


def assumptions_as_text(assumptions: Iterable[Assumption]) -> list[str]:
    """Return assumptions as sentences; layers that share an assumption and a line of code share a sentence."""
    by_line: dict[tuple[str, str], list[Assumption]] = {}
    for each in assumptions:
        by_line.setdefault((each.what, each.line), []).append(each)
    return [_shared_text(made) for made in by_line.values()]


def _shared_text(made: Sequence[Assumption]) -> str:
    first, *others = made
    if not others:
        return str(first)
    places = f"{len(made)} {'modules' if first.line else 'places'}"
    times = sum(each.times for each in made) if any(each.times > 1 for each in made) else 1
    together = Assumption(first.what, line=first.line, times=times)
    return together._text(f"{places}, first `{first.where}`" if first.where else places)


class Module(NamedTuple):
    """A module in the module hierarchy of a model.

    Attributes:
        type: name of its class, ``Conv2d``.
        parameters: parameter ids of the learned parameters that it owns directly, not through its children.
        frozen: its parameters that are not trained.
        buffers: number of elements of the state that it owns directly, such as running statistics.
        same_as: path at which the same module was seen first; empty unless the module is used twice.
        bases: qualified names of its class and its base classes, in method resolution order, without the framework's
            common base class: ``("torch.nn.modules.conv.Conv2d", "torch.nn.modules.conv._ConvNd")``.
        own: name and number of elements of each learned parameter that it owns directly; like ``parameters``, empty at
            every path but the first.
        kernel_is_int: whether its attribute ``kernel_size`` is an int, not a tuple.
    """

    type: str
    parameters: tuple[int, ...] = ()
    frozen: tuple[int, ...] = ()
    buffers: Dim = 0
    same_as: str = ""
    bases: tuple[str, ...] = ()
    own: tuple[tuple[str, Dim], ...] = ()
    kernel_is_int: bool = False


class ModuleCall(NamedTuple):
    """One call of a module.

    Attributes:
        module: path of the module.
        parent: number of the module call that made it, from 1; 0 if none did.
        inputs: shapes of the tensors among its positional arguments, also of those inside lists, tuples and dicts.
        outputs: shapes of the tensors that it returned, likewise; empty if it raised an exception.
    """

    module: str
    parent: int = 0
    inputs: tuple[tuple[Dim, ...], ...] = ()
    outputs: tuple[tuple[Dim, ...], ...] = ()


def qualified_bases(kind: type, root: type) -> tuple[str, ...]:
    """Return the qualified names of a class and its base classes, in method resolution order, before ``root``."""
    before = takewhile(lambda each: each is not root and each is not object, kind.__mro__)
    return tuple(f"{each.__module__}.{each.__qualname__}" for each in before)


# Records: further values of a run, beside its calls and options, each declared by one :class:`Record`.


T = TypeVar("T")

DECLARED: dict[str, Record[Any]] = {}
"""Every declared record by name."""

_WITHOUT_SIZES = frozenset((int, str, float, bool, type(None)))
"""The types of values without sizes inside."""


class Recorded(Protocol):
    """A run: anything with records."""

    @property
    def records(self) -> Mapping[str, Any]:
        """The records by name."""


class Record(Generic[T]):
    """The declaration of a named value that a run can record.

    ::

        CYCLES = Record("cycles", 0)                      # declare
        run = run.recording(cycles=512)                   # write
        CYCLES.of(run)                                    # read: 512; 0 if it was not recorded

    Files keep the value, which may consist of numbers, symbolic sizes and strings, and of tuples, lists and dicts of
    these. ``subs`` puts values into the symbolic sizes inside of it.

    Args:
        name: its key in :attr:`Run.records`.
        absent: its value if it was not recorded.
        of_part: returns the value for a part of the run. It takes the value for the whole run, and a mapping from old
            to new positions of the calls in the part. Default: the value does not depend on the positions of calls.
        is_kept: whether files keep it.
    """

    name: str
    of_part: Callable[[Any, Mapping[int, int]], T] | None
    is_kept: bool

    def __init__(
        self,
        name: str,
        absent: T,
        *,
        of_part: Callable[[Any, Mapping[int, int]], T] | None = None,
        is_kept: bool = True,
    ) -> None:
        self.name, self.absent, self.of_part, self.is_kept = name, absent, of_part, is_kept
        DECLARED[name] = self

    def of(self, run: Recorded) -> T:
        """Return the recorded value of a run."""
        found: T = run.records.get(self.name, self.absent)
        return found

    @overload
    def __get__(self, run: None, owner: object) -> Record[T]: ...

    @overload
    def __get__(self, run: Recorded, owner: object) -> T: ...

    def __get__(self, run: Recorded | None, owner: object) -> Record[T] | T:
        return self if run is None else self.of(run)


def records_of_part(records: Mapping[str, Any], new: Mapping[int, int]) -> dict[str, Any]:
    """Return the records of a run that has only some of its calls.

    Args:
        records: the records of the whole run.
        new: the new position of each of these calls by its old one.
    """
    of_part = {name: record.of_part for name, record in DECLARED.items() if record.of_part is not None}
    return {name: of_part[name](value, new) if name in of_part else value for name, value in records.items()}


def with_sizes(value: Any, substitute: Callable[[Any], Any]) -> Any:
    """Return a value with other sizes inside of its tuples, lists and dicts."""
    if type(value) in _WITHOUT_SIZES or (type(value) is tuple and _WITHOUT_SIZES.issuperset(map(type, value))):
        return value
    if isinstance(value, tuple):
        inside = [with_sizes(item, substitute) for item in value]
        return value._make(inside) if hasattr(value, "_make") else tuple(inside)
    if isinstance(value, list):
        return [with_sizes(item, substitute) for item in value]
    if isinstance(value, Mapping):
        return {name: with_sizes(item, substitute) for name, item in value.items()}
    return substitute(value)


# The user's code that made a call.


_OWN = tuple(str(Path(__file__).parents[2] / package) + os.sep for package in ("costcore", "calculators", "frontends"))


def user_traceback(*frameworks: str) -> str:
    """Return the stack of the user's code as formatted text, the innermost frame last.

    Frames of this package and of the framework are omitted.

    Args:
        frameworks: names of the framework's top-level modules, ``"torch"``.
    """
    import traceback  # most runs need none

    stack = [
        (
            frame.f_globals.get("__name__", "").partition(".")[0],
            traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name),
        )
        for frame, line in traceback.walk_stack(currentframe())
        if not frame.f_code.co_filename.startswith(_OWN)
    ]
    outside = [*dropwhile(lambda pair: pair[0] in frameworks, stack)] or stack
    return "".join(traceback.format_list([summary for _, summary in reversed(outside)]))


def user_line(*frameworks: str) -> str:
    """Return the innermost line of the user's code, ``model.py:12 in forward``; ``""`` if there is none.

    Args:
        frameworks: names of the framework's top-level modules, ``"torch"``, whose frames are omitted.
    """
    for frame, line in user_frames():
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in frameworks:
            return f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
    return ""


def user_frames() -> Iterator[tuple[FrameType, int]]:
    """Yield the frames outside of this package with their lines, the innermost first.

    The code that calls ``estimate`` is left out: it is not part of the model.
    """
    import traceback  # most runs need none

    for frame, line in traceback.walk_stack(currentframe()):
        if frame.f_code.co_name == "estimate" and frame.f_code.co_filename.endswith(_ENTRY):
            return
        # the decorators of this package run inside contextlib, which no user writes
        path = frame.f_code.co_filename
        is_own = path.startswith(_OWN) or path.endswith(_COMMAND)
        if not is_own and frame.f_globals.get("__name__") != "contextlib":
            yield frame, line


_ENTRY = f"{os.sep}costcore{os.sep}api{os.sep}estimate.py"
"""The suffix of the path of the file with ``estimate``."""

_COMMAND = (f"{os.sep}bin{os.sep}costcore", "costcore.exe")
"""The suffixes of the path of the installed command."""


# Symbols (``+``, ``@=``, ``[]``) that a line of Python was running, from its byte code.


_BINARY = {
    "add": "+",
    "and": "&",
    "floordiv": "//",
    "lshift": "<<",
    "matmul": "@",
    "mod": "%",
    "mul": "*",
    "or": "|",
    "pow": "**",
    "rshift": ">>",
    "sub": "-",
    "truediv": "/",
    "xor": "^",
}
"""The binary operators with an in-place form, by the function of :mod:`operator` without an underscore."""

_COMPARISONS = {"eq": "==", "ge": ">=", "gt": ">", "le": "<=", "lt": "<", "ne": "!="}

_COMPARISON_SHIFT = 0 if sys.version_info < (3, 12) else 4 if sys.version_info < (3, 13) else 5
"""How many flags precede the number of the comparison in the argument of ``COMPARE_OP``."""

_WITH_ARGUMENT = frozenset(("BINARY_OP", "CALL_INTRINSIC_1", "COMPARE_OP"))
"""Instructions whose argument selects the operation."""

_PREFIXES = (
    "BINARY_",
    "CALL_INTRINSIC_1",
    "COMPARE_OP",
    "CONTAINS_OP",
    "DELETE_SUBSCR",
    "INPLACE_",
    "STORE_S",
    "UNARY_",
)
"""Prefixes of the names of instructions that run a symbol."""


def operator_name(word: str) -> str:
    """Return the name of a function of :mod:`operator`, in which keywords end in an underscore."""
    return f"{word}_" if word in ("and", "or", "not") else word


@lru_cache(maxsize=4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    """Return the names of global variables that code reads, each once; ``co_names`` also has attributes."""
    names = dict.fromkeys(each.argval for each in dis.get_instructions(code) if each.opname in _LOADS)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= dict.fromkeys(global_names(constant))
    return tuple(names)


_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")


def symbol_at(code: CodeType, offset: int) -> str:
    """Return the function of :mod:`operator` for the symbol at an offset in byte code; empty if there is no symbol.

    Args:
        code: the code of a frame.
        offset: ``f_lasti`` of the frame.
    """
    if offset < 0:
        return ""
    instructions = code.co_code
    while (name := dis.opname[instructions[offset]]) == "CACHE":
        offset -= 2
    return _symbols().get(_key(name, instructions[offset + 1]), "")


def _key(name: str, argument: int) -> tuple[str, int]:
    if name not in _WITH_ARGUMENT:
        return name, 0
    return name, argument >> _COMPARISON_SHIFT if name == "COMPARE_OP" else argument


@cache
def _symbols() -> dict[tuple[str, int], str]:
    # Byte code differs between releases of Python: compile each symbol with this release.
    sources = {
        **{operator_name(word): f"a {symbol} b" for word, symbol in _BINARY.items()},
        **{f"i{word}": f"a {symbol}= b" for word, symbol in _BINARY.items()},
        **{word: f"a {symbol} b" for word, symbol in _COMPARISONS.items()},
        "neg": "-a",
        "pos": "+a",
        "invert": "~a",
        "contains": "a in b",
        "delitem": "del a[b]",
    }
    pairs = [
        *sources.items(),
        ("getitem", "a[b]"),
        ("getitem", "a[b:c]"),
        ("setitem", "a[b] = c"),
        ("setitem", "a[b:c] = d"),
    ]
    return {key: word for word, source in pairs for key in _keys(source)}


def _keys(source: str) -> list[tuple[str, int]]:
    instructions = dis.get_instructions(compile(source, "", "exec"))
    return [_key(each.opname, each.arg or 0) for each in instructions if each.opname.startswith(_PREFIXES)]


# By path of a module: its number of nonzero weights, and of all weights, without biases.
NONZERO_WEIGHTS: Record[Mapping[str, tuple[int, int]] | None] = Record("nonzero_weights", None)


# Pairs of queries and keys that masks allow. A model may also write attention itself, as a product of queries and keys,
# masked scores, a softmax, and a product of the weights and values.

ATTENTION = frozenset(("attention", "attention_backward", "token_major_attention"))
"""The operators whose cost is proportional to the pairs of queries and keys."""


def check_attention(attention: object) -> None:
    """Check the option ``attention``.

    Raises:
        ValueError: if it is neither "all" nor "computed".
    """
    if attention not in ("all", "computed"):
        raise ValueError(f"attention must be 'all' or 'computed' (got {attention!r})")


PRODUCTS = frozenset(("matmul", "einsum"))
"""The operators of the two products, if a model writes attention itself."""

_REDUCING = ("reduce_", "linear", "conv", "embedding")
"""Prefixes of operators whose output no longer has an element per pair."""


def with_pairs(
    calls: Sequence[Call], known: Mapping[int, int], masked: Mapping[int, int]
) -> tuple[Sequence[Call], list[str]]:
    """Return calls of attention with the attribute ``pairs``, the pairs that masks allow, and notes on their share.

    If a model writes attention itself, the products and the softmax get the attribute.

    Args:
        calls: the calls.
        known: the allowed pairs of a call, by its position. Other calls get theirs from a causal mask of square scores.
        masked: the number of scores that a call masks, by its position.
    """
    made: dict[tuple[Layer, Dim, str], Layer] = {}
    found = [*calls]

    def replace(i: int, pairs: Dim, scores: str = "") -> None:
        layer = calls[i].layer
        key = layer, pairs, scores
        if key not in made:
            attrs = {**layer.attrs, "pairs": pairs, **({"scores": scores} if scores else {})}
            if "allowed" in attrs:
                attrs["total"] = layer.attrs["pairs"]
            made[key] = Layer(layer.op, layer.inputs, layer.outputs, attrs)
        found[i] = calls[i]._replace(layer=made[key])

    for i, call in enumerate(calls):
        if is_attention(call.layer):
            pairs = known.get(i, masked_pairs(call.layer))
            if pairs is not None:
                replace(i, pairs)
    for i, scores, skipped in _MaskedScores(masked).of([*found]):
        layer = calls[i].layer
        if layer.op in ("attention", "attention_backward"):
            replace(i, pairs_of(layer) - skipped)
        else:
            total = (layer.out if scores == "y" else layer[scores]).size
            replace(i, total - skipped, scores if layer.op in PRODUCTS else "")
    totals = [
        (
            all_pairs(before.layer if is_attention(before.layer) else after.layer),
            computed_pairs(after.layer),
            after.times,
        )
        for before, after in zip(calls, found, strict=True)
    ]
    unknown = sum(1 for call in found if call.layer.op == "attention" and _has_unknown_mask(call.layer))
    has_pairs = any(is_attention(call.layer) or call.layer.op == "softmax" for call in found)
    notes = [_note(totals, COMPUTED), UNKNOWN.format(unknown) if unknown else "", "" if has_pairs else WITHOUT]
    return found, [note for note in notes if note]


def _has_unknown_mask(layer: Layer) -> bool:
    return "mask" in layer and "pairs" not in layer.attrs


UNKNOWN = "attention: all pairs count where the values of a mask are unknown (calls: {})"

WITHOUT = 'attention="computed" changes nothing: the run has no attention'

COMPUTED = "attention counts the {allowed} of {all} query-key pairs that masks allow"

ALL = "attention counts all {all} query-key pairs; causal masks and windows allow {allowed}"


def _note(totals: Iterable[tuple[Dim, Dim, Dim]], text: str) -> str:
    n_all: Dim = 0
    n_allowed: Dim = 0
    for total, allowed, times in totals:
        n_all += total * times
        n_allowed += allowed * times
    shown = [f"{n:,}" if isinstance(n, int) else n for n in (n_all, n_allowed)]
    return "" if n_all == n_allowed else text.format(all=shown[0], allowed=shown[1])


def notes_in_sizes(notes: Sequence[str], calls: Sequence[Call]) -> list[str]:
    """Return notes with the numbers of pairs recomputed from symbolic calls."""
    made = []
    for note in notes:
        text = next((text for text in (ALL, COMPUTED) if note.startswith(text.partition("{")[0])), "")
        if text == ALL:
            made.append(note_on_masks(calls, {call.layer for call in calls}))
        elif text:
            totals = [(all_pairs(call.layer), computed_pairs(call.layer), call.times) for call in calls]
            made.append(_note(totals, text))
        else:
            made.append(note)
    return [note for note in made if note]


def is_attention(layer: Layer) -> bool:
    """Return whether a layer is attention, or another kernel with the attribute ``allowed``."""
    if layer.op not in ATTENTION:
        return "allowed" in layer.attrs
    # A damaged model may have other operands; its calculator then raises the error.
    return layer.op == "token_major_attention" or all(x in layer and layer[x].ndim > 1 for x in ("q", "k"))


def computed_pairs(layer: Layer) -> Dim:
    """Return the pairs that masks allow in attention or in a product of queries and keys; 0 for any other layer."""
    if is_attention(layer):
        return layer.attrs["pairs"] if "pairs" in layer.attrs else pairs_of(layer)
    return layer.attrs["pairs"] if layer.attrs.get("scores") == "y" else 0


def all_pairs(layer: Layer) -> Dim:
    """Return all pairs of attention, or of a masked product of queries and keys; 0 for any other layer."""
    if is_attention(layer):
        return pairs_of(layer)
    return layer.out.size if layer.attrs.get("scores") == "y" else 0


def note_on_masks(calls: Sequence[Call], layers: Collection[Layer]) -> str:
    """Return a note that causal masks and windows exclude some of the counted pairs; empty if they exclude none.

    Args:
        calls: the calls, without computed pairs.
        layers: their layers, each once.
    """
    if ATTENTION.isdisjoint(map(attrgetter("op"), layers)):
        return ""
    found = {id(layer) for layer in layers if layer.op in ATTENTION}
    totals = []
    for call in [call for call in calls if id(call.layer) in found or "allowed" in call.layer.attrs]:
        if is_attention(call.layer):
            total, allowed = pairs_of(call.layer), masked_pairs(call.layer)
            totals.append((total, total if allowed is None else allowed, call.times))
    return _note(totals, ALL)


class _Scores(NamedTuple):
    # A value with an element per pair: its size, how many elements are masked, the products that made it, and whether
    # its elements are results of the softmax. A mask that was not yet added to scores has no producers.
    size: Dim
    skipped: Dim = 0
    producers: tuple[int, ...] = ()
    is_weights: bool = False

    def joined(self, other: _Scores) -> _Scores:
        if other.size != self.size and not other.producers:  # a mask of other rank, or of one sample for all
            other = other._replace(skipped=floor_div(other.skipped * self.size, other.size))
        return self._replace(skipped=maximum(self.skipped, other.skipped))


class _MaskedScores:
    # Finds the products and the softmax of attention that a model writes itself, by following masked scores from call
    # to call. Values are told apart by storage, because views that autograd saves have operand ids of their own.
    def __init__(self, masked: Mapping[int, int]) -> None:
        self._masked = masked
        self._known: dict[int, _Scores] = {}
        self._attention: dict[str, list[_Scores]] = {}
        self._unsourced: dict[tuple[str, Dim], int] = {}

    def of(self, calls: Sequence[Call]) -> Iterator[tuple[int, str, Dim]]:
        """Yield calls by position, with the operand that has the scores, and how many of them are masked."""
        for i, call in enumerate(calls):
            n_inputs = len(call.inputs)
            written, op = call.storages[n_inputs : n_inputs + 1], call.layer.op
            read = dict(zip(call.layer.inputs, call.storages, strict=False))
            given = {name: self._known[storage] for name, storage in read.items() if storage in self._known}
            if not written:
                continue
            if op in ("attention", "attention_backward") and is_attention(call.layer):
                yield from self._of_attention(i, call, given.get("mask"))
            elif op in PRODUCTS:
                yield from self._product(i, call, written[0], given, read)
            elif op == "softmax":
                scores = given.get("x", _Scores(call.layer.out.size))
                yield from self._softmax(i, "x", scores.producers, scores.skipped)
                self._known[written[0]] = scores._replace(producers=(), is_weights=scores.skipped != 0)
            elif op == "softmax_backward":
                weights = given.get("y")
                if weights is None or not weights.is_weights:
                    weights = yield from self._weights_inside(call)
                if weights is not None:
                    yield from self._softmax(i, "dy", given["dy"].producers if "dy" in given else (), weights.skipped)
                    self._known[written[0]] = weights
            elif not op.startswith(_REDUCING):
                self._pass_on(i, call, written[0], [*given.values()], written[0] in read.values())

    def _of_attention(self, i: int, call: Call, mask: _Scores | None) -> Iterator[tuple[int, str, Dim]]:
        total, waiting = pairs_of(call.layer), self._attention.setdefault(call.module, [])
        scores = _Scores(total, total - call.layer.attrs.get("pairs", total), is_weights=True)
        if call.layer.op == "attention_backward":
            made = waiting.pop() if waiting and waiting[-1].size == total else scores
            if made.skipped != scores.skipped:
                yield i, "", made.skipped
            return
        if mask is not None and scores.skipped == 0:
            scores = scores.joined(mask)
            if scores.skipped != 0:
                yield i, "", scores.skipped
        waiting.append(scores)

    def _product(
        self, i: int, call: Call, written: int, given: Mapping[str, _Scores], read: Mapping[str, int]
    ) -> Iterator[tuple[int, str, Dim]]:
        weights = next((name for name, scores in given.items() if scores.is_weights), None)
        if weights is not None:
            yield i, weights, given[weights].skipped
            self._known.pop(written, None)
            return
        if any(tensor.role == "param" for tensor in call.layer.inputs.values()):
            return  # a layer
        self._known[written] = _Scores(call.layer.out.size, producers=(i,))
        if call.phase == "backward" and "x0" in read and "x0" not in given:
            self._unsourced.setdefault((call.module, call.layer["x0"].size), i)

    @staticmethod
    def _softmax(i: int, operand: str, producers: Sequence[int], skipped: Dim) -> Iterator[tuple[int, str, Dim]]:
        if skipped != 0:
            yield i, operand, skipped
            for producer in producers:
                yield producer, "y", skipped

    def _weights_inside(self, call: Call) -> Generator[tuple[int, str, Dim], None, _Scores | None]:
        # The backward pass of fused attention may run as products. No recorded call made its softmax weights: they are
        # the first operand of the first product in the same module.
        waiting = self._attention.get(call.module, [])
        if not waiting or waiting[-1].size != call.layer["dy"].size:
            return None
        weights = waiting.pop()
        first = self._unsourced.pop((call.module, weights.size), None)
        if first is not None:
            yield first, "x0", weights.skipped
        return weights

    def _pass_on(self, i: int, call: Call, written: int, given: Sequence[_Scores], is_in_place: bool) -> None:
        mask = self._masked.get(i, 0)
        if not given and not mask:
            if not is_in_place:
                self._known.pop(written, None)
            return
        scores, *others = sorted(given, key=lambda each: (each.is_weights, len(each.producers)), reverse=True) or [
            _Scores(call.layer.out.size)
        ]
        for other in (*others, _Scores(call.layer.out.size, mask)):
            scores = scores.joined(other)
        self._known[written] = scores


def pairs_of(layer: Layer) -> Dim:
    """Return the pairs of queries and keys of attention, over all heads and samples."""
    if "allowed" in layer.attrs or layer.op == "token_major_attention":
        return layer.attrs.get("total", layer.attrs["pairs"])  # of packed sequences, only pairs within a sequence
    y = layer.inputs.get("dy") or layer.out
    return prod(y.shape[:-1]) * layer["k"].shape[-2]


def masked_pairs(layer: Layer) -> Dim | None:
    """Return the pairs that attributes of attention allow; None if they allow all, or if keys precede the queries."""
    if "allowed" in layer.attrs or layer.op == "token_major_attention":
        return layer.attrs.get("allowed")
    queries, keys = layer["q"].shape[-2], layer["k"].shape[-2]
    if not layer.attrs.get("causal") or queries != keys:
        return None
    return floor_div(pairs_of(layer) * (keys + 1), 2 * keys)
