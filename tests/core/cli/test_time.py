"""The commands ``costcore time`` and ``costcore devices``."""

from __future__ import annotations

import json

import pytest

from tests.command_line import main
from tests.core.given_costs import Step, dense, net, relu

DEVICE = """
name = "mine"
kind = "gpu"
[peak.vector]
float32 = 1
[memory]
dram_gbs = 1000
caches = [{ bytes = 1000000 }]
[[sources]]
title = "us"
states = "all"
checked = "read"
"""
"""Per second: 1e12 FLOP and 1e12 bytes, behind 1 MB."""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.json"
    net(dense("a", 1000), relu("b", 1000), framework="torch").to_json(path)
    return str(path)


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(DEVICE)
    return str(path)


def test_one_device_shows_types(model, mine, capsys):
    assert main(["time", model, "--device", mine, "--format", "csv"]) == 0
    # 4,004,000 bytes less 1 MB at 1e12 per second; 1000 additions at 0.5e12
    assert capsys.readouterr().out == (
        "Layer type,# Groups,Bound µs,Bound (%),Bound by\n"
        "linear,1,3.004,99.933%,dram\n"
        "relu,1,0.002,0.067%,vector\n"
        "total,2,3.006,100.0%,dram\n"
    )


def test_groups_are_the_rows_on_request(model, mine, capsys):
    options = ["--groups", "--columns", "names,bound_seconds", "--sort", "bound_seconds", "--top", "1"]
    assert main(["time", model, "--device", mine, "--format", "csv", *options]) == 0
    assert capsys.readouterr().out.splitlines() == ["Calls,Bound µs", "linear-1,3.004", "others,0.002", "total,3.006"]


def test_several_devices_are_one_row_each(model, mine, tmp_path, capsys):
    slow = tmp_path / "slow.toml"
    slow.write_text(DEVICE.replace("mine", "slow").replace("= 1000\n", "= 500\n"))
    assert main(["time", model, "--device", f"{mine}, {slow}", "--format", "md"]) == 0
    assert capsys.readouterr().out == (
        "| Device | Bound µs | Ratio | Bound by | Sources |\n"
        "|:---|---:|---:|:---|:---|\n"
        "| mine | 3.006 | 1.0 | dram | read |\n"
        "| slow | 6.01 | 1.999 | dram | read |\n"
        "\n"
        "- bound: lower bound on the device with one kernel per call, without kernel launches; measured CPU runs took "
        "2.2 to 10 times their bounds\n"
        "- no time estimate: this device is not calibrated (run costcore calibrate)\n"
    )


def test_times_far_apart_have_units_of_their_own_and_an_unknown_device_has_no_ratio(model, mine, tmp_path, capsys):
    far, unknown = tmp_path / "far.toml", tmp_path / "unknown.toml"
    far.write_text(DEVICE.replace("mine", "far").replace("= 1000\n", "= 0.5\n"))
    unknown.write_text('name = "unknown"\nkind = "phone"\n')
    assert main(["time", model, "--device", f"{mine},{far},{unknown}", "--format", "csv"]) == 0
    # 3,004,000 bytes at 0.5e9 per second
    assert capsys.readouterr().out.splitlines() == [
        "Device,Bound,Ratio,Bound by,Sources",
        "mine,3.006 µs,1.0,dram,read",
        "far,6.008 ms,1998.67,dram,read",
        "unknown,unknown,-,unknown,",
    ]


def test_options_change_the_time(model, mine, capsys):
    def total(*options):
        assert main(["time", model, "--device", mine, "--unit", "none", "--format", "csv", *options]) == 0
        return float(capsys.readouterr().out.splitlines()[-1].split(",")[2])

    assert total() == pytest.approx(3.006e-6)
    assert total("--dtype", "float16") == pytest.approx(1.002e-6 + 1e-9)  # half the bytes, packed additions
    # the product alone: the addition joins it, and reads nothing from outside
    assert total("--fusion", "compiler") == pytest.approx(3.004e-6)


def test_options_without_effect_are_noted(model, mine, capsys):
    assert main(["time", model, "--device", mine, "--tf32", "conv", "--links", "nvlink4"]) == 0
    shown = capsys.readouterr().out
    assert "--tf32 conv changes nothing: mine has no TF32" in shown
    assert "--links changes nothing: the run sends nothing to other ranks" in shown
    assert main(["time", model, "--device", mine, "--tf32", "none"]) == 0
    assert "changes nothing" not in capsys.readouterr().out


def test_files(model, mine, tmp_path):
    path = tmp_path / "time.json"
    assert main(["time", model, "--device", mine, "--output", str(path)]) == 0
    assert json.loads(path.read_text())["device"] == "mine"
    path = tmp_path / "time.csv"
    assert main(["time", model, "--device", mine, "--output", str(path)]) == 0
    assert path.read_text().startswith("Layer type,")


def test_strict_fails_if_a_call_has_no_time(tmp_path, mine, capsys):
    path = tmp_path / "net.json"
    net(dense("a"), Step("mystery", known=False)).to_json(path)
    assert main(["time", str(path), "--device", mine]) == 0
    assert main(["time", str(path), "--device", mine, "--strict"]) == 1
    assert "the report is partial, which is an error with --strict" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "h10"], "unknown device 'h10'. Did you mean 'h100'? `costcore devices` lists the 3"),
        (["--device", "l4", "--dtype", "fp16"], "unknown dtype 'fp16'"),
        (["--device", "l4", "--fusion", "all"], "invalid choice: 'all'"),
        (["--device", "l4", "--cores", "2"], "cores applies to a CPU (l4 is a gpu)"),
        (["--device", "epyc-9654", "--cores", "97"], "epyc-9654 has 96 cores (got cores=97)"),
        (["--device", "l4", "--tf32", "linear"], "unknown operator of tf32 'linear' (expected conv, matmul)"),
        (["--device", "l4", "--sort", "bound"], "unknown column 'bound'"),
        (["--device", "l4,t4", "--groups"], "--groups cannot be used with several devices"),
        (["--device", "l4,t4", "--output", "a.txt"], "unknown suffix (expected one of .csv, .md, .tex, .json, .html, "),
        ([], "the following arguments are required: --device"),
    ],
)
def test_mistakes_are_usage_errors(model, options, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["time", model, *options])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_broken_device_is_a_failure(model, tmp_path, capsys):
    path = tmp_path / "broken.toml"
    path.write_text("name = 1")
    assert main(["time", model, "--device", str(path)]) == 1
    assert f"{path}: name must be a text (got 1)" in capsys.readouterr().err


def test_the_library_is_listed_with_how_far_it_was_checked(capsys):
    assert main(["devices", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("Name,Vendor,Kind,Half precision TFLOP/s,float32 TFLOP/s,int8 TOP/s,Memory GB/s,Sources")
    assert 'tpu-v6e,Google,tpu,918,,1836,1638,"read, not read"' in lines
    assert "apple-m4-max-40,Apple,gpu,,,,546,second source" in lines


def test_one_device_is_shown_with_its_sources(mine, capsys):
    assert main(["devices", "--device", mine, "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "vector float32 (TFLOP/s),1" in lines
    assert 'cache 1,"1,000,000 bytes"' in lines
    assert "source, read" in lines[-1]


@pytest.fixture
def measured(tmp_path):
    """Write a measured run, whose product and activation took so long, and return its path."""

    def write(product, activation, name="run.json"):
        path = tmp_path / name
        steps = (dense("a", 1000, seconds=product), relu("b", 1000, seconds=activation))
        net(*steps, framework="torch").to_json(path)
        return str(path)

    return write


def test_measured_times_are_beside_the_bound(model, mine, measured, capsys):
    runs = [measured(seconds, 4e-9, f"{seconds}.json") for seconds in (4e-6, 6e-6, 60e-6)]
    arguments = ["time", model, "--device", mine, "--format", "csv", "--strict"]
    assert main([*arguments, *(text for run in runs for text in ("--measured", run))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Family,# Groups,Measured µs,Measured (%),Bound µs,Of measured (%)",
        "linear (other operands),1,6.0,99.933%,3.004,50.067%",
        "relu,1,0.004,0.067%,0.002,50.0%",
        "total,2,6.004,100.0%,3.006,50.067%",
    ]


def test_a_measured_time_below_its_bound_is_an_error_with_strict(model, mine, measured, tmp_path, capsys):
    arguments = ["time", model, "--device", mine, "--measured", measured(2e-6, 4e-9), "--groups"]
    assert main(arguments) == 0
    assert "below the bound: linear-1 took 2.0 µs, the bound is 3.004 µs" in capsys.readouterr().out
    assert main([*arguments, "--strict", "--output", str(tmp_path / "found.json")]) == 1
    assert "linear-1 took less than the bound, which is an error with --strict" in capsys.readouterr().err
    assert json.loads((tmp_path / "found.json").read_text())["below_bound"] == ["linear-1"]


def test_a_run_that_was_not_measured_is_an_error(model, mine, capsys):
    assert main(["time", model, "--device", mine, "--measured", model]) == 1
    assert "the measured report has no times" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--sort", "bound_seconds"], ["--output", "x.html"], ["--columns", "all"]])
def test_options_that_do_not_apply_to_measured_times_are_refused(model, mine, options, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["time", model, "--device", mine, "--measured", model, *options])
    assert exit_info.value.code == 2
    assert "--measured cannot be used with" in capsys.readouterr().err


def test_strict_fails_if_the_device_lacks_a_figure(model, mine, tmp_path, capsys):
    assert main(["time", model, "--device", "ethos-u55-256", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "total,2,unknown,0.0%,unknown"
    assert main(["time", model, "--device", "ethos-u55-256", "--strict", "--format", "table"]) == 1
    shown = capsys.readouterr()
    assert "ethos-u55-256 computes int8 only; the run has float32: quantize the model, or pass dtype='int8'" in (
        shown.out
    )
    assert shown.err == "costcore: the time on ethos-u55-256 is partial, which is an error with --strict\n"
    assert main(["time", model, "--device", "ethos-u55-256", "--dtype", "int8", "--strict"]) == 0
    assert "matrix" in capsys.readouterr().out
    assert main(["time", model, "--device", f"{mine},tpu-v5e,apple-m4", "--strict"]) == 1
    assert "the time on tpu-v5e is partial and the time on apple-m4 is partial" in capsys.readouterr().err
