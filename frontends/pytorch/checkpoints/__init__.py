"""The frontend of files of weights: language models by the headers of GGUF and safetensors files."""

from __future__ import annotations

from inspect import signature
from math import ceil, prod
from os import fspath
from typing import TYPE_CHECKING, Any

from costcore.files import is_folder
from costcore.graphs.files import ROWS, accepts, capture, native_names
from costcore.trace.input_shapes import Value

if TYPE_CHECKING:
    from costcore.studies.serving.cached_model import StoredFile
    from costcore.trace.memory_ledger import RawBlock, RawLedger
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
        memory: whether the memory of the run is recorded; the file says how much of it weights take.

    Raises:
        FileError: if a file cannot be read.
        CostError: if a file is damaged, or transformers has no such model.
    """
    from ..estimate import estimate
    from ..serving.cached_model import LAST_ONLY
    from .load import load

    loaded = load(fspath(model))
    if inputs is None:
        inputs = PROMPT
        recorder.notes.append("no inputs were passed: one prompt of 512 tokens is counted, as llama-bench runs")
    formats = ", ".join(loaded.file.formats)
    recorder.notes.append(
        f"the file stores the weights in {loaded.file.nbytes:,} bytes ({formats}); costcore serve reads them so, "
        "and memory holds them so; reads of this report are in the dtype of the computation"
    )
    has_option = LAST_ONLY in signature(loaded.model.forward).parameters
    if has_option and isinstance(inputs, tuple) and not is_folder(fspath(model)):
        inputs = {"input_ids": inputs, LAST_ONLY: Value(1)}
        recorder.notes.append("scores are computed for the last token of each sequence, as llama.cpp does")
    estimate(recorder, loaded.model, inputs, dtype="int64", memory=memory)
    if (ledger := recorder.memory_ledger) is not None:
        recorder.memory_ledger = lambda: _as_stored(ledger(), loaded.file)


def _as_stored(raw: RawLedger, file: StoredFile) -> RawLedger:
    """Return the memory of a run whose parameters are in the formats of a file."""
    note = f"weights are in the formats of the file: {', '.join(file.formats)}"
    return raw._replace(blocks=[_stored(each, file) for each in raw.blocks], notes=(*raw.notes, note))


def _stored(raw: RawBlock, file: StoredFile) -> RawBlock:
    block = raw.block
    size = prod(block.shape)
    part = file.part(block.name.rpartition(".")[0], size) if block.kind == "parameter" else None
    if part is None:
        return raw
    return raw._replace(block=block._replace(nbytes=ceil(part.bits_with_scales * size / 8)))
