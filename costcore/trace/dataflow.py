"""What a graph states about its values beyond the operands of its calls: enough to follow the memory of each."""

from __future__ import annotations

from typing import NamedTuple

from costcore.numbers.dims import Dim


class Value(NamedTuple):
    """A value that no call produces as an output of its layer.

    Attributes:
        id: its operand id.
        nbytes: its size.
        name: its name in the model; empty if it has none.
    """

    id: int
    nbytes: Dim
    name: str = ""


class Step(NamedTuple):
    """What a call reads and produces besides the operands of its layer, or a moment between two calls.

    Attributes:
        at: the first output of the call that it completes. If no call has this output, the step takes place before the
            first call whose outputs have larger ids.
        reads: ids of values that are needed until then.
        makes: values that exist from then on.
        takes: pairs of a value that it makes and one that it reads: the first takes over the memory of the second if
            nothing else needs that any more, as the carried values of a loop do.
        overwrites: pairs of a value that it makes and one that it may write over, element by element.
        views: pairs of a value that it makes and the value whose memory that is.
        name: what the step is, for tables.
    """

    at: int
    reads: tuple[int, ...] = ()
    makes: tuple[Value, ...] = ()
    takes: tuple[tuple[int, int], ...] = ()
    overwrites: tuple[tuple[int, int], ...] = ()
    views: tuple[tuple[int, int], ...] = ()
    name: str = ""


class Dataflow(NamedTuple):
    """What a graph states about its values beyond the operands of its calls.

    Attributes:
        inputs: the inputs of the model, which its caller provides.
        stored: the tensors that the model stores and the run reads: weights and constants.
        steps: further reads and values, in order.
        views: pairs of a value and another one that it shares its memory with.
        spans: first and last ids of the values inside a loop or branch, whose calls run without others between them.
        unknown: why lifetimes of values are unknown; empty if all are known.
        unplanned: ids of values whose shapes a runtime does not know before it runs, because the graph computes them.
    """

    inputs: tuple[Value, ...] = ()
    stored: tuple[Value, ...] = ()
    steps: tuple[Step, ...] = ()
    views: tuple[tuple[int, int], ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    unknown: tuple[str, ...] = ()
    unplanned: tuple[int, ...] = ()

    def values(self) -> list[Value]:
        """Return all values, with their sizes."""
        return [*self.inputs, *self.stored, *(value for step in self.steps for value in step.makes)]
