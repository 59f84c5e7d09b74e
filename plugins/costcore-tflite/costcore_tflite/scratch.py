"""Buffers that the runtime for microcontrollers takes while an operator runs, in the arena of the tensors.

Sources: the functions ``Prepare`` of the reference kernels of tflite-micro, ``tensorflow/lite/micro/kernels`` and
``signal/micro/kernels``. Kernels of vendors, as CMSIS-NN has them, take others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from costcore.graphs import GraphValue
from costcore.ir import BITS
from costcore.numbers import Dim, maximum

CELL_STATE = 19
"""The position of the state of the cells among the operands of an LSTM."""

_Values = Sequence[GraphValue | None]
_INTEGERS = ("int8", "int16")


def scratch_of(operator: str, inputs: _Values, outputs: Sequence[GraphValue]) -> tuple[Dim, ...]:
    """Return the bytes of each buffer that an operator takes while it runs.

    Args:
        operator: its name.
        inputs: its operands, in the order of the file; None for those that are left out.
        outputs: its results.
    """
    rule = _RULES.get(operator)
    return rule(inputs, outputs[0]) if rule is not None and outputs else ()


def _first_two(inputs: _Values) -> _Values:
    return (*inputs, None, None)[:2]


def _transposed_conv(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """Sums of 32 bits of an int8 result, of 64 bits of an int16 one."""
    return (y.size * {"int8": 4, "int16": 8}[y.dtype],) if y.dtype in _INTEGERS else ()


def _svdf(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """A number of 32 bits for each filter, and of integers one for each unit."""
    x, features = _first_two(inputs)
    if x is None or features is None or not (x.shape and features.shape):
        return ()
    filters = 4 * x.shape[0] * features.shape[0]
    return (filters, 4 * y.size) if y.dtype in _INTEGERS else (filters,)


def _lstm(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """The four gates of one step, each as large as the state of the cells."""
    cells = inputs[CELL_STATE] if len(inputs) > CELL_STATE else None
    return () if cells is None else (cells.nbytes,) * 4


def _axes(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """A number of 32 bits for each axis of the operand, and for each that is reduced."""
    x, axes = _first_two(inputs)
    return () if x is None or axes is None else (4 * x.ndim, 4 * axes.size)


def _sums(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """The same, and a sum of 32 bits for each integer."""
    return (*_axes(inputs, y), 4 * y.size) if y.dtype in _INTEGERS else _axes(inputs, y)


def _real_fft(inputs: _Values, y: GraphValue) -> tuple[Dim, ...]:
    """The real numbers of a spectrum with as many bins and one more, each of two numbers."""
    return (maximum(y.size - 2, 0) * (BITS[y.dtype] // 8),) if y.dtype in BITS else ()


_RULES: Mapping[str, Callable[[_Values, GraphValue], tuple[Dim, ...]]] = {
    "MEAN": _sums,
    "REDUCE_MAX": _axes,
    "REDUCE_MIN": _axes,
    "SUM": _sums,
    "SVDF": _svdf,
    "SignalRfft": _real_fft,
    "TRANSPOSE_CONV": _transposed_conv,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
