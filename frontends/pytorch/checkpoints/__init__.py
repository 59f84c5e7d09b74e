"""The frontend of files of weights: language models by the headers of GGUF and safetensors files."""

from __future__ import annotations

from os import fspath
from typing import TYPE_CHECKING, Any

from ..files_only import ROWS, accepts, capture, native_names

if TYPE_CHECKING:
    from costcore.trace.recorder import Recorder

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

PROMPT = (1, 512)
"""The tokens of an estimate without inputs: the prompt with which ``llama-bench`` of llama.cpp measures."""


def estimate(recorder: Recorder, model: Any, inputs: Any = None, *, memory: bool = False) -> None:
    """Record one pass of the model of transformers whose weights a file stores; no weight is read.

    Args:
        recorder: receives the calls.
        model: the path of a GGUF file, or of a folder of safetensors files with its ``config.json``.
        inputs: as for a module; default: one prompt of 512 tokens.
        memory: whether the memory of the run is recorded.

    Raises:
        FileError: if a file cannot be read.
        CostError: if a file is damaged, or transformers has no such model.
    """
    from ..estimate import estimate
    from .load import load

    loaded = load(fspath(model))
    if inputs is None:
        inputs = PROMPT
        recorder.notes.append("no inputs were passed: one prompt of 512 tokens is counted, as llama-bench runs")
    formats = ", ".join(loaded.file.formats)
    recorder.notes.append(
        f"the file stores the weights in {loaded.file.nbytes:,} bytes ({formats}); costcore serve "
        "reads them so, this report counts them in the dtype of the computation"
    )
    estimate(recorder, loaded.model, inputs, dtype="int64", memory=memory)
