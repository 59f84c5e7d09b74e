"""Assumptions about data, which meta tensors do not hold."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.errors import CostError
from costcore.trace.source import user_line

from ..meta.branches import CONDITION_IS_FALSE
from ..meta.data_dependent import CONDITION_IS_TRUE
from .call_log import CallLog
from .module_stack import ModuleStack

MAX_ASSUMED_VALUES = 100_000
"""The maximum number of assumed numbers and conditions; a model that needs more seems to loop endlessly."""

_BRANCHES = (CONDITION_IS_TRUE, CONDITION_IS_FALSE)

REAL_RUN = "count a real run inside ComputationalCostHook"


class Assumptions:
    """The assumptions of one run.

    Args:
        logs: receive the assumptions.
        modules: the modules that are running.
    """

    def __init__(self, logs: Sequence[CallLog], modules: ModuleStack) -> None:
        self._logs = logs
        self._modules = modules
        self._n_assumed_values = 0

    def note(self, assumption: str) -> None:
        """Note an assumption, at the module that is running and the line of the user's code that needs the value."""
        line = user_line("torch")
        for log in self._logs:
            log.recorder.assume(assumption, self._modules.path, line, is_branch=assumption in _BRANCHES)

    def count_assumed_value(self) -> None:
        """Count a number or a condition that was assumed.

        Raises:
            CostError: after :data:`MAX_ASSUMED_VALUES` of them; the message includes the module.
        """
        self._n_assumed_values += 1
        if self._n_assumed_values > MAX_ASSUMED_VALUES:
            raise CostError(
                f"module {self._modules.path!r}: values of meta tensors were read more than {MAX_ASSUMED_VALUES} "
                f"times; the module seems to loop until its data changes; {REAL_RUN} instead"
            )
