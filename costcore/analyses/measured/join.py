"""Join a profile with a run: match measured calls and kernels to the calls of the report.

PyTorch calls match in order, by a longest common subsequence. Kernels of a graph runtime match by names of nodes.
"""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from os import PathLike, fsdecode
from types import MappingProxyType
from typing import Any, NamedTuple

from costcore.analyses.devices.device import Device, device_named
from costcore.analyses.measured.measured import Measured, work_of
from costcore.analyses.timing.bound import LEAST
from costcore.analyses.timing.times import Times, times_of
from costcore.errors import CostError, short_repr
from costcore.files import check_values, read_file
from costcore.ir import Cost
from costcore.trace.call import Call
from costcore.trace.run import CallTime, Elsewhere, Interval, Profile, divide, starts
from costcore.trace.trace import Trace

ONLY_THERE = "in the profile only"


def with_profile(trace: Trace, other: Trace) -> Trace:
    """Return a run with the measurements of another capture of the same model.

    Calls are the same if they have the same phase, module, operator and input shapes, in the same order; the rest is
    paired in any order within modules of one class, see :func:`pairs_of`. Modules are compared by their classes and the
    order in which they first ran, as a profile names them.

    Args:
        trace: the run, such as an estimate of the model.
        other: the run that was measured.

    Raises:
        CostError: if nothing was measured there, or no call matches.
    """
    profile = other.run.profile
    if profile is None:
        raise CostError("the profile has no times. Pass the report of a trace: estimate('step.pt.trace.json.gz')")
    found = pairs_of(trace, other)
    calls = {
        position: profile.calls[position_there]
        for position, position_there in found.items()
        if position_there in profile.calls
    }
    profile, of_kernels, inside = _with_kernels(trace, profile, {*found}, {*found.values()})
    if not found and not of_kernels:
        why = "".join(f". {remark}" for remark in profile.remarks)
        raise CostError(f"no call of the profile has the phase, operator and shapes of a call of the run{why}")
    calls |= of_kernels
    left: dict[str, list[int]] = defaultdict(list)
    taken = {*found.values()}
    for position, call in enumerate(other.calls):
        if position in profile.calls and position not in taken and position not in profile.kernels:
            left[call.native].append(position)
    clock = "device" if profile.clock == "device" else "host"
    elsewhere = [
        Elsewhere(
            ONLY_THERE,
            native,
            sum(getattr(profile.calls[i], clock) for i in positions),
            sum(profile.calls[i].alone for i in positions),
            len(positions),
        )
        for native, positions in left.items()
    ]
    elsewhere.sort(key=lambda each: -each.time)
    found_profile = profile._replace(
        calls=calls, elsewhere=(*profile.elsewhere, *elsewhere), inside=inside, kernels=MappingProxyType({})
    )
    return with_times(trace, found_profile)


def with_times(trace: Trace, profile: Profile) -> Trace:
    """Return a run with its measurements."""
    clock = "device" if profile.clock == "device" else "host"
    records = (
        record._replace(seconds=getattr(profile.calls[i], clock) / 1e9 if i in profile.calls else None)
        for i, record in enumerate(trace)
    )
    return Trace(tuple(records), trace.run.recording(profile=profile))


def pairs_of(trace: Trace, other: Trace) -> dict[int, int]:
    """Map the positions of calls of ``trace`` to the positions of the same calls of ``other``.

    Calls are paired in order in three ways, and the one with the most pairs wins: comparing modules with the profile's
    own numbers, with numbers counted again over its calls, and ignoring modules. The first is best if events are
    missing, the second if the profile also numbered modules that ran before the run. The remaining calls are paired in
    any order, if phase, class of the module, operator and input shapes are equal.
    """
    names = module_names(trace)
    attempts: tuple[tuple[Mapping[str, str], Mapping[str, str]], ...]
    attempts = ((names, {path: path for path in other.run.modules}), (names, module_names(other)), ({}, {}))
    found: dict[int, int] = {}
    for own, theirs in attempts:
        pairs = _pairs(trace, own, other, theirs)
        if len(pairs) > len(found):
            found = pairs
    return found | _unordered_pairs(trace, other, found)


def _pairs(trace: Trace, names: Mapping[str, str], other: Trace, other_names: Mapping[str, str]) -> dict[int, int]:
    theirs = _by_phase_and_module(other, other_names)
    found: dict[int, int] = {}
    for place, positions in _by_phase_and_module(trace, names).items():
        positions_there = theirs.get(place, [])
        pairs = aligned(
            [_key(trace.records[i].call) for i in positions], [_key(other.records[i].call) for i in positions_there]
        )
        found.update((positions[a], positions_there[b]) for a, b in pairs)
    return found


def _unordered_pairs(trace: Trace, other: Trace, found: Mapping[int, int]) -> dict[int, int]:
    # Pair the rest in any order, and across modules of one class.
    taken = {*found.values()}
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for position in range(len(other) - 1, -1, -1):
        if position not in taken:
            waiting[_loose_key(other, position)].append(position)
    more: dict[int, int] = {}
    for position in range(len(trace)):
        if position not in found and (positions_there := waiting.get(_loose_key(trace, position))):
            more[position] = positions_there.pop()
    return more


def _loose_key(trace: Trace, position: int) -> Hashable:
    call = trace.records[position].call
    module = trace.run.modules.get(call.module)
    return call.phase, "" if module is None else module.type, _key(call)


def _key(call: Call) -> Hashable:
    return call.layer.op, tuple(tensor.shape for tensor in call.layer.inputs.values())


def _by_phase_and_module(trace: Trace, names: Mapping[str, str]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = defaultdict(list)
    for position, call in enumerate(trace.calls):
        found[call.phase, names.get(call.module, "")].append(position)
    return found


def module_names(trace: Trace) -> dict[str, str]:
    """Return a name for each module path: classes with running numbers, such as ``Block_0.Linear_3``.

    The modules of a class are numbered in the order in which they first ran.
    """
    modules = trace.run.modules
    numbers: dict[str, int] = defaultdict(int)
    own: dict[str, str] = {"": ""}
    for call in trace.calls:
        _add_name(call.module, modules, numbers, own)
    return own


def _add_name(path: str, modules: Mapping[str, Any], numbers: dict[str, int], own: dict[str, str]) -> str:
    if path in own:
        return own[path]
    around = path.rpartition(".")[0]
    while around and around not in modules:
        around = around.rpartition(".")[0]
    outer = _add_name(around, modules, numbers, own)
    module = modules.get(path)
    kind = module.type if module is not None else path.rpartition(".")[2]
    own[path] = f"{outer}.{kind}_{numbers[kind]}".lstrip(".")
    numbers[kind] += 1
    return own[path]


# Kernels without operators, from a replayed graph or from a profile of the device only: joined by order and family.
#
# Matmuls, convolutions and attention are anchors, as calls of the model and as kernels. They are joined only if the
# profile has an anchor kernel for every anchor call, or for every group of matmuls with the same operand, in order: if
# one is missing or fused, the pairs after it would be wrong, so nothing is joined. Between two anchors, the kernels of
# a family are joined if the model has equally many calls of that family.


ANOTHER_REPLAY = "of another replay"

ANCHORS = ("gemm", "conv", "attention")

_ATTENTION = r"attention|attn|flash_fwd|flash_bwd|flash::|fmha|mha_fwd|paged_attn"

_CONVOLUTION = r"conv|fprop|dgrad|wgrad|winograd|igemm_(fwd|bwd|wrw)|implicit_gemm"

_GEMM = r"gemm|cijk_|nvjet|cublas|gemv|matmul|cutlass::kernel|cutlass::device_kernel|wvsplitk"

_HELPER = (
    r"splitkreduce|splitk_reduce|splitkv_combine|reduce_segments|nchwtonhwc|nhwctonchw|nhwc2nchw|batched_transpose_\d"
)

_FAMILIES: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (family, re.compile(pattern))
    for family, pattern in (
        ("helper", _HELPER),
        ("fused", r"triton_\w*fused"),
        ("attention", _ATTENTION),
        ("conv", _CONVOLUTION),
        ("gemm", _GEMM),
        ("norm", r"norm"),
        ("softmax", r"softmax"),
        ("gelu", r"gelu"),
        ("silu", r"silu"),
        ("tanh", r"tanh"),
        ("relu", r"relu|clamp_scalar|threshold"),
        ("sigmoid", r"sigmoid"),
        ("rsqrt", r"rsqrt"),
        ("pow", r"pow_tensor"),
        ("neg", r"neg_kernel"),
        ("copy", r"copy_kernel|memcpy"),
        ("cat", r"catarray"),
        ("index", r"indexselect|gather|embedding|index_elementwise"),
        ("pool", r"pool"),
        ("mean", r"meanops"),
        ("mul", r"mulfunctor"),
        ("add", r"functor\w*_add"),
    )
)
"""Families of kernels by patterns of lower-case names; the first match counts. A ``helper`` is part of the anchor
before it."""

_FAMILY_OF_OP: Mapping[str, str] = {
    **dict.fromkeys(("linear", "matmul", "einsum"), "gemm"),
    **dict.fromkeys(("conv", "conv_transpose", "deconv"), "conv"),
    **dict.fromkeys(("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"), "norm"),
    **dict.fromkeys(("softmax", "log_softmax"), "softmax"),
    **dict.fromkeys(("cast", "copy", "clone", "contiguous"), "copy"),
    **dict.fromkeys(("concat", "cat", "stack"), "cat"),
    **dict.fromkeys(("embedding", "gather", "index_select", "take"), "index"),
    **dict.fromkeys(("max_pool", "avg_pool", "adaptive_avg_pool", "global_avg_pool"), "pool"),
}


def family_of(kernel: str) -> str:
    """Return the family of a kernel by its name; empty if it is unknown."""
    name = kernel.lower()
    return next((family for family, pattern in _FAMILIES if pattern.search(name)), "")


def _with_kernels(
    trace: Trace, profile: Profile, paired: set[int], paired_there: set[int]
) -> tuple[Profile, dict[int, CallTime], dict[int, int]]:
    """Join kernels without operators with calls.

    Returns:
        The profile, with unjoined kernels in ``elsewhere``; the time of each joined call; and for each fused call,
        which has no kernel of its own, the call whose kernel computes it.
    """
    kernels = [each for position, some in profile.kernels.items() if position not in paired_there for each in some]
    if not kernels:
        return profile, {}, {}
    kernels.sort(key=lambda each: each[1].start)
    names = [family_of(name) for name, _ in kernels]
    anchor_kernels = [k for k, name in enumerate(names) if name in ANCHORS]
    candidates = [i for i, record in enumerate(trace) if i not in paired and _moves_bytes(record.cost)]
    families = {i: _FAMILY_OF_OP.get(op := trace.records[i].call.layer.op, op) for i in candidates}
    anchor_calls = [i for i in candidates if families[i] in ANCHORS]
    groups = _groups_of(trace, anchor_calls, families)
    kinds = [names[k] for k in anchor_kernels]
    found: dict[int, list[CallTime]] = defaultdict(list)
    inside: dict[int, int] = {}
    joined: set[int] = set()
    of_other_replays: set[int] = set()
    # Try a kernel per anchor call first, then a kernel per group of matmuls with the same operand.
    for main in (anchor_calls, [max(group, key=partial(_operations, trace)) for group in groups]):
        n_replays, rest = divmod(len(anchor_kernels), len(main)) if main else (0, 1)
        if rest or not n_replays or kinds != [families[i] for i in main] * n_replays:
            continue
        ends = [anchor_kernels[r * len(main) + len(main) - 1] + 1 for r in range(n_replays)]
        firsts = [0, *ends[:-1]]
        lengths = [sum(time.device for _, time in kernels[a:b]) for a, b in zip(firsts, ends, strict=True)]
        replay = sorted(range(n_replays), key=lengths.__getitem__)[(n_replays - 1) // 2]  # the median
        first, end = firsts[replay], len(kernels) if replay == n_replays - 1 else ends[replay]
        of_other_replays = {*range(first), *range(end, len(kernels))}
        mine = anchor_kernels[replay * len(main) : (replay + 1) * len(main)]
        for k, i in _joined(names, mine, first, end, candidates, main, families):
            found[i].append(kernels[k][1])
            joined.add(k)
        if main is not anchor_calls:
            inside = {i: at for at, group in zip(main, groups, strict=True) for i in group if i != at}
        break
    return (
        _with_unjoined_kernels(profile, kernels, joined, of_other_replays, (len(anchor_kernels), len(anchor_calls))),
        {i: _sum(times) for i, times in found.items()},
        inside,
    )


def _moves_bytes(cost: Cost | None) -> bool:
    return cost is not None and any(size != 0 for size in (cost.mread, cost.mwrite))


def _groups_of(trace: Trace, anchor_calls: Sequence[int], families: Mapping[int, str]) -> list[list[int]]:
    # Engines compute consecutive matmuls of one operand, such as queries, keys and values, by one kernel.
    groups: list[list[int]] = []
    for i in anchor_calls:
        inputs = trace.records[i].call.inputs[:1]
        last = groups[-1][-1] if groups else -1
        is_same = last >= 0 and any(inputs) and inputs == trace.records[last].call.inputs[:1]
        if is_same and families[i] == families[last] == "gemm":
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _joined(
    names: Sequence[str],
    anchors: Sequence[int],
    first: int,
    end: int,
    candidates: Sequence[int],
    main: Sequence[int],
    families: Mapping[int, str],
) -> Iterator[tuple[int, int]]:
    """Yield pairs of a kernel and the call that it computes: anchors, their helpers, and kernels between anchors."""
    place = {i: at for at, i in enumerate(candidates)}
    kernel_bounds = [first - 1, *anchors, end]
    call_bounds = [-1, *(place[i] for i in main), len(candidates)]
    for j, (k, i) in enumerate(zip(anchors, main, strict=True)):
        yield k, i
        for helper in range(k + 1, kernel_bounds[j + 2]):
            if names[helper] != "helper":
                break
            yield helper, i
    for j in range(len(kernel_bounds) - 1):
        some = [k for k in range(kernel_bounds[j] + 1, kernel_bounds[j + 1]) if names[k] not in ("", "helper", "fused")]
        calls = [i for i in candidates[call_bounds[j] + 1 : call_bounds[j + 1]] if families[i] not in ANCHORS]
        n_kernels, n_calls = Counter(names[k] for k in some), Counter(families[i] for i in calls)
        some = [k for k in some if n_kernels[names[k]] == n_calls[names[k]]]
        calls = [i for i in calls if n_kernels[families[i]] == n_calls[families[i]]]
        pairs = aligned([names[k] for k in some], [families[i] for i in calls])
        yield from ((some[a], calls[b]) for a, b in pairs if len(pairs) == len(some) == len(calls))


def _sum(times: Sequence[CallTime]) -> CallTime:
    device, host, alone, n, aside = (sum(each[field] for each in times) for field in range(5))
    return CallTime(device, host, alone, n, aside, min(each.start for each in times))


def _with_unjoined_kernels(
    profile: Profile,
    kernels: Sequence[tuple[str, CallTime]],
    joined: set[int],
    of_other_replays: set[int],
    counts: tuple[int, int],
) -> Profile:
    left: dict[tuple[str, str], list[CallTime]] = defaultdict(list)
    for k, (name, time) in enumerate(kernels):
        if k not in joined:
            left[ANOTHER_REPLAY if k in of_other_replays else ONLY_THERE, name[:LONGEST_NAME]].append(time)
    rest = [
        Elsewhere(what, name, sum(x.device for x in some), sum(x.alone for x in some), len(some))
        for (what, name), some in left.items()
    ]
    total = sum(time.device for k, (_, time) in enumerate(kernels) if k not in of_other_replays)
    share = sum(kernels[k][1].device for k in joined) / total if total else 0.0
    remark = (
        f"kernels without operators: {share:.1%} of their time is joined with calls of the model, by order and family"
        if joined
        else f"kernels without operators are not joined: their {counts[0]} matmuls, convolutions and attention kernels "
        f"do not match the {counts[1]} of the model in order"
    )
    elsewhere = (*profile.elsewhere, *sorted(rest, key=lambda each: -each.time))
    return profile._replace(elsewhere=elsewhere, remarks=(*profile.remarks, remark))


LONGEST_NAME = 100
"""Maximum characters of the name of a kernel that is not joined."""


# Longest common subsequence, in O(ND) time for D differences.


MOST_DIFFERENCES = 3000
"""The maximum number of differences between two sequences; beyond, only their common start and end are paired."""


def aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return a longest common subsequence, as pairs of positions that ascend in both sequences.

    Source: E. W. Myers, An O(ND) difference algorithm and its variations, Algorithmica 1 (1986).
    """
    start = 0
    while start < len(a) and start < len(b) and a[start] == b[start]:
        start += 1
    end_a, end_b = len(a), len(b)
    while end_a > start and end_b > start and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
    head = [(i, i) for i in range(start)]
    tail = [(end_a + i, end_b + i) for i in range(len(a) - end_a)]
    middle = _middle(a[start:end_a], b[start:end_b])
    return [*head, *((start + i, start + j) for i, j in middle), *tail]


def _middle(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    farthest = {1: 0}
    steps: list[dict[int, int]] = []
    for d in range(min(len(a) + len(b), MOST_DIFFERENCES) + 1):
        steps.append(dict(farthest))
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and farthest[k - 1] < farthest[k + 1])
            x = farthest[k + 1] if down else farthest[k - 1] + 1
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            farthest[k] = x
            if x >= len(a) and x - k >= len(b):
                return _backtracked(steps, len(a), len(b))
    return []


def _backtracked(steps: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    # Walk back from the end, over the reach stored for every number of differences.
    pairs: list[tuple[int, int]] = []
    for d in range(len(steps) - 1, -1, -1):
        reach, k = steps[d], x - y
        down = k == -d or (k != d and reach[k - 1] < reach[k + 1])
        before_k = k + 1 if down else k - 1
        before_x = reach[before_k]
        before_y = before_x - before_k
        while x > before_x and y > before_y and (x - 1, y - 1) >= (0, 0) and x > 0 and y > 0:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        if d:
            x, y = before_x, before_y
    return pairs[::-1]


# Times of a graph, as its runtime measured them.


CHANGES_OF_LAYOUT = "changes of layout"


def with_runtime_profile(trace: Trace, path: str | PathLike[str]) -> Trace:
    """Return the run of a graph with the measurements of a runtime.

    A kernel may compute several calls. Its time then counts for the call with the most operations, and the other calls
    have no kernel of their own.

    Raises:
        CostError: if the run is not from a graph with named nodes, if the file cannot be read, or if it names none of
            the nodes.
    """
    if not trace.run.nodes:
        raise CostError(
            f"{fsdecode(path)} has times of the nodes of a graph. Use it with the report of the model that the "
            "runtime read: estimate('model.onnx')"
        )
    found = read_runtime_profile(path)
    regions = Regions(trace, found.kernels)
    if not regions.seeds:
        raise CostError(f"{fsdecode(path)} names no node of this model. Pass the profile of this model file")
    members: dict[int, list[int]] = defaultdict(list)
    for position, k in regions.core.items():
        members[k].append(position)
    mains = {
        k: max(each, key=lambda i: (_operations(trace, i), i == regions.seeds.get(k))) for k, each in members.items()
    }
    owners = [_owner(k, kernel, mains, regions) for k, kernel in enumerate(found.kernels)]
    intervals = [
        Interval(x.start, x.end, (-x.start, x.end), owner) for x, owner in zip(found.kernels, owners, strict=True)
    ]
    alone, idle = divide(intervals, 0, found.span)
    begun = starts(intervals, 0)
    lengths, counts = Counter[Any](), Counter[Any]()
    for kernel, owner in zip(found.kernels, owners, strict=True):
        lengths[owner] += kernel.end - kernel.start
        counts[owner] += 1
    calls = {
        i: CallTime(0, lengths[i], alone.get(i, 0), counts[i], start=begun.get(i, 0)) for i in sorted(mains.values())
    }
    elsewhere = [
        Elsewhere(owner[0], owner[1], lengths[owner], alone.get(owner, 0), counts[owner])
        for owner in lengths
        if type(owner) is tuple
    ]
    elsewhere.sort(key=lambda each: -each.alone)
    inside = {i: mains[k] for i, k in sorted(regions.owner.items()) if i != mains[k]}
    profile = Profile(found.device, "host", found.span, idle, calls, tuple(elsewhere), inside=inside)
    return with_times(trace, profile)


def _operations(trace: Trace, position: int) -> int:
    record = trace.records[position]
    return work_of(record.cost, record.call)[0]


def _owner(k: int, kernel: KernelTime, mains: dict[int, int], regions: Regions) -> Any:
    # The position of the call that gets the kernel's time, or what other work it is, with its name.
    if k in mains:
        return mains[k]
    if k in regions.seeds:  # a second kernel of a node
        return mains[regions.owner[regions.seeds[k]]]
    return (CHANGES_OF_LAYOUT if k in regions.layout else ONLY_THERE), kernel.op or kernel.names[0]


# Regions: the calls of a graph that each kernel computes.
#
# A runtime names a kernel by a node or by the value that the node produces, with suffixes from its graph optimizer; the
# region of the kernel grows from this node, its seed. A kernel that the runtime created has only an operator: its seed
# is the next free node of that operator. A kernel may compute further nodes: the path from its seed back to a node of
# the operator that it runs, and nodes that have no kernel, if it computes their producer or their only reader.


LAYOUT = re.compile(r"^(Reorder|Reformat|Memcpy|Mem_?copy)|gemm_(in|out)put_reshape|^Reformatting")
"""The operators and names of kernels that only change layouts or move values."""

STANDS_FOR: Mapping[str, tuple[str, ...]] = {
    "FusedConv": ("Conv",),
    "NhwcFusedConv": ("Conv",),
    "FusedGemm": ("Gemm", "MatMul"),
    "FusedMatMul": ("MatMul",),
    "Gemm": ("Gemm", "MatMul"),
    "SkipLayerNormalization": ("LayerNormalization", "Div", "ReduceMean"),
    "SkipSimplifiedLayerNormalization": ("SimplifiedLayerNormalization", "RMSNormalization", "Sqrt", "ReduceMean"),
    "SimplifiedLayerNormalization": ("RMSNormalization", "Sqrt", "ReduceMean"),
    "EmbedLayerNormalization": ("LayerNormalization",),
    "LayerNormalization": ("LayerNormalization", "Div", "ReduceMean"),
    "BiasGelu": ("Gelu", "Erf"),
    "Gelu": ("Gelu", "Erf"),
    "FastGelu": ("Gelu", "Tanh"),
    "QuickGelu": ("Sigmoid",),
    "Attention": ("Attention", "Softmax"),
    "MultiHeadAttention": ("Attention", "Softmax"),
}
"""The operators of a graph that a runtime's own kernels stand for, the most characteristic one first."""

NOT_ABSORBED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "Attention")
"""Operators that are not absorbed into a neighbor's kernel, unless it is an attention kernel."""

_GRAPH_OPTIMIZER_WORDS = re.compile(r"(_nchwc|_nhwc|_token_\d+|/\w+Fusion/?\w*|/\w+Fusion/)+$")

_SUBGRAPH_PREFIX = re.compile(r"^.*\.(body|then_branch|else_branch)/")


class Regions:
    """The calls that each kernel of a run computes. Calls and kernels are named by position.

    Args:
        trace: the run of the graph.
        kernels: the kernels that the runtime measured.

    Attributes:
        owner: the kernel of each call.
        core: the same, only for calls that follow from the name or the operator of the kernel.
        seeds: the seed of each kernel that has one: the call that its name or its operator selects.
        layout: the kernels that only change the layout of values.
    """

    core: dict[int, int]

    def __init__(self, trace: Trace, kernels: Sequence[KernelTime]) -> None:
        self._calls, self._kernels = trace.calls, kernels
        self._nodes = trace.run.nodes
        self._named: dict[str, int] = {}
        for position, nodes in self._nodes.items():
            for name in (*nodes.outputs, *nodes.names):
                self._named[name] = position
                self._named.setdefault(_SUBGRAPH_PREFIX.sub("", name), position)
        self._producers = {value: i for i, call in enumerate(self._calls) for value in call.outputs}
        self._readers: dict[int, list[int]] = defaultdict(list)
        for i in range(len(self._calls)):
            for producer in self._producers_of(i):
                self._readers[producer].append(i)
        self.owner: dict[int, int] = {}
        self.seeds: dict[int, int] = {}
        self.layout: set[int] = set()
        self._seed_by_name()
        self._grow_to_operators()
        self._seed_by_operator()
        self._grow_to_operators()
        self._grow_to_additions()
        self.core = dict(self.owner)
        self._spread_to_neighbors()

    def _producers_of(self, position: int) -> Iterable[int]:
        return [self._producers[value] for value in self._calls[position].inputs if value in self._producers]

    def _seed_by_name(self) -> None:
        for k, kernel in enumerate(self._kernels):
            if LAYOUT.search(kernel.op) or any(LAYOUT.search(name) for name in kernel.names):
                self.layout.add(k)
                continue
            found = [position for name in kernel.names if (position := self._position(name)) is not None]
            between = self._between(*found) if kernel.op == REGION and len(found) == 2 else ()
            for position in (*found, *between):
                self.owner.setdefault(position, k)
            if found:
                self.seeds[k] = found[-1]

    def _between(self, first: int, last: int) -> set[int]:
        reachable = []
        for start, step in ((first, self._readers.__getitem__), (last, self._producers_of)):
            seen, waiting = {start}, [start]
            while waiting:
                new = {*step(waiting.pop())} - seen
                seen |= new
                waiting += new
            reachable.append(seen)
        return reachable[0] & reachable[1]

    def _position(self, name: str) -> int | None:
        # Graph optimizers of runtimes append words to names: cut them off until a known name is left.
        for each in (name, _GRAPH_OPTIMIZER_WORDS.sub("", name)):
            if each in self._named:
                return self._named[each]
        for end in range(len(name) - 1, 3, -1):
            if (name[end] == "/" or (name[end] == "_" and not name[end + 1 : end + 2].isdigit())) and (
                name[:end] in self._named
            ):
                return self._named[name[:end]]
        return None

    def _seed_by_operator(self) -> None:
        # Kernels without a known name take the next free call of their operator and shape.
        free = [i for i in range(len(self._calls)) if i not in self.owner]
        for k, kernel in enumerate(self._kernels):
            if k in self.seeds or k in self.layout:
                continue
            for wanted in STANDS_FOR.get(kernel.op, (kernel.op,)):
                found = next((i for i in free if self._calls[i].type == wanted and self._has_shape(i, kernel)), None)
                if found is not None:
                    self.seeds[k] = found
                    self.owner[found] = k
                    free.remove(found)
                    break
            else:
                if kernel.op in ("Transpose", "Reshape", "Cast"):
                    self.layout.add(k)

    def _has_shape(self, position: int, kernel: KernelTime) -> bool:
        shapes = [tensor.shape for tensor in self._calls[position].layer.outputs]
        return not kernel.shapes or kernel.shapes[0] in shapes

    def _grow_to_operators(self) -> None:
        # A kernel named after its epilogue also computes the calls back to the operator that it runs.
        for k, seed in self.seeds.items():
            wanted = STANDS_FOR.get(self._kernels[k].op, (self._kernels[k].op,))
            if self._calls[seed].type in wanted or not wanted[0]:
                continue
            behind, waiting = {seed: seed}, [seed]
            while waiting:
                position = waiting.pop(0)
                if self._calls[position].type in wanted:
                    while position != seed:
                        self.owner.setdefault(position, k)
                        position = behind[position]
                    break
                for before in self._producers_of(position):
                    if before not in self.owner and before not in behind:
                        behind[before] = position
                        waiting.append(before)

    def _grow_to_additions(self) -> None:
        # ``SkipLayerNormalization`` and ``BiasGelu`` begin with an addition.
        for k, seed in self.seeds.items():
            if self._kernels[k].op.startswith(("Skip", "Bias")):
                for before in self._producers_of(seed):
                    if self._calls[before].type == "Add":
                        self.owner.setdefault(before, k)

    def _spread_to_neighbors(self) -> None:
        # Calls without a kernel belong to their producer, or to their only reader.
        is_changed = True
        while is_changed:
            is_changed = False
            for i, call in enumerate(self._calls):
                if i in self.owner:
                    continue
                before = [self.owner[each] for each in self._producers_of(i) if each in self.owner]
                after = {self.owner.get(each) for each in self._readers[i]}
                only = after.pop() if len(after) == 1 else None
                if call.type in NOT_ABSORBED:
                    found = only if only is not None and "Attention" in self._kernels[only].op else None
                else:
                    found = max(before) if before else only
                if found is not None:
                    self.owner[i] = found
                    is_changed = True


# Readers of runtime profiles.
#
# Sources: ``SessionOptions.enable_profiling`` of ONNX Runtime, ``trtexec --exportProfile`` of TensorRT, and
# ``benchmark_app -report_type detailed_counters`` of OpenVINO.


MOST = 2**29
"""The maximum bytes of a file after decompression."""

MOST_RATIO, UNPACKED = 64, 2**23
"""The maximum ratio of decompression, and the bytes up to which any ratio is allowed."""

KERNEL = "_kernel_time"
"""The suffix of the names of kernels of ONNX Runtime."""

RUN = "model_run"
"""The name of the event of ONNX Runtime around one run."""

TENSORRT_TIMES = ("medianMs", "averageMs", "timeMs")
"""The keys of the time of a TensorRT layer; the first one present counts."""

REGION = "region"
"""Marks a TensorRT kernel that computes all nodes from its first name to its second."""

_REGION = re.compile(r"ForeignNode\[(.+?)\.\.\.(.+?)\]")


class KernelTime(NamedTuple):
    """A kernel that a runtime measured, in nanoseconds from the start of the run.

    Attributes:
        names: the names of nodes or values of the graph that the runtime states.
        op: the operator that it ran, in the words of the runtime.
        shapes: the shapes of its outputs; empty if the runtime does not state them.
        start, end: when it ran.
    """

    names: tuple[str, ...]
    op: str
    shapes: tuple[tuple[int, ...], ...]
    start: int
    end: int


class RuntimeProfile(NamedTuple):
    """The times of one run of a runtime.

    Attributes:
        device: the runtime and its processor.
        kernels: the kernels in the order in which they ran.
        span: nanoseconds of the run.
    """

    device: str
    kernels: tuple[KernelTime, ...]
    span: int


def read_runtime_profile(path: str | PathLike[str]) -> RuntimeProfile:
    """Return the profile of one run from a file; of several runs, the one with the median time.

    The first of several runs is skipped, because it warms up.

    Raises:
        CostError: if the file cannot be read, or has no known format.
    """
    name = fsdecode(path)
    text = _text(name)
    found = _of_counters(text) if text.lstrip().startswith("layerName;") else _of_json(text, name)
    if found is None or not found.kernels:
        raise CostError(
            f"{name} has no times of nodes. Pass the report of a trace of torch.profiler (estimate(…)), a profile of "
            "ONNX Runtime (SessionOptions.enable_profiling), of TensorRT (trtexec --exportProfile) or of OpenVINO "
            "(-report_type detailed_counters)."
        )
    return found


def _text(name: str) -> str:
    content = read_file(name, MOST)
    if content.startswith(b"\x1f\x8b"):
        try:
            most = min(MOST, UNPACKED + MOST_RATIO * len(content))
            content = zlib.decompressobj(wbits=31).decompress(content, most + 1)
        except zlib.error as error:
            raise CostError(f"{name} cannot be read: {error}") from error
        if len(content) > most:
            raise CostError(f"{name} has more than {most:,} bytes after decompression. Record fewer runs.")
    return content.decode("utf-8", errors="replace")


def _of_json(text: str, name: str) -> RuntimeProfile | None:
    check_values(text, name)
    try:
        content = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        if not text.rstrip().endswith("]") and text.lstrip().startswith("["):
            raise CostError(f"{name} ends early: end the session, or call end_profiling, before you read it") from error
        raise CostError(f"{name} is not JSON: {error}") from error
    events = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    if any(any(key in each for key in TENSORRT_TIMES) for each in events):
        return _of_tensorrt(events)
    return _of_onnx_runtime([each for each in events if _is_whole(each.get("ts")) and _is_whole(each.get("dur"))])


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _of_onnx_runtime(events: Iterable[dict[str, Any]]) -> RuntimeProfile | None:
    events = [*events]
    runs = sorted((each for each in events if each.get("name") == RUN), key=lambda each: int(each["ts"]))
    if not runs:
        return None
    steady = runs[1:] or runs
    run = sorted(steady, key=lambda each: int(each["dur"]))[(len(steady) - 1) // 2]
    start, length = run["ts"], run["dur"]
    kernels, providers = [], dict[str, None]()
    for event in events:
        name, arguments = event.get("name"), event.get("args")
        if not isinstance(name, str) or not name.endswith(KERNEL) or not isinstance(arguments, dict):
            continue
        if not start <= event["ts"] < start + length:
            continue
        providers[str(arguments.get("provider", ""))] = None
        at = event["ts"] - start
        kernels.append(
            KernelTime(
                (name.removesuffix(KERNEL),),
                str(arguments.get("op_name", "")),
                _shapes(arguments.get("output_type_shape")),
                1000 * at,
                1000 * min(at + event["dur"], length),
            )
        )
    kernels.sort(key=lambda each: (each.start, -each.end))
    where = ", ".join(filter(None, providers))
    return RuntimeProfile(f"ONNX Runtime{f' ({where})' if where else ''}", tuple(kernels), 1000 * length)


def _shapes(stated: object) -> tuple[tuple[int, ...], ...]:
    # As in ``[{"float": [2, 64]}, …]``.
    found = []
    for each in stated if isinstance(stated, list) else ():
        shape = next(iter(each.values()), None) if isinstance(each, dict) else None
        if isinstance(shape, list) and all(type(size) is int for size in shape):
            found.append(tuple(shape))
    return tuple(found)


def _of_tensorrt(layers: Iterable[Mapping[str, Any]]) -> RuntimeProfile:
    rows = []
    for each in layers:
        milliseconds = next((each[key] for key in TENSORRT_TIMES if key in each), None)
        name = each.get("name")
        if isinstance(name, str) and isinstance(milliseconds, (int, float)) and 0 <= milliseconds < 1e9:
            region = _REGION.search(name)
            names = (
                region.groups() if region else tuple(part.strip() for part in name.removeprefix("PWN(").split(" + "))
            )
            op = REGION if region else "Reformat" if name.startswith("Reformatting") else ""
            rows.append((names, op, milliseconds))
    return _one_after_another("TensorRT", rows)


def _of_counters(text: str) -> RuntimeProfile | None:
    rows = []
    for each in csv.DictReader(StringIO(text), delimiter=";"):
        try:
            milliseconds = float(each.get("realTime (ms)") or "")
        except ValueError:
            continue
        if each.get("execStatus") == "EXECUTED" and 0 <= milliseconds < 1e9:
            rows.append(((str(each["layerName"]),), str(each.get("layerType")), milliseconds))
    return _one_after_another("OpenVINO", rows)


def _one_after_another(device: str, rows: Iterable[tuple[tuple[str, ...], str, float]]) -> RuntimeProfile:
    kernels, at = [], 0
    for names, op, milliseconds in rows:
        length = round(1e6 * milliseconds)
        kernels.append(KernelTime(names, op, (), at, at + length))
        at += length
    return RuntimeProfile(device, tuple(kernels), at)


# Arguments of ``report.measured``.


def joined_with(trace: Trace, profile: Any) -> Trace:
    """Return a run with the times of another report, or of the profile file of a runtime.

    Raises:
        TypeError: if ``profile`` is neither a report nor a path.
        CostError: if it cannot be read, or no call matches.
    """
    if isinstance(profile, (str, PathLike)):
        return with_runtime_profile(trace, profile)
    other = getattr(profile, "trace", None)
    if not isinstance(other, Trace):
        raise TypeError(
            "profile must be the report of a trace, estimate('step.pt.trace.json.gz'), or the file of a runtime "
            f"(got {short_repr(profile)})"
        )
    return with_profile(trace, other)


def measured_of(
    report: Any, profile: Any = None, device: str | PathLike[str] | Device | None = None, bound: str = LEAST
) -> Measured:
    """Return where the time of a run goes; arguments as for :meth:`costcore.Report.measured`."""
    run: Trace = report.trace if profile is None else joined_with(report.trace, profile)
    recorded = run.run.profile
    if recorded is None:
        raise CostError(
            "the report has no profile. Pass that of a trace of torch.profiler: "
            "report.measured(estimate('step.pt.trace.json.gz'))"
        )
    chosen = device if device is not None else device_named(recorded.device) or None
    times = None if chosen is None or recorded.no_bound else times_of(Times, run, chosen, bound=bound)
    return Measured(run, recorded, times, len(run) - len(recorded.calls) - len(recorded.inside))
