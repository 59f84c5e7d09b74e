"""Connectionist temporal classification of scores, softmax included."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, minimum, prod

from ..activation.softmax import log_softmax_operations
from .losses import reduction_operations


def _state_visits(layer: Layer) -> tuple[Dim, Dim]:
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
    x, (visits, samples) = layer["x"], _state_visits(layer)
    operations = log_softmax_operations(x.size, x.shape[0] * samples) + Operations(add=3, special=4) * visits
    operations += Operations(add=2, special=3) * samples + reduction_operations(layer, samples)
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
    visits, _ = _state_visits(layer)
    operations = Operations(add=6, special=5) * visits + Operations(add=1, mul=1, special=1) * layer["x"].size
    operations += Operations(div=1 if layer.attrs.get("reduction", "mean") == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_ctc_loss_backward(layer: Layer) -> Cost:
    """Gradient of CTC for log-probabilities x: exp(x) - p, times dy, p the posterior of the classes at every step.

    The backward recursion costs what the forward one does, 3 add and 4 special for every visit of a state (2 L + 1
    states a sample, at every step); the posterior of a visit is exp(forward + backward - total), 2 add and 1 special,
    and is added to its class, 1 add. Then for every element of x its exp, a subtraction and a product. What the forward
    pass computed is there already, and read. Lengths that depend on data are taken as the largest possible.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: dy[N], x[T, N, C], target[N, L] -> dx[T, N, C]
    """
    x = layer["x"]
    visits = x.shape[0] * (2 * layer["target"].size + prod(x.shape[1:-1]))
    operations = Operations(add=6, special=5) * visits + Operations(add=1, mul=1, special=1) * x.size
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_ctc_loss(layer: Layer) -> Cost:
    """Connectionist temporal classification, the forward recursion in logarithms over all steps.

    A target of L labels has 2 L + 1 states; every state of every step joins three others, log(exp + exp + exp), and
    adds its log-probability: 4 special, 3 add. The loss of a sample joins two states and negates: 3 special, 2 add.
    Lengths that depend on data are taken as the largest possible. Reads x once, or one element per state and step where
    that is less.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: x[T, N, C], target[N, L] -> y[]
    Settings: reduction="mean"
    """
    x = layer["x"]
    samples = prod(x.shape[1:-1])
    visits = x.shape[0] * (2 * layer["target"].size + samples)
    operations = Operations(add=3, special=4) * visits + Operations(add=2, special=3) * samples
    read = layer.read - x.nbytes + x.bytes_of(minimum(visits, x.size))
    return Cost(operations + reduction_operations(layer, samples), read, layer.written, layer.attrs)
