"""Recognizes traces of PyTorch by their first bytes."""

from __future__ import annotations

import re

_OF_PROFILER = re.compile(rb'"(traceEvents|deviceProperties|distributedInfo)"\s*:')
_OF_OBSERVER = re.compile(rb'"nodes"\s*:\s*\[')
_NODE = re.compile(rb'"(ctrl_deps|fw_parent|op_schema)"|\[pytorch\|profiler\|execution_trace')
_EVENTS = re.compile(rb'\s*\[\s*\{(?![^{}]*"cat"\s*:\s*"(Session|Node)")[^{}]*"ph"\s*:')
"""The beginning of a list of events; those of ONNX Runtime, whose first is of its session, begin otherwise."""


def is_trace(head: bytes) -> bool:
    """Return whether a file is a trace of ``torch.profiler`` or an execution trace, by its first bytes."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    if head.lstrip()[:1] == b"{":
        is_of_observer = _OF_OBSERVER.search(head) is not None and _NODE.search(head) is not None
        return _OF_PROFILER.search(head) is not None or is_of_observer
    return _EVENTS.match(head) is not None
