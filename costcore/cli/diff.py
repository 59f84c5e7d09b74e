"""``costcore diff OLD NEW``: what changed between two models or saved reports."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from costcore.cli.models import (
    GOOD,
    MODEL,
    PROBLEM,
    add_model_options,
    add_output,
    add_switches,
    check_model,
    format_of,
    put_out,
    report_of,
    run_command,
)
from costcore.comparisons.comparison import MODES, WAYS, compare

EXAMPLES = """examples:
  costcore diff yesterday.json net.py:make --input 1x3x224x224 --format md
  costcore diff net.py:make net.onnx --input 1x3x224x224          # what did the export make of it?
  costcore diff small.onnx large.onnx --exit-code

exit codes: 0 compared, 1 a problem with a model, or with --exit-code a difference, 2 a problem with the arguments"""


FILES = (".html", ".json", ".md")
"""How the name of the file of ``--output`` may end."""


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = argparse.ArgumentParser(
        prog="costcore diff",
        usage="costcore diff OLD NEW [options]      (--help lists the options)",
        description="What changed from one model to another: calls added, removed and changed, sums, and a verdict.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("old", metavar="OLD", help=MODEL)
    made.add_argument("new", metavar="NEW", help="the same")
    add_model_options(made)
    made.add_argument("--input-old", action="append", metavar="SHAPE", help="inputs of OLD, where they are others")
    made.add_argument("--input-new", action="append", metavar="SHAPE", help="inputs of NEW, where they are others")
    made.add_argument(
        "--by", choices=WAYS, help="match calls by module, or by order of execution; default: order across frameworks"
    )
    add_output(made, MODES, "table", FILES)
    made.add_argument("--limit", type=int, metavar="N", help="rows of a table at most; default: all, 50 in Markdown")
    made.add_argument("--exit-code", action="store_true", help="exit with 1 where a call differs")
    add_switches(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = parser()
    given = arguments.parse_args(argv)
    return run_command(arguments, lambda: _diff(given))


def _diff(given: argparse.Namespace) -> int:
    for target in (given.old, given.new):
        check_model(target)
    if given.limit is not None and given.limit < 0:
        raise ValueError(f"--limit must not be negative, got {given.limit}")
    mode = format_of(given, "table", FILES)
    old = report_of(given.old, given, given.input_old)
    new = report_of(given.new, given, given.input_new)
    found = compare(old, new, by=given.by, names=(given.old, given.new))
    limit = 50 if given.limit is None and mode == "md" else given.limit
    put_out(lambda out: found.show(out, mode, limit), given.output)
    return PROBLEM if given.exit_code and not found.equal else GOOD
