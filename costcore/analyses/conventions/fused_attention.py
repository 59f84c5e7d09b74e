"""Attention that PyTorch runs as one fused operator, if nothing of it needs a gradient."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

from costcore.analyses.conventions.learned import learned_inputs
from costcore.analyses.conventions.modules import ModuleIndex
from costcore.ir import prod
from costcore.numbers.dims import Dim, floor_div
from costcore.trace.call import Call
from costcore.trace.trace import Trace


def fused_attention(trace: Trace, modules: ModuleIndex, only_frozen: bool = False) -> frozenset[str]:
    """Return the paths of modules that PyTorch runs as one fused operator without gradients.

    These are attention of one sequence with itself whose batch comes first, and encoder layers around it.

    Args:
        trace: the run.
        modules: its modules.
        only_frozen: only those of which nothing needs a gradient in a run with gradients: in evaluation mode, no
            parameter of theirs is trained, and none on which their inputs depend.
    """
    calls: dict[str, list[Call]] = {}
    activated: set[str] = set()
    for call in trace.calls:
        if modules.types(call.module)[:1] == ("nn.MultiheadAttention",):
            calls.setdefault(call.module, []).append(call)
        elif call.layer.op in ("relu", "gelu"):  # of a function, or of a module nn.ReLU inside
            activated |= {call.module, call.module.rpartition(".")[0]}
    needing: frozenset[str] = frozenset()
    training: frozenset[str] = frozenset()
    if only_frozen and calls:
        needing = _around(modules, compress(trace.calls, learned_inputs(trace)))
        training = _around(modules, (call for call in trace.calls if call.layer.attrs.get("training")))
    fused: set[str] = set()
    for path, own in calls.items():
        if (scores := _scores_of_itself(own)) is None:
            continue
        around = path.rpartition(".")[0]
        is_layer = path and around in activated and modules.types(around)[:1] == ("nn.TransformerEncoderLayer",)
        if path in needing or path in training or (path and around in training):
            continue
        if is_layer and around not in needing:
            fused |= {path, around}
        elif _has_no_float_mask(own, scores):
            fused.add(path)
    return frozenset(fused)


def _around(modules: ModuleIndex, calls: Iterable[Call]) -> frozenset[str]:
    """Return the paths of the modules of calls, and of those around them."""
    return frozenset(path for call in calls for path in (call.module, *modules.ancestors(call.module)))


def _scores_of_itself(calls: Iterable[Call]) -> Call | None:
    """Return the call that computes the scores of attention of a sequence with itself; None for other attention.

    Its queries, keys and values are one product of one input, which was transposed before, and it has as many keys as
    queries: none was added.
    """
    is_transposed = False
    batch: Dim = 0
    for call in calls:
        layer = call.layer
        if call.operator == "aten::transpose" and batch == 0:
            is_transposed = True
        elif layer.op == "linear" and batch == 0:
            x, w = layer.get("x"), layer.get("w")
            if x is None or w is None:
                return None
            if not (is_transposed and x.ndim == 3 and w.shape[0] == 3 * x.shape[-1] and "b" in layer):
                return None
            batch = x.shape[1]
        elif layer.op in ("attention", "matmul") and batch != 0:
            queries, keys, *_ = (tensor.shape for tensor in layer.inputs.values())
            n_keys = keys[-2] if layer.op == "attention" else keys[-1]
            heads = floor_div(prod(queries[:-2]), batch)
            return call if heads % 2 == 0 and n_keys == queries[-2] else None
    return None


def _has_no_float_mask(calls: Iterable[Call], scores: Call) -> bool:
    """Return whether attention has no mask, or one of bool, which it turned into floating-point numbers itself.

    Of a mask that it takes as ``is_causal`` nothing is seen. It is a floating-point one, as PyTorch makes them.
    """
    if scores.layer.attrs.get("causal"):
        return False
    made: set[int] = set()
    for call in calls:
        if call.operator == "aten::masked_fill" or (call.inputs and made.issuperset(call.inputs)):
            made.update(call.outputs)
    operands = zip(scores.layer.inputs, scores.inputs, strict=False)
    return all(each in made for name, each in operands if name in ("mask", "b"))
