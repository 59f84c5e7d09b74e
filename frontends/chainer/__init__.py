"""Frontend for Chainer: records the functions of a run through Chainer's hooks.

Importing this package makes Chainer run on current libraries. It does not import Chainer, which is only possible
afterwards. The functions of the frontend protocol are in ``estimate``.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy

# Make Chainer 7.8.1, its last release, run on current Python, numpy and setuptools.
#
# This needs ``import costcore.frontends.chainer`` before ``import chainer``. It acts once per process, only if needed:
#
# * ``numpy.float`` and ``numpy.sctypes``, which two modules of Chainer use, are restored with their old values: numpy
#   1.24 and 2.0 removed them.
# * Chainer's check of its environment imports ``numpy.distutils``, which Python 3.12 removed and newer versions of
#   setuptools broke before, and ``pkg_resources``, which setuptools 81 removed. The check only warns of unsuitable
#   versions of CuPy and iDeep and of a BLAS library of macOS. If either module cannot be imported, the check is
#   skipped. The modules themselves are not replaced, so that other packages do not import a replacement.


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
"""Removed names of numpy that Chainer uses."""

CHECK = "chainer._environment_check"


def restore_numpy_names() -> None:
    """Restore the missing names of numpy."""
    for name, value in NAMES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns if some of the removed names are read
            missing = not hasattr(numpy, name)
        if missing:
            setattr(numpy, name, value)


def environment_check_can_run() -> bool:
    """Return True if the imports of Chainer's check of its environment work."""
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
