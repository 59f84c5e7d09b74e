"""``costcore MODEL --by … --columns …``: rows and quantities are chosen apart."""

import pytest

from tests.command_line import main
from tests.core.toy_networks import nested_report


def test_rows_and_columns_are_chosen_apart(toy, tmp_path, capsys):
    saved = tmp_path / "net.json"
    nested_report(toy).to_json(saved)

    def header(*flags):
        assert main([str(saved), "--format", "csv", "--unit", "none", *flags]) == 0
        return capsys.readouterr().out.splitlines()[0].split(",")

    assert header("--by", "call", "--columns", "name,madd") == ["Layer name", "MAdd"]
    assert header("--by", "tree", "--columns", "module,fused_mrw%", "--depth", "1") == ["Module", "Fused R+W (%)"]
    assert header("--by", "run", "--columns", "name,madd") == ["Layer name", "MAdd"]
    assert header("--by", "op", "--summary")[:3] == ["Operator", "Layer type", "# Calls"]
    assert header("--by", "module", "--depth", "1", "--columns", "madd") == ["Module", "MAdd"]
    assert header("--by", "op", "--layers")[:3] == ["Operator", "Module", "Layer name"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--by", "op", "--depth", "1"], "--by: depth needs rows of modules, tree or module (got rows by op)"),
        (["--by", "call,op"], "--by: 'call' cannot be joined with other parts"),
        (["--by", "ops"], "--by: unknown part 'ops' (expected call, type, op"),
        (["--by", "op", "--arena"], "--arena cannot be used with --by: its rows are values in memory"),
        (["--columns", "bound_seconds"], "column 'bound_seconds' needs a parameter: bound_seconds@DEVICE"),
        (["--sort", "flop"], "unknown column 'flop'"),
    ],
)
def test_flags_without_a_meaning_are_refused_with_the_reason(flags, message, capsys):
    with pytest.raises(SystemExit) as left:
        main(["net.onnx", *flags])
    assert left.value.code == 2
    assert message in capsys.readouterr().err
