from __future__ import annotations

from costcore.ir import Operations, Tensor
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations

MASK, INDICES = Tensor((6,), "bool"), Tensor((6,), "int64")


def test_gather_and_scatter():
    given = {"x": (10, 4), "mask": MASK, "indices0": INDICES, "indices1": INDICES}
    assert layer_cost("masked_gather", given, (6,))[:3] == (Operations(cmp=6), 4 * 6 + 6 + 96, 24)
    added = layer_cost("masked_scatter_add", given | {"updates": (6,)}, (10, 4))
    assert added[:3] == (Operations(add=6, cmp=6), 160 + 6 + 96 + 24, 160)
    assert bytes_moved("masked_scatter_backward", {"dy": (6,), "mask": MASK}, (4,)) == (24 + 6, 16)


def test_selecting() -> None:
    assert bytes_moved("masked_select", {"x": (6,), "mask": Tensor((6,), "bool")}, (6,)) == (6 * 4 + 6, 6 * 4)
    assert operations("masked_select", {"x": (6,), "mask": Tensor((6,), "bool")}, (6,)) == Operations()
    scattered = {"x": (6,), "mask": Tensor((6,), "bool"), "updates": (4,)}
    assert operations("masked_scatter", scattered, (6,)) == Operations()
    assert bytes_moved("masked_scatter", scattered, (6,)) == (6 * 4 + 6 + 4 * 4, 6 * 4)
