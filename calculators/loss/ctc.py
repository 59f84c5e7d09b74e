"""Connectionist temporal classification (CTC) and its gradients.

A target of L labels has 2 L + 1 states; all of them are visited at every step. Lengths that depend on data are assumed
to be the largest possible.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, minimum, pattern, prod

from ..activation.softmax import log_softmax_operations
from .losses import reduction_operations


@pattern("opaque")
def calc_ctc_loss(layer: Layer) -> Cost:
    """CTC loss of log-probabilities: the forward recursion in logarithms over all steps.

    * Per visit of a state: it joins three states, log(exp + exp + exp), and adds its log-probability, 4 special and 3
      add.
    * Per sample: the loss joins two states and is negated, 3 special and 2 add.

    x is read once, or one element per state and step if that is less.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: x[T, N, C], target[N, L] -> y[]
    Settings: reduction="mean"
    """
    x = layer["x"]
    samples = prod(x.shape[1:-1])
    visits = x.shape[0] * (2 * layer["target"].size + samples)
    operations = Operations(add=3, special=4) * visits + Operations(add=2, special=3) * samples
    read = layer.read - x.nbytes + x.bytes_of_part(minimum(visits, x.size))
    return Cost(operations + reduction_operations(layer, samples), read, layer.written, layer.attrs)


@pattern("opaque")
def calc_ctc_loss_backward(layer: Layer) -> Cost:
    """Gradient of CTC for log-probabilities x: exp(x) - p, times dy, with the posterior p of the classes.

    * The backward recursion, as the forward one: 3 add and 4 special per visit of a state.
    * The posterior of a visit, exp(forward + backward - total): 2 add and 1 special; added to its class, 1 add.
    * Per element of x: its exp, a subtraction and a product.

    Results of the forward pass are given, and read.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: dy[N], x[T, N, C], target[N, L] -> dx[T, N, C]
    """
    x = layer["x"]
    visits = x.shape[0] * (2 * layer["target"].size + prod(x.shape[1:-1]))
    operations = Operations(add=6, special=5) * visits + Operations(add=1, mul=1, special=1) * x.size
    return Cost(operations, layer.read, layer.written, layer.attrs)


def _state_visits(layer: Layer) -> tuple[Dim, Dim]:
    """Return the visits of states, 2 L + 1 of every sample at every step, and the number of samples."""
    steps, samples, _ = layer["x"].shape
    return steps * (2 * layer["target"].size + samples), samples


@pattern("opaque")
def calc_ctc_loss_with_logits(layer: Layer) -> Cost:
    """CTC loss of logits: the log_softmax of every step, then the forward recursion as in ``ctc_loss``.

    * Per step and sample of C logits: C exp, 2C - 1 add, 1 log.
    * Per visit of a state: 3 add and 4 special.
    * Per sample: 2 add and 3 special.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: x[T, N, C], target[N, L] -> y[]
    Settings: reduction="mean"
    """
    x, (visits, samples) = layer["x"], _state_visits(layer)
    operations = log_softmax_operations(x.size, x.shape[0] * samples) + Operations(add=3, special=4) * visits
    operations += Operations(add=2, special=3) * samples + reduction_operations(layer, samples)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_ctc_loss_with_logits_backward(layer: Layer) -> Cost:
    """Gradient of CTC for the logits, (softmax(x) - p) dy, with the posterior p of the classes per step.

    * The backward recursion, as the forward one: 3 add and 4 special per visit of a state.
    * The posterior of a visit, exp(forward + backward - total): 2 add and 1 special; added to its class, 1 add.
    * Per logit: exp of its log-probability, a subtraction, and a product with dy. If ``reduction`` is "mean", dy is
      divided by N first (1 div).

    Log-probabilities and the recursion of the forward pass are given.

    Shapes: dy[], x[T, N, C], target[N, L] -> dx[T, N, C]
    Settings: reduction="mean"
    """
    visits, _ = _state_visits(layer)
    operations = Operations(add=6, special=5) * visits + Operations(add=1, mul=1, special=1) * layer["x"].size
    operations += Operations(div=1 if layer.attrs.get("reduction", "mean") == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)
