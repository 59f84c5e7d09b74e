"""The file of a sweep has one writer, and a disk that is full is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from costcore import CostError, sweep, table

needs_locks = pytest.mark.skipif(sys.platform == "win32", reason="this system has no fcntl")


def rows_into(nets, output, **options):
    return table([f"{nets}:small"] * 2, (2, 3), output=output, **options).rows


def no_locks(folder: Path) -> bool:
    return not [path for path in folder.iterdir() if path.suffix == ".lock"]


@needs_locks
@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_is_refused_the_file(toy, tmp_path, resume):
    """It begins while the first one makes its model."""
    output = tmp_path / "rows.jsonl"

    def make(depth):
        with pytest.raises(CostError, match=r"rows\.jsonl is being written by another run"):
            table({"a": toy.Model("toy::Double")}, (2, 3), output=output, resume=resume)
        return toy.Model("toy::Double")

    (row,) = sweep(make, {"depth": [1]}, (2, 3), output=output).rows
    assert row.status == "complete"
    assert len(output.read_text().splitlines()) == 1 and no_locks(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_named(nets, tmp_path):
    output = tmp_path / "rows.csv"
    output.symlink_to("/dev/full")
    with pytest.raises(OSError, match="/dev/full cannot be written: No space left on device"):
        rows_into(nets, output)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_disk_that_is_full_at_a_row_is_named(nets, tmp_path, monkeypatch, suffix):
    """Only the rows do not fit: the file is there, and what is added to it goes to a full disk."""
    real = Path.open

    def open_full(path, mode="r", **options):
        return real(Path("/dev/full") if mode == "a" else path, mode, **options)

    monkeypatch.setattr(Path, "open", open_full)
    with pytest.raises(OSError, match=rf"rows\.{suffix} cannot be written: No space left on device"):
        rows_into(nets, tmp_path / f"rows.{suffix}")
    assert no_locks(tmp_path)
