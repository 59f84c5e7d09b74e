"""Models of libraries by name, and their default inputs.

``timm:resnet50``, ``torchvision:resnet50`` and ``hf:bert`` are made from their configuration, without weights. A
configuration of transformers is untrusted: its code never runs, and the size and build time of its model are limited.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch.nn import Module, Parameter
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from costcore.errors import CostError, did_you_mean, import_problem, short_repr
from costcore.files import exists, is_folder, read_text
from costcore.ir import Tensor

from .callables import keras_inputs
from .meta.values import META
from .tensors import dtype_name

# Models of transformers by the type or file of their configuration


HUGGING_FACE_SOURCE = "configuration of transformers"
KERAS_SOURCE = "the inputs of the Keras model"

DECODER_TOKENS, ENCODER_TOKENS = 4096, 512
"""Maximum tokens of the default sequence of a causal language model, and of any other model."""

_LIMITS = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length", "max_seq_len", "seq_length")
"""Settings with the maximum number of tokens in a sequence."""

_POSITIONS = "position_embeddings"

BESIDE_PIXELS = {
    *("grid_thw", "image_grid_thw", "image_position_ids", "pixel_position_ids", "spatial_shapes"),
    *("pixel_attention_mask", "aspect_ratio_ids", "high_res_pixel_values"),
}
"""Arguments that describe images beside their pixels; they have no default."""

_SIZES_OF_IMAGES = ("image_grid_pinpoints", "spatial_merge_size")
"""Settings of models that also need the argument ``image_sizes``, as LLaVA-NeXT and Mistral 3 do."""

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

_SECOND = 16_000
"""Samples per second of sound in speech models of transformers; each spectrum covers 160 samples."""

_MELS = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim")
"""Settings with the number of features of a spectrum."""


def make_hugging_face(name: str) -> tuple[Module, str]:
    """Return the model of a configuration without weights, and a note on it or ``""``.

    Args:
        name: the path of a configuration or of its folder; a type of models, ``bert``, for its default configuration;
            or the name of a repository whose configuration is in the local cache.

    Raises:
        ImportError: if transformers is not installed.
        CostError: if there is no such configuration; the message says where it was looked for.
    """
    config, is_default, unread = _config(name)
    try:
        model = _model(config)
    except (CostError, ImportError):
        raise
    except Exception as error:  # code of a library can raise anything
        if not is_default:
            raise
        reason = f"{type(error).__name__}: {error!s:.200}".partition("\n")[0]
        raise CostError(
            f"the default configuration of {name!r} makes no model ({reason}). Pass another one, hf:path/config.json"
        ) from error
    dtype = getattr(config, "dtype", None)
    if dtype is not None:
        model = model.to(dtype)
    kind = f"{type(model).__name__} of the default configuration of the type {name!r}"
    return model, f"{kind}, which may match no published model" if is_default else unread


CHANGES_COSTS = ("sliding_window", "num_experts", "num_local_experts", "n_routed_experts", "attention_chunk_size")
"""Keys that change costs in some models: reported if this configuration ignores them."""


def _ignored_settings(settings: Mapping[str, Any], config: Any) -> str:
    # Configurations of transformers accept and ignore any key.
    kind = type(config)
    known = {*kind().to_dict(), *kind.attribute_map}
    sizes = [key for key, value in settings.items() if type(value) is int and key not in known]
    near = {key: did_you_mean([key], [each for each in known if each not in settings]) for key in sizes}
    found = [f"{key!r}{hint.rstrip('.')}" for key, hint in near.items() if hint or key in CHANGES_COSTS]
    return f"{kind.__name__} does not read {'; '.join(found)}" if found else ""


def _config(name: str) -> tuple[Any, bool, str]:
    # Nothing is downloaded, and no code of the configuration is run.
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if not exists(name) and name in CONFIG_MAPPING:
        return CONFIG_MAPPING[name](), True, ""
    path = name if exists(name) else _cached(name, [str(kind) for kind in CONFIG_MAPPING])
    settings, has_code = read_config(path)
    kind = settings.get("model_type")
    if has_code and not (isinstance(kind, str) and kind in CONFIG_MAPPING):
        raise CostError(
            f"the configuration {name} needs code of its own (auto_map), which is not run. Pass code that makes the "
            f"model, as file.py:factory"
        )
    try:
        with TemporaryDirectory() as folder:  # the settings without keys that name code
            Path(folder, CONFIG).write_text(json.dumps(settings), encoding="utf-8")
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].replace(folder, name)
        raise CostError(f"the configuration {name} cannot be read: {reason}") from error
    config._name_or_path = name
    return config, False, _ignored_settings(settings, config)


def _cached(name: str, types: Sequence[str]) -> str:
    """Return the configuration of a repository in the local cache.

    Raises:
        CostError: if there is none; the message suggests near matches.
    """
    from transformers.utils import cached_file

    try:
        if found := cached_file(name, CONFIG, local_files_only=True):
            return str(found)
    except (OSError, ValueError) as error:
        if name.endswith(".json") or Path(name).is_absolute():
            raise CostError(f"the configuration {name} does not exist") from error
    raise CostError(
        f"there is no configuration of {name!r} in the local cache, and nothing is downloaded. Pass the path of "
        f"its config.json, hf:path/config.json, or a type of models for its default configuration, such as hf:bert"
        f"{did_you_mean([name.rpartition('/')[2].partition('-')[0]], types)}"
    )


def _model(config: Any) -> Module:
    import transformers

    if hasattr(config, PRETRAINED):
        setattr(config, PRETRAINED, False)
    found = (getattr(transformers, name, None) for name in config.architectures or ())
    kinds = [each for each in found if isinstance(each, type) and issubclass(each, transformers.PreTrainedModel)]
    automatic: Any = transformers.AutoModel
    if not kinds and type(config) not in transformers.MODEL_MAPPING:
        kinds = [_class_of(config)]
    with bounded():
        model: Module = kinds[0](config) if kinds else automatic.from_config(config, trust_remote_code=False)
    return model


def _class_of(config: Any) -> Any:
    # AutoModel does not know models of a single task, nor parts of models, such as the text encoder of CLIPSeg.
    from transformers import PreTrainedModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    place = type(config).__module__
    models = place.replace(".configuration_", ".modeling_")
    if find_spec(models) is not None:
        made: Any = import_module(models)
        public = [getattr(made, name) for name in made.__all__]
        kinds: list[Any] = [each for each in public if isinstance(each, type) and issubclass(each, PreTrainedModel)]
        kinds = [each for each in kinds if each.config_class is type(config) and each.forward is not Module.forward]
        if kinds:
            return min(kinds, key=lambda kind: not kind.__name__.endswith("Model"))  # prefer models without a head
    folder = place.split(".")[-2]
    whole = next((f", such as hf:{kind}" for kind in CONFIG_MAPPING if kind.replace("-", "_") == folder), "")
    raise CostError(f"transformers has no model of {config.model_type!r} alone. Pass the model that contains it{whole}")


def hugging_face_inputs(model: Module, name: str) -> Any:
    """Return the default inputs of a transformers model, by argument; None for a model of another library."""
    if not type(model).__module__.startswith("transformers.") or not hasattr(model, "dummy_inputs"):
        return None
    config: Any = model.config
    accepted = signature(model.forward).parameters
    main = str(model.main_input_name)
    needs_more = _needs_more_than_pixels(accepted, config)
    if needs_more and main != "input_ids":
        main = "input_ids"  # use text alone
    inputs = dict(_main_inputs(main, model, config))
    if not inputs:
        return None
    if "pixel_values" in accepted and getattr(config, "vision_config", None) is not None and not needs_more:
        inputs |= _main_inputs("pixel_values", model, config)
    if "input_features" in accepted and hasattr(model, "get_audio_features") and hasattr(model, "get_text_features"):
        inputs |= _main_inputs("input_features", model, config)  # contrastive models take sound beside the text
    required = {key for key, each in accepted.items() if each.default is each.empty and each.kind not in VARIADIC}
    if "input_ids" in required - inputs.keys():
        inputs["input_ids"] = Tensor((1, _tokens(model, config)), "int64")
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted:
        ids = inputs.get("input_ids", Tensor((1, 1), "int64"))
        inputs.setdefault("decoder_input_ids", ids)
    for key, value in inputs.items():
        if isinstance(value, tuple) and not all(isinstance(size, int) and size >= 0 for size in value):
            raise CostError(
                f"the configuration has no default input: {key} would have the shape {short_repr(value)}. Pass inputs"
            )
    inputs = {key: value for key, value in inputs.items() if key in accepted}
    return inputs if inputs and required <= inputs.keys() else None


def _needs_more_than_pixels(accepted: Mapping[str, Any], config: Any) -> bool:
    has_sizes = "image_sizes" in accepted and any(hasattr(config, name) for name in _SIZES_OF_IMAGES)
    return has_sizes or bool(accepted.keys() & BESIDE_PIXELS)


def _main_inputs(main: str, model: Any, config: Any) -> Mapping[str, Any]:
    if main in ("pixel_values", "pixel_values_videos"):
        return {main: _image(config)}
    sound = getattr(config, "audio_config", None) or getattr(config, "encoder_config", None) or config
    mels = next((getattr(sound, name) for name in _MELS if getattr(sound, name, None)), None)
    if main == "input_features" and mels and hasattr(sound, "spec_size"):  # CLAP folds a spectrogram into a square
        return {main: (1, 1, sound.spec_size * (sound.spec_size // mels), mels)}
    if main == "input_features" and mels:
        frames = getattr(config, "max_source_positions", None)
        return {
            main: (1, mels, 2 * frames) if frames and hasattr(config, "num_mel_bins") else (1, _SECOND // 160, mels)
        }
    if main == "input_values" and mels:  # a spectrogram
        return {main: (1, config.max_length, mels)} if hasattr(config, "max_length") else {}
    if main == "input_values":
        is_codec = hasattr(config, "codebook_size")
        return {main: (1, getattr(config, "audio_channels", 1), _SECOND) if is_codec else (1, _SECOND)}
    # Leave out masks, as costs would depend on their values, and arguments that are None, such as the languages of XLM.
    dummies = {key: x for key, x in model.dummy_inputs.items() if "mask" not in key and x is not None}
    shapes = {key: tuple(x.shape) for key, x in dummies.items()}
    is_text = not any(hasattr(config, f"{each}_config") for each in ("vision", "audio"))
    if "input_ids" in shapes and (is_text or _needs_more_than_pixels(signature(model.forward).parameters, config)):
        ids, text = shapes["input_ids"], (1, _tokens(model, config))
        shapes = {key: text if shape == ids else shape for key, shape in shapes.items()}
    return {key: Tensor(shape, dtype_name(dummies[key].dtype)) for key, shape in shapes.items()}


def _tokens(model: Module, config: Any) -> int:
    # The default length of sequences of such models, or the maximum of the configuration if that is smaller.
    from transformers.models.auto import modeling_auto as names

    is_masked = config.model_type in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(
        config, "is_decoder", False
    )
    is_causal = config.model_type in names.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not is_masked
    # without their own kernels, stateful models (Mamba, RWKV) loop over tokens in Python
    has_state = hasattr(config, "state_size") or config.model_type == "rwkv"
    has_state |= hasattr(config, "mamba_d_state") and not hasattr(config, "mamba_chunk_size")
    default = DECODER_TOKENS if is_causal and not (config.is_encoder_decoder or has_state) else ENCODER_TOKENS
    return max(1, min((default, *_positions(model, config))))


def _positions(model: Module, config: Any) -> list[int]:
    limits = (getattr(config, name, None) for name in _LIMITS)
    # some encoders number positions from padding_idx + 1
    padded = (x for x in model.modules() if hasattr(x, "padding_idx") and hasattr(x, _POSITIONS))
    offset = next((x.padding_idx + 1 for x in padded), 0)
    return [limit - offset for limit in limits if isinstance(limit, int) and limit > 0]


def beyond_positions(model: Module, ids: object) -> list[str]:
    """Return a note if a model of transformers has fewer positions than its sequences have tokens."""
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "get_text_config") or getattr(config, "is_encoder_decoder", False):
        return []
    known = _positions(model, config.get_text_config(decoder=True))
    shape: Any = getattr(ids, "shape", ())
    if not known or len(shape) != 2 or shape[1] <= min(known):
        return []
    return [f"the model has positions for {min(known)} tokens, fewer than {shape[1]}"]


def _image(config: Any) -> tuple[int, ...]:
    config = getattr(config, "vision_config", None) or config
    size = getattr(config, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else (*size, *size)[:2]
    frames = getattr(config, "num_frames", None)
    channels = getattr(config, "num_channels", None) or 3
    return (1, *([] if frames is None else [frames]), channels, height, width)


# A ``config.json`` of transformers is untrusted: only its settings are used


CONFIG = "config.json"

MOST_CONFIG_BYTES = 2**25
"""Maximum size of a file; the names of 21,000 labels take 2 MB."""

NAMES_CODE = frozenset(
    (
        *("auto_map", "custom_pipelines"),
        *(f"{prefix}{kind}_implementation{suffix}" for prefix in ("", "_") for kind in ("attn", "experts")
          for suffix in ("", "_internal", "_autoset")),
        *("configuration_files", "kernel_config", "use_kernels"),
    )
)  # fmt: skip
"""Settings that name code: in the folder, in a repository, or kernels of a hub."""

PRETRAINED = "use_pretrained_backbone"
"""The setting that loads a part of a model from a hub, with weights."""

ELSEWHERE = re.compile(r"[\w-]+:.*", re.DOTALL)
"""A timm name with the source of its weights, ``hf-hub:timm/resnet18`` or ``local-dir:/models``."""

NOT_SIZES = re.compile(r"theta|base|factor|scale|eps|epsilon|token_id|model_max_length")
"""Settings that may be large, as they are not sizes: the base of rotary embeddings is 10**10 in some models."""

MOST: Mapping[re.Pattern[str], int] = {
    re.compile(r"(.*_)?(n_layers?|layers?|depths?|blocks?|n_blocks?)"): 256,
    re.compile(r".*labels"): 10**5,
    re.compile(r".*position.*|n_ctx|.*(source|target|seq|context).*(length|len).*|max_.*length"): 2**24,
    re.compile(r"(num|n)_.*|.*_(num|n)_.*|.*experts.*"): 10**6,
    re.compile(r".*"): 2**31,
}
"""Maximum value by the name of a setting: models have a module per layer, a table per position, and so on."""

MOST_VALUES = 10**6
"""Maximum number of values in a file."""


def read_config(path: str) -> tuple[dict[str, Any], bool]:
    """Return the settings of a configuration without keys that name code, and whether it had ``auto_map``.

    Args:
        path: the file, or its folder.

    Raises:
        FileError: if it cannot be read.
        CostError: if it is not a configuration, or has values that :func:`_check` refuses.
    """
    file = str(Path(path) / CONFIG) if is_folder(path) else path
    try:
        found = json.loads(read_text(file, limit=MOST_CONFIG_BYTES))
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
        CostError: if a value exceeds those of all models, or names a model in a hub or folder.
    """
    names = settings.get("architectures")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise CostError(f"{file}: architectures is {short_repr(names)} (expected a list of names of classes)")
    for count, (name, value) in enumerate(_values(settings)):
        if count >= MOST_VALUES:
            raise CostError(f"{file} has more than {MOST_VALUES:,} values")
        if isinstance(value, int) and not NOT_SIZES.search(name):
            most = next(most for pattern, most in MOST.items() if pattern.fullmatch(name))
            if abs(value) > most:
                raise CostError(f"{file}: {name} is {short_repr(value)} (expected at most {most:,})")
        if isinstance(value, str) and name in ("architecture", "backbone") and ELSEWHERE.fullmatch(value):
            raise CostError(f"{file}: {name} is {short_repr(value)}, and models of a hub or folder are not loaded")


def _values(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
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
    if isinstance(value, dict):
        kept = {name: _without_code(inner) for name, inner in value.items() if name not in NAMES_CODE}
        return kept | ({PRETRAINED: False} if PRETRAINED in kept else {})
    return [_without_code(inner) for inner in value] if isinstance(value, list) else value


# Limits on the time and memory of making a model


MOST_PARTS = 200_000
"""Maximum modules and parameters; a model of 61 layers with 256 experts each, as modules, has 100,000."""

MOST_CALLS = 10**6
"""Maximum calls of PyTorch, which initialize weights."""

MOST_SECONDS = 5.0
"""Maximum seconds of CPU time between two parts or calls: loops in Python over all positions take hours."""

MOST_MODEL_BYTES = 2**29
"""Maximum bytes of a computed tensor: a table of positions, a mask."""

SMALL = 2**22
"""Results with fewer elements are not checked."""

FACTORIES = frozenset(
    getattr(torch, name)
    for name in ("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "zeros")
)
"""Factory functions, which take sizes."""


class _StoppedError(BaseException):
    # A ``BaseException``: no code of a library catches it as an error.
    pass


@contextmanager
def bounded() -> Iterator[None]:
    """Refuse a model with too many parts or calls, or with a slow part; keep large tensors on the meta device.

    Raises:
        CostError: if the model that is made inside exceeds these limits.
    """
    watch = _BuildLimits()
    handles = [
        register_module_module_registration_hook(watch.part),
        register_module_parameter_registration_hook(watch.part),
    ]
    try:
        try:
            with _SmallTensors(watch.call):
                watch.start()
                yield
        finally:
            watch.stop()
            for handle in handles:
                handle.remove()
    except _StoppedError:
        raise CostError(
            f"the model takes more than {MOST_SECONDS:g} seconds to make one of its parts, or to initialize it"
        ) from None


class _BuildLimits:
    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._clock = _cpu_clock(self._thread)
        self._parts, self._calls, self._last = 0, 0, self._clock()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._is_raised = False
        self._n_outer_imports = self._n_imports()

    def part(self, *_: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._parts += 1
        self._last = self._clock()
        if self._parts > MOST_PARTS:
            raise CostError(f"the model has more than {MOST_PARTS:,} modules and parameters")

    def call(self) -> None:
        self._calls += 1
        self._last = self._clock()
        if self._calls > MOST_CALLS:
            raise CostError(f"the model makes more than {MOST_CALLS:,} calls of PyTorch before it runs")

    def start(self) -> None:
        threading.Thread(target=self._watch_time, daemon=True).start()

    def stop(self) -> None:
        """Stop watching; an exception that was set must not be raised later."""
        try:
            with self._lock:
                self._ended.set()
            if self._is_raised:
                # The exception may have arrived already, so set it again and wait for it. Clearing it with NULL would
                # leave CPython's flag of a pending exception set: under a tracer, Python 3.11 then loops for ever.
                self._set_exception()
                while True:
                    pass
        except _StoppedError:
            self._ended.set()

    def _set_exception(self) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(_StoppedError))

    def _watch_time(self) -> None:
        while not self._ended.wait(max(self._last + MOST_SECONDS - self._clock(), 0.05)):
            with self._lock:
                is_late = self._clock() - self._last > MOST_SECONDS
                if is_late and self._n_imports() > self._n_outer_imports:
                    self._last, is_late = self._clock(), False
                if is_late and not self._ended.is_set() and not self._is_raised:
                    self._is_raised = True
                    self._set_exception()

    def _n_imports(self) -> int:
        # Imports are never stopped: a half-made module would stay in ``sys.modules``, and later models would fail.
        frame, n = sys._current_frames().get(self._thread), 0
        while frame is not None:
            n += frame.f_code.co_name == "_find_and_load"
            frame = frame.f_back
        return n


def _cpu_clock(thread: int) -> Callable[[], float]:
    # CPU time of the thread, so that a busy machine does not count against the model. Windows has only wall time.
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    return partial(time.clock_gettime, time.pthread_getcpuclockid(thread))


class _SmallTensors(TorchFunctionMode):
    # Makes large tensors on the meta device: weights need only a shape, and huge tables must not be computed.
    def __init__(self, note: Callable[[], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self._note()
        is_parameter = args and isinstance(args[0], torch.Tensor) and args[0].is_meta
        if is_parameter:  # a fast path: every read of an attribute of a parameter comes here
            return function(*args, **kwargs)
        if _max_elements((args, kwargs)) > SMALL:
            on_meta = {**_moved_to_meta(kwargs), **({"device": META} if function in FACTORIES else {})}
            with suppress(RuntimeError, TypeError, ValueError):  # the real call below raises its own error
                made = function(*_moved_to_meta(tuple(args)), **on_meta)
                if isinstance(made, torch.Tensor) and made.untyped_storage().nbytes() > MOST_MODEL_BYTES:
                    return made
        return function(*args, **kwargs)


def _max_elements(value: Any) -> int:
    # An upper bound on the elements of the result: the product of all sizes and numbers of the arguments
    if isinstance(value, torch.Tensor):
        return int(max(value.numel(), 1))
    if isinstance(value, (int, float)):
        return int(max(min(abs(value), 2.0**62), 1)) if value == value else 1
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    bound: int = prod(map(_max_elements, inner))
    return bound


def _moved_to_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(META)
    if isinstance(value, Mapping):
        return {name: _moved_to_meta(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_moved_to_meta, value)) if type(value) in (list, tuple) else value
    return value


def _no_model(library: str, name: str, known: Sequence[str], listing: str) -> str:
    """Return the message for an unknown name, with near matches or a command that lists all names."""
    near = did_you_mean([name], known)
    parts = [f"{library}:{each}" for each in known if name.lower() in each][:3] if not near else []
    hint = near or (f". Did you mean {', '.join(parts)}?" if parts else "")
    every = f"python -c 'import {library}; print({listing})'"
    return f"{library} has no model {name!r}{hint or f'. One of its models is resnet50; all names: {every}'}"


# Models of timm


TIMM_SOURCE = "pretrained_cfg of timm"


def make_timm(name: str) -> tuple[Module, str]:
    """Return the model of that name without weights, and a note on it.

    Raises:
        ImportError: if timm is not installed.
        CostError: for an unknown name; the message suggests near matches.
    """
    import timm

    if not timm.is_model(name):
        raise CostError(_no_model("timm", name, timm.list_models(), "timm.list_models()"))
    model: Module = timm.create_model(name, pretrained=False)
    return model, ""


def timm_inputs(model: Module, name: str) -> Any:
    """Return the shape of the input in the configuration of a model; None for a model of another library."""
    if not type(model).__module__.startswith("timm."):
        return None
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    size = config.get("input_size") if isinstance(config, dict) else getattr(config, "input_size", None)
    return (1, *size) if size else None


# Models of torchvision


TORCHVISION_SOURCE = "the transforms of torchvision's weights"

_CLIP_LENGTH = 16
"""The number of frames on which torchvision's video networks are evaluated."""

_DETECTION_SIZE = (800, 800)
"""The size to which torchvision's detectors resize a square image."""


def make_torchvision(name: str) -> tuple[Module, str]:
    """Return the model of that name without weights, and a note on it.

    Raises:
        ImportError: if torchvision is not installed.
        CostError: for an unknown name; the message suggests near matches.
    """
    from torchvision import models

    if name not in models.list_models():
        raise CostError(_no_model("torchvision", name, models.list_models(), "torchvision.models.list_models()"))
    builder = models.get_model_builder(name)
    options = {key: None for key in ("weights", "weights_backbone") if key in inspect.signature(builder).parameters}
    return builder(**options), ""


def torchvision_inputs(model: Module, name: str) -> Any:
    """Return the input shape of a model's published weights; None for a model of another library.

    Without a name, it is the shape that all weights in the Python module of its class share.
    """
    module = sys.modules.get(type(model).__module__)
    if module is None or not module.__name__.startswith("torchvision.models."):
        return None
    if module.__name__.startswith("torchvision.models.detection."):
        return [[(3, *_DETECTION_SIZE)]]
    shapes = {_shape(weights) for weights in _weights(module, name)}
    shape = shapes.pop() if len(shapes) == 1 else None
    return (shape, shape) if shape is not None and ".optical_flow." in module.__name__ else shape


def _weights(module: ModuleType, name: str) -> Iterable[Any]:
    # Without a name: all weights that the module of its class defines
    from torchvision.models import WeightsEnum, get_model_weights, list_models

    if name in list_models():
        default: Any = getattr(get_model_weights(name), "DEFAULT", None)
        return () if default is None else (default,)
    kinds: list[Any] = [x for x in vars(module).values() if inspect.isclass(x) and issubclass(x, WeightsEnum)]
    return [weights for kind in kinds for weights in kind]


def _shape(weights: Any) -> tuple[int, ...] | None:
    # None: the transforms keep the size of images.
    transforms = weights.transforms()
    size = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    if not size:
        return (1, 3, 520, 960) if type(transforms).__name__ == "OpticalFlow" else None
    height, width = (*size, *size)[:2]
    if type(transforms).__name__ == "VideoClassification":
        return (1, 3, _CLIP_LENGTH, height, width)
    return (1, 3, height, width)


# Models by prefix and name


LIBRARIES: Mapping[str, tuple[str, Callable[[str], tuple[Module, str]]]] = {
    "hf": ("transformers", make_hugging_face),
    "timm": ("timm", make_timm),
    "torchvision": ("torchvision", make_torchvision),
}
"""The package and the function that makes a model, by the prefix of targets."""


def _import(package: str) -> None:
    # A torchvision made for another PyTorch raises a RuntimeError, not an ImportError.
    try:
        import_module(package)
    except ImportError:
        raise
    except Exception as error:  # code of a library can raise anything
        raise ImportError(str(error)) from error


def library_model(prefix: str, name: str) -> tuple[Module, str]:
    """Return a model in evaluation mode without memory for its weights, and a note on it or ``""``.

    Args:
        prefix: ``hf``, ``timm`` or ``torchvision``.
        name: the name of the model there.

    Raises:
        CostError: if the library is not installed, or has no such model.
    """
    package, make = LIBRARIES[prefix]
    try:
        with without_weights(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about initializing weights, which do not exist
            _import(package)
            model, remark = make(name)
    except ImportError as error:
        raise CostError(import_problem(f"{prefix}:{name}", package, error)) from error
    return model.eval(), remark


# Default inputs


class DefaultInputs(NamedTuple):
    """The default inputs of a model.

    Attributes:
        inputs: shapes for :func:`costcore.estimate`, with a batch of 1 unless the library has another one.
        source: where they are from, ``pretrained_cfg of timm``.
    """

    inputs: Any
    source: str


def default_inputs(model: object, name: str = "") -> DefaultInputs | None:
    """Return the default inputs of a model of torchvision, timm, transformers or Keras; None for any other model.

    Args:
        model: the model.
        name: the name of the model in its library, if known.
    """
    if not isinstance(model, Module):
        return None
    for find, source in (
        (timm_inputs, TIMM_SOURCE),
        (torchvision_inputs, TORCHVISION_SOURCE),
        (hugging_face_inputs, HUGGING_FACE_SOURCE),
        (keras_inputs, KERAS_SOURCE),
    ):
        inputs = find(model, name)
        if inputs is not None:
            return DefaultInputs(inputs, source)
    return None


# Models without memory for their weights


@contextmanager
def without_weights() -> Iterator[None]:
    """Move every parameter to the meta device as soon as a module gets it. Buffers keep their values.

    Initializing the parameters afterwards computes nothing, so models of any size are built in a second.
    """
    handle = register_module_parameter_registration_hook(_parameter_on_meta)
    try:
        yield
    finally:
        handle.remove()


def _parameter_on_meta(module: Module, name: str, parameter: Any) -> Parameter | None:
    if type(parameter) is not Parameter or parameter.is_meta:
        return None
    return Parameter(parameter.detach().to(META), parameter.requires_grad)
