"""The capture that is active in the running thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dispatch_mode import CaptureMode


class Thread(threading.local):
    """State of the running thread.

    Attributes:
        mode: its capture; None if it does not capture.
    """

    mode: CaptureMode | None = None


THREAD = Thread()
