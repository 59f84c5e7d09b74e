"""``costcore diff`` names the options with which a model and its export cost the same."""

from __future__ import annotations

import pytest

from tests.command_line import main
from tests.core.given_costs import Step, net
from tests.frontends.onnx.regroup.decompositions import Spelled

LINEAR = Step("linear", "fc", 120, 120, 0, 4 * (24 + 40 + 5), 4 * 15, (3, 5), {"w": 40, "b": 5})
"""3 rows of 8 features to 5, onto a bias: 3 x 5 x 8 products, each added to something."""


def suggestions(tmp_path, capsys, *arguments, transposed=False):
    """What a comparison of ``LINEAR`` with MatMul and Add suggests."""
    g = Spelled()
    y = g("Add", g("MatMul", "x", g.weight(8, 5)), g.weight(5))
    y = g("Transpose", y, perm=[1, 0]) if transposed else y
    path, saved = tmp_path / "net.onnx", tmp_path / "net.json"
    path.write_bytes(g.model({"x": (3, 8)}, y, producer_name="pytorch").SerializeToString())
    saved.write_text(net(LINEAR, framework="torch").to_json())
    assert main(["diff", str(saved), str(path), *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [line[2:] for line in out.splitlines() if line.startswith("- counted with ")]


@pytest.mark.parametrize(("transposed", "options"), [(False, "--regroup"), (True, "--regroup --layout free")])
def test_a_bias_that_the_exporter_added_is_found(tmp_path, capsys, transposed, options):
    found = suggestions(tmp_path, capsys, transposed=transposed)
    assert found == [f"counted with {options}, MACs, FLOPs and bytes are equal"]
    assert suggestions(tmp_path, capsys, *options.replace("--layout free", "").split(), transposed=False) == []


def test_only_the_option_that_is_missing_is_suggested(tmp_path, capsys):
    found = suggestions(tmp_path, capsys, "--regroup", transposed=True)
    assert found == ["counted with --layout free, MACs, FLOPs and bytes are equal"]
