"""What ONNX Runtime allocates for eighteen networks, against the arena, and fit at the answer and a sample above it.

``tests/data/onnxruntime_memory.csv`` was measured with ONNX Runtime 1.32.0 on a CPU: the highest
``mem_bytes_requested_in_use`` above its value before the first node, of the second run in the profile
(``SessionOptions.enable_profiling``), with ``ORT_DISABLE_ALL``, ``enable_mem_pattern = False`` and
``session.disable_prepacking = 1``, of ``onnx.save(NETWORKS[network](), path)`` with weights of zeros.
"""

from __future__ import annotations

import csv
from math import prod
from pathlib import Path

import pytest

from costcore import estimate, fit
from tests.frontends.onnx.fit_networks import NETWORKS

FILE = Path(__file__).parents[2] / "data" / "onnxruntime_memory.csv"

MEASURED: dict[str, dict[int, int]] = {name: {} for name in NETWORKS}
for row in csv.DictReader(FILE.read_text(encoding="utf-8").splitlines()):
    MEASURED[row["network"]][int(row["batch"])] = int(row["bytes"])

ABOVE = {"cropped_unet": lambda batch: (399_872 + 100_352 - 476_416) * batch + 48}
"""Its graph computes the shape of the second Concat, so that ONNX Runtime plans without knowing it.

Ours takes the buffer of the third convolution, 100,352 bytes, which waits until then: 399,872 are alive beside it at
the first crop, and 48 of sizes. ONNX Runtime frees it, and needs the most at the second convolution: 476,416 bytes.
"""


LAYOUTS = ("mlp", "scores")
"""Their layout, in which no activation is written over its operand, is more than ONNX Runtime allocates."""


def arena(name, batch):
    return estimate(NETWORKS[name](), dims={"batch": batch}).arena(1, count_inputs=False)


@pytest.mark.parametrize("name", NETWORKS)
def test_buffers_are_those_of_the_runtime(name):
    for batch in (1, 2, 6):
        above = ABOVE[name](batch) if name in ABOVE else 0
        assert arena(name, batch).peak_with_reuse == MEASURED[name][batch] + above


@pytest.mark.parametrize("name", NETWORKS)
def test_fit_is_true_at_the_answer_and_false_a_sample_above_it(name):
    """The target is what a batch of 3 needs: ONNX Runtime needs no more with weights and input, and more for 4."""
    model = NETWORKS[name]()
    (x,) = model.graph.input
    sample = 4 * prod(axis.dim_value for axis in x.type.tensor_type.shape.dim[1:])
    needs = fit(model, None, 1, dims={"batch": 3}, remedies=False, align=1).needs["memory"]
    for batch, fits in ((3, True), (4, False)):
        assert fit(model, None, needs, dims={"batch": batch}, remedies=False, align=1).fits is fits
        if fits or name not in LAYOUTS:
            assert (MEASURED[name][batch] + sample * batch + arena(name, 1).weights <= needs) is fits
