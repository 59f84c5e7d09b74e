"""Each thing has one spelling: parameters, options and titles, against the table in ``tests/data/spellings.toml``."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import costcore
from tests.command_line import parse_arguments, parsers
from tests.core.given_costs import dense, net
from tests.core.results import Result, registered
from tests.registered import specs

ROOT = Path(__file__).parents[2]
REPORT = net(dense("body.0"), framework="torch")
TABLE = tomllib.loads((ROOT / "tests/data/spellings.toml").read_text(encoding="utf-8"))
NAMES, OPTIONS, TITLES = TABLE["name"], TABLE["option"], TABLE["title"]
FLAGS = {each["flag"]: name for name, each in NAMES.items() if "flag" in each}


def parameters_of(function) -> set[str]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of classes written in C
        return set()
    return {p.name for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)} - {"self", "cls"}


def results() -> list[type[Result]]:
    """Return every class of results, each imported from the file that states it."""
    files = [
        file
        for file in (ROOT / "costcore").rglob("*.py")
        if re.search(r"^class \w+\(.*\bResult\b", file.read_text(), re.M)
    ]
    for file in files:
        importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    found, waiting = [], [Result]
    while waiting:
        found += waiting[-1].__subclasses__()
        waiting = [*waiting[:-1], *waiting.pop().__subclasses__()]
    return [each for each in dict.fromkeys(found) if each.__module__.startswith("costcore.")]


def walked() -> dict[str, set[str]]:
    """Return the parameters of all public functions, and of the methods of what they return, by their names."""
    found: dict[str, set[str]] = {}
    waiting = [(name, getattr(costcore, name)) for name in costcore.__all__]
    waiting += [(each.__name__, each) for each in results()]
    while waiting:
        name, each = waiting.pop()
        if name in found:
            continue
        is_result = inspect.isclass(each) and name not in costcore.__all__  # users do not make it
        found[name] = set() if is_result else parameters_of(each)
        if inspect.isclass(each):
            methods = inspect.getmembers(each, callable)
            waiting += [(f"{name}.{key}", method) for key, method in methods if not key.startswith("_")]
    return found


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    strings = [option for action in parser._actions for option in action.option_strings]
    return {option.removeprefix("--") for option in strings if option.startswith("--")}


def titles() -> list[tuple[str, str, str]]:
    """Return the file, key and title of every column that the code states."""
    found = []
    for file in sorted((ROOT / "costcore").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Column" and len(node.args) > 1:
                key, title = node.args[:2]
                if isinstance(key, ast.Constant) and isinstance(title, ast.Constant):
                    found.append((file.name, key.value, title.value))
    return found


PARAMETERS, PARSERS = walked(), parsers()
EVERY_PARAMETER = {
    *(name for names in PARAMETERS.values() for name in names),
    *(name for spec in specs().values() for name in (*spec.options, *spec.model_options)),
}


def test_walk_reaches_functions_methods_and_results():
    assert {
        "estimate",
        "Report.table",
        "LargestBatch.show",
        "FitResult.to_json",
        "TimeReport.show_report",
    } <= PARAMETERS.keys()
    assert len(PARSERS) >= 18 and len(titles()) > 100


@pytest.mark.parametrize("command", PARSERS)
def test_options_have_the_names_of_parameters(command):
    unnamed = set()
    for option in options_of(PARSERS[command]):
        name = option.replace("-", "_").removeprefix("no_")
        if option not in OPTIONS and option not in FLAGS and not {name, f"{name}s", f"{name}es"} & EVERY_PARAMETER:
            unnamed.add(option)
    assert unnamed == set()


def test_columns_have_the_title_of_their_quantity():
    of_quantity = {each.name.partition("@")[0]: each.title for each in registered().values()}
    found = [(file, key, title) for file, key, title in titles() if of_quantity.get(key, title) != title]
    assert [each for each in found if f"{each[1]}: {each[2]}" not in TITLES] == []


@pytest.mark.parametrize(
    ("command", "word", "ours"),
    [
        ("costcore serve", "--batch-size", "--batch"),
        ("costcore", "--fused=pointwise", "--fusion"),
        ("costcore", "--group-by", "--by"),
        ("costcore memory", "--vram", "--memory"),
        ("costcore time", "--gpu", "--device"),
        ("costcore table", "--outfile", "--output"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours(command, word, ours, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(PARSERS[command], [*["model.onnx"] * (command != "costcore time"), word])
    assert f"Did you mean {ours!r}?" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in costcore.__all__ if inspect.isfunction(getattr(costcore, name))])
def test_every_answer_is_a_result(name):
    """It shows itself and is written as data: those that answer a question, not those that add a plug-in."""
    annotation = inspect.signature(getattr(costcore, name)).return_annotation
    assert annotation in {each.__name__ for each in results()} or (name, annotation) in {
        ("conventions", "dict[str, Convention]"),
        ("finetuned", "Any"),  # a model
    }


def test_violations_are_a_result():
    found = costcore.check(REPORT, {"total": {"macs": 1}})
    assert found == [*found] and len(found) == 1 and "16 MACs, limit 1" in str(found)
    assert found.to_dict()["tables"][0]["rows"][0]["limit"] == "1"
    assert str(costcore.check(REPORT, {"total": {"macs": 10**12}})) == "within the budget"


def test_dir_lists_public_names_only():
    assert [name for name in dir(costcore) if not name.startswith("__")] == sorted(costcore.__all__)
