"""What keeps a stage of ``torch.distributed.pipelining`` from running alone: it asks its neighbors for shapes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import groupby
from typing import Any, NoReturn

from costcore.errors import CostError

from ..capture.dispatch_mode import THREAD
from ..capture.replacement import replace

GRADIENTS = "of_gradients"
"""The attribute that marks transfers of gradients."""


def run_stages_alone(stack: ExitStack) -> None:
    """Let a stage of a pipeline run without its neighbors until ``stack`` is closed.

    Before its first step a stage exchanges a message with each neighbor, and votes with all others, or asks its
    neighbors, whether every stage knows the shapes of what it receives and sends. These messages are left out, because
    they do not belong to a step, and the shapes must be stated. What a stage sends and receives of gradients, outside
    of the backward pass, is located in it.
    """
    module = sys.modules.get("torch.distributed.pipelining.schedules")  # importing it takes half a second
    schedule: Any = getattr(module, "_PipelineSchedule", None)
    if hasattr(schedule, "_warmup_p2p"):
        replace(stack, schedule, "_warmup_p2p", _begin)
    stages = sys.modules.get("torch.distributed.pipelining.stage")
    stage: Any = getattr(stages, "_PipelineStageBase", None)
    asking: Any = getattr(stages, "PipelineStage", None)
    if hasattr(asking, "_shape_inference"):
        replace(stack, asking, "_shape_inference", _ask)
        if hasattr(stage, "_get_init_p2p_neighbors_ops"):
            replace(stack, stage, "_get_init_p2p_neighbors_ops", _no_messages)
    names = ("get_bwd_send_ops", "get_bwd_recv_ops")
    if module is not None and hasattr(module, "_batch_p2p") and all(hasattr(stage, name) for name in names):
        for name in names:
            replace(stack, stage, name, _marking(getattr(stage, name)))
        replace(stack, module, "_batch_p2p", _in_phases(module._batch_p2p))


def _begin(schedule: Any, stages: list[Any], has_backward: bool, p2p_done: bool) -> None:
    """Set the stages of this process to the shapes that were stated.

    Raises:
        CostError: if they were not.
    """
    from torch.distributed.pipelining._utils import InferenceMode

    for stage in stages:
        if InferenceMode.needs_dynamic(stage._user_meta, has_backward):
            _ask(stage)
        stage._inference_mode = InferenceMode.STATIC


def _ask(stage: Any, *_arguments: Any) -> NoReturn:
    """Refuse that a stage asks its neighbors for shapes.

    Raises:
        CostError: always.
    """
    raise CostError(
        f"stage {stage.stage_index} of the pipeline has no neighbors in a simulated mesh. Pass the shapes that it "
        "receives and sends: PipelineStage(…, input_args=…, output_args=…)"
    )


def _no_messages(_stage: Any) -> list[Any]:
    """Return the messages of a stage to its neighbors before the first step: none."""
    return []


def _marking(transfers_of: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return the method of a stage that makes transfers of gradients, which marks them."""

    @wraps(transfers_of)
    def marked(*args: Any, **kwargs: Any) -> list[Any]:
        transfers = transfers_of(*args, **kwargs)
        for transfer in transfers:
            setattr(transfer, GRADIENTS, True)
        return transfers

    return marked


def _in_phases(transfer: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that runs transfers together, which runs those of gradients apart, in the backward phase.

    It returns what there is to wait for: a list, or until PyTorch 2.6 the last of it.
    """

    @wraps(transfer)
    def transferred(transfers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        works: Any = []
        for of_gradients, some in groupby(transfers, lambda each: hasattr(each, GRADIENTS)):
            with _in_backward(of_gradients):
                made = transfer([*some], *args, **kwargs)
                works = [*works, *made] if isinstance(made, list) else made
        return works

    return transferred


@contextmanager
def _in_backward(of_gradients: bool) -> Iterator[None]:
    """Locate operators in the backward phase, if they transfer gradients and a capture runs."""
    mode = THREAD.mode
    if mode is None or not of_gradients:
        yield
        return
    locator = mode.recording.locator
    before, locator.outside = locator.outside, "backward"
    try:
        yield
    finally:
        locator.outside = before
