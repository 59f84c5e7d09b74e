from collections.abc import Iterator
from types import ModuleType

import pytest

from costcore import plugins
from tests.core import toy_framework


@pytest.fixture
def toy() -> Iterator[ModuleType]:
    """The toy framework with its frontend and calculators, registered for one test."""
    plugin = toy_framework.Plugin()
    toy_framework.install()
    plugins.register(plugin, "toy")
    yield toy_framework
    plugins.unregister(plugin)
    toy_framework.remove()
    assert not toy_framework.ACTIVE
