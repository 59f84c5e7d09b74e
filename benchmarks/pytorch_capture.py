"""Compares the time of a plain pass of a network, a captured pass, and a pass under FlopCounterMode.

``python benchmarks/pytorch_capture.py [--rounds N] [--only NAME ...]`` prints two Markdown tables. The first has the
bars: CPU time of one thread in milliseconds, all ways interleaved in one process, the minimum of all rounds. A capture
is the whole ``with`` block, with empty caches. The second table has later captures with filled caches, the same with
``record_api_calls=True`` (and their ratio), the same by ``ComputationalCostHook``, which also prices every call before
the block ends, then the report alone, and ``estimate`` as a whole.

``benchmarks/speed.py`` measures calls of users on data.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from costcore import ComputationalCostHook, estimate
from costcore.api.hook import make_report
from costcore.frontends.pytorch import capture
from costcore.frontends.pytorch.operators.call_cache import clear_cached_calls
from costcore.registry import CustomCalculators
from costcore.reports.report import Report
from costcore.trace.run import Recorder
from tests.whole_networks.pytorch_models import NETWORKS, Residual, conv, without_data


class Norm(nn.Module):
    """RMSNorm, written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    """Causal attention with rotary positions, several query heads to one of keys and values."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.size = width // heads
        self.query, self.out = nn.Linear(width, width, False), nn.Linear(width, width, False)
        self.key, self.value = (nn.Linear(width, kv_heads * self.size, False) for _ in range(2))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for f in (self.query, self.key, self.value))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Block(nn.Module):
    """Attention and SwiGLU, a norm before each."""

    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.before, self.attention = Norm(width), Attention(width, heads, kv_heads)
        self.between, self.down = Norm(width), nn.Linear(hidden, width, False)
        self.gate, self.up = nn.Linear(width, hidden, False), nn.Linear(width, hidden, False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.before(x), cos, sin)
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Dubey et al., arXiv:2407.21783, table 3: the shapes of the 405B model."""

    def __init__(self) -> None:
        super().__init__()
        words, width, depth, heads, kv_heads, hidden = 128_256, 16_384, 126, 128, 8, 53_248
        self.size, self.words = width // heads, nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(depth))
        self.norm, self.head = Norm(width), nn.Linear(width, words, False)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        pairs = torch.arange(0, self.size, 2, device=tokens.device)
        angles = torch.outer(places, 500_000 ** (-pairs / self.size)).repeat(1, 2)
        x, cos, sin = self.words(tokens), angles.cos(), angles.sin()
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def resnet18() -> nn.Module:
    """He et al., arXiv:1512.03385, table 1."""
    layers = [conv(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            body = nn.Sequential(conv(channels, width, 3, stride=stride), conv(width, width, 3, act=None))
            shortcut = conv(channels, width, act=None, stride=stride) if stride != 1 else None
            layers.append(Residual(body, shortcut, nn.ReLU(inplace=True)))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()


class Case(NamedTuple):
    """A network, its input, and the bars: capture / plain at most, FlopCounterMode / capture at least.

    ``rounds`` replaces ``--rounds``: more if the ratio is noisy, fewer if a round takes long.
    """

    name: str
    build: Callable[[], nn.Module]
    make: Callable[[], Tensor]
    to_plain: float
    to_counter: float | None = None
    backward: bool = False
    rounds: int = 0


def cases() -> Iterator[Case]:
    meta = torch.device("meta")
    for name, to_plain, to_counter in (("resnet50", 0.2, 8.0), ("vit_b_16", 0.2, 8.0)):
        build, shape, *_ = NETWORKS[name]
        for backward in (False, True):
            yield Case(
                name,
                lambda build=build: without_data(build),  # type: ignore[misc]
                lambda shape=shape: torch.empty(shape, device=meta),  # type: ignore[misc]
                1.0 if backward else to_plain,
                None if backward else to_counter,
                backward,
            )
    for backward in (False, True):
        yield Case(
            "Llama-405B",
            lambda: without_data(Llama),
            lambda: torch.empty((1, 4096), dtype=torch.int64, device=meta),
            1.0 if backward else 0.2,
            None if backward else 12.0,
            backward,
            rounds=3,
        )
    for batch, rounds in ((1, 25), (8, 8)):
        yield Case(
            f"ResNet-18, with data, batch {batch}",
            resnet18,
            lambda batch=batch: torch.ones(batch, 3, 224, 224),  # type: ignore[misc]
            1.1,
            rounds=rounds,
        )


class Measured(NamedTuple):
    """The minimum seconds of each way, and the MACs of costcore and of FlopCounterMode."""

    seconds: dict[str, float]
    macs: int
    counter_macs: int


def report_of(recorder: Recorder) -> Report:
    return make_report(recorder, CustomCalculators(), True, "framework")


def measure(case: Case, rounds: int) -> Measured:
    model = case.build()
    least: dict[str, float] = {}
    macs = counter_macs = 0

    def take(way: str, around: AbstractContextManager[object]) -> None:
        x = case.make()
        model.zero_grad()
        gc.collect()
        with torch.set_grad_enabled(case.backward):
            start = process_time()
            with around:
                y = model(x)
                if case.backward:
                    torch.autograd.backward(y, torch.empty_like(y))
            least[way] = min(least.get(way, float("inf")), process_time() - start)

    for _ in range(rounds):
        take("plain", nullcontext())
        clear_cached_calls()
        recorder = Recorder()
        take("capture", capture(recorder))
        take("again", capture(Recorder()))
        take("record_api_calls", capture(Recorder(record_api_calls=True)))
        take("hook", ComputationalCostHook(frontends=["pytorch"]))
        counter = FlopCounterMode(display=False)
        take("counter", counter)
        start = process_time()
        total = report_of(recorder).total_report
        least["report"] = min(least.get("report", float("inf")), process_time() - start)
        macs, counter_macs = total["macs"], counter.get_total_flops() // 2
        x = case.make()
        start = process_time()
        estimate(model, x, backward=case.backward)
        least["estimate"] = min(least.get("estimate", float("inf")), process_time() - start)
    return Measured(least, macs, counter_macs)


def verdict(found: float, bar: float | None, at_most: bool) -> str:
    if bar is None:
        return ""
    missed = found > bar if at_most else found < bar
    return f"missed by {abs(found - bar):.2f}" if missed else "met"


# Calls of users, compared with the same work without costcore.


class Whole(NamedTuple):
    """Work as a user sees it.

    Attributes:
        name: what it is.
        plain: runs it without costcore; None: the bar is in seconds.
        counted: runs it with costcore.
        bar: the maximum ratio of both, or the maximum CPU seconds.
    """

    name: str
    plain: Callable[[], object] | None
    counted: Callable[[], object]
    bar: float


def whole_cases() -> Iterator[Whole]:
    from transformers import BertConfig, BertModel

    mlp = nn.Sequential(*(layer for _ in range(3) for layer in (nn.Linear(512, 512), nn.ReLU())))
    bert, tokens = BertModel(BertConfig()).eval(), torch.ones(1, 128, dtype=torch.int64)
    image = torch.ones(1, 3, 224, 224)
    for name, model, x, bar in (
        *(("ResNet-18", resnet18(), image, 1.05), ("BERT-base, 1 x 128", bert, tokens, 1.05)),
        ("MLP of three layers, batch 64", mlp, torch.ones(64, 512), 1.3),
    ):
        run = partial(model, x)
        yield Whole(f"hook, {name}, on data", run, partial(hooked, run), bar)
        yield Whole(f"a dispatch mode that does nothing, {name}, on data", run, partial(dispatched, run), bar)
    trained = resnet18().train()
    optimizer = torch.optim.AdamW(trained.parameters())
    step = partial(train_step, trained, optimizer, torch.ones(8, 3, 224, 224))
    step()
    yield Whole("hook, training step of ResNet-18, AdamW, batch 8", step, partial(hooked, step), 1.08)
    encoder = without_data(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True), 12)
    )
    inputs = torch.empty(1, 128, 768, device="meta")
    yield Whole(
        "estimate with backward pass, 12-layer encoder, of a meta step",
        lambda: encoder(inputs).sum().backward(),
        lambda: estimate(encoder, (1, 128, 768), backward=True),
        0.4,
    )
    deep = without_data(lambda: nn.Sequential(*(nn.Linear(16, 16) for _ in range(10_000))))
    yield Whole("estimate of 10,000 layers, seconds", None, lambda: estimate(deep, (1, 16)), 2)
    yield Whole("the same with backward pass, seconds", None, lambda: estimate(deep, (1, 16), backward=True), 5)


class Nothing(TorchDispatchMode):
    """The fastest possible hook in Python, which does nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def dispatched(run: Callable[[], object]) -> None:
    with Nothing():
        run()


def hooked(run: Callable[[], object]) -> None:
    with ComputationalCostHook(frontends=["pytorch"]):
        run()


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


def least_seconds(rounds: int, *runs: Callable[[], object]) -> list[float]:
    """Return the minimum CPU time of each function; the functions take turns."""
    least = [float("inf")] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            gc.collect()
            start = process_time()
            run()
            least[i] = min(least[i], process_time() - start)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of cases")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [case for case in cases() if not arguments.only or case.name in arguments.only]
    print("| network | pass | plain ms | capture ms | ratio | bar | | FlopCounter ms | times faster | bar | | macs |")
    print("|---|---|--:|--:|--:|--:|---|--:|--:|--:|---|---|")
    results = []
    for case in chosen:
        found = measure(case, case.rounds or arguments.rounds)
        results.append((case, found))
        ms = {way: f"{1e3 * seconds:.1f}" for way, seconds in found.seconds.items()}
        ratio = found.seconds["capture"] / found.seconds["plain"]
        faster = found.seconds["counter"] / found.seconds["capture"]
        bar = f"{case.to_counter:g}" if case.to_counter else ""
        print(
            f"| {case.name} | {'forward + backward' if case.backward else 'forward'} | {ms['plain']} | {ms['capture']} "
            f"| {ratio:.2f} | {case.to_plain:g} | {verdict(ratio, case.to_plain, True)} | {ms['counter']} "
            f"| {faster:.1f} | {bar} | {verdict(faster, case.to_counter, False)} "
            f"| {'equal' if found.macs == found.counter_macs else f'{found.macs} / {found.counter_macs}'} |",
            flush=True,
        )
    print("\n| network | pass | later capture ms | ratio | API calls ms | times as long | hook ms ", end="")
    print("| ratio | report ms | estimate ms |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for case, found in results:
        ms = {way: f"{1e3 * seconds:.1f}" for way, seconds in found.seconds.items()}
        again, hook = (found.seconds[way] / found.seconds["plain"] for way in ("again", "hook"))
        api_calls = found.seconds["record_api_calls"] / found.seconds["again"]
        print(
            f"| {case.name} | {'forward + backward' if case.backward else 'forward'} | {ms['again']} | {again:.2f} "
            f"| {ms['record_api_calls']} | {api_calls:.2f} | {ms['hook']} | {hook:.2f} | {ms['report']} "
            f"| {ms['estimate']} |"
        )


if __name__ == "__main__":
    main()
