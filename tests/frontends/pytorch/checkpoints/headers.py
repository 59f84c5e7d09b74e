"""Headers of GGUF files: those of tests/data/gguf, and such that a test writes byte by byte."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from costcore.frontends.pytorch import checkpoints
from costcore.frontends.pytorch.checkpoints import files
from costcore.frontends.pytorch.checkpoints.files import FORMATS, Gguf

DATA = Path(__file__).parents[3] / "data/gguf"

NUMBERS = {each.name: number for number, each in FORMATS.items()}


def load(path: Any) -> Any:
    """Return the model of a file or a folder of weights."""
    return checkpoints.load(path)


def read_gguf(path: str) -> Gguf:
    """Return what the header of a file says."""
    return files.read_gguf(path)


def read_safetensors(path: str) -> Any:
    """Return the tensors that the header of a file lists."""
    return files.read_safetensors(path)


def unpacked(name: str, folder: Path) -> str:
    """Write a header of tests/data/gguf into a folder, and return its path."""
    path = folder / f"{name}.gguf"
    path.write_bytes(gzip.decompress((DATA / f"{name}.gguf.gz").read_bytes()))
    return str(path)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(item: Any) -> bytes:
    """Return a value of the metadata with its type."""
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, tuple) and item and isinstance(item[0], str):
        return struct.pack("<IIQ", 9, 8, len(item)) + b"".join(map(text, item))
    if isinstance(item, tuple):
        return struct.pack("<IIQ", 9, 4, len(item)) + struct.pack(f"<{len(item)}I", *item)
    return struct.pack("<II", 4, item)


def header(metadata: Mapping[str, Any], tensors: Iterable[tuple[str, tuple[int, ...], str]], version: int = 3) -> bytes:
    """Return the bytes of a header; shapes are those of PyTorch."""
    listed = list(tensors)
    parts = [b"GGUF", struct.pack("<IQQ", version, len(listed), len(metadata))]
    parts += [text(key) + value(item) for key, item in metadata.items()]
    for name, shape, kind in listed:
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        parts.append(text(name) + sizes + struct.pack("<IQ", NUMBERS[kind], 0))
    return b"".join(parts)


def shortened(found: Gguf, layers: int) -> bytes:
    """Return the header of the same model with fewer layers."""
    name = found.metadata["general.architecture"]
    tensors = [
        (each.name, each.shape, each.format)
        for each in found.tensors
        if not each.name.startswith("blk.") or int(each.name.split(".")[1]) < layers
    ]
    return header({**found.metadata, f"{name}.block_count": layers}, tensors)
