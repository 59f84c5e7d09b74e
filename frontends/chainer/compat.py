"""Makes Chainer 7.8.1, its last release, import and run on today's Python, numpy and setuptools.

``import costcore.frontends.chainer.compat`` before ``import chainer``. It acts once per process, and only on what is
missing:

* ``numpy.float`` and ``numpy.sctypes``, which numpy 1.24 and 2.0 removed and two modules of Chainer use, are restored
  with their old values.
* Chainer's check of its environment imports ``numpy.distutils``, which Python 3.12 removed and newer versions of
  setuptools broke before, and ``pkg_resources``, which setuptools 81 removed. The check only warns of unsuitable
  versions of CuPy and iDeep and of a BLAS library of macOS. If either module cannot be imported, the check is skipped.
  The two modules themselves are not replaced, so other packages do not find a stand-in for them.
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
"""Names that numpy removed and Chainer uses."""

CHECK = "chainer._environment_check"


def restore_numpy_names() -> None:
    """Add the names to numpy that it lacks."""
    for name, value in NAMES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns if some of the removed names are read
            missing = not hasattr(numpy, name)
        if missing:
            setattr(numpy, name, value)


def environment_check_can_run() -> bool:
    """Return True if the modules that Chainer's check of its environment imports can be imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both modules warn that they are deprecated
        try:
            import_module("numpy.distutils.system_info")
            import_module("pkg_resources")
        except ImportError:
            return False
    return True


def skip_environment_check() -> None:
    """Put an empty check into ``sys.modules``, for Chainer to import."""
    module = ModuleType(CHECK, "Replaces Chainer's check of its environment, which cannot run here.")
    module.__dict__["check"] = lambda: None
    sys.modules[CHECK] = module


restore_numpy_names()
if CHECK not in sys.modules and not environment_check_can_run():
    skip_environment_check()
