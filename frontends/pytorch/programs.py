"""The frontend of programs in files: ``.pt2`` of ``torch.export.save``, and TorchScript.

PyTorch's own loaders read them. Because the loader of ``.pt2`` unpickles objects and evaluates strings of the file, a
file that could run code is refused before. The error for a checkpoint, which stores no model, describes its content.
"""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import tokenize
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from costcore.errors import CostError, FileError
from costcore.files import is_file, open_file
from costcore.graphs.graph import ROWS, accepts, capture, native_names
from costcore.registry import HOW_TO_LOAD_A_CHECKPOINT, state_in

if TYPE_CHECKING:
    from costcore.trace.run import Recorder

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

_GRAPH = re.compile(r"(^|/)(models/[^/]*|serialized_exported_program)\.json$")

_MEMBER = re.compile(
    r"(^|/)(data/(weights|constants|sample_inputs)/\w+(\.pt|\.json)?|models/\w+\.json|archive_(format|version)|version"
    r"|byteorder|\.data/\w+|serialized_exported_program\.json|serialized_(state_dict|constants|example_inputs)\.pt)$"
)
"""Matches the parts of a program, also of one that an older PyTorch saved."""

MAX_GRAPH = 2**26
"""The maximum size of the graph of a program, or of the pickle of a checkpoint, in bytes."""

MAX_CODE = 2**23
"""The maximum size of the code of TorchScript, in bytes."""


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
        model: the path of a ``.pt2`` file, or of TorchScript in a ``.pt``, ``.pth`` or ``.torchscript`` file.
        inputs: as for a module; default: the example inputs of a ``.pt2`` program.
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
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            is_program = any(map(_GRAPH.search, names))
            if archive.start_dir != _directory_offset(path):
                raise CostError(
                    f"{path}: the ZIP directory has an unexpected offset, so that readers may see different files"
                )
            for info in archive.infolist():
                if info.filename.endswith((".pkl", ".json")) and info.file_size > MAX_GRAPH:
                    size = f"{info.file_size:,} bytes (expected at most {MAX_GRAPH:,})"
                    raise CostError(f"{path}: {info.filename} has {size}")
            if is_program:
                _check_program(path, archive)
            else:
                _check_script(path, archive)
    except CostError:
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, SyntaxError, tokenize.TokenError) as error:
        if names:
            raise CostError(f"{path} is damaged: {error}") from error
        is_program = False
    if is_program:
        return _loaded_program(path)
    if any("/code/" in name for name in names):
        return _loaded_script(path)
    raise CostError(f"{path} is {_described(path, names)}. {HOW_TO_LOAD_A_CHECKPOINT}")


def _directory_offset(path: str) -> int:
    # Python shifts all offsets by the length of data before an archive; the reader of PyTorch does not.
    with Path(path).open("rb") as file:
        end = file.seek(-22, io.SEEK_END)
        start = int.from_bytes(file.read(20)[16:], "little")
        if start == 2**32 - 1:
            file.seek(end - 20)
            file.seek(int.from_bytes(file.read(16)[8:], "little"))
            start = int.from_bytes(file.read(56)[48:], "little")
        return start


def _loaded_program(path: str) -> Any:
    log = logging.getLogger("torch.export")
    was_disabled, log.disabled = log.disabled, True  # it would print the traceback
    try:
        with warnings.catch_warnings():  # PyTorch 2.4 and 2.5 warn of pickles, which were checked
            warnings.simplefilter("ignore", FutureWarning)
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
            raise CostError(f"{path}: {name} is compressed, unlike files that PyTorch saves")
        if re.search(r"/(constants|weights)/(custom|opaque)_obj", name):
            raise CostError(_needs_unpickling(path, name))
        if not _MEMBER.search(name):  # such as the compiled code of a package of AOTInductor
            raise CostError(f"{path}: {name} does not belong to an exported program")
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


_NAME = re.compile(r"[\w.:+-]*")
"""Names, which PyTorch writes into Python code that it runs."""

_OPERATOR = re.compile(
    r"torch\.ops\.(?:aten|higher_order|prims|quantized_decomposed|torchvision)\.(?!from_file\b)\w+(?:\.\w+)?|torch\.sym_\w+|math\.\w+"
    r"|_operator\.(?:add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|and_|or_|not_|eq|ne|lt|le|gt|ge|getitem)"
)
"""Operators that a graph may call: PyTorch looks up any function of any module that ``torch`` imports."""

_TEXT = ("as_string", "guards_code", "torch_version")
"""Keys of texts that are not run; the guards are removed before the first call."""

_NOT_RUN = ("metadata", "range_constraints")
"""Keys whose values PyTorch only looks up."""

_IMPORTS = ("__enum__", "default_factory_module")
"""Keys of structures for which PyTorch imports a module by its name."""

MAX_EXPRESSION = 10_000
"""The maximum length of the expression of a size, in characters."""

MAX_POWER = 64
"""The maximum product of all exponents in the expression of a size: PyTorch computes the powers."""


def _check_texts(path: str, name: str, data: Any) -> None:
    for key, value in _fields(data, _NOT_RUN):
        text = value if isinstance(value, str) else ""
        if key == "use_pickle" and value:
            raise CostError(_needs_unpickling(path, name))
        if key == "expr_str" and not (isinstance(value, str) and _is_arithmetic(value)):
            raise CostError(f"{path}: {name} has a size that is not arithmetic: {str(value)[:80]!r}")
        if key in ("target", "as_operator") and text and not _OPERATOR.fullmatch(text):
            raise CostError(
                f"{path}: {name} calls {text[:80]!r}, which is not an operator of PyTorch; load a file that you trust "
                "with torch.export.load, and pass the result"
            )
        if key in ("in_spec", "out_spec") and text:
            _check_structure(path, name, text)
        elif key not in ("expr_str", *_TEXT) and not _NAME.fullmatch(text):
            raise CostError(f"{path}: {name} has an invalid name: {text[:80]!r}")


def _check_structure(path: str, name: str, text: str) -> None:
    # The context of a node is JSON in a string; for a dict it has the keys.
    for key, value in _fields(json.loads(text)):
        if key in _IMPORTS or value in _IMPORTS or str(value).endswith("defaultdict"):
            raise CostError(f"{path}: {name} has an input that names a module to import")
        if key == "context" and isinstance(value, str) and not _NAME.fullmatch(value):
            _check_structure(path, name, f"[{value}]")
        elif isinstance(value, str) and not _NAME.fullmatch(value):
            raise CostError(f"{path}: {name} has an invalid name: {value[:80]!r}")


def _fields(data: Any, skipped: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    # Items of a list have the key of the list. Every key is yielded as a name, too.
    waiting = [("", data)]
    while waiting:
        key, item = waiting.pop()
        if isinstance(item, dict):
            for name in item:
                yield "", name
            waiting += ((name, value) for name, value in item.items() if name not in skipped)
        elif isinstance(item, list):
            waiting += ((key, value) for value in item)
        else:
            yield key, item


_ARITHMETIC = (ast.Expression, ast.Call, ast.Name, ast.Constant, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare)

_OPERATORS = (ast.operator, ast.unaryop, ast.cmpop, ast.expr_context)

_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift")


def _is_arithmetic(text: str) -> bool:
    # PyTorch passes the text to ``sympy.sympify``, which evaluates it, and then strings in it. Classes of sympy have
    # capital letters.
    try:
        nodes = [*ast.walk(ast.parse(text[: MAX_EXPRESSION + 1], mode="eval"))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    exponents = 1
    for node in nodes:
        exponent: ast.expr | None = None
        if not isinstance(node, (*_ARITHMETIC, *_OPERATORS)):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isidentifier():
            return False
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or not node.func.id[:1].isupper():
                return False
            if node.func.id in _POWERS:
                exponent = node.args[1] if len(node.args) == 2 else node
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift)):
            exponent = node.right
        if exponent is not None:
            exponents *= _exponent(exponent)
    return len(text) <= MAX_EXPRESSION and exponents <= MAX_POWER


def _exponent(node: ast.expr) -> int:
    # ``2``, ``-1``, ``Integer(2)`` or ``Rational(1, 2)``; anything else is too large.
    values = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    numbers = [value for value in values if isinstance(value, int)]
    others = {type(part) for part in ast.walk(node)} - {
        ast.Constant,
        ast.UnaryOp,
        ast.USub,
        ast.Call,
        ast.Name,
        ast.Load,
    }
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} - {"Integer", "Rational"}
    if others or names or len(numbers) < len(values):
        return MAX_POWER + 1
    return max([1, *map(abs, numbers)])


# Checks of TorchScript, which PyTorch runs in its own interpreter, in part while it loads


_LIBRARIES = re.compile(rb"\bops\s*\.\s*(\w+)|\btorch\s*\.\s*classes\s*\.\s*(\w+)")

_KNOWN_LIBRARIES = (
    b"aten prim prims quantized _quantized quantized_decomposed sparse rnn mkldnn torchvision torchaudio".split()
)

_OPENS_FILES = re.compile(r"from_file|save")


def _check_script(path: str, archive: zipfile.ZipFile) -> None:
    size = sum(info.file_size for info in archive.infolist() if info.filename.endswith(".py"))
    if size > MAX_CODE:
        raise CostError(f"{path}: the code has {size:,} bytes (expected at most {MAX_CODE:,})")
    for info in archive.infolist():
        is_code = info.filename.endswith(".py")
        if not is_code and not info.filename.endswith(".pkl"):
            continue
        stored = archive.read(info)
        for found in _LIBRARIES.finditer(stored):
            name = found[1] or found[2]
            if name not in _KNOWN_LIBRARIES:
                raise CostError(_needs_trust(path, info.filename, f"uses the library {name.decode()!r}"))
        if is_code:
            called = _file_operator(stored.decode())
            if called:
                raise CostError(_needs_trust(path, info.filename, f"calls {called!r}, which can open other files"))


def _needs_trust(path: str, name: str, reason: str) -> str:
    return f"{path}: {name} {reason}; load a file that you trust with torch.jit.load, and pass the result"


def _file_operator(code: str) -> str:
    # Only attributes, also through ``getattr``, are looked up as operators; a variable may be called ``save``.
    if not _OPENS_FILES.search(code) and "getattr" not in code:
        return ""
    before, literal = "", ""
    for kind, text, *_ in tokenize.generate_tokens(io.StringIO(code).readline):
        if kind in (tokenize.COMMENT, tokenize.NL):
            continue
        literal = literal + ast.literal_eval(text) if kind == tokenize.STRING else ""  # neighbours are one text
        name = literal or (text if before == "." else "")
        if _OPENS_FILES.fullmatch(name):
            return name
        before = text
    return ""


# Checkpoints


_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")


def _described(path: str, names: Sequence[str]) -> str:
    if not names:
        return "neither TorchScript nor a checkpoint of PyTorch 1.6 or newer"
    try:
        stored = torch.load(path, map_location="meta", weights_only=True)
    except Exception as error:  # a damaged file can raise anything
        found = _GLOBAL.search(str(error))
        if found is None:
            return "neither TorchScript nor a checkpoint"
        return f"a pickle of {found[1]}, which costcore does not unpickle"
    content = state_in(stored) if isinstance(stored, Mapping) else f"a stored {type(stored).__name__}"
    return f"{content}, not a model"
