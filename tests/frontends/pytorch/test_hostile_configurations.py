"""A ``config.json`` is a file of other people: nothing of its folder runs, and what it asks for is bounded."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest

from costcore import CostError, estimate
from tests.command_line import main
from tests.registered import load_model, usual_inputs

transformers = pytest.importorskip("transformers")

ALL_CODE = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoModelForCausalLM": "evil.Model"}

TINY = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a function that writes a configuration beside code; neither net nor standard input may be used."""
    pytest.importorskip("transformers")
    for name in ("evil", "numpy", "resource", "torch", "transformers"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, lambda *_: pytest.fail("a connection was opened"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was looked up"))
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\ny\ny\n"))

    def write(settings):
        text = settings if isinstance(settings, str) else json.dumps(settings)
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        return tmp_path

    yield write
    assert not (tmp_path / "ran").exists()
    assert sys.stdin.read() == "y\ny\ny\n"


def targets(folder):
    return f"hf:{folder}", f"hf:{folder / 'config.json'}"


@pytest.mark.parametrize("settings", [{"model_type": "evil"}, {"model_type": "evil", "architectures": ["EvilModel"]}])
def test_code_of_the_folder_is_refused_without_a_question(folder, monkeypatch, capsys, settings):
    path = folder({**settings, "auto_map": ALL_CODE})
    monkeypatch.chdir(path)
    for target in (*targets(path), "hf:.", "hf:config.json"):
        assert main([target]) == 1
        assert "needs code of its own (auto_map), which is not run. Pass code" in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings",
    [
        {**TINY, "auto_map": ALL_CODE},
        {**TINY, "auto_map": {key: f"someone/repository--{value}" for key, value in ALL_CODE.items()}},
        {**TINY, "attn_implementation": "someone/kernels", "_attn_implementation": "someone/kernels"},
        {**TINY, "architectures": ["pipeline", "AutoModel", "Trainer", "no such", "BertModel"]},
        {**TINY, "configuration_files": ["../../../config.4.0.0.json"]},
    ],
)
def test_a_type_of_transformers_is_made_by_transformers(folder, settings):
    for target in targets(folder(settings)):
        model = load_model(target)
        assert type(model).__module__ == "transformers.models.bert.modeling_bert"
        assert model.config._attn_implementation in ("eager", "sdpa")


def test_code_of_a_part_of_a_model_is_not_run(folder):
    part = {"model_type": "bert", "auto_map": ALL_CODE, **TINY}
    decoder = {**part, "is_decoder": True, "add_cross_attention": True}
    whole = {"model_type": "encoder-decoder", "architectures": ["EncoderDecoderModel"], "is_encoder_decoder": True}
    path = folder({**whole, "encoder": part, "decoder": decoder})
    for target in targets(path):
        assert type(load_model(target)).__name__ == "EncoderDecoderModel"


@pytest.mark.parametrize("name", ["hf-hub:someone/net", "hf_hub:someone/net", "local-dir:/etc"])
def test_a_name_of_timm_that_says_where_is_refused(folder, name):
    path = folder({"model_type": "timm_wrapper", "architecture": name})
    with pytest.raises(CostError, match=r"config.json: architecture is '.*', and models of a hub or folder"):
        load_model(f"hf:{path}")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model_type": "bert", "num_hidden_layers": 10**9},
            "num_hidden_layers is 1000000000 (expected at most 256)",
        ),
        ({"model_type": "gpt2", "n_layer": 10**5}, "n_layer is 100000 (expected at most 256)"),
        ({"model_type": "swin", "depths": [2, 2, 10**7, 2]}, "depths is 10000000 (expected at most 256)"),
        ({"model_type": "bert", "num_labels": 10**8}, "num_labels is 100000000 (expected at most 100,000)"),
        ({"model_type": "llava", "text_config": {"model_type": "llama", "num_hidden_layers": 10**9}}, "num_hidden"),
        ({"model_type": "llama", "vocab_size": 10**30}, "vocab_size is 1000000000000000000000000000000 (expected at"),
        ({"model_type": "llama", "hidden_size": -(10**30)}, "hidden_size is -1000000000000000000000000000000 (expec"),
        ({"model_type": "whisper", "max_source_positions": 10**9}, "max_source_positions is 1000000000 (expected at"),
        (
            {"model_type": "bert", "architectures": "BertModel"},
            "architectures is 'BertModel' (expected a list of names",
        ),
        ({"model_type": "bert", "architectures": [["BertModel"]]}, "architectures is [['BertModel']] (expected a list"),
        ({"model_type": "bert", "x": [0] * 1_000_001}, "has more than 1,000,000 values"),
        ({"model_type": 10**9}, "cannot be read"),
        ({}, "cannot be read"),
        ("[" * 100_000, "nests its values too deeply"),
        ('{"model_type": "bert", "hidden_size": ' + "9" * 5000 + "}", "is not in JSON"),
        ("[1]", "is not a configuration (expected an object in JSON)"),
        ("hello", "is not in JSON"),
    ],
)
def test_what_is_beyond_all_models_is_refused_at_once(folder, settings, message):
    path = folder(settings)
    for target in targets(path):
        start = time.process_time()
        with pytest.raises(CostError) as error:
            load_model(target)
        assert time.process_time() - start < 5
        assert message in str(error.value) and str(path) in str(error.value)
        assert len(str(error.value)) < 500 + len(str(path))


def peak_mib():
    resource = pytest.importorskip("resource")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "gpt2", "n_positions": 2**24, "n_embd": 2**20, "n_head": 1, "n_layer": 1},
        {"model_type": "whisper", "max_source_positions": 2**24, "d_model": 2**20, "encoder_layers": 1},
        {"model_type": "llama", "vocab_size": 2**31, "hidden_size": 2**31, "num_hidden_layers": 1},
        {"model_type": "vit", "image_size": 2**30, "num_hidden_layers": 1},
    ],
)
def test_large_tables_take_no_memory(folder, settings):
    before, start = peak_mib(), time.process_time()
    try:
        model = load_model(targets(folder(settings))[0])
        estimate(model, usual_inputs(model))
    except CostError as error:
        assert len(str(error)) < 2000
    assert time.process_time() - start < 5
    assert peak_mib() - before < 1024


def test_a_model_that_takes_hours_to_initialize_is_stopped(folder, monkeypatch):
    """The table of sines of DistilBERT is computed in Python, for every position and feature."""
    monkeypatch.setattr("costcore.frontends.pytorch.libraries.MOST_SECONDS", 0.5)
    path = folder({"model_type": "distilbert", "sinusoidal_pos_embds": True, "max_position_embeddings": 2**24})
    start, threads = time.process_time(), threading.active_count()
    with pytest.raises(CostError, match=r"the model takes more than 0.5 seconds to make one of its parts"):
        load_model(f"hf:{path}")
    assert time.process_time() - start < 5
    time.sleep(0.6)  # the exception does not come again
    assert threading.active_count() <= threads


TRACED = """
import sys
from costcore import CostError, estimate
from costcore.frontends.pytorch import libraries
libraries.MOST_SECONDS = 0.5
try:
    estimate(sys.argv[1])
except CostError as error:
    assert "more than 0.5 seconds" in str(error)
    sys.settrace(lambda *event: None)
    print(sum(map(lambda n: n, range(1000))))
"""


def test_code_can_be_traced_after_a_model_was_stopped(folder):
    """As coverage and debuggers do: 0 + 1 + … + 999 = 499,500. A taken-back exception let Python 3.11 loop for ever."""
    path = folder({"model_type": "distilbert", "sinusoidal_pos_embds": True, "max_position_embeddings": 2**24})
    run = subprocess.run(
        [sys.executable, "-c", TRACED, f"hf:{path}"], capture_output=True, text=True, timeout=300, check=False
    )
    assert (run.stdout, run.stderr) == ("499500\n", "")


def test_a_model_that_waits_for_the_processor_is_not_stopped(folder, monkeypatch):
    path = folder(TINY)
    load_model(f"hf:{path}")  # imports the model
    embedding = sys.modules["torch"].nn.Embedding
    make = embedding.__init__
    monkeypatch.setattr(embedding, "__init__", lambda *args, **options: [time.sleep(0.8), make(*args, **options)][1])
    monkeypatch.setattr("costcore.frontends.pytorch.libraries.MOST_SECONDS", 0.5)
    assert load_model(f"hf:{path}").config.hidden_size == TINY["hidden_size"]


def test_a_slow_import_is_not_stopped(folder, monkeypatch, tmp_path):
    """As on a busy machine: a module whose import was stopped would stay half-made for later models."""
    path = folder(TINY)
    load_model(f"hf:{path}")
    (tmp_path / "slow_module.py").write_text(
        "import time\nend = time.process_time() + 1\nwhile time.process_time() < end:\n    sum(range(100))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    embedding = sys.modules["torch"].nn.Embedding
    make = embedding.__init__
    monkeypatch.setattr(
        embedding, "__init__", lambda *args, **options: [import_module("slow_module"), make(*args, **options)][1]
    )
    monkeypatch.setattr("costcore.frontends.pytorch.libraries.MOST_SECONDS", 0.5)
    assert load_model(f"hf:{path}").config.hidden_size == TINY["hidden_size"]
    assert sys.modules.pop("slow_module").end


def test_a_model_of_too_many_parts_is_stopped(folder, monkeypatch):
    monkeypatch.setattr("costcore.frontends.pytorch.libraries.MOST_PARTS", 50)
    with pytest.raises(CostError, match="the model has more than 50 modules and parameters"):
        load_model(f"hf:{folder(TINY)}")


def test_settings_that_are_no_sizes_may_be_large(folder):
    settings = {
        **TINY,
        "model_type": "llama",
        "rope_theta": 10**11,
        "model_max_length": int(1e30),
        "num_key_value_heads": 2,
        "pad_token_id": None,
    }
    assert load_model(f"hf:{folder(settings)}").config.hidden_size == 16


def test_sizes_that_a_configuration_does_not_read_are_noted(folder, capsys):
    settings = {**TINY, "model_type": "llama", "num_kv_heads": 1, "sliding_window": 8, "layer_norm_eps": 1e-5}
    assert main([f"hf:{folder(settings)}", "--input", "1x4:int64"]) == 0
    note = "LlamaConfig does not read 'num_kv_heads'. Did you mean 'num_key_value_heads'?; 'sliding_window'\n"
    assert note in capsys.readouterr().err


def test_nothing_is_left_behind(folder, monkeypatch):
    import tempfile

    path = folder(TINY)
    monkeypatch.setattr(tempfile, "tempdir", str(path / "temporary"))
    Path(tempfile.gettempdir()).mkdir()
    before = sorted(path.rglob("*"))
    load_model(f"hf:{path}")
    assert sorted(path.rglob("*")) == before


@pytest.mark.parametrize("size", [-1, [-1, 4]])
def test_sizes_below_zero_are_no_usual_input(folder, size):
    path = folder(
        {"model_type": "vit", "image_size": 32, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    )
    model = load_model(f"hf:{path}")
    model.config.image_size = size
    with pytest.raises(CostError, match=r"no default input: pixel_values would have the shape \(1, 3, -1, "):
        usual_inputs(model)


def test_a_folder_of_weights_runs_no_code(folder, capsys):
    """The configuration beside safetensors files is read as any other."""
    from shutil import copy

    path = folder({"model_type": "evil", "auto_map": ALL_CODE})
    weights = Path(__file__).parents[2] / "data" / "safetensors" / "small_llama.safetensors"
    copy(weights, path / "model.safetensors")
    for arguments in ([str(path)], ["serve", str(path), "--device", "l4"]):
        assert main(arguments) == 1
        assert "needs code of its own (auto_map), which is not run" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [None, 5, [], {}, "evil"])
def test_a_type_that_transformers_does_not_know_is_refused(folder, kind):
    path = folder({"model_type": kind, "auto_map": ALL_CODE})
    for target in targets(path):
        with pytest.raises(CostError, match="needs code of its own"):
            load_model(target)
