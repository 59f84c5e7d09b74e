"""A broken installed plug-in is left out with a warning; an error of what may need it names it."""

import subprocess
import sys
from functools import cache

import pytest

import costcore
from costcore import CostError, CostWarning, Report, estimate, plugins
from tests.command_line import main
from tests.core import toy_framework
from tests.registered import calculators, load_model, plugin_rows, renderers, specs

HEAD = "from costcore import hookimpl\n@hookimpl\n"
LEFT_OUT = (
    "(entry point broken = broken_costs). It is left out. To silence this warning, uninstall it (pip uninstall "
    "broken) or set COSTCORE_DISABLE_PLUGINS=broken."
)
NAMED = "Plug-in 'broken' cannot be loaded: ModuleNotFoundError: No module named 'nothere'; it is left out."


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a plug-in ``broken`` with the given source, as pip would."""

    def install_source(source):
        folder = tmp_path / "broken-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text("[costcore]\nbroken = broken_costs\n")
        (tmp_path / "broken_costs.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "broken_costs", raising=False)
        monkeypatch.setattr(plugins, "manager", cache(plugins.manager.__wrapped__))
        monkeypatch.setattr(plugins, "_LEFT_OUT", {})
        plugins.clear_caches()

    yield install_source
    monkeypatch.undo()
    plugins.clear_caches()
    sys.modules.pop("broken_costs", None)


@pytest.fixture
def saved(toy, tmp_path):
    """A saved report."""
    estimate(toy.Model("toy::Double"), (2, 3)).to_json(tmp_path / "saved.json")
    return str(tmp_path / "saved.json")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("import nothere", "cannot be loaded: ModuleNotFoundError: No module named 'nothere'"),
        ("raise RuntimeError('no\\n GPU')", "cannot be loaded: RuntimeError: no GPU"),
        ("raise SystemExit('no license')", "cannot be loaded: SystemExit: no license"),
        ("def (", "cannot be loaded: SyntaxError: invalid syntax (broken_costs.py, line 1)"),
        (
            HEAD + "def costcore_row(frontend): return []",
            "cannot be registered: PluginValidationError: unknown hook 'costcore_row' "
            "(expected costcore_calculators, costcore_frontends, costcore_rows, costcore_renderers, "
            "costcore_conventions, costcore_devices, costcore_caches, costcore_commands, costcore_analyses, "
            "costcore_quantities, costcore_exports). "
            "Did you mean 'costcore_rows'?",
        ),
        (
            HEAD + "def prices(): return []",
            "cannot be registered: PluginValidationError: unknown hook 'prices' "
            "(expected costcore_calculators, costcore_frontends, costcore_rows, costcore_renderers, "
            "costcore_conventions, costcore_devices, costcore_caches, costcore_commands, costcore_analyses, "
            "costcore_quantities, costcore_exports)",
        ),
        (
            HEAD + "def costcore_renderers(): return ['svg']",
            "failed in costcore_renderers: TypeError: expected a dict of functions by name (got ['svg'])",
        ),
    ],
)
def test_it_is_left_out_with_a_line_on_the_command_line_and_a_warning(saved, install, capsys, source, sentence):
    install(source)
    expected = f"plug-in 'broken' {sentence} {LEFT_OUT}"
    for command in ([saved], ["table", saved], [saved, "--format", "csv"]):
        plugins.manager.cache_clear()
        plugins.clear_caches()
        assert main(command) == 0
        assert capsys.readouterr().err == f"costcore: {expected}\n"
    plugins.manager.cache_clear()
    plugins.clear_caches()
    with pytest.warns(CostWarning) as warned:
        assert set(renderers()) == {"csv", "md", "latex", "table", "color"}
        Report.from_json(saved).show_report()
    assert [str(each.message) for each in warned] == [expected]


@pytest.mark.parametrize(
    ("hook", "table", "sentence"),
    [
        ("costcore_calculators(): return [1]", calculators, "expected a dict of functions by name (got [1])"),
        ("costcore_calculators(): return {'f': 3}", calculators, "expected functions by name (got 'f': 3)"),
        ("costcore_calculators(): return {3: print}", calculators, "(got 3: <built-in function print>)"),
        ("costcore_frontends(): return 3", specs, "expected a list of FrontendSpec (got 3)"),
        ("costcore_frontends(): return ['jax']", specs, "expected a list of FrontendSpec (got an item 'jax')"),
        (
            "costcore_rows(frontend): yield 'aten::f'",
            lambda: plugin_rows("toy"),
            "expected a list of Row (got an item 'aten::f')",
        ),
    ],
)
def test_a_hook_that_returns_something_else_is_left_out(install, hook, table, sentence):
    without = [*table()]
    install(f"{HEAD}def {hook}")
    with pytest.warns(CostWarning) as warned:
        assert [*table()] == without
    name = hook.partition("(")[0]
    (message,) = (str(each.message) for each in warned)
    assert message.startswith(f"plug-in 'broken' failed in {name}: TypeError: ")
    assert message.endswith(f"{sentence} {LEFT_OUT}")


def test_a_hook_of_a_plugin_that_this_process_registered_is_an_error_with_its_cause(toy):
    class Broken:
        @costcore.hookimpl
        def costcore_calculators(self):
            return {}["conv"]

    broken = Broken()
    plugins.register(broken, "own")
    try:
        with pytest.raises(
            CostError, match=r"^plug-in 'own' failed in costcore_calculators: KeyError: 'conv'$"
        ) as caught:
            calculators()
    finally:
        plugins.unregister(broken)
    assert isinstance(caught.value.__cause__, KeyError)


def test_the_other_hooks_of_a_plugin_are_used(install):
    install(HEAD + "def costcore_renderers(): return {'lines': str}\n@hookimpl\ndef costcore_calculators(): 1 / 0")
    assert "lines" in renderers()
    with pytest.warns(
        CostWarning, match=r"'broken' failed in costcore_calculators: ZeroDivisionError: division by zero \("
    ):
        assert "conv" in calculators()


def test_what_may_need_it_is_an_error_that_names_it(saved, install, capsys, tmp_path):
    install("import nothere")
    with pytest.warns(CostWarning):
        report = Report.from_json(saved)
        specs()
    budget = tmp_path / "budget.toml"
    budget.write_text("[total]\narray_cycles = 3\n")
    for ask in (
        lambda: estimate("net.acme"),
        lambda: load_model("net.acme"),
        lambda: report.show_report(mode="lines"),
        lambda: report.show_report(columns=["array_cycles"]),
        lambda: report.table("module", columns=["array_cycles"]),
        lambda: report.analysis("array"),
        lambda: report.export("acme"),
        lambda: report.plot("array"),
        lambda: costcore.check(report, budget),
        lambda: costcore.table([saved], columns=["array_cycles"]),
        lambda: report.time("acme-npu"),
        lambda: report.under("acme"),
    ):
        with pytest.raises(ValueError) as caught:
            ask()
        assert str(caught.value).endswith(f" {NAMED}"), caught.value
    for words in (["array", saved], [saved, "--array"]):
        with pytest.raises(SystemExit):
            main(words)
        assert capsys.readouterr().err.endswith(f" {NAMED}\n")


def test_a_call_without_a_formula_names_it(install):
    install("import nothere")
    with pytest.warns(CostWarning):
        plugins.manager()
    plugins.register(toy_framework.Plugin(), "toy")
    toy_framework.install()
    try:
        with pytest.warns(CostWarning) as warned:
            estimate(toy_framework.Model("acme::f"), (2, 3))
    finally:
        toy_framework.remove()
    (message,) = (str(each.message) for each in warned)
    assert message.startswith("no calculator for 'acme::f': 1 call")
    assert message.endswith(f" {NAMED}")


def test_the_processes_of_a_table_do_not_repeat_the_warning(saved, install, tmp_path):
    install("import nothere")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from costcore.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "table", saved, saved, "--jobs", "2"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr.count("cannot be loaded") == 1
    assert ran.stderr.splitlines()[0].startswith("costcore: plug-in 'broken' cannot be loaded")


def test_a_broken_plugin_can_be_disabled(install, monkeypatch):
    monkeypatch.setenv("COSTCORE_DISABLE_PLUGINS", "other, broken")
    install("import nothere")
    assert set(renderers()) == {"csv", "md", "latex", "table", "color"}


def test_a_plugin_without_errors_is_used(install):
    install(HEAD + "def costcore_renderers(): return {'lines': str}")
    assert list(renderers()) == ["csv", "md", "latex", "table", "color", "lines"]
