"""All patterns by name."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.trace.patterns import Pattern

from ..matcher import Decomposition
from .activation import ELU, GELU, GELU_TANH, SILU, TORCHSCRIPT_GELU, TORCHSCRIPT_GELU_TANH
from .adaptive_pool import ADAPTIVE_AVG_POOL
from .arithmetic import (
    ADDCMUL,
    BADDBMM,
    BILINEAR,
    GLU,
    MISH,
    SOFTPLUS,
    TORCHSCRIPT_ADDCMUL,
    TORCHSCRIPT_BADDBMM,
    TORCHSCRIPT_SOFTPLUS,
)
from .assignment import ASSIGN, FULL
from .attention import ATTENTION
from .data_movement import AS_STRIDED, GATHER, ROLL, SLICE, TORCHSCRIPT_ROLL
from .elementwise import IDENTITY, NOT_EQUAL, RSQRT
from .linear import CONV, LINEAR
from .normalization import GROUP_NORM, LAYER_NORM, RMS_NORM, WEIGHT_NORM
from .recurrent import GRU_CELL, LSTM_CELL, RNN, RNN_CELL

PATTERNS: Mapping[str, Decomposition] = {
    "attention": ATTENTION,
    "linear": LINEAR,
    "conv": CONV,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    "weight_norm": WEIGHT_NORM,
    "group_norm": GROUP_NORM,
    "gelu": GELU,
    "gelu_tanh": GELU_TANH,
    "silu": SILU,
    "elu": ELU,
    "softplus": SOFTPLUS,
    "mish": MISH,
    "glu": GLU,
    "addcmul": ADDCMUL,
    "not_equal": NOT_EQUAL,
    "rsqrt": RSQRT,
    "full": FULL,
    "assign": ASSIGN,
    "identity": IDENTITY,
    "slice": SLICE,
    "roll": ROLL,
    "gather": GATHER,
    "as_strided": AS_STRIDED,
    "adaptive_avg_pool": ADAPTIVE_AVG_POOL,
    "baddbmm": BADDBMM,
    "bilinear": BILINEAR,
    "rnn": RNN,
    "rnn_cell": RNN_CELL,
    "lstm_cell": LSTM_CELL,
    "gru_cell": GRU_CELL,
}
"""The patterns that ``regroup=True`` looks for, by name."""

TORCHSCRIPT_PATTERNS: Mapping[str, Pattern | None] = {
    "gelu": TORCHSCRIPT_GELU,
    "gelu_tanh": TORCHSCRIPT_GELU_TANH,
    "rms_norm": None,
    "roll": TORCHSCRIPT_ROLL,
    "softplus": TORCHSCRIPT_SOFTPLUS,
    "addcmul": TORCHSCRIPT_ADDCMUL,
    "baddbmm": TORCHSCRIPT_BADDBMM,
}
"""Patterns of PyTorch's TorchScript-based exporter if they differ, None for an operator it never decomposes.

It writes no origins. It cannot write ``rms_norm`` at all: nodes that compute the same were several operations in the
user's program.
"""
