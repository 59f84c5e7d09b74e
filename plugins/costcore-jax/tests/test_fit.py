"""Whether models of JAX fit: by hand, to the byte."""

from __future__ import annotations

import flax.linen as nn
import pytest

from costcore import fit

SRAM, FLASH = 2 * 4 * 16 * 4, (8 * 16 + 16) * 4
"""A product and its sum with the bias, of 4 * 16 numbers each; 8 * 16 weights and 16 biases, of 4 bytes."""


def test_a_verdict_is_true_to_the_byte():
    net = nn.Dense(16)
    found = fit(net, (4, 8), {"sram": SRAM, "flash": FLASH})
    assert (found.fits, found.needs) == (True, {"sram": SRAM, "flash": FLASH})
    for memory, nbytes in found.needs.items():
        below = fit(net, (4, 8), {memory: nbytes - 1})
        assert below.fits is False
        assert below.because.startswith(f"exceeds {memory} by 1 B")


def test_a_smaller_batch_fits():
    """Two values of 64 bytes a sample, at multiples of 64."""
    (smaller,) = (each for each in fit(nn.Dense(16), (9, 8), {"sram": 1000}).suggestions if each.name == "batch")
    assert (smaller.options, smaller.needs) == ({"batch": 7}, {"sram": 7 * 128})


@pytest.mark.parametrize(
    ("inputs", "options", "because"),
    [
        (("batch", 8), {}, "sizes depend on batch: state numbers in the shapes of inputs"),
        ((4, 8), {"train": True}, "the memory of a training step is known only for PyTorch models"),
    ],
)
def test_what_cannot_be_said(inputs, options, because):
    verdict = fit(nn.Dense(16), inputs, "1 GB", **options)
    assert (verdict.fits, verdict.needs) == (None, {})
    assert verdict.because.startswith(because)
