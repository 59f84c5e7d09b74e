"""Signatures of operators that ONNX Runtime adds to the standard: the names of their inputs, in order.

Source: microsoft/onnxruntime, docs/ContribOperators.md (1.31), and its schemas of the nchwc domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from costcore.translate import Row

MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"

CURRENT = 99
"""The version they read as, where they are like operators of the standard: like the newest of those."""

INPUTS: Mapping[str, str] = {
    "Attention": "input weights bias mask_index past attention_bias past_sequence_length",
    "MultiHeadAttention": "query key value bias key_padding_mask attention_bias past_key past_value "
    "past_sequence_length cache_indirection",
    "GroupQueryAttention": "query key value past_key past_value seqlens_k total_sequence_length cos_cache sin_cache "
    "position_ids attention_bias head_sink k_scale v_scale q_norm_weight k_norm_weight",
    "PagedAttention": "query key value key_cache value_cache cumulative_sequence_length past_seqlens block_table "
    "cos_cache sin_cache slot_mapping head_sink q_norm_weight k_norm_weight k_scale v_scale attention_metadata",
    "SparseAttention": "query key value past_key past_value block_row_indices block_col_indices total_sequence_length "
    "key_total_sequence_lengths cos_cache sin_cache",
    "PackedAttention": "input weights bias token_offset cumulative_sequence_length attention_bias",
    "PackedMultiHeadAttention": "query key value bias token_offset cumulative_sequence_length attention_bias",
    "DecoderMaskedMultiHeadAttention": "query key value mask_index attention_bias past_key past_value "
    "past_sequence_length beam_width cache_indirection bias",
    "DecoderMaskedSelfAttention": "input weights bias mask_index past attention_bias past_sequence_length beam_width "
    "cache_indirection",
    "QAttention": "input weight bias input_scale weight_scale mask_index input_zero_point weight_zero_point past",
    "QOrderedAttention": "input scale_input scale_Q_gemm scale_K_gemm scale_V_gemm Q_weight K_weight V_weight "
    "scale_Q_weight scale_K_weight scale_V_weight Q_bias K_bias V_bias scale_QKT_gemm scale_QKT_softmax "
    "scale_values_gemm mask_index past attention_bias",
    "LinearAttention": "query key value past_state decay beta",
    "GatedDeltaNet": "query key value cu_seqlens decay beta initial_state a_log dt_bias capture_count "
    "state_update_active",
    "CausalConvWithState": "input weight bias past_state",
    "RotaryEmbedding": "input position_ids cos_cache sin_cache",
    "GemmaRotaryEmbedding": "emb q q_rot k k_rot",
    "MRotaryEmbedding": "input position_ids cos_cache sin_cache",
    "MatMulNBits": "A B scales zero_points g_idx bias",
    "MatMulBnb4": "A B absmax",
    "MatMulFpQ4": "A B B_shape",
    "MatMulBlockQuantizedFp4Weight": "A B weight_scale weight_scale_2 input_scale bias",
    "MatMulBlockQuantizedFp8Weight": "A B b_scale a_scale bias",
    "GemmFloat8": "A B C scaleA scaleB scaleY",
    "GatherBlockQuantized": "data indices scales zero_points",
    "FusedMatMul": "A B",
    "FusedMatMulActivation": "A B",
    "TransposeMatMul": "A B",
    "GemmFastGelu": "X W bias",
    "FusedGemm": "A B C",
    "FusedConv": "X W B Z",
    "NhwcConv": "X W B",
    "NhwcFusedConv": "X W B Z",
    "NhwcMaxPool": "x",
    "QLinearConv": "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
    "QLinearAdd": "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point",
    "QLinearMul": "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point",
    "QLinearLeakyRelu": "X X_scale X_zero_point Y_scale Y_zero_point",
    "QLinearSigmoid": "X X_scale X_zero_point Y_scale Y_zero_point",
    "QLinearSoftmax": "X X_scale x_zero_point y_scale y_zero_point",
    "QLinearConcat": "Y_scale Y_zero_point *inputs",
    "QLinearAveragePool": "X x_scale x_zero_point y_scale y_zero_point",
    "QLinearGlobalAveragePool": "X x_scale x_zero_point y_scale y_zero_point",
    "QLinearReduceMean": "data data_scale data_zero_point reduced_scale reduced_zero_point",
    "QLinearWhere": "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point",
    "QGemm": "A a_scale a_zero_point B b_scale b_zero_point C y_scale y_zero_point",
    "MatMulIntegerToFloat": "A B a_scale b_scale a_zero_point b_zero_point bias",
    "DynamicQuantizeMatMul": "A B b_scale b_zero_point bias",
    "MatMulInteger16": "A B",
    "ReduceSumInteger": "data",
    "QuantizeLinear": "x y_scale y_zero_point",
    "DequantizeLinear": "x x_scale x_zero_point",
    "SkipLayerNormalization": "input skip gamma beta bias",
    "SkipSimplifiedLayerNormalization": "input skip gamma bias",
    "EmbedLayerNormalization": "input_ids segment_ids word_embedding position_embedding segment_embedding gamma beta "
    "mask position_ids",
    "SkipGroupNorm": "X gamma beta skip bias",
    "GroupNorm": "X gamma beta",
    "GatedRMSNorm": "X scale gate",
    "BiasGelu": "A B",
    "FastGelu": "X bias",
    "QuickGelu": "X",
    "Gelu": "X",
    "BiasSplitGelu": "X bias",
    "BiasAdd": "X bias skip",
    "BiasSoftmax": "data bias",
    "BiasDropout": "data bias residual ratio training_mode",
    "MoE": "input router_probs fc1_experts_weights fc1_experts_bias fc2_experts_weights fc2_experts_bias "
    "fc3_experts_weights fc3_experts_bias",
    "QMoE": "input router_probs fc1_experts_weights fc1_scales fc1_experts_bias fc2_experts_weights fc2_scales "
    "fc2_experts_bias fc3_experts_weights fc3_scales fc3_experts_bias fc1_zero_points fc2_zero_points fc3_zero_points "
    "router_weights fc1_global_scale fc2_global_scale fc1_act_scale fc2_act_scale fc1_act_block_scale "
    "fc2_act_block_scale",
    "Inverse": "X",
    "GatherND": "data indices",
    "GridSample": "X Grid",
    "Pad": "data pads value",
    "Range": "start limit delta",
    "Trilu": "X k",
    "TorchEmbedding": "weight indices padding_idx scale_grad_by_freq",
}
"""Inputs of com.microsoft operators; ``*`` marks the variadic one."""

NCHWC_INPUTS: Mapping[str, str] = {
    "Conv": "X W B Sum",
    "MaxPool": "X",
    "GlobalMaxPool": "X",
    "AveragePool": "X",
    "GlobalAveragePool": "X",
    "ReorderInput": "X",
    "ReorderOutput": "X",
    "Upsample": "X",
}

STANDARD_INPUTS: Mapping[str, str] = {
    "SimplifiedLayerNormalization": "X scale B",
}
"""Operators that ONNX Runtime puts into the default domain."""

CONTRIB: Mapping[str, str] = {
    **{f"{MICROSOFT}::{op}": names for op, names in INPUTS.items()},
    **{f"{NCHWC}::{op}": names for op, names in NCHWC_INPUTS.items()},
    **{f"ai.onnx::{op}": names for op, names in STANDARD_INPUTS.items()},
}


def with_own_inputs(row: Row) -> Row:
    """A row that several operators share, with those operands only that its operator has."""
    names = {name for name, _ in inputs_of(row.native)}
    operands = {k: v for k, v in row.inputs.items() if not isinstance(v, str) or v in names}
    return replace(row, inputs=operands)


def inputs_of(key: str) -> tuple[tuple[str, bool], ...]:
    """Names of the inputs of an operator by its full name, each with whether it is variadic; () where not known."""
    return tuple((name.removeprefix("*"), name.startswith("*")) for name in CONTRIB.get(key, "").split())
