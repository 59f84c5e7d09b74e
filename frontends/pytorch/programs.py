"""The frontend of programs in files: ``.pt2`` of ``torch.export.save``, and TorchScript.

PyTorch's own loaders read them, which for ``.pt2`` unpickle and evaluate texts of the file. A file is therefore checked
first and refused if it needs either. A checkpoint is described in the error: it stores weights, and no model.
"""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from os import fspath
from typing import TYPE_CHECKING, Any

import torch

from costcore.errors import CostError, FileError
from costcore.files import is_file
from costcore.graphs.graph import ROWS, accepts, capture, native_names
from costcore.registry import HOW_TO_LOAD_A_CHECKPOINT, state_in

if TYPE_CHECKING:
    from costcore.trace.run import Recorder

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

_GRAPH = re.compile(r"(^|/)(models/[^/]*|serialized_exported_program)\.json$")

MAX_GRAPH = 2**26
"""The maximum size of the graph of a program, or of the pickle of a checkpoint, in bytes."""


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any = None,
    *,
    backward: bool = False,
    dtype: torch.dtype | str | None = None,
    memory: bool = False,
    optimizer: Any = None,
    step: str = "steady",
    loss: Any = None,
    precision: str | None = None,
) -> None:
    """Record one pass of a program in a file.

    Args:
        recorder: receives the calls.
        model: the path of a ``.pt2`` file, or of TorchScript in a ``.pt`` or ``.pth`` file.
        inputs: as for a module; default: those that a ``.pt2`` program was exported with.
        backward: as for a module, like all other options.
        dtype: of inputs given as shapes.
        memory: whether memory is recorded.
        optimizer: counts a step of this optimizer.
        step: which step of the optimizer.
        loss: returns the loss from the outputs.
        precision: ``"bfloat16"`` or ``"autocast"``.

    Raises:
        FileError: if the file cannot be read.
        CostError: if it holds no program, or one that only runs after unpickling objects.
    """
    from .estimate import estimate

    options = {"backward": backward, "dtype": dtype, "memory": memory, "optimizer": optimizer, "step": step}
    estimate(recorder, load(fspath(model)), inputs, **options, loss=loss, precision=precision)


def load(path: str) -> Any:
    """Return the program in a file: a ``torch.export.ExportedProgram`` or a TorchScript module.

    Raises:
        FileError, CostError: as :func:`estimate`.
    """
    if not is_file(path):
        raise FileError(f"{path} cannot be read: it is not a file")
    names: list[str] = []
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            is_program = any(map(_GRAPH.search, names))
            for info in archive.infolist():
                if info.filename.endswith((".pkl", ".json")) and info.file_size > MAX_GRAPH:
                    size = f"{info.file_size:,} bytes (expected at most {MAX_GRAPH:,})"
                    raise CostError(f"{path}: {info.filename} has {size}")
            if is_program:
                _check_program(path, archive)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    except (zipfile.BadZipFile, EOFError, RuntimeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        if names:
            raise CostError(f"{path} is damaged: {error}") from error
        is_program = False
    if is_program:
        return _loaded_program(path)
    if any("/code/" in name for name in names):
        return _loaded_script(path)
    raise CostError(f"{path} is {_described(path, names)}, not a model. {HOW_TO_LOAD_A_CHECKPOINT}")


def _loaded_program(path: str) -> Any:
    log = logging.getLogger("torch.export")
    was_disabled, log.disabled = log.disabled, True  # it prints the traceback, too
    try:
        program: Any = torch.export.load(path)
    except Exception as error:  # a damaged file can raise anything
        reason = str(error).partition("\n")[0].removesuffix(".")
        raise CostError(f"{path}: PyTorch cannot load the program: {type(error).__name__}: {reason:.200}") from error
    finally:
        log.disabled = was_disabled
    program._guards_code = []  # Python code, which a call of the module would run
    return program


def _loaded_script(path: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the loader
            return torch.jit.load(path, map_location="cpu")
    except (RuntimeError, UnicodeDecodeError) as error:
        reason = str(error).strip().partition("\n")[0].removesuffix(".")
        raise CostError(f"{path}: PyTorch cannot load the TorchScript: {reason:.200}") from error


# Checks of ``.pt2`` files


def _check_program(path: str, archive: zipfile.ZipFile) -> None:
    for info in archive.infolist():
        name = info.filename
        if info.compress_type != zipfile.ZIP_STORED:
            raise CostError(f"{path}: {name} is compressed, which no file of PyTorch is")
        if re.search(r"/(constants|weights)/(custom|opaque)_obj", name):
            raise CostError(_needs_unpickling(path, name))
        if name.endswith(".json"):
            _check_texts(path, name, json.loads(archive.read(info)))
        elif name.endswith(".pt"):
            try:
                torch.load(io.BytesIO(archive.read(info)), map_location="cpu", weights_only=True)
            except Exception as error:  # a damaged file can raise anything
                raise CostError(_needs_unpickling(path, name)) from error


def _needs_unpickling(path: str, name: str) -> str:
    return (
        f"{path}: {name} stores pickled objects, which costcore does not unpickle; load a file that you trust with "
        "torch.export.load, and pass the result"
    )


def _check_texts(path: str, name: str, data: Any) -> None:
    for key, value in _fields(data):
        if key == "use_pickle" and value:
            raise CostError(_needs_unpickling(path, name))
        if key == "expr_str" and not (isinstance(value, str) and _is_arithmetic(value)):
            raise CostError(f"{path}: {name} has a size that is not arithmetic: {str(value)[:80]!r}")


def _fields(data: Any) -> Iterator[tuple[str, Any]]:
    waiting = [data]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield from item.items()
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


_ARITHMETIC = (ast.Expression, ast.Call, ast.Name, ast.Constant, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare)

_OPERATORS = (ast.operator, ast.unaryop, ast.cmpop, ast.expr_context)


def _is_arithmetic(text: str) -> bool:
    # PyTorch passes the text to ``sympy.sympify``, which evaluates it. Classes of sympy have capital letters.
    try:
        nodes = [*ast.walk(ast.parse(text, mode="eval"))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(node, (*_ARITHMETIC, *_OPERATORS))
        and not (isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id[:1].isupper()))
        for node in nodes
    )


# Checkpoints


_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")


def _described(path: str, names: Sequence[str]) -> str:
    if not names:
        return "neither TorchScript nor a checkpoint of PyTorch 1.6 or newer"
    try:
        stored = torch.load(path, map_location="meta", weights_only=True)
    except Exception as error:  # a damaged file can raise anything
        found = _GLOBAL.search(str(error))
        kind = f" of {found[1]}" if found else ""
        return f"a pickle{kind}, which costcore does not unpickle" if found else "neither TorchScript nor a checkpoint"
    return state_in(stored) if isinstance(stored, Mapping) else f"a stored {type(stored).__name__}"
