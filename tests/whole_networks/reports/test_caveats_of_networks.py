"""A real network with an unsupported operator: partial in every format, and an error if strict."""

from __future__ import annotations

import io
import json
from math import prod
from pathlib import Path

import pytest

from costcore import CostError, CostWarning, Report, check, compare
from tests.command_line import main

pytestmark = pytest.mark.filterwarnings("ignore::costcore.CostWarning")


PARTIAL = pytest.StashKey[dict[str, Report]]()


def in_pytorch(net):
    """Return the network followed by a PyTorch operator without a formula."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            y = self.net(x)
            return torch.ops.costcorereports.mystery(getattr(y, "logits", y))

    return Net().eval()


def in_chainer(net):
    """Return the network followed by a custom function."""
    import chainer

    class Mystery(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0] * 2,)

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.net = net

        def forward(self, x):
            return Mystery().apply((self.net(x)["prob"],))[0]

    return Net()


def in_onnx(net):
    """Return the graph with a node of a custom domain."""
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [*net.graph.node, helper.make_node("Mystery", [net.graph.output[0].name], ["after"], domain="mylib")],
        "graph",
        net.graph.input,
        [helper.make_tensor_value_info("after", TensorProto.FLOAT, (1, 1000))],
        net.graph.initializer,
    )
    return helper.make_model(graph, opset_imports=[*net.opset_import, helper.make_opsetid("mylib", 1)])


@pytest.fixture(scope="session")
def library():
    """Register a PyTorch operator without a formula."""
    import torch

    with torch.library._scoped_library("costcorereports", "DEF") as library:
        library.define("mystery(Tensor x) -> Tensor")
        library.impl("mystery", lambda x: x * 2, "CompositeExplicitAutograd")
        yield


@pytest.fixture
def mystery(each, request):
    """Return the network with the unsupported operator."""
    if "onnx" in each.subject.frontends:
        return in_onnx(each.model)
    if "chainer" in each.subject.frontends:
        return in_chainer(each.model)
    request.getfixturevalue("library")
    return in_pytorch(each.model)


@pytest.fixture
def partial(each, mystery, request):
    """Return its report, counted once."""
    reports = request.config.stash.setdefault(PARTIAL, {})
    if each.name not in reports:
        with pytest.warns(CostWarning, match="(?i)mystery"):
            reports[each.name] = each.subject.count(mystery)
    return reports[each.name]


def test_the_report_of_the_network_is_complete(each, report):
    assert (report.status, report.ignored_layers, report.assumptions) == ("complete", {}, [])
    assert report.versions["convention"] == "costcore-1"
    assert {"torch", "chainer", "onnx"} & report.versions.keys()


def test_an_unsupported_operator_is_listed_and_not_counted(each, partial, tmp_path, capsys):
    """The operator reads and writes every output of the network, four bytes each."""
    n_bytes = 4 * prod(each.subject.output)
    assert partial.status == "partial"
    (ignored,) = partial.ignored_layers.values()
    assert (ignored["mread"], ignored["mwrite"]) == (n_bytes, n_bytes)
    if "onnx" not in each.subject.frontends:
        assert Path(__file__).name in ignored["traceback"]
    keys = ("flops", "macs", "mread", "mwrite", "n_params", "n_layers")
    totals = (partial.total_report, each.report.total_report)
    assert {key: totals[0][key] for key in keys} == {key: totals[1][key] for key in keys}
    assert partial.tree()["n_unknown"] == 1
    amounts = f"1 call, reads {n_bytes:,} B, writes {n_bytes:,} B"
    for mode in ("table", "md"):
        stream = io.StringIO()
        partial.show_summary_report(stream, mode)
        assert "partial: the totals do not include 1 call of 1 unsupported operator (" in stream.getvalue()
        assert amounts in stream.getvalue()
    partial.to_json(tmp_path / "partial.json")
    assert main([str(tmp_path / "partial.json"), "--summary", "--format", "csv"]) == 0
    assert amounts in capsys.readouterr().err


def test_every_file_states_that_it_is_partial(partial):
    assert json.loads(partial.to_json())["status"] == "partial"
    assert Report.from_json(partial.to_json()) == partial
    assert "partial: 1 call not counted" in partial.to_html()
    assert "partial" in partial.to_model_card()
    assert '"status":"partial' in partial.to_chrome_trace().replace(": ", ":")
    (verdict,) = [line for line in compare(partial, partial, names=("a", "b")).summary if line.startswith("b is")]
    assert "1 call of 1 unsupported operator (" in verdict


def test_strict_is_an_error_and_exit_code_1(each, mystery, partial, tmp_path, capsys):
    with pytest.raises(CostError, match=r"(?i)mystery"):
        each.subject.count(mystery, strict=True)
    (violation,) = check(partial, {"strict": True})
    assert "partial" in str(violation)
    partial.to_json(tmp_path / "partial.json")
    assert main([str(tmp_path / "partial.json"), "--summary", "--strict"]) == 1
    assert "which is an error with --strict" in capsys.readouterr().err
