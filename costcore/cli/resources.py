"""Commands on devices: ``time`` of a run, ``memory`` (the largest batch), ``fit`` of a model, ``plan`` of a step."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from costcore.analyses.devices.device import Device, device_names, find_device, links_by_group
from costcore.analyses.timing.bound import BOUNDS, LEAST, OBSERVED
from costcore.analyses.timing.time_report import TIMES, TIMES_BY_TYPE, TimeReport, table_of_devices
from costcore.analyses.timing.times import TF32_OPERATORS, check_dtype
from costcore.api.estimate import in_mode, load_model, module_search_path
from costcore.api.hook import parse_inputs
from costcore.cli import FAILURE, SUCCESS, USAGE_ERROR
from costcore.cli.models import (
    check_model,
    estimate_options,
    inputs_or_default,
    is_training_step,
    missing_inputs,
    model_to_capture,
    printed_warnings,
    put_in_mode,
    report_of,
    requested_mode,
    unknown_options,
)
from costcore.cli.options import (
    RESULT_FILES,
    SAVED,
    add_attention,
    add_digits,
    add_frontend_switches,
    add_memory_terms,
    add_model_options,
    add_output,
    add_python_path,
    add_sequence,
    add_unit,
    command_parser,
    count,
    counts_in,
    format_of,
    mesh_of,
    model_forms,
    names_in,
    unit_of,
)
from costcore.cli.running import (
    command,
    print_message,
    save_workbook_or_picture,
    write_output,
    write_page,
    write_result,
)
from costcore.errors import CostError, MissingInputsError, UnknownOptionError
from costcore.ledger.ledger import TRAIN, check_top
from costcore.registry import frontend_for_file, is_saved_report
from costcore.reports.report import Report
from costcore.studies.batch_inputs import ALLOCATORS, CONTEXT, Limit, make_limit
from costcore.studies.batch_size import Fit, check_global_batch
from costcore.studies.batch_size import fit as fit_batch
from costcore.studies.finetuning import finetuning
from costcore.studies.fit import FORMS, FitResult, fit, target_of
from costcore.studies.plan_setups import SCHEDULES, SYNCS
from costcore.studies.plans import FIGURES, Plans, check_figures, plan
from costcore.tables.columns import choose
from costcore.text.amounts import check_digits, parse_bytes, parse_memory, refuse_few_bytes
from costcore.trace.run import LEVELS

TIME_EXAMPLES = """examples:
  costcore time torchvision:resnet50 --input 8x3x224x224 --device h100-sxm5-80gb --dtype bfloat16
  costcore time torchvision:resnet50 --input 8x3x224x224 --device h100-sxm5-80gb,l4,rtx4090
  costcore time net.onnx --device epyc-9654 --cores 8 --fusion compiler
  costcore time net.onnx --device mine.toml --groups --sort bound_seconds --top 10
  costcore time net.py:make --input 8x64 --device mine.toml --measured run.json --strict

The time is a lower bound: no implementation is faster. `costcore devices` lists the devices.

exit codes: 0 success, 1 model error (with --strict also a partial or assumed time), 2 usage error"""


def time_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore time",
        "MODEL --device NAME[,NAME ...]",
        "Compute a lower bound of the time of a run on a device, or compare devices.",
        TIME_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument(
        "--device",
        required=True,
        metavar="NAMES",
        help="devices separated by commas: names from `costcore devices`, or .toml files",
    )
    parser.add_argument(
        "--dtype", metavar="NAME", help="dtype of weights and activations; default: the dtypes of the model"
    )
    parser.add_argument(
        "--fusion",
        default="none",
        choices=LEVELS,
        help="kernel fusion: none, pointwise (element-wise loops), compiler (epilogues of matrix products too); "
        "default: none",
    )
    parser.add_argument(
        "--bound",
        choices=BOUNDS,
        default=LEAST,
        help=f"{OBSERVED}: at least the shortest kernel time observed on the device; default: {LEAST}",
    )
    parser.add_argument("--cores", type=int, metavar="N", help="number of CPU cores; default: all")
    parser.add_argument(
        "--tf32",
        metavar="NAMES",
        help=f"float32 operators that may run in TF32: {', '.join(TF32_OPERATORS)}, both, or none; default: as in the "
        "framework",
    )
    parser.add_argument(
        "--links",
        metavar="LINKS",
        help="link between the ranks, such as nvlink4, or one per mesh dimension, tp=nvlink4,dp=infiniband-ndr; for "
        "the saved report of one rank",
    )
    parser.add_argument(
        "--groups", action="store_true", help="one row per group of fused calls, instead of per operator type"
    )
    parser.add_argument("--columns", metavar="NAMES", help="names separated by commas, or all")
    parser.add_argument("--sort", metavar="COLUMN", help="sort by a column; default: execution order")
    parser.add_argument("--top", type=int, metavar="N", help="maximum number of rows; a row 'others' sums the rest")
    parser.add_argument(
        "--measured",
        action="append",
        default=[],
        metavar="FILE",
        help="saved report of a measured run (.json): compare its times with the bounds and the calibrated times, by "
        "operator family, with --groups by call; may be repeated for the median of several runs",
    )
    add_output(parser)
    add_unit(parser)
    add_digits(parser, default=3)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 if a call is not counted, if something is assumed, if the device file lacks a rate that the "
        "run needs, or if a measured time is below its bound",
    )
    add_model_options(parser)
    add_frontend_switches(parser)
    return parser


@command(time_parser)
def run_time(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    devices = [find_device(name.strip()) for name in args.device.split(",")]
    options = _time_options(args, devices)
    check_model(args.model)
    report = report_of(args.model, args, is_alone=True)
    times = [report.time(device, **options) for device in devices]
    problems = [] if report.status == "complete" else [f"the report is {report.status}"]
    problems += [f"the time on {each.device.name} is partial" for each in times if each.status != report.status]
    if args.measured:
        problems += _compare(times[0], args)
    elif len(times) == 1:
        _show_one(times[0], args)
    else:
        write_result(table_of_devices(times, unit_of(args), args.digits), args)
    if args.strict and problems:
        print_message(f"costcore: {' and '.join(problems)}, which is an error with --strict")
        return FAILURE
    return SUCCESS


def _compare(time: TimeReport, args: argparse.Namespace) -> list[str]:
    comparison = time.compare(*map(Report.from_json, args.measured))
    if _format(args) == "json":
        comparison.to_json(args.output or sys.stdout)
    else:
        by, top = ("call", args.top or 10) if args.groups else ("family", 10)
        show = partial(comparison.show, mode=_format(args), unit=unit_of(args), n_digits=args.digits, by=by, top=top)
        write_output(show, args.output)
    below = comparison.violations or [comparison.total] * comparison.total.is_below_bound
    return [f"{', '.join(group.name for group in below[:5])} took less than the bound"] if below else []


def _time_options(args: argparse.Namespace, devices: Sequence[Device]) -> dict[str, Any]:
    check_digits(args.digits)
    check_top(args.top)
    format_of(args, "table", RESULT_FILES)
    columns = TIMES if args.groups else TIMES_BY_TYPE
    choose(columns, [*_columns(args, columns), *([args.sort] if args.sort else [])] or ["bound_seconds"])
    if args.dtype is not None:
        check_dtype(args.dtype)
    given = {"--groups": args.groups, "--columns": args.columns, "--sort": args.sort, "--top": args.top}
    given |= {"--measured": args.measured}
    if args.measured and (args.columns or args.sort or str(args.output).endswith((".html", *SAVED))):
        raise ValueError("--measured cannot be used with --columns, --sort, or a page, workbook or picture")
    if len(devices) > 1 and (flags := [flag for flag, value in given.items() if value]):
        raise ValueError(f"{', '.join(flags)} cannot be used with several devices, which are one row each")
    return {
        "dtype": args.dtype,
        "fusion": args.fusion,
        "cores": args.cores,
        "tf32": _tf32(args.tf32),
        "bound": args.bound,
        **_links(args.links),
    }


def _links(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    parts = [part.strip().partition("=") for part in text.split(",")]
    by_group = {name if equals else "": link if equals else name for name, equals, link in parts}
    return {"links": links_by_group(by_group)}


def _tf32(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [] if text == "none" else [name.strip() for name in text.split(",")]


def _columns(args: argparse.Namespace, known: Mapping[str, Any]) -> list[str]:
    if args.columns is None:
        return []
    return [*known] if args.columns == "all" else [name.strip() for name in args.columns.split(",")]


def _format(args: argparse.Namespace) -> str:
    return format_of(args, "table", RESULT_FILES)


def _show_one(time: TimeReport, args: argparse.Namespace) -> None:
    suffix = "" if args.output is None else Path(args.output).suffix
    show: Callable[..., None] = time.show_report if args.groups else time.show_summary_report
    columns = _columns(args, TIMES if args.groups else TIMES_BY_TYPE) or None
    options = {"sort": args.sort, "top": args.top, "columns": columns, "n_digits": args.digits, "unit": unit_of(args)}
    if _format(args) == "json":
        time.to_json(args.output or sys.stdout)
    elif suffix == ".html":
        write_page(time, args)
    elif not save_workbook_or_picture(time, args):
        write_output(lambda out: show(out, _format(args), **options), args.output)


# ``costcore memory``.


MEMORY_EXAMPLES = """examples:
  costcore memory torchvision:resnet50 --memory 24GiB --input batch,3,224,224
  costcore memory torchvision:resnet50 --memory 24GiB --input batch,3,224,224 --train --optimizer adamw
  costcore memory my_model.py:make --memory "80 GB" --input ids=batch,1024:int64 --optimizer adamw --global-batch 4096

In --input, batch stands for the batch dimension; without it, the first dimension of every input is the batch.

output, one line each: the largest batch; the parts of its peak; with --train the micro-batches of a global batch, and
the memory that activation checkpointing of the heaviest repeated modules saves; the terms of the limit.

exit codes: 0 success (also if no batch fits), 1 model error, 2 usage error"""


def memory_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore memory",
        "MODEL --memory SIZE",
        "Find the largest batch that fits into the memory of a device (PyTorch). The model is not run.",
        MEMORY_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="package.module:factory or file.py:factory")
    parser.add_argument("--memory", dest="size", metavar="SIZE", help='memory of the device, as 24GiB, "80 GB" or h100')
    add_model_options(parser)
    parser.add_argument(
        "--global-batch", type=count, default=1024, metavar="N", help="samples per optimizer step; default: 1024"
    )
    parser.add_argument(
        "--replicas",
        type=int,
        default=1,
        metavar="N",
        help="data-parallel devices that share the global batch; default: 1",
    )
    parser.add_argument(
        "--allocator",
        choices=ALLOCATORS,
        help="cuda: memory that PyTorch's caching allocator reserves; tensors: the peak of live tensors; default: cuda "
        "if --memory is an NVIDIA GPU by name, else tensors",
    )
    add_memory_terms(parser, None, f"that of the device file, else {CONTEXT}, assumed")
    add_output(parser)
    add_frontend_switches(parser)
    return parser


@command(memory_parser)
def run_memory(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model, "and its batch size is fixed")
    if frontend_for_file(args.model):
        raise ValueError(
            f"costcore memory needs a PyTorch model (got the file {args.model}). Run costcore {args.model} --arena for "
            f"the memory of an inference, or costcore fit {args.model} DEVICE"
        )
    if args.size is None:
        raise ValueError(
            f"--memory is missing: run costcore memory {args.model} --memory 24GiB, with the memory of your device"
        )
    requested_mode(args)
    format_of(args, "table", RESULT_FILES)
    refuse_few_bytes(args.size, "--memory", device_names())
    if args.size.strip()[:1].isdecimal():
        parse_bytes(args.size, "--memory")
    workspace = parse_bytes(args.workspace, "--workspace")
    context = None if args.context is None else parse_bytes(args.context, "--context")
    limit = make_limit(args.size, context, workspace, args.fragmentation, args.allocator)
    check_global_batch(args.global_batch, args.replicas)
    found = _fit(args, limit)
    write_result(found, args)
    for note in found.notes:
        print_message(f"note: {note}")
    return SUCCESS


def _fit(args: argparse.Namespace, limit: Limit) -> Fit:
    given, options = parse_inputs(args.input), estimate_options(args)
    optimizer = options.pop("optimizer", None)
    with model_to_capture(args) as model:
        inputs = inputs_or_default(args, given, model, args.model)
        if inputs is None:
            raise ValueError("inputs are missing: pass their shapes, --input batch,3,224,224")
        put_in_mode(model, args.model, args)
        return fit_batch(
            model,
            inputs,
            limit,
            train=is_training_step(args),
            optimizer=optimizer,
            global_batch=args.global_batch,
            replicas=args.replicas,
            options=options,
        )


# ``costcore fit``.


CODES = {True: SUCCESS, False: FAILURE, None: USAGE_ERROR}
"""The exit codes; unknown is the code of a usage error."""

FIT_EXAMPLES = """examples:
  costcore fit torchvision:resnet50 l4 --train --optimizer adamw --input 64x3x224x224
  costcore fit torchvision:resnet50 "24 GB" --train --optimizer adamw --input batch,3,224,224
  costcore fit model.onnx "256 KB sram, 1 MB flash" --format json
  costcore fit hf:config.json "24 GB" --train --seq 2048 --lora 16 --quantize nf4 --optimizer adamw_8bit
  costcore fit hf:8b.json,hf:70b.json "24 GB" --methods --seq 2048

If an input dimension has a name, costcore also finds the largest batch that fits (PyTorch). If the model does not fit,
it lists changes that would make it fit, each with its memory.

exit codes: 0 it fits (with --methods a method), 1 it does not, 2 unknown, model error or usage error"""


def fit_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore fit", "MODEL TARGET", "Say whether a model fits a device, and what would make it fit.", FIT_EXAMPLES
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument("target", metavar="TARGET", help=FORMS)
    add_model_options(parser)
    add_memory_terms(
        parser, None, "that of the device file, else 500 MiB (assumed) for GPUs, and for an amount with a PyTorch model"
    )
    parser.add_argument(
        "--align", type=int, default=64, metavar="N", help="alignment in bytes of values in the arena; default: 64"
    )
    parser.add_argument(
        "--methods",
        action="store_true",
        help="compare fine-tuning methods (full, 8-bit, LoRA, QLoRA); MODEL can be several models separated by commas",
    )
    parser.add_argument(
        "--no-suggestions", action="store_true", help="do not look for changes that would make the model fit"
    )
    add_output(parser)
    add_frontend_switches(parser)
    return parser


@command(fit_parser)
def run_fit(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if args.model in device_names() and args.target not in device_names():
        raise ValueError(f"{args.model} is a device: costcore fit {args.target} {args.model}")
    if not args.methods:
        check_model(args.model)
    requested_mode(args)
    format_of(args, "table", RESULT_FILES)
    target_of(args.target)
    if args.methods:
        return _write_methods(args)
    if (args.lora or args.dora) and not (args.train or is_saved_report(args.model)):
        print_message("costcore: this is an inference; add --train to fit a step of fine-tuning")
    try:
        verdict = _verdict(args)
    except MissingInputsError as error:
        print_message(f"costcore: {args.model}: {missing_inputs(error, args)}")
        return CODES[None]
    except (CostError, OSError) as error:
        print_message(f"costcore: {error}")
        return CODES[None]
    write_result(verdict, args)
    return CODES[verdict.fits]


_OUTER_COMMA = r",(?![^(]*\))"
"""A comma outside of parentheses."""


def _write_methods(args: argparse.Namespace) -> int:
    names = [name.strip() for name in re.split(_OUTER_COMMA, args.model)]
    for name in names:
        check_model(name, "which cannot be captured again")
    if args.optimizer is not None or args.quantize is not None:
        raise ValueError("--methods has optimizers and formats of its own: drop --optimizer and --quantize")
    inputs = parse_inputs(args.input)
    if inputs is None:
        raise ValueError("inputs are missing: pass their shapes, as --seq 2048")
    rank = args.lora or args.dora or 16
    args.lora = args.dora = None
    terms = {name: getattr(args, name) for name in ("context", "workspace", "fragmentation")}
    with module_search_path(args.python_path, names[0]), printed_warnings(args.model):
        models = {name: load_model(name) for name in names}
        for name, model in models.items():
            in_mode(model, name, TRAIN, True)
        found = finetuning(models, inputs, args.target, rank=rank, **terms)
    write_result(found, args)
    words = {row.fits for row in found.rows}
    return CODES[True if words & {"yes", "checkpointed"} else False if "no" in words else None]


def _verdict(args: argparse.Namespace) -> FitResult:
    terms = {name: getattr(args, name) for name in ("context", "workspace", "fragmentation", "align")}
    terms["suggestions"] = not args.no_suggestions
    if is_saved_report(args.model):
        return fit(report_of(args.model, args, is_alone=True), None, args.target, **terms)
    if frontend_for_file(args.model) and is_training_step(args):
        raise ValueError(
            f"cannot fit a training step: {args.model} is an inference file. Drop --train and --optimizer, or pass the "
            "PyTorch model, as file.py:factory"
        )
    with model_to_capture(args) as model:
        put_in_mode(model, args.model, args)
        options = estimate_options(args)
        options.pop("backward", None)
        optimizer = options.pop("optimizer", None)
        inputs = inputs_or_default(args, parse_inputs(args.input), model, args.model)
        options |= {**terms, "train": is_training_step(args), "optimizer": optimizer}
        try:
            return fit(model, inputs, args.target, **options)
        except UnknownOptionError as error:
            raise ValueError(unknown_options(args.model, error)) from error


# ``costcore plan``.


PLAN_EXAMPLES = """examples:
  costcore plan hf:llama --seq 4096 --devices 64 --device h100 --global-batch 1024
  costcore plan nets.py:make --input batch,2048,512 --devices 8 --device a100 --global-batch 64 --mesh fsdp=8
  costcore plan hf:llama --seq 4096 --devices 16 --device h100 --global-batch 256 --zero 1,hybrid --schedule 1f1b,zb-h1

costcore tries meshes of data parallelism (dp), fully sharded data parallelism (fsdp), tensor parallelism inside a node
(tp), pipeline parallelism (pp), expert parallelism (ep) and context parallelism for long sequences (cp), and captures
one rank of each. --format json lists every plan with its memory, the bytes it sends, its time bound and, if it is left
out, the reason.

exit codes: 0 success, 1 no plan fits or model error, 2 usage error"""


_CHECKPOINTS: Mapping[str, bool | str] = {"none": False, "blocks": True}


def plan_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore plan",
        "MODEL --devices N --device NAME --global-batch N",
        "List the distributed training setups that fit in memory, the least expected time first (PyTorch).",
        PLAN_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="package.module:factory, file.py:factory or hf:TYPE")
    parser.add_argument("--devices", type=count, required=True, metavar="N", help="the number of devices")
    parser.add_argument(
        "--device", required=True, metavar="NAME", help="a name from `costcore devices`, or a .toml file"
    )
    parser.add_argument("--global-batch", type=count, required=True, metavar="N", help="samples per optimizer step")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SHAPE",
        help="shape of an input with a named batch: batch,4096:int64",
    )
    add_sequence(parser, "batch")
    parser.add_argument("--optimizer", default="adamw", metavar="NAME", help="default: adamw")
    parser.add_argument(
        "--per-node", type=int, default=8, metavar="N", help="devices per node, the maximum of tp; default: 8"
    )
    parser.add_argument("--micro-batch", default="1,2", metavar="N,N", help="micro-batch sizes to try; default: 1,2")
    parser.add_argument(
        "--mesh",
        action="append",
        default=[],
        metavar="dp=N,tp=N",
        help="a mesh to try, of dp, fsdp, tp, pp, cp and ep; may be repeated; default: all",
    )
    parser.add_argument(
        "--zero",
        default="0,3",
        metavar="N,N",
        help="stages of ZeRO to try: 0 (dp), 1, 2, 3 (fsdp), hybrid for 3 within a node; default: 0,3",
    )
    parser.add_argument(
        "--schedule",
        default="1f1b",
        metavar="NAME,NAME",
        help=f"schedules of pipelines to try: {', '.join(SCHEDULES)}; interleaved=4 has 4 chunks; default: 1f1b",
    )
    parser.add_argument(
        "--sync",
        choices=SYNCS,
        help="reduce gradients at the last micro-batch of a step, or at each; default: last for dp, each for fsdp",
    )
    parser.add_argument(
        "--precision",
        default="bfloat16",
        metavar="NAME,NAME",
        help="bfloat16 with float32 master weights, pure_bfloat16 without, autocast, fp8 (linear layers of blocks, as "
        "Transformer Engine), or model for its dtypes; default: bfloat16",
    )
    parser.add_argument(
        "--gradients", choices=("float32",), help="keep and reduce gradients in float32; default: as the weights"
    )
    parser.add_argument(
        "--checkpoint",
        default="none,blocks",
        metavar="NAME,NAME",
        help="activation checkpointing to try: none, blocks, a class, a path (layers.*.mlp), or "
        "'Block(save=mm,attention)'; default: none,blocks",
    )
    parser.add_argument(
        "--sequence-parallel", action="store_true", help="shard norms and residuals along the sequence, too"
    )
    parser.add_argument(
        "--offload",
        default="none",
        metavar="NAME,NAME",
        help="what to offload to the host: none, activations, optimizer, activations+optimizer; default: none",
    )
    parser.add_argument(
        "--host-link", metavar="NAME", help="link to the host, such as pcie5-x16; default: that of the device"
    )
    parser.add_argument(
        "--link", metavar="NAME", help="link between devices, such as nvlink4; default: communication costs no time"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help='memory of a device, "80 GB"; default: as specified by its vendor'
    )
    parser.add_argument(
        "--pareto",
        metavar="NAME,NAME",
        help=f"print only the Pareto-optimal plans by these figures: {', '.join(FIGURES)}",
    )
    add_attention(parser)
    add_output(parser)
    add_python_path(parser)
    return parser


@command(plan_parser)
def run_plan(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model, "which cannot be captured again")
    if args.memory is not None:
        parse_memory(args.memory, "--memory")
    format_of(args, "table", RESULT_FILES)
    compared = names_in([args.pareto] if args.pareto else None)
    check_figures(compared)
    found = _plans(args)
    write_result(found.pareto(*compared) if compared else found, args)
    return SUCCESS if found.plans else FAILURE


def _plans(args: argparse.Namespace) -> Plans:
    with model_to_capture(args, "plans of ") as model:
        inputs = inputs_or_default(args, parse_inputs(args.input), model, args.model)
        if inputs is None:
            raise ValueError("inputs are missing: pass their shapes with a named batch, --input batch,4096:int64")
        try:
            return plan(
                model,
                inputs,
                devices=args.devices,
                device=args.device,
                global_batch=args.global_batch,
                optimizer=args.optimizer,
                per_node=args.per_node,
                micro_batches=counts_in(args.micro_batch, "--micro-batch"),
                precisions=[None if name == "model" else name for name in names_in([args.precision])],
                checkpoints=[_CHECKPOINTS.get(name, name) for name in re.split(_OUTER_COMMA, args.checkpoint)],
                meshes=[*map(mesh_of, args.mesh)] or None,
                zero=[int(stage) if stage.isdecimal() else stage for stage in names_in([args.zero])],
                schedules=names_in([args.schedule]),
                sync=args.sync,
                gradients=args.gradients,
                sequence_parallel=(args.sequence_parallel,),
                offload=names_in([args.offload]),
                host_link=args.host_link,
                link=args.link,
                memory=args.memory,
                **({} if args.attention == "all" else {"attention": args.attention}),
            )
        except MissingInputsError as error:
            raise CostError(f"{args.model}: {missing_inputs(error, args)}") from error
