"""What operators accept beyond the types in their schemas: which words, how small a number, what shapes.

Sources: the operators' documentation in the onnx package, all versions together, and microsoft/onnxruntime,
docs/ContribOperators.md. What a rule of shapes needs in order
to work, and checks itself, is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from costcore.dims import is_symbolic

from ..values.value import Shape, Value

ANY = 1 << 20
"""More dimensions than a tensor has."""

Ranks = tuple[int, int]
"""The fewest and the most dimensions."""


@dataclass(frozen=True)
class Limits:
    """What one operator accepts.

    Attributes:
        words: the values of attributes that are words, by name.
        least: the smallest number that attributes, or operands whose elements are known, may hold, by name.
        ranks: the dimensions of operands, by name.
        needs: attributes that must be there, where no schema says so.
        alike: operands of equally many dimensions.
        single: operands of one element.
        groups: the attribute that says into how many groups the channels of ``X`` fall.
    """

    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    ranks: Mapping[str, Ranks] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    groups: str = ""

    def check(self, args: Mapping[str, Any], error: Callable[[str], Exception]) -> None:
        """Refuse arguments that are not accepted; ``error`` makes the exception of a text that follows a node's name.

        Raises:
            CostError: naming the node, the argument and what is accepted.
        """
        for name in self.needs:
            if name not in args:
                raise error(f"has no attribute {name!r}")
        for name, words in self.words.items():
            if name in args and args[name] not in words:
                raise error(f"has the {name} {_shown(args[name])}; accepted are {', '.join(map(repr, words))}")
        for name, least in self.least.items():
            for number in _numbers(args.get(name)):
                if not is_symbolic(number) and not (isinstance(number, (int, float)) and number >= least):
                    raise error(f"has {name} {_shown(number)}; accepted are numbers from {least}")
        for name, shape in _shapes(args, self.ranks):
            fewest, most = self.ranks[name]
            if not fewest <= len(shape) <= most:
                raise error(f"is given {name} of shape {shape}; accepted are {_in_words(fewest, most)} dimensions")
        for name, shape in _shapes(args, self.single):
            if any(d != 1 and not is_symbolic(d) for d in shape):
                raise error(f"is given {name} of shape {shape}; accepted is one element")
        for _, shape in _shapes(args, ("X",) if self.groups else ()):
            count, channels = args[self.groups], shape[-1 if args.get("channels_last", 0) else 1]
            if not is_symbolic(channels) and channels % count:
                raise error(f"has {self.groups} {count}, which does not divide the {channels} channels of {shape}")
        shapes = dict(_shapes(args, self.alike))
        if len({len(shape) for shape in shapes.values()}) > 1:
            given = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
            raise error(f"is given {given}; accepted are equally many dimensions")


def _shapes(args: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[str, Shape]]:
    """The operands of those names whose rank is known."""
    for name in names:
        value = args.get(name)
        if isinstance(value, Value) and value.shape is not None:
            yield name, value.shape


def _numbers(argument: Any) -> tuple[Any, ...]:
    """The numbers of an argument, as far as they are known."""
    if isinstance(argument, Value):
        return () if argument.data is None else tuple(argument.data.flat)
    return argument if isinstance(argument, tuple) else () if argument is None else (argument,)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, str)) else "of another kind"


def _in_words(fewest: int, most: int) -> str:
    return f"{fewest}" if fewest == most else f"{fewest} or more" if most == ANY else f"{fewest} to {most}"


def _recurrent() -> Limits:
    """A recurrent network: its rule of shapes reads the rest."""
    return Limits(
        words={"direction": ("forward", "reverse", "bidirectional")},
        least={"hidden_size": 1},
        ranks={"X": (3, 3), "W": (3, 3), "R": (3, 3), "B": (2, 2)},
    )


PADDING = {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")}
AFTER = {"post_transform": ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")}
KERNELS = {"kernel_type": ("LINEAR", "POLY", "RBF", "SIGMOID")}
LOSS = {"reduction": ("none", "sum", "mean")}
GRID = {
    "mode": ("linear", "nearest", "cubic", "bilinear", "bicubic"),
    "padding_mode": ("zeros", "border", "reflection"),
}
SCATTERED = {"reduction": ("none", "add", "mul", "max", "min")}

_STANDARD: Mapping[str, Limits] = {
    **dict.fromkeys(
        ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "AveragePool", "MaxPool"), Limits(words=PADDING)
    ),
    "LpPool": Limits(words=PADDING, least={"p": 1}),
    "GlobalLpPool": Limits(least={"p": 1}),
    "LpNormalization": Limits(least={"p": 1}, ranks={"input": (1, ANY)}),
    "LRN": Limits(least={"size": 1}, ranks={"X": (2, ANY)}),
    "GroupNormalization": Limits(
        least={"num_groups": 1},
        ranks={"X": (2, ANY), "scale": (1, 1), "bias": (1, 1)},
        groups="num_groups",
    ),
    "InstanceNormalization": Limits(ranks={"input": (3, ANY), "scale": (1, 1), "B": (1, 1)}),
    "MaxRoiPool": Limits(least={"pooled_shape": 1}, ranks={"X": (4, 4), "rois": (2, 2)}),
    "RoiAlign": Limits(
        words={"mode": ("avg", "max"), "coordinate_transformation_mode": ("half_pixel", "output_half_pixel")},
        least={"output_height": 1, "output_width": 1, "sampling_ratio": 0},
        ranks={"X": (4, 4), "rois": (2, 2), "batch_indices": (1, 1)},
    ),
    "MaxUnpool": Limits(least={"output_shape": 0}, ranks={"X": (3, ANY)}, alike=("X", "I")),
    "Col2Im": Limits(
        least={"image_shape": 1, "block_shape": 1, "dilations": 1, "strides": 1, "pads": 0},
        ranks={"input": (3, 3), "image_shape": (1, 1), "block_shape": (1, 1)},
    ),
    "GridSample": Limits(
        words=GRID,
        ranks={"X": (3, ANY), "grid": (3, ANY)},
        alike=("X", "grid"),
    ),
    "AffineGrid": Limits(least={"size": 1}, ranks={"theta": (3, 3), "size": (1, 1)}),
    "Pad": Limits(words={"mode": ("constant", "reflect", "edge", "wrap")}),
    "Tile": Limits(least={"repeats": 0}),
    "SplitToSequence": Limits(least={"split": 0}),
    "Split": Limits(least={"split": 0, "num_outputs": 1}),
    "CenterCropPad": Limits(least={"shape": 0}),
    "Upsample": Limits(words={"mode": ("nearest", "linear", "bilinear")}),
    "DepthToSpace": Limits(words={"mode": ("DCR", "CRD")}, least={"blocksize": 1}, ranks={"input": (4, 4)}),
    "SpaceToDepth": Limits(words={"mode": ("DCR", "CRD")}, least={"blocksize": 1}, ranks={"input": (4, 4)}),
    "ScatterElements": Limits(words=SCATTERED),
    "ScatterND": Limits(words=SCATTERED, ranks={"data": (1, ANY), "indices": (1, ANY)}),
    "GatherND": Limits(least={"batch_dims": 0}, ranks={"data": (1, ANY), "indices": (1, ANY)}),
    "TensorScatter": Limits(words={"mode": ("linear", "circular")}),
    "OneHot": Limits(least={"depth": 0}, ranks={"values": (1, 1)}, single=("depth",)),
    "Range": Limits(single=("start", "limit", "delta")),
    "If": Limits(single=("cond",)),
    "Loop": Limits(single=("M", "cond")),
    **dict.fromkeys(("CumSum", "CumProd"), Limits(single=("axis",))),
    "TopK": Limits(single=("K",)),
    "BitShift": Limits(words={"direction": ("LEFT", "RIGHT")}),
    "ImageDecoder": Limits(words={"pixel_format": ("RGB", "BGR", "Grayscale")}),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent()),
    "Attention": Limits(
        least={"q_num_heads": 1, "kv_num_heads": 1},
        ranks={"Q": (3, 4), "past_key": (4, 4), "past_value": (4, 4)},
        alike=("Q", "K", "V"),
    ),
    "LinearAttention": Limits(
        words={"update_rule": ("linear", "gated", "delta", "gated_delta")},
        least={"q_num_heads": 1, "kv_num_heads": 1, "chunk_size": 1},
        ranks={"query": (3, 3), "key": (3, 3), "value": (3, 3), "past_state": (4, 4)},
    ),
    "CausalConvWithState": Limits(
        words={"activation": ("none", "silu", "swish")}, ranks={"input": (3, 3), "weight": (3, 3)}
    ),
    "RotaryEmbedding": Limits(
        least={"num_heads": 0, "rotary_embedding_dim": 0},
        ranks={"X": (3, 4), "cos_cache": (2, 3), "sin_cache": (2, 3), "position_ids": (2, 2)},
    ),
    "NegativeLogLikelihoodLoss": Limits(words=LOSS, ranks={"input": (2, ANY), "target": (1, ANY)}),
    "SoftmaxCrossEntropyLoss": Limits(words=LOSS, ranks={"scores": (2, ANY), "labels": (1, ANY)}),
    "NonMaxSuppression": Limits(ranks={"boxes": (3, 3), "scores": (3, 3)}),
    "DFT": Limits(ranks={"input": (2, ANY)}),
    "STFT": Limits(least={"frame_step": 1, "frame_length": 1}, ranks={"signal": (2, 3), "window": (1, 1)}),
    "Trilu": Limits(ranks={"input": (2, ANY)}, single=("k",)),
    "Multinomial": Limits(least={"sample_size": 1}, ranks={"input": (2, 2)}),
    **dict.fromkeys(("RandomNormal", "RandomUniform", "ConstantOfShape"), Limits(least={"shape": 0, "input": 0})),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), Limits(least={"size": 0}, single=("size",))),
    "StringNormalizer": Limits(words={"case_change_action": ("LOWER", "UPPER", "NONE")}, ranks={"X": (1, 2)}),
    "TfIdfVectorizer": Limits(
        words={"mode": ("TF", "IDF", "TFIDF")},
        least={"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_indexes": 0},
        ranks={"X": (1, 2)},
    ),
}

_CLASSICAL: Mapping[str, Limits] = {
    "CastMap": Limits(words={"map_form": ("DENSE", "SPARSE"), "cast_to": ("TO_FLOAT", "TO_STRING", "TO_INT64")}),
    "Normalizer": Limits(words={"norm": ("MAX", "L1", "L2")}),
    **dict.fromkeys(("LinearClassifier", "TreeEnsembleClassifier"), Limits(words=AFTER)),
    "LinearRegressor": Limits(words=AFTER, least={"targets": 1}),
    **dict.fromkeys(("SVMClassifier", "SVMRegressor"), Limits(words={**AFTER, **KERNELS})),
    "TreeEnsembleRegressor": Limits(words={**AFTER, "aggregate_function": ("AVERAGE", "SUM", "MIN", "MAX")}),
}

_EXPERTS = {"input": (2, 3), "router_probs": (2, 2), "fc1_experts_weights": (3, 3), "fc2_experts_weights": (3, 3)}

_CONTRIB: Mapping[str, Limits] = {
    **dict.fromkeys(
        ("GroupNorm", "SkipGroupNorm"),
        Limits(needs=("groups",), least={"groups": 1}, ranks={"X": (3, ANY), "gamma": (1, 1), "beta": (1, 1)}),
    ),
    "MoE": Limits(ranks=_EXPERTS),
    "QMoE": Limits(least={"expert_weight_bits": 1, "block_size": 0}, ranks=_EXPERTS),
    "Inverse": Limits(ranks={"X": (2, ANY)}),
    **dict.fromkeys(("Rfft", "Irfft"), Limits(ranks={"X": (2, ANY)})),
    "GridSample": Limits(words=GRID, ranks={"X": (4, 4), "Grid": (4, 4)}),
    **dict.fromkeys(
        ("RotaryEmbedding", "MRotaryEmbedding"),
        Limits(least={"num_heads": 0, "rotary_embedding_dim": 0}, ranks={"input": (3, 4), "cos_cache": (2, 2)}),
    ),
    **dict.fromkeys(
        ("MultiHeadAttention", "DecoderMaskedMultiHeadAttention"),
        Limits(needs=("num_heads",), least={"num_heads": 1}, ranks={"query": (3, 5), "key": (3, 5), "value": (3, 5)}),
    ),
}

ACCEPTED: Mapping[str, Limits] = {
    **{f"com.microsoft::{op}": limits for op, limits in _CONTRIB.items()},
    **{f"ai.onnx::{op}": limits for op, limits in _STANDARD.items()},
    **{f"ai.onnx.ml::{op}": limits for op, limits in _CLASSICAL.items()},
    "ai.onnx.preview::FlexAttention": Limits(ranks={"Q": (4, 4), "K": (4, 4), "V": (4, 4)}),
    "ai.onnx.preview.training::Momentum": Limits(words={"mode": ("standard", "nesterov")}),
}
"""By full name of the operator."""
