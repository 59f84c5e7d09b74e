"""Compare inferred shapes of all standard operators, with varied settings, with shapes of ONNX Runtime.

Run in the root of the repository, in an environment with onnxruntime: ``python tools/onnx_variants.py [--cases 20000]
[--seed 0]``. Operators that ONNX Runtime lacks are run by onnx's reference evaluator; nodes that fail are left out.
Prints every node that costcore refuses, cannot price, or gives another shape; exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from costcore.counting import Pricer
from costcore.registry import calculators
from tests.frontends.onnx.variant_truth import fault, true_outputs
from tests.frontends.onnx.variants import Case, originals, variants


def run(content: bytes, inputs: dict[str, Any]) -> list[Any] | None:
    """Return the outputs that ONNX Runtime computes; None if it refuses the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        found: list[Any] = session.run(None, inputs)
    except Exception:  # each reason has its own class
        return None
    return found


class OnnxRuntime:
    """ONNX Runtime in its own process, because some nodes abort it."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1)

    def __call__(self, case: Case) -> list[Any] | None:
        """Return the outputs that it computes; None if it refuses the model or ends."""
        try:
            return self._pool.submit(run, case.model.SerializeToString(), case.inputs).result()
        except BrokenProcessPool:
            self._pool = ProcessPoolExecutor(1)
            return None


def main(argv: list[str] | None = None) -> int:
    """Run the cases, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    price, seen = Pricer(calculators()), Counter[str]()
    cases, by_onnxruntime = originals(), OnnxRuntime()
    is_run = {case.original: by_onnxruntime(case) is not None for case in cases}
    for case in variants(cases, options.cases, Random(options.seed)):
        judge = "ONNX Runtime" if is_run[case.original] else "the reference evaluator"
        truth = by_onnxruntime(case) if is_run[case.original] else true_outputs(case)
        if truth is None:
            seen["refused"] += 1
            continue
        seen[f"run by {judge}"] += 1
        why = fault(case, truth, price)
        if why:
            seen["failed"] += 1
            print(f"{why} ({judge}): {case.name}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in seen.items()))
    return 1 if seen["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
