"""Imports the compatibility module before any test imports Chainer."""

import warnings

import pytest

from tests.frameworks import with_chainer

with_chainer()


@pytest.fixture
def quiet():
    """Ignore Chainer's own warnings: of deprecated functions, of SciPy, and of classes that were never predicted."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* is deprecated", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="SciPy is not available")
        warnings.filterwarnings("ignore", message="invalid value encountered in divide")
        yield
