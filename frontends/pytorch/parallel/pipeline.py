"""What keeps a stage of ``torch.distributed.pipelining`` from running alone: it asks its neighbors for shapes."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

from costcore.errors import CostError

from ..capture.replacement import replace


def run_stages_alone(stack: ExitStack) -> None:
    """Let a stage of a pipeline run without its neighbors until ``stack`` is closed.

    Before its first step a stage votes with all others whether every stage knows the shapes of what it receives and
    sends. The vote is left out, because it does not belong to a step, and the shapes must be stated.
    """
    module = sys.modules.get("torch.distributed.pipelining.schedules")  # importing it takes half a second
    schedule: Any = getattr(module, "_PipelineSchedule", None)
    if hasattr(schedule, "_warmup_p2p"):
        replace(stack, schedule, "_warmup_p2p", _begin)


def _begin(schedule: Any, stages: list[Any], has_backward: bool, p2p_done: bool) -> None:
    """Set the stages of this process to the shapes that were stated.

    Raises:
        CostError: if they were not.
    """
    from torch.distributed.pipelining._utils import InferenceMode

    for stage in stages:
        if InferenceMode.needs_dynamic(stage._user_meta, has_backward):
            raise CostError(
                f"stage {stage.stage_index} of the pipeline has no neighbors in a simulated mesh. Pass the shapes that "
                "it receives and sends: PipelineStage(…, input_args=…, output_args=…)"
            )
        stage._inference_mode = InferenceMode.STATIC
