from collections.abc import Iterator
from types import ModuleType

import pytest

from costcore import plugins
from tests.engine import toy as toy_module


@pytest.fixture
def toy() -> Iterator[ModuleType]:
    """The toy framework with its frontend and calculators, for one test."""
    plugin = toy_module.Plugin()
    toy_module.install()
    plugins.register(plugin, "toy")
    yield toy_module
    plugins.unregister(plugin)
    toy_module.remove()
    assert not toy_module.ACTIVE
