"""Count a network as a whole, by closed forms of transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from costcore.analyses.conventions.expression import Expression
from costcore.errors import CostError
from costcore.ir import Layer, prod
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import expanded_sum
from costcore.trace.call import Call
from costcore.trace.trace import Trace

NAMES: Mapping[str, str] = {
    "n_params": "parameters of the model without embeddings",
    "n_embedding": "parameters of embeddings, one table for input and output if they are tied",
    "n_all": "all parameters of the model",
    "n_frozen": "parameters of the model that are not trained",
    "n_tables": "parameters of all tables that are looked up",
    "n_positions": "parameters of tables that are looked up, without that of the first one, which has the tokens",
    "tokens": "tokens of all sequences",
    "seq": "tokens of one sequence",
    "layers": "layers with attention",
    "heads": "attention heads",
    "head_dim": "features of a head",
    "hidden": "features of a token",
    "vocab": "entries of the vocabulary",
}
"""What closed forms can name."""


def count_whole(trace: Trace, rules: Mapping[str, Expression]) -> Iterator[tuple[str, str, Dim]]:
    """Yield name, expression and amount of each term.

    Raises:
        CostError: if the network has no attention or no tokens.
    """
    transformer = Transformer(trace)
    for name, expression in rules.items():
        yield name, expression.text, expression(lambda quantity: getattr(transformer, quantity))


class Transformer:
    """The sizes of a transformer, read from its calls; :data:`NAMES` says what each is.

    A size that the calls do not show raises a ``CostError``.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._calls = [call for call in trace.calls if call.phase == "forward"]
        self._attention = [*_attention(trace)]

    @cached_property
    def _embeddings(self) -> list[Call]:
        return [call for call in self._calls if call.layer.op == "embedding" and "w" in call.layer]

    @cached_property
    def _embeddings_of_inputs(self) -> list[Call]:
        """The embeddings of ids that the model is given, then all others: positions, relative distances."""
        given = set(self._trace.run.inputs)
        for call in self._calls:
            if call.layer.op in ("view", "cast", "copy") and not given.isdisjoint(call.inputs[:1]):
                given.update(call.outputs)

        def ids(call: Call) -> int:
            return dict(zip(call.layer.inputs, call.inputs, strict=False)).get("x", 0)

        return sorted(self._embeddings, key=lambda call: ids(call) not in given)

    @cached_property
    def _tokens(self) -> tuple[Dim, ...]:
        """The shape of the token ids, or of the first tokens if the model embeds patches."""
        for call in self._embeddings_of_inputs:
            if call.layer["x"].ndim >= 1:
                shape: tuple[Dim, ...] = call.layer["x"].shape
                return shape
        if not self._attention:
            raise CostError("closed forms of transformers need a model with attention")
        batch, _, queries = self._attention[0][:3]
        return batch, queries

    @cached_property
    def tokens(self) -> Dim:
        """Tokens of all sequences."""
        return prod(self._tokens)

    @cached_property
    def seq(self) -> Dim:
        """Tokens of one sequence."""
        return self._tokens[-1]

    @cached_property
    def layers(self) -> int:
        """Layers with attention."""
        return len(self._attention)

    @cached_property
    def heads(self) -> Dim:
        """Attention heads."""
        return self._sizes[1]

    @cached_property
    def head_dim(self) -> Dim:
        """Features of a head."""
        return self._sizes[3]

    @cached_property
    def hidden(self) -> Dim:
        """Features of a token."""
        return self.heads * self.head_dim

    @cached_property
    def vocab(self) -> Dim:
        """Entries of the vocabulary."""
        return self._embeddings_of_inputs[0].layer["w"].shape[0] if self._embeddings else 0

    @cached_property
    def n_embedding(self) -> Dim:
        """Parameters of embeddings, one table for input and output if they are tied."""
        parameters = self._trace.run.parameters
        if not self._embeddings:
            return 0
        read = {parameter for call in self._embeddings for parameter in call.parameters}
        head = [call for call in self._calls if call.layer.op == "linear" and call.layer["w"].shape[0] == self.vocab]
        read |= {parameter for call in head[-1:] for parameter in call.parameters}
        return expanded_sum(parameters[parameter] for parameter in read)

    @cached_property
    def n_params(self) -> Dim:
        """Parameters of the model without embeddings."""
        return self.n_all - self.n_embedding

    @cached_property
    def n_all(self) -> Dim:
        """All parameters of the model."""
        run = self._trace.run
        return expanded_sum(run.parameters.values()) if run.n_params_model is None else run.n_params_model

    @cached_property
    def n_frozen(self) -> Dim:
        """Parameters of the model that are not trained."""
        run = self._trace.run
        frozen = {parameter for module in run.modules.values() for parameter in module.frozen}
        return expanded_sum(run.parameters[parameter] for parameter in frozen)

    @cached_property
    def n_tables(self) -> Dim:
        """Parameters of all tables that are looked up."""
        return self._n_looked_up(self._embeddings)

    @cached_property
    def n_positions(self) -> Dim:
        """Parameters of tables that are looked up, without that of the first one, which has the tokens."""
        return self.n_tables - self._n_looked_up(self._embeddings_of_inputs[:1])

    def _n_looked_up(self, calls: list[Call]) -> Dim:
        tables = {parameter for call in calls for parameter in call.parameters}
        return expanded_sum(self._trace.run.parameters[parameter] for parameter in tables)

    @property
    def _sizes(self) -> tuple[Dim, Dim, Dim, Dim]:
        if not self._attention:
            raise CostError("closed forms of transformers need a model with attention")
        return self._attention[0]


def _attention(trace: Trace) -> Iterator[tuple[Dim, Dim, Dim, Dim]]:
    """Yield batch, heads, queries and features of a head of each attention.

    Attention that a model spells as products is the product that a softmax reads.
    """
    made: dict[int, Layer] = {}
    for call in trace.calls:
        if call.phase != "forward":
            continue
        if call.layer.op == "attention":
            q = call.layer["q"].shape
            yield prod(q[:-3]), q[-3] if len(q) > 2 else 1, q[-2], q[-1]
        elif call.layer.op == "softmax" and (source := made.get(call.inputs[0] if call.inputs else 0)) is not None:
            q = source["x0"].shape
            yield prod(q[:-3]), q[-3] if len(q) > 2 else 1, q[-2], q[-1]
        origin = call.layer if call.layer.op == "matmul" else None
        if call.layer.op in ("add", "mul", "div", "masked_fill", "where", "view", "copy", "cast", "softmax"):
            origin = next((made[each] for each in call.inputs if each in made), None)
        if origin is not None and call.layer.op != "softmax":
            made.update(dict.fromkeys(call.outputs, origin))
