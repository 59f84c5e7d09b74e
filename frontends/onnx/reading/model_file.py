"""Get a model without its weights from a path, from bytes or from a ``ModelProto``."""

from __future__ import annotations

import mmap
from os import PathLike, fsdecode
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto

from costcore.errors import CostError

from .protobuf_wire import Buffer, without_weights


def read_model(source: Any) -> tuple[Any, str]:
    """The model and the words it is called by in messages. No file that the model names is opened.

    Raises:
        CostError: where the file cannot be read, or what it holds is not an ONNX model.
        TypeError: for a source of another kind.
    """
    if isinstance(source, ModelProto):
        return _checked(source, "this ModelProto"), "the model"
    if isinstance(source, (bytes, bytearray, memoryview)):
        view = memoryview(source)
        flat = view.cast("B") if view.c_contiguous else view.tobytes()
        return _parsed(flat, f"{view.nbytes} bytes"), "the model"
    if isinstance(source, (str, PathLike)):
        path = Path(fsdecode(source))
        return _from_file(path), str(path)
    raise TypeError(f"expected a path, bytes or an onnx.ModelProto, got {type(source).__name__}")


def _from_file(path: Path) -> Any:
    try:
        if path.exists() and not path.is_file():
            raise CostError(f"{path} is not a file")
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise CostError(f"{path} is not an ONNX model: it is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return _parsed(mapped, str(path))
    except OSError as error:
        raise CostError(f"{path} cannot be read: {error.strerror or error}") from error
    except CostError:
        raise
    except ValueError as error:
        raise CostError(f"{str(path)!r} is no path: {error}") from error


CODE = "torch.save writes such files: give the model itself, which code makes"
BEGINNINGS = {
    b"version https://git-lfs.github.com/": "it is a pointer of Git LFS; git lfs pull fetches the model",
    b"PK\x03\x04": f"it is a zip archive; unpack it, or, as {CODE}",
    b"\x1f\x8b": "it is compressed by gzip; gunzip unpacks it",
    **dict.fromkeys((bytes((0x80, version)) for version in range(2, 6)), f"it is a pickle; {CODE}"),
    b"<": "it is a page of HTML or XML, such as a server sends in place of a file",
    b"{": "it is JSON",
    b"[": "it is JSON",
}
"""How files begin that are often called models, and what is said of them where they are none."""

TEXT = frozenset((*b"\t\n\r", *range(0x20, 0x7F)))
"""The bytes of plain text."""

LOOKED_AT = 64
"""That many bytes at the beginning of a file tell what it is."""


def _parsed(buffer: Buffer, name: str) -> Any:
    model, seems = ModelProto(), _seems(bytes(buffer[:LOOKED_AT]))
    try:
        model.ParseFromString(without_weights(buffer))
    except (DecodeError, ValueError) as error:
        raise CostError(f"{name} is not an ONNX model: {seems or error}") from error
    return _checked(model, name, seems)


def _seems(beginning: bytes) -> str:
    """What a file seems to be by its first bytes; ``""`` where they do not say."""
    text = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
    for first, what in BEGINNINGS.items():
        if beginning.startswith(first) or text.startswith(first):
            return what
    return "it is plain text" if len(beginning) > 1 and TEXT.issuperset(beginning) else ""


def _checked(model: Any, name: str, seems: str = "") -> Any:
    if not model.HasField("graph"):
        raise CostError(f"{name} is not an ONNX model: {seems or 'it holds no graph'}")
    if not (model.graph.node or model.graph.output):
        raise CostError(f"{name} is not an ONNX model: its graph has no nodes and no outputs")
    return model
