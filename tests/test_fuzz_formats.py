"""Damaged files of weights and of settings are read or refused with a sentence: a sample of tools/fuzz_formats.py."""

from __future__ import annotations

from random import Random

import pytest

from tests.frameworks import optional

optional("torch")
optional("transformers")


SAMPLE = {
    "gguf": 25,
    "safetensors": 300,
    "index": 100,
    "config": 25,
    "device": 100,
    "calibration": 100,
    "convention": 100,
}
"""How many files of a kind are tried; 200 of all others."""


@pytest.mark.parametrize(("kind", "n"), [*SAMPLE.items(), ("jsonl", 200), ("csv", 200)])
def test_damaged_files_are_read_or_refused(kind, n, capsys):
    from tests.frontends.pytorch.transformers_differences import HAS_JOINED_EXPERTS
    from tools.fuzz_formats import main

    if kind == "gguf" and not HAS_JOINED_EXPERTS:
        pytest.skip("one of the files has experts, which need transformers 5")
    assert main([kind, "--cases", str(n)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("kind", ["gguf", "safetensors", "device", "jsonl"])
def test_files_that_are_replaced_while_they_are_read_are_read_or_refused(kind, capsys):
    from tests.frontends.pytorch.transformers_differences import HAS_JOINED_EXPERTS
    from tools.fuzz_formats import main

    if kind == "gguf" and not HAS_JOINED_EXPERTS:
        pytest.skip("one of the files has experts, which need transformers 5")
    assert main([kind, "--cases", "20", "--replace"]) == 0, capsys.readouterr().out


def test_a_number_determines_its_file():
    from tools.fuzz_formats import damaged, seeds

    (data, *_) = seeds("gguf")
    made = [damaged(data, Random(number)) for number in range(100)]
    assert made == [damaged(data, Random(number)) for number in range(100)]
    assert sum(each != data for each in made) > 80
