"""Run a command: exit codes, errors without a traceback, messages, output, and a timer for slow work."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from threading import Event, Thread
from typing import IO, cast

from costcore.cli import FAILURE, SUCCESS
from costcore.cli.options import RESULT_FILES, format_of, parse_arguments
from costcore.errors import CostError
from costcore.tables.result import Result
from costcore.text.output import printable, save, save_output
from costcore.text.screen import HEIGHT, Screen

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


def write_result(result: Result, args: argparse.Namespace) -> None:
    """Write a result in the format of ``--format`` and ``--output``, JSON with a line for each value."""
    mode = format_of(args, "table", RESULT_FILES)
    if mode == "json":
        result.to_json(sys.stdout if args.output is None else args.output, 2)
    else:
        write_output(lambda out: result.show(out, mode), args.output)


def run_command(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None, action: Callable[[argparse.Namespace], int]
) -> int:
    """Run the ``action`` of a command with its arguments and return its exit code; an error has no traceback."""
    args = parse_arguments(parser, argv)
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


FIRST, EACH = 2.0, 0.5
"""Seconds before anything is shown, and between two updates."""


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a label and the elapsed time on standard error, if that is a terminal and the work takes longer than 2 s."""
    if not sys.stderr.isatty():
        yield
        return
    ended = Event()
    thread = Thread(target=_show, args=(what, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(what: str, ended: Event) -> None:
    if ended.wait(FIRST):
        return
    from tqdm import tqdm

    with tqdm(desc=what, leave=False, file=sys.stderr, bar_format="{desc}: {elapsed}") as bar:
        while not ended.wait(EACH):
            bar.refresh()
