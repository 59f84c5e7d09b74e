"""Whole reports as printed and saved; ``python -m pytest --overwrite`` regenerates tests/golden."""

import io

import pytest

from costcore import __version__
from tests.core.toy_networks import nested_report

VIEWS = {
    "report": lambda report: report.show_report,
    "summary": lambda report: report.show_summary_report,
    "layers": lambda report: report.show_layers,
    "tree": lambda report: report.show_tree,
    "by": lambda report: lambda out, mode: report.show_by("module", "op", ost=out, mode=mode),
}
SUFFIX = {"csv": "csv", "md": "md", "table": "txt"}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mode", SUFFIX)
def test_the_tables_of_a_nested_network(toy, golden, view, mode):
    stream = io.StringIO()
    VIEWS[view](nested_report(toy))(stream, mode=mode)
    golden(f"nested_{view}.{SUFFIX[mode]}", stream.getvalue())


def test_the_file_of_a_nested_network(toy, golden):
    golden("nested.json", nested_report(toy).to_json(indent=1).replace(f'"{__version__}"', '"VERSION"'))
