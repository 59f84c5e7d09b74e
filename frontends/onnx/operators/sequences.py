"""Recurrent layers, layers with a state, attention, and operators on sequences, maps and strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costcore.numbers import Dim, is_symbolic, minimum
from costcore.translate import Arguments, Row, Source

from ..node import Node, Rule
from ..values import DTYPES, Container, Shape, Undetermined, Value, common_element, element_of, number_of, sequence
from . import broadcast, determined, flag, node_of, nonzero, positive, same_shape, same_shape_in, true_or_none

# Recurrent layers and layers with a state.


N_GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Number of gates, by operator."""


def recurrent(node: Node) -> Sequence[Value]:
    """Infer all steps, the last hidden state, and the last cell state (LSTM)."""
    x, r = node.value("X"), node.value("R")
    directions, hidden = r.known_shape[0], node.args.get("hidden_size") or r.known_shape[-1]
    if len(x.known_shape) != 3:
        raise node.error(f"needs an input of 3 dimensions (got the shape {x.known_shape})")
    is_batch_first = bool(node.args.get("layout"))
    batch, steps = x.known_shape[:2] if is_batch_first else x.known_shape[1::-1]
    state = (batch, directions, hidden) if is_batch_first else (directions, batch, hidden)
    every = (batch, steps, directions, hidden) if is_batch_first else (steps, directions, batch, hidden)
    if node.op in N_GATES:
        rows, both = N_GATES[node.op] * hidden, 2 if node.args.get("direction") == "bidirectional" else 1
        weights = {"W": (both, rows, x.known_shape[-1]), "R": (both, rows, hidden), "B": (both, 2 * rows)}
        note_misfits(node, {**weights, "P": (both, 3 * hidden), "sequence_lens": (batch,), **states(state)})
    return [node.result(every, x.dtype), node.result(state, x.dtype), node.result(state, x.dtype)]


def states(shape: Shape) -> Mapping[str, Shape]:
    """Return the shapes of the initial states by name."""
    return {"initial_h": shape, "initial_c": shape}


def note_misfits(node: Node, expected: Mapping[str, Shape]) -> None:
    """Report operands of a recurrent layer with sizes that contradict each other or ``hidden_size``."""
    given = {name: value.shape for name in expected if isinstance(value := node.args.get(name), Value)}
    wrong = [name for name, shape in given.items() if shape is not None and not _may_fit(shape, expected[name])]
    if not wrong:
        return
    found = ", ".join(f"{name} of shape {given[name]} (expected {expected[name]})" for name in wrong)
    hint = ""
    if wrong == ["initial_c"]:
        hint = ". PyTorch exports an LSTM with proj_size like this, without its projection"
    node.noted.append(f"has the inputs {found}; it is counted with the sizes of R and hidden_size{hint}")


def _may_fit(shape: Shape, expected: Shape) -> bool:
    # Symbols fit any number.
    pairs = zip(shape, expected, strict=False)
    return len(shape) == len(expected) and all(a == b or is_symbolic(a) or is_symbolic(b) for a, b in pairs)


def linear_attention(node: Node) -> Sequence[Value]:
    """Infer the output and the state, matrices of features of keys by features of values."""
    q, k, v = node.value("query"), node.value("key"), node.value("value")
    count, shared = positive(node, "q_num_heads"), positive(node, "kv_num_heads")
    for value in (q, k, v):
        if len(value.known_shape) != 3:
            raise node.error(f"needs inputs of 3 dimensions (got the shape {value.known_shape})")
    for name, part in (("decay", "gated"), ("beta", "delta")):
        if part in node.args["update_rule"] and node.get(name) is None:
            raise node.error(f"lacks the input {name!r}, which the update_rule {node.args['update_rule']!r} needs")
    batch, steps, _ = q.known_shape
    width, features = k.known_shape[-1] // shared, v.known_shape[-1] // shared
    state = node.get("past_state")
    return [
        node.result((batch, steps, count * features), q.dtype),
        node.result((batch, shared, width, features), state.dtype if state is not None else q.dtype),
    ]


def causal_conv(node: Node) -> Sequence[Value]:
    """Infer the output and the state: the last inputs, one less than the kernel size."""
    x, w = node.value("input"), node.value("weight")
    last = node.args.get("channels_last")
    batch, channels = (x.known_shape[0], x.known_shape[-1]) if last else x.known_shape[:2]
    kept = (w.known_shape[-1] - 1) * node.args.get("dilation", 1)
    return [node.result(x.known_shape, x.dtype), node.result((batch, channels, kept), x.dtype)]


RECURRENT_RULES: Mapping[str, Rule] = {
    **{f"ai.onnx::{op}": recurrent for op in ("LSTM", "GRU", "RNN")},
    "ai.onnx::LinearAttention": linear_attention,
    "ai.onnx::CausalConvWithState": causal_conv,
}
"""Rules by full operator name."""


DEFAULT_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM", "AttnLSTM"), ("sigmoid", "tanh", "tanh")),
    "GRU": ("sigmoid", "tanh"),
    "RNN": ("tanh",),
}
"""The default activation functions of one direction, by operator."""

FUNCTIONS: Mapping[str, str] = {
    **{name: name for name in ("affine", "elu", "relu", "sigmoid", "softplus", "softsign", "tanh")},
    "hardsigmoid": "hard_sigmoid",
    "leakyrelu": "leaky_relu",
    "scaledtanh": "scaled_tanh",
    "thresholdedrelu": "threshold",
}
"""Canonical names of activation functions, by their ONNX names in lower case."""


def _activation_functions(a: Arguments) -> tuple[str, ...]:
    # The functions of one direction if both directions have the same; "" for an unknown function.
    usual = DEFAULT_FUNCTIONS[node_of(a).op]
    names = tuple(FUNCTIONS.get(name.lower(), "") for name in a.get("activations") or ()) or usual
    half = names[: len(usual)]
    return half if names == half * (len(names) // len(usual)) else names


def has_known_functions(a: Arguments) -> bool:
    """Return whether all activation functions are known, and their number fits the directions."""
    names, directions = _activation_functions(a), 2 if a.get("direction") == "bidirectional" else 1
    return "" not in names and len(names) in (count := len(DEFAULT_FUNCTIONS[node_of(a).op]), count * directions)


def _other_functions(a: Arguments) -> tuple[str, ...] | None:
    # None for the defaults, and for an RNN with one function.
    names, usual = _activation_functions(a), DEFAULT_FUNCTIONS[node_of(a).op]
    return None if names == usual or (usual == ("tanh",) and len(names) == 1) else names


def _rnn_function(a: Arguments) -> str | None:
    # None if the directions have different functions.
    names = _activation_functions(a)
    return names[0] if len(names) == 1 else None


CELL: Mapping[str, Any] = {
    "activations": _other_functions,
    "clip": true_or_none("clip"),
    "tied_gates": true_or_none("input_forget"),
}
"""Attributes of the cells of recurrent layers."""

RECURRENT: Mapping[str, Any] = {
    "hidden": lambda a: a.get("hidden_size") or a["R"].known_shape[-1],
    "bidirectional": lambda a: a.get("direction") == "bidirectional",
    **CELL,
}


def _steps(a: Arguments) -> Any:
    # If the lengths are known, all their steps are one sequence.
    x, lengths = a["X"], a.get("sequence_lens")
    if not isinstance(lengths, Value) or lengths.data is None:
        return x
    if not all(isinstance(length, int) and length >= 0 for length in lengths.data.flat):
        return x
    longest = x.known_shape[1 if a.get("layout") else 0]
    return x.viewed((sum(minimum(length, longest) for length in lengths.data.flat), x.known_shape[-1]))


GATES: dict[str, Source] = {
    "x": _steps,
    "w0": "W",
    "w1": "R",
    "b0": "B",
    "lengths": "sequence_lens",
    "h0": "initial_h",
}


def packed_heads(name: str, count: str) -> Any:
    """Return a source for packed heads ``[B, T, H * D]`` as ``[B, H, T, D]``."""

    def read(a: Arguments) -> Value:
        value, heads = a[name], a[count]
        batch, steps, width = value.known_shape
        view: Value = value.viewed((batch, heads, steps, width // heads))
        return view

    return read


def causal_activation(a: Arguments) -> Any:
    """Return the activation of a causal convolution; None if there is none."""
    return {"none": None, "swish": "silu"}.get(a.get("activation", "none"), a.get("activation"))


RECURRENCE = {
    "q": packed_heads("query", "q_num_heads"),
    "k": packed_heads("key", "kv_num_heads"),
    "v": packed_heads("value", "kv_num_heads"),
    "decay": "decay",
    "beta": "beta",
    "state": "past_state",
}
"""Operands of ``linear_attention``."""

RECURRENT_ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::LSTM",
        "lstm",
        {**GATES, "c0": "initial_c", "w2": "P"},
        {**RECURRENT, "peephole": lambda a: True if a.get("P") is not None else None},
        when=has_known_functions,
    ),
    Row(
        "ai.onnx::GRU",
        "gru",
        GATES,
        {**RECURRENT, "reset_after": flag("linear_before_reset")},
        when=has_known_functions,
    ),
    Row("ai.onnx::RNN", "rnn", GATES, {**RECURRENT, "activation": _rnn_function}, when=has_known_functions),
    Row(
        "ai.onnx::LinearAttention",
        "linear_attention",
        RECURRENCE,
        {"rule": "update_rule"},
    ),
    Row(
        "ai.onnx::CausalConvWithState",
        "causal_conv",
        {"x": "input", "w": "weight", "b": "bias", "state": "past_state"},
        {"activation": causal_activation},
    ),
)


# Attention and rotary position embeddings.


def attention(node: Node) -> Sequence[Value]:
    """Infer the attention output, keys and values with the past prepended, and the scores."""
    q, k, v, past = node.value("Q"), node.value("K"), node.value("V"), node.get("past_key")
    if len(q.known_shape) == 3:
        heads, kv_heads = node.args.get("q_num_heads"), node.args.get("kv_num_heads")
        if not heads or not kv_heads:
            raise node.error("has inputs of 3 dimensions, but no q_num_heads and kv_num_heads")
        (b, tq, _), (_, tk, ek), (_, _, ev) = q.known_shape, k.known_shape, v.known_shape
        shape: Shape = (b, tq, ev // kv_heads * heads)
        dk, dv = ek // kv_heads, ev // kv_heads
    else:
        (b, heads, tq, _), (_, kv_heads, tk, dk), dv = q.known_shape, k.known_shape, v.known_shape[-1]
        shape = (b, heads, tq, dv)
    total = tk + (past.known_shape[2] if past is not None else 0)
    return [
        node.result(shape, q.dtype),
        node.result((b, kv_heads, total, dk), k.dtype),
        node.result((b, kv_heads, total, dv), v.dtype),
        node.result((b, heads, tq, total), q.dtype),
    ]


def flex_attention(node: Node) -> Sequence[Value]:
    """Infer the attention output: the shape of the queries with the feature size of the values."""
    q, v = node.value("Q"), node.value("V")
    return [node.result((*q.known_shape[:-1], v.known_shape[-1]), q.dtype)]


ATTENTION_RULES: Mapping[str, Rule] = {
    "ai.onnx::Attention": attention,
    "ai.onnx::RotaryEmbedding": same_shape,
    "ai.onnx.preview::FlexAttention": flex_attention,
}
"""Rules by full operator name."""


def _separate_heads(name: str, count: str) -> Any:
    # Heads may be packed: ``[N, T, H * D]``.
    def read(a: Arguments) -> Value:
        value, past = a[name], a.get(f"past_{'key' if name == 'K' else 'value'}") if name != "Q" else None
        shape = value.known_shape
        if len(shape) == 3:
            shape = (shape[0], a[count], shape[1], shape[2] // a[count])
        if isinstance(past, Value):
            shape = (*shape[:2], past.known_shape[2] + shape[2], shape[3])  # the past is read as well
        view: Value = value.viewed(shape)
        return view

    return read


def _window_sides(a: Arguments) -> Any:
    sides = (a.get("left_window_size", -1), a.get("right_window_size", -1))
    return None if sides == (-1, -1) else sides


def rotary_input(a: Arguments) -> Value:
    """Return the input of a rotary embedding as ``[N, H, T, D]``."""
    n = node_of(a)
    x: Value = n.value("X", "input")
    heads = a.get("num_heads")
    if len(x.known_shape) != 3 or not heads:
        return x
    batch, steps, width = x.known_shape
    return x.viewed((batch, heads, steps, width // heads))


ATTENTION_ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::Attention",
        "attention",
        {
            "q": _separate_heads("Q", "q_num_heads"),
            "k": _separate_heads("K", "kv_num_heads"),
            "v": _separate_heads("V", "kv_num_heads"),
            "mask": "attn_mask",
            "lengths": "nonpad_kv_seqlen",
        },
        {"causal": flag("is_causal"), "softcap": lambda a: a.get("softcap") or None, "window": _window_sides},
    ),
    Row(
        "ai.onnx::RotaryEmbedding",
        "rotary_embedding",
        {"x": rotary_input, "cos": "cos_cache", "sin": "sin_cache", "position": "position_ids"},
        {"rotary_dim": nonzero("rotary_embedding_dim"), "interleaved": flag("interleaved")},
    ),
    Row(
        "ai.onnx.preview::FlexAttention",
        "attention",
        {"q": "Q", "k": "K", "v": "V"},
        when=lambda a: a.get("score_mod") is None and a.get("prob_mod") is None,
    ),
)


# Sequences, optionals and maps: shape rules.


def sequence_input(node: Node, *names: str) -> Container:
    """Return the input of that name, which must be a sequence.

    Raises:
        CostError: if it is a tensor.
    """
    value = node.value(*names)
    if not isinstance(value, Container):
        if value.shape is None:
            raise Undetermined
        raise node.error(f"needs a sequence as its input {names[0]!r} (got a tensor of shape {value.shape})")
    return value


def _known_position(node: Node, count: int, default: int, last: int) -> int | None:
    # At most ``last``; None if it depends on data.
    value = node.get("position")
    if value is None:
        return default
    if value.data is None or is_symbolic(place := value.data.ravel()[0]):
        return None
    if not -count <= place <= last:
        raise node.error(f"has position {place}, but its sequence has {count} items")
    return int(place) + count if place < 0 else int(place)


def empty(node: Node) -> Sequence[Value]:
    """Infer an empty sequence."""
    return [sequence((), DTYPES.get(node.args.get("dtype") or 1, "float32"))]


def construct(node: Node) -> Sequence[Value]:
    """Infer a sequence of the inputs."""
    return [sequence(node.values("inputs"))]


def insert(node: Node) -> Sequence[Value]:
    """Infer a sequence with one more item."""
    source, tensor = sequence_input(node, "input_sequence"), node.value("tensor")
    if source.items is not None:
        place = _known_position(node, count := len(source.items), count, count)
        if place is not None:
            return [sequence((*source.items[:place], tensor, *source.items[place:]))]
    length = None if source.length is None else source.length + 1
    element = common_element((element_of(source), tensor))
    return [Container(dtype=tensor.dtype, element=element, length=length)]


def erase(node: Node) -> Sequence[Value]:
    """Infer a sequence without one item."""
    source = sequence_input(node, "input_sequence")
    if source.items is not None:
        place = _known_position(node, count := len(source.items), count - 1, count - 1)
        if place is not None:
            return [sequence((*source.items[:place], *source.items[place + 1 :]), source.dtype)]
    length = None if source.length is None else source.length - 1
    return [Container(dtype=source.dtype, element=element_of(source), length=length)]


def at(node: Node) -> Sequence[Value]:
    """Infer one item."""
    source = sequence_input(node, "input_sequence")
    if source.items is not None:
        place = _known_position(node, count := len(source.items), -1, count - 1)
        if place is not None:
            return [_as_new(source.items[place])]
    element = element_of(source)
    return [Value(None, source.dtype) if element is None else Value(element.shape, element.dtype)]


def _as_new(value: Value) -> Value:
    if isinstance(value, Container):
        return value
    copy = value.viewed(value.known_shape)
    copy.data, copy.identity = value.data, 0
    return copy


def length_of(node: Node) -> Sequence[Value]:
    """Infer the number of items."""
    length = sequence_input(node, "input_sequence").length
    return [Value((), "int64") if length is None else number_of(length)]


def optional(node: Node) -> Sequence[Value]:
    """Infer an optional that holds the input, or an empty one of a declared type."""
    value = node.inputs[0] if node.inputs else None
    if value is not None:
        return [_content(value)]
    kind = node.args.get("type")
    dtype = "" if kind is None or not kind.HasField("tensor_type") else DTYPES.get(kind.tensor_type.elem_type, "")
    return [Container(dtype=dtype, kind="optional", items=(), length=0)]


def has_element(node: Node) -> Sequence[Value]:
    """Infer whether an optional holds a value; unknown only for an optional input of the model."""
    value = node.inputs[0] if node.inputs else None
    is_optional = isinstance(value, Container) and value.kind == "optional"
    if isinstance(value, Container) and is_optional and value.items is None:
        return [Value((), "bool")]
    data: Any = np.empty((), dtype=object)
    data[()] = value is not None and not is_optional
    return [Value((), "bool", data, "const", follows_shapes=True)]


def get_element(node: Node) -> Sequence[Value]:
    """Infer the value of an optional.

    Raises:
        CostError: if it is known to be empty.
    """
    value = node.value("input")
    if isinstance(value, Container) and value.kind == "optional":
        if value.items is not None:
            raise node.error("reads the value of an empty optional")
        element = value.element
        if isinstance(element, Container):
            return [element]
        return [Value(element.shape if element is not None else None, value.dtype)]
    return [_content(value)]


def _content(value: Value) -> Value:
    is_unranked = value.shape is None and not isinstance(value, Container)
    return Value(None, value.dtype) if is_unranked else _as_new(value)


def to_map(node: Node) -> Sequence[Value]:
    """Infer one map for each row."""
    x = node.value("X")
    item = Container(dtype=x.dtype, kind="map", element=Value((), x.dtype), length=x.known_shape[-1])
    return [Container(dtype=x.dtype, element=item, length=x.known_shape[0] if len(x.known_shape) > 1 else 1)]


CONTAINER_RULES: Mapping[str, Rule] = {
    "ai.onnx::SequenceEmpty": empty,
    "ai.onnx::SequenceConstruct": construct,
    "ai.onnx::SequenceInsert": insert,
    "ai.onnx::SequenceErase": erase,
    "ai.onnx::SequenceAt": at,
    "ai.onnx::SequenceLength": length_of,
    "ai.onnx::Optional": optional,
    "ai.onnx::OptionalHasElement": has_element,
    "ai.onnx::OptionalGetElement": get_element,
    "ai.onnx.ml::ZipMap": to_map,
}
"""Rules by full operator name."""


# Strings, vocabularies and images: shape rules.


def string_concat(node: Node) -> Sequence[Value]:
    """Infer the broadcast of two tensors of strings."""
    return [node.result(broadcast(node, node.value("X").known_shape, node.value("Y").known_shape), "string")]


def string_split(node: Node) -> Sequence[Value]:
    """Infer the parts of each string, padded to the maximum, and their number."""
    x = node.value("X")
    return [node.result((*x.known_shape, 0 if x.size == 0 else None), "string"), node.result(x.known_shape, "int64")]


def image(node: Node) -> Sequence[Value]:
    """Infer rows, columns and channels; rows and columns depend on data."""
    return [node.result((None, None, 1 if node.args.get("pixel_format") == "Grayscale" else 3), "uint8")]


def ngrams(node: Node) -> Sequence[Value]:
    """Infer one count for each n-gram of the vocabulary."""
    x = node.value("X")
    indices = node.args.get("ngram_indexes") or ()
    if not indices or not x.known_shape:
        raise Undetermined
    return [node.result((*x.known_shape[:-1], max(indices) + 1), "float32")]


def gram_count(node: Node) -> Dim:
    """Return the largest number of n-grams in a row of ``TfIdfVectorizer``, over all lengths and skips."""
    length = node.value("X").known_shape[-1]
    least, most = node.args.get("min_gram_length", 1), node.args.get("max_gram_length", 1)
    skips = node.args.get("max_skip_count", 0)
    total: Dim = 0
    for size in range(least, min(most, 64) + 1):
        count = skips + 1 if size > 1 else 1
        if isinstance(length, int) and size > 1:
            count = min(count, max(length - 1, 0) // (size - 1))
        total = total + count * length - (size - 1) * (count * (count + 1) // 2)
    return total


def normalized_strings(node: Node) -> Sequence[Value]:
    """Infer strings without stop words; the number of remaining ones depends on data."""
    x = node.value("X")
    return [node.result((*x.known_shape[:-1], None) if node.args.get("stopwords") else x.known_shape, "string")]


def encode_labels(node: Node) -> Sequence[Value]:
    """Infer one value of the map for each element."""
    tensor = node.args.get("values_tensor")
    if tensor is not None:
        dtype = DTYPES.get(tensor.data_type, "float32")
    elif node.args.get("values_floats"):
        dtype = "float32"
    elif node.args.get("values_int64s") or (not node.args.get("values_strings") and node.value("X").dtype == "string"):
        dtype = "int64"
    else:
        dtype = "string"
    return [node.result(node.value("X").known_shape, dtype)]


def map_categories(node: Node) -> Sequence[Value]:
    """Infer numbers for strings, or strings for numbers."""
    return [node.result(node.value("X").known_shape, "int64" if node.value("X").dtype == "string" else "string")]


def from_map(node: Node) -> Sequence[Value]:
    """Infer a row from a map; its length is the size of the vocabulary, the given size, or the size of the map."""
    x = node.value("X")
    if not isinstance(x, Container):
        raise node.error("needs a map as its input")
    if node.op == "DictVectorizer":
        count: Dim | None = len(node.args.get("int64_vocabulary") or node.args.get("string_vocabulary") or ())
        return [node.result((count,), x.dtype)]
    cast = {"TO_INT64": "int64", "TO_STRING": "string"}
    count = node.args.get("max_map") if node.args.get("map_form") == "SPARSE" else x.length
    return [node.result((1, count), cast.get(node.args.get("cast_to", ""), "float32"))]


STRING_RULES: Mapping[str, Rule] = {
    "ai.onnx::StringConcat": string_concat,
    "ai.onnx::StringSplit": string_split,
    "ai.onnx::StringNormalizer": normalized_strings,
    "ai.onnx::RegexFullMatch": same_shape_in("bool"),
    "ai.onnx::TfIdfVectorizer": ngrams,
    "ai.onnx::ImageDecoder": image,
    "ai.onnx.ml::CastMap": from_map,
    "ai.onnx.ml::CategoryMapper": map_categories,
    "ai.onnx.ml::DictVectorizer": from_map,
    "ai.onnx.ml::LabelEncoder": encode_labels,
}
"""Rules by full operator name."""


# Rows of strings, sequences and maps.


CONTAINERS = (
    *("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength"),
    *("Optional", "OptionalHasElement", "OptionalGetElement"),
)

TEXT_ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{op}", "container") for op in CONTAINERS),
    Row("ai.onnx.ml::ZipMap", "container"),
    Row("ai.onnx::StringConcat", "string_concat", {"x0": "X", "x1": "Y"}),
    Row("ai.onnx::StringSplit", "string_split", {"x": "X"}),
    Row("ai.onnx::StringNormalizer", "string_normalize", {"x": "X"}),
    Row("ai.onnx::RegexFullMatch", "regex_match", {"x": "X"}),
    Row("ai.onnx::ImageDecoder", "image_decode", {"x": "encoded_stream"}),
    Row(
        "ai.onnx::TfIdfVectorizer",
        "count_ngrams",
        {"x": "X"},
        {
            "grams": determined(gram_count),
            "weighted": lambda a: a.get("mode") in ("IDF", "TFIDF") and bool(a.get("weights")),
        },
    ),
    *(Row(f"ai.onnx.ml::{op}", "lookup") for op in ("CastMap", "DictVectorizer")),
    *(Row(f"ai.onnx.ml::{op}", "lookup", {"x": "X"}) for op in ("CategoryMapper", "LabelEncoder")),
)


ROWS: tuple[Row, ...] = (*RECURRENT_ROWS, *ATTENTION_ROWS, *TEXT_ROWS)


RULES: Mapping[str, Rule] = {**RECURRENT_RULES, **ATTENTION_RULES, **CONTAINER_RULES, **STRING_RULES}
