"""``costcore plot MODEL``: draw operators, modules, memory, a roofline or sizes."""

from __future__ import annotations

import argparse
from typing import Any

from costcore.analyses.registered import drawn_by
from costcore.api.input_notation import parse_dims
from costcore.cli.exit_codes import SUCCESS
from costcore.cli.models import check_model, record_needed, report_of
from costcore.cli.options import add_frontend_switches, add_model_options, command_parser, model_forms
from costcore.cli.running import command, write_text
from costcore.reports.plots.kinds import kinds, request
from costcore.tables.pictures.theme import SUFFIXES, THEMES, check_suffix
from costcore.tables.quantities import needed_options
from costcore.trace.run import LEVELS

EPILOG = """examples:
  costcore plot torchvision:resnet50 --input 1x3x224x224 --output operators.svg
  costcore plot torchvision:resnet50 --input 1x3x224x224 --kind modules --column mrw --output modules.png
  costcore plot model.onnx --kind roofline --device h100-sxm5-80gb --theme dark --output roofline.svg
  costcore plot torchvision:resnet50 --input 1,3,size,size --over size=64:1024:32 --output macs.svg
  costcore plot my_model.py:make --input ids=batch,seq:int64 --over seq=128:131072:log2 --at batch=1 --column mread
  costcore plot model.onnx --over seq=128,256,512 --at batch=8

exit codes: 0 success, 1 model error, 2 usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore plot",
        "MODEL [--kind KIND]",
        "Write a picture of a report, as an image or as CSV: costs by operator or module, FLOPs against "
        "bytes, live memory, a roofline, or a total over the values of a name among the sizes.",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument("--kind", choices=kinds(), help="default: operators, or sizes with --over")
    parser.add_argument(
        "--over",
        metavar="NAME=SIZES",
        help="sizes: the name and its values: 128:4096:128, 128:131072:log2 or 1,2,4",
    )
    parser.add_argument(
        "--at", action="append", default=[], metavar="NAME=N", help="sizes: value of another name; may be repeated"
    )
    parser.add_argument("--column", metavar="NAME", help="operators, modules, sizes: the quantity; default: flops")
    parser.add_argument("--device", metavar="DEVICE", help="roofline: a name that costcore devices lists, or a file")
    parser.add_argument("--dtype", help="roofline: dtype of weights and activations, such as bfloat16")
    parser.add_argument("--fusion", choices=LEVELS, help="roofline: level of fusion; default: none")
    parser.add_argument("--theme", choices=sorted(THEMES), default="light", help="default: light")
    parser.add_argument("--output", metavar="FILE", help=".csv, .svg, .png or .pdf; default: CSV on standard output")
    add_model_options(parser)
    add_frontend_switches(parser)
    parser.set_defaults(all_rows=None)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    name, _, text = (args.over or "").partition("=")
    over, sizes = None, None
    if args.over is not None:
        from costcore.analyses.sizes.curve import parse_sizes  # other kinds of pictures work without it

        over, sizes = name, parse_sizes(text)
    asked = request(args.kind, args.column, over, args.device)
    needs = needed_options([asked.column])
    if asked.kind in drawn_by():
        needs |= drawn_by()[asked.kind].needs
    record_needed(args, needs, args.model)
    if args.output is not None:
        check_suffix(args.output, (".csv", *SUFFIXES))
    check_model(args.model)
    options: dict[str, Any] = {"at": parse_dims(args.at), "dtype": args.dtype, "fusion": args.fusion}
    picture = report_of(args.model, args, is_alone=True).plot(
        args.kind,
        column=args.column,
        over=over,
        sizes=sizes,
        device=args.device,
        theme=args.theme,
        target=args.output,
        **{option: value for option, value in options.items() if value is not None},
    )
    if args.output is None:
        write_text(picture.to_csv(), None)
    return SUCCESS
