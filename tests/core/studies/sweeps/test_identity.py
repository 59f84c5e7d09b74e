"""Keys of rows: what is read to recognize a model, once per run, and what is not read."""

from __future__ import annotations

import inspect
import linecache
import os
import time

import pytest

from costcore import CostError
from costcore.studies.sweeps import process
from costcore.studies.sweeps.process import Sources
from costcore.studies.sweeps.rows import NamedModel, Settings
from costcore.studies.sweeps.table import Identity


def named(target, **arguments):
    return NamedModel("net", str(target), (1, 3), arguments)


def test_a_sparse_file_of_ten_terabytes_is_not_read(tmp_path):
    path = tmp_path / "net.onnx"
    path.touch()
    try:
        os.truncate(path, 10**13)
    except OSError as error:
        pytest.skip(f"no file of 10 TB here: {error}")
    start = time.process_time()
    with pytest.raises(CostError, match=r"net\.onnx cannot be recognized: it has more than 4,294,967,296 bytes"):
        Sources([]).of_file(path)
    assert Identity(Settings(("macs",))).key(named(path)) == ""
    assert time.process_time() - start < 5  # at 2 GB per second, the 10 TB would take 5,000 s


def test_a_file_without_a_size_is_read_up_to_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "MOST_HASHED", 3 << 20)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    ends = os.open(path, os.O_RDWR), os.open(path, os.O_WRONLY)
    monkeypatch.setattr(process, "open_file", lambda _: Endless(path))
    with pytest.raises(CostError, match="more than 3,145,728 bytes"):
        Sources([]).of_file(path)
    for end in ends:
        os.close(end)


class Endless:
    """A pipe that always has more, as ``yes`` writes it."""

    def __init__(self, path):
        self._pipe = os.open(path, os.O_RDONLY)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self._pipe)

    def fileno(self):
        return self._pipe

    def read(self, n):
        return b"y" * n


def test_the_code_of_a_model_is_read_once_for_all_its_variants(tmp_path, monkeypatch):
    looked_up = []
    monkeypatch.setattr(process, "version", lambda package: looked_up.append(package) or "1.0")
    net = tmp_path / "net.py"
    net.write_text("import acme_layers\ndef make(width): ...\n")
    identity = Identity(Settings(("macs",)))
    keys = {identity.key(named(f"{net}:make", width=width)) for width in range(50)}
    assert len(keys) == 50 and "" not in keys
    assert looked_up == ["acme_layers"]


def made(width):
    def model():
        return width

    return model


def test_the_key_of_a_function_has_the_values_it_was_made_with():
    identity = Identity(Settings(("macs",)))
    keys = [identity.key(NamedModel("net", made(width), (1, 3), {})) for width in (1, 2, 1)]
    assert keys[0] == keys[2] != keys[1] and "" not in keys


@pytest.mark.parametrize("column", ["bound_seconds@{}", "bound_seconds@{}:float16", "{}"])
def test_the_key_changes_with_the_file_of_a_column(tmp_path, column):
    """A device, with a dtype or without, or a convention."""
    file, net = tmp_path / "mine.toml", tmp_path / "net.py"
    net.write_text("def make(): ...\n")
    keys = []
    for content in ("a = 1\n", "a = 2\n", "a = 1\n"):
        file.write_text(content)
        keys.append(Identity(Settings(("macs", column.format(file)))).key(named(f"{net}:make")))
    assert keys[0] == keys[2] != keys[1] and "" not in keys


def test_a_function_of_a_notebook_has_no_key(tmp_path, monkeypatch):
    """Its source is known while the notebook runs, but it is in no file."""
    code = "def make(width): ...\n"
    monkeypatch.setitem(linecache.cache, "<cell 3>", (len(code), None, [code], "<cell 3>"))
    scope = {}
    exec(compile(code, "<cell 3>", "exec"), scope)
    assert inspect.getsource(scope["make"]) == code
    net = tmp_path / "net.py"
    net.write_text("def make(): ...\n")
    assert Identity(Settings(("macs",))).key(NamedModel("net", scope["make"], None, {"width": 3})) == ""
    assert Identity(Settings(("macs",))).key(named(f"{net}:make", width=scope["make"])) == ""
    assert Identity(Settings(("macs",), options={"made_by": scope["make"]})).key(named(f"{net}:make")) == ""
