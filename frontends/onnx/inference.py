"""The supported operators, and shape inference of one node: by its shape rule, else by onnx.

Shapes that remain unknown come from the user's ``shapes``, else from declarations in the model, else they are new
symbols.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, TypeProto, checker, defs, helper, shape_inference

from costcore.ir import prod
from costcore.isolated import python_command
from costcore.numbers import Dim
from costcore.plugins import modules_with
from costcore.translate import Row, by_operator

from .node import Inferred, Node, Operator, Rule, check_size
from .schema import CONSTRAINTS, arguments_of_schemas, schema_signature
from .values import (
    DTYPES,
    MOST_FOLDED,
    Container,
    Dimensions,
    Shape,
    Undetermined,
    Value,
    declared_shape,
    declared_value,
    describe_size,
)

# All supported operators: rows and shape rules of the ONNX standard and of ONNX Runtime.
#
# The tables of ONNX Runtime are only imported for the first operator outside of the standard: most models have none.

ROW_MODULES = modules_with("ROWS", f"{__package__}.operators")

ROWS: tuple[Row, ...] = tuple(row for family in ROW_MODULES for row in family.ROWS)
"""Rows by family; arguments have the names of the operator's schema."""

_STANDARD_ROWS = by_operator(ROWS)


class RowTable(Mapping[str, Sequence[Row]]):
    """Rows by full operator name; arguments have the names of the operator's schema.

    Args:
        first: rows of plug-ins, which precede those of the frontend.
    """

    def __init__(self, first: Iterable[Row] = ()) -> None:
        self._first = by_operator(first)

    def __getitem__(self, key: str) -> Sequence[Row]:
        found = (*self._first.get(key, ()), *_own_rows(key))
        if not found:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        from .contrib import CONTRIB_ROWS

        yield from dict.fromkeys([*self._first, *_STANDARD_ROWS, *CONTRIB_ROWS])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _own_rows(key: str) -> Sequence[Row]:
    if _is_standard(key):
        return () if is_newer_than_onnx(key) else _STANDARD_ROWS.get(key, ())
    from .contrib import CONTRIB_ROWS

    return CONTRIB_ROWS.get(key, ())


def _is_standard(key: str) -> bool:
    return key in RULES or key in _STANDARD_ROWS


@lru_cache(maxsize=1 << 12)
def is_newer_than_onnx(key: str) -> bool:
    """Return whether an operator of the standard (full name) is newer than the installed onnx."""
    domain, _, op = key.partition("::")
    return _is_standard(key) and schema_signature(domain, op, defs.onnx_opset_version()) is None


def all_rows() -> tuple[Row, ...]:
    """Return the rows of all operators."""
    from .contrib import CONTRIB_ROWS

    return (*ROWS, *(row for own in CONTRIB_ROWS.values() for row in own))


def all_rules() -> dict[str, Rule]:
    """Return the shape rules of all operators by full name."""
    from .contrib import SPECS

    return {**RULES, **{key: spec.infer for key, spec in SPECS.items() if spec.infer is not None}}


@lru_cache(maxsize=1 << 12)
def operator(domain: str, op: str, version: int) -> Operator:
    """Return an operator in the given version of its domain.

    For an operator newer than ``version``, the newest version of its schema applies.
    """
    key = f"{domain}::{op}"
    if is_newer_than_onnx(key):
        return Operator(key, None, None, None)
    signature = schema_signature(domain, op, version)
    if not _is_standard(key):
        from .contrib import SPECS

        if (spec := SPECS.get(key)) is not None:
            return Operator(key, signature or spec.signature, spec.constraints, spec.infer)
    return Operator(key, signature, CONSTRAINTS.get(key), RULES.get(key))


@lru_cache(maxsize=1 << 12)
def arguments_of_any_version(key: str) -> frozenset[str]:
    """Return the names of the inputs and attributes of an operator in all versions.

    An operator without a schema has one argument for all its inputs, ``inputs``.
    """
    names = arguments_of_schemas(key)
    if not _is_standard(key):
        from .contrib import SPECS

        if key in SPECS:
            names |= {name for name, _ in SPECS[key].signature.inputs}
    return names or frozenset({"inputs"})


# Shape rules of the ONNX standard


RULE_MODULES = modules_with("RULES", f"{__package__}.operators")

RULES: Mapping[str, Rule] = {key: rule for family in RULE_MODULES for key, rule in family.RULES.items()}
"""Rules by full operator name."""


Declared = Callable[[str], Any]
"""A function that returns the declared ``TypeProto`` of a value by name, or None."""

Fit = Callable[[Node, str, Sequence[Value | None]], None]
"""A function ``fit(node, prefix, outputs)`` that sets the shapes from the user (``shapes=``).

``prefix`` precedes the names of values."""


def infer(
    node: Node, dims: Dimensions, declared: Declared, prefix: str = "", fit: Fit = lambda *_: None
) -> list[Value | None]:
    """Return the outputs of a node.

    They come from its shape rule, else from onnx's inference. Unknown shapes then come from the user, else from
    declarations in the model, else they are new symbols.

    Args:
        node: the node with known inputs.
        dims: the named dimensions.
        declared: returns the type that the model declares for a value.
        prefix: the prefix of the names of values.
        fit: sets the shapes of outputs that the user gave.

    Raises:
        CostError: if the node is invalid.
    """
    outputs: list[Value | None] = []
    found = _infer_by_rule(node) or infer_by_onnx(node, dims)
    values = [*found, *(Value(None, "") for _ in range(len(node.proto.output) - len(found)))]
    fit(node, prefix, values)
    for name, value in zip(node.proto.output, values, strict=False):
        if not name:
            outputs.append(None)
            continue
        declaration = declared(name)
        if value.shape is None and not isinstance(value, Container) and _is_container(declaration):
            value = declared_value(declaration, dims, f"{prefix}{name}")
        if not isinstance(value, Container):
            _complete(value, declaration, f"{prefix}{name}", dims, node)
            check_size(value, node)
        outputs.append(value)
    return outputs


def _is_container(declaration: Any) -> bool:
    return declaration is not None and declaration.WhichOneof("value") not in (None, "tensor_type")


def _infer_by_rule(node: Node) -> Sequence[Value]:
    # A rule fails if it needs unknown elements.
    if node.rule is None:
        return ()
    try:
        found = node.rule(node)
    except Undetermined:
        return ()
    if isinstance(found, Inferred):
        node.inferred = found
        return found.outputs
    return found


def _complete(value: Value, declared: Any, name: str, dims: Dimensions, node: Node) -> None:
    kind = declared.tensor_type if declared is not None and declared.HasField("tensor_type") else None
    if not value.dtype:
        value.dtype = DTYPES.get(kind.elem_type, "float32") if kind is not None else "float32"
    declared_dims = declared_shape(kind, dims)
    if value.shape is None:
        if declared_dims is None:
            return
        value.shape = declared_dims
    elif None not in value.shape:
        return
    if declared_dims is None or len(declared_dims) != len(value.shape):
        declared_dims = (None,) * len(value.shape)
    shape = [declared_dims[i] if d is None else d for i, d in enumerate(value.shape)]
    for i, d in enumerate(shape):
        if d is None:
            shape[i] = length = dims.fresh(f"{name}_{i}")
            node.assumed.append(f"the size of axis {i} of {name!r} depends on data: assumed {describe_size(length)}")
    value.shape = tuple(shape)


# Inference by onnx, for one node without a rule


MOST_UNKNOWN = 1024
"""The maximum length of unknown axes or sizes that onnx gets: it creates a dimension for each entry (1.21)."""

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def infer_by_onnx(node: Node, dims: Dimensions) -> Sequence[Value]:
    """Return the outputs that onnx infers from this node alone; empty if it fails."""
    if node.schema is None or any(a.g.node or a.graphs for a in node.proto.attribute):
        return ()
    if node.lacks_elements and any(map(_is_long_list, node.inputs)):
        return ()
    node.reads_elements = True
    types: dict[str, Any] = {}
    data: dict[str, Any] = {}
    names: dict[Dim, str] = {}
    for name, value in zip(node.proto.input, node.inputs, strict=False):
        if value is None:
            continue
        if value.shape is None:
            return ()
        types[name] = helper.make_tensor_type_proto(NUMBERS[value.dtype], list(_written(value.shape, names)))
        if value.data is not None and all(isinstance(element, (int, float)) for element in value.data.flat):
            data[name] = helper.make_tensor(name, NUMBERS[value.dtype], value.data.shape, value.data.ravel().tolist())
    try:
        found = shape_inference.infer_node_outputs(node.schema, node.proto, types, data)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError, TypeError, ValueError):
        return ()
    symbols = {name: d for d, name in names.items()}
    return [_read(found.get(name), symbols) for name in node.proto.output]


def _is_long_list(value: Value | None) -> bool:
    if value is None or value.data is not None or value.dtype != "int64" or not value.shape:
        return False
    return len(value.shape) == 1 and isinstance(value.shape[0], int) and value.shape[0] > MOST_UNKNOWN


def _written(shape: Iterable[Dim], names: dict[Dim, str]) -> Iterable[Any]:
    # Sizes that fit in int64, and a name for every other dimension
    for d in shape:
        yield d if isinstance(d, int) and d < 1 << 63 else names.setdefault(d, f"d{len(names)}")


def _read(found: Any, symbols: Mapping[str, Dim]) -> Value:
    if not isinstance(found, TypeProto) or not found.HasField("tensor_type"):
        return Value(None, "")
    kind = found.tensor_type
    dtype = DTYPES.get(kind.elem_type, "") if kind.elem_type != TensorProto.UNDEFINED else ""
    if not kind.HasField("shape"):
        return Value(None, dtype)
    shape = (d.dim_value if d.HasField("dim_value") else symbols.get(d.dim_param) for d in kind.shape.dim)
    return Value(tuple(shape), dtype)


# Cross-check with onnx's own inference of the whole model


SECONDS, BYTES = 60, 4 << 30
"""Limits of onnx's inference: seconds and bytes."""

CHILD = f"""
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({BYTES}, {BYTES}))
except ImportError:
    pass
import onnx
model = onnx.ModelProto.FromString(sys.stdin.buffer.read())
sys.stdout.buffer.write(onnx.shape_inference.infer_shapes(model, data_prop=False).SerializeToString())
"""

Note = Callable[[str], None]


def differs(shape: Shape | None, kind: Any) -> bool:
    """Return whether a tensor type (``TypeProto.Tensor``) has another rank or other sizes than ``shape``."""
    if shape is None or not kind.HasField("shape"):
        return False
    dims = kind.shape.dim
    if len(dims) != len(shape):
        return True
    return any(
        isinstance(mine, int) and d.HasField("dim_value") and 0 <= d.dim_value != mine
        for mine, d in zip(shape, dims, strict=True)
    )


def shape_text(kind: Any) -> str:
    """Return the shape of a tensor type (``TypeProto.Tensor``) as text."""
    dims = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim]
    return f"({', '.join(dims)}{',' * (len(dims) == 1)})"


def compare_with_onnx(proto: Any, values: Mapping[str, Value], note: Note) -> None:
    """Note every value of the main graph for which onnx infers another shape.

    onnx runs in a subprocess with limited time and memory, because a model can crash its native code. It gets a copy of
    the model without weights and declared shapes.

    Args:
        proto: the model.
        values: its values by name, as inferred here.
        note: receives the notes.
    """
    stripped = without_weights(proto, values)
    try:
        done = subprocess.run(
            python_command(CHILD), input=stripped.SerializeToString(), capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        note(f"onnx's own inference of shapes was stopped after {SECONDS} seconds")
        return
    found = ModelProto()
    try:
        found.ParseFromString(done.stdout)
    except DecodeError:
        done.returncode = done.returncode or 1
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        note(f"onnx's own inference of shapes failed: {last[0][:300]}")
        return
    for entry in (*found.graph.value_info, *found.graph.output):
        value = values.get(entry.name)
        if value is not None and entry.type.HasField("tensor_type") and differs(value.shape, entry.type.tensor_type):
            theirs = shape_text(entry.type.tensor_type)
            note(f"onnx infers the shape {theirs} of {entry.name!r}; costcore infers {value.shape}")


def without_weights(proto: Any, values: Mapping[str, Value]) -> Any:
    """Return a copy of the model without weights and inner shapes; inputs and initializers keep theirs."""
    stripped = ModelProto(ir_version=proto.ir_version)
    stripped.opset_import.extend(proto.opset_import)
    stripped.functions.extend(proto.functions)
    stripped.graph.name = proto.graph.name
    large = []
    for node in proto.graph.node:
        tensors = [a.t for a in node.attribute if a.HasField("t")] if node.op_type == "Constant" else []
        if tensors and prod(tensors[0].dims) > MOST_FOLDED:
            large.append((node.output[0], tensors[0]))
        else:
            stripped.graph.node.add().CopyFrom(node)
    for name, tensor in large:
        stripped.graph.initializer.add(name=name, dims=tensor.dims, data_type=tensor.data_type)
    for tensor in proto.graph.initializer:
        if prod(tensor.dims) <= MOST_FOLDED:
            stripped.graph.initializer.add().CopyFrom(tensor)
        else:
            stripped.graph.initializer.add(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
    stripped.graph.sparse_initializer.extend(proto.graph.sparse_initializer)
    for entry in proto.graph.input:
        copy = stripped.graph.input.add()
        copy.CopyFrom(entry)
        value = values.get(entry.name)
        if value is not None and value.shape is not None and copy.type.HasField("tensor_type"):
            _write(copy.type.tensor_type.shape, value.shape)
    for entry in proto.graph.output:
        stripped.graph.output.add(name=entry.name)
    return stripped


def _write(shape: Any, dims: Iterable[Dim]) -> None:
    del shape.dim[:]
    for d in dims:
        if isinstance(d, int) and d < 1 << 63:
            shape.dim.add(dim_value=d)
        else:
            shape.dim.add(dim_param=str(d))
