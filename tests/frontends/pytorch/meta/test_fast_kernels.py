"""Fast kernels return what the kernels of PyTorch return."""

from __future__ import annotations

import pytest
import torch

from costcore.frontends.pytorch.meta.fast_kernels import FAST_KERNELS

INPUTS = {
    "contiguous": torch.ones(2, 3, 4, 5),
    "double": torch.ones(2, 3, dtype=torch.float64),
    "channels last": torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "permuted": torch.ones(2, 3, 4).permute(2, 0, 1),
    "broadcast": torch.ones(2, 1).expand(2, 3),
    "integers": torch.ones(2, 3, dtype=torch.int64),
    "half": torch.ones(2, 3, dtype=torch.bfloat16),
}
EXTRA = {"hardtanh": (-1.0, 1.0)}
ELEMENTWISE = sorted(name for name, kernel in FAST_KERNELS.items() if kernel.__name__ in ("unary", "unary_in_place"))


def look(result):
    tensors = (result,) if isinstance(result, torch.Tensor) else result
    return [(x.shape, x.stride(), x.dtype) for x in tensors]


@pytest.mark.parametrize("layout", INPUTS)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_element_wise(name, layout):
    word = name.removeprefix("aten::")
    x = INPUTS[layout].clone(memory_format=torch.preserve_format) if word.endswith("_") else INPUTS[layout]
    result = FAST_KERNELS[name](x.to("meta"))
    if result is None:
        assert layout not in ("contiguous", "double", "channels last")
    else:
        assert look(result) == look(getattr(torch.ops.aten, word)(x, *EXTRA.get(word.removesuffix("_"), ())))


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("layout", INPUTS)
def test_batch_norm(layout, is_training):
    x = INPUTS[layout]
    args = (*[torch.ones(x.shape[1], dtype=x.dtype) for _ in range(4)], is_training, 0.1, 1e-5)
    twins = [arg.to("meta") if isinstance(arg, torch.Tensor) else arg for arg in args]
    result = FAST_KERNELS["aten::native_batch_norm"](x.to("meta"), *twins)
    if result is None:
        assert layout not in ("contiguous", "double", "channels last")
    else:
        assert look(result) == look(torch.native_batch_norm(x, *args))


@pytest.mark.parametrize("layout", INPUTS)
def test_layer_norm(layout):
    x = INPUTS[layout]
    w = torch.ones(x.shape[-1], dtype=x.dtype)
    result = FAST_KERNELS["aten::native_layer_norm"](x.to("meta"), w.shape, w.to("meta"), None, 1e-5)
    if result is None:
        assert layout not in ("contiguous", "double")
    else:
        assert look(result) == look(torch.native_layer_norm(x, w.shape, w, None, 1e-5))


def test_what_does_not_fit_is_left_to_the_kernel():
    x, w = torch.empty(2, 3, 4, device="meta"), torch.empty(4, device="meta")
    assert FAST_KERNELS["aten::native_batch_norm"](x, w, w, w, w, False, 0.1, 1e-5) is None
    assert FAST_KERNELS["aten::native_batch_norm"](x, None, None, None, None, False, 0.1, 1e-5) is None
    assert FAST_KERNELS["aten::native_layer_norm"](x, (3,), None, None, 1e-5) is None
    assert FAST_KERNELS["aten::native_layer_norm"](x, (4,), torch.empty(3, device="meta"), None, 1e-5) is None
