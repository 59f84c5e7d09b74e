"""What is assumed only at sizes at which tensors are too large to keep their values."""

from __future__ import annotations

from costcore.analyses.sizes.samples import Samples
from costcore.frontend import MOST_VALUES
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.evaluation import Evaluation
from costcore.numbers.expressions import symbol_of
from costcore.numbers.symbolic import as_text
from costcore.trace.call import Assumption
from costcore.trace.trace import Trace

Above = tuple[Assumption, Dim, int]
"""An assumption, the elements of the tensor that decides it, and the most with which it is not made."""


def assumed_above(samples: Samples, trace: Trace) -> list[Above]:
    """Return what runs assume exactly where some tensor of the run has too many elements to keep its values.

    Of several such tensors, that with the shortest formula is taken, of those of integers and bools if there are any.
    """
    tensors = {tensor for call in trace.calls for tensor in (*call.layer.inputs.values(), *call.layer.outputs)}
    exact = {tensor for tensor in tensors if tensor.dtype.startswith(("bool", "int", "uint"))}
    found = []
    for assumption, made in samples.assumed.items():
        for group in (exact, tensors):
            sizes = {tensor.size for tensor in group if is_symbolic(tensor.size)}
            fitting = [
                size
                for size in sizes
                if all((_at(samples, size, point) > MOST_VALUES) == (point in made) for point in samples.points)
            ]
            if fitting:
                found.append((assumption, min(fitting, key=lambda size: (len(str(size)), str(size))), MOST_VALUES))
                break
    return found


def note_of(above: Above) -> str:
    """Return the assumption and its condition as a sentence."""
    assumption, elements, most = above
    return f"assumed where {as_text(elements)} exceeds {most:,}, as values of larger tensors are not kept: {assumption}"


def _at(samples: Samples, size: Dim, point: tuple[int, ...]) -> int:
    values = {symbol_of(name): value for name, value in zip(samples.symbols, point, strict=True)}
    return int(Evaluation(values)(size))
