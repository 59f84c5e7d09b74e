"""Every framework that has a layer of the table reports the cost that was worked out by hand, and PyTorch's totals."""

from __future__ import annotations

import pytest

from costcore import Tensor, estimate
from costcore.errors import CostError
from costcore.studies.conformance import CASES, DIFFERS, EQUAL, MISSING, WHOLE, Conformance, outcome
from tests.command_line import main
from tests.conformance.reports import builders
from tests.frameworks import available

BUILDERS = {name: builders(name) for name in available()}
ROWS = [(framework, name) for framework, built in BUILDERS.items() for name in built]


def test_names_are_unique():
    assert len({case.name for case in CASES} | WHOLE.keys()) == len(CASES) + 12


@pytest.mark.frontend("pytorch", "chainer", "onnx")
def test_every_row_is_built_by_some_framework():
    built = {name for _, name in ROWS}
    assert {case.name for case in CASES} | WHOLE.keys() == built


@pytest.mark.parametrize(("framework", "name"), ROWS)
def test_the_cost_of_a_layer_is_the_one_by_hand(framework, name):
    found = outcome(name, BUILDERS[framework][name])
    assert (found.state, found.text) == (EQUAL, "")


@pytest.mark.frontend("pytorch")
class TestMatrix:
    """What the matrix says of a frontend that is wrong."""

    def test_another_cost_and_another_operator_differ(self):
        import torch

        relu, tanh = torch.nn.ReLU(), torch.nn.Tanh()
        found = Conformance(
            {"relu": lambda: estimate(relu, (2, 3, 4, 5)), "sigmoid": lambda: estimate(tanh, (2, 3, 4, 4))}
        )
        by_name = {each.name: each for each in found.outcomes}
        # 2 x 3 x 4 x 5 = 120 elements of 4 bytes in place of 96
        assert by_name["relu"].state == DIFFERS
        assert "mread 480 (expected 384)" in by_name["relu"].text
        assert by_name["sigmoid"][2:] == (DIFFERS, "no call is sigmoid: tanh")
        assert by_name["tanh"].state == MISSING
        assert len(found.differences) == 2
        assert "mread 480 (expected 384)" in found.to_markdown()

    def test_totals_of_networks_are_compared(self):
        import torch

        found = outcome("mlp", lambda: estimate(torch.nn.Linear(784, 10), (8, 784)))
        assert found.text == "macs 62720 (expected 2150400); n_params 7850 (expected 269322)"

    def test_the_command_prints_the_matrix(self, tmp_path, capsys, monkeypatch):
        code = "import torch, costcore\nrelu = torch.nn.ReLU()\n"
        code += 'RIGHT = {"relu": lambda: costcore.estimate(relu, (2, 3, 4, 4))}\n'
        code += 'WRONG = {"tanh": lambda: costcore.estimate(relu, (2, 3, 4, 4))}\n'
        (tmp_path / "layers.py").write_text(code)
        monkeypatch.chdir(tmp_path)
        assert main(["conformance", "layers.py:RIGHT", "--format", "csv"]) == 0
        printed = capsys.readouterr()
        assert "relu,layer,equal," in printed.out
        assert "vgg16,network,not built," in printed.out
        assert f"1 equal, 0 differs, {len(CASES) + 11} not built" in printed.err
        assert main(["conformance", "layers.py:WRONG"]) == 1
        assert main(["conformance", "layers.py:relu"]) == 1
        assert "is not a mapping" in capsys.readouterr().err


def test_an_unknown_row_is_refused():
    with pytest.raises(CostError, match="unknown layer or network 'rleu'"):
        Conformance({"rleu": lambda: None})
    with pytest.raises(CostError, match="unknown layer or network"):
        outcome("rleu", lambda: None)


def test_the_fixture_of_pytest_compares_a_row(cost_conformance):
    torch = pytest.importorskip("torch")
    relu = torch.nn.ReLU()
    cost_conformance("relu", lambda: estimate(relu, Tensor((2, 3, 4, 4), "float32")))
    with pytest.raises(pytest.fail.Exception, match="expected 384"):
        cost_conformance("relu", lambda: estimate(relu, (2, 3, 4)))
