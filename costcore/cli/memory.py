"""``costcore memory MODEL``: find the largest batch that fits into a memory."""

from __future__ import annotations

import argparse

from costcore.api.input_notation import parse_inputs
from costcore.cli.exit_codes import SUCCESS
from costcore.cli.models import (
    asked_mode,
    asks_for_step,
    check_model,
    estimate_options,
    given_or_usual,
    model_to_capture,
    put_in_mode,
)
from costcore.cli.options import (
    RESULT_FILES,
    add_frontend_switches,
    add_memory_terms,
    add_model_options,
    add_result_output,
    command_parser,
    format_of,
)
from costcore.cli.running import command, print_message, write_result
from costcore.registry.frontends import reader_of
from costcore.studies.batch_size.accumulation import check_global_batch
from costcore.studies.batch_size.fit import Fit, fit
from costcore.studies.batch_size.limit import ALLOCATORS, CONTEXT, Limit, make_limit
from costcore.text.amounts import parse_bytes

TERMS = {"size": "--memory", "context": "--context", "workspace": "--workspace"}
"""The options that are sizes."""

EPILOG = """examples:
  costcore memory torchvision:resnet50 --memory 24GiB --input batch,3,224,224
  costcore memory torchvision:resnet50 --memory 24GiB --input batch,3,224,224 --train --optimizer adamw
  costcore memory my_model.py:make --memory "80 GB" --input ids=batch,1024:int64 --optimizer adamw --global-batch 4096

In --input, batch stands for the batch dimension; without it, the first dimension of every input is the batch.

output, one line each: the largest batch; what makes up its peak; with --train also the micro-batches of a global batch,
and what activation checkpointing of the heaviest repeated modules saves; the terms of the limit.

exit codes: 0 success (also if no batch fits), 1 model error, 2 usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore memory",
        "MODEL --memory SIZE",
        "Find the largest batch that fits into the memory of a device (PyTorch). The model is not run.",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help="package.module:factory or file.py:factory")
    parser.add_argument("--memory", dest="size", metavar="SIZE", help='memory of the device, as 24GiB or "80 GB"')
    add_model_options(parser)
    parser.add_argument(
        "--global-batch", type=int, default=1024, metavar="N", help="samples per step of the optimizer; default: 1024"
    )
    parser.add_argument("--replicas", type=int, default=1, metavar="N", help="devices that share them; default: 1")
    parser.add_argument(
        "--allocator",
        default=ALLOCATORS[0],
        choices=ALLOCATORS,
        help="cuda: what PyTorch's caching allocator needs on a GPU; default: the peak of tensors",
    )
    add_memory_terms(parser, CONTEXT, f"{CONTEXT}, assumed")
    add_result_output(parser)
    add_frontend_switches(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model, "whose batch cannot change")
    if reader_of(args.model):
        raise ValueError(
            f"{args.model} is a file, of which costcore {args.model} --arena states the memory of an inference, and "
            f"costcore fit {args.model} DEVICE whether that fits. The largest batch is found of PyTorch models."
        )
    if args.size is None:
        raise ValueError(
            f"--memory is missing, the memory of the device, as in costcore memory {args.model} --memory 24GiB"
        )
    asked_mode(args)
    format_of(args, "table", RESULT_FILES)
    memory, context, workspace = (parse_bytes(getattr(args, name), flag) for name, flag in TERMS.items())
    limit = make_limit(memory, context, workspace, args.fragmentation, args.allocator)
    check_global_batch(args.global_batch, args.replicas)
    found = _fit(args, limit)
    write_result(found, args)
    for note in found.notes:
        print_message(f"note: {note}")
    return SUCCESS


def _fit(args: argparse.Namespace, limit: Limit) -> Fit:
    """Return what fits; the model is put into the mode in which it is counted."""
    given, options = parse_inputs(args.input), estimate_options(args)
    optimizer = options.pop("optimizer", None)
    with model_to_capture(args) as model:
        inputs = given_or_usual(given, model, args.model)
        if inputs is None:
            raise ValueError("the inputs are missing: give their shapes, as in --input batch,3,224,224")
        put_in_mode(model, args.model, args)
        return fit(
            *(model, inputs, limit),
            train=asks_for_step(args),
            optimizer=optimizer,
            global_batch=args.global_batch,
            replicas=args.replicas,
            options=options,
        )
