"""Modules by patterns of names, as plans of models state them: ``layers.*.mlp``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torch.nn import Module


def matching(model: Module, patterns: Iterable[str]) -> Iterator[tuple[str, Module]]:
    """Yield the modules whose whole name matches one of the patterns, in which ``*`` is one part of a name."""
    forms = [re.compile(re.escape(pattern).replace(r"\*", r"[^.]+")) for pattern in patterns]
    for name, module in model.named_modules():
        if any(form.fullmatch(name) for form in forms):
            yield name, module
