"""Small networks whose numbers other tools have printed: tests/data/conventions.csv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from costcore import Report, Tensor, estimate


class Network(NamedTuple):
    """A network: how to build it, its inputs as ``1x3x8x8`` or ``1x5:int64``, and whether it is in training mode."""

    build: Callable[[], nn.Module]
    inputs: str
    is_training: bool = False

    def built(self) -> nn.Module:
        torch.manual_seed(0)
        return self.build().train(self.is_training)

    def shapes(self) -> list[tuple[tuple[int, ...], str]]:
        parts = [text.partition(":") for text in self.inputs.split(";")]
        return [(tuple(map(int, shape.split("x"))), dtype or "float32") for shape, _, dtype in parts]

    def estimated(self) -> Report:
        return estimate(self.built(), tuple(Tensor(*shape) for shape in self.shapes()), record_api_calls=True)


class Fn(nn.Module):
    """A module with children whose forward pass is a function of it and the inputs."""

    def __init__(self, function: Callable[..., Any], **children: nn.Module) -> None:
        super().__init__()
        self._function = function
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, *inputs: Any) -> Any:
        return self._function(self, *inputs)


class First(nn.Module):
    """The first output of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.m = module

    def forward(self, *inputs: Any) -> Any:
        return self.m(*inputs)[0]


def held_twice(module: nn.Module) -> nn.Module:
    return nn.Sequential(module, nn.ReLU(), module)


class SharedBlock(nn.Module):
    "one block held by two parents, each called twice"

    def __init__(self):
        super().__init__()
        blk = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.a = nn.Sequential(blk, nn.Conv2d(4, 4, 1))
        self.b = nn.Sequential(blk, nn.MaxPool2d(2))

    def forward(self, x):
        return self.b(self.a(x))


class TwoNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)
        self.m = self.l
        self.r = nn.ReLU()

    def forward(self, x):
        return self.r(self.m(self.r(self.l(x))))


class CalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)

    def forward(self, x):
        return self.l(self.l(x))


class CrossAttention(nn.Module):
    def __init__(self, **k):
        super().__init__()
        self.a = nn.MultiheadAttention(16, 4, batch_first=True, **k)

    def forward(self, q, k, v):
        return self.a(q, k, v)[0]


class Separable(nn.Module):
    "depthwise separable, functional activations"

    def __init__(self):
        super().__init__()
        self.d = nn.Conv2d(6, 6, 5, 2, 2, groups=6, bias=False)
        self.p = nn.Conv2d(6, 9, 1)
        self.b = nn.BatchNorm2d(9, affine=False)

    def forward(self, x):
        return F.leaky_relu(self.b(self.p(F.relu6(self.d(x)))), 0.1)


class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.f1 = nn.Conv2d(8, 2, 1)
        self.f2 = nn.Conv2d(2, 8, 1)

    def forward(self, x):
        y = x.mean((2, 3), keepdim=True)
        y = torch.sigmoid(self.f2(F.silu(self.f1(y))))
        return x * y


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.c3 = nn.Conv2d(16, 8, 3, padding=1)
        self.o = nn.Conv2d(8, 2, 1)
        self.gn = nn.GroupNorm(4, 16)
        self.i = nn.InstanceNorm2d(8, affine=True)

    def forward(self, x):
        a = F.relu(self.i(self.c1(x)))
        b = F.gelu(self.gn(self.c2(F.max_pool2d(a, 2))))
        u = self.up(b)
        return self.o(torch.relu(self.c3(torch.cat([a, u], 1))))


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(
            nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(True),
            nn.ConvTranspose2d(32, 8, 4, 2, 1, groups=4),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.n(z)


class AttentionBySymbols(nn.Module):
    "attention spelled with @ and softmax methods"

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(16, 48)
        self.o = nn.Linear(16, 16)

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = self.q(x).view(batch, steps, 3, 4, 4).permute(2, 0, 3, 1, 4)
        a = ((q * 0.5) @ k.transpose(-2, -1)).softmax(-1)
        return self.o((a @ v).transpose(1, 2).reshape(batch, steps, width))


class AttentionByFunctions(nn.Module):
    "attention spelled with matmul and F.softmax"

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(16, 16, bias=False)
        self.k = nn.Linear(16, 16)
        self.v = nn.Linear(16, 16)
        self.o = nn.Linear(16, 16)

    def forward(self, x, m):
        q, k, v = self.q(x), self.k(m), self.v(m)
        a = torch.matmul(q, k.transpose(1, 2)) / 4
        a = F.softmax(a, -1)
        return self.o(torch.bmm(a, v))


class PixelShuffler(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2), nn.ZeroPad2d(1), nn.PReLU(3), nn.Conv2d(3, 3, 3)
        )

    def forward(self, x):
        return self.n(x)


class Upsampler(nn.Module):
    def __init__(self, **k):
        super().__init__()
        self.u = nn.Upsample(**k)

    def forward(self, x):
        return self.u(x)


class CharacterNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(50, 8, padding_idx=0)
        self.c = nn.ModuleList([nn.Conv1d(8, 6, k) for k in (2, 3, 4)])
        self.o = nn.Linear(18, 3)

    def forward(self, x):
        e = self.e(x).transpose(1, 2)
        return self.o(torch.cat([F.relu(c(e)).max(-1)[0] for c in self.c], 1))


class Tagger(nn.Module):
    def __init__(self, kind="LSTM", **k):
        super().__init__()
        self.e = nn.Embedding(50, 8)
        self.r = getattr(nn, kind)(8, 12, batch_first=True, **k)
        self.o = nn.Linear(12 * (2 if k.get("bidirectional") else 1), 5)

    def forward(self, x):
        return F.log_softmax(self.o(self.r(self.e(x))[0]), -1)


class StepByStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.GRUCell(6, 6)
        self.o = nn.Linear(6, 4)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 6, dtype=x.dtype, device=x.device)
        out = []
        for i in range(x.shape[1]):
            h = self.c(x[:, i], h)
            out.append(self.o(h))
        return torch.stack(out, 1)


class OwnParameters(nn.Module):
    "all by F with own parameters"

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 3, 3, 3))
        self.b = nn.Parameter(torch.randn(6))
        self.lw = nn.Parameter(torch.randn(5, 6))
        self.register_buffer("m", torch.zeros(6))
        self.register_buffer("v", torch.ones(6))

    def forward(self, x):
        x = F.conv2d(x, self.w, self.b, stride=2, padding=1)
        x = F.batch_norm(x, self.m, self.v)
        x = F.elu(x)
        x = F.avg_pool2d(x, 2)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return F.softmax(F.linear(x, self.lw), 1)


class ByMethods(nn.Module):
    "methods and operators"

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))
        self.l = nn.Linear(8, 8)

    def forward(self, x):
        y = x.matmul(self.w).relu()
        y = y.mm(self.w.t())
        y = y.add(x).mul(2.0)
        y = torch.add(y, x)
        y = y * x + 1
        return torch.mul(y, self.l(y)).sigmoid()


class Residual(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, 1, 1, bias=False)
        self.n = nn.BatchNorm2d(c)
        self.r = nn.ReLU(inplace=True)
        self.b = nn.Conv2d(c, c, 3, 1, 1, bias=False)
        self.n2 = nn.BatchNorm2d(c)

    def forward(self, x):
        y = self.n2(self.b(self.r(self.n(self.a(x)))))
        y += x
        return self.r(y)


class StandardizedConv(nn.Conv2d):
    "subclass that standardizes its weight"

    def forward(self, x):
        w = self.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / w.std((1, 2, 3), keepdim=True)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


class OwnLinear(nn.Linear):
    pass


class NormWithActivation(nn.BatchNorm2d):
    def __init__(self, *a):
        super().__init__(*a)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(super().forward(x))


class UnusedBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 4)
        self.b = nn.Linear(8, 4)

    def forward(self, x):
        self.b(x)
        return self.a(x)


class EinsumOfThree(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(6, 7))
        self.b = nn.Parameter(torch.randn(7, 8))

    def forward(self, x):
        return torch.einsum("bi,ij,jk->bk", x, self.a, self.b)


class EinsumWith(nn.Module):
    def __init__(self, eq, *shape):
        super().__init__()
        self.eq = eq
        self.a = nn.Parameter(torch.randn(*shape))

    def forward(self, x):
        return torch.einsum(self.eq, x, self.a)


class VectorProducts(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = nn.Parameter(torch.randn(8))
        self.w = nn.Parameter(torch.randn(5, 8))

    def forward(self, x):
        return torch.matmul(x, self.v), torch.mv(self.w, self.v), torch.dot(self.v, self.v)


class BatchProducts(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = nn.Parameter(torch.randn(2, 8, 3))

    def forward(self, x):
        return torch.bmm(x, self.v) + x.bmm(self.v) + torch.matmul(x, self.v[0]) + torch.matmul(x[0], self.v)


class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(3, 2), nn.ReLU())
        self.f = nn.Linear(4 * 5 * 5, 6)

    def forward(self, x):
        t = self.f(self.l(x).flatten(1)).view(-1, 2, 3)
        g = F.affine_grid(t, x.size(), align_corners=False)
        return F.grid_sample(x, g, align_corners=False)


NETWORKS = {
    "rnn_lstm2": Network(lambda: First(nn.LSTM(32, 64, 2, batch_first=True)), "1x7x32"),
    "rnn_lstm_nobias_seqfirst": Network(lambda: First(nn.LSTM(32, 64, bias=False)), "7x1x32"),
    "rnn_gru2": Network(lambda: First(nn.GRU(32, 64, 2, batch_first=True)), "1x7x32"),
    "rnn_tanh": Network(lambda: First(nn.RNN(32, 64, batch_first=True)), "1x7x32"),
    "rnn_lstmcell": Network(lambda: First(nn.LSTMCell(32, 64)), "1x32"),
    "op_conv_bias": Network(lambda: nn.Sequential(nn.Conv2d(16, 32, 3, padding=1)), "1x16x32x32"),
    "op_conv3d": Network(lambda: nn.Sequential(nn.Conv3d(4, 8, 3, padding=1)), "1x4x8x16x16"),
    "op_conv_same": Network(lambda: nn.Sequential(nn.Conv2d(16, 32, 3, padding="same")), "1x16x32x32"),
    "op_conv_transpose": Network(
        lambda: nn.Sequential(nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1)), "1x16x32x32"
    ),
    "op_f_conv": Network(
        lambda: Fn(lambda s, x: F.conv2d(x, s.w.weight, None, padding=1), w=nn.Conv2d(16, 32, 3)), "1x16x32x32"
    ),
    "op_linear_2d": Network(lambda: nn.Sequential(nn.Linear(100, 50)), "1x100"),
    "op_linear_3d": Network(lambda: nn.Sequential(nn.Linear(100, 50)), "1x7x100"),
    "op_bilinear": Network(lambda: Fn(lambda s, x, y: s.b(x, y), b=nn.Bilinear(10, 12, 5)), "1x10;1x12"),
    "op_matmul_op": Network(lambda: Fn(lambda s, x, y: x @ y), "1x4x16x8;1x4x8x16"),
    "op_bmm": Network(lambda: Fn(lambda s, x, y: torch.bmm(x, y)), "4x16x8;4x8x16"),
    "op_baddbmm": Network(lambda: Fn(lambda s, x, y: torch.baddbmm(x @ y, x, y)), "4x16x8;4x8x16"),
    "op_addmm": Network(lambda: Fn(lambda s, x, y: torch.addmm(s.l.bias, x, y), l=nn.Linear(1, 16)), "16x8;8x16"),
    "op_einsum_bmm": Network(lambda: Fn(lambda s, x, y: torch.einsum("bij,bjk->bik", x, y)), "4x16x8;4x8x16"),
    "op_einsum_attn": Network(lambda: Fn(lambda s, x, y: torch.einsum("bhid,bhjd->bhij", x, y)), "1x4x16x8;1x4x20x8"),
    "op_sdpa": Network(
        lambda: Fn(lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v)), "1x4x16x8;1x4x20x8;1x4x20x8"
    ),
    "op_sdpa_gqa": Network(
        lambda: Fn(lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)),
        "1x8x16x8;1x2x16x8;1x2x16x8",
    ),
    "op_mha": Network(
        lambda: Fn(lambda s, x: s.m(x, x, x)[0], m=nn.MultiheadAttention(64, 4, batch_first=True)), "1x20x64"
    ),
    "op_encoder_layer": Network(
        lambda: Fn(lambda s, x: s.m(x), m=nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)), "1x20x64"
    ),
    "op_embedding": Network(lambda: Fn(lambda s, x: s.e(x), e=nn.Embedding(100, 64)), "1x20:int64"),
    "op_bn": Network(lambda: nn.Sequential(nn.BatchNorm2d(16)), "1x16x32x32"),
    "op_bn_train": Network(lambda: nn.Sequential(nn.BatchNorm2d(16, track_running_stats=False)), "1x16x32x32"),
    "op_ln": Network(lambda: nn.Sequential(nn.LayerNorm(64)), "1x20x64"),
    "op_gn": Network(lambda: nn.Sequential(nn.GroupNorm(4, 16)), "1x16x32x32"),
    "op_rms_norm": Network(lambda: nn.Sequential(nn.RMSNorm(64)), "1x20x64"),
    "op_acts": Network(
        lambda: nn.Sequential(
            nn.ReLU(),
            nn.ReLU6(),
            nn.LeakyReLU(),
            nn.ELU(),
            nn.GELU(),
            nn.SiLU(),
            nn.Sigmoid(),
            nn.Tanh(),
            nn.Hardswish(),
            nn.Softplus(),
        ),
        "1x16x32x32",
    ),
    "op_f_acts": Network(
        lambda: Fn(lambda s, x: F.leaky_relu(F.elu(F.silu(F.gelu(F.relu6(F.relu(x))))))), "1x16x32x32"
    ),
    "op_softmax": Network(lambda: nn.Sequential(nn.Softmax(dim=-1)), "1x4x20x20"),
    "op_pools": Network(
        lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2), nn.AdaptiveMaxPool2d(1)),
        "1x16x32x32",
    ),
    "op_mean_pool": Network(lambda: Fn(lambda s, x: x.mean((2, 3))), "1x16x32x32"),
    "op_upsample_nearest": Network(lambda: nn.Sequential(nn.Upsample(scale_factor=2)), "1x16x32x32"),
    "op_upsample_bilinear": Network(lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear")), "1x16x32x32"),
    "op_grid_sample": Network(
        lambda: Fn(lambda s, x, g: F.grid_sample(x, g, align_corners=False)), "1x16x32x32;1x8x8x2"
    ),
    "op_add_op": Network(lambda: Fn(lambda s, x: x + x * 2), "1x16x32x32"),
    "op_torch_add_mul": Network(lambda: Fn(lambda s, x: torch.add(torch.mul(x, 2), x).mul(x)), "1x16x32x32"),
    "op_shared_module": Network(
        lambda: Fn(lambda s, x: s.b(s.a(s.b(s.a(x)))), a=nn.Linear(100, 50), b=nn.Linear(50, 100)), "1x7x100"
    ),
    "op_alias": Network(lambda: held_twice(nn.Linear(100, 100)), "1x100"),
    "op_leaf_root_conv": Network(lambda: nn.Conv2d(16, 32, 3, padding=1), "1x16x32x32"),
    "mlp_b2": Network(
        lambda: nn.Sequential(
            nn.Flatten(),
            nn.Linear(48, 20),
            nn.ELU(),
            nn.BatchNorm1d(20),
            nn.Linear(20, 3, bias=False),
            nn.Softmax(dim=1),
        ),
        "2x3x4x4",
    ),
    "conv_b4": Network(
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, 1, 2, dilation=2, groups=2),
            nn.GELU(),
            nn.MaxPool2d(3, 2, 1),
            nn.AvgPool2d(2),
            nn.AdaptiveMaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 4),
        ),
        "4x3x37x29",
    ),
    "conv1d": Network(
        lambda: nn.Sequential(
            nn.Conv1d(4, 8, 5, 2, 2),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.MaxPool1d(3),
            nn.AvgPool1d(2),
            nn.Conv1d(8, 6, 3, dilation=2, padding=2),
            nn.AdaptiveAvgPool1d(5),
            nn.InstanceNorm1d(6),
        ),
        "3x4x101",
    ),
    "conv3d": Network(
        lambda: nn.Sequential(
            nn.Conv3d(2, 4, (3, 1, 3), (1, 2, 1), (1, 0, 1)),
            nn.BatchNorm3d(4),
            nn.ReLU6(),
            nn.AvgPool3d((2, 1, 2)),
            nn.AdaptiveAvgPool3d(2),
            nn.AdaptiveMaxPool3d(1),
        ),
        "2x2x6x7x9",
    ),
    "dilated": Network(
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=4, dilation=4),
            nn.LeakyReLU(),
            nn.Conv2d(8, 8, (1, 7), padding=(0, 3)),
            nn.Hardswish(),
            nn.Conv2d(8, 4, 5, padding="same"),
            nn.SiLU(),
        ),
        "1x3x31x33",
    ),
    "convT_groups": Network(
        lambda: nn.Sequential(
            nn.ConvTranspose2d(8, 12, 3, 2, 1, 1, groups=4), nn.ReLU(), nn.ConvTranspose2d(12, 6, 4, 2, 1, bias=False)
        ),
        "2x8x7x5",
    ),
    "convT_same_ch": Network(lambda: nn.ConvTranspose2d(6, 6, 3, 2, 1, dilation=2, groups=2), "1x6x8x8"),
    "gan": Network(lambda: Generator(), "2x16x1x1"),
    "nested": Network(lambda: SharedBlock(), "1x4x8x8"),
    "same_twice": Network(lambda: TwoNames(), "2x8"),
    "twice": Network(lambda: CalledTwice(), "2x8"),
    "mha_cross": Network(lambda: CrossAttention(), "2x5x16;2x7x16;2x7x16"),
    "mha_self_b2": Network(lambda: Fn(lambda s, x: s.a(x, x, x)[0], a=nn.MultiheadAttention(16, 2)), "5x2x16"),
    "decoder_layer": Network(
        lambda: nn.TransformerDecoderLayer(16, 2, 32, batch_first=True, activation="gelu"), "2x5x16;2x7x16"
    ),
    "encoder": Network(
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, norm_first=True), 2, norm=nn.LayerNorm(16), enable_nested_tensor=False
        ),
        "5x2x16",
    ),
    "ds": Network(lambda: Separable(), "2x6x15x17"),
    "se": Network(lambda: SqueezeExcite(), "2x8x9x9"),
    "unet": Network(lambda: TinyUNet(), "2x3x16x24"),
    "attn_at": Network(lambda: AttentionBySymbols(), "2x6x16"),
    "attn_mm": Network(lambda: AttentionByFunctions(), "2x6x16;2x9x16"),
    "pixel": Network(lambda: PixelShuffler(), "1x3x9x7"),
    "up_bil": Network(lambda: Upsampler(scale_factor=2, mode="bilinear"), "2x3x5x6"),
    "up_near_size": Network(lambda: Upsampler(size=(11, 13)), "2x3x5x6"),
    "up_tri": Network(lambda: Upsampler(size=(4, 5, 6), mode="trilinear"), "1x3x2x3x4"),
    "interp_f": Network(
        lambda: Fn(
            lambda s, x: F.interpolate(
                F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True), size=(7, 9)
            )
        ),
        "2x3x5x6",
    ),
    "charcnn": Network(lambda: CharacterNetwork(), "4x20:int64"),
    "lstm_tag": Network(lambda: Tagger(), "3x7:int64"),
    "lstm_bi2": Network(lambda: Tagger(bidirectional=True, num_layers=2), "3x7:int64"),
    "gru_tag": Network(lambda: Tagger("GRU", num_layers=3, bias=False), "2x9:int64"),
    "rnn_relu": Network(lambda: Tagger("RNN", nonlinearity="relu", bidirectional=True), "2x9:int64"),
    "lstm_proj": Network(lambda: First(nn.LSTM(8, 12, 2, proj_size=5, batch_first=True)), "2x6x8"),
    "grucell_loop": Network(lambda: StepByStep(), "3x4x6"),
    "functional": Network(lambda: OwnParameters(), "2x3x16x16"),
    "methods": Network(lambda: ByMethods(), "4x8"),
    "resid": Network(lambda: Residual(), "2x8x10x10"),
    "myconv": Network(
        lambda: nn.Sequential(StandardizedConv(3, 6, 3), nn.ReLU(), nn.Flatten(), OwnLinear(6 * 36, 4)), "2x3x8x8"
    ),
    "mybn": Network(lambda: nn.Sequential(nn.Conv2d(3, 6, 3), NormWithActivation(6)), "2x3x8x8"),
    "dead": Network(lambda: UnusedBranch(), "2x8"),
    "einsum3": Network(lambda: EinsumOfThree(), "5x6"),
    "einsum_el": Network(lambda: EinsumWith("...i,ij->...j", 6, 4), "5x3x6"),
    "matvec": Network(lambda: VectorProducts(), "5x8"),
    "bmm": Network(lambda: BatchProducts(), "2x5x8"),
    "stn": Network(lambda: SpatialTransformer(), "2x1x16x16"),
    "linear_4d": Network(lambda: nn.Sequential(nn.Linear(8, 5), nn.LayerNorm(5), nn.ReLU()), "2x3x4x8"),
    "ln_noaff": Network(
        lambda: nn.Sequential(
            nn.LayerNorm((4, 8), elementwise_affine=False), nn.RMSNorm(8), nn.LayerNorm(8, bias=False)
        ),
        "2x4x8",
    ),
    "acts": Network(
        lambda: nn.Sequential(
            nn.ELU(),
            nn.CELU(),
            nn.SELU(),
            nn.SiLU(),
            nn.Mish(),
            nn.Hardtanh(),
            nn.Hardsigmoid(),
            nn.LogSigmoid(),
            nn.Softplus(),
            nn.Softsign(),
            nn.Tanh(),
            nn.Sigmoid(),
            nn.GLU(1),
            nn.PReLU(),
            nn.LogSoftmax(1),
            nn.Softmin(1),
            nn.Softmax2d() if False else nn.Identity(),
        ),
        "2x4x3",
    ),
    "softmax_dims": Network(
        lambda: nn.Sequential(nn.Softmax(1), nn.Softmax2d(), nn.LogSoftmax(-1), nn.Softmin(2)), "2x4x3x5"
    ),
    "conv_train": Network(
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(8 * 36, 4)
        ),
        "4x3x8x8",
        is_training=True,
    ),
    "addmm": Network(
        lambda: Fn(lambda s, x: torch.addmm(x, x, x) + torch.baddbmm(x[None], x[None], x[None])[0] + x.addmm(x, x)),
        "6x6",
    ),
    "sdpa_mask": Network(
        lambda: Fn(
            lambda s, q, k: F.scaled_dot_product_attention(
                q, k, k, is_causal=False, attn_mask=torch.ones(5, 7, dtype=q.dtype, device=q.device)
            )
        ),
        "2x3x5x8;2x3x7x8",
    ),
    "sdpa_3d": Network(lambda: Fn(lambda s, q, k: F.scaled_dot_product_attention(q, k, k)), "2x5x8;2x7x8"),
    "linear_T": Network(lambda: Fn(lambda s, x: s.l(x.transpose(1, 2)), l=nn.Linear(5, 4)), "2x5x3"),
    "shared_bn": Network(
        lambda: Fn(
            lambda s, x: s.b(s.c2(F.relu(s.b(s.c(x))))),
            c=nn.Conv2d(3, 3, 3),
            c2=nn.Conv2d(3, 3, 3),
            b=nn.BatchNorm2d(3),
        ),
        "2x3x9x9",
    ),
    "mod_list_shared": Network(
        lambda: (lambda c: nn.Sequential(c, nn.ReLU(), c, nn.Sequential(c)))(nn.Conv2d(4, 4, 3, padding=1)), "1x4x6x6"
    ),
    "circ": Network(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), nn.ReflectionPad2d(1), nn.Conv2d(4, 4, 3)
        ),
        "1x3x6x6",
    ),
    "weightnorm": Network(
        lambda: nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)), nn.ReLU()), "2x8"
    ),
    "norms": Network(
        lambda: nn.Sequential(
            nn.GroupNorm(2, 4, affine=False),
            nn.InstanceNorm2d(4),
            nn.BatchNorm2d(4, track_running_stats=False),
            nn.LocalResponseNorm(3),
        ),
        "2x4x6x6",
    ),
    "pools_odd": Network(
        lambda: nn.Sequential(
            nn.MaxPool2d((3, 2), (2, 1), 1, ceil_mode=True),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            nn.AdaptiveAvgPool2d((5, 3)),
            nn.LPPool2d(2, 2),
        ),
        "2x3x19x17",
    ),
}
