"""Networks of Keras without trained weights, for conversions: MLPerf Tiny, applications of Keras, small ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import keras
from keras import layers

SIZES = {"Xception": 128}
"""The height and width of images of applications, if it is not 224."""


def _norm(x: Any) -> Any:
    return layers.ReLU()(layers.BatchNormalization()(x))


def _conv(x: Any, units: int, size: int | tuple[int, int], stride: int = 1) -> Any:
    return layers.Conv2D(units, size, strides=stride, padding="same")(x)


def _separable(x: Any, units: int, stride: int = 1) -> Any:
    return _norm(_conv(_norm(layers.DepthwiseConv2D(3, strides=stride, padding="same")(x)), units, 1))


def resnet8() -> keras.Model:
    given = keras.Input((32, 32, 3), batch_size=1)
    x = _norm(_conv(given, 16, 3))
    for units, stride in ((16, 1), (32, 2), (64, 2)):
        y = layers.BatchNormalization()(_conv(_norm(_conv(x, units, 3, stride)), units, 3))
        x = layers.ReLU()(layers.Add()([x if stride == 1 else _conv(x, units, 1, stride), y]))
    return keras.Model(given, layers.Dense(10, activation="softmax")(layers.Flatten()(layers.AveragePooling2D(8)(x))))


def ds_cnn() -> keras.Model:
    given = keras.Input((49, 10, 1), batch_size=1)
    x = layers.Dropout(0.2)(_norm(_conv(given, 64, (10, 4), 2)))
    for _ in range(4):
        x = _separable(x, 64)
    x = layers.Flatten()(layers.AveragePooling2D((25, 5))(layers.Dropout(0.4)(x)))
    return keras.Model(given, layers.Dense(12, activation="softmax")(x))


def vww() -> keras.Model:
    given = keras.Input((96, 96, 3), batch_size=1)
    x = _norm(_conv(given, 8, 3, 2))
    sizes = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
    for units, stride in sizes:
        x = _separable(x, units, stride)
    return keras.Model(given, layers.Dense(2, activation="softmax")(layers.Flatten()(layers.AveragePooling2D(3)(x))))


def autoencoder() -> keras.Model:
    x = given = keras.Input((640,), batch_size=1)
    for units in (128,) * 4 + (8,) + (128,) * 4:
        x = _norm(layers.Dense(units)(x))
    return keras.Model(given, layers.Dense(640)(x))


def encoder() -> keras.Model:
    given = keras.Input((32,), batch_size=1, dtype="int32")
    x = layers.Embedding(1000, 64)(given)
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 16, flash_attention=False)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(64)(layers.Dense(256, activation="gelu")(x)))
    return keras.Model(given, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))


def recurrent(layer: Any) -> keras.Model:
    given = keras.Input((28, 28), batch_size=1)
    return keras.Model(given, layers.Dense(10)(layer(20)(given)))


def unet() -> keras.Model:
    given = keras.Input((64, 64, 3), batch_size=1)
    a = layers.ReLU()(_conv(given, 16, 3))
    b = layers.ReLU()(_conv(layers.MaxPooling2D()(a), 32, 3))
    c = layers.Conv2D(64, 3, padding="same", dilation_rate=2, activation="relu")(layers.MaxPooling2D()(b))
    x = layers.Concatenate()([b, layers.Conv2DTranspose(32, 2, strides=2)(c)])
    x = layers.ReLU()(_conv(x, 32, 3))
    x = layers.Concatenate()([a, layers.UpSampling2D(interpolation="bilinear")(x)])
    return keras.Model(given, layers.Conv2D(2, 1)(layers.PReLU(shared_axes=[1, 2])(x)))


def _application(name: str) -> keras.Model:
    size = SIZES.get(name, 224)
    return getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3))


APPLICATIONS = (
    *("MobileNet", "MobileNetV2", "MobileNetV3Small", "MobileNetV3Large", "EfficientNetB0", "ResNet50"),
    *("DenseNet121", "NASNetMobile", "Xception"),
)

NETWORKS: Mapping[str, Callable[[], keras.Model]] = {
    "resnet8": resnet8,
    "ds_cnn": ds_cnn,
    "vww": vww,
    "autoencoder": autoencoder,
    **{name: partial(_application, name) for name in APPLICATIONS},
    "unet": unet,
    "encoder": encoder,
    "lstm": partial(recurrent, layers.LSTM),
    "gru": partial(recurrent, layers.GRU),
}

RECURRENT_MACS = {"lstm": 28 * 4 * 20 * (28 + 20) + 20 * 10, "gru": 28 * 3 * 20 * (28 + 20) + 20 * 10}
"""28 steps: each gate multiplies 28 inputs and 20 states by a weight per unit; a last layer of 10 units."""

ENCODER_MACS = 2 * (4 * 32 * 64 * 64 + 2 * 4 * 32 * 32 * 16 + 2 * 32 * 64 * 256) + 64 * 5
"""Two layers on 32 tokens of 64 features: four projections, two products of 4 heads, two dense layers; a last layer."""


def leaves(model: Any) -> Iterator[Any]:
    """Yield the layers of a model and of the models in it."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from leaves(layer)
        else:
            yield layer


def macs(name: str, model: keras.Model) -> int:
    """Return the multiply-accumulates by a sum over the layers; others are worked out above."""
    if name in RECURRENT_MACS or name == "encoder":
        return RECURRENT_MACS.get(name, ENCODER_MACS)
    total = 0
    for layer in leaves(model):
        kind, shapes = type(layer).__name__, [tuple(weight.shape) for weight in layer.weights]
        places = math.prod(layer.output.shape[1:-1]) if kind != "InputLayer" else 0
        if kind in ("Conv2D", "DepthwiseConv2D", "Dense"):
            total += math.prod(shapes[0]) * places
        elif kind == "SeparableConv2D":
            total += (math.prod(shapes[0]) + math.prod(shapes[1])) * places
        elif kind == "Conv2DTranspose":
            total += math.prod(shapes[0]) * math.prod(layer.input.shape[1:-1])
        elif shapes and kind not in ("BatchNormalization", "PReLU", "Normalization"):
            raise ValueError(f"no rule for {kind}")
    return total
