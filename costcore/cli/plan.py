"""``costcore plan MODEL``: list the ways to train on many devices that fit."""

from __future__ import annotations

import argparse

from costcore.api.input_notation import parse_inputs
from costcore.cli.exit_codes import FAILURE, SUCCESS
from costcore.cli.models import check_model, given_or_usual, missing_inputs, model_to_capture
from costcore.cli.options import (
    PRECISIONS,
    RESULT_FILES,
    add_python_path,
    add_result_output,
    command_parser,
    counts_in,
    format_of,
    mesh_of,
    names_in,
)
from costcore.cli.running import command, write_result
from costcore.errors import CostError, MissingInputsError
from costcore.studies.plans.answer import FIGURES, Plans, check_figures
from costcore.studies.plans.search import plan
from costcore.text.amounts import parse_bytes

EPILOG = """examples:
  costcore plan hf:llama --input input_ids=batch,4096:int64 --devices 64 --device h100 --global-batch 1024
  costcore plan nets.py:make --input batch,2048,512 --devices 8 --device a100 --global-batch 64 --mesh fsdp=8

The meshes that are tried divide the devices into copies (dp) or sharded copies (fsdp) of the model, tensor parallelism
inside of a node (tp), and stages of a pipeline (pp). Experts are divided over copies (ep), and long sequences over
devices (cp). One rank of each is captured. --format json lists every plan with its memory, the bytes that it sends, its
bound and, if it is left out, the reason.

exit codes: 0 success, 1 no plan fits or model error, 2 usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore plan",
        "MODEL --devices N --device NAME --global-batch N",
        "List the ways to train a model on many devices that fit, the fastest first (PyTorch).",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help="package.module:factory, file.py:factory or hf:TYPE")
    parser.add_argument("--devices", type=int, required=True, metavar="N", help="the number of devices")
    parser.add_argument(
        "--device", required=True, metavar="NAME", help="a name that `costcore devices` lists, or .toml"
    )
    parser.add_argument("--global-batch", type=int, required=True, metavar="N", help="samples of a step")
    parser.add_argument(
        "--input", action="append", default=[], metavar="SHAPE", help="shape of an input with a batch: batch,4096:int64"
    )
    parser.add_argument("--optimizer", default="adamw", metavar="NAME", help="default: adamw")
    parser.add_argument("--per-node", type=int, default=8, metavar="N", help="most devices along tp; default: 8")
    parser.add_argument("--micro-batch", default="1,2", metavar="N,N", help="samples of a pass; default: 1,2")
    parser.add_argument(
        "--mesh",
        action="append",
        default=[],
        metavar="dp=N,tp=N",
        help="a mesh to try, of dp, fsdp, tp, pp, cp and ep; may be repeated; default: all",
    )
    parser.add_argument(
        "--precision",
        default="bfloat16",
        choices=(*PRECISIONS, "model"),
        help="bfloat16 with float32 master weights, autocast, or the dtypes of the model; default: bfloat16",
    )
    parser.add_argument("--link", metavar="NAME", help="the link between devices, such as nvlink4; default: no limit")
    parser.add_argument(
        "--memory", metavar="SIZE", help='memory of a device, as "80 GB"; default: as its vendor prints'
    )
    parser.add_argument(
        "--pareto",
        metavar="NAME,NAME",
        help=f"print only plans than which no other is better in all of these: {', '.join(FIGURES)}",
    )
    add_result_output(parser)
    add_python_path(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model, "which cannot be captured again")
    if args.memory is not None:
        parse_bytes(args.memory, "--memory")
    format_of(args, "table", RESULT_FILES)
    compared = names_in([args.pareto] if args.pareto else None)
    check_figures(compared)
    found = _plans(args)
    write_result(found.pareto(*compared) if compared else found, args)
    return SUCCESS if found.plans else FAILURE


def _plans(args: argparse.Namespace) -> Plans:
    with model_to_capture(args, "plans of ") as model:
        inputs = given_or_usual(parse_inputs(args.input), model, args.model)
        if inputs is None:
            raise ValueError("state the inputs with --input, with a name for the batch, such as batch,4096:int64")
        try:
            return plan(
                *(model, inputs),
                devices=args.devices,
                device=args.device,
                global_batch=args.global_batch,
                optimizer=args.optimizer,
                per_node=args.per_node,
                micro_batches=counts_in(args.micro_batch, "--micro-batch"),
                precisions=(None if args.precision == "model" else args.precision,),
                meshes=[*map(mesh_of, args.mesh)] or None,
                link=args.link,
                memory=args.memory,
            )
        except MissingInputsError as error:
            raise CostError(f"{args.model}: {missing_inputs(error)}") from error
