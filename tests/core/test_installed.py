import sys
from importlib.machinery import PathFinder
from importlib.metadata import MetadataPathFinder
from zipfile import ZipFile

import pytest

from costcore.plugins import entry_points

FILE = "[console_scripts]\nmine = mine:main\n\n[mine.group]\nfirst = mine:first\n"


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A folder, the only one on the module search path."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    finder = MetadataPathFinder.find_distributions  # the package importlib_metadata takes it from the PathFinder
    monkeypatch.setattr(PathFinder, "find_distributions", finder, raising=False)
    return tmp_path


def install(folder, name, text):
    (folder / name).mkdir(parents=True)
    (folder / name / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (folder / name / "entry_points.txt").write_text(text)


def found(group="mine.group"):
    return [(point.name, point.value) for point in entry_points(group)]


@pytest.mark.parametrize("name", ["mine-1.0.dist-info", "mine-1.0.egg-info"])
def test_entry_points_of_a_group_are_found(path, name):
    install(path, name, FILE)
    assert found() == [("first", "mine:first")]
    assert found("console_scripts") == [("mine", "mine:main")]
    assert found("mine") == []


def test_packages_in_an_archive_are_found(path, monkeypatch):
    with ZipFile(path / "packages.zip", "w") as archive:
        archive.writestr("mine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        archive.writestr("mine-1.0.dist-info/entry_points.txt", FILE)
    monkeypatch.setattr(sys, "path", [str(path / "packages.zip")])
    assert found() == [("first", "mine:first")]


def test_an_egg_is_found(path, monkeypatch):
    egg = path / "mine-1.0-py3.egg"
    install(egg, "EGG-INFO", FILE)
    (egg / "EGG-INFO" / "METADATA").rename(egg / "EGG-INFO" / "PKG-INFO")
    monkeypatch.setattr(sys, "path", [str(egg)])
    assert found() == [("first", "mine:first")]


def test_packages_that_another_finder_knows_are_found(path, monkeypatch):
    install(path / "elsewhere", "mine-1.0.dist-info", FILE)

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return None

        @staticmethod
        def find_distributions(context):
            from importlib.metadata import PathDistribution

            return [PathDistribution(path / "elsewhere" / "mine-1.0.dist-info")]

    monkeypatch.setattr(sys, "meta_path", [PathFinder, Finder])
    assert found() == [("first", "mine:first")]


def test_folders_that_do_not_exist_are_skipped(path, monkeypatch):
    install(path, "mine-1.0.dist-info", FILE)
    monkeypatch.setattr(sys, "path", ["/no/such/folder", str(path)])
    assert found() == [("first", "mine:first")]
