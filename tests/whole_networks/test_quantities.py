"""Every quantity of every part of every kind of run, in every use: a value, or a sentence that says what is needed."""

from __future__ import annotations

import io

import pytest

from costcore import CostError, Report, check, compare, estimate, quantities, table
from tests.frameworks import with_chainer

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

PARTS = ("call", "type", "op", "module", "phase", "dtype", "native", "tree", "run")
PARAMETERS = {"CONVENTION": "fvcore", "LEVEL": "compiler", "DEVICE[:DTYPE]": "l4:bfloat16"}
KINDS = {row["name"].partition("@")[0]: row["kind"] for row in quantities().rows}
NUMBERS = ("bytes", "count", "flops", "percent", "seconds", "duration")
NAMES = [
    stem + (f"@{PARAMETERS[parameter]}" if parameter else "")
    for stem, _, parameter in (row["name"].partition("@") for row in quantities().rows)
]


def network():
    layers = [
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 5),
    ]
    return torch.nn.Sequential(*layers)


def onnx_file(batch):
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["y"], "conv"),
        onnx.helper.make_node("Relu", ["y"], ["z"], "relu"),
    ]
    x, z = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [batch, channels, size, size])
        for name, channels, size in (("x", 3, 6), ("z", 4, 4))
    )
    w = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4, 3, 3, 3], [0.0] * 108)
    return onnx.helper.make_model(onnx.helper.make_graph(nodes, "net", [x], [z], [w]))


def inference():
    return estimate(network().eval(), (2, 3, 6, 6), memory=True)


def training():
    return estimate(network(), (2, 3, 6, 6), backward=True, memory=True, optimizer="adam")


def of_mesh():
    from torch.distributed.tensor.parallel import ColwiseParallel

    from tests.frontends.pytorch.differences import HAS_MESH

    if not HAS_MESH:
        pytest.skip("a mesh needs PyTorch 2.5")
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    return estimate(net, (2, 8), mesh={"tp": 2}, plan={"0": ColwiseParallel()})


def of_chainer():
    chainer = with_chainer()
    import numpy

    link = chainer.links.Linear(4, 3)
    return estimate(link, numpy.zeros((2, 4), "float32"))


RUNS = {
    "inference": inference,
    "training": training,
    "onnx": lambda: estimate(onnx_file(2)),
    "symbolic onnx": lambda: estimate(onnx_file("N")),
    "chainer": of_chainer,
    "mesh": of_mesh,
    "saved": lambda: Report.from_json(inference().to_json()),
}


def refused(error):
    """Whether the message of an error is a sentence that says what is needed."""
    text = str(error)
    says = ("needs", "Pass ", "pass ", "known of the whole run", "was not calibrated", "is text", "do not add up")
    says += (
        "inference only",
        "arena of an inference",
        "Substitute",
        "symbolic",
        "cannot",
        "no input",
        "no image",
        "counts by",
    )
    return any(each in text for each in says)


@pytest.fixture(scope="module", params=RUNS)
def report(request):
    return RUNS[request.param]()


@pytest.mark.parametrize("part", PARTS)
def test_every_quantity_of_every_part_is_shown_or_refused(report, part):
    shown = 0
    for name in NAMES:
        try:
            found = report.table(part, columns=[name], sort=name, top=2)
        except CostError as error:
            assert refused(error), (name, str(error))
            continue
        shown += 1
        for mode in ("table", "md", "csv"):
            found.show(io.StringIO(), mode)
        assert found.to_csv().splitlines()[0].endswith(name)
        assert name in found.to_json() and found.columns[-1].title.replace("+", "")[:3] in found.to_html()
        assert len(found.to_pandas()) == len(found)
    assert shown > 30


def test_every_quantity_is_limited_compared_swept_and_drawn_or_refused(report):
    for name in NAMES:
        uses = {
            "budget": lambda name=name: check(report, {"total": {name: 0 if "seconds" not in name else 1e-30}}),
            "module": lambda name=name: check(report, {"module": {"*": {name: 1}}}),
            "compare": lambda name=name: compare(report, report, columns=[name]).to_markdown(),
            "plot": lambda name=name: report.plot(column=name),
            "formula": lambda name=name: report.formula(name),
            "node data": lambda name=name: report.to_model_explorer(column=name),
            "page": lambda name=name: report.to_html(columns=[name]),
        }
        for use in uses.values():
            try:
                use()
            except (CostError, ValueError) as error:
                assert refused(error) or "has no limit" in str(error), (name, str(error))
    numbers = [name for name in NAMES if KINDS[name.partition("@")[0]] in NUMBERS]
    (row,) = table([("net", report)], columns=numbers).rows
    assert not row.failed
    unknown = [name for name, value in row.costs.items() if value is None]
    assert all(f"{name} is unknown: " in row.status for name in unknown)


def test_the_list_is_a_table():
    found = quantities()
    assert "| bound_seconds@DEVICE[:DTYPE] | duration |" in found.to_markdown()
