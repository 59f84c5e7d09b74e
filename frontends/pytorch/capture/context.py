"""The context manager that records everything PyTorch runs inside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from threading import Thread

import torch

from costcore.ir import Layer
from costcore.trace.call import Call, Uncounted
from costcore.trace.recorder import Recorder

from ..operators.plan import operator_plans
from ..recording.call_log import CallLog
from ..recording.module_tree import module_tree
from .dispatch_mode import CaptureMode
from .python_values import known_index
from .session import join_session

NO_COMPOSITES = (
    "this version of PyTorch hides composite operators: they are recorded as one call if Python calls them; those that "
    "TorchScript or C++ calls are listed as the operators PyTorch decomposes them into, with the same MACs; autocast "
    "does not affect meta tensors"
)

OTHER_THREADS = "other_threads"
"""The operator name of everything that ran in other threads, in the list of what could not be counted."""

UNSEEN_THREADS = (
    f"{Uncounted.OTHER_THREADS.reason(OTHER_THREADS)}, which are not counted: a capture records the thread that "
    "entered it and those that this one starts; enter one in each other thread"
)


@contextmanager
def capture(
    recorder: Recorder,
    has_replay: bool = True,
    has_composites: bool | None = None,
    is_estimate: bool = False,
    keeps_indices: bool = False,
) -> Iterator[CaptureMode]:
    """Record every operator that this thread runs inside the context.

    This includes forward, backward and recomputation, functions, methods, modules, compiled and scripted models, and
    optimizers, on any device and in any grad mode. Captures nest or overlap, and each of them records everything;
    captures of several coroutines each record what their own coroutine runs, and those it starts. Afterwards PyTorch is
    as it was before, also after an exception.

    Results and gradients are those of a run without a capture, bit by bit, but for ``ormqr`` and ``matrix_exp``, and
    for gradients of gradients of ``prod`` and ``cumprod``: inside any dispatch mode PyTorch computes these by other
    formulas, which are equal up to rounding, and counted.

    Args:
        recorder: receives the calls.
        has_replay: whether repeated calls on meta tensors skip their kernels.
        has_composites: whether composite operators are captured at the key ``PreDispatch``; None: if this version of
            PyTorch can.
        is_estimate: whether this is an estimate rather than a run; see :class:`CaptureMode`.
        keeps_indices: whether tensors that are indexed by lists keep their values; every function call takes longer.
    """
    if has_composites is None:
        has_composites = can_see_composites()
    if not has_composites and NO_COMPOSITES not in recorder.notes:
        recorder.notes.append(NO_COMPOSITES)
    with ExitStack() as stack:
        session = join_session(stack, has_replay, is_estimate, has_composites)
        mode = session.mode
        stack.callback(_note_unseen_threads, recorder, session.unseen_threads, frozenset(session.unseen_threads))
        spellings = session.follow_spelling(stack) if recorder.spelled or keeps_indices else None
        if spellings is not None and keeps_indices:
            spellings.index = partial(known_index, mode)
        noted = spellings if recorder.spelled else None
        log = CallLog(recorder, mode.cache.plans.translator, mode.recording.modules, noted)
        stack.callback(log.close)
        stack.callback(mode.recording.remove, log)
        mode.recording.add(log)
        stack.callback(_record_module_tree, mode, log)
        recorder.frameworks["torch"] = torch.__version__
        yield mode


def _record_module_tree(mode: CaptureMode, log: CallLog) -> None:
    """Record the modules of the models that ran."""
    tree = log.recorder.modules
    stack = mode.recording.modules
    with_parts = [root for root in stack.roots if root.has_parts]
    models = [(root.module(), root.path) for root in with_parts or stack.roots[:1]]
    if tree or not models:
        return
    with mode.silenced():
        for model, path in models:
            if model is not None:
                tree.update(module_tree(model, log.identities, path))
                if isinstance(model, torch.jit.ScriptModule):  # which calls its modules without Python
                    log.locate_by_parameters(tree, path)
    for alias, first in stack.aliases.items():
        if alias not in tree and first in tree:
            tree[alias] = tree[first]._replace(parameters=(), frozen=(), buffers=0, own=(), same_as=first)


def _note_unseen_threads(recorder: Recorder, seen: set[int], before: frozenset[int]) -> None:
    """Note that other threads ran modules since the capture began: what they computed is missing."""
    if seen - before:
        recorder.notes.append(UNSEEN_THREADS)
        layer = Layer(OTHER_THREADS)
        recorder.record(Call(layer, type=OTHER_THREADS, native=OTHER_THREADS, uncounted=Uncounted.OTHER_THREADS))


@cache
def can_see_composites() -> bool:
    """Return whether composite operators can be captured at ``PreDispatch`` in this version of PyTorch.

    A linear layer on a 3-d input is run once, in a thread of its own that no mode, autocast or ``vmap`` of the caller
    affects.

    Raises:
        CostError: for a broken plug-in; raised here, since an exception in the thread would be lost.
    """
    operator_plans()
    recorded: list[str] = []

    def attempt() -> None:
        recorder = Recorder()
        x, w, b = (torch.empty(shape, device="meta") for shape in ((2, 3, 4), (5, 4), (5,)))
        try:
            with torch.no_grad(), capture(recorder, has_composites=True):
                torch.nn.functional.linear(x, w, b)
        except (AttributeError, NotImplementedError, RuntimeError, TypeError):
            return  # the private key is missing or means something else in this PyTorch: functions are patched instead
        recorded.extend(call.native for call in recorder.calls)

    thread = Thread(target=attempt)
    thread.start()
    thread.join()
    return recorded == ["aten::linear"]
