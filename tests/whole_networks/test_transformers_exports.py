"""Exports of models of ``transformers`` by PyTorch's own exporters have the costs of the models in PyTorch."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import pytest

from costcore import Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    import transformers
    from torch import nn

    from tests.frontends.pytorch.transformers_differences import ANGLES_ARE_PRODUCTS, MASKS_NOTHING
    from tests.whole_networks.exporters import EXPORTERS, all_different, export

N, T, D, F, HEADS, LAYERS, V = 2, 16, 64, 128, 4, 2, 100
"""Batch size, sequence length, width, hidden units of the MLP, heads, layers, vocabulary size."""
PATCHES = 1 + (32 // 8) ** 2
"""Tokens of a vision transformer: 32 x 32 pixels in patches of 8 x 8, and the class token."""

AUDIO = 50
"""Positions of an audio encoder, after a convolution with stride 2."""

PLAIN = ("macs", "n_params", "n_params_model")
TOTALS = ("macs", "flops", "mread", "mwrite", "n_params", "n_params_model")


class Network(NamedTuple):
    """A model class of ``transformers``, its configuration and its inputs."""

    model: str
    config: str
    settings: dict[str, Any]
    inputs: tuple[str, ...]
    options: dict[str, Any] = {}  # noqa: RUF012 - not mutated
    calls: dict[str, Any] = {}  # noqa: RUF012


WORDS = {
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "vocab_size": V,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SIZES_OF_GPT2 = {"n_embd": D, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": V, "n_positions": 64}
SIZES_OF_OPT = {**WORDS, "ffn_dim": F, "word_embed_proj_dim": D}
SIZES_OF_WHISPER = {
    **{f"{part}_layers": LAYERS for part in ("encoder", "decoder")},
    **{f"{part}_attention_heads": HEADS for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": F for part in ("encoder", "decoder")},
    **{name: WORDS[name] for name in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")},
    "d_model": D,
    "num_mel_bins": 20,
    "max_source_positions": AUDIO,
    "max_target_positions": 64,
    "decoder_start_token_id": 1,
}
PIXELS = {name: WORDS[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers")}
GIVEN = ("input_ids", "attention_mask", "position_ids")
"""With all of these inputs, ``transformers`` runs the same operators whether it is exported or not."""

NETWORKS = {
    "bert": Network("BertForMaskedLM", "BertConfig", WORDS, GIVEN),
    "gpt2": Network("GPT2LMHeadModel", "GPT2Config", SIZES_OF_GPT2, GIVEN, calls={"use_cache": False}),
    "llama": Network(
        "LlamaForCausalLM", "LlamaConfig", {**WORDS, "num_key_value_heads": 2}, GIVEN, calls={"use_cache": False}
    ),
    "opt": Network("OPTForCausalLM", "OPTConfig", SIZES_OF_OPT, GIVEN, calls={"use_cache": False}),
    "whisper": Network(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        SIZES_OF_WHISPER,
        ("input_features", "decoder_input_ids", "decoder_attention_mask"),
        calls={"use_cache": False},
    ),
    "vit": Network(
        "ViTModel",
        "ViTConfig",
        {**PIXELS, "num_attention_heads": HEADS, "image_size": 32, "patch_size": 8},
        ("pixel_values",),
        options={"add_pooling_layer": False},
    ),
}


def total(*differences: dict[str, int]) -> dict[str, int]:
    """Return the sum of several differences."""
    sums = {name: sum(each.get(name, 0) for each in differences) for name in TOTALS}
    return {name: value for name, value in sums.items() if value != 0}


def unfolded(name: str, exporter: str, batch: str = "") -> dict[str, int]:
    """Return the difference without constant folding."""
    return evaluated(batch) if (name, exporter) == ("whisper", "older") else {}


def evaluated(batch: str = "") -> dict[str, int]:
    """Return the difference that the older exporter makes in Whisper, whose constants it computes while it traces."""
    # PyTorch adds the 0 tokens before to the positions, and repeats these for every sequence, which the exporter does
    # not compute for a symbolic batch.
    added = {"flops": -T, "mread": -8 * T, "mwrite": -8 * T}
    repeated = {} if batch else {"mread": -8 * T, "mwrite": -8 * N * T}
    return total(added, repeated, {"mwrite": -8 * (AUDIO if batch else AUDIO + T)})


@cache
def network(name: str) -> Any:
    """The network as a module with positional inputs that returns its first output."""
    return network_of(NETWORKS[name])


def network_of(row: Network) -> Any:
    """Make the module of a row."""

    class Positional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = getattr(transformers, row.config)(**row.settings)
            self.model = getattr(transformers, row.model)(config, **row.options)

        def forward(self, first: Any, mask: Any = None, positions: Any = None) -> torch.Tensor:
            given = zip(row.inputs, (first, mask, positions), strict=False)
            return self.model(**dict(given), **row.calls)[0]

    return all_different(Positional())


@cache
def inputs(name: str) -> tuple[Any, ...]:
    made = {
        "input_ids": torch.arange(N * T).reshape(N, T),
        "attention_mask": torch.ones(N, 1, T, T, dtype=torch.bool).tril(),
        "position_ids": torch.arange(T).repeat(N, 1),
        "input_features": torch.zeros(N, 20, 2 * AUDIO),
        "pixel_values": torch.zeros(N, 3, 32, 32),
    }
    made |= {f"decoder_{name}": made[name] for name in ("input_ids", "attention_mask")}
    return tuple(made[given] for given in NETWORKS[name].inputs)


@cache
def exported(name: str, exporter: str, batch: str = "", folded: bool = False) -> bytes:
    return export(network(name), inputs(name), exporter, 18, batch, folded)


@cache
def as_run(name: str) -> Report:
    return estimate(network(name), inputs(name), layout="free")


def differing(name: str, report: Report, names: tuple[str, ...] = TOTALS) -> dict[str, int]:
    """Return the totals that differ from PyTorch's, and by how much."""
    totals = report.total_report, as_run(name).total_report
    differences = {column: totals[0][column] - totals[1][column] for column in names}
    return {column: difference for column, difference in differences.items() if difference != 0}


def skip_computed_positions() -> None:
    """Skip a test of bytes where the model computes positions that are given, which an exporter removes again."""
    if ANGLES_ARE_PRODUCTS:
        pytest.skip("transformers 4 computes positions although they are given")


def cases() -> list[tuple[str, str]]:
    if {"pytorch", "onnx"} - set(frameworks.available()):
        return []
    # Transformers 4 does not export BERT with a mask for pairs of tokens.
    networks = [name for name in NETWORKS if name != "bert" or not ANGLES_ARE_PRODUCTS]
    return [(name, exporter) for name in networks for exporter in EXPORTERS]


each = pytest.mark.parametrize(("name", "exporter"), cases())


@each
def test_products_and_parameters_are_equal_without_regrouping(name, exporter):
    report = estimate(exported(name, exporter), layout="free")
    assert differing(name, report, PLAIN) == {}
    assert not report.ignored_layers


@each
def test_operations_and_bytes_are_equal_with_regrouping(name, exporter):
    skip_computed_positions()
    report = estimate(exported(name, exporter), layout="free", regroup=True)
    assert differing(name, report) == unfolded(name, exporter)


@each
def test_a_symbolic_batch_gives_equal_costs(name, exporter):
    skip_computed_positions()
    model = exported(name, exporter, "batch")
    report = estimate(model, layout="free", regroup=True)
    assert {str(symbol) for symbol in report.total_report["flops"].free_symbols} == {"batch"}
    expected = unfolded(name, exporter, "batch")
    assert differing(name, report.subs(batch=N)) == expected
    assert differing(name, estimate(model, layout="free", regroup=True, dims={"batch": N})) == expected
    plain = estimate(model, layout="free").subs(batch=N)
    assert differing(name, plain, PLAIN) == {}


def folded() -> dict[tuple[str, str], dict[str, int]]:
    """The difference that constant folding, the default of both exporters, makes."""

    def stored(count: int) -> dict[str, int]:
        return {"n_params": count, "n_params_model": count}

    stored_twice = stored(V * D)
    # The mask of bools is converted to floats once for all layers; reading it takes 3 more bytes per pair.
    pairs = N * T * T
    one_mask = {"flops": pairs, "mread": LAYERS * 3 * pairs + pairs, "mwrite": 4 * pairs}
    # The product of rotations with their scale, which is 1, is removed for cosines and sines.
    unscaled = N * T * (D // HEADS)
    # Positions are looked up in advance: in the table of the audio, and with the newer exporter in that of the words.
    audio = {"mread": -(4 * D + 8) * AUDIO, "mwrite": -4 * D * AUDIO}
    words = {"mread": -(4 * D + 8) * N * T, "mwrite": -4 * D * N * T, **stored((N * T - 64) * D)}
    # The mask of patches, which masks nothing, is folded to floats.
    patches = N * PATCHES**2
    skipped = {"flops": LAYERS * HEADS * patches, "mread": LAYERS * 4 * patches} if MASKS_NOTHING else {}
    return {
        ("bert", "older"): stored_twice,
        ("bert", "newer"): {**one_mask, **stored_twice},
        ("gpt2", "older"): total(stored_twice, unfolded("gpt2", "older")),
        ("gpt2", "newer"): {**one_mask, **stored_twice},
        ("llama", "newer"): {
            "flops": one_mask["flops"] - 2 * unscaled,
            "mread": one_mask["mread"] - 2 * 4 * unscaled,
            "mwrite": one_mask["mwrite"] - 2 * 4 * unscaled,
        },
        ("opt", "older"): stored_twice,
        ("opt", "newer"): {**one_mask, **stored_twice},
        ("whisper", "older"): total(stored_twice, unfolded("whisper", "older"), audio),
        ("whisper", "newer"): total(stored_twice, one_mask, evaluated(), audio, words),
        # The newer exporter stores the class token once per image, and it is read so.
        ("vit", "newer"): total(skipped, {"mread": 4 * (N - 1) * D}, stored((N - 1) * D)),
    }


@each
def test_constant_folding_makes_the_expected_difference(name, exporter):
    skip_computed_positions()
    report = estimate(exported(name, exporter, folded=True), layout="free", regroup=True)
    assert differing(name, report) == folded().get((name, exporter), {})
    assert not report.ignored_layers


def test_a_hand_written_norm_is_one_operator_if_its_pattern_is_named():
    for exporter in EXPORTERS:
        model = exported("llama", exporter)
        assert "rms_norm" not in estimate(model, regroup=True).by("op")
        assert estimate(model, regroup=("rms_norm",)).by("op")["rms_norm"]["n_layers"] == 2 * LAYERS + 1


MASKED = {
    "bert": NETWORKS["bert"],
    "gemma": Network(
        "GemmaForCausalLM",
        "GemmaConfig",
        {**WORDS, "num_key_value_heads": 2, "head_dim": D // HEADS},
        GIVEN,
        calls={"use_cache": False},
    ),
}
"""Models that make the mask of all pairs from one of tokens, and positions, by operations on constants."""


@pytest.mark.parametrize("name", MASKED)
def test_what_a_model_computes_from_constants_while_it_is_exported_is_counted(name):
    skip_computed_positions()
    if not MASKS_NOTHING:
        pytest.skip("a run cannot be told that it is an export")
    module, given = network_of(MASKED[name]), (inputs("bert")[0], torch.ones(N, T, dtype=torch.int64))
    with mock.patch.multiple(torch.compiler, _is_compiling_flag=True, _is_exporting_flag=True):
        expected = estimate(module, given, layout="free").total_report  # does not look whether the mask masks nothing
    model = export(module, given, "newer", 18)
    totals = estimate(model, layout="free", regroup=True).total_report
    # Nothing reads the numbers of the heads, of which there is one: the exporter leaves them out.
    assert {c: totals[c] - expected[c] for c in TOTALS if totals[c] != expected[c]} == {"mwrite": -8}
