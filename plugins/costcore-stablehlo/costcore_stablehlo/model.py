"""Read a StableHLO program: its text, or the portable artifact that other programs write."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import mhlo, stablehlo

from costcore.errors import CostError
from costcore.files import read_file
from costcore.isolated import python_command

from . import PORTABLE
from .aliases import check_expansion

LARGEST = 2**31
"""The maximum size of a file in bytes."""

TO_TEXT = str(Path(__file__).with_name("to_text.py"))
"""The program that reads a portable artifact. As a file it imports nothing of this package, which would take longer."""

SECONDS = 30
"""The maximum seconds for reading a portable artifact; the process that reads it has a lower limit of its own."""

ESCAPED = re.compile(r"(?:\\[89A-Fa-f][0-9A-Fa-f])+")
"""Bytes of a name that are not ASCII, as a text has them."""

REFINED = "builtin.module(stablehlo-refine-arguments{{types={types}}},stablehlo-refine-shapes{dynamism})"
"""The passes of StableHLO that put sizes of arguments into a program with open sizes."""

PASSES = ("", ",func.func(stablehlo-canonicalize-dynamism)")


@contextmanager
def quiet_context() -> Iterator[list[str]]:
    """Enter a context of MLIR that knows StableHLO, and collect what MLIR says of errors instead of printing it."""
    said: list[str] = []

    def note(diagnostic: Any) -> bool:
        said.append(str(diagnostic.message))
        return True

    with make_ir_context() as context, ir.Location.unknown():
        mhlo.register_mhlo_dialect(context)
        context.allow_unregistered_dialects = True  # their operators are named, and not counted
        context.attach_diagnostic_handler(note)
        yield said


def read_module(path: str, said: Sequence[str]) -> Any:
    """Return the module of a file, in the context of MLIR that is entered.

    Args:
        path: the file.
        said: what MLIR says of errors.

    Raises:
        CostError: if the file cannot be read, is too large, or has another format.
    """
    data = read_file(path, LARGEST)
    if data.startswith(PORTABLE):
        data = _text_of_artifact(path, sha256(data).digest())
    text = _text(path, data)
    try:
        return ir.Module.parse(text)
    except (ir.MLIRError, ValueError) as error:
        raise CostError(f"{path} is not a StableHLO program: {_first(said) or _first([str(error)])}") from error


def refine(module: Any, types: Sequence[str], said: Sequence[str]) -> None:
    """Put the types of the arguments into a program with open sizes.

    Raises:
        CostError: if the program does not allow them.
    """
    stablehlo.register_stablehlo_passes()
    try:
        for dynamism in PASSES:
            text = REFINED.format(types=",".join(types), dynamism=dynamism)
            passmanager.PassManager.parse(text).run(module.operation)
    except (ir.MLIRError, ValueError) as error:
        raise CostError(f"these inputs do not fit: {_first(said) or _first([str(error)])}") from error


@lru_cache(1)  # formulas in open sizes read a file some twenty times
def _text_of_artifact(path: str, content: bytes) -> bytes:
    """Return a portable artifact as text. It is read in a process of its own, which a damaged file can end.

    Args:
        path: the file.
        content: the digest of its content, as a file may change.

    Raises:
        CostError: if it holds something else, or takes more time or memory than a file of its size needs.
    """
    command = python_command(f"import runpy; runpy.run_path({TO_TEXT!r}, run_name='__main__')", path)
    try:
        found = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise CostError(f"{path} is not a StableHLO program: reading it takes more than {SECONDS} seconds") from error
    if found.returncode:
        said = _first([line.partition("error: ")[2] for line in found.stderr.decode(errors="replace").splitlines()])
        raise CostError(f"{path} is not a StableHLO program: {said or 'it is damaged'}")
    return found.stdout


def _text(path: str, data: bytes) -> str:
    """Return the text of a file that nests no deeper than MLIR can follow, and expands to no more than can be printed.

    Raises:
        CostError: if it cannot be decoded, or is beyond these bounds.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CostError(f"{path} is not a StableHLO program: it is neither a text nor a portable artifact") from error
    text = ESCAPED.sub(_escaped, text)
    try:
        check_expansion(text)
    except CostError as error:
        raise CostError(f"{path} is not read: {error}") from error
    return text


def _escaped(match: re.Match[str]) -> str:
    """Return escaped bytes as they are if they are text: bindings of MLIR end the process otherwise."""
    try:
        bytes.fromhex(match.group().replace("\\", "")).decode()
    except UnicodeDecodeError:
        return "?"
    return match.group()


def _first(texts: Sequence[str]) -> str:
    """Return the first line of the first text that says something."""
    lines = (line.strip() for text in texts for line in text.splitlines())
    return next((line.removeprefix("error: ")[:300] for line in lines if line and not line.endswith(":")), "")
