"""Damage files of weights and of runtimes, and read them: python tools/fuzz_formats.py gguf --cases 1000.

Whatever a file contains, reading it either works or raises a ``CostError`` within a few seconds and in little memory.
Any other outcome is printed with the number that repeats it: --first N --cases 1. The files that are changed are those
of the tests; those of plug-ins need the plug-in installed.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random

from costcore import CostError, estimate

ROOT = Path(__file__).resolve().parents[1]

SECONDS = 5
"""How many seconds of processor time one file may take."""

MEGABYTES = 1024
"""How much memory all files may take more than the program had before; imports of transformers are a third of it."""

INTERESTING = (0, 1, 2, 7, 8, 127, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)

SEEDS = {
    "gguf": ("tests/data/gguf/small/*.gguf.gz", ".gguf"),
    "safetensors": ("tests/data/safetensors/*.safetensors", ".safetensors"),
    "stablehlo": ("plugins/costcore-stablehlo/tests/data/*.mlir", ".mlir"),
    "stablehlo-artifact": ("plugins/costcore-stablehlo/tests/data/*.mlirbc", ".mlirbc"),
    "tflite": ("plugins/costcore-tflite/tests/data/*.tflite", ".tflite"),
    "coreml": ("plugins/costcore-coreml/tests/data/*.mlmodel", ".mlmodel"),
    "openvino": ("plugins/costcore-openvino/tests/data/*.xml", ".xml"),
}
"""The files that are changed, and the suffix of what is written, by format."""


class SlowError(BaseException):
    """A file took longer than :data:`SECONDS`."""


def seeds(kind: str) -> list[bytes]:
    """Return the contents of the files of a format, those that gzip compressed decompressed."""
    pattern, _ = SEEDS[kind]
    found = [path.read_bytes() for path in sorted(ROOT.glob(pattern))]
    if not found:
        raise SystemExit(f"there is no file {pattern}")
    return [gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data for data in found]


def damaged(data: bytes, random: Random) -> bytes:
    """Return data with one to four changes: of bits, numbers and pieces, or shortened."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if not changed:
            break
        at = random.randrange(len(changed)) if random.random() < 0.6 else random.randrange(min(len(changed), 512))
        how = random.randrange(7)
        if how == 0:
            changed[at] ^= 1 << random.randrange(8)
        elif how == 1:
            changed[at] = random.randrange(256)
        elif how == 2:
            width = random.choice((1, 2, 4, 8))
            changed[at : at + width] = (random.choice(INTERESTING) % 256**width).to_bytes(width, "little")
        elif how == 3:
            del changed[at : at + random.choice((1, 4, 8, 64))]
        elif how == 4:
            changed[at:at] = changed[at : at + random.choice((1, 4, 8, 64))]
        elif how == 5:
            other = random.randrange(len(changed))
            size = random.choice((1, 4, 8, 32))
            changed[at : at + size] = changed[other : other + size]
        else:
            del changed[at:]
    return bytes(changed)


def use(kind: str, path: Path) -> None:
    """Read a file as users do."""
    if kind == "gguf":
        from costcore.frontends.pytorch.checkpoints.load import load

        load(str(path))
    elif kind == "safetensors":
        from costcore.frontends.pytorch.checkpoints.safetensors_files import read_safetensors

        read_safetensors(str(path))
    else:
        estimate(str(path))


def megabytes() -> float:
    """Return the most memory that the process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases, and return 1 if a file had another outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=SEEDS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    args = parser.parse_args(argv)
    files, suffix = seeds(args.kind), SEEDS[args.kind][1]
    outcomes: Counter[str] = Counter()
    slowest, before = 0.0, megabytes()

    def stop(*_: object) -> None:
        raise SlowError

    signal.signal(signal.SIGPROF, stop)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        for data in files:  # which import the libraries
            path.write_bytes(data)
            use(args.kind, path)
        for number in range(args.first, args.first + args.cases):
            random = Random(number)
            path.write_bytes(damaged(random.choice(files), random))
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, 4 * SECONDS)
            outcome = "accepted"
            try:
                with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                    use(args.kind, path)
            except CostError:
                outcome = "refused"
            except (Exception, SlowError) as error:
                outcome = "foreign"
                print(f"{args.kind} {number}: {type(error).__name__}: {error}")
                traceback.print_exc(limit=-4)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            took = time.process_time() - began
            if took > SECONDS:
                outcome = "foreign"
                print(f"{args.kind} {number}: {took:.1f} seconds")
            slowest = max(slowest, took)
            outcomes[outcome] += 1
    print(f"{args.kind}: {dict(outcomes)}, slowest {slowest:.2f} s, {megabytes() - before:.0f} MB")
    return 1 if outcomes["foreign"] or megabytes() - before > MEGABYTES else 0


if __name__ == "__main__":
    sys.exit(main())
