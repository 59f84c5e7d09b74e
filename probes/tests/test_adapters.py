"""Adapters are small, and say what the tool declares, and where."""

from pathlib import Path

import pytest

from costcore_probes import adapters
from costcore_probes.adapter import adapter, adapter_names
from costcore_probes.probe import FORMATS, QUANTITIES

FOLDER = Path(adapters.__file__).parent


def test_there_is_no_other_adapter():
    with pytest.raises(ValueError, match=r"no adapter 'nothing'; expected one of .*fvcore"):
        adapter("nothing")


@pytest.mark.parametrize("name", adapter_names())
def test_an_adapter(name):
    tool = adapter(name)
    assert tool.name == name
    assert tool.declares
    assert tool.cites
    assert set(tool.counts) <= set(QUANTITIES)
    assert set(tool.unit) <= set(tool.counts)
    assert set(tool.formats) <= set(FORMATS)
    assert all(rule.text and rule.cites for rule in tool.rules)
    assert all(limit.text and limit.cites and limit.tags for limit in tool.limits)


@pytest.mark.parametrize("name", set(adapter_names()) - {"costcore"})
def test_an_adapter_has_forty_lines_of_code_at_most(name):
    """That of costcore is asked twelve quantities."""
    lines = (FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if line.strip() and not line.lstrip().startswith(('"""', "from", "import", "#"))]
    assert len(code) <= 40
