"""Compares multiply-adds and parameters of published networks with numbers from other sources.

Run in the root of the repository, in an environment with torchvision or timm: ``python -m benchmarks.accuracy
[torchvision | timm] [--only NAME]``. Prints one line per network, and exits with 1 if a network is outside of its
tolerance. A library that is not installed is reported and skipped.

* ``data/torchvision.csv``: ``_ops`` (in 10⁹ multiply-adds) and ``num_params`` of the weights of torchvision 0.28, as
  printed on its model pages, one row per input size. Tolerance: equal to the printed digits. In some detectors,
  torchvision measured the heads on fewer boxes than the maximum; the column ``share`` gives the ratio.
* ``data/timm.csv``: forty networks of timm 1.0.31, half of the FLOPs of ``torch.utils.flop_counter`` of torch 2.13 on
  the meta device, in 10⁹. Marked networks are counted after ``timm.utils.reparameterize_model``. Tolerance: 0.05 %.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

from costcore import CostError, estimate

DATA = Path(__file__).parent / "data"
DEVIATION = 0.0005
FROZEN = ("resnet50_fpn", "320_fpn", "large_fpn")
"""Suffixes of the names of detectors whose trained models have frozen batch norms."""


class Outcome(NamedTuple):
    """The expected and the counted numbers of a network."""

    name: str
    expected: str
    found: str
    is_met: bool
    note: str = ""


def rows(file: str) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with (DATA / file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def counted(model: torch.nn.Module, inputs: Any, share: str = "") -> tuple[float, int, str]:
    """Return MACs in 10⁹, parameters of the model, and the assumptions and unsupported operators of the count.

    With ``share="path=p/q"``, modules whose path starts with ``path`` ran on p of the q samples that were counted.
    """
    try:
        report = estimate(model, inputs)
    except CostError as error:
        return float("nan"), 0, str(error)
    total = report.total_report
    macs = Fraction(total["macs"])
    if share:
        path, _, part = share.partition("=")
        calls = report.layer_report.values()
        macs -= (1 - Fraction(part)) * sum(call["macs"] for call in calls if call["module"].startswith(path))
    notes = [assumption.what for assumption in report.assumptions]
    notes += [f"unsupported: {layer['type']}" for layer in report.ignored_layers.values()]
    return float(macs / 10**9), total["n_params_model"], "; ".join(dict.fromkeys(notes))


def freeze_norms(model: torch.nn.Module) -> None:
    """Replace all batch norms by frozen ones, which have no parameters, as in trained detectors."""
    from torchvision.ops.misc import FrozenBatchNorm2d

    for module in model.modules():
        for child_name, child in module.named_children():
            if isinstance(child, torch.nn.BatchNorm2d):
                setattr(module, child_name, FrozenBatchNorm2d(child.num_features))


def torchvision_models(only: str) -> Iterator[Outcome]:
    """Count every network of torchvision that has published numbers."""
    from torchvision.models import get_model

    for row in rows("torchvision.csv"):
        name, n_params = row["model"], int(row["n_params"])
        if only not in name:
            continue
        settings: dict[str, Any] = {}
        if row["task"] in ("detection", "segmentation"):
            settings = {"weights_backbone": None}
        if name == "googlenet":
            settings = {"aux_logits": False, "init_weights": False}
        elif name == "inception_v3":
            settings = {"init_weights": False}
        elif name.startswith(("fcn_", "deeplab")):
            settings |= {"aux_loss": True}
        elif name.startswith("vit_"):
            settings = {"image_size": int(row["inputs"].split("x")[-1])}
        with torch.device("cpu" if name.startswith("regnet") else "meta"):  # regnet computes its widths with tensors
            model = get_model(name, weights=None, **settings).eval()
        if row["task"] == "detection" and name.endswith(FROZEN):
            freeze_norms(model.backbone.body)
        if name.startswith("maskrcnn"):
            model.transform.postprocess = lambda result, *_: result  # pasting a mask into the image needs its box
        shapes: list[Any] = [tuple(map(int, shape.split("x"))) for shape in row["inputs"].split()]
        inputs = [[shapes[0]]] if row["task"] == "detection" else shapes  # a detector takes a list of images
        macs, found, note = counted(model, inputs, row["share"])
        expected = (row["gmacs"], n_params)
        digits = len(row["gmacs"].partition(".")[2])
        is_met = abs(round(macs, digits) - float(row["gmacs"])) < 10**-digits / 2 and found == n_params
        yield Outcome(f"{row['task']} {name}", "{} {}".format(*expected), f"{macs:.4f} {found}", is_met, note)


def timm_models(only: str) -> Iterator[Outcome]:
    """Count forty networks of timm."""
    import timm
    from timm.utils.model import reparameterize_model

    for row in rows("timm.csv"):
        if only not in row["model"]:
            continue
        is_merged = row["reparameterised"] == "1"  # merging computes with the weights
        with torch.device("cpu" if is_merged else "meta"):
            model = timm.create_model(row["model"], pretrained=False).eval()
        if is_merged:
            model = reparameterize_model(model)
        size = int(row["size"])
        macs, found, note = counted(model, (1, 3, size, size))
        expected, n_params = float(row["gmacs"]), int(row["n_params"])
        is_met = abs(macs - expected) <= DEVIATION * expected and found == n_params
        yield Outcome(row["model"], f"{expected} {n_params}", f"{macs:.5f} {found}", is_met, note)


TABLES = {"torchvision": torchvision_models, "timm": timm_models}


def main() -> int:
    """Print the tables; return 1 if a network is outside of its tolerance."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="torchvision | timm", help="default: both")
    parser.add_argument("--only", default="", help="count only networks whose name contains this")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    n_missed = 0
    for table in arguments.tables or TABLES:
        if find_spec(table) is None:
            print(f"{table}: skipped, it is not installed")
            continue
        outcomes = []
        for outcome in TABLES[table](arguments.only):
            outcomes.append(outcome)
            verdict = "  " if outcome.is_met else "! "
            print(verdict + ", ".join(filter(None, (*outcome[:3], outcome.note))), flush=True)
        missed = sum(not outcome.is_met for outcome in outcomes)
        print(f"{table}: {len(outcomes) - missed} of {len(outcomes)} within the tolerance")
        n_missed += missed
    return 1 if n_missed else 0


if __name__ == "__main__":
    sys.exit(main())
