"""Recurrent layers and cells. Each gate of a step multiplies the input of the step and the previous state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..loops import gates, linear, recurrent
from ..probe import Probe

__all__ = ["PROBES"]

TAGS = frozenset({"recurrent"})


def _first(b: Any, layer: Any, *shape: int) -> Any:
    """Return a recurrent layer, of which only the first output is returned, and an input."""
    return b.Fn(lambda self, x: self.layer(x)[0], layer=layer), (b.x(*shape),)


def _packed(b: Any, layer: Any) -> Any:
    """Return a layer and packed sequences of 5, 3 and 2 steps with 4 features."""

    def forward(self: Any, x: Any) -> Any:
        packed = b.nn.utils.rnn.pack_padded_sequence(x, [5, 3, 2], batch_first=True)
        return self.layer(packed)[0].data

    return b.Fn(forward, layer=layer), (b.x(3, 5, 4),)


PROBES = [
    Probe(
        "recurrent.lstm",
        "nn.LSTM(4, 6, bias=False) on 7 steps of batch 2",
        "macs",
        "7 steps * 2 * 4 gates * 6 * (4 inputs + 6 state)",
        lambda: recurrent(7, 2, 4, 4, 6),
        torch=lambda b: _first(b, b.nn.LSTM(4, 6, bias=False), 7, 2, 4),
        onnx=lambda b: b.model(
            [b.helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=6)],
            {"x": (7, 2, 4)},
            {"y": (7, 1, 2, 6)},
            {"w": b.zeros(1, 24, 4), "r": b.zeros(1, 24, 6)},
        ),
        tags=TAGS,
    ),
    Probe(
        "recurrent.lstm_bias",
        "nn.LSTM(4, 6) with both biases on 7 steps of batch 2",
        "macs",
        "7 steps * 2 * 4 gates * 6 * (4 inputs + 6 state)",
        lambda: recurrent(7, 2, 4, 4, 6),
        torch=lambda b: _first(b, b.nn.LSTM(4, 6), 7, 2, 4),
        extras={"bias": 672},
        tags=TAGS,
    ),
    Probe(
        "recurrent.lstm_batch_first",
        "nn.LSTM(4, 6, bias=False, batch_first=True) on batch 2 of 7 steps",
        "macs",
        "7 steps * 2 * 4 gates * 6 * (4 inputs + 6 state)",
        lambda: recurrent(7, 2, 4, 4, 6),
        torch=lambda b: _first(b, b.nn.LSTM(4, 6, bias=False, batch_first=True), 2, 7, 4),
        tags=TAGS,
    ),
    Probe(
        "recurrent.lstm_layers",
        "nn.LSTM(4, 6, num_layers=3, bias=False) on 5 steps",
        "macs",
        "5 steps * 4 gates * 6 * ((4 + 6) first + 2 layers * (6 + 6))",
        lambda: recurrent(5, 1, 4, 4, 6, layers=3),
        torch=lambda b: _first(b, b.nn.LSTM(4, 6, num_layers=3, bias=False), 5, 1, 4),
        tags=TAGS,
    ),
    Probe(
        "recurrent.lstm_bidirectional",
        "nn.LSTM(4, 6, bidirectional=True, bias=False) on 5 steps",
        "macs",
        "2 directions * 5 steps * 4 gates * 6 * (4 inputs + 6 state)",
        lambda: recurrent(5, 1, 4, 4, 6, directions=2),
        torch=lambda b: _first(b, b.nn.LSTM(4, 6, bidirectional=True, bias=False), 5, 1, 4),
        onnx=lambda b: b.model(
            [b.helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=6, direction="bidirectional")],
            {"x": (5, 1, 4)},
            {"y": (5, 2, 1, 6)},
            {"w": b.zeros(2, 24, 4), "r": b.zeros(2, 24, 6)},
        ),
        tags=TAGS,
    ),
    Probe(
        "recurrent.lstm_bidirectional_layers",
        "nn.LSTM(4, 6, num_layers=2, bidirectional=True, bias=False) on 5 steps: the second layer has 12 inputs",
        "macs",
        "2 directions * 5 steps * 4 gates * 6 * ((4 + 6) first + (12 + 6) second)",
        lambda: recurrent(5, 1, 4, 4, 6, layers=2, directions=2),
        torch=lambda b: _first(b, b.nn.LSTM(4, 6, num_layers=2, bidirectional=True, bias=False), 5, 1, 4),
        tags=TAGS,
    ),
    Probe(
        "recurrent.lstm_projected",
        "nn.LSTM(4, 6, proj_size=3, bias=False) on 5 steps: the state has 3, after a projection",
        "macs",
        "5 steps * (4 gates * 6 * (4 inputs + 3 state) + 6 * 3 projection)",
        lambda: recurrent(5, 1, 4, 4, 6, projected=3),
        torch=lambda b: _first(b, b.nn.LSTM(4, 6, proj_size=3, bias=False), 5, 1, 4),
        tags=TAGS,
    ),
    Probe(
        "recurrent.lstm_packed",
        "nn.LSTM(4, 6, bias=False) on packed sequences of 5, 3 and 2 steps: padding is not computed",
        "macs",
        "(5 + 3 + 2) steps * 4 gates * 6 * (4 inputs + 6 state)",
        lambda: recurrent(10, 1, 4, 4, 6),
        torch=lambda b: _packed(b, b.nn.LSTM(4, 6, bias=False, batch_first=True)),
        tags=TAGS,
    ),
    Probe(
        "recurrent.gru",
        "nn.GRU(5, 4, bias=False) on 6 steps of batch 2",
        "macs",
        "6 steps * 2 * 3 gates * 4 * (5 inputs + 4 state)",
        lambda: recurrent(6, 2, 3, 5, 4),
        torch=lambda b: _first(b, b.nn.GRU(5, 4, bias=False), 6, 2, 5),
        onnx=lambda b: b.model(
            [b.helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=4, linear_before_reset=1)],
            {"x": (6, 2, 5)},
            {"y": (6, 1, 2, 4)},
            {"w": b.zeros(1, 12, 5), "r": b.zeros(1, 12, 4)},
        ),
        tags=TAGS,
    ),
    Probe(
        "recurrent.gru_transposed",
        "nn.GRU(4, 5, batch_first=True) with both biases on a transpose of (1, 4, 6), not contiguous",
        "macs",
        "6 steps * 3 gates * 5 * (4 inputs + 5 state)",
        lambda: recurrent(6, 1, 3, 4, 5),
        torch=lambda b: (
            b.Fn(lambda self, x: self.layer(x.transpose(1, 2))[0], layer=b.nn.GRU(4, 5, batch_first=True)),
            (b.x(1, 4, 6),),
        ),
        extras={"bias": 6 * 30},
        tags=TAGS,
    ),
    Probe(
        "recurrent.gru_layers",
        "nn.GRU(5, 4, num_layers=2, bidirectional=True, bias=False) on 6 steps",
        "macs",
        "2 directions * 6 steps * 3 gates * 4 * ((5 + 4) first + (8 + 4) second)",
        lambda: recurrent(6, 1, 3, 5, 4, layers=2, directions=2),
        torch=lambda b: _first(b, b.nn.GRU(5, 4, num_layers=2, bidirectional=True, bias=False), 6, 1, 5),
        tags=TAGS,
    ),
    Probe(
        "recurrent.gru_packed",
        "nn.GRU(4, 5, bias=False) on packed sequences of 5, 3 and 2 steps",
        "macs",
        "(5 + 3 + 2) steps * 3 gates * 5 * (4 inputs + 5 state)",
        lambda: recurrent(10, 1, 3, 4, 5),
        torch=lambda b: _packed(b, b.nn.GRU(4, 5, bias=False, batch_first=True)),
        tags=TAGS,
    ),
    Probe(
        "recurrent.rnn",
        "nn.RNN(3, 5, bias=False) on 8 steps",
        "macs",
        "8 steps * 5 * (3 inputs + 5 state)",
        lambda: recurrent(8, 1, 1, 3, 5),
        torch=lambda b: _first(b, b.nn.RNN(3, 5, bias=False), 8, 1, 3),
        onnx=lambda b: b.model(
            [b.helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=5)],
            {"x": (8, 1, 3)},
            {"y": (8, 1, 1, 5)},
            {"w": b.zeros(1, 5, 3), "r": b.zeros(1, 5, 5)},
        ),
        tags=TAGS,
    ),
    Probe(
        "recurrent.rnn_relu",
        "nn.RNN(3, 5, nonlinearity='relu', bias=False) on 8 steps",
        "macs",
        "8 steps * 5 * (3 inputs + 5 state)",
        lambda: recurrent(8, 1, 1, 3, 5),
        torch=lambda b: _first(b, b.nn.RNN(3, 5, nonlinearity="relu", bias=False), 8, 1, 3),
        tags=TAGS,
    ),
    Probe(
        "recurrent.no_batch",
        "nn.LSTM(4, 6, bias=False) on (7, 4), without a dimension of the batch",
        "macs",
        "7 steps * 4 gates * 6 * (4 inputs + 6 state)",
        lambda: recurrent(7, 1, 4, 4, 6),
        torch=lambda b: _first(b, b.nn.LSTM(4, 6, bias=False), 7, 4),
        tags=TAGS,
    ),
    Probe(
        "recurrent.lstm_cell",
        "nn.LSTMCell(4, 6, bias=False) called once on 3 rows",
        "macs",
        "3 rows * 4 gates * 6 * (4 inputs + 6 state)",
        lambda: gates(3, 4, 4, 6),
        torch=lambda b: _first(b, b.nn.LSTMCell(4, 6, bias=False), 3, 4),
        extras={"multiply": 3 * 18},
        tags=TAGS,
    ),
    Probe(
        "recurrent.gru_cell_loop",
        "nn.GRUCell(4, 5, bias=False) called in a loop over 6 steps of 2 rows",
        "macs",
        "6 steps * 2 rows * 3 gates * 5 * (4 inputs + 5 state)",
        lambda: recurrent(6, 2, 3, 4, 5),
        torch=lambda b: (b.unrolled(b.nn.GRUCell(4, 5, bias=False)), (b.x(6, 2, 4), b.x(2, 5))),
        extras={"multiply": 2 * 60},
        tags=TAGS,
    ),
    Probe(
        "recurrent.rnn_cell",
        "nn.RNNCell(7, 3, bias=False) on 4 rows",
        "macs",
        "4 rows * 3 * (7 inputs + 3 state)",
        lambda: gates(4, 1, 7, 3),
        torch=lambda b: (b.nn.RNNCell(7, 3, bias=False), (b.x(4, 7),)),
        tags=TAGS,
    ),
    Probe(
        "recurrent.written_out",
        "an RNN written out: h = tanh(Linear(3, 5)(x) + Linear(5, 5)(h)), without biases, 6 steps of 2 rows",
        "macs",
        "6 steps * 2 rows * 5 * (3 inputs + 5 state)",
        lambda: [item for _ in range(6) for item in (*linear(2, 3, 5), *linear(2, 5, 5))],
        torch=lambda b: (
            b.unrolled(
                b.Fn(
                    lambda self, x, h: b.torch.tanh(self.inputs(x) + self.state(h)),
                    inputs=b.nn.Linear(3, 5, bias=False),
                    state=b.nn.Linear(5, 5, bias=False),
                )
            ),
            (b.x(6, 2, 3), b.x(2, 5)),
        ),
    ),
]

ADDS = {
    "lstm": 84 * 8,
    "lstm_bias": 84 * 16,
    "lstm_batch_first": 84 * 8,
    "lstm_layers": 90 * 8,
    "lstm_cell": 18 * 8,
    "lstm_bidirectional": 60 * 8,
    "lstm_bidirectional_layers": 120 * 8,
    "gru": 48 * 7,
    "gru_layers": 96 * 7,
    "gru_cell_loop": 60 * 7,
    "gru_transposed": 30 * 13,
    "rnn": 40,
    "rnn_relu": 40,
    "rnn_cell": 12,
}
"""Additions per unit and step: one for each gate and bias, and four for the state of an LSTM or GRU."""

UNITS = {name: adds // (16 if name == "lstm_bias" else 8) for name, adds in ADDS.items() if name.startswith("lstm")}
"""Units of LSTM layers, times steps."""


def _counted(probe: Probe) -> Probe:
    name = probe.id.partition(".")[2]
    own = {"gate_adds": ADDS.get(name, 0), "lstm_units": UNITS.get(name, 0)}
    return replace(probe, extras={**probe.extras, **own})


PROBES = [_counted(probe) for probe in PROBES]
