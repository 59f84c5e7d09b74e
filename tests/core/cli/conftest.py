import sys
from types import ModuleType

import pytest

from costcore import hookimpl, plugins
from costcore.frontend import FrontendSpec


@pytest.fixture
def boxes(monkeypatch):
    """A frontend of files ``.box``, which returns what it receives: the inputs and the options of every estimate."""
    received = []
    module = ModuleType("boxes")
    module.ROWS = ()
    module.estimate = lambda recorder, model, inputs, **options: received.append((inputs, options))
    monkeypatch.setitem(sys.modules, "boxes", module)
    spec = FrontendSpec("boxes", "os", "boxes", (".box",), {"dims": "sizes of names", "shapes": "shapes of values"})
    plugin = type("Reader", (), {"costcore_frontends": hookimpl(lambda self: [spec])})()
    plugins.register(plugin)
    yield received
    plugins.unregister(plugin)
