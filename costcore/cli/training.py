"""Commands on training, serving and measurement: ``train``, ``serve``, ``calibrate`` and ``profile``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from costcore.analyses.devices.device import Device, device_named, find_device
from costcore.analyses.measured.measured import TITLES, Measured
from costcore.analyses.timing.bound import BOUNDS, LEAST
from costcore.analyses.timing.calibrated import Conditions, plus_minus, to_toml
from costcore.analyses.timing.calibration import Calibration
from costcore.analyses.timing.time_report import toml_text
from costcore.analyses.timing.times import calibration_of
from costcore.api.estimate import estimate, load_model, module_search_path
from costcore.api.hook import parse_inputs
from costcore.cli import FAILURE, SUCCESS
from costcore.cli.models import (
    check_model,
    estimate_options,
    model_to_capture,
    printed_warnings,
    put_in_mode,
    report_of,
)
from costcore.cli.options import (
    RESULT_FILES,
    SAVED,
    TOKENS,
    add_attention,
    add_digits,
    add_frontend_switches,
    add_model_options,
    add_output,
    add_python_path,
    add_unit,
    command_parser,
    count,
    counts_in,
    format_of,
    length,
    mesh_of,
    model_forms,
    unit_of,
)
from costcore.cli.running import (
    command,
    exit_code,
    print_message,
    save_workbook_or_picture,
    write_output,
    write_page,
    write_result,
    write_text,
)
from costcore.errors import CostError, FileError
from costcore.files import exists, is_folder
from costcore.ledger.ledger import check_top
from costcore.registry import ability, frontend_for_file, is_saved_report, other_file, specs
from costcore.reports.report import Report
from costcore.studies.ranks import profile_ranks, trace_files
from costcore.studies.serving.report import (
    ServingReport,
    memory_of,
    remarks,
    serving_page,
    serving_rows,
    serving_table,
)
from costcore.studies.serving.report import format_of as storage_of
from costcore.studies.training.figures import Stage
from costcore.studies.training.ledger import TrainingLedger, answered
from costcore.studies.training.step import PAIRS
from costcore.tables.renderers import progress
from costcore.tables.result import Result
from costcore.text.amounts import check_digits, parse_amount, parse_memory, parse_percent, parse_rate
from costcore.text.output import json_text, save
from costcore.trace.trace import has_names, with_tensors

TRAIN_EXAMPLES = """examples:
  costcore train hf:config.json --seq 4096 --tokens 1T --devices 64 --device h100 --tokens-per-second-per-device 8.9k
  costcore train llama.py:make --input input_ids=1x8192:int64 --tokens 15.6e12 --devices 16384 --device h100-sxm5-80gb
  costcore train nets.py:make --input ids=4x2048:int64 --steps 1000 --accumulation 8 --replicas 64 --optimizer adamw
  costcore train step.json --tokens 1e9 --device a100-sxm4-80gb --step-seconds 1.1
  costcore train nets.py:make_lora --input ids=8x512:int64 --tokens 1e8 --base-flops 3.8e25 --output ledger.json

  costcore train nets.py:make --input ids=batch,2048:int64 --device h100 --mesh fsdp=8 --plan fully_sharded

MODEL is the forward and backward pass of one micro-batch on one replica. A saved report must contain both. If the batch
in --input has a name, and --device or --memory is given, costcore uses the largest micro-batch that fits a rank.

exit codes: 0 success, 1 model error (with --strict also a partial or assumed report), 2 usage error"""

MEASURED = ("step_seconds", "tokens_per_second", "tokens_per_second_per_device")
"""The options with a measured speed."""


def train_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore train",
        "MODEL --tokens N",
        "Compute the FLOPs of a training run: model and hardware FLOPs, the estimates of published rules and why "
        "they differ, MFU and HFU, and the legal thresholds that the run exceeds.",
        TRAIN_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--tokens", metavar="N", help="tokens (samples) of the run: 15.6e12, 15.6T, 300B")
    length.add_argument(
        "--steps", type=count, metavar="N", help="optimizer steps of the run, instead of --tokens; default: 1"
    )
    parser.add_argument("--accumulation", type=count, default=1, metavar="N", help="micro-batches per step; default: 1")
    parser.add_argument(
        "--replicas", type=count, metavar="N", help="data-parallel replicas; default: one per device, 1 with --mesh"
    )
    parser.add_argument(
        "--batch", type=count, metavar="N", help="tokens (samples) in the inputs of MODEL; default: from their shape"
    )
    _add_attention(parser)
    parser.add_argument(
        "--capacity-factor", type=float, metavar="C", help="capacity factor of experts: rows computed per row routed"
    )
    _add_devices(parser)
    parser.add_argument(
        "--thresholds", action="store_true", help="list legal thresholds even if the run is below a tenth of each"
    )
    parser.add_argument(
        "--base-flops", type=amount, metavar="N", help="training FLOPs of the base model that this run fine-tunes"
    )
    parser.add_argument("--base-source", default="", metavar="TEXT", help="source of --base-flops, for the JSON file")
    add_output(parser)
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
        help="query-key pairs in totals and MFU: all; causal: allowed by flags and windows; packed: within one packed "
        "document. The other counts are listed too; default: all, or causal with --attention computed",
    )
    parser.add_argument(
        "--document-lengths", metavar="N,N,...", help="lengths of the documents packed into the sequences, in tokens"
    )
    parser.add_argument(
        "--masks",
        choices=("unknown", "causal"),
        default="unknown",
        help="whether attention masks passed as tensors are causal",
    )
    parser.add_argument(
        "--padding-share", type=float, default=0.0, metavar="P", help="fraction of tokens that are padding"
    )


def _add_devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", type=count, default=1, metavar="N", help="number of devices; default: 1")
    parser.add_argument("--device", metavar="NAME", help="a name from `costcore devices`, or a .toml file")
    parser.add_argument(
        "--dtype", default="bfloat16", metavar="NAME", help="dtype of matrix products; default: bfloat16"
    )
    parser.add_argument("--peak", type=amount, metavar="FLOPS", help="FLOP/s of one device, 989T, instead of --device")
    parser.add_argument(
        "--mfu",
        type=_share,
        metavar="X",
        help="utilization if no step was measured; default: as in the nearest published runs, else 0.4",
    )
    parser.add_argument(
        "--memory", dest="size", metavar="SIZE", help='memory of a device, "80 GB"; default: as specified by its vendor'
    )
    parser.add_argument("--price", metavar="RATE", help="price of one device per hour, in any currency: 2.10/h")
    parser.add_argument(
        "--watts", type=float, metavar="N", help="power of one device, to compute the energy of the run"
    )
    measured = parser.add_mutually_exclusive_group()
    measured.add_argument("--step-seconds", type=float, metavar="S", help="measured seconds of a step, for MFU and HFU")
    measured.add_argument(
        "--tokens-per-second", metavar="N", help="measured tokens per second of all devices, instead of --step-seconds"
    )
    measured.add_argument(
        "--tokens-per-second-per-device", metavar="N", help="measured tokens per second of one device: 8.9k"
    )


@command(train_parser)
def run_train(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if args.device is not None and args.peak is not None:
        raise ValueError("--device cannot be combined with --peak")
    for name in (*MEASURED, "mfu", "price", "watts"):
        if getattr(args, name) is not None and args.device is None and args.peak is None:
            raise ValueError(f"--{name.replace('_', '-')} needs --device or --peak")
    price, tokens = parse_rate(args.price, "--price"), _number(args.tokens, "--tokens")
    rate = _tokens_per_second(args)
    format_of(args, "table", RESULT_FILES)
    pairs = args.pairs or ("causal" if args.attention == "computed" else "all")
    ledger = TrainingLedger(devices=args.devices, device=args.device, dtype=args.dtype, peak=args.peak, pairs=pairs)
    documents = _lengths(args.document_lengths)
    if pairs == "packed" and not documents:
        raise ValueError("--pairs packed needs the documents in a sequence, as --document-lengths 1500,548")
    check_model(args.model)
    stage = _stage(
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


def _stage(ledger: TrainingLedger, args: argparse.Namespace, **terms: Any) -> Stage:
    given = None if is_saved_report(args.model) else parse_inputs(args.input)
    if not has_names(with_tensors(given)) or args.device is args.size is None:
        if args.size is not None:
            raise ValueError("--memory needs a named batch: --input batch,2048:int64")
        return ledger.add("training", report_of(args.model, args, is_alone=True), **terms)
    with model_to_capture(args) as model:
        put_in_mode(model, args.model, args)
        options = {name: value for name, value in estimate_options(args).items() if name != "backward"}
        return ledger.add("training", model, given, device_memory=args.size, **terms, **options)


def _tokens_per_second(args: argparse.Namespace) -> float | None:
    per_device = args.tokens_per_second_per_device is not None
    text = args.tokens_per_second_per_device if per_device else args.tokens_per_second
    option = "--tokens-per-second-per-device" if per_device else "--tokens-per-second"
    rate = _number(text, option)
    if rate is not None and not rate > 0:
        raise ValueError(f"{option} must be positive (got {text!r})")
    return rate if rate is None else rate * (args.devices if per_device else 1)


def amount(text: str) -> float:
    """Return an amount of an option, ``3.8e25`` or ``989T``; a type of argparse."""
    try:
        found = _number(text, "the value")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return float(text) if found is None else found


def _number(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:  # B is a billion here, not bytes
        return parse_amount(re.sub(r"(?<=[0-9 ])B$", "G", text.upper()), option)
    except ValueError:
        typed = re.match(r"([0-9][0-9.,_]*)\s*([kmbgt])?", text.lower())
        near = f". Did you mean '{typed[1].replace(',', '')}{(typed[2] or '').upper()}'?" if typed else ""
        raise ValueError(f"{option} must be a number such as 2e12, 300B or 15.6T (got {text!r}){near}") from None


def _share(text: str) -> float:
    try:
        return float(text if (share := parse_percent(text)) is None else share)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a utilization is a number, 0.4 or 40% (got {text!r})") from None


def _lengths(text: str | None) -> list[int]:
    try:
        return [] if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--document-lengths expects integers separated by commas (got {text!r})") from None


def _write(ledger: TrainingLedger, args: argparse.Namespace, price: float | None, seconds: float | None) -> None:
    measured = {"step_seconds": seconds, "base_flops": args.base_flops}
    mode = format_of(args, "table", RESULT_FILES)
    if mode == "json":
        ledger.to_json(sys.stdout if args.output is None else args.output, 2, base_source=args.base_source, **measured)
        return
    rates = {"mfu": args.mfu, "price": price, "watts": args.watts, "thresholds": args.thresholds}
    result = answered(ledger, **measured, **rates)
    if mode == "html":
        write_page(result, args)
    elif not save_workbook_or_picture(result, args):
        write_output(lambda out: result.show(out, mode), args.output)


# ``costcore serve``.


SERVE_EXAMPLES = """examples:
  costcore serve hf:config.json --device h100 --context 4096
  costcore serve my_model.py:make --device l4,a100-sxm4-80gb --batch 1,8,64 --weights int4 --kv fp8
  costcore serve my_model.py:make --device mine.toml --memory "24 GB" --output serving.csv
  costcore serve model-q4_k_m.gguf --device rtx4090
  costcore serve hf:config.json --device h100 --prompt 1024 --output 256 --ttft "500 ms" --tpot "30 ms"

With --prompt and --output, it reports time to the first token, time per token and request rate of a server that always
has --batch sequences running.

The factory returns a language model of transformers; create large ones on the meta device. costcore reads only the
headers of .gguf and .safetensors files. Times are lower bounds and tokens per second upper bounds: weights and KV cache
are read once per step. For mixtures of experts they bound the mean step; least_seconds in JSON bounds every step.

exit codes: 0 success, 1 model error (with --strict also a partial or assumed report), 2 usage error"""


def serve_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore serve",
        "MODEL --device NAME[,NAME ...]",
        "Compute the cost of prefill and decode of a language model, and how many sequences fit (PyTorch).",
        SERVE_EXAMPLES,
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
        help="devices separated by commas: names from `costcore devices`, or .toml files",
    )
    parser.add_argument(
        "--batch", default="1,8,64", metavar="N,N", help="batch sizes of the decode step; default: 1,8,64"
    )
    parser.add_argument(
        "--context",
        type=length,
        default=4096,
        metavar="N",
        help="context length in tokens, of prompts and sequences: 4096, or 8k (8,192); default: 4096",
    )
    parser.add_argument(
        "--dtype", metavar="NAME", help="dtype of activations and matrix products; default: that of the model"
    )
    parser.add_argument(
        "--weights", metavar="FORMAT", help="storage format of weights: int4, int4:32, nf4, fp8, q4_0, ..."
    )
    parser.add_argument("--kv", metavar="FORMAT", help="storage format of the KV cache; default: --dtype")
    parser.add_argument("--activations", metavar="FORMAT", help="format of activations in matrix products: int8, fp8")
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="PATTERN",
        help="modules that keep their weight format, such as lm_head",
    )
    parser.add_argument(
        "--cache", default="static", metavar="NAME", help="KV cache: static, paged, dynamic, or one of a plug-in"
    )
    parser.add_argument(
        "--last-only", action="store_true", help="compute the logits of a prompt for its last token only"
    )
    parser.add_argument(
        "--share", type=float, default=0.9, metavar="X", help="fraction of the device memory to use; default: 0.9"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help='memory of a device, "80 GB"; default: as specified by its vendor'
    )
    parser.add_argument("--price", metavar="RATE", help="price of one device per hour, in any currency: 2.10/h")
    add_attention(parser)
    parser.add_argument("--strict", action="store_true", help="exit with 1 if the report is partial or assumed")
    _add_requests(parser)
    add_python_path(parser)
    add_output(parser, action=_FileOrTokens)
    return parser


class _FileOrTokens(argparse.Action):
    # ``--output 256`` are tokens, ``--output rates.csv`` is a file; both may be given.
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        is_number = re.fullmatch(r"[0-9][0-9,.]*[kKmM]?", values) is not None
        setattr(namespace, "new_tokens" if is_number else self.dest, values)


FOR_REQUESTS = (
    *("mix", "chunk", "cached", "mesh", "link", "prefill_device"),
    *("draft", "drafts", "acceptance", "ttft", "tpot"),
)
"""Options of ``serve`` that need ``--prompt`` and ``--new-tokens``."""

SET_BY_REQUESTS = ("cached", "drafts", "acceptance")
"""Options whose default is in :meth:`ServingReport.requests`."""


def _add_requests(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("options for request rates, with --output N or --new-tokens N")
    group.add_argument("--prompt", metavar="N,N", help="tokens of a prompt; several for a mix of requests")
    group.add_argument("--new-tokens", metavar="N,N", help="tokens to generate; --output N is the same")
    group.add_argument("--mix", metavar="X,X", help="share of each kind of request; default: equal")
    group.add_argument(
        "--chunk",
        type=length,
        metavar="N",
        help="chunked prefill: prompt tokens per step; default: all",
    )
    group.add_argument(
        "--cached",
        type=length,
        metavar="N",
        help="tokens of a prefix that all prompts share and that is cached already; default: 0",
    )
    group.add_argument(
        "--mesh",
        metavar="tp=N,ep=N",
        help="devices that split every layer (tp), and that share its experts (ep); needs --link",
    )
    group.add_argument("--link", metavar="NAME", help="link between devices, such as nvlink4")
    group.add_argument("--prefill-device", metavar="NAME", help="a separate device for prefill")
    group.add_argument("--draft", metavar="MODEL", help="the draft model of speculative decoding")
    group.add_argument("--drafts", type=int, metavar="N", help="draft tokens per step; default: 4")
    group.add_argument(
        "--acceptance", type=float, metavar="X", help="probability that a draft is accepted; default: 0.7"
    )
    group.add_argument("--ttft", metavar="TIME", help='maximum time to the first token, "500 ms"')
    group.add_argument("--tpot", metavar="TIME", help='maximum time per output token, "30 ms"')


@command(serve_parser)
def run_serve(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if args.prompt is not None or args.new_tokens is not None:
        return _run_requests(args)
    _refuse(args, FOR_REQUESTS, "needs a request: add --prompt 1024 --new-tokens 256")
    mode, batches = _check_serving(args), counts_in(args.batch, "--batch")
    devices = [find_device(name.strip()) for name in args.device.split(",")]
    with module_search_path(args.python_path, args.model), printed_warnings(args.model):
        serving = _serving(args)
        rows = serving_rows(
            serving,
            devices,
            batches,
            args.context,
            share=args.share,
            memory=args.memory,
            last_only=args.last_only,
            price=parse_rate(args.price, "--price"),
        )
        phases = [serving.decode(batch=batch, context=args.context) for batch in sorted({min(batches), max(batches)})]
        phases.insert(0, serving.prefill(args.context, last_only=args.last_only))
    lines = remarks(serving, phases, devices)
    if mode == "json":
        write_text(json_text([row._asdict() for row in rows]) + "\n", args.output)
    elif mode == "html":
        write_page(serving_page(serving, rows, lines, _memories(devices, args.memory), args.context, args.share), args)
    elif not save_workbook_or_picture(serving_table(rows), args):
        write_output(lambda out: serving_table(rows, mode).show(out, mode), args.output)
    for remark in lines:
        print_message(f"note: {remark}")
    return exit_code(serving.status, args.strict)


def _run_requests(args: argparse.Namespace) -> int:
    if args.prompt is None or args.new_tokens is None:
        have, lack = ("--output N", "--prompt 1024") if args.prompt is None else ("--prompt", "--new-tokens 256")
        raise ValueError(f"{have} needs the other length of a request too: add {lack}")
    if args.draft is None:
        _refuse(args, ("drafts", "acceptance"), "needs a draft model: add --draft MODEL")
    _check_serving(args)
    mesh = {} if args.mesh is None else mesh_of(args.mesh)
    if set(mesh) - {"tp", "ep"}:
        raise ValueError(f"--mesh {args.mesh!r} is invalid for serving (expected tp=N, ep=N or tp=N,ep=N)")
    if prod(mesh.values()) > 1 and args.link is None:
        raise ValueError("--mesh needs the link between the devices: add --link nvlink4")
    options = {
        "prompt": counts_in(args.prompt, "--prompt", TOKENS),
        "output": counts_in(args.new_tokens, "--output", TOKENS),
        "shares": None if args.mix is None else _shares(args.mix),
        "batches": counts_in(args.batch, "--batch"),
        "ranks": mesh.get("tp", 1),
        "expert_ranks": mesh.get("ep", 1),
        **{name: getattr(args, name) for name in ("chunk", "link", "prefill_device", "memory", "share")},
        **{name: value for name in SET_BY_REQUESTS if (value := getattr(args, name)) is not None},
        **{name: getattr(args, name) for name in ("ttft", "tpot")},
        "price": parse_rate(args.price, "--price"),
    }
    devices = [find_device(name.strip()) for name in args.device.split(",")]
    if len(devices) > 1 and args.output is not None:
        raise ValueError("--output writes the result of one device")
    with module_search_path(args.python_path, args.model), printed_warnings(args.model):
        serving = _serving(args)
        if args.draft is not None:
            options["draft"] = _serving(args, args.draft)
        for device in devices:
            write_result(serving.requests(device, **options), args)
    return exit_code(serving.status, args.strict)


def _refuse(args: argparse.Namespace, names: Sequence[str], reason: str) -> None:
    for name in names:
        if getattr(args, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} {reason}")


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--mix must be numbers separated by commas (got {text!r})") from None


def _serving(args: argparse.Namespace, target: str | None = None) -> ServingReport:
    return ServingReport(
        load_model(target or args.model),
        dtype=args.dtype,
        weights=args.weights,
        kv=args.kv,
        activations=args.activations,
        cache=args.cache,
        keep=args.keep,
        attention=args.attention,
    )


def _memories(devices: Sequence[Device], given: str | None) -> dict[str, int]:
    known = [device for device in devices if given is not None or device.memory.dram_gb is not None]
    return {device.name: memory_of(device) if given is None else parse_memory(given, "--memory") for device in known}


def _check_serving(args: argparse.Namespace) -> str:
    check_model(args.model, "which cannot run again")
    for name in ("dtype", "weights", "kv", "activations"):
        if getattr(args, name) is not None:
            storage_of(getattr(args, name), f"--{name}")
    if args.memory is not None:
        parse_memory(args.memory, "--memory")
    parse_rate(args.price, "--price")
    if args.context < 1:
        raise ValueError(f"--context must be at least 1 (got {args.context})")
    return format_of(args, "table", RESULT_FILES)


# ``costcore calibrate``.


MAX_NOISE = 0.15
"""The maximum relative difference between repeated measurements; a noisier sweep is not saved."""

CALIBRATE_EXAMPLES = """examples:
  costcore calibrate --device cpu --output my-cpu.toml
  costcore calibrate --device cuda:0 --dtype bfloat16 --base h100-sxm5-80gb --output my-gpu.toml
  costcore calibrate --from-trace monday.json.gz tuesday.json.gz --output my-gpu.toml

then use the file:
  report.time(device="my-cpu.toml").seconds

exit codes: 0 saved, 1 the device cannot be measured, or the times differ too much, 2 usage error"""


def calibrate_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore calibrate",
        "--output FILE",
        "Calibrate a device: measure chains of PyTorch operators of many shapes on it, for some minutes.",
        CALIBRATE_EXAMPLES,
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="device file to write (.toml)")
    parser.add_argument(
        "--from-trace",
        nargs="+",
        metavar="FILE",
        help="instead of measuring: torch.profiler traces, preferably of several networks, recorded on the device "
        "--base; default of --base: the device named in the traces",
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="PyTorch device: cpu (default), cuda:0, ...")
    parser.add_argument(
        "--dtype", default="float32", metavar="DTYPE", help="dtype of weights and activations; default: float32"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="number of CPU threads; default: 1")
    parser.add_argument(
        "--base", metavar="DEVICE", help="device to copy peak rates and memory from, for the time bound"
    )
    parser.add_argument("--quick", action="store_true", help="a short sweep of a few seconds, for rough estimates")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the shapes and their order; default: 0"
    )
    parser.add_argument(
        "--allow-noise",
        action="store_true",
        help=f"save even if repeated measurements differ by more than {MAX_NOISE:.0%}%",
    )
    return parser


@command(calibrate_parser)
def run_calibrate(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if not args.output.endswith(".toml"):
        raise ValueError(f"--output must end with .toml (got {args.output!r})")
    if not (folder := Path(args.output).resolve().parent).is_dir():
        raise NotADirectoryError(f"{args.output} cannot be written: {folder} is not a folder")
    if args.from_trace:
        return _from_traces(args)
    base = None if args.base is None else _base(args)
    spec = next(spec for spec in specs().values() if "calibrate" in spec.abilities)
    calibration, conditions = ability(spec, "calibrate")(
        args.device, args.dtype, args.threads, args.quick, args.seed, progress=progress
    )
    print(_summary(calibration, conditions))
    if conditions.noise > MAX_NOISE and not args.allow_noise:
        print_message(
            f"costcore: {args.output} was not written: the same chains took {conditions.noise:.0%} longer or shorter "
            f"during the sweep (at most {MAX_NOISE:.0%}). Stop other programs and try again, or use --allow-noise."
        )
        return FAILURE
    save(toml_text(device_file(Path(args.output).stem, args.device, calibration, conditions, base)), args.output)
    return SUCCESS


def _from_traces(args: argparse.Namespace) -> int:
    if args.device != "cpu" or args.quick:
        raise ValueError("--from-trace does not measure: drop --device and --quick, and name the device with --base")
    reports = []
    for path in args.from_trace:
        if not frontend_for_file(path):
            raise CostError(f"{path} is not a trace of torch.profiler")
        with printed_warnings(path, is_quiet=True):
            reports.append(estimate(path))
    profile = reports[0].trace.run.profile
    name = args.base or (device_named(profile.device) if profile is not None else "")
    if not name:
        raise CostError(f"{args.from_trace[0]} names no known device: pass --base DEVICE")
    device = find_device(name)
    found = calibration_of([each.trace for each in reports], [Path(path).name for path in args.from_trace], device)
    print(_summary(found.calibration, found.conditions))
    for reason, n in found.left_out.items():
        print(f"left out: {n} calls {reason}")
    content = device_file(Path(args.output).stem, device.kind, found.calibration, found.conditions, device)
    save(toml_text(content), args.output)
    return SUCCESS


def _base(args: argparse.Namespace) -> Device:
    base, is_cpu = find_device(args.base), args.device.startswith("cpu")
    if is_cpu != (base.kind == "cpu"):
        raise ValueError(f"--base {args.base} is a {base.kind}, but --device is {args.device}")
    # Peaks of a CPU are for all cores; scale them to the measured threads.
    return base.with_units(args.threads) if is_cpu else base


def _summary(calibration: Calibration, conditions: Conditions) -> str:
    rates = calibration.rates
    families = {point.signature.key for point in calibration.points}
    lines = [
        f"{conditions.device}: {len(calibration.points)} points of {len(families)} families in "
        f"{conditions.sweep_seconds:.0f} s, noise {conditions.noise:.0%}",
        f"best: {rates.peak / 1e9:.4g} GFLOP/s, {rates.bandwidth / 1e9:.4g} GB/s, {1e6 * rates.overhead:.3g} µs a call",
        "error of calls that were left out:",
    ]
    seconds: dict[str, float] = {}
    for signature, time in calibration.points:
        seconds[signature.key] = seconds.get(signature.key, 0.0) + time
    longest = sorted(seconds, key=lambda family: -seconds[family])[:12]
    return "\n".join([*lines, *(f"  {family:<16} {_error(calibration, family)}" for family in longest)])


def _error(calibration: Calibration, family: str) -> str:
    growth = calibration.errors.families[family]
    return plus_minus(growth[0][1].mean if growth else None)


def device_file(
    name: str, device: str, calibration: Calibration, conditions: Conditions, base: Device | None
) -> dict[str, Any]:
    """Return the content of the device file."""
    kind = "cpu" if device.startswith("cpu") else "gpu"
    units = conditions.threads or conditions.units or None
    content: dict[str, Any] = {"name": name, "kind": kind, "units": units}
    if base is not None:
        content |= _rates_of(base)
    return {**content, "calibration": to_toml(calibration, conditions)}


def _rates_of(base: Device) -> Mapping[str, Any]:
    caches = [
        {"bytes": cache.nbytes, **({} if cache.gbs is None else {"gbs": cache.gbs}), "per_unit": cache.per_unit}
        for cache in base.memory.caches
    ]
    return {
        "units": base.units,
        "clock_max_mhz": base.clock_max_mhz,
        "fast_convolution": base.fast_convolution,
        "unbounded": [*base.unbounded],
        "least_kernel_us": base.least_kernel_us,
        "context_mib": base.context_mib,
        "notes": [f"peaks and memory of {base.name}"],
        "peak": base.peak,
        "memory": {"dram_gbs": base.memory.dram_gbs, "dram_gb": base.memory.dram_gb, "caches": caches},
        "sources": [source._asdict() for source in base.sources],
    }


# ``costcore profile``.


PROFILE_EXAMPLES = """examples:
  costcore profile step.pt.trace.json.gz
  costcore profile step.pt.trace.json.gz --by module --top 20
  costcore profile step.pt.trace.json.gz --device h100-sxm5-80gb --format csv
  costcore profile before.json.gz --against after.json.gz
  costcore profile onnxruntime_profile.json --model model.onnx --input x=1x3x224x224
  costcore profile rank*.json.gz

exit codes: 0 success, 1 the trace cannot be read or has no times, 2 usage error"""

FORMATS = ("table", "color", "md", "csv", "latex", "json", "html")

SUFFIXES = (".txt", ".md", ".csv", ".tex", ".json", ".html", *SAVED)

ONE_TRACE = ("model", "device", "by", "against", "et", "graphs", "input")
"""The options for a single trace."""


def profile_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser("costcore profile", "TRACE", "Show where a profiled run spends its time.", PROFILE_EXAMPLES)
    parser.add_argument(
        "trace",
        metavar="TRACE",
        nargs="+",
        help="a trace of torch.profiler, Nsight Systems, rocprofv3, JAX or TensorFlow; with --model also a profile of "
        "its runtime. Several traces, or a folder: the ranks of one job",
    )
    parser.add_argument(
        "--model", metavar="MODEL", help=f"the model that ran; its calls get the times: {model_forms()}"
    )
    parser.add_argument(
        "--device", metavar="NAME", help="device to compute time bounds for; default: that of the trace"
    )
    parser.add_argument("--bound", choices=BOUNDS, default=LEAST, help=f"kind of time bound; default: {LEAST}")
    parser.add_argument("--by", choices=TITLES, help="one row per call, type, op, module, class of module or phase")
    parser.add_argument(
        "--top", type=int, metavar="N", help="with --by: maximum number of rows; a row 'others' sums the rest"
    )
    parser.add_argument(
        "--against", metavar="TRACE", help="compare with another trace: did the work or the speed change"
    )
    add_unit(parser)
    add_digits(parser, 1)
    parser.add_argument("--format", choices=FORMATS, help="output format; default: table")
    parser.add_argument(
        "--output", metavar="FILE", help=f"write to FILE, in the format of its suffix: {', '.join(SUFFIXES)}"
    )
    add_model_options(parser)
    add_frontend_switches(parser)
    return parser


@command(profile_parser)
def run_profile(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_top(args.top)
    check_digits(args.digits)
    if args.top is not None and args.by is None:
        raise ValueError("--top requires --by")
    shown: Result
    paths = args.trace
    if len(paths) > 1 or (is_folder(paths[0]) and not frontend_for_file(paths[0])):
        given = [f"--{name}" for name in ONE_TRACE if getattr(args, name) not in (None, [])]
        if given:
            raise ValueError(f"{given[0]} is for one trace: costcore profile {trace_files(paths[0])[0]} {given[0]} …")
        shown = profile_ranks(paths if len(paths) > 1 else paths[0], profiler_step=args.profiler_step)
        args.trace = ""
    else:
        args.trace = paths[0]
        view = _measured(paths[0], args, args.et)
        shown = view if args.by is None else view.showing(args.by, args.top)
    if args.against is not None:
        change = view.against(_measured(args.against, args, None), args.by)
        shown = change if args.by is None else change.table().top(args.top)
    if str(args.output).endswith(".html"):
        write_page(shown, args)
    elif args.output is not None:
        shown.save(args.output)
    else:
        shown.show(sys.stdout, args.format or "table", unit_of(args), args.digits)
    return SUCCESS


def _measured(path: str, args: argparse.Namespace, et: str | None) -> Measured:
    reader = frontend_for_file(path)
    is_code = not reader and args.model is None and ":" in path and not exists(path)
    if is_code or (reader and "profiler_step" not in specs()[reader].options):
        raise ValueError(f"{path} is a model, not a trace. Its time: costcore time {path} --device h100")
    if not reader and args.model is None:
        if not exists(path):
            raise FileError(f"{path} cannot be read: No such file or directory")
        other = "is not a torch.profiler trace. For a profile of ONNX Runtime, pass --model model.onnx"
        raise CostError(f"{path} {other_file(path) or other}")
    profile: Report | str = path
    if reader:
        with printed_warnings(path, is_quiet=True):
            profile = estimate(path, et=et, profiler_step=args.profiler_step, graphs=args.graphs)
    if args.model is not None:
        return report_of(args.model, args).measured(profile, args.device, args.bound)
    assert isinstance(profile, Report)
    return profile.measured(device=args.device, bound=args.bound)
