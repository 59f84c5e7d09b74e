"""Damage files of weights, of runtimes and of settings, and read them: python tools/fuzz_formats.py gguf --cases 1000.

Whatever a file contains, reading it either works or raises a ``CostError`` within a few seconds and in little memory.
Any other outcome is printed with the number that repeats it: --first N --cases 1. The original files are data of the
tests and of the package; formats of plug-ins need the plug-in. With --replace, another thread overwrites the file while
it is read, so an outcome may not repeat.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random

from costcore import CostError, Report, estimate
from costcore.analyses.conventions.convention import find_convention

ROOT = Path(__file__).resolve().parents[1]

SECONDS = 5
"""The maximum CPU time for one file."""

MEGABYTES = 1024
"""The maximum growth of memory over all files; imports of transformers take a third of it."""

INTERESTING = (0, 1, 2, 7, 8, 127, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)

SEEDS = {
    "gguf": ("tests/data/gguf/small/*.gguf.gz", ".gguf"),
    "safetensors": ("tests/data/safetensors/*.safetensors", ".safetensors"),
    "stablehlo": ("plugins/costcore-stablehlo/tests/data/*.mlir", ".mlir"),
    "stablehlo-artifact": ("plugins/costcore-stablehlo/tests/data/*.mlirbc", ".mlirbc"),
    "tflite": ("plugins/costcore-tflite/tests/data/*.tflite", ".tflite"),
    "coreml": ("plugins/costcore-coreml/tests/data/*.mlmodel", ".mlmodel"),
    "openvino": ("plugins/costcore-openvino/tests/data/*.xml", ".xml"),
    "manifest": ("plugins/costcore-coreml/tests/data/cnn.mlpackage/Manifest.json", ".json"),
    "index": ("", ".json"),
    "config": ("", ".json"),
    "device": ("costcore/analyses/devices/data/*.toml", ".toml"),
    "calibration": ("costcore/analyses/devices/data/calibrated/*.toml", ".toml"),
    "convention": ("costcore/analyses/conventions/data/*.toml", ".toml"),
    "jsonl": ("", ".jsonl"),
    "csv": ("", ".csv"),
}
"""The original files, and the suffix of damaged files, by format."""


TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}

MADE = {
    "config": json.dumps(
        {
            "model_type": "llava",
            "architectures": ["LlavaForConditionalGeneration"],
            "text_config": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **TINY},
            "vision_config": {"model_type": "clip_vision_model", **TINY, "image_size": 28, "patch_size": 14},
            "image_token_index": 49,
        }
    ).encode(),
    "index": json.dumps({"metadata": {}, "weight_map": {"a.weight": "small_llama.safetensors"}}).encode(),
}
"""Original files that the repository does not contain."""


class SlowError(BaseException):
    """A file took longer than :data:`SECONDS`."""


def seeds(kind: str) -> list[bytes]:
    """Return the original files of a format, decompressed."""
    pattern, suffix = SEEDS[kind]
    if kind in MADE:
        return [MADE[kind]]
    if not pattern:
        return [_rows(suffix)]
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


def _rows(suffix: str) -> bytes:
    """Return a file of rows as an interrupted sweep leaves it."""
    from costcore.studies.sweeps.rows import ModelRow, RowFile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows{suffix}"
        with RowFile(path, ("width",), FIGURES) as file:
            file.start([])
            for i in range(3):
                costs = {"flops": 10**i, "macs": None if i else 0.5}
                file.add(f"{i:032x}", ModelRow("net.py:make", costs, "complete", arguments={"width": i}))
        return path.read_bytes()


def use(kind: str, path: Path) -> None:
    """Read a file as users do."""
    if kind in READERS:
        READERS[kind](path)
    elif kind == "gguf":
        from costcore.frontends.pytorch.checkpoints import load

        load(str(path))
    elif kind == "safetensors":
        from costcore.frontends.pytorch.checkpoints.files import read_safetensors

        read_safetensors(str(path))
    else:
        estimate(str(path))


def _use_manifest(path: Path) -> None:
    package = path.with_name("net.mlpackage")
    if not package.exists():
        shutil.copytree(ROOT / "plugins/costcore-coreml/tests/data/cnn.mlpackage", package)
    shutil.copy(path, package / "Manifest.json")
    estimate(str(package))


def _use_index(path: Path) -> None:
    from costcore.frontends.pytorch.checkpoints.files import INDEX, read_folder

    for each in (ROOT / "tests/data/safetensors").glob("*.safetensors"):
        shutil.copy(each, path.with_name(each.name))
    shutil.copy(path, path.with_name(INDEX))
    read_folder(str(path.parent))


def _use_config(path: Path) -> None:
    from costcore.api.estimate import load_model

    load_model(f"hf:{path}")


def _use_device(path: Path) -> None:
    repr(_subject().time(device=path))


def _use_convention(path: Path) -> None:
    find_convention(path)
    with suppress(CostError):  # a convention may be for other models
        _subject().under(path).describe()


def _use_rows(path: Path) -> None:
    from costcore.studies.sweeps.rows import RowFile

    with RowFile(path, ("width",), FIGURES) as file:
        file.earlier()


@cache
def _subject() -> Report:
    from torch import nn

    return estimate(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), (1, 3, 8, 8))


FIGURES = ("flops", "macs")

READERS: Mapping[str, Callable[[Path], None]] = {
    "manifest": _use_manifest,
    "index": _use_index,
    "config": _use_config,
    "device": _use_device,
    "calibration": _use_device,
    "convention": _use_convention,
    "jsonl": _use_rows,
    "csv": _use_rows,
}
"""Readers of files that are not models."""


class Replacing(threading.Thread):
    """Writes other contents into a file, again and again, while it is read.

    Args:
        path: the file.
        contents: the contents.
    """

    def __init__(self, path: Path, contents: Sequence[bytes]) -> None:
        super().__init__(daemon=True)
        self._path, self._contents, self._random = path, contents, Random(0)
        self.is_over = False

    def run(self) -> None:
        """Write in place until ``is_over``, so that the open file changes for its reader."""
        while not self.is_over:
            content = self._random.choice(self._contents)
            with suppress(OSError), self._path.open("r+b") as file:
                if self._random.random() < 0.5:
                    file.truncate(self._random.randrange(len(content) + 1))
                file.write(content[: self._random.randrange(len(content) + 1)])
            time.sleep(self._random.random() / 2000)


def megabytes() -> float:
    """Return the peak memory of the process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases; return 1 if a file was neither accepted nor refused with a ``CostError``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=SEEDS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--replace", action="store_true", help="replace every file while it is read")
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
        for data in files:  # original files are accepted; this also imports the libraries
            path.write_bytes(data)
            use(args.kind, path)
        for number in range(args.first, args.first + args.cases):
            random = Random(number)
            path.write_bytes(data := damaged(random.choice(files), random))
            replacing = Replacing(path, [data, *files]) if args.replace else None
            if replacing is not None:
                replacing.start()
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
                if replacing is not None:
                    replacing.is_over = True
                    replacing.join()
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
