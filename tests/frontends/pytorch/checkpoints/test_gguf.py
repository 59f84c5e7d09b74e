"""Models of GGUF headers: bytes of the tensor table, and costs of the published configurations of transformers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

import costcore
from costcore import CostError, ServingReport
from tests.command_line import main

from .headers import DATA, header, load, read_gguf, shortened, unpacked

pytest.importorskip("transformers")

from tests.frontends.pytorch.transformers_differences import ANGLES_ARE_PRODUCTS, HAS_JOINED_EXPERTS

# What GGUFReader of the package gguf 0.19.0 adds up of the same headers: tensors, bytes and elements. Elements are
# those that the model cards publish (8,030,261,248 of Llama 3.1, and the 64 factors of its rotary positions).
TABLE = {
    "gemma-2-9b": (464, 5518456832, 9241705984),
    "gemma-2b": (164, 2663030784, 2506172416),
    "gemma-3-4b": (444, 2310295552, 3880263168),
    "gpt2": (148, 249122304, 124439808),
    "llama-3.1-8b": (292, 4912898304, 8030261312),
    "llama-3.2-1b": (146, 1313251328, 1235814400),
    "mamba-2.8b": (642, 2963994880, 2768345600),
    "mistral-7b": (291, 4077928448, 7248023552),
    "mixtral-8x7b": (323, 28263702528, 46702792704),
    "phi-2": (325, 2956226560, 2779683840),
    "phi-3-mini-4k": (195, 2279247360, 3821079552),
    "qwen1.5-moe-a2.7b": (411, 15220056064, 14315784192),
    "qwen2.5-7b": (339, 4677120000, 7615616512),
    "qwen3-30b-a3b": (579, 18550716416, 30532122624),
    "qwen3-8b": (399, 5021827072, 8190735360),
    "olmo-2-7b": (355, 4468457472, 7298617344),
    "stablelm-2-1.6b": (340, 1748320256, 1644515328),
    "starcoder2-3b": (483, 3222810624, 3030371328),
}


def test_every_header_has_a_row():
    assert {path.name.removesuffix(".gguf.gz") for path in DATA.glob("*.gz")} == set(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_tensors_has_the_bytes_that_gguf_reads(name, tmp_path):
    tensors = read_gguf(unpacked(name, tmp_path)).tensors
    found = len(tensors), sum(each.nbytes for each in tensors), sum(each.size for each in tensors)
    assert found == TABLE[name]


CONFIGS = json.loads((DATA / "configs.json").read_text(encoding="utf-8"))
"""The types and sizes in the config.json of the repositories that make_headers.py names."""

NEED_TRANSFORMERS_5 = ("mamba-2.8b", "mixtral-8x7b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b")


def published(name: str) -> Any:
    """Return the model of a published configuration with two layers, on the meta device."""
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, settings = CONFIGS[name]
    layers = "n_layer" if kind == "gpt2" else "num_hidden_layers"
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{layers: 2}, **settings)).half()


@pytest.mark.parametrize("name", TABLE)
def test_a_decode_step_costs_what_the_published_model_costs(name, tmp_path):
    if name in NEED_TRANSFORMERS_5 and not HAS_JOINED_EXPERTS:
        with pytest.raises(CostError, match="install transformers 5"):
            ServingReport(unpacked(name, tmp_path))
        return
    found = read_gguf(unpacked(name, tmp_path))
    short = tmp_path / "short.gguf"
    short.write_bytes(shortened(found, 2))
    of_file, of_model = ServingReport(str(short)), ServingReport(published(name))
    assert of_file.n_params == of_model.n_params
    assert of_file.kv_bytes_per_token == of_model.kv_bytes_per_token
    for context in (64, min(4096, of_file.most_tokens or 4096)):
        mine, own = of_file.decode(batch=2, context=context), of_model.decode(batch=2, context=context)
        assert (mine.total.macs, mine.total.flops) == (own.total.macs, own.total.flops)
    tensors = read_gguf(str(short)).tensors
    assert of_file.weight_bytes == sum(each.nbytes for each in tensors)


def test_a_window_of_0_is_none(tmp_path):
    """As llama.cpp writes Phi-4: 1,024 tokens more are 2 products of 3,072 features each in each of 2 layers."""
    found = read_gguf(unpacked("phi-3-mini-4k", tmp_path))
    found = found._replace(metadata={**found.metadata, "phi3.attention.sliding_window": 0})
    path = tmp_path / "short.gguf"
    path.write_bytes(shortened(found, 2))
    report = ServingReport(str(path))
    longer, shorter = (report.decode(batch=1, context=context).macs for context in (4000, 2976))
    assert longer - shorter == 1024 * 2 * 3072 * 2


def test_a_step_reads_every_byte_of_the_layers_and_the_row_of_a_token(tmp_path):
    # Llama 3.1: all but the embedding [128256, 4096] in Q4_K (144 bytes of 256), of which one row is read, and the 64
    # factors of 4 bytes
    report = ServingReport(unpacked("llama-3.1-8b", tmp_path))
    step = report.decode(batch=1, context=4096)
    row = 4096 * 144 // 256
    assert report.weight_bytes == 4912898304
    assert step.total.load_weight / 8 == 4912898304 - 128256 * row + row - 64 * 4
    # of 32 layers: q and o [4096, 4096], k and v [1024, 4096], three of [14336, 4096]; the output; 4096 keys and values
    layer = 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    turned = 64 if ANGLES_ARE_PRODUCTS else 0
    assert step.total.macs == 32 * (layer + 2 * 4096 * 4096) + 128256 * 4096 + turned
    assert report.notes == (
        "the file also stores rope_freqs.weight, which the model does not have: the bytes of weights include them",
    )


TINY = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.embedding_length": 32,
    "llama.context_length": 64,
    "llama.attention.head_count": 2,
    "llama.feed_forward_length": 96,
}


def tiny(*changes: tuple[str, tuple[int, ...], str]) -> list[tuple[str, tuple[int, ...], str]]:
    """Return the tensors of a Llama of one layer: attention of 2 heads of 16, 96 hidden features, 10 tokens."""
    shapes = {"token_embd": (10, 32), "output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
    shapes |= {f"blk.0.attn_{name}": (32, 32) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (96, 32), "blk.0.ffn_up": (96, 32), "blk.0.ffn_down": (32, 96)}
    listed = {f"{name}.weight": (f"{name}.weight", shape, "F32") for name, shape in shapes.items()}
    return [*{**listed, **{change[0]: change for change in changes}}.values()]


def written(tmp_path: Path, metadata: Any = TINY, tensors: Any = None, name: str = "tiny.gguf") -> str:
    path = tmp_path / name
    path.write_bytes(header(metadata, tiny() if tensors is None else tensors))
    return str(path)


def test_estimate_counts_the_given_tokens(tmp_path):
    path = written(tmp_path)
    report = costcore.estimate(path, (1, 8))
    # 8 tokens: four of 32 x 32, three of 96 x 32; attention of 8 x 8 positions and 32 features; the tied output
    # 10 x 32 of the last token alone, as llama.cpp computes it
    turned = 8 * 8 if ANGLES_ARE_PRODUCTS else 0  # 8 frequencies of heads of 16
    assert report.total_report["macs"] == 8 * (4 * 32 * 32 + 3 * 96 * 32) + 10 * 32 + 2 * 8 * 8 * 32 + turned
    named = costcore.estimate(path, ("batch", "seq")).subs(batch=1, seq=8)
    assert named.total_report["macs"] == report.total_report["macs"]


def test_an_estimate_without_inputs_says_which_prompt_it_counts(tmp_path):
    metadata = {**TINY, "llama.context_length": 1024}
    report = costcore.estimate(written(tmp_path, metadata))
    assert report.total_report["macs"] == costcore.estimate(written(tmp_path, metadata), (1, 512)).total_report["macs"]
    assert "one prompt of 512 tokens is counted" in report.notes[0]
    # 32 x 4 + 10 x 32 elements of F32
    nbytes = 4 * (10 * 32 + 3 * 32 + 4 * 32 * 32 + 3 * 96 * 32)
    assert f"stores the weights in {nbytes:,} bytes (F32)" in report.notes[1]


@pytest.mark.parametrize(
    ("inputs", "tokens", "note"),
    [
        (None, 128, "no inputs were passed: one prompt of 128 tokens is counted, the context length of the model"),
        ((1, 129), 129, "the model has positions for 128 tokens, fewer than 129"),
    ],
    ids=["without inputs", "longer"],
)
def test_a_prompt_beyond_the_context_of_the_file(tmp_path, inputs, tokens, note):
    path = written(tmp_path, {**TINY, "llama.context_length": 128})
    report = costcore.estimate(path, inputs)
    assert report.notes.count(note) == 1
    assert report.total_report["macs"] == costcore.estimate(written(tmp_path), (1, tokens)).total_report["macs"]


def test_a_prompt_of_the_whole_context_of_the_file(tmp_path):
    assert not any("fewer than" in each for each in costcore.estimate(written(tmp_path), (1, 64)).notes)


def test_a_model_in_several_files_is_read_whole(tmp_path):
    first = {**TINY, "split.count": 2, "split.no": 0}
    tensors = tiny(("blk.0.attn_q.weight", (32, 32), "Q8_0"))
    path = written(tmp_path, first, tensors[:5], "m-00001-of-00002.gguf")
    with pytest.raises(CostError, match=r"m-00002-of-00002.gguf"):
        load(path)
    written(tmp_path, {"split.count": 2}, tensors[5:], "m-00002-of-00002.gguf")
    assert load(path).file.nbytes == 4 * (10 * 32 + 3 * 32 + 3 * 32 * 32 + 3 * 96 * 32) + 32 * 34


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        ({**TINY, "general.architecture": "rwkv6"}, None, "unknown architecture 'rwkv6'"),
        ({}, None, "unknown architecture 'None'"),
        ({"general.architecture": "llama"}, None, "has no llama.embedding_length"),
        ({**TINY, "llama.block_count": 0}, None, "llama.block_count is 0 "),
        ({**TINY, "llama.block_count": 5000}, None, "states 5,000 layers, and stores tensors of 1 "),
        ({**TINY, "llama.attention.head_count_kv": (1, 2)}, None, "layers differ in llama.attention.head_count_kv"),
        ({**TINY, "llama.block_count": 2}, None, "states 2 layers, and stores tensors of 1 "),
        (TINY, tiny()[:-1], r"down_proj.weight \(0 of 3,072\)"),
        (TINY, tiny(("blk.0.ffn_up.weight", (64, 32), "F32")), r"up_proj.weight \(2,048 of 3,072\)"),
        (TINY, [], "has no tensor token_embd.weight"),
        ({**TINY, "llama.attention.head_count": 3}, None, "do not fit LlamaForCausalLM|cannot make a llama"),
    ],
)
def test_what_no_model_of_transformers_has_is_said(tmp_path, metadata, tensors, message):
    with pytest.raises(CostError, match=message):
        load(written(tmp_path, metadata, tensors))


def good() -> bytes:
    return header({"general.architecture": "llama"}, [("a.weight", (2, 256), "Q4_K")])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends inside of its header"),
        (b"GGML" + good()[4:], "does not begin with GGUF"),
        (header({}, [], version=1), "its version is 1"),
        (b"GGUF\0\0\0\3" + good()[8:], "big-endian"),
        (good()[:-1], "ends inside of its header"),
        (good()[:8] + b"\xff" * 8 + good()[16:], "tensors"),
        (good()[:16] + b"\xff" * 8 + good()[24:], "keys"),
        (good()[:24] + b"\xff" * 8 + good()[32:], r"a text of its header has [\d,]+ bytes \(at most 65,536\)"),
        (header({}, [("a", (2, 100), "Q4_K")]), "do not consist of whole blocks of 256"),
        (header({}, [("a", (2**32, 2**32), "F32")]), "more than 1,125,899,906,842,624 elements"),
        (header({}, [("a", (1,) * 5, "F32")]), "5 axes"),
        (header({}, [("a", (1,), "F32")] * 2), "two tensors have the same name"),
        (good()[:-12] + b"\x05\0\0\0" + good()[-8:], "type 5, which is unknown"),
    ],
)
def test_a_damaged_header_ends_in_a_sentence(tmp_path, data, message):
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(CostError, match=message):
        read_gguf(str(path))


def test_long_vocabularies_are_passed_over(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(header({"tokenizer.ggml.tokens": ("token",) * 70000, "k": (1,) * 5000, "end": 7}, []))
    assert read_gguf(str(path)).metadata == {"tokenizer.ggml.tokens": (70000,), "k": (5000,), "end": 7}


def test_a_file_that_does_not_exist_is_said():
    with pytest.raises(CostError, match=r"missing.gguf cannot be read"):
        costcore.estimate("missing.gguf")


def test_weights_take_what_the_file_stores():
    """Q8_0 with 34 bytes of 32 numbers, and F32: as many as the reader of the package gguf adds up."""
    path = Path(__file__).parents[4] / "docs" / "llama-3.2-1b.gguf"
    memory = costcore.estimate(path, (1, 8), memory=True).memory
    assert memory.ledger.live("parameter")[0] == TABLE["llama-3.2-1b"][1]
    assert "weights are in the formats of the file: Q8_0, F32" in memory.notes


def test_a_file_fits_or_not(tmp_path, capsys):
    """1,313,251,328 bytes of weights, a context of 500 MiB, and values."""
    path = unpacked("llama-3.2-1b", tmp_path)
    least = TABLE["llama-3.2-1b"][1] + 500 * 2**20 + 3 * 512 * 8192 * 2  # gate, up, and their product
    assert main(["fit", path, "l4"]) == 0
    assert main(["fit", path, f"{least + 30_000_000} B"]) == 0
    capsys.readouterr()
    assert main(["fit", path, f"{least} B"]) == 1
    text = capsys.readouterr().out
    assert "exceeds memory by" in text
    assert "cannot be tried" not in text  # a file is neither cast nor sharded


def key(name):
    return struct.pack("<Q", len(name)) + name


ARRAY, TEXT = 9, 8
HOSTILE = {
    "texts": (
        key(b"a") + struct.pack("<IIQ", ARRAY, TEXT, 1001) + bytes(8 * 1001),
        r"more than 1,000 texts and arrays",
    ),
    "arrays": (
        key(b"a") + struct.pack("<IIQ", ARRAY, ARRAY, 600) + (struct.pack("<IQ", ARRAY, 1) + bytes(12)) * 600,
        r"more than 1,000 texts and arrays",
    ),
    "name": (
        struct.pack("<Q", 2**16 + 1) + bytes(2**16 + 1),
        r"a text of its header has 65,537 bytes \(at most 65,536\)",
    ),
    "text": (
        key(b"a") + struct.pack("<IQ", TEXT, 2**24 + 1),
        r"a text of its header has 16,777,217 bytes \(at most 16,777,216\)",
    ),
    "numbers": (key(b"a") + struct.pack("<IIQ", ARRAY, 0, 2**40), r"it states 1,099,511,627,776 elements of an array"),
    "cut": (key(b"a") + struct.pack("<IIQ", ARRAY, 0, 2**27), "it ends inside of its header"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_header_holds_is_bounded(tmp_path, monkeypatch, name):
    monkeypatch.setattr("costcore.frontends.pytorch.checkpoints.files.MOST_PARTS", 1000)
    body, message = HOSTILE[name]
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + body)
    with pytest.raises(CostError, match=message):
        read_gguf(str(path))


def test_long_arrays_are_passed_over(tmp_path):
    """Numbers of 64 MiB, which are a hole in the file, are not kept."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "x.gguf"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + key(b"a") + struct.pack("<IIQ", ARRAY, 0, 2**26))
        file.seek(2**26, 1)
        file.write(key(b"general.architecture") + struct.pack("<I", TEXT) + key(b"nothing"))
    assert read_gguf(str(path)).metadata["general.architecture"] == "nothing"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**15
