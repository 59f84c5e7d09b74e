"""The command ``probes``."""

import json

from costcore_probes.cli import main


def test_show_has_the_question_and_the_derivation(capsys):
    assert main(["show", "conv.bias"]) == 0
    text = capsys.readouterr().out
    assert "the bias is where each sum starts" in text
    assert "1,728 = 1 image * 4 channels * 4 * 4 places * 3 inputs * 3 * 3 taps" in text
    assert "built as   torch, onnx" in text


def test_list_has_a_kind(capsys):
    main(["list", "conv_transpose"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 12
    assert all(line.startswith("conv_transpose.") for line in lines)


def test_an_unknown_probe_is_an_error_with_a_sentence(capsys):
    assert main(["show", "conv.nothing"]) == 2
    assert "there is no probe 'conv.nothing'" in capsys.readouterr().err


def test_score_counts_verdicts_and_lists_cells(tmp_path, capsys):
    answers = {
        "conv.plain@torch": {"value": 8640, "missing": []},
        "conv.function@torch": {"value": 0, "missing": []},
    }
    file = tmp_path / "answers.json"
    tools = {"fvcore": {"versions": {}, "answers": answers}, "thop": {"versions": {}, "error": "ImportError: no"}}
    file.write_text(json.dumps({"schema": 1, "tools": tools}))
    main(["score", str(file), "--verdict", "zero"])
    heads, fvcore, cell, thop = capsys.readouterr().out.splitlines()
    assert heads.split() == ["right", "explained", "refused", "zero", "wrong"]
    assert fvcore.split() == ["fvcore", "1", "0", "0", "1", "0"]
    assert cell.startswith("  conv.function@torch: says 0; ")
    assert "ImportError" in thop


def test_ask_says_why_a_tool_cannot_be_asked(capsys):
    assert main(["ask", "fvcore", "conv.plain", "--python", "/nothing/python"]) == 2
    assert "fvcore cannot be asked with /nothing/python: there is no interpreter" in capsys.readouterr().err
