"""Calibrate a device: run the sweep, and return the calibration with its error.

A sweep measures operators inside chains. A chain is a short sequence of operators as in a real network, so that each
operator runs under realistic conditions. Chains for sequences are below, all others in :mod:`.chains`.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from costcore._version import __version__
from costcore.analyses.timing.calibrated import Conditions
from costcore.analyses.timing.calibration import Calibration, OpSignature, Point, Rates, left_out_errors, signature_of
from costcore.api.hook import make_report
from costcore.errors import CostError, unknown
from costcore.isolated import is_current
from costcore.registry import CustomCalculators
from costcore.trace.run import CPU_TIME, Recorder
from costcore.trace.trace import CallCost

from ..capture.context import capture
from .chains import IMAGE_CHAINS, SIGNAL_CHAINS, VOLUME_CHAINS, Made, Maker, Residual, Shapes

Progress = Callable[[Iterable[int], str], Iterable[int]]

FULL = (750, 2e9, 3)
"""Number of chains, maximum MACs of a chain, and number of rounds."""

QUICK = (44, 2e6, 2)
"""The same for a quick sweep: a few seconds, rough estimates only."""

DTYPES = ("float32", "bfloat16", "float16", "float64")

AHEAD_CYCLES = 4_000_000
"""The cycles that a GPU waits before each chain, so that its operators are queued before they start."""


def calibrate(
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 1,
    quick: bool = False,
    seed: int = 0,
    after_round: Callable[[], object] = lambda: None,
    progress: Progress = lambda items, _: items,
) -> tuple[Calibration, Conditions]:
    """Return a calibration of a device by PyTorch, and the conditions under which it was measured.

    Threads, the default dtype and the state of random generators are restored.

    Args:
        device: ``cpu``, ``cuda:0`` or another device of PyTorch.
        dtype: the dtype of weights and activations.
        threads: number of CPU threads. One thread is measured in CPU time, which other programs do not lengthen.
        quick: whether to run a small sweep of a few seconds.
        seed: seed of the shapes and their order.
        after_round: called after every round, so that other work can be measured under the same conditions.
        progress: wraps the items of a round in a progress bar, ``progress(items, name)``. It draws between
            measurements.

    Raises:
        ValueError: if the device, the dtype or the number of threads is invalid.
        CostError: if this PyTorch or this machine does not have the device.
    """
    chosen = _device(device)
    if dtype not in DTYPES:
        raise ValueError(unknown("dtype", dtype, DTYPES))
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads must be a whole number of at least 1 (got {threads!r})")
    count, limit, rounds = QUICK if quick else FULL
    start = perf_counter()
    with _threads(threads), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        chains = [_on_device(chain, chosen, getattr(torch, dtype)) for chain in make_chains(count, limit, seed)]
        sweep = Sweep(chains, clock_of(chosen, threads), seed, _queue_ahead(chosen), partial(gpu_mhz, chosen))
        sweep.run(rounds, after_round, progress)
        points = sweep.points()
        found = conditions(chosen, getattr(torch, dtype), sweep.noise(), perf_counter() - start)
    rates = Rates.of(points, found.units)
    return Calibration(points, left_out_errors(points, rates), found.units, dtype), found


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r} (expected cpu, cuda, cuda:0, xpu or mps)") from error
    module = getattr(torch, device.type, None)
    if device.type != "cpu" and (module is None or not module.is_available()):
        raise CostError(f"this machine or this build of PyTorch ({torch.__version__}) has no device {name!r}")
    return device


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _on_device(chain: Chain, device: torch.device, dtype: torch.dtype) -> Chain:
    inputs = (x.to(device, dtype if x.is_floating_point() else None) for x in chain.inputs)
    return chain._replace(module=chain.module.to(device, dtype), inputs=tuple(inputs))


def _queue_ahead(device: torch.device) -> Callable[[], object]:
    # Events would measure how fast a chain is launched, unless the GPU waits until it is queued.
    if device.type != "cuda" or not hasattr(torch.cuda, "_sleep"):
        return lambda: None
    return lambda: torch.cuda._sleep(AHEAD_CYCLES)


# The sweep: chains in shuffled order, measured call by call
#
# Libraries compile a kernel when they first see a shape, and drop kernels of shapes that they have not seen for long. A
# network that runs repeatedly finds its kernels compiled. Chains therefore run in groups: one unmeasured run compiles
# all kernels; measured runs follow in other orders, so that the operands of a chain have left the caches.


N_SENTINELS = 10
"""The number of sentinels: chains that are repeated at the start, in the middle and at the end."""

GROUP = 40
"""The number of chains that run one after another before the first one runs again."""

REPEATS = 2
"""How often each chain of a group is measured."""

SENTINEL_RUNS = 3
"""Runs of each sentinel at the start, in the middle and at the end."""

CLOCK_TOLERANCE = 0.03
"""Maximum relative difference of a round's clock from the median clock; other rounds are left out."""


class Sweep:
    """Measures chains on a device.

    Args:
        chains: the chains, on the device.
        clock: True, or :data:`CPU_TIME`.
        seed: of the order of chains.
        before: called before every chain.
        clock_mhz: returns the clock of the device; rounds at another clock than the median are left out.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        clock: bool | str = CPU_TIME,
        seed: int = 0,
        before: Callable[[], object] = lambda: None,
        clock_mhz: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._chains = chains
        self._clock = clock
        self._before = before
        self._shuffle = Random(seed).shuffle
        self._clock_mhz = clock_mhz
        self._rounds: list[tuple[float, dict[OpSignature, list[float]]]] = []
        self._sentinels: list[list[list[float]]] = []

    def run(
        self,
        rounds: int,
        after_round: Callable[[], object] = lambda: None,
        progress: Progress = lambda items, _: items,
    ) -> None:
        """Measure all chains ``rounds`` times, each time in other groups and orders.

        ``after_round`` is called after every round.
        """
        self._watch_sentinels()
        for i in range(rounds):
            found = self._round(f"round {i + 1} of {rounds}", progress)
            self._rounds.append((self._clock_mhz(), found))
            after_round()
            if i == rounds // 2:
                self._watch_sentinels()
        self._watch_sentinels()

    def points(self) -> list[Point]:
        """Return the median time of every kind of call."""
        median_clock = median(clock for clock, _ in self._rounds)
        found: dict[OpSignature, list[float]] = {}
        for clock, round_ in self._rounds:
            if abs(clock - median_clock) <= CLOCK_TOLERANCE * median_clock:
                for signature, seconds in round_.items():
                    found.setdefault(signature, []).extend(seconds)
        return [Point(signature, median(seconds)) for signature, seconds in found.items()]

    def noise(self) -> float:
        """Return the relative spread of a sentinel's times at start, middle and end; the median over sentinels."""
        spreads: list[float] = []
        for times in zip(*self._sentinels, strict=True):
            middles = [median(each) for each in times]
            spreads.append((max(middles) - min(middles)) / median(middles))
        return median(spreads)

    def _round(self, name: str, progress: Progress) -> dict[OpSignature, list[float]]:
        order = list(range(len(self._chains)))
        self._shuffle(order)
        found: dict[OpSignature, list[float]] = {}
        for start in progress(range(0, len(order), GROUP), name):
            for records in self._measure_group(order[start : start + GROUP]):
                for call, cost, _, _, seconds in records:
                    if cost is not None and seconds is not None:
                        found.setdefault(signature_of(call, cost), []).append(seconds)
        return found

    def _measure_group(self, group: list[int]) -> list[Sequence[CallCost]]:
        measured: list[Sequence[CallCost]] = []
        for repeat in range(1 + REPEATS):
            self._shuffle(group)
            found = self._measure([self._chains[i] for i in group])
            measured += found if repeat else []
        return measured

    def _watch_sentinels(self) -> None:
        step = max(1, len(self._chains) // N_SENTINELS)
        chains = self._chains[::step][:N_SENTINELS]
        times: list[list[float]] = [[] for _ in chains]
        for _ in range(SENTINEL_RUNS):
            for mine, records in zip(times, self._measure(chains), strict=True):
                mine.append(sum(record.seconds or 0.0 for record in records))
        self._sentinels.append(times)

    def _measure(self, chains: Sequence[Chain]) -> list[Sequence[CallCost]]:
        recorder = Recorder(measure_time=self._clock)
        ends = [0]
        with capture(recorder) as mode:
            log = mode.recording.logs[-1]
            for chain in chains:
                self._before()
                chain.run()
                ends.append(log.n_calls())
        records = make_report(recorder, CustomCalculators(True), True, "framework").trace.records
        return [records[start:end] for start, end in pairwise(ends)]


# Conditions: the processor, its clock, versions and flags


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
        clock_mhz=float(_cpu_info("cpu MHz") or 0.0) if is_cpu else gpu_mhz(device),
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
    lines = CPUINFO.read_text(encoding="utf-8").splitlines() if CPUINFO.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def _cpu_name() -> str:
    return _cpu_info("model name") or platform.processor() or platform.machine()


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


# Chains for sequences


def _perceptron(shapes: Shapes) -> Made:
    n = shapes.pick((1, 1, 2, 4, 8, 16, 32, 64, 128, 256))
    widths = [shapes.pick((64, 128, 256, 512, 784, 1000, 1024, 2048, 4096, 9216)) for _ in range(3)]
    while n > 1 and n * (widths[0] + widths[2]) * widths[1] > shapes.limit:
        n //= 2
    act = shapes.pick((nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU))
    a, b, c = widths
    layers = [nn.Linear(a, b), act(), nn.Linear(b, c), nn.LayerNorm(c), act(), nn.Linear(c, max(10, c // 4))]
    return nn.Sequential(*layers), (n, a)


def _transformer(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(24)
    head = shapes.pick([d for d in (32, 64, 128) if width % d == 0])
    fused, act = shapes.pick((True, True, False)), shapes.pick((nn.GELU, nn.ReLU, partial(nn.GELU, "tanh")))
    blocks: list[nn.Module] = []
    for _ in range(2):
        blocks.append(Residual(nn.LayerNorm(width), SelfAttention(width, width // head, fused=fused)))
        blocks.append(
            Residual(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), act(), nn.Linear(4 * width, width), nn.Dropout(0.1)
            )
        )
    return nn.Sequential(*blocks), (n, length, width)


def _encoder(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(24)
    head = shapes.pick([d for d in (32, 64) if width % d == 0])
    layers = (nn.TransformerEncoderLayer(width, width // head, 4 * width, batch_first=True) for _ in range(2))
    return nn.Sequential(*layers), (n, length, width)


def _fused(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(4)  # without a perceptron, so that maps are as large as in a vision transformer
    heads = width // shapes.pick([d for d in (32, 64) if width % d == 0])
    return nn.Sequential(Residual(nn.LayerNorm(width), FusedSelfAttention(width, heads))), (n, length, width)


def _window(shapes: Shapes) -> Made:
    n, c, side = shapes.image(24, least=64)
    heads = c // 32
    blocks = (
        Residual(
            Residual(nn.LayerNorm(c), WindowAttention(c, heads, 7)),
            Residual(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c)),
        )
        for _ in range(2)
    )
    return nn.Sequential(*blocks), (n, side, side, c)


def _llama(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(12)
    head = shapes.pick([d for d in (32, 64, 128) if width % d == 0])
    heads = width // head
    kv_heads = shapes.pick([h for h in (1, 2, 4, heads) if heads % h == 0])
    attention = SelfAttention(width, heads, fused=True, causal=True, kv_heads=kv_heads)
    perceptron = GatedPerceptron(width, (8 * width // 3 + 31) // 32 * 32)
    return nn.Sequential(
        Residual(RmsNorm(width), Rotary(), attention), Residual(RmsNorm(width), perceptron), RmsNorm(width)
    ), (n, length, width)


def _mixer(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(10)
    length = max(length, 16)
    return nn.Sequential(Mixer(length, width), Mixer(length, width)), (n, length, width)


def _embedding(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(1)
    n_tokens = shapes.pick((1000, 10000, 32000))
    head = nn.Linear(width, n_tokens, bias=False) if n * length * width * n_tokens < shapes.limit else nn.Identity()
    return nn.Sequential(Embedding(n_tokens, width, length), nn.Dropout(0.1), head), (n, length)


def _recurrent(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(8 * 2)
    hidden = shapes.pick((width, width // 2, 2 * width if width < 512 else width))
    layer = shapes.pick((nn.LSTM, nn.LSTM, nn.LSTM, nn.GRU, nn.GRU, nn.RNN))
    made = layer(width, hidden, shapes.pick((1, 1, 2)), batch_first=True, bidirectional=shapes.pick((True, False)))
    return Recurrent(made), (n, length, width)


def _step(shapes: Shapes) -> Made:
    n, width = shapes.pick((1, 4, 16, 64)), shapes.pick((64, 128, 256, 512, 1024))
    cells = [cell(width, width) for cell in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)]
    return Steps(*cells), (n, width)


def _selection(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(1)
    return Selection(shapes.pick((1, 5, 50))), (n, width, length)


def _distances(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(1)
    return Distances(), ((n, length, width), (n, shapes.pick((16, 64, 256, 1024)), width))


def _pointwise(shapes: Shapes) -> Made:
    return Pointwise(shapes.pick(POINTWISE)), shapes.sequence(1)


SEQUENCE_CHAINS: Mapping[str, tuple[Maker, int]] = {
    "perceptron": (_perceptron, 3),
    "transformer": (_transformer, 7),
    "encoder": (_encoder, 2),
    "fused": (_fused, 4),
    "window": (_window, 3),
    "llama": (_llama, 4),
    "mixer": (_mixer, 2),
    "embedding": (_embedding, 3),
    "recurrent": (_recurrent, 14),
    "step": (_step, 2),
    "selection": (_selection, 4),
    "distances": (_distances, 2),
    "pointwise": (_pointwise, 6),
}
"""The makers of chains, with the share of each kind."""


# Chains of all kinds


MAKERS: Mapping[str, tuple[Maker, int]] = {**IMAGE_CHAINS, **SIGNAL_CHAINS, **VOLUME_CHAINS, **SEQUENCE_CHAINS}
"""The makers of chains of every kind, with the share of the kind."""

TRAINING = 4
"""One in this many chains of a kind also runs its backward pass."""


class Chain(NamedTuple):
    """Operators that run one after another, as in a network.

    Attributes:
        name: its kind and shape.
        module: the blocks.
        inputs: the arguments of the module.
        training: whether the backward pass runs too.
    """

    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    training: bool = False

    def run(self) -> None:
        """Run the chain; a training chain also runs its backward pass and frees the gradients."""
        with torch.set_grad_enabled(self.training):
            result = self.module(*self.inputs)
            if self.training:
                result.sum().backward()
                self.module.zero_grad(set_to_none=True)


def make_chains(count: int, limit: float, seed: int = 0) -> list[Chain]:
    """Return chains on the CPU; the same arguments give the same shapes.

    Args:
        count: about how many chains.
        limit: about the maximum MACs of a chain.
        seed: seed of the shapes.
    """
    shares = sum(share for _, share in MAKERS.values())
    chains = []
    for name, (make, share) in MAKERS.items():
        for i in range(max(1, round(count * share / shares))):
            module, shape = make(Shapes(Random(f"{seed} {name} {i}"), limit))
            training = i % TRAINING == TRAINING - 1 and any(True for _ in module.parameters())
            chains.append(Chain(f"{name} {shape}", module.train(training), _inputs(module, shape), training))
    return chains


def _inputs(module: nn.Module, shape: tuple[Any, ...]) -> tuple[Tensor, ...]:
    embedding = next((each for each in module.modules() if isinstance(each, Embedding)), None)
    if embedding is not None:
        return (torch.randint(embedding.tokens.num_embeddings, shape),)
    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    return tuple(torch.randn(each) for each in shapes)


# Blocks of networks for sequences


class SelfAttention(nn.Module):
    """Projections around attention: fused, or written as products and a softmax."""

    heads: int
    kv_heads: int
    fused: bool
    causal: bool
    d: int
    q: Any
    kv: Any
    out: Any

    def __init__(self, width: int, heads: int, *, fused: bool, causal: bool = False, kv_heads: int = 0) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.fused, self.causal = heads, kv_heads or heads, fused, causal
        self.d = width // heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * self.d * self.kv_heads)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        n, length, width = x.shape
        q = self.q(x).view(n, length, self.heads, self.d).transpose(1, 2)
        k, v = self.kv(x).view(n, length, 2, self.kv_heads, self.d).permute(2, 0, 3, 1, 4).unbind(0)
        if self.kv_heads != self.heads:
            k, v = (each.repeat_interleave(self.heads // self.kv_heads, dim=1) for each in (k, v))
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            y = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * self.d**-0.5, -1) @ v
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class FusedSelfAttention(nn.Module):
    """PyTorch's own module, which runs one fused operator."""

    attention: Any

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        return self.attention(x, x, x, need_weights=False)[0]


class WindowAttention(nn.Module):
    """Attention inside windows of a map, with a position bias, as Swin transformers have it."""

    heads: int
    window: int
    qkv: Any
    out: Any
    bias: Any

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        self.register_buffer("index", torch.arange(window**4) % (2 * window - 1) ** 2)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        n, side, _, width = x.shape
        w, heads = self.window, self.heads
        x = torch.roll(functional.pad(x, (0, 0, 0, -side % w, 0, -side % w)), (-(w // 2), -(w // 2)), (1, 2))
        across = x.shape[1] // w
        y = x.view(n, across, w, across, w, width).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, width)
        q, k, v = self.qkv(y).reshape(-1, w * w, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.bias[self.index].view(w * w, w * w, -1).permute(2, 0, 1).contiguous()
        y = torch.softmax(scores + bias, -1) @ v
        y = self.out(y.transpose(1, 2).reshape(-1, w * w, width))
        y = y.view(n, across, across, w, w, width).permute(0, 1, 3, 2, 4, 5).reshape(n, across * w, across * w, width)
        return torch.roll(y, (w // 2, w // 2), (1, 2))[:, :side, :side, :].contiguous()


class RmsNorm(nn.Module):
    """RMS norm, as language models write it."""

    weight: Any

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Rotary(nn.Module):
    """Rotation of pairs of features by their position."""

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        _, length, width = x.shape
        cos = sin = torch.ones(1, length, width, device=x.device, dtype=x.dtype)
        a, b = x[..., : width // 2], x[..., width // 2 :]
        return x * cos + torch.cat((-b, a), -1) * sin


class GatedPerceptron(nn.Module):
    """The perceptron of LLaMA."""

    gate: Any
    up: Any
    down: Any

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Mixer(nn.Module):
    """A perceptron over positions, then one over features."""

    norm: Any
    over_positions: Any
    over_features: Any

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.over_positions = nn.Sequential(nn.Linear(length, width // 2), nn.GELU(), nn.Linear(width // 2, length))
        self.over_features = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        x = x + self.over_positions(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_features(x)


class Embedding(nn.Module):
    """The first layers of a language model."""

    tokens: Any
    positions: Any
    norm: Any

    def __init__(self, n_tokens: int, width: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(n_tokens, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Any:
        """Run the block."""
        positions = torch.arange(ids.shape[-1], device=ids.device)
        return self.norm(self.tokens(ids) + self.positions(positions))


class Recurrent(nn.Module):
    """A recurrent layer and a linear one on its output."""

    out: Any

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer
        width = layer.hidden_size * (2 if layer.bidirectional else 1)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        return self.out(torch.tanh(self.layer(x)[0]))


class Steps(nn.Module):
    """Recurrent cells, one step of each."""

    cells: Any

    def __init__(self, *cells: nn.Module) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        for cell in self.cells:
            y = cell(x)
            x = x + (y[0] if isinstance(y, tuple) else y)
        return x


class Selection(nn.Module):
    """Elements in another order: sorted, chosen, gathered and summed up along the last axis."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        ordered, places = torch.sort(x, -1)
        best, _ = torch.topk(ordered, min(self.k, x.shape[-1]), -1)
        y = torch.gather(x, -1, places) + torch.cumsum(x, -1)
        y = torch.where(y > best[..., -1:], y, x).masked_fill(y < 0, 0.0)
        return torch.flip(y, (-1,)) + y.max(-1, keepdim=True).values + y.argmin(-1, keepdim=True)


class Distances(nn.Module):
    """Distances between all pairs of two sets of vectors."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Run the block."""
        return torch.cdist(x, y).min(-1).values + torch.linalg.vector_norm(x, dim=-1)


POINTWISE: Sequence[Sequence[Callable[[Tensor], Tensor]]] = (
    (torch.exp, torch.neg, torch.sigmoid, torch.sin, torch.abs),
    (functional.softplus, functional.mish, torch.square, torch.log1p),
    (torch.tanh, torch.cos, functional.selu, torch.erf, torch.floor),
    (functional.hardsigmoid, torch.sqrt, functional.relu6, torch.expm1),
    (torch.reciprocal, functional.logsigmoid, functional.elu, functional.softsign),
)
"""Functions that run one after another; all are defined on 0.1 to 2.0."""


class Pointwise(nn.Module):
    """Functions of single elements, one after another."""

    scale: Any

    def __init__(self, functions: Sequence[Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        self.functions = functions
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        x = x * self.scale
        for function in self.functions:
            x = x + function(x.clamp(0.1, 2.0))
        return x
