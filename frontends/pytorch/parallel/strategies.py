"""Plans for models without a plan of their own: sharding (FSDP), tensor, sequence and expert parallelism.

A block is one of the modules that a model repeats, such as a transformer layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import Module, Parameter, functional
from torch.nn.functional import scaled_dot_product_attention

from costcore.errors import CostError, unknown

from ..capture.autocast import replace
from ..tensors import matching, modules_of
from ..training import wrap_forward

STRATEGIES = ("fully_sharded",)
"""The names of plans."""


class Repeated(NamedTuple):
    """The blocks that a model repeats.

    Attributes:
        container: the module whose children they are; None if there are none.
        names: the names of these children.
    """

    container: Module | None
    names: tuple[str, ...]

    @property
    def blocks(self) -> list[Module]:
        """The blocks."""
        return [] if self.container is None else [self.container.get_submodule(name) for name in self.names]


def repeated(model: Module) -> Repeated:
    """Return the blocks of a model: the children of one class that hold the most parameters."""
    best, most = Repeated(None, ()), 0
    for module in modules_of(model):
        by_class: dict[type, list[str]] = {}
        for name, child in module.named_children():
            by_class.setdefault(type(child), []).append(name)
        for names in by_class.values():
            found = Repeated(module, tuple(names))
            size = sum(parameter.numel() for child in found.blocks for parameter in child.parameters())
            if len(names) > 1 and size > most:
                best, most = found, size
    return best


def fully_sharded(model: Module, mesh: Any, blocks: Sequence[Module] | None = None) -> Module:
    """Shard the parameters of a model by ``fully_shard``: each block as a group, and the rest as one.

    Args:
        model: the copy of the model.
        mesh: the mesh of processes, of one dimension.
        blocks: the blocks; default: as :func:`repeated` finds them.

    Raises:
        CostError: if this PyTorch has no ``fully_shard``.
    """
    for block in repeated(model).blocks if blocks is None else blocks:
        _shard(block, mesh)
    return _shard(model, mesh)


def _shard(module: Module, mesh: Any) -> Any:
    # ``fully_shard`` pads the first axis: if eight processes shard one expert, all would gather the bytes of eight.
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise CostError(f"sharding needs fully_shard of PyTorch 2.6 or later: {error}") from error
    from torch.distributed.tensor import Shard

    def placement(parameter: Any) -> Any:
        size, n = [*parameter.shape, 1], mesh.size()
        return Shard(1) if parameter.dim() > 1 and size[0] < n and size[1] % n == 0 else None

    return fully_shard(module, mesh=mesh, shard_placement_fn=placement)


_WHOLE = ("replicated_with_grad_allreduce",)
"""``tp_plan`` styles of modules that every process holds in full."""


def tensor_styles(model: Module) -> dict[str, Any]:
    """Return the styles of ``parallelize_module`` for the ``tp_plan`` of a model, an attribute in transformers.

    Styles of experts are left out, see :func:`split_experts`.

    Raises:
        CostError: if the model has no such plan, or one with an unknown style.
    """
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    styles: Mapping[str, Callable[[], Any]] = {
        "colwise": ColwiseParallel,
        "rowwise": RowwiseParallel,
        "colwise_rep": lambda: ColwiseParallel(output_layouts=Replicate()),
        "colwise_gather_output": lambda: ColwiseParallel(output_layouts=Replicate()),
        "colwise_split_output": lambda: ColwiseParallel(output_layouts=Shard(-1)),
        "embedding_rowwise": lambda: RowwiseParallel(input_layouts=Replicate()),
    }
    stated = getattr(model, "tp_plan", None)
    if not stated:
        raise CostError(f"{type(model).__name__} has no plan of tensor parallelism: give it an attribute tp_plan")
    experts = tuple(name for name, style in stated.items() if style == SPLIT)
    kept = {name: style for name, style in stated.items() if style not in _WHOLE and not name.startswith(experts)}
    if wrong := [style for style in kept.values() if style not in styles]:
        raise CostError(f"{type(model).__name__}: {unknown('style of tp_plan', wrong, styles)}")
    return {name: styles[style]() for name, style in kept.items()}


Place: TypeAlias = "tuple[int, str]"
"""The kind of a block and the name of a parameter in it; outside of blocks, -1 and the full name."""


class Gradient(NamedTuple):
    """The memory of a gradient in one process.

    Attributes:
        storage: the same number for gradients that share a storage.
        nbytes: the bytes of the storage.
        dtype: the dtype.
        shape, strides, offset: of the local part in the storage.
        placements: how it is distributed; None for a plain tensor.
        whole: shape and strides of the full gradient if it is distributed.
    """

    storage: int
    nbytes: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    placements: Any
    whole: tuple[Any, Any] | None

    @classmethod
    def of(cls, gradient: Any) -> Gradient:
        """Return the memory of a gradient."""
        placements = getattr(gradient, "placements", None)
        local = gradient if placements is None else gradient.to_local()
        storage = local.untyped_storage()
        memory = storage._cdata, storage.nbytes(), local.dtype
        layout = tuple(local.shape), local.stride(), local.storage_offset()
        return cls(*memory, *layout, placements, None if placements is None else (gradient.shape, gradient.stride()))

    def on(self, storage: Any, parameter: Any) -> Any:
        """Return a gradient of a parameter with equal memory."""
        local = torch.empty(0, dtype=self.dtype, device=storage.device)
        local.set_(storage, self.offset, self.shape, self.strides)
        if self.whole is None:
            return local
        from torch.distributed.tensor import DTensor

        shape, strides = self.whole
        mesh = parameter.device_mesh
        return DTensor.from_local(local, mesh, self.placements, run_check=False, shape=shape, stride=strides)


class Layout:
    """A plan that distributes a model, or some of its blocks, over a mesh.

    ``fsdp * cp`` processes have different tokens. Groups of ``ep`` neighbors among them divide the experts, and each
    part is sharded over the groups. All processes shard the other parameters.

    Args:
        kinds: the kinds of the blocks to keep, in order; None: the blocks of the model.
        fsdp: number of model copies over which parameters are sharded.
        tp: number of processes that share every block.
        cp: number of processes that share every sequence.
        ep: number of processes that divide the experts.
        gradients: the initial gradients of parameters, :attr:`gradients` of an earlier plan; default: none.

    Attributes:
        mesh: the sizes of the mesh.
        expert_parameters: elements of the experts' parameters in one process, once the plan was applied.
        blocks: paths of the model's blocks, once the plan was applied.
        gradients: the gradients that a micro-batch accumulates into, for further plans of the same sizes.
    """

    mesh: dict[str, int]
    expert_parameters: int
    gradients: dict[Place, Gradient]

    def __init__(
        self,
        kinds: Sequence[int] | None,
        fsdp: int = 1,
        tp: int = 1,
        cp: int = 1,
        ep: int = 1,
        gradients: Mapping[Place, Gradient] | None = None,
    ) -> None:
        self._kinds = kinds
        self.gradients = {**(gradients or {})}
        self._shards = fsdp > 1
        self._cp = cp
        self._ep = ep
        # The smaller of cp and ep is the innermost dimension, so that groups of either size are neighbors in the mesh.
        inner, middle = min(cp, ep), max(cp, ep) // min(cp, ep)
        self.mesh = {"outer": max(fsdp * cp // (inner * middle), 1), "middle": middle, "inner": inner, "tp": tp}
        self.expert_parameters = 0
        self.blocks: list[str] = []

    def __call__(self, model: Module, mesh: Any) -> Module:
        """Change the copy of a model.

        Args:
            model: the copy.
            mesh: the mesh of the sizes :attr:`mesh`.

        Raises:
            CostError: if the model cannot be divided in this way.
        """
        made = self._distributed(model, mesh)
        self._set_gradients(made)
        return made

    def note_gradients(self, model: Module) -> None:
        """Register the gradients after an earlier micro-batch in :attr:`gradients`."""
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                self.gradients[self._place_of(name)[0]] = Gradient.of(parameter.grad)

    def _set_gradients(self, model: Module) -> None:
        known = {kind for kind, _ in self.gradients}
        if self._kinds is None or not {*self._kinds} <= known:
            return
        storages: dict[Any, Any] = {}
        for name, parameter in model.named_parameters():
            place, block = self._place_of(name)
            if (gradient := self.gradients.get(place)) is not None:
                shared = block, gradient.storage
                if shared not in storages:
                    made = torch.empty(gradient.nbytes, dtype=torch.uint8, device=parameter.device)
                    storages[shared] = made.untyped_storage()
                parameter.grad = gradient.on(storages[shared], parameter)

    def _place_of(self, name: str) -> tuple[Place, int]:
        # The place of a parameter, equal in all blocks of a kind, and the number of its block.
        for i, block in enumerate(self.blocks):
            if name.startswith(f"{block}."):
                return (self._kinds[i] if self._kinds else 0, name[len(block) :]), i
        return (-1, name), -1

    def _distributed(self, model: Module, mesh: Any) -> Module:
        found = repeated(model)
        blocks = found.blocks if self._kinds is None else _keep_blocks(found, self._kinds)
        self.blocks = [name for name, module in model.named_modules() if any(module is block for block in blocks)]
        if mesh["tp"].size() > 1:
            from torch.distributed.tensor.parallel import parallelize_module

            parallelize_module(model, mesh["tp"], tensor_styles(model))
            split_experts(model, mesh["tp"])
        if self._ep > 1:
            divide_experts(model, _joined(mesh, "ep", *self._dimensions(self._ep < self._cp)))
        if self._cp > 1:
            share_sequence(blocks, _joined(mesh, "cp", *self._dimensions(self._cp < self._ep)).get_group())
        experts = [*experts_of(model).values()]
        self.expert_parameters = sum(each.numel() for module in experts for each in module.parameters(recurse=False))
        if not self._shards:
            return model
        apart = ("outer", "middle") if self._ep < self._cp else ("outer",)
        for module in experts if self._ep > 1 else ():
            _shard(module, _joined(mesh, "experts", *apart))
        return fully_sharded(model, _joined(mesh, "shards", "outer", "middle", "inner"), blocks)

    @staticmethod
    def _dimensions(is_less: bool) -> tuple[str, ...]:
        return ("inner",) if is_less else ("middle", "inner")


def _keep_blocks(found: Repeated, kinds: Sequence[int]) -> list[Module]:
    # One block per kind, in this order. A kind with too few blocks repeats a copy of its first block.
    container = found.container
    assert container is not None
    by_kind: dict[int, list[Module]] = {}
    for kind, block in zip(_kinds(found.blocks), found.blocks, strict=True):
        by_kind.setdefault(kind, []).append(block)
    waiting = {kind: iter(blocks) for kind, blocks in by_kind.items()}
    chosen = [next(waiting[kind], None) or deepcopy(by_kind[kind][0]) for kind in kinds]
    for name in found.names[len(chosen) :]:
        delattr(container, name)
    names = (*found.names, *map(str, range(len(found.names), len(chosen))))
    for name, block in zip(names, chosen, strict=False):
        setattr(container, name, block)
    return chosen


def _kinds(blocks: Sequence[Module]) -> list[int]:
    # Equal numbers for blocks with equal names and shapes of parameters
    known: dict[Any, int] = {}
    shapes = (tuple((name, *each.shape) for name, each in block.named_parameters()) for block in blocks)
    return [known.setdefault(shape, len(known)) for shape in shapes]


def _joined(mesh: Any, name: str, *dimensions: str) -> Any:
    # Dimensions of one process are left out.
    several = tuple(each for each in dimensions if mesh[each].size() > 1) or dimensions[:1]
    return mesh[several[0]] if len(several) == 1 else mesh[several]._flatten(name)


class Distribution:
    """How a model can be distributed; see :class:`costcore.frontend.DistributionOf`.

    Args:
        model: the model.

    Attributes:
        kinds: the kind of each block that it repeats: equal numbers for blocks with equal parameters.
        kind: the name of their class.
        width: whether the model has a plan of tensor parallelism.
        experts: the number of experts that can be divided over devices; 0 without any.
    """

    kinds: tuple[int, ...]
    kind: str
    width: bool
    experts: int

    def __init__(self, model: Module) -> None:
        found = repeated(model).blocks
        self.kinds = tuple(_kinds(found))
        self.kind = type(found[0]).__name__ if found else ""
        self.width = bool(getattr(model, "tp_plan", None))
        self.experts = min((int(each.num_experts) for each in experts_of(model).values()), default=0)

    def plan(
        self, kinds: Sequence[int] | None, gradients: Mapping[Place, Gradient] | None = None, **sizes: int
    ) -> Layout:
        """Return the plan for :func:`costcore.estimate`, with the arguments of :class:`Layout`."""
        return Layout(kinds, **sizes, gradients=gradients)


def named_plan(name: str) -> Callable[[Module, Any], Module]:
    """Return the plan of a name, one of :data:`STRATEGIES`."""
    return {"fully_sharded": fully_sharded}[name]


# Experts of a mixture: distributed over processes, or split over processes along their width


DISPATCHED = "ep_dispatch_experts"
"""The ``ep_plan`` style of modules whose experts are distributed over processes."""

SPLIT = "moe_tp_experts"
"""The ``tp_plan`` style of modules in which every expert is split over processes."""

_AXES = {"packed_colwise": -2, "colwise": -2, "rowwise": -1}
"""The axis of a weight of experts, ``(experts, outputs, inputs)``, that a style of ``tp_plan`` divides."""


def experts_of(model: Module) -> dict[str, Module]:
    """Return the modules of experts of a model by name, from its attribute ``ep_plan``.

    A module of experts is called with rows ``(rows, width)``, the experts of each row ``(rows, k)`` and their weights
    ``(rows, k)``. It returns rows. Its attribute ``num_experts`` is the first dimension of all of its parameters.
    """
    stated = getattr(model, "ep_plan", None) or {}
    return dict(matching(model, (name for name, style in stated.items() if style == DISPATCHED)))


def divide_experts(model: Module, mesh: Any) -> None:
    """Divide the experts over the processes of a mesh; rows are exchanged before and after the experts.

    Every expert is assumed to receive the same number of rows.

    Args:
        model: the copy of a model.
        mesh: a mesh of one dimension.

    Raises:
        CostError: if the model has no experts, or their number is not a multiple of the number of processes.
    """
    if DISPATCHED not in (getattr(model, "ep_plan", None) or {}).values():
        raise CostError(
            f'{type(model).__name__} has no experts to divide: its ep_plan gives no module the style "{DISPATCHED}"'
        )
    n = mesh.size()
    for name, module in experts_of(model).items():
        if module.num_experts % n:
            raise CostError(f"{module.num_experts} experts of {name} cannot be divided over {n} processes")
        for key, parameter in module.named_parameters(recurse=False):
            _divide(module, key, parameter, 0, n)
        module.num_experts //= n
        wrap_forward(module, partial(_forward_with_exchange, mesh.get_group(), module.num_experts))


def split_experts(model: Module, mesh: Any) -> None:
    """Divide the width of every expert over the processes of a mesh; results are added.

    Args:
        model: the copy of a model.
        mesh: a mesh of one dimension.

    Raises:
        CostError: if a width is not a multiple of the number of processes.
    """
    stated: Mapping[str, str] = model.tp_plan
    for pattern in (name for name, style in stated.items() if style == SPLIT):
        for _, module in matching(model, [pattern]):
            for key, parameter in module.named_parameters(recurse=False):
                axis = _AXES.get(stated.get(f"{pattern}.{key}", ""))
                if axis is not None:
                    swapped = parameter.dim() > 2 and getattr(module, "is_transposed", False)
                    axis = -3 - axis if swapped else max(axis, -parameter.dim() + 1)
                    _divide(module, key, parameter, axis, mesh.size())
            wrap_forward(module, partial(_forward_of_split_experts, mesh.get_group()))


def _divide(module: Module, name: str, parameter: Parameter, axis: int, n: int) -> None:
    size = [*parameter.shape]
    if size[axis] % n:
        raise CostError(
            f"{name} of {type(module).__name__}, with an axis of {size[axis]}, cannot be divided over {n} processes"
        )
    size[axis] //= n
    setattr(module, name, Parameter(parameter.new_empty(size), parameter.requires_grad))


def _forward_with_exchange(
    group: Any, n_experts: int, forward: Callable[..., Tensor], x: Tensor, index: Tensor, weights: Tensor
) -> Tensor:
    # Send rows and their weights to the processes of their experts, and add the returned results.
    k = index.shape[-1]
    rows = x.unsqueeze(1).expand(-1, k, -1).reshape(-1, x.shape[-1])
    rows, scales = (_all_to_all(value, group) for value in (rows, weights.reshape(-1, 1)))
    here = (torch.arange(rows.shape[0], device=x.device) % n_experts).unsqueeze(1)
    made = _all_to_all(forward(rows, here, scales), group)
    return made.view(-1, k, made.shape[-1]).sum(1)


def _all_to_all(rows: Tensor, group: Any) -> Tensor:
    if rows.shape[0] % group.size():
        raise CostError(f"{rows.shape[0]} rows of experts cannot be divided evenly over {group.size()} processes")
    return exchanged(rows, group)


def _forward_of_split_experts(
    group: Any, forward: Callable[..., Tensor], x: Tensor, index: Tensor, weights: Tensor
) -> Tensor:
    # ``shared`` adds the gradients of the inputs, which all parts read.
    return added(forward(shared(x, group), index, shared(weights, group)), group)


# Sequences divided over processes; attention reads the keys of all


_TOKENS = -2
"""The axis of queries, keys and values along which tokens are."""


def share_sequence(blocks: Iterable[Module], group: Any) -> None:
    """Make attention in the blocks of a model read the keys and values of all processes of a group.

    The blocks then run on a part of the tokens. ``scaled_dot_product_attention`` gathers keys and values, as in Llama 3
    (arXiv:2407.21783, section 3.3.2); a ring sends the same bytes. Causal attention is balanced: each process computes
    the causal pairs of its own tokens, and half of the pairs of its queries with the keys of all others.

    Args:
        blocks: the blocks, of a copy of a model.
        group: the group of processes.
    """
    for block in blocks:
        wrap_forward(block, partial(_with_keys_of_all, group))


def _with_keys_of_all(group: Any, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    n_calls = 0

    def attention(*args: Any, **kwargs: Any) -> Tensor:
        nonlocal n_calls
        n_calls += 1
        return _attention(group, *args, **kwargs)

    with ExitStack() as stack:
        replace(stack, functional, "scaled_dot_product_attention", attention)
        made = forward(*args, **kwargs)
    if not n_calls:
        raise CostError(
            "cannot divide a sequence: no block calls scaled_dot_product_attention. In transformers, make the model "
            'with attn_implementation="sdpa"'
        )
    return made


def _attention(
    group: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    # The mask columns of remote keys are assumed to equal the local ones.
    n, own = group.size(), key.shape[_TOKENS]
    keys, values = (_of_all(each, group) for each in (key, value))
    if not is_causal:
        mask = attn_mask if attn_mask is None else attn_mask.repeat(*[1] * (attn_mask.dim() - 1), n)
        return scaled_dot_product_attention(query, keys, values, mask, dropout_p, **options)

    def part(start: int, size: int, causal: bool) -> Tensor:
        some_keys, some_values = keys.narrow(_TOKENS, start, size), values.narrow(_TOKENS, start, size)
        return scaled_dot_product_attention(query, some_keys, some_values, None, dropout_p, causal, **options)

    return part(0, own, True) + part(own, (n - 1) * own // 2, False)


def _of_all(x: Tensor, group: Any) -> Tensor:
    # Collectives gather along the first axis: move the axis of tokens there and back.
    return gathered(x.movedim(_TOKENS, 0), group).movedim(0, _TOKENS)


# Synchronous collectives with gradients


def shared(x: Tensor, group: Any) -> Tensor:
    """Return a tensor that all processes of a group read; its gradients are added."""
    return _Shared.apply(x, group)


def added(x: Tensor, group: Any) -> Tensor:
    """Return the sum of the results of all processes of a group; each receives its gradient."""
    return _Added.apply(x, group)


def gathered(x: Tensor, group: Any) -> Tensor:
    """Return the parts of all processes of a group, joined along the first axis; gradients are added and divided."""
    return _Gathered.apply(x, group)


def exchanged(x: Tensor, group: Any) -> Tensor:
    """Send an equal part of the first axis to each process of a group, and return the received parts."""
    return _Exchanged.apply(x, group)


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _sum(gradient, ctx.group), None


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        return _sum(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        made = x.new_empty((x.shape[0] * group.size(), *x.shape[1:]))
        _collective("all_gather_single", "all_gather_into_tensor")(made, x.contiguous(), group=group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        made = gradient.new_empty((gradient.shape[0] // ctx.group.size(), *gradient.shape[1:]))
        _collective("reduce_scatter_single", "reduce_scatter_tensor")(made, gradient.contiguous(), group=ctx.group)
        return made, None


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return _exchange(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _exchange(gradient, ctx.group), None


def _collective(name: str, older: str) -> Any:
    # It had another name before PyTorch 2.13.
    return getattr(torch.distributed, name, None) or getattr(torch.distributed, older)


def _sum(x: Tensor, group: Any) -> Tensor:
    made = x.clone(memory_format=torch.contiguous_format)
    torch.distributed.all_reduce(made, group=group)
    return made


def _exchange(x: Tensor, group: Any) -> Tensor:
    made = torch.empty_like(x, memory_format=torch.contiguous_format)
    torch.distributed.all_to_all_single(made, x.contiguous(), group=group)
    return made
