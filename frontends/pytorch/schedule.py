"""Kernels that ``torch.compile`` makes of a module, read from the scheduler of TorchInductor.

The module is compiled with fake tensors as far as the schedule: nothing is generated, compiled to machine code or run,
and no weights are needed. TorchInductor is private: if a release lacks a name that is read here, an error says so.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import FunctionType
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.nn import Module, Parameter
from torch.utils._pytree import tree_map_only

from costcore.analyses.fusion.kernels import Origin, Schedule, ScheduledKernel
from costcore.errors import CostError

from .capture.autocast import replace
from .inputs import model_arguments
from .meta.model_copy import meta_copy
from .meta.values import Values
from .tensors import not_compiled

_PART = re.compile(r"[^.'\"\[\]]+")
"""A part of the name that TorchDynamo gives a module, ``L['self'].layers[0]``."""

_ATEN = {"iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "truediv": "div", "iand": "bitwise_and"}
"""PyTorch's names of Python operators that have another name in Python."""


_NOT_TRACED = frozenset(("multi_head_attention_forward", "transformer_encoder_layer_fwd"))
"""Functions that TorchDynamo does not trace into: each computes a whole module."""

NEEDED = ("get_nodes", "get_read_write_buffers_sizes")
"""The methods of a node of the scheduler that are called."""


REWRITTEN = frozenset(f"conv{transposed}{rank}d" for transposed in ("", "_transpose") for rank in (1, 2, 3))
"""Operators that never become a generated loop: a loop that stems from one only changes the layout of an operand."""


class _ScheduledError(BaseException):
    # A ``BaseException``: no handler of PyTorch takes it for an error of its own.
    pass


def schedule(model: Module, inputs: Any) -> Schedule:
    """Return the kernels of a forward pass without gradients; inputs as for :func:`costcore.estimate`.

    Raises:
        TypeError, ValueError: if the inputs are invalid.
        CostError: if the model cannot be compiled, or this release of PyTorch has another scheduler.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    model, values = not_compiled(model), Values()
    device = next((x.device.type for x in model.parameters() if not x.is_meta), "cpu")
    copy = meta_copy(model, values)
    dtype = next((x.dtype for x in copy.parameters() if x.is_floating_point()), torch.get_default_dtype())
    arguments = model_arguments(inputs, dtype, values, model.forward)
    reader = _Reader({str(id(module)): path for path, module in copy.named_modules()})
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of the compiler, about itself
        _stop_when_scheduled(stack, reader.read)
        stack.enter_context(FakeTensorMode())
        stack.enter_context(torch.no_grad())
        _give_data(copy, device)
        args, kwargs = tree_map_only(Tensor, lambda x: _with_data(x, device), arguments)
        known = _graph_breaks()
        try:
            torch.compile(_with_own_code(copy), backend=reader)(*args, **kwargs)
        except RuntimeError as error:
            raise CostError(f"{type(model).__name__}: TorchInductor cannot compile it: {error}") from error
        reason = next((text.partition("\n")[0] for text, n in _graph_breaks().items() if n > known.get(text, 0)), "")
    compiler = f"TorchInductor {torch.__version__.partition('+')[0]}"
    return Schedule(compiler, device, tuple(reader.kernels), reader.n_graphs, reason)


def _graph_breaks() -> Mapping[str, int]:
    from torch._dynamo.utils import counters

    return dict(counters["graph_break"])


def _with_own_code(model: Module) -> Callable[..., Any]:
    # Modules of PyTorch's own classes share one code object. After TorchDynamo fails to compile one of them, such as an
    # LSTM, it skips this code for all others, too. The copied code of ``run`` is new to it.
    if not type(model).__module__.startswith("torch.nn."):
        return cast("Callable[..., Any]", model)

    def run(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    return FunctionType(run.__code__.replace(), run.__globals__, "run", None, run.__closure__)


class _Reader:
    def __init__(self, paths: Mapping[str, str]) -> None:
        self.kernels: list[ScheduledKernel] = []
        self.n_graphs = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._paths = paths
        self._origins: dict[str, Origin] = {}
        self._is_weight: list[bool] = []

    def __call__(self, graph: GraphModule, examples: list[Any]) -> Callable[..., Any]:
        """Schedule a graph, and return a function that runs it."""
        from torch._guards import TracingContext, detect_fake_mode, tracing
        from torch._inductor.compile_fx import compile_fx  # importing the compiler takes a second

        counts = self._counts.copy()
        self._origins = _origins(graph.graph.nodes, self._paths, counts)
        self._is_weight = [isinstance(x, Parameter) for x in examples]
        try:
            with tracing(None):  # in PyTorch 2.4, TorchDynamo has another fake mode than its inputs
                mode = detect_fake_mode(examples)
            with tracing(TracingContext(mode)):
                compile_fx(graph, examples)
        except _ScheduledError:
            self.n_graphs += 1
            self._counts = counts  # only here: TorchDynamo may give up a graph and start over
        run: Callable[..., Any] = graph.forward
        return run

    def read(self, scheduler: Any, inputs: Sequence[str]) -> None:
        """Read the nodes of a scheduler, for a graph with these inputs."""
        weights = {name for name, is_weight in zip(inputs, self._is_weight, strict=False) if is_weight}
        for node in scheduler.nodes:
            if node.get_read_write_buffers_sizes():  # others are outputs of a kernel with several
                self.kernels.append(_kernel(node, self._origins, weights))


def _stop_when_scheduled(stack: ExitStack, read: Callable[[Any, Sequence[str]], None]) -> None:
    # Caches are off: a cached schedule is not made again, so that it could not be read.
    from torch._dynamo import config as dynamo_config
    from torch._functorch import config as autograd_config
    from torch._inductor import config, scheduler
    from torch._inductor.virtualized import V

    owner = scheduler.Scheduler
    name = "_init" if hasattr(owner, "_init") else "__init__"
    missing = [each for each in NEEDED if not hasattr(scheduler.BaseSchedulerNode, each)]
    if missing:
        raise CostError(f"the scheduler of PyTorch {torch.__version__} is not known: its nodes lack {missing[0]}")
    original = getattr(owner, name)

    def initialized(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        read(self, V.graph.graph_input_names)
        raise _ScheduledError

    replace(stack, owner, name, initialized)
    values = {
        "automatic_dynamic_shapes": False,  # for sizes that other models had
        "automatic_dynamic_local_pgo": False,
        "inline_inbuilt_nn_modules": True,  # graphs of calls, not of modules, which PyTorch 2.4 makes
        "enable_autograd_cache": False,
        "fx_graph_cache": False,
    }
    for settings in (dynamo_config, autograd_config, config):
        known = {name: value for name, value in values.items() if hasattr(settings, name)}
        stack.enter_context(settings.patch(known))


def _origins(nodes: Iterable[Node], paths: Mapping[str, str], counts: Counter[tuple[str, str]]) -> dict[str, Origin]:
    found = {}
    for node in nodes:
        if node.op in ("call_function", "call_method"):
            name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
            name = _ATEN.get(name.strip("_"), name.strip("_"))
            module = _module_of(node, paths)
            found[_source_name(node)] = Origin(module, name, counts[module, name], name in _NOT_TRACED)
            counts[module, name] += 1
    return found


def _source_name(node: Node) -> str:
    # The name is unique in a graph.
    return str((node.meta.get("source_fn_stack") or [("", None)])[-1][0])


def _module_of(node: Node, paths: Mapping[str, str]) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    key, (name, *_) = [*stack.items()][-1]
    known = paths.get(key.partition("@")[0])  # repeated calls are numbered: 140735@1
    return ".".join(_PART.findall(name.partition("]")[2])) if known is None else known


def _kernel(node: Any, origins: dict[str, Origin], weights: set[str]) -> ScheduledKernel:
    computed: dict[Origin, None] = {}
    is_loop = True
    for part in node.get_nodes():
        own = getattr(part.node, "origin_node", None)
        is_call = type(part).__name__ == "ExternKernelSchedulerNode" and own is not None
        is_loop = is_loop and not is_call
        origins_of_part: Iterable[Any] = (own,) if is_call else getattr(part.node, "origins", ())
        for each in origins_of_part:
            if _source_name(each) in origins and not _is_view(each.target):
                computed[origins[_source_name(each)]] = None
    rewrites = ""
    if is_loop and computed and all(origin.operator in REWRITTEN for origin in computed):
        read = {dependency.name for dependency in node.read_writes.reads}
        rewrites = "weight" if read <= weights else "activation"
    return ScheduledKernel(node.get_read_write_buffers_sizes(), tuple(computed), rewrites)


def _is_view(target: Any) -> bool:
    returns = getattr(getattr(target, "_schema", None), "returns", ())
    return any(each.alias_info is not None for each in returns)


def _give_data(model: Module, device: str) -> None:
    # Shared tensors stay shared.
    made: dict[int, Any] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in made:
                    data = _with_data(tensor, device)
                    is_parameter = isinstance(tensor, Parameter)
                    made[id(tensor)] = Parameter(data, requires_grad=False) if is_parameter else data
                tensors[name] = made[id(tensor)]


def _with_data(tensor: Tensor, device: str) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
