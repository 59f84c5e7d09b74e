"""The architectures of GGUF files: the configuration of transformers, and the names of its parameters.

Metadata has the keys of llama.cpp (``gguf/constants.py`` of its Python package), tensors its names
(``gguf/tensor_mapping.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.messages import unknown

from .gguf_file import Gguf
from .stored_tensor import StoredTensor


class Architecture(NamedTuple):
    """How transformers has an architecture of llama.cpp.

    Attributes:
        kind: the type of its configuration in transformers.
        settings: returns the settings that only this architecture has.
        names: the parts of names of parameters that differ from :data:`NAMES`.
        layers: where its layers are.
        keys: names of settings that differ from :data:`KEYS`.
    """

    kind: str
    settings: Callable[[_Head], Mapping[str, Any]] = lambda head: {}
    names: Mapping[str, tuple[str, ...]] = {}
    layers: str = "model.layers"
    keys: Mapping[str, str] = {}


class _Head:
    """What a file states of one architecture.

    Args:
        name: the architecture.
        file: the header.
    """

    def __init__(self, name: str, file: Gguf) -> None:
        self._name, self._metadata = name, file.metadata
        self.tensors: Mapping[str, StoredTensor] = {tensor.name: tensor for tensor in file.tensors}

    def has(self, tensor: str) -> bool:
        """Return whether the file has a tensor."""
        return tensor in self.tensors

    def axis(self, tensor: str, axis: int) -> int:
        """Return a size of a tensor.

        Raises:
            CostError: if the file has no such tensor, or it has no such axis.
        """
        found = self.tensors.get(tensor)
        if found is None or len(found.shape) <= axis:
            raise CostError(f"it has no tensor {tensor} with an axis {axis}")
        return found.shape[axis]

    def is_zero(self, key: str) -> bool:
        """Return whether the metadata states the integer 0."""
        value = self._metadata.get(f"{self._name}.{key}")
        return isinstance(value, int) and not isinstance(value, bool) and value == 0

    def number(self, key: str) -> int:
        """Return an integer of the metadata; of one for each layer, that of all.

        Raises:
            CostError: if there is none, or layers differ.
        """
        found = self.optional(key)
        if found is None:
            raise CostError(f"its metadata has no {self._name}.{key}")
        return found

    def optional(self, key: str) -> int | None:
        """Return an integer of the metadata as :meth:`number`; None without it."""
        value = self._metadata.get(f"{self._name}.{key}")
        if value is None:
            return None
        if isinstance(value, tuple) and len(set(value)) == 1:
            value = value[0]
        if isinstance(value, tuple):
            raise CostError(f"its layers differ in {self._name}.{key}, as no model of this type in transformers does")
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MOST:
            raise CostError(f"{self._name}.{key} is {value!r:.40} (expected an integer from 1 to {MOST:,})")
        return value


MOST = 2**31
"""The largest size that the metadata may state."""

MOST_LAYERS = 2000

KEYS = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "feed_forward_length": "intermediate_size",
}
"""Settings that every transformer has, by key."""

_ATTENTION = {
    "attn_q": ("self_attn.q_proj",),
    "attn_k": ("self_attn.k_proj",),
    "attn_v": ("self_attn.v_proj",),
    "attn_qkv": ("self_attn.qkv_proj",),
    "attn_output": ("self_attn.o_proj",),
    "attn_q_norm": ("self_attn.q_norm",),
    "attn_k_norm": ("self_attn.k_norm",),
}
_FEED_FORWARD = {
    "ffn_gate": ("mlp.gate_proj",),
    "ffn_up": ("mlp.up_proj",),
    "ffn_down": ("mlp.down_proj",),
    "ffn_gate_inp": ("mlp.gate",),
    "ffn_gate_exps": ("mlp.experts.gate_up_proj",),
    "ffn_up_exps": ("mlp.experts.gate_up_proj",),
    "ffn_down_exps": ("mlp.experts.down_proj",),
    "ffn_gate_shexp": ("mlp.shared_expert.gate_proj",),
    "ffn_up_shexp": ("mlp.shared_expert.up_proj",),
    "ffn_down_shexp": ("mlp.shared_expert.down_proj",),
    "ffn_gate_inp_shexp": ("mlp.shared_expert_gate",),
}
NAMES: Mapping[str, tuple[str, ...]] = {
    "token_embd": ("model.embed_tokens",),
    "output": ("lm_head",),
    "output_norm": ("model.norm",),
    "attn_norm": ("input_layernorm",),
    "ffn_norm": ("post_attention_layernorm",),
    **_ATTENTION,
    **_FEED_FORWARD,
}
"""The modules or parameters of transformers by the part of a tensor's name; those of layers without ``blk.N``."""

_FOUR_NORMS = {
    "ffn_norm": ("pre_feedforward_layernorm",),
    "post_attention_norm": ("post_attention_layernorm",),
    "post_ffw_norm": ("post_feedforward_layernorm",),
}
_GPT2 = {
    "token_embd": ("transformer.wte",),
    "position_embd": ("transformer.wpe",),
    "output_norm": ("transformer.ln_f",),
    "attn_norm": ("ln_1",),
    "ffn_norm": ("ln_2",),
    "attn_qkv": ("attn.c_attn",),
    "attn_output": ("attn.c_proj",),
    "ffn_up": ("mlp.c_fc",),
    "ffn_down": ("mlp.c_proj",),
}
_PHI2 = {
    "output_norm": ("model.final_layernorm",),
    "attn_qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attn_output": ("self_attn.dense",),
    "ffn_up": ("mlp.fc1",),
    "ffn_down": ("mlp.fc2",),
}
_MAMBA = {
    "token_embd": ("backbone.embeddings",),
    "output_norm": ("backbone.norm_f",),
    "attn_norm": ("norm",),
    "ssm_in": ("mixer.in_proj",),
    "ssm_conv1d": ("mixer.conv1d",),
    "ssm_x": ("mixer.x_proj",),
    "ssm_dt": ("mixer.dt_proj",),
    "ssm_a": ("mixer.A_log",),
    "ssm_d": ("mixer.D",),
    "ssm_out": ("mixer.out_proj",),
}


def _head_dim(head: _Head) -> Mapping[str, Any]:
    heads = head.number("attention.head_count")
    return {"head_dim": head.optional("attention.key_length") or head.number("embedding_length") // heads}


def _llama(head: _Head) -> Mapping[str, Any]:
    biases = {"attention_bias": head.has("blk.0.attn_q.bias"), "mlp_bias": head.has("blk.0.ffn_gate.bias")}
    return {**_head_dim(head), **biases}


def _mixtral(head: _Head) -> Mapping[str, Any]:
    used = head.number("expert_used_count")
    return {**_head_dim(head), "num_local_experts": head.number("expert_count"), "num_experts_per_tok": used}


def _experts(head: _Head) -> Mapping[str, Any]:
    sizes = {"num_experts": head.number("expert_count"), "num_experts_per_tok": head.number("expert_used_count")}
    return {**sizes, "moe_intermediate_size": head.axis("blk.0.ffn_gate_exps.weight", 1)}


def _qwen2_moe(head: _Head) -> Mapping[str, Any]:
    return {**_experts(head), "shared_expert_intermediate_size": head.axis("blk.0.ffn_gate_shexp.weight", 0)}


def _windows(head: _Head) -> Mapping[str, Any]:
    return {**_head_dim(head), "sliding_window": head.number("attention.sliding_window")}


def _rotary(head: _Head) -> Mapping[str, Any]:
    """Return which part of a head rotates, and the window of attention, of Phi and StableLM."""
    of_head = head.number("embedding_length") // head.number("attention.head_count")
    part = (head.optional("rope.dimension_count") or of_head) / max(of_head, 1)
    return {"partial_rotary_factor": part}


def _phi3(head: _Head) -> Mapping[str, Any]:
    """Return the window too, which llama.cpp writes as 0 for models without one, Phi-4 and others."""
    window = None if head.is_zero("attention.sliding_window") else head.optional("attention.sliding_window")
    return {**_rotary(head), "sliding_window": window}


def _stablelm(head: _Head) -> Mapping[str, Any]:
    return {**_rotary(head), "use_qkv_bias": head.has("blk.0.attn_q.bias")}


def _mamba(head: _Head) -> Mapping[str, Any]:
    return {
        "state_size": head.number("ssm.state_size"),
        "conv_kernel": head.number("ssm.conv_kernel"),
        "time_step_rank": head.number("ssm.time_step_rank"),
        "intermediate_size": head.number("ssm.inner_size"),
        "expand": head.number("ssm.inner_size") // head.number("embedding_length"),
    }


def _starcoder2(head: _Head) -> Mapping[str, Any]:
    return {"sliding_window": None, "use_bias": head.has("blk.0.attn_q.bias")}


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture("llama", _llama),
    "qwen2": Architecture("qwen2"),
    "qwen2moe": Architecture("qwen2_moe", _qwen2_moe),
    "qwen3": Architecture("qwen3", _head_dim),
    "qwen3moe": Architecture("qwen3_moe", lambda head: {**_head_dim(head), **_experts(head)}),
    "gemma": Architecture("gemma", _head_dim),
    "gemma2": Architecture("gemma2", _windows, _FOUR_NORMS),
    "gemma3": Architecture("gemma3_text", _windows, _FOUR_NORMS),
    "phi2": Architecture("phi", _rotary, _PHI2),
    "phi3": Architecture("phi3", _phi3, {"ffn_up": ("mlp.gate_up_proj",)}),
    "gpt2": Architecture("gpt2", names=_GPT2, layers="transformer.h", keys={"feed_forward_length": "n_inner"}),
    "starcoder2": Architecture("starcoder2", _starcoder2, {"ffn_up": ("mlp.c_fc",), "ffn_down": ("mlp.c_proj",)}),
    "stablelm": Architecture("stablelm", _stablelm),
    "olmo2": Architecture("olmo2", names=_FOUR_NORMS),
    "mamba": Architecture("mamba", _mamba, _MAMBA, "backbone.layers"),
}
"""The architectures whose models transformers has, by the name in ``general.architecture``."""

_MIXTRAL = Architecture("mixtral", _mixtral)


def architecture_of(file: Gguf) -> Architecture:
    """Return the architecture of a file.

    Raises:
        CostError: if it is not among :data:`ARCHITECTURES`; the message names it.
    """
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise CostError(unknown("architecture", str(name)[:60], sorted(ARCHITECTURES)))
    return _MIXTRAL if name == "llama" and file.metadata.get("llama.expert_count") else ARCHITECTURES[name]


def settings_of(file: Gguf, architecture: Architecture) -> dict[str, Any]:
    """Return the settings of the configuration of transformers.

    Raises:
        CostError: if the file does not state them.
    """
    head = _Head(file.metadata["general.architecture"], file)
    settings: dict[str, Any] = {
        "vocab_size": head.axis("token_embd.weight", 0),
        "tie_word_embeddings": not head.has("output.weight"),
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),  # defaults may be beyond the vocabulary
    }
    for key, name in KEYS.items():
        if architecture.kind != "mamba" or key in ("embedding_length", "block_count"):
            settings[architecture.keys.get(key, name)] = head.number(key)
    if kv := head.optional("attention.head_count_kv") if architecture.kind != "mamba" else None:
        settings["num_key_value_heads"] = kv
    found = {name.split(".")[1] for name in head.tensors if name.startswith("blk.")}
    if (stated := settings["num_hidden_layers"]) != len(found) or stated > MOST_LAYERS:
        raise CostError(f"it states {stated:,} layers, and stores tensors of {len(found):,} (at most {MOST_LAYERS:,})")
    return {**settings, **architecture.settings(head)}


def parameters_of(tensor: str, architecture: Architecture) -> tuple[str, ...]:
    """Return the names of the parameters of transformers that a tensor holds; () if it holds none.

    ``blk.3.attn_q.weight`` of Llama is ``model.layers.3.self_attn.q_proj.weight``.
    """
    base, dot, leaf = tensor.rpartition(".")
    if not dot or leaf not in ("weight", "bias"):
        base, leaf = tensor, ""
    prefix, part = "", base
    if base.startswith("blk."):
        _, number, part = [*base.split(".", 2), "", ""][:3]
        prefix = f"{architecture.layers}.{number}."
    found = architecture.names.get(part, NAMES.get(part, ()))
    has_leaf = [not name.startswith("mlp.experts.") and not name.endswith((".A_log", ".D")) for name in found]
    return tuple(
        f"{prefix}{name}.{leaf}" if own else f"{prefix}{name}" for name, own in zip(found, has_leaf, strict=True)
    )
