"""Event files in a real TensorBoard, whose HTTP interface must answer with what the report has."""

from __future__ import annotations

import json
import struct
import sys
import warnings
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import sympy

from costcore import CostError
from tests.core import html_reports
from tests.frameworks import optional


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Return a function that asks TensorBoard for what it shows of two runs: ``step`` and ``hostile``."""
    optional("tensorboard")
    logs = tmp_path_factory.mktemp("logs")
    html_reports.step().to_tensorboard(logs / "step")
    html_reports.small().to_tensorboard(logs / "step", step=7)
    html_reports.hostile().to_tensorboard(logs / "hostile")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own
        from tensorboard import program

        board = program.TensorBoard()
        arguments = ["--logdir", str(logs), "--port", "0", "--host", "127.0.0.1", "--load_fast", "false"]
        board.configure(argv=["tensorboard", *arguments, "--reload_interval", "0"])
        address = board.launch()

    def answer(path, **query):
        with urlopen(f"{address}data/{path}?{urlencode(query)}", timeout=60) as reply:
            return reply.read().decode()

    return answer


def test_runs_are_found(ask):
    assert sorted(json.loads(ask("runs"))) == ["hostile", "step"]


def test_scalars_are_the_totals_and_the_sums_by_operator(ask):
    """600 + 900 + 50 FLOPs and 120 + 108 + 108 bytes at step 0, 2**60 + 631 FLOPs at step 7; peak 2816."""

    def values(tag):
        points = json.loads(ask("plugin/scalars/scalars", run="step", tag=tag))
        return {int(step): value for _, step, value in points}

    assert values("total/flops") == {0: 1550, 7: struct.unpack("f", struct.pack("f", 2**60 + 631))[0]}
    assert values("total/mrw")[0] == 336
    assert values("total/peak_memory") == {0: 2816}
    assert values("flops_by_operator/mm") == {0: 900}
    assert values("mrw_by_operator/linear")[0] == 120


def test_the_graph_has_every_call_in_its_module_with_its_cost(ask):
    graph = ask("plugin/graphs/graph", run="step", conceptual="false")
    assert 'name: "fc/linear_type-0"' in graph and 'name: "sgd_step_type-2"' in graph
    node = graph[graph.index('name: "fc/mm_type-1"') :].partition("node {")[0]
    assert "size: 2" in node and "size: 4" in node
    assert 'key: "flops"' in node and 's: "900"' in node and 's: "backward"' in node


def test_tables_are_text(ask):
    tags = json.loads(ask("plugin/text/tags"))["step"]
    assert set(tags) == {"costcore/overview", "costcore/modules"}
    by_step = {each["step"]: each["text"] for each in json.loads(ask("plugin/text/text", run="step", tag=tags[0]))}
    assert by_step.keys() == {0, 7} and "<table>" in by_step[0]
    modules = json.loads(ask("plugin/text/text", run="step", tag="costcore/modules"))
    row = next(row for row in modules[0]["text"].split("<tr>") if "fc" in row)
    assert "1.5 K" in row and "96.774%" in row  # 600 + 900 of 1550 FLOPs


def test_names_of_a_model_are_text(ask):
    graph = ask("plugin/graphs/graph", run="hostile", conceptual="false")
    assert graph.count("node {") == 10
    for tag in json.loads(ask("plugin/text/tags"))["hostile"]:
        text = json.loads(ask("plugin/text/text", run="hostile", tag=tag))[0]["text"]
        assert "<script" not in text and "<img" not in text


def test_mistakes(tmp_path, monkeypatch):
    n = sympy.Symbol("batch", integer=True, positive=True)
    symbolic = html_reports.report([html_reports.call("linear", "fc", 10 * n, 4 * n, 2 * n)])
    with pytest.raises(CostError, match=r"total/flops is symbolic \(10\*batch\)"):
        symbolic.to_tensorboard(tmp_path)
    for name in ("event_pb2", "event_file_writer"):
        monkeypatch.setitem(sys.modules, f"tensorboard.compat.proto.{name}", None)
    with pytest.raises(CostError, match=r"needs TensorBoard.*pip install tensorboard"):
        html_reports.small().to_tensorboard(tmp_path)
    assert list(tmp_path.iterdir()) == []
