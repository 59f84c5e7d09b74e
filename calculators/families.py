"""The vocabulary of operator families, and the family of a calculator.

The files or folders of calculators, mapping rules and shape rules, those of their tests, and the chapters of DETAILS.md
are named by these families.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.ir import Calculator


class Family(NamedTuple):
    """An operator family as documentation shows it.

    Attributes:
        title: heading of its chapter in DETAILS.md.
        contents: the operators it contains, in one line.
        first: the file that its chapter starts with; the others follow alphabetically, gradients last.
    """

    title: str
    contents: str
    first: str = ""


FAMILIES: Mapping[str, Family] = {
    "matmul": Family(
        "Matrix products", "linear layers, dense, bilinear, grouped and sparse products, einsum", first="dense"
    ),
    "conv": Family("Convolutions", "convolution, transposed, local and deformable convolution", first="conv"),
    "attention": Family(
        "Attention and positions",
        "attention with and without caches, position embeddings and biases",
        first="attention",
    ),
    "normalization": Family(
        "Normalization", "batch, layer, group, instance and RMS norm, weight norm, whitening", first="norms"
    ),
    "activation": Family(
        "Activation functions and softmax", "ReLU, GELU, sigmoid, gated units, softmax", first="activations"
    ),
    "elementwise": Family(
        "Elementwise functions", "arithmetic, comparisons, special functions, lists of tensors", first="arithmetic"
    ),
    "reduction": Family(
        "Reductions, sorting and searching",
        "sums, means, norms, cumulative operators, sorts, histograms",
        first="reduce",
    ),
    "pooling": Family("Pooling", "max, average, adaptive and Lp pooling, regions of interest", first="pooling"),
    "recurrent": Family(
        "Recurrent layers", "LSTM, GRU, RNN, their cells, linear attention, state-space layers", first="layers"
    ),
    "indexing": Family(
        "Indexing and embeddings", "gather, scatter, embeddings, masks, segments", first="gather_scatter"
    ),
    "layout": Family("Layout and creation", "views, copies, concatenation, padding, casts, new tensors"),
    "resampling": Family("Resampling", "resizing, grid sampling, antialiasing", first="interpolation"),
    "loss": Family(
        "Losses and metrics", "losses of regression, classification and embeddings, CTC, metrics", first="losses"
    ),
    "optimizer": Family("Optimizer steps", "one update of all parameters: SGD, momentum, Adagrad, Adam"),
    "fused": Family(
        "Fused operators", "products and norms with epilogues, experts, whole transformer layers", first="epilogues"
    ),
    "quantization": Family(
        "Quantization", "conversions, operators on quantized values, packed weights", first="conversions"
    ),
    "random": Family("Random numbers and dropout", "dropout and draws from distributions"),
    "linalg": Family(
        "Linear algebra", "factorizations, solvers, inverses, eigenvalues, distances", first="factorizations"
    ),
    "signal": Family("Signal processing", "Fourier transforms, windows, mel filters", first="fft"),
    "text": Family("Text and tokens", "strings, n-grams, choice of tokens, containers of values", first="tokens"),
    "classical_ml": Family("Classical machine learning", "linear models, support vector machines, tree ensembles"),
    "collective": Family(
        "Collective communication", "all-reduce, all-gather, send and the like: bytes sent to other processes"
    ),
}
"""Every family by name, in the order of the chapters of DETAILS.md: the most used ones first."""


def family_of(calculator: Calculator) -> str | None:
    """Return the family of a calculator by the file or folder that defines it; None for a calculator of a plug-in."""
    package, _, inside = getattr(calculator, "__module__", "").partition(f"{__package__}.")
    family = inside.partition(".")[0]
    return family if not package and family in FAMILIES else None
