"""``costcore check MODEL --budget FILE``: does a model keep to its limits?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from costcore.budgets.budget import Breach
from costcore.budgets.check import check
from costcore.budgets.toml import BudgetError, read_budget
from costcore.cli.models import (
    GOOD,
    MODEL,
    PROBLEM,
    USAGE,
    add_model_options,
    add_switches,
    check_model,
    report_of,
    run_command,
)
from costcore.reports.caveats import not_counted
from costcore.reports.columns import Table
from costcore.reports.tables.renderers import to_markdown
from costcore.reports.text.amounts import METRICS, exact
from costcore.reports.text.escape import printable

EXAMPLES = """a budget:
  [total]
  flops = "4.2G"
  n_params = 25_600_000

  [module."layer4*"]
  mread = "100 MiB"

  [operator.conv_transpose]
  macs = 0

limits on growth, above the tables:
  baseline = "report.json"      a saved report, beside the budget
  max_increase = "1%"           of every total

exit codes: 0 within the budget, 1 a breach (one line each) or a problem with the model,
2 a malformed budget or a problem with the arguments"""


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = argparse.ArgumentParser(
        prog="costcore check",
        usage="costcore check MODEL --budget FILE [options]      (--help lists the options)",
        description="Hold a model to its budget: limits on costs in total, by module and by operator.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("model", metavar="MODEL", help=MODEL)
    made.add_argument("--budget", required=True, metavar="FILE", help="a TOML file of limits")
    add_model_options(made)
    made.add_argument("--strict", action="store_true", help="unknown operators break the budget")
    made.add_argument("--format", default="text", choices=["text", "md"], help="default: text, one line a breach")
    add_switches(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = parser()
    given = arguments.parse_args(argv)
    return run_command(arguments, lambda: _check(given))


def _check(given: argparse.Namespace) -> int:
    check_model(given.model)
    try:
        budget = read_budget(given.budget)
    except (BudgetError, OSError) as error:
        print(f"costcore: {error}", file=sys.stderr)
        return USAGE
    if given.strict:
        budget = budget.as_strict()
    report = report_of(given.model, given, is_alone=True)
    breaches = check(report, budget)
    missing = "" if breaches else not_counted(report.trace)
    print("\n".join(_markdown(given, breaches) if given.format == "md" else _lines(given, breaches)))
    if missing:
        print(f"{'⚠️' if given.format == 'md' else given.model + ':'} partial: not counted: {printable(missing)}")
    return PROBLEM if breaches else GOOD


def _lines(given: argparse.Namespace, breaches: Sequence[Breach]) -> list[str]:
    return [printable(f"{given.model}: {breach}") for breach in breaches] or [f"{given.model}: within {given.budget}"]


def _markdown(given: argparse.Namespace, breaches: Sequence[Breach]) -> list[str]:
    if not breaches:
        return [f"✅ `{given.model}` is within `{given.budget}`."]
    rows = [
        [
            breach.where,
            METRICS[breach.metric][0] if breach.metric else breach.reason,
            *((exact(breach.value), exact(breach.limit), exact(breach.excess)) if breach.metric else ("", "", "")),
            breach.reason if breach.metric else "",
        ]
        for breach in breaches
    ]
    titles = [(word, "") for word in ("where", "what", "is", "limit", "over by", "limit from")]
    table = to_markdown(Table(titles, rows, [False, False, True, True, True, False]))
    return [f"❌ `{given.model}` breaks `{given.budget}` {len(breaches)}×.", "", table.rstrip("\n")]
