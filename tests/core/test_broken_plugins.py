"""Errors of an installed plug-in include its name, in Python and on the command line."""

import sys

import pytest

from costcore import CostError, plugins
from costcore.cli.main import main
from costcore.registry.calculators import calculators
from costcore.registry.frontends import rows, specs
from costcore.tables.renderers import renderers

HEAD = "from costcore import hookimpl\n@hookimpl\n"
ENTRY_POINT = "(entry point broken = broken_costs). To disable it, set COSTCORE_DISABLE_PLUGINS=broken."


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a plug-in ``broken`` with the given source, as pip would."""

    def clear():
        plugins.manager.cache_clear()
        plugins.clear_caches()

    def install_source(source):
        folder = tmp_path / "broken-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text("[costcore]\nbroken = broken_costs\n")
        (tmp_path / "broken_costs.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "broken_costs", raising=False)
        clear()

    yield install_source
    monkeypatch.undo()
    clear()
    sys.modules.pop("broken_costs", None)


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
def test_the_error_is_a_sentence_with_exit_code_1_even_for_a_saved_report(install, capsys, tmp_path, source, sentence):
    install(source)
    expected = f"plug-in 'broken' {sentence} {ENTRY_POINT}"
    for command in ([str(tmp_path / "saved.json")], ["table", str(tmp_path / "saved.json")]):
        assert main(command) == 1
        assert capsys.readouterr().err == f"costcore: {expected}\n"
    with pytest.raises(CostError) as caught:
        renderers()
    assert str(caught.value) == expected
    assert caught.value.__cause__ is not None


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
            lambda: rows("toy"),
            "expected a list of Row (got an item 'aten::f')",
        ),
    ],
)
def test_a_hook_that_returns_something_else_is_reported(install, hook, table, sentence):
    install(f"{HEAD}def {hook}")
    with pytest.raises(CostError) as caught:
        table()
    name = hook.partition("(")[0]
    assert str(caught.value).startswith(f"plug-in 'broken' failed in {name}: TypeError: ")
    assert str(caught.value).endswith(f"{sentence} {ENTRY_POINT}")


def test_a_hook_that_fails_is_reported_with_its_cause(install):
    install(HEAD + "def costcore_calculators(): return {}['conv']")
    with pytest.raises(CostError, match=r"'broken' failed in costcore_calculators: KeyError: 'conv' \(entry") as caught:
        calculators()
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_broken_plugin_can_be_disabled(install, monkeypatch):
    monkeypatch.setenv("COSTCORE_DISABLE_PLUGINS", "other, broken")
    install("import nothere")
    assert set(renderers()) == {"csv", "md", "table", "color"}


def test_a_plugin_without_errors_is_used(install):
    install(HEAD + "def costcore_renderers(): return {'lines': str}")
    assert list(renderers()) == ["csv", "md", "table", "color", "lines"]
