"""Lists of integers among the inputs: numbers for the code of the model, or shapes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import pytest
from torch import Tensor, nn
from torch.nn import functional

from costcore import Value, estimate
from tests.command_line import main

STEP = 16 * 16
"""MACs of one product of 1 x 16 by 16 x 16."""


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16)

    def loop(self, x, steps):
        for _ in steps:
            x = self.l(x)
        return x


class Annotated(Base):
    def forward(self, x, steps: list[int]):
        return self.loop(x, steps)


class Optionally(Base):
    def forward(self, x, steps: Optional[Sequence[int]] = None):  # noqa: UP045 - as many write it
        return self.loop(x, steps)


class Pair(Base):
    def forward(self, x, steps: tuple[int, int, int]):
        return self.loop(x, steps)


class Bare(Base):
    def forward(self, x, steps: list):
        return self.loop(x, steps)


class Nested(Base):
    def forward(self, x, steps: list[list[int]]):
        return self.loop(x, [step for each in steps for step in each])


class Plain(Base):
    """Nothing says what ``steps`` is."""

    def forward(self, x, steps):
        return self.loop(x, steps)


class Loop(Base):
    def forward(self, x, steps):
        for _ in steps:
            x = self.l(x)
        return x


class Default(Base):
    def forward(self, x, steps=(1, 2)):
        return self.loop(x, steps)


class OfTensor(Base):
    def forward(self, x, steps: Tensor):
        return self.loop(x, steps)


class Interpolate(Base):
    def forward(self, x, target):
        return self.l(functional.interpolate(x, size=target))


class View(Base):
    def forward(self, x, target):
        return self.l(x.view(*target))


class Unpack(Base):
    def forward(self, x, target):
        height, width = target
        return self.l(x.reshape(height, width))


class Named(Base):
    def forward(self, x, image_size):
        return self.loop(x, image_size)


class Metadata(Base):
    def forward(self, x, metas):
        for meta in metas if isinstance(metas, list) else [metas]:
            x = self.loop(x, meta["at"])
        return x


class Batch(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16)

    def forward(self, batch):
        return self.l(batch["x"]) + self.l(batch["y"])


class ListOfTensors(Base):
    def forward(self, xs):
        return [self.l(x) for x in xs]


class BareListOfTensors(Base):
    def forward(self, xs: list):
        for x in xs:
            x = self.l(x)
        return x


class Scaled(Base):
    def forward(self, x, scale=1.0):
        return self.l(x * scale)


class Several(Base):
    def forward(self, x, y):
        return self.l(x), self.l(y)


X = (1, 16)

NUMBERS = {
    "annotated": (Annotated(), {"x": X, "steps": [999, 500, 1]}, 3),
    "a tuple": (Annotated(), {"x": X, "steps": (0, 1, 2)}, 3),
    "by position": (Annotated(), [X, [0, 1, 2]], 3),
    "optional": (Optionally(), {"x": X, "steps": [0, 1]}, 2),
    "annotated as a tuple": (Pair(), (X, (5, 6, 7)), 3),
    "annotated as any list": (Bare(), {"x": X, "steps": [7, 8]}, 2),
    "a list of lists": (Nested(), {"x": X, "steps": [[1, 2], [3]]}, 3),
    "a default of integers": (Default(), {"x": X, "steps": [4, 5, 6]}, 3),
    "a list in a loop": (Loop(), {"x": X, "steps": [999, 500, 1]}, 3),
    "said so": (Plain(), {"x": X, "steps": Value([999, 500, 1])}, 3),
    "a tuple, said so": (Plain(), (X, Value((0, 1, 2))), 3),
    "a size of a function": (Interpolate(), {"x": (1, 2, 8, 8), "target": (4, 16)}, 2 * 4),
    "a size by position": (Interpolate(), ((1, 2, 8, 8), [4, 16]), 2 * 4),
    "a size of a view": (View(), ((64,), [4, 16]), 4),
    "a size in two names": (Unpack(), ((64,), (4, 16)), 4),
    "the name of a size": (Named(), {"x": X, "image_size": (5, 6)}, 2),
    "metadata": (Metadata(), (X, [{"at": [4, 5, 6]}]), 3),
    "metadata with a text": (Metadata(), (X, [{"at": (4, 5, 6), "file": "a.jpg"}]), 3),
    "metadata, not in a list": (Metadata(), {"x": X, "metas": {"at": [4, 5]}}, 2),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_integers_are_numbers(case):
    model, inputs, products = NUMBERS[case]
    report = estimate(model, inputs, strict=True)
    assert report.total_report["macs"] == products * STEP
    assert report.trace.run.notes == ()


SHAPES = {
    "one input": (nn.Linear(16, 16), (5, 16), 5),
    "a list": (nn.Linear(16, 16), [5, 16], 5),
    "by name": (Plain(), {"x": X, "steps": (3, 1)}, 3),
    "several": (Several(), [(5, 16), (2, 16)], 7),
    "annotated as a tensor": (OfTensor(), {"x": X, "steps": [3, 1]}, 3),
    "a list of tensors in a loop": (ListOfTensors(), [[(5, 16), (2, 16)]], 7),
    "a list of tensors, annotated as any list": (BareListOfTensors(), [[(5, 16), (2, 16)]], 7),
    "a number by default": (Scaled(), {"x": (5, 16), "scale": (5, 1)}, 5),
    "in a dict": (Batch(), [{"x": (2, 16), "y": (3, 2, 16)}], 2 + 6),
}


@pytest.mark.parametrize("case", SHAPES)
def test_integers_are_a_shape(case):
    model, inputs, products = SHAPES[case]
    report = estimate(model, inputs)
    assert report.total_report["macs"] == products * STEP
    assert report.trace.run.notes == ()


class Deeper(nn.Module):
    """A submodule takes the size apart."""

    class Head(Base):
        def forward(self, x, to):
            height, width = to
            return self.l(x.reshape(height, width))

    def __init__(self):
        super().__init__()
        self.head = self.Head()

    def forward(self, x, to):
        return self.head(x, to)


@pytest.mark.parametrize("inputs", [((64,), (4, 16)), {"x": (64,), "to": [4, 16]}])
def test_a_model_that_fails_on_a_tensor_gets_the_numbers(inputs):
    report = estimate(Deeper(), inputs)
    assert report.total_report["macs"] == 4 * STEP
    (note,) = report.trace.run.notes
    assert note.endswith("was read as numbers: the model does not run on a tensor of that shape")


def test_a_value_on_the_command_line_is_a_value(tmp_path, capsys):
    file = tmp_path / "steps.py"
    file.write_text(
        "from torch import nn\n\nclass Steps(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.l = nn.Linear(16, 16)\n\n    def forward(self, x, steps):\n        s = len(steps)\n"
        "        for _ in range(s):\n            x = self.l(x)\n        return x\n"
    )
    inputs = ("--input", "x=1x16", "--input", "steps:=[999,500,1]")
    assert main([f"{file}:Steps", *inputs, "--format", "csv", "--unit", "none", "--columns", "name,macs"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"total,{3 * STEP}"
