"""A convention as data: which calls it counts, and by which expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from costcore.analyses.conventions.expression import Expression
from costcore.trace.call import PHASES

UNITS = ("MAC", "FLOP", "MULT", "BOP", "OP")
"""What a convention counts: multiply-adds, floating-point operations, products, bit operations, operations."""

UNIT_NAMES = {"MAC": "MACs", "FLOP": "FLOPs", "MULT": "products", "BOP": "bit operations", "OP": "operations"}
"""The same in the plural."""

BY = ("op", "module", "function", "module call", "whole")
"""By what a pass finds the rule of a call: its operator; the module that makes it; the function it was spelled with;
or not by calls: each module call, or the network as a whole."""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: ``(2, 15, 0)`` for ``2.15.0+cpu``."""
    return tuple(map(int, re.findall(r"\d+", re.split(r"[^\d.]", version)[0])))


@dataclass(frozen=True)
class Pass:
    """Rules that are applied to all calls of a run; passes add up.

    Attributes:
        by: one of :data:`BY`.
        rules: expressions by key; an operator (``conv``), a native operator (``aten:conv2d``, ``aten:conv2d.padding``),
            a module and its operator (``nn.Conv2d/conv``), a function (``F.relu``, ``F.interpolate(size)``), or a part
            of the class name of modules that are called (``*Conv*``). The most specific key of a call decides.
        default: the expression for calls without a rule; None does not count them.
        phases: the phases that are counted.
        live: count only calls on which the values depend that the model returned, as tracing keeps only those.
        types: ``exact`` matches the class of a module, ``subclasses`` its base classes too.
        leaf: count only calls of modules without children.
        closed: do not count calls inside the children of a module that has a rule.
        listed: further types whose children are not counted if ``closed``.
        last_call: count only the last call of each module, as tools do that overwrite the amounts of earlier calls.
        alias: how a module counts that the model holds under several parents: 0 once, 1 once for each parent, 2 the
            square of that.
        per_item: divide amounts by the first dimension of the model's first input.
        outside: types (and their subclasses) in which, at any depth, calls are not counted.
        bound: functions by the type of module that keeps its own reference to them, made before the tool replaces the
            function; its calls of them are not counted.
        skip_self_attention: do not count ``nn.MultiheadAttention`` of one sequence with itself, nor
            ``nn.TransformerEncoderLayer`` around it, if each runs as one fused operator without gradients.
        skip_frozen_attention: the same, but only where nothing needs a gradient in a run with gradients.
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
        tool: what counts so, ``ptflops``.
        version: the version that the rules were held against.
        variant: the option or part of the tool, ``backend=aten``; empty if there is only one.
        unit: one of :data:`UNITS`.
        calls_it: what the tool calls its number, ``flops``.
        aliases: other names.
        description: what is special about it, in one or two sentences.
        sources: where the rules come from.
        counts: the passes, which add up.
        notes: what it cannot reproduce, with the size of the gap.
        is_printed: whether people publish such numbers; explanations try others first.
        frameworks: the frameworks whose models the tool counts; explanations try it for these only. Empty for all.
        since: the first release of the tool with these rules; empty if they are the oldest that are known.
        releases: the same convention by the rules of later releases of the tool, in their order.
        year: the year of the first release that counted so; 0 if it is unknown.
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
        """Return this convention by the rules of a release of its tool, ``2.15.1``; the oldest ones if it is empty."""
        later = [each for each in self.releases if _numbers(each.since) <= _numbers(version)]
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
        """The namespaces of native operators, if all rules by name are for these and no other framework has them."""
        keys = [key for each in self.counts for key in each.rules]
        if not all(each.by == "op" for each in self.counts) or not all(":" in key for key in keys):
            return frozenset()
        return frozenset(key.partition(":")[0] for key in keys)

    @property
    def needs_functions(self) -> bool:
        """Whether it depends on the function by which a call was spelled, or on calls of modules."""
        return any(each.by in ("function", "module call") or each.per_item for each in self.counts)

    @property
    def needs_modules(self) -> bool:
        """Whether it depends on the types of modules, which only PyTorch captures know."""
        return all(each.by in ("module", "function", "module call") for each in self.counts)
