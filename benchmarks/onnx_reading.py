"""Measures reading of ONNX models: time and memory with external and embedded weights, time per node and with symbols.

Run in the root of the repository: ``python benchmarks/onnx_reading.py [--rounds N] [case ...]``. Each measurement runs
in its own process. Time is CPU time, memory is the peak, both without the imports. Weights are holes in sparse files,
which take no disk space and are deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from onnx import GraphProto, ModelProto, TensorProto, helper

from costcore.isolated import python_command

WIDTH = 2500
LAYER = 4 * WIDTH * WIDTH
"""Bytes of the weight of one layer, 25 MB."""

MEASURE = """
import json, sys, time
import numpy, onnx, sympy, costcore
from pathlib import Path
from costcore.registry import load
from costcore.registry import calculators
load("onnx"), calculators(), sympy.Symbol("n"), costcore.estimate
def peak():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith("VmHWM"))
before, start = peak(), time.process_time()
ACTION
print(json.dumps([time.process_time() - start, (peak() - before) / 1024]))
"""
ESTIMATE = "costcore.estimate(sys.argv[1])"
TOTAL = "costcore.estimate(sys.argv[1]).total_report"
LOAD = "onnx.load(sys.argv[1])"


def field(number: int, content: bytes, more: int = 0) -> bytes:
    """Return a protobuf field of bytes without its last ``more`` bytes."""
    length, head = len(content) + more, bytearray([number << 3 | 2])
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(head) + bytes([length]) + content


def products(count: int) -> GraphProto:
    """Return a chain of matrix products and activations, without its weights."""
    nodes = []
    for i in range(count):
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"]))
        nodes.append(helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"]))
    entries = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ("n", WIDTH)) for n in ("x0", f"x{count}")]
    return helper.make_graph(nodes, "products", entries[:1], entries[1:])


def weight(i: int) -> TensorProto:
    """Return the weight of a layer, without its elements."""
    return TensorProto(name=f"w{i}", dims=(WIDTH, WIDTH), data_type=TensorProto.FLOAT)


def around(graph: GraphProto) -> ModelProto:
    """Wrap a graph in a model."""
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def outside(folder: Path, gigabytes: int, is_there: bool) -> Path:
    """Write a model with external weights, whose file may be missing."""
    count = gigabytes * 1_000_000_000 // LAYER
    graph = products(count)
    for i in range(count):
        tensor = weight(i)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", i * LAYER), ("length", LAYER)):
            tensor.external_data.add(key=key, value=str(value))
        graph.initializer.append(tensor)
    path = folder / "outside.onnx"
    path.write_bytes(around(graph).SerializeToString())
    if is_there:
        with (folder / "weights.bin").open("wb") as file:
            file.truncate(count * LAYER)
    return path


def inside(folder: Path, megabytes: int) -> Path:
    """Write a model with embedded weights."""
    count = megabytes * 1_000_000 // LAYER
    heads = [weight(i).SerializeToString() + field(9, b"", LAYER) for i in range(count)]
    tensors = [field(5, head, LAYER) for head in heads]
    nodes = products(count).SerializeToString()
    path = folder / "inside.onnx"
    with path.open("wb") as file:
        file.write(field(7, nodes, sum(map(len, tensors)) + count * LAYER))
        for tensor in tensors:
            file.write(tensor)
            file.seek(LAYER, 1)
        file.write(around(GraphProto()).SerializeToString().replace(field(7, b""), b""))
    return path


def chain(folder: Path, nodes: int, batch: int | str = 4) -> Path:
    """Write a model of many small nodes: products, sums and activations."""
    made, x = [], "x"
    for i in range(nodes // 4):
        names = [f"{kind}{i}" for kind in "abcd"]
        made.append(helper.make_node("MatMul", [x, "w"], names[:1]))
        made.append(helper.make_node("Add", [names[0], "b"], names[1:2]))
        made.append(helper.make_node("Relu", [names[1]], names[2:3]))
        made.append(helper.make_node("Add", [names[2], x], names[3:]))
        x = names[3]
    entries = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (batch, 8)) for n in ("x", x)]
    stored = [TensorProto(name=n, dims=dims, data_type=TensorProto.FLOAT) for n, dims in (("w", (8, 8)), ("b", (8,)))]
    path = folder / "chain.onnx"
    path.write_bytes(around(helper.make_graph(made, "chain", entries[:1], entries[1:], stored)).SerializeToString())
    return path


def measured(path: Path, action: str, rounds: int) -> tuple[float, float]:
    """Return the minimum seconds and the minimum MiB of several processes."""
    runs = []
    for _ in range(rounds):
        command = python_command(MEASURE.replace("ACTION", action), str(path), keep_environment=True)
        runs.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    return min(seconds for seconds, _ in runs), min(mebibytes for _, mebibytes in runs)


def weights_outside(folder: Path, rounds: int) -> Iterator[str]:
    """Measure 3 GB of external weights, with and without the file."""
    for is_there in (True, False):
        seconds, mebibytes = measured(outside(folder, 3, is_there), ESTIMATE, rounds)
        yield f"3 GB outside, {'present' if is_there else 'absent'}: {seconds * 1e3:.0f} ms, {mebibytes:.0f} MiB"
        (folder / "weights.bin").unlink(missing_ok=True)


def weights_inside(folder: Path, rounds: int) -> Iterator[str]:
    """Compare 600 MB of embedded weights with onnx's own loader."""
    path = inside(folder, 600)
    ours, theirs = (measured(path, action, rounds) for action in (ESTIMATE, LOAD))
    for name, (seconds, mebibytes) in (("estimate", ours), ("onnx.load", theirs)):
        yield f"600 MB inside, {name}: {seconds * 1e3:.0f} ms, {mebibytes:.0f} MiB"
    yield f"600 MB inside: {ours[0] / theirs[0]:.3f} of the time, {ours[1] / theirs[1]:.3f} of the memory"


def many_nodes(folder: Path, rounds: int) -> Iterator[str]:
    """Measure 10,000 and 100,000 nodes."""
    for nodes in (10_000, 100_000):
        seconds, mebibytes = measured(chain(folder, nodes), ESTIMATE, rounds)
        yield f"{nodes} nodes: {seconds:.2f} s ({seconds / nodes * 1e6:.0f} us per node), {mebibytes:.0f} MiB"


def symbols(folder: Path, rounds: int) -> Iterator[str]:
    """Measure reading, counting and summing 10,000 and 100,000 nodes with a numeric and a symbolic batch size."""
    for nodes in (10_000, 100_000):
        for batch in (4, "batch"):
            seconds, _ = measured(chain(folder, nodes, batch), TOTAL, rounds)
            each = seconds / nodes * 1e6
            yield f"{nodes} nodes and their total, batch {batch!r}: {seconds:.2f} s ({each:.0f} us per node)"


CASES = {"outside": weights_outside, "inside": weights_inside, "nodes": many_nodes, "symbols": symbols}


def main(names: Iterable[str], rounds: int) -> None:
    """Print one line per measurement."""
    for name in names or CASES:
        with TemporaryDirectory() as folder:
            for line in CASES[name](Path(folder), rounds):
                print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="case", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.cases, arguments.rounds)
