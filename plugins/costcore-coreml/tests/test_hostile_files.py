"""Packages of other people: nothing outside of them is read, and a file may become shorter while it is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from costcore import CostError, estimate, files
from tests.shrinking import shrink_while_read

DATA = Path(__file__).parent / "data"
SPECIFICATION = next((DATA / "cnn.mlpackage" / "Data").rglob("*.mlmodel")).relative_to(DATA / "cnn.mlpackage")


@pytest.fixture
def package(tmp_path):
    shutil.copytree(DATA / "cnn.mlpackage", tmp_path / "net.mlpackage")
    return tmp_path / "net.mlpackage"


@pytest.mark.parametrize("part", [SPECIFICATION, *SPECIFICATION.parents][:-1], ids=str)
def test_a_link_inside_a_package_is_not_followed_outside(package, tmp_path, part):
    """A link in place of the specification, or of a folder above it."""
    outside = tmp_path / "outside"
    (package / part).rename(outside)
    (package / part).symlink_to(outside)
    with pytest.raises(CostError, match=r"net\.mlpackage.*names a file outside the package"):
        estimate(package)


def test_a_manifest_outside_is_not_read(package, tmp_path):
    (package / "Manifest.json").rename(tmp_path / "outside.json")
    (package / "Manifest.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(CostError, match=r"Manifest\.json is a link to a file outside the package"):
        estimate(package)


def test_a_link_to_a_package_and_links_inside_it_are_followed(package, tmp_path):
    whole = estimate(package).total_report
    (package / SPECIFICATION).rename(package / "Data" / "moved.mlmodel")
    (package / SPECIFICATION).symlink_to(package / "Data" / "moved.mlmodel")
    (tmp_path / "link.mlpackage").symlink_to(package)
    assert estimate(tmp_path / "link.mlpackage").total_report == whole


@pytest.mark.parametrize("name", ["cnn_layers.mlmodel", "lstm.mlmodel", "loop.mlmodel"])
@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_a_large_file_is_read_piece_by_piece(tmp_path, monkeypatch, name):
    path = tmp_path / "net.mlmodel"
    shutil.copy(DATA / name, path)
    whole = estimate(path)
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    monkeypatch.setattr(files, "BLOCK", 64)
    assert estimate(path).layer_report == whole.layer_report
    shrink_while_read(path, monkeypatch)
    with pytest.raises(CostError, match=r"net\.mlmodel.*became shorter while it was read"):
        estimate(path)


@pytest.mark.parametrize(
    ("constant", "message"),
    [("MOST_MESSAGES", "a list has more than 1 entries"), ("MOST_FIELDS", "more fields than are read")],
)
def test_what_a_file_holds_is_bounded(monkeypatch, constant, message):
    monkeypatch.setattr(f"costcore_coreml.wire.{constant}", 1)
    with pytest.raises(CostError, match=rf"loop\.mlmodel.*{message}"):
        estimate(DATA / "loop.mlmodel")
