"""The command ``costcore train``."""

from __future__ import annotations

import json

import pytest

from tests.command_line import main
from tests.core.given_costs import Step, dense, net, relu

STEP = net(dense("a"), relu("b"), Step("mm", "a", macs=32, phase="backward"))
"""One sample; 16 MACs forward and 32 backward, 96 model FLOPs."""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.json"
    STEP.to_json(path)
    return str(path)


def lines(text: str) -> list[str]:
    """Return the words of every line, without the lines of tables."""
    return [" ".join(line.replace("|", " ").split()) for line in text.splitlines()]


def test_a_run_is_stated_by_figures_and_tables(model, capsys):
    options = [
        "--tokens",
        "2e6",
        "--peak",
        "1e6",
        "--devices",
        "4",
        "--replicas",
        "1",
        "--step-seconds",
        "0.0001",
        "--thresholds",
    ]
    assert main(["train", model, *options, "--format", "table"]) == 0
    out = capsys.readouterr().out
    found = lines(out)
    assert "training 16 16 1x4" in found  # parameters, MACs per sample, input
    assert "training 9.600e1 9.600e1 9.600e1" in found  # FLOPs of weights, of all pairs, causal
    assert "training 1 9.600e1 0.0001 s 24.0% 24.0%" in found  # 96 FLOPs in 0.1 ms, of 4e6 FLOP/s
    assert "Model FLOPs 1.920e8 192,000,000" in found and "Samples 2,000,000" in found
    assert "rules that do not apply (closed forms of transformers need a model with attention): 6ND, " in out
    assert any(line.startswith("1.000e25 by no count EU AI Act, ") for line in found)


@pytest.mark.parametrize("suffix", ["md", "csv", "tex", "html"])
def test_a_file_has_what_the_terminal_shows(model, capsys, tmp_path, suffix):
    """96 FLOPs of 2e6 samples at 40 % of 1e6 FLOP/s are 480 seconds; a device costs 3 an hour."""
    options = ["train", model, "--tokens", "2e6", "--peak", "1e6", "--price", "3"]
    path = tmp_path / f"run.{suffix}"
    assert main([*options, "--output", str(path)]) == 0
    capsys.readouterr()
    if suffix != "html":
        assert main([*options, "--format", {"tex": "latex"}.get(suffix, suffix)]) == 0
        assert capsys.readouterr().out == path.read_text()
    if suffix in ("md", "html"):
        assert "at 3 an hour" in path.read_text()


@pytest.mark.parametrize("tokens", ["2e6", "2000000", "2M", "2 M", "0.002G", "0.002B"])
def test_tokens_may_have_a_prefix(model, capsys, tokens):
    assert main(["train", model, "--tokens", tokens]) == 0
    assert "Model FLOPs 1.920e8 192,000,000" in lines(capsys.readouterr().out)  # 2e6 * 96


def test_steps_multiply(model, capsys):
    assert main(["train", model, "--steps", "10", "--accumulation", "3", "--replicas", "2"]) == 0
    found = lines(capsys.readouterr().out)
    assert "Model FLOPs 5.760e3 5,760" in found  # 10 * 3 * 2 = 60 samples
    assert "training 3 2 6 5.760e2" in found


@pytest.mark.parametrize(
    "measured",
    [
        ("--step-seconds", "0.0001"),
        ("--tokens-per-second", "40k"),
        ("--tokens-per-second-per-device", "1e4"),
    ],
)
def test_devices_without_a_mesh_are_replicas(model, capsys, measured):
    """A step is a sample on each of 4 devices, 4 x 96 FLOPs in 0.1 ms."""
    assert main(["train", model, "--tokens", "2e6", "--peak", "1e6", "--devices", "4", *measured]) == 0
    found = lines(capsys.readouterr().out)
    assert any(line.startswith("training 1 4 4 3.840e2 0.0001 s") for line in found)


@pytest.mark.parametrize("rate", ["-1", "0", "fast"])
def test_a_rate_is_a_positive_number(model, capsys, rate):
    with pytest.raises(SystemExit, match="2"):
        main(["train", model, "--tokens", "2e6", "--peak", "1e6", f"--tokens-per-second={rate}"])
    assert "--tokens-per-second must be" in capsys.readouterr().err


def test_a_document_has_exact_numbers(model, tmp_path, capsys):
    path = tmp_path / "ledger.json"
    base = ["--base-flops", "3.8e8", "--base-source", "a paper"]
    assert main(["train", model, "--tokens", "2e6", "--output", str(path), *base]) == 0
    assert capsys.readouterr().out == ""
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["totals"]["model_flops"] == 192_000_000
    assert document["base_model"] == {"flops": 380_000_000, "source": "a paper"}
    exceeded = {each["name"]: each["exceeded"] for each in document["thresholds"]}
    assert exceeded["EU Commission guidelines, modifier becomes provider"] is True  # 192 of 380 is more than a third


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokens", "1.5"], "tokens must be a positive whole number (got 1.5)"),
        (["--tokens", "1GB"], "--tokens must be a number such as 2e12, 300B or 15.6T (got '1GB'). Did you mean '1G'?"),
        (["--tokens", "1TT"], "(got '1TT'). Did you mean '1T'?"),
        (["--tokens", "1,000"], "(got '1,000'). Did you mean '1000'?"),
        (["--tokens", "2.5 trillion"], "Did you mean '2.5T'?"),
        (["--tokens", "many"], "--tokens must be a number such as 2e12, 300B or 15.6T (got 'many')\n"),
        (["--tokens", "nan"], "tokens must be a positive whole number (got nan)"),
        (["--steps", "0"], "steps must be a positive whole number (got 0)"),
        (["--steps", "1", "--tokens", "1"], "argument --tokens: not allowed with argument --steps"),
        (["--devices", "0"], "devices must be a positive whole number"),
        (["--devices", "-4"], "devices must be a positive whole number (got -4)"),
        (["--device", "h10"], "unknown device 'h10'"),
        (["--device", "l4", "--peak", "1e12"], "--device cannot be combined with --peak"),
        (["--step-seconds", "1"], "--step-seconds needs --device or --peak"),
        (["--peak", "1e12", "--step-seconds", "-1"], "step_seconds must be a positive number"),
        (["--padding-share", "1"], "padding_share must be at least 0 and less than 1"),
        (["--document-lengths", "1,a"], "--document-lengths expects integers separated by commas (got '1,a')"),
        (["--document-lengths", "1,1"], "document_lengths needs a model with attention"),
        (["--masks", "causal"], "needs a model with attention"),
        (["--pairs", "packed"], "--pairs packed needs the documents in a sequence, as --document-lengths 1500,548"),
        (["--output", "ledger.yaml"], "has an unknown suffix (expected one of .csv, "),
        (["--capacity-factor", "0.5"], "capacity_factor must be at least 1"),
        (["--base-flops", "-1"], "base_flops must be a positive whole number"),
    ],
)
def test_wrong_options_are_usage_errors(model, options, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", model, *options])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_a_capacity_needs_experts(model, capsys):
    assert main(["train", model, "--capacity-factor", "1.25"]) == 1
    assert "capacity_factor needs experts" in capsys.readouterr().err


def test_a_report_that_is_not_complete_fails_if_strict(tmp_path, capsys):
    path = tmp_path / "partial.json"
    net(dense("a"), Step("odd", "b", known=False), Step("mm", "a", macs=32, phase="backward")).to_json(path)
    assert main(["train", str(path)]) == 0
    assert main(["train", str(path), "--strict"]) == 1
    assert "the report is partial" in capsys.readouterr().err


def test_a_report_without_a_backward_pass_is_refused(tmp_path, capsys):
    path = tmp_path / "forward.json"
    net(dense("a"), relu("b")).to_json(path)
    assert main(["train", str(path)]) == 1
    out, err = capsys.readouterr()
    reason = "has no backward pass: save the report of a training step (backward=True)"
    assert (out, err) == ("", f"costcore: {path} {reason}\n")


@pytest.mark.parametrize("flag", [["--backward"], ["--train"], ["--input", "1x4"], ["--optimizer", "sgd"]])
def test_a_saved_report_is_not_captured_again(model, flag, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", model, *flag])
    assert exit_.value.code == 2
    assert f"net.json: {flag[0]} cannot be used with a saved report" in capsys.readouterr().err


def test_measured_steps_decide_the_days(model, tmp_path, capsys):
    """A step of one sample takes 10 s: 8,640 samples are 86,400 s, a day, whatever the peak of the devices is."""
    measured = ["--steps", "8640", "--peak", "1e6", "--step-seconds", "10"]
    assert main(["train", model, *measured]) == 0
    found = lines(capsys.readouterr().out)
    assert any(line.startswith("Time 1.00 days of measured steps on 1 x 0.0 TFLOP/s") for line in found)
    assert not any(line.startswith(("Price", "Energy", "Thresholds")) for line in found)  # nobody gave rates
    assert main(["train", model, *measured, "--output", str(tmp_path / "ledger.json")]) == 0
    assert json.loads((tmp_path / "ledger.json").read_text())["stages"][0]["measured"]["days"] == 1
    assert main(["train", model, *measured[:4]]) == 0
    assert " hours  at 40 % MFU, an assumption, on 1 x 0.0 TFLOP/s" in capsys.readouterr().out


def test_devices_energy_and_money(model, capsys):
    """8,640 steps of 10 s are 24 hours: on 4 devices 96 device-hours, 201.6 at 2.10, and 67.2 kWh at 700 W."""
    measured = ["--steps", "8640", "--peak", "1e6", "--step-seconds", "10", "--devices", "4"]
    assert main(["train", model, *measured, "--price", "2.10/h", "--watts", "700"]) == 0
    out = capsys.readouterr().out
    assert {"Devices 96.00 device-hours", "Price 201.60 at 2.1 an hour", "Energy 67.20 kWh at 700 W"} <= {*lines(out)}
    assert "Thresholds" not in out
    assert main(["train", model, *measured[:4], "--mfu", "0.5", "--thresholds"]) == 0
    out = capsys.readouterr().out
    assert "at 50 % MFU" in out
    assert "Thresholds, as of" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price", "2"], "--price needs --device or --peak"),
        (["--peak", "1e6", "--price", "cheap"], "--price must be a price of an hour, such as 2.10/h"),
        (["--peak", "1e6", "--price", "0/h"], "--price must be a price of an hour"),
        (["--peak", "1e6", "--watts", "-1"], "watts must be a positive number"),
        (["--peak", "1e6", "--mfu", "1.5"], "mfu must be a share of at most 1"),
    ],
)
def test_rates_are_checked(model, options, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", model, *options])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err
