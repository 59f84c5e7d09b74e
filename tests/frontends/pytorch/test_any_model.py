"""Models and inputs as people have them: objects as inputs, functions as models, code that names a GPU.

Every case states its MACs, by hand, or equals a real run inside the hook.
"""

import copy
import ctypes
import enum
import functools
import io
import json
import operator
import sys
import threading
import warnings
import zipfile
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from torch import as_tensor, nn, tensor
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence

from costcore import ComputationalCostHook, CostError, Value, estimate

RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))


class Line(nn.Module):
    """A linear layer of 8 to 4 features: 32 MACs a row."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(8, 4)

    def forward(self, x):
        return self.line(x)


class Reads(Line):
    """Reads its input by a function of the arguments."""

    def __init__(self, read):
        super().__init__()
        self.read = read

    def forward(self, *args, **kwargs):
        return self.line(self.read(*args, **kwargs))


@dataclass
class Sample:
    x: torch.Tensor
    name: str = "a"


class Graph:
    """An object with tensors, as ``torch_geometric.data.Data``."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


class Slotted:
    __slots__ = ("x",)


class NotCopied:
    def __deepcopy__(self, memo):
        raise RuntimeError("no copy")


class Picture:
    """An image as ``PIL.Image``, which is an array, too."""

    size = (2, 8)
    __array_interface__ = np.zeros((2, 8), np.uint8).__array_interface__


class Mode(enum.Enum):
    FAST = 1


Pair = namedtuple("Pair", "x y")


def slotted(x):
    made = Slotted()
    made.x = x
    return made


X = torch.zeros(2, 8)
LENGTH = torch.tensor([3, 1])

INPUTS = {
    "dataclass": (Sample(X), lambda b: b.x),
    "named tuple": (Pair(X, X), lambda b: b.y),
    "namespace": (SimpleNamespace(x=X), lambda b: b.x),
    "object": (Graph(x=X, edge_index=LENGTH), lambda b: b.x),
    "slots": (slotted(X), lambda b: b.x),
    "list of objects": ([Sample(X), Sample(X)], lambda bs: bs[1].x),
    "function": (nn.functional.relu, lambda f: f(torch.zeros(2, 8))),
    "slice": (slice(0, 2), lambda s: torch.zeros(4, 8)[s]),
    "dtype": (torch.float32, lambda d: torch.zeros(2, 8).to(d)),
    "device": (torch.device("cpu"), lambda d: torch.zeros(2, 8, device=d)),
    "enum": (Mode.FAST, lambda m: torch.zeros(2 if m is Mode.FAST else 1, 8)),
    "integer of numpy": (np.int64(2), lambda n: torch.zeros(n, 8)),
    "array of texts": (np.array(["a", "b"]), lambda a: torch.zeros(len(a), 8)),
    "array of objects": (np.array([X, None], dtype=object), lambda a: a[0]),
    "image": (Picture(), lambda image: torch.zeros(image.size)),
    "text": ("two", lambda s: torch.zeros(len(s) - 1, 8)),
    "complex": (2j, lambda c: torch.zeros(int(abs(c)), 8)),
    "set": ({"a", "b"}, lambda s: torch.zeros(len(s), 8)),
    "metadata": ([{"img_shape": (2, 8, 3)}], lambda metas: torch.zeros(metas[0]["img_shape"][:2])),
    "iterator": (iter([X, X]), lambda xs: next(iter(xs))),
    "not copied": (NotCopied(), lambda _: torch.zeros(2, 8)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_objects_are_inputs(name):
    value, read = INPUTS[name]
    report = estimate(Reads(lambda given, _: read(given)), (value, None))
    assert report.total_report["macs"] == 2 * 32
    assert report.status == "complete"


@pytest.mark.parametrize(
    "inputs",
    [((2, 8), ()), ((2, 8), ((), "float32")), ((2, 8), ((), torch.float32)), {"x": (2, 8), "scale": ()}],
)
def test_an_empty_shape_is_a_scalar(inputs):
    def scaled(x, scale):
        assert scale.shape == () and scale.dtype is torch.float32
        return x * scale

    report = estimate(Reads(scaled), inputs)
    assert (report.total_report["macs"], report.total_report["flops"]) == (64, 64 + 16)


def test_integers_inside_objects_keep_their_values():
    model = Reads(lambda b: b.x[: int(b.lengths.max())])
    batch = Graph(x=torch.zeros(5, 8), lengths=LENGTH)
    assert estimate(model, batch).total_report["macs"] == 3 * 32
    assert batch.x.device.type == "cpu" and batch.lengths is LENGTH


def test_positions_inside_objects_are_no_parameters():
    def energy(batch):
        return line(batch.x.requires_grad_())

    line, batch = Line(), SimpleNamespace(x=torch.rand(2, 8).requires_grad_())
    report = estimate(energy, batch, backward=True)
    assert report.total_report["n_params"] == 36
    assert report.by("phase")["backward"]["macs"] == 128


def test_a_tensor_in_two_objects_stays_one():
    def add(a, b):
        assert a.x is b.x
        return a.x

    assert estimate(Reads(add), (Sample(X), Sample(X))).total_report["macs"] == 64


def test_packed_sequences_equal_a_run():
    packed = pack_sequence([torch.zeros(3, 8), torch.zeros(2, 8)])
    model = nn.LSTM(8, 4)
    with torch.no_grad(), ComputationalCostHook() as hook:
        model(packed)
    assert totals(estimate(model, (packed,))) == totals(hook)


@pytest.mark.parametrize("lengths", [(4, 4, 4), (4, 3, 1), (2, 4, 4)])
@pytest.mark.parametrize("settings", [{}, {"bidirectional": True, "num_layers": 2, "dropout": 0.1}, {"bias": False}])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_training_on_packed_sequences_equals_a_run(kind, settings, lengths):
    class Packs(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = kind(8, 4, **settings)

        def forward(self, x):
            packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
            return self.layers(packed)[0].data.sum()

    model, x, ones = Packs(), torch.zeros(4, 3, 8), torch.ones(())
    with ComputationalCostHook() as hook:
        model(x).backward(ones)
    costs = ("flops", "macs", "mread", "mwrite")
    found, expected = (
        [[sums[cost] for cost in costs] for sums in report.by("phase").values()]
        for report in (estimate(model, x, backward=True), hook.report)
    )
    assert found == expected


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_training_bags_equals_a_run(mode, sparse):
    bags, ones = nn.EmbeddingBag(50, 8, mode=mode, sparse=sparse), torch.ones(4, 8)
    inputs = torch.arange(7), torch.tensor([0, 2, 4, 5])
    with ComputationalCostHook() as hook:
        bags(*inputs).backward(ones)
    assert totals(estimate(bags, inputs, backward=True)) == totals(hook)


def test_training_weighted_bags_equals_a_run():
    table, weights = nn.Embedding(50, 8).weight, nn.Parameter(torch.rand(4, 3))

    def step():
        rows = nn.functional.embedding_bag(torch.arange(12).view(4, 3), table, mode="sum", per_sample_weights=weights)
        rows.sum().backward()

    report = estimate(step, [])
    with ComputationalCostHook() as hook:
        step()
    assert totals(report) == totals(hook)


def test_functions_may_be_imported_by_name():
    def repeated(x):
        x = x.repeat_interleave(tensor([4, 2], device=x.device))
        return x * as_tensor(2, device=x.device).item()

    report = estimate(repeated, torch.rand(2))
    assert (report.total_report["flops"], report.status) == (6, "complete")
    assert (tensor, as_tensor) == (torch.tensor, torch.as_tensor)


def test_types_are_named_as_on_a_cpu():
    x = torch.rand(3, 3)
    for function in (
        lambda x: x if x.type() == "torch.FloatTensor" else x @ x,
        lambda x: (x > 0).type(x.type()) * x,
        lambda x: x.type("torch.DoubleTensor").type(torch.FloatTensor),
        lambda x: x.type(dtype=torch.LongTensor).type(torch.int8),
    ):
        with ComputationalCostHook() as hook:
            function(x)
        report = estimate(function, x)
        assert totals(report) == totals(hook)
        assert report.status == "complete"


def test_zeros_in_place_of_biases_are_no_parameters():
    report = estimate(nn.LSTM(8, 4, bias=False), (5, 2, 8), backward=True)
    assert report.total_report["n_params"] == 192
    assert report.notes == []


def sparse():
    dense = torch.eye(6)[:, :5].clone()
    dense[0, 3] = 1
    return dense.to_sparse()


SPARSE = {
    "coo": (sparse, torch.sparse.mm),
    "matmul": (lambda: sparse().coalesce(), torch.matmul),
    "csr": (lambda: sparse().to_dense().to_sparse_csr(), torch.matmul),
    "csc": (lambda: sparse().to_dense().to_sparse_csc(), torch.matmul),
    "transposed": (lambda: sparse().t(), lambda a, x: torch.sparse.mm(a.t(), x)),
}


@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support")
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_inputs_keep_their_number_of_values(name):
    make, product = SPARSE[name]
    matrix, model = make(), Called(product)
    x = torch.zeros(5, 7)
    with torch.no_grad(), ComputationalCostHook() as hook:
        model(matrix, x)
    report = estimate(model, (matrix, x))
    assert totals(report) == totals(hook)
    assert report.total_report["macs"] == 6 * 7  # six values, each multiplied by a row of seven
    assert totals(estimate(lambda x: product(matrix, x), (5, 7))) == totals(report)


@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support")
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_a_step_through_a_sparse_constant_equals_a_run(layout):
    matrix, weight = sparse().to_dense().to_sparse(layout=layout), nn.Parameter(torch.zeros(5, 7))

    def step():
        (matrix @ weight).sum().backward()

    report = estimate(step)
    with ComputationalCostHook() as hook:
        step()
    assert report.by("phase") == hook.report.by("phase")
    assert report.total_report["macs"] == 2 * 6 * 7


FIGURES = ("flops", "macs", "mread")


class SparseAttention(nn.Module):
    """The attention of a graph: scores of 20 edges between 10 nodes."""

    def __init__(self):
        super().__init__()
        self.fc, self.scores = nn.Linear(8, 8), nn.Parameter(torch.rand(20))
        self.register_buffer("edges", torch.stack([torch.arange(20) % 10, torch.arange(20) // 2]))

    def forward(self, x):
        scores = torch.sparse_coo_tensor(self.edges, self.scores, (10, 10), check_invariants=False)
        return torch.sparse.mm(torch.sparse.softmax(scores, 1), self.fc(x))


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_attention_over_the_edges_of_a_graph_equals_a_run():
    model = SparseAttention()
    report = estimate(model, (10, 8), backward=True)
    with ComputationalCostHook() as hook:
        model(torch.rand(10, 8)).backward(torch.ones(10, 8))
    for phase in ("forward", "backward"):
        expected, found = hook.report.by("phase")[phase], report.by("phase")[phase]
        assert [found[name] for name in FIGURES] == [expected[name] for name in FIGURES]
    # 20 exp, 20 - 10 additions, 20 divisions; 20 products in 10 sums, 20 subtractions, 20 products
    by_op = {name: row["flops"] for name, row in report.by("op").items()}
    assert (by_op["softmax"], by_op["softmax_backward"]) == (20 + 10 + 20, 20 + 20 + 20)


CONVERSIONS = {
    "COO": lambda a, x: torch.sparse.mm(a.to_sparse(), x),
    "CSR": lambda a, x: a.to_sparse_csr() @ x,
    "CSC": lambda a, x: a.to_sparse_csc() @ x,
    "layout": lambda a, x: a.to_sparse(layout=torch.sparse_csr) @ x,
    "rows": lambda a, x: a.to_sparse(1).to_dense() @ x,
}


@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support")
@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_dense_matrix_becomes_sparse_with_all_its_elements(name):
    a, x = torch.ones(6, 5), torch.ones(5, 7)
    report = estimate(CONVERSIONS[name], (a, x))
    with torch.no_grad(), ComputationalCostHook() as hook:
        CONVERSIONS[name](a, x)
    assert totals(report) == totals(hook)
    assert report.total_report["macs"] == 6 * 5 * 7
    assert [each.what for each in report.assumptions] == [
        "all elements of a tensor without data were assumed to be nonzero"
    ]


SPARSE_STEPS = {
    "SGD": (torch.optim.SGD, 20 * 8),  # an fma per value
    "Adagrad": (torch.optim.Adagrad, 1 + 20 * 8 * 6),  # squared, added, square root, epsilon, divided, subtracted
    # 2 differences, 2 products, a square; 5 additions to rows and tables; a root, epsilon, a quotient, a product
    "SparseAdam": (torch.optim.SparseAdam, 20 * 8 * 14),
}


@pytest.mark.filterwarnings("ignore:Sparse invariant")
@pytest.mark.parametrize("layer", [nn.Embedding, functools.partial(nn.EmbeddingBag, mode="sum")])
@pytest.mark.parametrize("name", SPARSE_STEPS)
def test_steps_on_sparse_gradients_compute_only_the_rows_that_were_read(name, layer):
    optimizer, flops = SPARSE_STEPS[name]
    x = torch.randperm(100)[:20].reshape(4, 5)

    def step_of():
        table = layer(100, 8, sparse=True)
        update = optimizer(table.parameters(), lr=0.1)

        def step(x):
            update.zero_grad()
            table(x).sum().backward()
            update.step()

        return step

    report = estimate(step_of(), x)
    step = step_of()
    with ComputationalCostHook() as hook:
        step(x)
    assert report.by("phase") == hook.report.by("phase")
    assert report.by("phase")["optimizer"]["flops"] == flops
    assert not hook.report.ignored_layers


def compressed(x):
    starts, columns = torch.tensor([0, 1, 2, 3], device=x.device), torch.tensor([1, 2, 0], device=x.device)
    return torch.sparse_csr_tensor(starts, columns, x[:, 0], (3, 3))


def coordinates(x):
    places = torch.tensor([[0, 1, 2], [1, 2, 0]], device=x.device)
    return torch.sparse_coo_tensor(places, x[:, 0], (3, 3))


MADE_OF_PARTS = {
    "CSR": lambda x: compressed(x) @ x,
    "CSR of a constant": lambda x: (compressed(x) @ torch.eye(3).to_sparse_csr()).to_dense(),
    "COO": lambda x: coordinates(x).coalesce() @ x,
    "COO as CSR": lambda x: coordinates(x).to_sparse_csr() @ x,
    "product": lambda x: torch.sparse.mm(coordinates(x), coordinates(x)).to_dense(),
}


@pytest.mark.filterwarnings("ignore:Sparse (CS[RC]|invariant)", "ignore::costcore.CostWarning")
@pytest.mark.parametrize("name", MADE_OF_PARTS)
def test_sparse_tensors_that_the_model_makes_keep_their_number_of_values(name):
    """The values of a product of two sparse matrices are those of both at most: bytes are a bound."""
    function, x = MADE_OF_PARTS[name], torch.rand(3, 4)
    report = estimate(function, (3, 4))
    with ComputationalCostHook() as hook:
        function(x)
    assert report.total_report["macs"] == hook.total_report["macs"] > 0
    assert report.total_report["flops"] == hook.total_report["flops"]
    assert report.total_report["mwrite"] >= hook.total_report["mwrite"]


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


MADE_INSIDE = {
    "indices of the input": lambda x, edges: torch.sparse_coo_tensor(edges, torch.ones(4), (5, 5)),
    "legacy": lambda x, edges: torch.sparse.FloatTensor(edges, torch.ones(4), torch.Size([5, 5])),
    "constants": lambda x, edges: torch.sparse_coo_tensor([[0, 1, 2, 3], [4, 3, 2, 1]], torch.ones(4), (5, 5)),
    "moved": lambda x, edges: torch.sparse_coo_tensor(edges.tolist(), [1.0] * 4, (5, 5)).to(x.device),
}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks", "ignore:torch.sparse.SparseTensor")
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", MADE_INSIDE)
def test_sparse_tensors_made_inside_keep_their_number_of_values(name, backward):
    net, x, edges = nn.Linear(3, 2), torch.ones(5, 3), torch.tensor([[0, 1, 2, 3], [4, 3, 2, 1]])

    def graph(x, edges):
        y = torch.sparse.mm(MADE_INSIDE[name](x, edges), net(x))
        if backward:
            y.sum().backward()

    report = estimate(graph, (x, edges))
    with ComputationalCostHook() as hook:
        graph(x, edges)
    assert totals(report) == totals(hook)
    assert report.total_report["macs"] == (5 * 3 * 2 + 4 * 2) * (1 + backward)


def test_sparse_buffers_keep_their_number_of_values():
    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", sparse())
            self.line = nn.Linear(7, 3)

        def forward(self, x):
            return torch.sparse.mm(self.adjacency, self.line(x))

    report = estimate(Convolution(), (5, 7), backward=True)
    assert report.total_report["macs"] == 5 * 7 * 3 + 6 * 3 + 5 * 7 * 3 + 6 * 3  # the input needs no gradient


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_input_that_cannot_move_is_named():
    nested = torch.nested.nested_tensor([torch.zeros(3, 8), torch.zeros(2, 8)])
    with pytest.raises(CostError, match=r"inputs\[0\]: PyTorch cannot move a nested Tensor .*ComputationalCostHook"):
        estimate(Line(), (nested,))


# Functions, methods and pipelines


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 4)

    def encode(self, x):
        return self.body(x)

    def forward(self, x):
        return self.head(self.encode(x))

    def generate(self, x, steps=2):
        for _ in range(steps):
            x = self.encode(x)
        return self(x)


class Pipeline:
    def __init__(self):
        self.encoder = Encoder()
        self.parts = {"decoder": nn.Linear(4, 8)}

    def __call__(self, x, steps=2):
        for _ in range(steps):
            x = self.parts["decoder"](self.encoder(x))
        return x


ENCODER = Encoder()


def step(x, scale=1):
    return ENCODER.encode(x) * scale


def closure():
    model = Encoder()
    return lambda x: model(x) + model(x)


def keyword_default():
    encoder = Encoder()

    def encode(x, *, model=encoder):
        return model.encode(x)

    return encode


CALLABLES = {
    "method": (Encoder().encode, 64, {"body"}),
    "generate": (Encoder().generate, 3 * 64 + 32, {"body", "head"}),
    "partial": (functools.partial(Encoder().generate, steps=4), 5 * 64 + 32, {"body", "head"}),
    "pipeline": (Pipeline(), 2 * (64 + 32 + 32), {"encoder.body", "encoder.head", "parts_decoder"}),
    "call": (Pipeline().__call__, 2 * (64 + 32 + 32), {"encoder.body", "encoder.head", "parts_decoder"}),
    "function": (step, 64, {"ENCODER.body"}),
    "lambda": (closure(), 2 * (64 + 32), {"model.body", "model.head"}),
    "keyword": (keyword_default(), 64, {"model.body"}),
    "methods alone": (lambda x: x @ x.T, 8, set()),
    "function of torch": (functools.partial(torch.matmul, other=torch.zeros(8, 3)), 24, set()),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_anything_that_is_called_is_a_model(name):
    function, macs, modules = CALLABLES[name]
    report = estimate(function, (1, 8))
    assert report.total_report["macs"] == macs
    assert {call["module"] for call in report.layer_report.values() if call["macs"]} - {""} == modules
    with torch.no_grad(), ComputationalCostHook() as hook:
        function(torch.zeros(1, 8))
    assert totals(hook)["macs"] == macs


def test_a_function_has_a_backward_pass():
    model = Encoder()
    report = estimate(lambda x: model.encode(x).sum(), (1, 8), backward=True)
    assert report.total_report["macs"] == 64 + 64  # the gradient of the weight; the input needs none
    assert all(parameter.grad is None for parameter in model.parameters())


class State:
    """A state that all objects of the class share."""

    shared: ClassVar[dict] = {}

    def __init__(self):
        self.__dict__ = self.shared


class Holder:
    def __init__(self):
        self.model = Line()
        self.state = State()
        self.state.is_ready = False

    def __call__(self, x):
        return self.model(x) if self.state.is_ready else x


HOLDER = Holder()
BY_NAME = {"model": Line()}
IN_ORDER = [nn.ReLU(), Line()]


PARTS = SimpleNamespace(parts=[nn.ReLU(), Line()])


class Flow(torch.distributions.transforms.Transform, nn.Module):
    domain = codomain = torch.distributions.constraints.real_vector
    bijective = True

    def __init__(self):
        nn.Module.__init__(self)
        torch.distributions.transforms.Transform.__init__(self)
        self.model = Line()

    def _inverse(self, y):
        return y + self.model(y).sum()

    def log_abs_det_jacobian(self, x, y):
        return x.sum(-1)

    __hash__ = nn.Module.__hash__


FLOW = torch.distributions.TransformedDistribution(
    torch.distributions.MultivariateNormal(torch.zeros(8), scale_tril=torch.eye(8), validate_args=False),
    [Flow()],
    validate_args=False,
)


def call_holder(x):
    State().is_ready = True
    return HOLDER(x)


GLOBALS = {
    "object": (call_holder, HOLDER.model, "HOLDER_model.line"),
    "dict": (lambda x: BY_NAME["model"](x), BY_NAME["model"], "BY_NAME_model.line"),
    "list": (lambda x: [each(x) for each in IN_ORDER][1], IN_ORDER[1], "IN_ORDER_1.line"),
    "list of an object": (lambda x: PARTS.parts[1](x), PARTS.parts[1], "PARTS_parts_1.line"),
    "distribution": (lambda x: FLOW.transforms[0].inv(x), FLOW.transforms[0].model, "FLOW_transforms_0.model.line"),
}


@pytest.mark.parametrize("name", GLOBALS)
def test_models_in_global_objects_are_copied(name):
    function, model, path = GLOBALS[name]
    report = estimate(function, (2, 8), backward=True)
    # forward, and the gradient of the weight
    assert {at: costs["macs"] for at, costs in report.by("module").items() if costs["macs"]} == {path: 2 * 64}
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == 36
    assert model.line.weight.grad is None


class Noise:
    """Moves its table to the device of the input, as the schedulers of diffusers do."""

    def __init__(self):
        self.table, self.calls = torch.rand(8), 0

    def __call__(self, x):
        self.table = self.table.to(x.device)
        self.last, self.calls = x * self.table, self.calls + 1
        return self.last


NOISE = Noise()


def noise_in_a_closure():
    noise, model = Noise(), Line()
    return noise, lambda x: model(noise(x))


@pytest.mark.parametrize(
    "make", [noise_in_a_closure, lambda: (NOISE, lambda x: HOLDER.model(NOISE(x))), lambda: (NOISE, lambda x: NOISE(x))]
)
def test_objects_that_functions_change_are_as_before(make):
    noise, function = make()
    before = dict(vars(noise))
    assert estimate(function, (2, 8)).total_report["flops"] >= 16
    assert vars(noise) == before
    function(torch.zeros(2, 8))
    vars(noise).clear()
    vars(noise).update(before)


def test_a_method_leaves_the_model_as_it_was():
    model = Encoder()
    before = dict(vars(model))
    estimate(model.generate, {"x": (1, 8), "steps": 1})
    assert vars(model) == before


def adamw(model):
    return torch.optim.AdamW(model.parameters())


def step_on_arguments():
    def step(model, optimizer, x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    model = Line()
    return step, [model, adamw(model), (2, 8)]


def step_with_a_schedule():
    model = Line()
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def step(x):
        model(x).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    return step, (2, 8)


def step_with_a_scaler():
    model, scaler = Line(), torch.amp.GradScaler("cpu")
    optimizer = adamw(model)

    def step(x):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step, (2, 8)


def step_of_an_object():
    class Trainer:
        def __init__(self):
            self.model = Line()
            self.optimizer = adamw(self.model)

        def step(self, x):
            for part in x.split(1):
                self.model(part).square().mean().backward()
            self.optimizer.step()

    return Trainer().step, (2, 8)


def step_that_asks():
    model = Line()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        loss = model(x).square().mean()
        if loss.requires_grad:
            loss.backward()
        optimizer.step()

    return step, (2, 8)


def step_of_a_schedule():
    model = Line()

    def step(x):
        if not torch.is_grad_enabled():  # as those of torch.distributed.pipelining
            raise RuntimeError("step() requires gradients to be enabled for its backward pass")
        model(x).square().mean().backward()

    return step, (2, 8)


def step_with_a_check():
    model = Line()

    def step(x):
        if x.isnan().any():
            x = x.reshape(3, -1)  # which fails
        model(x).square().mean().backward()

    return step, (2, 8)


class Accelerates:
    """Holds the model and a state of its class, and is its own copy, as the ``Accelerator`` of accelerate."""

    class State:
        shared: ClassVar[dict[str, object]] = {}

        def __init__(self):
            self.__dict__ = self.shared

    def __init__(self, model):
        self.model, self.steps, self.state = model, 0, self.State()
        self.state.synchronizes = False

    def __deepcopy__(self, memo):
        return self

    def count(self):
        self.steps += 1
        self.state.synchronizes = self.steps % 2 == 0


def step_with_its_own_copy():
    model = Line()
    optimizer, holder = adamw(model), Accelerates(model)

    def step(x):
        holder.count()
        model(x).square().mean().backward()
        if holder.state.synchronizes:
            optimizer.step()

    estimate(step, (2, 8))
    assert (holder.steps, holder.state.synchronizes) == (0, False)
    return step, (2, 8)


def step_of_lbfgs():
    model = Line()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def closure(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    return lambda x: optimizer.step(lambda: closure(x)), (2, 8)


def step_of_speech():
    model, targets = Line(), torch.tensor([[1, 2], [3, 1]])

    def step(x):
        scores = model(x[:, None].expand(-1, 5, -1)).log_softmax(-1).transpose(0, 1)
        nn.functional.ctc_loss(scores, targets, (5, 5), (2, 2)).backward()

    return step, (2, 8)


def forces():
    class Potential(Line):
        def forward(self, x):
            x.requires_grad_()
            return torch.autograd.grad(self.line(x).square().sum(), x)

    return Potential().eval(), (2, 8)


STEPS = {  # forward and gradients, of 2 x 8 x 4 each; the input of a training step needs none
    "arguments": (step_on_arguments, 2 * 64),
    "schedule": (step_with_a_schedule, 2 * 64),
    "scaler": (step_with_a_scaler, 2 * 64),
    "object": (step_of_an_object, 2 * 64),
    "asks": (step_that_asks, 2 * 64),
    "needs gradients": (step_of_a_schedule, 2 * 64),
    "check": (step_with_a_check, 2 * 64),
    "its own copy": (step_with_its_own_copy, 2 * 64),
    "lbfgs": (step_of_lbfgs, None),
    "speech": (step_of_speech, 2 * 5 * 64),
    "forces": (forces, 2 * 64),
}


@pytest.mark.filterwarnings("ignore:.*(branch|assumption):costcore.CostWarning")
@pytest.mark.parametrize("name", STEPS)
def test_code_that_computes_gradients_itself_equals_a_run(name):
    make, macs = STEPS[name]
    step, inputs = make()
    objects = inputs[:-1] if isinstance(inputs, list) else []
    before = copy.deepcopy([each.state_dict() for each in objects])
    report = estimate(step, inputs)
    assert str([each.state_dict() for each in objects]) == str(before)
    given = [*objects, torch.randn(2, 8)]
    with ComputationalCostHook() as hook:
        step(*given)
    assert report.by("phase") == hook.report.by("phase")
    assert macs is None or report.total_report["macs"] == macs
    assert report.total_report["n_params"] == 8 * 4 + 4


def halved_gradients():
    model = Line()
    model.line.weight.register_hook(lambda gradient: gradient * 0.5)
    return model


def optimizer_in_the_backward_pass():
    model = Line()
    optimizers = {parameter: torch.optim.AdamW([parameter], foreach=False) for parameter in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    return model


@pytest.mark.parametrize("make", [halved_gradients, optimizer_in_the_backward_pass])
def test_hooks_of_parameters_run(make):
    report = estimate(make(), (2, 8), loss=torch.sum, memory=True)
    model, x = make(), torch.randn(2, 8)
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(model, x)
        y = model(x)
        loss = y.sum()
        loss.backward()
    assert report.by("phase") == hook.report.by("phase")
    assert report.memory.peak == hook.report.memory.peak
    del y, loss


def test_models_among_the_arguments_have_the_names_of_the_parameters():
    def distill(student, teacher, x):
        with torch.no_grad():
            target = teacher(x)
        (student(x) - target).square().mean().backward()

    report = estimate(distill, [Line(), Line(), (2, 8)])
    # forward, and the gradient of the weight of the student
    macs = {path: costs["macs"] for path, costs in report.by("module").items() if costs["macs"]}
    assert macs == {"student.line": 2 * 64, "teacher.line": 64}


@pytest.mark.filterwarnings("ignore:.*assumption:costcore.CostWarning")
@pytest.mark.parametrize(
    ("shuffle", "assumed"), [(False, []), (True, ["a random permutation was assumed to keep the order"])]
)
def test_a_loader_inside_a_function_gives_its_batches(shuffle, assumed):
    model, data = Line(), torch.utils.data.TensorDataset(torch.randn(6, 8))

    def epoch():
        for (x,) in torch.utils.data.DataLoader(data, batch_size=2, shuffle=shuffle):
            model(x).sum().backward()

    report = estimate(epoch)
    assert report.total_report["macs"] == 3 * 2 * 64
    assert [each.what for each in report.assumptions] == assumed


class Affine:
    """A layer without ``nn.Module``."""

    def __init__(self, n_in, n_out):
        self.weight = torch.randn(n_in, n_out, requires_grad=True)
        self.bias = torch.zeros(n_out, requires_grad=True)

    def __call__(self, x):
        return x @ self.weight + self.bias


class Layers:
    """Layers in a list, as tutorials that build a network from tensors have them."""

    def __init__(self, *layers):
        self.layers = [*layers]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def calling(model):
    return lambda x: model(x)


class Trainer:
    """A model inside lists of objects."""

    def __init__(self):
        self.agents = [SimpleNamespace(policies={"actor": Layers(Line())})]

    def evaluate(self, x):
        return self.agents[0].policies["actor"](x)


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (lambda: Affine(8, 4), 32 + 4),
        (lambda: Layers(Affine(8, 2), Affine(2, 4)), 16 + 2 + 8 + 4),
        (lambda: calling(Layers(Affine(8, 4), Affine(4, 2))), 32 + 4 + 8 + 2),
        (lambda: calling(Trainer().evaluate), 32 + 4),
        (lambda: Trainer().evaluate, 32 + 4),
    ],
    ids=["layer", "layers", "function", "trainer", "method"],
)
def test_objects_of_any_class_are_models(make, parameters):
    model = make()
    report = estimate(model, (3, 8), backward=True)
    x = torch.randn(3, 8)
    with ComputationalCostHook() as hook:
        model(x).sum().backward()
    assert report.total_report["macs"] == hook.total_report["macs"]
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == parameters
    assert report.notes == []
    step = estimate(model, (3, 8), optimizer="sgd")
    assert step.by("phase")["optimizer"]["flops"] == parameters  # one multiply-add each


def weight_decay(model):
    return lambda y: y.sum() + sum(parameter.square().sum() for parameter in model.parameters())


def penalty_of_gradients(model):
    def loss(y):
        (gradient,) = torch.autograd.grad(y.sum(), model.line.weight, create_graph=True)
        return (gradient.square().sum() - model.line.weight.sum()).square()

    return loss


def distillation(model):
    teacher, x = Line().requires_grad_(False), torch.randn(2, 8)
    return lambda y: (y - teacher(x)).square().mean()


def cross_entropy_with_weights(_):
    loss, targets = nn.BCEWithLogitsLoss(pos_weight=torch.rand(4)), torch.ones(2, 4)
    return lambda y: loss(y, targets)


def weights_of_a_function(_):
    weights, targets = torch.rand(4), torch.ones(2, 4)
    return lambda y: nn.functional.binary_cross_entropy_with_logits(y, targets, pos_weight=weights)


def spectrum(_):
    window = torch.hann_window(4)
    return lambda y: torch.stft(y.reshape(-1), 4, window=window, return_complex=True).abs().mean()


@pytest.mark.parametrize(
    "make",
    [
        *(weight_decay, penalty_of_gradients, distillation),
        *(cross_entropy_with_weights, weights_of_a_function, spectrum),
        lambda _: lambda y: nn.functional.multi_margin_loss(y, torch.tensor([1, 3])),
        lambda _: lambda y: nn.functional.multilabel_margin_loss(y, torch.tensor([[0, 2, -1, 0], [1, -1, 0, 0]])),
    ],
)
def test_losses_cost_as_much_as_in_a_run(make):
    model = Line()
    loss = make(model)
    report = estimate(model, (2, 8), loss=loss)
    assert model.line.weight.grad is None
    with ComputationalCostHook() as hook:
        loss(model(torch.randn(2, 8))).backward()
    counted = [
        {phase: (costs["flops"], costs["mread"]) for phase, costs in each.by("phase").items()}
        for each in (report, hook.report)
    ]
    assert counted[0] == counted[1]


def test_a_step_that_lacks_an_input_says_which_it_takes():
    model = Line()
    with pytest.raises(CostError, match=r"step takes x, y\. Pass all by name.*--input x=2x8 --input y=SHAPE"):
        estimate(step_of_two_inputs(model), (2, 8))


def step_of_two_inputs(model):
    def step(x, y):
        (model(x) - y).square().mean().backward()

    return step


def test_a_second_backward_pass_names_the_remedy():
    model = Line()

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with pytest.raises(CostError, match="runs a backward pass itself, which is counted: leave out backward"):
        estimate(step, (2, 8), backward=True)


def test_a_function_without_inputs_says_what_it_takes():
    with pytest.raises(CostError, match="step takes x, scale"):
        estimate(step)


def test_a_function_that_makes_a_model_is_no_model():
    def make(width):
        return nn.Linear(4, 4)

    with pytest.raises(CostError, match="make returned a model, Linear"):
        estimate(make, (4, 4))


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
@pytest.mark.parametrize("beams", [1, 2])
def test_generation_equals_a_run(beams):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        num_hidden_layers=2,
        hidden_size=16,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=32,
        vocab_size=50,
        eos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    inputs = {
        "input_ids": torch.ones(1, 8, dtype=torch.long),
        "max_new_tokens": 3,
        "do_sample": False,
        "num_beams": beams,
    }
    with torch.no_grad(), ComputationalCostHook() as hook:
        model.generate(**inputs)
    assert totals(estimate(model.generate, inputs)) == totals(hook)


# Programs in files


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated", "ignore:`isinstance.treespec, LeafSpec")
def test_programs_in_files_are_models(tmp_path: Path):
    program = torch.export.export(Line(), (X,))
    torch.export.save(program, tmp_path / "line.pt2")
    torch.jit.script(Line()).save(str(tmp_path / "line.pt"))
    of_module = totals(estimate(Line(), (2, 8)))
    assert totals(estimate(tmp_path / "line.pt2")) == of_module
    assert totals(estimate(str(tmp_path / "line.pt2"), (2, 8), backward=True))["macs"] == 128
    assert totals(estimate(tmp_path / "line.pt", (2, 8))) == of_module
    assert totals(estimate(torch.export.unflatten(program), (2, 8))) == of_module


def test_a_program_with_open_sizes_has_formulas(tmp_path: Path):
    program = torch.export.export(Line(), (X,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, tmp_path / "line.pt2")
    report = estimate(tmp_path / "line.pt2", ("batch", 8))
    assert report.subs(batch=5).total_report["macs"] == 5 * 32


CHECKPOINTS = {
    "state dict": (lambda: Line().state_dict(), r"a state dict \(2 tensors, 36 elements: line.weight, …\)"),
    "training": (lambda: {"model": Line().state_dict(), "epoch": 3}, r"a checkpoint \('model' is a state dict"),
    "optimizer": (
        lambda: torch.optim.Adam(Line().parameters()).state_dict(),
        "the state of an optimizer",
    ),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_say_what_they_are(name, tmp_path: Path):
    make, words = CHECKPOINTS[name]
    torch.save(make(), tmp_path / "stored.pt")
    for model in (make(), tmp_path / "stored.pt"):
        with pytest.raises(CostError, match=words):
            estimate(model, (2, 8))


def test_a_pickled_model_is_not_unpickled(tmp_path: Path):
    torch.save(Line(), tmp_path / "whole.pt")
    with pytest.raises(CostError, match=r"a pickle of tests\.\S+Line, which costcore does not unpickle"):
        estimate(tmp_path / "whole.pt", (2, 8))


def _size(text):
    def change(graph):
        graph["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = text

    return change


def _operator(text, folder):
    def change(graph):
        node = graph["nodes"][-1]
        node["target"] = text
        node["inputs"] = [{"name": "", "arg": {"as_string": f"touch {folder}/ran"}, "kind": 1}]

    return change


def _named(text):
    def change(graph):
        graph["inputs"][-1]["as_tensor"]["name"] = text
        graph["tensor_values"][text] = graph["tensor_values"]["x"]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: _size(f"__import__('os').system('touch {folder}/ran')"), "not arithmetic"),
        (lambda folder: _size(f"Max(\"__import__('os').system('touch {folder}/ran')\", 1)"), "not arithmetic"),
        (lambda folder: _size("9**9**9"), "not arithmetic"),
        (lambda folder: _size("Pow(Integer(10), Integer(10000000000))"), "not arithmetic"),
        (lambda folder: _size("Pow(Pow(9, 60), 60)"), "not arithmetic"),
        (functools.partial(_operator, "torch.serialization.os.system"), "not an operator of PyTorch"),
        (functools.partial(_operator, "torch.ops.aten.from_file.default"), "not an operator of PyTorch"),
        (functools.partial(_operator, "_operator.attrgetter"), "not an operator of PyTorch"),
        (lambda folder: _named(f"x=__import__('os').system('touch {folder}/ran')"), "an invalid name"),
    ],
)
def test_nothing_in_the_graph_of_a_program_runs(change, message, tmp_path: Path):
    def changed(name, text):
        if not name.endswith(GRAPHS):
            return text
        data = json.loads(text)
        change(folder=tmp_path)(data["graph_module"]["graph"])
        return json.dumps(data).encode()

    with pytest.raises(CostError, match=message):
        estimate(_rewritten(tmp_path, changed))
    assert not (tmp_path / "ran").exists()


GRAPHS = ("models/model.json", "serialized_exported_program.json")
"""The graph of a program in its file, since PyTorch 2.8 and before."""


def _rewritten(tmp_path, changed, more=()):
    program = torch.export.export(Line(), (X,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, tmp_path / "line.pt2")
    with zipfile.ZipFile(tmp_path / "line.pt2") as source, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as target:
        for info in source.infolist():
            target.writestr(info, changed(info.filename, source.read(info)))
        for name in more:
            target.writestr(name, b"")
    return tmp_path / "bad.pt2"


@pytest.mark.parametrize(
    ("kind", "context"),
    [
        ("collections.defaultdict", {"default_factory_module": "antigravity", "default_factory_name": "x"}),
        ("builtins.dict", {"metadata": {"__enum__": True, "fqn": "antigravity:x", "name": "a"}}),
    ],
)
def test_a_structure_imports_no_module(kind, context, tmp_path: Path):
    leaf = {"type": None, "context": None, "children_spec": []}
    spec = json.dumps([1, {"type": kind, "context": json.dumps(context), "children_spec": [leaf]}])

    def changed(name, text):
        if not name.endswith(GRAPHS):
            return text
        data = json.loads(text)
        data["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = spec
        return json.dumps(data).encode()

    with pytest.raises(CostError, match="names a module to import"):
        estimate(_rewritten(tmp_path, changed))


@pytest.mark.skipif(RELEASE < (2, 5), reason="PyTorch 2.4 exports no size that is a product")
def test_a_program_with_guards_and_sizes_that_are_products_is_counted(tmp_path: Path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 2, stride=2)

        def forward(self, x):
            y = self.up(nn.functional.max_pool2d(x, 2))
            return nn.functional.interpolate(y, size=x.shape[-2:], mode="bilinear")

    sizes = ({2: 2 * torch.export.Dim("height")},)
    torch.export.save(torch.export.export(Net(), (torch.zeros(1, 3, 8, 8),), dynamic_shapes=sizes), tmp_path / "up.pt2")
    # 4 x 4 pixels of 3 channels, 4 channels of 2 x 2 pixels each.
    assert estimate(tmp_path / "up.pt2").total_report["macs"] == 16 * 3 * 4 * 4


def test_compiled_code_beside_a_program_is_not_loaded(tmp_path: Path):
    path = _rewritten(tmp_path, lambda name, text: text, ["line/data/aotinductor/model/model.so"])
    with pytest.raises(CostError, match="does not belong to an exported program"):
        estimate(path)


class Negated(nn.Module):
    def forward(self, x):
        save = torch.neg(x)
        return save * 2


def _script(tmp_path, code):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Negated()).save(str(tmp_path / "good.pt"))
    with zipfile.ZipFile(tmp_path / "good.pt") as source, zipfile.ZipFile(tmp_path / "bad.pt", "w") as target:
        for info in source.infolist():
            text = source.read(info)
            assert not info.filename.endswith(".py") or b"torch.neg(x)" in text
            target.writestr(info, text.replace(b"torch.neg(x)", code.encode()))
    return tmp_path / "bad.pt"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("torch.from_file('{path}', True, 8)", "'from_file', which can open other files"),
        ("torch . from_file('{path}', True, 8)", "'from_file', which can open other files"),
        ("('{path}').from_file(True, 8)", "'from_file', which can open other files"),
        ("ops.aten.from_file('{path}', True, 8)", "'from_file', which can open other files"),
        ("getattr(torch, 'from' '\\137file')('{path}', True, 8)", "'from_file', which can open other files"),
        ("(torch.zeros([8]), torch.save(x, '{path}'))[0]", "'save', which can open other files"),
        ("ops.rpc.sync(x)", "uses the library 'rpc'"),
        ("torch.neg(x", "damaged|cannot load"),
    ],
)
def test_torchscript_opens_no_files(code, message, tmp_path: Path):
    with pytest.raises(CostError, match=message):
        estimate(_script(tmp_path, code.format(path=tmp_path / "opened")), (2, 4))
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("condition", ["True", "getattr(self, 'training')"])
def test_torchscript_may_have_variables_called_save_and_read_attributes(condition, tmp_path: Path):
    path = _script(tmp_path, f"torch.abs(x) if {condition} else torch.neg(x)")
    assert estimate(path, (2, 4)).total_report["flops"] == 2 * 4 * 2


def test_all_readers_see_the_same_parts_of_a_program(tmp_path: Path):
    path = _script(tmp_path, "torch.abs(x)")
    path.write_bytes(b"before" + path.read_bytes())
    with pytest.raises(CostError, match="readers may see different files"):
        estimate(path, (2, 4))


# Code that names a GPU


def gpu(function):
    return Called(function)


GPU = {
    "cuda": lambda x: x.cuda() * 2,
    "to": lambda x: x.to("cuda") * torch.ones((), device=torch.device("cuda:0")),
    "new tensors": lambda x: x * torch.zeros(2, 8, device="cuda"),
    "index": lambda x: x[torch.arange(2, device="cuda")] * 2,
    "data": lambda x: x[torch.tensor([0, 1], device="cuda")] * 2,
    "streams": lambda x: _on_a_stream(x),
    "events": lambda x: _timed(x),
    "random": lambda x: x * torch.rand(2, 8, device="cuda", generator=torch.Generator(device="cuda")),
    "pinned": lambda x: x.pin_memory().cuda(non_blocking=True) * 2,
    "types": lambda x: x * torch.cuda.FloatTensor(2, 8),
    "names of types": lambda x: x.type("torch.cuda.FloatTensor") * 2,
    "recorded streams": lambda x: _on_a_recorded_stream(x.cuda()),
    "graphs": lambda x: _in_a_graph(x),
    "ranges": lambda x: _in_a_range(x),
    "modules": lambda x: nn.PReLU().cuda()(x) * 2,
}


def _on_a_stream(x):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.cuda.device(0):
        x = x * 2
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.nvtx.range_push("part")
    torch.cuda.nvtx.range_pop()
    return x


def _on_a_recorded_stream(x):
    x.record_stream(torch.cuda.current_stream())
    return x * 2


def _in_a_graph(x):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x = x * 2
    graph.replay()
    return x


def _in_a_range(x):
    with torch.cuda.nvtx.range("part"):
        return x * 2


def _timed(x):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    x = x * 2
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) >= 0
    return x


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("name", GPU)
def test_code_that_names_a_gpu_is_counted_without_one(name):
    before = {key: vars(torch.cuda)[key] for key in ("Stream", "Event", "is_available", "synchronize")}
    report = estimate(gpu(GPU[name]), (2, 8))
    products = [call["flops"] for call in report.layer_report.values() if call["op"] == "mul"]
    assert products == [16]
    assert {key: vars(torch.cuda)[key] for key in before} == before
    if name == "ranges" and torch.version.cuda:  # which need no driver
        return
    assert any("names a GPU" in note for note in report.notes)
    with pytest.raises((AssertionError, RuntimeError, TypeError)):
        GPU[name](X)


class Recomputed(Line):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(lambda x: self.line(x.cuda().square()), x, use_reentrant=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("loss", [None, lambda y: (y.cuda() - torch.ones(2, 4, device="cuda")).sum()])
def test_backward_passes_and_losses_name_a_gpu(loss):
    report = estimate(Line() if loss else Recomputed(), (2, 8), backward=True, loss=loss)
    assert report.by("phase")["backward"]["macs"] == 64
    assert any("names a GPU" in note for note in report.notes)


def test_a_generator_of_the_device_of_an_input():
    model = Called(lambda x: x * torch.rand(x.shape, device=x.device, generator=torch.Generator(x.device)))
    kind = torch.Generator
    assert estimate(model, (2, 8)).total_report["flops"] == 16
    assert torch.Generator is kind


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_model_is_made_for_a_gpu_without_one(tmp_path, monkeypatch):
    (tmp_path / "for_gpu.py").write_text(
        "import torch\n\nclass Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.line = torch.nn.Linear(4, 4).cuda()\n"
        "        self.register_buffer('scale', torch.ones(4, device='cuda'))\n"
        "    def forward(self, x):\n        return self.line(x.cuda()) * self.scale\n"
    )
    monkeypatch.chdir(tmp_path)
    assert estimate("for_gpu.py:Net", (2, 4)).total_report["macs"] == 2 * 16
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(1, device="cuda")


def test_code_that_asks_for_a_gpu_is_told_so():
    def both(x):
        assert x.is_cuda == (x.device.type == "cuda") == torch.cuda.is_available()
        return x * 2 if torch.cuda.is_available() else x + 1

    report = estimate(gpu(both), (2, 8), device="cuda")
    assert [call["op"] for call in report.layer_report.values()] == ["mul"]
    assert torch.cuda.get_device_name is not None
    with pytest.raises(ValueError, match="device must be 'cuda' or None"):
        estimate(Line(), (2, 8), device="h100")


# Attributes that cannot be copied, lazy modules, data-dependent code


class Holds(Line):
    def __init__(self, value):
        super().__init__()
        self.value = value


class NotReduced:
    def __reduce_ex__(self, protocol):
        raise ValueError("no copy")


HELD = {
    "generator": torch.Generator,
    "traced": lambda: torch.jit.trace(lambda x: x * 2, X),
    "pointer": lambda: ctypes.pointer(ctypes.c_int(3)),
    "deepcopy": NotCopied,
    "reduce": lambda: [NotReduced(), {"a": NotReduced()}],
    "thread": threading.local,
    "module": lambda: sys,
}


@dataclass(frozen=True)
class Cast:
    kind: str = "tensor"


@dataclass(frozen=True)
class Precision:
    inputs: Cast = Cast()
    weights: Cast = Cast("row")

    def __call__(self, x):
        return x if self.inputs.kind == "tensor" else -x


def test_frozen_objects_with_defaults_are_copied():
    class Casts(Line):
        def __init__(self):
            super().__init__()
            self.precision = Precision()
            self.cast = self.precision.inputs

        def forward(self, x):
            assert type(self.precision) is Precision
            return self.line(self.precision(x))

    assert estimate(Casts(), (2, 8)).total_report["macs"] == 64


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated")
@pytest.mark.parametrize("name", HELD)
def test_attributes_that_cannot_be_copied_are_shared(name):
    model = Holds(HELD[name]())
    held = model.value
    assert estimate(model, (2, 8)).total_report["macs"] == 64
    assert model.value is held


def test_lazy_modules_get_their_shapes_in_the_copy():
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    report = estimate(model, (2, 3, 8, 8), backward=True)
    assert isinstance(model[0], nn.LazyConv2d) and model[0].has_uninitialized_params()
    model(torch.zeros(2, 3, 8, 8))
    assert totals(report) == totals(estimate(model, (2, 3, 8, 8), backward=True))
    assert report.total_report["n_params_model"] == (4 * 3 * 9 + 4) + 2 * 4 + (4 * 36 * 2 + 2)


class OwnLazyLinear(nn.Module):
    """A layer without ``LazyModuleMixin``, as that of PyTorch Geometric."""

    def __init__(self, n_out):
        super().__init__()
        self.n_out, self.weight = n_out, nn.UninitializedParameter()
        self.hook = self.register_forward_pre_hook(self.initialize)

    @torch.no_grad()
    def initialize(self, module, inputs):
        if nn.parameter.is_lazy(self.weight):
            self.weight.materialize((self.n_out, inputs[0].shape[-1]))
            self.weight.fill_(1.0)
        self.hook.remove()
        del self.hook

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


def test_lazy_modules_of_libraries_get_their_shapes_in_the_copy():
    model = nn.Sequential(OwnLazyLinear(4), nn.ReLU(), OwnLazyLinear(2))
    report = estimate(model, (2, 8), backward=True)
    assert nn.parameter.is_lazy(model[0].weight)
    model(torch.zeros(2, 8))
    assert totals(report) == totals(estimate(model, (2, 8), backward=True))
    assert report.total_report["n_params_model"] == 8 * 4 + 4 * 2


def test_code_that_needs_an_array_gets_the_array():
    numpy = pytest.importorskip("numpy")
    layer, image, threshold = nn.Linear(4, 2), numpy.ones((3, 4), numpy.float32), numpy.zeros(4)

    def predict(image, threshold):
        image[:] = numpy.where(image > threshold, image, 0)  # fails on tensors without data
        return layer(torch.from_numpy(image))

    report = estimate(predict, [image, threshold])
    assert report.total_report["macs"] == 3 * 4 * 2
    assert report.notes == ["arrays among the inputs were passed as arrays: the model does not run on tensors"]
    assert estimate(predict, {"image": image, "threshold": threshold}).total_report == report.total_report
    nested = estimate(
        lambda batch: predict(batch[0]["image"], batch[0]["threshold"]), [[{"image": image, "threshold": threshold}]]
    )
    assert nested.total_report == report.total_report
    report = estimate(lambda image: predict(image, threshold), Value(image))
    assert (report.total_report["macs"], report.notes) == (3 * 4 * 2, [])
    assert image.all()


class Detector(nn.Module):
    """A network whose own postprocessing returns boxes, computed in NumPy."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        scores = self.layer(x)
        return [row.clip(0, 1).tolist() for row in scores.detach().cpu().numpy() if row.max() > 0.5]


def test_a_model_may_end_with_postprocessing_of_arrays():
    pytest.importorskip("numpy")
    report = estimate(Detector(), (3, 4))
    assert report.total_report["macs"] == 3 * 4 * 2
    assert [each.what for each in report.assumptions] == [
        "a NumPy array of a tensor without data was assumed to be all zeros"
    ]


def test_the_error_is_that_of_the_array_that_was_passed():
    numpy = pytest.importorskip("numpy")
    layer = nn.Linear(4, 3)

    def predict(image):
        if not isinstance(image, numpy.ndarray):
            raise NotImplementedError("not an image")
        scores = layer(torch.as_tensor(image))
        return scores @ scores

    with pytest.raises(CostError, match=r"a and b must have same reduction dim.*\(2, 3\)"):
        estimate(predict, numpy.zeros((2, 4), dtype=numpy.float32))


class MadeOfArguments(nn.Module):
    """Its class cannot be called without arguments, not even for a copy."""

    def __new__(cls, layer):
        return super().__new__(cls)

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


def test_a_class_may_need_arguments_to_make_an_object():
    model = MadeOfArguments(nn.Linear(4, 3))
    assert estimate(model, (2, 4), backward=True).total_report["n_params"] == 15


class Matched(nn.Module):
    """Assigns rows to columns in NumPy, as detectors do in their loss."""

    def forward(self, costs):
        numpy = pytest.importorskip("numpy")
        rows = torch.as_tensor(numpy.argsort(numpy.asarray(costs[:, 0]))[:3].tolist())
        return costs[rows].sum()


def test_indices_may_come_from_an_array_without_data():
    report = estimate(nn.Sequential(Matched()), (5, 4))
    assert report.total_report["flops"] == 3 * 4 - 1


def test_a_random_number_may_have_to_lie_in_a_range():
    for largest, assumption in (
        (0.5, "a random number was assumed to be 0.5, the end of its range"),
        (0.25, "a random number was assumed to be -0.5, because the model fails if it is 0.5"),
    ):

        def jitter(x, largest=largest):
            hue = float(torch.empty(1).uniform_(-0.5, 0.5))
            if not -0.5 <= hue <= largest:
                raise ValueError(f"hue {hue}")
            return x + hue

        report = estimate(jitter, torch.rand(2, 3))
        assert report.total_report["flops"] == 2 * 3
        assert [each.what for each in report.assumptions] == [assumption]


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.randint(0, len(x) - 3, (1,)),
        lambda x: torch.randint(5, (1,), device=x.device),
        lambda x: torch.randint_like(torch.zeros(()), 3, 5),
        lambda x: torch.empty(2, dtype=torch.int64).random_(5)[1],
        lambda x: x.new_empty(1).uniform_(2, 5),
    ],
)
def test_random_numbers_are_taken_from_their_range(draw):
    report = estimate(lambda x: x[: int(draw(x))] * 2, torch.rand(8, 3))
    assert report.total_report["flops"] >= 4 * 3
    assert [each.times for each in report.assumptions] == [1]


class Restored(nn.Module):
    """Reads a length, and checks values as ``istft`` does, before it reaches a lazy layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(4)

    def forward(self, x, lengths):
        window = torch.hann_window(16)
        x = torch.istft(torch.stft(x, 16, 4, window=window, return_complex=True), 16, 4, window=window)
        return self.layer(x[:, : int(lengths.max())])


@pytest.mark.filterwarnings("ignore:data-dependent branch")
def test_lazy_modules_get_their_shapes_from_known_values_and_past_checks():
    report = estimate(Restored(), [(2, 64), torch.tensor([5, 7])])
    assert report.total_report["n_params"] == (7 + 1) * 4
    assert report.by("module")["layer"]["macs"] == 2 * 7 * 4


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_an_encoder_with_a_padding_mask_counts_all_positions():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 1).eval()
    mask = torch.tensor([[False, False, False, True, True], [False] * 5])
    report = estimate(model, {"src": (2, 5, 16), "src_key_padding_mask": mask})
    # 10 positions: projections of 16 to 48 and 16 to 16, 16 to 32 and back; 2 x 25 pairs, scores and values of 16.
    assert report.total_report["macs"] == 10 * (16 * 48 + 16 * 16 + 2 * 16 * 32) + 2 * 25 * 2 * 16
    assert report.status == "assumed"


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
@pytest.mark.parametrize("size", [64, 4096])
def test_a_check_inside_of_pytorch_passes(size):
    """PyTorch checks that a window sums to no zero. A small window keeps its values."""

    class Filter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("window", torch.hann_window(size))

        def forward(self, x):
            return torch.istft(torch.stft(x, size, window=self.window, return_complex=True), size, window=self.window)

    model = Filter()
    with torch.no_grad(), ComputationalCostHook() as hook:
        model(torch.zeros(2, 10 * size))
    report = estimate(model, (2, 10 * size))
    assert report.total_report["flops"] == hook.total_report["flops"]
    if size == 64:
        assert report.status == "complete"
    else:
        assert "because the model fails if it is True" in report.assumptions[0].what


def test_a_mask_of_bytes_selects():
    mask = torch.tensor([1, 0], dtype=torch.uint8)
    report = estimate(Called(lambda x: torch.where(mask.unsqueeze(1), x, x * 2)), (2, 8))
    assert [call["op"] for call in report.layer_report.values()] == ["view", "mul", "where"]


def test_one_sample_in_train_mode_names_the_remedy():
    with pytest.raises(CostError, match=r"model\.eval\(\)"):
        estimate(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)), (1, 8))


# Outputs that are no tensors


OUTPUTS = {
    "distribution": lambda y: torch.distributions.Normal(y, 1.0),
    "dict": lambda y: {"a": [y], "n": 3},
    "object": lambda y: Graph(y=y),
    "dataclass": Sample,
}


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_outputs_in_any_container_have_a_backward_pass(name):
    class Returns(Line):
        def forward(self, x):
            return OUTPUTS[name](self.line(x))

    assert estimate(Returns(), (2, 8), backward=True).total_report["macs"] == 64 + 64


def test_an_output_without_tensors_asks_for_a_loss():
    class Nothing(Line):
        def forward(self, x):
            self.line(x)

    with pytest.raises(CostError, match=r"Pass loss=, .* \(NoneType\)"):
        estimate(Nothing(), (2, 8), backward=True)


# Everyday models: an estimate equals a real run


def of_functions(layers, function):
    """A module with ``layers`` that runs ``function(layers, *args)``."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, *args):
            return function(self.layers, *args)

    return Model().eval()


def packed_rows(layers, x, lengths):
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return layers[1](nn.utils.rnn.pad_packed_sequence(layers[0](packed)[0], batch_first=True)[0])


def messages(layers, graph):
    source, target = graph.edge_index
    sent = layers[0](torch.cat((graph.x[source], graph.x[target]), -1))
    summed = sent.new_zeros(graph.x.shape[0], 4).index_add_(0, target, sent)
    summed = summed / torch.bincount(target, minlength=len(summed)).clamp(min=1)[:, None]
    return summed.new_zeros(int(graph.batch.max()) + 1, 4).index_add_(0, graph.batch, summed)


def deformed(layers, x):
    offsets = layers[0](x).unflatten(1, (9, 2)).permute(0, 1, 3, 4, 2)
    lines = torch.linspace(-1, 1, x.shape[-1], device=x.device)
    grid = torch.stack(torch.meshgrid(lines, lines, indexing="xy"), -1) + 0.1 * offsets
    sampled = nn.functional.grid_sample(x, grid.flatten(1, 2), align_corners=True).unflatten(2, (9, -1))
    return (
        layers[1](sampled.flatten(1, 2))
        + nn.functional.fold(nn.functional.unfold(x, 3, padding=1), 6, 3, padding=1)[:, :1]
    )


def forces(layers, positions):
    with torch.enable_grad():
        positions = positions.detach().requires_grad_()
        energy = layers[1](layers[0](positions).tanh()).sum()
        return {"energy": energy, "forces": -torch.autograd.grad(energy, positions)[0]}


def ensemble(layers, x):
    parameters, buffers = torch.func.stack_module_state([*layers])
    run = torch.func.vmap(lambda p, b: torch.func.functional_call(layers[0], (p, b), (x,)))
    return run(parameters, buffers).mean(0)


def four_bits(layers, x):
    packed = layers[0].weight.long() & 255
    weight = torch.stack((packed & 15, packed >> 4), -1).flatten(1).to(x.dtype) - 8
    return x @ weight.mT


def until_finished(layers, x):
    is_finished = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    for length in range(10):
        x = layers[0](x)
        at_end = torch.full((len(x),), length >= 3, device=x.device)
        is_finished = is_finished | (x.sum(-1) > 1e9) | at_end
        if bool(is_finished.all()):
            break
    return x


def convolved(layers, x):
    kernel, signal = (torch.fft.rfft(y, n=16) for y in (layers[0].weight, layers[0](x).mT))
    return torch.fft.irfft(signal * kernel, n=16)[..., : x.shape[1]]


def cosine_of_numpy(layers, x):
    return layers[0](x) * torch.from_numpy(np.hanning(8).astype(np.float32)).to(x.device)


def by_cells(layers, x):
    state = None
    for step in x.unbind(1):
        state = layers[0](step, state)
    return state


def by_sample(layers, x, lengths):
    return torch.stack([part.amax(0) for part in layers[0](x).split(lengths.tolist())])


def matched(layers, x, targets):
    boxes = torch.cat([each["boxes"] for each in targets])
    return {"cost": torch.cdist(layers[0](x), boxes, p=1), "n": sum(len(each["labels"]) for each in targets)}


def resized(layers, x, size):
    return nn.functional.interpolate(layers[0](x), size=tuple(size.tolist()))


def spectrum(layers, x):
    window = torch.hann_window(16, device=x.device)
    return layers[0](torch.stft(x, 16, 4, window=window, return_complex=True).abs().clamp(min=1e-5).log().mT)


GRAPH = Graph(
    x=torch.zeros(6, 8), edge_index=torch.tensor([[0, 1, 2, 4], [1, 2, 0, 5]]), batch=torch.tensor([0, 0, 0, 1, 1, 1])
)

TARGETS = [
    {"boxes": torch.zeros(2, 4), "labels": torch.tensor([1, 2])},
    {"boxes": torch.zeros(1, 4), "labels": torch.tensor([0])},
]

JAGGED = torch.nested.nested_tensor([torch.zeros(n, 8) for n in (2, 5)], layout=torch.jagged)

EVERYDAY = {
    "packed": (
        [nn.GRU(8, 6, batch_first=True), nn.Linear(6, 2)],
        packed_rows,
        (torch.zeros(3, 7, 8), torch.tensor([5, 7, 2])),
    ),
    "graph": ([nn.Linear(16, 4)], messages, (GRAPH,)),
    "deformable": ([nn.Conv2d(3, 18, 3, padding=1), nn.Conv2d(27, 5, 1)], deformed, (torch.zeros(2, 3, 6, 6),)),
    "jagged": ([nn.Linear(8, 4)], lambda layers, x: layers[0](x).relu().to_padded_tensor(0.0), (JAGGED,)),
    "forces": ([nn.Linear(3, 8), nn.Linear(8, 1)], forces, (torch.zeros(5, 3),)),
    "ensemble": ([nn.Linear(8, 4) for _ in range(3)], ensemble, (X,)),
    "4 bits": ([nn.Linear(4, 8)], four_bits, (X,)),
    "loop": ([nn.Linear(8, 8)], until_finished, (X,)),
    "long convolution": ([nn.Linear(8, 8)], convolved, (torch.zeros(2, 8, 8),)),
    "numpy": ([nn.Linear(8, 8)], cosine_of_numpy, (X,)),
    "cells": ([nn.GRUCell(8, 6)], by_cells, (torch.zeros(2, 4, 8),)),
    "lengths": ([nn.Linear(8, 4)], by_sample, (torch.zeros(9, 8), torch.tensor([2, 4, 3]))),
    "targets": ([nn.Linear(8, 4)], matched, (torch.zeros(5, 8), TARGETS)),
    "size": ([nn.Conv2d(3, 4, 3)], resized, (torch.zeros(1, 3, 8, 8), torch.tensor([12, 10]))),
    "audio": ([nn.Linear(9, 4)], spectrum, (torch.zeros(2, 64),)),
    "selected": (
        [nn.Linear(8, 4)],
        lambda layers, x, mask: layers[0](x[mask]),
        (torch.zeros(3, 8), torch.tensor([True, False, True])),
    ),
    "bag": (
        [nn.EmbeddingBag(100, 8)],
        lambda layers, ids, starts: layers[0](ids, starts),
        (torch.arange(10), torch.tensor([0, 4])),
    ),
    "compiled": ([torch.compile(nn.Linear(8, 4), backend="eager")], lambda layers, x: layers[0](x), (X,)),
    "copies": ([nn.DataParallel(nn.Linear(8, 4))], lambda layers, x: layers[0](x), (X,)),
    "mixed": ([nn.Linear(8, 4)], lambda layers, x: layers[0](x * torch.distributions.Beta(1.0, 1.0).sample()), (X,)),
    "drawn": (
        [nn.Linear(8, 4)],
        lambda layers, x: torch.distributions.Binomial(5, layers[0](x).sigmoid()).sample(),
        (X,),
    ),
    "tied": ([nn.Linear(8, 4)], lambda layers, x: nn.functional.linear(layers[0](x), layers[0].weight.mT), (X,)),
}


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_models_equal_a_run(name):
    if name == "jagged" and RELEASE < (2, 5):
        pytest.skip("PyTorch 2.4 pads no jagged tensor")
    layers, function, arguments = EVERYDAY[name]
    model = of_functions(layers, function)
    with torch.no_grad(), ComputationalCostHook() as hook:
        model(*arguments)
    assert totals(estimate(model, arguments)) == totals(hook)


class Generates(Line):
    def forward(self, n):
        return self.line(torch.randn(n, 8))


def test_a_number_that_is_no_shape_is_a_number():
    report = estimate(Generates(), (3,))
    assert report.total_report["macs"] == 3 * 32
    assert any("3 were read as numbers" in note for note in report.notes)


def test_a_sentence_is_no_shape():
    words = {"two": 0, "words": 1}
    model = Reads(lambda text: nn.functional.one_hot(torch.tensor([words[word] for word in text.split()]), 8).float())
    assert estimate(model, ("two words",)).total_report["macs"] == 2 * 32


def test_text_that_is_not_in_a_tuple_names_the_remedy():
    with pytest.raises(TypeError, match=r"Text goes into a tuple: \('two words',\)$"):
        estimate(Line(), "two words")


def totals(report):
    total = report.total_report
    return {key: total[key] for key in ("flops", "macs", "mread", "mwrite", "n_params")}


class Record(NamedTuple):
    x: torch.Tensor
    scale: float = 2.0


class ReadsRecord(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 3)

    def forward(self, batch):
        given = batch._asdict() if isinstance(batch, Record) else batch
        return self.line(given["x"]) * given["scale"]


@pytest.mark.parametrize("batch", [Record(torch.ones(2, 4)), {"x": torch.ones(2, 4), "scale": 2.0}])
def test_a_record_of_which_the_model_takes_no_items_is_one_argument(batch):
    report = estimate(ReadsRecord(), batch)
    assert report.total_report["macs"] == 24
    assert report.status == "complete"


class CountsUses(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.weight.uses, self.weight.history = 0, [torch.zeros(3)]

    def forward(self, x):
        self.weight.uses += 1
        self.weight.history.append(super().forward(x))
        return self.weight.history[-1] * self.weight.uses + self.weight.history[0]


def test_attributes_of_parameters_are_copied():
    net = CountsUses()
    assert estimate(net, (2, 4), backward=True).total_report["macs"] == 48
    assert (net.weight.uses, len(net.weight.history), net.weight.history[0].device.type) == (0, 1, "cpu")


class Clipped(torch.optim.Optimizer):
    def __init__(self, optimizer):  # as that of Opacus, without the parent's
        self.optimizer = optimizer

    @property
    def defaults(self):
        return self.optimizer.defaults

    @property
    def state(self):
        return self.optimizer.state

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.clamp_(-1, 1)
        self.optimizer.step()


def test_an_optimizer_around_another_one_is_copied():
    net, x = nn.Linear(4, 3), torch.ones(2, 4)
    optimizer = Clipped(torch.optim.SGD(net.parameters(), lr=0.1))

    def step(x):
        net(x).sum().backward()
        optimizer.step()

    before = net.weight.detach().clone()
    report = estimate(step, x)
    assert net.weight.grad is None and torch.equal(before, net.weight)
    with ComputationalCostHook() as hook:
        step(x)
    assert report.by("phase")["optimizer"]["flops"] == hook.report.by("phase")["optimizer"]["flops"] > 0
    assert report.total_report["flops"] == hook.report.total_report["flops"]


def of_a_list(net):
    return torch.tensor([[1.0, 2.0, 3.0, 4.0]], requires_grad=True)


def of_an_array(net):
    x = torch.from_numpy(np.ones((1, 4), "float32"))
    x.requires_grad = True
    return x


def of_a_grid(net):
    return torch.linspace(0, 1, 4).view(1, 4).requires_grad_()


def of_a_range(net):
    return torch.arange(4.0, requires_grad=True)


@pytest.mark.parametrize("make", [of_a_list, of_an_array, of_a_grid, of_a_range])
def test_inputs_that_the_code_makes_have_gradients(make):
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    kept = []

    def step():
        x = make(net)
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        kept.append(x)

    report = estimate(step)
    with ComputationalCostHook() as hook:
        step()
    counted = [{phase: costs["flops"] for phase, costs in each.by("phase").items()} for each in (report, hook.report)]
    assert counted[0] == counted[1]
    assert report.status == "complete"
    assert all(x.device.type == "cpu" for x in kept)


class CopiedByClone(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def __deepcopy__(self, memo):  # as that of tensordict, which ignores the memo
        return CopiedByClone(nn.Parameter(self.weight.detach().clone()))

    def forward(self, x):
        return x @ self.weight


def test_the_optimizer_updates_the_copy_of_a_module_that_copies_itself():
    tied = nn.Linear(4, 3, bias=False)
    tied.weight = nn.Parameter(torch.ones(4, 3))
    net = nn.Sequential(CopiedByClone(tied.weight), nn.Tanh())
    net.tied = tied
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        net(x).sum().backward()
        optimizer.step()

    assert estimate(step, (2, 4)).by("phase")["optimizer"]["flops"] == 12


class SavesItsNet:
    def __init__(self):  # as that of skorch, which pickles its modules to a file in memory
        self.net = nn.Linear(4, 3)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def __getstate__(self):
        file = io.BytesIO()
        torch.save(vars(self), file)
        return {"saved": file.getvalue()}

    def __setstate__(self, state):
        vars(self).update(torch.load(io.BytesIO(state["saved"]), weights_only=False))

    def step(self, x):
        self.net(x).sum().backward()
        self.optimizer.step()


def test_an_object_that_saves_its_model_is_copied_by_its_attributes():
    trainer = SavesItsNet()
    report = estimate(lambda x: trainer.step(x), (2, 4))
    assert report.total_report["n_params"] == 15
    assert report.by("phase")["optimizer"]["flops"] == 15
    assert trainer.net.weight.grad is None


class AnswersEverything:
    __slots__ = ("answer",)

    def __init__(self, answer):  # as the libraries of llvmlite, which a function of numba holds
        self.answer = answer

    def __getattr__(self, name):
        return self.answer


class HoldsALibrary:
    def __init__(self):
        self.library, self.net = AnswersEverything(max), nn.Linear(4, 3)

    def __call__(self, x):
        return self.net(x)


def test_an_object_that_has_every_attribute_is_no_part_of_the_model():
    explainer = HoldsALibrary()
    assert estimate(lambda x: explainer(x), (2, 4)).total_report["macs"] == 24


class Learner:
    """Trains and runs a network, as the agents of many repositories."""

    def __init__(self):
        self.net, self.log_alpha = nn.Linear(4, 3), torch.zeros(1, requires_grad=True)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.loader = [torch.zeros(2, 4)]

    def epoch(self, number):
        for i, x in enumerate(self.loader):
            self.step(x, f"{number:d}.{i}")

    def step(self, x, name=""):
        loss = self.net(x).sum()
        if loss == 0:
            return None
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return self.net

    def act(self, x):
        return self.net(torch.FloatTensor(x))


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
@pytest.mark.parametrize(("method", "given"), [("step", (2, 4)), ("epoch", (1,)), ("epoch", {"number": 1})])
def test_a_trainer_that_skips_batches_and_returns_its_model_is_counted_whole(method, given):
    phases = estimate(getattr(Learner(), method), given).by("phase")
    assert [phases[name]["macs"] for name in ("forward", "backward")] == [24, 24]
    assert phases["optimizer"]["flops"] == 15


def test_a_tensor_of_an_object_that_no_call_reads_is_a_parameter_of_it():
    report = estimate(Learner().act, [np.zeros((2, 4), "float32")])
    assert report.total_report["macs"] == 24
    assert "no call reads 1 of the 16 parameters: the model itself" in report.notes


def test_a_lone_number_says_how_to_pass_it():
    with pytest.raises(TypeError, match=r"A number goes into a tuple: \(1,\)$"):
        estimate(Learner().epoch, 1)


def test_the_type_of_a_tensor_is_the_default_dtype():
    net = Reads(lambda x: x.double().type(type(x.data)))
    assert estimate(net, (2, 8)).total_report["macs"] == 64
    assert estimate(Reads(lambda x: x.cuda().type(type(x.data))), (2, 8)).total_report["macs"] == 64


def test_moving_inputs_to_the_cpu_is_no_assumption():
    def layout(x):
        return x.to(device="cpu", dtype=torch.float32, memory_format=torch.channels_last) * 2

    report = estimate(layout, (2, 3, 4, 5))
    assert (report.status, report.assumptions) == ("complete", [])


class NotBuilt(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        raise AttributeError("the kernel is not built")


class FusedElsewhere(Line):
    """Has a kernel of its own, except on a CPU, as many GANs do."""

    def forward(self, x):
        y = self.line(x)
        if y.device.type == "cpu":
            return y * torch.ones(4, device=y.device) + torch.ones(4, device="cpu")
        return NotBuilt.apply(y)


@pytest.mark.parametrize("backward", [False, True])
def test_code_with_a_path_for_a_cpu_takes_it(backward):
    report = estimate(FusedElsewhere(), (2, 8), backward=backward)
    assert report.total_report["macs"] == 2 * 32 * (1 + backward)
    assert report.by("op")["mul"]["flops"] == 8 * (1 + backward)
    assert report.notes == ["the code asks whether a tensor is on a CPU: counted as if it were"]


def test_code_that_fails_on_a_cpu_is_counted_as_on_another_device():
    def needs_more(x):
        if x.device.type == "cpu":
            raise ValueError("not on a CPU")
        return x @ x.mT

    report = estimate(needs_more, (4, 4))
    assert report.total_report["macs"] == 64
    assert report.notes == ["the code fails if a tensor says that it is on a CPU: counted as on another device"]


def test_the_first_error_stands_if_no_device_helps():
    def fails(x):
        if x.device.type == "cpu":
            raise ValueError("not on a CPU")
        return NotBuilt.apply(x)

    with pytest.raises(CostError, match="not on a CPU"):
        estimate(fails, (2, 8))


CPU = torch.device("cpu")

QUESTIONS = {
    "type": lambda x: x.device.type == "cpu",
    "other type": lambda x: x.device.type != "cuda",
    "not": lambda x: operator.not_(x.device.type != "cpu"),
    "in": lambda x: x.device.type in ("cpu", "mps"),
    "table": lambda x: {"cpu": True, "cuda": False}[x.device.type],
    "text": lambda x: str(x.device) == "cpu" and "cuda" not in str(x.device) and f"{x.device}" == "cpu",
    "start": lambda x: x.device.type.startswith("cpu") and str(x.device).split(":")[0] == "cpu",
    "device": lambda x: x.device == CPU and operator.eq(CPU, x.device) and x.device.index is None,
    "not device": lambda x: operator.not_(x.device != CPU),
    "flag": lambda x: x.is_cpu and not x.is_cuda,
    "number": lambda x: x.get_device() < 0,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_about_the_device_have_the_answers_of_a_run(name):
    def both(x):
        return x @ x.mT if QUESTIONS[name](x) else x.relu()

    before, x = dict(vars(torch.Tensor)), torch.ones(4, 4)
    with ComputationalCostHook() as hook:
        both(x)
    assert totals(estimate(both, (4, 4))) == totals(hook)
    assert dict(vars(torch.Tensor)) == before
    if name not in ("other type", "number"):
        on_gpu = estimate(lambda x: x.relu() if QUESTIONS[name](x) else x @ x.mT, (4, 4), device="cuda")
        assert on_gpu.total_report["macs"] == 64


def test_what_code_makes_on_the_device_of_a_tensor_has_no_data():
    def makes(x):
        device = x.device
        assert isinstance(device, torch.device) and copy.deepcopy(device) == device == x.device
        made = [
            torch.zeros(4, device=device),
            torch.zeros(4, device=device.type),
            torch.zeros(4, device=str(device)),
            torch.zeros(4, device=torch.device(device)),
            torch.ones(4).to(device),
            torch.randn(4, device=device, generator=torch.Generator(device)),
            nn.Linear(2, 2, device=device).weight,
            nn.Linear(2, 2).to(device).weight,
        ]
        with device, torch.autocast(device.type, dtype=torch.bfloat16):
            made.append(x @ torch.zeros(4, 4))
        assert all(y.is_meta for y in made) and made[-1].dtype is torch.bfloat16
        return x

    estimate(makes, (4, 4))


@pytest.mark.parametrize("is_pinned", [False, True])
def test_saving_on_the_cpu_costs_what_it_does_there(is_pinned):
    net, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), torch.ones(2, 8)

    def step(x):
        with torch.autograd.graph.save_on_cpu(pin_memory=is_pinned):
            y = net(x)
        y.sum().backward()

    report = estimate(step, (2, 8))
    with ComputationalCostHook() as hook:
        step(x)
    assert totals(report) == totals(hook)


@pytest.mark.parametrize("to_none", [None, False, True])
def test_a_step_adds_to_the_gradients_that_there_are(to_none):
    net, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), torch.ones(2, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        if to_none is not None:
            optimizer.zero_grad(set_to_none=to_none)
        net(x).sum().backward()
        optimizer.step()

    found = []
    for _ in range(2):
        before = [None if each.grad is None else each.grad.clone() for each in net.parameters()]
        report = estimate(step, (2, 8))
        assert all(
            each.grad is y or torch.equal(each.grad, y) for each, y in zip(net.parameters(), before, strict=True)
        )
        with ComputationalCostHook() as hook:
            step(x)
        assert totals(report) == totals(hook)
        found.append(report.total_report["flops"])
    assert found[1] - found[0] == (0 if to_none else 108)
    added = ["the step adds to existing gradients of the parameters; a step after zero_grad() does not"]
    assert report.notes == ([] if to_none else added)


class Stored(Line):
    """Stores its source code in files, as the networks of NVIDIA do."""

    def __reduce__(self):
        return Stored, (), None


def test_a_model_with_a_reduce_for_files_is_copied_by_its_attributes():
    net = Stored()
    net.line = nn.Linear(8, 2)
    report = estimate(nn.Sequential(net), (3, 8), optimizer="sgd")
    assert report.by("phase")["forward"]["macs"] == 3 * 16
    assert report.by("phase")["optimizer"]["flops"] == 18


def scripted_by_class():
    class ScriptedLine(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(8, 4)

        @torch.jit.script_method
        def forward(self, x):
            return self.line(x)

    return ScriptedLine()


@pytest.mark.filterwarnings("ignore:`torch.jit.script")
@pytest.mark.parametrize("make", [lambda: torch.jit.script(Line()), scripted_by_class], ids=["script", "class"])
def test_optimizers_see_the_parameters_of_scripted_modules(make):
    net = nn.Sequential(make(), nn.Linear(4, 2))
    parameters, optimizer = [*net.parameters()], torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        net(x).sum().backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    report, x = estimate(step, (3, 8)), torch.ones(3, 8)
    with ComputationalCostHook() as hook:
        step(x)
    assert report.by("phase")["optimizer"]["flops"] == 36 + 10
    assert totals(report) == totals(hook)
