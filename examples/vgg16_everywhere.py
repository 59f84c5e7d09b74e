"""VGG16 in PyTorch, Chainer and ONNX: the same operators with the same costs, call by call.

`make demo` runs this file. No weights are downloaded or needed: PyTorch counts on the meta device, the ONNX model
refers to a weight file that does not exist, and Chainer runs once on random weights.
"""

import costcore.frontends.chainer  # noqa: F401, I001 - before chainer: makes it import on today's numpy
import chainer
import numpy
import onnx
import torch
from onnx import TensorProto, helper
from texttable import Texttable

from costcore import ComputationalCostHook, Report, estimate

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
DENSE = (4096, 4096, 1000)
SHAPE = (1, 3, 224, 224)


def pytorch() -> Report:
    """Count VGG16 as a torch.nn.Module on the meta device."""
    layers: list[torch.nn.Module] = []
    channels = SHAPE[1]
    with torch.device("meta"):
        for block in BLOCKS:
            for width in block:
                layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.ReLU()]
                channels = width
            layers.append(torch.nn.MaxPool2d(2))
        layers.append(torch.nn.Flatten())
        features = channels * 7 * 7
        for width in DENSE:
            layers += [torch.nn.Linear(features, width), torch.nn.ReLU()]
            features = width
        layers[-1] = torch.nn.Softmax(dim=1)
        net = torch.nn.Sequential(*layers)
    return estimate(net, SHAPE)


def chainer_() -> Report:
    """Count Chainer's own VGG16 link by running it once inside the hook."""
    net = chainer.links.VGG16Layers(pretrained_model=None)
    x = numpy.zeros(SHAPE, numpy.float32)
    with chainer.no_backprop_mode(), chainer.using_config("train", False), ComputationalCostHook() as hook:
        net(x)
    return hook.report


def onnx_() -> Report:
    """Count VGG16 as an ONNX graph whose external weight file does not exist."""
    nodes, weights = [], []
    value, channels = "x", SHAPE[1]

    def weight(name: str, *shape: int) -> str:
        tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="no_such_file.bin")
        weights.append(tensor)
        return name

    def node(kind: str, *parameters: str, **attributes: object) -> None:
        nonlocal value
        result = f"{kind}_{len(nodes)}"
        nodes.append(helper.make_node(kind, [value, *parameters], [result], **attributes))
        value = result

    for i, block in enumerate(BLOCKS, 1):
        for j, width in enumerate(block, 1):
            names = weight(f"w{i}_{j}", width, channels, 3, 3), weight(f"b{i}_{j}", width)
            node("Conv", *names, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            node("Relu")
            channels = width
        node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    node("Flatten")
    features = channels * 7 * 7
    for i, width in enumerate(DENSE, 6):
        node("Gemm", weight(f"w{i}", width, features), weight(f"b{i}", width), transB=1)
        node("Relu" if i < 8 else "Softmax")
        features = width
    result = helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, DENSE[-1]])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    graph = helper.make_graph(nodes, "VGG16", [x], [result], weights)
    return estimate(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def main() -> int:
    """Print the three reports side by side; return 0 if they are equal."""
    versions = f"torch {torch.__version__}, chainer {chainer.__version__}, onnx {onnx.__version__}"
    print(f"VGG16, input {SHAPE}, one FLOP per fused multiply-add; {versions}\n")
    reports = {"PyTorch": pytorch(), "Chainer": chainer_(), "ONNX": onnx_()}
    table = Texttable(max_width=0)
    table.set_cols_dtype(["t"] * 7)
    table.set_deco(Texttable.HEADER)
    table.header([*reports, "FLOPs", "read (bytes)", "written (bytes)", "equal"])
    table.set_cols_align(["l", "l", "l", "r", "r", "r", "l"])
    equal = True
    for calls in zip(*(report.layer_report.values() for report in reports.values()), strict=True):
        is_equal = all(call[key] == calls[0][key] for call in calls for key in ("flops", "macs", "mread", "mwrite"))
        equal = equal and is_equal
        costs = [f"{calls[0][key]:,}" for key in ("flops", "mread", "mwrite")]
        table.add_row([*(call["name"] for call in calls), *costs, "yes" if is_equal else "NO"])
    print(table.draw(), "\n")
    for name, report in reports.items():
        total = report.total_report
        print(
            f"{name:>8}: {total['flops']:,} FLOPs, {total['macs']:,} MACs, {total['mread']:,} B read, "
            f"{total['mwrite']:,} B written, {total['n_params']:,} parameters"
        )
    totals = [[report.total_report[k] for k in ("flops", "macs", "mrw", "n_params")] for report in reports.values()]
    equal = equal and totals[0] == totals[1] == totals[2]
    print("\nAll three frameworks give the same costs." if equal else "\nThe three frameworks differ.")
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
