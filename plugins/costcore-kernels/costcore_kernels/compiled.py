"""Kernels that TorchInductor writes in Triton: the bytes of their arguments.

Source: ``torch/_inductor/codegen/triton.py`` of PyTorch: pointers to what is read come before those to what is written.
What a kernel computes per element is not in a trace, so that its operations are unknown.
"""

from __future__ import annotations

from costcore.ir import Tensor
from costcore.translate import Arguments, Row

UNKNOWN = "the last tensor is written, the others are read, and operations are left out"


def _tensors(args: Arguments) -> list[Tensor]:
    return [x for x in args.values() if isinstance(x, Tensor)]


ROWS: tuple[Row, ...] = (
    Row(
        "triton::*",
        "generated_kernel",
        {"x*": lambda args: _tensors(args)[:-1]},
        {"assumed": lambda _: UNKNOWN},
        when=lambda args: bool(_tensors(args)),
        outputs=lambda args, _: _tensors(args)[-1:],
    ),
)
