"""Real networks checked against budgets, from Python and from the command line."""

from __future__ import annotations

import pytest

from costcore import check
from tests.command_line import main

MODULES = {"resnet50": "7.body.1.0", "llama": "model.layers.3.mlp", "vgg16": "conv3_2", "export": "layer"}


@pytest.fixture
def saved(each, tmp_path):
    path = tmp_path / f"{each.name}.json"
    each.report.to_json(path)
    return path


def budget(tmp_path, text):
    path = tmp_path / "budget.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_network_is_within_a_budget_of_its_own_costs(each):
    total = each.report.total_report
    limits = {key: total[key] for key in ("flops", "macs", "mread", "mwrite", "mrw", "n_params")}
    assert check(each.report, {"total": limits, "strict": True}) == []
    assert check(each.report, {"baseline": each.report, "max_increase": "0%"}) == []


def test_a_violation_is_exit_code_1_and_names_the_module(each, saved, tmp_path, capsys):
    """The limit of the most expensive call's module is one less than its MACs."""
    largest = max(each.report.layer_report.values(), key=lambda entry: entry["macs"])
    module, macs = largest["module"], largest["macs"]
    limits = budget(tmp_path, f'[module."{module}"]\nmacs = {macs - 1}\n')
    assert main(["check", str(saved), "--budget", str(limits)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"{saved}: module {module}: {macs:,} MACs, limit {macs - 1:,}, 1 over, ")
    assert (out.count("\n"), err) == (1, "")


def test_a_network_within_its_budget_is_exit_code_0(each, saved, tmp_path, capsys):
    limits = budget(tmp_path, f"[total]\nmacs = {each.subject.macs}\nn_params = {each.subject.n_params}\n")
    assert main(["check", str(saved), "--budget", str(limits), "--strict"]) == 0
    assert capsys.readouterr().out == f"{saved}: within {limits}\n"


def test_a_malformed_file_is_exit_code_2_and_names_the_line(saved, tmp_path, capsys):
    limits = budget(tmp_path, '[total]\nmacs = "16G"\n\n[operator.conv]\nflop = 1\n')
    assert main(["check", str(saved), "--budget", str(limits)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"costcore: {limits}, line 5: operator.conv: unknown key 'flop'")


@pytest.mark.frontend("pytorch")
def test_a_violation_in_markdown(counted, tmp_path, capsys, golden):
    counted("resnet50").report.to_json(tmp_path / "resnet50.json")
    limits = budget(
        tmp_path,
        '[total]\nmacs = "4G"\nmread = "250 MiB"\n\n[module."1?"]\nn_params = "1M"\n\n[operator.conv]\nmacs = "4.0G"\n',
    )
    assert main(["check", str(tmp_path / "resnet50.json"), "--budget", str(limits), "--format", "md"]) == 1
    golden("reports/budget.md", capsys.readouterr().out.replace(f"{tmp_path}/", ""))
