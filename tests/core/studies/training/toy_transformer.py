"""The training step of a transformer of small sizes that no two are equal, with given costs.

10 tokens in 2 sequences of 5, of 11 words, with 6 features; 2 heads of 3 features; a token is sent to 2 of 4 experts of
6 x 7 and 7 x 6. One attention is an operator with a mask, another one is written as products. A learned product reads
a weight that was cast before. The queries' product and the attention are recomputed. Positions are frozen.
"""

from __future__ import annotations

from typing import Any

from costcore import Layer, Operations, Report, Tensor
from costcore.ir import Cost
from tests.core.traces import Call, Module, Recorder, report_of

SIZES = {
    "words": (11, 6),
    "positions": (7, 6),
    "norm": (6,),
    "qkv": (18, 6),
    "qkv_bias": (18,),
    "out": (6, 6),
    "up": (4, 6, 7),
    "down": (4, 7, 6),
    "cast": (6, 4),
    "head": (11, 6),
}
"""The parameters: 66 + 42 + 6 + 108 + 18 + 36 + 168 + 168 + 24 + 66 = 702."""


def toy_step(is_tied: bool = False, window: int | None = None) -> Report:
    """Return its report.

    Args:
        is_tied: whether the output layer has the table of words.
        window: how many tokens before a token, with itself, it attends to.
    """
    recorder = Recorder()
    recorder.frameworks["toy"] = "1.5"
    sizes = {name: size for name, size in SIZES.items() if name != "head" or not is_tied}
    ids = {name: recorder.parameter(Tensor(size).size) for name, size in sizes.items()}
    if is_tied:
        ids["head"] = ids["words"]
    recorder.modules[""] = Module("ToyTransformer")
    for name in sizes:
        module = name.partition("_")[0]
        before = recorder.modules.get(module, Module("Part"))
        frozen = (*before.frozen, *([ids[name]] if name == "positions" else []))
        recorder.modules[module] = before._replace(parameters=(*before.parameters, ids[name]), frozen=frozen)
    words = recorder.new_id()
    recorder.inputs.append(words)

    def call(
        op: str,
        module: str,
        inputs: dict[str, tuple[tuple[int, ...], int | str]],
        output: tuple[int, ...],
        macs: int = 0,
        phase: str = "forward",
        times: int = 1,
        **attrs: Any,
    ) -> int:
        tensors, operands, parameters = {}, [], []
        for name, (shape, source) in inputs.items():
            role: Any = "param" if isinstance(source, str) else "data"
            tensors[name] = Tensor(shape, "int64" if op == "embedding" and name == "x" else "float32", role=role)
            operands.append(ids[source] if isinstance(source, str) else source)
            parameters += [ids[source]] if isinstance(source, str) else []
        result = recorder.new_id()
        layer = recorder.intern(Layer(op, tensors, [Tensor(output)], attrs))
        made = Call(layer, op, module=module, phase=phase, times=times, inputs=tuple(operands), outputs=(result,))
        cost = Cost(Operations(fma=macs, add=output[-1]), layer.read, layer.written, {}, macs)
        recorder.record(made._replace(parameters=tuple(parameters)), cost)
        return result

    def weight(name: str) -> tuple[tuple[int, ...], str]:
        return SIZES[name], name

    x_shape, heads = (2, 5, 6), (2, 2, 5, 3)
    x = call("embedding", "words", {"x": ((2, 5), words), "w": weight("words")}, x_shape)
    places = call("embedding", "positions", {"x": ((5,), recorder.new_id()), "w": weight("positions")}, (5, 6))
    x = call("add", "", {"x0": (x_shape, x), "x1": ((5, 6), places)}, x_shape)
    x = call("layer_norm", "norm", {"x": (x_shape, x), "w": weight("norm")}, x_shape)
    qkv = {"x": (x_shape, x), "w": weight("qkv"), "b": weight("qkv_bias")}
    attended = {"q": (heads, x), "k": (heads, x), "v": (heads, x), "mask": ((5, 5), recorder.new_id())}
    attrs = {"causal": False} if window is None else {"causal": False, "window": window}
    for phase in ("forward", "recompute"):
        x = call("linear", "qkv", qkv, (2, 5, 18), 10 * 108, phase)
        x = call("attention", "attention", attended, heads, 100 * 6, phase, **attrs)
    x = call("linear", "out", {"x": (x_shape, x), "w": weight("out")}, x_shape, 10 * 36)
    x = call("grouped_matmul", "up", {"x": ((20, 6), x), "w": weight("up")}, (20, 7), 20 * 42)
    x = call("grouped_matmul", "down", {"x": ((20, 7), x), "w": weight("down")}, (20, 6), 20 * 42)
    cast = call("cast", "cast", {"x": weight("cast")}, (6, 4))
    call("matmul", "cast", {"x0": (x_shape, x), "x1": ((6, 4), cast)}, (2, 5, 4), 10 * 24)
    call("matmul", "pool", {"x0": (x_shape, x), "x1": ((2, 6, 5), x)}, (2, 5, 5), 2 * 25 * 6, times=3)
    scores = call("matmul", "products", {"x0": ((2, 5, 3), x), "x1": ((2, 3, 5), x)}, (2, 5, 5), 2 * 25 * 3)
    scores = call("softmax", "products", {"x": ((2, 5, 5), scores)}, (2, 5, 5))
    call("matmul", "products", {"x0": ((2, 5, 5), scores), "x1": ((2, 5, 3), x)}, (2, 5, 3), 2 * 25 * 3)
    call("linear", "head", {"x": (x_shape, x), "w": weight("head")}, (2, 5, 11), 10 * 66)

    back: dict[str, Any] = {"phase": "backward"}
    gradient = call("linear_backward", "head", {"gy": ((2, 5, 11), x), "w": weight("head")}, x_shape, 2 * 660, **back)
    for n in range(2):
        small = {"x0": ((2, 5, 5), gradient), "x1": ((2, 5, 3), gradient)}
        call("matmul", "products", small, (2, 5, 3), 150, **back)
        turned = {"x0": ((2, 5, 3), gradient), "x1": ((2, 5, 3), gradient)}
        call("matmul", "products", turned, (2, 5, 5), 150, **back, transpose_x1=True)
        pooled = {"x0": ((2, 6, 5), gradient), "x1": ((2, 5, 5), gradient)}
        call("matmul", "pool", pooled, (2, 6, 5), 300, times=3 - n, **back)
    for name, shape in (("down", (20, 7)), ("up", (20, 6))):
        call("grouped_matmul_backward", name, {"gy": (shape, gradient), "w": weight(name)}, shape, 2 * 840, **back)
    call("linear_backward", "out", {"gy": (x_shape, gradient), "w": weight("out")}, x_shape, 2 * 360, **back)
    call("attention_backward", "attention", attended, heads, 100 * 15, **back, **attrs)
    call("linear_backward", "qkv", {"gy": ((2, 5, 18), gradient), "w": weight("qkv")}, x_shape, 1080, **back)
    call("adam_step", "", {"x": ((702,), gradient)}, (702,), phase="optimizer")
    return report_of(recorder)


FORWARD = {
    "weights": 1080 + 360 + 240 + 660,
    "experts": 2 * 840,
    "attention": 600 + 2 * 150,
    "activations": 3 * 300,
}
BACKWARD = {
    "weights": 2 * 660 + 2 * 360 + 1080,
    "experts": 2 * 2 * 840,
    "attention": 1500 + 4 * 150,
    "activations": (3 + 2) * 300,
}
RECOMPUTED = 1080 + 600
"""MACs of the step by kind of product."""
