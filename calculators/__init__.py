"""The cost formulas: one module per operator family, one ``calc_<op>`` per operator or group of operators."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from costcore.ir import Calculator
from costcore.plugins import hookimpl
from costcore.registry import LazyCalculators, add, discover

from .complex_numbers import for_complex_numbers
from .index import MODULES

if __name__ != "costcore.calculators":
    raise ImportError("import costcore.calculators, not calculators")


@hookimpl
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return every calculator of this package by operator, imported on demand."""
    return LazyCalculators(MODULES, _of_module, _of_all_modules)


def _of_module(name: str) -> dict[str, Calculator]:
    table = discover(import_module(name, __name__))
    return {op: for_complex_numbers(function) for op, function in table.items()}


def _of_all_modules() -> dict[str, Calculator]:
    from pkgutil import walk_packages  # calculators are imported on demand

    table: dict[str, Calculator] = {}
    for name in sorted(module.name for module in walk_packages(__path__, f"{__name__}.")):
        add(table, _of_module(name))
    return table


def operator_families() -> dict[str, str]:
    """Return the family of every operator of this package, such as ``{"conv": "conv", "relu": "activation", …}``.

    The family is the module that defines the operator's calculator. Tests check that mapping rules and shape rules are
    in modules of the same name.
    """
    return {op: family for op, function in costcore_calculators().items() if (family := family_of(function))}


# Operator families: names of modules of calculators, mapping rules and shape rules, and of chapters of DETAILS.md.


class Family(NamedTuple):
    """An operator family in the documentation.

    Attributes:
        title: the heading of its chapter in DETAILS.md.
        contents: its operators, in one line.
    """

    title: str
    contents: str


FAMILIES: Mapping[str, Family] = {
    "matmul": Family("Matrix products", "linear layers, dense, bilinear, grouped and sparse products, einsum"),
    "conv": Family("Convolutions", "convolution, transposed, local and deformable convolution"),
    "attention": Family("Attention and positions", "attention with and without caches, position embeddings and biases"),
    "normalization": Family("Normalization", "batch, layer, group, instance and RMS norm, weight norm, whitening"),
    "activation": Family("Activation functions and softmax", "ReLU, GELU, sigmoid, gated units, softmax"),
    "elementwise": Family("Elementwise functions", "arithmetic, comparisons, special functions, lists of tensors"),
    "reduction": Family(
        "Reductions, sorting and searching", "sums, means, norms, cumulative operators, sorts, histograms"
    ),
    "pooling": Family("Pooling", "max, average, adaptive and Lp pooling, regions of interest"),
    "recurrent": Family("Recurrent layers", "LSTM, GRU, RNN, their cells, linear attention, state-space layers"),
    "indexing": Family("Indexing and embeddings", "gather, scatter, embeddings, masks, segments"),
    "layout": Family("Layout and creation", "views, copies, concatenation, padding, casts, new tensors"),
    "resampling": Family("Resampling", "resizing, grid sampling, antialiasing"),
    "loss": Family("Losses and metrics", "losses of regression, classification and embeddings, CTC, metrics"),
    "optimizer": Family("Optimizer steps", "one update of all parameters: SGD, momentum, Adagrad, Adam"),
    "fused": Family("Fused operators", "products and norms with epilogues, experts, whole transformer layers"),
    "quantization": Family("Quantization", "conversions, operators on quantized values, packed weights"),
    "random": Family("Random numbers and dropout", "dropout and draws from distributions"),
    "linalg": Family("Linear algebra", "factorizations, solvers, inverses, eigenvalues, distances"),
    "signal": Family("Signal processing", "Fourier transforms, windows, mel filters"),
    "text": Family("Text and tokens", "strings, n-grams, choice of tokens, containers of values"),
    "classical_ml": Family("Classical machine learning", "linear models, support vector machines, tree ensembles"),
    "kernels": Family("Kernels of other packages", "FlashAttention, Mamba, NATTEN, deformable attention, CARAFE"),
    "collective": Family(
        "Collective communication", "all-reduce, all-gather, send and the like: bytes sent to other processes"
    ),
}
"""Every family by name, in the order of chapters in DETAILS.md, most used families first."""


def family_of(calculator: Calculator) -> str | None:
    """Return the family of a calculator by the module that defines it; None for a calculator of a plug-in."""
    package, _, inside = getattr(calculator, "__module__", "").partition(f"{__package__}.")
    family = inside.partition(".")[0]
    return family if not package and family in FAMILIES else None
