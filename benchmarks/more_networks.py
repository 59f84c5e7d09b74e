"""Networks for videos, volumes, signals and sequences, for benchmarks: from libraries, or written here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.networks import Network, from_timm, from_torchvision, from_transformers


class UNet3d(nn.Module):
    """A U-Net for volumes, with instance norm and four levels of 16 to 128 channels."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64, 128)) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(self._block, (1, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in pairwise(widths))
        self.after = nn.ModuleList(self._block(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv3d(widths[0], 3, 1)

    @staticmethod
    def _block(channels: int, out: int) -> nn.Module:
        layers: list[nn.Module] = []
        for c in (channels, out):
            layers += [nn.Conv3d(c, out, 3, padding=1), nn.InstanceNorm3d(out, affine=True), nn.LeakyReLU(0.01)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else functional.max_pool3d(x, 2))
            kept.append(x)
        for up, after, earlier in zip(reversed(self.up), reversed(self.after), reversed(kept[:-1]), strict=False):
            x = after(torch.cat([up(x), earlier], 1))
        return self.head(x)


class C3d(nn.Module):
    """C3D: eight convolutions of 3 x 3 x 3, as for VGG, with a quarter of its channels."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for i, c in enumerate((16, 32, 64, 64, 128, 128)):
            layers += [nn.Conv3d(before, c, 3, padding=1), nn.ReLU(inplace=True)]
            if i in (0, 1, 3, 5):
                layers.append(nn.MaxPool3d((1, 2, 2) if i == 0 else 2))
            before = c
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool3d((1, 4, 4)), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(128 * 16, 1024), nn.ReLU(), nn.Dropout(), nn.Linear(1024, 101))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class WaveNet(nn.Module):
    """A stack of gated convolutions with dilations 1 to 512, whose skip connections are summed."""

    def __init__(self, channels: int = 64, skip: int = 128, n_dilations: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        self.dilations = [2**i for i in range(n_dilations)]
        self.gated = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=d) for d in self.dilations)
        self.onward = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in self.dilations)
        self.skips = nn.ModuleList(nn.Conv1d(channels, skip, 1) for _ in self.dilations)
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 256, 1))

    def forward(self, x: Tensor) -> Tensor:
        x, skips = self.first(x), torch.zeros(())
        for d, gated, onward, skip in zip(self.dilations, self.gated, self.onward, self.skips, strict=True):
            a, b = gated(functional.pad(x, (d, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            skips = skips + skip(y)
            x = x + onward(y)
        return self.last(skips)


class Temporal(nn.Module):
    """A temporal convolutional network of Bai et al.: two dilated convolutions per level."""

    def __init__(self, channels: int = 128, kernel: int = 5, n_levels: int = 6) -> None:
        super().__init__()
        self.first = nn.Conv1d(32, channels, 1)
        self.levels = nn.ModuleList()
        for i in range(n_levels):
            layers: list[nn.Module] = []
            for _ in range(2):
                pad = nn.ConstantPad1d(((kernel - 1) * 2**i, 0), 0.0)
                layers += [pad, nn.Conv1d(channels, channels, kernel, dilation=2**i), nn.ReLU(), nn.Dropout(0.2)]
            self.levels.append(nn.Sequential(*layers))
        self.head = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for level in self.levels:
            x = functional.relu(x + level(x))
        return self.head(x.transpose(1, 2))


class Tagger(nn.Module):
    """Embeddings, a bidirectional recurrent network, and a class per token."""

    def __init__(self, layer: type[nn.RNNBase], hidden: int, n_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20000, 300)
        self.layer = layer(300, hidden, n_layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 50)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layer(self.embedding(ids))[0])


class DeepSpeech(nn.Module):
    """Two convolutions over a spectrogram, then recurrent layers over time."""

    def __init__(self, hidden: int = 320) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        )
        self.layers = nn.GRU(32 * 41, hidden, 3, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 29)

    def forward(self, x: Tensor) -> Tensor:
        y = self.convs(x).flatten(1, 2).transpose(1, 2)
        return functional.log_softmax(self.head(self.layers(y)[0]), -1)


class Vocoder(nn.Module):
    """HiFi-GAN, small: transposed convolutions, each followed by residual dilated ones."""

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, channels, 7, padding=3)
        self.up, self.blocks = nn.ModuleList(), nn.ModuleList()
        for stride in (8, 8, 2, 2):
            self.up.append(nn.ConvTranspose1d(channels, channels // 2, 2 * stride, stride, stride // 2))
            channels //= 2
            convs = (
                nn.Conv1d(channels, channels, k, padding=d * (k // 2), dilation=d) for k in (3, 7) for d in (1, 3, 5)
            )
            self.blocks.append(nn.ModuleList(convs))
        self.last = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for up, convs in zip(self.up, self.blocks, strict=True):
            x = up(functional.leaky_relu(x, 0.1))
            for conv in convs:
                x = x + conv(functional.leaky_relu(x, 0.1))
        return torch.tanh(self.last(functional.leaky_relu(x)))


class Signals(nn.Module):
    """A ResNet for signals of 12 channels, as for electrocardiograms: kernels of 17 samples."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(12, channels, 17, 1, 8), nn.BatchNorm1d(channels), nn.ReLU())
        self.blocks = nn.ModuleList()
        for _ in range(4):
            out = channels + 64
            layers = (
                nn.Conv1d(channels, out, 17, 1, 8, bias=False),
                nn.BatchNorm1d(out),
                nn.ReLU(),
                nn.Dropout(),
                nn.Conv1d(out, out, 17, 4, 8, bias=False),
            )
            skip = nn.Sequential(nn.MaxPool1d(4), nn.Conv1d(channels, out, 1, bias=False))
            self.blocks.append(nn.ModuleList([nn.Sequential(*layers), skip, nn.BatchNorm1d(out)]))
            channels = out
        self.head = nn.Linear(channels * 16, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layers, skip, norm in self.blocks:
            x = functional.relu(norm(layers(x) + skip(x)))
        return self.head(x.flatten(1))


class PointNet(nn.Module):
    """PointNet without transforms, for 1,024 points whose sixteen nearest are joined."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in ((6, 64), (64, 128), (128, 256)):
            layers += [nn.Conv2d(a, b, 1), nn.BatchNorm2d(b), nn.ReLU()]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(256, 40)

    def forward(self, x: Tensor) -> Tensor:
        nearest = torch.cdist(x, x).topk(16, largest=False).indices
        around = torch.gather(
            x.unsqueeze(1).expand(-1, x.shape[1], -1, -1), 2, nearest.unsqueeze(-1).expand(-1, -1, -1, 3)
        )
        joined = torch.cat([around - x.unsqueeze(2), x.unsqueeze(2).expand_as(around)], -1)
        return self.head(self.layers(joined.permute(0, 3, 1, 2)).amax((2, 3)))


def _video(batch: int) -> Tensor:
    return torch.randn(batch, 3, 16, 112, 112)


def _wave(batch: int) -> Tensor:
    return torch.randn(batch, 16000)


AUDIO = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
WHISPER = {"d_model": 256, "encoder_layers": 4, "encoder_attention_heads": 4, "encoder_ffn_dim": 1024}
VIDEOS = ("r3d_18", "mc3_18", "r2plus1d_18")

MORE_NETWORKS: Mapping[str, Network] = {
    **{name: Network(partial(from_torchvision, name), _video, "torchvision", (1,)) for name in VIDEOS},
    "s3d": Network(partial(from_torchvision, "s3d"), lambda _: torch.randn(1, 3, 16, 224, 224), "torchvision", (1,)),
    "c3d": Network(C3d, _video, batches=(1, 2)),
    "unet_3d": Network(UNet3d, lambda batch: torch.randn(batch, 1, 48, 48, 48), batches=(1, 2)),
    "wavenet": Network(WaveNet, lambda batch: torch.randn(batch, 1, 8000)),
    "tcn": Network(Temporal, lambda batch: torch.randn(batch, 32, 400)),
    "ecg_resnet": Network(Signals, lambda batch: torch.randn(batch, 12, 4096)),
    "hifi_gan": Network(Vocoder, lambda batch: torch.randn(batch, 80, 32)),
    "wav2vec2_4x256": Network(
        partial(from_transformers, "Wav2Vec2Model", "Wav2Vec2Config", **AUDIO), _wave, "transformers", (1, 4)
    ),
    "whisper_4x256": Network(
        partial(from_transformers, "WhisperEncoder", "WhisperConfig", "models.whisper.modeling_whisper", **WHISPER),
        lambda batch: torch.randn(batch, 80, 3000),
        "transformers",
        (1, 4),
    ),
    "lstm_tagger": Network(partial(Tagger, nn.LSTM, 256, 2), lambda batch: torch.randint(20000, (batch, 60))),
    "gru_tagger": Network(partial(Tagger, nn.GRU, 200, 1), lambda batch: torch.randint(20000, (batch, 40))),
    "deep_speech": Network(DeepSpeech, lambda batch: torch.randn(batch, 1, 161, 200), batches=(1, 4)),
    "pointnet": Network(PointNet, lambda batch: torch.randn(batch, 1024, 3), batches=(1, 4)),
    **{
        name: Network(
            partial(from_torchvision, name), lambda batch: torch.randn(batch, 3, 299, 299), "torchvision", (1, 4)
        )
        for name in ("inception_v3",)
    },
    "deeplabv3_resnet50": Network(
        partial(from_torchvision, "deeplabv3_resnet50", weights_backbone=None),
        lambda batch: torch.randn(batch, 3, 224, 224),
        "torchvision",
        (1,),
    ),
    "convmixer": Network(
        partial(from_timm, "convmixer_768_32"), lambda batch: torch.randn(batch, 3, 224, 224), "timm", (1,)
    ),
}
"""Networks of kinds that :data:`benchmarks.networks.NETWORKS` lacks."""

OTHER_AXES = (
    *VIDEOS,
    *("s3d", "c3d", "unet_3d", "wavenet", "tcn", "ecg_resnet", "hifi_gan", "wav2vec2_4x256", "whisper_4x256"),
    *("lstm_tagger", "gru_tagger", "deep_speech"),
)
"""Networks with one or three spatial axes, or with recurrent layers."""
