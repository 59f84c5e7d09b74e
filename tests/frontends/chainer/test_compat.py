"""Chainer imports and runs with numpy and setuptools versions that removed what it uses."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import chainer
import numpy
import pytest
from chainer import functions

from costcore.frontends import chainer as compat


def test_functions_that_use_removed_names():
    v = chainer.Variable(numpy.arange(4, dtype="float32"))

    large = functions.resize_images(v.array.reshape(1, 1, 2, 2), (3, 3))
    strided = functions.as_strided(v, (2,), (1,))
    strided.grad = numpy.ones(2, "float32")
    strided.backward()

    assert large.array[0, 0].tolist() == [[0, 0.5, 1], [1, 1.5, 2], [2, 2.5, 3]]
    assert v.grad.tolist() == [1, 1, 0, 0]


def test_existing_names_are_not_changed(monkeypatch):
    mine = {"float": "of the user"}
    monkeypatch.setattr(numpy, "sctypes", mine, raising=False)
    monkeypatch.delattr(numpy, "float", raising=False)
    before = vars(numpy).keys() | {"float"}

    compat.restore_numpy_names()
    compat.restore_numpy_names()

    assert numpy.sctypes is mine
    assert numpy.float is float
    assert vars(numpy).keys() == before


@pytest.mark.parametrize("module", ["numpy.distutils.system_info", "pkg_resources"])
def test_check_that_cannot_run_is_skipped(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)  # makes an import of the module fail
    monkeypatch.setitem(sys.modules, compat.CHECK, ModuleType(compat.CHECK))

    assert not compat.environment_check_can_run()
    compat.skip_environment_check()

    assert sys.modules[compat.CHECK].check() is None


SCRIPT = """
import sys
{missing}
import costcore.frontends.chainer
assert "chainer" not in sys.modules
before = set(sys.modules)
import chainer, numpy, torch
import chainer.functions as functions
y = functions.resize_images(numpy.ones((1, 1, 2, 2), "float32"), (4, 4))
assert y.shape == (1, 1, 4, 4)
assert sys.modules.get("pkg_resources") is {found}
print(chainer.__version__)
"""


@pytest.mark.parametrize(
    ("missing", "found"),
    [
        ("", "sys.modules.get('pkg_resources')"),
        ("sys.modules['pkg_resources'] = sys.modules['numpy.distutils'] = None", "None"),
    ],
    ids=["as installed", "without pkg_resources and numpy.distutils"],
)
def test_import_in_a_process_of_its_own(missing, found):
    script = SCRIPT.format(missing=missing, found=found).replace(", torch", "")

    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [chainer.__version__]
