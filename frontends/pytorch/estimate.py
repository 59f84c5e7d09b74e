"""Estimate the cost of one pass of a module on the meta device, without weights or arithmetic.

A copy of the model runs once. It runs again, with other assumptions, if the code asks for a GPU, if a list of integers
in the inputs proves not to be a shape, or if a branch depends on data. Afterwards, :class:`LeakedTensors` removes the
tensors of the run from caches and globals.
"""

from __future__ import annotations

import gc
import random
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import copy
from functools import lru_cache, partial
from itertools import accumulate, chain
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from costcore.errors import CostError
from costcore.trace.interrupts import InterruptSafe, collector_off
from costcore.trace.run import Recorder

from .callables import CallableModule, Model, Twin, as_model, bound, uses_torch
from .capture.context import capture, patched_imports, patched_modules
from .capture.dispatch_mode import CaptureMode, RegroupedFunctions, check_regroup
from .capture.surroundings import (
    FAILS_ON_A_CPU,
    NAMES_A_GPU,
    asks_for_device,
    generators_of_meta,
    gpu_code,
    lacks_gpu,
    on_cpu,
    wait_for_threads,
)
from .inputs import (
    consume,
    count_most_expensive,
    model_arguments,
    torch_dtype,
    variants_as_one,
    variants_with_arrays,
    variants_with_numbers,
)
from .meta.branches import Branch, Branches, EndlessLoopError
from .meta.model_copy import has_lazy_parameters, keep_input_checks, meta_copy, supported_on_meta, wrapper_names
from .meta.object_copy import Copies
from .meta.propagate_values import ASSUMPTIONS, BALANCED, FIRST_CHOICE
from .meta.values import META, PLAIN, Values, masks_are_known, tensors_of, without_data
from .model_errors import (
    ModelErrorContext,
    check_gradients,
    lacks_gradients,
    missed_values,
    missing_inputs,
    needs_arguments,
)
from .recording.modules import Identities
from .tensors import PackedWeights, cached_tensors, modules_of, nested_tensors, not_compiled
from .training import (
    ACCUMULATING,
    ALL_BFLOAT16,
    OptimizerFactory,
    casts,
    check_is_training,
    check_precision,
    check_training,
    checkpointed,
    half_floats,
    in_precision,
    make_optimizer,
    named_arguments,
    note_lost_rows,
    run_backward,
    run_optimizer,
)

if TYPE_CHECKING:
    from .parallel.plan import Plan

_NO_COMMUNICATION = "counts one process with unsharded parameters, and no communication"


def accepts(model: object) -> bool:
    """Return whether ``model`` is a PyTorch module, a program of ``torch.export``, or code that calls modules."""
    return isinstance(model, Module) or _is_program(model) or uses_torch(model)


def _is_program(model: object) -> bool:
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(model, export.ExportedProgram)


@collector_off()  # a capture makes many objects but few cycles: collections would scan them in vain
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
    device: str | None = None,
    nonzero: bool = False,
) -> None:
    """Record one pass of ``model`` on ``inputs``.

    A copy of the model on the meta device runs, each module in its present train or eval mode. The caller's model and
    the state of random generators do not change.

    Args:
        recorder: receives the calls.
        model: the module, or a ``torch.export.ExportedProgram``, which is converted to a module.
        inputs: as for :func:`costcore.estimate`; None for no arguments, or for the inputs that a program was exported
            with. Of a tensor or array of floats, only shape, dtype and ``requires_grad`` are used; integers and bools,
            up to 2**20 of them, keep their values. A list or tuple of integers is passed unchanged if the parameter is
            annotated so, if the code uses the parameter as sizes, or if the list is in a dict that is an argument.
        backward: whether the backward pass is recorded, too.
        dtype: dtype of the inputs given as shapes alone, ``torch.int64`` or ``"int64"``; None: the dtype of the
            first floating-point parameter.
        regroup: whether each function that PyTorch composes from operators in Python (``F.normalize``) counts as one
            operator in the forward pass, listed in ``recorder.regrouped``; or the names of the operators to regroup.
        memory: whether the memory of the run is recorded.
        optimizer: runs a step of this optimizer after the backward pass: ``"sgd"``, ``"sgd_momentum"``, ``"adam"``,
            ``"adamw"``, or a function that takes the parameters and returns a ``torch.optim.Optimizer``.
        step: ``"steady"``: the optimizer has its state before the step. ``"first"``: the optimizer makes its state in
            this step. ``"accumulated"``: the last of several micro-batches, so that gradients exist before it. In a
            distributed model, ``fully_shard`` then reduces gradients in every micro-batch, and
            ``DistributedDataParallel`` only in the last. ``"unsynchronized"``: as ``"accumulated"``, but both reduce
            gradients only in the last micro-batch, and keep whole gradients until then.
        loss: computes the scalar loss from the output of the model; default: the sum of all floating-point outputs,
            whose own operators are not recorded. A loss or an optimizer implies ``backward``.
        checkpoint: the modules that run under ``torch.utils.checkpoint``: a class name, which selects the outermost
            instances, or a pattern of module paths. ``"Block(save=mm,attention)"`` saves the results of
            these operators.
        precision: ``"bfloat16"``: the copy of the model is converted to bfloat16, and the optimizer keeps float32
            copies of its parameters; ``"pure_bfloat16"``: without these copies; ``"autocast"``: the forward pass runs
            under autocast to bfloat16.
        mesh: the sizes of a mesh of processes by name of the dimension; one process is counted.
        plan: a function of the copy of the model and the mesh, which returns the distributed model, or None if it
            changed the copy in place. For a mesh of one dimension also styles of ``parallelize_module`` by module, or
            the name of one of :data:`.parallel.strategies.STRATEGIES`.
        rank: the rank of the counted process in the mesh; negative ranks count from the last.
        device: with ``"cuda"``, ``torch.cuda.is_available()`` returns True in code of the model. Code that uses a GPU
            without this check runs in any case, with a note.
        nonzero: whether nonzero weights are counted, which reads all weights.

    Raises:
        TypeError: for an input in any other form, or an invalid option.
        ValueError: for an unknown name in ``regroup``, ``optimizer`` or ``step``, a ``checkpoint`` that matches no
            module, or a ``step`` or ``checkpoint`` without a backward pass.
        MissingInputsError: without inputs for a model that needs them; the message has an example.
        CostError: if the model fails; the message includes the module and the reason.
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
    if device not in (None, "cuda"):
        raise ValueError(
            f"device must be 'cuda' or None (got {device!r}). For times on a device, call report.time(device=…)"
        )
    backward = backward or optimizer is not None or loss is not None
    check_is_training(backward, optimizer, step, checkpoint)
    examples = None
    if _is_program(model):
        examples = model.example_inputs
        model = model.module()
    called = as_model(not_compiled(model) if isinstance(model, Module) else model)
    model = called.module
    if isinstance(model, Twin) and precision in ALL_BFLOAT16:
        raise CostError(
            f"precision={precision!r} cannot convert a Keras model, as Keras converts its tensors back. "
            "Call keras.config.set_dtype_policy('bfloat16') before you make the model"
        )
    if inputs is None and examples is None and needs_arguments(called):
        raise missing_inputs(called, partial(_runs, called.function or model))
    recorder.memory = memory
    settings = _Settings(
        operators,
        backward,
        loss,
        optimizer,
        step,
        checkpoint,
        precision,
        mesh,
        plan,
        rank,
        dtype,
        examples,
        has_gpu=True if device is not None else None,
        has_gradients=backward,
    )
    # Before the capture begins, because masks may also be buffers of the model or inputs.
    with masks_are_known() if recorder.counts_pairs else nullcontext():
        patched = patched_modules()
        try:
            _record_on_cpu(recorder, called, inputs, settings)
        except CostError:
            if patched_modules() == patched:
                raise
        if patched_modules() != patched:  # the model imported such modules as it ran
            other = recorder.of_another_run()
            _record_on_cpu(other, called, inputs, settings)
            recorder.adopt(other)
    if nonzero:
        recorder.records["nonzero_weights"] = nonzero_weights(model)


def _record_on_cpu(recorder: Recorder, called: Model, inputs: Any, settings: _Settings) -> None:
    # Tensors report the device "cpu". If code that reads the device fails, it may support no CPU: in a second try,
    # tensors report "meta".
    try:
        _record_all(recorder, called, inputs, settings)
    except CostError as error:
        if settings.has_gpu is not None or not asks_for_device(error.__cause__):
            raise
        other = recorder.of_another_run()
        try:
            _record_all(other, called, inputs, settings._replace(has_gpu="meta"))
        except CostError:  # the error has another reason
            raise error from error.__cause__
        recorder.adopt(other)
        recorder.notes.append(FAILS_ON_A_CPU)


def _record_all(recorder: Recorder, called: Model, inputs: Any, settings: _Settings) -> None:
    # Record a pass. Record it again if data decide a branch, or if it fails because there is no GPU, because gradients
    # are disabled, or because a list of integers is not a shape.
    model = called.module
    keeps_indices = False

    def record(given: Any, recorder: Recorder, branches: Branches) -> bool:
        kept = LeakedTensors(model)
        try:
            with patched_imports():
                lost = _record(recorder, called, given, settings, kept, branches, keeps_indices)
        except BaseException:
            kept.restore_shared()
            kept.clean_up()
            raise
        recorder.notes += kept.remove()
        return lost

    def retry(error: CostError) -> bool:
        if settings.has_gpu is None and lacks_gpu(error.__cause__):
            changed, notes = settings._replace(has_gpu=False), [NAMES_A_GPU]
        elif not settings.has_gradients and lacks_gradients(error.__cause__):
            changed, notes = settings._replace(has_gradients=True), []
        else:
            return False
        other = recorder.of_another_run()
        _record_all(other, called, inputs, changed)
        recorder.adopt(other)
        recorder.notes += notes
        return True

    branches = Branches({})
    try:
        lost = record(inputs, recorder, branches)
    except CostError as error:
        if retry(error):
            return
        # Code may exclude index 0, which an assumed ``argmax`` returned, such as a zero frequency: try index 1.
        if not FIRST_CHOICE.get() and any(each.what == ASSUMPTIONS[BALANCED] for each in recorder.assumptions):
            other = recorder.of_another_run()
            token = FIRST_CHOICE.set(1)
            try:
                _record_all(other, called, inputs, settings)
            except CostError:
                raise error from None
            finally:
                FIRST_CHOICE.reset(token)
            recorder.adopt(other)
            return
        failed: list[CostError] = []
        found = _with_raw_inputs(recorder, called, inputs, record, failed)
        past: list[CostError] = []
        found = found or _without_checks(recorder, inputs, record, branches, error, past)
        if found is None:
            if any(retry(each) for each in past if lacks_gradients(each.__cause__)):
                return
            if not failed:
                raise
            if retry(failed[-1]):
                return
            raise failed[-1] from failed[-1].__cause__
        inputs, branches = found
        lost = False
    if lost and recorder.assumptions:
        # Indexing with a list, ``x[[0, 2]]``, may lose the values of ``x``. Only a second run keeps them: it is slower.
        keeps_indices, branches, other = True, Branches({}), recorder.of_another_run()
        record(inputs, other, branches)
        recorder.adopt(other)
    if branches.met:
        for failure in count_most_expensive(recorder, branches, partial(record, inputs)):
            if retry(failure):  # only this side runs a backward pass, or names a GPU
                return


def _with_raw_inputs(
    recorder: Recorder,
    model: Model,
    inputs: Any,
    record: Callable[[Any, Recorder, Branches], object],
    failed: list[CostError],
) -> tuple[Any, Branches] | None:
    """Record a run in which the model receives a list of integers, an array, a dict or a named tuple unchanged.

    Returns:
        The inputs of the run and its branches; None if the model fails on all variants of the inputs. Then ``failed``
        receives the errors of variants on which more calls ran than in ``recorder``.
    """
    forward = model.forward
    variants = variants_with_numbers(forward, inputs), variants_with_arrays(inputs), variants_as_one(forward, inputs)
    for variant, note in chain(*variants):
        other, branches = recorder.of_another_run(), Branches({})
        try:
            record(variant, other, branches)
        except (CostError, TypeError, ValueError) as error:
            if isinstance(error, CostError) and len(other.calls) > len(recorder.calls):
                failed.append(error)
            continue
        recorder.adopt(other)
        recorder.notes.append(note)
        return variant, branches
    return None


_MAX_CHECKS = 8
"""The maximum number of conditions that are assumed False because the model fails otherwise."""


def _without_checks(
    recorder: Recorder,
    inputs: Any,
    record: Callable[[Any, Recorder, Branches], object],
    branches: Branches,
    error: CostError,
    failed: list[CostError],
) -> tuple[Any, Branches] | None:
    # Run the model again with the last undecided condition assumed False, as long as it fails. Some conditions only
    # guard an error: in PyTorch, ``istft`` compares the sum of its windows with 0. ``failed`` receives other errors.
    passing: set[Branch] = set()
    while not isinstance(error, EndlessLoopError) and len(passing) < _MAX_CHECKS:
        if branches.last is None or branches.last in passing:
            return None
        passing.add(branches.last)
        other, branches = recorder.of_another_run(), Branches(dict.fromkeys(passing, False), passing)
        try:
            record(inputs, other, branches)
        except CostError as another:
            error = another
            failed.append(another)
            continue
        recorder.adopt(other)
        return inputs, branches
    return None


HasGpu: TypeAlias = 'bool | Literal["meta"] | None'


class _Settings(NamedTuple):
    # Validated by :func:`estimate`, which describes them.
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
    dtype: torch.dtype | str | None
    examples: Any
    """The example inputs of an exported program; None for a module."""
    has_gpu: HasGpu
    """What ``torch.cuda.is_available()`` returns to the model; None: tensors report a CPU; "meta": they report meta."""
    has_gradients: bool
    """Whether the forward pass runs with gradients."""


def _record(
    recorder: Recorder,
    called: Model,
    inputs: Any,
    settings: _Settings,
    kept: LeakedTensors,
    branches: Branches,
    keeps_indices: bool,
) -> bool:
    """Record one pass of a copy of the model; the copy is freed when this function returns.

    Args:
        recorder: receives the calls.
        called: the module and its call.
        inputs: its inputs.
        settings: the options.
        kept: watches the tensors of the run.
        branches: which side to run of every branch that depends on data.
        keeps_indices: whether tensors that a list indexes keep their values.

    Returns:
        Whether a tensor that a list indexes may have lost its values.
    """
    operators, backward, optimizer, step = settings.operators, settings.backward, settings.optimizer, settings.step
    precision, mesh, plan = settings.precision, settings.mesh, settings.plan
    dtype, examples = settings.dtype, settings.examples
    values, model = Values(), called.module
    memo = Copies()
    with warnings.catch_warnings() if examples is not None else nullcontext():
        if examples is not None:  # PyTorch warns of classes in its own files
            warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec", FutureWarning)
        meta_model = meta_copy(model, values, kept.share, memo)
        is_step = called.function is not None and not backward and plan is None and precision is None
        gradients = [*_copy_gradients(model, memo)] if is_step else []
        if settings.loss is not None:
            criterion = as_model(settings.loss)
            of_copy = meta_copy(criterion.module, values, kept.share, memo)
            settings = settings._replace(loss=bound(criterion, of_copy))
    in_precision(meta_model, precision)
    if examples is not None:
        keep_input_checks(model, meta_model, len(examples[0]))
    recorder.notes += (f"{name}: {_NO_COMMUNICATION}" for name in wrapper_names(model))
    recorder.notes += _note_on_shards(meta_model)
    if isinstance(dtype, str):
        dtype = torch_dtype(dtype, "dtype")
    if inputs is None and examples is not None:
        args, kwargs = without_data(examples)
        shapes = ", ".join(str(tuple(x.shape)) for x in tensors_of(args, kwargs))
        recorder.notes.append(f"no inputs were passed: the program ran on its example inputs, {shapes}")
    else:
        default = dtype or _parameter_dtype(meta_model)
        args, kwargs = model_arguments(inputs, default, values, called.forward, recorder.notes, memo)
        if isinstance(meta_model, CallableModule):
            meta_model.adopt(args, kwargs)
    if hasattr(model, "config"):
        from .libraries import beyond_positions

        recorder.notes += beyond_positions(model, kwargs.get("input_ids", args[0] if args else None))
    if precision in ALL_BFLOAT16:
        args, kwargs = tree_map_only(Tensor, half_floats, (args, kwargs))
    if has_lazy_parameters(meta_model):
        _shape_lazy_parameters(called, meta_model, args, kwargs, values, branches, settings.has_gpu)
    recorder.n_params_model = _parameter_count(meta_model)
    parallel = _parallel(meta_model, mesh, plan, settings.rank, recorder)
    with InterruptSafe(_keep_state(parallel, model, checkpointed(meta_model, settings.checkpoint))) as distribute:
        meta_model = distribute()
        made_optimizer = None if optimizer is None else make_optimizer(optimizer, meta_model, precision == "bfloat16")
        run = _Pass(called, meta_model, args, kwargs, values, settings, branches)
        if backward and step in ACCUMULATING and not _holds_gradients(meta_model):
            # An earlier micro-batch, which is not counted, makes the gradients.
            with (
                InterruptSafe(capture(Recorder(), is_estimate=True, keeps_indices=keeps_indices)) as mode,
                _unsynchronized(meta_model, step),
            ):
                kept.watch(mode.recording.logs[-1].identities)
                run.forward_and_backward(mode, nullcontext())
            # A plan may store these gradients, and set them itself in further estimates.
            note_gradients = getattr(plan, "note_gradients", None)
            if note_gradients is not None:
                note_gradients(meta_model)
        with InterruptSafe(capture(recorder, is_estimate=True, keeps_indices=keeps_indices)) as mode:
            identities, ledger = mode.recording.logs[-1].identities, mode.recording.logs[-1].ledger
            identities.limit_inputs(tensors_of(args, kwargs))
            kept.watch(identities)
            if ledger is not None:
                ledger.watch((meta_model, made_optimizer))
                ledger.watch(named_arguments(args, kwargs))
                ledger.watch(cached_tensors(kwargs), "cached")
            regrouping = RegroupedFunctions(mode, recorder, operators) if operators else nullcontext()
            held = run.forward_and_backward(mode, regrouping)
            if any(x is not None and copied.grad is x and x._version for copied, x in gradients):
                recorder.notes.append(_ADDS_TO_GRADIENTS)
            if made_optimizer is not None:
                with ModelErrorContext(model, mode.recording, "optimizer step", run.passed, values.missed):
                    run_optimizer(mode, made_optimizer, step)
        if identities.used_as_weights and sum(recorder.parameters.values()) > recorder.n_params_model:
            n = sum(identities.used_as_weights.values())
            recorder.notes.append(f"n_params includes {n:,} elements of weights that are not parameters of the model")
        if values.missed and recorder.assumptions:
            recorder.notes.append(f"{type(model).__name__}: {missed_values(model, values.missed)}")
        del held  # as in a training loop, output and loss live until the end of the step
    if mesh is None:
        recorder.notes += unread_parameters(recorder)
    return identities.has_list_index


def _shape_lazy_parameters(
    called: Model,
    meta_model: Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    values: Values,
    branches: Branches,
    has_gpu: HasGpu,
) -> None:
    # Lazy modules get the shapes of their parameters in a first pass, which is not counted. It uses the same values and
    # takes the same sides of branches as the counted pass.
    own = Branches(branches.sides, branches.passing)
    with (
        _keep_random_state(),
        torch.no_grad(),
        capture(Recorder(), is_estimate=True) as mode,
        ModelErrorContext(called.module, mode.recording, "forward", [*args, *kwargs.values()]),
        _gpu(has_gpu),
    ):
        mode.values.update(values.copy())
        mode.branches = own
        try:
            called.run(meta_model, args, kwargs)
        finally:
            branches.last = own.last


def _parallel(
    model: Module, mesh: Mapping[str, int] | None, plan: Plan | None, rank: int, recorder: Recorder
) -> AbstractContextManager[Callable[[], Module]]:
    if mesh is None or plan is None:
        return nullcontext(lambda: model)
    from .parallel.plan import distributed

    return distributed(model, mesh, plan, rank, recorder)


def _unsynchronized(model: Module, step: str) -> AbstractContextManager[None]:
    module = sys.modules.get(f"{__package__}.parallel.plan")  # if it was never imported, no model is distributed
    return nullcontext() if module is None else module.unsynchronized(model, shards_too=step == "unsynchronized")


def _holds_gradients(model: Module) -> bool:
    # Only a plan can have set gradients: the copy of a model begins without them.
    return any(parameter.grad is not None for parameter in model.parameters())


_ADDS_TO_GRADIENTS = "the step adds to existing gradients of the parameters; a step after zero_grad() does not"


def _copy_gradients(model: Module, memo: Mapping[int, Any]) -> Iterator[tuple[Tensor, Tensor | None]]:
    # A training step of the user adds to existing gradients, unless it sets them to None first.
    for parameter in model.parameters():
        x, copied = parameter.grad, memo.get(id(parameter))
        if type(x) is not Tensor or x.layout is not torch.strided or not isinstance(copied, Tensor):
            continue
        if copied.is_meta and (copied.shape, copied.dtype) == (x.shape, x.dtype):
            copied.grad = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=META)
            yield copied, copied.grad


def _runs(model: Module, inputs: Any) -> bool:
    try:
        estimate(Recorder(), model, inputs)
    except (CostError, TypeError, ValueError):
        return False
    return True


class _Pass(NamedTuple):
    called: Model
    meta_model: Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    values: Values
    settings: _Settings
    branches: Branches

    @property
    def passed(self) -> list[Any]:
        """All arguments."""
        return [*self.args, *self.kwargs.values()]

    def _settings_of_thread(self, stack: ExitStack) -> None:
        # PyTorch keeps these settings per thread.
        stack.enter_context(torch.set_grad_enabled(self.settings.has_gradients))
        stack.enter_context(casts(self.settings.precision))
        stack.enter_context(_gpu(self.settings.has_gpu))

    def forward_and_backward(self, mode: CaptureMode, regrouping: AbstractContextManager[object]) -> object:
        """Run the pass, and return the output and the loss; holding them keeps their memory alive, as in a run."""
        mode.values.update(self.values)
        model, settings = self.called.module, self.settings
        forward = ModelErrorContext(model, mode.recording, "forward", self.passed, self.values.missed)
        # In a distributed run, PyTorch draws random ids for its collectives, which decide nothing in the model.
        draws = nullcontext() if settings.mesh is not None else _draws_noted(mode)
        mode.thread_settings, mode.branches = self._settings_of_thread, self.branches
        mode.makes_arrays = self.called.function is not None
        with (
            torch.set_grad_enabled(settings.has_gradients),
            forward,
            regrouping,
            casts(settings.precision),
            draws,
            _gpu(settings.has_gpu),
            supported_on_meta() if settings.has_gradients and not settings.backward else nullcontext(),
        ):
            result = consume(mode, self.meta_model, self.called.run(self.meta_model, self.args, self.kwargs))
            wait_for_threads(mode)
            if not settings.has_gradients:
                check_gradients(mode.recording)
        if not settings.backward:
            return result
        backward = ModelErrorContext(model, mode.recording, "backward", self.passed, self.values.missed)
        with backward, _gpu(settings.has_gpu):  # the loss and recomputed modules name devices, too
            held = run_backward(mode, result, settings.loss, type(model).__name__)
        note_lost_rows(mode, self.meta_model)
        for ledger in mode.ledgers:
            ledger.returned(nested_tensors(held))
        return result, held


def _gpu(has_gpu: HasGpu) -> AbstractContextManager[None]:
    if isinstance(has_gpu, str):
        return generators_of_meta()
    return on_cpu() if has_gpu is None else gpu_code(has_gpu)


@contextmanager
def _keep_state(
    parallel: AbstractContextManager[Callable[[], Module]], model: Module, checkpoint: AbstractContextManager[None]
) -> Iterator[Callable[[], Module]]:
    has_gradients = torch.is_grad_enabled()
    try:
        with parallel as distribute, _keep_random_state(), _keep_hooks(model), checkpoint:
            yield distribute
    finally:
        torch.set_grad_enabled(has_gradients)  # Ctrl-C may interrupt a block before it restores this


@contextmanager
def _keep_random_state() -> Iterator[None]:
    # If ``numpy.random`` is not imported yet, the user has not seeded it, and there is no state to keep.
    numpy_random = sys.modules.get("numpy.random")
    state, python_state, numpy_state = (
        torch.get_rng_state(),
        random.getstate(),
        numpy_random and numpy_random.get_state(),
    )
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(python_state)
        if numpy_random is not None:
            numpy_random.set_state(numpy_state)


_DREW_RANDOM_NUMBERS = (
    "the model drew random numbers from {}, which may decide its branches: another run may take others"
)


@contextmanager
def _draws_noted(mode: CaptureMode) -> Iterator[None]:
    # Random numbers of PyTorch are meta tensors without values; those of Python and numpy can decide a branch.
    numpy_random = sys.modules.get("numpy.random")
    python_state, numpy_state = random.getstate(), numpy_random and _comparable(numpy_random.get_state())
    yield
    if random.getstate() != python_state:
        mode.assume(_DREW_RANDOM_NUMBERS.format("Python"))
    if numpy_random is not None and _comparable(numpy_random.get_state()) != numpy_state:
        mode.assume(_DREW_RANDOM_NUMBERS.format("numpy"))


def _comparable(state: Any) -> tuple[Any, ...]:
    # The state of numpy contains an array, which ``==`` compares by element.
    name, key, *rest = state
    return (name, key.tobytes(), *rest)


@contextmanager
def _keep_hooks(model: Module) -> Iterator[None]:
    # A hook that runs in the copy may remove itself from the model.
    names = [name for name in vars(Module()) if name.endswith("_hooks")]
    kept = [(hooks, dict(hooks)) for each in modules_of(model) for hooks in filter(None, map(vars(each).get, names))]
    try:
        yield
    finally:
        for hooks, before in kept:
            if hooks != before:
                hooks.clear()
                hooks.update(before)


def nonzero_weights(model: Module) -> dict[str, tuple[int, int]]:
    """Return the numbers of nonzero weights and of all weights by module path, without 1-d parameters such as biases.

    Masks of ``torch.nn.utils.prune`` are applied: ``weight_orig`` is multiplied by ``weight_mask``.

    Raises:
        CostError: if the weights are on the meta device.
    """
    found: dict[str, tuple[int, int]] = {}
    with torch.no_grad():
        for path, module in model.named_modules():
            nonzero = size = 0
            for name, weight in module.named_parameters(recurse=False):
                if weight.dim() < 2:
                    continue
                if weight.is_meta:
                    raise CostError(f"nonzero=True needs the values of {path}.{name}, which is on the meta device")
                mask = getattr(module, f"{name.removesuffix('_orig')}_mask", None)
                nonzero += int(torch.count_nonzero(weight if mask is None else weight * mask))
                size += weight.numel()
            if size:
                found[path] = nonzero, size
    return found


def _parameter_count(model: Module) -> int:
    counted: dict[int, int] = {}
    for module in modules_of(model):
        for parameter in module._parameters.values():
            if parameter is not None:
                counted[id(parameter)] = parameter.numel()
    packed = (x.numel() for weight in PackedWeights().of(model) for x in (weight.w, weight.b) if x is not None)
    return sum((*counted.values(), *packed))


def _note_on_shards(model: Module) -> Iterator[str]:
    # Parameters that tensor parallelism shards are DTensors.
    parameters = {id(p): p for module in modules_of(model) for p in module._parameters.values() if p is not None}
    if all(type(p) is Parameter for p in parameters.values()):
        return
    local = {key: getattr(p, "_local_tensor", p).numel() for key, p in parameters.items() if not is_lazy(p)}
    n, n_local = sum(parameters[key].numel() for key in local), sum(local.values())
    if n_local < n:
        yield f"DTensor: this process is counted, with its shards of the parameters, {n_local:,} of {n:,} elements"


def _parameter_dtype(model: Module) -> torch.dtype:
    for module in modules_of(model):
        for parameter in module._parameters.values():
            if parameter is not None and parameter.dtype.is_floating_point:
                return parameter.dtype
    return torch.get_default_dtype()


# Leaked tensors: in caches, in globals and on classes
#
# Code of a model may cache a tensor by its size, such as position embeddings. A meta tensor in such a cache would break
# the next run of the model. It would also change the next estimate, which would not count how the tensor is made.


_Cache: Any = type(lru_cache(len))

_NOT_OF_USERS = ("torch", "builtins")

_NOT_SEARCHED = (Tensor, Module, type, ModuleType, FunctionType)
"""Types that are not searched: they hold far more than the content of a cache."""

_MAX_DEPTH = 4
"""The maximum nesting of containers around a tensor in a cache."""

_MAX_SEARCHED = 16
"""The maximum number of tensors whose holders are searched: each search looks at all objects of the process."""

_caches: WeakKeyDictionary[type, set[ref[Any]]] = WeakKeyDictionary()
"""The ``lru_cache`` objects that the code of a class may use, by class."""


class LeakedTensors:
    """Cleans up tensors that code keeps outside of the model: in caches, globals or class attributes.

    Caches of functions that hold tensors of an earlier run are cleared at the start: the estimate would otherwise not
    count the operators that make these tensors.

    Args:
        model: the model. Its classes and the modules that define them are searched.
    """

    def __init__(self, model: Module) -> None:
        self._classes = set(filter(_is_of_user, set(map(type, modules_of(model)))))
        _clear_caches_of(self._classes)
        modules = {id(module): module for module in map(_module_of, self._classes) if module is not None}
        owners: list[Any] = [*self._classes, *modules.values()]
        self._namespaces = [(owner, dict(vars(owner))) for owner in owners]
        others = (module for module in _modules_of_users(self._classes) if id(module) not in modules)
        self._others = [(module, dict(vars(module))) for module in others]
        names = (names for module in modules_of(model) for names in (vars(module), module._buffers))
        self._names_of_modules = [(each, dict(each)) for each in names]
        self._watched: list[Identities] = []
        self._shared: list[tuple[Any, Any, bool]] = []

    def share(self, containers: Iterable[tuple[Any, bool]]) -> None:
        """Watch lists, dicts, sets and attributes of objects to which functions of the model and of its copy refer.

        Args:
            containers: pairs of a container and whether several functions refer to it. Then one may store tensors of
                the copy in it, and another may read them in the next run of the model.
        """
        self._shared += [(container, copy(container), is_read) for container, is_read in containers]

    def restore_shared(self) -> None:
        """Restore containers whose items were replaced, and those from which the model may read tensors of the run.

        Other containers keep what the run added, such as a list in which a hook collects results.
        """
        made = set(map(id, self._tensors())) if self._shared else set()
        for container, before, is_read in self._shared:
            keeps = is_read and not made.isdisjoint(map(id, _within([container])))
            if keeps or not _has_all(container, before):
                if not isinstance(container, dict) or [*container] != [*before]:
                    container.clear()  # not attributes that were only replaced: other threads may read them
                (container.update if isinstance(container, (dict, set)) else container.extend)(before)
        self._shared.clear()

    def watch(self, identities: Identities) -> None:
        """Watch the tensors of one run."""
        self._watched.append(identities)

    def clean_up(self) -> None:
        """Clear caches and restore globals, as after an error: the traceback then keeps all other tensors alive."""
        _clear_caches_of(self._classes)
        self._restore_namespaces()

    def remove(self) -> Iterator[str]:
        """Remove leaked tensors after the run; yield notes on tensors that remain or were there before the run."""
        for name in self._used_from_before():
            yield f"{name} holds tensors from before this estimate, which the model reads: making them is not counted"
        self.restore_shared()
        if not self._tensors():
            return
        self.clean_up()
        if self._tensors():
            gc.collect(0)  # cycles: the collector was off, so that all new objects are in the youngest generation
        _remove_from_holders(self._tensors())
        if not self._tensors():
            return
        gc.collect()  # cycles that survived an earlier collection, such as one by the code of the model
        kept = [tensor for tensor in self._tensors() if tensor.is_meta]
        if kept:
            stay = "stay" if len(kept) > 1 else "stays"
            yield f"{_described(kept)} of this estimate {stay} in objects of the code of the model, without data"

    def _used_from_before(self) -> Iterator[str]:
        used = {storage._cdata for each in self._watched for storage in each.from_outside() if storage.device != META}
        for owner, before in self._namespaces if used else ():
            for name, value in before.items():
                tensors = (x for x in _within([value]) if type(x) in PLAIN and x.layout is torch.strided)
                if any(x.untyped_storage()._cdata in used for x in tensors):
                    yield f"{owner.__name__}.{name}"
        for module, before in self._others if used else ():
            for name, value in before.items():
                if type(value) in PLAIN and value.layout is torch.strided and value.untyped_storage()._cdata in used:
                    yield f"{module.__name__}.{name}"

    def _tensors(self) -> list[Tensor]:
        return [tensor for each in self._watched for tensor in each.made()]

    def _restore_namespaces(self) -> None:
        kept = set(map(id, self._tensors()))
        for names, was in self._names_of_modules if kept else ():  # a class may list the modules that it made
            for name in _leaking(names, was, kept):
                if name in was:
                    names[name] = was[name]
                else:
                    del names[name]
        for owner, before in (*self._namespaces, *self._others) if kept else ():
            for name in _leaking(vars(owner), before, kept):
                if name in before:
                    setattr(owner, name, before[name])
                else:
                    delattr(owner, name)


def _leaking(names: Mapping[str, Any], before: Mapping[str, Any], kept: set[int]) -> Iterator[str]:
    for name, value in [*names.items()]:
        if value is not before.get(name) and not kept.isdisjoint(map(id, _within([value]))):
            yield name


def clear_caches(model: Module) -> None:
    """Clear the caches of functions in the code of a model that hold tensors."""
    _clear_caches_of(set(map(type, modules_of(model))))


def _clear_caches_of(kinds: Iterable[type]) -> None:
    for found in set().union(*map(_caches_of, kinds)):
        cache = found()
        if cache is not None and cache.cache_info().currsize and any(isinstance(x, Tensor) for x in _within([cache])):
            cache.cache_clear()


def _is_of_user(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in _NOT_OF_USERS


def _modules_of_users(kinds: Iterable[type]) -> list[ModuleType]:
    # Modules that may keep tensors in globals: those of the user, and of the packages that define the model.
    packages = frozenset(kind.__module__.partition(".")[0] for kind in kinds)
    n_modules, names = _last_search.get(packages, (0, []))
    if n_modules != len(sys.modules):
        names = [name for name, module in [*sys.modules.items()] if _may_keep_tensors(name, module, packages)]
        _last_search[packages] = len(sys.modules), names
    found = (sys.modules.get(name) for name in names)
    return [module for module in found if type(module) is ModuleType]


def _may_keep_tensors(name: str, module: Any, packages: Collection[str]) -> bool:
    top = name.partition(".")[0]
    if top in (*_NOT_OF_USERS, "costcore"):
        return False
    if top in packages:
        return True
    path = getattr(module, "__file__", None)
    is_own = isinstance(path, str) and not _INSTALLED.search(path) and top not in sys.stdlib_module_names
    return is_own or name == "__main__"


_last_search: dict[frozenset[str], tuple[int, list[str]]] = {}
"""The number of imported modules at the last search, and the names that it found, by the packages of a model."""

_INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")


def _module_of(kind: type) -> ModuleType | None:
    return sys.modules.get(kind.__module__)


def _caches_of(kind: type) -> set[ref[Any]]:
    found = _caches.get(kind)
    if found is None:
        classes = [base for base in kind.__mro__ if _is_of_user(base)]
        owners: list[Any] = [*classes, *(module for module in map(_module_of, classes) if module is not None)]
        values = (value for owner in owners for value in [*vars(owner).values()])
        found = _caches[kind] = {ref(cache) for value in values for cache in _caches_in(value)}
    return found


def _caches_in(value: Any) -> Iterator[Any]:
    value = getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
    if type(value) is _Cache:
        yield value
    elif type(value) is FunctionType:
        for cell in value.__closure__ or ():
            held = [*gc.get_referents(cell)]  # none while the variable has no value
            yield from (each for each in held if type(each) is _Cache)


def _within(containers: Iterable[Any]) -> Iterator[Any]:
    level: Sequence[Any] = [*containers]
    for _ in range(_MAX_DEPTH):
        yield from level
        searched = [x for x in level if gc.is_tracked(x) and not isinstance(x, _NOT_SEARCHED)]
        if not searched:
            return
        level = gc.get_referents(*searched)


def _remove_from_holders(held: Sequence[Any]) -> None:
    # Clear caches, and delete items of dicts, that hold these tensors, also inside lists and tuples. Attributes of
    # objects stay: code may rely on them.
    for _ in range(_MAX_DEPTH):
        held = held[:_MAX_SEARCHED]
        ids = set(map(id, held))
        holders = gc.get_referrers(*held) if held else []
        ids.add(id(held))
        held = [x for x in holders if isinstance(x, (tuple, list)) and id(x) not in ids]
        for holder in holders:
            if type(holder) is _Cache:
                holder.cache_clear()
            elif isinstance(holder, dict) and not _is_namespace(holder):
                for key in [key for key, value in holder.items() if id(value) in ids]:
                    del holder[key]


def _has_all(container: Any, before: Any) -> bool:
    if isinstance(container, dict):
        return all(name in container and container[name] is value for name, value in before.items())
    if isinstance(container, set):
        return bool(container >= before)
    return len(container) >= len(before) and all(new is old for new, old in zip(container, before, strict=False))


def _is_namespace(names: dict[Any, Any]) -> bool:
    owners = (x for x in gc.get_referrers(names) if not isinstance(x, FunctionType))
    return any(getattr(x, "__dict__", None) is names for x in owners)


def _described(tensors: Sequence[Tensor]) -> str:
    shapes = [str(tuple(tensor.shape)) for tensor in tensors]
    return f"{len(shapes)} tensor{'s' * (len(shapes) > 1)} ({', '.join(shapes[:3])}{', …' * (len(shapes) > 3)})"


# Unread parameters, such as a head for training only


def unread_parameters(recorder: Recorder) -> Iterator[str]:
    """Yield a note on parameters that the pass never reads; it names the outermost modules that are never read."""
    read = {each for call in recorder.calls for each in call.parameters}
    modules = recorder.modules.items()
    in_use = {each for path, module in modules if not read.isdisjoint(module.parameters) for each in _outermost(path)}
    unread = {path: [each for each in module.parameters if each not in read] for path, module in modules}
    names = [next((each for each in _outermost(path) if each not in in_use), path) for path in unread if unread[path]]
    total = sum(recorder.parameters[each] for found in unread.values() for each in found)
    if names and read:
        shown = [path or "the model itself" for path in dict.fromkeys(names)]
        text = ", ".join(shown[:3]) + ", …" * (len(shown) > 3)
        yield f"no call reads {total:,} of the {recorder.n_params_model:,} parameters: {text}"


def _outermost(path: str) -> Iterator[str]:
    return accumulate(path.split("."), lambda around, name: f"{around}.{name}")
