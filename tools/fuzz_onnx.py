"""Damage ONNX files, and check that each is read or refused with an error of costcore, in time and in memory.

Run in the root of the repository: ``python tools/fuzz_onnx.py [FILE ...] [--cases 40000] [--first 0] [--seconds 5]``.

The files are those given, or the small models of the tests. The number of a case is its seed: ``--first N --cases 1``
repeats one. Each case is counted, shown and planned in memory. Prints every case that raised a foreign exception, or
took longer or more memory than allowed, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import io
import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

import sympy  # noqa: F401 - its import is not part of the first case with symbols

sys.path.insert(0, str(Path(__file__).parents[1]))

from costcore import CostError, estimate
from tests.frontends.onnx.mutations import MUTATIONS
from tests.frontends.onnx.test_fuzz import MODELS

GIB = 1 << 30


class TooSlowError(BaseException):
    """A case took longer than allowed. It is no ``Exception``, so that no handler catches it."""


def too_slow(*_: object) -> None:
    """Stop the case that runs."""
    raise TooSlowError


def look(content: bytes, random: Random) -> None:
    """Count a model, and show every view that needs no further input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as those about unknown operators
        report = estimate(content, regroup=random.random() < 0.5)
        report.show_report(ost=io.StringIO())
        str(report)
        arena = report.arena()
        try:
            str(arena)
        except CostError:
            str(report.subs({str(symbol): 2 for symbol in report.symbols}).arena())


def failure(seed: int, contents: list[bytes], seconds: float) -> str:
    """Return why a case failed; empty if it did not."""
    random = Random(seed)
    content = random.choice(MUTATIONS)(random.choice(contents), random)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        look(content, random)
    except CostError:
        return ""
    except TooSlowError:
        return f"took more than {seconds} s of the processor\n{traceback.format_exc(limit=-6)}"
    except Exception:
        return traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def main(argv: list[str] | None = None) -> Any:
    """Run the cases, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="ONNX files; default: the small models of the tests")
    parser.add_argument("--cases", type=int, default=40_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=5.0, help="the maximum CPU time for a case")
    options = parser.parse_args(argv)
    contents = [file.read_bytes() for file in options.files] or list(MODELS)
    signal.signal(signal.SIGPROF, too_slow)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (max(virtual, used) + GIB,) * 2)
    failed = 0
    for seed in range(options.first, options.first + options.cases):
        why = failure(seed, contents, options.seconds)
        if why:
            failed += 1
            print(f"case {seed}: {why}", flush=True)
    print(f"{options.cases} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
