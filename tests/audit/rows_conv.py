"""Convolutions: groups, dilation, transposed, backward."""

from __future__ import annotations

from torch.nn import functional as fn

from .modules import function, learned
from .row import FLOAT, Row

ROWS = [
    Row(
        "conv2d",
        function(lambda x, w, b: fn.conv2d(x, w, b, padding=1)),
        ((2, 4, 6, 6), (8, 4, 3, 3), (8,)),
        "y 2·8·6·6 = 576, dot products of n = 4·9 = 36 onto the bias: n fma, n macs each, taps on padding count. "
        "Reads x 288, w 288, b 8",
        {"fma": 576 * 36, "macs": 576 * 36, "read": FLOAT * 584, "written": FLOAT * 576},
    ),
    Row(
        "conv2d-no-bias",
        function(lambda x, w: fn.conv2d(x, w, padding=1)),
        ((2, 4, 6, 6), (8, 4, 3, 3)),
        "onto nothing: 1 mul and n − 1 = 35 fma each",
        {"mul": 576, "fma": 576 * 35, "macs": 576 * 36, "read": FLOAT * 576, "written": FLOAT * 576},
    ),
    Row(
        "conv2d-grouped-strided",
        function(lambda x, w, b: fn.conv2d(x, w, b, stride=2, padding=1, groups=2)),
        ((2, 4, 6, 6), (8, 2, 3, 3), (8,)),
        "(6 + 2 − 3)//2 + 1 = 3: y 2·8·3·3 = 144; n = 4/2·9 = 18. Reads x 288 whole, w 144, b 8",
        {"fma": 144 * 18, "macs": 144 * 18, "read": FLOAT * 440, "written": FLOAT * 144},
    ),
    Row(
        "conv1d-dilated",
        function(lambda x, w: fn.conv1d(x, w, dilation=2)),
        ((1, 3, 10), (5, 3, 3)),
        "10 − 2·2 = 6: y 30; n = 9, no bias: 1 mul, 8 fma. Reads x 30, w 45",
        {"mul": 30, "fma": 240, "macs": 270, "read": FLOAT * 75, "written": FLOAT * 30},
    ),
    Row(
        "conv2d-depthwise",
        function(lambda x, w, b: fn.conv2d(x, w, b, padding=1, groups=4)),
        ((1, 4, 5, 5), (4, 1, 3, 3), (4,)),
        "y 100; n = 9 onto the bias. Reads x 100, w 36, b 4",
        {"fma": 900, "macs": 900, "read": FLOAT * 140, "written": FLOAT * 100},
    ),
    Row(
        "conv2d-pointwise-strided",
        function(lambda x, w: fn.conv2d(x, w, stride=2)),
        ((1, 4, 5, 5), (6, 4, 1, 1)),
        "(5 − 1)//2 + 1 = 3: y 54; n = 4: 1 mul, 3 fma. x is read whole, 100, though the stride skips elements; w 24",
        {"mul": 54, "fma": 162, "macs": 216, "read": FLOAT * 124, "written": FLOAT * 54},
    ),
    Row(
        "conv3d",
        function(fn.conv3d),
        ((1, 2, 4, 4, 4), (3, 2, 2, 2, 2)),
        "y 3·27 = 81; n = 2·8 = 16: 1 mul, 15 fma. Reads x 128, w 48",
        {"mul": 81, "fma": 1215, "macs": 1296, "read": FLOAT * 176, "written": FLOAT * 81},
    ),
    Row(
        "conv_transpose2d",
        function(lambda x, w, b: fn.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1)),
        ((1, 4, 5, 5), (4, 6, 3, 3), (6,)),
        "(5 − 1)·2 − 2 + 3 + 1 = 10: y 600; |x|·Cout·k = 100·6·9 = 5400 products, all added to the output. Reads 100 "
        "+ 216 + 6",
        {"fma": 5400, "macs": 5400, "read": FLOAT * 322, "written": FLOAT * 600},
    ),
    Row(
        "conv_transpose1d-grouped",
        function(lambda x, w: fn.conv_transpose1d(x, w, groups=2)),
        ((2, 4, 5), (4, 3, 3)),
        "5 + 2 = 7: y 2·6·7 = 84; |x|·(Cout/G)·k = 40·3·3 = 360 products, added to an output of zeros. Reads 40 + 36",
        {"fma": 360, "macs": 360, "read": FLOAT * 76, "written": FLOAT * 84},
    ),
    Row(
        "conv2d-backward",
        learned(lambda x, w, b: fn.conv2d(x, w, b, padding=1), (2, 4, 6, 6), (8, 4, 3, 3), (8,)),
        (),
        "gx: g scattered through w, |g|·Cin·k = 576·36 = 20736 fma. gw: 288 dot products of length 2·36 = 72: 1 mul, "
        "71 fma. gb: 8 sums of 72: 71 add. Reads g 576, x 288, w 288; writes 288 + 288 + 8",
        {"fma": 20736 + 20448, "mul": 288, "add": 568, "macs": 41472, "read": FLOAT * 1152, "written": FLOAT * 584},
        phase="backward",
    ),
    Row(
        "conv2d-backward-weight-only",
        learned(lambda w, b, x: fn.conv2d(x, w, b, padding=1), (8, 4, 3, 3), (8,)),
        (2, 4, 6, 6),
        "x needs no gradient: gw and gb alone. Reads g 576 and x 288, not w; writes 288 + 8",
        {"fma": 20448, "mul": 288, "add": 568, "macs": 20736, "read": FLOAT * 864, "written": FLOAT * 296},
        phase="backward",
    ),
    Row(
        "conv2d-grouped-backward",
        learned(lambda x, w: fn.conv2d(x, w, groups=2), (1, 4, 5, 5), (6, 2, 3, 3)),
        (),
        "y 6·3·3 = 54. gx: 54·2·9 = 972 fma. gw: 108 dot products of length 9: 1 mul, 8 fma. No bias. Reads g 54, x "
        "100, w 108; writes 100 + 108",
        {"fma": 972 + 864, "mul": 108, "macs": 1944, "read": FLOAT * 262, "written": FLOAT * 208},
        phase="backward",
    ),
    Row(
        "conv_transpose2d-backward",
        learned(
            lambda x, w, b: fn.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
            (1, 4, 5, 5),
            (4, 6, 3, 3),
            (6,),
        ),
        (),
        "gx: a convolution of g, 100 dot products of length 6·9 = 54: 1 mul, 53 fma. gw: 216 of length 25: 1 mul, 24 "
        "fma. gb: 6 sums of 100: 99 add. Reads g 600, x 100, w 216; writes 100 + 216 + 6",
        {
            "fma": 5300 + 5184,
            "mul": 100 + 216,
            "add": 594,
            "macs": 10800,
            "read": FLOAT * 916,
            "written": FLOAT * 322,
        },
        phase="backward",
    ),
    Row(
        "conv2d-same",
        function(lambda x, w: fn.conv2d(x, w, padding="same")),
        ((1, 2, 4, 4), (3, 2, 3, 3)),
        "y 48, n = 18; reads 32 + 54",
        {"mul": 48, "fma": 48 * 17, "macs": 864, "read": FLOAT * 86, "written": FLOAT * 48},
    ),
    Row(
        "conv1d-unbatched",
        function(fn.conv1d),
        ((3, 10), (5, 3, 3), (5,)),
        "y 5·8 = 40, n = 9 onto the bias; reads 30 + 45 + 5",
        {"fma": 360, "macs": 360, "read": FLOAT * 80, "written": FLOAT * 40},
    ),
    Row(
        "conv2d-expanded-input",
        function(lambda x, w: fn.conv2d(x.expand(4, 2, 4, 4), w)),
        ((1, 2, 4, 4), (3, 2, 3, 3)),
        "y 4·3·2·2 = 48, n = 18; the view of 4 images has 32 stored elements: reads 32 + 54",
        {"mul": 48, "fma": 816, "macs": 864, "read": FLOAT * 86, "written": FLOAT * 48},
    ),
    Row(
        "conv2d-backward-input-only",
        learned(lambda x, w: fn.conv2d(x, w, padding=1), (2, 4, 6, 6)),
        (8, 4, 3, 3),
        "gx alone: 576·4·9 fma. Reads g 576 and w 288, not x; writes 288",
        {"fma": 20736, "macs": 20736, "read": FLOAT * 864, "written": FLOAT * 288},
        phase="backward",
    ),
    Row(
        "conv_transpose2d-dilated-grouped",
        function(lambda x, w, b: fn.conv_transpose2d(x, w, b, dilation=2, groups=2)),
        ((1, 4, 3, 3), (4, 3, 2, 2), (6,)),
        "3 + 2 = 5: y 150; 36·3·4 products added to the bias; reads 36 + 48 + 6",
        {"fma": 432, "macs": 432, "read": FLOAT * 90, "written": FLOAT * 150},
    ),
]
