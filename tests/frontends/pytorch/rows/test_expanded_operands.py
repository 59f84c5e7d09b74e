"""An operand that repeats elements in memory is read as what it is a view of."""

from functools import partial

import pytest
import torch
from torch.nn import functional

from costcore import ComputationalCostHook, Report


def entries(run, op):
    with ComputationalCostHook(frontends=["pytorch"]) as hook:
        run()
    return [entry for entry in hook.layer_report.values() if entry["op"] == op]


A, B, ROW = torch.ones(3, 5), torch.ones(3, 5), torch.ones(5)
HEADS, KEYS = torch.ones(1, 4, 2, 2), torch.ones(1, 1, 2, 2)

READ = [
    # 15 + 5 elements: a row is broadcast by the operator or by a view alike
    (lambda: A + ROW, "add", 80),
    (lambda: A + ROW.expand(3, 5), "add", 80),
    (lambda: A + torch.ones(3, 1).expand(3, 5), "add", 72),  # 15 + 3
    (lambda: A + torch.tensor(1.0).expand(3, 5), "add", 64),  # 15 + 1
    (lambda: A + B.t().contiguous().t(), "add", 120),  # a transposed view repeats nothing
    (lambda: A + torch.ones(3, 10)[:, ::2], "add", 120),  # nor does one with gaps
    (lambda: torch.mm(A, ROW[:, None].expand(5, 4)), "matmul", 80),  # 15 + 5
    (lambda: torch.einsum("ik,kj->ij", A, ROW[:, None].expand(5, 4)), "einsum", 80),
    # q of 4 heads of 2 x 2, k and v of one: 16 + 4 + 4 elements
    (
        lambda: functional.scaled_dot_product_attention(HEADS, KEYS.expand(1, 4, 2, 2), KEYS.expand(1, 4, 2, 2)),
        "attention",
        96,
    ),
    (lambda: ROW.expand(3, 5).contiguous(), "copy", 20),
    (lambda: ROW.expand(3, 5).sum(), "reduce_sum", 20),
    (lambda: torch.ones(6).unfold(0, 3, 1).exp(), "exp", 24),  # 4 windows of 3 overlap: 6 elements
    (lambda: torch.cat([A, ROW.expand(3, 5)]), "concat", 80),
    (lambda: functional.embedding(torch.zeros(1, dtype=torch.int64).expand(4), A), "embedding", 4 * 20 + 8),
]


@pytest.mark.parametrize(("run", "op", "mread"), READ)
def test_a_view_is_read_as_what_it_is_a_view_of(run, op, mread):
    (entry,) = entries(run, op)
    assert entry["mread"] == mread


def test_a_tensor_given_as_three_operands_is_read_three_times():
    x = torch.ones(1, 3, 4)
    weights = torch.ones(12, 4), torch.ones(12), torch.ones(4, 4), torch.ones(4)
    run = partial(torch._native_multi_head_attention, x, x, x, 4, 2, *weights, need_weights=False)
    with torch.no_grad():
        (entry,) = entries(run, "multi_head_attention")
    # 3 * 12 elements, weights of 12 x 4 and 4 x 4, biases of 12 and 4
    assert entry["mread"] == 4 * (36 + 48 + 16 + 12 + 4)


def test_an_expanded_parameter_has_its_own_number_of_elements():
    weight = torch.nn.Parameter(torch.ones(1, 5))
    (entry,) = entries(lambda: functional.linear(A, weight.expand(4, 5)), "linear")
    # 15 + 5 elements read; 5 learned
    assert (entry["mread"], entry["n_params"]) == (80, 5)


def test_a_saved_report_keeps_what_is_stored(tmp_path):
    with ComputationalCostHook(frontends=["pytorch"]) as hook:
        torch.add(A, ROW.expand(3, 5))
    path = tmp_path / "report.json"
    hook.report.to_json(path)
    read = Report.from_json(path)
    (call,) = [call for call in read.trace.calls if call.layer.op == "add"]
    assert call.layer["x1"].stored == 5
    assert read.total_report == hook.total_report
