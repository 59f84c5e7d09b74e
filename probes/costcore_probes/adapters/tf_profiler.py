"""The TensorFlow profiler, applied to the graph of a function."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure, Rule
from ..output import quoted
from ..probe import Probe

__all__ = ["ADAPTER"]


def _flops(_format: str, built: Any) -> Figure:
    import tensorflow as tf

    function, inputs = built
    graph = tf.function(function).get_concrete_function(*inputs).graph
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation())
    with quoted("$^"):  # it prints its caveats whatever they are
        total = profiler.profile(graph, options=options.with_empty_output().build())
    return Figure(int(total.total_float_ops))


def _with_others(probe: Probe) -> int:
    return 2 * probe.answer + probe.extras.get("bias", 0) + 5 * probe.extras.get("softmax", 0)


ADAPTER = Adapter(
    name="tf_profiler",
    package="tensorflow",
    declares="float_operations: the number of float operations",
    cites="tensorflow/core/profiler/g3doc/profile_model_architecture.md",
    formats=("tensorflow",),
    counts={"macs": _flops},
    unit={"macs": 2},
    rules=(
        Rule(
            "a bias counts one for each output, and a softmax five",
            "tensorflow/python/ops/nn_ops.py, tensorflow/python/profiler/internal/flops_registry.py",
            _with_others,
        ),
    ),
    framework="tensorflow",
)
