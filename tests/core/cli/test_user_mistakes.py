"""What people do wrong at the command line and in Python is told in a sentence that helps."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from costcore import ComputationalCostHook, CostError, Tensor, estimate, table
from costcore.api.load_model import MOST_NAMES, load_model, looking_in
from costcore.cli import diff
from costcore.cli.main import main
from costcore.messages import shortly, why
from costcore.registry.frontends import load
from costcore.trace.source import user_traceback

MODEL = """
from tests.core.toy_framework import Model
runs = Model("toy::Double")
def small():
    return Model("toy::Double")
def large():
    return Model("toy::Double", "toy::Double")
def nothing():
    pass
def waits():
    raise KeyboardInterrupt
def three():
    return 3
seven = 7
"""


@pytest.fixture
def model(tmp_path, toy):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@pytest.mark.parametrize("command", [[], ["diff"], ["table", "--jobs", "1"]])
def test_an_interrupt_is_a_word_and_exit_code_130(model, capsys, command):
    targets = [f"{model}:waits"] * (2 if command[:1] == ["diff"] else 1)
    assert main([*command, *targets]) == 130
    assert capsys.readouterr().err == "costcore: interrupted\n"


def test_a_word_that_is_no_command_is_told_with_the_commands(capsys):
    with pytest.raises(SystemExit) as left:
        main(["compare", "a.onnx", "b.onnx"])
    assert left.value.code == 2
    assert "'compare' is neither a model nor a command; commands are check, diff, table" in capsys.readouterr().err


def test_the_usage_above_an_error_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["net.onnx", "--depth", "2"])
    assert capsys.readouterr().err.splitlines() == [
        "usage: costcore MODEL [options]      (--help lists the options)",
        "costcore: error: --depth is for --tree",
    ]


@pytest.mark.parametrize("command", [[], ["table"], ["check", "--budget", "budget.toml"]])
def test_modules_of_the_current_folder_are_found_as_python_m_finds_them(model, monkeypatch, capsys, command):
    folder = model.parent / "work"
    folder.mkdir()
    (folder / "my_local_net.py").write_text(MODEL)
    (folder / "budget.toml").write_text("[total]\nflops = 6\n")
    monkeypatch.setattr(sys, "path", [str(Path(part).resolve()) for part in sys.path])  # as a console script has it
    monkeypatch.chdir(folder)
    before = sys.path
    try:
        assert main([*command, "my_local_net:small", "--input", "2x3"]) == 0
    finally:
        sys.modules.pop("my_local_net", None)
    assert sys.path is before
    assert main([*command, "no_such_net:small", "--input", "2x3"]) == 1
    assert "--python-path DIR says where to look for modules, beside the current folder" in "".join(capsys.readouterr())


def test_the_current_folder_is_looked_in_for_code_only():
    before = sys.path
    with looking_in(["a", "b"], "net:make"):
        assert sys.path == ["a", "b", "", *before]
    for target in ("net.onnx", "report.json", 3):
        with looking_in(["a"], target):
            assert sys.path == ["a", *before]
    assert sys.path is before


def test_a_misspelt_factory_is_told_the_nearest(model):
    offered = "large, small, nothing, waits, three, seven, Model, runs"
    with pytest.raises(CostError, match=rf"has no 'larg'; it offers {offered}$"):
        load_model(f"{model}:larg")


def test_of_a_module_of_many_names_only_some_are_listed(monkeypatch):
    many = ModuleType("many_names")
    vars(many).update({f"name{i}": i for i in range(100)})
    monkeypatch.setitem(sys.modules, "many_names", many)
    with pytest.raises(CostError, match=rf"it offers name0, .* and {100 - MOST_NAMES} more$"):
        load_model("many_names:x")


def test_a_factory_that_returns_nothing_is_named(model):
    with pytest.raises(CostError, match=r"model\.py:nothing gave None; expected a model, or a function"):
        load_model(f"{model}:nothing")


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("three", "what {}:three returned: no frontend takes 3 (int); accepted are a torch.nn.Module, ", ")"),
        (
            "seven",
            "{}:seven: no frontend takes 7 (int); accepted are a torch.nn.Module, ",
            "), or a function without arguments that returns one of these",
        ),
    ],
)
def test_what_is_named_and_no_model_is_told(model, name, start, end):
    with pytest.raises(CostError) as caught:
        load_model(f"{model}:{name}")
    assert str(caught.value).startswith(start.format(model)) and str(caught.value).endswith(end)


def test_two_models_of_a_file_are_of_one_run_of_it(model, capsys):
    first = load_model(f"{model}:runs")
    assert load_model(f"{model}:runs") is first
    assert diff.main([f"{model}:small", f"{model}:large", "--input", "2x3"]) == 0
    model.write_text(MODEL + "\n# another\n")
    assert load_model(f"{model}:runs") is not first


def test_missing_inputs_are_named(model, capsys):
    assert main([f"{model}:small"]) == 1
    assert capsys.readouterr().err == "costcore: a toy model wants a shape, got None; no --input was given\n"
    assert main([f"{model}:small", "--input", "a=2x3"]) == 1
    assert "no --input" not in capsys.readouterr().err


def test_files_that_cannot_be_written_or_read_are_named_as_they_were_given(model, tmp_path, capsys):
    target = tmp_path / "none" / "report.json"
    assert main([f"{model}:small", "--input", "2x3", "--output", str(target)]) == 1
    assert capsys.readouterr().err == f"costcore: {target} cannot be written: No such file or directory\n"
    assert main(["check", f"{model}:small", "--budget", str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err == f"costcore: {tmp_path / 'none.toml'} cannot be read: No such file or directory\n"
    assert main([str(tmp_path / "none.json")]) == 1
    assert capsys.readouterr().err == f"costcore: {tmp_path / 'none.json'} cannot be read: No such file or directory\n"


def test_a_class_in_place_of_its_object_is_told(toy):
    with pytest.raises(CostError, match=r"a class, not an object of it, Model\(…\)"):
        estimate(toy.Model)


WEIGHTS_ONLY = "weights do not say how they are used; give the model that code makes"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("net.pt", f"'net.pt' (str): {WEIGHTS_ONLY}"),
        ("net.safetensors", f"(str): {WEIGHTS_ONLY}"),
        ({"conv.weight": Tensor((3, 3))}, f"(dict): {WEIGHTS_ONLY}"),
        ("net.json", "'net.json' (str): a saved report is read by Report.from_json"),
        (".", "'.' (str): it is a directory"),
        ("net.txt", "'net.txt' (str)"),
        ({}, "{} (dict)"),
    ],
    ids=str,
)
def test_what_is_nearly_a_model_is_told_with_what_to_do(toy, model, said):
    with pytest.raises(CostError) as caught:
        estimate(model)
    start, _, rest = str(caught.value).partition("; accepted are ")
    assert start.startswith("no frontend takes ") and start.endswith(said)
    assert rest.startswith("a torch.nn.Module, a chainer.Link, ")


@pytest.mark.parametrize("command", [[], ["diff", "report.json"], ["table"]])
def test_a_directory_is_called_one(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    with pytest.raises(SystemExit) as left:
        main([*command, "nets"])
    assert left.value.code == 2
    said = "error: 'nets' is no model: it is a directory; accepted are a path ending in .onnx, "
    assert said in capsys.readouterr().err


def test_a_large_thing_in_place_of_a_model_is_told_shortly(toy):
    with pytest.raises(CostError) as caught:
        estimate({"weights": [0.0] * 10_000})
    assert len(str(caught.value)) < 350


def test_a_frontend_that_is_broken_is_not_taken_for_a_missing_framework(toy, monkeypatch):
    broken = ModuleType(toy.FRONTEND)
    monkeypatch.setitem(sys.modules, toy.FRONTEND, None)
    monkeypatch.setitem(sys.modules, toy.FRAMEWORK, broken)
    with pytest.raises(CostError, match=r"frontend cannot be imported: .*") as caught:
        load("toy")
    assert "pip install" not in str(caught.value)
    monkeypatch.delitem(sys.modules, toy.FRAMEWORK)
    with pytest.raises(CostError, match=r"needs toy_framework, which cannot be imported .*; install toy_framework$"):
        load("toy")


def test_the_place_in_the_users_code_is_above_the_framework(toy, monkeypatch):
    framework: dict[str, object] = {"__name__": "toy_framework.ops", "where": user_traceback}
    exec("def run():\n    return where('toy_framework')", framework)
    lines = framework["run"]().splitlines()
    assert lines[-2].endswith("in test_the_place_in_the_users_code_is_above_the_framework")


def test_words_for_errors():
    class Model:
        def __repr__(self):
            return "Net(\n  (0): Linear()\n)"

    assert why(FileNotFoundError(2, "No such file or directory", "a")) == "No such file or directory"
    assert why(OSError("odd")) == "odd"
    assert shortly([Model()]) == "[Net( (0): Linear() )]"
    assert shortly("x" * 100) == "'" + "x" * 78 + "…"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda toy: estimate(toy.Model(), (1,), calculators=[len]), "calculators must be a mapping of operators to"),
        (lambda toy: estimate(toy.Model(), (1,), progress=3), "progress must be a function progress(items, what), got"),
        (lambda toy: estimate(toy.Model(), (1,), strict="yes"), "strict must be True or False, got 'yes'"),
        (lambda toy: ComputationalCostHook(tracebacks=1), "tracebacks must be True or False, got 1"),
        (lambda toy: estimate(toy.Model(), (1,)).show_report(3), "expected a path or a stream to write to (got 3)"),
        (lambda toy: estimate(toy.Model(), (1,)).to_html(3), "expected a path or a stream to write to (got 3)"),
        (lambda toy: estimate(toy.Model(), (1,)).to_html(title=3), "title must be text, got 3"),
        (lambda toy: table(5), "models must be a list of models, got 5"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(toy, wrong, sentence):
    with pytest.raises(TypeError) as caught:
        wrong(toy)
    assert str(caught.value).startswith(sentence)
