"""Dropout against its executed definition."""

from __future__ import annotations

from itertools import accumulate

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, exp, fma, select
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost

DROPOUTS = declared("random", "DROPOUTS")


@pytest.mark.parametrize(("op", "mask"), [(op, 6 if op.startswith("feature") else 24) for op in DROPOUTS])
def test_dropout_in_training_is_its_definition(op, mask):
    definition = compile(DROPOUTS[op].definition, op, "eval")
    names = {"where": select, "fma": fma, "scale": 2.0, "shift": 0.5, "value": -1.7}

    def dropout(x, keep):
        for value, choice in zip(x.flat, keep.flat, strict=True):
            eval(definition, names | {"x": value, "keep": choice})

    cost = layer_cost(op, {"x": (2, 3, 4)}, (2, 3, 4), rate=0.5, training=True)
    assert cost.flops == count(dropout, (2, 3, 4), (2, 3, 4))
    assert (cost.mread, cost.mwrite) == (4 * 24, 4 * 24 + mask)


def test_a_mask_that_is_returned_is_written_as_it_is():
    outputs = (2, 3), Tensor((2, 3), "float32")
    assert layer_cost("dropout", {"x": (2, 3)}, *outputs, training=True).mwrite == 2 * 4 * 6


@pytest.mark.parametrize("op", DROPOUTS)
@pytest.mark.parametrize("settings", [{"training": False}, {}])
def test_dropout_at_inference_is_free(op, settings):
    cost = layer_cost(op, {"x": (2, 3)}, (2, 3), rate=0.5, **settings)
    assert (cost.flops, cost.mread, cost.mwrite) == (Operations(), 0, 0)


@pytest.mark.parametrize(("dtype", "choices", "nbytes"), [("bool", 6, 1), ("float32", 0, 4)])
def test_dropout_backward_by_hand(dtype, choices, nbytes):
    cost = layer_cost("dropout_backward", {"dy": (2, 3), "mask": Tensor((2, 3), dtype)}, (2, 3))
    assert cost.flops == Operations(mul=6, cmp=choices)
    assert (cost.mread, cost.mwrite) == (4 * 6 + nbytes * 6, 4 * 6)


def test_coins_and_draws() -> None:
    assert layer_cost("bernoulli", {"x": (3, 4)}, (3, 4)).flops == Operations(cmp=12)

    def draw(x):
        for row in x:
            sums = list(accumulate(exp(value) for value in row))
            for _ in range(3):
                place, low, high = sums[-1] * 0.99, 0, len(sums) - 1
                while low < high:
                    middle = (low + high) // 2
                    low, high = (middle + 1, high) if sums[middle] < place else (low, middle)

    assert layer_cost("multinomial", {"x": (2, 8)}, Tensor((2, 3), "int64")).flops == count(draw, (2, 8))


def test_normal_numbers_scale_and_shift_noise():
    assert layer_cost("normal", {"x0": (3, 4), "x1": (4,)}, (3, 4)).flops == Operations(fma=12)


def test_samples_read_their_parameters():
    assert layer_cost("sample", {"x": (3, 4)}, (3, 4))[:3] == (Operations(), 48, 48)


def test_classes_drawn_by_probabilities_need_no_exponential():
    drawn = {"x": (2, 8)}, (2, 5)
    assert layer_cost("multinomial", *drawn, logarithmic=False).flops == Operations(add=14, mul=10, cmp=30)
    assert layer_cost("multinomial", *drawn).flops == Operations(add=14, mul=10, cmp=30, special=16)


def test_channels_are_dropped_from_the_gradient() -> None:
    cost = layer_cost("feature_dropout_backward", {"dy": (2, 3, 4), "mask": Tensor((2, 3, 1), "bool")}, (2, 3, 4))
    assert cost.flops == Operations(mul=24, cmp=24)
    assert (cost.mread, cost.mwrite) == (4 * 24 + 6, 4 * 24)


def test_new_random_numbers_are_only_written() -> None:
    assert layer_cost("random", {}, Tensor((2, 3), "int64"))[:3] == (Operations(), 0, 6 * 8)
    assert bytes_moved("random", {"like": (2, 3), "x0": None}, (2, 3)) == (0, 6 * 4)
    assert bytes_moved("random", {"x0": Tensor((), "int64")}, (2, 3)) == (8, 6 * 4)


def test_the_mask_of_dropout_has_the_type_that_the_backward_pass_reads():
    settings = {"training": True}
    assert bytes_moved("dropout", {"x": (2, 3, 4)}, (2, 3, 4), **settings) == (96, 96 + 24)
    assert bytes_moved("dropout", {"x": (2, 3, 4)}, (2, 3, 4), **settings, mask="float32") == (96, 96 + 96)
    assert bytes_moved("feature_dropout", {"x": (2, 3, 4)}, (2, 3, 4), **settings, mask="float32") == (96, 96 + 24)
