"""Models whose linear layers are quantized already: what their packed storages take."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import return_and_correct_aliasing
from transformers import LlamaConfig, LlamaForCausalLM

from costcore import ServingReport
from tests.frontends.pytorch.transformers_differences import angles

D, F, V, H, Q, L = 64, 128, 96, 4, 16, 2
BLOCKS = L * (4 * D * D + 3 * D * F)
"""Weights of the linear layers of the blocks."""

PAIRS = L * H * 2 * Q


def llama():
    sizes = {"hidden_size": D, "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": H}
    return LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=V, max_position_embeddings=128)).eval().bfloat16()


def with_linears(make) -> nn.Module:
    """The model with ``make(linear)`` in place of every linear layer of its blocks."""
    model = llama()
    for path, module in list(model.model.layers.named_modules()):
        if isinstance(module, nn.Linear):
            parent, _, name = path.rpartition(".")
            setattr(model.model.layers.get_submodule(parent), name, make(module))
    return model


class Packed(nn.Module):
    """A layer of GPTQ in the layout of AutoGPTQ and GPTQModel: 8 weights of 4 bits in an int32, groups of 32 inputs."""

    def __init__(self, in_features, out_features, group=32):
        super().__init__()
        self.infeatures, self.outfeatures, self.bits = in_features, out_features, 4
        self.register_buffer("qweight", torch.zeros(in_features // 8, out_features, dtype=torch.int32))
        self.register_buffer("qzeros", torch.zeros(in_features // group, out_features // 8, dtype=torch.int32))
        self.register_buffer("scales", torch.zeros(in_features // group, out_features, dtype=torch.float16))
        self.register_buffer("g_idx", torch.zeros(in_features, dtype=torch.int32))


class Compressed(nn.Linear):
    """A layer in the layout of compressed-tensors: a packed array and one scale for every output."""

    def __init__(self, in_features, out_features):
        super().__init__(in_features, out_features, bias=False)
        del self.weight
        self.weight_packed = nn.Parameter(torch.zeros(out_features, in_features, dtype=torch.int8), requires_grad=False)
        self.weight_scale = nn.Parameter(torch.zeros(out_features, 1), requires_grad=False)


class ScaledInt8(torch.Tensor):
    """A weight in a tensor subclass of two arrays, as torchao has them."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.bfloat16)

    def __init__(self, data, scale):
        self.data_8, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data_8", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return ScaledInt8(inner["data_8"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return return_and_correct_aliasing(func, args, kwargs or {}, cls(args[0].data_8, args[0].scale))
        raise NotImplementedError(str(func))


def subclassed(linear):
    data = torch.zeros(linear.weight.shape, dtype=torch.int8)
    weight = ScaledInt8(data, torch.zeros(data.shape[0], 1))
    made = nn.Linear(1, 1, bias=False)
    made.in_features, made.out_features = linear.in_features, linear.out_features
    made.weight = nn.Parameter(weight, requires_grad=False)
    return made


OUTPUTS = L * (4 * D + 2 * F + D)
"""Output features of the linear layers of the blocks."""

INPUTS = L * (4 * D + 2 * D + F)

LAYOUTS = {
    # 4 bits, a zero point of 4 bits and a scale of 16 for every 32 weights, and 4 bytes for every input
    "gptq": (
        lambda linear: Packed(linear.in_features, linear.out_features),
        4,
        BLOCKS // 2 + BLOCKS // 64 + BLOCKS // 16 + 4 * INPUTS,
    ),
    "compressed": (lambda linear: Compressed(linear.in_features, linear.out_features), 8, BLOCKS + 4 * OUTPUTS),
    "subclass": (subclassed, 8, BLOCKS + 4 * OUTPUTS),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_packed_weights_count_with_the_bytes_of_their_storages(layout):
    make, bits, stored = LAYOUTS[layout]
    model = with_linears(make)
    before = {name: id(value) for name, value in model.state_dict(keep_vars=True).items()}
    serving = ServingReport(model)
    step = serving.decode(batch=3, context=20)
    assert {name: id(value) for name, value in model.state_dict(keep_vars=True).items()} == before
    plain = ServingReport(llama()).decode(batch=3, context=20)
    assert step.macs == plain.macs == 3 * (BLOCKS + V * D + 20 * PAIRS) + angles(model)
    assert step.macs_by_width == {(16, bits): 3 * BLOCKS, (16, 16): 3 * (V * D + 20 * PAIRS) + angles(model)}
    others = V * D + (2 * L + 1) * D  # head and norms; the table of words beside
    assert step.load_weight == stored + 2 * (others + 3 * D)
    assert serving.weight_bytes == stored + 2 * (others + V * D)
    assert serving.n_params == BLOCKS + others + V * D


def test_weights_of_torchao():
    torchao = pytest.importorskip("torchao.quantization")
    model = llama()
    torchao.quantize_(model, torchao.Int8WeightOnlyConfig())
    step = ServingReport(model).decode(batch=3, context=20)
    assert step.macs_by_width == {(16, 8): 3 * (BLOCKS + V * D), (16, 16): 3 * 20 * PAIRS}
    # an int8 and, for each of the outputs, a bfloat16 scale and an int8 zero point
    packed = BLOCKS + V * D + 3 * (OUTPUTS + V)
    assert step.load_weight == pytest.approx(packed + 2 * ((2 * L + 1) * D + 3 * D), rel=0.03)


def test_layers_of_bitsandbytes():
    bitsandbytes = pytest.importorskip("bitsandbytes")

    def quantized(linear):
        sizes = linear.in_features, linear.out_features
        made = bitsandbytes.nn.Linear8bitLt(*sizes, bias=False, has_fp16_weights=False)
        made.load_state_dict(linear.state_dict())
        return made.to("cpu")

    step = ServingReport(with_linears(quantized)).decode(batch=3, context=20)
    assert step.macs_by_width == {(8, 8): 3 * BLOCKS, (16, 16): 3 * (V * D + 20 * PAIRS)}
    # an int8 for each weight, a float32 scale for each output
    assert step.load_weight == BLOCKS + 4 * OUTPUTS + 2 * (V * D + (2 * L + 1) * D + 3 * D)
