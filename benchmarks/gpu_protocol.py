"""Measures a GPU for everything that costcore reports about time: ceilings, calibration, networks, counters, fusion.

Run in the root of the repository, in an environment with torchvision and transformers, on a machine with a GPU:
``python -m benchmarks.gpu_protocol --output FOLDER [--steps 0 1 2 …] [--base DEVICE] [--only NAME …]``. It takes about
25 minutes, changes no setting of the GPU, and writes ``results.json`` and one device file per dtype. Steps that the
machine does not support are skipped; the reason is printed and written. ``--device cpu --quick`` tries the steps
without a GPU.

0. Facts: names, versions, clocks, size of the L2 cache.
1. Ceilings: copy, read-only and write-only bandwidth, a copy that stays in the L2 cache, products per dtype, launches.
2. Sweeps: a calibration per dtype, in the usual state and with the L2 cache flushed after every round.
3. Networks: eager with events per call, in a CUDA graph, and compiled; against bound and calibrated time.
4. Counters of one pass: bytes of DRAM and of the L2 cache, and instructions, by CUPTI through ``torch.profiler``.
5. Fusion: kernels and bytes of TorchInductor on this device against ``report.fused("pointwise")``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.networks import Network, available
from costcore import ComputationalCostHook, estimate
from costcore.analyses.devices.device import Device, find_device
from costcore.analyses.timing.time_report import toml_text
from costcore.cli.training import device_file
from costcore.frontends.pytorch.calibration import calibrate, versions

QUERY = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.draw,temperature.gpu"
NETS = (
    *("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "densenet121", "vit_b_16", "swin_t"),
    *("bert_4x256", "gpt2_4x512", "llama_4x512", "unet"),
)
COUNTERS = (
    *("dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum", "sm__inst_executed_pipe_tensor.sum"),
    *(f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in ("ffma", "fadd", "fmul")),
    "sm__inst_executed_pipe_xu.sum",
)
REFUSALS = (RuntimeError, ValueError, ImportError, OSError)
"""Errors for a missing device, dtype, counter or compiler. Any other exception is an error of this script."""


class Session(NamedTuple):
    """The device under test, and how much is measured."""

    device: torch.device
    quick: bool
    base: Device | None
    networks: Mapping[str, Network]
    folder: Path
    results: dict[str, Any]

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    def wait(self) -> None:
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def seconds(self, run: Callable[[], object], repeats: int = 10) -> float:
        """Return the median time of ``run``: by events on a GPU, of the clock elsewhere."""
        run()
        self.wait()
        times = []
        for _ in range(2 if self.quick else repeats):
            if self.is_gpu:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                run()
                end.record()
                self.wait()
                times.append(start.elapsed_time(end) / 1000)
            else:
                began = time.perf_counter()
                run()
                times.append(time.perf_counter() - began)
        return median(times)

    def attempt(self, name: str, run: Callable[[], Any]) -> Any:
        """Store, print and return the result of ``run``; for a refusal, the reason and None."""
        try:
            found = run()
        except REFUSALS as error:
            self.refuse(name, error)
            return None
        self.results[name] = found
        print(f"{name}: {_short(found)}", flush=True)
        self.note_clocks()
        return found

    def refuse(self, name: str, error: Exception) -> None:
        """Store and print why the machine does not support a measurement."""
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        self.results[name] = {"skipped": reason, "trace": traceback.format_exc()}
        print(f"{name}: skipped, {_short(reason)}", flush=True)

    def note_clocks(self) -> None:
        if self.is_gpu and shutil.which("nvidia-smi"):
            self.results.setdefault("clocks", []).append([time.time(), _nvidia_smi()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, metavar="FOLDER", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--steps", nargs="+", type=int, default=[*range(6)], choices=range(6))
    parser.add_argument("--base", metavar="DEVICE", help="the device of the library whose peaks and memory the GPU has")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of networks")
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats, to try this script")
    args = parser.parse_args()
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        print(f"skipped: torch {torch.__version__} finds no CUDA device")
        return
    args.output.mkdir(parents=True, exist_ok=True)
    base = None if args.base is None else find_device(args.base)
    session = Session(torch.device(args.device), args.quick, base, available(args.only or NETS), args.output, {})
    torch.manual_seed(0)
    for step in args.steps:
        STEPS[step](session)
        text = json.dumps(session.results, indent=1)
        (args.output / "results.json").write_text(text + "\n", encoding="utf-8")


def facts(session: Session) -> None:
    session.attempt("versions", lambda: versions(session.device))
    if session.is_gpu:
        session.attempt("nvidia-smi", _nvidia_smi)
        properties = torch.cuda.get_device_properties(session.device)
        names = ("name", "multi_processor_count", "L2_cache_size", "total_memory", "major", "minor")
        session.attempt("device", lambda: {name: getattr(properties, name) for name in names})


def _nvidia_smi() -> dict[str, str]:
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.splitlines()[0]
    return dict(zip(QUERY.split(","), map(str.strip, text.split(",")), strict=True))


def ceilings(session: Session) -> None:
    """Rates in GB/s and TFLOP/s, and seconds per launch."""
    n = 2**20 if session.quick else 2**30
    x = torch.randn(n, device=session.device)
    y = torch.empty_like(x)
    session.attempt("copy GB/s", lambda: 8 * n / session.seconds(lambda: y.copy_(x)) / 1e9)
    session.attempt("read GB/s", lambda: 4 * n / session.seconds(x.sum) / 1e9)
    session.attempt("write GB/s", lambda: 4 * n / session.seconds(lambda: y.fill_(1.0)) / 1e9)
    small, other = x[: 2**20], y[: 2**20]
    session.attempt(
        "L2 copy GB/s", lambda: 8 * 2**20 * 50 / session.seconds(_often(lambda: other.copy_(small), 50)) / 1e9
    )
    for name in ("float32", "tfloat32", "bfloat16", "float16", "float8", "int8"):
        session.attempt(f"{name} TFLOP/s", lambda name=name: _product(session, name))
    one = torch.zeros(1, device=session.device)
    launches = 100 if session.quick else 10_000
    session.attempt("launch seconds", lambda: session.seconds(_often(lambda: one.add_(1), launches), 3) / launches)
    session.attempt(
        "launch in a graph seconds", lambda: _graph_seconds(session, _often(lambda: one.add_(1), 1000)) / 1000
    )


def _often(run: Callable[[], object], times: int) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(times):
            run()

    return repeated


def _product(session: Session, name: str) -> float:
    """Return TFLOP/s of a product of random matrices; zeros would draw less power and run faster."""
    n = 256 if session.quick else 8192
    a, b = (torch.randn(n, n, device=session.device) for _ in range(2))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "tfloat32" else "highest")
    try:
        if name == "int8":
            a, b = (torch.randint(-128, 127, (n, n), device=session.device, dtype=torch.int8) for _ in range(2))
            seconds = session.seconds(lambda: torch._int_mm(a, b))
        elif name == "float8":
            scale = torch.ones((), device=session.device)
            a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t().contiguous().t()
            seconds = session.seconds(lambda: torch._scaled_mm(a8, b8, scale, scale, out_dtype=torch.bfloat16))
        else:
            dtype = torch.float32 if name == "tfloat32" else getattr(torch, name)
            a, b = a.to(dtype), b.to(dtype)
            seconds = session.seconds(lambda: a @ b)
    finally:
        torch.set_float32_matmul_precision(before)
    return 2 * n**3 / seconds / 1e12


def _graph_seconds(session: Session, run: Callable[[], object]) -> float:
    """Return the time of ``run`` in a CUDA graph."""
    if not session.is_gpu:
        raise NotImplementedError("CUDA graphs need a CUDA device")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return session.seconds(graph.replay)


def sweeps(session: Session) -> None:
    for dtype in ("float32", "bfloat16"):
        session.attempt(f"sweep {dtype}", lambda dtype=dtype: _sweep(session, dtype, flushed=False))
        session.attempt(f"sweep {dtype}, flushed", lambda dtype=dtype: _sweep(session, dtype, flushed=True))


def _sweep(session: Session, dtype: str, flushed: bool) -> dict[str, Any]:
    """Calibrate, write the device file, and return what the sweep found."""
    size = torch.cuda.get_device_properties(session.device).L2_cache_size if session.is_gpu else 2**20
    scratch = torch.empty(3 * size, dtype=torch.uint8, device=session.device)
    flush = scratch.zero_ if flushed else lambda: None
    calibration, conditions = calibrate(str(session.device), dtype, quick=session.quick, after_round=flush)
    name = f"{session.device.type}-{dtype}{'-flushed' if flushed else ''}"
    content = device_file(name, session.device.type, calibration, conditions, session.base)
    (session.folder / f"{name}.toml").write_text(toml_text(content), encoding="utf-8")
    rates, errors = calibration.rates._asdict(), calibration.errors._asdict()
    return {"noise": conditions.noise, "seconds": conditions.sweep_seconds, **rates, "errors": errors}


def networks(session: Session) -> None:
    batches = (1, 2) if session.quick else (1, 32)
    for (name, network), dtype, batch in product(session.networks.items(), ("float32", "bfloat16"), batches):
        try:
            module, x = _placed(session, network, dtype, batch)
        except REFUSALS as error:
            session.refuse(f"{name}, {dtype}, batch {batch}", error)
        else:
            _network(session, f"{name}, {dtype}, batch {batch}", module, x, dtype)


def _placed(session: Session, network: Network, dtype: str, batch: int) -> tuple[nn.Module, Tensor]:
    x = network.inputs(batch).to(session.device)
    kind = getattr(torch, dtype)
    return network.make().eval().to(session.device, kind), x.to(kind) if x.is_floating_point() else x


def _network(session: Session, label: str, module: nn.Module, x: Tensor, dtype: str) -> None:
    def run() -> object:
        with torch.no_grad():
            return module(x)

    session.attempt(f"{label}, eager", lambda: _eager(session, run, dtype))
    session.attempt(f"{label}, eager seconds", lambda: session.seconds(run))
    session.attempt(f"{label}, graph seconds", lambda: _graph_seconds(session, run))
    session.attempt(f"{label}, compiled seconds", lambda: _compiled(session, module, x))


def _eager(session: Session, run: Callable[[], object], dtype: str) -> dict[str, Any]:
    """Measure every call, and compare with bound and calibrated time."""
    reports = []
    for _ in range(2 if session.quick else 5):
        if session.is_gpu:
            torch.cuda._sleep(
                20_000_000
            )  # delay the kernels until all calls are queued, so that events measure kernels only
        with ComputationalCostHook(measure_time=True) as hook:
            run()
        reports.append(hook.report)
    found = reports[0].time(_calibrated(session, dtype)).compare(*reports[1:])
    total = found.total
    return {**total._asdict(), "below bound": [group.name for group in found.violations], "calls": len(found.groups)}


def _calibrated(session: Session, dtype: str) -> Device:
    file = session.folder / f"{session.device.type}-{dtype}.toml"
    if file.exists():
        return find_device(file)
    return session.base or Device("unknown", "gpu")


def _compiled(session: Session, module: nn.Module, x: Tensor) -> dict[str, Any]:
    compiled = torch.compile(module)
    with torch.no_grad():
        seconds = session.seconds(lambda: compiled(x))
        kernels = _kernels(session, lambda: compiled(x))
    return {"seconds": seconds, "kernels": len(kernels), "kernel seconds": sum(each for _, each in kernels)}


def _kernels(session: Session, run: Callable[[], object], **options: Any) -> list[tuple[str, float]]:
    """Return name and seconds of every kernel of one pass."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if session.is_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, **options) as profile:
        run()
        session.wait()
    on_device = torch.autograd.DeviceType.CUDA if session.is_gpu else torch.autograd.DeviceType.CPU
    return [
        (event.name, event.time_range.elapsed_us() / 1e6)
        for event in profile.events()
        if event.device_type == on_device
    ]


def counters(session: Session) -> None:
    for name in [each for each in ("resnet50", "vit_b_16", "llama_4x512") if each in session.networks]:
        session.attempt(f"{name}, counters", lambda name=name: _counters(session, session.networks[name]))


def _counters(session: Session, network: Network) -> dict[str, Any]:
    if not session.is_gpu:
        raise NotImplementedError("hardware counters need a CUDA device")
    if not hasattr(torch._C._profiler, "_ExperimentalConfig"):
        raise NotImplementedError(f"the profiler of PyTorch {torch.__version__} does not read hardware counters")
    module, x = _placed(session, network, "float32", 8)
    config = torch._C._profiler._ExperimentalConfig(profiler_metrics=[*COUNTERS], profiler_measure_per_kernel=True)
    trace = session.folder / "counters.json"
    with torch.no_grad():
        module(x)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CUDA], experimental_config=config
        ) as profile:
            module(x)
            session.wait()
    profile.export_chrome_trace(str(trace))
    found = dict.fromkeys(COUNTERS, 0.0)
    for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]:
        for name, value in event.get("args", {}).items():
            if name in found:
                found[name] += float(value)
    if not any(found.values()):
        raise RuntimeError("the profiler returned no counters (they may need permission of the driver)")
    fused = estimate(module.cpu(), x.cpu()).fused("pointwise").total_report
    return {**found, "fused bytes": fused["mrw"], "macs": fused["macs"]}


def fusion(session: Session) -> None:
    for name, network in session.networks.items():
        session.attempt(f"{name}, fusion", lambda network=network: _fusion(session, network))


def _fusion(session: Session, network: Network) -> dict[str, Any]:
    """Return kernels and bytes of TorchInductor, and those of ``report.fused``."""
    from torch._inductor import metrics

    module, x = _placed(session, network, "float32", 1)
    torch._dynamo.reset()
    metrics.reset()
    with torch.no_grad():
        torch.compile(module)(x)
    time_of = estimate(module.cpu(), x.cpu())
    fused = time_of.fused("pointwise").total_report["mrw"]
    return {"inductor bytes": metrics.num_bytes_accessed, "kernels": metrics.generated_kernel_count, "bytes": fused}


def _short(found: object) -> str:
    text = f"{found:.4g}" if isinstance(found, float) else str(found)
    return text if len(text) <= 300 else text[:299] + "…"


STEPS = (facts, ceilings, sweeps, networks, counters, fusion)

if __name__ == "__main__":
    main()
