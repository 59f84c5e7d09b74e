"""Damaged headers of weights are read or refused with a sentence: a sample of tools/fuzz_formats.py."""

from __future__ import annotations

from random import Random

import pytest

from tests.frameworks import optional

optional("torch")
optional("transformers")


@pytest.mark.parametrize(("kind", "n"), [("gguf", 25), ("safetensors", 300)])
def test_damaged_files_are_read_or_refused(kind, n, capsys):
    from tests.frontends.pytorch.transformers_differences import HAS_JOINED_EXPERTS
    from tools.fuzz_formats import main

    if kind == "gguf" and not HAS_JOINED_EXPERTS:
        pytest.skip("one of the files has experts, which need transformers 5")
    assert main([kind, "--cases", str(n)]) == 0, capsys.readouterr().out


def test_a_number_determines_its_file():
    from tools.fuzz_formats import damaged, seeds

    (data, *_) = seeds("gguf")
    made = [damaged(data, Random(number)) for number in range(100)]
    assert made == [damaged(data, Random(number)) for number in range(100)]
    assert sum(each != data for each in made) > 80
