"""Operators whose output shapes depend on data."""

from __future__ import annotations

import torch
from torch.nn import functional

from tests.frontends.pytorch.runs import record


def test_calls_with_data_dependent_output_shapes_are_not_replayed():
    def run():
        for row in (torch.tensor([1, 0, 0]), torch.tensor([1, 1, 1])):
            torch.nonzero(row)
            torch.masked_select(row, row > 0)
            functional.one_hot(row)

    found = [call.layer.out.shape for call in record(run).calls if call.layer.op != "greater"]
    assert found == [(1, 1), (1,), (3, 2), (3, 1), (3,), (3, 2)]
    wider = record(lambda: [functional.one_hot(torch.tensor([n])) for n in (1, 4)])
    assert [call.layer.out.shape for call in wider.calls if call.layer.op == "one_hot"] == [(1, 2), (1, 5)]
