"""Model and hardware FLOPs by phase, MFU, and the peaks that vendors print."""

from __future__ import annotations

import pytest

from costcore import CostError
from costcore.studies.training.step import hardware_flops, mfu, model_flops, peak_flops
from tests.core.analyses.timing.toy_device import Printed, device
from tests.core.given_costs import Step, dense, net, relu

STEP = net(
    dense("a", 4),  # 4 x 4 = 16 MACs
    relu("b"),
    dense("a", 4, phase="recompute"),  # 16
    Step("linear_backward", "a", macs=32, phase="backward"),
    Step("linear", "", macs=5, phase="optimizer"),
)


def test_model_flops_are_two_per_mac_of_forward_and_backward():
    assert model_flops(STEP) == 2 * (16 + 32)


def test_hardware_flops_add_recomputation_and_no_optimizer():
    assert hardware_flops(STEP) == 2 * (16 + 32 + 16)


def test_palm_states_its_mfu():
    # arXiv:2204.02311: 238.3e3 tokens/s on 6144 TPU v4, 6N + 12LHQT per token with N = 540.35e9, L = 118, H = 48,
    # Q = 256, T = 2048; printed MFU 46.2 %.
    flops = int(6 * 540.35e9) + 12 * 118 * 48 * 256 * 2048
    assert round(100 * mfu(flops * 238_300, 1.0, 6144, peak_flops("tpu-v4", "bfloat16")), 1) == 46.2


@pytest.mark.parametrize(
    ("name", "dtype", "tera"),
    [
        ("h100-sxm5-80gb", "float16", 989.4),  # NVIDIA H100 data sheet, dense
        ("h100-sxm5-80gb", "bfloat16", 989.4),  # printed for float16 only, equal by the data sheet
        ("h100-sxm5-80gb", "float8_e5m2", 1978.9),
        ("h100-sxm5-80gb", "tfloat32", 494.7),
        ("h100-sxm5-80gb", "float32", 66.9),  # vector engine
        ("a100-sxm4-80gb", "bfloat16", 312),  # NVIDIA A100 data sheet
        ("tpu-v4", "bfloat16", 275),  # Cloud TPU documentation
    ],
)
def test_peaks_are_those_of_data_sheets(name, dtype, tera):
    assert peak_flops(name, dtype) == pytest.approx(1e12 * tera, rel=1e-12)


def test_a_peak_that_is_not_printed_is_that_of_the_file():
    assert peak_flops(device(), "float16") == 8e12
    printed = device(printed=(Printed("matrix", "float16", 6.0), Printed("vector", "float32", 0.5)))
    assert peak_flops(printed, "float16") == 6e12
    assert peak_flops(printed, "float32") == 0.5e12
    assert peak_flops(printed, "tfloat32") == 4e12


def test_a_dtype_without_a_peak_is_an_error():
    with pytest.raises(CostError, match=r"'a100-sxm4-80gb' has no peak for float8_e4m3fn .*Give peak="):
        peak_flops("a100-sxm4-80gb", "float8_e4m3fn")


def test_an_unknown_dtype_is_an_error():
    with pytest.raises(ValueError, match="unknown dtype 'bf16'"):
        peak_flops("a100-sxm4-80gb", "bf16")


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"devices": -1}, {"peak": float("inf")}])
def test_arguments_must_be_positive(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be a positive number"):
        mfu(10, **{"seconds": 1.0, "devices": 1, "peak": 1.0, **wrong})


@pytest.mark.frontend("onnx")  # brings sympy
def test_symbolic_flops_have_no_utilization():
    from sympy import Symbol

    with pytest.raises(CostError, match=r"report\.subs \(got 2\*batch\)"):
        mfu(2 * Symbol("batch", integer=True, positive=True), 1.0, 1, 1.0)
