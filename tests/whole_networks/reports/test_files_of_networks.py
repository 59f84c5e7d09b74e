"""Files of real networks: read back equal, valid by the schema, and deterministic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from costcore import Report, __version__
from tests.whole_networks.reports.subjects import IMAGE, SUBJECTS, TOKENS, WRITERS, digests

ROOT = Path(__file__).parents[3]
SCHEMA_FILE = ROOT / "costcore" / "reports" / "report.schema.json"
SCHEMA = Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def test_json_gives_an_equal_report_and_is_valid_by_the_schema(report, tmp_path):
    text = report.to_json(tmp_path / "report.json")
    again = Report.from_json(tmp_path / "report.json")
    assert again == report
    assert again.to_json() == text
    assert (again.total_report, again.tree(), again.by("op")) == (report.total_report, report.tree(), report.by("op"))
    SCHEMA.validate(json.loads(text))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_report_read_back_writes_the_same_files(report, kind):
    assert WRITERS[kind](Report.from_json(report.to_json())) == WRITERS[kind](report)


def test_the_same_model_counted_again_gives_the_same_report(each):
    again = each.subject.count(each.model)
    assert again == each.report
    assert {kind: write(again) for kind, write in WRITERS.items()} == {
        kind: write(each.report) for kind, write in WRITERS.items()
    }


@pytest.mark.frontend("pytorch", "chainer", "onnx")
def test_another_process_with_another_hash_seed_writes_the_same_bytes(counted, tmp_path):
    (tmp_path / "export.onnx").write_bytes(counted("export").model.SerializeToString())
    program = (
        "import json, sys; from tests.whole_networks.reports.subjects import digests_of_new_reports as digests; "
        "print(json.dumps(digests(sys.argv[1])))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "export.onnx")]
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=env, check=True)
    assert json.loads(done.stdout) == [digests(counted(name).report) for name in SUBJECTS]


def test_markdown_has_one_row_per_call(report):
    lines = report.to_markdown(unit=None).splitlines()
    lines = lines[: lines.index("")] if "" in lines else lines  # assumptions follow the table
    assert lines[0] == "| Layer name | FLOPs | MemRead B | MemWrite B | MemR+W B |"
    assert len(lines) == 2 + report.total_report["n_layers"] + 1
    total = report.total_report
    assert lines[-1] == "| total | " + " | ".join(str(total[key]) for key in ("flops", "mread", "mwrite", "mrw")) + " |"


def test_a_dataframe_has_one_row_per_call(report):
    frame = report.to_dataframe()
    assert list(frame.index) == list(report.layer_report)
    largest = max(report.layer_report.values(), key=lambda entry: entry["flops"])
    assert frame["flops"].idxmax() == largest["name"]


class Words(HTMLParser):
    """The words of a page, and the URLs that it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words, self.targets, self.inside = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.inside = tag
        self.targets += [value for key, value in attrs if key in ("src", "href")]

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.words += data.split()


def test_the_page_has_the_exact_totals_and_loads_nothing(each):
    total = each.report.total_report
    page = each.report.to_html(title=each.name)
    found = Words(page)
    assert found.targets == ["data:,"]
    assert "http:" not in page and "https:" not in page
    for amount in (each.subject.macs, each.subject.n_params, total["flops"], total["mread"], total["mwrite"]):
        assert f"{amount:,}" in {word.rstrip(",") for word in found.words}
    assert "complete" in found.words


def test_a_model_card_has_the_costs_of_the_network(each):
    card = yaml.safe_load(each.report.to_model_card())["computational_cost"]
    assert (card["macs"], card["parameters"]) == (each.subject.macs, each.subject.n_params)
    n_fma = sum(entry["operations"].get("fma", 0) for entry in each.report.layer_report.values())
    assert card["flops_fma_1"] == each.report.total_report["flops"]
    assert card["flops_fma_2"] == card["flops_fma_1"] + n_fma
    assert (card["status"], card["tool"]) == ("complete", f"costcore {__version__}")
    assert card["input_shape"][0] == ([1, TOKENS] if each.name == "llama" else list(IMAGE))
    assert len(card["report_sha256"]) == 64
