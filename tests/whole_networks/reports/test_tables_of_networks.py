"""A table of real networks."""

from __future__ import annotations

import io

import pytest

from costcore.api.table import table
from costcore.cli.main import main
from tests.whole_networks.reports.subjects import SUBJECTS

pytestmark = pytest.mark.frontend("pytorch", "chainer", "onnx")


def test_every_network_has_its_row_and_a_failure_has_one_too(counted, golden):
    models = [(name, counted(name).model, subject.inputs()) for name, subject in SUBJECTS.items()]
    made = table([*models, ("absent", "absent.onnx")], jobs=1)
    for row, subject in zip(made.rows, SUBJECTS.values(), strict=False):
        assert (row.costs["macs"], row.costs["n_params"]) == (subject.macs, subject.n_params)
    assert [row.name for row in made.failed] == ["absent"]
    stream = io.StringIO()
    made.show(stream, "md", unit="M")
    golden("reports/zoo.md", stream.getvalue())


def test_the_command_makes_the_same_of_saved_reports(counted, tmp_path, capsys):
    paths = [tmp_path / f"{name}.json" for name in SUBJECTS]
    for name, path in zip(SUBJECTS, paths, strict=True):
        counted(name).report.to_json(path)
    assert main(["table", *map(str, paths), "--format", "csv", "--unit", "none", "--jobs", "1"]) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(int(row[1]), int(row[3])) for row in rows] == [(each.n_params, each.macs) for each in SUBJECTS.values()]
