"""Compares three counts of the multiply-adds of real models: an estimate, a real run, and PyTorch's own counter.

Run in the root of the repository, in an environment with transformers, timm or diffusers: ``python -m
benchmarks.real_models [transformers | timm | diffusers] [--only NAME …] [--limit N] [--no-run]``. A library that is not
installed is reported and skipped.

Each model type of transformers is built small, from its default configuration with fewer and narrower layers; one
network of each timm architecture and each diffusers denoiser likewise. Weights are random, inputs are given by shape.
Printed per model: MACs of ``estimate``, of a run on the CPU inside ``ComputationalCostHook``, and half of the FLOPs of
``FlopCounterMode`` on the meta device; the status of the estimate and of the run; and what differs. FlopCounterMode
does not count recurrent layers, and fails for models that need values of tensors. Routers spread tokens evenly in an
estimate and by their random weights in a run; the number of assigned tokens is the same.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from costcore import ComputationalCostHook, estimate

SMALL: Mapping[str, int] = {
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth", "encoder_layers"), 2),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_encoder_layers", "encoder_n_layers"), 2),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim"), 64),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"), 128),
    **dict.fromkeys(("moe_intermediate_size", "n_inner", "shared_expert_intermediate_size"), 128),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "num_key_value_heads"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 8),
    **dict.fromkeys(("vocab_size", "text_vocab_size"), 1000),
}
"""Small values of the settings that most configurations have."""

TOKENS = 16
LONGEST = 16_000
"""Samples of audio."""

NOT_RUN = "not run"


class Counted(NamedTuple):
    """MACs and status of one way to count, or the error that it ended with."""

    macs: int | None
    status: str


class Case(NamedTuple):
    """A model: its name, a function that builds it, and a function that returns the shapes and dtypes of its inputs."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[nn.Module], dict[str, tuple[tuple[int, ...], torch.dtype]]]


def shrink(config: Any) -> None:
    """Set the sizes of a configuration and of those inside it to small ones."""
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            shrink(value)
        elif name in SMALL and type(value) is int and value > SMALL[name]:
            setattr(config, name, SMALL[name])
    layers = getattr(config, "num_hidden_layers", None)
    for name, value in list(vars(config).items()):
        if name in ("layer_types", "mlp_layer_types", "layers_block_type") and isinstance(value, list) and layers:
            setattr(config, name, value[:layers])


def transformers_cases() -> Iterator[Case]:
    """Yield every model type that ``AutoModel`` has."""
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    for name in MODEL_MAPPING_NAMES:

        def build(name: str = name) -> nn.Module:
            config = CONFIG_MAPPING[name]()
            shrink(config)
            model: nn.Module = AutoModel.from_config(config, trust_remote_code=False)
            return model

        yield Case(name, build, transformers_inputs)


def transformers_inputs(model: Any) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Return the inputs of a model by the names that its ``forward`` has."""
    config, names = model.config, inspect.signature(model.forward).parameters
    vision, audio = (getattr(config, f"{kind}_config", config) for kind in ("vision", "audio"))
    size, channels = getattr(vision, "image_size", None) or 224, getattr(vision, "num_channels", 3)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    known: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "input_ids": ((1, TOKENS), torch.int64),
        "decoder_input_ids": ((1, TOKENS), torch.int64),
        "pixel_values": ((1, channels, height, width), torch.float32),
        "input_values": ((1, LONGEST), torch.float32),
        "input_features": ((1, getattr(audio, "num_mel_bins", 80), 3000), torch.float32),
    }
    wanted = {name for name in known if name in names}
    main = model.main_input_name
    if not getattr(config, "is_encoder_decoder", False):
        wanted.discard("decoder_input_ids")
    required = {name for name in wanted if names[name].default is inspect.Parameter.empty}
    text_and_image = {"input_ids", "pixel_values"} if hasattr(config, "projection_dim") else set()
    return {
        name: known[name]
        for name in known
        if name in wanted & (required | text_and_image | {main, "decoder_input_ids"})
    }


def timm_cases() -> Iterator[Case]:
    """Yield one network of each architecture: the first whose name ends with a usual small size, or the first."""
    import timm

    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names:
            small = [
                name for name in names if any(word in name for word in ("tiny", "nano", "small", "18", "_b0", "_s"))
            ]
            name = (small or names)[0]

            def build(name: str = name) -> nn.Module:
                model: nn.Module = timm.create_model(name, pretrained=False)
                return model

            yield Case(name, build, lambda model: {"x": ((1, *model.default_cfg["input_size"]), torch.float32)})


def diffusers_cases() -> Iterator[Case]:
    """Yield the denoisers and decoders that build from their default arguments."""
    import diffusers

    image, tokens = ((1, 4, 32, 32), torch.float32), ((1, 77, 32), torch.float32)
    narrow = {"block_out_channels": (32, 64), "norm_num_groups": 8}
    blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    crossed = {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    step = ((1,), torch.int64)
    small: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "UNet2DModel": ({**narrow, **blocks, "in_channels": 4, "out_channels": 4}, {"sample": image, "timestep": step}),
        "UNet2DConditionModel": (
            {**narrow, **crossed, "cross_attention_dim": 32, "attention_head_dim": 8},
            {"sample": image, "timestep": step, "encoder_hidden_states": tokens},
        ),
        "AutoencoderKL": (
            {**narrow, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
            {"sample": ((1, 3, 64, 64), torch.float32)},
        ),
        "DiTTransformer2DModel": (
            {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2, "sample_size": 32},
            {"hidden_states": image, "timestep": step, "class_labels": step},
        ),
    }
    for name, (arguments, inputs) in small.items():
        yield Case(
            name,
            lambda name=name, arguments=arguments: getattr(diffusers, name)(**arguments),  # type: ignore[misc]
            lambda model, inputs=inputs: inputs,  # type: ignore[misc]
        )


LIBRARIES = {"transformers": transformers_cases, "timm": timm_cases, "diffusers": diffusers_cases}


def outcome(count: Callable[[], tuple[int, str]]) -> Counted:
    """Return what a way of counting finds; any error of the model or the counter is its outcome."""
    try:
        return Counted(*count())
    except Exception as error:  # each of hundreds of models may fail in its own way, and the table says how
        return Counted(None, f"{type(error).__name__}: {str(error).splitlines()[0][:90] if str(error) else ''}")


def compare(case: Case, runs: bool) -> tuple[Counted, Counted, Counted]:
    """Return the counts of the estimate, the run and FlopCounterMode."""
    with torch.device("meta"):
        model = case.build().eval()
        inputs = case.inputs(model)
        tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in inputs.items()}

    def estimated() -> tuple[int, str]:
        report = estimate(model, dict(inputs))
        return report.total_report["macs"], report.status

    def counted() -> tuple[int, str]:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(**tensors)
        return counter.get_total_flops() // 2, ""

    def run() -> tuple[int, str]:
        torch.manual_seed(0)
        real = case.build().eval()
        data = {name: example(shape, dtype) for name, (shape, dtype) in inputs.items()}
        with torch.no_grad(), ComputationalCostHook() as hook:
            real(**data)
        return hook.total_report["macs"], hook.status

    return outcome(estimated), outcome(run) if runs else Counted(None, NOT_RUN), outcome(counted)


def example(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return different token ids, or noise."""
    return torch.randn(shape) if dtype.is_floating_point else (torch.arange(shape[-1]) + 5).expand(shape).to(dtype)


def verdict(counts: tuple[Counted, Counted, Counted]) -> str:
    """Return which of the counts differ from the estimate."""
    estimated, run, counter = counts
    if estimated.macs is None:
        return "no estimate" if run.macs is not None or run.status == NOT_RUN else "fails everywhere"
    against = {"run": run.macs, "FlopCounterMode": counter.macs}
    compared = {name: macs for name, macs in against.items() if macs is not None}
    wrong = [name for name, macs in compared.items() if macs != estimated.macs]
    return f"differs from {' and '.join(wrong)}" if wrong else "equal" if compared else "nothing to compare"


def main() -> int:
    """Print a table and the number of models by verdict; exit with 1 if a model that runs has no estimate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("library", nargs="*", help=f"default: all of {', '.join(LIBRARIES)}")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--limit", type=int, help="at most so many models of each library")
    parser.add_argument("--no-run", action="store_true", help="without the run on the CPU")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    verdicts: Counter[str] = Counter()
    for library in args.library or LIBRARIES:
        if find_spec(library) is None:
            print(f"{library} is not installed", file=sys.stderr)
            continue
        with suppress(ModuleNotFoundError):
            import_module(f"{library}.utils.logging").set_verbosity_error()
        print(
            f"\n| {library} | estimate, MACs | run, MACs | FlopCounterMode / 2 | status | |\n|:--|--:|--:|--:|:--|:--|"
        )
        cases = [case for case in LIBRARIES[library]() if not args.only or case.name in args.only]
        for case in cases[: args.limit]:
            try:
                counts = compare(case, not args.no_run)
            except Exception as error:  # a model that this library cannot build from a small configuration
                verdicts["not built"] += 1
                print(f"| {case.name} | not built: {type(error).__name__}: {str(error).splitlines()[0][:90]} |")
                continue
            found = verdict(counts)
            verdicts[found] += 1
            cells = [f"{each.macs:,}" if each.macs is not None else each.status for each in counts]
            print(
                f"| {case.name} | {' | '.join(cells)} | {counts[0].status}, run {counts[1].status} | {found} |",
                flush=True,
            )
    print()
    for found, n in verdicts.most_common():
        print(f"{n} {found}")
    return int(verdicts["no estimate"] > 0)


if __name__ == "__main__":
    sys.exit(main())
