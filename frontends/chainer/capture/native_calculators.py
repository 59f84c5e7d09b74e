"""Custom calculators that take a Chainer function and its arrays, ``calculator(function, in_data, **kwargs)``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from costcore.counting.pricing import CALCULATOR_ERRORS
from costcore.errors import CostError
from costcore.ir import Cost
from costcore.messages import qualified_name
from costcore.numbers.dims import as_dim

from ..arrays import is_array


def native_cost(calculator: partial[Any], function: Any, in_data: Sequence[Any], out_data: Sequence[Any]) -> Cost:
    """Call ``calculator`` and convert the elements that it returns to bytes of the dtype of the first array.

    Raises:
        CostError: if it raises or returns anything but (flops, read, written[, params]).
    """
    who = f"the calculator {qualified_name(calculator.func)} for {type(function).__name__}"
    try:
        result = calculator(function, in_data)
    except CALCULATOR_ERRORS as error:
        raise CostError(f"{who} raised {type(error).__name__}: {error}") from error
    if not isinstance(result, (tuple, list)) or len(result) not in (3, 4):
        raise CostError(f"{who} returned {result!r}; expected (flops, read, written[, params]) in elements")
    flops, read, written, params = (*result, {})[:4]
    itemsize = next(array.itemsize for array in (*in_data, *out_data) if is_array(array))
    try:
        return Cost(as_dim(flops), as_dim(read) * itemsize, as_dim(written) * itemsize, dict(params))
    except (TypeError, ValueError) as error:
        raise CostError(f"{who} returned {result!r}: {error}") from error
