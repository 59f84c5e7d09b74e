"""A run computes the same bits under capture as without: the kernels that run are those of a plain run."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from tests.frontends.pytorch.differences import refuses
from tests.frontends.pytorch.runs import GRAD_MODES, record, types

PROTOTYPES = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")

_UNARY = """
abs acos acosh angle asin asinh atan atanh ceil cos cosh cummax cumsum cumprod deg2rad digamma erf erfc erfinv exp exp2
expm1 floor frac lgamma log log10 log1p log2 logit logcumsumexp logsumexp max mean median min mode neg norm
rad2deg reciprocal relu round rsqrt sigmoid sign sin sinc sinh softmax log_softmax sqrt square std sum tan tanh trunc
var
"""

_ACTIVATIONS = """
celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 rrelu selu silu softmin
softplus softshrink softsign tanhshrink threshold normalize
"""

_WITH_DIM = """
cummax cumsum cumprod logcumsumexp logsumexp median mode softmax log_softmax softmin
"""
_ARGUMENTS = {"threshold": (0.1, 20.0), **dict.fromkeys(_WITH_DIM.split(), (-1,))}

X = torch.rand(4, 6, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
Y = torch.rand(4, 6, generator=torch.Generator().manual_seed(1)) * 0.8 + 0.1
IMAGE = torch.rand(2, 4, 6, 6, generator=torch.Generator().manual_seed(2))
TOKENS = torch.rand(2, 3, 8, generator=torch.Generator().manual_seed(3))
CLASSES = torch.tensor([0, 2, 1, 5])

FUNCTIONS = {
    **{name: (lambda x, n=name: getattr(torch, n)(x, *_ARGUMENTS.get(n, ())), X) for name in _UNARY.split()},
    **{name: (lambda x, n=name: getattr(functional, n)(x, *_ARGUMENTS.get(n, ())), X) for name in _ACTIVATIONS.split()},
    "in-place silu": (lambda x: functional.silu(x * 1, inplace=True), X),
    "add": (lambda x: x + Y, X),
    "div": (lambda x: x / Y, X),
    "pow": (lambda x: x**Y, X),
    "atan2": (lambda x: torch.atan2(x, Y), X),
    "hypot": (lambda x: torch.hypot(x, Y), X),
    "lerp": (lambda x: torch.lerp(x, Y, 0.3), X),
    "addcmul": (lambda x: torch.addcmul(x, x, Y, value=0.5), X),
    "addcdiv": (lambda x: torch.addcdiv(x, x, Y, value=0.5), X),
    "maximum": (lambda x: torch.maximum(x, Y), X),
    "clamp": (lambda x: x.clamp(0.2, 0.7), X),
    "where": (lambda x: torch.where(x > Y, x, Y), X),
    "masked_fill": (lambda x: x.masked_fill(Y > 0.5, 0.0), X),
    "gather": (lambda x: x.gather(1, CLASSES[:, None]), X),
    "index": (lambda x: x[CLASSES % 4], X),
    "scatter": (lambda x: torch.zeros(4, 6).scatter_add(1, CLASSES[:, None].expand(4, 6), x), X),
    "topk": (lambda x: x.topk(2).values, X),
    "sort": (lambda x: x.sort().values, X),
    "roll": (lambda x: x.roll(1, 0), X),
    "cat": (lambda x: torch.cat([x, x * 2]), X),
    "cosine similarity": (lambda x: functional.cosine_similarity(x, Y), X),
    "cdist": (lambda x: torch.cdist(x, Y), X),
    "matmul": (lambda x: x @ Y.T, X),
    "einsum": (lambda x: torch.einsum("ij,kj->ik", x, Y), X),
    "baddbmm": (lambda x: torch.baddbmm(x[None], x[None], (Y.T @ Y)[None]), X),
    "inverse": (lambda x: torch.linalg.inv(x @ x.T + torch.eye(4)), X),
    "cholesky": (lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(4)), X),
    "svd": (lambda x: torch.linalg.svd(x, full_matrices=False)[1], X),
    "singular values": (torch.linalg.svdvals, X),
    "eigenvalues": (lambda x: torch.linalg.eigvalsh(x @ x.T), X),
    "spectral norm": (lambda x: torch.linalg.matrix_norm(x, 2), X),
    "condition number": (torch.linalg.cond, X),
    "determinant": (lambda x: torch.linalg.slogdet(x @ x.T + torch.eye(4))[1], X),
    "pseudo-inverse": (torch.linalg.pinv, X),
    "complex pseudo-inverse": (lambda x: torch.linalg.pinv(torch.complex(x, Y)).abs(), X),
    "complex product": (lambda x: (torch.complex(x, Y).conj() * torch.complex(Y, x)).real, X),
    "imaginary part": (lambda x: torch.complex(x, Y).conj().imag.neg().sqrt(), X),
    "fft": (lambda x: torch.fft.rfft(x).abs(), X),
    "hermitian fft": (lambda x: torch.fft.hfft(torch.complex(x, Y)), X),
    "inverse hermitian fft": (lambda x: torch.fft.ihfft2(x).abs(), X),
    "stft": (lambda x: torch.stft(x.flatten(), 8, return_complex=True, window=torch.ones(8)).abs(), X),
    "cross entropy": (lambda x: functional.cross_entropy(x, CLASSES), X),
    "nll": (lambda x: functional.nll_loss(x, CLASSES), X),
    "kl_div": (lambda x: functional.kl_div(x.log(), Y, reduction="batchmean"), X),
    "mse": (lambda x: functional.mse_loss(x, Y), X),
    "huber": (lambda x: functional.huber_loss(x, Y), X),
    "smooth l1": (lambda x: functional.smooth_l1_loss(x, Y), X),
    "bce": (lambda x: functional.binary_cross_entropy(x, Y), X),
    "bce with logits": (lambda x: functional.binary_cross_entropy_with_logits(x, Y), X),
    "margin": (lambda x: functional.multi_margin_loss(x, CLASSES), X),
    "embedding": (lambda x: functional.embedding(CLASSES % 4, x), X),
    "embedding bag": (lambda x: functional.embedding_bag(CLASSES % 4, x, torch.tensor([0, 2])), X),
    "linear": (lambda x: functional.linear(x, Y, Y[:, 0]), X),
    "layer norm": (lambda x: functional.layer_norm(x, (6,), Y[0], Y[1]), X),
    "rms norm": (lambda x: functional.rms_norm(x, (6,), Y[0]), X),
    "conv": (lambda x: functional.conv2d(x, IMAGE[:, :, :3, :3], padding=1), IMAGE),
    "transposed conv": (lambda x: functional.conv_transpose2d(x, IMAGE[:, :2, :3, :3].repeat(2, 1, 1, 1)), IMAGE),
    "batch norm": (lambda x: functional.batch_norm(x, None, None, training=True), IMAGE),
    "group norm": (lambda x: functional.group_norm(x, 2), IMAGE),
    "instance norm": (functional.instance_norm, IMAGE),
    "local response norm": (lambda x: functional.local_response_norm(x, 3), IMAGE),
    "max pool": (lambda x: functional.max_pool2d(x, 2), IMAGE),
    "average pool": (lambda x: functional.avg_pool2d(x, 2), IMAGE),
    "adaptive pool": (lambda x: functional.adaptive_avg_pool2d(x, 3), IMAGE),
    "lp pool": (lambda x: functional.lp_pool2d(x, 2.0, 2), IMAGE),
    "bilinear": (lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "bicubic": (lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"), IMAGE),
    "grid sample": (lambda x: functional.grid_sample(x, IMAGE[:, :2].movedim(1, -1), align_corners=False), IMAGE),
    "channel shuffle": (lambda x: functional.channel_shuffle(x, 2), IMAGE),
    "pixel shuffle": (lambda x: functional.pixel_shuffle(x, 2), IMAGE),
    "reflection": (lambda x: functional.pad(x, (1, 1, 1, 1), "reflect"), IMAGE),
    "unfold": (lambda x: functional.unfold(x, 3), IMAGE),
    "attention": (lambda x: functional.scaled_dot_product_attention(x, x, x), TOKENS),
    "causal attention": (lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True), TOKENS),
}


class Nothing(TorchDispatchMode):
    """Sees every operator and runs it."""

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_gradients_are_those_of_a_plain_run(name):
    function, x = FUNCTIONS[name]
    if name == "channel shuffle" and refuses(lambda: _run(function, x, [])):
        pytest.skip("this PyTorch has no derivative of channel_shuffle")
    for grad_mode in GRAD_MODES.values():
        plain, seen, under_a_mode = [], [], []
        with grad_mode():
            _run(function, x, plain)
            record(lambda results=seen: _run(function, x, results))
            with Nothing():  # PyTorch 2.9 computes the gradient of cumprod in another order under any mode
                _run(function, x, under_a_mode)
        assert len(plain) == len(seen)
        for expected, found, other in zip(plain, seen, under_a_mode, strict=True):
            assert _is_identical(expected, found) or _is_identical(other, found)
            torch.testing.assert_close(found, expected, equal_nan=True)


def _run(function, x, results):
    torch.manual_seed(0)
    x = x.clone().requires_grad_(torch.is_grad_enabled())
    output = function(x)
    if isinstance(output, torch.Tensor):
        results.append(output)
    else:
        results.extend(output)
    if torch.is_grad_enabled():
        gradient = torch.rand(results[0].shape, generator=torch.Generator().manual_seed(4)) - 0.5
        results.extend(torch.autograd.grad(results[0], x, gradient))


def _is_identical(a, b):
    return a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a.nan_to_num(), b.nan_to_num())


@pytest.mark.parametrize(
    ("operator", "run"),
    {
        "silu_backward": lambda x: functional.silu(x).sum().backward(),
        "mish_backward": lambda x: functional.mish(x).sum().backward(),
        "native_channel_shuffle": lambda x: torch.native_channel_shuffle(x.detach(), 2),
    }.items(),
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_operator_that_has_a_kernel_is_one_call(operator, run, device):
    x = torch.ones(1, 4, 2, 2, device=device, requires_grad=True)
    found = types(record(lambda: run(x)))
    assert found.count(operator) == 1
    assert not {"sigmoid", "tanh", "sub", "mul", "view", "permute"} & {*found}
    with torch.inference_mode():
        y = torch.ones(1, 4, 2, 2, device=device)
        direct = {
            "silu_backward": lambda: torch.ops.aten.silu_backward(y, y),
            "mish_backward": lambda: torch.ops.aten.mish_backward(y, y),
            "native_channel_shuffle": lambda: torch.native_channel_shuffle(y, 2),
        }
        assert types(record(direct[operator])) == [operator]


@PROTOTYPES
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("grad_mode", GRAD_MODES)
def test_operators_with_a_kernel_for_nested_tensors_are_one_call(layout, grad_mode):
    with GRAD_MODES[grad_mode]():
        nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=layout)
        runs = {
            "chunk": lambda: nested.chunk(2, -1)[1],
            "narrow": lambda: nested.narrow(2, 0, 1),
            "view": lambda: nested.reshape(2, -1, 2, 2),
        }
        if layout is torch.jagged:
            runs = {name: run for name, run in runs.items() if name == "chunk" or not refuses(run)}
        else:
            del runs["narrow"]  # along the batch only, where it returns fewer samples
            runs["transpose"] = lambda: nested.transpose(1, 2).reshape(2, 4, -1)
        for operator, run in runs.items():
            plain, seen = run(), []
            found = types(record(lambda run=run, seen=seen: seen.append(run())))
            assert found[0] == operator
            assert all(map(torch.equal, plain.unbind(), seen[0].unbind()))
