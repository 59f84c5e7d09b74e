"""Chainer is mended before any test imports it."""

import warnings

import pytest

import costcore.frontends.chainer.compat  # noqa: F401


@pytest.fixture
def quiet():
    """Chainer's own warnings: of its old functions, of SciPy, and of classes that nothing was predicted to be."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* is deprecated", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="SciPy is not available")
        warnings.filterwarnings("ignore", message="invalid value encountered in divide")
        yield
