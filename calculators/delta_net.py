"""Gated delta networks as inference engines run them: the recurrence with what is fused before it."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, Tensor

from .activation import ACTIVATIONS
from .state_space import calc_linear_attention

SOFTPLUS = Operations(add=1, special=2)
SIGMOID = ACTIVATIONS["sigmoid"].operations


def calc_gated_delta_net(layer: Layer) -> Cost:
    """Linear attention of joined sequences, whose queries, keys, decays and update rates may be raw.

    The recurrence is ``linear_attention`` by its ``rule``, with one state of D x D_v for each of the H_v value heads;
    ``heads`` are H_k and H_v, ``features`` D and D_v. Queries and keys, which are shared by H_v / H_k value heads, are
    read once; with no k and v, q holds all three. With ``normalize`` every query and key is brought to length 1, as
    ``l2_normalize``. With ``decay_bias`` the decay is -exp(``decay_rate``) softplus(decay + ``decay_bias``): per
    element 2 add, 2 special, 1 mul, and per head 1 special and 1 add. With ``squash`` the update rate is a sigmoid.

    Source: Yang, Kautz and Hatamizadeh, Gated Delta Networks, arXiv:2412.06464.

    Shapes: q[T, H_k, D], k[T, H_k, D], v[T, H_v, D_v], decay[T, H_v]?, beta[T, H_v]?, state[N, H_v, D_v, D]?
        -> y[T, H_v, D_v], new_state[N, H_v, D_v, D]
    Settings: heads=(H_k, H_v), features=(D, D_v), rule="linear"
    """
    (shared, heads), (width, outputs) = layer.attrs["heads"], layer.attrs["features"]
    steps = layer.out.size // (heads * outputs)
    core = {"q": Tensor((1, heads, steps, width)), "k": Tensor((1, heads, steps, width))}
    core["v"] = Tensor((1, heads, steps, outputs))
    core.update({name: layer[name] for name in ("decay", "beta") if name in layer})
    plain = calc_linear_attention(Layer("linear_attention", core, layer.outputs, {"rule": layer.attrs["rule"]}))
    assert isinstance(plain.flops, Operations)
    operations = plain.flops
    if layer.attrs.get("normalize"):
        operations += _unit_length(2 * steps * shared, width)
    if "decay_bias" in layer:
        operations += layer["decay"].size * (SOFTPLUS + Operations(add=1, mul=1)) + heads * Operations(add=1, special=1)
    if layer.attrs.get("squash"):
        operations += layer["beta"].size * SIGMOID
    return Cost(operations, layer.read, layer.written, layer.attrs, plain.macs)


def _unit_length(count: Dim, width: Dim) -> Operations:
    """``count`` rows of ``width`` elements divided by their lengths, as ``l2_normalize``."""
    return count * Operations(fma=width - 1, mul=1, add=1, div=width, special=1)


def calc_decay_gate(layer: Layer) -> Cost:
    """Decay and update rate of a gated delta rule: softplus(x + b) times ``rate``, and the sigmoid of ``beta``.

    Per element of x 2 add, 2 special, 1 mul; per element of ``beta``, where it is given, 2 add, 1 div, 1 special.

    Shapes: x[N, T, H], b[H], rate[H], beta[N, T, H]? -> decay[N, T, H], update[N, T, H]
    """
    operations = layer["x"].size * (SOFTPLUS + Operations(add=1, mul=1))
    if "beta" in layer:
        operations += layer["beta"].size * SIGMOID
    return Cost(operations, layer.read, layer.written, layer.attrs)
