"""Language models with a KV cache on the meta device: passes over new tokens after tokens that are in the cache.

Later sections make and resize caches, and replace linear layers with packed (quantized) weights by plain ones.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Module
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from costcore.errors import CostError, unknown
from costcore.plugins import cached, functions_from_plugins, with_plugin_hint
from costcore.studies.serving.cached_model import (
    Blocks,
    CachedPart,
    CacheStorages,
    Latent,
    PackedWeight,
    Parameter,
    StoredFile,
)
from costcore.trace.interrupts import collector_off
from costcore.trace.run import Recorder

from .capture.context import capture
from .capture.dispatch_mode import CaptureMode
from .estimate import clear_caches
from .meta.model_copy import meta_copy
from .meta.values import META, Values
from .model_errors import ModelErrorContext
from .tensors import CACHES, CACHES_STATES, dtype_name, modules_of, not_compiled, with_modules

# A cached language model


LAST_ONLY = "logits_to_keep"
"""The argument of transformers models for the number of last tokens whose scores are computed."""

FEW = 16
"""A number of tokens after which states no longer grow, such as the inputs that a short convolution keeps."""

LATENT = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "num_heads")
"""The attributes of attention modules that compute keys and values from one latent vector."""


class MetaCachedModel:
    """A :class:`costcore.studies.serving.cached_model.CachedModel` of a PyTorch module. The module is not changed.

    Args:
        model: a language model that takes ``input_ids`` and a cache, such as a transformers model.
        cache: the name of its cache, see :func:`maker`.
        dtype: the dtype for serving; None: the dtype of the weights. Recurrent models are converted to this dtype,
            because their states may have another dtype than the weights.
        file: how a file stores the weights.

    Raises:
        ValueError: for an unknown cache.
        CostError: if the model takes no cache, or cannot be copied.
    """

    file: StoredFile | None
    packed: Mapping[str, PackedWeight]
    name: str
    parameters: list[Parameter]
    dtype: str
    latents: list[Latent]
    most_tokens: int | None
    blocks: Blocks | None
    parts: Sequence[CachedPart]
    is_recurrent: bool
    scores_all: bool

    def __init__(self, model: Module, cache: str, dtype: str | None = None, file: StoredFile | None = None) -> None:
        if not isinstance(model, Module):
            raise CostError(f"{type(model).__name__} takes no cache; pass the torch.nn.Module that it was made from")
        model = not_compiled(model)
        if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            raise CostError(f"{type(model).__name__} has an encoder: only decoders can be served with a cache")
        if _sees_later_tokens(model):
            raise CostError(
                f"{type(model).__name__} is an encoder and has no KV cache; "
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
        text = _text_config(getattr(model, "config", None))
        positions = getattr(text, "max_position_embeddings", None)
        self.most_tokens = positions if isinstance(positions, int) else None
        self.blocks = _blocks(text)
        has_scores = not hasattr(model, "get_output_embeddings") or model.get_output_embeddings() is not None
        self.scores_all = has_scores and LAST_ONLY not in inspect.signature(model.forward).parameters
        self.is_recurrent = False
        self._template: Any = None
        """The cache of one sequence of ``FEW + 1`` tokens; None if it cannot be resized to other sizes."""
        self.parts = self._parts()
        if self.is_recurrent and dtype is not None and isinstance(getattr(torch, dtype, None), torch.dtype):
            self._meta.to(getattr(torch, dtype))
            self.parts = self._parts()

    def _parts(self) -> Sequence[CachedPart]:
        # One more token shows the size per token, because states do not grow.
        (cache, n_short), (grown, n_longer) = (self._filled(1, tokens) for tokens in (FEW, FEW + 1))
        short, longer = [*cache_tensors(cache)], [*cache_tensors(grown)]
        self._states = self._states_among(short, longer)
        before, after = _elements_by_window(short), _elements_by_window(longer)
        bits: dict[int | None, int] = defaultdict(int)
        for i in self._states:
            tensor, window = longer[i]
            bits[window] += 8 * tensor.nbytes
        found = []
        for window, size in after.items():
            per_token = size - before.get(window, 0)
            found.append(CachedPart(per_token, window, size - (FEW + 1) * per_token, bits.get(window)))
        # RecurrentGemma has its states in modules, not in the cache. Such a model loops over tokens: more tokens take
        # more calls.
        stretch(cache, FEW, FEW + 1)
        grows = [tensor.shape for tensor, _ in cache_tensors(cache)] == [tensor.shape for tensor, _ in longer]
        self.is_recurrent = any(part.fixed for part in found) or (grows and n_short != n_longer)
        if self._is_of_transformers and grows and not self.is_recurrent:
            two, _ = self._filled(2, FEW)
            self._template = grown if _state(resized(grown, 1, FEW + 1, 2, FEW)) == _state(two) else None
        return found

    def _states_among(self, short: Sequence[CacheTensor], longer: Sequence[CacheTensor]) -> frozenset[int]:
        # Arrays with a window are keys and values. A cache of a plug-in may be allocated in full from the start.
        if not self._is_of_transformers or len(short) != len(longer):
            return frozenset()
        pairs = enumerate(zip(short, longer, strict=True))
        return frozenset(i for i, ((a, _), (b, window)) in pairs if window is None and a.shape == b.shape)

    @collector_off()
    def record(self, recorder: Recorder, batch: int, tokens: int, past: int, last_only: bool) -> CacheStorages:
        """Record a pass, and return the ids of the storages of the cache before and after it.

        Raises:
            CostError: if the model fails, or cannot compute the scores of the last token only.
        """
        cache = self._cache_of(batch, past) if past else self._make_cache(self._meta)
        before = [*cache_tensors(cache)]
        with capture(recorder, is_estimate=True) as mode:
            self._run(mode, cache, batch, tokens, last_only)
            (identities,) = (log.identities for log in mode.recording.logs if log.recorder is recorder)
            found: dict[bool, set[int]] = {False: set(), True: set()}
            for i, (tensor, _) in (*enumerate(before), *enumerate(cache_tensors(cache))):
                found[i in self._states].add(identities.storages[identities.of(tensor)[1]])
        return CacheStorages(frozenset(found[False] - {0}), frozenset(found[True] - found[False] - {0}))

    def _cache_of(self, batch: int, tokens: int) -> Any:
        # Filling a cache takes as long as the recorded pass: resize one unless a window would cut it.
        windows = [part.window for part in self.parts if part.window is not None]
        if self._template is None or tokens >= min(windows, default=tokens + 1):
            return self._filled(batch, tokens)[0]
        return resized(self._template, 1, FEW + 1, batch, tokens)

    def _filled(self, batch: int, tokens: int) -> tuple[Any, int]:
        # A cache, and the number of calls that filled it. Recurrent models may loop over tokens, so they run only a few
        # tokens; then keys and values are stretched.
        cache = self._make_cache(self._meta)
        run = min(tokens, FEW) if self.is_recurrent else tokens
        recorder = Recorder()
        with capture(recorder, is_estimate=True) as mode:
            self._run(mode, cache, batch, run, last_only=False)
        if run < tokens:
            stretch(cache, run, tokens)
        return cache, len(recorder.calls)

    def _run(self, mode: CaptureMode, cache: Any, batch: int, tokens: int, last_only: bool) -> None:
        mode.values.update(self._values)
        ids = torch.empty((batch, tokens), dtype=torch.int64, device=META)
        options: dict[str, Any] = {self._argument: cache, "use_cache": True}
        if last_only:
            options[LAST_ONLY] = 1
        accepted = inspect.signature(self._model.forward).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
        if last_only and self.scores_all:
            raise CostError(f"{self.name} computes scores for all tokens: its forward has no argument {LAST_ONLY}")
        given = {name: value for name, value in options.items() if name in accepted or takes_all}
        errors = ModelErrorContext(self._model, mode.recording, "forward", [ids], self._values.missed)
        clear_caches(self._model)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), errors:
                self._meta(input_ids=ids, **given)
        finally:
            clear_caches(self._model)


def _elements_by_window(cached: Sequence[CacheTensor]) -> Mapping[int | None, int]:
    sizes: dict[int | None, int] = defaultdict(int)
    for tensor, window in cached:
        sizes[window] += tensor.numel()
    return sizes


def _sees_later_tokens(model: Module) -> bool:
    # BERT can be a decoder; as an encoder, none of its attention modules is causal. Transformers 4 marks the attention
    # of decoders by ``is_decoder``, other releases by ``is_causal``.
    found = (getattr(module, name, None) for module in modules_of(model) for name in ("is_causal", "is_decoder"))
    flags = {flag for flag in found if isinstance(flag, bool)}
    return flags == {False} and getattr(getattr(model, "config", None), "is_decoder", None) is False


def _group_experts(model: Module) -> None:
    # With grouped products the calls are the same for any number of tokens.
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


def _text_config(config: Any) -> Any:
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def _blocks(config: Any) -> Blocks | None:
    heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_attention_heads", None)
    sizes = [getattr(config, "num_hidden_layers", None), getattr(config, "hidden_size", None), heads]
    known = [size for size in sizes if isinstance(size, int)]
    return Blocks(*known) if len(known) == len(sizes) else None


# Caches: their construction, and their tensors


DEFAULT = "dynamic"
"""The growing cache of transformers, whose layers depend on the configuration of a model."""

MakeCache = Callable[[Any], Any]

CacheTensor = tuple[Tensor, int | None]
"""An array in a cache, with the window of the layer that holds it."""


def cache_argument(model: Module) -> str:
    """Return the name of the argument of a model for its cache.

    Raises:
        CostError: if it takes none.
    """
    parameters = inspect.signature(model.forward).parameters
    for name in CACHES:
        if name in parameters:
            return name
    raise CostError(
        f"{type(model).__name__} takes no cache: its forward has no argument {', '.join(CACHES)}. Pass a language "
        "model of transformers, such as AutoModelForCausalLM makes, or a module with such an argument"
    )


def maker(name: str) -> MakeCache:
    """Return the function that makes an empty cache for a model.

    Args:
        name: :data:`DEFAULT`, or a name that a plug-in registers.

    Raises:
        ValueError: for an unknown name.
        CostError: if a plug-in fails.
    """
    known = {DEFAULT: _dynamic, **from_plugins()}
    if name not in known:
        raise ValueError(with_plugin_hint(unknown("cache", name, sorted(known))))
    return known[name]


@cached
def from_plugins() -> Mapping[str, MakeCache]:
    """Return the functions of plug-ins that make caches, by name.

    Raises:
        CostError: if a plug-in fails.
    """
    return {name: make for makers in functions_from_plugins("costcore_caches") for name, make in makers.items()}


def _dynamic(model: Any) -> Any:
    from transformers import DynamicCache

    config = getattr(model, "config", None)
    if config is None:
        raise CostError(
            f"{type(model).__name__} has no configuration of transformers to make a cache from; register a function "
            "that makes its cache with the hook costcore_caches, and pass its name: cache='…'"
        )
    if cache_argument(model) == CACHES_STATES and not hasattr(DynamicCache, "update_conv_state"):
        raise CostError(
            f"{type(model).__name__} keeps states of a recurrence, for which this transformers has no common "
            "cache class; install transformers 5"
        )
    return DynamicCache(config=config)


def stretch(cache: object, tokens: int, length: int) -> None:
    """Lengthen the keys and values of every layer of a cache of transformers, on the meta device.

    Args:
        cache: a cache filled with fewer tokens than any window.
        tokens: the number of tokens in it.
        length: the number of tokens to make room for.
    """
    for layer in getattr(cache, "layers", ()):
        window = getattr(layer, "sliding_window", None)
        kept = length if window is None else min(length, window - 1)
        for name in ("keys", "values"):
            held = getattr(layer, name, None)
            if isinstance(held, Tensor) and held.ndim == 4 and held.shape[-2] == tokens:
                setattr(layer, name, held.new_empty((*held.shape[:-2], kept, held.shape[-1])))
        if isinstance(getattr(layer, "cumulative_length", None), int):
            layer.cumulative_length = length


def resized(cache: Any, n_sequences: int, tokens: int, batch: int, length: int) -> Any:
    """Return a copy of a cache of transformers on the meta device, with keys and values of other sizes.

    Args:
        cache: a cache filled with fewer tokens than any window.
        n_sequences: its number of sequences.
        tokens: its tokens per sequence.
        batch: the number of sequences of the copy.
        length: tokens per sequence of the copy.
    """
    made = deepcopy(cache)
    for layer in getattr(made, "layers", ()):
        for name in ("keys", "values"):
            held = getattr(layer, name, None)
            if isinstance(held, Tensor) and held.ndim == 4 and held.shape[0] == n_sequences:
                setattr(layer, name, held.new_empty((batch, *held.shape[1:])))
    stretch(made, tokens, length)
    return made


def _state(cache: Any) -> object:
    # The shapes of its arrays, and the counters of its layers.
    counts = [
        {name: value for name, value in vars(layer).items() if isinstance(value, int)}
        for layer in (cache, *getattr(cache, "layers", ()))
    ]
    return [(tensor.shape, tensor.dtype) for tensor, _ in cache_tensors(cache)], counts


def cache_tensors(cache: object) -> Iterator[CacheTensor]:
    """Yield every array of numbers in a cache, with the window of the layer that holds it; None without one."""
    yield from _tensors_in(cache, None, set())


def _tensors_in(value: Any, window: int | None, seen: set[int]) -> Iterator[CacheTensor]:
    if isinstance(value, Tensor):
        if value.ndim > 1 and id(value) not in seen:
            seen.add(id(value))
            yield value, window
        return
    if id(value) in seen or isinstance(value, (str, bytes, int, float, type(None), type, Module)):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, (list, tuple, set)):
        inside = list(value)
    else:
        inside = list(getattr(value, "__dict__", {}).values())
        own = getattr(value, "sliding_window", None)
        window = own if isinstance(own, int) else window
    for item in inside:
        yield from _tensors_in(item, window, seen)


# Packed linear layers, and the plain layers that replace them


SIZES = (("in_features", "out_features"), ("infeatures", "outfeatures"))
"""Attributes with the sizes of a linear layer: in PyTorch, bitsandbytes, AutoAWQ and GPTQModel; in AutoGPTQ."""

BIAS = "bias"

QUANTIZES_INPUT = ("act_quant_kwargs", "input_quant_func", "SCB")
"""Weight attributes of layers that also quantize their input: torchao, and LLM.int8() of bitsandbytes."""

QUANTIZED_STATES = ("quant_state", "state2", "SCB", "absmax", "code", "offset")
"""Attributes that hold scales in bitsandbytes: of packed weights, and of their quantization states."""


def with_plain_linears(model: Module) -> tuple[Module, Mapping[str, PackedWeight]]:
    """Return a model with plain layers in place of packed ones, and the packed weights by path.

    The given model is not changed; other modules share its tensors. Without packed weights, it is returned itself.
    """
    packed = {path: found for path, module in model.named_modules() if (found := packed_weight(module)) is not None}
    if not packed:
        return model, {}
    dtype = _compute_dtype(model, packed)
    plain = {id(model.get_submodule(path)): _plain(model.get_submodule(path), dtype) for path in packed}
    return with_modules(model, plain), packed


def packed_weight(module: Module) -> PackedWeight | None:
    """Return the packed weight of a linear layer; None for any other module."""
    sizes = _linear_sizes(module)
    if sizes is None or _is_plain(module, sizes):
        return None
    held = list({id(tensor): tensor for tensor in _storages(module)}.values())
    if not held:
        return None
    size, main = sizes[0] * sizes[1], max(held, key=lambda tensor: tensor.nbytes)
    weight = getattr(module, "weight", None)
    is_subclass = isinstance(weight, Tensor) and is_traceable_wrapper_subclass(weight)
    kind = type(weight if is_subclass else module).__name__
    act = dtype_name(main.dtype) if any(getattr(weight, name, None) is not None for name in QUANTIZES_INPUT) else ""
    return PackedWeight(size, sum(each.nbytes for each in held), max(1, round(8 * main.nbytes / size)), kind, act)


def _linear_sizes(module: Module) -> tuple[int, int] | None:
    for names in SIZES:
        found = [getattr(module, name, None) for name in names]
        sizes = [size for size in found if isinstance(size, int) and not isinstance(size, bool) and size > 0]
        if len(sizes) == len(names):
            return sizes[0], sizes[1]
    return None


def _is_plain(module: Module, sizes: tuple[int, int]) -> bool:
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor):
        return not any(True for _ in _storages(module))
    if is_traceable_wrapper_subclass(weight) or hasattr(weight, "quant_state") or hasattr(weight, "SCB"):
        return False
    return bool(weight.is_floating_point()) and weight.numel() == sizes[0] * sizes[1]


def _storages(module: Module) -> Iterator[Tensor]:
    own = {**module._parameters, **module._buffers}
    for name, tensor in own.items():
        if tensor is not None and name != BIAS:
            yield from _arrays(tensor)
    if own.get("weight") is not None:
        yield from _arrays(getattr(module, "state", None))


def _arrays(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if is_traceable_wrapper_subclass(value):
            names, _ = value.__tensor_flatten__()
            for name in names:
                yield from _arrays(getattr(value, name))
        else:
            yield value
    for name in QUANTIZED_STATES:
        state = getattr(value, name, None)
        if state is not None:
            yield from _arrays(state)


def _compute_dtype(model: Module, packed: Mapping[str, PackedWeight]) -> torch.dtype:
    # The dtype of most unpacked parameters.
    counts: dict[torch.dtype, int] = {}
    for path, module in model.named_modules():
        for tensor in module._parameters.values():
            if path not in packed and tensor is not None and tensor.is_floating_point():
                counts[tensor.dtype] = counts.get(tensor.dtype, 0) + tensor.numel()
    return max(counts, key=lambda dtype: counts[dtype], default=torch.get_default_dtype())


def _plain(module: Module, dtype: torch.dtype) -> nn.Linear:
    sizes, bias = _linear_sizes(module), getattr(module, BIAS, None)
    assert sizes is not None
    return nn.Linear(*sizes, bias=isinstance(bias, Tensor), device=META, dtype=dtype)
