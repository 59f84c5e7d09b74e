"""Formulas in sizes of links, against estimates at integer sizes and closed forms."""

from __future__ import annotations

from typing import Any

import chainer
import pytest
from chainer import functions, links

from costcore import CostError, Tensor, estimate

COLUMNS = ("macs", "flops", "mread", "mwrite", "n_params")


class Strided(chainer.Chain):
    """A convolution, a pooling without padding, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.conv, self.norm = links.Convolution2D(3, 8, 7, 2, 3), links.BatchNormalization(8)
            self.out = links.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = functions.max_pooling_2d(functions.relu(self.norm(self.conv(x))), 3, 2)
        return self.out(functions.average(x, axis=(2, 3)))


class Attention(chainer.Chain):
    """One head over embedded words."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.words, self.qkv = links.EmbedID(10, 8), links.Linear(8, 24)

    def forward(self, ids: Any) -> Any:
        q, k, v = functions.split_axis(self.qkv(self.words(ids), n_batch_axes=2), 3, 2)
        return functions.matmul(functions.softmax(functions.matmul(q, k, transb=True), 2), v)


class Recurrent(chainer.Chain):
    """A loop over words."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.words, self.cell = links.EmbedID(10, 8), links.LSTM(8, 8)

    def forward(self, ids: Any) -> Any:
        self.cell.reset_state()
        for i in range(ids.shape[1]):
            y = self.cell(self.words(ids[:, i]))
        return y


IDS = (("batch", "seq"), "int32")


@pytest.mark.parametrize(
    ("make", "inputs", "sizes", "at_sizes", "macs"),
    [
        # 7 x 7 x 3 x 8 at half the size, rounded up, and 8 x 4.
        (Strided, ("batch", 3, "h", "w"), {"batch": 3, "h": 97, "w": 130}, (3, 3, 97, 130),
         "1176*batch*ceiling(h/2)*ceiling(w/2) + 32*batch"),
        # 8 x 24 per word, and 2 x 8 per pair of words.
        (Attention, IDS, {"batch": 3, "seq": 11}, Tensor((3, 11), "int32"), "16*batch*seq**2 + 192*batch*seq"),
        # Four gates of 8 x 8 from the word, and from the state except in the first step.
        (Recurrent, IDS, {"batch": 3, "seq": 11}, Tensor((3, 11), "int32"), "512*batch*seq - 256*batch"),
    ],
)  # fmt: skip
def test_formulas_equal_estimates(make, inputs, sizes, at_sizes, macs):
    link = make()
    report = estimate(link, inputs)
    assert str(report.formula("macs")) == macs
    total, expected = report.subs(sizes).total_report, estimate(link, at_sizes).total_report
    assert [total[key] for key in COLUMNS] == [expected[key] for key in COLUMNS]
    ranges = dict(report.trace.run.ranges)  # small ones, as values are computed
    assert ranges.pop("batch")[1] <= 8
    assert all(low <= 4 and high <= 256 for low, high in ranges.values())  # of a loop: a first step, and three alike


def test_an_error_of_a_link_names_it():
    with pytest.raises(CostError, match="Strided: the run raised InvalidType: Invalid operation"):
        estimate(Strided(), ("batch", 4, "h", "w"))
