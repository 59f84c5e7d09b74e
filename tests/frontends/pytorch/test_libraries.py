"""Models of libraries by name, without weights, and the usual inputs of models."""

from __future__ import annotations

import json
import sys
import warnings
from types import SimpleNamespace

import pytest
from torch import nn

from costcore import CostError, Tensor, estimate, table
from costcore.errors import CostWarning
from tests.command_line import main
from tests.registered import load_model, usual_inputs

TINY = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 50,
}


class Timm(nn.Sequential):
    """A network as timm makes them."""

    __module__ = "timm.models.net"

    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        self.pretrained_cfg = {"input_size": (3, 32, 24)}


@pytest.fixture
def timm(monkeypatch):
    names = ["net", "other_net"]
    made = SimpleNamespace(
        is_model=names.__contains__, list_models=lambda: names, create_model=lambda name, pretrained: Timm()
    )
    monkeypatch.setitem(sys.modules, "timm", made)


@pytest.fixture
def config(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    return tmp_path / "config.json"


def test_a_model_of_timm_is_evaluated_on_the_input_of_its_configuration(timm, capsys):
    assert main(["timm:net", "--by", "op", "--format", "csv", "--unit", "none", "--columns", "macs"]) == 0
    out, err = capsys.readouterr()
    assert err == "costcore: timm:net: using default input --input 1x3x32x24 (pretrained_cfg of timm)\n"
    assert f"conv,{30 * 22 * 4 * 3 * 9}\n" in out  # 30 x 22 positions, 4 filters of 3 x 3 x 3
    assert not load_model("timm:net").training


def test_every_command_takes_models_of_libraries(timm, capsys):
    for command in (
        ["memory", "timm:net", "--memory", "1GiB"],
        ["time", "timm:net", "--device", "l4"],
        ["diff", "timm:net", "timm:net"],
    ):
        assert main(command) == 0
    assert "mode" not in capsys.readouterr().err  # the usual one, evaluation mode


def test_a_table_takes_models_of_libraries(config, capsys):
    assert (
        main(["table", f"hf:{config}", "--input", "input_ids=1x4:int64", "--columns", "macs", "--format", "csv"]) == 0
    )
    # a word: 4 * 16 * 16 + 2 * 16 * 32, 2 * 4 * 16 of attention, and the head of 16 * 16 + 16 * 50, in all 3232
    row = capsys.readouterr().out.splitlines()[1]
    assert row.startswith(f"hf:{config},12.93,")
    assert row.endswith((",complete", ",assumed: 1 assumption about data"))  # transformers 4 looks for padding


def test_a_table_states_the_usual_input(timm):
    """Size 3x32x24, a convolution of 3x3 to 4 channels: 4 * (30 * 22) * (3 * 9) = 71,280 MACs."""
    usual, given = table(["timm:net", ("small", "timm:net", (1, 3, 3, 3))], columns=["macs"]).rows
    assert usual.costs["macs"] == 71_280
    assert usual.status == "complete; using default input --input 1x3x32x24 (pretrained_cfg of timm)"
    assert (given.costs["macs"], given.status) == (4 * 27, "complete")


def test_a_remark_on_a_model_is_a_line_of_every_command(monkeypatch, capsys):
    def with_remark(target):
        warnings.warn("a remark", CostWarning, stacklevel=1)
        return nn.Linear(2, 2)

    monkeypatch.setattr("costcore.cli.models.load_model", with_remark)
    monkeypatch.setattr("costcore.cli.training.load_model", with_remark)
    assert main(["memory", "hf:bert", "--memory", "1GiB", "--input", "batch,2"]) == 0
    assert "costcore: hf:bert: a remark\n" in capsys.readouterr().err
    assert main(["serve", "hf:bert", "--device", "l4"]) == 1
    assert "Linear takes no cache" in capsys.readouterr().err


def test_an_unknown_library_has_a_near_match(capsys):
    assert main(["torchvison:resnet50"]) == 1
    assert capsys.readouterr().err.endswith("as well as in the current folder. Did you mean 'torchvision'?\n")


def test_an_unknown_model_has_a_near_match(timm, capsys):
    assert main(["timm:nett"]) == 1
    assert capsys.readouterr().err == "costcore: timm has no model 'nett'. Did you mean 'net'?\n"


def test_an_unknown_model_without_a_near_match_has_the_list(timm, capsys):
    assert main(["timm:qqq"]) == 1
    listing = "python -c 'import timm; print(timm.list_models())'"
    message = f"timm has no model 'qqq'. One of its models is resnet50; all names: {listing}"
    assert capsys.readouterr().err == f"costcore: {message}\n"
    assert main(["timm:e"]) == 1
    assert capsys.readouterr().err.endswith("Did you mean timm:net, timm:other_net?\n")


def test_a_library_that_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "timm", None)
    assert main(["timm:net"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("costcore: timm:net needs timm, which cannot be imported (")
    assert error.endswith("). Run pip install timm.\n")


def test_a_configuration_is_enough(config, capsys):
    assert main([f"hf:{config}", "--by", "op", "--columns", "macs"]) == 0
    assert "--input input_ids=1x512:int64 (configuration of " in capsys.readouterr().err
    for target in (f"hf:{config}", f"hf:{config.parent}"):
        model = load_model(target)
        assert type(model).__name__ == "BertForMaskedLM" and model.config.hidden_size == 16
        assert all(parameter.is_meta for parameter in model.parameters())


@pytest.mark.parametrize("path", ["no/such/config.json", "/no/such"])
def test_a_path_of_no_configuration_is_called_so(path):
    pytest.importorskip("transformers")
    with pytest.raises(CostError, match=f"the configuration {path} does not exist"):
        load_model(f"hf:{path}")


def test_nothing_is_downloaded(monkeypatch):
    pytest.importorskip("transformers")
    import socket

    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("a connection was opened"))
    with pytest.raises(CostError, match=r"no configuration of 'bert-no-such' in the local cache.*Did you mean 'bert'"):
        load_model("hf:bert-no-such")


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("vit", {"pixel_values": (1, 3, 224, 224)}),
        ("whisper", {"input_features": (1, 80, 3000), "decoder_input_ids": Tensor((1, 1), "int64")}),
        ("gpt2", {"input_ids": Tensor((1, 1024), "int64")}),
        ("mistral", {"input_ids": Tensor((1, 4096), "int64")}),
        ("t5", {"input_ids": Tensor((1, 512), "int64"), "decoder_input_ids": Tensor((1, 512), "int64")}),
        ("wav2vec2", {"input_values": (1, 16_000)}),
        ("audio-spectrogram-transformer", {"input_values": (1, 1024, 128)}),
        ("speech_to_text", {"input_features": (1, 100, 80), "decoder_input_ids": Tensor((1, 1), "int64")}),
        ("parakeet_encoder", {"input_features": (1, 100, 80)}),  # a second: a spectrum per 160 of 16,000 samples
        ("clap_audio_model", {"input_features": (1, 1, 1024, 64)}),  # folded to 256 x 256
        ("clap", {"input_ids": Tensor((3, 5), "int64"), "input_features": (1, 1, 1024, 64)}),
        ("dac", {"input_values": (1, 1, 16_000)}),
        ("xlm", {"input_ids": Tensor((1, 512), "int64")}),
        ("clap_text_model", {"input_ids": Tensor((1, 512), "int64")}),  # a part, which is no AutoModel
        ("llava_next", {"input_ids": Tensor((1, 512), "int64")}),  # text alone: images need more than pixels
        ("idefics3", {"input_ids": Tensor((1, 512), "int64")}),
    ],
)
@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_the_usual_input_of_a_type_runs(kind, inputs):
    pytest.importorskip("transformers")
    model = load_model(f"hf:{kind}")
    assert usual_inputs(model, f"hf:{kind}") == inputs
    assert estimate(model, inputs).total_report["macs"] > 0


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "sam_mask_decoder",
            "no model of 'sam_mask_decoder' alone. Pass the model that contains it, such as hf:sam$",
        ),
        (
            "bros",
            "You have to specify bbox .*the default input may not fit: pass another. BrosModel.forward takes input_",
        ),
        ("esm", "the default configuration of 'esm' makes no model .*Pass another one, hf:path/config.json"),
        ("decision_transformer", "no input was passed. DecisionTransformerModel.forward takes states"),
    ],
)
@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_a_type_without_a_usual_input_is_an_error(kind, message):
    pytest.importorskip("transformers")
    with pytest.raises(CostError, match=message):
        estimate(f"hf:{kind}")


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.linear = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, token_ids, segment_ids, mask=None):
        return self.linear(self.embed(token_ids) + self.embed(segment_ids))


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (nn.Conv2d(5, 2, 3), (1, 5, 224, 224)),
        (nn.Conv1d(2, 2, 3), (1, 2, 1000)),
        (nn.LSTM(6, 4, batch_first=True), (1, 16, 6)),
        (nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(2 * 30 * 30, 2)), (1, 3, 32, 32)),
        (nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)), Tensor((1, 128), "int64")),
        (TwoInputs(), dict.fromkeys(("token_ids", "segment_ids"), Tensor((1, 128), "int64"))),
    ],
)
def test_missing_inputs_are_proposed_only_if_the_model_runs_on_them(model, example):
    with pytest.raises(CostError) as caught:
        estimate(model)
    assert caught.value.example == example
    assert estimate(model, example).total_report["n_layers"] > 0


def test_a_model_that_runs_on_no_guess_has_no_example():
    with pytest.raises(CostError) as caught:
        estimate(nn.Bilinear(3, 5, 2))
    assert str(caught.value) == (
        "the model needs inputs. Bilinear.forward takes input1, input2. "
        "Pass them by name, estimate(model, {'input1': …, 'input2': …})."
    )


NEEDY = """
from torch import nn

def make(width):
    return nn.Linear(width, 2)

class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 2)

    def forward(self, x, *, mask):
        return self.linear(x) * mask
"""
SHAPES = "(SHAPE: 1x3x224x224 for images, 1x128:int64 for tokens)"
AS_MODEL = "If make builds the model, pass its result, make(width=…); on the command line 'net.py:make(width=…)'."


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        ("net.py:make", f"make takes width. {AS_MODEL} For example: costcore net.py:make --input SHAPE {SHAPES}"),
        ("net.py:make --input 1x8", f"; if{AS_MODEL[2:-1]}"),
        ("time net.py:make --input 1x8 --device l4", f"; if{AS_MODEL[2:-1]}"),
        (
            "fit net.py:Masked l4",
            "Masked.forward takes x, mask. For example: costcore fit net.py:Masked l4 --input x=SHAPE "
            f"--input mask=SHAPE {SHAPES}",
        ),
        (
            "net.py:Masked --input 1x8",
            "takes x, mask. Pass all by name, as on the command line: --input x=1x8 --input mask=SHAPE",
        ),
        ("net.py:make(width=7)", "For example: costcore 'net.py:make(width=7)' --input 1x7"),
    ],
)
def test_missing_arguments_and_inputs_are_answered_with_what_to_type(tmp_path, monkeypatch, capsys, arguments, end):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NEEDY)
    assert main(arguments.split(" ")) in (1, 2)
    assert capsys.readouterr().err.endswith(f"{end}\n")


def test_the_command_proposes_arguments(tmp_path, capsys):
    (tmp_path / "net.py").write_text("from torch import nn\n\ndef make():\n    return nn.Linear(7, 2)\n")
    target = f"{tmp_path}/net.py:make"
    assert main([target]) == 1
    example = f"the model needs inputs. Linear.forward takes input. For example: costcore {target} --input 1x7\n"
    assert capsys.readouterr().err == f"costcore: {target}: {example}"
    assert main([target, "--input", "1x7", "--memory"]) == 0
    assert capsys.readouterr().err == ""
    assert main([target, "--input", "1x7", "--memory", "--train"]) == 0
    assert "train mode" in capsys.readouterr().err


NORM = """
from torch import nn

def make():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))

def plain():
    return nn.Conv2d(3, 4, 3)
"""


def test_train_mode_is_said_if_it_costs_more(tmp_path, capsys):
    """A batch norm in evaluation mode is one fused multiply-add for each of 4 * 30 * 30 elements, 3,600 FLOPs."""
    (tmp_path / "net.py").write_text(NORM)
    options = ["--input", "1x3x32x32", "--by", "op", "--columns", "flops", "--format", "csv", "--unit", "none"]
    target = f"{tmp_path}/net.py:make"
    said = f"costcore: {target}: train mode, in which batch norms and dropouts cost more (--eval: evaluation mode)\n"
    assert main([target, *options]) == 0
    out, err = capsys.readouterr()
    assert err == said and "batch_norm,3600\n" not in out
    assert main([target, *options, "--eval"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "batch_norm,3600\n" in out
    assert main([target.replace("make", "plain"), *options]) == 0
    assert capsys.readouterr().err == ""
    rows = table([target, target.replace("make", "plain")], (1, 3, 32, 32), columns=["macs"]).rows
    assert [row.status for row in rows] == [
        "complete; train mode, in which batch norms and dropouts cost more",
        "complete",
    ]
    assert table([target], (1, 3, 32, 32), backward=True, columns=["macs"]).rows[0].status == "complete"
    with pytest.raises(SystemExit):
        main([target, *options, "--eval", "--train"])
    assert capsys.readouterr().err.endswith("error: --train cannot be used with --eval\n")


def test_a_training_step_of_a_library_model_runs_in_train_mode(timm, capsys):
    """In train mode a batch norm adds one to its count of batches; in evaluation mode it does not."""
    options = ["--by", "native", "--columns", "n_layers", "--format", "csv"]
    for flags in (["--train"], ["--backward"]):
        assert main(["timm:net", *options, *flags]) == 0
        out, err = capsys.readouterr()
        assert "costcore: timm:net: train mode\n" in err and "aten::add_," in out
    assert main(["timm:net", *options, "--optimizer", "sgd"]) == 0
    assert "costcore: timm:net: train mode\n" in capsys.readouterr().err
    assert main(["timm:net", *options, "--backward", "--eval"]) == 0
    out, err = capsys.readouterr()
    assert err.endswith("(pretrained_cfg of timm)\n") and "aten::add" not in out  # the mode that was asked for
    for given, is_train in (({}, False), ({"backward": True}, True), ({"optimizer": "sgd"}, True)):
        with pytest.warns(CostWarning, match="using default input"):
            report = estimate("timm:net", **given)
        assert ("aten::add_" in report.by("native")) == is_train
