"""Run a command: exit codes, errors without a traceback, messages, output, a timer for slow work, and completion."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import date
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, cast

from costcore.cli import COMPLETING, FAILURE, SUCCESS
from costcore.cli.options import RESULT_FILES, SAVED, Parser, command_parser, format_of, parse_arguments
from costcore.errors import CostError, import_problem
from costcore.tables.renderers import COUNTS
from costcore.tables.result import Result, model_of
from costcore.text.output import HEIGHT, Screen, printable, save, save_output

MAX_MESSAGE_LENGTH = 10_000
"""The maximum number of characters of a message: names in a model can have any length."""


def write_output(show: Callable[[IO[str]], None], path: str | None) -> None:
    """Call ``show`` with standard output, or with the file of that path."""
    if path is None:
        show(sys.stdout)
    else:
        save_output(show, path)


def write_text(text: str, path: str | None) -> None:
    """Write a text to standard output, or to the file of that path."""
    save(text, sys.stdout if path is None else path)


def write_page(result: Result, args: argparse.Namespace, *models: str) -> None:
    """Write the page of a result to the file of ``--output``, with the models, the command and the date.

    The names of the models are for the heading; default: the model of the result, or else ``args.model`` or the trace.
    """
    given = getattr(args, "model", None) or getattr(args, "trace", None) or ""
    named = models or [given] * (not model_of(result))
    result.to_html(args.output, " → ".join(Path(name).name for name in named), made_by(args))


def made_by(args: argparse.Namespace) -> str:
    """Return the command line, the default inputs if they were used, and the date."""
    inputs = [f"default {args.default_input}"] if getattr(args, "default_input", "") else []
    import shlex  # of pages only

    return " · ".join([shlex.join(args.command_line), *inputs, date.today().isoformat()])


def save_workbook_or_picture(result: Result, args: argparse.Namespace) -> bool:
    """Save a result as a workbook or picture if ``--output`` names one; return whether it does."""
    if args.output is None or Path(args.output).suffix not in SAVED:
        return False
    result.save(args.output)
    return True


def write_result(result: Result, args: argparse.Namespace) -> None:
    """Write a result in the format of ``--format`` and ``--output``, JSON with a line for each value."""
    mode = format_of(args, "table", RESULT_FILES)
    if save_workbook_or_picture(result, args):
        return
    if mode == "html" and args.output is not None:
        write_page(result, args)
    elif mode == "json":
        result.to_json(sys.stdout if args.output is None else args.output, 2)
    else:
        write_output(lambda out: result.show(out, mode), args.output)


def run_command(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None, action: Callable[[argparse.Namespace], int]
) -> int:
    """Run the ``action`` of a command with its arguments and return its exit code; an error has no traceback."""
    if COMPLETING in os.environ:
        complete(parser)
    args = parse_arguments(parser, argv)
    args.command_line = [*parser.prog.split(), *(sys.argv[1:] if argv is None else argv)]
    screen = _screen(args)
    try:
        with redirect_stdout(screen):
            try:
                return action(args)
            finally:
                _finish(screen)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # avoids another error at exit
        return SUCCESS
    except (CostError, OSError) as error:
        print_message(f"costcore: {error}")
        return FAILURE
    except (TypeError, ValueError) as error:
        parser.error(str(error))


def command(
    build_parser: Callable[[], argparse.ArgumentParser],
) -> Callable[[Callable[[argparse.Namespace], int]], Callable[[Sequence[str] | None], int]]:
    """Decorator: turn an action on parsed arguments into a function of ``argv`` that returns the exit code."""
    return lambda action: lambda argv: run_command(build_parser(), argv, action)


def _screen(args: argparse.Namespace) -> IO[str]:
    hint, many = getattr(args, "all_rows", "--format table"), (getattr(args, "top", None) or 0) > HEIGHT // 2
    asked = many or any(getattr(args, name, None) for name in ("format", "output"))
    # A format, a file or many rows mean that all output is wanted.
    if asked or hint is None:
        return sys.stdout
    return cast("IO[str]", Screen(sys.stdout, hint))


def _finish(screen: IO[str]) -> None:
    if isinstance(screen, Screen):
        screen.finish()
    screen.flush()


def exit_code(status: str, is_strict: bool) -> int:
    """Return the exit code for the status of a report; a failure is explained on standard error."""
    if not is_strict or status == "complete":
        return SUCCESS
    print_message(f"costcore: the report is {status}, which is an error with --strict")
    return FAILURE


def print_message(text: str) -> None:
    """Print to standard error, with control characters (in names of a model) escaped."""
    sys.stdout.flush()  # keeps the order of both streams
    shown = "\n".join(map(printable, text.split("\n")))
    print(shown if len(shown) <= MAX_MESSAGE_LENGTH else shown[: MAX_MESSAGE_LENGTH - 1] + "…", file=sys.stderr)


# Timer on a terminal for slow work.


FIRST, EACH, EACH_LINE = 2.0, 0.5, 30.0
"""Seconds before the first output, between two updates on a terminal, and between two lines in a log."""


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a label and the elapsed time on standard error, if the work takes longer than 2 s; in a log every 30 s."""
    ended = Event()
    show = _show if sys.stderr.isatty() else _write_lines
    thread = Thread(target=show, args=(what, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _write_lines(what: str, ended: Event) -> None:
    stream, seconds = sys.stderr, EACH_LINE
    while not ended.wait(EACH_LINE):
        counts = "".join(
            f", {done:,}{'' if n is None else f' of {n:,}'} {name}" for name, (done, n) in [*COUNTS.items()]
        )
        print(f"costcore: {what}: {seconds:.0f} s{counts}", file=stream, flush=True)
        seconds += EACH_LINE


def _show(what: str, ended: Event) -> None:
    if ended.wait(FIRST):
        return
    from tqdm import tqdm

    with tqdm(desc=what, leave=False, file=sys.stderr, bar_format="{desc}: {elapsed}") as bar:
        while not ended.wait(EACH):
            bar.refresh()


# Completion in shells: argcomplete runs the command with the words so far, and it returns the possible next words.


SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")

COMPLETION_EXAMPLES = """examples:
  eval "$(costcore completion bash)"        # in ~/.bashrc
  eval "$(costcore completion zsh)"         # in ~/.zshrc
  costcore completion fish | source         # in ~/.config/fish/config.fish

Completes commands, options, files, and the names of columns, devices, conventions, libraries and functions in a file.

exit codes: 0 success, 1 argcomplete is not installed, 2 usage error"""


def completion_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of ``costcore completion``."""
    parser = command_parser(
        "costcore completion", "SHELL", "Print the code that completes commands in a shell.", COMPLETION_EXAMPLES
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(all_rows=None)
    return parser


@command(completion_parser)
def run_completion(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    try:
        from argcomplete import shellcode
    except ImportError as error:
        raise CostError(import_problem("costcore completion", "argcomplete", error)) from error
    print(shellcode(["costcore"], shell=args.shell))
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Return the possible next words to a shell, and end the process."""
    from argcomplete import autocomplete
    from argcomplete.completers import FilesCompleter, SuppressCompleter

    files = FilesCompleter()
    completers = {
        "columns": _listed(_columns),
        "sort": _listed(_columns),
        "column": _listed(_columns),
        "pareto": _listed(_columns),
        "by": _listed(_parts),
        "device": _listed(_devices),
        "target": _listed(_devices),
        "convention": _listed(_conventions),
        "a": _listed(_conventions),
        "b": _listed(_conventions),
    }
    own = parser if isinstance(parser, Parser) else Parser()  # a plug-in may have a plain one
    for action in own.arguments:
        completer = completers.get(action.dest) if action.metavar not in ("N", "MODEL") else None
        if action.dest == "name":
            completer = completers["device" if "devices" in parser.prog else "convention"]
        if action.metavar in ("MODEL", "[NAME=]MODEL[@SHAPE]", "OLD", "NEW"):
            completer = _models(files, own.words)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]  # argcomplete reads it
        elif action.metavar in ("FILE", "BUILDERS", "TRACE"):
            action.completer = files  # type: ignore[attr-defined]
    autocomplete(parser, always_complete_options=False, default_completer=SuppressCompleter())


def _listed(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a completer of names separated by commas."""

    def of_prefix(prefix: str, **_: Any) -> list[str]:
        before, comma, _last = prefix.rpartition(",")
        return [f"{before}{comma}{name}" for name in names()]

    return of_prefix


def _models(files: Callable[..., Iterable[str]], names: Sequence[str]) -> Callable[..., list[str]]:
    from costcore.registry import specs

    def of_prefix(prefix: str, **options: Any) -> list[str]:
        if ".py:" in prefix:
            from costcore.api.estimate import targets_in

            return targets_in(prefix.partition(":")[0])
        libraries = [f"{library}:" for spec in specs().values() for library in spec.libraries]
        return [*names, *libraries, *files(prefix, **options)]

    return of_prefix


def _columns() -> list[str]:
    from costcore.tables.quantity import registered

    return ["default", "percent", "all", *(name.partition("@")[0] + "@" * ("@" in name) for name in registered())]


def _parts() -> Sequence[str]:
    from costcore.reports.data import PARTS

    return PARTS


def _devices() -> list[str]:
    from costcore.analyses.devices.device import device_names

    return device_names()


def _conventions() -> Iterable[str]:
    from costcore.analyses.conventions.convention import conventions

    return conventions()
