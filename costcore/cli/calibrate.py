"""``costcore calibrate``: measure a device, so that times can be estimated."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import Device
from costcore.analyses.devices.runtime_names import device_named
from costcore.analyses.timing.calibrated import plus_minus
from costcore.analyses.timing.calibration import Calibration
from costcore.analyses.timing.calibration_table import Conditions, to_table
from costcore.analyses.timing.from_traces import calibration_of
from costcore.analyses.timing.toml_text import toml_text
from costcore.api.estimate import estimate
from costcore.cli.exit_codes import FAILURE, SUCCESS
from costcore.cli.models import printed_warnings
from costcore.cli.options import command_parser
from costcore.cli.running import command, print_message
from costcore.errors import CostError
from costcore.registry.frontends import ability, reader_of, specs
from costcore.text.targets import save

MAX_NOISE = 0.15
"""A sweep is not saved if the time of the same chains differs by more."""

EPILOG = """examples:
  costcore calibrate --device cpu --output my-cpu.toml
  costcore calibrate --device cuda:0 --dtype bfloat16 --base h100-sxm5-80gb --output my-gpu.toml
  costcore calibrate --from-trace monday.json.gz tuesday.json.gz --output my-gpu.toml

then, with what the sweep measured:
  report.time(device="my-cpu.toml").seconds

exit codes: 0 saved, 1 the device cannot be measured, or the times differ too much, 2 usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore calibrate",
        "--output FILE",
        "Measure chains of operators of many shapes by PyTorch. This takes minutes and needs the device.",
        EPILOG,
    )
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="the device file to write, which ends with .toml"
    )
    parser.add_argument(
        "--from-trace",
        nargs="+",
        metavar="FILE",
        help="instead of measuring: traces of torch.profiler, best of several networks, on the device that "
        "--base names; default: the one that they name",
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default), cuda:0 or another of PyTorch")
    parser.add_argument(
        "--dtype", default="float32", metavar="DTYPE", help="of weights and activations; default: float32"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a CPU; default: 1")
    parser.add_argument("--base", metavar="DEVICE", help="a device whose peaks and memory the file gets, for the bound")
    parser.add_argument("--quick", action="store_true", help="a small sweep of a few seconds, for rough estimates")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the shapes and their order; default: 0")
    parser.add_argument(
        "--allow-noise", action="store_true", help=f"save even if the same chains differ by more than {MAX_NOISE:.0%}%"
    )
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if not args.output.endswith(".toml"):
        raise ValueError(f"--output must end with .toml (got {args.output!r})")
    if not (folder := Path(args.output).resolve().parent).is_dir():
        raise NotADirectoryError(f"{args.output} cannot be written: {folder} is not a folder")
    if args.from_trace:
        return _from_traces(args)
    base = None if args.base is None else _base(args)
    able = next(spec for spec in specs().values() if "calibrate" in spec.abilities)
    calibration, conditions = ability(able, "calibrate")(args.device, args.dtype, args.threads, args.quick, args.seed)
    print(_summary(calibration, conditions))
    if conditions.noise > MAX_NOISE and not args.allow_noise:
        print_message(
            f"costcore: {args.output} was not written: the same chains took {conditions.noise:.0%} longer or shorter "
            f"during the sweep (at most {MAX_NOISE:.0%}). Stop other programs and try again, or use --allow-noise."
        )
        return FAILURE
    save(toml_text(device_file(Path(args.output).stem, args.device, calibration, conditions, base)), args.output)
    return SUCCESS


def _from_traces(args: argparse.Namespace) -> int:
    """Write the device file of what a profiler recorded.

    Raises:
        CostError: if the traces name no device that is known, or have no times of it.
    """
    if args.device != "cpu" or args.quick:
        raise ValueError(
            "--from-trace measures nothing: it takes neither --device nor --quick; --base names the device"
        )
    reports = []
    for path in args.from_trace:
        if not reader_of(path):
            raise CostError(f"{path} is not a trace of torch.profiler")
        with printed_warnings(path, is_quiet=True):
            reports.append(estimate(path))
    profile = reports[0].trace.run.profile
    name = args.base or (device_named(profile.device) if profile is not None else "")
    if not name:
        raise CostError(f"{args.from_trace[0]} names no device of which there is a file: pass --base DEVICE")
    device = named(name)
    found = calibration_of([each.trace for each in reports], [Path(path).name for path in args.from_trace], device)
    print(_summary(found.calibration, found.conditions))
    for reason, n in found.left_out.items():
        print(f"left out: {n} calls {reason}")
    content = device_file(Path(args.output).stem, device.kind, found.calibration, found.conditions, device)
    save(toml_text(content), args.output)
    return SUCCESS


def _base(args: argparse.Namespace) -> Device:
    """Return the device of ``--base``, of a CPU the part with as many cores as there are threads.

    Raises:
        ValueError: if it is not a device of that kind, or has fewer cores.
    """
    base, is_cpu = named(args.base), args.device.startswith("cpu")
    if is_cpu != (base.kind == "cpu"):
        raise ValueError(f"--base {args.base} is a {base.kind}, whose peaks are not those of --device {args.device}")
    return base.with_units(args.threads) if is_cpu else base


def _summary(calibration: Calibration, conditions: Conditions) -> str:
    rates = calibration.rates
    families = {point.site.key for point in calibration.points}
    lines = [
        f"{conditions.device}: {len(calibration.points)} points of {len(families)} families in "
        f"{conditions.sweep_seconds:.0f} s, noise {conditions.noise:.0%}",
        f"best: {rates.peak / 1e9:.4g} GFLOP/s, {rates.bandwidth / 1e9:.4g} GB/s, {1e6 * rates.overhead:.3g} µs a call",
        "error of calls that were left out:",
    ]
    seconds: dict[str, float] = {}
    for site, time in calibration.points:
        seconds[site.key] = seconds.get(site.key, 0.0) + time
    longest = sorted(seconds, key=lambda family: -seconds[family])[:12]
    return "\n".join([*lines, *(f"  {family:<16} {_error(calibration, family)}" for family in longest)])


def _error(calibration: Calibration, family: str) -> str:
    """Return the error of the mean call of a family that is near to others."""
    growth = calibration.errors.families[family]
    return plus_minus(growth[0][1].mean if growth else None)


def device_file(
    name: str, device: str, calibration: Calibration, conditions: Conditions, base: Device | None
) -> dict[str, Any]:
    """Return the content of the device file."""
    kind = "cpu" if device.startswith("cpu") else "gpu"
    units = conditions.threads or conditions.units or None
    content: dict[str, Any] = {"name": name, "kind": kind, "units": units}
    if base is not None:
        content |= _rates_of(base)
    return {**content, "calibration": to_table(calibration, conditions)}


def _rates_of(base: Device) -> Mapping[str, Any]:
    """Return the peaks and the memory of a device, as in a device file."""
    caches = [
        {"bytes": cache.nbytes, **({} if cache.gbs is None else {"gbs": cache.gbs}), "per_unit": cache.per_unit}
        for cache in base.memory.caches
    ]
    return {
        "units": base.units,
        "clock_max_mhz": base.clock_max_mhz,
        "fast_convolution": base.fast_convolution,
        "unbounded": [*base.unbounded],
        "least_kernel_us": base.least_kernel_us,
        "notes": [f"peaks and memory of {base.name}"],
        "peak": base.peak,
        "memory": {"dram_gbs": base.memory.dram_gbs, "dram_gb": base.memory.dram_gb, "caches": caches},
        "sources": [source._asdict() for source in base.sources],
    }
