"""Notes on stored tensors that are not the parameters of the module: buffers that look like them, folded constants."""

from __future__ import annotations

from collections.abc import Iterable

from costcore.trace.call import Call
from costcore.translate import role_of

from ..graph.messages import joined
from ..reading.initializers import QUANTIZED
from ..values.value import StoredTensor

LEARNED_NAMES = frozenset(("weight", "bias", "in_proj_weight", "in_proj_bias"))
"""Names of learned tensors in the modules of PyTorch."""

FACTORS = (("matmul", "x1"), ("quantized_matmul", "x1"))
"""Operands that are learned if they are stored."""


def unmarked_note(stored: Iterable[StoredTensor], calls: Iterable[Call], is_rewritten: bool = False) -> str:
    """Return a note on the tensors that count as parameters and may be buffers; ``""`` if there are none.

    The older exporter of PyTorch stores parameters and buffers alike, and tools drop the marks of the newer one. A
    tensor that is read as a weight or a bias, or is the right factor of a matrix product, is learned; one that is added
    to data may be a mask.

    Args:
        stored: the stored tensors of the model.
        calls: all calls of the run.
        is_rewritten: whether a tool that drops marks wrote the file.
    """
    open_ones = {
        tensor.identity: tensor
        for tensor in stored
        if tensor.identity
        and tensor.is_unmarked
        and tensor.is_parameter
        and str(tensor.name).removesuffix(QUANTIZED).rpartition(".")[2] not in LEARNED_NAMES
    }
    for call in calls if open_ones else ():
        for identity, operand in zip(call.inputs, call.layer.inputs, strict=True):
            if role_of(operand) == "param" or (call.layer.op, operand) in FACTORS:
                open_ones.pop(identity, None)
    if not open_ones:
        return ""
    count, elements = len(open_ones), sum(tensor.size for tensor in open_ones.values())
    counts = "counts as a parameter, but may be a buffer" if count == 1 else "count as parameters, but may be buffers"
    advice = (
        "The file that the tool rewrote may mark them"
        if is_rewritten
        else "torch.onnx.export(…, dynamo=True) marks them"
    )
    return (
        f"the file does not mark which tensors are learned: {joined([repr(t.name) for t in open_ones.values()])} "
        f"({elements} elements) {counts}. {advice}"
    )


def folded_note(stored: Iterable[StoredTensor]) -> str:
    """Return a note on the parameters that the exporter replaced by constants computed from them; ``""`` if none.

    A gathered, repeated or sliced parameter has another number of elements than the parameter of the module.
    """
    folded = [tensor for tensor in stored if tensor.folded_from and tensor.is_parameter]
    if not folded:
        return ""
    each = [f"{tensor.name!r} ({tensor.size} elements, from {tensor.folded_from})" for tensor in folded]
    counts = "counts as a parameter" if len(each) == 1 else "count as parameters"
    return (
        f"the exporter folded constants: {joined(each)} {counts} "
        "with the number of elements in the file, which may differ from that of the module. "
        "torch.onnx.export(…, optimize=False) keeps the parameters"
    )
