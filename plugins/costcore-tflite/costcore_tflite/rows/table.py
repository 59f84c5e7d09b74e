"""All mapping rules of this frontend."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Row

from .. import custom
from . import elements, movement, products, windows

ROWS: tuple[Row, ...] = (*windows.ROWS, *products.ROWS, *elements.ROWS, *movement.ROWS, *custom.ROWS)

SIGNATURES: Mapping[str, tuple[int | None, ...]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), (4, 4)),
    "CONV_3D": (5, 5),
    "CONV_3D_TRANSPOSE": (None, 5, 5),
    "TRANSPOSE_CONV": (None, 4, 4),
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "MAX_POOL_2D"), (4,)),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), (4,)),
    "FULLY_CONNECTED": (None, 2),
    "SVDF": (2, 2, 2),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), (None, 2, 2)),
    **dict.fromkeys(("BATCH_MATMUL", "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND"), (None, None)),
    **dict.fromkeys(("SPLIT", "PRELU"), (None, None)),
    **dict.fromkeys(("DILATE", "STABLEHLO_DOT_GENERAL", "STABLEHLO_GATHER"), (None, None)),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (3,),
    "BIDIRECTIONAL_SEQUENCE_RNN": (3, 2, 2, 1, None, 2, 2, 1),
    "REDUCE_WINDOW": (None, None, None),
    **dict.fromkeys(("STABLEHLO_COMPARE", "STABLEHLO_CONVOLUTION"), (None, None)),
    **dict.fromkeys(("ASSIGN_VARIABLE", "MATRIX_SET_DIAG", "REVERSE_SEQUENCE", "SCATTER_ND"), (None, None)),
    **dict.fromkeys(("STABLEHLO_DYNAMIC_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE"), (None, None)),
    **dict.fromkeys(("SELECT", "SELECT_V2", "SPARSE_TO_DENSE", "STABLEHLO_CLAMP", "STABLEHLO_SCATTER"), (None,) * 3),
    **dict.fromkeys(("FILL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "RANGE", "STABLEHLO_IOTA", "VAR_HANDLE"), ()),
    "STABLEHLO_RNG_BIT_GENERATOR": (),
    **custom.SIGNATURES,
}
"""The operands that an operator needs at least: the number of axes of each, None for any. All others need one."""

LEARNED_BY = frozenset(("ADD", "SUB", "MUL", "DIV", "GATHER", "BATCH_MATMUL", "EMBEDDING_LOOKUP"))
"""Operators whose constants of several real numbers are learned parameters, as those of layers are by their place."""

WITHOUT_RESULT = frozenset(("ASSIGN_VARIABLE", "CALL_ONCE", "HASHTABLE_IMPORT"))
"""Operators that need not have a result."""

WALKED = frozenset(("CALL", "CALL_ONCE", "DENSIFY", "IF", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "WHILE"))
"""Operators that are followed into their graphs, or unpacked before the first pass."""

NOT_PRICED = {
    "CONCAT_EMBEDDINGS": "no kernel in the runtime",
    "CUSTOM": "each custom operator has a name of its own",
    "DELEGATE": "what a delegate runs is not in the file",
    "EMBEDDING_LOOKUP_SPARSE": "the work depends on data",
    "HASHTABLE": "tables of strings",
    "HASHTABLE_FIND": "tables of strings",
    "HASHTABLE_IMPORT": "tables of strings",
    "HASHTABLE_LOOKUP": "the work depends on data",
    "HASHTABLE_SIZE": "tables of strings",
    "LSH_PROJECTION": "the work depends on data",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "no operator",
    "SKIP_GRAM": "text",
    "STABLEHLO_CUSTOM_CALL": "each custom operator has a name of its own",
}
"""Builtin operators without a formula, and why. Their calls are named with their shapes, never counted as zero."""
