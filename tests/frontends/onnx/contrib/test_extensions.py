"""onnxruntime-extensions: shapes as its library 0.15.2 returns them, and what is free on purpose."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto

from costcore.ir import Operations
from tests.frontends.onnx.contrib.single_node import INT64, UINT8, priced

S, BOOL = TensorProto.STRING, TensorProto.BOOL
ONE = (S, (1,))
BOTH = ("ai.onnx.contrib", "com.microsoft.extensions")

TEXT: list[tuple[str, list[Any], str, list[str]]] = [
    ("BertTokenizer", [(S, (1,))], "tokenize", ["(y0_0,)", "(y1_0,)", "(y2_0,)", "(y3_0, 2)"]),
    ("HfBertTokenizer", [(S, (2,))], "tokenize", ["(1, y0_1)", "(1, y1_1)", "(1, y2_1)"]),
    ("GPT2Tokenizer", [(S, (2,))], "tokenize", ["(2, y0_1)", "(2, y1_1)"]),
    ("CLIPTokenizer", [(S, (2,))], "tokenize", ["(2, y0_1)", "(2, y1_1)", "(2, y2_1, 2)"]),
    ("RobertaTokenizer", [(S, (2, 1))], "tokenize", ["(2, 1, y0_2)", "(2, 1, y1_2)"]),
    ("TrieTokenizer", [(S, (2,))], "tokenize", ["(2, y0_1)"]),
    ("BasicTokenizer", [(S, (1,))], "tokenize", ["(y0_0,)"]),
    ("SentencepieceTokenizer", [(S, (2,))], "tokenize", ["(y0_0,)", "(y1_0,)", "(y2_0,)"]),
    ("BertTokenizerDecoder", [(INT64, (3,)), (INT64, (1, 2))], "detokenize", ["(y0_0,)"]),
    ("BpeDecoder", [(INT64, (2, 7))], "detokenize", ["(2,)"]),
    ("StringRegexReplace", [(S, (2, 1)), ONE, ONE], "string_replace", ["(2, 1)"]),
    (
        "StringRegexSplitWithOffsets",
        [(S, (2,)), ONE, ONE],
        "string_split",
        ["(y0_0,)", "(y1_0,)", "(y2_0,)", "(y3_0,)"],
    ),
    ("StringSplit", [(S, (2,)), ONE, (BOOL, (1,))], "string_split", ["(y0_0, 2)", "(y1_0,)", "(2,)"]),
    ("StringJoin", [(S, (2, 3)), ONE, [1]], "string_join", ["(2,)"]),
    ("StringUpper", [(S, (2, 2))], "string_normalize", ["(2, 2)"]),
    ("StringLength", [(S, (2, 2))], "string_length", ["(2, 2)"]),
    ("StringConcat", [(S, (2,)), (S, (2,))], "string_concat", ["(2,)"]),
    ("StringEqual", [(S, (2,)), (S, (2,))], "string_equal", ["(2,)"]),
    ("StringToHashBucketFast", [(S, (2,)), (INT64, (1,))], "hash", ["(2,)"]),
    ("StringMapping", [(S, (2,))], "lookup", ["(2,)"]),
    ("StringToVector", [(S, (3,))], "lookup", ["(3, y0_1)"]),
    ("VectorToString", [(INT64, (2, 4))], "lookup", ["(2,)"]),
    ("MaskedFill", [(S, (2,)), (BOOL, (2,))], "string_select", ["(y0_0,)"]),
    ("AudioDecoder", [(UINT8, (1, 900))], "audio_decode", ["(1, y0_1)"]),
]


@pytest.mark.parametrize(("op", "inputs", "name", "made"), TEXT, ids=[line[0] for line in TEXT])
@pytest.mark.parametrize("domain", BOTH)
def test_text_is_free_and_has_its_shapes(domain, op, inputs, name, made):
    layer, cost, recorder = priced(op, *inputs, domain=domain, outputs=len(made))
    assert layer.op == name
    assert [str(y.shape) for y in layer.outputs] == made
    assert (cost.flops, cost.macs) == (Operations(), 0)
    assert recorder.n_params_model == 0


def test_images_are_read_and_written_once():
    image = (UINT8, (8, 6, 3))
    layer, cost, _ = priced("EncodeImage", image, domain=BOTH[1])
    assert (layer.op, str(layer.out.shape), cost.mread) == ("image_encode", "(y0_0,)", 144)
    layer, cost, _ = priced("DecodeImage", (UINT8, (220,)), domain=BOTH[1])
    assert (layer.op, str(layer.out.shape), cost.mread) == ("image_decode", "(y0_0, y0_1, 3)", 220)
    layer, cost, _ = priced("DrawBoundingBoxes", image, (1, 6), domain=BOTH[1])
    assert (layer.op, layer.out.shape, cost.mread, cost.mwrite) == ("image_draw", (8, 6, 3), 144 + 24, 144)


@pytest.mark.parametrize("domain", BOTH)
def test_the_spectrogram_of_whisper(domain):
    # 800 samples in frames of 400, one every 160 and centered: 800 // 160 + 1 = 6, of 400 // 2 + 1 = 201 bins
    layer, cost, _ = priced("StftNorm", (1, 800), [400], [160], (400,), [400], domain=domain)
    assert (layer.op, layer.out.shape) == ("stft_power", (1, 201, 6))
    points, stages = 6 * 400, 9  # ceil(log2(400))
    assert cost.flops == Operations(mul=points + points * stages + 201 * 6, add=3 * points * stages // 2, fma=201 * 6)
    assert (cost.mread, cost.mwrite) == (4 * (800 + 400), 4 * 201 * 6)
