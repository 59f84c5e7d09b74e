"""Signatures of operators that ONNX Runtime adds to the standard: the names of their inputs, in order.

Source: microsoft/onnxruntime, docs/ContribOperators.md (1.31), and its schemas of the nchwc and nhwc domains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from costcore.translate import Row

MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"
NHWC = "com.ms.internal.nhwc"

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
    "AttnLSTM": "X W R B sequence_lens initial_h initial_c P QW MW V M memory_seq_lens AW",
    "BeamSearch": "input_ids max_length min_length num_beams num_return_sequences length_penalty repetition_penalty "
    "vocab_mask prefix_vocab_mask attention_mask decoder_input_ids logits_processor",
    "BifurcationDetector": "src_tokens cur_tokens prev_suffix_match_idx pred_tokens",
    "BitmaskBiasDropout": "data bias residual ratio training_mode",
    "BitmaskDropout": "data ratio training_mode",
    "BranchwiseRMSNorm": "X scale",
    "CDist": "A B",
    "ComplexMul": "A B",
    "ComplexMulConj": "A B",
    "ConvTransposeWithDynamicPads": "X W Pads B",
    "CropAndResize": "X rois batch_indices crop_size",
    "DecoderAttention": "query key q_weight kv_weight bias key_padding_mask key_cache value_cache static_kv use_past "
    "has_layer_state has_key_padding_mask",
    "DequantizeBFP": "x shape strides",
    "DequantizeWithOrder": "input scale_input",
    "DynamicQuantizeLSTM": "X W R B sequence_lens initial_h initial_c P W_scale W_zero_point R_scale R_zero_point",
    "DynamicSparseAttention": "query key value past_key past_value auxiliary_key auxiliary_value selected_indices "
    "selected_counts seqlens_k total_sequence_length cos_cache sin_cache position_ids q_norm_weight k_norm_weight "
    "head_sink",
    "DynamicTimeWarping": "input",
    "EngramGate": "key query value key_norm_scale query_norm_scale conv_norm_scale",
    "ExpandDims": "X axis",
    "GatedAdd": "X Y gate",
    "GatedRelativePositionBias": "query_layer query_bias rel_pos weight bias eco_a token_offset",
    "GreedySearch": "input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask",
    "HyperConnectionPostMix": "streams block_output post_mix stream_mix",
    "HyperConnectionPreMix": "streams pre_mix",
    "Irfft": "X",
    "IsAllFinite": "*input",
    "LinearAttentionGate": "a dt_bias decay_scale b",
    "LongformerAttention": "input weight bias mask global_weight global_bias global",
    "MatMulNBitsMlp": "A skip norm_scale gate_B gate_scales gate_bias up_B up_scales up_bias",
    "MatMulNBitsQkv": "A skip norm_scale q_B q_scales q_bias k_B k_scales k_bias v_B v_scales v_bias",
    "MaxpoolWithMask": "X M",
    "MulInteger": "A A_zero_point B B_zero_point",
    "MurmurHash3": "X",
    "NGramHashMapping": "input_ids multipliers vocab_sizes past_ids head_offsets eos_token_id segment_ids",
    "NGramRepeatBlock": "input_ids scores",
    "PackedSparseAttentionIndexer": "query key query_norm_weight key_norm_weight cos_cache sin_cache "
    "cumulative_sequence_lengths past_sequence_lengths gate position_bias head_weights position_ids past_key_state "
    "past_kv_buffer past_gate_buffer past_state_lengths state_update_capture_count state_update_active",
    "QEmbedLayerNormalization": "input_ids segment_ids word_embedding_quant position_embedding_quant "
    "segment_embedding gamma_quant beta_quant mask word_embedding_scale position_embedding_scale "
    "segment_embedding_scale gamma_scale beta_scale word_embedding_zero_point position_embedding_zero_point "
    "segment_embedding_zero_point gamma_zero_point beta_zero_point",
    "QOrderedGelu": "X scale_X scale_Y",
    "QOrderedLayerNormalization": "X scale_X scale B scale_Y",
    "QOrderedLongformerAttention": "input scale_input weight scale_weight bias scale_bias scale_qkv_gemm mask "
    "global_weight scale_global_weight global_bias scale_global_gemm global scale_output",
    "QOrderedMatMul": "A scale_A B scale_B scale_Y bias C scale_C",
    "QuantizeBFP": "x",
    "QuantizeWithOrder": "input scale_input",
    "RelativePositionBias": "bias_table query_length key_length",
    "RemovePadding": "input sequence_token_count",
    "RestorePadding": "input token_offset",
    "Rfft": "X",
    "SampleOp": "X",
    "Sampling": "input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask "
    "presence_mask seed",
    "ScaledSiLU": "X scale",
    "SparseAttentionIndexer": "query key query_norm_weight key_norm_weight cos_cache sin_cache mask past_key gate "
    "position_bias head_weights position_ids past_sequence_length past_proj_buffer",
    "SparsePagedAttention": "query key value key_cache value_cache cumulative_sequence_length past_seqlens "
    "block_table slot_mapping selected_indices selected_counts auxiliary_key auxiliary_value auxiliary_lengths "
    "cos_cache sin_cache head_sink q_norm_weight k_norm_weight k_scale v_scale attention_metadata",
    "SparseToDenseMatMul": "A B",
    "Tokenizer": "X",
    "UnfoldTensor": "input",
    "Unique": "x",
    "VarlenCausalConvWithState": "input weight cumulative_sequence_length bias initial_state capture_count",
    "VarlenNGramHashMapping": "input_ids multipliers vocab_sizes cumulative_sequence_length past_ids head_offsets "
    "eos_token_id segment_ids past_segment_ids capture_count",
    "WhisperBeamSearch": "input_ids max_length min_length num_beams num_return_sequences length_penalty "
    "repetition_penalty vocab_mask prefix_vocab_mask attention_mask decoder_input_ids logits_processor "
    "cross_qk_layer_head extra_decoding_ids temperature",
    "WordConvEmbedding": "Sequence W B C",
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
    "Affine": "X",
    "Crop": "input",
    "ImageScaler": "input",
    "DynamicSlice": "data starts ends axes",
    "ParametricSoftplus": "X",
    "Scale": "input",
    "ScaledTanh": "input",
    **dict.fromkeys(("MemcpyFromHost", "MemcpyToHost"), "X"),
}
"""Operators that ONNX Runtime puts into the default domain, among them those that onnx itself has given up."""

NHWC_INPUTS: Mapping[str, str] = {
    "Conv": "X W B",
    "ConvTranspose": "X W B",
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "LRN", "GlobalMaxPool", "GlobalAveragePool"), "X"),
    "GlobalLpPool": "X",
    "MaxUnpool": "X I output_shape",
    "BatchNormalization": "X scale B input_mean input_var",
    "InstanceNormalization": "input scale B",
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), "input"),
    "GridSample": "X grid",
    "Resize": "X roi scales sizes",
    "QLinearConv": "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
    "QLinearConvTranspose": "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
    "QLinearAveragePool": "X x_scale x_zero_point y_scale y_zero_point",
}
"""Inputs of the operators of the domain in which ONNX Runtime's layout transformer writes channels last."""

CONTRIB: Mapping[str, str] = {
    **{f"{MICROSOFT}::{op}": names for op, names in INPUTS.items()},
    **{f"{NCHWC}::{op}": names for op, names in NCHWC_INPUTS.items()},
    **{f"{NHWC}::{op}": names for op, names in NHWC_INPUTS.items()},
    **{f"ai.onnx::{op}": names for op, names in STANDARD_INPUTS.items()},
}


REQUIRED: Mapping[int, str] = {
    2: "Attention BeamSearch BiasDropout BiasGelu BiasSoftmax BiasSplitGelu BitmaskBiasDropout CDist "
    "CausalConvWithState ComplexMul ComplexMulConj ConvTransposeWithDynamicPads DequantizeLinear DequantizeWithOrder "
    "ExpandDims FusedConv FusedGemm FusedMatMul FusedMatMulActivation GatherND GemmFastGelu GemmFloat8 GreedySearch "
    "GridSample HyperConnectionPreMix MatMulInteger16 MaxpoolWithMask NGramRepeatBlock NhwcConv NhwcFusedConv Pad "
    "QLinearAdd QLinearAveragePool QLinearConcat QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid "
    "QLinearSoftmax QuantizeLinear QuantizeWithOrder Range RemovePadding RestorePadding Sampling SparseToDenseMatMul "
    "TorchEmbedding TransposeMatMul WhisperBeamSearch",
    3: "AttnLSTM BiasAdd BifurcationDetector DecoderMaskedSelfAttention DequantizeBFP DynamicQuantizeLSTM "
    "DynamicQuantizeMatMul GatedAdd GatedRMSNorm GatherBlockQuantized GroupNorm HyperConnectionPostMix "
    "LinearAttention LinearAttentionGate MatMulBlockQuantizedFp8Weight MatMulBnb4 MatMulFpQ4 MatMulNBits MoE "
    "NGramHashMapping QMoE QOrderedGelu QOrderedLayerNormalization RelativePositionBias SkipLayerNormalization "
    "SkipSimplifiedLayerNormalization VarlenCausalConvWithState",
    4: "CropAndResize MRotaryEmbedding MatMulBlockQuantizedFp4Weight MatMulIntegerToFloat RotaryEmbedding "
    "SkipGroupNorm VarlenNGramHashMapping WordConvEmbedding",
    5: "DecoderAttention EngramGate GemmaRotaryEmbedding PackedAttention QAttention QLinearGlobalAveragePool "
    "QOrderedMatMul",
    6: "GatedRelativePositionBias QGemm",
    7: "LongformerAttention",
    8: "QLinearConv",
    9: "QLinearWhere",
    14: "QOrderedAttention QOrderedLongformerAttention",
}
"""How many of the first inputs of a com.microsoft operator may not be left out, where it is more than one."""

NHWC_REQUIRED: Mapping[int, str] = {
    2: "Conv ConvTranspose GridSample MaxUnpool QLinearAveragePool",
    3: "InstanceNormalization",
    5: "BatchNormalization",
    8: "QLinearConv QLinearConvTranspose",
}
"""The same of operators with channels last."""

LEAST: Mapping[str, int] = {
    **{f"{MICROSOFT}::{op}": least for least, ops in REQUIRED.items() for op in ops.split()},
    **{f"{NHWC}::{op}": least for least, ops in NHWC_REQUIRED.items() for op in ops.split()},
    f"{NCHWC}::Conv": 2,
    "ai.onnx::SimplifiedLayerNormalization": 2,
    "ai.onnx::DynamicSlice": 3,
    f"{MICROSOFT}::IsAllFinite": 0,
}


def least_of(key: str) -> int:
    """How many of the first inputs of an operator, by its full name, may not be left out."""
    return LEAST.get(key, 1)


def with_own_inputs(row: Row) -> Row:
    """A row that several operators share, with those operands only that its operator has."""
    names = {name for name, _ in inputs_of(row.native)}
    operands = {k: v for k, v in row.inputs.items() if not isinstance(v, str) or v in names}
    return replace(row, inputs=operands)


def inputs_of(key: str) -> tuple[tuple[str, bool], ...]:
    """Names of the inputs of an operator by its full name, each with whether it is variadic; () where not known."""
    return tuple((name.removeprefix("*"), name.startswith("*")) for name in CONTRIB.get(key, "").split())
