"""Sphinx configuration of the documentation site; `make docs` runs it through tools/make_site.py."""

from __future__ import annotations

from typing import Any

from costcore import __version__

project = "costcore"
copyright = "the costcore contributors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]

# Pages are the Markdown that code-hosting pages show, so headings have the anchors that those give them.
myst_heading_anchors = 4

autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "inherited-members": "BaseException, tuple, str, int, dict",  # all of ours, but not those of Python's classes
}
napoleon_use_ivar = True  # attributes that a docstring describes are described there alone
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
add_module_names = False
suppress_warnings = ["ref.python"]  # a name such as Cost has its own page and is on that of its module

copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = f"costcore {release}"
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["sidebar.js"]
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # a page that is opened from a folder cannot fetch the pages it found
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
templates_path = ["_templates"]


def setup(app: Any) -> None:
    """Leave out the fields of named tuples: Python documents them as "Alias for field number 0"."""
    app.connect("autodoc-skip-member", _is_field)


def _is_field(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    return True if type(value).__name__ == "_tuplegetter" else None
