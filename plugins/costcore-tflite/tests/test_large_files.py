"""Large files are read piece by piece, weights never; a file that becomes shorter meanwhile is an error."""

from __future__ import annotations

import gzip
import resource
from pathlib import Path

import flatbuffers
import pytest
import tflite
from flatbuffers.number_types import UOffsetTFlags

from costcore import CostError, estimate, files
from tests.shrinking import shrink_while_read

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*.tflite*"))


@pytest.fixture(params=FILES, ids=lambda path: path.name.partition(".")[0])
def path(request, tmp_path):
    copy = tmp_path / "net.tflite"
    content = request.param.read_bytes()
    copy.write_bytes(gzip.decompress(content) if request.param.suffix == ".gz" else content)
    return copy


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_what_is_read_piece_by_piece_is_the_same(path, monkeypatch):
    whole = estimate(path)
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    monkeypatch.setattr("costcore_tflite.model.SMALL", 4096)
    assert estimate(path).layer_report == whole.layer_report


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_a_file_that_becomes_shorter_is_an_error(path, monkeypatch):
    monkeypatch.setattr("costcore_tflite.model.PIECE", 512)
    shrink_while_read(path, monkeypatch)
    with pytest.raises(CostError, match=r"net\.tflite cannot be read: it became shorter while it was read"):
        estimate(path)


def test_weights_of_a_gibibyte_are_not_read(tmp_path):
    """The weights are a hole in the file, of zeros; reading takes less than 64 MiB."""
    path = tmp_path / "large.tflite"
    size = 2**30
    builder = flatbuffers.Builder(0)
    tflite.BufferStart(builder)
    empty = tflite.BufferEnd(builder)
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(empty)
    buffers = builder.EndVector()
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddBuffers(builder, buffers)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    content = bytearray(builder.Output())
    assert UOffsetTFlags.bytewidth == 4
    # a second vector with the weights at the end: the data field of a buffer that begins there
    model = tflite.Model.GetRootAs(content, 0)
    place = model.Buffers(0)._tab.Pos
    table = len(content)
    content += (6).to_bytes(2, "little") + (8).to_bytes(2, "little") + (4).to_bytes(2, "little") + bytes(2)
    content += (8).to_bytes(4, "little") + (4).to_bytes(4, "little") + size.to_bytes(4, "little")
    vector = next(at for at in range(len(content)) if at + int.from_bytes(content[at : at + 4], "little") == place)
    content[vector : vector + 4] = (table + 8 - vector).to_bytes(4, "little")
    with path.open("wb") as file:
        file.write(content)
        file.truncate(len(content) + size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CostError, match="it has no graph"):
        estimate(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16
