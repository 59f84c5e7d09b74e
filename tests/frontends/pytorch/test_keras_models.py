"""Models of Keras on PyTorch, and the same in .keras files: names, parameters, training, published networks."""

from __future__ import annotations

import os
import warnings
import zipfile

import pytest

import costcore
from costcore import CostError, estimate
from costcore.errors import MissingInputsError
from tests.frameworks import optional
from tests.registered import default_inputs

os.environ.setdefault("KERAS_BACKEND", "torch")

keras = optional("keras")

layers = keras.layers

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:keras"),
    pytest.mark.filterwarnings("ignore:__array__ impl:DeprecationWarning"),  # Keras saves tensors of PyTorch
    pytest.mark.filterwarnings("ignore:.*assumption:costcore.CostWarning"),
]


def texts():
    tokens = keras.Input((20,), dtype="int32", name="tokens")
    x = layers.Bidirectional(layers.LSTM(16, name="lstm"), name="both")(layers.Embedding(100, 8, name="embed")(tokens))
    return keras.Model(tokens, layers.Dense(2, name="head")(x))


def two_inputs():
    a, b = keras.Input((8,), name="a"), keras.Input((4,), name="b")
    return keras.Model([a, b], layers.Dense(3)(layers.Concatenate()([layers.Dense(6)(a), b])))


def encoder():
    x = inputs = keras.Input((16, 32))
    x = layers.LayerNormalization(name="norm")(x + layers.MultiHeadAttention(4, 8, name="attention")(x, x))
    return keras.Model(inputs, layers.Dense(32, name="down")(layers.Dense(64, activation="gelu", name="up")(x)) + x)


def image():
    x = inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, name="conv")(layers.Rescaling(1 / 255)(x))
    x = layers.Dropout(0.5)(layers.ReLU()(layers.BatchNormalization(name="norm")(x)))
    return keras.Model(inputs, layers.Dense(2, name="head")(layers.Flatten()(x)))


def application(name):
    return lambda: getattr(keras.applications, name)(weights=None)


SMALL = {"texts": texts, "two inputs": two_inputs, "encoder": encoder, "image": image}

NETWORKS = {
    name: application(name)
    for name in (
        *("ConvNeXtTiny", "DenseNet121", "EfficientNetB0", "EfficientNetV2B0", "InceptionV3", "MobileNetV2"),
        *("MobileNetV3Small", "ResNet50", "ResNet50V2", "VGG16", "Xception"),
    )
}

MACS = {
    # 20 steps each way: the input has 8 features, the state 16, of four gates
    "texts": 2 * 20 * (8 + 16) * 4 * 16 + 2 * 16 * 2,
    "two inputs": 8 * 6 + (6 + 4) * 3,
    # query, key, value and output, then 4 heads of 16 x 16 pairs of 8, twice
    "encoder": 4 * 16 * 32 * 32 + 2 * 4 * 16 * 16 * 8 + 2 * 16 * 32 * 64,
    "image": 6 * 6 * 4 * 3 * 9 + 144 * 2,
    # of its paper, 300 M
    "MobileNetV2": 300_774_272,
}


def resnet50():
    """The MACs of ResNet-50 as Keras has it: the first convolution of a stage has the stride."""
    macs = 112**2 * 7 * 7 * 3 * 64 + 2048 * 1000
    features = 64
    for width, blocks, size in ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)):
        macs += size**2 * features * 4 * width  # the shortcut of the first block
        for _ in range(blocks):
            macs += size**2 * (features * width + 9 * width * width + width * 4 * width)
            features = 4 * width
    return macs


@pytest.fixture
def saved(tmp_path):
    def to_file(model):
        path = tmp_path / "net.keras"
        model.save(path)
        return path

    return to_file


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS)])
def test_a_file_counts_as_its_model(name, saved):
    model = {**SMALL, **NETWORKS}[name]()
    usual = default_inputs(model, "net.py:make")
    live = estimate(model, (1, 224, 224, 3) if usual is None else usual.inputs)
    report = estimate(saved(model), (1, 224, 224, 3) if usual is None else None)
    assert report.total_report["macs"] == live.total_report["macs"]
    assert report.total_report["flops"] == live.total_report["flops"]
    assert [(call.name, call.module) for call in report.trace.calls] == [
        (call.name, call.module) for call in live.trace.calls
    ]
    # Keras counts running statistics, too.
    modules = report.trace.run.modules.values()
    assert report.total_report["n_params_model"] + sum(each.buffers for each in modules) == model.count_params()
    assert {path: each.type for path, each in report.trace.run.modules.items()} == {
        path: each.type for path, each in live.trace.run.modules.items()
    }
    if name in MACS:
        assert report.total_report["macs"] == MACS[name]
    if name == "ResNet50":
        assert report.total_report["macs"] == resnet50()
    assert report.status == ("assumed" if usual is not None else "complete")


def test_modules_are_the_layers_of_keras():
    modules = estimate(texts(), costcore.Tensor((3, 20), "int32")).trace.run.modules
    assert {path: each.type for path, each in modules.items()} == {
        "": "Functional",
        "tokens": "InputLayer",
        "embed": "Embedding",
        "both": "Bidirectional",
        "both.forward_lstm": "LSTM",
        "both.forward_lstm.lstm_cell": "LSTMCell",
        "both.backward_lstm": "LSTM",
        "both.backward_lstm.lstm_cell": "LSTMCell",
        "head": "Dense",
    }
    assert dict(modules["head"].own) == {"kernel": 64, "bias": 2}


def test_a_training_step_of_a_model(saved):
    model = image()
    # the gradients of the weights, and those of the inputs of all layers but the first
    expected = 5 * (2 * 36 * 4 * 27 + 3 * 144 * 2)
    for each in (model, saved(model)):
        report = estimate(each, {"inputs": (5, 8, 8, 3), "training": True}, optimizer="adam", memory=True)
        assert report.total_report["macs"] == expected
        assert report.memory.peak >= 3 * 4 * report.total_report["n_params"]  # the weights, and two states of each
    model.get_layer("conv").trainable = False
    report = estimate(saved(model), (5, 8, 8, 3), backward=True)
    assert report.total_report["macs"] == 5 * (36 * 4 * 27 + 3 * 144 * 2)
    assert report.total_report["n_params"] == 27 * 4 + 4 + 2 * 4 + 144 * 2 + 2


def test_sizes_may_be_names(saved):
    assert str(estimate(saved(image()), ("batch", 8, 8, 3)).total_report["macs"]) == f"{MACS['image']}*batch"


def test_several_inputs_by_position_or_name(saved):
    path = saved(two_inputs())
    for inputs in ([(5, 8), (5, 4)], {"a": (5, 8), "b": (5, 4)}):
        report = estimate(path, inputs)
        assert (report.total_report["macs"], report.status) == (5 * MACS["two inputs"], "complete")


def test_a_subclass_of_model_that_was_called():
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [layers.Dense(4, name=f"block{i}") for i in range(2)]

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model = Net()
    with pytest.raises(CostError, match=r"has no variables yet\. Build it first"):
        estimate(model, (2, 4))
    model(keras.ops.ones((1, 4)))
    report = estimate(model, (2, 4))
    assert report.total_report["macs"] == 2 * 2 * 4 * 4
    assert {call.module for call in report.trace.calls} == {"block0", "block1"}


def test_nothing_of_the_model_is_changed():
    model = image()
    before = [variable.value for variable in model.variables]
    estimate(model, (2, 8, 8, 3), backward=True)
    assert all(variable.value is value for variable, value in zip(model.variables, before, strict=True))


def test_a_large_model_takes_no_memory(saved):
    keras.config.set_dtype_policy("float32")
    path = saved(keras.Sequential([keras.Input((4,)), layers.Dense(8, name="wide"), layers.Dense(2)]))
    text = path_text(path).replace('"units": 8', '"units": 1000000000000').replace("[null, 8]", "[null, 1000000000000]")
    report = estimate(write(path, text), (3, 4))
    assert report.total_report["macs"] == 3 * (4 + 2) * 10**12
    assert report.total_report["n_params"] == (4 + 1 + 2) * 10**12 + 2


def path_text(path):
    with zipfile.ZipFile(path) as archive:
        return archive.read("config.json").decode()


def write(path, text):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", text)
    return path


def test_open_sizes_are_asked_for(saved):
    image = keras.Input((None, None, 3), name="image")
    path = saved(keras.Model(image, layers.Conv2D(2, 3)(image)))
    with pytest.raises(MissingInputsError, match=r"leaves sizes open: image: \(None, None, None, 3\)") as raised:
        estimate(path)
    assert raised.value.example == (1, 224, 224, 3)


def test_the_precision_of_a_model_is_its_own():
    with pytest.raises(CostError, match=r"Call keras.config.set_dtype_policy\('bfloat16'\) before"):
        estimate(image(), (2, 8, 8, 3), precision="bfloat16")


def test_variables_of_later_models_are_initialized(saved):
    path = saved(image())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate(path)
    assert keras.layers.Dense(2).built is False
    later = image()
    assert all(variable.value.device.type != "meta" for variable in later.variables)
