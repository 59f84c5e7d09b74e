"""A decoder of small sizes that no two are equal, which records its passes without a framework.

A token is a row of 6 elements; 2 heads of 3 elements attend to the keys and values of 1 head; a token is sent to 2 of
5 experts of 6 x 7; 13 words are scored.
"""

from __future__ import annotations

from typing import Any

from costcore.ir import Layer, Tensor
from costcore.studies.serving.cached_model import CachedPart, CacheStorages, PackedWeight, Parameter, StoredFile
from costcore.studies.serving.passes import Latent
from tests.core.traces import Call, Recorder

WIDTH, HEADS, HEAD, EXPERTS, CHOSEN, INNER, WORDS = 6, 2, 3, 5, 2, 7, 13
DTYPE = "float16"


class ToyDecoder:
    """See :class:`costcore.studies.serving.cached_model.CachedModel`.

    Args:
        window: the most tokens that a layer keeps.
        state: elements of the state of a recurrence, in float32; 0 without one.
        latents: whether keys and values are made of a latent vector of 4 + 1 elements.
        repeats_before: whether heads of keys and values are repeated before they are cached.
        repeats_after: whether they are repeated when they are read.
        copies_state: whether the state of the recurrence is copied before it is read.
        has_experts: whether there are experts.
        unknown: whether an operator without a calculator runs.
    """

    def __init__(
        self,
        window: int | None = None,
        state: int = 0,
        latents: bool = False,
        repeats_before: bool = False,
        repeats_after: bool = False,
        copies_state: bool = False,
        has_experts: bool = True,
        unknown: bool = False,
        **attributes: Any,
    ) -> None:
        self.name, self.dtype, self.most_tokens = "ToyDecoder", DTYPE, 4000
        self.blocks = None
        self.window, self.state, self.unknown, self.has_experts = window, state, unknown, has_experts
        self.repeats_before, self.repeats_after, self.copies_state = repeats_before, repeats_after, copies_state
        self.latents = [Latent("layer.attention", HEADS, rank=4, rope=1, key=3, value=2)] if latents else []
        per_token = 5 if latents else 2 * HEAD * (HEADS if repeats_before else 1)
        self.parts = [CachedPart(per_token, window, state, 32 * state if state else None)]
        sizes = {"words": WORDS * WIDTH, "layer.qkv": 12 * WIDTH, "layer.out": WIDTH * WIDTH, "head": WORDS * WIDTH}
        self.parameters = [Parameter(path, size, 2, DTYPE) for path, size in sizes.items()]
        self.parameters += [Parameter("norm", WIDTH, 1, DTYPE), Parameter("layer.qkv", 12, 1, DTYPE)]
        if has_experts:
            self.parameters.append(Parameter("layer.experts", EXPERTS * WIDTH * INNER, 3, DTYPE))
        self.packed: dict[str, PackedWeight] = {}
        self.file: StoredFile | None = None
        if "packed" in attributes:
            self.packed = {path: PackedWeight(*each) for path, each in attributes.pop("packed").items()}
        if "parts" in attributes:
            self.parts = [CachedPart(*each) for each in attributes.pop("parts")]
        self.is_recurrent = any(part.fixed for part in self.parts)
        self.scores_all = False
        self.__dict__.update(attributes)

    def record(self, recorder: Recorder, batch: int, tokens: int, past: int, last_only: bool) -> CacheStorages:
        made = _Calls(recorder)
        ids = made.new((batch, tokens), "int64")
        words, qkv, bias, out, head, norm, experts = (
            made.new(shape, role="param")
            for shape in (
                *((WORDS, WIDTH), (12, WIDTH), (12,), (WIDTH, WIDTH), (WORDS, WIDTH), (WIDTH,)),
                (EXPERTS, WIDTH, INNER),
            )
        )
        x = made.call("embedding", "words", {"x": ids, "w": words}, (batch, tokens, WIDTH))
        x = made.call("mul", "norm", {"x0": x, "x1": norm}, (batch, tokens, WIDTH))
        module = "layer.attention.qkv" if self.latents else "layer.qkv"
        both = made.call("linear", module, {"x": x, "b": bias, "w": qkv}, (batch, tokens, 12))
        heads = HEADS if self.repeats_before else 1
        before, after = set(), set()
        if self.latents:
            before, after, y = self._latent_attention(made, both, batch, tokens, past)
        else:
            kept = past if self.window is None else min(past, self.window - 1)
            cached = []
            for name in ("key", "value"):
                new = made.call("copy", "layer", {"x": both}, (batch, 1, tokens, HEAD), part=True)
                if self.repeats_before:
                    new = made.call("copy", "layer", {"x": new}, (batch, heads, tokens, HEAD))
                operands = {"x1": new}
                if past:
                    old = made.new((batch, heads, kept, HEAD))
                    before.add(old[1])
                    operands = {"x0": old, "x1": new}
                joined = made.call("concat", f"layer.{name}", operands, (batch, heads, kept + tokens, HEAD))
                after.add(joined[1])
                if self.repeats_after:
                    joined = made.call("copy", "layer", {"x": joined}, (batch, HEADS, kept + tokens, HEAD))
                cached.append(joined)
            made.call("view", "layer.attention", {"x": both}, (batch, HEADS, tokens, HEAD))  # costs nothing
            query = made.view(both, (batch, HEADS, tokens, HEAD))
            operands = {"q": query, "k": cached[0], "v": cached[1]}
            y = made.call("attention", "layer.attention", operands, (batch, HEADS, tokens, HEAD))
        if self.unknown:
            made.call("mystery", "layer.mystery", {"x": y}, y[0].shape)
        y = made.call("linear", "layer.out", {"x": made.view(y, (batch, tokens, WIDTH)), "w": out}, x[0].shape)
        states = set()
        if self.state:
            old = read = made.new((batch, self.state), "float32")
            if self.copies_state:
                read = made.call("copy", "layer.state", {"x": old}, (batch, self.state), dtype="float32")
            new = made.call("mul", "layer.state", {"x0": read, "x1": read}, (batch, self.state), dtype="float32")
            states |= {old[1], new[1]}
            recorder.assume("the state is as large as it was", "layer.state")
        if self.has_experts:
            rows = made.view(y, (batch * tokens * CHOSEN, WIDTH))
            y = made.call(
                *("grouped_matmul", "layer.experts"),
                {"x0": rows, "x1": experts, "offsets": made.new((EXPERTS,), "int32")},
                (batch * tokens * CHOSEN, INNER),
            )
            y = made.call("relu", "layer.experts", {"x": y}, y[0].shape)
        n_scored = 1 if last_only else tokens
        made.call("linear", "head", {"x": made.new((batch, n_scored, WIDTH)), "w": head}, (batch, n_scored, WORDS))
        return CacheStorages(frozenset(before | after), frozenset(states))

    def _latent_attention(self, made: Any, both: Any, batch: int, tokens: int, past: int) -> Any:
        """Latents of 5 are kept, all of them are expanded to 2 x (3 + 2) elements, and attended to."""
        new = made.call("copy", "layer.attention", {"x": both}, (batch, tokens, 5), part=True)
        old = made.new((batch, past, 5))
        joined = made.call("concat", "layer.attention", {"x0": old, "x1": new}, (batch, past + tokens, 5))
        expand = made.new((10, 5), role="param")
        wide = made.call("linear", "layer.attention.kv", {"x": joined, "w": expand}, (batch, past + tokens, 10))
        operands = {
            "q": made.view(both, (batch, HEADS, tokens, 3)),
            "k": made.view(wide, (batch, HEADS, past + tokens, 3)),
            "v": made.view(wide, (batch, HEADS, past + tokens, 2)),
        }
        y = made.call("attention", "layer.attention", operands, (batch, HEADS, tokens, 2))
        return {old[1]}, {joined[1]}, y


class _Calls:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def new(self, shape: tuple[int, ...], dtype: str = DTYPE, role: Any = "data") -> tuple[Tensor, int]:
        return Tensor(shape, dtype, role=role), self._recorder.new_id()

    def view(self, operand: tuple[Tensor, int], shape: tuple[int, ...]) -> tuple[Tensor, int]:
        return Tensor(shape, operand[0].dtype), operand[1]

    def call(
        self,
        op: str,
        module: str,
        operands: dict[str, tuple[Tensor, int]],
        shape: tuple[int, ...],
        dtype: str = DTYPE,
        part: bool = False,
    ) -> tuple[Tensor, int]:
        inputs = {name: Tensor(shape, DTYPE) if part else tensor for name, (tensor, _) in operands.items()}
        result = self.new(shape, dtype)
        layer = self._recorder.intern(Layer(op, inputs, [result[0]]))
        storages = (*(identity for _, identity in operands.values()), result[1])
        self._recorder.record(
            Call(layer, op, module=module, inputs=storages[:-1], outputs=storages[-1:], storages=storages)
        )
        return result
