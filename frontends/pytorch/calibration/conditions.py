"""Under which conditions a sweep runs: the processor, its clock, versions and flags."""

from __future__ import annotations

import platform
import shutil
import subprocess
from datetime import date
from pathlib import Path

import torch

from costcore._version import __version__
from costcore.analyses.timing.calibration_table import Conditions
from costcore.isolated import is_current
from costcore.trace.recorder import CPU_TIME

CPUINFO = Path("/proc/cpuinfo")


def clock_of(device: torch.device, threads: int) -> bool | str:
    """Return the clock for calls on a device: CPU time if one thread of this machine does all work."""
    return CPU_TIME if device.type == "cpu" and threads == 1 else True


def conditions(device: torch.device, dtype: torch.dtype, noise: float, sweep_seconds: float) -> Conditions:
    """Return the conditions of a sweep that has ended now."""
    is_cpu = device.type == "cpu"
    threads = torch.get_num_threads() if is_cpu else 0
    clock = clock_of(device, threads)
    return Conditions(
        device=_cpu_name() if is_cpu else _accelerator_name(device),
        dtype=str(dtype).removeprefix("torch."),
        threads=threads,
        clock=str(clock) if clock == CPU_TIME else "wall" if is_cpu else "events",
        date=date.today().isoformat(),
        noise=float(f"{noise:.3g}"),
        sweep_seconds=float(f"{sweep_seconds:.3g}"),
        clock_mhz=_cpu_mhz() if is_cpu else gpu_mhz(device),
        units=_multiprocessors(device),
        versions=versions(device),
        flags=_flags(device),
    )


def versions(device: torch.device) -> dict[str, str]:
    """Return the versions of the libraries that compute on a device."""
    found = {"costcore": __version__, "torch": torch.__version__}
    if device.type == "cuda":
        found |= {"cuda": str(torch.version.cuda or torch.version.hip), "cudnn": str(torch.backends.cudnn.version())}
    return found


def _flags(device: torch.device) -> dict[str, str]:
    flags = {"float32_matmul_precision": torch.get_float32_matmul_precision()}
    if device.type == "cuda":
        backend = torch.backends.cudnn
        flags |= {"cudnn.allow_tf32": str(backend.allow_tf32), "cudnn.benchmark": str(backend.benchmark)}
        flags["cudnn.deterministic"] = str(backend.deterministic)
    if device.type == "cpu":
        flags |= {
            "mkldnn": str(torch.backends.mkldnn.is_available()),
            "capability": torch.backends.cpu.get_cpu_capability(),
        }
    return flags


def _cpu_info(key: str) -> str:
    """Return a field of the first processor; empty if the system does not state it."""
    lines = CPUINFO.read_text(encoding="utf-8").splitlines() if CPUINFO.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def _cpu_name() -> str:
    return _cpu_info("model name") or platform.processor() or platform.machine()


def _cpu_mhz() -> float:
    return float(_cpu_info("cpu MHz") or 0.0)


def _accelerator_name(device: torch.device) -> str:
    module = getattr(torch, device.type)
    return str(module.get_device_name(device)) if hasattr(module, "get_device_name") else device.type


def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 0


def gpu_mhz(device: torch.device) -> float:
    """Return the clock of the multiprocessors now; 0 if the driver does not report it."""
    tool = shutil.which("nvidia-smi")
    if device.type != "cuda" or tool is None or is_current(str(Path(tool).parent)):
        return 0.0
    command = [tool, "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", f"--id={device.index or 0}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    text = result.stdout.strip()
    return float(text) if text.replace(".", "", 1).isdigit() else 0.0
