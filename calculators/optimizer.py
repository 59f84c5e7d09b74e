"""Optimizer steps as one operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.ir import Cost, Layer, Operations, covers, pattern


class Step(NamedTuple):
    """The update of one parameter x with gradient g.

    Attributes:
        operations: the operations per parameter if ``weight_decay`` is 0.
        definition: the expression they are counted from.
        moments: running moments per parameter.
    """

    operations: Operations
    definition: str
    moments: int


STEPS: Mapping[str, Step] = {
    "adagrad_step": Step(
        Operations(fma=1, mul=1, add=2, div=1, special=1),
        "h = fma(g, g, h); x - r * g / (sqrt(h) + eps)",
        1,
    ),
    "adam_step": Step(
        Operations(fma=2, mul=4, add=2, div=1, special=1),
        "v = fma(alpha, v, one_alpha * g); h = fma(beta, h, one_beta * g * g); x - r * v / (sqrt(h) + eps)",
        2,
    ),
    "momentum_step": Step(Operations(fma=2, mul=1), "v = fma(alpha, v, beta * g); fma(-r, v, x)", 1),
    "sgd_step": Step(Operations(fma=1), "fma(-r, g, x)", 0),
    "sgd_momentum_step": Step(Operations(fma=2), "v = fma(alpha, v, g); fma(-r, v, x)", 1),
    "sgd_nesterov_step": Step(Operations(fma=3), "v = fma(alpha, v, g); fma(-r, fma(alpha, v, g), x)", 1),
    "nesterov_step": Step(Operations(fma=3, mul=1), "v = fma(alpha, v, beta * g); fma(-r, fma(alpha, v, g), x)", 1),
}


@pattern("map")
@covers(STEPS)
def calc_optimizer_step(layer: Layer) -> Cost:
    """Steps of optimizers: the operations of the definition, once per parameter.

    Operands ``x0``, ``x1`` … are the parameters, followed by their gradients and their moments; outputs are the new
    parameters and moments. Attributes that add operations per parameter:

    * ``weight_decay`` other than 0, times x, added to the gradient: 1 fma;
    * ``weight_decay_after`` multiplies the new parameter: 1 mul;
    * ``amsgrad`` keeps the largest second moment: 1 cmp;
    * ``dampening`` multiplies the gradient for the momentum: 1 mul;
    * ``maximize`` negates the gradient: 1 add;
    * ``scaled`` divides the gradient by a common factor: 1 div;
    * ``quantized`` keeps moments in 8 bits, in blocks with a scale. Each moment is multiplied by its scale, then
      divided by the largest of its block and rounded to one of 256 codes by binary search: 1 mul, 1 div, 9 cmp per
      moment.

    Bias correction and other terms of the learning rate and the number of steps alone are scalar arithmetic and cost
    nothing.

    Source: ONNX operators Adagrad, Adam and Momentum; PyTorch's SGD; Duchi et al., JMLR 2011; Kingma and Ba,
    arXiv:1412.6980; Reddi et al. (AMSGrad), arXiv:1904.09237; Dettmers et al. (8 bits), arXiv:2110.02861.

    Shapes: x0[N], x1[N], x2[N] -> y[N], m[N]
    Shapes of sgd_step: x0[N], x1[N] -> y[N]
    Shapes of adam_step: x0[N], x1[N], x2[N], x3[N] -> y[N], m[N], v[N]
    """
    step, on = STEPS[layer.op], {name for name, value in layer.attrs.items() if value}
    moments = step.moments + (1 if "amsgrad" in on else 0)
    is_quantized = "quantized" in on  # one parameter, with scales beside the moments
    size = layer.outputs[0].size if is_quantized else sum(y.size for y in layer.outputs) // (1 + moments)
    extra = Operations(
        fma=1 if "weight_decay" in on else 0,
        mul=len(on & {"weight_decay_after", "dampening"}),
        add=1 if "maximize" in on else 0,
        div=1 if "scaled" in on else 0,
        cmp=1 if "amsgrad" in on else 0,
    )
    if is_quantized:
        extra += moments * Operations(mul=1, div=1, cmp=9)
    return Cost(size * (step.operations + extra), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_update_loss_scale(layer: Layer) -> Cost:
    """Next scale of the loss in mixed-precision training, from whether a gradient was not finite.

    If a gradient is not finite, the scale shrinks and the count of finite steps is reset. Otherwise the count grows,
    and after enough steps the scale grows, unless it would become infinite. The second case takes more operations and
    is counted: 1 add, 1 mul, 3 cmp. Scale and count are read and written.

    Source: PyTorch, ``torch.amp.GradScaler``.

    Shapes: scale[1], count[1], is_infinite[1] -> y[1]
    """
    written = layer.written + layer["count"].nbytes
    return Cost(Operations(mul=1, add=1, cmp=3), layer.read, written, layer.attrs)
