"""Functions that PyTorch writes in Python out of several operators, recorded as one operator on request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from costcore.messages import unknown
from costcore.trace.recorder import Recorder
from costcore.trace.run import Regrouping

from .dispatch_mode import CaptureMode


def _norm(input: Tensor, p: float = 2.0, *args: Any, **kwargs: Any) -> str | None:
    return {1: "l1_normalize", 2: "l2_normalize"}.get(p)  # type: ignore[call-overload, no-any-return]


def _pool(input: Tensor, norm_type: float, *args: Any, **kwargs: Any) -> str | None:
    return "lp_pool" if norm_type == 2 else None


def _softmin(input: Tensor, dim: int | None = None, *args: Any, **kwargs: Any) -> str | None:
    return None if dim is None else "softmin"


def _always(op: str) -> Callable[..., str]:
    return lambda *args, **kwargs: op


FUNCTIONS: Mapping[Callable[..., Any], Callable[..., str | None]] = {
    functional.normalize: _norm,
    functional.local_response_norm: _always("local_response_norm"),
    functional.lp_pool1d: _pool,
    functional.lp_pool2d: _pool,
    functional.lp_pool3d: _pool,
    functional.softmin: _softmin,
    functional.softsign: _always("softsign"),
    functional.tanhshrink: _always("tanh_shrink"),
}
"""Functions that return the operator to count a call as, from its arguments; None to count the call as executed."""

OPERATORS = ("l1_normalize", "l2_normalize", "local_response_norm", "lp_pool", "softmin", "softsign", "tanh_shrink")


def check_regroup(regroup: object) -> Collection[str]:
    """Return the operators that an option ``regroup`` asks for: all, none, or those that it names.

    Raises:
        TypeError, ValueError: with what was expected.
    """
    if isinstance(regroup, bool):
        return OPERATORS if regroup else ()
    if isinstance(regroup, str) or not isinstance(regroup, Collection):
        raise TypeError(f"regroup must be True, False or names of operators (got {regroup!r})")
    for name in regroup:
        if name not in OPERATORS:
            raise ValueError(f"regroup: {unknown('operator', name, OPERATORS)}")
    return regroup


class RegroupedFunctions(TorchFunctionMode):
    """Records each call of a function in :data:`FUNCTIONS` as one operator.

    The function runs as always; the operators inside are not recorded. Its backward pass is that of these operators.

    Args:
        mode: the capture.
        recorder: receives what was regrouped.
        operators: the operators that are wanted.
    """

    def __init__(self, mode: CaptureMode, recorder: Recorder, operators: Collection[str]) -> None:
        super().__init__()
        self.mode = mode
        self.recorder = recorder
        self.operators = operators

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function of PyTorch, and record it if it is one of these."""
        kwargs = kwargs or {}
        run = partial(func, *args, **kwargs)
        op = FUNCTIONS[func](*args, **kwargs) if func in FUNCTIONS else None
        if op is None or op not in self.operators or self.mode.recording.inside.is_set or self.mode.paused.is_set:
            return run()
        path = self.mode.recording.modules.path
        self.recorder.regrouped.append(Regrouping(op, (f"{path} ({func.__name__})" if path else func.__name__,)))
        with nullcontext() if self.mode.spellings is None else self.mode.spellings.running(func):
            return self.mode.run_as_one_call(func, args, kwargs, run)
