"""A file that another process makes shorter while it is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from costcore import files


def shrink_while_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncate a file to 8 bytes as soon as anything behind its beginning is read, however small it is."""
    read = files.FileBytes.__getitem__

    def shortened(self: files.FileBytes, where: Any) -> Any:
        if (where.start or 0) > 0 if isinstance(where, slice) else where > 0:
            os.truncate(path, 8)
        return read(self, where)

    monkeypatch.setattr(files, "SMALL_FILE", 0)
    monkeypatch.setattr(files.FileBytes, "__getitem__", shortened)
