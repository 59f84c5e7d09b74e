"""The estimate: what one pass of a module costs, without weights or arithmetic, on the meta device."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import tree_map_only

from costcore.errors import CostError
from costcore.trace.gc_paused import collector_off
from costcore.trace.interrupts import WholeEnds
from costcore.trace.recorder import Recorder

from .capture.context import capture
from .capture.dispatch_mode import CaptureMode
from .capture.python_functions import RegroupedFunctions, check_regroup
from .capture.threads import wait_for_threads
from .checkpointing import checkpointed
from .inputs import model_arguments, torch_dtype, variants_with_numbers
from .kept_tensors import KeptTensors
from .lazy_outputs import consume
from .meta.branches import Branches
from .meta.model_copy import keep_input_checks, meta_copy
from .meta.operands import tensors_in, tensors_of, without_data
from .meta.values import Values
from .meta.wrappers import wrapper_names
from .missing_inputs import missing_inputs, needs_arguments
from .model_errors import ModelErrorContext, missed_values
from .module_walk import modules_of, not_compiled
from .packed_weights import PackedWeights
from .precision import casts, check_precision, half_floats, in_precision
from .training import (
    ACCUMULATING,
    OptimizerFactory,
    check_is_training,
    check_training,
    make_optimizer,
    note_lost_rows,
    own_tensors,
    run_backward,
    run_optimizer,
)
from .unread import unread_parameters

if TYPE_CHECKING:
    from .parallel.plan import Plan

NO_COMMUNICATION = "what one process computes is counted, with whole parameters; communication is not counted"


def accepts(model: object) -> bool:
    """Return whether ``model`` is a PyTorch module, or a program made of one by ``torch.export``."""
    return isinstance(model, Module) or _is_program(model)


def _is_program(model: object) -> bool:
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(model, export.ExportedProgram)


@collector_off()  # a capture makes few cycles, and each of its many objects would be scanned again and again
def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any,
    *,
    backward: bool = False,
    dtype: torch.dtype | str | None = None,
    regroup: bool | Collection[str] = False,
    memory: bool = False,
    optimizer: str | OptimizerFactory | None = None,
    step: str = "steady",
    loss: Callable[[Any], Any] | None = None,
    checkpoint: str | None = None,
    precision: str | None = None,
    mesh: Mapping[str, int] | None = None,
    plan: Plan | None = None,
    rank: int = 0,
) -> None:
    """Record one pass of ``model`` on ``inputs``.

    The model is copied to the meta device, without its weights, and the copy is run, each module in its present train
    or eval mode. The caller's model and the random state stay as they are.

    Args:
        recorder: receives the calls.
        model: the module, or a ``torch.export.ExportedProgram``, which is converted to a module.
        inputs: a shape (a tuple of ints), a shape with a dtype (``((1, 128), torch.int64)``, or a
            :class:`costcore.Tensor`), a tensor or array (of floats only shape, dtype and ``requires_grad`` are used;
            integers and bools, up to 2**20 of them, keep their values), a list or tuple of these for several arguments,
            a dict for keyword arguments, nested as the module takes them; None for no arguments, or for those that a
            program was exported with. :class:`costcore.Value` passes integers as they are; so does a list or tuple of
            them for a parameter that is annotated as one, or that the code uses as sizes, and a list in a dict inside.
        backward: whether the backward pass of the sum of all floating-point outputs is recorded as well.
        dtype: dtype of the inputs given as shapes alone, ``torch.int64`` or ``"int64"``; None: that of the first
            floating-point parameter.
        regroup: whether functions that PyTorch writes in Python out of several operators (``F.normalize``) are counted
            as one operator in the forward pass, and listed in ``recorder.regrouped``; or names of these operators.
        memory: whether the memory of the run is recorded.
        optimizer: runs a step of this optimizer after the backward pass: ``"sgd"``, ``"sgd_momentum"``, ``"adam"``,
            ``"adamw"``, or a function that takes the parameters and returns a ``torch.optim.Optimizer``.
        step: ``"steady"``: the optimizer has its state before the step; ``"first"``: the step makes it;
            ``"accumulated"``: the last micro-batch of several, before which the gradients of the others exist too.
            Of a distributed model, ``fully_shard`` reduces gradients in each of them, ``DistributedDataParallel`` in
            the last alone; with ``"unsynchronized"`` both do so in the last alone, and gradients are whole before it.
        loss: returns the scalar whose backward pass is run from what the model returned; default: the sum of all
            floating-point outputs, whose own operators are not recorded. A loss and an optimizer imply ``backward``.
        checkpoint: name of a class of modules, whose outermost ones run under ``torch.utils.checkpoint``.
        precision: ``"bfloat16"``: the copy of the model is converted to bfloat16, and the optimizer keeps float32
            copies of its parameters; ``"autocast"``: the forward pass runs under autocast to bfloat16.
        mesh: number of processes along each dimension of a mesh, by name: the pass is that of one of them.
        plan: distributes the copy of the model over the mesh: a function of both, which returns the distributed model
            or None if it changed the copy; for a mesh of one dimension also styles of ``parallelize_module`` by module,
            or the name of one of :data:`.parallel.strategies.STRATEGIES`.
        rank: which process of the mesh it is; negative numbers count from the last.

    Raises:
        TypeError: for an input in any other form, or an invalid option.
        ValueError: for an unknown name in ``regroup``, ``optimizer`` or ``step``, a class of ``checkpoint`` that the
            model has no module of, or a ``step`` or ``checkpoint`` that changes nothing without a backward pass.
        MissingInputsError: without inputs for a model that needs them; the message has an example.
        CostError: if the model has lazy modules, or fails; the message includes the module and the reason.
    """
    operators = check_regroup(regroup)
    check_training(optimizer, step, loss)
    check_precision(precision)
    if not isinstance(memory, bool):
        raise TypeError(f"memory must be True or False (got {memory!r})")
    if mesh is not None or plan is not None:
        from .parallel.plan import check_plan

        check_plan(mesh, plan, rank)
    elif rank != 0:
        raise TypeError(f"rank needs a mesh and a plan (got rank={rank!r})")
    backward = backward or optimizer is not None or loss is not None
    check_is_training(backward, optimizer, step, checkpoint)
    if isinstance(model, Module):
        model = not_compiled(model)
    if inputs is None and isinstance(model, Module) and needs_arguments(model):
        raise missing_inputs(model, partial(_runs, model))
    recorder.memory = memory
    examples = None
    if _is_program(model):
        examples = model.example_inputs
        model = model.module()
    settings = _Settings(operators, backward, loss, optimizer, step, checkpoint, precision, mesh, plan, rank)

    keeps_indices = False

    def record(given: Any, recorder: Recorder, branches: Branches) -> bool:
        kept = KeptTensors(model)
        try:
            lost = _record(recorder, model, given, dtype, examples, settings, kept, branches, keeps_indices)
        except BaseException:
            kept.restore_shared()
            kept.clear_caches()
            raise
        recorder.notes += kept.remove()
        return lost

    branches = Branches({})
    try:
        lost = record(inputs, recorder, branches)
    except CostError:
        found = _on_numbers(recorder, model, inputs, record)
        if found is None:
            raise
        inputs, branches = found
        lost = False
    if lost and recorder.assumptions:
        # Something may be unknown only as a list was the index of a tensor, whose values take time to keep.
        keeps_indices, branches, other = True, Branches({}), recorder.of_another_run()
        record(inputs, other, branches)
        recorder.adopt(other)
    if branches.met:
        from .most_expensive_branches import count_most_expensive

        count_most_expensive(recorder, branches, partial(record, inputs))


def _on_numbers(
    recorder: Recorder, model: Module, inputs: Any, record: Callable[[Any, Recorder, Branches], object]
) -> tuple[Any, Branches] | None:
    """Record a run in which a list of integers is numbers, not the shape of a tensor; None if the model fails too.

    Returns:
        The inputs of the run, and the branches that it met.
    """
    for variant, note in variants_with_numbers(model.forward, inputs):
        other, branches = recorder.of_another_run(), Branches({})
        try:
            record(variant, other, branches)
        except (CostError, TypeError, ValueError):
            continue
        recorder.adopt(other)
        recorder.notes.append(note)
        return variant, branches
    return None


class _Settings(NamedTuple):
    """The validated options of an estimate; see :func:`estimate`."""

    operators: Collection[str]
    backward: bool
    loss: Callable[[Any], Any] | None
    optimizer: str | OptimizerFactory | None
    step: str
    checkpoint: str | None
    precision: str | None
    mesh: Mapping[str, int] | None
    plan: Plan | None
    rank: int


def _record(
    recorder: Recorder,
    model: Module,
    inputs: Any,
    dtype: torch.dtype | str | None,
    examples: Any,
    settings: _Settings,
    kept: KeptTensors,
    branches: Branches,
    keeps_indices: bool,
) -> bool:
    """Record one pass of a copy of ``model``, which is gone when this returns.

    Args:
        recorder: receives the calls.
        model: the module.
        inputs: what it is run on.
        dtype: dtype of the inputs given as shapes alone.
        examples: the inputs that a program was exported with; None for a module.
        settings: the other options.
        kept: watches the tensors of the run.
        branches: which sides of branches are run that data decides.
        keeps_indices: whether tensors that are indexed by lists keep their values.

    Returns:
        Whether some may have lost them.
    """
    operators, backward, loss, optimizer, step, checkpoint, precision, mesh, plan, rank = settings
    values = Values()
    meta_model = meta_copy(model, values, kept.share)
    in_precision(meta_model, precision)
    if examples is not None:
        keep_input_checks(model, meta_model, len(examples[0]))
    recorder.n_params_model = _parameter_count(meta_model)
    recorder.notes += (f"{name}: {NO_COMMUNICATION}" for name in wrapper_names(model))
    if isinstance(dtype, str):
        dtype = torch_dtype(dtype, "dtype")
    if inputs is None and examples is not None:
        args, kwargs = without_data(examples)
        shapes = ", ".join(str(tuple(x.shape)) for x in tensors_of(args, kwargs))
        recorder.notes.append(f"no inputs were passed: the program ran on those it was exported with, {shapes}")
    else:
        default = dtype or _parameter_dtype(meta_model)
        args, kwargs = model_arguments(inputs, default, values, model.forward, recorder.notes)
    if precision == "bfloat16":
        args, kwargs = tree_map_only(Tensor, half_floats, (args, kwargs))
    parallel = _parallel(meta_model, mesh, plan, rank, recorder)
    with WholeEnds(_keep_state(parallel, model, checkpointed(meta_model, checkpoint))) as distribute:
        meta_model = distribute()
        made_optimizer = None if optimizer is None else make_optimizer(optimizer, meta_model, precision == "bfloat16")
        run = _Pass(model, meta_model, args, kwargs, values, backward, loss, precision, branches, mesh is not None)
        if backward and step in ACCUMULATING:
            with (
                WholeEnds(capture(Recorder(), is_estimate=True, keeps_indices=keeps_indices)) as mode,
                _unsynchronized(meta_model, step),
            ):
                kept.watch(mode.recording.logs[-1].identities)
                run.forward_and_backward(mode, nullcontext())
        with WholeEnds(capture(recorder, is_estimate=True, keeps_indices=keeps_indices)) as mode:
            identities, ledger = mode.recording.logs[-1].identities, mode.recording.logs[-1].ledger
            identities.limit_inputs(tensors_of(args, kwargs))
            kept.watch(identities)
            if ledger is not None:
                ledger.watch((meta_model, made_optimizer))
                ledger.watch(own_tensors(args, kwargs))
            regrouping = RegroupedFunctions(mode, recorder, operators) if operators else nullcontext()
            held = run.forward_and_backward(mode, regrouping)
            if made_optimizer is not None:
                with ModelErrorContext(model, mode.recording, "optimizer step", run.passed, values.missed):
                    run_optimizer(mode, made_optimizer, step)
        if identities.used_as_weights and sum(recorder.parameters.values()) > recorder.n_params_model:
            n = sum(identities.used_as_weights.values())
            recorder.notes.append(
                f"n_params has {n:,} elements of tensors that are weights, but no parameters of the model"
            )
        if values.missed and recorder.assumptions:
            recorder.notes.append(f"{type(model).__name__}: {missed_values(model, values.missed)}")
        del held  # the caller of a step holds the result and the loss until its end
    if mesh is None:
        recorder.notes += unread_parameters(recorder)
    return identities.has_unmade


def _parallel(
    model: Module, mesh: Mapping[str, int] | None, plan: Plan | None, rank: int, recorder: Recorder
) -> AbstractContextManager[Callable[[], Module]]:
    """Return a context with a function that returns the distributed model: without a mesh, the model itself."""
    if mesh is None or plan is None:
        return nullcontext(lambda: model)
    from .parallel.plan import distributed

    return distributed(model, mesh, plan, rank, recorder)


def _unsynchronized(model: Module, step: str) -> AbstractContextManager[None]:
    """Return a context of a micro-batch that is not the last of a distributed model."""
    module = sys.modules.get(f"{__package__}.parallel.data_parallel")
    return nullcontext() if module is None else module.unsynchronized(model, shards_too=step == "unsynchronized")


def _runs(model: Module, inputs: Any) -> bool:
    """Return whether a model runs on these inputs."""
    try:
        estimate(Recorder(), model, inputs)
    except (CostError, TypeError, ValueError):
        return False
    return True


class _Pass(NamedTuple):
    """A forward pass of the copy of a model, and the backward pass if it has one."""

    model: Module
    meta_model: Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    values: Values
    backward: bool
    loss: Callable[[Any], Any] | None
    precision: str | None
    branches: Branches
    is_distributed: bool

    @property
    def passed(self) -> list[Any]:
        """All arguments."""
        return [*self.args, *self.kwargs.values()]

    def _settings_of_thread(self, stack: ExitStack) -> None:
        """Make the settings of a thread that the forward pass starts, which PyTorch keeps by thread."""
        stack.enter_context(torch.set_grad_enabled(self.backward))
        stack.enter_context(casts(self.precision))

    def forward_and_backward(self, mode: CaptureMode, regrouping: AbstractContextManager[object]) -> object:
        """Run the pass, and return what its caller holds until the end of a step: the result and the loss."""
        mode.values.update(self.values)
        forward = ModelErrorContext(self.model, mode.recording, "forward", self.passed, self.values.missed)
        draws = nullcontext() if self.is_distributed else _draws_noted(mode)  # PyTorch draws numbers of its messages
        mode.thread_settings, mode.branches = self._settings_of_thread, self.branches
        with torch.set_grad_enabled(self.backward), forward, regrouping, casts(self.precision), draws:
            result = consume(mode, self.meta_model, self.meta_model(*self.args, **self.kwargs))
            wait_for_threads(mode)
        if not self.backward:
            return result
        with ModelErrorContext(self.model, mode.recording, "backward", self.passed, self.values.missed):
            held = run_backward(mode, result, self.loss, type(self.model).__name__)
        note_lost_rows(mode, self.meta_model)
        for ledger in mode.ledgers:
            ledger.returned(tensors_in(held))
        return result, held


@contextmanager
def _keep_state(
    parallel: AbstractContextManager[Callable[[], Module]], model: Module, checkpoint: AbstractContextManager[None]
) -> Iterator[Callable[[], Module]]:
    """Restore what a run changes outside of the copy of the model, whatever ends it."""
    has_gradients = torch.is_grad_enabled()
    try:
        with parallel as distribute, _keep_random_state(), _keep_hooks(model), checkpoint:
            yield distribute
    finally:
        torch.set_grad_enabled(has_gradients)  # Ctrl-C may end a block before it does


@contextmanager
def _keep_random_state() -> Iterator[None]:
    """Restore the random states that a model may draw from: of PyTorch, Python and numpy.

    That of numpy is left alone where nobody imported ``numpy.random`` yet: it starts from no seed of the user.
    """
    numpy_random = sys.modules.get("numpy.random")
    state, of_python, of_numpy = torch.get_rng_state(), random.getstate(), numpy_random and numpy_random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(of_python)
        if numpy_random is not None:
            numpy_random.set_state(of_numpy)


DRAWN = "random numbers of {} were drawn, which may decide what runs: another run may draw others"


@contextmanager
def _draws_noted(mode: CaptureMode) -> Iterator[None]:
    """Note that code of a model draws numbers of Python or numpy: unlike those of PyTorch they are not unknown."""
    numpy_random = sys.modules.get("numpy.random")
    of_python, of_numpy = random.getstate(), numpy_random and _values_of(numpy_random.get_state())
    yield
    if random.getstate() != of_python:
        mode.assume(DRAWN.format("Python"))
    if numpy_random is not None and _values_of(numpy_random.get_state()) != of_numpy:
        mode.assume(DRAWN.format("numpy"))


def _values_of(state: Any) -> tuple[Any, ...]:
    """Return a random state of numpy, in which is an array, as what can be compared."""
    name, key, *rest = state
    return (name, key.tobytes(), *rest)


@contextmanager
def _keep_hooks(model: Module) -> Iterator[None]:
    """Restore the hooks of the model, from which a hook that runs in the copy may remove itself."""
    names = [name for name in vars(Module()) if name.endswith("_hooks")]
    kept = [(hooks, dict(hooks)) for each in modules_of(model) for hooks in filter(None, map(vars(each).get, names))]
    try:
        yield
    finally:
        for hooks, before in kept:
            if hooks != before:
                hooks.clear()
                hooks.update(before)


def _parameter_count(model: Module) -> int:
    counted: dict[int, int] = {}
    for module in modules_of(model):
        for parameter in module._parameters.values():
            if parameter is not None:
                counted[id(parameter)] = parameter.numel()
    packed = (x.numel() for weight in PackedWeights().of(model) for x in (weight.w, weight.b) if x is not None)
    return sum((*counted.values(), *packed))


def _parameter_dtype(model: Module) -> torch.dtype:
    for module in modules_of(model):
        for parameter in module._parameters.values():
            if parameter is not None and parameter.is_floating_point():
                return parameter.dtype
    return torch.get_default_dtype()
