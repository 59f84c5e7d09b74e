"""What transformers 4 computes otherwise than transformers 5: found by looking, never by the number of a release."""

from __future__ import annotations

from inspect import getsource

import pytest
import torch
from transformers.models.bert.modeling_bert import BertModel
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.mixtral import modeling_mixtral

ANGLES_ARE_PRODUCTS = " @ " in getsource(LlamaRotaryEmbedding.forward)
"""Whether positions and frequencies are multiplied as matrices, which have MACs, and not element by element."""

HAS_JOINED_EXPERTS = hasattr(modeling_mixtral, "MixtralExperts")
"""Whether the matrices of all experts are one parameter, which several spellings multiply."""

CACHES_LATENTS = "update(key_states" not in getsource(DeepseekV3Attention.forward)
"""Whether attention over latent vectors keeps these and expands all in every step, and not the expanded keys."""

MASKS_NOTHING = hasattr(torch.compiler, "is_exporting")
"""Whether an export makes a mask of which a run finds that it masks nothing, as it can ask whether it is an export."""

LOOKS_FOR_PADDING = "warn_if_padding_and_no_attention_mask" in getsource(BertModel.forward)
"""Whether encoders look at tokens to warn of padding without a mask: a branch over data, which is assumed."""

NEEDS_JOINED_EXPERTS = pytest.mark.skipif(
    not HAS_JOINED_EXPERTS,
    reason="experts of this transformers are modules in a loop, whose bytes are those of routing that is balanced",
)


def angles(model: torch.nn.Module, tokens: int = 1) -> int:
    """MACs of the angles of a rotary embedding, which are the same for all sequences and layers."""
    frequencies = sum(module.inv_freq.numel() for module in model.modules() if hasattr(module, "inv_freq"))
    return tokens * frequencies if ANGLES_ARE_PRODUCTS else 0
