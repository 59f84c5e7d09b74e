"""Every rule with every setting on one image and one sequence; ``--overwrite`` writes tests/golden/receptive_field.

``test_propagate.py`` follows elements to elements, and the frontends compare with the gradients of frameworks; here all
that a rule says counts: the map from positions to intervals, what counts positions on which axis, and every cause.

The image v is 6 x 19 after a convolution with a kernel of 3 x 2, a stride of 2 x 1 and a padding of 1 x 0 of 12 x 20:
row 0 sees rows -1 to 1, row 1 sees 1 to 3; column 0 sees 0 and 1. Lines with ``v`` alone show it. Branch u has another
kernel, w another stride, c does not depend on the input, and t is v as 114 tokens of 6 features.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import sympy

from costcore import Report, Trace
from costcore.ir import Layer, Tensor
from tests.core.analyses.receptive_field.fields import followed, receptive_fields
from tests.core.traces import Call, CallCost, Run
from tests.whole_text import as_json

V, T = (2, 6, 6, 19), (2, 114, 6)
WINDOW = {"kernel": (3, 2), "stride": (2, 1), "padding": ((1, 0), (0, 0)), "dilation": (1, 1)}


class Graph:
    """Calls on values by name."""

    def __init__(self, *shape: Any) -> None:
        self.ids = {"x": 1}
        self.shapes = {1: shape}
        self.calls: list[Call] = []

    def __call__(self, op: str, reads: str, *shapes: tuple[Any, ...], **attrs: Any) -> tuple[int, ...]:
        names = attrs.pop("names", None)
        roles = attrs.pop("roles", {})
        operands = {}
        for i, value in enumerate(reads.split()):
            name = names[i] if names else "x" if len(reads.split()) == 1 else f"x{i}"
            operands[name] = Tensor(self.shapes[self.ids[value]], role=roles.get(name, "data"))
        outputs = tuple(range(100 * len(self.calls) + 100, 100 * len(self.calls) + 100 + len(shapes)))
        layer = Layer(op, operands, [Tensor(shape) for shape in shapes], attrs)
        inputs = tuple(self.ids[value] for value in reads.split())
        self.calls.append(Call(layer, op, name=f"{op}-{len(self.calls)}", inputs=inputs, outputs=outputs))
        self.shapes.update(zip(outputs, shapes, strict=True))
        return outputs

    def named(self, name: str, *args: Any, **attrs: Any) -> None:
        self.ids[name] = self(*args, **attrs)[0]

    @property
    def trace(self) -> Trace:
        return Trace(
            tuple(CallCost(call, None) for call in self.calls), Run().recording(inputs=(1,), buffers=(2, 3, 4))
        )


def image(keeps_channels: bool = False) -> Graph:
    """The values; those that keep channels are v from the pooling of u, not from a convolution of all channels."""
    graph = Graph(2, 6, 12, 20)
    graph.ids |= {"c": 2, "k": 3, "b": 4}
    graph.shapes |= {2: V, 3: (6, 6, 3, 2), 4: (6,)}
    graph.named("v", "conv", "x k", V, names=("x", "w"), roles={"w": "param"}, **WINDOW)
    pool = {"kernel": (4, 2), "stride": (2, 1), "padding": (1, 0)}
    graph.named("u", "max_pool", "x", V, **pool)
    if keeps_channels:
        graph.ids["v"] = graph.ids["u"]
    graph.named("s", "max_pool", "x", (2, 6, 6, 10), kernel=(2, 2), stride=(2, 2), padding=(0, 0))
    graph.named("w", "slice", "s", (2, 6, 6, 9), axis=(3,), start=(1,), step=(1,), stop=(10,))
    graph.named("r", "reshape", "v", (2, 6, 114))
    graph.named("t", "transpose", "r", T, axes=(0, 2, 1))
    graph.named("one", "reduce_mean", "v", (2, 6, 1, 1), axis=(2, 3))
    graph.named("row", "reduce_max", "v", (2, 6, 6, 1), axis=(-1,))
    graph.named("g", "reshape", "x", (2, 6, 3, 4, 20))
    graph.named("left", "slice", "v", (2, 6, 6, 7), axis=(3,), start=(0,), stop=(7,), step=(1,))
    graph.named("right", "slice", "v", (2, 6, 6, 12), axis=(3,), start=(7,), stop=(19,), step=(1,))
    return graph


TWO = ("x0", "x1")
SEVERAL: tuple[tuple[Any, ...], ...] = (
    ("relu", "v", V),
    ("add", "v u", V),
    ("add", "u v", V),
    ("add", "v c", V),
    ("mul", "v one", V),
    ("mul", "row v", V),
    ("mul", "v row", V),
    ("add", "v b", (2, 6, 6, 19)),
    ("add", "s w", (2, 6, 6, 10)),
    ("add", "v s", V),
    ("add", "t t", T),
    ("add", "r t", (2, 6, 114)),
    ("sub", "x v", V),
    # windows, also along the blocks of g, of which every third row begins one
    *(
        ("max_pool", "g", shape, {"kernel": kernel, "stride": stride})
        for kernel, stride, shape in (
            ((1, 1, 2), (1, 1, 1), (2, 6, 3, 4, 19)),
            ((2, 1, 1), (1, 1, 1), (2, 6, 2, 4, 20)),
            ((2, 1, 1), (2, 1, 1), (2, 6, 1, 4, 20)),
            ((1, 2, 1), (1, 1, 1), (2, 6, 3, 3, 20)),
        )
    ),
    ("concat", "g g", (2, 6, 6, 4, 20), {"axis": 2}),
    ("concat", "g g", (2, 6, 3, 8, 20), {"axis": 3}),
    ("concat", "right left", V, {"axis": 3}),
    ("concat", "left right", V, {"axis": 3}),
    ("concat", "left left", (2, 6, 6, 14), {"axis": 3}),
    ("slice", "g", (2, 6, 3, 2, 20), {"axis": (3,), "start": (1,), "stop": (3,), "step": (1,)}),
    ("slice", "g", (2, 6, 3, 2, 20), {"axis": (3,), "start": (0,), "stop": (4,), "step": (2,)}),
    ("slice", "g", (2, 6, 3, 4, 20), {"axis": (3,), "start": (3,), "stop": (None,), "step": (-1,)}),
    ("select", "g", (2, 6, 4, 20), {"axis": 2, "index": 1}),
    ("select", "g", (2, 6, 3, 20), {"axis": 3, "index": -1}),
    ("reduce_sum", "g", (2, 6, 3, 20), {"axis": 3}),
    ("reduce_sum", "g", (2, 6, 4, 20), {"axis": 2}),
    ("conv", "v k", (2, 6, 3, 9), {"names": ("x", "w"), "kernel": (3, 2), "stride": (2, 2), "padding": (1, 0)}),
    ("conv", "v k", (2, 6, 6, 17), {"names": ("x", "w"), **WINDOW, "stride": (1, 1), "dilation": (2, 3)}),
    ("conv", "v k u", V, {"names": ("x", "w", "z"), **WINDOW, "stride": (1, 1)}),
    ("conv", "c v", V, {"names": ("x", "w"), **WINDOW}),
    ("conv", "v k", V, {"names": ("x", "w"), **WINDOW, "permuted": True}),
    ("conv", "v k", V, {"names": ("x", "w"), "kernel": (3, 2), "stride": (2,)}),
    ("conv", "v k", V, {"names": ("x", "w"), "kernel": (3, 2)}),
    ("conv", "t k", (2, 114, 4), {"names": ("x", "w"), "kernel": (3,), "stride": (1,)}),
    (
        "conv_transpose",
        "v k",
        (2, 6, 13, 39),
        {"names": ("x", "w"), "kernel": (3, 5), "stride": (2, 2), "padding": (1, 2)},
    ),
    (
        "conv_transpose",
        "v k",
        (2, 6, 18, 57),
        {"names": ("x", "w"), "kernel": (2, 2), "stride": (3, 3), "dilation": (2, 1)},
    ),
    ("max_pool", "v", (2, 6, 5, 9), {"kernel": (2, 3), "stride": (1, 2)}),
    ("avg_pool", "v", (2, 6, 1, 1), {"kernel": (6, 19), "stride": (6, 19)}),
    ("avg_pool", "v", (2, 6, 1, 9), {"kernel": (6, 2), "stride": (6, 2), "adaptive": True}),
    ("masked_max_pool", "v u", (2, 6, 3, 9), {"kernel": (2, 2), "stride": (2, 2)}),
    ("adaptive_avg_pool", "v", (2, 6, 4, 1)),
    ("adaptive_max_pool", "v", (2, 6, 9, 19)),
    ("unpool", "v u", (2, 6, 12, 57), {"kernel": (2, 3), "stride": (2, 3)}),
    *(
        ("resize", "v", (2, 6, 9, 38), {"mode": mode, **more})
        for mode in ("nearest", "linear", "cubic", "area")
        for more in (
            {},
            {"coordinates": "asymmetric", "rounding": "ceil"},
            {"align_corners": True, "rounding": "round_prefer_ceil"},
            {"antialias": True, "rounding": "round_prefer_floor"},
            {"coordinates": "tf_crop_and_resize"},
            {"scale": (1.5, None), "axes": (2, 3)},
        )
    ),
    ("resize", "v", (2, 6, 4, 7), {"mode": "linear", "antialias": True}),
    ("resize", "v", (2, 6, 4, 7), {"mode": "cubic", "align_corners": True}),
    ("resize", "v", (2, 6, 4, 7), {"mode": "nearest", "rounding": "odd"}),
    ("resize", "v", (2, 6, 4, 7), {"mode": "nearest", "scale": (0.7, 0.4), "axes": (2, 3)}),
    ("resize", "v", (2, 6, 1, 0), {"mode": "linear", "align_corners": True}),
    ("resize", "row", (2, 6, 12, 5), {"mode": "linear"}),
    ("antialiased_resize", "v", (2, 6, 4, 38), {"mode": "lanczos"}),
    # reductions and normalizations
    ("reduce_sum", "v", (2, 6, 19), {"axis": 2}),
    ("reduce_sum", "v", (2, 6, 19), {"axis": (-2,)}),
    ("reduce_mean", "v", (2, 1, 6, 1), {"axis": (1, 3)}),
    ("argmax", "v", (2, 6, 6), {"axis": 3}),
    ("reduce_max", "v", ()),
    ("reduce_max", "v", (1, 1, 1, 1), {"axis": ()}),
    ("cumsum", "v", V, {"axis": 2}),
    ("sort", "v", V, {"axis": 3}),
    ("topk", "v", (2, 6, 6, 4), {"axis": 3}),
    ("softmax", "v", V, {"axis": 1}),
    ("softmax", "t", T, {"axis": 1}),
    ("softmax", "t", T, {"axis": (1, 2)}),
    ("batch_norm", "v b", V, {"names": ("x", "w")}),
    ("batch_norm", "v b", V, {"names": ("x", "w"), "training": True}),
    ("batch_renorm", "v b", V, {"names": ("x", "w")}),
    ("layer_norm", "t b", T, {"names": ("x", "w"), "axis": (2,)}),
    ("layer_norm", "v b", V, {"names": ("x", "w"), "axis": (3,)}),
    *((op, "v", V) for op in ("group_norm", "instance_norm", "local_response_norm", "mean_variance_norm")),
    ("mean_variance_norm", "v", V, {"axis": (1, 3)}),
    *(("normalize_rows", "v", V, {"names": names}) for names in (("x",), ("y",))),
    ("normalize_rows", "t", T),
    ("glu", "v", (2, 3, 6, 19), {"axis": 1}),
    ("glu", "v", (2, 6, 6, 9)),
    ("crelu", "v", (2, 12, 6, 19)),
    # products
    ("linear", "t b", (2, 114, 5), {"names": ("x", "w")}),
    ("linear", "c v", (2, 6, 6, 6), {"names": ("x", "w")}),
    ("linear", "t b t", T, {"names": ("x", "w", "z")}),
    ("matmul", "t r", (2, 114, 114), {"names": TWO}),
    ("matmul", "r t", (2, 6, 6), {"names": TWO}),
    ("matmul", "t b", (2, 114), {"names": TWO}),
    ("matmul", "b r", (2, 114), {"names": TWO}),
    ("matmul", "c v v", V, {"names": (*TWO, "z")}),
    ("einsum", "t r", (2, 114, 114), {"names": TWO, "equation": "bif, bfj -> bij"}),
    ("einsum", "v c", (2, 19, 6), {"names": TWO, "equation": "bchw,bchw->bwh"}),
    ("einsum", "v", (2, 6), {"names": ("x0",), "equation": "bcaa->bc"}),
    ("einsum", "v", (2, 6), {"names": ("x0",), "equation": "...->..."}),
    ("attention", "t t t", T, {"names": ("q", "k", "v")}),
    ("attention", "c v v", V, {"names": ("q", "k", "v")}),
    ("attention", "c c c v", V, {"names": ("q", "k", "v", "mask")}),
    ("multi_head_attention", "t b", T, {"names": ("q", "w")}),
    ("multi_head_attention", "c t", T, {"names": ("q", "k")}),
    ("transformer_encoder_layer", "t b", T, {"names": ("x", "w")}),
    ("rotary_embedding", "t b", T, {"names": ("x", "cos")}),
    ("rotary_embedding", "t t", T, {"names": ("x", "cos")}),
    ("lstm", "t", (2, 114, 8)),
    ("fft", "v", V),
    # indices
    ("embedding", "v b", (*V, 4), {"names": ("x", "w")}),
    ("embedding", "c v", (*V, 4), {"names": ("x", "w")}),
    ("gather", "v", (2, 6, 19), {"names": ("x",), "axis": 2, "index": 3}),
    ("gather", "v b", (2, 6, 6, 6, 19), {"names": ("x", "y"), "axis": 1}),
    ("gather", "t b", (2, 114, 2, 3), {"names": ("x", "y"), "axis": 2}),
    ("gather", "t b", (2, 2, 3, 6), {"names": ("x", "y"), "axis": 1}),
    ("gather", "t t", (2, 2, 3, 6), {"names": ("x", "y"), "axis": 1}),
    ("grid_sample", "v c", V),
    # layout
    ("identity", "v", V),
    ("shape", "v", (4,)),
    *(
        ("reshape", "v", shape)
        for shape in ((12, 6, 19), (2, 6, 2, 3, 19), (2, 36, 19), (2, 6, 38, 3), (2, 6, 6, 19, 1), (1368,))
    ),
    *(("reshape", "t", shape) for shape in ((2, 6, 19, 6), (2, 3, 38, 6), (2, 684), (2, 114, 2, 3), (228, 6))),
    ("reshape", "row", (2, 6, 6)),
    ("broadcast_to", "row", V),
    ("broadcast_to", "one", V),
    ("broadcast_to", "v", (3, 2, 6, 6, 19)),
    ("broadcast_to", "v", (6, 6, 19)),
    ("tile", "row", (2, 6, 6, 7)),
    ("transpose", "v", (19, 2, 6, 6), {"axes": (3, 0, 2, 1)}),
    ("slice", "v", (2, 6, 3, 5), {"axis": (2, 3), "start": (1, 12), "stop": (6, 2), "step": (2, -2)}),
    ("slice", "v", (2, 6, 6, 4), {"axis": (3,), "start": (-5,), "stop": (-1,), "step": (1,)}),
    ("slice", "v", (1, 6, 6, 19), {"start": (1,), "stop": (2,)}),
    ("slice", "v", (2, 6, 19), {"axis": (2, 3), "start": (4, None), "stop": (None, None), "step": (None, -1)}),
    ("slice", "v", (2, 6, 6, 2), {"axis": (3,), "start": (-40,), "stop": (2,), "step": (1,)}),
    ("slice", "v", (2, 6, 6, 19), {"axis": (3,), "start": (40,), "stop": (None,), "step": (-1,)}),
    ("slice", "v c", V, {"axis": (3,), "start": (0,), "step": (1,)}),
    ("slice", "c v", V, {"axis": (3,), "start": (0,), "step": (1,)}),
    ("slice", "t", (2, 57, 6), {"axis": (1,), "start": (1,), "stop": (114,), "step": (2,)}),
    ("slice", "t", (2, 113, 6), {"axis": (1,), "start": (1,), "stop": (114,), "step": (1,)}),
    *(("select", "v", (2, 6, 19), {"axis": 2, "index": index}) for index in (0, 2, -1)),
    ("select", "t", (2, 6), {"axis": 1, "index": 40}),
    ("split", "v", (2, 6, 6, 4), (2, 6, 6, 15), {"axis": 3}),
    ("split", "v", (2, 2, 6, 19), (2, 4, 6, 19), {"axis": 1}),
    ("unbind", "v", (2, 6, 19), (2, 6, 19), {"axis": 2}),
    ("view", "v", V, {"rearranged": True}),
    ("view", "v", (2, 6, 19, 6), {"axes": (0, 1, 3, 2)}),
    ("view", "v", (2, 6, 6, 18), {"axis": (3,), "start": (1,), "stop": (19,), "step": (1,)}),
    ("view", "v", (2, 6, 19), {"axis": 2, "index": 1}),
    ("view", "v", (2, 6, 6, 9), (2, 6, 6, 10), {"axis": 3}),
    ("view", "v", (2, 6, 114)),
    ("view", "one", V),
    ("concat", "v u", (2, 12, 6, 19), {"axis": 1}),
    ("concat", "v u", (2, 6, 6, 38), {"axis": 3}),
    ("concat", "v u", (2, 6, 12, 19), {"axis": -2}),
    ("concat", "c v", (2, 6, 6, 38), {"axis": 3}),
    ("concat", "v c", (2, 6, 12, 19), {"axis": 2}),
    ("concat", "t t", (2, 228, 6), {"axis": 1}),
    ("concat", "v", V, {"axis": 3}),
    ("stack", "v u", (2, 2, 6, 6, 19), {"axis": 1}),
    ("stack", "v c", (2, 6, 6, 19, 2), {"axis": -1}),
    ("pad", "v", (2, 6, 9, 18), {"before": (0, 0, 2, -1)}),
    ("pad", "v", (2, 6, 7, 19), {"before": (0, 0, 0, 0)}),
    ("pad", "t", (2, 115, 6), {"before": (0, 1, 0)}),
    ("flip", "v", V, {"axis": (2, 1)}),
    ("flip", "t", T, {"axis": (1,)}),
    ("roll", "v", V, {"axis": (2, 3), "shift": (1, -4)}),
    ("roll", "t", T, {"axis": (1,), "shift": (3,)}),
    ("space_to_depth", "v", (2, 24, 3, 9)),
    ("depth_to_space", "v", (2, 1, 12, 57)),
    ("pixel_shuffle", "v", (2, 1, 12, 38)),
    ("channel_shuffle", "v", V),
    ("one_hot", "v", (*V, 3)),
    ("broadcast_arrays", "v one", V, V),
    ("nothing_known", "v", V),
    ("nothing_known", "v", ()),
    ("quantized_conv", "v k", V, {"names": ("x", "w"), **WINDOW, "stride": (1, 1)}),
)


def said(graph: Graph, name: str) -> list[list[str]]:
    """All that is known of each output of a call, along each axis of the input; of its path the repeated part too."""
    paths = followed(graph.trace)
    lines = []
    for output in paths.outputs[name]:
        line = []
        for each in output:
            if each is None:
                line.append("-")
                continue
            causes = [each.global_by, each.unknown, each.misaligned, each.bounded, each.wrapped]
            text = "|".join(causes) if any(causes) else ""
            if each.path is not None:
                one = each.path.map
                digits = " ".join(f"{d.axis}:{d.size}/{d.unit}*{d.weight}+{d.start}" for d in each.path.factors)
                first, last = (one.seen(at) for at in (0, 7))
                text += f" {one.advance} {[*one.intervals]} [{digits}] {first} {last}"
            line.append(text)
        lines.append(line)
    return [*lines, [str(axis) for axis in sorted(paths.slid)]]


def test_every_rule(golden):
    found = {}
    for op, reads, *rest in SEVERAL:
        attrs = rest.pop() if isinstance(rest[-1], dict) else {}
        lines = []
        for keeps_channels in (False, True):
            graph = image(keeps_channels)
            graph(op, reads, *rest, **attrs)
            lines.append(said(graph, graph.calls[-1].name))
        first, second = lines
        found[f"{op} {reads} {rest} {attrs}"] = [*first, ["channels", *(line[1] for line in second[:-1])]]
    golden("receptive_field/rules.json", as_json(found))


N = sympy.Symbol("n", integer=True, positive=True)
H = sympy.Symbol("h", integer=True, positive=True)
SYMBOLIC: tuple[tuple[Any, ...], ...] = (
    ("conv", "x k", (N, 4, H, 2 * H), {"names": ("x", "w"), "kernel": (3, 3), "stride": (1, 1), "padding": (1, 1)}),
    ("conv", "x k", (N, 4, H, 2 * H), {"names": ("x", "w"), "kernel": (H, 3), "stride": (1, 1)}),
    ("max_pool", "x", (N, 4, H, H), {"kernel": (1, 2), "stride": (1, 2)}),
    ("adaptive_avg_pool", "x", (N, 4, 1, H)),
    ("reshape", "x", (N, 4, 2 * H * H)),
    ("reshape", "x", (N, 4, H * H, 2)),
    ("reshape", "x", (4 * N, H, 2 * H)),
    ("resize", "x", (N, 4, 2 * H, 4 * H), {"mode": "linear"}),
    ("resize", "x", (N, 4, 2 * H, N), {"mode": "linear"}),
    ("slice", "x", (N, 4, H, 2 * H - 1), {"axis": (3,), "start": (1,), "stop": (2 * H,), "step": (1,)}),
    ("slice", "x", (N, 4, H, 1), {"axis": (3,), "start": (-1,), "stop": (2 * H,), "step": (1,)}),
    ("slice", "x", (N, 4, H, H), {"axis": (3,), "start": (H,), "stop": (2 * H,), "step": (1,)}),
    ("concat", "x x", (N, 4, 2 * H, 2 * H), {"axis": 2}),
    ("concat", "c x", (N, 4, 2 * H, 2 * H), {"axis": 2}),
    ("pad", "x", (N, 4, H + 2, 2 * H), {"before": (0, 0, 1, 0)}),
    ("flip", "x", (N, 4, H, 2 * H), {"axis": (3,)}),
    ("roll", "x", (N, 4, H, 2 * H), {"axis": (3,), "shift": (H,)}),
    ("select", "x", (N, 4, 2 * H), {"axis": 2, "index": 1}),
    ("split", "x", (N, 4, H, H), (N, 4, H, H), {"axis": 3}),
    ("space_to_depth", "x", (N, 16, H / 2, H)),
    ("softmax", "x", (N, 4, H, 2 * H), {"axis": 3}),
)


def test_symbolic_sizes(golden):
    found = {}
    for op, reads, *rest in SYMBOLIC:
        graph = Graph(N, 4, H, 2 * H)
        graph.ids |= {"k": 2, "c": 3}
        graph.shapes |= {2: (4, 4, 3, 3), 3: (N, 4, H, 2 * H)}
        attrs = rest.pop() if isinstance(rest[-1], dict) else {}
        graph(op, reads, *rest, **attrs)
        found[f"{op} {reads} {rest} {attrs}"] = said(graph, graph.calls[-1].name)
    golden("receptive_field/symbolic.json", as_json(found))


def chained(seed: int) -> Graph:
    """A random chain of rearrangements, windows, products and joins of a value of three or four axes."""
    rng = Random(seed)
    graph = Graph(*rng.choice(((2, 4, 6), (4, 6, 6), (2, 3, 4, 6))))
    values, at = ["x"], 1

    def shape_of(name: str) -> tuple[int, ...]:
        return graph.shapes[graph.ids[name]]

    def add(op: str, reads: str, *shapes: tuple[int, ...], **attrs: Any) -> None:
        nonlocal at
        for identity in graph(op, reads, *shapes, **attrs):
            graph.ids[f"v{at}"] = identity
            values.append(f"v{at}")
            at += 1

    for _ in range(rng.randint(3, 7)):
        name = rng.choice(values[-3:])
        shape, kind = shape_of(name), rng.randrange(17)
        rank = len(shape)
        axis = rng.randrange(rank) if rank else 0
        size = shape[axis] if rank else 1
        others = [each for each in values if shape_of(each) == shape]
        rest = (*shape[:axis], *shape[axis + 1 :])

        def sized(new: int, shape: tuple[int, ...] = shape, axis: int = axis) -> tuple[int, ...]:
            return (*shape[:axis], new, *shape[axis + 1 :])

        if not rank or kind == 0:
            add("relu", name, shape)
        elif kind == 1:
            add("transpose", name, shape[::-1], axes=tuple(reversed(range(rank))))
        elif kind == 2 and rank > 1:
            k = rng.randrange(rank - 1)
            add("reshape", name, (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]))
        elif kind == 3 and size % 2 == 0:
            add("reshape", name, (*shape[:axis], *rng.choice(((2, size // 2), (size // 2, 2))), *shape[axis + 1 :]))
        elif kind == 4 and size > 2:
            start, step = rng.choice(((1, 1), (-2, 1), (0, 2), (1, 2), (-1, -1), (2, -2)))
            new = len(range(size)[start::step])
            add("slice", name, sized(new), axis=(axis,), start=(start,), stop=(None,), step=(step,))
        elif kind == 5:
            add("select", name, rest, axis=axis, index=rng.choice((0, -1, size // 2)))
        elif kind == 6:
            add("concat", f"{name} {rng.choice(others)}", sized(2 * size), axis=rng.choice((axis, axis - rank)))
        elif kind == 7:
            before = tuple(rng.choice((0, 1, -1)) * (i == axis) for i in range(rank))
            add("pad", name, sized(size + 1), before=before)
        elif kind == 8 and rank > 2 and shape[-1] > 3:
            window = {
                "kernel": (rng.choice((2, 3)),),
                "stride": (rng.choice((1, 2)),),
                "padding": (rng.choice((0, 1)),),
            }
            new = (shape[-1] + 2 * window["padding"][0] - window["kernel"][0]) // window["stride"][0] + 1
            add("max_pool", name, (*shape[:-1], new), **window)
        elif kind == 9 and rank > 2:
            add("resize", name, (*shape[:2], *(3 * each for each in shape[2:])), mode=rng.choice(("linear", "nearest")))
        elif kind == 10:
            add("reduce_mean", name, rest, axis=axis)
        elif kind == 11:
            add("reduce_max", name, sized(1), axis=(axis - rank,))
        elif kind == 12:
            fitting = [each for each in values if shape_of(each) in (shape, sized(1))]
            add("add", f"{name} {rng.choice(fitting)}", shape)
        elif kind == 13:
            add("stack", f"{name} {rng.choice(others)}", (*shape[:axis], 2, *shape[axis:]), axis=axis)
        elif kind == 14 and size > 2:
            add("split", name, sized(2), sized(size - 2), axis=axis)
        elif kind == 15:
            add(rng.choice(("flip", "roll")), name, shape, axis=(axis,), shift=(rng.choice((1, -2)),))
        elif kind == 16 and rank > 1:
            turned = (*shape[:-2], shape[-1], shape[-2])
            add("transpose", name, turned, axes=(*range(rank - 2), rank - 1, rank - 2))
            add("matmul", f"{name} {values[-1]}", (*shape[:-1], shape[-2]))
    if not graph.calls:
        add("relu", "x", shape_of("x"))
    return graph


def test_random_chains(golden):
    found = {}
    for seed in range(150):
        graph = chained(seed)
        found[f"{seed} " + " ".join(call.layer.op for call in graph.calls)] = said(graph, graph.calls[-1].name)
    golden("receptive_field/chains.json", as_json(found))


def network() -> Graph:
    """Two outputs of v, a gate, branches of other strides, and tokens: 16 calls, of which five are outputs."""
    graph = image()
    graph.named("gate", "mul", "v one", V)
    graph.named("up", "resize", "gate", (2, 6, 9, 38), mode="linear")
    graph.named("aligned", "resize", "v", (2, 6, 4, 7), mode="linear", align_corners=True)
    graph.named("rolled", "roll", "v", V, axis=(3,), shift=(2,))
    graph("add", "v s", V)
    graph("sort", "t", T, axis=1)
    graph("split", "rolled", (2, 6, 6, 4), (2, 6, 6, 15), axis=3)
    return graph


@pytest.mark.parametrize("axes", [None, (2,), (3, 1), (-1,)])
def test_fields_of_a_network(golden, axes):
    fields = receptive_fields(network().trace, axes=axes)
    regions = {}
    for name, one in fields.items():
        last = min((one.shape[axis] for axis in one.axes), default=1) - 1
        at = [
            position
            for position in (0, 1, 3, last)
            if one.is_known and all(position < one.shape[axis] for axis in one.axes)
        ]
        regions[name] = [str(one.region(position)) for position in at]
    parts = [
        repr(fields),
        str(fields),
        as_json(fields.to_dict()["fields"]),
        as_json(regions),
        as_json([{**row, "output_shape": str(row["output_shape"])} for row in fields.rows()]),
        as_json({name: [str(field) for field in fields.of_outputs(name)] for name in fields}),
        *(f"{name}: {one!r} {one.sizes} {one.axes} {one.is_global}" for name, one in fields.outputs.items()),
    ]
    golden(f"receptive_field/network_{'' if axes is None else '_'.join(map(str, axes))}.txt", "\n".join(parts) + "\n")


def test_the_table(golden):
    from io import StringIO

    stream = StringIO()
    report = Report(network().trace)
    report.show_receptive_field(stream, mode="csv", sort="size", top=9)
    report.show_receptive_field(stream, mode="table")
    golden("receptive_field/table.txt", stream.getvalue())
