"""Declaration of an operator that ONNX Runtime adds to the standard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import AttributeProto

from costcore.translate import Arguments, Row, Source

from ..node import Rule
from ..schema import Constraints, Signature

MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"
"""Domain of operators on blocks of channels."""

NHWC = "com.ms.internal.nhwc"
"""Domain of operators with channels last, written by ONNX Runtime's layout transformer."""

EXTENSIONS = ("ai.onnx.contrib", "com.microsoft.extensions")
"""Domains of the operators of onnxruntime-extensions."""

QONNX = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general", "finn")
"""Domains of QONNX: its own, that of older exports of Brevitas, and those of older versions of FINN."""

NEWEST = 99
"""Version of these operators: rules and rows shared with the standard treat them as its newest version."""


@dataclass(frozen=True)
class OperatorSpec:
    """One operator of ONNX Runtime: its inputs, attributes, constraints, shape rule and rows.

    Source: microsoft/onnxruntime, docs/ContribOperators.md (1.31), and its schemas of the nchwc and nhwc domains.

    Attributes:
        name: operator type.
        inputs: names of the inputs, in order; ``*`` marks the variadic one.
        required: number of leading inputs that must be given.
        attributes: names of the attributes that hold one integer.
        constraints: values and ranks that the operator supports.
        infer: shape rule; None if the operator holds graphs, which the walk counts.
        rows: rows made by :func:`row`. An operand whose source is an input that the operator does not have is dropped,
            so that operators can share a row.
        domain: the operator's domain.
    """

    name: str
    inputs: str
    required: int = 1
    attributes: str = ""
    constraints: Constraints | None = None
    infer: Rule | None = None
    rows: Sequence[Row] = ()
    domain: str = MICROSOFT

    @property
    def key(self) -> str:
        """Full name, ``com.microsoft::FusedConv``."""
        return f"{self.domain}::{self.name}"

    @property
    def signature(self) -> Signature:
        """The signature that a schema of this operator would have."""
        names = tuple((name.removeprefix("*"), name.startswith("*")) for name in self.inputs.split())
        types = dict.fromkeys(self.attributes.split(), int(AttributeProto.INT))
        return Signature(NEWEST, names, {}, None, types, least=self.required)

    @property
    def own_rows(self) -> Iterator[Row]:
        """Rows with the operator's name, without operands that the operator does not have."""
        names = {name for name, _ in self.signature.inputs}
        for shared in self.rows:
            operands = {k: v for k, v in shared.inputs.items() if not isinstance(v, str) or v in names}
            yield replace(shared, native=self.key, inputs=operands)


def row(
    op: str | Callable[[Arguments], str],
    inputs: Mapping[str, Source] | None = None,
    attrs: Mapping[str, Source] | None = None,
    **rest: Any,
) -> Row:
    """Return a row for the operator of the spec that holds it, and so without a name."""
    return Row("", op, inputs or {}, attrs or {}, **rest)
