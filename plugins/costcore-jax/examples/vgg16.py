"""VGG16 in Flax: the totals that costcore reports for VGG16 in PyTorch, Chainer and ONNX.

`make demo-jax` runs this file. No weights are made: the network is traced on shapes.
"""

from __future__ import annotations

from typing import Any

from flax import linen as nn

from costcore import estimate

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG16(nn.Module):
    """Simonyan and Zisserman, arXiv:1409.1556, configuration D."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for block in BLOCKS:
            for width in block:
                x = nn.relu(nn.Conv(width, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = x.reshape(x.shape[0], -1)
        for width in (4096, 4096):
            x = nn.relu(nn.Dense(width)(x))
        return nn.softmax(nn.Dense(1000)(x))


if __name__ == "__main__":
    report = estimate(VGG16(), (1, 224, 224, 3), layout="free", regroup=True)
    report.show_summary_report(unit="G", mode="table")
    total = report.total_report
    print(f"{total['flops']:,} FLOPs, {total['macs']:,} MACs, {total['n_params']:,} parameters")
