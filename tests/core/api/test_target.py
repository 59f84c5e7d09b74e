"""Targets, ``"net.py:make"``, where a function takes a model; and the typed options of ``estimate``."""

from __future__ import annotations

import inspect
import sys
import typing

import pytest

import costcore
from costcore import CostError, CostWarning, estimate
from tests.registered import specs

torch = pytest.importorskip("torch")

NET = """
from __future__ import annotations
from dataclasses import dataclass
import torch

@dataclass
class Config:  # dataclasses look for the module of their class
    width: int

class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = torch.nn.Linear(3, Config(width).width)

    def forward(self, x):
        return self.fc(x)
"""


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(NET)
    return f"{path}:Net"


def test_estimate_takes_a_target(target):
    """Two rows of 3 inputs, each multiplied for 4 outputs: 24 MACs."""
    assert estimate(target, (2, 3)).total_report["macs"] == 2 * 3 * 4
    assert estimate(f"{target}(width=5)", (2, 3)).total_report["macs"] == 2 * 3 * 5


def test_studies_take_a_target(target):
    assert costcore.fit(target, (2, 3), "1 GiB").fits
    largest = costcore.max_batch(target, (2, 3), "1 MiB", context=0)
    assert largest.batch == costcore.max_batch(torch.nn.Linear(3, 4), (2, 3), "1 MiB", context=0).batch
    assert costcore.TrainingLedger(target, (2, 3)).to_dict()["schema"]


def test_a_model_of_a_library_has_its_usual_inputs():
    """One sequence, as long as the configuration allows."""
    pytest.importorskip("transformers")
    with pytest.warns(CostWarning) as said:
        assert estimate("hf:bert").total_report["macs"] > 0
    text = "hf:bert: using default input {'input_ids': Tensor(shape=(1, 512)"
    assert any(text in str(each.message) for each in said)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("missing.py:Net", r"missing\.py cannot be read"),
        ("torch:Nothing", "torch has no attribute 'Nothing'"),
        ("torch:nn(width=2)", "torch:nn is not a function and takes no arguments"),
        ("hf:bert(width=2)", "hf:bert is a model of a library and takes no arguments"),
        ("net.py:make(**2)", "expected arguments with literals, .* needs a name of its own"),
        ("net.py:make([2, 3])", "argument 1 must have one value"),
        ("net.py:make(a=1,a=2)", "every argument needs a name of its own"),
        ("net.py:make(a=1)(b=2)", "one pair of parentheses is expected"),
        ("net.py:make(a=b)", "text needs quotes, 'b'"),
        ("net.py:GPT(Config(2), n=3)", r"'def make\(\): return GPT\(Config\(2\), n=3\)', and pass 'net.py:make'"),
        (f"net.py:make(a={'1' * 10_000})", "10,002 characters are too many"),
    ],
    ids=lambda text: text[:30],
)
def test_a_target_without_a_model_is_an_error(of, message):
    with pytest.raises((CostError, ValueError), match=message):
        estimate(of, (2, 3))


PART = """
from torch import nn

from .layers import line


def make(width, n_layers=1, *, bias=True):
    return nn.Sequential(*[line(width, bias) for _ in range(n_layers)])
"""


@pytest.mark.parametrize(("folder", "of"), [(".", "nets/part.py"), ("nets", "part.py"), (".", "nets.part")])
@pytest.mark.parametrize("arguments", ["(3, 2, bias=False)", "(3, n_layers=2, bias=False)"])
def test_arguments_by_place_and_files_of_packages(folder, of, arguments, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "part.py").write_text(PART)
    layers = "from torch import nn\n\n\ndef line(width, bias):\n    return nn.Linear(width, width, bias)\n"
    (tmp_path / "nets" / "layers.py").write_text(layers)
    monkeypatch.chdir(tmp_path / folder)
    monkeypatch.syspath_prepend("" if of.endswith(".py") else str(tmp_path))
    try:
        assert estimate(f"{of}:make{arguments}", (2, 3)).total_report["macs"] == 36
    finally:
        for name in ("nets", "nets.part", "nets.layers", "part"):
            sys.modules.pop(name, None)


def test_a_path_is_no_target(tmp_path):
    with pytest.raises(CostError, match="not a supported model"):
        estimate(str(tmp_path / "net.txt"))


def test_typed_options_are_those_of_the_frontends():
    of_models = {name for spec in specs().values() if not spec.suffixes for name in spec.model_options}
    common, models, files = (
        set(getattr(sys.modules[estimate.__module__], f"{kind}Options").__annotations__)
        for kind in ("Common", "Model", "File")
    )
    named = inspect.signature(estimate).parameters.values()
    assert common == {each.name for each in named if each.kind is each.KEYWORD_ONLY}
    assert models - common == of_models
    own = [specs()[name] for name in ("onnx", "traces")]
    assert files - common == {name for spec in own for name in spec.options}
    assert len(typing.get_overloads(estimate)) == 3 if hasattr(typing, "get_overloads") else True
