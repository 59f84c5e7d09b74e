"""``costcore check MODEL``: check a model against a budget."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from costcore.cli.exit_codes import FAILURE, SUCCESS, USAGE_ERROR
from costcore.cli.models import check_model, record_needed, report_of
from costcore.cli.options import add_frontend_switches, add_model_options, command_parser, model_forms
from costcore.cli.running import command
from costcore.cli.violations import FORMATS, Verdict
from costcore.ledger.caveats import not_counted
from costcore.studies.budgets.check import check
from costcore.studies.budgets.toml import BudgetError, read_budget

EPILOG = """example of a budget file:
  [total]
  flops = "4.2G"
  n_params = 25_600_000
  arena = "256 KiB"             # peak SRAM of an inference run
  peak_memory = "2 GiB"         # of a run of a PyTorch model

  [module."layer4*"]
  mread = "100 MiB"

  [operator.conv_transpose]
  macs = 0

to limit the increase from a saved report, add before these tables:
  baseline = "report.json"      # the path is relative to the budget file
  max_increase = "1%"           # of each total
costcore check ... --update writes the report that it names

to count FLOPs as another tool does (costcore conventions lists them):
  convention = "fvcore"

exit codes: 0 within the budget, 1 over the budget or model error, 2 invalid budget or usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore check",
        "MODEL --budget FILE",
        "Check a model against a budget: limits on its cost in total, by module and by operator.",
        EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument("--budget", required=True, metavar="FILE", help="a TOML file with limits")
    add_model_options(parser)
    parser.add_argument("--strict", action="store_true", help="count a partial or assumed report as a violation")
    parser.add_argument(
        "--format",
        default="text",
        choices=[*FORMATS],
        help="text: one line per violation; github: annotations of GitHub Actions; default: text",
    )
    parser.add_argument(
        "--update", action="store_true", help="write the report to the baseline of the budget, then check its limits"
    )
    add_frontend_switches(parser)
    parser.set_defaults(all_rows=None)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model)
    try:
        budget = read_budget(args.budget, reads_baseline=not args.update)
        if args.update and budget.baseline_path is None:
            raise BudgetError(
                f'{args.budget}: --update writes the baseline, but it names none: add baseline = "report.json"'
            )
    except (BudgetError, OSError) as error:
        print(f"costcore: {error}", file=sys.stderr)
        return USAGE_ERROR
    if args.strict:
        budget = budget.as_strict()
    record_needed(args, budget.needs, args.model)
    report = report_of(args.model, args, is_alone=True)
    if args.update:
        path = budget.baseline_path
        report.to_json(path)
        print(f"{path}: written, the baseline of {args.budget}", file=sys.stderr)
        budget = replace(budget, baseline=report)
    violations = check(report, budget)
    missing = "" if violations else not_counted(report.trace)
    verdict = Verdict(args.model, args.budget, violations, report.status, missing)
    print("\n".join(FORMATS[args.format](verdict)))
    return FAILURE if violations else SUCCESS
