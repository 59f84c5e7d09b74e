"""Transformer modules in inference, which PyTorch runs as one fused operator each."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from costcore import ComputationalCostHook, estimate
from tests.frontends.pytorch.differences import refuses
from tests.frontends.pytorch.runs import listed, macs, record, types
from tests.frontends.pytorch.unchanged import unchanged

PROTOTYPES = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")

E, F, HEADS = 8, 16, 2
X = torch.rand(2, 6, E, generator=torch.Generator().manual_seed(0))
PADDING = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
CAUSAL = nn.Transformer.generate_square_subsequent_mask(6)


def layer(**options):
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(E, HEADS, F, batch_first=True, **options).eval()


def attention():
    torch.manual_seed(0)
    return nn.MultiheadAttention(E, HEADS, batch_first=True).eval()


RUNS = {
    "layer": lambda: (layer(), (X,), {}),
    "layer, norm first, gelu": lambda: (layer(norm_first=True, activation="gelu"), (X,), {}),
    "layer, causal": lambda: (layer(), (X,), {"src_mask": CAUSAL}),
    "layer, padding": lambda: (layer(), (X,), {"src_key_padding_mask": PADDING}),
    "layer, both": lambda: (layer(), (X,), {"src_mask": CAUSAL, "src_key_padding_mask": PADDING.float()}),
    "encoder": lambda: (nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False).eval(), (X,), {}),
    "attention": lambda: (attention(), (X, X, X), {}),
    "attention without weights": lambda: (attention(), (X, X, X), {"need_weights": False}),
    "attention, padding": lambda: (attention(), (X, X, X), {"key_padding_mask": PADDING, "need_weights": False}),
    "attention, weights of heads": lambda: (attention(), (X, X, X), {"average_attn_weights": False}),
    "double precision": lambda: (layer().double(), (X.double(),), {}),
}


def _flat(result):
    return [x for x in (result if isinstance(result, tuple) else (result,)) if x is not None]


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("grad_mode", [torch.no_grad, torch.inference_mode])
def test_the_result_is_that_of_the_fused_operator(name, grad_mode):
    module, args, kwargs = RUNS[name]()
    found = []
    with grad_mode():
        plain = _flat(module(*args, **kwargs))
        with unchanged(module):
            record(lambda: found.extend(_flat(module(*args, **kwargs))))
    assert all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(plain, found, strict=True))


@pytest.mark.parametrize("name", [name for name in RUNS if "padding" not in name and "both" not in name])
def test_an_estimate_copies_the_result_as_a_run_does(name):
    """The fused operator returns contiguous attention; that of the slow path is transposed."""
    module, args, kwargs = RUNS[name]()

    def flat(*args):
        return [x.flatten(1) for x in _flat(module(*args, **kwargs))]

    with torch.no_grad(), ComputationalCostHook() as hook:
        flat(*args)
    with torch.no_grad():
        report = estimate(flat, args)
    assert report.total_report["mrw"] == hook.total_report["mrw"]


@pytest.mark.parametrize("name", [name for name in RUNS if "both" not in name])
def test_the_calls_are_those_of_a_run_with_gradients(name):
    module, args, kwargs = RUNS[name]()
    with_gradients = record(lambda: module(*args, **kwargs))
    with torch.no_grad():
        without = record(lambda: module(*args, **kwargs))
    calls = [[entry for entry in listed(run) if entry[-1].op != "view"] for run in (without, with_gradients)]
    assert calls[0] == calls[1]  # the fused operator has views of the masks
    read = [[c.parameters for c in run.calls if c.parameters] for run in (without, with_gradients)]
    assert [len(parameters) for parameters in read[0]] == [len(parameters) for parameters in read[1]]
    assert len({*read[0]}) == len({*read[1]})
    assert macs(without.calls) == macs(with_gradients.calls) > 0


def test_hooks_modes_and_other_counters_see_the_run_once():
    module, seen = layer(), []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        with torch.no_grad():
            record(lambda: module(X))
    finally:
        handle.remove()
    assert seen == ["TransformerEncoderLayer"]
    with torch.no_grad(), FlopCounterMode(display=False) as alone:
        module(X)
    with torch.no_grad(), FlopCounterMode(display=False) as together:
        recorder = record(lambda: module(X))
    assert together.get_total_flops() == alone.get_total_flops()
    assert types(recorder) == ["_transformer_encoder_layer_fwd"]
    tokens, pairs = 2 * 6, 2 * 6 * 6
    assert macs(recorder.calls) == tokens * (4 * E * E + 2 * E * F) + 2 * pairs * E


def test_a_module_that_changes_between_two_runs_is_copied_again():
    module = layer()
    with torch.no_grad():

        def run():
            module(X)
            module.linear1, module.linear2 = nn.Linear(E, 4), nn.Linear(4, E)
            module(X)

        recorder = record(run)
    widths = [c.layer["w"].shape for c in recorder.calls if c.type == "linear"]
    assert widths.count((F, E)) == widths.count((4, E)) == 1


FUSED = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
COLUMNS = ("flops", "macs", "mread", "mwrite", "n_layers", "n_params")


def _figures(report):
    calls = [(call.type, call.layer) for call, *_ in report.trace]
    return calls, [report.total_report[name] for name in COLUMNS], report.memory.peak - report.memory.base


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
@pytest.mark.parametrize("name", RUNS)
def test_under_autocast_an_estimate_records_what_a_run_records(name):
    module, args, kwargs = RUNS[name]()
    inputs = {**dict(zip(("query", "key", "value") if len(args) == 3 else ("src",), args, strict=True)), **kwargs}
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        if refuses(lambda: module(*args, **kwargs)):
            pytest.skip("this PyTorch takes the fast path of a layer under autocast too, in two dtypes")
        with ComputationalCostHook(memory=True) as hook:
            hook.watch(module, [*inputs.values()])
            module(**inputs)
        estimated = estimate(module, inputs, memory=True)
        without_memory = estimate(module, inputs)
    assert _figures(estimated) == _figures(hook.report)
    assert [without_memory.total_report[name] for name in COLUMNS] == _figures(estimated)[1]
    assert sum(call.type in FUSED for call in hook.calls) == (2 if name == "encoder" else 1)
    assert not estimated.memory.is_exact


def test_what_a_fused_operator_reads_lived_before_the_run():
    """The weights of the attention, of the perceptron and of two norms, and the input."""
    module = layer()
    with torch.no_grad(), ComputationalCostHook(memory=True) as hook:
        module(X)
    assert hook.memory.base == 4 * (4 * E * E + 4 * E + 2 * E * F + F + E + 4 * E + X.numel())
    with torch.no_grad():
        assert estimate(module, X, memory=True).memory.base == hook.memory.base


@PROTOTYPES
def test_padded_tokens_are_neither_computed_nor_counted():
    encoder = nn.TransformerEncoder(layer(), 2).eval()
    found = []
    with torch.no_grad():
        plain = encoder(X, src_key_padding_mask=PADDING)
        recorder = record(lambda: found.append(encoder(X, src_key_padding_mask=PADDING)))
    assert torch.equal(found[0], plain)
    assert not found[0][1, 4:].any()
    fused = [call for call in recorder.calls if call.type == "_transformer_encoder_layer_fwd"]
    assert [call.module for call in fused] == ["layers.0", "layers.1"]
    # 6 and 4 tokens: 10 x (3 + 1) x 8 x 8 for the projections, 10 x 2 x 8 x 16 for the perceptron,
    # and (6 x 6 + 4 x 4) pairs x 8 features x 2 products
    assert macs(fused) == 2 * (10 * 4 * 64 + 10 * 2 * 128 + 52 * 8 * 2)
    assert types(recorder)[-1] == "to_padded_tensor"


@PROTOTYPES
def test_nested_attention_attends_within_samples():
    module = attention()
    nested = torch.nested.nested_tensor([torch.ones(6, E), torch.ones(4, E)])
    with torch.no_grad():
        plain = module(nested, nested, nested, need_weights=False)[0]
        found = []
        recorder = record(lambda: found.append(module(nested, nested, nested, need_weights=False)[0]))
    assert all(map(torch.equal, plain.unbind(), found[0].unbind()))
    assert types(recorder) == ["_native_multi_head_attention"]
    assert macs(recorder.calls) == 10 * 4 * 64 + 52 * 8 * 2


def test_the_fast_path_stays_as_the_user_set_it():
    module = layer()
    other = copy.deepcopy(module)
    with torch.no_grad():
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            plain = module(X)
            found = []
            record(lambda: found.append(other(X)))
            assert not torch.backends.mha.get_fastpath_enabled()
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    assert torch.equal(plain, found[0])
