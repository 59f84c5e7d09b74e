"""What a mesh says where PyTorch lacks what it needs."""

from __future__ import annotations

import pytest
from torch import nn

from costcore import CostError, estimate
from tests.frontends.pytorch.differences import HAS_MESH


@pytest.mark.skipif(HAS_MESH, reason="this PyTorch has what a mesh needs")
def test_a_mesh_is_refused_with_the_release_that_has_it():
    with pytest.raises(CostError, match=r"has no distributed tensors, which a mesh needs; install 2\.5 or later"):
        estimate(nn.Linear(2, 2), (1, 2), mesh={"tp": 2}, plan=lambda model, mesh: None)
