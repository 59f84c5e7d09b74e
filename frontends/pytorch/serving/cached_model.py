"""A language model on the meta device that runs on new tokens after others that are in its cache."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn import Module

from costcore.errors import CostError
from costcore.studies.serving.cached_model import CachedPart, CacheStorages, Latent, PackedWeight, Parameter, StoredFile
from costcore.trace.gc_paused import collector_off
from costcore.trace.recorder import Recorder

from ..capture.context import capture
from ..capture.dispatch_mode import CaptureMode
from ..kept_tensors import clear_caches
from ..meta.model_copy import meta_copy
from ..meta.operands import META
from ..meta.values import Values
from ..model_errors import ModelErrorContext
from ..module_walk import modules_of, not_compiled
from ..tensors import dtype_name
from .caches import DEFAULT, Part, cache_argument, maker, parts, stretch
from .quantized import with_plain_linears

LAST_ONLY = "logits_to_keep"
"""The argument of models of transformers that states for how many of the last tokens scores are computed."""

FEW = 16
"""Tokens after which states are as large as they stay, such as those of a convolution over the last few tokens."""

LATENT = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "num_heads")
"""The attributes of attention modules that make keys and values of one latent vector."""


class MetaCachedModel:
    """A :class:`costcore.studies.serving.cached_model.CachedModel` of a PyTorch module. The module stays as it is.

    Args:
        model: a language model that takes ``input_ids`` and a cache, such as those of transformers.
        cache: the cache that it runs with, see :func:`.caches.maker`.
        dtype: the dtype in which it is served; None: that of its weights. A model with a recurrence runs in it, because
            its states may have another dtype, and do not follow that of the weights.
        file: how the file that it was read from stores its weights.

    Raises:
        ValueError: for an unknown cache.
        CostError: if the model takes no cache, or cannot be copied.
    """

    def __init__(self, model: Module, cache: str, dtype: str | None = None, file: StoredFile | None = None) -> None:
        if not isinstance(model, Module):
            raise CostError(f"{type(model).__name__} takes no cache; pass the module that it was made of")
        model = not_compiled(model)
        if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            raise CostError(f"{type(model).__name__} has an encoder: only decoders can be served with a cache")
        if _sees_later_tokens(model):
            raise CostError(
                f"{type(model).__name__} is an encoder, whose tokens attend to later ones: nothing can be cached; "
                "for a decoder make it with is_decoder=True in its configuration"
            )
        self._argument = cache_argument(model)
        self._make_cache = maker(cache)
        self._is_of_transformers = cache == DEFAULT
        self._model, self.file = model, file
        self._values = Values()
        plain, self.packed = with_plain_linears(model)
        self._meta = meta_copy(plain, self._values).eval()
        _group_experts(self._meta)
        self.name = type(model).__name__
        self.parameters = list(_parameters(self._meta, self.packed))
        largest = max(self.parameters, key=lambda each: each.size, default=None)
        self.dtype = "float32" if largest is None else largest.dtype
        self.latents = list(_latents(self._meta))
        self.most_tokens = _most_tokens(getattr(model, "config", None))
        self._is_recurrent = False
        self.parts = self._parts()
        self._is_recurrent = any(part.fixed for part in self.parts)
        if self._is_recurrent and dtype is not None and isinstance(getattr(torch, dtype, None), torch.dtype):
            self._meta.to(getattr(torch, dtype))
            self.parts = self._parts()

    def _parts(self) -> Sequence[CachedPart]:
        """Return what the layers keep of one sequence, by kind of layer."""
        short, longer = ([*parts(self._filled(1, tokens))] for tokens in (FEW, FEW + 1))
        self._states = self._states_among(short, longer)
        before, after = _sizes(short), _sizes(longer)
        bits: dict[int | None, int] = defaultdict(int)
        for i in self._states:
            tensor, window = longer[i]
            bits[window] += 8 * tensor.nbytes
        found = []
        for window, size in after.items():
            per_token = size - before.get(window, 0)
            found.append(CachedPart(per_token, window, size - (FEW + 1) * per_token, bits.get(window)))
        return found

    def _states_among(self, short: Sequence[Part], longer: Sequence[Part]) -> frozenset[int]:
        """Return the places of the arrays of a cache of transformers that are as large for one token more.

        Arrays with a window are keys and values. A cache of a plug-in may be in memory that is there.
        """
        if not self._is_of_transformers or len(short) != len(longer):
            return frozenset()
        pairs = enumerate(zip(short, longer, strict=True))
        return frozenset(i for i, ((a, _), (b, window)) in pairs if window is None and a.shape == b.shape)

    @collector_off()
    def record(self, recorder: Recorder, batch: int, tokens: int, past: int, last_only: bool) -> CacheStorages:
        """Record a pass, and return the ids of the storages of the cache before and after it.

        Raises:
            CostError: if the model fails, or takes no such argument.
        """
        cache = self._filled(batch, past) if past else self._make_cache(self._meta)
        before = [*parts(cache)]
        with capture(recorder, is_estimate=True) as mode:
            self._run(mode, cache, batch, tokens, last_only)
            (identities,) = (log.identities for log in mode.recording.logs if log.recorder is recorder)
            found: dict[bool, set[int]] = {False: set(), True: set()}
            for i, (tensor, _) in (*enumerate(before), *enumerate(parts(cache))):
                found[i in self._states].add(identities.storages[identities.of(tensor)[1]])
        return CacheStorages(frozenset(found[False] - {0}), frozenset(found[True] - found[False] - {0}))

    def _filled(self, batch: int, tokens: int) -> Any:
        """Return a cache that holds so many tokens of each sequence.

        A recurrence may run in a loop over tokens: of such a model few tokens run, and keys and values are stretched.
        """
        cache = self._make_cache(self._meta)
        run = min(tokens, FEW) if self._is_recurrent else tokens
        with capture(Recorder(), is_estimate=True) as mode:
            self._run(mode, cache, batch, run, last_only=False)
        if run < tokens:
            stretch(cache, run, tokens)
        return cache

    def _run(self, mode: CaptureMode, cache: Any, batch: int, tokens: int, last_only: bool) -> None:
        mode.values.update(self._values)
        ids = torch.empty((batch, tokens), dtype=torch.int64, device=META)
        options: dict[str, Any] = {self._argument: cache, "use_cache": True}
        if last_only:
            options[LAST_ONLY] = 1
        accepted = inspect.signature(self._model.forward).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
        if last_only and LAST_ONLY not in accepted:
            raise CostError(f"{self.name} computes scores for all tokens: its forward has no argument {LAST_ONLY}")
        given = {name: value for name, value in options.items() if name in accepted or takes_all}
        errors = ModelErrorContext(self._model, mode.recording, "forward", [ids], self._values.missed)
        clear_caches(self._model)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), errors:
                self._meta(input_ids=ids, **given)
        finally:
            clear_caches(self._model)


def _sizes(cached: Sequence[Part]) -> Mapping[int | None, int]:
    """Return the elements in a cache by window."""
    sizes: dict[int | None, int] = defaultdict(int)
    for tensor, window in cached:
        sizes[window] += tensor.numel()
    return sizes


def _sees_later_tokens(model: Module) -> bool:
    """Return whether a model that can be a decoder is an encoder, as BERT is: no attention of it is causal.

    Transformers 4 calls the attention of a decoder that, others causal.
    """
    found = (getattr(module, name, None) for module in modules_of(model) for name in ("is_causal", "is_decoder"))
    flags = {flag for flag in found if isinstance(flag, bool)}
    return flags == {False} and getattr(getattr(model, "config", None), "is_decoder", None) is False


def _group_experts(model: Module) -> None:
    """Let mixtures of experts run as grouped products, in which the same calls run for any number of tokens."""
    for module in modules_of(model):
        config: Any = getattr(module, "config", None)
        if getattr(config, "_experts_implementation", None) not in (None, "grouped_mm"):
            config._experts_implementation = "grouped_mm"


def _parameters(model: Module, packed: Mapping[str, PackedWeight]) -> Iterator[Parameter]:
    seen: set[int] = set()
    for path, module in model.named_modules():
        for parameter in module._parameters.values():
            is_packed = path in packed and parameter is not None and parameter.ndim > 1
            if parameter is not None and not is_packed and id(parameter) not in seen:
                seen.add(id(parameter))
                yield Parameter(path, parameter.numel(), parameter.ndim, dtype_name(parameter.dtype))


def _latents(model: Module) -> Iterator[Latent]:
    for path, module in model.named_modules():
        found = [getattr(module, name, None) for name in LATENT]
        values = [each for each in found if isinstance(each, int) and each > 0]
        if len(values) == len(LATENT):
            rank, rope, nope, value, heads = values
            yield Latent(path, heads, rank, rope, rope + nope, value)


def _most_tokens(config: Any) -> int | None:
    text = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    found = getattr(text, "max_position_embeddings", None)
    return found if isinstance(found, int) else None
