"""The installed tools print the numbers of their conventions: a release with other rules is noticed."""

from __future__ import annotations

import warnings

import pytest
import torch

from costcore import Tensor, estimate
from tests.frontends.pytorch.conventions.networks import NETWORKS

CHOSEN = (
    *("conv_b4", "conv1d", "convT_groups", "resid", "ds", "se", "unet", "nested", "mlp_b2", "attn_at", "encoder"),
    *("lstm_tag", "op_pools", "op_bn_train", "op_einsum_bmm"),
)


def ptflops(network, inputs, **settings):
    tool = imported("ptflops")
    given = {"input_constructor": lambda _: inputs[0], "as_strings": False, "print_per_layer_stat": False}
    return tool.get_model_complexity_info(network, (1,), **given, **settings)[0]


def thop(network, inputs):
    return int(imported("thop").profile(network, inputs=inputs, verbose=False)[0])


def torchinfo(network, inputs):
    return imported("torchinfo").summary(network, input_data=inputs, verbose=0).total_mult_adds


def torchprofile(network, inputs):
    return imported("torchprofile").profile_macs(network, inputs)


def fvcore(network, inputs):
    counted = imported("fvcore.nn").FlopCountAnalysis(network, inputs)
    return counted.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


def torch_on_meta(network, inputs):
    from torch.utils.flop_counter import FlopCounterMode

    network, inputs = network.to("meta"), [x.to("meta") for x in inputs]
    with torch.no_grad(), FlopCounterMode(display=False) as mode:
        network(*inputs)
    return mode.get_total_flops()


TOOLS = {
    "ptflops": lambda network, inputs: ptflops(network, inputs, backend="pytorch"),
    "ptflops-modules": lambda network, inputs: ptflops(
        network, inputs, backend="pytorch", backend_specific_config={"count_functional": False}
    ),
    "ptflops-aten": lambda network, inputs: ptflops(network, inputs, backend="aten"),
    "thop": thop,
    "torchinfo": torchinfo,
    "torchprofile": torchprofile,
    "fvcore": fvcore,
    "torch": torch_on_meta,
}


def imported(name):
    """Import a tool, or skip the test with its name."""
    return pytest.importorskip(name, reason=f"{name} is not installed", exc_type=ImportError)


def random_inputs(network):
    torch.manual_seed(0)
    return tuple(
        torch.randn(shape) if dtype == "float32" else torch.randint(0, 10, shape, dtype=getattr(torch, dtype))
        for shape, dtype in network.shapes()
    )


PAIRS = [(tool, name) for tool in TOOLS for name in CHOSEN if ";" not in NETWORKS[name].inputs or "ptflops" not in tool]
"""Tools with networks; ptflops takes several inputs only by name."""


@pytest.mark.parametrize(("tool", "name"), PAIRS)
def test_an_installed_tool_prints_the_same_number(tool, name):
    network = NETWORKS[name]
    inputs = random_inputs(network)
    with warnings.catch_warnings():
        for category in (DeprecationWarning, torch.jit.TracerWarning):  # distutils in thop, tracing in fvcore
            warnings.simplefilter("ignore", category)
        warnings.filterwarnings("ignore", "No handlers found", UserWarning)  # torchprofile names what it leaves out
        printed = TOOLS[tool](network.built(), inputs)
    report = estimate(network.built(), tuple(Tensor(*shape) for shape in network.shapes()), record_api_calls=True)
    assert report.under(tool).total == printed
