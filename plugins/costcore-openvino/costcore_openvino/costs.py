"""Formulas of operators that only OpenVINO has: detection, default boxes, decoders, colors."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Dim, Layer, Operations, ceil_log2, pattern, prod
from costcore.numbers import minimum

AREA = Operations(mul=1, add=2)
"""The area of a box."""

OVERLAP = Operations(mul=1, add=4, div=1, cmp=7)
"""Intersection over union of two boxes of known area, compared with a limit, as ``non_max_suppression`` counts it."""

CENTER_SIZE = Operations(mul=8, fma=6, add=4, special=2)
"""A box from an anchor and four offsets ``d``: size and center of the anchor (4 add, 2 mul), the center ``d v w + c``
(1 mul and 1 fma each), the size ``exp(d v) w`` (2 mul and 1 special each), its corners (4 fma)."""

CORNER = Operations(fma=4)
"""A box from the corners of an anchor and four offsets."""


def suppressed(lists: Dim, boxes: Dim, kept: int | None) -> Operations:
    """Return the maximum operations of a suppression: sort each list, then compare all pairs of its ``kept`` best."""
    top = boxes if kept is None or kept < 0 else minimum(boxes, kept)
    return lists * (Operations(cmp=boxes * ceil_log2(boxes)) + (top * (top - 1) // 2) * OVERLAP)


def _cost(layer: Layer, operations: Operations) -> Cost:
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_class_nms(layer: Layer) -> Cost:
    """Non-maximum suppression of each class: a sort, the overlap of the best ``top`` boxes, at most all pairs.

    ``decay``: each pair also lowers a score (Matrix NMS): "linear" ``(1 - iou) / (1 - most)``, 2 add and 1 div,
    "gaussian" ``exp((most² - iou²) sigma)``, 3 mul, 1 add and 1 special; and 1 cmp for the lowest.

    Source: OpenVINO MulticlassNms-9, MatrixNms-8; Wang et al., "SOLOv2", arXiv:2003.10152.

    Shapes: x0[N, M, 4], x1[N, C, M] -> y[K, 6]
    Settings: top=100
    """
    boxes, scores, top = layer["x0"], layer["x1"], layer.attrs.get("top")
    m = boxes.shape[-2]
    lists = prod(scores.shape) // m if m != 0 else 0
    operations = suppressed(lists, m, top) + prod(boxes.shape[:-1]) * AREA
    decay = {"linear": Operations(add=2, div=1), "gaussian": Operations(mul=3, add=1, special=1)}
    if layer.attrs.get("decay") in decay:
        kept = m if top is None or top < 0 else minimum(m, top)
        operations += lists * (kept * (kept - 1) // 2) * (decay[layer.attrs["decay"]] + Operations(cmp=1))
    return _cost(layer, operations)


@pattern("opaque")
def calc_detection_output(layer: Layer) -> Cost:
    """Final detections of SSD: boxes of default boxes and differences, then a suppression of each class.

    * A box: its center and size (``code`` "center_size": 8 mul, 6 fma, 4 add, 2 special), or its corners (4 fma).
      A default box is stored as ``box`` numbers, 5 with the number of its image.
    * Each of C classes: a sort of P boxes, the overlap of the best ``top``, at most all pairs.

    Source: Liu et al., "SSD", arXiv:1512.02325; OpenVINO DetectionOutput-8.

    Shapes: x[N, P*4], scores[N, P*C], priors[1, 2, P*4] -> y[1, 1, K, 7]
    Settings: top=400, code="center_size"
    """
    x, scores = layer["x"], layer["scores"]
    boxes = x.size // 4
    priors = layer["priors"].shape[-1] // layer.attrs.get("box", 4)
    lists = scores.size // priors if priors != 0 else 0
    decoded = CENTER_SIZE if layer.attrs.get("code") == "center_size" else CORNER
    return _cost(layer, boxes * (decoded + AREA) + suppressed(lists, priors, layer.attrs.get("top")))


@pattern("opaque")
def calc_region_proposals(layer: Layer) -> Cost:
    """Regions of a region proposal network: a box per anchor and position, clipped, then a suppression.

    * A box: 8 mul, 6 fma, 4 add, 2 special; clipped to the image (8 cmp) and compared with the minimum size (2 add,
      2 cmp).
    * A sort by score, and the overlap of the best ``top``, at most all pairs.

    Source: Ren et al., "Faster R-CNN", arXiv:1506.01497; OpenVINO Proposal-4, GenerateProposals-9.

    Shapes: x[N, 4*A, H, W], scores[N, A, H, W] -> y[K, 5]
    Settings: top=6000
    """
    boxes = layer["x"].size // 4
    samples = layer["x"].shape[0] if layer["x"].ndim == 4 else 1
    operations = boxes * (CENTER_SIZE + AREA + Operations(add=2, cmp=10))
    return _cost(layer, operations + suppressed(samples, boxes // samples, layer.attrs.get("top")))


@pattern("opaque")
def calc_class_detections(layer: Layer) -> Cost:
    """Detections of a region-based network: a box per region and class, a suppression per class, the best of all.

    * A box: 8 mul, 6 fma, 4 add, 2 special, clipped to the image (8 cmp).
    * Each class: a sort of R boxes and the overlap of all pairs, at most; then a sort of all remaining boxes.

    Source: Ren et al., "Faster R-CNN", arXiv:1506.01497; OpenVINO ExperimentalDetectronDetectionOutput-6.

    Shapes: rois[R, 4], x[R, C*4], scores[R, C] -> y[K, 4]
    """
    scores = layer["scores"]
    regions, classes = scores.shape
    operations = scores.size * (CENTER_SIZE + AREA + Operations(cmp=8)) + suppressed(classes, regions, None)
    return _cost(layer, operations + Operations(cmp=scores.size * ceil_log2(scores.size)))


@pattern("make")
def calc_prior_boxes(layer: Layer) -> Cost:
    """Default boxes of all positions, and their variances: each corner is ``(center ± size / 2) / image``.

    1 add and 1 mul per corner; centers, halves and the inverse image are computed once.

    Source: OpenVINO PriorBox-8; Liu et al., "SSD", arXiv:1512.02325.

    Shapes: -> y[2, P*4]
    """
    corners = layer.out.size // layer.attrs["rows"]
    return _cost(layer, Operations(add=corners, mul=corners))


@pattern("map")
def calc_yolo_regions(layer: Layer) -> Cost:
    """Predictions of YOLO: sigmoids of the center, the objectness and the classes of each box; ``softmax`` of classes.

    * ``sigmoid``: 1 add, 1 div and 1 special per element, of 3 + C elements for each of B boxes of a position.
    * ``softmax`` (YOLOv2): sigmoids of 3 elements, and 1 cmp, 2 add, 1 div and 1 special per class.

    Source: Redmon and Farhadi, arXiv:1612.08242 and arXiv:1804.02767; OpenVINO RegionYolo-1.

    Shapes: x[N, B*(5+C), H, W] -> y[N, B*(5+C), H, W]
    Settings: boxes=B, classes=C
    """
    x, classes = layer["x"], layer.attrs["classes"]
    boxes = x.shape[0] * prod(x.shape[2:]) * layer.attrs["boxes"]
    sigmoid = Operations(add=1, div=1, special=1)
    if layer.attrs.get("softmax"):
        return _cost(layer, boxes * (3 * sigmoid + classes * Operations(cmp=1, add=2, div=1, special=1)))
    return _cost(layer, boxes * (3 + classes) * sigmoid)


@pattern("opaque")
def calc_ctc_greedy_decode(layer: Layer) -> Cost:
    """Best class of each step, without blanks and repetitions: C - 1 cmp per step for the maximum, 2 cmp for its class.

    Source: OpenVINO CTCGreedyDecoderSeqLen-6.

    Shapes: x[N, T, C] -> y[N, T]
    """
    x = layer["x"]
    steps = prod(x.shape[:-1])
    return _cost(layer, Operations(cmp=x.size + steps))


@pattern("map")
def calc_color_convert(layer: Layer) -> Cost:
    """Red, green and blue of luma and chroma, ``1.164 (Y - 16)`` and products of ``U - 128`` and ``V - 128``.

    Per pixel: 3 add and 1 mul for the differences and luma, 4 fma, and 6 cmp with the limits 0 and 255.

    Source: OpenVINO NV12toRGB-8.

    Shapes: x[N, H, W, 1] -> y[N, H, W, 3]
    """
    return _cost(layer, layer.out.size // 3 * Operations(add=3, mul=1, fma=4, cmp=6))


CALCULATORS: Mapping[str, Calculator] = {
    "class_detections": calc_class_detections,
    "class_nms": calc_class_nms,
    "color_convert": calc_color_convert,
    "ctc_greedy_decode": calc_ctc_greedy_decode,
    "detection_output": calc_detection_output,
    "prior_boxes": calc_prior_boxes,
    "region_proposals": calc_region_proposals,
    "yolo_regions": calc_yolo_regions,
}
