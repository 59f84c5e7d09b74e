"""The gallery of the home page: every command writes what the page shows, and no stored picture is large."""

from __future__ import annotations

import shlex

import pytest

from tests.command_line import commands
from tools.gallery import FOLDER, ROOT, Picture, draw, gallery, section


def test_a_picture_is_made_by_its_command_and_shown_with_its_sentence(tmp_path):
    shown = Picture("The devices.", "costcore devices --output devices.csv")
    draw([shown], tmp_path)
    assert (tmp_path / "devices.csv").read_text().count("\n") > 10
    assert f"![The devices.]({FOLDER}/devices.csv)" in section([shown]) and shown.command in section([shown])


def test_a_command_that_fails_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"costcore plot nothing\.onnx --output a\.svg: "):
        draw([Picture("Nothing.", "costcore plot nothing.onnx --output a.svg")], tmp_path)


def test_the_gallery_has_commands_that_differ_and_files_of_their_own():
    shown = gallery()
    assert len(shown) >= 6 and len({each.file for each in shown}) == len(shown)
    for each in shown:
        program, command, *_ = shlex.split(each.command)
        assert program == "costcore" and (command in commands() or command.startswith("hf:"))


def test_stored_pictures_are_small():
    for picture in [*ROOT.glob("docs/*.png"), *ROOT.glob("docs/*.svg")]:
        assert picture.stat().st_size < 1_000_000, picture
