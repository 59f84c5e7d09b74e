"""Each thing has one spelling: parameters, options and titles, against the table in ``tests/data/spellings.toml``."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import warnings
from pathlib import Path

import pytest

import costcore
import costcore.cli
from costcore import renamed
from costcore.cli.former import FORMER, options_of_today
from costcore.registry.frontends import specs
from costcore.tables.quantities import registered
from costcore.tables.result import Result
from costcore.toml_files import loads
from tests.core.given_costs import dense, net

ROOT = Path(__file__).parents[2]
REPORT = net(dense("body.0"), framework="torch")
TABLE = loads((ROOT / "tests/data/spellings.toml").read_text(encoding="utf-8"))
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


def parsers() -> dict[str, argparse.ArgumentParser]:
    modules = (importlib.import_module(f"costcore.cli.{m.name}") for m in pkgutil.iter_modules(costcore.cli.__path__))
    found = [module.build_parser() for module in modules if hasattr(module, "build_parser")]
    return {parser.prog: parser for parser in found}


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
        "Verdict.to_json",
        "TimeReport.show_report",
    } <= PARAMETERS.keys()
    assert len(PARSERS) >= 18 and len(titles()) > 100


@pytest.mark.parametrize("name", NAMES)
def test_no_parameter_has_another_spelling(name):
    others = NAMES[name]["not"]
    excused = {reason.partition(":")[0] for reason in NAMES[name].get("but", ())}
    found = [f"{where}: {other}" for where, used in PARAMETERS.items() for other in others if other in used]
    assert [each for each in found if each.partition(":")[0].partition(".")[0] not in excused] == []


@pytest.mark.parametrize("command", PARSERS)
def test_options_have_the_names_of_parameters(command):
    unnamed = set()
    for option in options_of(PARSERS[command]):
        name = option.replace("-", "_").removeprefix("no_")
        if option not in OPTIONS and option not in FLAGS and not {name, f"{name}s", f"{name}es"} & EVERY_PARAMETER:
            unnamed.add(option)
    assert unnamed == set()


@pytest.mark.parametrize("command", PARSERS)
def test_options_have_no_other_spelling(command):
    barred = {other.replace("_", "-"): name for name, each in NAMES.items() for other in each["not"]}
    barred |= {name.replace("_", "-"): name for name in FLAGS.values()}
    allowed = {*FLAGS, *OPTIONS}
    assert {option: barred[option] for option in options_of(PARSERS[command]) & barred.keys() - allowed} == {}


def test_columns_have_the_title_of_their_quantity():
    of_quantity = {each.name.partition("@")[0]: each.title for each in registered().values()}
    found = [(file, key, title) for file, key, title in titles() if of_quantity.get(key, title) != title]
    assert [each for each in found if f"{each[0]}: {each[1]}" not in TITLES] == []


@pytest.mark.parametrize(("command", "flag"), [(command, flag) for command, flags in FORMER.items() for flag in flags])
def test_former_options_work_and_say_what_they_are_now(command, flag):
    options = PARSERS[command].format_help()
    now = FORMER[command][flag]
    assert not re.search(rf"(?<![\w-]){flag}(?![\w-])", options)
    assert now[0] in options
    today, lines = options_of_today(command, [flag, "x", f"{flag}=y", "--other", flag])
    assert today == [*now, "x", f"{now[0]}=y", *now[1:], "--other", *now]
    assert lines == [f"{command}: {flag} is now {' '.join(now)}; the old option works until version 0.3"]


def test_documents_have_no_former_option():
    former = {flag for flags in FORMER.values() for flag in flags if flag not in ("--fit", "--device")}
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(former))})(?![\w-])")
    texts = [file for file in ROOT.glob("*.md") if file.stem != "CHANGELOG"]  # which says what was renamed
    files = [*ROOT.glob("docs/*.md"), *texts, *ROOT.glob("examples/**/*.*")]
    found = [
        f"{file.name}:{number}: {match[0]}"
        for file in files
        if file.suffix in (".md", ".yml", ".yaml", ".ipynb", ".toml")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert found == []


def test_a_former_parameter_works_and_says_once_what_it_is_now(monkeypatch):
    monkeypatch.setattr(renamed, "_said", set())

    @renamed.renamed(level="fusion")
    def fused(fusion="none", *, top=1):
        return fusion, top

    with pytest.warns(DeprecationWarning, match=r"fused: level= is now fusion=; .* until version 0\.3"):
        assert fused(level="compiler", top=2) == ("compiler", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fused(level="pointwise") == ("pointwise", 1)
        assert fused("compiler") == ("compiler", 1)
    with pytest.raises(TypeError, match="level is now fusion; pass fusion alone"):
        fused("compiler", level="none", fusion="none")


def test_arguments_that_have_to_be_named_work_by_position(monkeypatch):
    monkeypatch.setattr(renamed, "_said", set())

    @renamed.named("batch", "context", first=0)
    def decode(*, batch=1, context=2):
        return batch, context

    with pytest.warns(DeprecationWarning, match=r"decode: write batch=…, context=…;"):
        assert decode(3, 4) == (3, 4)
    assert decode(context=5) == (1, 5)
    with pytest.raises(TypeError, match="positional"):
        decode(1, 2, 3)


@pytest.mark.parametrize("name", [name for name in costcore.__all__ if inspect.isfunction(getattr(costcore, name))])
def test_every_answer_is_a_result(name):
    """It shows itself and is written as data: those that answer a question, not those that add a plug-in."""
    annotation = inspect.signature(getattr(costcore, name)).return_annotation
    assert annotation in {each.__name__ for each in results()} or (name, annotation) in {
        ("conventions", "dict[str, Convention]"),
    }


def test_violations_are_a_result():
    found = costcore.check(REPORT, {"total": {"macs": 1}})
    assert found == [*found] and len(found) == 1 and "16 MACs, limit 1" in str(found)
    assert found.to_dict()["tables"][0]["rows"][0]["limit"] == "1"
    assert str(costcore.check(REPORT, {"total": {"macs": 10**12}})) == "within the budget"


def test_dir_lists_public_names_only():
    assert [name for name in dir(costcore) if not name.startswith("__")] == sorted(costcore.__all__)
