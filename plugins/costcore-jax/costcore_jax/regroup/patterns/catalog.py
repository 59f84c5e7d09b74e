"""All patterns by name."""

from __future__ import annotations

from collections.abc import Mapping

from . import activation
from .attention import ATTENTION
from .builders import Decomposition
from .normalization import BATCH_NORM, LAYER_NORM, RMS_NORM
from .products import CONV, LINEAR
from .reduction import REDUCE_MEAN
from .softmax import LOG_SOFTMAX, SOFTMAX

PATTERNS: Mapping[str, Decomposition] = {
    "attention": ATTENTION,
    "linear": LINEAR,
    "conv": CONV,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    "batch_norm": BATCH_NORM,
    **activation.PATTERNS,
    "softmax": SOFTMAX,
    "log_softmax": LOG_SOFTMAX,
    "reduce_mean": REDUCE_MEAN,
}
"""Every operator that is looked for; the first that matches is taken."""
