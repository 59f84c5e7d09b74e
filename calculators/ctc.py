"""Connectionist temporal classification of scores, softmax included."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations

from .loss import reduce
from .softmax import log_softmax_operations


def _visits(layer: Layer) -> tuple[Dim, Dim]:
    """How often a state is visited: the 2 L + 1 states of all samples at every step; and how many samples there are."""
    steps, samples, _ = layer["x"].shape
    return steps * (2 * layer["target"].size + samples), samples


def calc_ctc_loss_with_logits(layer: Layer) -> Cost:
    """CTC loss of scores: the logarithm of softmax of every step, then the forward recursion as in ctc_loss.

    Per step and sample of C scores C exp, 2C-1 add, one log; per visit of a state 3 add and 4 special; per sample 2 add
    and 3 special. Lengths that depend on data are taken as the largest possible.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: x[T, N, C], target[N, L] -> y[]
    Settings: reduction="mean"
    """
    x, (visits, samples) = layer["x"], _visits(layer)
    operations = log_softmax_operations(x.size, x.shape[0] * samples) + Operations(add=3, special=4) * visits
    operations += Operations(add=2, special=3) * samples + reduce(layer, samples)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_ctc_loss_with_logits_backward(layer: Layer) -> Cost:
    """Gradient of CTC with respect to the scores: (softmax(x) - p) dy, p the posterior of the classes at every step.

    The backward recursion costs what the forward one does, 3 add and 4 special for every visit of a state; the
    posterior of a visit is exp(forward + backward - total), 2 add and 1 special, and is added to its class, 1 add. Then
    for every score exp of its log-probability, a subtraction and a product with dy, which a mean divides by N first.
    What the forward pass computed, log-probabilities and recursion, is there already.

    Shapes: dy[], x[T, N, C], target[N, L] -> dx[T, N, C]
    Settings: reduction="mean"
    """
    visits, _ = _visits(layer)
    operations = Operations(add=6, special=5) * visits + Operations(add=1, mul=1, special=1) * layer["x"].size
    operations += Operations(div=1 if layer.attrs.get("reduction", "mean") == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)
