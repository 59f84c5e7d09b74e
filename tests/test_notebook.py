"""The example notebook: every cell runs, and shows the output that is stored below it.

``python -m pytest tests/test_notebook.py --overwrite`` regenerates the outputs. Cells are executed here as a kernel
does it, so that the tests need no Jupyter: the value of a last expression is displayed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"

REPRESENTATIONS = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "text/plain": "__repr__"}


def lines(text):
    return text.splitlines(keepends=True)


def displayed(value):
    """Return the representations of a value by media type, as a kernel sends them."""
    found = {media: getattr(value, name, None) for media, name in REPRESENTATIONS.items()}
    return {media: lines(method()) for media, method in found.items() if method is not None}


def executed(source, namespace, count):
    """Return the outputs of a cell: what it printed, and the value of its last expression."""
    *statements, last = ast.parse(source).body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(statements, []), "cell", "exec"), namespace)
        is_expression = isinstance(last, ast.Expr)
        tree = ast.Expression(last.value) if is_expression else ast.Module([last], [])
        run = eval if is_expression else exec
        value = run(compile(tree, "cell", "eval" if is_expression else "exec"), namespace)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = displayed(value)
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


@pytest.mark.frontend("pytorch")
def test_every_cell_shows_its_output(request):
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    namespace = {"__name__": "__main__"}
    outputs = [executed("".join(cell["source"]), namespace, n) for n, cell in enumerate(cells, 1)]
    if request.config.getoption("--overwrite"):
        for n, (cell, found) in enumerate(zip(cells, outputs, strict=True), 1):
            cell.update(execution_count=n, outputs=found)
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [cell["outputs"] for cell in cells] == outputs
    assert sum("text/html" in output.get("data", {}) for found in outputs for output in found) >= 3
