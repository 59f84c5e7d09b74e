"""Makes Chainer 7.8.1, its last release, import and run on today's Python, numpy and setuptools.

``import costcore.frontends.chainer.compat`` before ``import chainer``. It acts once, and only on what is missing:

* ``numpy.float`` and ``numpy.sctypes``, which numpy 1.24 and 2.0 dropped and two of Chainer's modules use, stand for
  what they once stood for.
* Chainer's check of its environment imports ``numpy.distutils``, gone with Python 3.12 and broken by newer setuptools
  before, and ``pkg_resources``, gone with setuptools 81. All it does is warn of unfit versions of CuPy and iDeep and
  of a BLAS library of macOS. Where either module cannot be imported, the check is left out; no stand-in for the two
  modules is left for other packages to find.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy

NAMES: dict[str, Any] = {
    "float": float,
    "sctypes": {
        "int": [numpy.int8, numpy.int16, numpy.int32, numpy.int64],
        "uint": [numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64],
        "float": [numpy.float16, numpy.float32, numpy.float64, numpy.longdouble],
        "complex": [numpy.complex64, numpy.complex128, numpy.clongdouble],
        "others": [bool, object, bytes, str, numpy.void],
    },
}
"""What numpy once had, and Chainer uses."""

CHECK = "chainer._environment_check"


def name_in_numpy() -> None:
    """Give numpy the names it lacks."""
    for name, value in NAMES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns when asked for some of the names it dropped
            missing = not hasattr(numpy, name)
        if missing:
            setattr(numpy, name, value)


def check_runs() -> bool:
    """Whether Chainer's check of its environment can import what it needs, which warns of its own age."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import_module("numpy.distutils.system_info")
            import_module("pkg_resources")
        except ImportError:
            return False
    return True


def leave_out_check() -> None:
    """Let Chainer find a check that checks nothing."""
    stand_in = ModuleType(CHECK, "Stands in for Chainer's check of its environment, which cannot run here.")
    stand_in.__dict__["check"] = lambda: None
    sys.modules[CHECK] = stand_in


name_in_numpy()
if CHECK not in sys.modules and not check_runs():
    leave_out_check()
