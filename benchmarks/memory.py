"""Measure how accurate peaks of memory are, and what recording them costs.

Run it from the root of the checkout::

    python -m benchmarks.memory                        # against the CPU profiler and MemTracker
    python -m benchmarks.memory --truth memory_cpu.csv # against measured peaks
    python -m benchmarks.memory --time                 # time with and without memory=True

``--networks mlp,resnet18`` and ``--modes fwdbwd,adamw`` select rows. Networks of torchvision, timm and transformers are
skipped if these packages are not installed. The tensor peak of the profiler is the highest sum of the allocator's
blocks without workspace: blocks that are allocated and freed inside one operator.
"""

from __future__ import annotations

import argparse
import csv
import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from costcore import estimate
from costcore.analyses.memory.live_memory import Memory
from tests.frontends.pytorch.memory.networks import NETWORKS, OPTIMIZERS, Network, memory_of_run, run
from tests.frontends.pytorch.memory.profiler import Run, profiled_peaks

ESTIMATED = ("infer", "fwdbwd", "sgd", "sgdm", "sgdm_foreach", "adamw", "adamw_foreach", "adamw_first")
"""The modes that ``estimate`` supports. Networks run under the hook in other modes."""

COMPARED = ("infer", "fwdbwd", "adamw")
"""The modes that are compared with the profiler by default."""


def _torchvision(name: str, **settings: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(import_module("torchvision.models"), name)(weights=None, **settings)


def _timm(name: str) -> Callable[[], nn.Module]:
    return lambda: import_module("timm").create_model(name, pretrained=False)


def _transformers(name: str, checkpoint: bool = False, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        transformers: Any = import_module("transformers")
        model = getattr(transformers, name)
        made: nn.Module = model(model.config_class(**settings))
        if checkpoint:
            cast(Any, made).gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return made

    return make


_GPT2 = {"n_layer": 4, "n_embd": 128, "n_head": 4, "vocab_size": 1000, "n_positions": 128, "use_cache": False}
_GPT2 |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0)
_LLAMA = {"hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 4, "num_attention_heads": 4}
_LLAMA |= {"num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 128, "use_cache": False}
_BERT = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
_BERT |= {"vocab_size": 1000, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
_TOKENS = ((2, 64), torch.int64)

LARGER: Mapping[str, tuple[str, Network]] = {
    "gpt2_4x128": ("transformers", Network(_transformers("GPT2LMHeadModel", **_GPT2), *_TOKENS)),
    "llama_4x128_ckpt": ("transformers", Network(_transformers("LlamaForCausalLM", True, **_LLAMA), *_TOKENS)),
    "bert_4x128": ("transformers", Network(_transformers("BertModel", **_BERT), *_TOKENS)),
    "resnet18": ("torchvision", Network(_torchvision("resnet18"), (2, 3, 96, 96))),
    "mobilenet_v2": ("torchvision", Network(_torchvision("mobilenet_v2"), (2, 3, 96, 96))),
    "squeezenet1_1": ("torchvision", Network(_torchvision("squeezenet1_1"), (2, 3, 96, 96))),
    "densenet121": ("torchvision", Network(_torchvision("densenet121"), (2, 3, 64, 64))),
    "densenet121_ckpt": (
        "torchvision",
        Network(_torchvision("densenet121", memory_efficient=True), (2, 3, 64, 64)),
    ),
    "convnext_tiny": ("torchvision", Network(_torchvision("convnext_tiny"), (2, 3, 64, 64))),
    "vgg11_bn": ("torchvision", Network(_torchvision("vgg11_bn", num_classes=10), (2, 3, 64, 64))),
    "vit_tiny": ("timm", Network(_timm("vit_tiny_patch16_224"), (2, 3, 224, 224))),
    "mixer_s32": ("timm", Network(_timm("mixer_s32_224"), (2, 3, 224, 224))),
}
"""Networks of other packages, each with the name of the package."""


class Row(NamedTuple):
    """The measured and the reported peak of a network in a mode, in bytes."""

    network: str
    mode: str
    measured: int
    reported: int

    def __str__(self) -> str:
        difference = self.reported - self.measured
        share = 100 * difference / self.measured
        sizes = f"{self.measured:>13,} {self.reported:>13,} {difference:>+9,} {share:+7.2f} %"
        return f"{self.network:18} {self.mode:14} {sizes}"


def networks(names: str) -> Iterator[tuple[str, Network]]:
    """Yield the selected networks that can be made."""
    wanted = set(names.split(",")) if names else None
    for name, network in NETWORKS.items():
        if wanted is None or name in wanted:
            yield name, network
    if find_spec("torchvision_on_cpu_torch"):  # lets a torchvision for CUDA be imported beside a torch without it
        import_module("torchvision_on_cpu_torch")
    for name, (package, network) in LARGER.items():
        if wanted is None or name in wanted:
            if find_spec(package) is None:
                print(f"{name}: skipped, {package} is not installed", file=sys.stderr)
            else:
                yield name, network


def estimated(network: nn.Module, shape: Any, mode: str) -> Memory:
    """Return the memory of an estimate."""
    memory = estimate(
        network.train(mode != "infer"),
        shape,
        memory=True,
        backward=mode != "infer",
        optimizer=OPTIMIZERS.get(mode),
        step="first" if mode == "adamw_first" else "steady",
    ).memory
    assert memory is not None
    return memory


def against_truth(path: Path, names: str, modes: str) -> list[Row]:
    """Compare with the measured peaks of a file."""
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    measured = [row for row in csv.DictReader(lines) if not modes or row["mode"] in modes.split(",")]
    rows = []
    for name, (make, shape, dtype) in networks(names):
        for row in measured:
            if row["net"] == name:
                torch.manual_seed(0)
                if row["mode"] in ESTIMATED:
                    memory = estimated(make(), (shape, dtype), row["mode"])
                else:
                    memory = memory_of_run(make(), torch.zeros(shape, dtype=dtype), row["mode"])
                base = int(row["base"])
                rows.append(Row(name, row["mode"], int(row["tensor_peak"]), memory.peak - base))
                print(rows[-1], "" if memory.base == base else f"base {memory.base - base:+}", flush=True)
    return rows


def profiled(network: nn.Module, x: torch.Tensor, mode: str) -> int:
    """Return the tensor peak of the CPU profiler, minus the memory in use before the run."""
    network.train(mode != "infer")
    optimizer = OPTIMIZERS[mode](network.parameters()) if mode in OPTIMIZERS else None

    def measured() -> list[Any]:
        held: list[Any] = []
        run(network, x, mode, optimizer, held)
        return held

    return profiled_peaks({mode: Run(measured, network.zero_grad)})[mode]


def tracked(network: nn.Module, x: torch.Tensor, mode: str) -> int:
    """Return the peak of PyTorch's MemTracker, including the memory in use before the run."""
    from torch.distributed._tools.mem_tracker import MemTracker

    network.train(mode != "infer")
    optimizer = OPTIMIZERS[mode](network.parameters()) if mode in OPTIMIZERS else None
    run(network, x, mode, optimizer, [])
    network.zero_grad()
    tracker = MemTracker()
    tracker.track_external(network, x, *(() if optimizer is None else (optimizer,)))
    with tracker:
        run(network, x, mode, optimizer, [])
    snapshot: Any = tracker.get_tracker_snapshot("peak")
    return int(snapshot[torch.device("cpu")]["Total"])


def against_profiler(names: str, modes: str) -> list[Row]:
    """Compare with the CPU profiler, and print what MemTracker reports and how long it takes against an estimate."""
    rows = []
    for name, (make, shape, dtype) in networks(names):
        for mode in modes.split(",") if modes else COMPARED:
            torch.manual_seed(0)
            memory = estimated(make(), (shape, dtype), mode)
            network = make()
            start = process_time()
            estimated(network, (shape, dtype), mode)
            seconds = process_time() - start
            rows.append(Row(name, mode, profiled(make(), torch.zeros(shape, dtype=dtype), mode), 0))
            rows[-1] = rows[-1]._replace(reported=memory.peak - memory.base)
            network = make()
            start = process_time()
            try:
                peak = tracked(network, torch.zeros(shape, dtype=dtype), mode)
            except (AttributeError, ImportError, RuntimeError, TypeError, ValueError) as error:
                other = f"MemTracker: {type(error).__name__}"
            else:
                ratio = (process_time() - start) / seconds
                other = f"MemTracker {100 * (peak - memory.peak) / memory.peak:+.2f} % of the whole peak"
                other += f", {ratio:.1f} x the time of the estimate"
            print(rows[-1], other, flush=True)
    return rows


def times(names: str, modes: str) -> None:
    """Print the time of estimates with and without memory."""
    for name, (make, shape, dtype) in networks(names):
        for mode in modes.split(",") if modes else COMPARED:
            network = make().train(mode != "infer")
            gc.collect()
            gc.freeze()  # garbage collection of the whole heap would hide the difference
            best = {False: float("inf"), True: float("inf")}
            for memory in (False, True) * 7:
                options: dict[str, Any] = {"optimizer": OPTIMIZERS[mode]} if mode in OPTIMIZERS else {}
                start = process_time()
                estimate(network, (shape, dtype), memory=memory, backward=mode != "infer", **options)
                best[memory] = min(best[memory], process_time() - start)
            gc.unfreeze()
            without, with_memory = 1000 * best[False], 1000 * best[True]
            print(f"{name:18} {mode:10} {without:8.1f} ms {with_memory:8.1f} ms  ratio {with_memory / without:.2f}")


def main() -> int:
    """Run the benchmark; the exit code is 1 if a reported peak differs by more than 128 bytes from the measured one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", type=Path, metavar="CSV", help="measured peaks")
    parser.add_argument("--time", action="store_true", help="measure time instead of peaks")
    parser.add_argument("--networks", default="", help="names separated by commas; default: all")
    parser.add_argument("--modes", default="", help="ways to run them, separated by commas")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.time:
        times(args.networks, args.modes)
        return 0
    if args.truth is None:
        rows = against_profiler(args.networks, args.modes)
    else:
        rows = against_truth(args.truth, args.networks, args.modes)
    near = [row for row in rows if abs(row.reported - row.measured) <= 8]
    far = [row for row in rows if abs(row.reported - row.measured) > 128]
    between = len(rows) - len(near) - len(far)
    print(f"{len(rows)} rows: {len(near)} within 8 bytes, {between} within 128, {len(far)} beyond")
    return 1 if far else 0


if __name__ == "__main__":
    raise SystemExit(main())
