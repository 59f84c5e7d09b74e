"""Models of folders of safetensors files: bytes of their headers, of plain, sharded and quantized weights."""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path
from typing import Any

import pytest

import costcore
from costcore import CostError, ServingReport

pytest.importorskip("transformers")

from tests.command_line import main
from tests.frontends.pytorch.checkpoints.headers import load, read_safetensors
from tests.frontends.pytorch.transformers_differences import ANGLES_ARE_PRODUCTS, HAS_JOINED_EXPERTS

BITS = {"F32": 32, "BF16": 16, "F16": 16, "I32": 32, "F8_E4M3": 8, "U8": 8}

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 32,
    "intermediate_size": 96,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 10,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}

Tensors = dict[str, tuple[str, tuple[int, ...]]]

LAYER = "model.layers.0."


def plain(dtype: str = "BF16") -> Tensors:
    """Return the tensors of the model of CONFIG: 10 tokens, 32 features, 96 hidden ones."""
    shapes = {"model.embed_tokens": (10, 32), "model.norm": (32,)}
    shapes |= {f"{LAYER}{name}_layernorm": (32,) for name in ("input", "post_attention")}
    shapes |= {f"{LAYER}self_attn.{name}_proj": (32, 32) for name in "qkvo"}
    shapes |= {f"{LAYER}mlp.{name}_proj": (96, 32) for name in ("gate", "up")}
    shapes[f"{LAYER}mlp.down_proj"] = (32, 96)
    return {f"{name}.weight": (dtype, shape) for name, shape in shapes.items()}


SIZE = 10 * 32 + 3 * 32 + 4 * 32 * 32 + 3 * 96 * 32


def header(tensors: Tensors) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        end = at + prod(shape) * BITS[dtype] // 8
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


def folder(tmp_path: Path, tensors: Tensors, **changes: Any) -> str:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    (tmp_path / "model.safetensors").write_bytes(header(tensors))
    return str(tmp_path)


def test_weights_have_the_bytes_of_the_header(tmp_path):
    report = ServingReport(folder(tmp_path, plain()))
    assert (report.n_params, report.weight_bytes, report.dtype) == (SIZE, 2 * SIZE, "bfloat16")
    assert (
        report.decode(batch=1, context=8).total.load_weight / 8 == 2 * SIZE + 2 * 32
    )  # the tied output whole, and one row


def test_a_folder_is_a_model_of_every_command(tmp_path):
    report = costcore.estimate(folder(tmp_path, plain()), (1, 8))
    turned = 8 * 8 if ANGLES_ARE_PRODUCTS else 0  # 8 frequencies of heads of 16
    assert report.total_report["macs"] == 8 * (4 * 32 * 32 + 3 * 96 * 32 + 10 * 32) + 2 * 8 * 8 * 32 + turned


def test_a_folder_fits_or_not(tmp_path):
    """Weights in 2 bytes, eight tokens of 8 bytes, and 8 * 10 numbers of 2 bytes at the end are less than 2 KB more."""
    path = folder(tmp_path, plain())
    exact = costcore.fit(path, (1, 8), 2 * SIZE + 64, context=0)
    assert exact.fits is False
    needs = exact.needs["memory"]
    assert needs - 2 * SIZE < 8_000
    assert costcore.fit(path, (1, 8), needs, context=0).fits
    assert not costcore.fit(path, (1, 8), needs - 1, context=0).fits


def test_an_index_names_the_files(tmp_path):
    tensors = [*plain().items()]
    path = folder(tmp_path, {})
    (tmp_path / "model.safetensors").unlink()
    parts = {"model-00001-of-00002.safetensors": tensors[:4], "model-00002-of-00002.safetensors": tensors[4:]}
    for name, part in parts.items():
        (tmp_path / name).write_bytes(header(dict(part)))
    (tmp_path / "other.safetensors").write_bytes(header(plain()))  # a copy that the index does not name
    index = {"weight_map": {tensor: name for name, part in parts.items() for tensor, _ in part}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert load(path).file.nbytes == 2 * SIZE
    index["weight_map"]["model.norm.weight"] = "../model.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CostError, match="names of safetensors files in its folder"):
        load(path)


def test_packed_weights_belong_to_their_layer(tmp_path):
    # GPTQ of 4 bits with groups of 32: of [32, 32] 32 x 32 / 8 int32, 32 scales of float16, 4 zero points in int32,
    # 32 indices of groups in int32
    tensors = plain()
    del tensors[f"{LAYER}self_attn.q_proj.weight"]
    packed: Tensors = {"qweight": ("I32", (4, 32)), "scales": ("F16", (1, 32))}
    packed |= {"qzeros": ("I32", (1, 4)), "g_idx": ("I32", (32,))}
    nbytes = 4 * 4 * 32 + 2 * 32 + 4 * 4 + 4 * 32
    tensors |= {f"{LAYER}self_attn.q_proj.{name}": each for name, each in packed.items()}
    found = load(folder(tmp_path, tensors)).file
    part = found.part(f"{LAYER}self_attn.q_proj".rstrip("."), 32 * 32)
    assert part is not None
    assert part.bits_with_scales == 8 * nbytes / (32 * 32)
    assert part.bits == 4
    assert found.nbytes == 2 * (SIZE - 32 * 32) + nbytes


def test_experts_that_are_stored_one_by_one_are_those_of_one_parameter(tmp_path):
    tensors = {name: each for name, each in plain().items() if ".mlp." not in name}
    names = {"w1": ("F8_E4M3", (96, 32)), "w2": ("BF16", (32, 96)), "w3": ("F8_E4M3", (96, 32))}
    at = f"{LAYER}block_sparse_moe"
    tensors |= {f"{at}.experts.{i}.{name}.weight": each for i in range(4) for name, each in names.items()}
    tensors[f"{at}.gate.weight"] = ("BF16", (4, 32))
    kind = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]}
    found = load(folder(tmp_path, tensors, **kind, num_local_experts=4, num_experts_per_tok=2)).file
    if not HAS_JOINED_EXPERTS:
        part = found.part(f"{at}.experts.3.w2", 96 * 32)
        assert part is not None and part.bits == 16
        return
    both, last = (found.part(f"{LAYER}mlp.experts", 4 * size) for size in (2 * 96 * 32, 96 * 32))
    assert (both, last) == ((8, 8), (16, 16))


def test_a_missing_weight_is_named(tmp_path):
    tensors = plain()
    del tensors[f"{LAYER}mlp.up_proj.weight"]
    with pytest.raises(CostError, match=r"no weights for 1 parameters of LlamaForCausalLM: .*up_proj.weight"):
        load(folder(tmp_path, tensors))


def test_a_file_of_weights_is_answered_with_its_folder(tmp_path, capsys):
    path = folder(tmp_path, plain())
    with pytest.raises(SystemExit):
        main([f"{path}/model.safetensors"])
    assert f"not a model. Pass its folder, {path}" in capsys.readouterr().err


def test_weights_of_another_configuration_are_refused(tmp_path):
    wrong = r"config.json beside it: .*mlp\.gate_proj\.weight \(3,072 of 3,200\)"
    with pytest.raises(CostError, match=wrong):
        ServingReport(folder(tmp_path, plain(), intermediate_size=100))


def test_a_folder_without_weights_is_no_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(CostError, match="is a directory, not a model"):
        costcore.estimate(str(tmp_path))


def damaged(**changes: Any) -> bytes:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}
    text = json.dumps({"a": entry}).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin with the size of a header"),
        (b"\xff" * 8, "does not begin with the size of a header"),
        (damaged()[:-1], "ends inside of its header"),
        (struct.pack("<Q", 2) + b"[]", "not an object in JSON"),
        (struct.pack("<Q", 9) + b"{" * 9, "not in JSON"),
        (struct.pack("<Q", 90000) + b"[" * 90000, "not in JSON: RecursionError"),
        (damaged(dtype="F31"), "dtype 'F31', which is unknown"),
        (damaged(dtype=["F32"]), "dtype .*, which is unknown"),
        (damaged(shape=[2.0]), "no valid shape or data_offsets"),
        (damaged(shape=[True]), "no valid shape or data_offsets"),
        (damaged(shape=None), "no valid shape or data_offsets"),
        (damaged(data_offsets=[8]), "no valid shape or data_offsets"),
        (damaged(data_offsets=[8, 0]), "do not fit its shape"),
        (damaged(shape=[2**60]), "elements"),
    ],
)
def test_a_damaged_header_ends_in_a_sentence(tmp_path, data, message):
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(CostError, match=message):
        read_safetensors(str(path))
