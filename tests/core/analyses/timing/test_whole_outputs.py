"""All that is said of the time of one small run, compared as a whole; ``--overwrite`` regenerates tests/golden/time.

The device reads 0.7e12 bytes per second behind 1 MB, 3e12 behind 0.1 MB, and 90e12 from there. Bounds by hand, of which
the others follow:

* ``conv-0``: of 3 x 3 taps on 40 x 30 positions (3 * 40 - 2) * (3 * 30 - 2) do not fall on the padding, for 16 x 8
  channels: 1,329,152 products. Winograd's algorithm needs 1 / (3 * 6 / 8)² of them: 525,098 FLOP at 4e12 take 131.3 ns;
* ``linear-3``: 2 * 30 * 700 * 900 FLOP at 4e12 take 9.45 µs, more than its 2,604,000 bytes less 1 MB at 0.7e12;
* ``relu-4`` runs three times: 27,000 comparisons at 5e11 take 54 ns, and 2 * 8,000 bytes at 3e12 5.3 ns;
* ``softmax-5`` computes 27,000 exponentials, 1e11 per second and 1.25e11 more as polynomials: 120 ns;
* ``embedding-7`` reads and writes 28,020 bytes at 90e12: 0.31 ns.
"""

from __future__ import annotations

import re
from io import StringIO
from random import Random

import pytest

from costcore import Report, Trace
from costcore.ir import Layer, Tensor
from tests.command_line import main
from tests.core.analyses.fusion.runs import Calls
from tests.core.analyses.fusion.test_whole_runs import of_heads, of_rows
from tests.core.analyses.timing.toy_device import Cache, Memory, calibrated_device, device
from tests.core.given_costs import dense, net, relu
from tests.core.traces import Call, CallCost
from tests.frameworks import optional
from tests.whole_text import as_json, drawing

OF_GROUPS = ("name", "names", "type", "op", "module", "phase", "dtype", "n_layers")
SHARED = (
    *("mread", "mwrite", "mrw", "flops", "bound_seconds", "bound_seconds%", "binds"),
    *("matrix_seconds", "vector_seconds", "special_seconds", "dram_seconds", "cache_seconds", "seconds", "seconds%"),
)

MEMORY = Memory(700.0, (Cache(100_000, 90_000.0), Cache(1_000_000, 3000.0)))
PLAIN = device(memory=MEMORY, notes=("a note of the device",))
CALIBRATED = calibrated_device(memory=MEMORY)
SECONDS = (5e-6, None, 4e-7, 41e-6, 5e-7, 2e-7, 1e-5, 3e-6, 2e-9)
"""What was measured of each call; the last one took less than its bound, which is 3.7 ns."""


def report(seconds=(), extra=True) -> Report:
    calls = Calls()
    x, w = calls.given(1, 8, 40, 30), calls.given(16, 8, 3, 3, role="param")
    y = calls("conv", x, w, shape=(1, 16, 40, 30), padding=(1, 1), stride=(1, 1))
    y = calls("view", y, shape=(16, 1200))
    y = calls("relu", y)
    v, weight = calls.given(30, 700), calls.given(900, 700, role="param")
    z = calls("linear", v, weight, shape=(30, 900))
    z = calls("relu", z, times=3, region="loop")
    z = calls("softmax", z, axis=1)
    a = calls("matmul", z, calls.given(900, 40), shape=(30, 40), phase="backward")
    calls("embedding", weight, calls.given(5), shape=(5, 700), names=("w", "x"))
    calls("add", a, a)
    trace = calls.trace(a, fma_1flop=True, frameworks={"toy": "1.5"})
    records = [record._replace(seconds=each) for record, each in zip(trace.records, seconds or [None] * 9, strict=True)]
    layer = Layer("mystery", {"x": Tensor((3,))}, [Tensor((3,))])
    unknown = CallCost(Call(layer, "mystery", "test::mystery", "mystery-9"), None)
    return Report(Trace((*records, unknown) if extra else tuple(records), trace.run))


def shown(method, **options) -> str:
    stream = StringIO()
    method(stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["plain", "calibrated"])
@pytest.mark.parametrize("fusion", ["none", "compiler"])
def test_the_file(golden, name, fusion):
    time = report().time({"plain": PLAIN, "calibrated": CALIBRATED}[name], fusion=fusion)
    golden(f"time/{name}_{fusion}.json", as_json(time.to_dict()))


@pytest.mark.parametrize("name", ["plain", "calibrated"])
def test_texts_and_tables(golden, name):
    time = report().time({"plain": PLAIN, "calibrated": CALIBRATED}[name])
    parts = [
        repr(time),
        str(time),
        shown(time.show_report, mode="csv", columns=[*OF_GROUPS, *SHARED], unit=None),
        shown(time.show_report, mode="table", sort="bound_seconds", top=2),
        shown(time.show_summary_report, mode="csv", columns=["type", "n_groups", "n_layers", *SHARED], unit=None),
        shown(time.show_summary_report, mode="md", sort="type", top=3),
    ]
    golden(f"time/{name}.txt", "\n".join(parts))


def test_a_table_of_devices(golden, tmp_path, capsys):
    path = tmp_path / "report.json"
    net(dense("a", 1000), relu("b", 10**6), dense("c", 30), framework="torch").to_json(path)
    for mode in ("csv", "table"):
        assert main(["time", str(path), "--device", "l4,h100-sxm5-80gb-traces,cortex-m4-168", "--format", mode]) == 0
    golden("time/devices.txt", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["plain", "calibrated"])
def test_the_section_of_the_page_and_the_picture(golden, name):
    time = report().time({"plain": PLAIN, "calibrated": CALIBRATED}[name])
    golden(
        f"time/{name}.html",
        re.search(r"<section id='time'.*?</section>", time.to_html(), re.DOTALL)[0].replace("><", ">\n<") + "\n",
    )
    golden(f"time/{name}.svg", time.to_svg().replace("><", ">\n<"))


def test_the_plot(golden):
    optional("matplotlib")
    picture = report().plot("roofline", device=device(memory=Memory(7.0)))
    (axes,) = picture.figure().axes
    golden("time/plot.json", as_json({"columns": picture.columns, "rows": [*picture], "axes": drawing(axes)}))


@pytest.mark.parametrize("name", ["plain", "calibrated"])
def test_a_comparison(golden, name):
    time = report(extra=False).time({"plain": PLAIN, "calibrated": CALIBRATED}[name])
    found = time.compare(report(SECONDS))
    parts = [
        repr(found),
        str(found),
        as_json(found.to_dict()),
        shown(found.show, mode="csv", by="family"),
        shown(found.show, mode="table", by="call", top=3),
    ]
    golden(f"time/compared_{name}.txt", "\n".join(parts))


def test_bounds_of_fused_runs(golden):
    """What compilers copy or read twice does not count: see :mod:`costcore.analyses.timing.bound`."""
    found = {}
    for seed in range(12):
        for kind, make in (
            ("rows", lambda seed: of_rows(Random(seed), 14)),
            ("heads", lambda seed: of_heads(Random(seed), 2)),
        ):
            for fusion in ("none", "pointwise", "compiler"):
                times = Report(make(seed)).time(device(peak={}, memory=Memory(4.0)), fusion=fusion, tf32=())
                found[f"{kind} {seed} {fusion}"] = [round(1e9 * group.bound_seconds, 3) for group in times.groups]
    golden("time/fused.json", as_json(found))
