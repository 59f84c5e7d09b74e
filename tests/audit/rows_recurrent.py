"""Recurrent layers: I = 3 inputs, H = 4 hidden units, T = 5 steps, batch 2, so 5·2·4 = 40 unit steps."""

from __future__ import annotations

import torch

from .modules import learned
from .row import FLOAT, Row

X = (5, 2, 3)
H0 = (1, 2, 4)

# Bytes of LSTM: w_ih 16·3 = 48, w_hh 16·4 = 64, two biases of 16: 144 elements per direction.
ROWS = [
    Row(
        "lstm",
        lambda: torch.nn.LSTM(3, 4),
        (X, (H0, H0)),
        "per unit step: four gates onto the bias 4·7 fma, + i g 1 fma; f c, o tanh c 2 mul; three sigmoids 6 add, 3 "
        "div; 5 special; 28 macs. Reads x 30, h 8, c 8, weights 144; writes y 40, h 8, c 8",
        {
            "fma": 40 * 29,
            "mul": 80,
            "add": 240,
            "div": 120,
            "special": 200,
            "macs": 1120,
            "read": FLOAT * 190,
            "written": FLOAT * 56,
        },
    ),
    Row(
        "lstm-no-bias",
        lambda: torch.nn.LSTM(3, 4, bias=False),
        (X, (H0, H0)),
        "gates onto nothing: 1 mul, 6 fma each: fma 4·6 + 1, mul 2 + 4. Reads no biases: 190 − 32",
        {
            "fma": 40 * 25,
            "mul": 240,
            "add": 240,
            "div": 120,
            "special": 200,
            "macs": 1120,
            "read": FLOAT * 158,
            "written": FLOAT * 56,
        },
    ),
    Row(
        "lstm-bidirectional",
        lambda: torch.nn.LSTM(3, 4, bidirectional=True),
        (X, ((2, 2, 4), (2, 2, 4))),
        "80 unit steps. x is read once: 30, h 16, c 16, weights 288; writes y 80, h 16, c 16",
        {
            "fma": 80 * 29,
            "mul": 160,
            "add": 480,
            "div": 240,
            "special": 400,
            "macs": 2240,
            "read": FLOAT * 350,
            "written": FLOAT * 112,
        },
    ),
    Row(
        "lstm-projection",
        lambda: torch.nn.LSTM(3, 4, proj_size=2),
        (X, ((1, 2, 2), (1, 2, 4))),
        "the recurrent input has 2 elements: gates 4·5 fma + 1 per unit step; then 5·2·2 = 20 projections, dot "
        "products of 4 onto nothing: 1 mul, 3 fma. macs 40·20 + 20·4. Reads x 30, h 4, c 8, w_ih 48, w_hh 32, biases "
        "32, w_hr 8; writes y 20, h 4, c 8",
        {
            "fma": 840 + 60,
            "mul": 80 + 20,
            "add": 240,
            "div": 120,
            "special": 200,
            "macs": 880,
            "read": FLOAT * 162,
            "written": FLOAT * 32,
        },
    ),
    Row(
        "lstm_cell",
        lambda: torch.nn.LSTMCell(3, 4),
        ((2, 3), ((2, 4), (2, 4))),
        "8 unit steps. Reads x 6, h 8, c 8, weights 144; writes h 8, c 8",
        {
            "fma": 8 * 29,
            "mul": 16,
            "add": 48,
            "div": 24,
            "special": 40,
            "macs": 224,
            "read": FLOAT * 166,
            "written": FLOAT * 16,
        },
    ),
    Row(
        "gru",
        lambda: torch.nn.GRU(3, 4),
        (X, H0),
        "per unit step: three gates onto their biases 3·7 fma, + z h 1 fma; r (…), (1 − z) n 2 mul; two sigmoids 4 "
        "add, 2 div; 1 − z 1 add; reset after: the candidate's parts are added 1 add; 3 special; 21 macs. Reads x 30, "
        "h 8, w_ih 36, w_hh 48, biases 24; writes y 40, h 8",
        {
            "fma": 40 * 22,
            "mul": 80,
            "add": 240,
            "div": 80,
            "special": 120,
            "macs": 840,
            "read": FLOAT * 146,
            "written": FLOAT * 48,
        },
    ),
    Row(
        "gru-no-bias",
        lambda: torch.nn.GRU(3, 4, bias=False),
        (X, H0),
        "r and z onto nothing: 1 mul, 6 fma each; the candidate's parts apart: 1 mul, 2 fma and 1 mul, 3 fma; + z h 1 "
        "fma: fma 18, mul 2 + 4. Reads 146 − 24",
        {
            "fma": 40 * 18,
            "mul": 240,
            "add": 240,
            "div": 80,
            "special": 120,
            "macs": 840,
            "read": FLOAT * 122,
            "written": FLOAT * 48,
        },
    ),
    Row(
        "gru_cell",
        lambda: torch.nn.GRUCell(3, 4),
        ((2, 3), (2, 4)),
        "8 unit steps of gru. Reads x 6, h 8, weights 108; writes h 8",
        {
            "fma": 176,
            "mul": 16,
            "add": 48,
            "div": 16,
            "special": 24,
            "macs": 168,
            "read": FLOAT * 122,
            "written": FLOAT * 8,
        },
    ),
    Row(
        "rnn-tanh",
        lambda: torch.nn.RNN(3, 4),
        (X, H0),
        "per unit step one accumulator onto both biases: 7 fma, tanh. Reads x 30, h 8, w 12 + 16, biases 8; writes 40 "
        "+ 8",
        {"fma": 280, "special": 40, "macs": 280, "read": FLOAT * 74, "written": FLOAT * 48},
    ),
    Row(
        "rnn-relu",
        lambda: torch.nn.RNN(3, 4, nonlinearity="relu"),
        (X, H0),
        "1 cmp instead of tanh",
        {"fma": 280, "cmp": 40, "macs": 280, "read": FLOAT * 74, "written": FLOAT * 48},
    ),
    Row(
        "gru-bidirectional",
        lambda: torch.nn.GRU(3, 4, bidirectional=True),
        (X, (2, 2, 4)),
        "80 unit steps of gru. x is read once: 30, h 16, weights 216; writes y 80, h 16",
        {
            "fma": 80 * 22,
            "mul": 160,
            "add": 480,
            "div": 160,
            "special": 240,
            "macs": 1680,
            "read": FLOAT * 262,
            "written": FLOAT * 96,
        },
    ),
    Row(
        "lstm-two-layers",
        lambda: torch.nn.LSTM(3, 4, num_layers=2),
        (X, ((2, 2, 4), (2, 2, 4))),
        "the second layer has 4 inputs: 4·8 fma + 1 per unit step, 32 macs. One operator: what passes between its "
        "layers is neither read nor written. Reads x 30, h 16, c 16, weights 144 and 64 + 64 + 32; writes y 40, h 16, "
        "c 16",
        {
            "fma": 40 * 29 + 40 * 33,
            "mul": 160,
            "add": 480,
            "div": 240,
            "special": 400,
            "macs": 1120 + 1280,
            "read": FLOAT * 366,
            "written": FLOAT * 72,
        },
    ),
    Row(
        "lstm-backward",
        learned(
            lambda x, h, c, w, u, b, d: torch.lstm(x, (h, c), (w, u, b, d), True, 1, 0.0, True, False, False)[0],
            X,
            H0,
            H0,
            (16, 3),
            (16, 4),
            (16,),
            (16,),
        ),
        (),
        "each of the products of the gates has two in the backward: 2 · 1120 macs",
        {"macs": 2240},
        phase="backward",
        compare=("macs",),
    ),
    Row(
        "gru-backward",
        learned(
            lambda x, h, w, u, b, d: torch.gru(x, h, (w, u, b, d), True, 1, 0.0, True, False, False)[0],
            X,
            H0,
            (12, 3),
            (12, 4),
            (12,),
            (12,),
        ),
        (),
        "each of the products of the gates has two in the backward: 2 · 840 macs",
        {"macs": 1680},
        phase="backward",
        compare=("macs",),
    ),
]
