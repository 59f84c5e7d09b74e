"""Compares conventions with numbers that the tools themselves printed.

``python benchmarks/conventions.py conventions.csv [network prefix …]``: a table with the columns ``tool``, ``network``,
``builder`` (Python), ``inputs`` (``1x3x224x224``, ``1x64:int64``; several by ``;``), ``settings``, ``metric`` and
``number``. Networks without their library are skipped. Prints every difference, then the score of each convention.
"""

from __future__ import annotations

import csv
import importlib
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from costcore import CostError, Tensor, estimate
from tests.frontends.pytorch.conventions.networks import First, Fn

CONVENTIONS = {
    ("calflops calculate_flops", "flops"): "calflops",
    ("calflops calculate_flops", "macs"): "calflops-macs",
    ("deepspeed get_model_profile", "flops"): "deepspeed",
    ("deepspeed get_model_profile", "macs"): "deepspeed-macs",
    ("fvcore FlopCountAnalysis", "flops"): "fvcore",
    ("mmengine FlopAnalyzer", "flops"): "mmengine",
    ("thop profile", "macs"): "thop",
    ("ultralytics-thop", "macs"): "ultralytics-thop",
    ("torchinfo summary", "mult_adds"): "torchinfo",
    ("torchprofile profile_macs", "macs"): "torchprofile",
    ("torch-scan", "macs"): "torch-scan",
    ("ptflops", "macs"): {
        "backend=aten": "ptflops-aten",
        "backend=pytorch": "ptflops",
        "backend=pytorch,count_functional=False": "ptflops-modules",
    },
    ("torch FlopCounterMode", "flops"): {
        "meta,no_grad": "torch",
        "cpu,grad": "torch-cpu",
        "cpu,no_grad": "torch-cpu-no-grad",
    },
}
"""Conventions by tool and metric, and by settings where the tool has several."""


class WithoutCache(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.m = model

    def forward(self, ids: Any) -> Any:
        return self.m(ids, use_cache=False, return_dict=False)[0]


def hf(config: str, model: str, attn: str = "sdpa", **settings: Any) -> nn.Module:
    """Build a model of transformers."""
    transformers = importlib.import_module("transformers")
    made = getattr(transformers, config)(**settings)
    made._attn_implementation = attn
    return WithoutCache(getattr(transformers, model)(made))


def names() -> dict[str, Any]:
    """Return the names that builders may use, from installed libraries."""
    known = {"torch": torch, "nn": nn, "F": F, "Fn": Fn, "First": First, "hf": hf}
    for name, module in (("tv", "torchvision.models"), ("torchvision", "torchvision"), ("timm", "timm")):
        try:
            known[name] = importlib.import_module(module)
        except ImportError as error:
            print(f"{module}: {error}")
    return known


def inputs(text: str) -> tuple[Tensor, ...]:
    parts = [part.partition(":") for part in text.split(";")]
    return tuple(Tensor(tuple(map(int, shape.split("x"))), dtype or "float32") for shape, _, dtype in parts)


def convention_of(row: dict[str, str]) -> str | None:
    found = CONVENTIONS.get((row["tool"], row["metric"]))
    return found.get(row["settings"]) if isinstance(found, dict) else found


def compare(table: Path, prefixes: tuple[str, ...]) -> None:
    by_network = defaultdict(list)
    for row in csv.DictReader(table.read_text(encoding="utf-8").splitlines()):
        convention = convention_of(row)
        if convention and row["number"] and (row["network"].startswith(prefixes) or not prefixes):
            by_network[row["network"]].append((convention, int(row["number"]), row))
    exact: defaultdict[str, int] = defaultdict(int)
    compared: defaultdict[str, int] = defaultdict(int)
    seconds = 0.0
    known = names()
    for network, expected in by_network.items():
        first = expected[0][2]
        try:
            model = eval(first["builder"], known).eval()  # the table is the user's own
        except (NameError, ImportError) as error:
            print(f"{network} is skipped: {error}")
            continue
        report = estimate(model, inputs(first["inputs"]), record_api_calls=True)
        start = time.perf_counter()
        for convention, number, _ in expected:
            compared[convention] += 1
            try:
                total = report.under(convention).total
            except CostError as error:
                total = str(error)
            exact[convention] += total == number
            if total != number:
                gap = f" ({total - number:+,})" if isinstance(total, int) else ""
                print(f"{network}, {convention}: {total} for {number:,}{gap}")
        seconds += time.perf_counter() - start
    for convention in sorted(compared):
        print(f"{convention:<20} {exact[convention]:>5} of {compared[convention]}")
    print(f"{'all':<20} {sum(exact.values()):>5} of {sum(compared.values())}, {seconds:.1f} s without the captures")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__)
    else:
        compare(Path(sys.argv[1]), tuple(sys.argv[2:]))
