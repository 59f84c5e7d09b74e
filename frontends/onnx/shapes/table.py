"""Shape rules of the operators of the ONNX standard."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph.node import Rule
from . import (
    activation,
    attention,
    classical_ml,
    conv,
    elementwise,
    indexing,
    linalg,
    loss,
    matmul,
    normalization,
    optimizer,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    resampling,
    signal,
)
from .layout import creation, rearrange
from .layout import sequences as tensor_sequences
from .text import sequences, strings

FAMILIES = (
    activation,
    attention,
    classical_ml,
    conv,
    elementwise,
    indexing,
    creation,
    rearrange,
    tensor_sequences,
    linalg,
    loss,
    matmul,
    normalization,
    optimizer,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    resampling,
    signal,
    sequences,
    strings,
)

RULES: Mapping[str, Rule] = {key: rule for family in FAMILIES for key, rule in family.RULES.items()}
"""Rules by full operator name."""
