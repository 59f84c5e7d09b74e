"""Names of models stand in Markdown and LaTeX as they are, whatever they look like."""

from __future__ import annotations

import pytest

from costcore.analyses.sizes.formulas import latex
from costcore.numbers import symbol_of
from costcore.text.screen import escaped


@pytest.mark.parametrize(
    ("name", "markdown"),
    [
        ("[a](javascript:b)", r"[a]\(javascript:b)"),
        ("![a](b)", r"![a]\(b)"),
        ("__init__", r"\__init__"),
        ("_a_", r"\_a_"),
        ("relu_", "relu_"),
        ("n_params", "n_params"),
        ("(2, 3)", "(2, 3)"),
        ("[2, 3]", "[2, 3]"),
        ("~~a~~", r"~\~a~\~"),
        ("$x$", r"\$x\$"),
        ("a|b*c`d", r"a\|b\*c\`d"),
        ("<b>\x1b[0m\\", "&lt;b>\\x1b[0m\\\\"),
        ("a\nb", "a b"),
    ],
)
def test_markdown(name, markdown):
    assert escaped(name) == markdown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("h", "h"),
        ("batch", r"\mathrm{batch}"),
        ("a_b", r"\mathrm{a\_b}"),
        ("$", r"\mathrm{\$}"),
        ("{", r"\mathrm{\{}"),
        ("x^2", r"\mathrm{x\char94{}2}"),
        (r"\input{f}", r"\mathrm{\backslash{}input\{f\}}"),
        ("a b%", r"\mathrm{a\ b\%}"),
        ("~#&", r"\mathrm{\char126{}\#\&}"),
        ("h'", r"\mathrm{h\char39{}}"),
        ("\x07", r"\mathrm{\backslash{}x07}"),
    ],
)
def test_latex(name, text):
    assert latex("macs", 3 * symbol_of(name)) == rf"\mathrm{{macs}} = 3\,{text}"
