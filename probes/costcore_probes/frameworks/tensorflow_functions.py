"""What TensorFlow probes are built of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

__all__ = ["loop", "tf", "x"]


def x(*shape: int) -> Any:
    """Return ones: values do not matter."""
    return tf.ones(shape, tf.float32)


def loop(times: int, body: Callable[[Any], Any], first: Any) -> Any:
    """Apply ``body`` in a loop of the graph."""
    return tf.while_loop(lambda i, y: i < times, lambda i, y: (i + 1, body(y)), (0, first))[1]
