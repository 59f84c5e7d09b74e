"""The probes of costcore-probes in PyTorch and ONNX: the loops compute what PyTorch does, and costcore is right."""

from __future__ import annotations

import pytest

from costcore_probes.adapter import adapter
from costcore_probes.catalogue import all_probes
from costcore_probes.frameworks import build
from costcore_probes.loops import attention, conv, conv_transpose, einsum, linear
from costcore_probes.score import judge
from costcore_probes.worker import answer

pytestmark = pytest.mark.filterwarnings("ignore")  # networks of all kinds, deprecated ones too

PROBES = all_probes()
COSTCORE = adapter("costcore")
ASKED = [(probe, format) for probe in PROBES.values() for format in COSTCORE.accepts(probe)]


def accumulate(triples, x, w, shape):
    """Accumulate the products that triples name into zeros; an index of None is a zero, or is dropped."""
    import torch

    y = torch.zeros(shape, dtype=torch.int64)
    for out, first, second in triples:
        if out is not None and first is not None:
            y[out] += x[first] * w[second]
    return y


def numbers(*shape):
    import torch

    return torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((5, 4), {"stride": 2, "padding": 1}),
        ((6, 5), {"dilation": 2}),
        ((4, 4), {"groups": 2}),
        ((7,), {"stride": 3, "padding": 2, "groups": 4}),
    ],
)
def test_the_loops_of_convolutions_compute_them(sizes, options):
    import torch.nn.functional as F  # noqa: N812

    groups = options.get("groups", 1)
    kernel = (3, 2)[: len(sizes)]
    x = numbers(2, 4, *sizes)
    w = numbers(8, 4 // groups, *kernel)
    expected = (F.conv1d, F.conv2d)[len(sizes) - 1](x, w, **options)
    assert accumulate(conv(2, 4, 8, sizes, kernel, **options), x, w, expected.shape).equal(expected)
    w = numbers(4, 8 // groups, *kernel)
    expected = (F.conv_transpose1d, F.conv_transpose2d)[len(sizes) - 1](x, w, **options)
    assert accumulate(conv_transpose(2, 4, 8, sizes, kernel, **options), x, w, expected.shape).equal(expected)


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize("equation", ["ik,kj->ij", "bik,kj->bij", "bqhd,bkhd->bhqk", "i,i->", "bij,j->bi"])
def test_the_loops_of_contractions_compute_them(equation):
    import torch

    sizes = dict(zip("bdhijkq", (2, 3, 4, 5, 6, 7, 3), strict=True))
    first, second = (numbers(*(sizes[c] for c in part)) for part in equation.split("->")[0].split(","))
    expected = torch.einsum(equation, first, second)
    assert accumulate(einsum(equation, sizes), first, second, expected.shape).equal(expected)


@pytest.mark.frontend("pytorch")
def test_the_loops_of_a_linear_layer_and_of_attention_compute_them():
    x, w = numbers(3, 5), numbers(4, 5)
    assert accumulate(linear(3, 5, 4), x, w, (3, 4)).equal(x @ w.T)
    q, k, v = numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), numbers(1, 2, 5, 6)
    triples = list(attention(1, 2, 3, 5, 4, values=6))
    scores = accumulate(triples[: 2 * 3 * 5 * 4], q, k, (1, 2, 3, 5))
    assert scores.equal(q @ k.transpose(-1, -2))
    assert accumulate(triples[2 * 3 * 5 * 4 :], scores, v, (1, 2, 3, 6)).equal(scores @ v)


GROUPED = ("architectures.llama_7b_block", "architectures.llama3_8b_block", "attention.grouped")
"""The probes that are written with ``enable_gqa`` in PyTorch."""


def skip_what_pytorch_lacks(probe, format):
    if format == "torch" and probe.id in GROUPED:
        from tests.frontends.pytorch.differences import HAS_GROUPED_QUERIES

        if not HAS_GROUPED_QUERIES:
            pytest.skip("this PyTorch has no enable_gqa, with which the network is written")


@pytest.mark.parametrize(
    ("probe", "format"),
    [
        pytest.param(probe, format, id=f"{probe.id}@{format}", marks=pytest.mark.frontend(name))
        for probe, format in ASKED
        for name in [{"torch": "pytorch"}.get(format, format)]
    ],
)
def test_costcore_is_right(probe, format):
    skip_what_pytorch_lacks(probe, format)
    cell = judge(probe, COSTCORE, answer(COSTCORE, probe.id, format))
    assert cell.verdict == "right", cell.sentence


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize("probe", [p for p in PROBES.values() if p.torch and p.small is None], ids=lambda p: p.id)
def test_networks_run(probe):
    skip_what_pytorch_lacks(probe, "torch")
    module, inputs = build(probe, "torch")
    module(*inputs)
