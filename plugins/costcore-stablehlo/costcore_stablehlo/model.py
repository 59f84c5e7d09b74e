"""Read a StableHLO program, from text or from a portable artifact."""

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
"""The script that reads a portable artifact. It runs as a file, because importing this package takes longer."""

SECONDS = 30
"""The maximum time for reading a portable artifact; ``to_text.py`` also limits its CPU time."""

ESCAPED = re.compile(r"(?:\\[89A-Fa-f][0-9A-Fa-f])+")
"""Escaped non-ASCII bytes in the names of a text."""

REFINEMENT = "builtin.module(stablehlo-refine-arguments{{types={types}}},stablehlo-refine-shapes{dynamism})"
"""The StableHLO passes that specialize a program with open sizes to the types of its arguments."""

DYNAMISM_PASSES = ("", ",func.func(stablehlo-canonicalize-dynamism)")


@contextmanager
def quiet_context() -> Iterator[list[str]]:
    """Enter an MLIR context with StableHLO, and yield the list in which its error messages are collected."""
    messages: list[str] = []

    def note(diagnostic: Any) -> bool:
        messages.append(str(diagnostic.message))
        return True

    with make_ir_context() as context, ir.Location.unknown():
        mhlo.register_mhlo_dialect(context)
        context.allow_unregistered_dialects = True  # their operators are listed, but not counted
        context.attach_diagnostic_handler(note)
        yield messages


def read_module(path: str, messages: Sequence[str]) -> Any:
    """Parse a file in the current MLIR context.

    Args:
        path: the file.
        messages: the messages of :func:`quiet_context`.

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
        raise CostError(f"{path} is not a StableHLO program: {_first(messages) or _first([str(error)])}") from error


def refine(module: Any, types: Sequence[str], messages: Sequence[str]) -> None:
    """Specialize a program with open sizes to the types of its arguments.

    Raises:
        CostError: if the types do not fit the program.
    """
    stablehlo.register_stablehlo_passes()
    try:
        for dynamism in DYNAMISM_PASSES:
            text = REFINEMENT.format(types=",".join(types), dynamism=dynamism)
            passmanager.PassManager.parse(text).run(module.operation)
    except (ir.MLIRError, ValueError) as error:
        raise CostError(f"these inputs do not fit: {_first(messages) or _first([str(error)])}") from error


@lru_cache(1)  # fitting formulas in open sizes reads a file about twenty times
def _text_of_artifact(path: str, content: bytes) -> bytes:
    """Convert a portable artifact to text in a subprocess, because a damaged file can crash the process.

    Args:
        path: the file.
        content: the digest of its content, which is part of the cache key.

    Raises:
        CostError: if it is not a program, or takes too much time or memory for its size.
    """
    command = python_command(f"import runpy; runpy.run_path({TO_TEXT!r}, run_name='__main__')", path)
    try:
        found = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise CostError(f"{path} is not a StableHLO program: reading it takes more than {SECONDS} seconds") from error
    if found.returncode:
        messages = _first([line.partition("error: ")[2] for line in found.stderr.decode(errors="replace").splitlines()])
        raise CostError(f"{path} is not a StableHLO program: {messages or 'it is damaged'}")
    return found.stdout


def _text(path: str, data: bytes) -> str:
    """Decode a file and check the limits of :func:`check_expansion`.

    Raises:
        CostError: if it is not UTF-8, or exceeds a limit.
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
    """Replace escaped bytes that are not UTF-8, because the MLIR bindings crash on them."""
    try:
        bytes.fromhex(match.group().replace("\\", "")).decode()
    except UnicodeDecodeError:
        return "?"
    return match.group()


def _first(texts: Sequence[str]) -> str:
    """Return the first line with a message: not empty, and not just a heading that ends with a colon."""
    lines = (line.strip() for text in texts for line in text.splitlines())
    return next((line.removeprefix("error: ")[:300] for line in lines if line and not line.endswith(":")), "")
