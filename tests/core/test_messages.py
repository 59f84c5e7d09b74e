"""Fragments of error messages."""

import re
import textwrap
from importlib import import_module

import pytest

from costcore.errors import did_you_mean, error_text, import_problem, line_of, short_repr, unknown
from costcore.ir import as_dim

MODES = ("csv", "md", "table", "color")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tabel", ". Did you mean 'table'?"),
        ("pdf", ""),
        (3, ""),
        (["colour", "cvs"], ". Did you mean 'color' and 'csv'?"),
    ],
)
def test_an_unknown_name_lists_the_expected_ones_and_suggests_the_nearest(name, hint):
    names = ", ".join(map(repr, name if isinstance(name, list) else [name]))
    assert unknown("mode", name, MODES) == f"unknown mode {names} (expected csv, md, table, color){hint}"


def test_fragments_of_messages():
    class Model:
        def __repr__(self):
            return "Net(\n  (0): Linear()\n)"

    assert error_text(FileNotFoundError(2, "No such file or directory", "a")) == "No such file or directory"
    assert error_text(OSError("odd")) == "odd"
    assert short_repr([Model()]) == "[Net( (0): Linear() )]"
    assert short_repr("x" * 100) == "'" + "x" * 78 + "…"


def test_the_line_of_an_error_is_the_last_one_outside_costcore():
    try:
        as_dim(2.5)
    except TypeError as error:
        assert re.fullmatch(r" \(test_messages\.py, line \d+\)", line_of(error))


def test_a_name_that_begins_with_the_given_one_is_nearer_than_a_similar_one():
    names = ["cortex-m7-480", "cortex-m4-168"]
    assert did_you_mean(["cortex-m4"], names) == ". Did you mean 'cortex-m4-168'?"
    assert did_you_mean(["cortex-m7-48"], names) == ". Did you mean 'cortex-m7-480'?"
    assert did_you_mean(["kortex-m7-480"], names) == ". Did you mean 'cortex-m7-480'?"


PACKAGES = {
    "whole_library/__init__.py": "",
    "broken_library/__init__.py": "from broken_library import inner",
    "broken_library/inner.py": "raise RuntimeError('operator broken::nms does not exist')",
    "asked_library/__init__.py": """
        try:
            import broken_library
        except Exception as error:
            raise ModuleNotFoundError("Could not import module 'Model'. Are its requirements defined?") from error
    """,
    "needing_library/__init__.py": "import whole_library, no_such_dependency.part",
}


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("asked_library", "because broken_library fails (RuntimeError: operator broken::nms does not exist)"),
        ("needing_library", "because no_such_dependency fails (ModuleNotFoundError: No module named"),
    ],
)
def test_the_dependency_that_fails_is_named(package, said, tmp_path, monkeypatch):
    for name, text in PACKAGES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError) as caught:
        import_module(package)
    message = import_problem("hf:llama", package, caught.value)
    assert message.startswith(f"hf:llama needs {package}, which is installed and cannot be imported {said}")
    assert "pip install" not in message


@pytest.mark.parametrize(
    "text", ["TimmBackbone requires the timm library but it was not found", "run `pip install timm`"]
)
def test_what_a_model_of_an_installed_library_needs_is_to_be_installed(text):
    """As transformers says it of DETR, whose backbone is one of timm."""
    error = ImportError(text)
    assert (
        import_problem("hf:detr", "pytest", error)
        == "hf:detr needs timm, which is not installed. Run pip install timm."
    )


def test_a_library_that_fails_inside_of_pytorch_is_to_be_installed_again(tmp_path, monkeypatch):
    """As torchvision does if it was made for another release of PyTorch."""
    operator = "def register(): raise RuntimeError('operator broken::nms does not exist')"
    text = f"""torch = {{"__name__": "torch"}}\nexec({operator!r}, torch)\ntorch["register"]()"""
    (tmp_path / "needing_torch.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError) as caught:
        import_module("needing_torch")
    assert import_problem("torchvision:resnet50", "needing_torch", caught.value) == (
        "torchvision:resnet50 needs needing_torch, which is installed and cannot be imported (RuntimeError: operator "
        "broken::nms does not exist). Run pip install --force-reinstall needing_torch."
    )


def test_a_package_that_is_not_installed_is_to_be_installed():
    error = ModuleNotFoundError("No module named 'no_such_package'", name="no_such_package")
    said = "a plot needs no_such_package, which cannot be imported (No module named 'no_such_package'). "
    assert import_problem("a plot", "no_such_package", error) == f"{said}Run pip install no_such_package."
