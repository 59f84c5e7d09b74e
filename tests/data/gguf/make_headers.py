"""Writes the headers of this folder with the package gguf, in the layouts of published models.

    pip install gguf==0.19.0; python make_headers.py FOLDER

Sizes are those of the config.json of each repository named below, keys and names of tensors those of
convert_hf_to_gguf.py in llama.cpp. ``Q4_K_M`` is a mixture by the rule of llama.cpp (llama-quant.cpp): values and
down projections of the first and last eighth of the layers and of every third between are Q6_K, the output too. Files
have no weights, and the size of the vocabulary in place of its tokens. They are compressed with gzip.
"""

from __future__ import annotations

import gzip
import sys
from math import prod
from pathlib import Path

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

F32 = GGMLQuantizationType.F32


class Model:
    """A file that is written: metadata and the table of tensors."""

    def __init__(self, arch: str, mixture: str, layers: int, hidden: int, context: int, **keys: object) -> None:
        self.arch, self.mixture, self.layers, self.hidden = arch, mixture, layers, hidden
        self.writer = GGUFWriter(None, arch)
        self.writer.add_block_count(layers)
        self.writer.add_embedding_length(hidden)
        self.writer.add_context_length(context)
        for key, value in keys.items():
            name = f"{arch}.{key.replace('__', '.')}"
            (self.writer.add_float32 if isinstance(value, float) else self.writer.add_uint32)(name, value)

    def add(self, name: str, *shape: int) -> None:
        """Add a tensor, whose shape is that of PyTorch."""
        kind = self._kind(name, shape)
        block, nbytes = GGML_QUANT_SIZES[kind]
        stored = (*shape[:-1], shape[-1] // block * nbytes) if block > 1 else shape
        size = prod(shape) // block * nbytes
        dtype = numpy.dtype({"F32": "float32", "F16": "float16"}.get(kind.name, "uint8"))
        self.writer.add_tensor_info(name, stored, dtype, size, kind if block > 1 else None)

    def _kind(self, name: str, shape: tuple[int, ...]) -> GGMLQuantizationType:
        if len(shape) == 1 or "ffn_gate_inp" in name or "ssm_conv1d" in name or "ssm_a" in name:
            return F32
        if self.mixture != "Q4_K_M":
            return GGMLQuantizationType[self.mixture]
        parts = name.split(".")
        layer = int(parts[1]) if parts[0] == "blk" else -1
        n = self.layers
        more = layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2
        is_large = name == "output.weight" or (
            layer >= 0 and more and parts[2] in ("attn_v", "ffn_down", "ffn_down_exps")
        )
        kind = GGMLQuantizationType.Q6_K if is_large else GGMLQuantizationType.Q4_K
        if shape[-1] % 256:  # llama.cpp falls back where rows are no whole blocks
            kind = GGMLQuantizationType.Q8_0 if kind == GGMLQuantizationType.Q6_K else GGMLQuantizationType.Q5_0
        return kind

    def ends(self, vocabulary: int, tied: bool = False, bias: bool = False) -> None:
        """Add the embeddings, the last norm and the output."""
        self.writer.add_vocab_size(vocabulary)
        self.add("token_embd.weight", vocabulary, self.hidden)
        self.norm("output_norm", bias)
        if not tied:
            self.add("output.weight", vocabulary, self.hidden)

    def norm(self, name: str, bias: bool = False) -> None:
        """Add a norm over the hidden size."""
        self.add(f"{name}.weight", self.hidden)
        if bias:
            self.add(f"{name}.bias", self.hidden)

    def linear(self, name: str, outputs: int, inputs: int, bias: bool = False) -> None:
        """Add a linear layer."""
        self.add(f"{name}.weight", outputs, inputs)
        if bias:
            self.add(f"{name}.bias", outputs)

    def attention(self, at: str, heads: int, kv: int, dim: int, bias: bool = False, out_bias: bool = False) -> None:
        """Add separate projections."""
        self.linear(f"{at}.attn_q", heads * dim, self.hidden, bias)
        self.linear(f"{at}.attn_k", kv * dim, self.hidden, bias)
        self.linear(f"{at}.attn_v", kv * dim, self.hidden, bias)
        self.linear(f"{at}.attn_output", self.hidden, heads * dim, out_bias)

    def gated(self, at: str, size: int) -> None:
        """Add a gated feed-forward layer."""
        self.linear(f"{at}.ffn_gate", size, self.hidden)
        self.linear(f"{at}.ffn_up", size, self.hidden)
        self.linear(f"{at}.ffn_down", self.hidden, size)

    def experts(self, at: str, number: int, size: int) -> None:
        """Add a mixture of experts."""
        self.linear(f"{at}.ffn_gate_inp", number, self.hidden)
        self.add(f"{at}.ffn_gate_exps.weight", number, size, self.hidden)
        self.add(f"{at}.ffn_up_exps.weight", number, size, self.hidden)
        self.add(f"{at}.ffn_down_exps.weight", number, self.hidden, size)

    def write(self, path: Path) -> None:
        """Write the header alone."""
        plain = path.with_suffix("")
        self.writer.write_header_to_file(plain)
        self.writer.write_kv_data_to_file()
        self.writer.write_ti_data_to_file()
        self.writer.close()
        path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
        plain.unlink()


def dense(
    arch: str, mixture: str, layers: int, hidden: int, heads: int, kv: int, dim: int, size: int, vocabulary: int,
    context: int, *, tied: bool = False, bias: bool = False, qk_norm: bool = False, norms: int = 2, **keys: object,
) -> Model:  # fmt: skip
    """Return a transformer with gated feed-forward layers, of 2 or 4 norms a layer."""
    explicit = {"attention__key_length": dim, "attention__value_length": dim} if dim * heads != hidden else {}
    model = Model(arch, mixture, layers, hidden, context, attention__head_count=heads, attention__head_count_kv=kv,
                  feed_forward_length=size, **explicit, **keys)  # fmt: skip
    model.ends(vocabulary, tied)
    for layer in range(layers):
        at = f"blk.{layer}"
        model.norm(f"{at}.attn_norm")
        model.attention(at, heads, kv, dim, bias)
        if qk_norm:
            model.add(f"{at}.attn_q_norm.weight", dim)
            model.add(f"{at}.attn_k_norm.weight", dim)
        model.norm(f"{at}.ffn_norm")
        if norms == 4:
            model.norm(f"{at}.post_attention_norm")
            model.norm(f"{at}.post_ffw_norm")
        model.gated(at, size)
    return model


def sparse(
    arch: str, mixture: str, layers: int, hidden: int, heads: int, kv: int, dim: int, experts: int, used: int,
    size: int, vocabulary: int, context: int, *, bias: bool = False, qk_norm: bool = False, shared: int = 0,
    **keys: object,
) -> Model:  # fmt: skip
    """Return a transformer with a mixture of experts in every layer."""
    explicit = {"attention__key_length": dim, "attention__value_length": dim} if dim * heads != hidden else {}
    model = Model(arch, mixture, layers, hidden, context, attention__head_count=heads, attention__head_count_kv=kv,
                  expert_count=experts, expert_used_count=used, **explicit, **keys)  # fmt: skip
    model.ends(vocabulary)
    for layer in range(layers):
        at = f"blk.{layer}"
        model.norm(f"{at}.attn_norm")
        model.attention(at, heads, kv, dim, bias)
        if qk_norm:
            model.add(f"{at}.attn_q_norm.weight", dim)
            model.add(f"{at}.attn_k_norm.weight", dim)
        model.norm(f"{at}.ffn_norm")
        model.experts(at, experts, size)
        if shared:
            model.add(f"{at}.ffn_gate_inp_shexp.weight", hidden)
            model.linear(f"{at}.ffn_gate_shexp", shared, hidden)
            model.linear(f"{at}.ffn_up_shexp", shared, hidden)
            model.linear(f"{at}.ffn_down_shexp", hidden, shared)
    return model


def llama31() -> Model:
    """meta-llama/Llama-3.1-8B, with the factors of its rotary positions."""
    model = dense("llama", "Q4_K_M", 32, 4096, 32, 8, 128, 14336, 128256, 131072, rope__dimension_count=128)
    model.add("rope_freqs.weight", 64)
    return model


def phi3() -> Model:
    """microsoft/Phi-3-mini-4k-instruct: fused projections."""
    model = Model("phi3", "Q4_K_M", 32, 3072, 4096, attention__head_count=32, attention__head_count_kv=32,
                  feed_forward_length=8192, rope__dimension_count=96, attention__sliding_window=2047)  # fmt: skip
    model.ends(32064)
    for layer in range(32):
        at = f"blk.{layer}"
        model.norm(f"{at}.attn_norm")
        model.linear(f"{at}.attn_qkv", 3 * 3072, 3072)
        model.linear(f"{at}.attn_output", 3072, 3072)
        model.norm(f"{at}.ffn_norm")
        model.linear(f"{at}.ffn_up", 2 * 8192, 3072)
        model.linear(f"{at}.ffn_down", 3072, 8192)
    return model


def phi2() -> Model:
    """microsoft/phi-2: one norm a layer, biases."""
    model = Model("phi2", "Q8_0", 32, 2560, 2048, attention__head_count=32, attention__head_count_kv=32,
                  feed_forward_length=10240, rope__dimension_count=32)  # fmt: skip
    model.ends(51200, bias=True)
    model.add("output.bias", 51200)
    for layer in range(32):
        at = f"blk.{layer}"
        model.norm(f"{at}.attn_norm", bias=True)
        model.linear(f"{at}.attn_qkv", 3 * 2560, 2560, bias=True)
        model.linear(f"{at}.attn_output", 2560, 2560, bias=True)
        model.linear(f"{at}.ffn_up", 10240, 2560, bias=True)
        model.linear(f"{at}.ffn_down", 2560, 10240, bias=True)
    return model


def gpt2() -> Model:
    """openai-community/gpt2; llama.cpp stores the tied output once."""
    model = Model("gpt2", "F16", 12, 768, 1024, attention__head_count=12, feed_forward_length=3072)
    model.ends(50257, tied=True, bias=True)
    model.add("position_embd.weight", 1024, 768)
    for layer in range(12):
        at = f"blk.{layer}"
        model.norm(f"{at}.attn_norm", bias=True)
        model.linear(f"{at}.attn_qkv", 3 * 768, 768, bias=True)
        model.linear(f"{at}.attn_output", 768, 768, bias=True)
        model.norm(f"{at}.ffn_norm", bias=True)
        model.linear(f"{at}.ffn_up", 3072, 768, bias=True)
        model.linear(f"{at}.ffn_down", 768, 3072, bias=True)
    return model


def starcoder2() -> Model:
    """bigcode/starcoder2-3b: layers with biases, tied output."""
    model = Model("starcoder2", "Q8_0", 30, 3072, 16384, attention__head_count=24, attention__head_count_kv=2,
                  feed_forward_length=12288)  # fmt: skip
    model.ends(49152, tied=True, bias=True)
    for layer in range(30):
        at = f"blk.{layer}"
        model.norm(f"{at}.attn_norm", bias=True)
        model.attention(at, 24, 2, 128, bias=True, out_bias=True)
        model.norm(f"{at}.ffn_norm", bias=True)
        model.linear(f"{at}.ffn_up", 12288, 3072, bias=True)
        model.linear(f"{at}.ffn_down", 3072, 12288, bias=True)
    return model


def olmo2() -> Model:
    """allenai/OLMo-2-1124-7B: norms after attention and feed-forward layers, and of all queries and keys."""
    model = Model("olmo2", "Q4_K_M", 32, 4096, 4096, attention__head_count=32, attention__head_count_kv=32,
                  feed_forward_length=11008)  # fmt: skip
    model.ends(100352)
    for layer in range(32):
        at = f"blk.{layer}"
        model.attention(at, 32, 32, 128)
        for name in ("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"):
            model.norm(f"{at}.{name}")
        model.gated(at, 11008)
    return model


def stablelm() -> Model:
    """stabilityai/stablelm-2-1_6b: a quarter of each head rotates."""
    model = Model("stablelm", "Q8_0", 24, 2048, 4096, attention__head_count=32, attention__head_count_kv=32,
                  feed_forward_length=5632, rope__dimension_count=16)  # fmt: skip
    model.ends(100352, bias=True)
    for layer in range(24):
        at = f"blk.{layer}"
        model.norm(f"{at}.attn_norm", bias=True)
        model.attention(at, 32, 32, 64, bias=True)
        model.norm(f"{at}.ffn_norm", bias=True)
        model.gated(at, 5632)
    return model


def mamba() -> Model:
    """state-spaces/mamba-2.8b-hf: no attention, a vocabulary that is padded to 50,280."""
    model = Model("mamba", "Q8_0", 64, 2560, 1048576, attention__head_count=0, feed_forward_length=0,
                  ssm__conv_kernel=4, ssm__inner_size=5120, ssm__state_size=16, ssm__time_step_rank=160)  # fmt: skip
    model.ends(50280, tied=True)
    for layer in range(64):
        at = f"blk.{layer}"
        model.norm(f"{at}.attn_norm")
        model.linear(f"{at}.ssm_in", 2 * 5120, 2560)
        model.add(f"{at}.ssm_conv1d.weight", 5120, 4)
        model.add(f"{at}.ssm_conv1d.bias", 5120)
        model.linear(f"{at}.ssm_x", 160 + 2 * 16, 5120)
        model.linear(f"{at}.ssm_dt", 5120, 160, bias=True)
        model.add(f"{at}.ssm_a", 5120, 16)
        model.add(f"{at}.ssm_d", 5120)
        model.linear(f"{at}.ssm_out", 2560, 5120)
    return model


MODELS = {
    "llama-3.1-8b": llama31,
    # meta-llama/Llama-3.2-1B, tied
    "llama-3.2-1b": lambda: dense("llama", "Q8_0", 16, 2048, 32, 8, 64, 8192, 128256, 131072, tied=True),
    # mistralai/Mistral-7B-v0.3
    "mistral-7b": lambda: dense("llama", "Q4_0", 32, 4096, 32, 8, 128, 14336, 32768, 32768),
    # mistralai/Mixtral-8x7B-v0.1
    "mixtral-8x7b": lambda: sparse("llama", "Q4_K_M", 32, 4096, 32, 8, 128, 8, 2, 14336, 32000, 32768,
                                   feed_forward_length=14336),
    # Qwen/Qwen2.5-7B: biases of queries, keys and values
    "qwen2.5-7b": lambda: dense("qwen2", "Q4_K_M", 28, 3584, 28, 4, 128, 18944, 152064, 131072, bias=True),
    # Qwen/Qwen1.5-MoE-A2.7B: 60 experts and a shared one
    "qwen1.5-moe-a2.7b": lambda: sparse("qwen2moe", "Q8_0", 24, 2048, 16, 16, 128, 60, 4, 1408, 151936, 8192, bias=True,
                                        shared=5632, feed_forward_length=5632, expert_feed_forward_length=1408,
                                        expert_shared_feed_forward_length=5632),
    # Qwen/Qwen3-8B: norms of queries and keys
    "qwen3-8b": lambda: dense("qwen3", "Q4_K_M", 36, 4096, 32, 8, 128, 12288, 151936, 40960, qk_norm=True),
    # Qwen/Qwen3-30B-A3B
    "qwen3-30b-a3b": lambda: sparse("qwen3moe", "Q4_K_M", 48, 2048, 32, 4, 128, 128, 8, 768, 151936, 40960,
                                    qk_norm=True, feed_forward_length=6144, expert_feed_forward_length=768),
    # google/gemma-2b: heads of 256, tied
    "gemma-2b": lambda: dense("gemma", "Q8_0", 18, 2048, 8, 1, 256, 16384, 256000, 8192, tied=True),
    # google/gemma-2-9b: four norms, windows in every other layer
    "gemma-2-9b": lambda: dense("gemma2", "Q4_K_M", 42, 3584, 16, 8, 256, 14336, 256000, 8192, tied=True, norms=4,
                                attention__sliding_window=4096),
    # google/gemma-3-4b-pt, the text model: windows in five of six layers
    "gemma-3-4b": lambda: dense("gemma3", "Q4_K_M", 34, 2560, 8, 4, 256, 10240, 262208, 131072, tied=True, norms=4,
                                qk_norm=True, attention__sliding_window=1024),
    "olmo-2-7b": olmo2,
    "stablelm-2-1.6b": stablelm,
    "phi-3-mini-4k": phi3,
    "phi-2": phi2,
    "gpt2": gpt2,
    "starcoder2-3b": starcoder2,
    "mamba-2.8b": mamba,
}  # fmt: skip

SMALL = {
    "llama": lambda: dense("llama", "Q8_0", 1, 64, 2, 1, 32, 96, 50, 128),
    "mixtral": lambda: sparse("llama", "Q8_0", 1, 64, 2, 1, 32, 4, 2, 96, 50, 128, feed_forward_length=96),
    "gemma2": lambda: dense("gemma2", "Q8_0", 2, 64, 2, 1, 64, 96, 50, 128, tied=True, norms=4,
                            attention__sliding_window=16),
}  # fmt: skip
"""Small ones, which tools/fuzz_formats.py damages."""

if __name__ == "__main__":
    for name, make in SMALL.items():
        make().write(Path(sys.argv[1], "small") / f"{name}.gguf.gz")
    for name, make in MODELS.items():
        make().write(Path(sys.argv[1]) / f"{name}.gguf.gz")
