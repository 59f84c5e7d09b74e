import inspect
import re
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pluggy
import pytest

from costcore import CostError, Tensor, estimate, hookimpl, plugins
from costcore.frontend import ABILITIES, FrontendSpec
from costcore.translate import Native, Row, Translator
from tests.command_line import main
from tests.registered import (
    Export,
    ability,
    calculators,
    default_inputs,
    exports,
    load,
    load_model,
    needed_ability,
    renderers,
    specs,
)


@pytest.fixture
def registered():
    """Registers plug-ins, and unregisters them after the test."""
    added = []

    def register(plugin):
        added.append(plugin)
        plugins.register(plugin)

    yield register
    for plugin in added:
        if plugins.manager().is_registered(plugin):
            plugins.unregister(plugin)


def test_two_calculators_of_one_operator_are_an_error_with_both_names(registered):
    class Second:
        @hookimpl
        def costcore_calculators(self):
            return {"conv": calc_conv}

    def calc_conv(layer):
        return 0, 0, 0, {}

    registered(Second())
    with pytest.raises(CostError, match=r"'conv' has two calculators, .*conv.calc_conv and .*calc_conv"):
        calculators()


def test_two_frontends_of_one_name_are_an_error(registered, toy):
    class Second:
        @hookimpl
        def costcore_frontends(self):
            return [FrontendSpec("toy", "os", "elsewhere")]

    registered(Second())
    with pytest.raises(CostError, match="two frontends are named 'toy': toy_frontend and elsewhere"):
        estimate(toy.Model(), (1,))


def test_the_models_of_a_frontend_of_a_plugin_are_named_in_messages(toy):
    with pytest.raises(CostError, match=r"expected a torch\.nn\.Module, .* or a toy model; frontends: .*toy"):
        estimate(3, (1,))


def test_files_of_a_frontend_of_a_plugin_are_models_on_the_command_line(registered, toy):
    class Reader:
        @hookimpl
        def costcore_frontends(self):
            return [FrontendSpec("boxes", "os", "elsewhere", (".box",))]

    with pytest.raises(
        ValueError,
        match=r"'net\.box' is not a model \(expected a path ending in \.onnx .* or \.keras, package",
    ):
        load_model("net.box")
    registered(Reader())
    assert load_model("net.box") == "net.box"
    with pytest.raises(ValueError, match=r"\.keras or \.box, package"):
        load_model("net.bax")


def test_options_of_a_frontend_are_switches_of_the_command_line(registered, toy, monkeypatch, capsys, tmp_path):
    boxes = ModuleType("boxes")
    received = []

    def estimate_box(recorder, model, inputs, **options):
        received.append(options)

    boxes.ROWS, boxes.estimate = (), estimate_box
    monkeypatch.setitem(sys.modules, "boxes", boxes)

    class Reader:
        @hookimpl
        def costcore_frontends(self):
            return [
                FrontendSpec("boxes", "os", "boxes", (".box",), {"open_boxes": "look into boxes", "dims": "values"})
            ]

    registered(Reader())
    assert main(["a.box", "--open-boxes", "--dim", "n=2"]) == 0
    assert received == [{"open_boxes": True, "dims": {"n": 2}}]
    with pytest.raises(SystemExit):
        main(["--help-all"])
    assert "options for .box files: --open-boxes look into boxes" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["saved.json", "--open-boxes"])
    assert "saved.json: --open-boxes cannot be used with a saved report" in capsys.readouterr().err
    factory = tmp_path / "net.py"
    factory.write_text("from tests.core.toy_framework import Model\n\ndef made():\n    return Model('toy.double')\n")
    with pytest.raises(SystemExit):
        main([f"{factory}:made", "--input", "2x3", "--open-boxes"])
    message = f"{factory}:made: --open-boxes cannot be used with the toy frontend; expected a file of type .box\n"
    assert capsys.readouterr().err.endswith(message)
    assert main(["diff", "a.box", f"{factory}:made", "--input", "2x3", "--open-boxes"]) == 0
    assert received[1:] == [{"open_boxes": True}]


def test_abilities_of_a_frontend_are_found_by_their_declaration_alone(registered, monkeypatch):
    boxes, usual = ModuleType("boxes"), ModuleType("boxes_usual")
    boxes.accepts = lambda model: isinstance(model, Path)
    boxes.passes_of = lambda model, compiled: pytest.fail("it is not declared")
    usual.find = lambda model, name: (name, model)
    monkeypatch.setitem(sys.modules, "boxes", boxes)
    monkeypatch.setitem(sys.modules, "boxes_usual", usual)

    def frontend(**abilities):
        spec = FrontendSpec("boxes", "os", "boxes", (".box",), abilities=abilities)
        return type("Reader", (), {"costcore_frontends": hookimpl(lambda self: [spec])})()

    registered(frontend(default_inputs="boxes_usual:find"))
    box = Path("net.box")
    assert default_inputs(box, "library:net") == ("net", box)
    with pytest.raises(CostError, match=r"MFUMeter needs a torch\.nn\.Module \(got a model of the boxes frontend\)"):
        needed_ability("passes_of", box, "MFUMeter")


def test_an_ability_that_nothing_asks_for_is_an_error(registered):
    spec = FrontendSpec("boxes", "os", "boxes", abilities={"cached_models": "boxes:cached"})
    registered(type("Reader", (), {"costcore_frontends": hookimpl(lambda self: [spec])})())
    with pytest.raises(CostError, match=r"frontend 'boxes': unknown ability 'cached_models'.*cached_model"):
        specs()


@pytest.mark.parametrize("name", ABILITIES)
def test_every_ability_of_pytorch_takes_what_its_protocol_passes(name):
    pytest.importorskip("torch")
    frontend = "traces" if name == "rank_work" else "pytorch"
    function = ability(specs()[frontend], name)
    _, *asked = inspect.signature(ABILITIES[name].__call__).parameters
    inspect.signature(function).bind(*asked)


def test_an_option_of_a_frontend_that_the_command_line_has_is_refused(registered, capsys):
    class Reader:
        @hookimpl
        def costcore_frontends(self):
            return [FrontendSpec("boxes", "os", "boxes", (".box",), {"output": "where"})]

    registered(Reader())
    assert main(["a.box"]) == 1
    message = (
        "costcore: the boxes frontend cannot have an option 'output': argument --output: conflicting option string"
    )
    assert message in capsys.readouterr().err


def failing(table):
    raise KeyError("colour")


def counting(table):
    return 9


@pytest.mark.parametrize(
    ("renderer", "sentence"),
    [
        (failing, "the renderer tests.core.test_plugins.failing fails: KeyError: 'colour'"),
        (counting, "the renderer tests.core.test_plugins.counting must return text (got 9)"),
    ],
)
def test_a_renderer_that_fails_is_reported(registered, toy, capsys, tmp_path, renderer, sentence):
    class Broken:
        @hookimpl
        def costcore_renderers(self):
            return {"broken": renderer}

    registered(Broken())
    with pytest.raises(CostError, match=re.escape(sentence)):
        estimate(toy.Model("toy::Double"), (2, 3)).show_report(mode="broken")
    factory = tmp_path / "net.py"
    factory.write_text("from tests.core.toy_framework import Model\n\ndef made():\n    return Model('toy::Double')\n")
    assert main([f"{factory}:made", "--input", "2x3", "--format", "broken"]) == 1
    assert capsys.readouterr().err == f"costcore: {sentence}\n"


def test_two_renderers_of_one_mode_are_an_error(registered):
    class Second:
        @hookimpl
        def costcore_renderers(self):
            return {"md": failing}

    registered(Second())
    with pytest.raises(CostError, match=r"mode='md' has two renderers, .*\.to_markdown and .*\.failing"):
        renderers()


def test_lines_under_a_table_begin_on_a_line_of_their_own(registered, toy, capsys):
    class Short:
        @hookimpl
        def costcore_renderers(self):
            return {"short": lambda table: "no newline"}

    registered(Short())
    estimate(toy.Model("toy::Double"), (2, 3)).show_report(mode="short")
    assert capsys.readouterr().out == "no newline\n"


def test_a_renderer_of_a_plugin_is_a_mode(registered, toy, capsys):
    class Lines:
        @hookimpl
        def costcore_renderers(self):
            return {"lines": lambda table: f"{len(table.rows)} lines\n"}

    registered(Lines())
    estimate(toy.Model("toy::Double"), (1,)).show_report(mode="lines")
    assert capsys.readouterr().out == "2 lines\n"


def test_an_unknown_hook_is_refused(registered):
    class Misspelled:
        @hookimpl
        def costcore_calculator(self):
            return {}

    plugin = Misspelled()
    with pytest.raises(CostError) as caught:
        registered(plugin)
    assert str(caught.value) == (
        "plug-in 'Misspelled' cannot be registered: PluginValidationError: unknown hook 'costcore_calculator' "
        "(expected costcore_calculators, costcore_frontends, costcore_rows, costcore_renderers, "
        "costcore_conventions, costcore_devices, costcore_caches, costcore_commands, costcore_analyses, "
        "costcore_quantities, costcore_exports). "
        "Did you mean 'costcore_calculators'?"
    )
    assert isinstance(caught.value.__cause__, pluggy.PluginValidationError)
    assert not plugins.manager().is_registered(plugin)


def test_a_plugin_registered_twice_stays_registered(registered, toy):
    plugin = toy.Plugin.__new__(toy.Plugin)
    plugin.costcore_calculators = plugin.costcore_frontends = None
    registered(plugin)
    with pytest.raises(CostError, match="already registered"):
        plugins.register(plugin)
    assert plugins.manager().is_registered(plugin)


def test_an_unregistered_plugin_has_no_effect(registered):
    class Lines:
        @hookimpl
        def costcore_renderers(self):
            return {"lines": str}

    plugin = Lines()
    registered(plugin)
    assert "lines" in renderers()
    plugins.unregister(plugin)
    assert "lines" not in renderers()


def test_the_message_for_an_unknown_frontend_lists_the_registered_ones():
    with pytest.raises(
        ValueError,
        match=r"unknown frontend 'jax' \(expected chainer, checkpoints, keras, onnx, programs, pytorch, traces\)",
    ):
        load("jax")


@pytest.mark.parametrize(
    ("path", "is_installed", "fix"),
    [
        ("no_such_module", True, "Install it."),
        ("costcore.frontends.no_such_module", True, 'Run pip install "costcore[no_such_framework]".'),
        (
            "costcore.frontends.no_such_module",
            False,
            'Run pip install ".[no_such_framework]" in the checkout of costcore.',
        ),
    ],
)
def test_a_frontend_without_its_framework_reports_what_to_install(registered, monkeypatch, path, is_installed, fix):
    def distribution(name):
        if not is_installed:
            raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", distribution)

    class Missing:
        @hookimpl
        def costcore_frontends(self):
            return [FrontendSpec("missing", "no_such_framework", path)]

    registered(Missing())
    with pytest.raises(CostError) as caught:
        load("missing")
    message = str(caught.value)
    assert message.startswith("the missing frontend needs no_such_framework, which cannot be imported (No module named")
    assert message.endswith(f"). {fix}")


def as_tensor(value, role):
    return Tensor(tuple(map(int, value.split("x"))), role=role) if isinstance(value, str) else None


def test_the_first_row_whose_condition_holds_is_taken():
    translate = Translator(
        [
            Row("f", "special", {"x": "a"}, when=lambda args: args["n"] > 1),
            Row(
                "f", "plain", {"x": "a", "w": "weight", "b": "bias"}, {"n": "n", "twice": lambda args: [args["n"]] * 2}
            ),
        ],
        as_tensor,
    )
    done = translate(Native("f", {"a": "2x3", "weight": "3x3", "bias": None, "n": 1}, ["2x3", None]))
    assert done.has_row
    assert done.layer.op == "plain"
    assert {name: t.role for name, t in done.layer.inputs.items()} == {"x": "data", "w": "param"}
    assert done.layer.attrs == {"n": 1, "twice": (1, 1)}
    assert done.inputs == ("2x3", "3x3")
    assert done.outputs == ("2x3",)
    assert translate(Native("f", {"a": "2x3", "n": 2}, ["2x3"])).layer.op == "special"


def test_a_list_feeds_numbered_operands():
    translate = Translator([Row("cat", "concat", {"x*": "tensors"})], as_tensor)
    layer = translate(Native("cat", {"tensors": ["1", "2"]}, ["3"])).layer
    assert list(layer.inputs) == ["x0", "x1"]


@pytest.mark.parametrize(
    ("inputs", "known", "message"),
    [
        (
            {"x": "b"},
            None,
            "row of f: operand x reads the unknown argument 'b' (expected one of 'a', 'n')",
        ),
        (
            {"x": "a", "w": "b"},
            ("a", "c"),
            "operand w reads the unknown argument 'b' (expected one of 'a', 'n', 'c')",
        ),
        (
            {"x": "parts"},
            ("a", "parts"),
            "row of f: operand x reads a list of tensors (expected one tensor). Write it with a star, such as x*",
        ),
        ({"x*": "a"}, ("a", "parts"), "row of f: operand x* reads one tensor (expected a list of tensors)"),
    ],
)
def test_a_row_that_feeds_what_is_not_there_is_refused(inputs, known, message):
    translate = Translator([Row("f", "op", inputs)], as_tensor, names=lambda native: known)
    given = {"a": "2x3", "n": 2} | ({"parts": ["1", "2"]} if inputs == {"x": "parts"} else {})
    for again in (translate, translate.by(as_tensor), translate):
        with pytest.raises(CostError, match=re.escape(message)):
            again(Native("f", given, ["2x3"]))


def test_an_argument_that_was_left_out_feeds_nothing():
    rows = [Row("f", "op", {"x": "a", "w": "c"}), Row("g", "op", {"x": lambda args: None, "w": "c"})]
    translate = Translator(rows, as_tensor, names=lambda native: ("a", "c") if native == "f" else None)
    assert list(translate(Native("f", {"a": "2x3"}, ["2x3"])).layer.inputs) == ["x"]
    assert translate(Native("f", {}, ["2x3"])).layer.inputs == {}
    assert translate(Native("g", {"a": "2"}, ["2x3"])).layer.inputs == {}


@pytest.mark.parametrize(
    ("fed", "message"),
    [
        (
            {"inputs": {"x": 0}},
            "row of f: invalid source of x (got 0, expected the name of an argument or a function of all arguments)",
        ),
        (
            {"attrs": {"axis": ("a", 1)}},
            "row of f: invalid source of axis (got ('a', 1), expected the name of",
        ),
        ({"inputs": ["x"]}, "row of f: invalid inputs (got ['x'], expected a mapping by name)"),
    ],
)
def test_a_row_of_another_kind_is_refused_where_it_is_written(fed, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        Row("f", "op", **fed)


def test_what_no_row_speaks_of_keeps_its_name_and_all_its_tensors():
    translate = Translator([Row("f", "op", when=lambda args: False)], as_tensor)
    done = translate(Native("f", {"a": ["1x2", ["3"]], "flag": True}, ["4"]))
    assert not done.has_row
    assert done.layer.op == "f"
    assert [t.shape for t in done.layer.inputs.values()] == [(1, 2), (3,)]
    assert [t.shape for t in done.layer.outputs] == [(4,)]


@pytest.mark.parametrize("export", [Export("page", "", "a:b"), Export("second", ".json", "a:b")])
def test_two_exports_of_one_name_or_suffix_are_an_error(registered, export):
    class Second:
        @hookimpl
        def costcore_exports(self):
            return [export]

    registered(Second())
    match = f"two exports have the name '{export.name}' or the suffix '{export.suffix}'"
    with pytest.raises(CostError, match=match):
        exports()


def test_an_export_that_nobody_has_is_named(toy):
    with pytest.raises(ValueError, match=r"unknown export 'pages' \(expected .*model_card.*\)\. Did you mean 'page'"):
        estimate(toy.Model("toy::Double"), (2, 3)).export("pages")
