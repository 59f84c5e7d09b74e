"""Loops, branches, scans and compiled code."""

from __future__ import annotations

from ..loops import linear
from ..probe import Probe

__all__ = ["PROBES"]

PROBES = [
    Probe(
        "control_flow.for_loop",
        "one nn.Linear(6, 6) without bias, applied 5 times in a loop to 3 rows",
        "macs",
        "5 times * 3 rows * 6 * 6",
        lambda: [*linear(3, 6, 6)] * 5,
        torch=lambda b: (b.repeated(b.nn.Linear(6, 6, bias=False), 5), (b.x(3, 6),)),
        jax=lambda b: (
            lambda x, w: b.lax.fori_loop(0, 5, lambda i, y: y @ w, x),
            (b.x(3, 6), b.x(6, 6)),
        ),
        tensorflow=lambda b: (lambda x, w: b.loop(5, lambda y: y @ w, x), (b.x(3, 6), b.x(6, 6))),
    ),
    Probe(
        "control_flow.scan",
        "jax.lax.scan of 5 steps, each a product of (3, 6) with (6, 6)",
        "macs",
        "5 steps * 3 rows * 6 * 6",
        lambda: [*linear(3, 6, 6)] * 5,
        jax=lambda b: (
            lambda x, ws: b.lax.scan(lambda y, w: (y @ w, None), x, ws)[0],
            (b.x(3, 6), b.x(5, 6, 6)),
        ),
    ),
    Probe(
        "control_flow.onnx_loop",
        "an ONNX Loop of 5 trips, each a product of (3, 6) with (6, 6)",
        "macs",
        "5 trips * 3 rows * 6 * 6",
        lambda: [*linear(3, 6, 6)] * 5,
        onnx=lambda b: b.loop(5, 3, 6),
    ),
    Probe(
        "control_flow.onnx_scan",
        "an ONNX Scan over 5 slices, each a product of (3, 6) with (6, 6)",
        "macs",
        "5 slices * 3 rows * 6 * 6",
        lambda: [*linear(3, 6, 6)] * 5,
        onnx=lambda b: b.scan(5, 3, 6),
    ),
    Probe(
        "control_flow.onnx_if",
        "an ONNX If whose condition is a constant true: its branch has one product, the other two",
        "macs",
        "3 rows * 6 * 6",
        lambda: linear(3, 6, 6),
        onnx=lambda b: b.branches(3, 6),
    ),
    Probe(
        "control_flow.early_exit",
        "three nn.Linear(6, 6) without biases, of which a flag of Python stops after two, on 3 rows",
        "macs",
        "2 layers * 3 rows * 6 * 6",
        lambda: [*linear(3, 6, 6)] * 2,
        torch=lambda b: (
            b.Fn(
                lambda self, x: self.c(self.b(self.a(x))) if self.whole else self.b(self.a(x)),
                a=b.nn.Linear(6, 6, bias=False),
                b=b.nn.Linear(6, 6, bias=False),
                c=b.nn.Linear(6, 6, bias=False),
                whole=False,
            ),
            (b.x(3, 6),),
        ),
    ),
    Probe(
        "control_flow.depends_on_length",
        "nn.Linear(6, 6) without bias, applied once for each of the 4 rows of the input",
        "macs",
        "4 rows * 6 * 6",
        lambda: linear(4, 6, 6),
        torch=lambda b: (
            b.Fn(
                lambda self, x: b.torch.stack([self.layer(row) for row in x]),
                layer=b.nn.Linear(6, 6, bias=False),
            ),
            (b.x(4, 6),),
        ),
    ),
    Probe(
        "control_flow.vmap",
        "torch.func.vmap of a product of a row (6) with (6, 5), over 4 rows",
        "macs",
        "4 rows * 5 * 6",
        lambda: linear(4, 6, 5),
        torch=lambda b: (
            b.Fn(lambda self, x: b.torch.func.vmap(lambda row: row @ self.w)(x), w=b.x(6, 5)),
            (b.x(4, 6),),
        ),
        jax=lambda b: (
            lambda x, w: b.jax.vmap(lambda row: row @ w)(x),
            (b.x(4, 6), b.x(6, 5)),
        ),
        tags=frozenset({"functional"}),
    ),
    Probe(
        "control_flow.checkpoint",
        "torch.utils.checkpoint of nn.Linear(6, 5) without bias, forward on 4 rows",
        "macs",
        "4 rows * 5 * 6",
        lambda: linear(4, 6, 5),
        torch=lambda b: (
            b.Fn(
                lambda self, x: b.torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False),
                layer=b.nn.Linear(6, 5, bias=False),
            ),
            (b.x(4, 6),),
        ),
    ),
    Probe(
        "control_flow.scripted",
        "torch.jit.script of Linear(6, 5), ReLU, Linear(5, 3) without biases, on 4 rows",
        "macs",
        "4 rows * (6 * 5 + 5 * 3)",
        lambda: [*linear(4, 6, 5), *linear(4, 5, 3)],
        torch=lambda b: (
            b.torch.jit.script(
                b.nn.Sequential(b.nn.Linear(6, 5, bias=False), b.nn.ReLU(), b.nn.Linear(5, 3, bias=False))
            ),
            (b.x(4, 6),),
        ),
        extras={"relu": 20},
        tags=frozenset({"scripted"}),
    ),
    Probe(
        "control_flow.traced",
        "torch.jit.trace of Linear(6, 5), ReLU, Linear(5, 3) without biases, on 4 rows",
        "macs",
        "4 rows * (6 * 5 + 5 * 3)",
        lambda: [*linear(4, 6, 5), *linear(4, 5, 3)],
        torch=lambda b: (
            b.torch.jit.trace(
                b.nn.Sequential(b.nn.Linear(6, 5, bias=False), b.nn.ReLU(), b.nn.Linear(5, 3, bias=False)),
                b.x(4, 6),
            ),
            (b.x(4, 6),),
        ),
        extras={"relu": 20},
        tags=frozenset({"scripted"}),
    ),
    Probe(
        "control_flow.fx",
        "torch.fx.symbolic_trace of Linear(6, 5), ReLU, Linear(5, 3) without biases, on 4 rows",
        "macs",
        "4 rows * (6 * 5 + 5 * 3)",
        lambda: [*linear(4, 6, 5), *linear(4, 5, 3)],
        torch=lambda b: (
            b.torch.fx.symbolic_trace(
                b.nn.Sequential(b.nn.Linear(6, 5, bias=False), b.nn.ReLU(), b.nn.Linear(5, 3, bias=False))
            ),
            (b.x(4, 6),),
        ),
        extras={"relu": 20},
    ),
    Probe(
        "control_flow.exported",
        "torch.export of Linear(6, 5), ReLU, Linear(5, 3) without biases, on 4 rows",
        "macs",
        "4 rows * (6 * 5 + 5 * 3)",
        lambda: [*linear(4, 6, 5), *linear(4, 5, 3)],
        torch=lambda b: (
            b.torch.export.export(
                b.nn.Sequential(b.nn.Linear(6, 5, bias=False), b.nn.ReLU(), b.nn.Linear(5, 3, bias=False)),
                (b.x(4, 6),),
            ).module(),
            (b.x(4, 6),),
        ),
        extras={"relu": 20},
        tags=frozenset({"functional"}),
    ),
    Probe(
        "control_flow.compiled",
        "torch.compile with backend='eager' of Linear(6, 5), ReLU, Linear(5, 3) without biases, on 4 rows",
        "macs",
        "4 rows * (6 * 5 + 5 * 3)",
        lambda: [*linear(4, 6, 5), *linear(4, 5, 3)],
        torch=lambda b: (
            b.torch.compile(
                b.nn.Sequential(b.nn.Linear(6, 5, bias=False), b.nn.ReLU(), b.nn.Linear(5, 3, bias=False)),
                backend="eager",
            ),
            (b.x(4, 6),),
        ),
        extras={"relu": 20},
        tags=frozenset({"compiled"}),
    ),
]
