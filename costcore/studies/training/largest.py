"""The largest micro-batch of a training step that fits the memory of a device, and its report."""

from __future__ import annotations

from typing import Any

from costcore.api.target import model_and_inputs
from costcore.errors import CostError
from costcore.reports.report import Report
from costcore.studies.batch_size.captures import Captures, check_model
from costcore.studies.batch_size.fit import step_options
from costcore.studies.batch_size.inputs import inputs_of_batch
from costcore.studies.batch_size.largest import LargestBatch, find_largest
from costcore.studies.batch_size.limit import CONTEXT, make_limit
from costcore.text.amounts import readable


def largest_step(
    model: Any,
    inputs: Any,
    memory: int | str,
    *,
    context: int | str = CONTEXT,
    accumulates: bool = False,
    optimizer: Any = None,
    **options: Any,
) -> tuple[LargestBatch, Report]:
    """Return the largest batch of one pass that fits, of the rank that is captured, and the report of that pass.

    The batch is captured, and the next one, which does not fit.

    Args:
        model: the model.
        inputs: inputs whose batch has a name.
        memory: the memory of a device.
        context: what a process takes before its first tensor.
        accumulates: whether gradients of earlier passes are alive.
        optimizer: the optimizer.
        options: further options of :func:`costcore.estimate`, such as ``mesh``, ``plan`` and ``checkpoint``.

    Raises:
        CostError: if not even the smallest batch fits, or the model cannot be captured.
        TypeError, ValueError: if an argument is invalid.
    """
    limit = make_limit(memory, context)
    model, inputs = model_and_inputs(model, inputs, is_step=True)
    check_model(model)
    chosen = step_options(True, optimizer, None, options, limit.allocator)
    if accumulates:
        chosen["step"] = "accumulated"
    captures = Captures(model, inputs_of_batch(inputs), chosen)
    found = find_largest(captures, limit)
    if not found.batch:
        needed, memory_of_device = (readable(nbytes, "bytes", 2) for nbytes in (found.needed, limit.memory))
        raise CostError(f"not even the smallest batch fits: it needs {needed} of {memory_of_device}")
    return found, captures.report(found.batch)
