"""What ONNX Runtime allocates for networks that PyTorch exports, against the arena.

Measured with ONNX Runtime 1.32.0 on a CPU as in ``tests/frontends/onnx/test_runtime_memory.py``, of the files that
``torch.onnx.export(dynamo=True, opset_version=18)`` of PyTorch 2.13 writes.
"""

from __future__ import annotations

from typing import Any

import pytest

from costcore import estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import onnx
    import torch
    from torch import nn
    from torch.nn.functional import silu

    from tests.whole_networks.exporters import export

    if not torch.__version__.startswith("2.13."):
        pytest.skip("other versions export other graphs than the measured ones", allow_module_level=True)

    class States(nn.Module):
        """Two layers of an LSTM, with their last states."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(32, 64, 2), nn.Linear(64, 20)

        def forward(self, x: torch.Tensor) -> Any:
            y, (h, c) = self.lstm(x)
            return self.head(y), h, c

    class Attention(nn.Module):
        """Attention over the pixels of an image."""

        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm, self.qkv = nn.GroupNorm(4, channels), nn.Conv2d(channels, 3 * channels, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(b, 3, 4, c // 4, h * w).unbind(1)
            scores = torch.softmax(q.transpose(-1, -2) @ k, -1)
            return x + (v @ scores.transpose(-1, -2)).reshape(b, c, h, w)

    class AttentionUNet(nn.Module):
        """A U-Net of one level with attention in it."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
            self.attention, self.up = Attention(32), nn.ConvTranspose2d(32, 16, 2, 2)
            self.last = nn.Conv2d(32, 3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = silu(self.first(x))
            return self.last(torch.cat([x, self.up(self.attention(silu(self.down(x))))], 1))

    class Boxes(nn.Module):
        """The head of a detector: distances by the softmax over bins, and classes."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 32, 3, 4, 1), nn.Conv2d(32, 64, 3, 2, 1)
            self.heads = nn.ModuleList([nn.Conv2d(channels, 4 * 16 + 10, 1) for channels in (32, 64)])
            self.register_buffer("bins", torch.arange(16.0).view(1, 1, 16, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            fine = silu(self.first(x))
            features = (fine, silu(self.second(fine)))
            y = torch.cat([head(each).flatten(2) for head, each in zip(self.heads, features, strict=True)], 2)
            boxes, classes = y.split([64, 10], 1)
            start, end = (boxes.reshape(1, 4, 16, -1).softmax(2) * self.bins).sum(2).chunk(2, 1)
            return torch.cat([(end - start) / 2, start + end, classes.sigmoid()], 1)

    def encoder() -> nn.Module:
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2)

    NETWORKS = {
        "lstm": (States, (16, 2, 32), 262_144),
        "unet": (AttentionUNet, (1, 3, 32, 32), 2_424_832),
        "boxes": (Boxes, (1, 3, 64, 64), 189_440),
        "encoder": (encoder, (1, 32, 64), 204_800),
    }

    @pytest.mark.parametrize("name", NETWORKS)
    def test_an_export_needs_what_the_runtime_allocates(name):
        make, shape, measured = NETWORKS[name]
        model = onnx.load_from_string(export(make().eval(), (torch.zeros(shape),), "newer", 18, folded=True))
        assert estimate(model).arena(1, count_inputs=False).peak_with_reuse == measured
