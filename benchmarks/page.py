"""Measures the HTML page of 10,000 calls: the time to write it, and the time until a headless Chromium has drawn it.

Run in the root of the repository: ``python benchmarks/page.py [--calls N]``, in an environment with onnx, selenium,
``chromium`` and ``chromedriver`` (``make test-browser`` installs them). Without a browser, only writing is measured.
"""

from __future__ import annotations

import argparse
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from onnx import ModelProto, TensorProto, helper

from costcore import Report, estimate
from costcore.trace.trace import Trace

DRAWN = "return document.querySelectorAll('#scatter .dots').length && performance.now() / 1000"
"""Seconds since the page was requested, once its last chart is drawn."""


def chain(length: int) -> ModelProto:
    """Return a chain of operators of four kinds."""
    kinds = ("Relu", "Sigmoid", "Add", "Mul")
    nodes = []
    for i in range(length):
        op = kinds[i % 4]
        inputs = [f"x{i}", "x0"] if op in ("Add", "Mul") else [f"x{i}"]
        nodes.append(helper.make_node(op, inputs, [f"x{i + 1}"], f"/stage{i // 100}/layer{i // 10}/{op}"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 64, 56, 56)) for name in ("x0", f"x{length}")]
    return helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:]))


def drawn(page: Path) -> float:
    """Return the seconds until a browser has drawn a page."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1440,1000"):
        options.add_argument(argument)
    with Chrome(options=options, service=Service(shutil.which("chromedriver"))) as browser:
        browser.get(page.as_uri())
        return float(WebDriverWait(browser, 60, 0.01).until(lambda each: each.execute_script(DRAWN)))


def memory_ratio(calls: int) -> tuple[int, float]:
    """Return the calls of a training step, and the CPU time of its page with memory divided by that without."""
    import torch

    layers = [torch.nn.Linear(8, 8) if i % 2 else torch.nn.ReLU() for i in range(calls // 3)]
    step = estimate(torch.nn.Sequential(*layers), (4, 8), memory=True, backward=True)
    without = Report(Trace(step.trace.records, step.trace.run.recording(memory=None)))
    step_time, time_without = (min(_cpu_seconds(report) for _ in range(3)) for report in (step, without))
    return len(step.calls), step_time / time_without


def _cpu_seconds(report: Report) -> float:
    fresh = Report(report.trace)
    start = time.process_time()
    fresh.to_html()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    calls = parser.parse_args().calls
    report = estimate(chain(calls))
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        start = time.perf_counter()
        report.to_html(page)
        print(f"{calls} calls: written in {time.perf_counter() - start:.2f} s, {page.stat().st_size / 1e6:.1f} MB")
        if find_spec("selenium") and shutil.which("chromium") and shutil.which("chromedriver"):
            print(f"drawn by a browser in {drawn(page):.2f} s (limit: 3 s)")
        else:
            print("not drawn: selenium, chromium or chromedriver is not installed")
    if find_spec("torch"):
        n, ratio = memory_ratio(calls)
        print(f"a training step of {n} calls: written in {ratio:.2f} times the time of its page without memory")


if __name__ == "__main__":
    main()
