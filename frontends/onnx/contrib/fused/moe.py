"""Mixtures of experts that ONNX Runtime adds."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments

from ...graph.node import Inferred, Node
from ...rows.arguments import node_of
from ...schema.constraints import Constraints
from ...values.value import Value
from ..quantization.packed import PackedWeights, packed, packed_weight, width
from ..spec import OperatorSpec, row


def experts(node: Node) -> Inferred:
    """Infer an output like the input; packed weights are unpacked."""
    x = node.value("input")
    return Inferred([node.result(x.known_shape, x.dtype)], PackedWeights(tuple(_layer(node, i) for i in (1, 2, 3))))


def _layer(node: Node, i: int) -> Value | None:
    """Return the weights of one layer of all experts; None if there is no such layer."""
    name = f"fc{i}_experts_weights"
    w: Value | None = node.get(name)
    if w is None:
        return None
    bits = width(node, f"fc{i}_expert_weight_bits", "expert_weight_bits")
    if node.op == "QMoE" and w.dtype == "uint8" and bits < 8:
        return packed(node, name, (*w.known_shape[:-1], w.known_shape[-1] * (8 // bits)), f"uint{bits}")
    return w


ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "swiglu", "identity": "none"}


def _expert_zero_point(a: Arguments) -> Any:
    """Return the zero point of integer experts that have none of their own; None for others."""
    if a.get("quant_type", "int") != "int" or a.get("fc1_zero_points") is not None:
        return None
    return 1 << (width(node_of(a), "fc1_expert_weight_bits", "expert_weight_bits") - 1)


def _expert_activation(a: Arguments) -> str:
    """Return the canonical name of the activation."""
    return ACTIVATIONS.get(str(a.get("activation_type", "relu")), "relu")


EXPERTS = {
    "x": "input",
    "router": "router_probs",
    **{f"w{i}": packed_weight(i) for i in range(3)},
    **{f"b{i}": f"fc{j}_experts_bias" for i, j in enumerate((1, 2, 3))},
}


SCALES = {
    **{f"w{i}_scale": f"fc{j}_scales" for i, j in enumerate((1, 2, 3))},
    **{f"w{i}_zero_point": f"fc{j}_zero_points" for i, j in enumerate((1, 2, 3))},
}


ROUTING = {
    "k": lambda a: a.get("k") or 1,
    "normalize": lambda a: bool(a.get("normalize_routing_weights")) or None,
    "activation": _expert_activation,
}


EXPERT_RANKS = {"input": (2, 3), "router_probs": (2, 2), "fc1_experts_weights": (3, 3), "fc2_experts_weights": (3, 3)}


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "MoE",
        "input router_probs fc1_experts_weights fc1_experts_bias fc2_experts_weights "
        "fc2_experts_bias fc3_experts_weights fc3_experts_bias",
        required=3,
        attributes="k",
        constraints=Constraints(ranks=EXPERT_RANKS),
        infer=experts,
        rows=[row("moe", EXPERTS, ROUTING)],
    ),
    OperatorSpec(
        "QMoE",
        "input router_probs fc1_experts_weights fc1_scales fc1_experts_bias fc2_experts_weights "
        "fc2_scales fc2_experts_bias fc3_experts_weights fc3_scales fc3_experts_bias "
        "fc1_zero_points fc2_zero_points fc3_zero_points router_weights fc1_global_scale "
        "fc2_global_scale fc1_act_scale fc2_act_scale fc1_act_block_scale fc2_act_block_scale",
        required=3,
        attributes="k expert_weight_bits block_size",
        constraints=Constraints(minimums={"expert_weight_bits": 1, "block_size": 0}, ranks=EXPERT_RANKS),
        infer=experts,
        rows=[row("moe", {**EXPERTS, **SCALES}, {**ROUTING, "zero_point": _expert_zero_point})],
    ),
)
