"""Mistakes of users, on the command line and in Python, cause messages that help to correct them."""

import sys
from io import FileIO
from pathlib import Path
from types import ModuleType

import pytest

from costcore import ComputationalCostHook, CostError, Tensor, estimate, fit, table
from tests.command_line import main
from tests.core.given_costs import dense, net
from tests.registered import load, load_model

MODEL = """
from tests.core.toy_framework import Model, register_here as _register
_register()
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


@pytest.mark.parametrize("command", [[], ["diff"]])
def test_an_interrupt_is_one_line_and_exit_code_130(model, capsys, command):
    targets = [f"{model}:waits"] * (2 if command[:1] == ["diff"] else 1)
    assert main([*command, *targets]) == 130
    assert capsys.readouterr().err == "costcore: interrupted\n"


def test_the_message_for_an_unknown_command_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as left:
        main(["compare", "a.onnx", "b.onnx"])
    assert left.value.code == 2
    commands = (
        "calibrate, check, completion, conformance, conventions, devices, diff, explain, fit, memory, plan, plot, "
    )
    commands += "profile, quantities, reconcile, serve, table, time, train"
    message = f"'compare' is not a model or a command (commands: {commands}). Did you mean 'diff'?\n"
    assert capsys.readouterr().err.endswith(message)
    with pytest.raises(SystemExit):
        main(["chek", "a.onnx"])
    assert capsys.readouterr().err.endswith(f"(commands: {commands}). Did you mean 'check'?\n")


@pytest.mark.parametrize("command", [[], ["diff", "b.onnx"], ["table"], ["check", "--budget", "b.toml"]])
def test_a_near_match_of_an_unknown_flag_is_suggested(command, capsys):
    with pytest.raises(SystemExit) as left:
        main([*command, "a.onnx", "--backwards"])
    assert left.value.code == 2
    message = "error: unrecognized arguments: --backwards. Did you mean '--backward'?\n"
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("time hf:bert h100", "are required: --device. Did you mean '--device h100'?"),
        ("serve hf:gpt2", "are required: --device, such as --device h100"),
        ("fit hf:bert 4090", "target 4090 is 4,090 bytes. Did you mean 'rtx4090'?"),
        ("fit hf:bert 24", "target 24 is 24 bytes. Did you mean '24 GB'?"),
        ("memory hf:bert --memory 24", "--memory 24 is 24 bytes. Did you mean '24 GB'?"),
        ("memory hf:bert --memory 4090", "--memory 4090 is 4,090 bytes. Did you mean 'rtx4090'?"),
        ("serve hf:gpt2 --device l4 --memory 24", "--memory 24 is 24 bytes. Did you mean '24 GB'?"),
        ("serve hf:gpt2 --device l4 --cached 9", "--cached needs a request: add --prompt 1024 --new-tokens 256"),
        ("serve hf:gpt2 --device l4 --drafts 3", "--drafts needs a request: add --prompt 1024 --new-tokens 256"),
        (
            "serve hf:gpt2 --device l4 --prompt 9 --output 9 --acceptance 0.5",
            "--acceptance needs a draft model: add --draft MODEL",
        ),
        ("explain hf:resnet 4.1", "'4.1' is no whole number. Did you mean 4.1G or 4.1M?"),
        ("resnet", " or hf:resnet"),
        ("explain hf:resnet 0,61", "'0,61': a comma separates thousands. Did you mean '0.61'?"),
        ("hf:bert --input 1x3:fp16", "unknown dtype 'fp16'. Did you mean 'float16'?"),
        ("hf:bert --input (1,3,64)", "did you mean 1x3x64?"),
        ("plot hf:bert --kind roofline --output a.svg", "device=… is needed for kind 'roofline' (--device h100)"),
        ("hf:bert --device gpu", "; a model whose code asks for a GPU: --cuda"),
        (
            "hf:bert --batch 8",
            ": --input 8x3x224x224. The largest that fits: costcore fit MODEL TARGET --input batch,3,224,224",
        ),
        ("fit hf:bert l4 --seq-len 8k", "--seq-len. The length of a sequence: --seq 4096"),
        ("fit hf:bert l4 --context 8k", "the memory of a CUDA context is a size, 500MiB; a length is --seq 8k"),
        ("hf:bert --params", "Quantities are columns: --columns flops,macs,n_params"),
        ("hf:bert --csv", "Formats: --format csv, --format json, --output page.html"),
        ("hf:bert --quiet", "unrecognized arguments: --quiet"),
        ("serve hf:gpt2 --device h100 --batch-size 8", "--batch-size. Did you mean '--batch'?"),
        ("profile net.py:make", "is a model, not a trace. Its time: costcore time net.py:make --device h100"),
        ("reconcile hf:bert fvcore 4.6G", "is not a convention. To find its rules: costcore explain hf:bert 4.6G"),
        ("serve hf:gpt2 --device h100 --devices 8", "--devices. Did you mean '--mesh'?"),
        ("time hf:bert --device h100 --columns latency", "Did you mean 'bound_seconds'?"),
        ("fit hf:bert 24g", "(got '24g'). Did you mean '24 GB' or '24 GiB'?"),
    ],
)
def test_what_people_type_is_answered_with_what_they_meant(capsys, command, end):
    with pytest.raises(SystemExit) as left:
        main(command.split())
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith(f"{end}\n")


def test_units_and_names_of_devices_may_be_in_any_case(capsys):
    report = net(dense("a", 3))
    wanted = [fit(report, None, target, context=0).limit for target in ("24 GB", "24 GiB", "rtx4090")]
    assert [fit(report, None, target, context=0).limit for target in ("24gb", "24gib", "RTX 4090")] == wanted


@pytest.mark.parametrize(
    ("target", "amounts"),
    [
        ("256KB RAM, 1MB flash", {"sram": 256_000, "flash": 1_000_000}),
        ("ram=256KiB,rom=1MB", {"sram": 262_144, "flash": 1_000_000}),
        ("sram=256KB flash=1MB", {"sram": 256_000, "flash": 1_000_000}),
        ("24 GB RAM", {"memory": 24 * 10**9}),
        ("24GB ram", {"memory": 24 * 10**9}),
        ("NVIDIA L4", {"memory": 24 * 10**9}),
        ("NVIDIA GeForce RTX 4090", {"memory": 24 * 10**9}),
    ],
)
def test_memories_have_the_names_of_data_sheets(target, amounts):
    assert fit(net(dense("a", 3)), None, target, context=0).limit == amounts


@pytest.mark.parametrize("shape", ["1,3,64,64", "2x9:int64", "ids=2x9:int64"])
def test_a_shape_without_its_flag_is_suggested_with_it(shape, capsys):
    with pytest.raises(SystemExit):
        main(["net.py:Net", shape])
    assert capsys.readouterr().err.endswith(f"arguments: {shape}. Did you mean '--input {shape}'?\n")


def test_the_usage_above_an_error_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["net.onnx", "--depth", "2"])
    assert capsys.readouterr().err.splitlines() == [
        "usage: costcore MODEL [options]  (see --help)",
        "costcore: error: --depth requires --tree or --by module: rows of other views are not nested",
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
    assert "Use --python-path DIR to search for modules in DIR as well as in the current folder." in "".join(
        capsys.readouterr()
    )


def test_near_matches_of_a_misspelled_factory_come_first(model):
    names = "large, small, nothing, waits, three, seven, Model, runs"
    with pytest.raises(CostError, match=rf"has no attribute 'larg'; names in it are {names}\. Did you mean 'large'\?$"):
        load_model(f"{model}:larg")


@pytest.mark.parametrize(("n", "last"), [(10, "name9"), (100, "name9 and 90 more")])
def test_only_some_names_of_a_large_module_are_listed(monkeypatch, n, last):
    many = ModuleType("many_names")
    vars(many).update({f"name{i}": i for i in range(n)})
    monkeypatch.setitem(sys.modules, "many_names", many)
    with pytest.raises(CostError, match=rf"names in it are name0, .*, {last}$"):
        load_model("many_names:x")


def test_a_factory_that_returns_none_is_reported(model):
    with pytest.raises(CostError, match=r"model\.py:nothing returned None \(expected a model, or a function"):
        load_model(f"{model}:nothing")


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("three", "result of {}:three: 3 (int) is not a supported model (expected a torch.nn.Module, ", ")"),
        (
            "seven",
            "{}:seven: 7 (int) is not a supported model (expected a torch.nn.Module, ",
            "). A function without arguments that returns a model works too.",
        ),
    ],
)
def test_a_name_of_something_else_than_a_model_is_reported(model, name, start, end):
    with pytest.raises(CostError) as caught:
        load_model(f"{model}:{name}")
    assert str(caught.value).startswith(start.format(model)) and str(caught.value).endswith(end)


def test_a_file_with_two_models_is_run_once(model, capsys):
    first = load_model(f"{model}:runs")
    assert load_model(f"{model}:runs") is first
    assert main(["diff", f"{model}:small", f"{model}:large", "--input", "2x3"]) == 0
    model.write_text(MODEL + "\n# another\n")
    assert load_model(f"{model}:runs") is not first


def test_missing_inputs_are_reported(model, capsys):
    assert main([f"{model}:small"]) == 1
    assert capsys.readouterr().err == "costcore: a toy model needs a shape (got None); no --input was given\n"
    assert main([f"{model}:small", "--input", "a=2x3"]) == 1
    assert "no --input" not in capsys.readouterr().err


def test_files_that_cannot_be_written_or_read_are_reported_as_they_were_written(model, tmp_path, capsys):
    target = tmp_path / "none" / "report.json"
    assert main([f"{model}:small", "--input", "2x3", "--output", str(target)]) == 1
    assert capsys.readouterr().err == f"costcore: {target} cannot be written: No such file or directory\n"
    assert main(["check", f"{model}:small", "--budget", str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err == f"costcore: {tmp_path / 'none.toml'} cannot be read: No such file or directory\n"
    assert main([str(tmp_path / "none.json")]) == 1
    assert capsys.readouterr().err == f"costcore: {tmp_path / 'none.json'} cannot be read: No such file or directory\n"


def test_a_folder_that_is_read_only_is_reported(model, tmp_path, monkeypatch, capsys):
    """The temporary file can neither be written nor removed."""

    opened = Path.open

    def refuse(path, mode="r", *arguments, **options):
        if "w" not in mode:
            return opened(path, mode, *arguments, **options)
        raise OSError(30, "Read-only file system")

    target = tmp_path / "report.json"
    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", lambda path, **options: refuse(path, "w"))
    assert main([f"{model}:small", "--input", "2x3", "--output", str(target)]) == 1
    assert capsys.readouterr().err == f"costcore: {target} cannot be written: Read-only file system\n"


class OnFullDisk(FileIO):
    """A file that takes the first bytes alone."""

    def write(self, content):
        super().write(content[:9])
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("suffix", ["json", "html", "csv", "xlsx", "svg", "png", "pdf"])
def test_a_full_disk_leaves_the_file_that_was_there(model, tmp_path, monkeypatch, capsys, suffix):
    folder = tmp_path / "results"
    folder.mkdir()
    target = folder / f"report.{suffix}"
    target.write_text("before")
    read = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, mode="r", *args, **options: (
            OnFullDisk(path, "w") if mode == "wb" else read(path, mode, *args, **options)
        ),
    )
    assert main([f"{model}:small", "--input", "2x3", "--output", str(target)]) == 1
    assert capsys.readouterr().err == f"costcore: {target} cannot be written: No space left on device\n"
    assert ([*folder.iterdir()], target.read_text()) == ([target], "before")


def test_a_class_instead_of_an_instance_is_reported(toy):
    with pytest.raises(CostError, match=r"^Model is a class, not a model\. Pass an instance, Model\(…\)\.$"):
        estimate(toy.Model)


LOAD = "Build the nn.Module in Python, load the checkpoint if you like, and pass the module."
EXPECTED = "(expected a torch.nn.Module, a torch.export.ExportedProgram, a chainer.Link, "


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("net.pt", "net.pt cannot be read: it is not a file"),
        (Path("net.safetensors"), f"is a checkpoint, not a model. {LOAD}"),
        (
            {"conv.weight": Tensor((3, 3))},
            f"a state dict (1 tensors, 9 elements: conv.weight, …) is not a model. {LOAD}",
        ),
        ({"state": {}, "param_groups": [], "step": 3}, f"the state of an optimizer is not a model. {LOAD}"),
        (
            {"epoch": 3, "net": {"w": Tensor((3, 3))}, "optimizer": {"state": {}, "param_groups": []}},
            "a checkpoint ('net' is a state dict (1 tensors, 9 elements: w, …), 'optimizer' is the state of an "
            f"optimizer) is not a model. {LOAD}",
        ),
        ("net.safetensors", f"'net.safetensors' is a checkpoint, not a model. {LOAD}"),
        ("net.json", "'net.json' is not a model. If it is a saved report, read it with Report.from_json."),
        (".", "'.' is a directory, not a model. Pass a file"),
        ("net.txt", f"'net.txt' (str) is not a supported model {EXPECTED}"),
        ({}, f"{{}} (dict) is not a supported model {EXPECTED}"),
    ],
    ids=str,
)
def test_the_message_for_something_else_than_a_model_has_the_fix(toy, model, message):
    with pytest.raises(CostError) as caught:
        estimate(model)
    assert message in str(caught.value)


def test_checkpoints_and_source_files_on_the_command_line(capsys):
    for target, message in (
        (
            "net.ckpt",
            "'net.ckpt' is a checkpoint, not a model. Pass the code that builds the model, as file.py:factory.",
        ),
        ("net.py", "'net.py' does not name a model in the file. Append a factory or model, net.py:NAME."),
    ):
        with pytest.raises(SystemExit):
            main([target])
        assert capsys.readouterr().err.endswith(f"error: {message}\n")


def test_a_file_without_a_name_lists_the_names_in_it_and_does_not_run_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "_x = f()\nSHAPE = (1, 3)\nraise SystemExit\nclass Net:\n    pass\ndef make():\n    pass\nmodel = Net()\n"
    Path("net.py").write_text(code)
    with pytest.raises(SystemExit) as left:
        main(["net.py"])
    assert left.value.code == 2
    message = "Append a factory or model, net.py:Net or net.py:make or net.py:model.\n"
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.filterwarnings("default::FutureWarning")
def test_a_warning_of_the_users_code_is_not_one_of_costcore(model, capsys):
    model.write_text(
        MODEL + "import warnings\ndef warns():\n    warnings.warn('soon gone', FutureWarning)\n    return small()\n"
    )
    with pytest.warns(FutureWarning, match="soon gone"):  # shown as Python shows warnings
        assert main([f"{model}:warns", "--input", "2x3"]) == 0
    assert capsys.readouterr().err == ""


def test_a_factory_with_arguments_is_reported_with_their_names(model, capsys):
    model.write_text(MODEL + "def sized(width, *, depth, heads=1):\n    return Model('toy::Double')\n")
    assert main([f"{model}:sized", "--input", "2x3"]) == 1
    pass_them = (
        f"Pass them, '{model}:sized(width=…, depth=…)', or write a function without arguments that returns the model."
    )
    assert capsys.readouterr().err == f"costcore: {model}:sized needs arguments (width, depth). {pass_them}\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [("def make():\n    return 1 // 0\n", "make failed: "), ("x = 3\ny = 1 // 0\n", " cannot be loaded: ")],
)
def test_the_line_of_the_users_code_that_fails_is_named(tmp_path, code, message):
    path = tmp_path / "net.py"
    path.write_text(code)
    with pytest.raises(CostError, match=rf"{message}ZeroDivisionError: .* at .*net\.py:2$"):
        load_model(f"{path}:make")


def test_a_module_that_is_not_found_has_no_line():
    with pytest.raises(CostError, match=r"^no_such cannot be loaded: .*No module named 'no_such'\. Use --python-path"):
        load_model("no_such:net")


def test_a_target_with_arguments_is_one_model(model, capsys):
    """Two doublings of 2 x 3 elements."""
    model.write_text("import torch\ndef twice(n):\n    return torch.nn.Sequential(*[torch.nn.ReLU()] * n)\n")
    assert main([f"{model}:twice(n=2)", "--input", "2x3", "--columns", "name,flops", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "total,12"
    with pytest.raises(SystemExit) as left:
        main([f"{model}:twice(n=[2,3])", "--input", "2x3"])
    assert left.value.code == 2
    assert "n must have one value (costcore table counts a model per item of a list)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "end"),
    [("nets.Net", "Did you mean 'nets:Net'?"), ("resnet50", "or 'hf:resnet50'?"), ("", "saved as .json)")],
)
def test_a_target_of_another_form_lists_the_forms(target, end, capsys):
    with pytest.raises(SystemExit) as left:
        main([target, "--input", "1x3"])
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert f"error: {target!r} is not a model (expected a path ending in .onnx" in error
    assert error.endswith(f"{end}\n")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("net", "'net.py:make' or 'net.py:gate'?"),
        ("time net --device l4", "'net.py:make' or 'net.py:gate'?"),
        ("MODEL --calculator net.gate", "net.py:gate?"),
        ("MODEL --calculator net.py.gate", "net.py:gate?"),
        ("MODEL --calculator net.py", "net.py:make or net.py:gate?"),
        ("MODEL --calculator nets.models.gate", "nets.models:gate?"),
        ("MODEL --mesh dp=2 --plan net.gate", "net.py:gate?"),
    ],
)
def test_the_form_of_code_is_suggested(model, tmp_path, monkeypatch, capsys, arguments, meant):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("def make():\n    return None\n\ndef gate():\n    pass\n")
    with pytest.raises(SystemExit) as left:
        main([*arguments.replace("MODEL", f"{model}:small").split(), "--input", "1x8"])
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith(f"Did you mean {meant}\n")


def test_a_table_is_sorted(model, capsys):
    command = ["table", "b=MODEL:small", "a=MODEL:large", "c=MODEL:nothing", "--input", "1x3", "--format", "csv"]
    command = [text.replace("MODEL", str(model)) for text in command]
    for column, order in (("flops", "abc"), ("name", "abc")):
        assert main([*command, "--sort", column]) == 1  # one fails
        assert [line[0] for line in capsys.readouterr().out.splitlines()[1:]] == [*order]
    with pytest.raises(SystemExit):
        main([*command, "--sort", "flop"])
    assert "unknown column 'flop'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("table rows.jsonl", "or continue the table: costcore table MODEL ... --output rows.jsonl --resume"),
        ("table net.py:make --max-macs 3", "costcore table MODEL MODEL --sort macs, --pareto macs,n_params"),
        ("fit l4 net.py:make", "l4 is a device: costcore fit net.py:make l4"),
        ("net.py:make --shape 1x784", "NAME=1x8). For the shape of an input, pass --input 1x784"),
        ("profile net.onnx", "net.onnx is a model, not a trace. Its time: costcore time net.onnx --device h100"),
        ("check net.onnx", 'Write limits to a file, [total] and below it macs = "4G", and add --budget budget.toml'),
    ],
)
def test_what_a_command_lacks_is_answered_with_what_to_type(tmp_path, monkeypatch, capsys, command, end):
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"name": "a"}\n')
    with pytest.raises(SystemExit) as left:
        main(command.split())
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith(f"{end}\n")


@pytest.mark.parametrize("command", [["--calls"], ["--tree"]])
def test_params_are_settings_and_n_params_counts(model, capsys, command):
    assert main([f"{model}:small", "--input", "1x3", *command, "--columns", "params"]) == 0
    out, err = capsys.readouterr()
    assert "Attributes" in out
    assert err == "costcore: params are the settings of operators; --columns n_params counts parameters\n"
    assert main([f"{model}:small", "--input", "1x3", *command, "--columns", "params,n_params"]) == 0
    assert capsys.readouterr().err == ""


def test_a_number_is_suggested_for_params(model, capsys):
    with pytest.raises(SystemExit):
        main(["table", f"{model}:small", "--input", "1x3", "--columns", "params"])
    assert capsys.readouterr().err.endswith("is text (expected a number, such as macs). Did you mean 'n_params'?\n")


def test_the_package_that_reads_a_file_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["net.tflite"])
    expected = (
        "'net.tflite' is read by the package costcore-tflite, which is not installed: pip install costcore-tflite"
    )
    assert expected in capsys.readouterr().err
    with pytest.raises(CostError, match=expected):
        estimate("net.tflite")


NO_REPORT = "{} is not a costcore.report/1 report: it is "

FILES = {
    "nets/": (2, "'nets/' is a directory, not a model. Pass a file, or a folder with .safetensors files"),
    "exports/a.onnx": (2, "'exports' is a directory, not a model. Pass a file in it, such as 'exports/a.onnx'."),
    "tf/saved_model.pb": (2, "'tf' is a graph of TensorFlow. Convert it with tf2onnx"),
    "net.h5": (2, "'net.h5' is an HDF5 file, which costcore does not read."),
    "Train.ipynb": (2, "'Train.ipynb' is a notebook. Move the function that builds the model to a .py file"),
    "net.engine": (2, "'net.engine' is compiled for one kind of device."),
    "net.pkl": (2, "'net.pkl' is a pickle, which would run code when it is read."),
    "net.PB": (2, "'net.PB' is a graph of TensorFlow."),
    "nets.zip": (2, "'nets.zip' is an archive. Unpack it"),
    "config.yaml": (2, "'config.yaml' is a configuration. Pass the code"),
    "config.json": (1, f"{NO_REPORT}a configuration of transformers. Pass it with its library, as hf:config.json."),
    "package.json": (1, f"{NO_REPORT}another JSON file, with name, version. Pass the model, or a report"),
    "check.json": (1, f"{NO_REPORT}a file of costcore-check-1. Pass one that report.to_json wrote."),
    "list.json": (1, "{} is not a costcore.report/1 report: the file: wrong type (got [1], expected an object)"),
}
"""Files and folders by path, with the exit code and the sentence about the first part of the path."""

CONTENTS = {
    "Train.ipynb": '{"cells": [], "nbformat": 4}',
    "config.json": '{"model_type": "bert"}',
    "package.json": '{"name": "net", "version": 1}',
    "check.json": '{"schema": "costcore-check-1"}',
    "list.json": "[1]",
}


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("command", [[], ["diff", "report.json"], ["table"]], ids=str)
def test_every_kind_of_file_that_is_no_model_has_its_sentence(tmp_path, monkeypatch, capsys, path, command):
    monkeypatch.chdir(tmp_path)
    file = Path(path)
    if path.endswith("/"):
        file.mkdir()
    else:
        file.parent.mkdir(exist_ok=True)
        file.write_text(CONTENTS.get(path, ""))
    net(dense("a", 3)).to_json("report.json")
    code, sentence = FILES[path]
    target = path if path.endswith("/") else path.partition("/")[0]
    try:
        found = main([*command, target])
    except SystemExit as left:
        found = left.code
    out, err = capsys.readouterr()
    assert found == code and sentence.format(target) in (err or out) and "Traceback" not in err


@pytest.mark.parametrize("target", ["nets/", "nets/resnet", "/no/such/net.bin2"])
def test_a_missing_folder_is_reported(tmp_path, monkeypatch, capsys, target):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main([target])
    assert capsys.readouterr().err.endswith(f"error: {target!r} is not a model: there is no such file or folder\n")


def test_a_library_without_a_model_lists_the_libraries(capsys):
    with pytest.raises(SystemExit) as left:
        main(["timm:"])
    assert left.value.code == 2
    assert "file.py:factory, timm:NAME, " in capsys.readouterr().err


def test_a_large_object_instead_of_a_model_is_shortened(toy):
    with pytest.raises(CostError) as caught:
        estimate({"weights": [0.0] * 10_000})
    assert len(str(caught.value)) < 480  # the forms of all frontends


def test_a_broken_frontend_is_not_reported_as_a_missing_framework(toy, monkeypatch):
    broken = ModuleType(toy.FRONTEND)
    monkeypatch.setitem(sys.modules, toy.FRONTEND, None)
    monkeypatch.setitem(sys.modules, toy.FRAMEWORK, broken)
    with pytest.raises(CostError, match=r"frontend cannot be imported: .*") as caught:
        load("toy")
    assert "pip install" not in str(caught.value)
    monkeypatch.delitem(sys.modules, toy.FRAMEWORK)
    with pytest.raises(CostError, match=r"needs toy_framework, which cannot be imported .*\. Install it\.$"):
        load("toy")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda toy: estimate(toy.Model(), (1,), calculators=[len]), "builtins.len has no operator. Pass a dict"),
        (
            lambda toy: estimate(toy.Model(), (1,), progress=3),
            "progress must be a function progress(items, description) (got",
        ),
        (lambda toy: estimate(toy.Model(), (1,), strict="yes"), "strict must be True or False (got 'yes')"),
        (lambda toy: ComputationalCostHook(tracebacks=1), "tracebacks must be True or False (got 1)"),
        (lambda toy: estimate(toy.Model(), (1,)).show_report(3), "expected a path or a stream to write to (got 3)"),
        (lambda toy: estimate(toy.Model(), (1,)).to_html(3), "expected a path or a stream to write to (got 3)"),
        (lambda toy: estimate(toy.Model(), (1,)).to_html(title=3), "title must be a string (got 3)"),
        (lambda toy: table(5), "models must be a list or mapping of models (got 5)"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused(toy, wrong, sentence):
    with pytest.raises(TypeError) as caught:
        wrong(toy)
    assert str(caught.value).startswith(sentence)


def test_memory_says_first_what_a_file_needs(capsys, tmp_path):
    for arguments in ([], ["--memory", "1GiB"]):
        with pytest.raises(SystemExit) as left:
            main(["memory", "net.onnx", *arguments])
        assert left.value.code == 2
        assert "needs a PyTorch model (got the file net.onnx). Run costcore net.onnx --arena" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["memory", "net.py:make"])
    assert "--memory is missing: run costcore memory net.py:make" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        (("--format", "tabel"), "table"),
        (("--fusion", "compilr"), "compiler"),
        (("--output", "page.htm"), ".html"),
        (("--colums", "macs"), "--columns"),
        (("--by", "modul"), "module"),
        (("--columns", "flosp"), "flops"),
        (("--convention", "fvcor"), "fvcore"),
    ],
)
def test_near_matches_are_suggested(options, meant, tmp_path, capsys):
    saved = tmp_path / "report.json"
    net(dense("a"), framework="torch").to_json(saved)
    with pytest.raises(SystemExit) as left:
        main([str(saved), *options])
    assert left.value.code == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err
