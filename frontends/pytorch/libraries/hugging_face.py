"""Models of transformers by the type or file of their configuration, and the inputs that they usually take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch.nn import Module

from costcore.errors import CostError
from costcore.files import exists
from costcore.ir import Tensor
from costcore.messages import did_you_mean, short_repr

from ..tensors import dtype_name
from .bounded import bounded
from .config_file import CONFIG, PRETRAINED, read_config

SOURCE = "configuration of transformers"

DECODER_TOKENS, ENCODER_TOKENS = 4096, 512
"""The most tokens of the usual sequence of a causal language model, and of any other model."""

_LIMITS = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length", "max_seq_len", "seq_length")
"""Names by which configurations state how many tokens a sequence may have."""

_POSITIONS = "position_embeddings"

_SECOND = 16_000
"""The samples of one second of sound, at the rate of the speech networks of transformers."""


def make(name: str) -> tuple[Module, str]:
    """Return the model of a configuration without weights, and a remark on it or ``""``.

    Args:
        name: the path of a configuration or of its folder; a type of models, ``bert``, for its default configuration;
            or the name of a repository whose configuration is in the local cache.

    Raises:
        ImportError: if transformers is not installed.
        CostError: if there is no such configuration; the message says where it was looked for.
    """
    config, is_default = _config(name)
    model = _model(config)
    dtype = getattr(config, "dtype", None)
    if dtype is not None:
        model = model.to(dtype)
    kind = f"{type(model).__name__} of the default configuration of the type {name!r}"
    return model, f"{kind}, which need not be that of a published model" if is_default else ""


def _config(name: str) -> tuple[Any, bool]:
    """Return a configuration, and whether it is the default one of a type. Nothing is downloaded, no code is run."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if not exists(name) and name in CONFIG_MAPPING:
        return CONFIG_MAPPING[name](), True
    path = name if exists(name) else _cached(name, [str(kind) for kind in CONFIG_MAPPING])
    settings, has_code = read_config(path)
    kind = settings.get("model_type")
    if has_code and not (isinstance(kind, str) and kind in CONFIG_MAPPING):
        raise CostError(
            f"the configuration {name} needs code of its own (auto_map), which is not run. Pass code that makes the "
            f"model, as file.py:factory"
        )
    try:
        with TemporaryDirectory() as folder:  # of what remains of the file without the names of code
            Path(folder, CONFIG).write_text(json.dumps(settings), encoding="utf-8")
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].replace(folder, name)
        raise CostError(f"the configuration {name} cannot be read: {reason}") from error
    config._name_or_path = name
    return config, False


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
    """Return a model of the class that a configuration names, else of the base class of its type."""
    import transformers

    if hasattr(config, PRETRAINED):
        setattr(config, PRETRAINED, False)
    found = (getattr(transformers, name, None) for name in config.architectures or ())
    kinds = [each for each in found if isinstance(each, type) and issubclass(each, transformers.PreTrainedModel)]
    automatic: Any = transformers.AutoModel
    with bounded():
        model: Module = kinds[0](config) if kinds else automatic.from_config(config, trust_remote_code=False)
    return model


def usual_inputs(model: Module, name: str) -> Any:
    """Return the inputs of a model by name; None for a model of another library."""
    if not type(model).__module__.startswith("transformers.") or not hasattr(model, "dummy_inputs"):
        return None
    config: Any = model.config
    accepted = signature(model.forward).parameters
    main = model.main_input_name
    inputs = dict(_of_main(str(main), model, config))
    if "pixel_values" in accepted and getattr(config, "vision_config", None) is not None:
        inputs |= _of_main("pixel_values", model, config)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted:
        ids = inputs.get("input_ids", Tensor((1, 1), "int64"))
        inputs.setdefault("decoder_input_ids", ids)
    for key, value in inputs.items():
        if isinstance(value, tuple) and not all(isinstance(size, int) and size >= 0 for size in value):
            raise CostError(f"the configuration has no usual input: {key} would have the shape {short_repr(value)}")
    return {key: value for key, value in inputs.items() if key in accepted} or None


def _of_main(main: str, model: Any, config: Any) -> Mapping[str, Any]:
    """Return the input by which a model is called, by its name."""
    if main in ("pixel_values", "pixel_values_videos"):
        return {main: _image(config)}
    if main == "input_features":
        return {main: (1, config.num_mel_bins, 2 * config.max_source_positions)}
    if main == "input_values":
        return {main: (1, _SECOND)}
    dummies = {key: x for key, x in model.dummy_inputs.items() if "mask" not in key}  # whose values would decide
    shapes = {key: tuple(x.shape) for key, x in dummies.items()}
    if "input_ids" in shapes and not any(hasattr(config, f"{each}_config") for each in ("vision", "audio")):
        ids, text = shapes["input_ids"], (1, _tokens(model, config))
        shapes = {key: text if shape == ids else shape for key, shape in shapes.items()}
    return {key: Tensor(shape, dtype_name(dummies[key].dtype)) for key, shape in shapes.items()}


def _tokens(model: Module, config: Any) -> int:
    """Return the tokens of a usual sequence: as long as people run such models, if the configuration allows it."""
    from transformers.models.auto import modeling_auto as names

    is_masked = config.model_type in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(
        config, "is_decoder", False
    )
    is_causal = config.model_type in names.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not is_masked
    # without their kernels, models with a state call operators for every token
    has_state = hasattr(config, "state_size") or config.model_type == "rwkv"
    usual = DECODER_TOKENS if is_causal and not (config.is_encoder_decoder or has_state) else ENCODER_TOKENS
    limits = (getattr(config, name, None) for name in _LIMITS)
    # positions of some encoders begin after that of padding
    offsets = (x.padding_idx + 1 for x in model.modules() if hasattr(x, "padding_idx") and hasattr(x, _POSITIONS))
    known = [limit - next(offsets, 0) for limit in limits if isinstance(limit, int) and limit > 0]
    return max(1, min((usual, *known)))


def _image(config: Any) -> tuple[int, ...]:
    config = getattr(config, "vision_config", None) or config
    size = getattr(config, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else (*size, *size)[:2]
    frames = getattr(config, "num_frames", None)
    channels = getattr(config, "num_channels", None) or 3
    return (1, *([] if frames is None else [frames]), channels, height, width)
