"""Change files that users pass to costcore, and use those that it accepts: python tools/fuzz_files.py report.

Whatever a file contains, reading and viewing it either works or raises a ``CostError`` within a few seconds. Any other
exception is printed, with the seed that repeats it: --seed N --files 1.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout is tested, whatever is installed

import costcore  # noqa: E402 - found by the line above
from costcore import CostError, Report, estimate  # noqa: E402
from costcore.analyses.conventions.convention import DATA as CONVENTIONS  # noqa: E402
from costcore.analyses.conventions.convention import find_convention  # noqa: E402
from costcore.analyses.devices.device import DEVICE_DATA as DEVICES  # noqa: E402
from costcore.analyses.timing.calibrated import Conditions, to_toml  # noqa: E402
from costcore.analyses.timing.calibration import (  # noqa: E402
    Calibration,
    Error,
    Errors,
    OpSignature,
    Point,
)
from costcore.analyses.timing.time_report import toml_text  # noqa: E402
from costcore.api.estimate import load_model  # noqa: E402
from costcore.files import loads  # noqa: E402
from costcore.ledger.ledger import Ledger  # noqa: E402
from costcore.reports.codec import Encoder  # noqa: E402
from costcore.reports.json import (  # noqa: E402
    read,
    total_entry,
)
from costcore.studies.sweeps.rows import RowFile  # noqa: E402

SECONDS = 5
"""The maximum CPU time for one file."""

BYTES = 1 << 30
"""The maximum memory for one file, in bytes."""

NUMBERS = (0, 1, -1, 2, 3, 7, 255, 1 << 31, (1 << 63) - 1, 1 << 80)
TEXTS = ("", "n", "float32", "0", "a" * 300, "\x1b[31m", "=1+1", "<b>", "ſ", "\ud800")


class SlowError(BaseException):
    """A file took longer than :data:`SECONDS`."""


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        suffix: its suffix.
        seeds: returns valid files, as data.
        write: returns the text of a file.
        use: reads and views a file; raises a ``CostError`` if it is not valid.
    """

    suffix: str
    seeds: Callable[[], list[Any]]
    write: Callable[[Any], str]
    use: Callable[[Path], None]


class Tally(NamedTuple):
    """The number of accepted files, of refused files by message, and all other outcomes by seed."""

    accepted: int
    refused: Counter[str]
    foreign: dict[int, str]


class Places(NamedTuple):
    """The values in data that can be changed.

    Attributes:
        all: the path of each value, as the keys that lead to it.
        alike: the values by the last name on their path.
    """

    all: list[tuple[Any, ...]]
    alike: dict[Any, list[Any]]

    @classmethod
    def of(cls, data: Any) -> Places:
        places = cls([], {})
        places._add(data, (), 0)
        return places

    def _add(self, data: Any, place: tuple[Any, ...], key: Any) -> None:
        items = enumerate(data) if isinstance(data, list) else data.items() if isinstance(data, dict) else ()
        for name, value in items:
            # the last name on the path of a value, and the number of list levels below it
            inner = (name, 1) if isinstance(name, str) else (key[0], key[1] + 1) if isinstance(key, tuple) else key + 1
            self.all.append((*place, name))
            self.alike.setdefault(inner, []).append(value)
            self._add(value, (*place, name), inner)


def changed(data: Any, random: Random, places: Places | None = None) -> Any:
    """Return a copy of data with one value changed, most often to another value of the same key.

    Unchanged parts are shared with ``data``.

    Args:
        data: the data.
        random: decides.
        places: the places of ``data``, if they are known.
    """
    places = places or Places.of(data)
    if not places.all:
        return data
    place = random.choice(places.all)
    data = holder = copy.copy(data)
    for name in place[:-1]:
        holder[name] = holder = copy.copy(holder[name])
    last = place[-1]
    value, choice = holder[last], random.random()
    if choice < 0.5:
        names = [i for i, name in enumerate(place) if isinstance(name, str)]
        key = (place[names[-1]], len(place) - names[-1]) if names else len(place)
        holder[last] = random.choice(places.alike[key])
    elif choice < 0.55:
        del holder[last]
    elif choice < 0.6 and isinstance(holder, list):
        holder.insert(last, value)
    elif isinstance(value, bool):
        holder[last] = not value
    elif isinstance(value, int):
        holder[last] = random.choice((value + 1, max(0, value - 1), value * 2, random.choice(NUMBERS)))
    elif isinstance(value, float):
        holder[last] = random.choice((value * 2, value / 3, 0.0, 1e300, -1.0))
    elif isinstance(value, str):
        holder[last] = random.choice((value[: len(value) // 2], value + "x", random.choice(TEXTS)))
    elif isinstance(value, list):
        holder[last] = random.sample(value, len(value))
    return data


def fuzzed(kind: Kind, first: int, n: int, most_seconds: float = float("inf")) -> Tally:
    """Change and use ``n`` files, numbered from ``first``; the number of a file determines it."""
    seeds = [(data, Places.of(data)) for data in kind.seeds()]
    accepted, refused, foreign = 0, Counter[str](), {}
    last = time.monotonic() + most_seconds
    with tempfile.TemporaryDirectory() as folder, _quiet():
        path = Path(folder, f"file{kind.suffix}")
        for data, _ in seeds:  # unchanged files are accepted; this also imports all modules
            path.write_text(kind.write(data), encoding="utf-8")
            kind.use(path)
        for number in range(first, first + n):
            if time.monotonic() > last:
                break
            random = Random(number)
            data, places = random.choice(seeds)
            data = changed(data, random, places)
            for _ in range(random.choice((0, 0, 0, 1, 2))):
                data = changed(data, random)
            try:
                with _limited():
                    path.write_text(kind.write(data), encoding="utf-8", errors="surrogatepass")
                    kind.use(path)
                accepted += 1
            except CostError as error:
                refused[str(error).partition(str(path))[2][:60]] += 1
            except (Exception, SlowError) as error:
                frames = traceback.extract_tb(error.__traceback__)
                place = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[:-5:-1])
                foreign[number] = f"{type(error).__name__}: {str(error)[:120]} at {place}"
    return Tally(accepted, refused, foreign)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _limited() -> Iterator[None]:
    """Raise a :class:`SlowError` or a ``MemoryError`` above :data:`SECONDS` or :data:`BYTES`, where there is /proc."""
    memory = Path("/proc/self/statm")
    if not memory.exists():
        yield
        return
    import resource

    def stop(*_: object) -> None:
        raise SlowError(f"longer than {SECONDS} seconds")

    used = int(memory.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, limits[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGPROF, before)


def networks() -> list[Report]:
    """Return reports of small networks with every kind of record: memory, backward, sizes, fusion, modules."""
    from torch import nn

    conv = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    net = nn.Sequential(conv, nn.Linear(64, 5), nn.Softmax(-1))
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return [
        estimate(net, (2, 3, 8, 8), memory=True, backward=True, record_api_calls=True),
        estimate(conv, ("batch", 3, "height", "width")),
        estimate(net, (2, 3, 8, 8), memory=True),
        estimate(block, (2, 3, 8)),
        estimate(nn.LSTM(4, 5), (3, 2, 4)),
    ]


def _reports() -> list[Any]:
    """Return saved reports, with totals and without. Totals that do not fit the costs are refused."""
    saved = [report.to_dict() for report in networks()]
    return [*saved, *({**report, "total": {}} for report in saved)]


def _with_total(data: Any) -> str:
    """Return a report as text. Empty totals are filled with those of its calls, if these can be read."""
    text = json.dumps(data)
    if not isinstance(data, dict) or data.get("total") != {}:
        return text
    try:
        contents = read(text)
    except CostError:
        return text
    return json.dumps({**data, "total": total_entry(Ledger(contents.trace).total, Encoder(contents.keys))})


VIEWS: tuple[Callable[[Report], object], ...] = (
    lambda report: report.show_report(mode="table"),
    lambda report: report.show_summary_report(),
    lambda report: report.show_tree(),
    lambda report: report.show_memory(),
    lambda report: report.show_receptive_field(),
    lambda report: report.show_arena(),
    lambda report: str(report.memory.peak) if report.memory else "",
    lambda report: str(report.fused("pointwise").total_report),
    lambda report: str(report.fused("compiler").total_report),
    lambda report: str(report.time(device="l4")),
    lambda report: report.under("fvcore").total,
    lambda report: report.under("macs").total,
    lambda report: str(report.formula("flops")),
    lambda report: report.table("module", columns=["flops", "mrw", "n_params"]).to_markdown(),
    lambda report: costcore.explain(report, 1234),
    lambda report: report.to_html(),
    lambda report: report.to_chrome_trace(),
    lambda report: report.to_model_explorer(),
    lambda report: report.to_csv(),
    lambda report: Report.from_json(report.to_json()),
)
"""The views of every accepted report. A view may raise a ``CostError``."""


def _use_report(path: Path) -> None:
    report = Report.from_json(path)
    for view in VIEWS:
        with suppress(CostError):
            view(report)


def _net() -> Report:
    from torch import nn

    return estimate(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), (1, 3, 8, 8), memory=True)


@cache
def _subject() -> Report:
    return _net()


def _use_budget(path: Path) -> None:
    str(costcore.check(_subject(), path))


def _use_baseline(path: Path) -> None:
    str(costcore.check(_subject(), {"baseline": str(path), "max_increase": "1%"}))
    str(costcore.compare(_subject(), Report.from_json(path)))


def _use_device(path: Path) -> None:
    for dtype in (None, "float16"):
        time = _subject().time(device=path, **({} if dtype is None else {"dtype": dtype}))
        f"{time!r} {time.to_json()}"


def _use_convention(path: Path) -> None:
    find_convention(path)
    for report in _conventional():
        with suppress(CostError):  # a convention may be for other models
            view = report.under(path)
            f"{view.describe()} {view.total}"


@cache
def _conventional() -> list[Report]:
    return [_subject(), networks()[1]]


def _use_rows(path: Path) -> None:
    RowFile(path, ("width",), ("flops", "macs")).earlier()


def _use_trace(path: Path) -> None:
    report = estimate(path)
    report.show_report(mode="table")
    f"{report.table('module').to_markdown()} {report.time(device='l4')!r}"


def _budgets() -> list[Any]:
    return [
        {
            "strict": True,
            "convention": "fvcore",
            "fusion": "pointwise",
            "total": {"flops": "4.2G", "n_params": 25_600_000, "peak_memory": "2 GiB", "mrw": "1 KiB"},
            "module": {"0": {"mread": "100 MiB"}, "1*": {"flops": 3}},
            "operator": {"conv": {"macs": "4G"}, "relu": {"flops": 0}},
            "time": {"l4": {"bound_seconds": "5 ms", "dtype": "bfloat16"}},
        },
        {"total": {"flops@macs": "4G", "bound_seconds@l4": "2 ms", "arena": "256 KiB"}},
    ]


def _devices() -> list[Any]:
    return [loads(path.read_text(encoding="utf-8")) for path in sorted(DEVICES.glob("*.toml"))]


def _calibrations() -> list[Any]:
    """Return a device with a calibration of three families, by one call of each."""
    points = (
        Point(OpSignature("linear", "product", (0.0, 10.0, 10.0, 0.0, 2.0, 0.0, 0.0), 1e12, 4e6), 1.0),
        Point(OpSignature("copy", "move", (0.0, 30.0, 0.0, 0.0), 0.0, 1e12), 1.0),
        Point(OpSignature("relu", "arithmetic", (10.0, 13.0, 0.0, 0.0), 1024.0, 8192.0), 1e-6),
    )
    off = {name: ((0.0, Error(0.1, 0.3)), (2.0, Error(0.2, 0.6))) for name in ("linear", "copy", "relu")}
    versions = {"torch": "2.13.0"}
    conditions = Conditions("a device", "float32", 0, "events", "2026-11-22", 0.04, 60.0, versions=versions, flags={})
    measured = to_toml(Calibration(points, Errors(off, {"product": 0.8, "arithmetic": 0.6})), conditions)
    return [{**_devices()[0], "calibration": measured}]


def _conventions() -> list[Any]:
    return [loads(path.read_text(encoding="utf-8")) for path in sorted(CONVENTIONS.glob("*.toml"))]


def _rows() -> list[Any]:
    row = {"name": "a:b", "width": 2, "flops": 12, "macs": "3*n", "status": "complete", "failed": False, "key": "ab12"}
    return [[row, {**row, "width": 0.5, "key": "cd34", "macs": None}, {**row, "flops": {}, "failed": True}]]


def _lines(rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _traces() -> list[Any]:
    files = sorted((ROOT / "tests/data/traces/own").glob("inference.*.json.gz"))
    return [json.loads(gzip.decompress(path.read_bytes())) for path in files]


def _configurations() -> list[Any]:
    """Return small configurations of transformers: of text, images, speech, experts, and of two models in one."""
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}
    text = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 50, **sizes}
    image = {"model_type": "clip_vision_model", "image_size": 28, "patch_size": 14, **sizes}
    return [
        text,
        {**text, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 4},
        {**text, "model_type": "bert", "architectures": ["BertForSequenceClassification"], "id2label": {"0": "a"}},
        {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32},
        {"model_type": "vit", "image_size": 32, "patch_size": 16, **sizes},
        {"model_type": "swin", "image_size": 32, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2]},
        {"model_type": "resnet", "depths": [1, 1], "hidden_sizes": [8, 16], "embedding_size": 8},
        {"model_type": "whisper", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "max_source_positions": 20,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2},
        {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": text,
         "vision_config": image, "image_token_index": 49},
    ]  # fmt: skip


def _use_configuration(path: Path) -> None:
    model = load_model(f"hf:{path}")
    with suppress(CostError):  # the default inputs may not fit the changes
        estimate(f"hf:{path}").show_report()
    repr(type(model))


KINDS = {
    "report": Kind(".json", _reports, _with_total, _use_report),
    "budget": Kind(".toml", _budgets, toml_text, _use_budget),
    "baseline": Kind(".json", lambda: [_subject().to_dict()], json.dumps, _use_baseline),
    "calibration": Kind(".toml", _calibrations, toml_text, _use_device),
    "config": Kind(".json", _configurations, json.dumps, _use_configuration),
    "convention": Kind(".toml", _conventions, toml_text, _use_convention),
    "device": Kind(".toml", _devices, toml_text, _use_device),
    "rows": Kind(".jsonl", _rows, _lines, _use_rows),
    "trace": Kind(".pt.trace.json", _traces, json.dumps, _use_trace),
}


def main(arguments: list[str] | None = None) -> int:
    """Print the outcomes of each kind of file; return 1 if a file raised another exception."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="default: all")
    parser.add_argument("--files", type=int, default=1000, help="files of each kind")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first file")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the maximum seconds for each kind")
    args = parser.parse_args(arguments)
    status = 0
    for name in args.kinds or KINDS:
        start = time.monotonic()
        tally = fuzzed(KINDS[name], args.seed, args.files, args.seconds)
        n = tally.accepted + tally.refused.total() + len(tally.foreign)
        print(
            f"{name}: {n} files in {time.monotonic() - start:.0f} s, {tally.accepted / n:.0%} accepted, "
            f"{tally.refused.total()} refused, {len(tally.foreign)} other exceptions",
            flush=True,
        )
        by_place: dict[str, list[int]] = {}
        for number, problem in tally.foreign.items():
            by_place.setdefault(problem, []).append(number)
            status = 1
        for problem, numbers in sorted(by_place.items(), key=lambda item: -len(item[1])):
            print(f"    {len(numbers)} x {problem} (--seed {numbers[0]})")
    return status


if __name__ == "__main__":
    sys.exit(main())
