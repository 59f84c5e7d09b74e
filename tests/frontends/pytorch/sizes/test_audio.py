"""Formulas in the length of a sound, of encoders with chains of strides, against estimates at other lengths."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import (
    EncodecConfig,
    EncodecModel,
    Mamba2Config,
    Mamba2Model,
    SEWConfig,
    SEWModel,
    Speech2TextConfig,
    Speech2TextModel,
)

from costcore import CostError, Tensor, estimate
from tests.frontends.pytorch.sizes.points import sized

TRANSFORMER = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def encodec() -> Any:
    sizes = {"num_filters": 4, "hidden_size": 8, "codebook_size": 16, "codebook_dim": 8, "num_lstm_layers": 1}
    return EncodecModel(EncodecConfig(upsampling_ratios=[4, 2], **sizes))


def sew() -> Any:
    strides = {"conv_dim": (8, 8, 8), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "squeeze_factor": 2}
    near = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
    return SEWModel(SEWConfig(**TRANSFORMER, **strides, **near))


def speech_to_text() -> Any:
    sizes = {"d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32}
    sound = {"conv_channels": 16, "input_feat_per_channel": 20, "max_source_positions": 1000}
    return Speech2TextModel(Speech2TextConfig(**sizes, **sound)).encoder


def mamba2() -> Any:
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_heads": 2,
        "head_dim": 16,
        "state_size": 8,
        "vocab_size": 50,
    }
    return Mamba2Model(Mamba2Config(**sizes, n_groups=1, chunk_size=16))


NETWORKS = {
    "encodec": (encodec, (1, 1, "n"), {"n": (200, 4000)}, (400, 641, 1002)),
    "sew": (sew, (1, "40*n"), {"n": (20, 400)}, (25, 100, 133)),
    "speech_to_text": (speech_to_text, (1, "n", 20), {"n": (20, 900)}, (100, 101, 333)),
    "mamba2": (mamba2, Tensor((1, "n"), "int64"), {"n": (4, 100)}, (16, 17, 77)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_formulas_are_the_estimates(name: str) -> None:
    """What may differ is the number of calls without a cost, such as slices of a whole axis; the report says so."""
    build, inputs, ranges, points = NETWORKS[name]
    net = build().eval()
    report = estimate(net, inputs, ranges=ranges)
    for n in points:
        found, expected = report.subs(n=n), estimate(net, sized(inputs, {"n": n}))
        totals, others = dict(found.total_report), dict(expected.total_report)
        if totals.pop("n_layers") != others.pop("n_layers"):
            assert any("n_layers does not count them" in note for note in report.notes)
        assert totals == others
        assert found.status == expected.status == "complete"
        assert found.fused().total_report["mrw"] == expected.fused().total_report["mrw"]


def test_sizes_that_are_padded() -> None:
    """SEW pads by one where the length after its strides is odd: formulas are for lengths of which it is even."""
    with pytest.raises(CostError, match=r"If it pads to a multiple, write the size as one, such as '16\*n'"):
        estimate(sew().eval(), (1, "n"), ranges={"n": (1000, 20000)})
