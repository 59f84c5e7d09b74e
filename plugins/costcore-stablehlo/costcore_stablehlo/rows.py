"""Mapping rules of StableHLO operators that JAX lacks."""

from __future__ import annotations

from costcore_jax.rows import operand
from costcore_jax.values import Value

from costcore.translate import Arguments, Row, Source


def _channels_first(a: Arguments) -> Value:
    """Return the data of a batch norm with the features in the second axis."""
    value: Value = a["inputs"][0]
    feature = int(a["feature_index"])
    others = [size for axis, size in enumerate(value.shape) if axis != feature]
    return value.viewed(*others[:1], value.shape[feature], *others[1:])


def _batch_norm(*, training: bool) -> Row:
    inputs: dict[str, Source] = {"x": _channels_first, "w": operand(1), "b": operand(2)}
    if not training:
        inputs |= {"mean": operand(3), "var": operand(4)}
    name = "training" if training else "inference"
    return Row(
        f"jax::batch_norm_{name}",
        "batch_norm",
        inputs,
        {"training": lambda a: training},
        outputs=lambda a, outputs: outputs[:1],
    )


ROWS: tuple[Row, ...] = (_batch_norm(training=False), _batch_norm(training=True))
