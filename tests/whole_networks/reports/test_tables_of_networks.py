"""A table of real networks."""

from __future__ import annotations

import io

import pytest

from costcore import table
from tests.command_line import main
from tests.whole_networks.reports.subjects import SUBJECTS

pytestmark = pytest.mark.frontend("pytorch", "chainer", "onnx")


@pytest.mark.skipif("llama" not in SUBJECTS, reason="Llama runs other operators than in the table that is kept")
def test_every_network_and_every_failure_has_a_row(counted, golden):
    models = [(name, counted(name).model, subject.inputs()) for name, subject in SUBJECTS.items()]
    result = table([*models, ("absent", "absent.onnx")], jobs=1)
    for row, subject in zip(result.rows, SUBJECTS.values(), strict=False):
        assert (row.costs["macs"], row.costs["n_params"]) == (subject.macs, subject.n_params)
    assert [row.name for row in result.failed] == ["absent"]
    stream = io.StringIO()
    result.show(stream, "md", unit="M")
    golden("reports/zoo.md", stream.getvalue())


def test_the_command_gives_the_same_for_saved_reports(counted, tmp_path, capsys):
    paths = [tmp_path / f"{name}.json" for name in SUBJECTS]
    for name, path in zip(SUBJECTS, paths, strict=True):
        counted(name).report.to_json(path)
    assert main(["table", *map(str, paths), "--format", "csv", "--unit", "none", "--jobs", "1"]) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(int(row[1]), int(row[3])) for row in rows] == [(each.n_params, each.macs) for each in SUBJECTS.values()]
