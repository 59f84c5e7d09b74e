"""Record everything PyTorch runs inside a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Thread

import torch

from costcore.ir import Layer
from costcore.trace.call import Call, Uncounted
from costcore.trace.recorder import Recorder

from ..meta.operands import tensors_of
from ..operators.call_cache import knowledge
from ..recording.call_log import CallLog
from ..recording.module_tree import module_tree
from . import autocast, patches
from .composites import PRE_DISPATCH
from .dispatch_mode import CaptureMode
from .patches import LOCAL

NO_COMPOSITES = (
    "this version of PyTorch does not let composite operators be seen whole: they are where Python calls them; what "
    "TorchScript or C++ calls is listed as the pieces PyTorch takes it apart into, with the same macs; autocast does "
    "not reach tensors without data"
)

OTHER = "other_threads"
"""The name of all that ran in other threads, among what could not be counted."""

UNSEEN_THREADS = (
    f"{Uncounted.OTHER_THREADS.reason(OTHER)}, which are not counted here: a capture sees the thread it was entered "
    "in; enter one in each of them"
)


@contextmanager
def capture(
    recorder: Recorder, has_replay: bool = True, has_composites: bool | None = None, is_estimate: bool = False
) -> Iterator[CaptureMode]:
    """Record every operator this thread runs inside the context into ``recorder``.

    Forward, backward and recomputation, functions, methods, modules, compiled and scripted models, optimizers; on any
    device, in any grad mode. Captures nest, and all of them see everything. Afterwards PyTorch is as it was, also
    after an exception.

    Args:
        recorder: what is written to.
        has_replay: whether repeated calls on tensors without data (the meta device) skip their kernels.
        has_composites: whether composite operators are recorded whole; None: if this version of PyTorch can.
        is_estimate: whether a tensor with data may meet one without, which PyTorch refuses; its data is then not
            looked at.
    """
    if has_composites is None:
        has_composites = can_see_composites()
    if not has_composites and NO_COMPOSITES not in recorder.notes:
        recorder.notes.append(NO_COMPOSITES)
    outer = LOCAL.session
    session = outer
    with ExitStack() as stack:
        if session is None:
            session = _start(stack, CaptureMode(has_replay, is_estimate), has_composites)
        stack.callback(_tell_strays, recorder, patches.strays(), is_run=not is_estimate)
        sink = CallLog(recorder, session.knowledge.translator)
        stack.callback(sink.close)
        session.add(sink)
        stack.callback(session.remove, sink)
        stack.callback(_tell_modules, session, sink)
        recorder.frameworks["torch"] = torch.__version__
        yield session


def _tell_modules(session: CaptureMode, sink: CallLog) -> None:
    """The tree of the model that ran, where there was one."""
    root = session.modules.root
    if root is not None and session.modules.n_roots == 1 and not sink.recorder.modules:
        sink.recorder.modules.update(module_tree(root, sink.identities))


def _tell_strays(recorder: Recorder, before: int, is_run: bool) -> None:
    """What other threads did is missing from a run; a model that is estimated hardly starts any."""
    if patches.strays() > before:
        recorder.notes.append(UNSEEN_THREADS)
        if is_run:
            recorder.record(Call(Layer(OTHER), type=OTHER, native=OTHER, uncounted=Uncounted.OTHER_THREADS))


def _start(stack: ExitStack, session: CaptureMode, has_composites: bool) -> CaptureMode:
    patches.acquire(has_composites)
    stack.callback(patches.release)
    patches.stand_compiler_aside(stack)
    LOCAL.session = session
    stack.callback(setattr, LOCAL, "session", None)
    if has_composites:
        was_included = torch._C._dispatch_tls_is_dispatch_key_included(PRE_DISPATCH)
        torch._C._dispatch_tls_set_dispatch_key_included(PRE_DISPATCH, True)
        if autocast.is_any_enabled():
            autocast.register(tensors_of)
        stack.callback(torch._C._dispatch_tls_set_dispatch_key_included, PRE_DISPATCH, was_included)
    session.__enter__()
    stack.callback(session.stop)
    return session


@cache
def can_see_composites() -> bool:
    """Whether composite operators can be seen whole: tried once, on a fully connected layer of a 3-d input.

    It is tried in a thread of its own, where no mode, autocast or ``vmap`` of the caller's is at work.

    Raises:
        CostError: for a plug-in that is broken; here, since a thread would tell nobody.
    """
    knowledge(has_replay=True)
    found: list[str] = []

    def attempt() -> None:
        recorder = Recorder()
        x, w, b = (torch.empty(shape, device="meta") for shape in ((2, 3, 4), (5, 4), (5,)))
        try:
            with torch.no_grad(), capture(recorder, has_composites=True):
                torch.nn.functional.linear(x, w, b)
        except (AttributeError, NotImplementedError, RuntimeError, TypeError):
            return  # the private key is missing or means something else in this PyTorch: functions are patched instead
        found.extend(call.native for call in recorder.calls)

    thread = Thread(target=attempt)
    thread.start()
    thread.join()
    return found == ["aten::linear"]


@contextmanager
def paused(session: CaptureMode) -> Iterator[None]:
    """Run without recording inside the context."""
    before = session.is_paused
    session.is_paused = True
    try:
        yield
    finally:
        session.is_paused = before
