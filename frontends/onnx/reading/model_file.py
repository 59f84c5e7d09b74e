"""Read a model without its weights from a path, from bytes or from a ``ModelProto``."""

from __future__ import annotations

from os import PathLike, fsdecode
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto

from costcore.errors import CostError
from costcore.files import content_of, open_file, unreadable

from .protobuf_wire import Buffer, without_weights


def read_model(source: Any) -> tuple[Any, str]:
    """Return the model and its name in messages. Opens no file that the model refers to.

    Raises:
        CostError: if the file cannot be read, or is not an ONNX model.
        TypeError: for a source of another type.
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
    raise TypeError(f"expected a path, bytes or an onnx.ModelProto (got {type(source).__name__})")


def _from_file(path: Path) -> Any:
    try:
        with open_file(path) as file:
            content = content_of(file, path)
            if not len(content):
                raise CostError(f"{path} is not an ONNX model: it is empty")
            return _parsed(content, str(path))
    except CostError:
        raise
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


CHECKPOINT = "torch.save writes such files. Build the nn.Module in Python and pass the module"
SIGNATURES = {
    b"version https://git-lfs.github.com/": "it is a Git LFS pointer; git lfs pull fetches the model",
    b"PK\x03\x04": f"it is a zip archive; extract the model from it. {CHECKPOINT}",
    b"\x1f\x8b": "it is gzip-compressed; gunzip extracts the model",
    **dict.fromkeys((bytes((0x80, version)) for version in range(2, 6)), f"it is a pickle; {CHECKPOINT}"),
    b"<": "it is an HTML or XML page, such as a server sends in place of a file",
    b"{": "it is JSON",
    b"[": "it is JSON",
}
"""First bytes of files that are often mistaken for ONNX models, and what a message reports of them."""

TEXT = frozenset((*b"\t\n\r", *range(0x20, 0x7F)))
"""The bytes of plain text."""

HEADER = 64
"""How many bytes at the beginning of a file show its format."""


def _parsed(buffer: Buffer, name: str) -> Any:
    model, found = ModelProto(), _format(bytes(buffer[:HEADER]))
    try:
        model.ParseFromString(without_weights(buffer))
    except (DecodeError, ValueError) as error:
        raise CostError(f"{name} is not an ONNX model: {found or error}") from error
    return _checked(model, name, found)


def _format(header: bytes) -> str:
    """Return what a file is by its first bytes; ``""`` if they do not show it."""
    text = header.removeprefix(b"\xef\xbb\xbf").lstrip()
    for first, found in SIGNATURES.items():
        if header.startswith(first) or text.startswith(first):
            return found
    return "it is plain text" if len(header) > 1 and TEXT.issuperset(header) else ""


def _checked(model: Any, name: str, found: str = "") -> Any:
    if not model.HasField("graph"):
        raise CostError(f"{name} is not an ONNX model: {found or 'it has no graph'}")
    if not (model.graph.node or model.graph.output):
        raise CostError(f"{name} is not an ONNX model: its graph has no nodes and no outputs")
    return model
