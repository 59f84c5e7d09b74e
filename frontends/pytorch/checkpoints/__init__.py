"""The frontend of weight files: language models from the headers of GGUF and safetensors files.

The file names an architecture of transformers, whose model is made without weights. The tensors of the file are
matched to its parameters: memory and weight reads are counted in the formats of the file.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from inspect import signature
from math import ceil, prod
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import Module, Parameter

from costcore.errors import CostError, import_problem
from costcore.files import is_folder
from costcore.graphs.graph import ROWS, accepts, capture, native_names
from costcore.studies.serving.cached_model import ALL, StoredFile, StoredPart
from costcore.trace.trace import Value

from ..libraries import bounded, library_model, without_weights
from ..serving import MetaCachedModel
from .files import StoredTensor, architecture_of, parameters_of, read_folder, read_gguf, settings_of

if TYPE_CHECKING:
    from costcore.studies.serving.cached_model import StoredFile
    from costcore.trace.run import RawBlock, RawLedger, Recorder

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

PROMPT = (1, 512)
"""The default input, as of ``llama-bench`` of llama.cpp: one prompt of 512 tokens, or of a shorter context length."""


def estimate(recorder: Recorder, model: Any, inputs: Any = None, *, memory: bool = False) -> None:
    """Record one pass of the transformers model in a file; no weight is read.

    Args:
        recorder: receives the calls.
        model: the path of a GGUF file, or of a folder of safetensors files with its ``config.json``.
        inputs: as for a module; default: one prompt of 512 tokens.
        memory: whether to record memory, with weights in the formats of the file.

    Raises:
        FileError: if a file cannot be read.
        CostError: if a file is damaged, or transformers has no such model.
    """
    from ..estimate import estimate
    from ..serving import LAST_ONLY

    loaded = load(fspath(model))
    if inputs is None:
        most = getattr(loaded.model.config, "max_position_embeddings", None)
        n_tokens = min(PROMPT[1], most or PROMPT[1])
        is_cut = n_tokens < PROMPT[1]
        reason = "the context length of the model" if is_cut else "as in llama-bench"
        recorder.notes.append(f"no inputs were passed: one prompt of {n_tokens} tokens is counted, {reason}")
        inputs = PROMPT[0], n_tokens
    formats = ", ".join(loaded.file.formats)
    recorder.notes.append(
        f"the file stores the weights in {loaded.file.nbytes:,} bytes ({formats}); costcore serve and memory "
        "use these formats; reads of this report are in the dtype of the computation"
    )
    has_option = LAST_ONLY in signature(loaded.model.forward).parameters
    if has_option and isinstance(inputs, tuple) and not is_folder(fspath(model)):
        inputs = {"input_ids": inputs, LAST_ONLY: Value(1)}
        recorder.notes.append("scores are computed for the last token of each sequence, as llama.cpp does")
    estimate(recorder, loaded.model, inputs, dtype="int64", memory=memory)
    if (ledger := recorder.memory_ledger) is not None:
        recorder.memory_ledger = lambda: _as_stored(ledger(), loaded.file)


def _as_stored(raw: RawLedger, file: StoredFile) -> RawLedger:
    note = f"weights are in the formats of the file: {', '.join(file.formats)}"
    return raw._replace(blocks=[_stored(each, file) for each in raw.blocks], notes=(*raw.notes, note))


def _stored(raw: RawBlock, file: StoredFile) -> RawBlock:
    block = raw.block
    size = prod(block.shape)
    part = file.part(block.name.rpartition(".")[0], size) if block.kind == "parameter" else None
    if part is None:
        return raw
    return raw._replace(block=block._replace(nbytes=ceil(part.bits_with_scales * size / 8)))


# The model of a file, without its weights


COMPUTES_IN = torch.float16
"""The compute dtype of a GGUF model, which the file does not state: the dtype of llama.cpp's KV cache."""


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
        model = _make_model(architecture.kind, settings_of(found, architecture))
        return Loaded(model, match_names(model, found.tensors, lambda name: parameters_of(name, architecture)))
    except CostError as error:
        raise CostError(f"{path}: {error}") from error


def _make_model(kind: str, settings: dict[str, Any]) -> Module:
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
        raise CostError(
            f"transformers cannot make a {kind} model from its metadata: {type(error).__name__}: {text}"
        ) from error
    return model.to(COMPUTES_IN).eval()


# Tensors of a file matched to parameters of the model


RENAMED = {".block_sparse_moe.": ".mlp."}
"""Parts of module names in files of older releases, and what transformers 5 calls them."""

DOWN = ("down_proj", "w2")
"""Names of the last matrix of an expert in a file. The model joins the earlier matrices in one parameter."""

FEW = 3
"""Maximum names in a message."""


class _Matches:
    # A tensor may hold several parameters, and a parameter be in several tensors.
    def __init__(self, model: Module, tensors: Sequence[StoredTensor]) -> None:
        self._tensors = tensors
        self.parameters: Mapping[str, Parameter] = dict(model.named_parameters(remove_duplicate=False))
        self._names: dict[int, list[str]] = defaultdict(list)
        for name, each in self.parameters.items():
            self._names[id(each)].append(name)
        self._nbytes: dict[int, Fraction] = defaultdict(Fraction)
        self._widest: dict[int, StoredTensor] = {}
        self.others: list[str] = []

    def add(self, tensor: StoredTensor, names: Sequence[str]) -> None:
        """Divide the bytes of a tensor among its parameters by their sizes; a tensor without any goes to ``others``."""
        sizes = [self.parameters[name].numel() for name in names]
        if not names:
            self.others.append(tensor.name)
        for name, size in zip(names, sizes, strict=True):
            key = id(self.parameters[name])
            self._nbytes[key] += Fraction(tensor.nbytes * size, sum(sizes) or 1)
            self._widest[key] = max(self._widest.get(key, tensor), tensor, key=lambda each: each.nbytes)

    def missing(self) -> list[str]:
        """Return the first names of the parameters that no tensor holds."""
        return [names[0] for key, names in self._names.items() if key not in self._nbytes]

    def file(self) -> StoredFile:
        """Return how the file stores the model."""
        nbytes: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
        counts: Counter[tuple[str, int]] = Counter()
        widest: dict[tuple[str, int], StoredTensor] = {}
        for key, names in self._names.items():
            size = self.parameters[names[0]].numel()
            for name in names:
                module = name.rpartition(".")[0]
                for at in ((module, size), (module, ALL), (module.rpartition(".")[0], size)):
                    nbytes[at] += self._nbytes[key]
                    counts[at] += size
                    widest[at] = max(widest.get(at, self._widest[key]), self._widest[key], key=lambda each: each.nbytes)
        parts = {at: StoredPart(8 * nbytes[at] / (counts[at] or 1), _bits(widest[at], counts[at])) for at in nbytes}
        formats: Counter[str] = Counter()
        for tensor in self._tensors:
            formats[tensor.format] += tensor.nbytes
        total = sum(tensor.nbytes for tensor in self._tensors)
        return StoredFile(parts, total, tuple(name for name, _ in formats.most_common()), tuple(self.others))


def match_names(model: Module, tensors: Sequence[StoredTensor], names: Callable[[str], tuple[str, ...]]) -> StoredFile:
    """Return how a file stores a model, by a mapping of its tensor names to parameters.

    Args:
        model: the model.
        tensors: the tensors of the file.
        names: returns the names of the parameters that a tensor holds, in whole or in part.

    Raises:
        CostError: if the file has fewer or more elements of a parameter than the model.
    """
    matches = _Matches(model, tensors)
    found: Counter[str] = Counter()
    for tensor in tensors:
        held = [name for name in names(tensor.name) if name in matches.parameters]
        total = sum(matches.parameters[name].numel() for name in held)
        for name in held:
            found[name] += tensor.size * matches.parameters[name].numel() // (total or 1)
        matches.add(tensor, held)
    wrong = [(name, each.numel()) for name, each in model.named_parameters() if found[name] != each.numel()]
    if wrong:
        stated = ", ".join(f"{name} ({found[name]:,} of {size:,})" for name, size in wrong[:FEW])
        is_older = any(".experts.0." in name for name, _ in wrong)
        remedy = "; install transformers 5, whose experts are one parameter" if is_older else ""
        raise CostError(f"its tensors do not fit {type(model).__name__} of transformers: {stated} elements{remedy}")
    return matches.file()


def match_modules(model: Module, tensors: Sequence[StoredTensor]) -> StoredFile:
    """Return how a file stores a model, by the module at the start of each tensor name, in any packed form.

    A tensor name may differ from all parameters. The tensor then belongs to the parameters of its module: ``qweight``,
    ``scales`` and ``qzeros`` of a layer to its weight, the tensors of each expert to those of the module of experts.

    Raises:
        CostError: if a parameter has no tensor, or its floating-point tensors have another number of elements.
    """
    matches, found, packed = _Matches(model, tensors), Counter[str](), set[str]()
    by_module: dict[str, list[str]] = defaultdict(list)
    for name in matches.parameters:
        by_module[name.rpartition(".")[0]].append(name)
    base = f"{getattr(model, 'base_model_prefix', '')}."
    for tensor in tensors:
        renamed = tensor.name
        for old, new in RENAMED.items():
            renamed = renamed.replace(old, new)
        candidates = [each for name in (renamed, tensor.name) for each in (name, base + name, name.removeprefix(base))]
        held = _parameters_held(candidates, matches.parameters, by_module)
        matches.add(tensor, held)
        if held and held[0] in candidates and not tensor.format.startswith(("int", "uint")):
            found[held[0]] += tensor.size
        else:
            packed.update(held)
    sizes = {name: matches.parameters[name].numel() for name in found if name not in packed}
    if wrong := [name for name, size in sizes.items() if found[name] != size]:
        stated = ", ".join(f"{name} ({found[name]:,} of {sizes[name]:,})" for name in wrong[:FEW])
        raise CostError(
            f"its tensors do not fit {type(model).__name__} of the config.json beside it: {stated} elements"
        )
    if missing := matches.missing():
        listed = ", ".join(missing[:FEW])
        raise CostError(f"it has no weights for {len(missing)} parameters of {type(model).__name__}: {listed}")
    return matches.file()


def _parameters_held(
    candidates: Sequence[str], parameters: Mapping[str, Parameter], by_module: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    # Names may have the prefix of the model, or lack it.
    for name in candidates:
        if name in parameters:
            return [name]
    for name in candidates:
        words = name.split(".")
        for end in range(len(words) - 1, 0, -1):
            own = by_module.get(".".join(words[:end]), ())
            if matrices := [each for each in own if parameters[each].ndim > 1 and words[-1] != "bias"]:
                kinds = [each for each in matrices if (words[-2] in DOWN) == each.endswith("down_proj")]
                return kinds if end < len(words) - 1 and kinds else matrices
    return ()


def _bits(widest: StoredTensor, size: int) -> int:
    # An integer of a packed format may hold several weights.
    if widest.format.startswith(("int", "uint")) and size:
        return max(1, min(widest.bits, round(8 * widest.nbytes / size)))
    return widest.bits
