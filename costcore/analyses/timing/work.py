"""The work of a call for each engine of a device, in seconds at the highest rates."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from costcore.analyses.devices.device import REAL_PART, Device
from costcore.analyses.timing.fewest_products import CONVOLUTIONS, fewest_products
from costcore.analyses.timing.upper_bounds import needed_part
from costcore.ir import BITS, Cost, Layer, Operations
from costcore.numbers.dims import Dim

POLYNOMIAL_SLOTS = 4
"""The least operations by which a vector engine computes a special function as a polynomial, as fast kernels do."""

INDEX_DTYPES = ("bool", "int32", "int64", "uint32", "uint64", "string")
"""The dtypes of masks, indices and lengths: not those of what is computed, unless nothing else is there."""

NOT_MULTIPLIED = ("_scale", "_zero_point")
"""Ends of the names of operands by which a quantized product is scaled."""


class Work(NamedTuple):
    """Seconds that each pipe of a device is busy at least. Pipes work at the same time.

    Attributes:
        matrix: the matrix engine.
        multiply: multiplications, multiply-adds and divisions of the vector engine.
        add: its additions, which it may do beside the former or join with them to multiply-adds.
        compare: its comparisons and selections.
        special: special functions.
    """

    matrix: float = 0.0
    multiply: float = 0.0
    add: float = 0.0
    compare: float = 0.0
    special: float = 0.0

    @classmethod
    def sum(cls, works: Iterable[Work]) -> Work:
        """Return the work of several calls."""
        return cls(*map(sum, zip(cls(), *works, strict=True)))

    def scaled(self, times: float) -> Work:
        """Return the work of so many executions."""
        return Work(*(seconds * times for seconds in self))

    def by_engine(self) -> dict[str, float]:
        """Return the seconds of the matrix engine, the vector engine and the special functions."""
        return {
            "matrix": self.matrix,
            "vector": max(self.multiply, self.add, self.compare),
            "special": self.special,
        }


def _amounts(layer: Layer, cost: Cost, device: Device) -> Work:
    """Return how many operations, not seconds, of each pipe a layer cannot do without; products are those of macs."""
    needed = fewest_products(layer, device.fast_convolution)
    part = 1.0 if layer.op in CONVOLUTIONS else needed  # a mask also excludes what else is done with a pair
    least = needed_part(layer, cost)
    needed, part = needed * least, part * least
    operations, macs = _operations(cost), _number(cost.macs)
    multiply = max(0.0, _number(operations.fma) + _number(operations.mul) - macs) + _number(operations.div)
    others = (multiply, _number(operations.add), _number(operations.cmp), _number(operations.special))
    return Work(macs * needed, *(part * amount for amount in others))


def needs_of(layer: Layer, cost: Cost, device: Device, tf32: Collection[str] = ()) -> tuple[Work, list[str]]:
    """Return the least work of one execution of a layer, and the dtypes that it needs and the device file lacks.

    Args:
        layer: the layer.
        cost: its cost, with numbers.
        device: the device.
        tf32: the operators whose float32 products may be rounded to TF32: ``conv``, ``matmul`` (all others).
    """
    amounts, product, dtype = _amounts(layer, cost, device), product_dtype(layer), arithmetic_dtype(layer)
    vector, special_unit = device.vector_rate(dtype), device.special_rate(dtype)
    engine, product_rate = engine_of_products(layer, device, tf32)
    missing = [product] if amounts.matrix and not (device.matrix_rate(product) or device.vector_rate(product)) else []
    is_arithmetic = amounts.multiply or amounts.add or amounts.compare
    if (is_arithmetic or (amounts.special and not special_unit)) and not device.computes(dtype):
        missing.append(dtype)
    on_matrix = engine == "matrix"
    slots = (vector or 0.0) / 2
    products = _seconds(2 * amounts.matrix, product_rate)
    work = Work(
        matrix=products if on_matrix else 0.0,
        multiply=_seconds(amounts.multiply, slots) + (0.0 if on_matrix else products),
        add=_seconds(amounts.add, slots),
        compare=_seconds(amounts.compare, slots),
        special=_seconds(amounts.special, special_unit + slots / POLYNOMIAL_SLOTS),
    )
    return work, missing


def engine_of_products(layer: Layer, device: Device, tf32: Collection[str] = ()) -> tuple[str, float | None]:
    """Return the faster engine for the products of a layer, ``matrix`` or ``vector``, and its FLOP/s."""
    dtype = product_dtype(layer)
    matrix, vector = device.matrix_rate(dtype, may_round(layer, tf32)), device.vector_rate(dtype)
    return ("vector", vector) if matrix is None or (vector is not None and matrix <= vector) else ("matrix", matrix)


def highest_rate(engine: str, layer: Layer, device: Device, tf32: Collection[str] = ()) -> float:
    """Return the FLOP/s at which an engine can work for a layer; 0 if it is unknown."""
    dtype = arithmetic_dtype(layer)
    vector = device.vector_rate(dtype) or 0.0
    if engine == "special":
        return device.special_rate(dtype) + vector / 2 / POLYNOMIAL_SLOTS
    name, rate = engine_of_products(layer, device, tf32)
    rates = {"matrix": 0.0, "vector": vector}
    return max(rates[engine], rate or 0.0) if name == engine else rates[engine]


def _seconds(amount: float, rate: float | None) -> float:
    """Return the time of so many operations; 0 if their rate is unknown, which then does not bind."""
    return amount / rate if rate else 0.0


def _operations(cost: Cost) -> Operations:
    """Return the operations by class; a calculator that returned a number may have counted a multiply-add as two."""
    flops = cost.flops
    if isinstance(flops, Operations):
        return flops
    return Operations(fma=max(0, flops - cost.macs) // 2 + cost.macs)


def _number(value: Dim) -> float:
    return float(value)


def may_round(layer: Layer, tf32: Collection[str]) -> bool:
    """Return whether the float32 products of a layer may be rounded to TF32."""
    return ("conv" if layer.op in CONVOLUTIONS else "matmul") in tf32


def product_dtype(layer: Layer) -> str:
    """Return the narrowest dtype among the operands that a layer multiplies, without masks, indices and scales."""
    named = (name for name in layer.inputs if not name.endswith(NOT_MULTIPLIED) and not name.startswith(("b", "mask")))
    return _narrowest(layer.inputs[name].dtype for name in named)


def arithmetic_dtype(layer: Layer) -> str:
    """Return the narrowest dtype of the tensors of a layer, without masks and indices unless there are only those."""
    tensors = (*layer.inputs.values(), *layer.outputs)
    return _narrowest(tensor.dtype for tensor in tensors if not tensor.is_scalar)


def _narrowest(dtypes: Iterable[str]) -> str:
    found = [REAL_PART.get(dtype, dtype) for dtype in dtypes]
    computed = [dtype for dtype in found if dtype not in INDEX_DTYPES] or [dtype for dtype in found if BITS[dtype]]
    return min(computed, key=BITS.__getitem__, default="float32")
