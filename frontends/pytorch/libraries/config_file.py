"""Reads a ``config.json`` of transformers: a file of other people, from which nothing but settings is taken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from costcore.errors import CostError
from costcore.files import is_folder, read_text
from costcore.messages import short_repr

CONFIG = "config.json"

MOST_BYTES = 2**25
"""The largest file that is read; those with the names of 21,000 labels have 2 MB."""

NAMES_CODE = frozenset(
    (
        *("auto_map", "custom_pipelines"),
        *(f"{prefix}{kind}_implementation{suffix}" for prefix in ("", "_") for kind in ("attn", "experts")
          for suffix in ("", "_internal", "_autoset")),
        *("configuration_files", "kernel_config", "use_kernels"),
    )
)  # fmt: skip
"""Settings that name code: of the folder, of a repository, or kernels that a hub stores."""

PRETRAINED = "use_pretrained_backbone"
"""The setting by which a part of a model is loaded from a hub, with its weights."""

ELSEWHERE = re.compile(r"[\w-]+:.*", re.DOTALL)
"""A name of timm that says where a model is looked for, ``hf-hub:timm/resnet18`` or ``local-dir:/models``."""

FLOATS = re.compile(r"theta|base|factor|scale|eps|epsilon|token_id|model_max_length")
"""Settings that are no sizes, however large: the base of rotary embeddings is 10**10 in some models."""

MOST: Mapping[re.Pattern[str], int] = {
    re.compile(r"(.*_)?(n_layers?|layers?|depths?|blocks?|n_blocks?)"): 256,
    re.compile(r".*labels"): 10**5,
    re.compile(r".*position.*|n_ctx|.*(source|target|seq|context).*(length|len).*|max_.*length"): 2**24,
    re.compile(r"(num|n)_.*|.*_(num|n)_.*|.*experts.*"): 10**6,
    re.compile(r".*"): 2**31,
}
"""The largest value by the name of a setting: models have a module per layer, a table per position, and so on."""

MOST_VALUES = 10**6
"""The most values of a file."""


def read_config(path: str) -> tuple[dict[str, Any], bool]:
    """Return the settings of a configuration without those that name code, and whether ``auto_map`` did.

    Args:
        path: the file, or its folder.

    Raises:
        FileError: if it cannot be read.
        CostError: if it is not a configuration, needs code of its own, or has a size beyond all models.
    """
    file = str(Path(path) / CONFIG) if is_folder(path) else path
    try:
        found = json.loads(read_text(file, limit=MOST_BYTES))
    except RecursionError as error:
        raise CostError(f"{file} nests its values too deeply") from error
    except ValueError as error:
        if isinstance(error, CostError):
            raise
        raise CostError(f"{file} is not in JSON: {error!s:.100}") from error
    if not isinstance(found, dict):
        raise CostError(f"{file} is not a configuration (expected an object in JSON)")
    _check(found, file)
    return _without_code(found), "auto_map" in found


def _check(settings: Mapping[str, Any], file: str) -> None:
    """Check the values of a configuration.

    Raises:
        CostError: if one is beyond all models, or names a model elsewhere.
    """
    names = settings.get("architectures")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise CostError(f"{file}: architectures is {short_repr(names)} (expected a list of names of classes)")
    for count, (name, value) in enumerate(_values(settings)):
        if count >= MOST_VALUES:
            raise CostError(f"{file} has more than {MOST_VALUES:,} values")
        if isinstance(value, int) and not FLOATS.search(name):
            most = next(most for pattern, most in MOST.items() if pattern.fullmatch(name))
            if abs(value) > most:
                raise CostError(f"{file}: {name} is {short_repr(value)} (expected at most {most:,})")
        if isinstance(value, str) and name in ("architecture", "backbone") and ELSEWHERE.fullmatch(value):
            raise CostError(f"{file}: {name} is {short_repr(value)}, which is not looked for")


def _values(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values that are neither objects nor lists, each with the nearest name."""
    waiting: list[tuple[str, Any]] = [("", settings)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += ((key, inner) for key, inner in value.items())
        elif isinstance(value, list):
            waiting += ((name, inner) for inner in value)
        else:
            yield name, value


def _without_code(value: Any) -> Any:
    """Return settings without those that name code, of parts of a model too."""
    if isinstance(value, dict):
        kept = {name: _without_code(inner) for name, inner in value.items() if name not in NAMES_CODE}
        return kept | ({PRETRAINED: False} if PRETRAINED in kept else {})
    return [_without_code(inner) for inner in value] if isinstance(value, list) else value
