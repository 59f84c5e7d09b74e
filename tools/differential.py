"""Count random small networks with every counter: python tools/differential.py --count 10000 [--seed 0] [--tool thop].

A network is a chain of layers from a grammar. Each layer states its multiply-accumulates by hand; costcore is checked
against their sum. The number of another tool is *equal* to the sum, *explained* by the rules of the tool
(`report.under(tool)`), *refused* with an error, or *unexplained*. Unexplained networks are reduced to the fewest layers
that still disagree, and printed. The same seed draws the same networks. ``--output`` adds the counts to a JSON file, so
that ranges of seeds may run one after the other.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from collections import Counter
from importlib import import_module
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "probes")]

import costcore  # noqa: E402
from costcore_probes.adapter import adapter  # noqa: E402 - found by the line above
from costcore_probes.frameworks.pytorch import Fn  # noqa: E402
from costcore_probes.worker import in_child  # noqa: E402

CONVENTIONS = {
    "flop_counter_mode": "torch-cpu",
    "ptflops": "ptflops-aten",
    "ptflops_modules": "ptflops",
    "torchscan": "torch-scan",
    "calflops": "calflops-macs",
    "deepspeed": "deepspeed-macs",
    "thop": "thop",
    "torchinfo": "torchinfo",
    "torchprofile": "torchprofile",
    "fvcore": "fvcore",
}
"""By adapter, the convention of costcore that has the tool's rules."""
ONE_IMAGE = ("ptflops_modules",)
"""Tools that divide the counts of modules by an assumed batch size: they count one image."""


def conv(x, r):
    """A convolution of one to four groups, perhaps strided, dilated, padded."""
    groups = r.choice([g for g in (1, 1, 2, 4) if x[1] % g == 0])
    outputs, k, s, d, p = 4 * r.randint(1, 3), r.randint(1, 3), r.randint(1, 2), r.randint(1, 2), r.randint(0, 2)
    sides = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n in x[2:]]
    if min(sides) < 1:
        return nn.Identity(), x, 0
    layer = nn.Conv2d(x[1], outputs, k, s, p, d, groups, bias=r.random() < 0.5)
    shape = (x[0], outputs, *sides)
    return layer, shape, x[0] * outputs * sides[0] * sides[1] * (x[1] // groups) * k * k


def deconv(x, r):
    """A transposed convolution, of small images."""
    if x[2] * x[3] > 100:
        return nn.Identity(), x, 0
    groups = r.choice([g for g in (1, 2) if x[1] % g == 0])
    outputs, k, s = 4 * r.randint(1, 2), r.randint(2, 3), r.randint(1, 2)
    layer = nn.ConvTranspose2d(x[1], outputs, k, s, groups=groups, bias=r.random() < 0.5)
    shape = (x[0], outputs, *((n - 1) * s + k for n in x[2:]))
    return layer, shape, x[0] * x[1] * x[2] * x[3] * (outputs // groups) * k * k


def function_conv(x, r):
    """F.conv2d with a parameter of the caller."""
    outputs = 4 * r.randint(1, 2)
    layer = Fn(lambda self, v: F.conv2d(v, self.w), w=torch.ones(outputs, x[1], 1, 1))
    return layer, (x[0], outputs, *x[2:]), x[0] * outputs * x[2] * x[3] * x[1]


def shared(x, r):
    """One convolution that runs two or three times."""
    times = r.randint(2, 3)

    def forward(self, v):
        for _ in range(times):
            v = self.layer(v)
        return v

    layer = nn.Conv2d(x[1], x[1], 3, padding=1, bias=r.random() < 0.5)
    return Fn(forward, layer=layer), x, times * x[0] * x[1] * x[2] * x[3] * x[1] * 9


def residual(x, r):
    """A convolution beside a shortcut."""
    layer = nn.Conv2d(x[1], x[1], 3, padding=1, bias=False)
    return Fn(lambda self, v: v + self.layer(v), layer=layer), x, x[0] * x[1] * x[2] * x[3] * x[1] * 9


def elementwise(x, r):
    """An activation, a norm, a pool that keeps the size, or arithmetic."""
    layers = [
        lambda: nn.ReLU(),
        lambda: nn.GELU(),
        lambda: nn.SiLU(),
        lambda: nn.LeakyReLU(),
        lambda: nn.Sigmoid(),
        lambda: nn.Hardswish(),
        lambda: nn.Softmax(1),
        lambda: nn.Dropout(),
        lambda: nn.BatchNorm2d(x[1]),
        lambda: nn.BatchNorm2d(x[1], affine=False),
        lambda: nn.GroupNorm(2, x[1]),
        lambda: nn.InstanceNorm2d(x[1]) if x[2] * x[3] > 1 else nn.Identity(),  # PyTorch refuses one pixel
        lambda: nn.PReLU(),
        lambda: nn.MaxPool2d(3, 1, 1),
        lambda: nn.AvgPool2d(3, 1, 1),
        lambda: Fn(lambda self, v: v * 2),
        lambda: Fn(lambda self, v: F.relu(v) + v),
        lambda: Fn(lambda self, v: v.relu_()),
    ]
    return r.choice(layers)(), x, 0


def resize(x, r):
    """A pool, or an upsampling."""
    if min(x[2:]) >= 4:
        layer = r.choice([nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d((x[2] // 2, x[3] // 2))])
        return layer, (*x[:2], x[2] // 2, x[3] // 2), 0
    return nn.Upsample(scale_factor=2, mode=r.choice(["nearest", "bilinear"])), (*x[:2], 2 * x[2], 2 * x[3]), 0


def tokens(inner):
    """A layer of tokens: pixels are the steps, channels the features."""

    def forward(self, v):
        n, _, h, w = v.shape
        return self.inner(v.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, -1, h, w)

    return Fn(forward, inner=inner)


def linear(x, r):
    """nn.Linear or F.linear of every pixel."""
    outputs = 4 * r.randint(1, 3)
    macs = x[0] * x[2] * x[3] * x[1] * outputs
    if r.random() < 0.3:
        return (
            tokens(Fn(lambda self, v: F.linear(v, self.w), w=torch.ones(outputs, x[1]))),
            (x[0], outputs, *x[2:]),
            macs,
        )
    return tokens(nn.Linear(x[1], outputs, bias=r.random() < 0.5)), (x[0], outputs, *x[2:]), macs


def products(x, r):
    """Attention without linear layers, written in one of six ways."""
    n, c, steps = x[0], x[1], x[2] * x[3]
    ways = [
        lambda self, v: F.scaled_dot_product_attention(v, v, v),
        lambda self, v: F.scaled_dot_product_attention(v.unsqueeze(1), v.unsqueeze(1), v.unsqueeze(1)).squeeze(1),
        lambda self, v: v @ v.transpose(1, 2) @ v,
        lambda self, v: torch.matmul(torch.matmul(v, v.transpose(1, 2)).softmax(-1), v),
        lambda self, v: torch.bmm(torch.bmm(v, v.transpose(1, 2)), v),
        lambda self, v: torch.einsum("nij,njc->nic", torch.einsum("nic,njc->nij", v, v), v),
    ]
    return tokens(Fn(r.choice(ways))), x, 2 * n * steps * steps * c


def layer_of_tokens(x, r):
    """A norm, an attention layer or a recurrent layer of tokens."""
    n, c, steps = x[0], x[1], x[2] * x[3]
    kind = r.randint(0, 3)
    if kind == 0:
        return tokens(nn.LayerNorm(c)), x, 0
    if kind == 1:
        layer = nn.MultiheadAttention(c, 2, bias=r.random() < 0.5, batch_first=True)
        return (
            tokens(Fn(lambda self, v: self.layer(v, v, v)[0], layer=layer)),
            x,
            4 * n * steps * c * c + 2 * n * steps**2 * c,
        )
    name, gates = r.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    layer = getattr(nn, name)(c, c, batch_first=True, bias=r.random() < 0.5)
    return tokens(Fn(lambda self, v: self.layer(v)[0], layer=layer)), x, n * steps * gates * 2 * c * c


GRAMMAR = (
    conv,
    conv,
    conv,
    deconv,
    function_conv,
    shared,
    residual,
    elementwise,
    elementwise,
    resize,
    linear,
    products,
    layer_of_tokens,
)


def draw(seed):
    """Return the specification of a network: a batch, sides, and a seed for each layer."""
    r = random.Random(seed)
    spec = [(r.randrange(len(GRAMMAR)), r.randrange(1 << 30)) for _ in range(r.randint(1, 6))]
    return r.choice([1, 1, 2]), 4 * r.randint(1, 2), r.randint(3, 9), r.randint(3, 9), spec


def make(drawn):
    """Return the module, its input, its multiply-accumulates by hand, and the names of its layers."""
    batch, channels, height, width, spec = drawn
    shape, layers, macs, names = (batch, channels, height, width), [], 0, []
    for rule, seed in spec:
        layer, shape, own = GRAMMAR[rule](shape, random.Random(seed))
        layers.append(layer)
        macs += own
        names.append(GRAMMAR[rule].__name__)
    return nn.Sequential(*layers).eval(), torch.ones(batch, channels, height, width), macs, names


def count(drawn):
    """Return the report of costcore."""
    module, x, *_ = make(drawn)
    return costcore.estimate(module, (x,), record_api_calls=True)


def verdict(name, drawn, report=None):
    """Return the verdict on a tool, its number, and the expected numbers."""
    if name in ONE_IMAGE and drawn[0] > 1:
        drawn, report = (1, *drawn[1:]), None
    module, x, macs, _ = make(drawn)
    report = report or count(drawn)
    if name == "costcore":
        found = report.total_report["macs"]
        return ("equal" if found == macs and report.status == "complete" else "unexplained"), found, macs
    tool = adapter(name)
    expected = tool.unit.get("macs", 1) * macs

    def ask():
        try:
            return {"value": tool.counts["macs"]("torch", (module, (x,))).value}
        except Exception as error:  # whatever a tool raises is its answer
            return {"error": type(error).__name__}

    reply = in_child(ask, 60) if tool.isolated else ask()
    if "error" in reply:
        return "refused", reply["error"], expected
    found = reply["value"]
    if found == expected:
        return "equal", found, expected
    rule = report.under(CONVENTIONS[name]).total
    return ("explained" if found == rule else "unexplained"), found, (expected, rule)


def minimized(name, drawn):
    """Leave out layers as long as the tool's number stays unexplained."""
    *head, spec = drawn
    for i in reversed(range(len(spec))):
        shorter = [*spec[:i], *spec[i + 1 :]]
        if shorter and verdict(name, (*head, shorter))[0] == "unexplained":
            spec = shorter
    return (*head, spec)


def add(file, seed, done, counts, kinds, examples):
    """Add the counts of ``done`` networks from ``seed`` to a file: by tool and verdict, and by unexplained kind."""
    data = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"tools": {}, "unexplained": {}}
    for name, found in counts.items():
        own = data["tools"].setdefault(name, {"seeds": [], "verdicts": {}})
        own["seeds"].append([seed, seed + done])
        own["verdicts"] = dict(sorted((Counter(own["verdicts"]) + found).items()))
    for kind, number in kinds.items():
        own = data["unexplained"].setdefault(kind, {"networks": 0, "example": examples[kind]})
        own["networks"] += number
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def main(arguments=None):
    """Count networks; return 1 if costcore differs from a count by hand."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="how many networks")
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed of the first network; later networks have the following seeds"
    )
    parser.add_argument("--tool", action="append", choices=["costcore", *CONVENTIONS])
    parser.add_argument("--seconds", type=float, default=480, help="stop after this time")
    parser.add_argument("--output", type=Path, help="a JSON file; the counts are added to it")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tools = options.tool or ["costcore", *CONVENTIONS]
    for name in tools:  # before any fork, which would import them again
        import_module(adapter(name).package.replace("-", "_"))
    counts = {name: Counter() for name in tools}
    kinds = Counter()
    examples = {}
    begin, done = time.perf_counter(), 0
    for seed in range(options.seed, options.seed + options.count):
        if time.perf_counter() - begin > options.seconds:
            break
        drawn = draw(seed)
        report = count(drawn)
        done += 1
        for name in tools:
            what, *_ = verdict(name, drawn, report)
            counts[name][what] += 1
            if what == "unexplained":
                smaller = minimized(name, drawn)
                _, found, expected = verdict(name, smaller)
                kind = f"{name}: {', '.join(make(smaller)[3])}"
                kinds[kind] += 1
                if kind not in examples:
                    examples[kind] = f"seed {seed}: says {found}, expected {expected}"
                    print(f"{examples[kind]}, {kind}\n  {make(smaller)[0]}\n  {smaller}", flush=True)
    print(f"{done} networks from seed {options.seed} in {time.perf_counter() - begin:.0f} s")
    for name, found in counts.items():
        print(f"{name:18}", ", ".join(f"{what} {number}" for what, number in sorted(found.items())))
    for kind, number in kinds.most_common():
        print(f"unexplained {number:4} {kind}")
    if options.output:
        add(options.output, options.seed, done, counts, kinds, examples)
    return int(counts.get("costcore", Counter())["unexplained"] > 0)


if __name__ == "__main__":
    sys.exit(main())
