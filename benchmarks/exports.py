"""Compares the costs of networks exported by PyTorch's exporters with the costs of the networks in PyTorch.

Run in the root of the repository, in an environment with onnxscript and torchvision or transformers:
``python -m benchmarks.exports [torchvision | transformers] [--only NAME] [--exporters newer older]
[--batches static symbolic] [--folded no yes] [--by-op]``. A library that is not installed is reported and skipped.

Prints one line per network, exporter, kind of batch and folding: the totals of the ONNX report minus those of the
PyTorch report. MACs and parameters are counted without regrouping, FLOPs and bytes with ``regroup=True`` and
``layout="free"``. A symbolic batch is substituted afterwards. Networks have random weights that all differ (the older
exporter stores equal tensors once), and small sizes if the architecture allows it. Exits with 1 if an unfolded graph
differs without an explanation in ``EXPLAINED``.
"""

from __future__ import annotations

import argparse
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from costcore import CostError, Report, estimate

BATCH = 2
NOT_EXPORTED = (RuntimeError, TypeError, ValueError, torch.onnx.OnnxExporterError)
"""What exporters raise of models that they cannot write."""
PLAIN, REGROUPED = ("macs", "n_params", "n_params_model"), ("flops", "mread", "mwrite")


SCATTERED = (
    "regions of masks are scattered to stored indices, which an assignment and an explicit scatter both export to"
)
EXPLAINED = {
    ("inception_v3", "older"): "nested concatenations of 4 pairs are exported as one concatenation",
    ("swin_t", "older"): SCATTERED,
    ("swin_v2_t", "older"): (
        f"{SCATTERED}, as are zeros in 12 biases, which the graph computes; "
        "12 tables of 15 x 15 pairs of coordinates look like weights"
    ),
    ("swin_v2_t", "newer"): "zeros are scattered into 12 biases, which `zero_` and an explicit scatter both export to",
    ("t5_encoder", "older"): "constant expressions and expressions shared by all layers are exported once",
}
"""Why unfolded graphs differ from PyTorch, by network and exporter."""


class Network(NamedTuple):
    """The constructor of a network, and its inputs."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, Tensor]]


class Case(NamedTuple):
    """One way to export a network."""

    exporter: str
    batch: str
    folded: str


def image(size: int, *more: int) -> Callable[[], dict[str, Tensor]]:
    """Return square images, or videos with their length before the size."""
    return lambda: {"x": torch.rand(BATCH, 3, *more, size, size)}


def torchvision_networks() -> Mapping[str, Network]:
    """Return one or two networks of every family."""
    from torchvision.models import get_model

    heads = {"aux_logits": False, "init_weights": False}
    settings: dict[str, tuple[int, dict[str, Any]]] = {
        **{name: (224, {}) for name in ("alexnet", "vgg11_bn")},
        **{name: (64, {}) for name in ("squeezenet1_1", "resnet18", "resnext50_32x4d", "densenet121")},
        "googlenet": (64, heads),
        "inception_v3": (96, heads),
        **{name: (64, {}) for name in ("mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5")},
        **{name: (64, {}) for name in ("regnet_x_400mf", "regnet_y_400mf", "efficientnet_b0", "efficientnet_v2_s")},
        "convnext_tiny": (64, {}),
        "vit_b_32": (64, {"image_size": 64}),
        "swin_t": (112, {}),
        "swin_v2_t": (112, {}),
        "maxvit_t": (224, {}),
        "lraspp_mobilenet_v3_large": (64, {"weights_backbone": None}),
        "fcn_resnet50": (64, {"weights_backbone": None}),
        "deeplabv3_mobilenet_v3_large": (64, {"weights_backbone": None}),
    }

    def build(name: str, options: Mapping[str, Any]) -> Callable[[], nn.Module]:
        return lambda: get_model(name, weights=None, **options)

    found = {name: Network(build(name, options), image(size)) for name, (size, options) in settings.items()}
    return {**found, "r3d_18": Network(build("r3d_18", {}), image(32, 4))}


class First(nn.Module):
    """The first output of a model of transformers, with positional inputs.

    With masks and positions among the inputs, the model runs the same operators whether it is exported or not.
    """

    def __init__(self, model: nn.Module, names: tuple[str, ...], **options: Any) -> None:
        super().__init__()
        self.model, self.names, self.options = model, names, options

    def forward(self, first: Tensor, second: Tensor | None = None, third: Tensor | None = None) -> Any:
        given = zip(self.names, (first, second, third), strict=False)
        return self.model(**dict(given), **self.options)[0]


def transformers_networks() -> Mapping[str, Network]:
    """Return small models of the most common architectures."""
    import transformers as t

    length, words = 16, {"vocab_size": 100}
    made = {
        "input_ids": torch.arange(BATCH * length).reshape(BATCH, length),
        "attention_mask": torch.ones(BATCH, 1, length, length, dtype=torch.bool).tril(),
        "position_ids": torch.arange(length).repeat(BATCH, 1),
        "pixel_values": torch.rand(BATCH, 3, 32, 32),
    }

    def network(model: str, sizes: Mapping[str, Any], *names: str, **options: Any) -> Network:
        kind = next(kind for kind in ("Bert", "GPT2", "Llama", "T5", "ViT") if model.startswith(kind))

        def build() -> nn.Module:
            return First(getattr(t, model)(getattr(t, f"{kind}Config")(**sizes)), names, **options)

        return Network(build, lambda: {name: made[name] for name in names})

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    bert = {**words, **sizes, "max_position_embeddings": 64, "pad_token_id": 0}
    gpt2 = {**words, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    t5 = {**words, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    given = ("input_ids", "attention_mask", "position_ids")
    return {
        "bert": network("BertForMaskedLM", bert, *given),
        "gpt2": network("GPT2LMHeadModel", gpt2, *given, use_cache=False),
        "llama": network("LlamaForCausalLM", {**bert, "num_key_value_heads": 2}, *given, use_cache=False),
        "t5_encoder": network("T5EncoderModel", t5, *given[:2]),
        "vit": network("ViTForImageClassification", {**sizes, "image_size": 32, "patch_size": 8}, "pixel_values"),
    }


TABLES = {"torchvision": torchvision_networks, "transformers": transformers_networks}


def built(network: Network) -> nn.Module:
    """Build the network in inference mode, with weights that all differ."""
    torch.manual_seed(0)
    module = network.build().eval()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.1, 1)
    return module


def exported(module: nn.Module, inputs: Mapping[str, Tensor], case: Case) -> bytes:
    """Export the network as a serialized model."""
    out, args = io.BytesIO(), tuple(inputs.values())
    is_symbolic, is_folded = case.batch == "symbolic", case.folded == "yes"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own warnings
        if case.exporter == "older":
            axes = {name: {0: "batch"} for name in inputs} if is_symbolic else None
            options: dict[str, Any] = {"input_names": list(inputs), "dynamic_axes": axes}
            torch.onnx.export(module, args, out, dynamo=False, do_constant_folding=is_folded, **options)
            return out.getvalue()
        shapes = tuple({0: torch.export.Dim("batch")} for _ in args) if is_symbolic else None
        options = {"dynamic_shapes": shapes, "optimize": is_folded, "verbose": False}
        program = torch.onnx.export(module, args, dynamo=True, **options)
        content: bytes = program.model_proto.SerializeToString()
        return content


def counted(model: bytes, case: Case, **options: Any) -> Report:
    """The report of a model, with a batch that is a symbol put in."""
    report = estimate(model, layout="free", **options)
    return report.subs(batch=BATCH) if case.batch == "symbolic" else report


def differences(found: Report, expected: Report, names: tuple[str, ...]) -> dict[str, int]:
    """Return the totals of one report minus those of the other."""
    return {name: found.total_report[name] - expected.total_report[name] for name in names}


def by_op(found: Report, expected: Report) -> Iterator[str]:
    """Return one line per operator whose costs differ."""
    first, second = found.by("op"), expected.by("op")
    for op in sorted({*first, *second}):
        figures = {
            name: first.get(op, {}).get(name, 0) - second.get(op, {}).get(name, 0)
            for name in ("n_layers", "macs", *REGROUPED)
        }
        if any(figures[name] for name in ("macs", *REGROUPED)):
            yield f"{op}: " + ", ".join(f"{name} {figure:+}" for name, figure in figures.items() if figure)


def main() -> int:
    """Print the tables; return 1 if a difference is not explained."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="torchvision | transformers", help="default: both")
    parser.add_argument("--only", nargs="*", default=[""], help="count only networks whose name contains one of these")
    parser.add_argument("--exporters", nargs="*", default=["newer", "older"], choices=["newer", "older"])
    parser.add_argument("--batches", nargs="*", default=["static", "symbolic"], choices=["static", "symbolic"])
    parser.add_argument("--folded", nargs="*", default=["no", "yes"], choices=["no", "yes"])
    parser.add_argument("--by-op", action="store_true", help="list the operators whose costs differ")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)  # exporters log what they try
    cases = [Case(*case) for case in product(arguments.exporters, arguments.batches, arguments.folded)]
    is_missed = False
    print(", ".join(("network", *Case._fields, *PLAIN, *REGROUPED)))
    for table in arguments.tables or TABLES:
        if find_spec(table) is None:
            print(f"{table}: skipped, it is not installed")
            continue
        for name, network in TABLES[table]().items():
            if not any(part in name for part in arguments.only):
                continue
            module, inputs = built(network), network.inputs()
            expected = estimate(module, tuple(inputs.values()), layout="free")
            for case in cases:
                try:
                    model = exported(module, inputs, case)
                except NOT_EXPORTED as error:
                    print(f"  {', '.join((name, *case))}: not exported: {str(error).splitlines()[0]}", flush=True)
                    continue
                try:
                    plain, regrouped = counted(model, case), counted(model, case, regroup=True)
                except CostError as error:
                    print(f"! {', '.join((name, *case))}: {error}", flush=True)
                    is_missed = True
                    continue
                row = differences(plain, expected, PLAIN) | differences(regrouped, expected, REGROUPED)
                why = EXPLAINED.get((name, case.exporter), "") if case.folded == "no" and any(row.values()) else ""
                is_fine = case.folded == "yes" or bool(why) or not any(row.values())
                is_missed = is_missed or not is_fine
                cells = filter(None, (name, *case, *map(str, row.values()), why))
                print(("  " if is_fine else "! ") + ", ".join(cells), flush=True)
                for line in by_op(regrouped, expected) if arguments.by_op else ():
                    print(f"      {line}")
                unknown = {layer["type"] for layer in plain.ignored_layers.values()}
                if unknown:
                    print(f"      without a calculator: {', '.join(sorted(unknown))}")
    return 1 if is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
