"""All patterns by name."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.trace.patterns import Pattern

from ..matcher import Decomposition
from .activation import (
    ELU,
    GELU,
    GELU_TANH,
    HARD_SHRINK,
    HARD_SWISH,
    LOG_SIGMOID,
    SILU,
    SOFT_SHRINK,
    THRESHOLD,
    TORCHSCRIPT_GELU,
    TORCHSCRIPT_GELU_TANH,
    TORCHSCRIPT_HARD_SHRINK,
    TORCHSCRIPT_SOFT_SHRINK,
)
from .adaptive_pool import ADAPTIVE_AVG_POOL
from .arithmetic import (
    ADDCDIV,
    ADDCMUL,
    BADDBMM,
    BILINEAR,
    GLU,
    LERP,
    MISH,
    SOFTPLUS,
    TORCHSCRIPT_ADDCMUL,
    TORCHSCRIPT_BADDBMM,
    TORCHSCRIPT_SOFTPLUS,
)
from .assignment import ASSIGN, FULL
from .attention import ATTENTION
from .data_movement import AS_STRIDED, CIRCULAR_PAD, GATHER, IM2COL, INDEX, ROLL, SLICE, TORCHSCRIPT_ROLL
from .elementwise import ATAN2, EXPM1, FLOOR_DIV, IDENTITY, LOG1P, LOG2, NOT_EQUAL, ONE_HOT, REMAINDER, RSQRT
from .linear import CONV, LINEAR
from .loss import LOSSES, TORCHSCRIPT_LOSSES
from .normalization import GROUP_NORM, LAYER_NORM, PLAIN_NORM, RMS_NORM, WEIGHT_NORM
from .recurrent import GRU_CELL, LSTM_CELL, RNN, RNN_CELL
from .resampling import LINEAR_RESIZE
from .statistics import (
    COSINE_SIMILARITY,
    PAIRWISE_DISTANCE,
    PAIRWISE_DISTANCES,
    STD,
    TORCHSCRIPT_COSINE_SIMILARITY,
    TORCHSCRIPT_PAIRWISE_DISTANCE,
    VAR,
)

PATTERNS: Mapping[str, Decomposition] = {
    "attention": ATTENTION,
    "linear": LINEAR,
    "conv": CONV,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    "weight_norm": WEIGHT_NORM,
    "group_norm": GROUP_NORM,
    "plain_norm": PLAIN_NORM,
    **LOSSES,
    "gelu": GELU,
    "gelu_tanh": GELU_TANH,
    "silu": SILU,
    "elu": ELU,
    "softplus": SOFTPLUS,
    "mish": MISH,
    "hard_shrink": HARD_SHRINK,
    "soft_shrink": SOFT_SHRINK,
    "threshold": THRESHOLD,
    "log_sigmoid": LOG_SIGMOID,
    "hard_swish": HARD_SWISH,
    "glu": GLU,
    "addcmul": ADDCMUL,
    "addcdiv": ADDCDIV,
    "lerp": LERP,
    "expm1": EXPM1,
    "log1p": LOG1P,
    "log2": LOG2,
    "floor_div": FLOOR_DIV,
    "remainder": REMAINDER,
    "atan2": ATAN2,
    "std": STD,
    "var": VAR,
    "cosine_similarity": COSINE_SIMILARITY,
    "pairwise_distances": PAIRWISE_DISTANCES,
    "pairwise_distance": PAIRWISE_DISTANCE,
    "one_hot": ONE_HOT,
    "linear_resize": LINEAR_RESIZE,
    "im2col": IM2COL,
    "circular_pad": CIRCULAR_PAD,
    "not_equal": NOT_EQUAL,
    "rsqrt": RSQRT,
    "full": FULL,
    "assign": ASSIGN,
    "identity": IDENTITY,
    "slice": SLICE,
    "roll": ROLL,
    "gather": GATHER,
    "index": INDEX,
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
    "hard_shrink": TORCHSCRIPT_HARD_SHRINK,
    "soft_shrink": TORCHSCRIPT_SOFT_SHRINK,
    "cosine_similarity": TORCHSCRIPT_COSINE_SIMILARITY,
    "pairwise_distance": TORCHSCRIPT_PAIRWISE_DISTANCE,
    **TORCHSCRIPT_LOSSES,
}
"""Patterns of PyTorch's TorchScript-based exporter if they differ, None for an operator it never decomposes.

It writes no origins. It cannot write ``rms_norm`` at all: nodes that compute the same were several operations in the
user's program.
"""
