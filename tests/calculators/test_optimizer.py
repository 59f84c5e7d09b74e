from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import measure
from tests.calculators.layer_costs import declared, layer_cost, operations

STEPS = declared("optimizer", "STEPS")

WORDS = {"r": 0.1, "eps": 1e-8, "alpha": 0.9, "beta": 0.9, "one_alpha": 0.1, "one_beta": 0.1}


@pytest.mark.parametrize("op", sorted(STEPS))
def test_steps_are_their_definitions(op: str) -> None:
    step = STEPS[op]
    _, counted = measure(step.definition, "x=0.5", "g=0.2", "v=0.3", "h=0.4", **WORDS)
    assert counted == step.operations
    moments = sum(f"{moment} = " in step.definition for moment in "vh")  # they are kept from step to step
    operands = {f"x{i}": (7,) for i in range(2 + moments)}
    result = layer_cost(op, operands, *[(7,)] * (1 + moments))
    assert result.flops == 7 * counted
    assert (result.mread, result.mwrite) == (28 * (2 + moments), 28 * (1 + moments))


def test_several_parameters_and_weight_decay() -> None:
    operands = {f"x{i}": (3 if i % 2 else 4,) for i in range(6)}
    outputs = [(4,), (3,), (4,), (3,)]
    plain = operations("momentum_step", operands, *outputs)
    assert plain == 7 * Operations(fma=2, mul=1)
    decayed = operations("momentum_step", operands, *outputs, weight_decay=0.1, weight_decay_after=0.1)
    assert decayed == plain + 7 * Operations(fma=1, mul=1)


def test_what_a_step_may_do_besides() -> None:
    operands, outputs = {f"x{i}": (7,) for i in range(5)}, [(7,)] * 4
    plain = operations("adam_step", {f"x{i}": (7,) for i in range(4)}, *outputs[:3])
    assert operations("adam_step", operands, *outputs, amsgrad=True) == plain + Operations(cmp=7)
    asked = operations("adam_step", operands, *outputs[:3], maximize=True, scaled=True, dampening=0.5)
    assert asked == plain + Operations(add=7, div=7, mul=7)


def test_next_loss_scale() -> None:
    """Neither count nor scale is at its limit: count + 1, compared; scale * 2, and whether it is finite."""
    definition = (
        "total = count + 1; grown = scale * 2.0; grown = grown if grown < 1e30 else scale; "
        "scale = grown if total < 2000 else scale; scale if is_infinite < 1 else scale"
    )
    _, counted = measure(definition, "scale=65536.0", "count=3.0", "is_infinite=0.0")
    cost = layer_cost("update_loss_scale", {"scale": (1,), "count": Tensor((1,), "int32"), "is_infinite": (1,)}, (1,))
    assert cost.flops == counted == Operations(mul=1, add=1, cmp=3)
    assert (cost.mread, cost.mwrite) == (12, 8)
