"""What a mesh says where PyTorch lacks what it needs."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from torch import nn

from costcore import CostError, estimate


@pytest.mark.skipif(
    find_spec("torch.distributed.tensor._random") is not None, reason="this PyTorch has what a mesh needs"
)
def test_a_mesh_is_refused_with_the_release_that_has_it():
    with pytest.raises(CostError, match=r"has no distributed tensors yet, which a mesh needs; 2\.5 has them"):
        estimate(nn.Linear(2, 2), (1, 2), mesh={"tp": 2}, plan=lambda model, mesh: None)
