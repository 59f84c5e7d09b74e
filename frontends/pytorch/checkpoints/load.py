"""The model whose weights a file stores: of the architecture of transformers, without its weights."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import Module

from costcore.errors import CostError
from costcore.files import is_folder
from costcore.messages import import_problem
from costcore.studies.serving.cached_model import StoredFile

from ..libraries.bounded import bounded
from ..libraries.make import library_model
from ..libraries.without_weights import without_weights
from ..serving.cached_model import MetaCachedModel
from .gguf_architectures import architecture_of, parameters_of, settings_of
from .gguf_file import read_gguf
from .match import match_modules, match_names
from .safetensors_files import read_folder

COMPUTES_IN = torch.float16
"""The dtype in which a GGUF file is computed, which it does not state: that of the cache of llama.cpp."""


class Loaded(NamedTuple):
    """A model and how its file stores its weights."""

    model: Module
    file: StoredFile


def load(path: str) -> Loaded:
    """Return the model of a GGUF file, or of a folder of safetensors files with its ``config.json``.

    Raises:
        FileError: if a file cannot be read.
        CostError: if a file is damaged, transformers is not installed, or it has no such model.
    """
    if not is_folder(path):
        return _of_gguf(path)
    tensors = read_folder(path)
    model, _ = library_model("hf", str(Path(path) / "config.json"))
    try:
        return Loaded(model, match_modules(model, tensors))
    except CostError as error:
        raise CostError(f"{path}: {error}") from error


def cached_model(model: Any, cache: str, dtype: str | None = None) -> MetaCachedModel:
    """Return a model to be served; see :class:`costcore.frontend.CachedModelOf`."""
    loaded = load(str(model))
    return MetaCachedModel(loaded.model, cache, dtype, loaded.file)


def _of_gguf(path: str) -> Loaded:
    found = read_gguf(path)
    try:
        architecture = architecture_of(found)
        model = _made(architecture.kind, settings_of(found, architecture))
        return Loaded(model, match_names(model, found.tensors, lambda name: parameters_of(name, architecture)))
    except CostError as error:
        raise CostError(f"{path}: {error}") from error


def _made(kind: str, settings: dict[str, Any]) -> Module:
    """Return a model of transformers by the type of its configuration."""
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError as error:
        raise CostError(import_problem("it", "transformers", error)) from error
    make: Any = AutoModelForCausalLM
    try:
        with without_weights(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            config = AutoConfig.for_model(kind, **settings)
            with bounded():
                model: Module = make.from_config(config, trust_remote_code=False)
    except ImportError as error:  # transformers imports the code of a model when it is made
        raise CostError(import_problem("it", "transformers", error)) from error
    except Exception as error:  # code of a library can raise anything
        text = str(error).partition("\n")[0]
        raise CostError(f"transformers makes no {kind} of its metadata: {type(error).__name__}: {text}") from error
    return model.to(COMPUTES_IN).eval()
