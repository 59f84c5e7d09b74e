"""The derivations of readers who had the questions alone agree with the answers."""

import csv
from pathlib import Path

import pytest

from costcore_probes import find
from costcore_probes.arithmetic import evaluate
from costcore_probes.cli import main

FILES = sorted((Path(__file__).parents[1] / "audit").glob("*.csv"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_derivations_agree(file):
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert len({row["probe"] for row in rows}) == len(rows) == 30
    assert {row["probe"]: evaluate(row["derivation"]) for row in rows} == {
        row["probe"]: find(row["probe"]).answer for row in rows
    }


def test_questions_have_no_answer_and_leave_out_what_is_known(capsys):
    arguments = ["questions", "--seed", "3", "--count", "5"]
    main(arguments)
    text = capsys.readouterr().out
    ids = text.splitlines()[::3]
    assert not [id for id in ids if find(id).derivation in text]
    main([*arguments, "--without", ids[0]])
    assert ids[0] not in capsys.readouterr().out.splitlines()
