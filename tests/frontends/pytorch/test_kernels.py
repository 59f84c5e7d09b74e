"""Kernels of other packages, by stand-ins with their names and signatures; costs by hand.

The signatures are those of flash-attn 2.8, xformers 0.0.33, mamba-ssm 2.2, causal-conv1d 1.5, natten 0.20, mmcv 2.2,
InternImage (DCNv3), DCNv4, fla 0.3, torch-scatter 2.1, bitsandbytes 0.48, auto-gptq 0.7, autoawq 0.2,
transformer-engine 2.8, apex and liger-kernel 0.6.
"""

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, CostError, Value, estimate

B, T, H, D = 2, 6, 4, 8


@pytest.fixture
def stand_in():
    """Make functions, autograd functions and modules of other packages, for one test."""
    made = []

    def make(name, signature, kind="function"):
        path, _, word = name.partition("::")
        first = {"function": "", "autograd": "ctx, ", "module": "self, "}[kind]
        names = {"torch": torch, "nn": nn, "__name__": path}
        run = f"def {word if kind == 'function' else 'forward'}({first}{signature}):\n    raise RuntimeError('CUDA')\n"
        if kind != "function":
            base = "torch.autograd.Function" if kind == "autograd" else "nn.Module"
            mark = "    @staticmethod\n" if kind == "autograd" else ""
            run = f"class {word}({base}):\n{mark}    " + run.replace("\n", "\n    ")
        exec(run, names)
        found = names[word]
        found.__module__ = path
        parts = path.split(".")
        for name in (".".join(parts[:i]) for i in range(1, len(parts) + 1)):
            if name not in sys.modules:
                sys.modules[name] = ModuleType(name)
                made.append(name)
        setattr(sys.modules[path], word, found)
        return found

    yield make
    for name in made:
        del sys.modules[name]


def tensor(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


def q(heads=H, steps=T):
    return tensor(B, steps, heads, D)


PAIRS = B * H * T * T
"""All pairs of queries and keys; a pair takes D products for its score and D for its weighted value."""

LENGTHS = torch.tensor([0, 4, 10], dtype=torch.int32)
"""Two sequences of 4 and 6 tokens, packed."""

CLASSES = 10

FLASH = "flash_attn.flash_attn_interface"
QKV_ARGUMENTS = "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None"
SCAN_ARGUMENTS = "u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, return_last_state=False"
N = 16  # states of a scan

FUNCTIONS = {
    f"{FLASH}::flash_attn_func": (
        f"q, k, v, {QKV_ARGUMENTS}",
        (q(), q(2), q(2)),
        PAIRS * 2 * D,
        (B, T, H, D),
    ),
    "flash_attn_interface::flash_attn_func": (
        "q, k, v, softmax_scale=None, causal=False, qv=None, window_size=(-1, -1)",
        (q(), q(), q()),
        PAIRS * 2 * D,
        (B, T, H, D),
    ),
    f"{FLASH}::flash_attn_qkvpacked_func": (
        f"qkv, {QKV_ARGUMENTS}",
        (tensor(B, T, 3, H, D),),
        PAIRS * 2 * D,
        (B, T, H, D),
    ),
    f"{FLASH}::flash_attn_kvpacked_func": (
        f"q, kv, {QKV_ARGUMENTS}",
        (q(), tensor(B, 9, 2, H, D)),
        B * H * T * 9 * 2 * D,
        (B, T, H, D),
    ),
    f"{FLASH}::flash_attn_varlen_func": (
        f"q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, {QKV_ARGUMENTS}",
        (tensor(10, H, D), tensor(10, H, D), tensor(10, H, D), LENGTHS, LENGTHS, 6, 6),
        H * (4 * 4 + 6 * 6) * 2 * D,
        (10, H, D),
    ),
    f"{FLASH}::flash_attn_with_kvcache": (
        "q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None, causal=False",
        (q(steps=1), tensor(B, 32, H, D), tensor(B, 32, H, D), q(steps=1), q(steps=1), None, None, 20),
        B * H * 21 * 2 * D,
        (B, 1, H, D),
    ),
    "xformers.ops.fmha::memory_efficient_attention": (
        "query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None",
        (q(), q(), q()),
        PAIRS * 2 * D,
        (B, T, H, D),
    ),
    "natten.functional::na1d": (
        "query, key, value, kernel_size, stride=1, dilation=1, is_causal=False, scale=None",
        (q(), q(), q(), 3),
        B * T * H * 3 * 2 * D,
        (B, T, H, D),
    ),
    "natten.functional::na2d": (
        "query, key, value, kernel_size, stride=1, dilation=1, is_causal=False, scale=None",
        (*[tensor(B, 5, 7, H, D)] * 3, Value((3, 5))),
        B * 5 * 7 * H * 15 * 2 * D,
        (B, 5, 7, H, D),
    ),
    "mamba_ssm.ops.selective_scan_interface::selective_scan_fn": (
        SCAN_ARGUMENTS,
        (tensor(B, D, T), tensor(B, D, T), tensor(D, N), tensor(B, N, T), tensor(B, N, T), tensor(D)),
        2 * B * D * T * N,
        (B, D, T),
    ),
    "mamba_ssm.ops.triton.ssd_combined::mamba_chunk_scan_combined": (
        "x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, initial_states=None, seq_idx=None, "
        "cu_seqlens=None, dt_softplus=False, dt_limit=(0.0, float('inf')), return_final_states=False",
        (tensor(B, T, H, D), tensor(B, T, H), tensor(H), tensor(B, T, 1, N), tensor(B, T, 1, N), 64),
        2 * B * T * H * D * N,
        (B, T, H, D),
    ),
    "causal_conv1d.causal_conv1d_interface::causal_conv1d_fn": (
        "x, weight, bias=None, seq_idx=None, initial_states=None, return_final_states=False, "
        "final_states_out=None, activation=None",
        (tensor(B, D, T), tensor(D, 4), tensor(D)),
        B * D * T * 4,
        (B, D, T),
    ),
    "fla.ops.gla.chunk::chunk_gla": (
        "q, k, v, g, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None",
        (q(), q(), q(), q()),
        2 * B * T * H * D * D,
        (B, T, H, D),
    ),
    "fla.ops.delta_rule.chunk::chunk_delta_rule": (
        "q, k, v, beta, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None",
        (q(), q(), q(), tensor(B, T, H)),
        3 * B * T * H * D * D,
        (B, T, H, D),
    ),
}

LEVELS, POINTS, QUERIES = 2, 4, 5
SAMPLES = B * QUERIES * H * LEVELS * POINTS * D

AUTOGRAD = {
    "mmcv.ops.multi_scale_deform_attn::MultiScaleDeformableAttnFunction": (
        "value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights, im2col_step",
        (
            tensor(B, 20, H, D),
            torch.tensor([[4, 4], [2, 2]]),
            torch.tensor([0, 16]),
            tensor(B, QUERIES, H, LEVELS, POINTS, 2),
            tensor(B, QUERIES, H, LEVELS, POINTS),
            64,
        ),
        SAMPLES,
        (B, QUERIES, H * D),
    ),
    "models.ops.functions.ms_deform_attn_func::MSDeformAttnFunction": (
        "value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights, im2col_step",
        (
            tensor(B, 20, H, D),
            torch.tensor([[4, 4], [2, 2]]),
            torch.tensor([0, 16]),
            tensor(B, QUERIES, H, LEVELS, POINTS, 2),
            tensor(B, QUERIES, H, LEVELS, POINTS),
            64,
        ),
        SAMPLES,
        (B, QUERIES, H * D),
    ),
    "mmcv.ops.modulated_deform_conv::ModulatedDeformConv2dFunction": (
        "input, offset, mask, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, deform_groups=1",
        (tensor(B, 3, 8, 8), tensor(B, 18, 6, 6), tensor(B, 9, 6, 6), tensor(4, 3, 3, 3), None),
        B * 4 * 6 * 6 * 27,
        (B, 4, 6, 6),
    ),
    "ops_dcnv3.functions.dcnv3_func::DCNv3Function": (
        "input, offset, mask, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, group, "
        "group_channels, offset_scale, im2col_step, remove_center",
        (
            tensor(B, 6, 6, 32),
            tensor(B, 6, 6, 4 * 18),
            tensor(B, 6, 6, 4 * 9),
            *(3, 3, 1, 1, 1, 1, 1, 1, 4, 8, 1.0, 256, 0),
        ),
        B * 36 * 9 * 32,
        (B, 6, 6, 32),
    ),
    "DCNv4.functions.dcnv4_func::DCNv4Function": (
        "input, offset_mask, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, group, "
        "group_channels, offset_scale, im2col_step, remove_center",
        (tensor(B, 6, 6, 32), tensor(B, 6, 6, 104), *(3, 3, 1, 1, 1, 1, 1, 1, 4, 8, 1.0, 256, 1)),
        B * 36 * 4 * 8 * 8,  # 8 samples of 8 channels in each of 4 groups
        (B, 6, 6, 32),
    ),
    "mmcv.ops.carafe::CARAFEFunction": (
        "features, masks, kernel_size, group_size, scale_factor",
        (tensor(B, 8, 5, 5), tensor(B, 25, 10, 10), 5, 1, 2),
        B * 8 * 100 * 25,
        (B, 8, 10, 10),
    ),
    "liger_kernel.ops.rms_norm::LigerRMSNormFunction": (
        "X, W, eps, offset=0.0, casting_mode='llama', in_place=True",
        (tensor(B, T, D), tensor(D), 1e-6),
        0,
        (B, T, D),
    ),
    "liger_kernel.ops.softmax::LigerSoftmaxFunction": ("input_", (tensor(B, D),), 0, (B, D)),
    "liger_kernel.ops.group_norm::LigerGroupNormFunction": (
        "X, affine_scaling_weight, affine_shifting_bias, num_channels, num_groups, eps",
        (tensor(B, D, T), tensor(D), tensor(D), D, 2, 1e-6),
        0,
        (B, D, T),
    ),
    "liger_kernel.ops.cross_entropy::LigerCrossEntropyFunction": (
        "_input, target, weight, ignore_index=-100, lse_square_scale=0.0, label_smoothing=0.0, reduction='mean', "
        "softcap=None, return_z_loss=False",
        (tensor(B, CLASSES), torch.tensor([1, 2]), None),
        0,
        (),
    ),
    "liger_kernel.ops.fused_linear_cross_entropy::LigerFusedLinearCrossEntropyFunction": (
        "_input, weight, target, bias=None, ce_weight=None, ignore_index=-100, lse_square_scale=0.0, "
        "label_smoothing=0.0, reduction='mean', softcap=None, return_z_loss=False",
        (tensor(B, D), tensor(CLASSES, D), torch.tensor([1, 2]), None, None, -100, 0.0, 0.0, "none"),
        B * CLASSES * D,
        (B,),
    ),
    "liger_kernel.ops.swiglu::LigerSiLUMulFunction": ("a, b", (tensor(B, D), tensor(B, D)), 0, (B, D)),
}


@pytest.mark.parametrize("name", [*FUNCTIONS, *AUTOGRAD])
def test_kernels_cost_their_algorithm(name, stand_in):
    signature, arguments, macs, shape = {**FUNCTIONS, **AUTOGRAD}[name]
    found = stand_in(name, signature, "function" if name in FUNCTIONS else "autograd")

    class Calls(nn.Module):
        def forward(self, *given):
            result = found(*given) if name in FUNCTIONS else found.apply(*given)
            return result[0] if isinstance(result, tuple) else result

    report = estimate(Calls(), arguments)
    (recorded,) = [entry for entry in report.layer_report.values() if entry["type"] == name.partition("::")[2]]
    assert (recorded["macs"], recorded["output_shapes"][0]) == (macs, shape)
    assert report.status == "complete" and recorded["flops"] >= macs
    size = sum(x.nbytes for x in arguments if isinstance(x, torch.Tensor))
    assert recorded["mread"] <= size


PLACES = torch.tensor([0, 2, 2, 3, 3])
POINTERS = torch.tensor([0, 1, 1, 3, 5])
SCATTER = "src, index, dim=-1, out=None, dim_size=None"
CSR, COO = "src, indptr, out=None", "src, index, out=None, dim_size=None"

SEGMENTS = {
    # Five rows of three in four segments: an operation per element, a mean also one per output.
    "torch_scatter.scatter::scatter_max": (SCATTER, (tensor(5, 3), PLACES, 0), 15, (4, 3)),
    "torch_scatter.scatter::scatter_mul": (SCATTER, (tensor(5, 3), PLACES, 0, None, 6), 15, (6, 3)),
    "torch_scatter.segment_csr::segment_sum_csr": (CSR, (tensor(5, 3), POINTERS), 15, (4, 3)),
    "torch_scatter.segment_csr::segment_mean_csr": (CSR, (tensor(5, 3), POINTERS), 15 + 12, (4, 3)),
    "torch_scatter.segment_csr::gather_csr": (CSR, (tensor(4, 3), POINTERS), 0, (5, 3)),
    "torch_scatter.segment_coo::segment_min_coo": (COO, (tensor(5, 3), PLACES), 15, (4, 3)),
    "torch_scatter.segment_coo::gather_coo": ("src, index, out=None", (tensor(4, 3), PLACES), 0, (5, 3)),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_are_as_many_as_an_index_says(name, stand_in):
    signature, arguments, flops, shape = SEGMENTS[name]
    found = stand_in(name, signature)

    class Calls(nn.Module):
        def forward(self, *given):
            result = found(*given)
            assert isinstance(result, tuple) == ("max" in name or "min" in name)
            return result

    (call,) = estimate(Calls(), arguments).layer_report.values()
    assert (call["flops"], call["output_shapes"][0]) == (flops, shape)


def test_an_unknown_number_of_segments_is_asked_for(stand_in):
    name = "torch_scatter.scatter::scatter_max"
    reduce = stand_in(name, SCATTER)

    class Calls(nn.Module):
        def forward(self, x, index):
            return reduce(x, index, 0)[0]

    with pytest.raises(CostError, match="dim_size="):
        estimate(Calls(), [(5, 3), ((5,), "int64")])


SEVERAL = 12 * 8


def linear(name, shapes, buffers=(), **attributes):
    def make(kind):
        made = kind()
        for key, shape in shapes.items():
            setattr(made, key, nn.Parameter(torch.zeros(shape)))
        for key, shape, dtype in buffers:
            made.register_buffer(key, torch.zeros(shape, dtype=dtype))
        for key, value in attributes.items():
            setattr(made, key, value)
        return made

    return name, make


MODULES = {
    "4 bits": (
        *linear(
            "bitsandbytes.nn.modules::Linear4bit",
            {"bias": (12,)},
            [("weight", (48, 1), torch.uint8)],
            in_features=8,
            out_features=12,
        ),
        "x",
        3 * SEVERAL,
        SEVERAL // 2 + 12 * 4,
    ),
    "GPTQ": (
        *linear(
            "auto_gptq.nn_modules.qlinear.qlinear_cuda::QuantLinear",
            {},
            [("qweight", (1, 12), torch.int32), ("qzeros", (1, 2), torch.int32), ("scales", (1, 12), torch.float16)],
            infeatures=8,
            outfeatures=12,
            bits=4,
        ),
        "x",
        3 * SEVERAL,
        48 + 8 + 24,
    ),
    "AWQ": (
        *linear(
            "awq.modules.linear.gemm::WQLinear_GEMM",
            {},
            [("qweight", (8, 2), torch.int32), ("qzeros", (1, 2), torch.int32), ("scales", (1, 12), torch.float16)],
            in_features=8,
            out_features=12,
            w_bit=4,
        ),
        "x",
        3 * SEVERAL,
        64 + 8 + 24,
    ),
    "Transformer Engine": (
        *linear(
            "transformer_engine.pytorch.module.linear::Linear",
            {"weight": (12, 8), "bias": (12,)},
            in_features=8,
            out_features=12,
        ),
        "inp, is_first_microbatch=None",
        3 * SEVERAL,
        (SEVERAL + 12) * 4,
    ),
    "Apex": (
        *linear("apex.normalization.fused_layer_norm::FusedLayerNorm", {"weight": (8,), "bias": (8,)}),
        "input",
        0,
        16 * 4,
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_layers_of_other_packages(name, stand_in):
    path, make, signature, macs, stored = MODULES[name]
    layer = make(stand_in(path, signature, "module"))
    report = estimate(nn.Sequential(layer), (3, 8))
    (call,) = report.layer_report.values()
    assert (call["macs"], call["mread"]) == (macs, 3 * 8 * 4 + stored)
    assert call["output_shapes"] == [(3, 12) if macs else (3, 8)]


def test_packed_weights_are_dequantized_once(stand_in):
    path, make, signature, macs, _ = MODULES["4 bits"]
    report = estimate(make(stand_in(path, signature, "module")), (3, 8))
    # A product and a scale for each of 8 x 12 weights, 3 rows of dot products with a bias.
    assert report.total_report["flops"] == macs + SEVERAL


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_the_backward_pass_is_assumed(stand_in):
    name = f"{FLASH}::flash_attn_func"
    attention = stand_in(name, FUNCTIONS[name][0])

    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(D, D)

        def forward(self, x):
            y = self.project(x)
            return attention(y, y, y, causal=True)

    report = estimate(Attends(), (B, T, H, D), backward=True)
    (call,) = [call for call in report.layer_report.values() if call["type"] == "flash_attn_func_backward"]
    assert call["macs"] == 2 * PAIRS * 2 * D
    assert any("twice its forward pass" in each.what for each in report.assumptions)


def test_a_real_run_is_one_call(stand_in):
    name = "natten.functional::na1d"
    stand_in(name, FUNCTIONS[name][0])
    natten = sys.modules["natten.functional"]

    def na1d(query, key, value, kernel_size, stride=1, dilation=1, is_causal=False, scale=None):
        return (query * key).softmax(-1) * value

    na1d.__module__ = "natten.functional"
    natten.na1d = na1d
    with torch.no_grad(), ComputationalCostHook() as hook:
        natten.na1d(q(), q(), q(), 3)
    calls = [call for call in hook.layer_report.values() if call["op"] != "full"]
    assert [(call["op"], call["macs"]) for call in calls] == [("neighborhood_attention", B * T * H * 3 * 2 * D)]
