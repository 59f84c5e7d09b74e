"""Every example of the pages in docs runs, and prints the output below it; so do the other tools that it compares.

``python -m pytest tests/test_guides.py --overwrite`` regenerates the outputs.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import warnings
from pathlib import Path

import pytest

from tests.readme_examples import FENCE, check, examples, run
from tests.test_docs import CODE_BLOCK, HEADING, LINK

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
WITH_EXAMPLES = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
NOT_RUN = ("torchstat",)
"""Tools whose output is a table."""


def sections(text):
    """Return the second-level sections of a page by title."""
    titles = list(re.finditer(r"^## (.+)$", text, re.MULTILINE))
    ends = [match.start() for match in titles[1:]] + [len(text)]
    return {match[1]: text[match.end() : end] for match, end in zip(titles, ends, strict=True)}


def theirs(text):
    """Return the blocks of other tools, which are of language ``py``, by section."""
    found = {title: [block["body"] for block in FENCE.finditer(part)] for title, part in sections(text).items()}
    languages = {title: [block["language"] for block in FENCE.finditer(part)] for title, part in sections(text).items()}
    return {title: (found[title][0], found[title][-1]) for title in found if languages[title][:1] == ["py"]}


COMPARED = theirs((ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8"))


def marked(page):
    """Return a page as the parameter of a test that needs the frameworks that the page imports, or exports to."""
    text = page.read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:import|from) (torch|onnx|chainer)\b", text, re.MULTILINE))
    imported |= {"onnx"} if "torch.onnx.export(" in text else set()
    frontends = {"pytorch", *({"torch": "pytorch"}.get(name, name) for name in imported)}
    return pytest.param(page, id=page.stem, marks=pytest.mark.frontend(*sorted(frontends)))


def skip_what_others_print(page):
    """Skip a page whose output is that of a newer PyTorch or transformers than those that are installed."""
    differences = pytest.importorskip("tests.frontends.pytorch.differences")
    transformers = pytest.importorskip("tests.frontends.pytorch.transformers_differences")
    if page.stem in ("how_long", "parallel", "plans", "serving", "training") and transformers.ANGLES_ARE_PRODUCTS:
        pytest.skip("transformers 4 computes masks and rotary embeddings otherwise")
    if page.stem in ("how_long", "parallel", "plans") and not differences.FUSES_GROUPED_QUERIES:
        pytest.skip("a CPU of this PyTorch runs other operators for attention with fewer heads of keys")
    if page.stem == "reports" and f'{{"torch": "{differences.torch.__version__}"}}' not in page.read_text("utf-8"):
        pytest.skip("the page shows a file that states another release of PyTorch")
    is_other = not differences.torch.__version__.startswith("2.13.")
    if page.stem in ("language_models", "plans") and is_other:
        pytest.skip("fully_shard of another release keeps other buffers")
    if page.stem == "fused_traffic" and is_other:
        pytest.skip("TorchInductor of another release fuses otherwise")
    if page.stem == "milliseconds" and not differences.HAS_GROUPED_QUERIES:
        pytest.skip("this PyTorch has older operators of attention than the trace")
    if page.stem == "gguf" and transformers.ANGLES_ARE_PRODUCTS:
        pytest.skip("transformers 4 multiplies the angles of rotary embeddings as matrices")
    if page.stem == "largest_batch" and differences.COPIES_ATTENTION:
        pytest.skip("this PyTorch keeps a copy in every layer of the encoder")
    if page.stem == "fit" and transformers.ANGLES_ARE_PRODUCTS:
        pytest.skip("GPT-2 of transformers 4 keeps a cache in a training step")
    if page.stem in ("fit", "parallel") and not differences.HAS_MESH:
        pytest.skip("a mesh needs PyTorch 2.5")


@pytest.mark.parametrize("page", [marked(page) for page in WITH_EXAMPLES])
def test_every_example_prints_its_output(page, tmp_path, request):
    skip_what_others_print(page)
    overwrite = request.config.getoption("--overwrite")
    for recorded in (*page.parent.glob("*.trace.json.gz"), *page.parent.glob("*.gguf")):
        shutil.copy(recorded, tmp_path)
    if page.stem == "pull_requests":
        for example in ("net.py", "budget.toml"):
            shutil.copy(ROOT / "examples" / "ci" / example, tmp_path)
    check(page, tmp_path, overwrite)
    for drawn in tmp_path.glob("*.svg"):
        if overwrite:
            (page.parent / drawn.name).write_text(drawn.read_text(encoding="utf-8"), encoding="utf-8")
        assert (page.parent / drawn.name).read_text(encoding="utf-8") == drawn.read_text(encoding="utf-8")


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize("tool", [tool for tool in COMPARED if tool not in NOT_RUN])
def test_an_installed_tool_prints_the_same(tool, tmp_path):
    text = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")
    code, output = COMPARED[tool]
    namespace = {}
    run(examples(text)[0], tmp_path, namespace)
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")  # of the tool, whatever it is
        try:
            exec(compile(code, f"coming_from.md, {tool}", "exec"), namespace)
        except ImportError as error:
            pytest.skip(f"{tool} is not installed: {error}")
    assert printed.getvalue().splitlines()[-1:] == output.splitlines()


def test_the_tools_that_were_promised_are_compared():
    promised = {"fvcore", "ptflops", "thop", "torchinfo", "torchstat", "DeepSpeed", "FlopCounterMode of PyTorch"}
    assert promised <= COMPARED.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for link in LINK.findall(CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        path = link.partition("#")[0]
        assert link.startswith("https://") or (page.parent / path).exists(), link


def test_pages_have_one_title():
    for page in PAGES:
        assert HEADING.findall(CODE_BLOCK.sub("", page.read_text(encoding="utf-8")))
