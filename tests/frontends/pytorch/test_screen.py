"""What a command prints in a pipe, if no format is asked for: at most 40 lines, and tables of 80 characters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command_line import main

NETWORKS = '''
import torch
from torch import nn


def small():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))


class Bottleneck(nn.Module):
    """A block of ResNet-50 (https://arxiv.org/abs/1512.03385)."""

    def __init__(self, features, width, stride):
        super().__init__()
        sizes = ((features, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
        self.convolutions = nn.ModuleList([nn.Conv2d(i, o, k, s, k // 2, bias=False) for i, o, k, s in sizes])
        self.normalizations = nn.ModuleList([nn.BatchNorm2d(out) for _, out, _, _ in sizes])
        self.shortcut = None
        if stride != 1 or features != 4 * width:
            self.shortcut = nn.Conv2d(features, 4 * width, 1, stride, bias=False)

    def forward(self, x):
        y = x
        for i, (conv, norm) in enumerate(zip(self.convolutions, self.normalizations)):
            y = norm(conv(torch.relu(y) if i else y))
        return torch.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def large():
    blocks, features = [], 64
    for stage, n in enumerate((3, 4, 6, 3)):
        for i in range(n):
            blocks.append(Bottleneck(features, 64 << stage, 2 if stage and not i else 1))
            features = 256 << stage
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
'''

SIZE = "2x3x32x32"

HEIGHT, WIDTH = 40, 80
NOT_TEXT = ("+", "|", "\x1b", "┏", "┃", "┡", "│", "└", "├", "╭", "╰")
"""What the lines of a table or a picture begin with."""

VIEWS = (
    *("", "--overview", "--calls", "--summary", "--layers", "--tree", "--by call", "--by op", "--by type"),
    *("--by module", "--by module,op", "--by phase", "--by run", "--fusion pointwise", "--fusion compiler"),
    *("--convention fvcore", "--calls --convention fvcore", "--tree --convention fvcore", "--by module --top 10"),
    *("--memory", "--arena", "--receptive-field"),
)

OF_COMMANDS = {
    "calibrate": None,  # measures this machine for minutes
    "check": None,  # one line per violation, for the logs of continuous integration
    "conformance": None,  # runs what an author of a frontend writes
    "conventions": "conventions",
    "devices": "devices",
    "one device": "devices l4",
    "rules": "conventions fvcore",
    "diff": "diff {report} {step}",
    "explain": "explain {report} 4.1G",
    "fit": "fit {report} h100",
    "memory": "memory {target} --memory 24GiB --input batch,3,32,32",
    "plan": None,  # captures a step of every plan
    "plot": None,  # CSV, for programs
    "profile": "profile {trace}",
    "quantities": "quantities",
    "reconcile": "reconcile {report} costcore fvcore",
    "serve": None,  # one row per device and batch that are asked for
    "table": "table {report} {step}",
    "time": "time {report} --device h100,l4",
    "train": "train {step} --tokens 1e9 --device h100 --thresholds",
}
"""A line of every command; the reason why there is none."""

TRACE = Path(__file__).parents[3] / "docs" / "step.pt.trace.json.gz"


@pytest.fixture(scope="module", params=["small", "large"])
def files(request, tmp_path_factory):
    """The reports of a network in files: of an inference, and of a training step with its memory."""
    folder = tmp_path_factory.mktemp("networks")
    (folder / "networks.py").write_text(NETWORKS)
    target = f"{folder / 'networks.py'}:{request.param}"
    found = {"target": target, "trace": str(TRACE)}
    options = {"report": ["--memory"], "step": ["--memory", "--optimizer", "adamw"]}
    for name, given in options.items():
        found[name] = str(folder / f"{name}.json")
        assert main([target, "--input", SIZE, *given, "--output", found[name]]) == 0
    return found


def printed(arguments, capsys):
    """Return the lines that a command writes to a pipe."""
    capsys.readouterr()
    assert main(arguments) in (0, 1)
    return capsys.readouterr().out.splitlines()


def held(lines):
    """Check the lines, the width of tables, and that a last line says how to see what is not shown."""
    assert 0 < len(lines) <= HEIGHT
    tables = [line for line in lines if line.startswith(NOT_TEXT)]
    assert all(len(line) <= WIDTH for line in tables), max(tables, key=len)
    is_cut = any(re.search(r"\(the first \d+ of [\d,]+ rows\)|levels 1 to \d", line) for line in lines)
    assert not is_cut or re.fullmatch(r"… .*: --format \w+ shows all", lines[-1]), lines[-1]
    assert is_cut or "not all rows" not in lines[-1], lines[-1]


@pytest.mark.parametrize("view", VIEWS)
def test_views(view, files, capsys):
    held(printed([files["report"], *view.split()], capsys))


@pytest.mark.parametrize("line", [*filter(None, OF_COMMANDS.values())])
def test_commands(line, files, capsys):
    held(printed(line.format(**files).split(), capsys))


def test_a_format_and_many_rows_have_all(files, capsys):
    whole = printed([files["report"], "--calls", "--format", "csv"], capsys)[1:]
    many = [line for line in printed([files["report"], "--calls", "--top", "1000"], capsys) if line.startswith("| ")]
    assert len(many) == len(whole) + 2  # two lines of titles
    assert (len(many) > HEIGHT) == ("large" in files["target"])
