"""Which calls of a graph each kernel of a runtime computes.

A kernel states the name of a node, or of the value that it produces, with words of the optimization that made it; or
only its operator, if the runtime made it anew. That node is its anchor. Behind it a kernel may compute others: from an
epilogue, back to the product that its operator names, and operators whose only reader, or whose producer, it is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from costcore.analyses.measured.runtime_profile import REGION, KernelTime
from costcore.trace.trace import Trace

LAYOUT = re.compile(r"^(Reorder|Reformat|Memcpy|Mem_?copy)|gemm_(in|out)put_reshape|^Reformatting")
"""The operators and names of kernels that only change the layout or the place of values."""

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
"""The operators of a graph that kernels which a runtime makes stand for, the most characteristic one first."""

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "Attention")
"""The operators that only kernels of attention compute without naming them."""

_WORDS = re.compile(r"(_nchwc|_nhwc|_token_\d+|/\w+Fusion/?\w*|/\w+Fusion/)+$")
_INNER = re.compile(r"^.*\.(body|then_branch|else_branch)/")


class Regions:
    """The kernels of a run by the calls that they compute.

    Args:
        trace: the run of the graph.
        kernels: what the runtime measured.

    Attributes:
        owner: the position of a kernel by that of a call.
        core: the same without calls that the kernel states neither by name nor by its operator.
        anchors: the position of the call by that of the kernel, of kernels that have one.
        layout: the positions of kernels that only change the layout of values.
    """

    def __init__(self, trace: Trace, kernels: Sequence[KernelTime]) -> None:
        self._calls, self._kernels = trace.calls, kernels
        self._nodes = trace.run.nodes
        self._named: dict[str, int] = {}
        for position, nodes in self._nodes.items():
            for name in (*nodes.outputs, *nodes.names):
                self._named[name] = position
                self._named.setdefault(_INNER.sub("", name), position)
        self._producers = {value: i for i, call in enumerate(self._calls) for value in call.outputs}
        self._readers: dict[int, list[int]] = defaultdict(list)
        for i in range(len(self._calls)):
            for producer in self._before(i):
                self._readers[producer].append(i)
        self.owner: dict[int, int] = {}
        self.anchors: dict[int, int] = {}
        self.layout: set[int] = set()
        self._anchor_by_name()
        self._grow_to_products()
        self._anchor_by_operator()
        self._grow_to_products()
        self._grow_to_additions()
        self.core = dict(self.owner)
        self._spread()

    def _before(self, position: int) -> Iterable[int]:
        """Return the calls whose results a call reads."""
        return [self._producers[value] for value in self._calls[position].inputs if value in self._producers]

    def _anchor_by_name(self) -> None:
        for k, kernel in enumerate(self._kernels):
            if LAYOUT.search(kernel.op) or any(LAYOUT.search(name) for name in kernel.names):
                self.layout.add(k)
                continue
            found = [position for name in kernel.names if (position := self._position(name)) is not None]
            between = self._between(*found) if kernel.op == REGION and len(found) == 2 else ()
            for position in (*found, *between):
                self.owner.setdefault(position, k)
            if found:
                self.anchors[k] = found[-1]

    def _between(self, first: int, last: int) -> set[int]:
        """Return the calls on a way from one to another."""
        ways = []
        for start, step in ((first, self._readers.__getitem__), (last, self._before)):
            seen, waiting = {start}, [start]
            while waiting:
                new = {*step(waiting.pop())} - seen
                seen |= new
                waiting += new
            ways.append(seen)
        return ways[0] & ways[1]

    def _position(self, name: str) -> int | None:
        """Return the call of a name: of a node or a value, or of one to which the runtime added words."""
        for each in (name, _WORDS.sub("", name)):
            if each in self._named:
                return self._named[each]
        for end in range(len(name) - 1, 3, -1):
            if (name[end] == "/" or (name[end] == "_" and not name[end + 1 : end + 2].isdigit())) and (
                name[:end] in self._named
            ):
                return self._named[name[:end]]
        return None

    def _anchor_by_operator(self) -> None:
        """Give kernels without a known name the next call without a kernel, of their operator and shape."""
        free = [i for i in range(len(self._calls)) if i not in self.owner]
        for k, kernel in enumerate(self._kernels):
            if k in self.anchors or k in self.layout:
                continue
            for wanted in STANDS_FOR.get(kernel.op, (kernel.op,)):
                found = next((i for i in free if self._calls[i].type == wanted and self._has_shape(i, kernel)), None)
                if found is not None:
                    self.anchors[k] = found
                    self.owner[found] = k
                    free.remove(found)
                    break
            else:
                if kernel.op in ("Transpose", "Reshape", "Cast"):
                    self.layout.add(k)

    def _has_shape(self, position: int, kernel: KernelTime) -> bool:
        shapes = [tensor.shape for tensor in self._calls[position].layer.outputs]
        return not kernel.shapes or kernel.shapes[0] in shapes

    def _grow_to_products(self) -> None:
        """Give a kernel that is named after its epilogue the calls back to the operator that its own names."""
        for k, anchor in self.anchors.items():
            wanted = STANDS_FOR.get(self._kernels[k].op, (self._kernels[k].op,))
            if self._calls[anchor].type in wanted or not wanted[0]:
                continue
            behind, waiting = {anchor: anchor}, [anchor]
            while waiting:
                position = waiting.pop(0)
                if self._calls[position].type in wanted:
                    while position != anchor:
                        self.owner.setdefault(position, k)
                        position = behind[position]
                    break
                for before in self._before(position):
                    if before not in self.owner and before not in behind:
                        behind[before] = position
                        waiting.append(before)

    def _grow_to_additions(self) -> None:
        """Give kernels that add a residual or a bias first, ``SkipLayerNormalization``, that addition."""
        for k, anchor in self.anchors.items():
            if self._kernels[k].op.startswith(("Skip", "Bias")):
                for before in self._before(anchor):
                    if self._calls[before].type == "Add":
                        self.owner.setdefault(before, k)

    def _spread(self) -> None:
        """Give calls without a kernel to that of their producer, or of their only reader."""
        is_changed = True
        while is_changed:
            is_changed = False
            for i, call in enumerate(self._calls):
                if i in self.owner:
                    continue
                before = [self.owner[each] for each in self._before(i) if each in self.owner]
                after = {self.owner.get(each) for each in self._readers[i]}
                only = after.pop() if len(after) == 1 else None
                if call.type in PRODUCTS:
                    found = only if only is not None and "Attention" in self._kernels[only].op else None
                else:
                    found = max(before) if before else only
                if found is not None:
                    self.owner[i] = found
                    is_changed = True
