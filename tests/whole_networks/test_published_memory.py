"""Memory of training steps against figures that Hugging Face measured on a V100 in January 2022.

BERT-large on sequences of 512 tokens, as ``nvidia-smi`` shows it (MiB), with 1,343 MiB before the first tensor:
https://huggingface.co/docs/transformers/v4.21.0/perf_train_gpu_one. That version of transformers wrote attention as
products, made a mask of ones, and filled gradients with zeros instead of freeing them.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from costcore import fit

DATA = Path(__file__).parents[1] / "data" / "training_memory.csv"

ROWS = [*csv.DictReader(DATA.read_text(encoding="utf-8").splitlines())]

BEFORE = "1343 MiB"

LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}


@pytest.fixture(scope="module")
def bert():
    with torch.device("meta"):
        return BertForSequenceClassification(BertConfig(**LARGE, attn_implementation="eager")).train()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_memory_is_within_seven_percent(bert, row):
    batch = int(row["batch"])
    tokens = dict.fromkeys(("input_ids", "attention_mask"), ((batch, 512), "int64"))
    given = {name: row[name] for name in ("precision", "checkpoint") if row[name]}
    found = fit(
        bert,
        {**tokens, "labels": ((batch,), "int64")},
        "16160 MiB",
        optimizer=row["optimizer"],
        step="accumulated",
        context=BEFORE,
        suggestions=False,
        **given,
    )
    assert found.fits
    assert found.needs["memory"] / 2**20 == pytest.approx(int(row["mib"]), rel=0.07)
