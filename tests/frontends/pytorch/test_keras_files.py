"""Files in .keras that would run code, open files or take memory: each is refused in a sentence, nothing happens."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import zipfile

import pytest

from costcore import CostError, estimate
from tests.command_line import main
from tests.frameworks import optional

os.environ.setdefault("KERAS_BACKEND", "torch")

keras = optional("keras")

layers = keras.layers


def configuration():
    model = keras.Sequential([keras.Input((4,), name="x"), layers.Dense(3, name="one"), layers.Dense(2, name="two")])
    return keras.saving.serialize_keras_object(model)


@pytest.fixture
def write(tmp_path):
    def to_file(configuration, name="config.json"):
        path = tmp_path / "net.keras"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, configuration if isinstance(configuration, str) else json.dumps(configuration))
        return path

    return to_file


def with_layer(module, class_name, registered_name=None, **config):
    made = configuration()
    layer = {"module": module, "class_name": class_name, "config": {"name": "odd", **config}}
    made["config"]["layers"][1] = layer | {"registered_name": registered_name}
    return made


def with_activation(module, name):
    made = configuration()
    made["config"]["layers"][1]["config"]["activation"] = {
        "module": module,
        "class_name": "function",
        "config": name,
        "registered_name": name,
    }
    return made


CODE = {"class_name": "__lambda__", "config": {"value": ["4wEAAAAAAAAA", None, None]}}

REFUSED = {
    "a lambda": (with_layer("keras.layers", "Lambda", function=CODE), "the layer 'odd' is of class Lambda, .* code"),
    "a lambda inside": (with_layer("keras.layers", "Dense", activation=CODE), "of class __lambda__, .* code of Python"),
    "a lambda of Keras 2": (with_layer(None, "Lambda", function=["4wEAAAAA", None, None]), "of class Lambda"),
    "a saved model": (with_layer("keras.layers", "TFSMLayer", filepath="/x"), "TFSMLayer, which is not one of Keras"),
    "a pickle": (with_layer("keras.layers", "TorchModuleWrapper", data="x"), "TorchModuleWrapper"),
    "code of JAX": (with_layer("keras.layers", "JaxLayer", call_fn="x"), "JaxLayer"),
    "a vocabulary": (with_layer("keras.layers", "StringLookup", vocabulary="/etc/passwd"), "can read other files"),
    "a text": (with_layer("keras.layers", "TextVectorization", vocabulary="/etc/passwd"), "can read other files"),
    "a module": (with_layer("os", "system", command="true"), "the layer 'odd' is of class os.system, which is not one"),
    "a subprocess": (with_layer("subprocess", "Popen"), "subprocess.Popen"),
    "code beside": (with_layer("odd_module", "Layer"), "odd_module.Layer"),
    "a module of Keras": (with_layer("keras.src.utils.torch_utils", "TorchModuleWrapper"), "TorchModuleWrapper"),
    "a module not imported": (with_layer("keras.src.layers.evil", "Layer"), "keras.src.layers.evil.Layer"),
    "a custom class": (
        with_layer("my.net", "Block", "my>Block"),
        r"the layer 'odd' is of class my.net.Block, which is not one of Keras .* Load the file in Python with "
        r"keras.saving.load_model, if you trust it, and pass the model to estimate",
    ),
    "a download": (with_activation("keras.utils", "get_file"), "calls keras.utils.get_file, which is not a function"),
    "a switch": (with_activation("keras.config", "enable_unsafe_deserialization"), "calls keras.config"),
    "weights": (with_activation("keras.applications", "ResNet50"), "calls keras.applications.ResNet50"),
    "a built-in": (with_activation("builtins", "eval"), "calls builtins.eval"),
    "a long text": (
        with_layer(
            "keras.layers", "Dense", x={"class_name": "__numpy__", "config": {"value": [0], "dtype": "S999999999"}}
        ),
        "has the unknown dtype 'S999999999'",
    ),
    "no class": ({**configuration(), "class_name": None}, "has a class name that is not a text"),
    "a list": ([], "config.json has no model"),
    "a layer that is none": (
        {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}},
        "not a model",
    ),
    "unknown arguments": (with_layer("keras.layers", "Dense", units=-1), "Keras cannot build the model: ValueError"),
    "no JSON": ("{", "config.json is damaged"),
    "depth": ("[" * 10**5 + "]" * 10**5, "damaged|deep|has no model"),
    "a deep model": ('{"a":' * 900 + "1" + "}" * 900, "nested more than"),
    "many objects": ({"config": [{"class_name": "__bytes__"}] * 20_001}, "more than 20,000 objects"),
    "many values": ({"config": [0] * 3_000_000}, "more than 2,000,000 values"),
    "a bomb": (" " * 2**27, "config.json has more than 33,554,432 bytes"),
}


def test_the_cause_is_that_of_keras(write):
    """Not the error that was handled when the file was read."""
    try:
        signal.Handlers("none")
    except ValueError:
        with pytest.raises(CostError, match="Keras cannot build the model: ValueError"):
            estimate(write(REFUSED["unknown arguments"][0]))


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_names_other_things_is_refused(name, write):
    config, reason = REFUSED[name]
    begun = time.monotonic()
    with pytest.raises(CostError, match=f"net.keras.* .*({reason})"):
        estimate(write(config))
    assert time.monotonic() - begun < 10


def test_an_optimizer_is_not_looked_at(write):
    config = configuration() | {"compile_config": {"optimizer": {"module": "os", "class_name": "system", "config": {}}}}
    assert estimate(write(config), (5, 4)).total_report["macs"] == 5 * (4 * 3 + 3 * 2)


def test_a_class_that_the_user_registered_is_built(write):
    @keras.saving.register_keras_serializable("costcore_tests")
    class Twice(layers.Layer):
        def call(self, x):
            return x + x

    config = with_layer("odd", "Twice", "costcore_tests>Twice")
    del config["config"]["layers"][2]
    assert estimate(write(config), (5, 4)).total_report["flops"] == 5 * 4


def test_other_archives_are_refused(write, tmp_path):
    with pytest.raises(CostError, match=r"is not a \.keras file of Keras 3"):
        estimate(write("{}", "other.json"))
    for content in (b"", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n" + bytes(100)):
        (tmp_path / "net.keras").write_bytes(content)
        with pytest.raises(CostError, match=r"is not a \.keras file of Keras 3"):
            estimate(tmp_path / "net.keras")
    with pytest.raises(CostError, match="cannot be read"):
        estimate(tmp_path / "missing.keras")


def test_a_backend_that_is_not_counted(write, monkeypatch, capsys):
    monkeypatch.setattr(keras.backend, "backend", lambda: "tensorflow")
    assert main([str(write(configuration()))]) == 1
    assert "not on tensorflow. Set the environment variable KERAS_BACKEND=torch" in capsys.readouterr().err


def test_runs_of_loops_are_an_option_of_jax(write, capsys):
    assert main([str(write(configuration())), "--trips", "3"]) == 1
    assert "Leave out trips (--trips), or set KERAS_BACKEND=jax" in capsys.readouterr().err


def test_a_file_of_hdf5_says_how_to_convert_it(capsys):
    with pytest.raises(SystemExit):
        main(["net.h5"])
    assert "keras.saving.load_model('net.h5').save('net.keras')" in capsys.readouterr().err


def mutated(config, generator):
    """A configuration with a few values in other places."""
    found = json.loads(json.dumps(config))
    places = []
    waiting = [found]
    while waiting:
        item = waiting.pop()
        for key, value in item.items() if isinstance(item, dict) else enumerate(item):
            places.append((item, key))
            if isinstance(value, (dict, list)):
                waiting.append(value)
    values = [None, -1, 0, 2**31, 10**30, 1.5, True, "", "keras", "os", "Lambda", [], {}, [None], "float16", "same"]
    for item, key in generator.sample(places, 3):
        other, name = generator.choice(places)
        item[key] = generator.choice([*values, json.loads(json.dumps(other[name])) if key != name else 7])
    return found


def test_damaged_configurations_end_in_an_error_or_a_report(write):
    generator = random.Random(53)
    for _ in range(60):
        begun = time.monotonic()
        try:
            estimate(write(mutated(configuration(), generator)), (2, 4))
        except CostError as error:
            assert str(error)
        assert time.monotonic() - begun < 10
