"""Models of libraries by name, and the inputs that models usually take.

``timm:resnet50``, ``torchvision:resnet50`` and ``hf:bert`` are made from their configuration, without weights.
"""

from __future__ import annotations
