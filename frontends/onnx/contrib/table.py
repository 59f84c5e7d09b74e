"""All operators that ONNX Runtime adds to the standard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.translate import Row, by_operator

from . import (
    activation,
    conv,
    elementwise,
    indexing,
    layout,
    linalg,
    matmul,
    normalization,
    pooling,
    random,
    recurrent,
    reduction,
    resampling,
    signal,
)
from .attention import kv_cache, padding, position, projected, sparse
from .fused import activation as fused_activation
from .fused import hyper_connections, moe
from .fused import matmul as fused_matmul
from .fused import normalization as fused_normalization
from .quantization import conversions, operators, packed, products, qonnx
from .spec import OperatorSpec
from .text import extensions, tokens

FAMILIES = (
    activation,
    kv_cache,
    padding,
    position,
    projected,
    sparse,
    conv,
    elementwise,
    fused_activation,
    fused_matmul,
    fused_normalization,
    hyper_connections,
    moe,
    indexing,
    layout,
    linalg,
    matmul,
    normalization,
    pooling,
    conversions,
    operators,
    packed,
    products,
    qonnx,
    random,
    recurrent,
    reduction,
    resampling,
    signal,
    extensions,
    tokens,
)

SPECS: Mapping[str, OperatorSpec] = {spec.key: spec for family in FAMILIES for spec in family.SPECS}
"""Specs by full operator name."""

ROWS: Mapping[str, Sequence[Row]] = by_operator(row for spec in SPECS.values() for row in spec.own_rows)
"""Rows by full operator name; arguments have the names of the operator's schema."""
