"""Whole networks with the totals of PyTorch: a frontend that can express one has the same integers."""

from __future__ import annotations

from typing import NamedTuple


class Network(NamedTuple):
    """A network, and what PyTorch's frontend counts in it.

    Attributes:
        name: the name under which a frontend has a builder for it.
        text: its inputs and where it is from.
        macs: multiply-accumulates of matrix products.
        n_params: learned parameters.
    """

    name: str
    text: str
    macs: int
    n_params: int


NETWORKS: tuple[Network, ...] = (
    Network("vgg16", "1 x 3 x 224 x 224, torchvision", 15_470_264_320, 138_357_544),
    Network("resnet50", "1 x 3 x 224 x 224, torchvision", 4_089_184_256, 25_557_032),
    Network("densenet121", "1 x 3 x 224 x 224, torchvision", 2_834_161_664, 7_978_856),
    Network("mobilenet_v2", "1 x 3 x 224 x 224, torchvision", 300_774_272, 3_504_872),
    Network("mobilenet_v3_large", "1 x 3 x 224 x 224, torchvision", 216_589_760, 5_483_032),
    Network("inception_v3", "1 x 3 x 299 x 299, torchvision, without its second head", 5_713_216_096, 23_834_568),
    Network("vit_b_16", "1 x 3 x 224 x 224, torchvision", 17_563_828_224, 86_567_656),
    Network("unet", "1 x 3 x 64 x 64, width 16, depth 2, unpadded, arXiv:1505.04597", 37_064_384, 117_058),
    Network("encoder", "2 x 8 of 50 words, width 16, 4 heads, 64 hidden, one block, norms behind", 53_248, 4_080),
    # 28 x 28 x 6 x 25 + 10 x 10 x 16 x 6 x 25 + 400 x 120 + 120 x 84 + 84 x 10 MACs;
    # 156 + 2,416 + 48,120 + 10,164 + 850 parameters
    Network("lenet5", "1 x 1 x 32 x 32, LeCun et al. 1998, all maps connected", 416_520, 61_706),
    # 10 steps of 4 sequences by 4 gates of 64 cells with 32 + 64 weights; 2 biases of 256
    Network("lstm_network", "10 x 4 x 32, 64 cells", 983_040, 25_088),
    # 3 layers of 784 x 256, 256 x 256 and 256 x 10
    Network("mlp", "8 x 784, 256 hidden twice, 10 classes", 2_150_400, 269_322),
)
"""The networks, in evaluation mode."""
