"""One answer from every door: each command and function counts each form of MODEL alike in each mode, or refuses.

The network is a product of 4 rows with a matrix of 16 x 8, 512 multiply-adds, and a dropout of the 4 x 8 results.
"""

from __future__ import annotations

import csv
import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import nn

from costcore import CostError, Report, TrainingLedger, estimate, max_batch, sweep, table
from costcore.errors import CostWarning
from tests.command_line import main
from tests.frameworks import optional
from tests.registered import in_mode, load_model

onnx = optional("onnx")

PRODUCT = 4 * 16 * 8
TRAINED = PRODUCT + 2 * 32
"""In train mode the dropout compares and multiplies each of 32 elements."""

STEP = TRAINED + 32 + PRODUCT
"""The backward pass multiplies 32 gradients by the mask; x has no gradient, the weight has one of 16 x 4 x 8."""

STEP_IN_EVALUATION = 2 * PRODUCT
"""A dropout that drops nothing has no backward pass."""

NETS = """
from torch import nn

def make():
    return nn.Sequential(nn.Linear(16, 8, bias=False), nn.Dropout(0.5))

def make_evaluated():
    return make().eval()

def sized(width):
    return nn.Sequential(nn.Linear(16, width, bias=False), nn.Dropout(0.5))
"""

TWICE = """
import torch

class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.matmul(x, x.T) @ x
"""

OPTIONS = ("", "--eval", "--train", "--backward", "--backward --eval")

CODE = dict(zip(OPTIONS, (TRAINED, PRODUCT, STEP, STEP, STEP_IN_EVALUATION), strict=True))
EVALUATED = dict(zip(OPTIONS, (PRODUCT, PRODUCT, STEP, STEP_IN_EVALUATION, STEP_IN_EVALUATION), strict=True))
LIBRARY = dict(zip(OPTIONS, (PRODUCT, PRODUCT, STEP, STEP, STEP_IN_EVALUATION), strict=True))

NO_STEP = (
    "onnx frontend; a training step needs the code of the model, file.py:factory",
    "unknown option 'backward' for the onnx frontend",
)
FILE = dict(zip(OPTIONS, (PRODUCT, PRODUCT, *[NO_STEP] * 3), strict=True))

SAVED = ("cannot be used with a saved report", "has no backward pass")
INFERENCE = dict(zip(OPTIONS, (PRODUCT, PRODUCT, *[SAVED] * 3), strict=True))
IN_TRAIN_MODE = {**INFERENCE, "": TRAINED, "--eval": ["runs in train mode: pass a target that makes a PyTorch module"]}
SAVED_STEP = {**IN_TRAIN_MODE, "": STEP}
FORMS = {
    "nets.py:make": CODE,
    "nets:make": CODE,
    "nets.py:make_evaluated": EVALUATED,
    "timm:net": LIBRARY,
    "torchvision:net": LIBRARY,
    "hf:doors": LIBRARY,
    "hf:folder.json": LIBRARY,
    "hf:folder.json/config.json": LIBRARY,
    "net.onnx": FILE,
    "symbols.onnx": FILE,
    "inference.json": INFERENCE,
    "inference.saved": INFERENCE,
    "train_mode.json": IN_TRAIN_MODE,
    "step.json": SAVED_STEP,
}
"""The expected FLOPs of every form with every option, or a part of the sentence that refuses it."""

CASES = [(target, flags) for target in FORMS for flags in OPTIONS]


def network():
    return nn.Sequential(nn.Linear(16, 8, bias=False), nn.Dropout(0.5))


def of_onnx(rows):
    """The network as an exporter writes it, with a dropout that drops nothing."""
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [rows, 16])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [rows, 8])
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [16, 8], [0.0] * 128)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node("Dropout", ["h"], ["y"])]
    return onnx.helper.make_model(onnx.helper.make_graph(nodes, "net", [x], [y], [weight]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with every form of MODEL; the libraries are made up, as they may be missing."""
    transformers = pytest.importorskip("transformers")

    class DoorsConfig(
        transformers.PreTrainedConfig if hasattr(transformers, "PreTrainedConfig") else transformers.PretrainedConfig
    ):
        model_type = "doors"

    class DoorsModel(transformers.PreTrainedModel):
        config_class = DoorsConfig

        def __init__(self, config):
            super().__init__(config)
            self.layers = network()
            self.post_init()

        def forward(self, x):
            return self.layers(x)

    transformers.AutoConfig.register("doors", DoorsConfig)
    transformers.AutoModel.register(DoorsConfig, DoorsModel)
    names = ["net"]
    models = SimpleNamespace(list_models=lambda: names, get_model_builder=lambda name: network)
    create = SimpleNamespace(is_model=names.__contains__, create_model=lambda name, pretrained: network())
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "timm", create)
    monkeypatch.setattr("costcore.frontends.pytorch.libraries.torchvision_inputs", no_inputs)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "folder.json" / "config.json").write_text('{"model_type": "doors"}')
    onnx.save(of_onnx(4), "net.onnx")
    onnx.save(of_onnx("rows"), "symbols.onnx")
    for name in ("inference.json", "inference.saved"):
        estimate(network().eval(), (4, 16), memory=True).to_json(name)
    estimate(network(), (4, 16), memory=True).to_json("train_mode.json")
    estimate(network(), (4, 16), backward=True, memory=True).to_json("step.json")
    yield tmp_path
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    CONFIG_MAPPING._extra_content.pop("doors")
    MODEL_MAPPING._extra_content.pop(DoorsConfig)
    sys.modules.pop("nets", None)


def no_inputs(model, name):
    return None


def is_report(target):
    return target.endswith((".json", ".saved")) and not target.startswith("hf:")


def shape_of(target):
    return None if is_report(target) else {"x": (4, 16)} if target.endswith(".onnx") else (4, 16)


def arguments(target, flags):
    """Return the arguments of a command for a target: its input, unless it is a saved report, and the options."""
    given = [] if is_report(target) else ["--input", "x=4x16" if target.endswith(".onnx") else "4x16"]
    return [*given, *flags.split()]


def mode_of(flags):
    return "train" if "--train" in flags else "evaluation" if "--eval" in flags else None


def is_step(flags):
    return "--train" in flags or "--backward" in flags


@pytest.fixture
def run(capsys):
    """Runs a command; returns its exit code, its output and its errors."""

    def run(*argv):
        try:
            code = main([str(argument) for argument in argv])
        except SystemExit as exit_:
            code = exit_.code
        return code, *capsys.readouterr()

    return run


def last_number(out):
    """Return the total in the last cell of a table; None without a table."""
    lines = [*csv.reader(out.splitlines())]
    return int(lines[-1][-1]) if lines else None


def answers_of_views(run, target, given):
    """Yield the total of every view of a report, the exit code and the errors."""
    for view in (["--calls"], ["--by", "op"], ["--summary", "--strict"], ["--calls", "--convention", "costcore"]):
        code, out, err = run(target, *given, *view, "--columns", "flops", "--format", "csv", "--unit", "none")
        yield last_number(out), code, err
    code, out, err = run("plot", target, *given, "--column", "flops")
    yield (sum(int(row["flops"]) for row in csv.DictReader(out.splitlines())) or None), code, err


def answers_in_files(run, target, given, has_memory):
    """Yield the total of every JSON document that a command writes, the exit code and the errors."""
    for number, argv in enumerate(
        [
            [target, *given],
            [target, *given, *["--memory"] * has_memory],
            ["time", target, *given, "--device", "l4", "--strict"],
        ]
    ):
        path = Path(f"document-{number}.json")
        code, _, err = run(*argv, "--output", path)
        yield (json.loads(path.read_text())["total"]["flops"] if path.exists() else None), code, err


def answers_of_budgets(run, target, given, has_memory, expected):
    """Yield the FLOPs that just hold a budget: alone, with a limit on memory, and as a convention counts them."""
    budgets = ["[total]", "[total]\npeak_memory = 1_000_000", 'convention = "costcore"\n[total]']
    path = Path("budget.toml")
    for text in budgets if has_memory else budgets[::2]:
        path.write_text(f"{text}\nflops = {expected or 0}")
        code, out, err = run("check", target, *given, "--budget", path, "--strict")
        if expected:
            path.write_text(f"{text}\nflops = {expected - 1}")
            assert ", 1 over" in run("check", target, *given, "--budget", path)[1]
        yield (expected if "within budget.toml" in out else None), code, err


def answers_of_python(target, flags, has_memory, expected, cost_budget):
    """Yield what the functions return for the same model, mode and step."""
    options = {"backward": True} if is_step(flags) else {}
    if is_report(target) and is_step(flags):
        return  # a table takes saved steps among models
    row = table([("model", target, shape_of(target))], python_path=["."], mode=mode_of(flags), **options).rows[0]
    yield row.costs.get("flops"), 0 if not row.failed else 1, row.status
    if is_report(target):
        return
    for limits in [{}, {"peak_memory": 1_000_000}][: 1 + has_memory]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CostWarning)  # of a default configuration
            model = load_model(target)
        in_mode(model, target, mode_of(flags), is_step(flags))
        try:
            yield estimate(model, shape_of(target), **options).total_report["flops"], 0, ""
            cost_budget(model, shape_of(target), flops=expected, **limits, **options)
            with pytest.raises(pytest.fail.Exception, match="1 over"):
                cost_budget(model, shape_of(target), flops=expected - 1, **limits, **options)
        except (CostError, TypeError, ValueError) as error:
            yield None, 1, str(error)


@pytest.mark.parametrize(("target", "flags"), CASES)
def test_every_door_gives_one_answer(target, flags, folder, run, cost_budget):
    expected = FORMS[target][flags]
    flops = expected if isinstance(expected, int) else None
    given, has_memory = arguments(target, flags), not target.endswith(".onnx")
    answers = [
        *answers_of_views(run, target, given),
        *answers_in_files(run, target, given, has_memory),
        *answers_of_budgets(run, target, given, has_memory, flops),
        *answers_of_python(target, flags, has_memory, flops, cost_budget),
    ]
    assert [found for found, _, _ in answers] == [flops] * len(answers)
    if flops is None:
        assert all(code in (1, 2) and any(sentence in err for sentence in expected) for _, code, err in answers)
    else:
        assert {code for _, code, _ in answers} == {0}


def test_a_table_takes_saved_steps_among_models(folder):
    """What is saved is not captured again: it has to be what the other models are counted as."""
    targets = ["nets.py:make", "timm:net", "step.json", "inference.json", "net.onnx"]
    made = table([(name, name, None if name.endswith("json") else (4, 16)) for name in targets], backward=True)
    *steps, inference, file = made.rows
    assert [row.costs["flops"] for row in steps] == [STEP, STEP, STEP]
    assert inference.status == "inference.json has no backward pass: save the report of a training step (backward=True)"
    assert "unknown option 'backward' for the onnx frontend" in file.status
    by_mode = {
        mode: table(targets[:1], (4, 16), mode=mode).rows[0].costs["flops"] for mode in (None, "train", "evaluation")
    }
    assert by_mode == {None: TRAINED, "train": TRAINED, "evaluation": PRODUCT}
    swept = sweep("nets.py:sized", {"width": [8]}, (4, 16), mode="evaluation").rows[0]
    assert (swept.costs["flops"], swept.status) == (PRODUCT, "complete")
    objects = {"train": network(), "evaluation": network().eval()}
    train, evaluation = table(objects, (4, 16), mode="evaluation").rows
    assert train.status.startswith("train runs in train mode: pass a target") and objects["train"].training
    assert evaluation.costs["flops"] == PRODUCT
    saved = table([("inference", Report.from_json("inference.json"))], backward=True).rows[0]
    assert saved.status.startswith("inference has no backward pass")
    with pytest.raises(ValueError, match="unknown mode 'eval'"):
        table(targets, mode="eval")


def test_the_command_of_tables_counts_as_the_others(folder, run):
    """Its models run in a process beside this one."""
    targets = ["nets.py:make", "nets:make_evaluated", "net.onnx", "inference.saved"]
    options = ["--columns", "flops", "--format", "csv", "--unit", "none", "--python-path", "."]
    for flags, expected in {"": [TRAINED, PRODUCT, PRODUCT, PRODUCT], "--eval": [PRODUCT] * 4}.items():
        code, out, _ = run("table", *targets, "--input", "4x16", *options, *flags.split())
        rows = [*csv.reader(out.splitlines())][1:]
        assert (code, [int(row[1]) for row in rows]) == (0, expected)
    assert rows[0][2] == "complete"


TRAINING = {target: 2 * 2 * PRODUCT for target, found in FORMS.items() if found not in (FILE, INFERENCE, IN_TRAIN_MODE)}
"""Two model FLOPs for each of 2 * 512 multiply-adds, forward and backward; the others are refused."""


@pytest.mark.parametrize("target", FORMS)
def test_a_training_run_counts_the_backward_pass_of_every_form(target, folder, run):
    expected = TRAINING.get(target)
    for number, flags in enumerate(["", "--strict", *["--backward", "--train", "--eval"] * (not is_report(target))]):
        path = folder / f"ledger-{number}.json"
        code, _, err = run("train", target, *arguments(target, flags), "--output", path)
        if expected is None:
            assert code in (1, 2) and not path.exists() and any(sentence in err for sentence in (*NO_STEP, *SAVED))
        else:
            stage = json.loads(path.read_text())["stages"][0]
            assert (code, stage["model_flops"]) == (0, expected)
    if expected is not None and not is_report(target):
        operations = sum(stage["micro_batch"]["operations"]["forward"].values())
        assert operations == PRODUCT  # --eval: the dropout is free
    model = Report.from_json(target) if is_report(target) else None
    if model is not None and expected is None:
        with pytest.raises(CostError, match="no backward pass"):
            TrainingLedger(model)


@pytest.mark.parametrize("target", FORMS)
def test_the_largest_batch_of_every_form(target, folder, run):
    sizes = [] if is_report(target) else ["--input", "x=4x16" if target.endswith(".onnx") else "batch,16"]
    command = ["memory", target, "--memory", "1MiB", "--context", "0", "--format", "json", *sizes]
    for flags in ("", "--eval", "--train", "--backward"):
        code, out, err = run(*command, *flags.split())
        if FORMS[target] not in (CODE, EVALUATED, LIBRARY):
            refused = ("is a saved report", "does not record the memory", "(got the file ")
            assert (code, out) in ((1, ""), (2, "")) and any(why in err for why in refused)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CostWarning)
            model = load_model(target)
        in_mode(model, target, mode_of(flags), is_step(flags))
        found = max_batch(model, ("batch", 16), "1MiB", context=0, train=is_step(flags))
        assert (code, json.loads(out)["largest"]["batch"]) == (0, found.batch)


@pytest.mark.parametrize("target", FORMS)
def test_only_language_models_are_served(target, folder, run):
    code, out, err = run("serve", target, "--device", "l4")
    assert code in (1, 2) and out == "" and "Traceback" not in err
    assert ("is a saved report" in err) == is_report(target)


@pytest.mark.parametrize("target", FORMS)
def test_a_model_equals_its_saved_report(target, folder, run):
    """diff and explain read every form; the dropout of train mode is what differs from an inference."""
    of_file = ["--dim", "rows=4"] if target == "symbols.onnx" else []
    given = of_file if target.endswith(".onnx") else arguments("nets.py", "")
    code, out, _ = run("diff", "inference.json", target, *given, "--format", "md")
    assert code == 0
    assert (f"FLOPs: equal, {PRODUCT}" in out) == (FORMS[target][""] == PRODUCT)
    ran = "inference.json ran in evaluation mode, " in out
    assert ran == (FORMS[target][""] in (TRAINED, STEP))
    macs = 2 * PRODUCT if target == "step.json" else PRODUCT
    assert run("explain", target, f"{macs} MACs", *arguments(target, ""))[0] == 0


STEPS = """
import torch

model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    loss = model(torch.ones(2, 8)).square().mean()
    loss.backward()
    optimizer.step()
    return loss

def number():
    return step().item()

def whole():
    return 3

def nothing():
    step()
"""


def test_a_function_that_returns_a_loss_is_counted_and_no_factory(tmp_path, monkeypatch, capsys):
    (tmp_path / "steps.py").write_text(STEPS)
    monkeypatch.chdir(tmp_path)
    for name, kind in (("step", "Tensor"), ("number", "float")):
        with pytest.warns(
            CostWarning, match=f"the function returns a {kind}, not a model: the function itself is counted"
        ):
            total = estimate(f"steps.py:{name}").total_report
        # two rows of 8 x 4 products; the gradients of the weight have as many, those of the input are not needed
        assert total["macs"] == 2 * (2 * 8 * 4)
    assert main(["steps.py:step"]) == 0
    assert "step, " in capsys.readouterr().out
    for name, message in (("whole", "result of steps.py:whole: 3"), ("nothing", "steps.py:nothing returned None")):
        with pytest.raises(CostError, match=message):
            estimate(f"steps.py:{name}")


def test_what_is_no_model_is_refused_in_a_sentence(folder, run):
    (folder / "empty.json").mkdir()
    (folder / "other.json").write_text('{"model_type": "bert"}')
    for target, sentence in {
        "empty.json": "'empty.json' is a directory, not a model",
        "other.json": "other.json is not a costcore.report/1 report",
        "missing.json": "missing.json cannot be read",
        "nets.py:missing.json": "nets.py has no attribute 'missing.json'",
    }.items():
        for command in ([], ["train"], ["time", "--device", "l4"], ["explain", "1G"], ["table"]):
            code, out, err = run(*command[:1], target, *command[1:])
            assert code in (1, 2) and sentence in err + out and "Traceback" not in err


@pytest.mark.parametrize("suffix", ["onnx", "pt", "pt2", "gguf", "keras", "json"])
def test_a_pointer_of_git_lfs_is_no_damaged_file(folder, run, suffix):
    (folder / f"net.{suffix}").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    code, _, err = run(f"net.{suffix}")
    message = f"net.{suffix} is a Git LFS pointer, not the file itself. Fetch the file with git lfs pull"
    assert code in (1, 2) and message in err


def test_views_name_the_mode(folder, run):
    train, evaluation = (estimate(net, (4, 16)) for net in (network(), network().eval()))
    assert str(train).splitlines()[0] == "Sequential, 2 calls, train mode, complete"
    assert str(evaluation).splitlines()[0] == "Sequential, 2 calls, evaluation mode, complete"
    remark = "train mode, in which batch norms and dropouts cost more"
    assert remark in train.remarks and remark in train.to_html() and evaluation.remarks == []
    assert remark in train.time("l4").remarks
    step = estimate(network().eval(), (4, 16), backward=True)
    assert step.remarks == ["evaluation mode, in which batch norms and dropouts cost less than in train mode"]
    same = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Dropout(0.0)).eval()
    assert str(estimate(same, (4, 16))).splitlines()[0] == "Sequential, 3 calls, complete"  # the same in both modes


def test_a_budget_records_the_functions_that_its_convention_needs(folder, run, cost_budget):
    """ptflops counts torch.matmul, 4 * 16 * 4 multiply-adds, and not @, which has as many."""
    (folder / "twice.py").write_text(TWICE)
    (folder / "budget.toml").write_text('convention = "ptflops"\n[total]\nflops = 256\n')
    cost_budget(load_model("twice.py:Twice"), (4, 16), "budget.toml")
    assert run("check", "twice.py:Twice", "--input", "4x16", "--budget", "budget.toml")[0] == 0
    (folder / "budget.toml").write_text('convention = "ptflops"\n[total]\nflops = 255\n')
    with pytest.raises(pytest.fail.Exception, match="1 over"):
        cost_budget(load_model("twice.py:Twice"), (4, 16), "budget.toml")


def test_time_beyond_the_groups_is_that_of_a_memory():
    """Activations leave the caches between forward and backward pass, and are read from main memory again."""
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())
    time = estimate(net, (64, 3, 128, 128), backward=True).time("l4")
    assert time.beyond_groups > 0
    assert "bound by dram" in str(time)
    assert "> binds" not in time.to_html()
