"""Every standard operator with other settings is counted, with the shapes that the reference evaluator returns.

``tools/onnx_variants.py`` compares many more of them with ONNX Runtime.
"""

from __future__ import annotations

from random import Random

from onnx.defs import onnx_opset_version

from tests.frontends.onnx.variant_truth import agreed_outputs, fault
from tests.frontends.onnx.variants import originals, variants

CASES = 600


def test_operators_with_other_settings_are_counted() -> None:
    faults, compared = {}, 0
    for case in variants(originals(), CASES, Random(0)):
        truth = agreed_outputs(case)
        if truth is not None:
            compared += 1
            if why := fault(case, truth):
                faults[case.name] = why
    assert faults == {}
    assert compared > CASES // 2 or onnx_opset_version() < 28
