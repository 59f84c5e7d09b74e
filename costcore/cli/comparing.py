"""Commands that compare: ``diff`` two models, ``check`` a budget, ``explain`` a number, ``reconcile`` conventions."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from costcore.analyses.conventions.convention import find_convention
from costcore.api.hook import parse_inputs
from costcore.cli import FAILURE, SUCCESS, USAGE_ERROR
from costcore.cli.models import check_model, record_needed, report_of
from costcore.cli.options import (
    RESULT_FILES,
    SAVED,
    add_frontend_switches,
    add_fusion,
    add_model_options,
    add_output,
    command_parser,
    format_of,
    model_forms,
    names_in,
)
from costcore.cli.running import command, save_workbook_or_picture, write_output, write_page, write_result, write_text
from costcore.counting import with_free_layout
from costcore.ledger.ledger import not_counted
from costcore.registry import frontend_for_file, is_saved_report, specs
from costcore.reports.data import ReportData
from costcore.reports.report import Report
from costcore.studies.budgets import BudgetError, Violations, badge, check, read_budget
from costcore.studies.comparisons.comparison import MATCHINGS, MODES, compare
from costcore.studies.comparisons.matching import Delta
from costcore.studies.explain import explain, read_number
from costcore.studies.reconcile import other_sizes, reconcile
from costcore.tables.pictures import check_suffix
from costcore.tables.quantity import needed_options, numeric
from costcore.tables.renderers import to_markdown
from costcore.tables.result import latex_of
from costcore.text.output import Screen, json_text, printable, save

DIFF_EXAMPLES = """examples:
  costcore diff yesterday.json net.py:make --input 1x3x224x224 --format comment
  costcore diff net.py:make net.onnx --input 1x3x224x224
  costcore diff small.onnx large.onnx --exit-code
  costcore diff small.onnx large.onnx --columns fused_mrw,bound_seconds@l4
  costcore diff before.py:make after.py:make --input 8x3x224x224 --memory --optimizer adamw

exit codes: 0 success, 1 model error (with --exit-code also a difference), 2 usage error"""


DIFF_FILES = (".html", ".json", ".md", ".tex", *SAVED)
"""Suffixes of the file of ``--output``."""

ON_SCREEN = 6
"""The rows of each table on a screen: enough for all totals."""


def diff_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore diff",
        "OLD NEW",
        "Compare two models: a summary of the totals, then the calls added, removed and changed.",
        DIFF_EXAMPLES,
    )
    parser.add_argument("old", metavar="OLD", help=model_forms())
    parser.add_argument("new", metavar="NEW", help="as OLD")
    add_model_options(parser)
    parser.add_argument("--input-old", action="append", metavar="SHAPE", help="inputs of OLD, instead of --input")
    parser.add_argument("--input-new", action="append", metavar="SHAPE", help="inputs of NEW, instead of --input")
    parser.add_argument(
        "--by",
        choices=MATCHINGS,
        help="match calls by module or in execution order; default: order if the frameworks differ, else module",
    )
    parser.add_argument(
        "--memory", action="store_true", help="compare peak memory too (PyTorch, and saved reports that have it)"
    )
    parser.add_argument(
        "--columns",
        action="append",
        metavar="NAMES",
        help="more quantities to compare, separated by commas, from `costcore quantities`; may be repeated",
    )
    add_fusion(parser)
    add_output(parser, DIFF_FILES, MODES)
    parser.add_argument(
        "--top",
        type=int,
        metavar="N",
        help="maximum number of rows of each table; default: no limit, 50 in Markdown, 10 if operators were replaced",
    )
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if a call differs")
    add_frontend_switches(parser)
    return parser


@command(diff_parser)
def run_diff(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    for target in (args.old, args.new):
        check_model(target)
    if args.top is not None and args.top < 0:
        raise ValueError(f"--top must be at least 0 (got {args.top})")
    mode = format_of(args, "table", DIFF_FILES)
    columns = names_in(args.columns)
    record_needed(args, needed_options(numeric(name).name for name in columns))
    old = report_of(args.old, args, args.input_old)
    new = report_of(args.new, args, args.input_new)
    if args.fusion is not None:
        old, new = (report.fused(args.fusion).report for report in (old, new))
    comparison = compare(old, new, by=args.by, names=(args.old, args.new), columns=columns)
    if comparison.by == "order" and (found := suggestion((old, new), _regrouped(args, old, new))):
        comparison = replace(comparison, suggestions=(found,))
    default = 50 if mode == "md" else 10 if comparison.kinds else None
    if isinstance(sys.stdout, Screen):
        default = ON_SCREEN
    top = default if args.top is None else args.top
    if mode == "html" and args.output is not None:
        write_page(comparison, args, args.old, args.new)
    elif mode == "latex":
        write_text(latex_of(comparison), args.output)
    elif not save_workbook_or_picture(comparison, args):
        write_output(lambda out: comparison.show(out, mode, top), args.output)
    return FAILURE if args.exit_code and not comparison.equal else SUCCESS


def _regrouped(args: argparse.Namespace, old: Report, new: Report) -> Callable[[], tuple[Report, Report]] | None:
    targets = ((args.old, args.input_old, old), (args.new, args.input_new, new))
    files = [
        frontend_for_file(target) and "regroup" in specs()[frontend_for_file(target)].options
        for target, _, _ in targets
    ]
    if not any(files) or "regroup" in dict(args.frontend_options):
        return None
    again = argparse.Namespace(**{**vars(args), "frontend_options": [*args.frontend_options, ("regroup", True)]})

    def read() -> tuple[Report, Report]:
        first, second = (
            report_of(target, again, inputs, is_quiet=True) if is_file else report
            for is_file, (target, inputs, report) in zip(files, targets, strict=True)
        )
        return first, second

    return read


# Formats of ``costcore check``: lines, Markdown, JSON, annotations of GitHub Actions.


SCHEMA = "costcore-check-1"
"""The schema of the JSON."""


class CheckResult(NamedTuple):
    """The result of checking a model.

    Attributes:
        model: the model, as the command line names it.
        budget: the path of the budget.
        violations: the violations.
        status: the status of the report.
        missing: the uncounted calls, if there is no violation; can be empty.
    """

    model: str
    budget: str
    violations: Violations
    status: str
    missing: str


def to_lines(verdict: CheckResult) -> list[str]:
    """Return one line per violation."""
    lines = [printable(f"{verdict.model}: {violation}") for violation in verdict.violations]
    missing = [f"{verdict.model}: partial: not counted: {printable(verdict.missing)}"] if verdict.missing else []
    return [*(lines or [f"{verdict.model}: within {verdict.budget}"]), *missing]


def to_md(verdict: CheckResult) -> list[str]:
    """Return a sentence, and a table of the violations."""
    model, budget, violations = verdict.model, verdict.budget, verdict.violations
    if not violations:
        missing = [f"⚠️ partial: not counted: {printable(verdict.missing)}"] if verdict.missing else []
        return [f"✅ `{model}` is within `{budget}`.", *missing]
    table = to_markdown(violations.table().text())
    return [f"❌ `{model}` breaks `{budget}` {len(violations)}×.", "", table.rstrip("\n")]


MOST_ANNOTATED = 5
"""The maximum number of violations in an annotation."""


def to_github(verdict: CheckResult) -> list[str]:
    """Return one annotation of GitHub Actions for all violations, as they have one place.

    It is at the definition of a model in a file, ``net.py:make`` or ``net.onnx``, else at the budget. It lists the
    first violations; the log has the others.
    """
    file, line = _source(verdict.model)
    place = f"file={_property(file or verdict.budget)}{f',line={line}' if line else ''},title=costcore"
    shown = [str(violation) for violation in verdict.violations[:MOST_ANNOTATED]]
    others = verdict._replace(violations=Violations(verdict.violations[MOST_ANNOTATED:]), missing="")
    if others.violations:
        shown.append(f"and {len(others.violations):,} more, which the log lists")
    errors = [f"::error {place}::{_message(chr(10).join(shown))}"] if shown else []
    missing = [f"::warning {place}::partial: not counted: {_message(verdict.missing)}"] if verdict.missing else []
    return [*errors, *(to_lines(others) if others.violations or not errors else []), *missing]


def to_json(verdict: CheckResult) -> list[str]:
    """Return the verdict as JSON; times are in nanoseconds."""
    violations = [{**violation._asdict(), "excess": violation.excess} for violation in verdict.violations]
    content = {
        "schema": SCHEMA,
        "model": verdict.model,
        "budget": verdict.budget,
        "within": not violations,
        "status": verdict.status,
        "violations": violations,
    }
    return [json_text(content)]


FORMATS: Mapping[str, Callable[[CheckResult], list[str]]] = {
    "text": to_lines,
    "md": to_md,
    "json": to_json,
    "github": to_github,
}
"""Writers of a verdict by format."""


def _source(model: str) -> tuple[str, int]:
    path, _, name = model.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        return (model if Path(model).is_file() else ""), 0
    definition = re.compile(rf"(?:(?:class|def)\s+{re.escape(name)}\b|{re.escape(name)}\s*[:=])")
    lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    return path, next((number for number, line in enumerate(lines, start=1) if definition.match(line)), 0)


def _message(text: str) -> str:
    lines = map(printable, text.replace("\r", "\n").split("\n"))
    # A workflow command is one line, with percent-encoded line breaks.
    return "\n".join(lines).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


# ``costcore check``.


CHECK_EXAMPLES = """example of a budget file:
  [total]
  flops = "4.2G"
  n_params = 25_600_000
  arena = "256 KiB"             # peak SRAM of an inference run
  peak_memory = "2 GiB"         # of a run of a PyTorch model
  [module."layer4*"]
  mread = "100 MiB"
  [operator.conv_transpose]
  macs = 0

to limit the increase over a saved report, add before these tables:
  baseline = "report.json"      # the path is relative to the budget file
  max_increase = "1%"           # of each total
costcore check ... --update writes this report

to count FLOPs as another tool does (costcore conventions lists them):
  convention = "fvcore"

exit codes: 0 within the budget, 1 over the budget or model error, 2 invalid budget or usage error"""


def check_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore check",
        "MODEL --budget FILE",
        "Check a model against a budget: limits on its cost in total, by module and by operator.",
        CHECK_EXAMPLES,
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
        "--badge",
        metavar="FILE.svg",
        help="write a badge with the limited totals, or MACs and parameters, for a README; red if over the budget",
    )
    parser.add_argument(
        "--update", action="store_true", help="write the report to the baseline of the budget, then check its limits"
    )
    add_frontend_switches(parser)
    parser.set_defaults(all_rows=None)
    return parser


@command(check_parser)
def run_check(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model)
    if args.badge is not None:
        check_suffix(args.badge, (".svg",))
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
    if args.badge is not None:
        save(badge(report, budget, violations), args.badge)
    missing = "" if violations else not_counted(report.trace)
    verdict = CheckResult(args.model, args.budget, violations, report.status, missing)
    print("\n".join(FORMATS[args.format](verdict)))
    return FAILURE if violations else SUCCESS


# ``costcore explain``.


EXPLAIN_EXAMPLES = """examples:
  costcore explain torchvision:resnet50 4.14G --input 1x3x224x224
  costcore explain timm:vit_base_patch16_224 17.6G --input 1x3x224x224 --source timm --year 2021
  costcore explain net.onnx "8.2 GOPS" --format json

exit codes: 0 the number is explained, 1 model error, or no rules give the number, 2 usage error"""


def explain_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore explain",
        "MODEL NUMBER",
        "Find the counting rules that give a published number of a network.",
        EXPLAIN_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument(
        "number", metavar="NUMBER", help="the published number with prefix and unit: 4.14G, '8.2 GOPS', 4.1e9"
    )
    parser.add_argument(
        "--significant", type=int, metavar="N", help="significant digits of NUMBER; default: as written"
    )
    parser.add_argument(
        "--source", metavar="TOOL", help="tool or library that published the number; default: the library of the model"
    )
    parser.add_argument(
        "--year", type=int, metavar="YEAR", help="year of publication: excludes tools that did not exist yet"
    )
    add_output(parser)
    add_model_options(parser)
    add_frontend_switches(parser)
    parser.set_defaults(record_api_calls=True)
    return parser


@command(explain_parser)
def run_explain(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    check_model(args.model)
    if read_number(args.number, args.significant).value.denominator != 1:
        raise ValueError(f"{args.number!r} is no whole number. Did you mean {args.number}G or {args.number}M?")
    format_of(args, "table", RESULT_FILES)
    report = report_of(args.model, args, is_alone=True)
    explanation = explain(report, args.number, args.significant, sizes=_sizes(args), source=args.source, year=args.year)
    write_result(explanation, args)
    return FAILURE if explanation.best is None else SUCCESS


def _sizes(args: argparse.Namespace) -> Mapping[str, Callable[[], Report]]:
    if is_saved_report(args.model) or len(args.input) != 1:
        return {}
    return {
        text: partial(report_of, args.model, args, [text], is_alone=True, is_quiet=True)
        for text in other_sizes(args.input[0], parse_inputs(args.input))
    }


# ``costcore reconcile``.


RECONCILE_EXAMPLES = """examples:
  costcore reconcile torchvision:resnet50 timm torchvision --input 1x3x224x224
  costcore reconcile net.py:make fvcore ptflops --other old_net.py:make --input 1x3x224x224 --output why.html

`costcore conventions` lists the conventions.

exit codes: 0 success, 1 model error, 2 usage error"""


RECONCILE_FILES = (".html", ".json", ".md", ".csv", ".tex", *SAVED)
"""Suffixes of the file of ``--output``."""


def reconcile_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore reconcile",
        "MODEL OLD NEW",
        "List the operators that two conventions count differently; the rows add up to the difference exactly.",
        RECONCILE_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=model_forms())
    parser.add_argument("old", metavar="OLD", help="a convention, or a .toml file with rules")
    parser.add_argument("new", metavar="NEW", help="convention to compare with OLD")
    parser.add_argument("--other", metavar="MODEL", help="model that NEW counts; default: MODEL")
    parser.add_argument("--input-other", action="append", metavar="SHAPE", help="inputs of --other, instead of --input")
    add_model_options(parser)
    add_output(parser, RECONCILE_FILES, ("table", "md", "csv", "json"))
    add_frontend_switches(parser)
    parser.set_defaults(record_api_calls=True)
    return parser


@command(reconcile_parser)
def run_reconcile(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    for target in filter(None, (args.model, args.other)):
        check_model(target)
    mode = format_of(args, "table", RECONCILE_FILES)
    for name in (args.old, args.new):
        if re.fullmatch(r"[0-9.,]+ ?[KMGT]?", name):
            raise ValueError(f"{name!r} is not a convention. To find its rules: costcore explain {args.model} {name}")
        find_convention(name)
    report = report_of(args.model, args, is_alone=args.other is None)
    other = None if args.other is None else report_of(args.other, args, args.input_other)
    result = reconcile(report, args.old, args.new, other)
    if mode == "html":
        write_page(result, args)
    elif mode == "json":
        write_text(json_text(result.to_dict()) + "\n", args.output)
    elif mode == "latex":
        write_text(latex_of(result), args.output)
    elif not save_workbook_or_picture(result, args):
        write_output(lambda out: result.show(out, mode), args.output)
    for note in result.notes:
        sys.stderr.write(f"note: {note}\n")
    return SUCCESS


# Options of ``costcore diff`` that make two reports equal.


METRICS = ("macs", "flops", "mread", "mwrite")
"""The totals that must be equal. Parameters are not among them: an exporter may fold them or store them twice."""

Reports = tuple[ReportData, ReportData]


def suggestion(reports: Reports, regrouped: Callable[[], Reports] | None) -> str:
    """Return which of ``--layout free`` and ``--regroup`` make the totals of two reports equal; ``""`` if none does.

    Args:
        reports: the old and the new report.
        regrouped: returns both reports after regrouping operators that an exporter decomposed; None if that is not
            possible. It is called at most once.
    """
    if are_equal(reports):
        return ""
    has_layout = any(report.trace.run.layout != "free" for report in reports)
    if has_layout and are_equal(_free(reports)):
        return _sentence("--layout free")
    if regrouped is None:
        return ""
    others = regrouped()
    if are_equal(others):
        return _sentence("--regroup")
    return _sentence("--regroup --layout free") if has_layout and are_equal(_free(others)) else ""


def are_equal(reports: Reports) -> bool:
    """Return whether MACs, FLOPs and bytes of two reports are equal."""
    old, new = (report.total_report for report in reports)
    return all(Delta(old[key], new[key]).equal for key in METRICS)


def _sentence(options: str) -> str:
    return f"counted with {options}, MACs, FLOPs and bytes are equal"


def _free(reports: Reports) -> Reports:
    old, new = reports
    return ReportData(with_free_layout(old.trace)), ReportData(with_free_layout(new.trace))
