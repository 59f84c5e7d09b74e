"""The page of the scoreboard, from answers that are made up."""

from costcore_probes.scoreboard import scoreboard

VERSIONS = {"python": "3", "torch": "2.13.0", "fvcore": "0.1.5"}

DATA = {
    "schema": 1,
    "date": "2026-01-02",
    "tools": {
        "fvcore": {
            "versions": VERSIONS,
            "answers": {
                "conv.plain@torch": {"value": 8640, "missing": []},
                "conv.grouped@torch": {"value": 7, "missing": []},
                "matmul.dot@torch": {"value": 0, "missing": []},
            },
        },
        "thop": {"versions": {}, "error": "ModuleNotFoundError: No module named 'thop'"},
    },
}


def test_the_page_has_every_count_and_every_miss_with_its_command():
    page = scoreboard(DATA)
    lines = page.splitlines()
    assert "3 networks with answers derived by hand, asked on 2026-01-02." in page
    (tool,) = (line for line in lines if line.startswith("| fvcore (0.1.5, torch 2.13.0) |"))
    assert tool.split(" | ")[1:6] == ["1", "0", "0", "1", "1"]
    assert "| conv | 1/2 |" in lines
    assert "| matmul | 0/1 |" in lines
    kinds = "../probes/costcore_probes/kinds"
    derived = "9 channels * 3 * 4 places * (6 // 3) inputs * 3 * 3 taps is 1,944"
    command = "`probes ask fvcore conv.grouped`"
    assert f"| [conv.grouped]({kinds}/conv.py) | wrong | says 7; {derived} | {command} |" in lines
    command = "`probes ask fvcore matmul.dot`"
    assert f"| [matmul.dot]({kinds}/matmul.py) | zero | says 0; 19 summed is 19 | {command} |" in lines
    assert lines[-1] == "* thop: ModuleNotFoundError: No module named 'thop'"


def test_a_tool_without_a_miss_is_said_to_have_none():
    answers = {"conv.plain@torch": {"value": 8640, "missing": []}}
    data = {"schema": 1, "date": "", "tools": {"fvcore": {"versions": VERSIONS, "answers": answers}}}
    assert scoreboard(data).endswith("## fvcore\n\nNo wrong answer, and no silent zero.\n")
