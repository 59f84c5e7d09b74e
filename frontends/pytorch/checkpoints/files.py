"""Readers of the headers of weight files, GGUF (llama.cpp) and safetensors; they never read the weights.

Every size in a file is checked against a bound before memory is allocated for it. The last section maps the
architectures of GGUF files to configurations of transformers.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

from costcore.errors import CostError, unknown
from costcore.files import check_values, is_file, open_file, read_text, unreadable
from costcore.ir import BITS


class StoredTensor(NamedTuple):
    """A tensor of a file.

    Attributes:
        name: its name in the file.
        shape: its sizes, as PyTorch orders them.
        format: the name of its format, ``Q4_K`` or ``bfloat16``.
        nbytes: its bytes in the file, with its scales.
        bits: bits of one number without scales.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    nbytes: int
    bits: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


# GGUF
#
# The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.


class BlockFormat(NamedTuple):
    """The storage of a type of ggml: the numbers per block, and the bytes of a block with its scales."""

    name: str
    block: int
    nbytes: int
    bits: int


FORMATS: Mapping[int, BlockFormat] = {
    number: BlockFormat(name, block, nbytes, bits)
    for number, name, block, nbytes, bits in (
        (0, "F32", 1, 4, 32),
        (1, "F16", 1, 2, 16),
        (2, "Q4_0", 32, 18, 4),
        (3, "Q4_1", 32, 20, 4),
        (6, "Q5_0", 32, 22, 5),
        (7, "Q5_1", 32, 24, 5),
        (8, "Q8_0", 32, 34, 8),
        (10, "Q2_K", 256, 84, 2),
        (11, "Q3_K", 256, 110, 3),
        (12, "Q4_K", 256, 144, 4),
        (13, "Q5_K", 256, 176, 5),
        (14, "Q6_K", 256, 210, 6),
        (16, "IQ2_XXS", 256, 66, 2),
        (17, "IQ2_XS", 256, 74, 2),
        (18, "IQ3_XXS", 256, 98, 3),
        (19, "IQ1_S", 256, 50, 1),
        (20, "IQ4_NL", 32, 18, 4),
        (21, "IQ3_S", 256, 110, 3),
        (22, "IQ2_S", 256, 82, 2),
        (23, "IQ4_XS", 256, 136, 4),
        (24, "I8", 1, 1, 8),
        (25, "I16", 1, 2, 16),
        (26, "I32", 1, 4, 32),
        (27, "I64", 1, 8, 64),
        (28, "F64", 1, 8, 64),
        (29, "IQ1_M", 256, 56, 1),
        (30, "BF16", 1, 2, 16),
        (34, "TQ1_0", 256, 54, 2),
        (35, "TQ2_0", 256, 66, 2),
        (39, "MXFP4", 32, 17, 4),
        (40, "NVFP4", 64, 36, 4),
        (41, "Q1_0", 128, 18, 1),
    )
}
"""The types of stored tensors by their number: ``ggml_type`` and the blocks of ggml-common.h in llama.cpp."""

GGUF_MOST_HEADER = 2**28
"""Maximum bytes of a header; a vocabulary of 260,000 tokens takes 10 MB."""

MOST_TENSORS = 200_000

MOST_KEYS = 10_000

MOST_PARTS = 3_000_000
"""Maximum texts and arrays inside arrays; a vocabulary of 260,000 tokens and its merges are 800,000."""

LONGEST_KEY, LONGEST_TEXT = 2**16, 2**24
"""Maximum bytes of a name, and of another text; a chat template has a few thousand."""

GGUF_MOST_AXES = 4

GGUF_MOST_FILES = 1000
"""Maximum parts of a model that is split over files."""

MOST_ELEMENTS = 2**50
"""Maximum elements of a tensor."""

PIECE = 2**20

KEPT = 4096
"""Maximum elements of an array that is kept; of longer arrays, only the length is kept."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

_STRING, _ARRAY = 8, 9

_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class Array(NamedTuple):
    """The length of an array in the metadata that is not kept: a long one, or one of texts or arrays."""

    length: int


class Gguf(NamedTuple):
    """The header of a file, or of all files over which a model is split.

    Attributes:
        metadata: values by key: numbers, booleans, texts, tuples of numbers and :class:`Array`.
        tensors: the tensors in the order of the file.
    """

    metadata: Mapping[str, Any]
    tensors: tuple[StoredTensor, ...]


def read_gguf(path: str) -> Gguf:
    """Return the header of a model.

    Args:
        path: a file; for a model split over several files, any of them, ``…-00001-of-00003.gguf``.

    Raises:
        FileError: if a file cannot be read.
        CostError: if it is not a GGUF file, is damaged, or exceeds the bounds of this module.
    """
    first = _read(path)
    n_files = first.metadata.get("split.count", 1)
    match = _PART.search(path)
    if not isinstance(n_files, int) or n_files < 2:
        return first
    if match is None or int(match[2]) != n_files or n_files > GGUF_MOST_FILES:
        raise CostError(f"{path} is one of {n_files} files, but its name does not end in -00001-of-{n_files:05}.gguf")
    parts = [_read(f"{path[: match.start()]}-{number:05}-of-{match[2]}.gguf") for number in range(1, n_files + 1)]
    return Gguf(parts[0].metadata, tuple(tensor for part in parts for tensor in part.tensors))


def _read(path: str) -> Gguf:
    with open_file(path) as file:
        try:
            return _Header(file).read()
        except CostError as error:
            raise CostError(f"{path} cannot be read as a GGUF file: {error}") from error
        except OSError as error:
            raise unreadable(Path(path), error) from error


class _Header:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._data = b""
        self._at = 0
        self._buffer_start = self._n_parts = 0

    def read(self) -> Gguf:
        """Return the header."""
        if self._take(4) != b"GGUF":
            raise CostError("it does not begin with GGUF")
        version = self._number("I")
        if version & 0xFFFF == 0:
            raise CostError("its numbers are big-endian, which is not supported")
        if version not in (2, 3):
            raise CostError(f"its version is {version} (expected 2 or 3)")
        n_tensors, n_keys = self._count("tensors", MOST_TENSORS), self._count("keys", MOST_KEYS)
        metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            key = self._text(LONGEST_KEY)
            metadata[key] = self._value(self._number("I"), depth=0)
        tensors = tuple(self._tensor() for _ in range(n_tensors))
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise CostError("two tensors have the same name")
        return Gguf(metadata, tensors)

    def _tensor(self) -> StoredTensor:
        name = self._text(LONGEST_KEY)
        n_axes = self._number("I")
        if n_axes > GGUF_MOST_AXES:
            raise CostError(f"tensor {name!r} has {n_axes} axes (at most {GGUF_MOST_AXES})")
        sizes = tuple(self._number("Q") for _ in range(n_axes))
        number, _offset = self._number("I"), self._number("Q")
        found = FORMATS.get(number)
        if found is None:
            raise CostError(f"tensor {name!r} has the type {number}, which is unknown")
        n_elements = 1
        for size in sizes:
            n_elements *= size
            if n_elements > MOST_ELEMENTS:
                raise CostError(f"tensor {name!r} has more than {MOST_ELEMENTS:,} elements")
        if (sizes[0] if sizes else 1) % found.block:
            raise CostError(
                f"rows of tensor {name!r} do not consist of whole blocks of {found.block}, as {found.name} needs"
            )
        nbytes = n_elements // found.block * found.nbytes
        return StoredTensor(name, sizes[::-1], found.name, nbytes, found.bits)  # ggml names the contiguous axis first

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            raise CostError(f"a value of the metadata has the type {kind}, which is unknown")
        if depth > 3:
            raise CostError("arrays of the metadata are nested more than 4 deep")
        inner, length = self._number("I"), self._count("elements of an array", GGUF_MOST_HEADER)
        if inner in _SCALARS:
            layout = struct.Struct("<" + _SCALARS[inner])
            if length <= KEPT:
                return tuple(x for (x,) in layout.iter_unpack(self._take(length * layout.size)))
            self._skip(length * layout.size)
            return Array(length)
        self._n_parts += length
        if self._n_parts > MOST_PARTS:
            raise CostError(f"its metadata has more than {MOST_PARTS:,} texts and arrays inside arrays")
        for _ in range(length):
            if inner == _STRING:
                self._skip(self._number("Q"))
            else:
                self._value(inner, depth + 1)
        return Array(length)

    def _count(self, what: str, most: int) -> int:
        found: int = self._number("Q")
        if found > most:
            raise CostError(f"it states {found:,} {what} (at most {most:,})")
        return found

    def _number(self, kind: str) -> Any:
        return _NUMBERS[kind].unpack(self._take(_NUMBERS[kind].size))[0]

    def _text(self, longest: int = LONGEST_TEXT) -> str:
        size = self._number("Q")
        if size > longest:
            raise CostError(f"a text of its header has {size:,} bytes (at most {longest:,})")
        with suppress(UnicodeDecodeError):
            return self._take(size).decode("utf-8")
        raise CostError("a text of its header is not in UTF-8")

    def _skip(self, size: int) -> None:
        if self._at + size <= len(self._data):
            self._at += size
            return
        if self._buffer_start + self._at + size > GGUF_MOST_HEADER:
            raise CostError(f"its header has more than {GGUF_MOST_HEADER:,} bytes")
        left = size - (len(self._data) - self._at)
        self._buffer_start += self._at + size
        self._data, self._at = b"", 0
        while left and (piece := self._file.read(min(left, PIECE))):
            left -= len(piece)
        if left:
            raise CostError("it ends inside of its header")

    def _take(self, size: int) -> bytes:
        if self._buffer_start + self._at + size > GGUF_MOST_HEADER:
            raise CostError(f"its header has more than {GGUF_MOST_HEADER:,} bytes")
        if self._at + size > len(self._data):
            rest = self._data[self._at :]
            self._buffer_start, self._at = self._buffer_start + self._at, 0
            self._data = rest + self._file.read(max(size - len(rest), 2**16))
            if size > len(self._data):
                raise CostError("it ends inside of its header")
        self._at += size
        return self._data[self._at - size : self._at]


_NUMBERS = {kind: struct.Struct("<" + kind) for kind in _SCALARS.values()}


# safetensors
#
# The format: https://github.com/huggingface/safetensors#format. The folder also has a ``config.json``.


INDEX, SUFFIX = "model.safetensors.index.json", ".safetensors"

SAFETENSORS_MOST_HEADER = 2**25
"""Maximum bytes of a header; the format allows three times as many, and the largest models have a few million."""

SAFETENSORS_MOST_FILES = 2000

SAFETENSORS_MOST_AXES = 16

DTYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0",
    "F4": "float4_e2m1",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
"""The dtypes of the format."""


def read_folder(path: str) -> tuple[StoredTensor, ...]:
    """Return the tensors of a folder: of the files that its index names; without an index, of all files.

    Raises:
        FileError: if a file cannot be read.
        CostError: if one is not a safetensors file, or is damaged.
    """
    folder = Path(path)
    names = _indexed(folder / INDEX) if is_file(folder / INDEX) else [each.name for each in folder.glob(f"*{SUFFIX}")]
    if len(names) > SAFETENSORS_MOST_FILES:
        raise CostError(f"{path} has more than {SAFETENSORS_MOST_FILES} safetensors files")
    found: list[StoredTensor] = []
    for name in sorted(names):
        found += read_safetensors(str(folder / name))
        if len(found) > MOST_TENSORS:
            raise CostError(f"{path} has more than {MOST_TENSORS:,} tensors")
    if len({tensor.name for tensor in found}) < len(found):
        raise CostError(f"{path}: two safetensors files hold a tensor of the same name; keep those of one model")
    return tuple(found)


def read_safetensors(path: str) -> tuple[StoredTensor, ...]:
    """Return the tensors of a file in the order of its header.

    Raises:
        FileError: if it cannot be read.
        CostError: if it is not a safetensors file, or is damaged.
    """
    with open_file(path) as file:
        try:
            head = file.read(8)
            size = int.from_bytes(head, "little")
            if len(head) < 8 or size > SAFETENSORS_MOST_HEADER:
                raise CostError(f"{path} is not a safetensors file: it does not begin with the size of a header")
            text = file.read(size)
        except OSError as error:
            raise unreadable(path, error) from error
    if len(text) < size:
        raise CostError(f"{path} ends inside of its header")
    header = _object(text, path)
    if len(header) > MOST_TENSORS:
        raise CostError(f"{path} has more than {MOST_TENSORS:,} tensors")
    return tuple(_tensor(name, entry, path) for name, entry in header.items() if name != "__metadata__")


def _tensor(name: str, entry: Any, path: str) -> StoredTensor:
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, ends = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise CostError(f"{path}: tensor {name!r} has the dtype {dtype!r:.40}, which is unknown")
    if not _are_sizes(shape) or not _are_sizes(ends) or len(shape) > SAFETENSORS_MOST_AXES or len(ends) != 2:
        raise CostError(f"{path}: tensor {name!r} has no valid shape or data_offsets")
    bits, n_elements = BITS[DTYPES[dtype]], 1
    for size in shape:
        n_elements *= size
        if n_elements > MOST_ELEMENTS:
            raise CostError(f"{path}: tensor {name!r} has more than {MOST_ELEMENTS:,} elements")
    if 8 * (ends[1] - ends[0]) != n_elements * bits:
        raise CostError(f"{path}: tensor {name!r} has {ends[1] - ends[0]} bytes, which do not fit its shape")
    return StoredTensor(name, tuple(shape), DTYPES[dtype], ends[1] - ends[0], bits)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _indexed(path: Path) -> list[str]:
    # An index names files in its own folder; other paths are refused.
    weights = _object(read_text(path).encode(), str(path)).get("weight_map")
    names: Iterable[Any] = weights.values() if isinstance(weights, dict) else ()
    found = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    if not found or any("/" in name or "\\" in name or not name.endswith(SUFFIX) for name in found):
        raise CostError(f"{path} has no weight_map with the names of safetensors files in its folder")
    return found


def _object(text: bytes, path: str) -> dict[str, Any]:
    check_values(text, path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CostError(f"{path} has a header that is not in JSON: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise CostError(f"{path} has a header that is not an object in JSON")
    return value


# Architectures of GGUF files: the configuration of transformers, and the names of its parameters
#
# Metadata has the keys of llama.cpp (``gguf/constants.py`` of its Python package), tensors its names
# (``gguf/tensor_mapping.py``).


class Architecture(NamedTuple):
    """The transformers configuration and parameter names of an architecture of llama.cpp.

    Attributes:
        kind: its ``model_type`` in transformers.
        settings: returns the settings that only this architecture has.
        names: parameter names that differ from :data:`NAMES`.
        layers: the path of its layers.
        keys: names of settings that differ from :data:`KEYS`.
    """

    kind: str
    settings: Callable[[_Metadata], Mapping[str, Any]] = lambda metadata: {}
    names: Mapping[str, tuple[str, ...]] = {}
    layers: str = "model.layers"
    keys: Mapping[str, str] = {}


class _Metadata:
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
        """Return an integer of the metadata; if it is stated per layer, the value that all layers share.

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
            raise CostError(
                f"its layers differ in {self._name}.{key}, which this model in transformers does not support"
            )
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MOST:
            raise CostError(f"{self._name}.{key} is {value!r:.40} (expected an integer from 1 to {MOST:,})")
        return value


MOST = 2**31
"""Maximum size in the metadata."""

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
"""Modules or parameters of transformers by tensor name; tensor names of layers are without ``blk.N``."""

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


def _head_dim(metadata: _Metadata) -> Mapping[str, Any]:
    heads = metadata.number("attention.head_count")
    return {"head_dim": metadata.optional("attention.key_length") or metadata.number("embedding_length") // heads}


def _llama(metadata: _Metadata) -> Mapping[str, Any]:
    biases = {"attention_bias": metadata.has("blk.0.attn_q.bias"), "mlp_bias": metadata.has("blk.0.ffn_gate.bias")}
    return {**_head_dim(metadata), **biases}


def _mixtral(metadata: _Metadata) -> Mapping[str, Any]:
    used = metadata.number("expert_used_count")
    return {**_head_dim(metadata), "num_local_experts": metadata.number("expert_count"), "num_experts_per_tok": used}


def _experts(metadata: _Metadata) -> Mapping[str, Any]:
    sizes = {
        "num_experts": metadata.number("expert_count"),
        "num_experts_per_tok": metadata.number("expert_used_count"),
    }
    return {**sizes, "moe_intermediate_size": metadata.axis("blk.0.ffn_gate_exps.weight", 1)}


def _qwen2_moe(metadata: _Metadata) -> Mapping[str, Any]:
    return {**_experts(metadata), "shared_expert_intermediate_size": metadata.axis("blk.0.ffn_gate_shexp.weight", 0)}


def _windows(metadata: _Metadata) -> Mapping[str, Any]:
    return {**_head_dim(metadata), "sliding_window": metadata.number("attention.sliding_window")}


def _rotary(metadata: _Metadata) -> Mapping[str, Any]:
    # Phi and StableLM rotate a part of each head.
    of_head = metadata.number("embedding_length") // metadata.number("attention.head_count")
    part = (metadata.optional("rope.dimension_count") or of_head) / max(of_head, 1)
    return {"partial_rotary_factor": part}


def _phi3(metadata: _Metadata) -> Mapping[str, Any]:
    # llama.cpp writes 0 for models without a window, Phi-4 and others.
    window = None if metadata.is_zero("attention.sliding_window") else metadata.optional("attention.sliding_window")
    return {**_rotary(metadata), "sliding_window": window}


def _stablelm(metadata: _Metadata) -> Mapping[str, Any]:
    return {**_rotary(metadata), "use_qkv_bias": metadata.has("blk.0.attn_q.bias")}


def _mamba(metadata: _Metadata) -> Mapping[str, Any]:
    return {
        "state_size": metadata.number("ssm.state_size"),
        "conv_kernel": metadata.number("ssm.conv_kernel"),
        "time_step_rank": metadata.number("ssm.time_step_rank"),
        "intermediate_size": metadata.number("ssm.inner_size"),
        "expand": metadata.number("ssm.inner_size") // metadata.number("embedding_length"),
    }


def _starcoder2(metadata: _Metadata) -> Mapping[str, Any]:
    return {"sliding_window": None, "use_bias": metadata.has("blk.0.attn_q.bias")}


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture("llama", _llama),
    "qwen2": Architecture("qwen2"),
    "qwen2moe": Architecture("qwen2_moe", _qwen2_moe),
    "qwen3": Architecture("qwen3", _head_dim),
    "qwen3moe": Architecture("qwen3_moe", lambda metadata: {**_head_dim(metadata), **_experts(metadata)}),
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
    metadata = _Metadata(file.metadata["general.architecture"], file)
    settings: dict[str, Any] = {
        "vocab_size": metadata.axis("token_embd.weight", 0),
        "tie_word_embeddings": not metadata.has("output.weight"),
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),  # defaults may be beyond the vocabulary
    }
    for key, name in KEYS.items():
        if architecture.kind != "mamba" or key in ("embedding_length", "block_count"):
            settings[architecture.keys.get(key, name)] = metadata.number(key)
    if kv := metadata.optional("attention.head_count_kv") if architecture.kind != "mamba" else None:
        settings["num_key_value_heads"] = kv
    found = {name.split(".")[1] for name in metadata.tensors if name.startswith("blk.")}
    if (stated := settings["num_hidden_layers"]) != len(found) or stated > MOST_LAYERS:
        raise CostError(f"it states {stated:,} layers, and stores tensors of {len(found):,} (at most {MOST_LAYERS:,})")
    return {**settings, **architecture.settings(metadata)}


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
