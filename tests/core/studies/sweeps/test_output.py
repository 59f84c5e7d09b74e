"""The file of a sweep has one writer, and a disk that is full is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from costcore import CostError, table
from costcore.studies.sweeps.rows import JSON_LINES, locked, read_lines

from .conftest import ROOT

needs_locks = pytest.mark.skipif(sys.platform == "win32", reason="this system has no fcntl")

HOLD = """
import sys, time
from pathlib import Path
from costcore.studies.sweeps.rows import locked
with locked(Path({path!r})):
    print("locked", flush=True)
    time.sleep(60)
"""


def rows_into(nets, output, **options):
    return table([f"{nets}:small"] * 2, (2, 3), output=output, **options).rows


def no_locks(folder: Path) -> bool:
    return not [path for path in folder.iterdir() if path.suffix == ".lock"]


@needs_locks
@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_is_refused_the_file(nets, tmp_path, resume):
    output = tmp_path / "rows.jsonl"
    output.write_text("")
    with locked(output), pytest.raises(CostError, match=r"rows\.jsonl is being written by another run"):
        rows_into(nets, output, resume=resume)
    assert output.read_text() == ""
    assert len(rows_into(nets, output, resume=resume)) == 2  # the lock is gone
    assert len(output.read_text().splitlines()) == 2 and no_locks(tmp_path)


@needs_locks
def test_a_run_that_was_killed_locks_nothing(nets, tmp_path):
    output = tmp_path / "rows.jsonl"
    command = [sys.executable, "-c", HOLD.format(path=str(output))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
        with pytest.raises(CostError, match="another run"):
            rows_into(nets, output)
        holder.kill()
    assert len(rows_into(nets, output)) == 2 and no_locks(tmp_path)


@needs_locks
def test_many_runs_take_turns(tmp_path):
    """Each of 3 processes adds 1 to a number 100 times under the lock: none is lost, 3 * 100 = 300."""
    code = f"""
from pathlib import Path
from costcore import CostError
from costcore.studies.sweeps.rows import locked
path, done = Path({str(tmp_path / "number")!r}), 0
while done < 100:
    try:
        with locked(path):
            path.write_text(str(int(path.read_text()) + 1))
            done += 1
    except CostError:
        pass
"""
    (tmp_path / "number").write_text("0")
    running = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert (tmp_path / "number").read_text() == "300"


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


@pytest.mark.parametrize("line", ["[]", "{}", '{"name": "b", "status": "complete", "failed": false}'])
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"name": "a", "status": "complete", "failed": false, "key": "1"}}\n{line}\n')
    with pytest.raises(CostError, match="does not contain rows that costcore wrote: line 2 is not a row"):
        read_lines(path, JSON_LINES)
