"""The register of private names of PyTorch and of transformers in this frontend.

A release may change any of them without notice. ``python -m costcore.frontends.pytorch.torch_private`` prints each with
its purpose, and whether the installed release has it. A test checks that every private name in use has a row here;
names of operators are in ``tests/data/torch_versions.json`` instead. Nothing imports this file in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import torch


class Private(NamedTuple):
    """A private name.

    Attributes:
        owner: the module, or a key of :data:`SAMPLES`, that has it.
        name: the name.
        purpose: its use.
        is_needed: whether the frontend fails without it; otherwise the frontend looks for it, or tries it.
        releases: the releases of PyTorch that have it, if known: ``2.6-`` from 2.6 on, ``-2.5`` up to 2.5.
        test: the file of tests that fails if it means something else, below ``tests/frontends/pytorch``.
    """

    owner: str
    name: str
    purpose: str
    is_needed: bool
    releases: str
    test: str


SAMPLES: dict[str, Callable[[], Any]] = {
    "Module": torch.nn.Module,
    "Tensor": lambda: torch.ones(1),
    "UntypedStorage": lambda: torch.ones(1).untyped_storage(),
    "OpOverload": lambda: torch.ops.aten.add.Tensor,
    "OpOverloadPacket": lambda: torch.ops.aten.add,
    "Node": lambda: torch.ones(1, requires_grad=True).sin().grad_fn,
    "a node of a product": lambda: torch.ones(2, 2, requires_grad=True).prod(0).grad_fn,
    "Library": lambda: torch.library.Library("costcore_register", "FRAGMENT"),
    "MultiheadAttention": lambda: torch.nn.MultiheadAttention(2, 1),
}
"""Functions that make objects whose attributes are in the register."""

_TABLE = """
[torch._C]
_ExcludeDispatchKeyGuard | runs operators as if nothing was captured | needed | | capture/same_results
_DisableFuncTorch | computes known values outside of vmap | needed | | meta/values
_swap_tensor_impl | moves tensors with data to the meta device, where their gradients are | needed | | any_model
_DisableTorchDispatch | replays a trace outside of modes | needed | | traces/recorded_networks
_current_autograd_node | separates forward from backward, finds modules of gradients | needed | | capture/backward
_current_graph_task_id | recognizes callbacks at the end of a backward pass | needed | | capture/backward
_functorch | level of vmap, inside of which composite operators are left alone | needed | | capture/execution_modes
_nn | owner of composite functions, and their names | needed | | capture/composite_patches
_fft | names of functions | needed | | spelling
_linalg | names of functions | needed | | spelling
_special | names of functions | needed | | spelling
_get_tracing_state | reads shapes without tracing | needed | | conventions/passes
_set_tracing_state | reads shapes without tracing | needed | | conventions/passes
_is_any_autocast_enabled | asks whether autocast casts operands | needed | | capture/autocast
_jit_get_schemas_for_operator | finds overloads by name | needed | | rows/table
_len_torch_dispatch_stack | asks whether another mode is active | needed | | capture/overlapping_hooks
_len_torch_function_stack | follows functions | needed | | spelling
_get_function_stack_at | follows functions | needed | | spelling
_pop_torch_function_stack | follows functions below other modes | needed | | spelling
_push_on_torch_function_stack | follows functions below other modes | needed | | spelling
_dispatch_get_registrations_for_dispatch_key | lists operators with a rule of autocast | needed | | capture/autocast
_dispatch_key_parse | finds a key that nothing else uses | needed | | memory/derivatives
_dispatch_has_kernel | asks whether an operator exists | needed | | capture/same_calls
_dispatch_has_kernel_for_dispatch_key | asks how an operator runs on a device | needed | | rows/table
_dispatch_keyset_full_after | passes a composite operator on | needed | | capture/composite_patches
_dispatch_tls_is_dispatch_key_excluded | reads lazy views inside of a mode | needed | | capture/tensor_types
_dispatch_tls_is_dispatch_key_included | enters the key PreDispatch | needed | | capture/lifetimes
_dispatch_tls_set_dispatch_key_excluded | reads lazy views inside of a mode | needed | | capture/tensor_types
_dispatch_tls_set_dispatch_key_included | enters the key PreDispatch | needed | | capture/lifetimes
[torch]
_int_mm | multiplies int8 of quantized models | needed | | recording/wrapped_parameters
_C | owner of the private functions above, dispatch keys and guards | needed | | capture/capture
_VF | owner of composite functions | needed | | capture/composite_patches
_empty_affine_quantized | unpacks weights without data | needed | | rows/quantization
_fused_sdp_choice | asks which attention a CPU runs | needed | | memory/cases
_check_with | runs kernels for meta tensors without sympy | needed | | estimate
_decomp | lists the kernels that import the compiler | needed | | estimate
_disable_dynamo | runs kernels for meta tensors without the compiler | needed | | estimate
_dynamo | lets compiled models run as written | looked for | | capture/compiled_models
_guards | gives the compiler the mode of its inputs | needed | | schedule
_functorch | disables a cache of schedules | looked for | | schedule
_inductor | lists the kernels of compiled models | looked for | | schedule
_subclasses | compiles without data | looked for | | schedule
_ops | types of operators | needed | | rows/table
_jit_internal | names of functions that dispatch on a flag | needed | | spelling
_tensor | skips frames of PyTorch | looked for | | spelling
[torch._ops]
_compute_keyset | passes a higher-order operator on | needed | | branches
[torch._dynamo.eval_frame]
_stance | restores how compiled models run | looked for | 2.6- | capture/compiled_models
_set_stance | restores how compiled models run | looked for | 2.6- | capture/compiled_models
[torch.compiler]
_is_compiling_flag | runs functions that compile themselves | looked for | | branches
[torch.amp.autocast_mode]
_cast | casts the inputs of custom functions | needed | | capture/autocast
[torch.autograd.forward_ad]
_current_level | finds tangents of operands, whose operators run beside | needed | | capture/execution_modes
[torch._VF]
_unpack_dual | finds tangents of operands | needed | | capture/execution_modes
[torch.autograd]
_get_sequence_nr | finds the module of a gradient | needed | | capture/backward
[torch.autograd.graph]
_engine_run_backward | runs the backward pass | looked for | | training
[torch.distributed]
_make_nccl_premul_sum | makes a reduction with a factor | looked for | | parallel/collectives
_composable | older place of fully_shard | looked for | | meta/wrappers
_tensor | older place of distributed tensors | looked for | | parallel/missing
_compute_bucket_assignment_by_size | buckets of gradients | needed | | parallel/processes
_DEFAULT_FIRST_BUCKET_BYTES | buckets of gradients | needed | | parallel/processes
[torch.distributed.distributed_c10d]
_resolve_process_group | size of a group | needed | | parallel/collectives
[torch.distributed.fsdp]
_fully_shard | parts of parameters that are gathered | looked for | 2.6- | parallel/processes
[torch.distributed.fsdp._fully_shard._fsdp_init]
_get_device_from_mesh | lets fully_shard run on the meta device | looked for | 2.6- | parallel/estimate
[torch.distributed.fsdp._fully_shard._fsdp_param_group]
_get_device_handle | lets fully_shard run on the meta device | looked for | 2.6- | parallel/estimate
[torch.distributed.tensor]
_random | keeps the random state of a mesh | looked for | 2.5- | parallel/mesh
_sharding_prop | infers shapes, which is not counted | looked for | 2.5- | parallel/mesh
_decompositions | infers shapes, which is not counted | looked for | | parallel/mesh
_redistribute | keeps meshes that no longer exist | needed | 2.5- | plans/plan
[torch.distributed.tensor._redistribute]
_gen_transform_infos | keeps meshes that no longer exist | looked for | 2.5- | plans/plan
[torch.distributed.tensor.DTensor]
_op_dispatcher | holds the random state of a mesh | needed | 2.5- | parallel/mesh
[torch.distributed.pipelining]
_utils | runs a pipeline stage in inference | looked for | | parallel/estimate
[torch.distributed.pipelining.schedules]
_PipelineSchedule | takes the schedule of one process | looked for | | parallel/estimate
_batch_p2p | exchanges nothing between stages | looked for | | parallel/estimate
[torch.distributed.pipelining.stage]
_PipelineStageBase | takes the stage of one process | looked for | | parallel/estimate
[torch.nn.parallel.DistributedDataParallel]
_ddp_init_helper | makes a data-parallel model without other processes | needed | | parallel/processes
[torch.cuda]
_sleep | lets the GPU wait in a calibration | looked for | | calibration/measure
[torch.jit]
_builtins | table of functions, filled before a patch | needed | | capture/no_side_effects
[torch.jit._builtins]
_get_builtin_table | table of functions, filled before a patch | needed | | capture/no_side_effects
[torch.nested]
_internal | class of jagged tensors | needed | | rows/attention
[torch.nn.attention.flex_attention]
_validate_device | lets flex_attention run on the meta device | looked for | 2.5- | rows/attention
_identity | tells whether flex_attention changes scores | needed | 2.5- | attention_pairs
[torch.testing]
_internal | process group without processes | needed | | parallel/mesh
[torch._inductor.scheduler.Scheduler]
_init | makes the kernels | looked for | 2.7- | schedule
[torch.utils]
_pytree | maps the tensors among arguments | needed | | schedule
_python_dispatch | dispatch modes | needed | | capture/capture
_device | device as a context | needed | | capture/no_side_effects
_foreach_utils | clips lists of gradients as on a CPU | looked for | | any_model
[torch.utils._device]
_device_constructors | functions that make tensors, filled before a patch | needed | | capture/no_side_effects
[torch.utils._python_dispatch]
_disable_current_modes | reads parts of tensors unseen | needed | | rows/matmul
_get_current_dispatch_mode | asks whether the capture is the next mode | needed | | branches
_get_current_dispatch_mode_stack | removes the capture from below others | needed | | capture/lifetimes
_pop_mode | removes the capture from below others | needed | | capture/lifetimes
_pop_mode_temporarily | runs higher-order operators | needed | | branches
_push_mode | removes the capture from below others | needed | | capture/lifetimes
_is_in_any_mode_without_ignore_compile_internals | restored after a run | looked for | | capture/compiled_models
[torch.utils.backend_registration]
_privateuse1_backend_name | takes the fast path of transformers under autocast | needed | | capture/autocast
[torch.utils.checkpoint]
_CachingTorchDispatchMode | saves attention in selective checkpointing | needed | | selective_checkpointing
_CachedTorchDispatchMode | saves attention in selective checkpointing | needed | | selective_checkpointing
_infer_device_type | recomputes under the same autocast | needed | | capture/device_autocast
_get_device_module | checkpoints meta tensors | looked for | | memory/checkpoints
[Tensor]
_version | whether coordinates of points were changed | needed | | kernels
_nnz | number of values of a sparse tensor | needed | | any_model
_base | finds the parameter of a view | needed | | recording/identity
_is_view | finds the parameter of a view | needed | | recording/identity
_backward_hooks | copies the hooks of parameters | needed | | any_model
_post_accumulate_grad_hooks | copies the hooks of parameters | needed | | any_model
_indices | size of a sparse tensor | needed | | capture/tensor_types
_values | size of a sparse tensor | needed | | capture/tensor_types
_nested_tensor_size | sizes of samples | needed | | rows/attention
[a jagged tensor]
_maybe_min_seqlen | lengths of attended samples | needed | | capture/tensor_types
_maybe_max_seqlen | lengths of attended samples | needed | | capture/tensor_types
[UntypedStorage]
_cdata | address of memory, also without data | needed | | memory/rules
[Module]
_modules | children | needed | | recording/module_tree
_parameters | parameters, without a search | needed | | recording/module_tree
_buffers | buffers, without a search | needed | | recording/module_tree
_call_impl | calls a copy without hooks | needed | | capture/fast_path
_compiled_call_impl | runs compiled modules as written | needed | | capture/compiled_models
_forward_hooks | conditions of the fast path | needed | | capture/fast_path
_forward_pre_hooks | conditions of the fast path | needed | | capture/fast_path
[MultiheadAttention]
_qkv_same_embed_dim | conditions of the fast path | needed | | capture/fast_path
[an exported program]
_guards_code | Python code of a file, which is dropped | looked for | 2.8- | any_model
[a scripted module]
_c | methods and constants of TorchScript | needed | | capture/execution_modes
[OpOverload]
_overloadpacket | key of the formulas for FlopCounterMode | needed | | own_costs
_schema | arguments, results, and what is written | needed | | rows/table
_op | runs an operator without Python code | needed | | capture/overhead
_op_dk | runs a kernel of nested tensors | needed | | capture/tensor_types
_handle | passes a composite operator on | needed | | capture/overhead
[OpOverloadPacket]
_qualified_op_name | full name of an operator | needed | | rows/table
[Node]
_sequence_nr | finds the module of a gradient | needed | | capture/backward
[a node of a product]
_saved_dim | computes gradients as on data | needed | | memory/derivatives
_saved_keepdim | computes gradients as on data | needed | | memory/derivatives
[Library]
_destroy | unregisters kernels | needed | | capture/failures
[a method of TorchScript]
_get_method | constants of TorchScript | needed | | capture/execution_modes
_method_names | constants of TorchScript | needed | | capture/execution_modes
[a packed weight]
_has_method | unpacks weights | needed | | rows/quantization
[a custom operator]
_qualname | full name of an operator | looked for | | rows/table
[a compiled function]
_torchdynamo_orig_callable | copies what was compiled | looked for | | capture/compiled_models
[an exported module]
_guards_fn | checks inputs itself | looked for | 2.9- | capture/execution_modes
[a distributed tensor]
_local_tensor | the shard of this process | needed | | parallel/processes
[a module of FSDP]
_fsdp_wrapped_module | the module that is wrapped | needed | | meta/wrappers
_param_infos | parameters in a flat one | needed | | meta/wrappers
_params | parameters in a flat one | needed | | meta/wrappers
_shapes | parameters in a flat one | needed | | meta/wrappers
_shared_param_infos | parameters in a flat one | needed | | meta/wrappers
_get_fsdp_state | parts of parameters that are gathered | looked for | | parallel/processes
_fsdp_param_group | parts of parameters that are gathered | looked for | | parallel/processes
_fsdp_param_groups | parts of parameters that are gathered | looked for | | parallel/processes
_module_info | whole parameter of a shard | needed | | meta/wrappers
_orig_size | whole parameter of a shard | needed | | meta/wrappers
_unsharded_param | whole parameter of a shard | looked for | | parallel/processes
_validate_no_meta_params | lets fully_shard run on the meta device | looked for | | parallel/estimate
[a stage of a pipeline]
_get_init_p2p_neighbors_ops | exchanges nothing between stages | looked for | | parallel/estimate
_inference_mode | whether a stage has no backward pass | looked for | | parallel/estimate
_shape_inference | infers shapes of one stage | looked for | | parallel/estimate
_user_meta | shapes that the user gave | looked for | | parallel/estimate
_warmup_p2p | exchanges nothing between stages | looked for | | parallel/estimate
[a mesh of processes]
_flatten | joins dimensions | needed | | plans/experts_and_sequences
[a process group]
_set_group_desc | name of a dimension of a mesh | needed | | parallel/mesh
[a sharding of DTensor]
_rng_tracker | holds the random state of a mesh | looked for | | parallel/mesh
[transformers]
_experts_implementation | how experts run | looked for | | experts
_name_or_path | names a configuration | looked for | | libraries
"""


def _rows() -> Iterator[Private]:
    owner = ""
    for line in _TABLE.strip().splitlines():
        if line.startswith("["):
            owner = line[1:-1]
        else:
            name, purpose, need, releases, test = (cell.strip() for cell in line.split("|"))
            folder, _, file = test.rpartition("/")
            yield Private(owner, name, purpose, need == "needed", releases, f"{folder}/test_{file}.py".lstrip("/"))


REGISTER = (*_rows(),)
"""All private names, grouped by owner."""


def is_there(row: Private) -> bool | None:
    """Return whether the installed release has a name; None if only its test shows that."""
    if row.owner in SAMPLES:
        return hasattr(SAMPLES[row.owner](), row.name)
    if not row.owner.startswith("torch"):
        return None
    path, rest = row.owner, [row.name]
    while path:
        try:
            found: Any = import_module(path)
            break
        except ImportError:
            path, _, last = path.rpartition(".")
            rest.insert(0, last)
    for name in rest:
        inner = getattr(found, name, None)
        if inner is None:
            try:
                inner = import_module(f"{found.__name__}.{name}")
            except (AttributeError, ImportError):
                return hasattr(found, name)
        found = inner
    return True


def described() -> Iterator[str]:
    """Yield a line for every name: whether it is there, and its purpose."""
    words = {True: "there", False: "MISSING", None: "see test"}
    for row in REGISTER:
        need = "needed" if row.is_needed else "looked for"
        name, test = f"{row.owner}: {row.name}", f"tests/frontends/pytorch/{row.test}"
        yield f"{words[is_there(row)]:8} {need:10} {row.releases:5} {name} ({row.purpose}; {test})"


if __name__ == "__main__":
    print(f"PyTorch {torch.__version__}", *described(), sep="\n")
