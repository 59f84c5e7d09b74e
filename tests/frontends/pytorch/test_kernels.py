"""Kernels of other packages, by stand-ins with their names and signatures; costs by hand.

The signatures are those of flash-attn 2.8, xformers 0.0.33, mamba-ssm 2.2, causal-conv1d 1.5, natten 0.20, mmcv 2.2,
InternImage (DCNv3), DCNv4, fla 0.3, torch-scatter 2.1, torch-sparse 0.6, spconv 2.3, torchsparse 2.1, deepspeed 0.19,
bitsandbytes 0.48, auto-gptq 0.7, autoawq 0.2, transformer-engine 2.8, apex and liger-kernel 0.6.
"""

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, CostError, TrainingLedger, Value, costs, estimate

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
    "mamba_ssm.ops.selective_scan_interface::mamba_inner_fn": (
        "xz, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A, B=None, "
        "C=None, D=None, delta_bias=None, B_proj_bias=None, C_proj_bias=None, delta_softplus=True, checkpoint_lvl=1, "
        "b_rms_weight=None, c_rms_weight=None, dt_rms_weight=None, b_c_dt_rms_eps=1e-6",
        (
            *(tensor(B, 2 * D, T), tensor(D, 1, 4), tensor(D), tensor(2 + 2 * N, D), tensor(D, 2), tensor(5, D)),
            *(None, tensor(D, N), None, None, tensor(D), tensor(D)),
        ),
        # Convolution of 4 steps, 2 + 32 values of D channels, D steps of 2 values, the scan, and 5 outputs.
        B * T * (D * 4 + (2 + 2 * N) * D + D * 2 + 2 * D * N + 5 * D),
        (B, T, 5),
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
    "DCNv4.functions.flash_deform_attn_func::FlashDeformAttnFunction": (
        "value, value_spatial_shapes, value_level_start_index, sampling_loc_attn, im2col_step, K=8",
        (
            tensor(B, 20, H, D),
            torch.tensor([[4, 4], [2, 2]]),
            torch.tensor([0, 16]),
            tensor(B, QUERIES, H, LEVELS * POINTS * 3),  # two coordinates and a weight of every sample
            *(64, POINTS),
        ),
        SAMPLES,
        (B, QUERIES, H * D),
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
    "liger_kernel.ops.swiglu::LigerSiLUMulFunction": (
        "a, b, gate_multiplier=1.0, down_multiplier=1.0",
        (tensor(B, D), tensor(B, D)),
        0,
        (B, D),
    ),
    "liger_kernel.ops.geglu::LigerGELUMulFunction": ("a, b", (tensor(B, D), tensor(B, D)), 0, (B, D)),
    "liger_kernel.ops.rope::LigerRopeFunction": (
        "q, k, cos, sin, position_ids=None, unsqueeze_dim=1",
        (tensor(B, H, T, D), tensor(B, 2, T, D), tensor(1, T, D), tensor(1, T, D)),
        0,
        (B, H, T, D),
    ),
    "liger_kernel.ops.fused_add_rms_norm::LigerFusedAddRMSNormFunction": (
        "X, R, W, eps, offset=0.0, casting_mode='llama', in_place=False",
        (tensor(B, D), tensor(B, D), tensor(D), 1e-6),
        0,
        (B, D),
    ),
    "deepspeed.moe.sharded_moe::_AllToAll": ("group, input", (None, tensor(B, D)), 0, (B, D)),
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


FLOPS = {
    # A GELU by tanh has 6 mul, 2 add and the tanh, the gate 1 mul.
    "liger_kernel.ops.geglu::LigerGELUMulFunction": B * D * (9 + 1),
    # Queries and keys: 2 mul and 1 add per element.
    "liger_kernel.ops.rope::LigerRopeFunction": 3 * B * (H + 2) * T * D,
    # The sum; per row D squares, of which D - 1 fma, 2 D mul, and 1 div, 1 add, 1 root, 1 div.
    "liger_kernel.ops.fused_add_rms_norm::LigerFusedAddRMSNormFunction": B * D + B * (3 * D + 4),
}


@pytest.mark.parametrize("name", FLOPS)
def test_kernels_without_products_cost_their_definition(name, stand_in):
    signature, arguments, _, _ = AUTOGRAD[name]
    found = stand_in(name, signature, "autograd")
    report = estimate(lambda *given: found.apply(*given), arguments)
    assert report.total_report["flops"] == FLOPS[name]


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


# Points and matrices in objects


class Sparse:
    """An object of spconv, torchsparse or torch-sparse, by its attributes."""

    def __init__(self, **given):
        vars(self).update(given)


POINTS_OF_PLANE = torch.tensor([[0, 0, 0], [0, 0, 1], [0, 2, 2], [0, 3, 3]], dtype=torch.int32)
"""Four points of sample 0: two beside each other, two across a corner."""

SPCONV = {
    # Every point meets itself and its neighbor.
    "SubMConv2d": ({"kernel_size": 3}, 8, 4),
    # (0, 0) and (2, 2), (3, 3) are in one window of the 2 x 2 each, (0, 1) is in two.
    "SparseConv2d": ({"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "indice_key": "down"}, 5, 3),
    "SparseConvTranspose2d": ({"kernel_size": 2, "stride": 2, "output_padding": 0}, 16, 16),
    "SparseMaxPool2d": ({"kernel_size": 2, "stride": 2}, 4, 2),
    "SparseAvgPool2d": ({"kernel_size": 2, "stride": 2}, 4, 2),
}


def of_spconv(stand_in, name, width=2, **settings):
    signature = "input, add_input=None" if "Conv" in name else "input"
    made = stand_in(f"spconv.pytorch.{'conv' if 'Conv' in name else 'pool'}::{name}", signature, "module")()
    vars(made).update(settings)
    if "Conv" in name:
        made.out_channels = 3 if width == 2 else 2
        made.weight = nn.Parameter(torch.zeros(made.out_channels, 3, 3, width))
    return made


def points(features=None, indices=POINTS_OF_PLANE):
    features = tensor(4, 2) if features is None else features
    return Sparse(features=features, indices=indices, spatial_shape=[4, 4], batch_size=1, indice_dict={})


@pytest.mark.parametrize("name", SPCONV)
def test_pairs_of_points_are_counted(name, stand_in):
    settings, pairs, outputs = SPCONV[name]
    report = estimate(of_spconv(stand_in, name, **settings), (points(),))
    (call,) = report.layer_report.values()
    width = 3 if "Conv" in name else 2
    assert (call["params"]["pairs"], call["output_shapes"][0], report.status) == (pairs, (outputs, width), "complete")
    joined = (pairs - outputs) * 2  # cmp of a maximum, add of a mean, which also divides
    expected = pairs * 2 * 3 if "Conv" in name else joined + (2 * outputs if "Avg" in name else 0)
    assert (call["macs"], call["flops"]) == (expected if "Conv" in name else 0, expected)


class PointNet(nn.Module):
    def __init__(self, stand_in):
        super().__init__()
        self.here = of_spconv(stand_in, "SubMConv2d", kernel_size=3)
        self.down = of_spconv(stand_in, "SparseConv2d", 3, **SPCONV["SparseConv2d"][0])
        self.up = of_spconv(stand_in, "SparseInverseConv2d", kernel_size=3, indice_key="down")

    def forward(self, x):
        return self.up(self.down(self.here(x))).features


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_an_inverse_convolution_returns_to_the_points(stand_in):
    report = estimate(PointNet(stand_in), (points(),), backward=True)
    forward = [(call["macs"], call["output_shapes"][0]) for call in report.layer_report.values()][:3]
    assert forward == [(8 * 2 * 3, (4, 3)), (5 * 3 * 2, (3, 2)), (5 * 2 * 3, (4, 3))]
    backward = sum(call["macs"] for call in report.layer_report.values() if call["phase"] == "backward")
    assert backward == 2 * (48 + 30 + 30)


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_points_without_coordinates_have_an_upper_bound(stand_in):
    report = estimate(PointNet(stand_in), (points(indices=torch.empty(4, 3, dtype=torch.int32, device="meta")),))
    # 9 neighbors of each of 4 points; a point is in 2 x 2 windows at most, and there are 2 x 2 windows.
    assert [call["macs"] for call in report.layer_report.values()] == [4 * 9 * 6, 4 * 4 * 6, 4 * 4 * 6]
    assert report.status == "assumed" and "36 pairs, an upper bound" in report.assumptions[0].what


def test_a_real_run_counts_the_same_pairs(stand_in):
    layer = of_spconv(stand_in, "SparseConv2d", **SPCONV["SparseConv2d"][0])
    type(layer).forward = lambda self, input: Sparse(features=tensor(3, 3), indices=input.indices[:3])
    given = points()
    with torch.no_grad(), ComputationalCostHook() as hook:
        layer(given)
    (call,) = [call for call in hook.layer_report.values() if call["op"] == "sparse_conv"]
    assert (call["macs"], call["output_shapes"][0]) == (5 * 2 * 3, (3, 3))


def test_torchsparse_returns_to_the_coordinates_of_a_stride(stand_in):
    kind = stand_in("torchsparse.nn.modules.conv::Conv3d", "input", "module")

    def conv(width, **settings):
        made = kind()
        vars(made).update({"kernel_size": (3, 3, 3), "stride": (1, 1, 1), "padding": (1, 1, 1), "dilation": 1})
        vars(made).update({"out_channels": width, "transposed": False, "generative": False, **settings})
        made.kernel = nn.Parameter(tensor(27, 2, width))
        return made

    coordinates = torch.cat((POINTS_OF_PLANE[:, :1], POINTS_OF_PLANE), 1)  # in a plane of space
    model = nn.Sequential(conv(2), conv(2, stride=(2, 2, 2)), conv(2, stride=(2, 2, 2), transposed=True))
    given = Sparse(feats=tensor(4, 2), coords=coordinates, stride=(1, 1, 1), spatial_range=None)
    report = estimate(model, (given,))
    calls = [(call["macs"], call["output_shapes"][0]) for call in report.layer_report.values()]
    assert calls == [(8 * 4, (4, 2)), (5 * 4, (3, 2)), (5 * 4, (4, 2))]


ROWS, COLUMNS = torch.tensor([[0, 0, 1, 2, 2, 3], [1, 2, 0, 1, 3, 2]])


def matrix(value):
    caches = dict.fromkeys(("_rowptr", "_rowcount", "_colptr", "_colcount", "_csr2csc", "_csc2csr"))
    storage = Sparse(_row=ROWS, _col=COLUMNS, _value=value, _sparse_sizes=(4, 4), **caches)
    return Sparse(storage=storage)


SPARSE_MATRICES = {
    # Six values times rows of 7; without values their rows are only added.
    "matmul": ("src, other, reduce='sum'", (matrix(tensor(6)), tensor(4, 7)), 42, 42, (4, 7)),
    "matmul ones": ("src, other, reduce='sum'", (matrix(None), tensor(4, 7)), 0, 42, (4, 7)),
    # A product and a comparison each.
    "matmul max": ("src, other, reduce='sum'", (matrix(tensor(6)), tensor(4, 7), "max"), 42, 84, (4, 7)),
    # Values of columns 0 to 3: 1, 2, 2, 1; of rows: 2, 1, 2, 1; their products 2 + 2 + 4 + 1, all at other places.
    "matmul sparse": ("src, other, reduce='sum'", (matrix(tensor(6)), matrix(tensor(6))), 9, 9, (9,)),
    "spmm": (
        "index, value, m, n, matrix",
        (torch.stack((ROWS, COLUMNS)), tensor(6), 4, 4, tensor(4, 7)),
        42,
        42,
        (4, 7),
    ),
    "spspmm": (
        "indexA, valueA, indexB, valueB, m, k, n, coalesced=False",
        (*(torch.stack((ROWS, COLUMNS)), tensor(6)) * 2, 4, 4, 4),
        *(9, 9, (2, 9)),
    ),
}


@pytest.mark.parametrize("name", SPARSE_MATRICES)
def test_products_of_sparse_matrices(name, stand_in):
    signature, arguments, macs, flops, shape = SPARSE_MATRICES[name]
    word = name.partition(" ")[0]
    found = stand_in(f"torch_sparse.{word}::{word}", signature)
    report = estimate(lambda *given: found(*given), arguments)
    (call,) = [call for call in report.layer_report.values() if call["type"] == word]
    assert (call["macs"], call["flops"], call["output_shapes"][0]) == (macs, flops, shape)
    assert report.status == "complete"


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_products_of_matrices_without_indices_have_an_upper_bound(stand_in):
    found = stand_in("torch_sparse.spspmm::spspmm", SPARSE_MATRICES["spspmm"][0])
    report = estimate(lambda i, v: found(i, v, i, v, 4, 4, 4), (((2, 6), "int64"), (6,)))
    (call,) = [call for call in report.layer_report.values() if call["type"] == "spspmm"]
    assert (call["macs"], call["output_shapes"]) == (6 * 4, [(2, 16), (16,)])  # a value meets a row of 4 at most
    assert report.status == "assumed"


def test_objects_come_out_of_a_module_with_a_cost(stand_in):
    kind = stand_in("anything::Layer", "input", "module")

    @costs(kind, shapes=lambda module, x: x)
    def calc(layer):
        return 7 * layer["input_features"].size, layer.read, layer.written, {}

    report = estimate(nn.Sequential(kind(), kind()), (points(),), calculators=[calc])
    assert [(call["flops"], call["output_shapes"]) for call in report.layer_report.values()] == [(56, [(4, 2)])] * 2


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
    "Transformer Engine, norm and linear": (
        *linear(
            "transformer_engine.pytorch.module.layernorm_linear::LayerNormLinear",
            {"weight": (12, 8), "bias": (12,), "layer_norm_weight": (8,), "layer_norm_bias": (8,)},
            in_features=8,
            out_features=12,
            normalization="LayerNorm",
        ),
        "inp, is_first_microbatch=None, fp8_output=False, fp8_grad=False",
        3 * SEVERAL,
        (SEVERAL + 12 + 16) * 4,
    ),
    "Transformer Engine, norm and MLP": (
        *linear(
            "transformer_engine.pytorch.module.layernorm_mlp::LayerNormMLP",
            {"fc1_weight": (20, 8), "fc2_weight": (12, 10), "layer_norm_weight": (8,)},
            activation="swiglu",
            normalization="RMSNorm",
        ),
        "inp, is_first_microbatch=None",
        3 * (8 * 20 + 10 * 12),
        (8 * 20 + 10 * 12 + 8) * 4,
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


def test_fused_layers_cost_their_parts(stand_in):
    path, make, signature, macs, _ = MODULES["Transformer Engine, norm and MLP"]
    report = estimate(make(stand_in(path, signature, "module")), (3, 8))
    # Norm of rows of 8: 8 squares, 2 * 8 mul, 4 for the mean and the root. SiLU of 10 units: 5, and 1 for the gate.
    assert report.total_report["flops"] == macs + 3 * (3 * 8 + 4) + 3 * 10 * 6


LAYOUTS = {
    "sbhd": ((T, B, H, D), (9, B, 2, D), {}, PAIRS // T * 9),
    "bshd": ((B, T, H, D), (B, 9, 2, D), {}, PAIRS // T * 9),
    "thd": (
        (10, H, D),
        (10, H, D),
        {"cu_seqlens_q": LENGTHS, "cu_seqlens_kv": LENGTHS, "max_seqlen_q": 6, "max_seqlen_kv": 6},
        H * (4 * 4 + 6 * 6),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_of_transformer_engine(layout, stand_in):
    query, key, lengths, pairs = LAYOUTS[layout]
    name = "transformer_engine.pytorch.attention.dot_product_attention.dot_product_attention::DotProductAttention"
    more = "cu_seqlens_q=None, cu_seqlens_kv=None, max_seqlen_q=None, max_seqlen_kv=None"
    layer = stand_in(
        name, f"query_layer, key_layer, value_layer, attention_mask=None, qkv_format=None, {more}", "module"
    )()
    layer.qkv_format, layer.attn_mask_type = "sbhd", "causal"
    given = {"query_layer": query, "key_layer": key, "value_layer": key, "qkv_format": layout, **lengths}
    (call,) = estimate(layer, given).layer_report.values()
    assert (call["macs"], call["output_shapes"]) == (pairs * 2 * D, [(*query[:-2], H * D)])


class Experts(nn.Module):
    """``MOELayer`` of deepspeed: four experts, each with as many rows as its capacity."""

    def __init__(self, exchange):
        super().__init__()
        self.gate = nn.Linear(8, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(4))
        self.exchange = exchange

    def forward(self, x):
        weights = nn.functional.one_hot(self.gate(x).softmax(-1).argmax(-1), 4).float()
        places = torch.einsum("se,sc->sec", weights, torch.ones(16, 4, device=x.device))
        routed = self.exchange.apply(None, torch.einsum("sec,sm->ecm", places, x))
        done = [expert(rows) for rows, expert in zip(routed.chunk(4), self.experts, strict=True)]
        return torch.einsum("sec,ecm->sm", places, self.exchange.apply(None, torch.cat(done)))


def test_experts_of_deepspeed_run_at_capacity(stand_in):
    name = "deepspeed.moe.sharded_moe::_AllToAll"
    report = estimate(Experts(stand_in(name, AUTOGRAD[name][0], "autograd")), (16, 8))
    products = [call["macs"] for call in report.layer_report.values() if call["op"] == "linear"]
    assert products == [16 * 8 * 4, *[4 * 8 * 8] * 4]
    assert sum(call["op"] == "all_to_all" for call in report.layer_report.values()) == 2


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


MASKED = {
    # 1 + 2 + … + 6 of 36 pairs; one of 9 more keys for each of 6 queries; two tokens before; 1 + … + 4 and 1 + … + 6.
    f"{FLASH}::flash_attn_func": ((q(), q(2), q(2), 0.0, None, True), B * H * 21),
    f"{FLASH}::flash_attn_kvpacked_func": ((q(), tensor(B, 9, 2, H, D), 0.0, None, True), B * H * (21 + 6 * 3)),
    f"{FLASH}::flash_attn_qkvpacked_func": ((tensor(B, T, 3, H, D), 0.0, None, True, Value((2, 0))), B * H * (3 + 12)),
    f"{FLASH}::flash_attn_varlen_func": ((*FUNCTIONS[f"{FLASH}::flash_attn_varlen_func"][1], 0.0, None, True), H * 31),
}


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
@pytest.mark.parametrize("name", MASKED)
def test_masks_of_kernels_leave_out_pairs(name, stand_in):
    attention = stand_in(name, FUNCTIONS[name][0])
    arguments, pairs = MASKED[name]
    arguments = (arguments[0].clone().requires_grad_(), *arguments[1:])
    report = estimate(lambda *given: attention(*given), arguments, attention="computed", backward=True)
    assert [call["macs"] for call in report.layer_report.values()] == [pairs * 2 * D, 2 * pairs * 2 * D]
    assert f"attention counts the {2 * pairs} of" in report.notes[0]
    for each in (report, estimate(lambda *given: attention(*given), arguments, backward=True)):
        ledger = TrainingLedger()
        ledger.add("step", each, tokens=len(arguments[0]))
        causal, everything = (ledger.counts[name] for name in ("causal", "all pairs"))
        assert causal * FUNCTIONS[name][2] == everything * pairs * 2 * D


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


@pytest.mark.parametrize(
    ("options", "pairs", "allowed"),
    # sequences of 4 and 6 tokens, as for flash_attn_varlen_func; 1 + … + 4 and 1 + … + 6
    [({}, 4 * 4 + 6 * 6, 4 * 4 + 6 * 6), ({"window_size": (-1, 0)}, 4 * 4 + 6 * 6, 10 + 21)],
)
def test_attention_over_packed_sequences_of_pytorch(options, pairs, allowed):
    varlen = pytest.importorskip("torch.nn.attention.varlen")

    def attend(x, lengths):
        return varlen.varlen_attn(x, x, x, lengths, lengths, 6, 6, **options)

    inputs = (tensor(10, H, D), LENGTHS)
    report = estimate(attend, inputs)
    assert (report.status, report.total_report["macs"]) == ("complete", H * pairs * 2 * D)
    report = estimate(attend, inputs, attention="computed")
    assert report.total_report["macs"] == H * allowed * 2 * D
