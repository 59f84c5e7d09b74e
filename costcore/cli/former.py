"""Options that are spelled otherwise now: the former ones work for two minor versions, and say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from costcore.renamed import UNTIL

Flags: TypeAlias = "dict[str, tuple[str, ...]]"

FUSION: Flags = {"--fused": ("--fusion",)}
MODEL: Flags = {"--no-fma": ("--no-fma-1flop",)}
"""Options of every command that counts a model."""
AS_JSON: Flags = {"--json": ("--format", "json")}

FORMER: Mapping[str, Flags] = {
    "costcore": MODEL | FUSION,
    "costcore check": MODEL,
    "costcore diff": MODEL | FUSION | {"--limit": ("--top",)},
    "costcore explain": MODEL | AS_JSON,
    "costcore fit": MODEL | AS_JSON,
    "costcore memory": MODEL | AS_JSON | {"--fit": ("--memory",), "--device": ("--allocator",)},
    "costcore plan": AS_JSON,
    "costcore plot": MODEL,
    "costcore profile": MODEL,
    "costcore reconcile": MODEL,
    "costcore table": MODEL,
    "costcore time": MODEL,
    "costcore train": MODEL | {"--causal": ("--pairs", "causal"), "--documents": ("--document-lengths",)},
}
"""The options of today by the former one, by command."""


def options_of_today(command: str, argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return arguments with the options of today, and a line about each former option, once."""
    former = FORMER.get(command, {})
    today, lines = [], {}
    for text in argv:
        flag, equals, value = text.partition("=")
        if flag not in former:
            today.append(text)
            continue
        first, *more = former[flag]
        today += [f"{first}{equals}{value}", *more]
        lines[flag] = f"{command}: {flag} is now {' '.join(former[flag])}; the old option works until version {UNTIL}"
    return today, [*lines.values()]
