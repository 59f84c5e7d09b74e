"""Operators that write by indices."""

import torch

from costcore import ComputationalCostHook


def test_the_operator_behind_index_put_costs_the_same():
    def cost_of(write):
        values, indices = torch.zeros(6, 3), [torch.tensor([1, 4])]
        updates = torch.ones(2, 3)
        with ComputationalCostHook() as hook:
            write(values, indices, updates)
        assert hook.report.status == "complete"
        (entry,) = hook.layer_report.values()
        return entry["type"], entry["op"], entry["mread"], entry["mwrite"]

    whole = 6 * 3 * 4  # read and written: the result is a copy of it with the updates
    expected = "index_put", "scatter", whole + 2 * 3 * 4 + 2 * 8, whole
    assert cost_of(torch.ops.aten.index_put_) == expected
    assert cost_of(torch.ops.aten._index_put_impl_) == expected
