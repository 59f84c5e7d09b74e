"""What each option of a pass does, by networks small enough to count by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from costcore import CostError, Report, Tensor, estimate


class Twice(nn.Module):
    """Calls one linear layer twice: by its own name, then inside a second parent."""

    def __init__(self):
        super().__init__()
        linear = nn.Linear(4, 4)
        self.first = nn.Sequential(linear)
        self.second = nn.Sequential(linear, nn.ReLU())

    def forward(self, x):
        return self.second(self.first(x))


class FirstRow(nn.Module):
    """A linear layer that gets one row of what it is passed."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x[:1])


class TwoNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x))


class SharedBlock(nn.Module):
    """A block of one linear layer that two parents hold, each of which the model holds."""

    def __init__(self):
        super().__init__()
        block = nn.Sequential(nn.Linear(4, 4))
        self.left = nn.ModuleList([block])
        self.right = nn.ModuleList([block, nn.ModuleList([block])])

    def forward(self, x):
        return self.left[0](x)


class OwnLinear(nn.Linear):
    pass


class Gate(nn.Module):
    """Keeps its own reference to a function."""

    def __init__(self):
        super().__init__()
        self.function = F.relu

    def forward(self, x):
        return self.function(x)


class Spelled(nn.Module):
    """Adds and multiplies in every spelling."""

    def forward(self, x, y):
        return torch.add(x, y) + x.add(y) + F.relu(x) + torch.relu(y) + (x @ y) + torch.matmul(x, y)


class UnusedBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 8)

    def forward(self, x):
        self.unused(x)
        return self.used(x)


LINEAR = 2 * 4 * 4
"""Multiply-adds of a linear layer from 4 to 4 features on 2 rows."""


@pytest.fixture
def total(tmp_path):
    def count(network, options, rules='"nn.Linear/linear" = "macs"', inputs=((2, 4),), **capture):
        file = tmp_path / "mine.toml"
        text = f'name = "mine"\nunit = "MAC"\n[[count]]\n{options}\n[count.rules]\n{rules}\n'
        file.write_text(text, encoding="utf-8")
        report = estimate(network.eval(), tuple(map(Tensor, inputs)), **capture)
        return report.under(file).total

    return count


@pytest.mark.parametrize(("alias", "factor"), [(0, 1), (1, 2), (2, 4)])
def test_a_module_of_two_parents_counts_once_twice_or_four_times(total, alias, factor):
    assert total(Twice(), f'by = "module"\nalias = {alias}') == 2 * LINEAR * factor


@pytest.mark.parametrize("alias", [0, 1, 2])
def test_two_names_in_one_parent_are_one_way(total, alias):
    assert total(TwoNames(), f'by = "module"\nalias = {alias}') == 2 * LINEAR


def test_every_way_from_the_model_counts(total):
    # left.0, right.0 and right.1.0 lead to the block, and so to its linear layer
    assert total(SharedBlock(), 'by = "module"\nalias = 1') == 3 * LINEAR
    assert total(SharedBlock(), 'by = "module"\nalias = 2') == 9 * LINEAR


def test_exact_types_leave_out_subclasses(total):
    network = nn.Sequential(OwnLinear(4, 4), nn.Linear(4, 8))
    assert total(network, 'by = "module"') == 2 * 4 * 8
    assert total(network, 'by = "module"\ntypes = "subclasses"') == LINEAR + 2 * 4 * 8


def test_children_of_a_listed_module_do_not_count_if_it_is_closed(total):
    assert total(UnusedBranch(), 'by = "module"') == LINEAR + 2 * 4 * 8
    assert total(Twice(), 'by = "module"\nclosed = true') == 2 * LINEAR
    assert total(Twice(), 'by = "module"\nclosed = true\nlisted = ["nn.Sequential"]') == 0


def test_leaves_only(total):
    network = nn.Sequential(nn.Linear(4, 4))
    network[0].child = nn.Identity()
    assert total(network, 'by = "module"') == LINEAR
    assert total(network, 'by = "module"\nleaf = true') == 0


def test_only_the_last_call_of_a_module(total):
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    rules = '"nn.Linear/linear" = "macs"\n"nn.ReLU/relu" = "x"'
    twice = nn.Sequential(network, network)
    assert total(twice, 'by = "module"', rules) == 2 * (LINEAR + 8)
    assert total(twice, 'by = "module"\nlast_call = true', rules) == LINEAR + 8


def test_amounts_per_item_of_the_first_input(total):
    assert total(nn.Linear(4, 4), 'by = "module"\nper_item = true', inputs=[(5, 4)]) == 4 * 4
    assert total(nn.Linear(4, 4), 'by = "module"\nper_item = true', inputs=[(5, 7, 4)]) == 7 * 4 * 4
    # the tool divides the sum of all modules: 12 // 3 = 4, where 4 // 3 = 1 of each would add up to 3
    network = nn.Sequential(FirstRow(), FirstRow(), FirstRow())
    assert total(network, 'by = "module"\nper_item = true', '"nn.Linear/linear" = "y"', [(3, 4)]) == 4
    # several inputs are passed by name, and then the tool takes the batch size as 1
    network = nn.Bilinear(4, 4, 3)
    rules = '"nn.Bilinear/bilinear" = "y"'
    assert total(network, 'by = "module"\nper_item = true', rules, [(5, 4), (5, 4)]) == 5 * 3


def test_nothing_counts_inside_given_types(total):
    network = nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), nn.Linear(4, 8))
    rules = 'linear = "macs"'
    # of three rows: 4 to 12 and 4 to 4 around attention, 4 to 8 and back, then 4 to 8
    assert total(network, 'by = "op"', rules, [(1, 3, 4)]) == 3 * (48 + 16 + 32 + 32 + 32)
    outside = 'by = "op"\noutside = ["nn.MultiheadAttention"]'
    assert total(network, outside, rules, [(1, 3, 4)]) == 3 * (32 + 32 + 32)
    outside = 'by = "op"\noutside = ["nn.TransformerEncoderLayer"]'
    assert total(network, outside, rules, [(1, 3, 4)]) == 3 * 32


def test_attention_that_runs_fused_without_gradients(total):
    options, rules = "skip_self_attention = true", 'linear = "macs"'
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    assert total(layer, options, rules, [(1, 3, 4)]) == 0
    # what is outside the fused layer counts: 3 rows x 4 x 5
    assert total(nn.Sequential(layer, nn.Linear(4, 5)), options, rules, [(1, 3, 4)]) == 3 * 20
    # with the sequence first, with one head, or with a batch of sequences, nothing is fused, or only what is batched
    assert total(nn.TransformerEncoderLayer(4, 2, 8), options, rules, [(3, 1, 4)]) == 3 * (48 + 16 + 32 + 32)
    odd = nn.TransformerEncoderLayer(4, 1, 8, batch_first=True)
    assert total(odd, options, rules, [(2, 3, 4)]) == 6 * (48 + 16 + 32 + 32)
    even = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    assert total(even, options, rules, [(2, 3, 4)]) == 0


def test_a_saved_attention_whose_weights_have_another_name_is_not_fused(tmp_path):
    file = tmp_path / "mine.toml"
    rules = "[count.rules]\nlinear = 'macs'\n"
    file.write_text(f"name = 'mine'\nunit = 'MAC'\n[[count]]\nskip_self_attention = true\n{rules}")
    report = estimate(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), (1, 3, 4))
    assert report.under(file).total == 0
    text = report.to_json().replace('"name": "w"', '"name": "v"').replace('"name":"w"', '"name":"v"')
    # 4 to 12 and 4 to 4 around attention, 4 to 8 and back, of each of three rows
    assert Report.from_json(text).under(file).total == 3 * (48 + 16 + 32 + 32)


def test_only_what_the_returned_values_depend_on(total):
    assert total(UnusedBranch(), 'by = "op"', 'linear = "macs"') == LINEAR + 2 * 4 * 8
    assert total(UnusedBranch(), 'by = "op"\nlive = true', 'linear = "macs"') == LINEAR


def test_writing_in_place_keeps_a_call_alive(total):
    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            y.add_(1)
            x.exp()
            return y

    assert total(InPlace(), 'by = "op"\nlive = true', 'mul = "y"\nadd = "10 * y"\nexp = "100 * y"') == 8 + 80


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        ("torch.add", 1),
        ("torch.Tensor.add", 1),
        ("operator.add", 5),
        ("F.relu", 1),
        ("torch.relu", 1),
        ("operator.matmul", 1),
        ("torch.matmul", 1),
        ("torch.mm", 0),
    ],
)
def test_what_counts_is_how_a_call_was_spelled(total, function, calls):
    inputs = [(3, 3), (3, 3)]
    assert total(Spelled(), 'by = "function"', f'"{function}" = "y"', inputs, record_api_calls=True) == 9 * calls


def test_functions_of_modules_are_seen_inside_them(total):
    network = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    rules = '"F.relu" = "100 * x"\n"F.linear" = "macs"'
    assert total(network, 'by = "function"', rules, record_api_calls=True) == 800 + LINEAR
    assert total(network, 'by = "function"\noutside = ["nn.ReLU"]', rules, record_api_calls=True) == LINEAR


def test_a_function_that_a_module_keeps_is_not_counted(total):
    network = nn.Sequential(Gate(), nn.ReLU())
    rules = '"F.relu" = "x"'
    bound = f'by = "function"\nbound = {{ "{Gate.__module__}.Gate" = ["F.relu"] }}'
    assert total(network, 'by = "function"', rules, record_api_calls=True) == 16
    assert total(network, bound, rules, record_api_calls=True) == 8


def test_alternatives_of_a_function(total):
    by_size = nn.Upsample(size=(4, 4))
    by_scale = nn.Upsample(scale_factor=2)
    rules = '"F.interpolate(size)" = "y"\n"F.interpolate(scale_factor)" = "x"'
    assert total(by_size, 'by = "function"', rules, [(1, 1, 2, 2)], record_api_calls=True) == 16
    assert total(by_scale, 'by = "function"', rules, [(1, 1, 2, 2)], record_api_calls=True) == 4


def test_calls_of_modules(total):
    network = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 5), nn.ReLU())
    # 54 weights and 3 biases at each of 2 x 2 positions; 60 weights and 5 biases for each of 7 rows
    rules = '"*Conv*" = "N * positions * named"\n"*" = "N * named"'
    expected = 7 * 4 * (54 + 3) + 7 * (60 + 5)
    assert total(network, 'by = "module call"', rules, [(7, 2, 4, 4)]) == expected
    assert total(network, 'by = "module call"', rules, [(7, 2, 4, 4)], record_api_calls=True) == expected


def test_a_leaf_called_twice_in_a_row_counts_twice_if_calls_of_modules_are_known(total):
    linear = nn.Linear(4, 4)

    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = linear

        def forward(self, x):
            return self.linear(self.linear(x))

    rules = '"*" = "N * named"'
    assert total(Again(), 'by = "module call"', rules) == 2 * 20
    assert total(Again(), 'by = "module call"', rules, record_api_calls=True) == 2 * 2 * 20


def test_native_names_and_overloads_come_before_canonical_ones(total):
    network = nn.Sequential(nn.Conv2d(1, 1, 3, padding="same"), nn.Conv2d(1, 1, 3, padding=1))
    rules = 'conv = "1"\n"aten:conv2d" = "10"\n"aten:conv2d.padding" = "100"'
    assert total(network, 'by = "op"', rules, [(1, 1, 4, 4)]) == 110
    assert total(network, 'by = "op"', 'conv = "1"\n"aten:conv1d" = "10"', [(1, 1, 4, 4)]) == 2


def test_backward_counts_only_where_the_convention_says_so():
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    report = estimate(network, (2, 4), backward=True)
    forward = 2 * (16 + 12)
    # gradients of both weights, and of the second input: the first needs none
    backward = 2 * (16 + 12 + 12)
    assert report.under("torch").total == 2 * (forward + backward)
    assert report.under("torchvision").total == forward
    for name in ("fvcore", "timm", "mmengine", "torchprofile", "thop", "ptflops-aten", "torch-scan"):
        assert report.under(name).total == estimate(network, (2, 4)).under(name).total, name
    assert report.under("costcore").total == report.total_report["flops"]
    assert report.under("macs").total < report.under("torch").total


def test_macs_count_the_backward_pass_and_others_say_that_they_do_not():
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    report = estimate(network, (2, 4), backward=True)
    # forward 2 x (16 + 12); gradients of both weights, and of the second input
    assert report.under("macs").total == report.total_report["macs"] == 2 * (16 + 12) + 2 * (16 + 12 + 12)
    assert not any("backward" in note for note in report.under("macs").notes)
    assert (
        "the backward pass is not counted: this convention counts forward passes only" in report.under("fvcore").notes
    )
    assert not any("backward" in note for note in estimate(network, (2, 4)).under("fvcore").notes)


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 3))

    def forward(self, x):
        return torch.mm(x, self.weight)


def test_mm_counts_where_tools_replace_it():
    report = estimate(Products(), (2, 4), record_api_calls=True)
    products = 2 * 4 * 3
    assert report.under("deepspeed").total == 2 * products
    assert report.under("deepspeed-macs").total == report.under("ptflops").total == products


@pytest.mark.parametrize("convention", ["ptflops", "ptflops-modules"])
def test_an_empty_batch_is_refused_where_the_tool_divides_by_it(convention):
    report = estimate(nn.Linear(4, 3), (0, 4), record_api_calls=True)
    with pytest.raises(CostError, match="the tool divides by the batch size, which is 0 here"):
        report.under(convention)


def test_weights_of_grouped_convolutions_count_without_groups_in_training():
    report = estimate(nn.Sequential(nn.Conv2d(4, 4, 3), nn.Conv2d(4, 8, 3, groups=4)), (1, 4, 8, 8), backward=True)
    first, second = 36 * 9 * 4 * 4, 16 * 9 * 8 * 1  # 6 x 6 and 4 x 4 positions
    # gradients of the first weight, of the second input, and of the second weight as if it had one group
    assert report.under("torch").total == 2 * (first + second + first + second + 4 * second)


def test_frozen_operands_take_no_gradient_of_attention():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Parameter(torch.zeros(1, 2, 6, 8))
            self.k = nn.Parameter(torch.zeros(1, 2, 6, 8), requires_grad=False)

        def forward(self, x):
            return F.scaled_dot_product_attention(self.q * x, self.k, self.k)

    report = estimate(Attention(), (1,), backward=True)
    product = 2 * (2 * 6 * 6) * 8
    assert report.under("torch").total == (2 + 2) * product  # gradients of scores and of queries alone
    assert report.under("torch-cpu==2.13").total == 0
    assert report.under("torch-cpu==2.15").total == (2 + 5) * product  # the fused kernel computes all


def test_what_is_written_in_place(total):
    network = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(inplace=True), nn.LeakyReLU())
    assert total(network, 'by = "op"', 'leaky_relu = "100 if in_place else 1"') == 101


def test_default_counts_every_call_without_a_rule(total):
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Tanh())
    assert total(network, 'default = "10000"', 'linear = "macs"\nrelu = 0') == LINEAR + 10000


def test_passes_add_up(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\nunit = "MAC"\n[[count]]\n[count.rules]\nlinear = "macs"\n'
        '[[count]]\nby = "module"\n[count.rules]\n"nn.Linear/linear" = "y"\n',
        encoding="utf-8",
    )
    view = estimate(nn.Linear(4, 3), (2, 4)).under(file)
    assert view.total == 24 + 6
    assert view.by_call == {"linear-1": 30}
