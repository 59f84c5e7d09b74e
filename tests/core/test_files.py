"""Every file that a user names is read by one reader: up to a size, without waiting, with one family of errors."""

from __future__ import annotations

import gzip
import os
import sys
import threading
import time

import pytest

from costcore import CostError, Report, check, estimate, table
from costcore.analyses.measured.join import read_runtime_profile
from costcore.errors import FileError
from costcore.files import exists, is_file, is_folder, open_file, read_file, read_text, read_toml
from costcore.studies.sweeps.rows import RowFile
from tests.core import toy_framework
from tests.frameworks import optional

needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="this system has no such files")


@pytest.fixture
def report(toy):
    return estimate(toy_framework.Model("toy::Double"), (2, 3))


def report_of(path, report):
    Report.from_json(path)


def budget(path, report):
    check(report, path)


def baseline(path, report):
    check(report, {"baseline": str(path), "max_increase": "1%"})


def device(path, report):
    report.time(device=path)


def convention(path, report):
    report.under(path)


def rows(path, report):
    list(RowFile(path, (), ["flops"]).earlier())


READERS = [
    (report_of, ".json"),
    (budget, ".toml"),
    (baseline, ".json"),
    (device, ".toml"),
    (convention, ".toml"),
    (rows, ".jsonl"),
    (rows, ".csv"),
]
every_reader = pytest.mark.parametrize(("read", "suffix"), READERS, ids=lambda value: getattr(value, "__name__", value))


def refused(read, path, report) -> str:
    with pytest.raises(CostError) as caught:
        read(path, report)
    return str(caught.value)


@needs_unix
@every_reader
@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused(tmp_path, report, read, suffix, name):
    path = tmp_path / f"linked{suffix}"
    path.symlink_to(name)
    assert "cannot be read: it is a device" in refused(read, path, report)


@every_reader
def test_a_folder_is_refused(tmp_path, report, read, suffix):
    path = tmp_path / f"folder{suffix}"
    path.mkdir()
    assert f"folder{suffix} cannot be read: Is a directory" in refused(read, path, report)


@needs_unix
@pytest.mark.parametrize(("read", "suffix"), READERS[:5], ids=lambda value: getattr(value, "__name__", value))
def test_nobody_waits_for_a_pipe_that_nobody_writes(tmp_path, report, read, suffix):
    """It is an empty file; an empty file of rows has no rows."""
    path = tmp_path / f"pipe{suffix}"
    os.mkfifo(path)
    assert f"pipe{suffix}" in refused(read, path, report)


@every_reader
def test_a_pointer_of_git_lfs_is_told(tmp_path, report, read, suffix):
    path = tmp_path / f"pointer{suffix}"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    message = f"pointer{suffix} is a Git LFS pointer, not the file itself. Fetch the file with git lfs pull"
    assert refused(read, path, report).endswith(message)


@every_reader
def test_bad_text_is_refused(tmp_path, report, read, suffix):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(b'a = "\xff"\n{"a": "\xff"}\n')
    assert f"bad{suffix}" in refused(read, path, report)


@every_reader
@pytest.mark.parametrize("digits", [5000, 100_000])
def test_a_number_of_too_many_digits_is_refused(tmp_path, report, read, suffix, digits):
    path = tmp_path / f"digits{suffix}"
    content = {".toml": "strict = {}\n", ".json": '{{"schema": {}}}', ".jsonl": '{{"name": {}}}\n', ".csv": "{}\n"}
    path.write_text(content[suffix].format("9" * digits))
    assert f"digits{suffix}" in refused(read, path, report)


@pytest.mark.parametrize(("read", "suffix"), READERS[:5], ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_a_name_that_no_file_has_is_refused(report, read, suffix, name):
    assert "cannot be read" in refused(read, name + suffix, report)


@pytest.mark.parametrize("target", ["a" * 300 + ".onnx", "a" * 300 + ".json", "a" * 300, "a\0b.py:make", "a\0b"])
def test_the_row_of_a_target_that_no_file_has_says_so(toy, tmp_path, target):
    (row,) = table([target], (1, 2), output=tmp_path / "rows.csv").rows
    assert row.failed and "Errno" not in row.status


def test_a_toml_file_that_is_nested_too_deeply_is_refused(tmp_path, report):
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 100_000)
    assert "nested too deeply" in refused(budget, path, report)


def test_a_file_has_a_limit(tmp_path):
    path = tmp_path / "content"
    path.write_bytes(b"12345")
    assert read_file(path, limit=5) == b"12345"
    with pytest.raises(FileError, match="content cannot be read: it has more than 4 bytes"):
        read_file(path, limit=4)


@needs_unix
def test_a_file_of_holes_takes_no_memory(tmp_path):
    path = tmp_path / "holes"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(FileError, match="it has more than 1,073,741,824 bytes"):
        read_file(path)


@needs_unix
@pytest.mark.parametrize("limit", [9, 5])
def test_a_pipe_is_read_to_its_end_or_its_limit(tmp_path, limit):
    """As ``costcore diff <(git show HEAD:report.json)`` passes one; its content may come late."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    other_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without it, the writer cannot open the pipe
    writer = path.open("wb", buffering=0)
    timer = threading.Timer(0.2, lambda: (writer.write(b"12345"), writer.write(b"6789"), writer.close()))
    timer.start()
    if limit == 9:
        assert read_file(path, limit) == b"123456789"
    else:
        with pytest.raises(FileError, match="more than 5 bytes"):
            read_file(path, limit)
    timer.join()
    os.close(other_end)


def test_an_error_of_a_file_is_an_error_of_the_system_too(tmp_path):
    with pytest.raises(OSError, match="lost cannot be read: No such file or directory") as caught:
        open_file(tmp_path / "lost")
    assert isinstance(caught.value, CostError)


def test_text_has_line_feeds(tmp_path):
    (tmp_path / "text").write_bytes(b"a\r\nb\n")
    assert read_text(tmp_path / "text") == "a\nb\n"


def test_what_a_path_is(tmp_path):
    (tmp_path / "file").touch()
    asked = [tmp_path, tmp_path / "file", tmp_path / "lost", "a" * 300, "a\0b"]
    assert [*map(exists, asked)] == [True, True, False, False, False]
    assert [*map(is_file, asked)] == [False, True, False, False, False]
    assert [*map(is_folder, asked)] == [True, False, False, False, False]


def test_a_profile_that_expands_without_end_is_refused(tmp_path):
    path = tmp_path / "profile.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"{}," * 20_000_000 + b"{}]", 6))
    with pytest.raises(CostError, match=r"profile\.json\.gz has more than [\d,]+ bytes after decompression"):
        read_runtime_profile(path)


@pytest.mark.parametrize("read", [read_runtime_profile, Report.from_json])
def test_a_file_of_millions_of_values_is_refused_at_once(tmp_path, read):
    """Each takes up to a hundred times its bytes in memory."""
    path = tmp_path / "values.json"
    path.write_bytes(b'{"a": [' + b"[]," * 6_000_000 + b"1]}")
    start = time.monotonic()
    with pytest.raises(CostError, match=r"values\.json cannot be read: it has more than [15]0?,000,000 values"):
        read(path)
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("shape", [[10**17] * 60, [2**62] * 30])
def test_a_file_with_a_tensor_beyond_all_memory_is_refused(tmp_path, shape):
    """The shape is named, not the calculator that multiplies its sizes."""
    optional("onnx")
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "net/relu")], "g", [x], [y])
    path = tmp_path / "huge.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(
        CostError, match=r"huge\.onnx: a tensor of shape \(\d+, .*…\) of 'relu' has more than 2\*\*256"
    ) as error:
        estimate(path)
    assert "(1 call of 'Relu', first in module 'net')" in str(error.value)
    assert "calculator" not in str(error.value)


@pytest.mark.parametrize("dot", [".", " . ", "\t.", ".\t \t", '."b".', ".'b c'."])
@pytest.mark.parametrize(
    "form", ["{}=1\n", "[{}]\nx=1\n", "[[{}]]\nx=1\n", "x={{{}=1}}\n", "'#'=1\n{}=1\n", '"\\"".{}."x"=1\n']
)
def test_a_key_of_thousands_of_parts_is_refused_at_once(tmp_path, dot, form):
    """Python's reader takes time and memory by the square of the parts: 80 kB would take 6 GB."""
    path = tmp_path / "device.toml"
    path.write_text(form.format(dot.join(["a"] * 40_000)), encoding="utf-8")
    start = time.monotonic()
    with pytest.raises(CostError, match=r"device\.toml is not a TOML file: a key has more than 100 parts"):
        read_toml(path, CostError)
    assert time.monotonic() - start < 1


def test_usual_keys_and_numbers_are_read(tmp_path):
    path = tmp_path / "device.toml"
    numbers = ", ".join(["0.5"] * 1000)
    path.write_text(f'[a.b."c.d.e"]\nx.y = [{numbers}]\ntext = "{"." * 5000}"\n# {"." * 5000}\n', encoding="utf-8")
    content, _ = read_toml(path, CostError)
    assert content["a"]["b"]["c.d.e"]["x"]["y"] == [0.5] * 1000
