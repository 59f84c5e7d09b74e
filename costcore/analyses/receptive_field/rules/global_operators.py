"""Operators every output of which depends on all positions: recurrent layers and Fourier transforms."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.analyses.receptive_field.dependence import Dependence
from costcore.analyses.receptive_field.site import Rule, Site


def combined(site: Site) -> list[Dependence | None]:
    """Return the dependence of outputs that combine all elements of all operands."""
    tensors = site.layer.inputs
    parts = [site.contract(dependence, range(tensors[name].ndim)) for name, dependence in site.operands.items()]
    return site.all_outputs(site.unite(parts))


RULES: Mapping[str, Rule] = dict.fromkeys(
    ("lstm", "gru", "rnn", "dynamic_quantized_lstm", "attention_lstm", "fft", "real_fft", "inverse_real_fft"), combined
)
