"""Reads the headers of safetensors files, never the weights.

The format: https://github.com/huggingface/safetensors#format. A folder of them has a ``config.json`` beside.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from costcore.errors import CostError
from costcore.files import check_values, is_file, open_file, read_text, unreadable
from costcore.ir import BITS

from .stored_tensor import StoredTensor

INDEX, SUFFIX = "model.safetensors.index.json", ".safetensors"

MOST_HEADER = 2**25
"""The most bytes of a header; the format allows three times as many, and the largest models have a few million."""

MOST_FILES = 2000
MOST_TENSORS = 200_000
MOST_AXES = 16
MOST_ELEMENTS = 2**50

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
        CostError: if one is not such a file, or is damaged.
    """
    folder = Path(path)
    names = _indexed(folder / INDEX) if is_file(folder / INDEX) else [each.name for each in folder.glob(f"*{SUFFIX}")]
    if len(names) > MOST_FILES:
        raise CostError(f"{path} has more than {MOST_FILES} safetensors files")
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
        CostError: if it is not such a file, or is damaged.
    """
    with open_file(path) as file:
        try:
            head = file.read(8)
            size = int.from_bytes(head, "little")
            if len(head) < 8 or size > MOST_HEADER:
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
    """Return a tensor of a header.

    Raises:
        CostError: if the entry is not as the format has it.
    """
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, ends = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise CostError(f"{path}: tensor {name!r} has the dtype {dtype!r:.40}, which is unknown")
    if not _are_sizes(shape) or not _are_sizes(ends) or len(shape) > MOST_AXES or len(ends) != 2:
        raise CostError(f"{path}: tensor {name!r} has no shape, or no offsets")
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
    """Return the files that an index names, which are in its folder.

    Raises:
        CostError: if it is not an index.
    """
    weights = _object(read_text(path).encode(), str(path)).get("weight_map")
    names: Iterable[Any] = weights.values() if isinstance(weights, dict) else ()
    found = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    if not found or any("/" in name or "\\" in name or not name.endswith(SUFFIX) for name in found):
        raise CostError(f"{path} has no weight_map with the names of safetensors files in its folder")
    return found


def _object(text: bytes, path: str) -> dict[str, Any]:
    """Return the object that a text in JSON holds.

    Raises:
        CostError: if it holds none.
    """
    check_values(text, path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CostError(f"{path} has a header that is not in JSON: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise CostError(f"{path} has a header that is not an object in JSON")
    return value
