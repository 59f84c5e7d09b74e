"""A run with its floating-point tensors at another dtype."""

from __future__ import annotations

from dataclasses import replace

from costcore.counting.pricing import Pricer
from costcore.ir import BITS, Cost, Layer, Tensor, frozen
from costcore.messages import unknown
from costcore.numbers.dims import is_symbolic
from costcore.registry.calculators import calculators
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace

FLOATING = ("float16", "bfloat16", "float32", "float64")
"""The dtypes of weights and activations that are replaced; packed and quantized ones stay."""

DTYPES = (*FLOATING, *(name for name in BITS if name.startswith("float8_")), "int8")
"""The dtypes at which a run can be timed."""


def check_dtype(dtype: object) -> None:
    """Check that a run can be timed at a dtype.

    Raises:
        TypeError: if it is not a string.
        ValueError: if it is another dtype than :data:`DTYPES`.
    """
    if not isinstance(dtype, str):
        raise TypeError(f"dtype must be a string such as 'bfloat16' (got {dtype!r})")
    if dtype not in DTYPES:
        raise ValueError(unknown("dtype", dtype, DTYPES))


def retyped(trace: Trace, dtype: str) -> Trace:
    """Return the trace with weights and activations of this dtype; integers, masks and quantized tensors stay.

    The operations stay as they are. Bytes are those that the calculator gives for the new layer, if it gave those of
    the old one; otherwise they change as the sizes of all operands do.
    """
    change = _Retyping(trace, dtype)
    return Trace(tuple(map(change, trace)), trace.run)


class _Retyping:
    """Changes the dtype of one call after the other, once for equal layers."""

    def __init__(self, trace: Trace, dtype: str) -> None:
        self._dtype = dtype
        self._price = Pricer(calculators(), trace.run.layout)
        self._done: dict[tuple[int, int], tuple[Layer, Cost | None, Layer, Cost | None]] = {}

    def __call__(self, record: CallCost) -> CallCost:
        layer, cost = record.call.layer, record.cost
        key = id(layer), id(cost)
        if key not in self._done:
            self._done[key] = (layer, cost, *self._change(record.call, cost))
        new_layer, new_cost = self._done[key][2:]
        call = tuple.__new__(Call, (new_layer, *record.call[1:]))  # _replace takes as long as all the rest
        return tuple.__new__(CallCost, (call, new_cost, *record[2:]))

    def _change(self, call: Call, cost: Cost | None) -> tuple[Layer, Cost | None]:
        new = layer_at(call.layer, self._dtype)
        if cost is None or new is call.layer:
            return call.layer if cost is not None else new, cost
        old_price, new_price = self._price(call).cost, self._price(call._replace(layer=new)).cost
        if old_price is not None and new_price is not None and _bytes(old_price) == _bytes(cost):
            return new, cost._replace(mread=new_price.mread, mwrite=new_price.mwrite, mcomm=new_price.mcomm)
        read, written = _ratio(new.read, call.layer.read), _ratio(new.written, call.layer.written)
        return new, cost._replace(mread=round(cost.mread * read), mwrite=round(cost.mwrite * written))


def layer_at(layer: Layer, dtype: str) -> Layer:
    """Return the layer with floating-point tensors of this dtype; the same object if it has none of another."""
    inputs = {name: _tensor_at(tensor, dtype) for name, tensor in layer.inputs.items()}
    outputs = tuple(_tensor_at(tensor, dtype) for tensor in layer.outputs)
    return layer if inputs == layer.inputs and outputs == layer.outputs else replace_tensors(layer, inputs, outputs)


def replace_tensors(layer: Layer, inputs: dict[str, Tensor], outputs: tuple[Tensor, ...]) -> Layer:
    """Return the layer with other tensors."""
    return Layer(layer.op, frozen(inputs), outputs, layer.attrs)


def _tensor_at(tensor: Tensor, dtype: str) -> Tensor:
    return replace(tensor, dtype=dtype) if tensor.dtype in FLOATING else tensor


def _bytes(cost: Cost) -> tuple[object, object]:
    return cost.mread, cost.mwrite


def _ratio(new: object, old: object) -> float:
    if is_symbolic(new) or is_symbolic(old) or not old:
        return 1.0
    return new / old  # type: ignore[operator, no-any-return]
