"""The first estimate in a process equals later ones, although kernels of PyTorch import its compiler during it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]

PROGRAM = """
from torch import nn

from costcore import estimate

blocks = (nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)) for _ in range(3))
net = nn.Sequential(*blocks).eval()
for _ in range(2):
    report = estimate(net, (2, 8, 8, 8), backward=True, memory=True)
    print(report.total_report["n_layers"], report.memory.peak)
"""


def test_the_first_estimate_in_a_process_equals_the_second():
    """Three convolutions and three norms, and the backward pass of each: 12 calls. No gradient is copied."""
    command = [sys.executable, "-c", PROGRAM]
    first, second = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()
    assert first == second
    assert first.split()[0] == "12"
