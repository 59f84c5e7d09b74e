"""``costcore serve MODEL``: state what prefill and decode of a language model cost."""

from __future__ import annotations

import argparse

from costcore.analyses.devices.catalog import named
from costcore.api.load_model import load_model
from costcore.api.user_code import module_search_path
from costcore.cli.models import check_model, printed_warnings
from costcore.cli.options import add_output, add_python_path, command_parser, counts_in, format_of
from costcore.cli.running import command, exit_code, print_message, write_output, write_text
from costcore.studies.serving.formats import format_of as storage_of
from costcore.studies.serving.report import ServingReport
from costcore.studies.serving.table import remarks, serving_rows, serving_table
from costcore.tables.renderers import renderers
from costcore.text.amounts import parse_bytes, parse_rate
from costcore.text.escape import json_text

EPILOG = """examples:
  costcore serve hf:config.json --device h100 --context 4096
  costcore serve my_model.py:make --device l4,a100-sxm4-80gb --batch 1,8,64 --weights int4 --kv fp8
  costcore serve my_model.py:make --device mine.toml --memory "24 GB" --output serving.csv
  costcore serve model-q4_k_m.gguf --device rtx4090

The factory returns a language model of transformers, on the meta device if it is large. Of a .gguf file, or a folder of
.safetensors files with its config.json, the headers are read, which say how weights are stored. Times are lower bounds,
tokens per second upper bounds: no program that reads weights and cache once a pass is faster. With experts they are
bounds of the mean pass, which reads as many experts as are expected; least_seconds in JSON bounds every pass.

exit codes: 0 success, 1 model error (with --strict also a partial or assumed report), 2 usage error"""

FILES = (".csv", ".md", ".json")
"""Suffixes of the file of ``--output``."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore serve",
        "MODEL --device NAME[,NAME ...]",
        "State what prefill and decode of a language model cost, and how many sequences fit (PyTorch).",
        EPILOG,
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="hf:TYPE or hf:config.json, package.module:factory, file.py:factory, a .gguf file, or a folder of "
        ".safetensors files with its config.json",
    )
    parser.add_argument(
        "--device",
        required=True,
        metavar="NAMES",
        help="a device, or several separated by commas: names that `costcore devices` lists, or .toml files",
    )
    parser.add_argument("--batch", default="1,8,64", metavar="N,N", help="sequences that are decoded; default: 1,8,64")
    parser.add_argument(
        "--context", type=int, default=4096, metavar="N", help="tokens of a prompt and of a sequence; default: 4096"
    )
    parser.add_argument("--dtype", metavar="NAME", help="dtype of activations and products; default: that of the model")
    parser.add_argument("--weights", metavar="FORMAT", help="format of weights: int4, int4:32, nf4, fp8, q4_0, ...")
    parser.add_argument("--kv", metavar="FORMAT", help="format of keys and values; default: --dtype")
    parser.add_argument("--activations", metavar="FORMAT", help="format in which products are computed: int8, fp8")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="PATTERN", help="modules whose weights stay, such as lm_head"
    )
    parser.add_argument("--cache", default="static", metavar="NAME", help="static, paged, dynamic or that of a plug-in")
    parser.add_argument("--last-only", action="store_true", help="scores of a prompt for its last token alone")
    parser.add_argument("--share", type=float, default=0.9, metavar="X", help="of the memory; default: 0.9")
    parser.add_argument("--memory", metavar="SIZE", help='memory of the devices, as "80 GB"')
    parser.add_argument("--price", metavar="RATE", help="price of one device for an hour, in any currency: 2.10/h")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if the report is partial or assumed")
    add_python_path(parser)
    add_output(parser, [*renderers()], "table", FILES)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    mode, batches = _check(args), counts_in(args.batch, "--batch")
    devices = [named(name.strip()) for name in args.device.split(",")]
    with module_search_path(args.python_path, args.model), printed_warnings(args.model):
        serving = ServingReport(
            load_model(args.model),
            dtype=args.dtype,
            weights=args.weights,
            kv=args.kv,
            activations=args.activations,
            cache=args.cache,
            keep=args.keep,
        )
        rows = serving_rows(
            *(serving, devices, batches, args.context),
            share=args.share,
            memory=args.memory,
            last_only=args.last_only,
            price=parse_rate(args.price, "--price"),
        )
        phases = [serving.decode(batch=batch, context=args.context) for batch in sorted({min(batches), max(batches)})]
    if mode == "json":
        write_text(json_text([row._asdict() for row in rows]) + "\n", args.output)
    else:
        write_output(lambda out: serving_table(rows).show(out, mode), args.output)
    for remark in remarks(serving, phases, devices):
        print_message(f"note: {remark}")
    return exit_code(serving.status, args.strict)


def _check(args: argparse.Namespace) -> str:
    """Check the arguments before a model is loaded, and return the format of the output.

    Raises:
        TypeError, ValueError: if an argument is invalid.
    """
    check_model(args.model, "which cannot run again")
    for name in ("dtype", "weights", "kv", "activations"):
        if getattr(args, name) is not None:
            storage_of(getattr(args, name), f"--{name}")
    if args.memory is not None:
        parse_bytes(args.memory, "--memory")
    parse_rate(args.price, "--price")
    if args.context < 1:
        raise ValueError(f"--context must be at least 1 (got {args.context})")
    return format_of(args, "table", FILES)
