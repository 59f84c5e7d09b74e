"""``costcore train MODEL``: state the FLOPs of a training run, and its MFU."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from costcore.api.input_notation import parse_inputs
from costcore.cli.models import check_model, estimate_options, model_to_capture, put_in_mode, report_of
from costcore.cli.options import (
    add_frontend_switches,
    add_model_options,
    add_output,
    command_parser,
    format_of,
    model_forms,
)
from costcore.cli.running import command, exit_code, write_output
from costcore.registry.libraries import is_saved_report
from costcore.studies.training.ledger import TrainingLedger
from costcore.studies.training.pairs import PAIRS
from costcore.studies.training.stage import Stage
from costcore.text.amounts import parse_amount, parse_rate
from costcore.trace.input_shapes import has_names, with_tensors

EPILOG = """examples:
  costcore train llama.py:make --input input_ids=1x8192:int64 --tokens 15.6e12 --devices 16384 --device h100-sxm5-80gb
  costcore train nets.py:make --input ids=4x2048:int64 --steps 1000 --accumulation 8 --replicas 64 --optimizer adamw
  costcore train step.json --tokens 1e9 --device a100-sxm4-80gb --step-seconds 1.1
  costcore train nets.py:make_lora --input ids=8x512:int64 --tokens 1e8 --base-flops 3.8e25 --output ledger.json

  costcore train nets.py:make --input ids=batch,2048:int64 --device h100 --mesh fsdp=8 --plan fully_sharded

MODEL is one micro-batch of one replica: its forward and backward pass. A saved report has to contain both. If the batch
in --input has a name, and the device or --memory is given, the micro-batch is the largest one of a rank that fits.

exit codes: 0 success, 1 model error (with --strict also a partial or assumed report), 2 usage error"""


MEASURED = ("step_seconds", "tokens_per_second", "tokens_per_second_per_device")
"""The options that state how fast a run was."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore train",
        "MODEL --tokens N",
        "State the FLOPs of a training run: model and hardware FLOPs, what published rules say of it and "
        "why they differ, utilization of devices, and thresholds that it exceeds.",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--tokens", metavar="N", help="tokens (samples) of the run: 15.6e12, 15.6T, 300B")
    length.add_argument("--steps", type=int, metavar="N", help="steps of the optimizer, instead; default: 1")
    parser.add_argument("--accumulation", type=int, default=1, metavar="N", help="micro-batches per step; default: 1")
    parser.add_argument(
        "--replicas", type=int, metavar="N", help="data-parallel copies; default: one per device, with --mesh 1"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="tokens (samples) of MODEL; default: as its input shows")
    _add_attention(parser)
    parser.add_argument("--capacity-factor", type=float, metavar="C", help="rows that experts compute, per row sent")
    _add_devices(parser)
    parser.add_argument(
        "--thresholds", action="store_true", help="list thresholds of laws also if less than a tenth of each is reached"
    )
    parser.add_argument("--base-flops", type=float, metavar="N", help="training FLOPs of the model that this modifies")
    parser.add_argument("--base-source", default="", metavar="TEXT", help="where these come from, for the JSON file")
    add_output(parser, ("table", "json"), "table", (".json",))
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a call is not counted, or if something is assumed"
    )
    add_model_options(parser)
    add_frontend_switches(parser)
    parser.set_defaults(is_step=True)
    return parser


def _add_attention(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pairs",
        choices=PAIRS,
        default="all",
        help="pairs of query and key in totals and MFU: all, those that flags and windows allow, or those of one "
        "packed document; the others are listed as well; default: all",
    )
    parser.add_argument(
        "--document-lengths", metavar="N,N,...", help="tokens of the documents that are packed into the sequences"
    )
    parser.add_argument(
        "--masks", choices=("unknown", "causal"), default="unknown", help="whether masks that are tensors are causal"
    )
    parser.add_argument(
        "--padding-share", type=float, default=0.0, metavar="P", help="share of tokens that are padding"
    )


def _add_devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="number of devices; default: 1")
    parser.add_argument("--device", metavar="NAME", help="a name that `costcore devices` lists, or a .toml file")
    parser.add_argument("--dtype", default="bfloat16", metavar="NAME", help="dtype of products; default: bfloat16")
    parser.add_argument("--peak", type=float, metavar="FLOPS", help="FLOP/s of one device, instead of --device")
    parser.add_argument("--mfu", type=float, metavar="X", help="utilization, if no step was measured; default: 0.4")
    parser.add_argument(
        "--memory", dest="size", metavar="SIZE", help='memory of a device, as "80 GB"; default: as its vendor prints'
    )
    parser.add_argument("--price", metavar="RATE", help="price of one device for an hour, in any currency: 2.10/h")
    parser.add_argument("--watts", type=float, metavar="N", help="power of one device, for the energy of the run")
    measured = parser.add_mutually_exclusive_group()
    measured.add_argument("--step-seconds", type=float, metavar="S", help="measured seconds of a step, for MFU and HFU")
    measured.add_argument("--tokens-per-second", metavar="N", help="measured tokens a second of all devices, instead")
    measured.add_argument("--tokens-per-second-per-device", metavar="N", help="those of one device, instead: 8.9k")


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if args.device is not None and args.peak is not None:
        raise ValueError("--device and --peak exclude each other")
    for name in (*MEASURED, "mfu", "price", "watts"):
        if getattr(args, name) is not None and args.device is None and args.peak is None:
            raise ValueError(f"--{name.replace('_', '-')} needs --device or --peak")
    price, tokens = parse_rate(args.price, "--price"), _number(args.tokens, "--tokens")
    rate = _tokens_per_second(args)
    format_of(args, "table", (".json",))
    ledger = TrainingLedger(
        devices=args.devices, device=args.device, dtype=args.dtype, peak=args.peak, pairs=args.pairs
    )
    documents = _lengths(args.document_lengths)
    check_model(args.model)
    stage = _add(
        ledger,
        args,
        steps=args.steps,
        tokens=tokens,
        accumulation=args.accumulation,
        replicas=args.replicas,
        batch=args.batch,
        document_lengths=documents,
        masks=args.masks,
        padding_share=args.padding_share,
        capacity_factor=args.capacity_factor,
    )
    seconds = args.step_seconds if rate is None else stage.tokens_per_step / rate
    _write(ledger, args, price, seconds)
    return exit_code(stage.step.report.status, args.strict)


def _add(ledger: TrainingLedger, args: argparse.Namespace, **terms: Any) -> Stage:
    """Add the stage: of a report, or, if the batch has a name, of the largest batch that fits."""
    given = None if is_saved_report(args.model) else parse_inputs(args.input)
    if not has_names(with_tensors(given)) or args.device is args.size is None:
        if args.size is not None:
            raise ValueError(
                "--memory needs a batch with a name, as --input batch,2048:int64, whose largest size it limits"
            )
        return ledger.add("training", report_of(args.model, args, is_alone=True), **terms)
    with model_to_capture(args) as model:
        put_in_mode(model, args.model, args)
        options = {name: value for name, value in estimate_options(args).items() if name != "backward"}
        return ledger.add("training", model, given, device_memory=args.size, **terms, **options)


def _tokens_per_second(args: argparse.Namespace) -> float | None:
    """Return the measured tokens a second of all devices; None without them.

    Raises:
        ValueError: if the number is not positive.
    """
    per_device = args.tokens_per_second_per_device is not None
    text = args.tokens_per_second_per_device if per_device else args.tokens_per_second
    option = "--tokens-per-second-per-device" if per_device else "--tokens-per-second"
    rate = _number(text, option)
    if rate is not None and not rate > 0:
        raise ValueError(f"{option} must be positive (got {text!r})")
    return rate if rate is None else rate * (args.devices if per_device else 1)


def _number(text: str | None, option: str) -> float | None:
    """Return the number that ``1e9``, ``1G`` or ``1B``, a billion, or ``8.9k`` stands for.

    Raises:
        ValueError: if it has another form.
    """
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return parse_amount(re.sub(r"(?<=[0-9 ])B$", "G", text.upper()), option)


def _lengths(text: str | None) -> list[int]:
    """Return the lengths of documents in ``1024,512``.

    Raises:
        ValueError: if a length is not an integer.
    """
    try:
        return [] if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--document-lengths expects integers separated by commas (got {text!r})") from None


def _write(ledger: TrainingLedger, args: argparse.Namespace, price: float | None, seconds: float | None) -> None:
    measured = {"step_seconds": seconds, "base_flops": args.base_flops}
    if format_of(args, "table", (".json",)) == "table":
        rates = {"mfu": args.mfu, "price": price, "watts": args.watts, "thresholds": args.thresholds}
        write_output(lambda out: ledger.show(out, **measured, **rates), None)
    else:
        ledger.to_json(sys.stdout if args.output is None else args.output, 2, base_source=args.base_source, **measured)
