"""Special tensors: fake, sparse, nested, quantized, distributed, and subclasses of users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_map

from costcore.errors import CostError
from tests.frontends.pytorch.runs import GRAD_MODES, estimated, listed, macs, record, types
from tests.frontends.pytorch.unchanged import unchanged
from tests.registered import price

PROTOTYPES = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def total(calls) -> tuple[int, set[str]]:
    """Return the MACs of the supported calls, and the names of the unsupported ones."""
    priced = [price(call) for call in calls]
    return sum(p.cost.macs for p in priced if p.cost), {p.call.native for p in priced if p.cost is None}


class Wrapper(torch.Tensor):
    """Holds a tensor, and runs every operator on it."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=held.device)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map(lambda x: x.held if isinstance(x, cls) else x, (args, kwargs or {}))
        return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, func(*args, **kwargs))


class Named(torch.Tensor):
    """Handles functions by passing them on."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("mode", GRAD_MODES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("kind", [Wrapper, lambda x: x.as_subclass(Named)], ids=["dispatch", "function"])
def test_p31_operators_on_subclasses_count_once(kind, device, mode):
    model, plain = nn.Sequential(nn.Linear(4, 5), nn.ReLU()).to(device), torch.ones(6, 4, device=device)
    with unchanged(model), GRAD_MODES[mode]():
        assert macs(record(lambda: [model(kind(plain)) for _ in range(2)]).calls) == 2 * 6 * 4 * 5
        assert types(record(lambda: model(kind(plain))))[-1] == "relu"


@pytest.mark.parametrize("where", ["inside", "around"])
def test_p12_fake_tensors(where):
    def run():
        with torch._subclasses.FakeTensorMode():
            nn.Sequential(nn.Linear(4, 5), nn.ReLU())(torch.ones(6, 4))

    if where == "inside":
        recorder = record(run)
    else:
        with torch._subclasses.FakeTensorMode():
            model, x = nn.Sequential(nn.Linear(4, 5), nn.ReLU()), torch.ones(6, 4)
        recorder = record(lambda: model(x))
    assert types(recorder)[-2:] == ["linear", "relu"]
    assert macs(recorder.calls) == 6 * 4 * 5


@PROTOTYPES
def test_p27_nested_tensors_cost_their_samples():
    model = nn.Linear(4, 5)
    samples = [torch.ones(2, 4), torch.ones(3, 4)]
    for layout in (torch.jagged, torch.strided):
        nested = torch.nested.nested_tensor(samples, layout=layout)
        with unchanged(model):
            recorder = record(lambda x=nested: model(x).relu())
        assert types(recorder) == ["linear", "relu"]
        assert macs(recorder.calls) == (2 + 3) * 4 * 5
        assert recorder.calls[0].layer.out.size == (2 + 3) * 5

    def step():
        nested = torch.nested.nested_tensor(samples, layout=torch.jagged, requires_grad=True)
        model(nested).values().sum().backward()
        model.zero_grad()

    assert macs(record(step).calls) == 3 * (2 + 3) * 4 * 5


@PROTOTYPES
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
@pytest.mark.parametrize("has_gradient", [False, True])
def test_p27_attention_of_nested_tensors_attends_within_samples(layout, has_gradient):
    def nested(*lengths):
        samples = [torch.rand(length, 2, 4, generator=torch.Generator().manual_seed(length)) for length in lengths]
        made = torch.nested.nested_tensor(samples, layout=layout, requires_grad=has_gradient).transpose(1, 2)
        return made.contiguous() if layout is torch.strided else made

    q, k, found = nested(6, 4), nested(5, 3), []
    plain = nn.functional.scaled_dot_product_attention(q, k, k)
    with unchanged():
        recorder = record(lambda: found.append(nn.functional.scaled_dot_product_attention(q, k, k)))
    assert all(map(torch.equal, plain.unbind(), found[0].unbind()))
    assert types(recorder) == ["scaled_dot_product_attention"]
    # 6 x 5 + 4 x 3 pairs in each of 2 heads, 4 products each for the score and for the value
    assert macs(recorder.calls) == 2 * (6 * 5 + 4 * 3) * (4 + 4)


class Jagged(nn.Module):
    """Attention of two sequences, of their offsets, or of a jagged tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, y=None):
        if y is None:
            jagged = x
        elif y.is_floating_point():
            jagged = torch.nested.as_nested_tensor([self.layer(x), self.layer(y)], layout=torch.jagged)
        else:
            jagged = torch.nested.nested_tensor_from_jagged(self.layer(x), y)
        heads = jagged.unflatten(-1, [2, 4]).transpose(1, 2)
        attended = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return attended.transpose(1, 2).flatten(-2).relu().values()


JAGGED = {
    "sequences": lambda: (torch.ones(3, 8), torch.ones(5, 8)),
    "offsets": lambda: (torch.ones(8, 8), torch.tensor([0, 3, 8])),
    "input": lambda: (torch.nested.nested_tensor([torch.ones(n, 8) for n in (3, 5)], layout=torch.jagged),),
}


@PROTOTYPES
@pytest.mark.parametrize("name", JAGGED)
def test_p27_attention_of_jagged_tensors_without_data(name):
    model, inputs = Jagged(), JAGGED[name]()
    with torch.no_grad():
        _, recorder = (record(lambda: model(*inputs)) for _ in range(2))  # at first PyTorch fills its caches
    found = estimated(model, inputs)
    assert listed(found) == listed(recorder)
    assert found.assumptions == []
    assert [macs([call]) for call in found.calls if call.type.startswith("scaled")] == [2 * (3 * 3 + 5 * 5) * (4 + 4)]


@PROTOTYPES
def test_p27_attention_of_jagged_tensors_says_what_needs_data():
    with pytest.raises(CostError, match=r"no backward pass on meta tensors.*count a real run inside"):
        estimated(Jagged(), JAGGED["sequences"](), backward=True)
    with pytest.raises(CostError, match=r"needs the lengths of the samples.*count a real run inside"):
        estimated(Jagged(), [(8, 8), ((3,), torch.int64)])


@PROTOTYPES
def test_p27_products_of_ragged_matrices_are_named_and_not_guessed():
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 2)])
    recorder = record(lambda: torch.matmul(ragged, ragged.transpose(1, 2)))
    assert [t for t in types(recorder) if t in ("matmul", "bmm")] != []
    assert total(recorder.calls)[0] == 0
    assert total(recorder.calls)[1] & {"aten::matmul", "aten::bmm"}


@PROTOTYPES
def test_p28_sparse_tensors_never_fail():
    dense = torch.ones(4, 5)
    found = {}
    for name, sparse in (("coo", torch.eye(4).to_sparse()), ("csr", torch.eye(4).to_sparse_csr())):
        recorder = record(lambda x=sparse: x @ dense)
        found[name], unknown = total(recorder.calls)
        assert unknown == set()
        assert recorder.calls[-1].layer.out.shape == (4, 5)
    assert set(found.values()) <= {4 * 5, 4 * 4 * 5}  # the elements that are there, or as if all were
    assert total(record(lambda: (torch.eye(4).to_sparse() + torch.eye(4).to_sparse()).coalesce()).calls)[0] == 0


@pytest.fixture(scope="module")
def mesh() -> Iterator[object]:
    distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    yield init_device_mesh("cpu", (4,))
    distributed.destroy_process_group()


def parallel(mesh, device: str = "cpu") -> nn.Module:
    """A perceptron whose hidden units are distributed over the devices."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_p30_spread_tensors_cost_what_this_process_does(mesh, device):
    model, x = parallel(mesh, device), torch.ones(6, 8, device=device)
    outputs: list[Any] = []
    with unchanged(model):
        first, second = (record(lambda: outputs.append(model(x))) for _ in range(2))
    for output in outputs:
        distributed._functional_collectives.wait_tensor(output)
    assert listed(first) == listed(second)  # the first time PyTorch runs all operators in global shapes as well
    assert total(first.calls)[0] == 6 * (8 * 4 + 4 * 8)
    assert sum(first.parameters.values()) == 8 * 4 + 4 + 4 * 8 + 8
    read = {identity for call in first.calls for identity in call.parameters}
    assert sum(first.parameters[identity] for identity in read) == 8 * 4 + 4 + 4 * 8 + 8
    assert [call.module for call in first.calls if call.type == "addmm"] == ["0", "2"]
    assert "_c10d_functional::all_reduce" in types(first)


def test_p30_forward_and_backward_without_data(mesh):
    model = parallel(mesh)
    recorder = estimated(model, (6, 8), backward=True)
    products = total([call for call in recorder.calls if call.phase == "backward"])[0]
    assert products == 6 * (8 * 4 + 2 * 4 * 8)  # the first layer's input needs no gradient
