"""Compares the costs of networks exported by PyTorch's exporters with the costs of the networks in PyTorch.

Run in the root of the repository, in an environment with onnxscript and torchvision, transformers or timm:
``python -m benchmarks.exports [torchvision | transformers | timm] [--only NAME] [--exporters newer older]
[--batches static symbolic] [--folded no yes] [--by-op]``. A library that is not installed is reported and skipped.

Prints one line per network, exporter, kind of batch and folding: the totals of the ONNX report minus those of the
PyTorch report. MACs and parameters are counted without regrouping, FLOPs and bytes with ``regroup=True`` and
``layout="free"``. A symbolic batch is substituted afterwards. Networks have random weights that all differ (the older
exporter stores equal tensors once), and small sizes if the architecture allows it. The last line has the
number of unfolded exports that are equal in all columns. Exits with 1 if an unfolded export differs and has no
explanation in ``EXPLAINED``.
"""

from __future__ import annotations

import argparse
import io
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn

from benchmarks.export_networks import BATCH, Network, timm_networks, torchvision_networks, transformers_networks
from costcore import CostError, Report, estimate
from costcore.analyses.conventions.counting import live_calls

NOT_EXPORTED = (RuntimeError, TypeError, ValueError, torch.onnx.OnnxExporterError)
"""Errors of exporters for models that they do not support."""
PLAIN, REGROUPED = ("macs", "n_params"), ("flops", "mread", "mwrite")


SCATTERED = (
    "regions of masks are scattered to stored indices, which an assignment and an explicit scatter both export to"
)
TRACED = "constants are computed while the exporter traces, and equal expressions are exported once"
TENSORS = "one-element tensors that the program makes from numbers are exported as numbers"
WITH_MASKS = (
    *("bert", "bert for classes", "roberta", "distilbert", "albert", "electra", "mpnet", "deberta_v2", "modernbert"),
    *("gpt2", "opt", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "phi", "bart", "clip_text"),
)
WITH_POSITIONS = ("t5_encoder of pairs", "t5_encoder", "t5", "detr")
BIASES = "biases that are computed are added by nodes of their own, as a program may write them"
EXPLAINED = {
    ("inception_v3", "older"): "nested concatenations of 4 pairs are exported as one concatenation",
    ("swin_t", "older"): SCATTERED,
    ("swin_v2_t", "older"): (
        f"{SCATTERED}, as are zeros in 12 biases, which the graph computes; "
        "12 tables of 15 x 15 pairs of coordinates look like weights"
    ),
    ("swin_v2_t", "newer"): "zeros are scattered into 12 biases, which `zero_` and an explicit scatter both export to",
    ("fastvit_t8", "older"): TRACED,
    ("beit_base_patch16_224", "older"): BIASES,
    ("edgenext_xx_small", "newer"): "booleans are converted before they are summed, as a program may write it",
    **dict.fromkeys((("mpnet", "newer"), ("t5", "newer"), ("t5_encoder", "newer")), TENSORS),
    ("gpt2 without mask", "newer"): "an element of a constant that repeats it is read once for every repetition",
    **{(name, "older"): TRACED for name in ("edgenext_xx_small", "fastvit_t8", *WITH_MASKS, *WITH_POSITIONS)},
}
"""Why unfolded graphs differ from PyTorch, by network and exporter."""


class Case(NamedTuple):
    """One way to export a network."""

    exporter: str
    batch: str
    folded: str


TABLES = {"torchvision": torchvision_networks, "transformers": transformers_networks, "timm": timm_networks}


def built(network: Network) -> nn.Module:
    """Build the network in inference mode, with weights that all differ."""
    torch.manual_seed(0)
    module = network.build().eval()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.1, 1)
    return module


def exported(module: nn.Module, inputs: Mapping[str, Tensor], case: Case) -> bytes:
    """Export the network as a serialized model."""
    out, args = io.BytesIO(), tuple(inputs.values())
    is_symbolic, is_folded = case.batch == "symbolic", case.folded == "yes"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own warnings
        if case.exporter == "older":
            axes = {name: {0: "batch"} for name in inputs} if is_symbolic else None
            options: dict[str, Any] = {"input_names": list(inputs), "dynamic_axes": axes}
            torch.onnx.export(module, args, out, dynamo=False, do_constant_folding=is_folded, **options)
            return out.getvalue()
        shapes = tuple({0: torch.export.Dim("batch")} for _ in args) if is_symbolic else None
        options = {"dynamic_shapes": shapes, "optimize": is_folded, "verbose": False}
        program = torch.onnx.export(module, args, dynamo=True, **options)
        content: bytes = program.model_proto.SerializeToString()
        return content


def in_pytorch(module: nn.Module, inputs: Mapping[str, Tensor], exporter: str) -> list[Report]:
    """Return reports of the network while it is exported and in a plain run, without calls that no output needs.

    Models of transformers leave out a mask that masks nothing, but not while they are exported.
    """
    newer = patch.multiple(torch.compiler, _is_compiling_flag=True, _is_exporting_flag=True)
    reports = []
    for exporting in (newer if exporter == "newer" else patch.object(torch.jit, "is_tracing", return_value=True), None):
        with exporting or nullcontext():
            report = estimate(module, tuple(inputs.values()), layout="free")
        reports.append(Report(report.trace.only(sorted(live_calls(report.trace) or ()))))
    return reports


def counted(model: bytes, case: Case, **options: Any) -> Report:
    """Return the report of a model; a symbolic batch is substituted."""
    report = estimate(model, layout="free", **options)
    return report.subs(batch=BATCH) if case.batch == "symbolic" else report


def differences(found: Report, expected: Report, names: tuple[str, ...]) -> dict[str, int]:
    """Return the totals of one report minus those of the other."""
    return {name: found.total_report[name] - expected.total_report[name] for name in names}


def by_op(found: Report, expected: Report) -> Iterator[str]:
    """Return one line per operator whose costs differ."""
    first, second = found.by("op"), expected.by("op")
    for op in sorted({*first, *second}):
        figures = {
            name: first.get(op, {}).get(name, 0) - second.get(op, {}).get(name, 0)
            for name in ("n_layers", "macs", *REGROUPED)
        }
        if any(figures[name] for name in ("macs", *REGROUPED)):
            yield f"{op}: " + ", ".join(f"{name} {figure:+}" for name, figure in figures.items() if figure)


def main() -> int:
    """Print the tables; return 1 if a difference is not explained."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="torchvision | transformers | timm", help="default: all")
    parser.add_argument("--only", nargs="*", default=[""], help="count only networks whose name contains one of these")
    parser.add_argument("--exporters", nargs="*", default=["newer", "older"], choices=["newer", "older"])
    parser.add_argument("--batches", nargs="*", default=["static", "symbolic"], choices=["static", "symbolic"])
    parser.add_argument("--folded", nargs="*", default=["no", "yes"], choices=["no", "yes"])
    parser.add_argument("--by-op", action="store_true", help="list the operators whose costs differ")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)  # exporters log what they try
    cases = [Case(*case) for case in product(arguments.exporters, arguments.batches, arguments.folded)]
    is_missed, equal = False, Counter[str]()
    print(", ".join(("network", *Case._fields, *PLAIN, *REGROUPED)))
    for table in arguments.tables or TABLES:
        if find_spec(table) is None:
            print(f"{table}: skipped, it is not installed")
            continue
        for name, network in TABLES[table]().items():
            if not any(part in name for part in arguments.only):
                continue
            module, inputs = built(network), network.inputs()
            reports = {exporter: in_pytorch(module, inputs, exporter) for exporter in arguments.exporters}
            for case in cases:
                try:
                    model = exported(module, inputs, case)
                except NOT_EXPORTED as error:
                    print(f"  {', '.join((name, *case))}: not exported: {str(error).splitlines()[0]}", flush=True)
                    continue
                try:
                    plain, regrouped = counted(model, case), counted(model, case, regroup=True)
                except CostError as error:
                    print(f"! {', '.join((name, *case))}: {error}", flush=True)
                    is_missed = True
                    continue
                rows = [
                    differences(plain, expected, PLAIN) | differences(regrouped, expected, REGROUPED)
                    for expected in reports[case.exporter]
                ]
                row = next((row for row in rows if not any(row.values())), rows[0])
                why = EXPLAINED.get((name, case.exporter), "") if case.folded == "no" and any(row.values()) else ""
                is_fine = case.folded == "yes" or bool(why) or not any(row.values())
                is_missed = is_missed or not is_fine
                if case.folded == "no":
                    equal.update(("exports", *(() if any(row.values()) else ("all columns",))))
                    equal.update(column for column, figure in row.items() if not figure)
                cells = filter(None, (name, *case, *map(str, row.values()), why))
                print(("  " if is_fine else "! ") + ", ".join(cells), flush=True)
                for line in (
                    by_op(regrouped, reports[case.exporter][0]) if arguments.by_op and any(row.values()) else ()
                ):
                    print(f"      {line}")
                unknown = {layer["type"] for layer in plain.ignored_layers.values()}
                if unknown:
                    print(f"      without a calculator: {', '.join(sorted(unknown))}")
    total = equal.pop("exports", 0)
    print(f"of {total} unfolded exports are equal: " + ", ".join(f"{n} in {name}" for name, n in equal.items()))
    return 1 if is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
