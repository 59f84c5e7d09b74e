"""Rows of the audit that the code does not meet yet, each with the rule that it breaks."""

from __future__ import annotations

EXPANDED = "an expanded view is read as what it is a view of"
COMPLEX = "a complex operation counts the real ones of its definition"
SAVED = "what the backward reads from its forward, the forward writes"
SELECTION = "top-k, k-th value and median cost n·⌈log2(k + 1)⌉"
GRU = "GRU has one accumulator per gate; reset after keeps only the candidate's parts apart: 6 add"
DOCUMENTED = "the framework's documented formula is the definition"
PRODUCT = "the products of a sum of products accumulate: fma"
KERNEL = "an operator with a kernel is counted whole"
ADDED = "a product that the definition adds to an operand is an fma"
ASKED = "indices and masks that nobody asked for and no backward reads are not written"
OUTPUT = "batch and rank of attention follow the output"
PART = "an operator that needs only part of an input reads that part"

DISAGREEMENTS: dict[str, str] = {
    "softplus-beta": "constants are folded: 1/β is multiplied",
    "logsigmoid": DOCUMENTED,
    "silu-backward": KERNEL,
    "log_softmax-backward": ADDED,
    "add-expanded": EXPANDED,
    "mul-expanded-both": EXPANDED,
    "relu-expanded": EXPANDED,
    "add-expanded-unsqueezed": EXPANDED,
    "matmul-expanded": EXPANDED,
    "attention-expanded": EXPANDED,
    "rms_norm-backward": EXPANDED,
    "complex-add": COMPLEX,
    "complex-mul": COMPLEX,
    "complex-square": COMPLEX,
    "complex-mul-real": COMPLEX,
    "complex-neg": COMPLEX,
    "complex-div": COMPLEX,
    "complex-abs": COMPLEX,
    "complex-exp": COMPLEX,
    "complex-rotation": COMPLEX,
    "complex-sum": COMPLEX,
    "complex-matmul": COMPLEX,
    "batch_norm-training-with-gradient": SAVED,
    "layer_norm-with-gradient": SAVED,
    "group_norm-with-gradient": SAVED,
    "attention-with-gradient": SAVED,
    "max_pool2d-with-gradient": SAVED,
    "adaptive_max_pool2d": ASKED,
    "binary_cross_entropy_with_logits": DOCUMENTED,
    "kl_div": PRODUCT,
    "kl_div-log_target": PRODUCT,
    "topk-2": SELECTION,
    "topk-1": SELECTION,
    "kthvalue": SELECTION,
    "median-rows": SELECTION,
    "median-all": SELECTION,
    "gru": GRU,
    "gru-no-bias": GRU,
    "gru_cell": GRU,
    "attention-larger-batch-of-keys": OUTPUT,
    "mish-backward": KERNEL,
    "div-floor": "rounding is 1 cmp",
    "complex-pow-2": COMPLEX,
    "complex-mul-scalar": COMPLEX,
    "complex-mean": COMPLEX,
    "complex-prod": COMPLEX,
    "complex-outer": COMPLEX,
    "complex-linear": COMPLEX,
    "complex-einsum": COMPLEX,
    "complex-conv1d": COMPLEX,
    "conv2d-expanded-input": EXPANDED,
    "linear-expanded": EXPANDED,
    "addmm-beta-0": "an operand that the definition ignores is neither read nor added",
    "mean-backward": EXPANDED,
    "topk-first-axis": SELECTION,
    "gru-bidirectional": GRU,
    "attention-expanded-mask": EXPANDED,
    "attention-keys-of-larger-rank": OUTPUT,
    "sum-expanded": EXPANDED,
    "normalize": EXPANDED,
    "cosine_similarity": DOCUMENTED,
    "index_add-alpha": ADDED,
    "contiguous-expanded": EXPANDED,
    "cat-expanded": EXPANDED,
    "repeat_interleave": EXPANDED,
    "pad-crop": PART,
    "tril": PART,
    "cholesky": PART,
    "solve_triangular": PART,
    "adamw-foreach": ADDED,
    "dropout-training-with-gradient": SAVED,
    "fake_quantize": ASKED,
    "fake_quantize-per-channel": ASKED,
    "onnx-TopK": SELECTION,
    "onnx-Trilu": PART,
    "onnx-GRU": GRU,
    "onnx-GRU-no-bias": GRU,
    "onnx-GRU-reset-after": GRU,
}
