"""Plans: how calls of an operator are treated, decided once per operator.

The sections cover the decisions of a plan: control flow, flex attention, tensors saved for the backward pass, composite
operators that are one call, replay without a kernel, decomposition, bookkeeping, process groups.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from functools import partial, reduce
from inspect import signature
from types import FrameType, FunctionType
from typing import Any, Protocol, TypeAlias, get_args

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from costcore.registry import calculators, rows
from costcore.translate import Arguments, Row, Translator

from ..meta import replacements
from ..meta.branches import ASSUMED_RESULTS
from ..meta.fast_kernels import FAST_KERNELS
from ..meta.propagate_values import PropagationRule
from ..meta.replacements import LAYOUTS_ON_CPU, WITHOUT_META_KERNEL, laid_out, unless_on_meta
from ..meta.values import KNOWN_RESULTS, NUMBERS, KnownResult, all_tensors, is_plain_meta
from ..naming import arguments_of, is_in_place, native_name, type_name
from ..tensors import dtype_name, is_packed, operand


class OperatorPlan:
    """How calls of one operator are treated.

    Args:
        func: the operator, an ``OpOverload``, a ``HigherOrderOperator`` or a function of ``torch.nn.functional``.
        row_names: the operator names that have mapping rules (rows).

    Attributes:
        native: its full name, ``aten::add`` also for the in-place operator.
        shown: its full name as it ran, ``aten::add_`` for the in-place operator.
        overload: the name of its overload; ``""`` for the default.
        type: its name in reports.
        row: the name under which its rows are found.
        run: the C function that runs it, without the Python code of ``OpOverload``; ``func`` if it has none.
        is_recorded: whether its calls are recorded.
        is_plain: whether its calls are recorded, and none of ``assumed_result``, ``decompose``, ``is_control_flow``,
            ``has_packed_weight``, ``is_random`` and ``is_fill`` applies.
        is_random: whether it draws random numbers.
        is_fill: whether it makes a tensor of one number, or an empty one.
        is_alias: whether it returns its input as another tensor object.
        is_clone: whether it is ``aten::clone``, by which autograd copies a saved tensor before an in-place operator.
        is_control_flow: whether its arguments are functions, which are run and recorded in its place.
        decompose: whether the operators it consists of are recorded in its place.
        assumed_result: returns the result on meta tensors if it depends on data, and the assumption.
        known_result: returns the result on meta tensors if it depends on data that is known, or None.
        fast_kernel: returns the result on meta tensors without the kernel, or None.
        has_varying_shapes: whether the shapes of its outputs depend on data, so that no call repeats another.
        saves_for_backward: whether it saves tensors for its backward pass besides its outputs.
        replay_rule: decides how the result of a call can be repeated; see :func:`replay_rule`.
        follow_rule: computes values of its results from values of its operands; None for a higher-order operator.
        arguments: name and default of its arguments, in order.
        written: positions and names of the arguments it writes to.
        returns_written: whether its results are the arguments that it writes to, not its return values.
        has_packed_weight: whether an operand is a weight that PyTorch packed into an object.
    """

    decompose: bool
    func: Any
    has_packed_weight: bool
    has_varying_shapes: bool
    is_alias: bool
    is_clone: bool
    is_control_flow: bool
    is_fill: bool
    is_plain: bool
    is_random: bool
    is_recorded: bool
    native: str
    overload: str
    returns_written: bool
    row: str
    saves_for_backward: bool
    shown: str
    type: str

    __slots__ = (
        "arguments",
        "assumed_result",
        "decompose",
        "fast_kernel",
        "follow_rule",
        "func",
        "has_packed_weight",
        "has_varying_shapes",
        "is_alias",
        "is_clone",
        "is_control_flow",
        "is_fill",
        "is_plain",
        "is_random",
        "is_recorded",
        "known_result",
        "native",
        "overload",
        "replay_rule",
        "returns_written",
        "row",
        "run",
        "saves_for_backward",
        "shown",
        "type",
        "written",
    )

    def __init__(self, func: Any, row_names: Collection[str]) -> None:
        self.func = func
        self.run = func._op if type(func) is OpOverload else func
        self.native = native_name(func)
        self.shown = self.native
        self.overload = ""
        self.type = type_name(self.native)
        self.row = self.native
        self.is_recorded = self.native not in BOOKKEEPING and not self.native.startswith(BOOKKEEPING_NAMES)
        self.is_alias = self.native in ALIASES
        self.is_clone = self.native == "aten::clone"
        self.saves_for_backward = self.native in SAVING
        self.is_control_flow = isinstance(func, HigherOrderOperator) and func.name() in CONTROL_FLOW
        self.decompose = False
        self.assumed_result: Callable[..., Any] | None = None
        self.known_result: KnownResult | None = None
        self.fast_kernel: Callable[..., Any] | None = None
        self.has_varying_shapes = False
        self.is_random = False
        self.has_packed_weight = False
        self.replay_rule: ReplayRule | None = None
        self.follow_rule: PropagationRule | None = None
        self.arguments: tuple[tuple[str, Any], ...] = ()
        self.written: tuple[tuple[int, str], ...] = ()
        self.returns_written = False
        if isinstance(func, OpOverload):
            self._read_schema(func, row_names)
        elif isinstance(func, FunctionType):
            self.arguments = tuple((name, value.default) for name, value in signature(func).parameters.items())
        elif func.name() == FLEX:
            self.row = FLEX_ROW
            self.arguments = tuple((name, None) for name in FLEX_ARGUMENTS)
        is_special = self.assumed_result or self.decompose or self.is_control_flow or self.has_packed_weight
        self.is_fill = self.native in FILLS and self.overload != "out"
        is_special = is_special or self.is_random or self.is_fill
        self.is_plain = self.is_recorded and not is_special

    def _read_schema(self, func: OpOverload, row_names: Collection[str]) -> None:
        schema = func._schema
        name, overload = schema.name, schema.overload_name
        self.overload = "" if overload == "default" else overload
        self.shown += "_" * is_in_place(name)
        self.assumed_result = ASSUMED_RESULTS.get(name)
        self.known_result = KNOWN_RESULTS.get(name)
        self.fast_kernel = FAST_KERNELS.get(f"{name}.{self.overload}" if self.overload else name)
        names = (name, name[:-1]) if name.endswith("_") and not name.endswith("__") else (name,)
        if name.startswith("prims::"):
            names = (*names, name.replace("prims::", "aten::"))
        candidates = [f"{word}.{overload}" for word in names if overload] + [*names, self.native]
        self.row = next((word for word in candidates if word in row_names), self.native)
        if name in WITHOUT_META_KERNEL:
            self.run = unless_on_meta(self.run)
        if name in LAYOUTS_ON_CPU and not self.overload:
            self.run = laid_out(self.run, LAYOUTS_ON_CPU[name])
        self.is_random = torch.Tag.nondeterministic_seeded in func.tags
        self.replay_rule = replay_rule(func)
        self.has_varying_shapes = torch.Tag.dynamic_output_shape in func.tags or name in DATA_DEPENDENT_SHAPES
        arguments = schema.arguments  # a new list at every access
        self.arguments = tuple((argument.name, argument.default_value) for argument in arguments)
        self.has_packed_weight = any(is_packed(str(argument.type)) for argument in arguments)
        self.written = tuple(
            (position, argument.name)
            for position, argument in enumerate(arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        group_argument = written_argument(name)
        if group_argument is not None:
            self.returns_written = True
            self.written = tuple(
                (i, argument.name) for i, argument in enumerate(arguments) if argument.name == group_argument
            )
        self.follow_rule = PropagationRule(func, self.arguments, self.written)
        composite = name.removeprefix("aten::") + (f".{overload}" if overload else "")
        self.decompose = composite not in COMPOSITES and self.is_recorded and is_decomposed(func)

    def with_scalar_tensors(self, args: Sequence[Any]) -> list[Any] | None:
        """Return arguments with numbers converted to tensors if the schema requires it; None if it does not.

        A traced model computes sizes with 0-d tensors. PyTorch passes them to a dispatch mode as numbers, which the
        operator itself does not accept.
        """
        if not isinstance(self.func, OpOverload):
            return None
        wanted = [str(argument.type) == "Tensor" for argument in self.func._schema.arguments]
        numbers = [i for i, value in enumerate(args) if wanted[i] and type(value) in NUMBERS]
        return [torch.scalar_tensor(x) if i in numbers else x for i, x in enumerate(args)] if numbers else None

    def written_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the arguments that a call writes to."""
        found: list[Any] = []
        for position, name in self.written:
            value = args[position] if position < len(args) else kwargs.get(name)
            found += value if isinstance(value, (list, tuple)) else (value,)
        return found

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return all arguments by name, defaults included."""
        if isinstance(self.func, HigherOrderOperator) and not self.arguments:
            return {**{f"x{i}": value for i, value in enumerate(args)}, **kwargs}
        bound = dict(self.arguments)
        bound.update(zip((name for name, _ in self.arguments), args, strict=False))
        bound.update(kwargs)
        return bound


class OperatorPlans:
    """The plans of all operators, and the mapping rules (rows) they depend on.

    Attributes:
        by_id: plans by ``id`` of the operator, because hashing an operator runs Python code, which is slow.
        names: the full names of their operators, without the mark of in-place operators.
        translator: turns operator calls into layers by the rows.
    """

    translator: Translator

    def __init__(self) -> None:
        self._rows = rows("pytorch")
        self._calculators = calculators()
        self._row_names = frozenset(row.native for row in self._rows)
        self.translator = Translator(self._rows, operand, names=arguments_of)
        self.by_id: dict[int, OperatorPlan] = {}
        self.names: set[str] = set()

    @property
    def is_current(self) -> bool:
        """Whether rows and calculators are the same as when the plans were made."""
        return self._rows is rows("pytorch") and self._calculators is calculators()

    def of(self, operator: Any) -> OperatorPlan:
        """Return the plan of an operator."""
        plan = self.by_id.get(id(operator))
        if plan is None:
            plan = self.by_id[id(operator)] = OperatorPlan(operator, self._row_names)
            self.names.add(plan.native)
        return plan

    def add_row(self, row: Row) -> None:
        """Use this row, and no other, for the operator that it names."""
        self.translator.replace_row(row)


_plans: OperatorPlans | None = None


def operator_plans() -> OperatorPlans:
    """Return the plans of all operators, rebuilt after a plug-in changed the rows or the calculators.

    Raises:
        CostError: for a broken plug-in.
    """
    global _plans
    if _plans is None or not _plans.is_current:
        _plans = OperatorPlans()
    return _plans


# The call that raised an error, for messages with the shapes of its operands


MAX_OPERANDS = 6
"""The maximum number of operands of a message."""


class RefusedCalls:
    """The outermost operator that raised.

    Attributes:
        error: the exception that it raised.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._text = ""

    def note(self, error: BaseException, plan: OperatorPlan, args: Any, kwargs: Any) -> None:
        """Record that a call raised ``error``."""
        self.error = error
        self._text = _described(plan, args, kwargs)

    def described(self, error: BaseException) -> str:
        """Return the operator that raised ``error`` and its operands; empty if no operator did."""
        return self._text if error is self.error else ""


def _described(plan: OperatorPlan, args: Any, kwargs: Any) -> str:
    named = [
        (f"{name}[{i}]" if isinstance(value, (list, tuple)) else name, tensor)
        for name, value in plan.bind(tuple(args), dict(kwargs or {})).items()
        for i, tensor in enumerate(all_tensors((value,)))
    ]
    are_mixed = len({tensor.dtype for _, tensor in named}) > 1
    shown = [f"{name} {_shape(tensor, are_mixed)}" for name, tensor in named[:MAX_OPERANDS]]
    more = f" and {len(named) - MAX_OPERANDS} more" if len(named) > MAX_OPERANDS else ""
    return f"operands of {plan.type}: {', '.join(shown)}{more}" if shown else ""


def _shape(tensor: Tensor, has_dtype: bool) -> str:
    shape = str(tuple(tensor.shape))
    return f"{shape} {dtype_name(tensor.dtype)}" if has_dtype else shape


# Assignments of a number, ``x[0] = 1``
#
# With data PyTorch fills the elements. On the meta device it makes a tensor of the number, views it in the shape of the
# elements, and copies it there. The copy is recorded as the fill, and the views are not recorded. If the number is
# assigned to one element, ``x[0, 0] = 1`` of a matrix, PyTorch copies it in a real run too: this copy is no fill.


VIEWS = frozenset(("aten::select", "aten::slice", "aten::unsqueeze", "aten::view", "aten::expand"))
"""The operators between the tensor of the number and its copy: they select the elements, and view the number."""


class FillStep(Enum):
    """The role of a call in an assignment of a number."""

    NONE = auto()
    VIEW = auto()
    COPY = auto()


class ScalarFills:
    """Follows the tensor of a number from its creation to its copy.

    Attributes:
        number: the tensor of a number that may be about to be copied.
    """

    def __init__(self) -> None:
        self.number: Tensor | None = None

    def watch_unrecorded(self, plan: OperatorPlan, result: object) -> None:
        """Follow the result of an unrecorded operator if it is the tensor of a number."""
        if plan.native == "aten::scalar_tensor" and isinstance(result, Tensor) and result.is_meta:
            self.number = result

    def step_of(self, plan: OperatorPlan, tensors: Sequence[Tensor]) -> FillStep:
        """Return the role of a call for the followed number."""
        is_read = len(tensors) > 0 and self.number is not None and _memory(tensors[-1]) == _memory(self.number)
        if plan.native in VIEWS:
            return FillStep.VIEW if is_read else FillStep.NONE
        self.number = None
        return FillStep.COPY if is_read and plan.native == "aten::copy" and tensors[0].dim() else FillStep.NONE


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.is_meta else 0


# Control flow, and other operators on functions
#
# PyTorch would compile them. Here the functions are run as written, and the operators inside them are recorded.


class Data(Protocol):
    """Knowledge about the data of meta tensors."""

    def is_known(self, tensor: Tensor) -> bool:
        """Return whether the values of a tensor are known."""
        ...

    def assume(self, assumption: str) -> None:
        """Note an assumption."""
        ...


def _cond(
    data: Data, pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()
) -> Any:
    return true_fn(*operands) if pred else false_fn(*operands)


def _while_loop(
    data: Data,
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
    *_: Any,
    **__: Any,
) -> Any:
    carried = tuple(carried_inputs)
    while True:
        condition = cond_fn(*carried, *additional_inputs)
        is_unknown = isinstance(condition, Tensor) and not data.is_known(condition)
        if is_unknown:
            data.assume("a loop with an unknown condition was assumed to run once")
        elif not condition:
            return carried
        carried = tuple(body_fn(*carried, *additional_inputs))
        if is_unknown:
            return carried


def _scan(
    data: Data,
    combine_fn: Callable[..., Any],
    init: Sequence[Any],
    xs: Sequence[Tensor],
    *rest: Any,
    additional_inputs: Sequence[Any] = (),
    **_: Any,
) -> Any:
    # Before PyTorch 2.7 the axis and the direction precede ``additional_inputs``.
    dim = next((value for value in rest if type(value) is int), 0)
    additional_inputs = next((value for value in rest if isinstance(value, (list, tuple))), additional_inputs)
    carried, steps = list(init), []
    for i in range(xs[0].shape[dim]):
        returned = combine_fn(*carried, *(x.select(dim, i) for x in xs), *additional_inputs)
        carried = list(returned[: len(carried)])
        steps.append(returned[len(carried) :])
    return (*carried, *_stacked(steps, dim))


def _map(data: Data, function: Callable[..., Any], xs: Sequence[Tensor], constants: Sequence[Any], **_: Any) -> Any:
    return _stacked([function(*(x.select(0, i) for x in xs), *constants) for i in range(xs[0].shape[0])])


def _stacked(steps: Sequence[Sequence[Any]], dim: int = 0) -> tuple[Any, ...]:
    return tuple(
        [
            torch.stack(outputs, dim) if isinstance(outputs[0], Tensor) else outputs[0]
            for outputs in zip(*steps, strict=True)
        ]
    )


def _wrap(data: Data, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _out_dtype(data: Data, operator: Any, dtype: torch.dtype, *args: Any) -> Any:
    # GPUs have a kernel for int8 products. Other dtypes are converted first.
    if operator is torch.ops.aten.mm.default and dtype is torch.int32 and all(x.dtype is torch.int8 for x in args):
        return torch._int_mm(*args)
    tensors = [x.dtype for x in args if isinstance(x, Tensor)]
    wide = reduce(torch.promote_types, tensors, dtype)
    return operator(*(x.to(wide) if isinstance(x, Tensor) else x for x in args)).to(dtype)


CONTROL_FLOW: Mapping[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "wrap": _wrap,
    "out_dtype": _out_dtype,
}
"""Functions that run a control flow operator, by its name; the first argument is a :class:`Data`.

Later versions of PyTorch also pass options of the compiler, which do not change what runs.
"""


# Flex attention, counted as attention between all pairs


FLEX = "flex_attention"

FLEX_ARGUMENTS = ("query", "key", "value", "score_mod", "block_mask", "scale")

FLEX_ROW = "aten::scaled_dot_product_attention"
"""The operator whose mapping rule (row) translates flex attention."""

FLEX_ASSUMPTION = "flex_attention is costed as attention between all pairs, without its score and mask functions"


def flex_on_meta(
    operator: Any, query: Tensor, key: Tensor, value: Tensor, score_mod: Any, mask: Any, scale: float
) -> Any:
    """Return the results of ``flex_attention`` on the meta device, which PyTorch does not support.

    These are the output and one number per row, in later versions two.
    """
    output = scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=query.shape[-3] != key.shape[-3])
    row = query.new_empty(query.shape[:-1], dtype=torch.float32)
    returned = get_args(signature(type(operator).__call__).return_annotation)
    return (output, *[torch.empty_like(row) for _ in returned[1:]])


# Tensors saved for the backward pass besides the outputs: indices, masks, statistics
#
# They are written only if a backward pass can follow, or if the user asks for them.


_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")

_FAKE_QUANTIZATIONS = (
    "fake_quantize_per_tensor_affine_cachemask",
    "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)

_SAVING_OPERANDS = ("rrelu_with_noise", "rrelu_with_noise_", "embedding_bag", "_embedding_bag")

_SAVING_STATISTICS = (
    *("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "instance_norm"),
    *("layer_norm", "native_layer_norm", "group_norm", "native_group_norm", "_weight_norm_interface"),
    "cross_entropy_loss",
)

_BY_OPERAND = frozenset(
    f"aten::{name}"
    for name in (
        "scaled_dot_product_attention",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "mkldnn_rnn_layer_backward",
    )
)
"""The operators for which it matters which operand needs a gradient."""

SAVING = _BY_OPERAND | frozenset(
    f"aten::{name}"
    for name in (
        *(f"{kind}max_pool{rank}d" for kind in ("", "adaptive_", "fractional_") for rank in (1, 2, 3)),
        *_DROPOUTS,
        *_FAKE_QUANTIZATIONS,
        *_SAVING_STATISTICS,
        *_SAVING_OPERANDS,
        *(f"{name}_" for name in _DROPOUTS),
    )
)
"""The operators that save tensors besides their outputs if a backward pass can follow."""

_WITHOUT_INDICES = frozenset(
    getattr(functional, f"_{kind}_max_pool{rank}d").__code__
    for kind, rank in (("adaptive", 1), ("adaptive", 2), ("adaptive", 3), ("fractional", 2), ("fractional", 3))
)
"""The functions of PyTorch that call a max pooling operator, which always returns indices, and drop the indices."""


def is_differentiated(tensor: Tensor) -> bool:
    """Return whether a backward pass can follow the operator that reads ``tensor``."""
    return bool(torch.is_grad_enabled() and tensor.requires_grad)


def any_is_differentiated(*values: object) -> bool:
    """Return whether a backward pass can follow the operator that reads these values, some of them tensors."""
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in values)


def statistics_dtype(x: Tensor, weight: Tensor | None = None) -> str:
    """Return the dtype of the statistics of a norm or of attention.

    It is the dtype of ``x``. For 16-bit floats, it is float32; on a CPU the dtype of the weight, if any, or of ``x``.

    Args:
        x: the operand whose statistics they are.
        weight: the weight; None if there is none.
    """
    if x.dtype not in (torch.float16, torch.bfloat16):
        return dtype_name(x.dtype)
    return dtype_name(x.dtype if weight is None else weight.dtype) if x.is_cpu else "float32"


def indices_are_dropped() -> bool:
    """Return whether the running operator was called for its maxima alone, by ``return_indices=False``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _WITHOUT_INDICES:
        frame = frame.f_back
    return frame is not None


def saved_key(native: str, tensors: Sequence[Tensor]) -> tuple[bool, ...]:
    """Return the part of a call's key for operators in :data:`SAVING`: which gradients are needed."""
    if native in _BY_OPERAND:
        return any_is_differentiated(*tensors), replacements.is_allowed(), *[x.requires_grad for x in tensors]
    returns_indices = "adaptive_max" in native or "fractional_max" in native
    return any_is_differentiated(*tensors), returns_indices and indices_are_dropped()


# Composite operators recorded as one call


_COMPOSITE_NAMES = """
linear matmul einsum bilinear
conv1d conv2d conv3d conv1d.padding conv2d.padding conv3d.padding
conv_transpose1d conv_transpose2d.input conv_transpose3d.input
batch_norm layer_norm group_norm instance_norm rms_norm _fused_rms_norm scaled_dot_product_attention
lstm.input lstm.data gru.input gru.data rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data
lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
softmax.int log_softmax.int selu selu_ relu6 relu6_ log_sigmoid prelu
dropout dropout_ feature_dropout feature_dropout_ alpha_dropout alpha_dropout_
feature_alpha_dropout feature_alpha_dropout_
max_pool1d max_pool2d max_pool3d max_pool1d_with_indices avg_pool1d
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec
_upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec
upsample_linear1d.vec upsample_bilinear2d.vec upsample_trilinear3d.vec upsample_bicubic2d.vec
embedding_bag embedding_bag.padding_idx one_hot
cross_entropy_loss nll_loss_nd nll_loss nll_loss2d l1_loss kl_div ctc_loss.IntList ctc_loss.Tensor
cosine_similarity pairwise_distance cosine_embedding_loss hinge_embedding_loss margin_ranking_loss
triplet_margin_loss poisson_nll_loss
mish_backward native_channel_shuffle linalg_svdvals linalg_eigvalsh
"""

COMPOSITES = frozenset(_COMPOSITE_NAMES.split())
"""The composite operators that are recorded as one call: ``name`` or ``name.overload`` of ``aten``."""

WITHOUT_GRADIENT = frozenset(("linalg_svdvals", "linalg_eigvalsh"))
"""The members of :data:`COMPOSITES` that are one call only if no gradient is needed.

PyTorch then computes only singular values or eigenvalues. Inside a dispatch mode, it assumes that a gradient may be
needed and also computes the vectors, by another algorithm with other rounding errors.
"""

KERNELS_OF_CPU = frozenset((*WITHOUT_GRADIENT, "mish_backward", "native_channel_shuffle"))
"""The members of :data:`COMPOSITES` that allocate inner results on the meta device, but not on a CPU."""

FILLS = frozenset(
    f"aten::{prefix}{name}{suffix}"
    for name in ("zeros", "ones", "full", "empty")
    for prefix, suffix in (("", ""), ("", "_like"), ("new_", ""))
)
"""The operators that make a tensor of one number, or an empty one."""

ON_ONE_DEVICE = ("stft", "stft.center", "istft", "binary_cross_entropy_with_logits")
"""Operators that fail, or whose gradients do, if only some operands are on the meta device.

Functions may refer to tensors that are not copied with the model: the window of a loss, the weights of classes.
"""

_RECURRENT = (f"aten::{name}{cell}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell"))

ADDS_IN_PLACE = frozenset(("aten::linear", *_RECURRENT))
"""The operators that add a bias in place to a product that they made, but not inside a dispatch mode."""

FAST_PATHS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
"""The fused operators of ``aten`` that modules call in inference."""


def exists(name: str) -> bool:
    """Return whether this version of PyTorch has the operator of a name in :data:`COMPOSITES`."""
    return bool(torch._C._dispatch_has_kernel(f"aten::{name}"))


def overload(name: str) -> torch._ops.OpOverload:
    """Return the operator of a name in :data:`COMPOSITES` that exists."""
    packet_name, _, overload_name = name.partition(".")
    operator: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, packet_name), overload_name or "default")
    return operator


# Replay: results of repeated calls on meta tensors, without the kernel
#
# Many kernels of the meta device are written in Python and cost more time than everything else. A call with the same
# operator, shapes, strides, dtypes and arguments returns the same kind of tensor, so its repetition needs no kernel.


Replay: TypeAlias = "Callable[[Sequence[Any]], Any]"
"""Returns the result of a repeated call from its positional arguments."""

ReplayRule: TypeAlias = "Callable[[Sequence[Any], Sequence[Tensor], Any], Replay | None]"
"""Returns the replay of a call from its positional arguments, tensors and result; None: it must run again."""


def replay_rule(func: Any) -> ReplayRule:
    """Return the replay rule that the schema of an operator implies."""
    schema = func._schema
    arguments = schema.arguments
    aliased = [i for i, argument in enumerate(arguments) if argument.alias_info is not None]
    returned = schema.returns
    if not returned or torch.Tag.inplace_view in func.tags:
        return _no_replay
    if not aliased:
        is_new = all(value.alias_info is None and str(value.type) == "Tensor" for value in returned)
        return _replay_new if is_new else _no_replay
    if aliased != [0] or len(returned) != 1 or not schema.name.startswith("aten::"):
        return _no_replay
    if arguments[0].alias_info.is_write:
        is_in_place = str(returned[0].type) == "Tensor" and schema.name.endswith("_") and not schema.name.endswith("__")
        return _replay_in_place if is_in_place else _no_replay
    return _no_replay if schema.name == "aten::as_strided" else _replay_view  # as_strided ignores the view's offset


def _no_replay(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    return None


def _replay_new(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    # Some operators return their input although their schema does not say so (dropout in inference, a cast to the same
    # dtype): they are not replayed. Neither are results that share memory, or do not fill it.
    outputs = (result,) if isinstance(result, Tensor) else result
    if not tensors or not isinstance(outputs, tuple) or not all(map(is_plain_meta, (*tensors, *outputs))):
        return None
    inputs = {tensor.untyped_storage()._cdata for tensor in tensors}
    made = {tensor.untyped_storage()._cdata for tensor in outputs}
    if len(made) < len(outputs) or made & inputs or any(map(_is_part, outputs)):
        return None
    makers = [partial(torch.empty_strided, x.shape, x.stride(), dtype=x.dtype, device=x.device) for x in outputs]
    first = makers[0]
    if isinstance(result, Tensor):
        return lambda args: first()
    return lambda args: tuple([make() for make in makers])


def _is_part(tensor: Tensor) -> bool:
    if not tensor.numel():
        return False
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(tensor.untyped_storage().nbytes() != extent * tensor.element_size())


def _replay_in_place(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    # A meta tensor holds no data that could change.
    return _first_argument if result is args[0] and all(map(is_plain_meta, tensors)) else None


def _first_argument(args: Sequence[Any]) -> Any:
    return args[0]


def _replay_view(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    views = (result,) if isinstance(result, Tensor) else tuple(result)
    if len(tensors) != 1 or not views or not all(map(is_plain_meta, (*tensors, *views))):
        return None
    (x,) = tensors
    if x is not args[0] or any(view.dtype != x.dtype for view in views):
        return None
    if any(view.untyped_storage()._cdata != x.untyped_storage()._cdata for view in views):
        return None
    base = x.storage_offset()
    layouts = [(view.shape, view.stride(), view.storage_offset() - base) for view in views]
    shape, stride, offset = layouts[0]
    if isinstance(result, Tensor):
        return lambda args: torch.as_strided(args[0], shape, stride, offset + args[0].storage_offset())
    kind = type(result)
    return lambda args: kind([torch.as_strided(args[0], s, d, o + args[0].storage_offset()) for s, d, o in layouts])


# Kernels: whether PyTorch runs an operator whole, or decomposes it


DEVICES = ("CPU", "CUDA", "HIP", "MPS", "XPU", "HPU", "XLA", "MTIA", "PrivateUse1")
"""The dispatch keys at which a device has its kernels for ordinary tensors."""

NESTED = ("NestedTensorCPU", "NestedTensorCUDA")
"""The dispatch keys of the kernels for nested tensors."""

NESTED_COMPOSITE = "CompositeImplicitAutogradNestedTensor"
"""The dispatch key of the kernels that decompose an operator for nested tensors in another way than for others."""


def has_kernel(operator: OpOverload, *keys: str) -> bool:
    """Return whether an operator has a kernel at one of the dispatch keys."""
    name = operator.name()
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def is_decomposed(operator: OpOverload) -> bool:
    """Return whether PyTorch decomposes an operator on every device.

    Some operators have a decomposition, for the devices that have no kernel of their own, and kernels besides:
    ``silu_backward``, ``mish_backward``, ``native_channel_shuffle``.
    """
    return has_kernel(operator, "CompositeImplicitAutograd") and not has_kernel(operator, *DEVICES)


def decomposed(operator: OpOverload, args: Any, kwargs: Any, is_nested: bool) -> Any:
    """Run the operators that PyTorch decomposes an operator into.

    Args:
        operator: an operator for which :func:`is_decomposed` returns True.
        args: its positional arguments.
        kwargs: its keyword arguments.
        is_nested: whether a nested tensor is among them.

    Returns:
        The result; NotImplemented if there is a kernel for nested tensors, which PyTorch runs instead.
    """
    if not is_nested or not has_kernel(operator, *NESTED, NESTED_COMPOSITE):
        return operator.decompose(*args, **kwargs)
    if has_kernel(operator, *NESTED):
        return NotImplemented
    return operator._op_dk(getattr(torch._C.DispatchKey, NESTED_COMPOSITE), *args, **kwargs)


def run_kernel(run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a kernel; if it was the first one to import something, collect garbage.

    The first kernel in Python imports the compiler. This import leaves reference cycles that hold the calling frames
    and their tensors. Without a collection, memory would stay alive. Autograd would also copy a gradient that such a
    frame holds, instead of taking it over.
    """
    before = len(sys.modules)
    if getattr(run, "namespace", None) == "c10d":
        state = random.getstate()  # on the meta device, PyTorch draws a random id for a collective
        try:
            result = run(*args, **kwargs)
        finally:
            random.setstate(state)
    else:
        result = run(*args, **kwargs)
    if len(sys.modules) != before:
        # While the collector is disabled, all new objects stay in the younger generations.
        gc.collect(2 if gc.isenabled() else 1)
    return result


# Bookkeeping of PyTorch, and results that need special treatment


_BOOKKEEPING_OF_ATEN = """
empty empty_like empty_permuted empty_strided new_empty new_empty_strided scalar_tensor _efficientzerotensor
resize resize_as set detach alias lift lift_fresh record_stream is_pinned _pin_memory _version _backward requires_grad
dim size stride is_contiguous is_same_size is_set_to sym_size sym_stride sym_numel sym_storage_offset sym_is_contiguous
_has_same_storage_numel _has_compatible_shallow_copy_type
_assert_async _functional_assert_async _assert_tensor_metadata _linalg_check_errors
q_scale q_zero_point qscheme q_per_channel_scales q_per_channel_zero_points q_per_channel_axis
is_coalesced _coalesced _nnz dense_dim sparse_dim _dimI _dimV
"""

BOOKKEEPING = frozenset(
    (
        *(f"aten::{name}" for name in _BOOKKEEPING_OF_ATEN.split()),
        *("_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd", "c10d_functional::wait_tensor"),
        "fsdp::record_grad_output_stream",
    )
)
"""Operators that PyTorch calls for its own bookkeeping; they are never recorded."""

BOOKKEEPING_NAMES = (
    *("profiler::", "prim::", "prims::device_put"),
    *("aten::_nested_get_", "aten::_nested_view_from_jagged"),
    *("aten::_nested_tensor_size", "aten::_nested_tensor_strides", "aten::_nested_tensor_storage_offsets"),
)
"""Beginnings of the names of further bookkeeping operators: namespaces, and accessors of nested tensors."""

ALIASES = frozenset(("aten::detach", "aten::alias", "aten::lift", "aten::lift_fresh"))
"""Bookkeeping operators that return their input as another tensor object."""

DATA_DEPENDENT_SHAPES = frozenset(
    (
        *("torchvision::nms", "aten::_pack_padded_sequence", "aten::_padded_dense_to_jagged_forward"),
        *(f"aten::_to_sparse{layout}" for layout in ("", "_csr", "_csc", "_bsr", "_bsc")),
    )
)
"""Operators with data-dependent output shapes that PyTorch does not tag ``dynamic_output_shape``."""


# Process groups, and the arguments that their operators write to


WRITTEN = {
    **dict.fromkeys(("allreduce_", "allreduce_coalesced_", "reduce_", "broadcast_"), "tensors"),
    **dict.fromkeys(("recv_", "recv_any_source_"), "tensors"),
    **dict.fromkeys(("allgather_", "reduce_scatter_", "alltoall_", "gather_", "scatter_"), "output_tensors"),
    **dict.fromkeys(("_allgather_base_", "_reduce_scatter_base_"), "output_tensor"),
    **dict.fromkeys(("allgather_into_tensor_coalesced_", "reduce_scatter_tensor_coalesced_"), "outputs"),
    "allgather_coalesced_": "output_lists",
    "alltoall_base_": "output",
    "send": "",
    "barrier": "",
    "monitored_barrier_": "",
}
"""The argument that a process-group operator writes to, which its schema does not declare."""

_MESH = "mesh_"
"""The prefix of the descriptions of groups along a dimension of a mesh, before the name of the dimension."""


def written_argument(name: str) -> str | None:
    """Return the argument that ``c10d::…`` writes to, ``""`` if it writes to none; None for any other operator."""
    namespace, _, operator = name.partition("::")
    return WRITTEN.get(operator) if namespace == "c10d" else None


def _group(args: Arguments) -> Any:
    # Operators take the group itself, its name, or a script object of it.
    found = args.get("process_group", args.get("group_name"))
    if isinstance(found, str):
        from torch.distributed.distributed_c10d import _resolve_process_group

        return _resolve_process_group(found)
    if found is not None and not hasattr(found, "size"):
        from torch.distributed import ProcessGroup

        return ProcessGroup.unbox(found)
    return found


def group_size(args: Arguments) -> int:
    """Return the number of processes of the group of a call."""
    return int(_group(args).size())


def group_name(args: Arguments) -> str | None:
    """Return the name of the mesh dimension along which the group of a call communicates; None if it has none."""
    description = str(getattr(_group(args), "group_desc", ""))
    return description.removeprefix(_MESH) if description.startswith(_MESH) else None


def reduction(args: Arguments) -> str | None:
    """Return the name of a reduction, such as ``sum``; None if this version of PyTorch does not show it."""
    operator = args["reduce_op"]
    if isinstance(operator, str):
        return operator.lower()
    from torch.distributed import ReduceOp

    try:
        number = operator.op()
    except (AttributeError, RuntimeError):  # an object of C++ without that method
        return None
    return str(ReduceOp.RedOpType(number).name).lower()


def is_root(args: Arguments, root: str) -> bool:
    """Return whether the rank of this process in the group is the argument ``root``."""
    return bool(_group(args).rank() == args[root])
