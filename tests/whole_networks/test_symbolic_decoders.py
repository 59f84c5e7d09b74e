"""Exports of decoders with a past: what is regrouped with symbolic lengths is regrouped with every length."""

from __future__ import annotations

import io
import logging
import warnings
from functools import cache
from itertools import product
from typing import Any

import pytest

from costcore import Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import onnx
    import sympy
    import torch
    import transformers
    from torch import nn
    from torch.nn import functional

    from tests.whole_networks.exporters import EXPORTERS, HAS_NEWER, all_different, keeps_names, or_skip

    class Decoder(nn.Module):
        """Self-attention over a past and new tokens.

        Args:
            mask: what the mask is made of: ``bool`` or ``float`` for every pair, ``padding`` for every key.
        """

        def __init__(self, mask: str) -> None:
            super().__init__()
            self.mask, self.project, self.out = mask, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Any, keys: Any, values: Any, mask: Any) -> Any:
            n, t, width = x.shape
            q, k, v = self.project(x).view(n, t, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
            k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            mask = mask if mask.ndim == 4 else mask[:, None, None, :]
            mask = mask if self.mask == "float" else mask.bool()
            if self.mask == "padding":
                length = mask.shape[-1]
                mask = mask & (torch.arange(length)[None, :] <= torch.arange(length - t, length)[:, None])
            y = functional.scaled_dot_product_attention(q, k, v, mask)
            return self.out(y.transpose(1, 2).reshape(n, t, width)), k, v

    class Cross(nn.Module):
        """Cross-attention to a memory of padded tokens."""

        def forward(self, x: Any, memory: Any, mask: Any) -> Any:
            return functional.scaled_dot_product_attention(x, memory, memory, mask[:, None, None, :])

    class WithPast(nn.Module):
        """A model of ``transformers`` whose past is an input."""

        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, words: Any, keys: Any, values: Any, mask: Any) -> Any:
            past = transformers.DynamicCache()
            past.update(keys, values, 0)
            position = torch.arange(mask.shape[-1])[None, -words.shape[-1] :]
            y = self.model(words, attention_mask=mask, position_ids=position, past_key_values=past, use_cache=True)
            return y[0], past.layers[0].keys, past.layers[0].values

    SIZES = {"num_hidden_layers": 1, "num_attention_heads": 4, "hidden_size": 16, "intermediate_size": 32}
    MODELS: dict[str, tuple[str, dict[str, Any]]] = {
        "Llama": ("LlamaForCausalLM", {**SIZES, "vocab_size": 20, "num_key_value_heads": 4}),
        "GPT2": ("GPT2LMHeadModel", {"n_layer": 1, "n_head": 4, "n_embd": 16, "vocab_size": 20, "n_positions": 32}),
        "OPT": ("OPTForCausalLM", {**SIZES, "vocab_size": 20, "ffn_dim": 32, "word_embed_proj_dim": 16}),
    }

WIDTH, HEADS = 16, 4
TOTALS = ("macs", "flops", "mread", "mwrite", "n_params", "n_params_model")
POINTS = list(product((1, 3), (1, 2, 5, 8), (1, 7)))
"""Batch size, new tokens, past tokens."""

PAIRS, KEYS = {0: "n", 2: "q", 3: "t"}, {0: "n", 1: "t"}


def inputs(kind: str, n: int, q: int, p: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs by name."""
    past = (n, HEADS, p, WIDTH // HEADS)
    x = (n, q) if kind in MODELS else (n, q, WIDTH)
    mask = (n, 1, q, p + q) if kind in ("bool", "float") else (n, p + q)
    return {"x": x, "keys": past, "values": past, "mask": mask}


@cache
def network(kind: str) -> Any:
    if kind not in MODELS:
        return all_different(Decoder(kind))
    model, settings = MODELS[kind]
    settings = {**settings, **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 1)}
    return all_different(WithPast(getattr(transformers, model)(getattr(transformers, f"{kind}Config")(**settings))))


def tensors(kind: str, *sizes: int) -> tuple[Any, ...]:
    """Return the inputs, token ids and masks of tokens as integers."""
    integers = {"x", "mask"} if kind in MODELS else set()
    shapes = inputs(kind, *sizes).items()
    return tuple(torch.ones(shape, dtype=torch.int64 if name in integers else None) for name, shape in shapes)


@cache
def exported(kind: str, exporter: str, mask: str = "") -> bytes:
    """Return the default export with symbolic batch size and lengths; ``mask`` is appended to the names of its axes."""
    axes = PAIRS if kind in ("bool", "float") else KEYS
    named = {"x": {0: "n", 1: "q"}, "keys": {0: "n", 2: "p"}, "values": {0: "n", 2: "p"}}
    named["mask"] = {axis: name + mask for axis, name in axes.items()}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    out = io.BytesIO()
    options: dict[str, Any] = {"opset_version": 18, "input_names": list(named), "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own warnings
        if exporter == "older":
            with or_skip():
                torch.onnx.export(
                    network(kind), tensors(kind, 2, 3, 6), out, dynamo=False, dynamic_axes=named, **options
                )
            return out.getvalue()
        if not HAS_NEWER:
            pytest.skip("this PyTorch does not have the newer exporter yet")
        shapes = tuple(dict.fromkeys(part, torch.export.Dim.DYNAMIC) for part in named.values())
        program = torch.onnx.export(
            network(kind), tensors(kind, 2, 3, 6), dynamo=True, dynamic_shapes=shapes, optimize=True, **options
        )
        dims = [dim for value in program.model_proto.graph.input for dim in value.type.tensor_type.shape.dim]
        if any(dim.dim_param.isdecimal() for dim in dims) and not keeps_names():
            pytest.skip("the newer exporter of this PyTorch writes lengths of this network as numbers")
        content: bytes = program.model_proto.SerializeToString()
        return content


def totals(report: Report) -> dict[str, Any]:
    return {name: report.total_report[name] for name in TOTALS}


def bindings(model: bytes, kind: str, *sizes: int) -> dict[str, int]:
    """Return the sizes of the model's named dimensions."""
    found: dict[str, int] = {}
    for entry in onnx.load_from_string(model).graph.input:
        for dim, size in zip(entry.type.tensor_type.shape.dim, inputs(kind, *sizes)[entry.name], strict=True):
            if dim.dim_param:
                found[dim.dim_param] = size
    return found


KINDS = ("bool", "float", "padding")


def cases() -> list[tuple[str, str]]:
    if {"pytorch", "onnx"} - set(frameworks.available()):
        return []
    return [*product(KINDS, EXPORTERS), *((model, "older") for model in MODELS), ("OPT", "newer")]


@pytest.mark.parametrize(("kind", "exporter"), cases())
def test_substitution_equals_the_estimate_at_every_point(kind, exporter):
    model = exported(kind, exporter)
    symbolic = estimate(model, layout="free", regroup=True)
    assert "attention" in symbolic.by("op")
    assert not [note for note in symbolic.notes if "depends on sizes" in note]
    left = {
        str(symbol)
        for total in totals(symbolic).values()
        if not isinstance(total, int)
        for symbol in total.free_symbols
    }
    for sizes in POINTS:
        bound = {name: size for name, size in bindings(model, kind, *sizes).items() if name in left}
        at_point = estimate(model, inputs(kind, *sizes), layout="free", regroup=True)
        assert totals(symbolic.subs(bound)) == totals(at_point), sizes
        assert at_point.trace.run.regrouped == symbolic.trace.run.regrouped


@pytest.mark.parametrize("exporter", ["older", "newer"])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_decoders_have_the_costs_of_pytorch(kind, exporter):
    sizes = (3, 2, 7)
    report = estimate(exported(kind, exporter), inputs(kind, *sizes), layout="free", regroup=True)
    assert totals(report) == totals(estimate(network(kind), tensors(kind, *sizes), layout="free"))


def test_a_length_that_only_the_mask_names_is_the_number_of_keys():
    shapes = tuple(torch.ones(shape) for shape in ((2, HEADS, 3, 4), (2, HEADS, 5, 4), (2, 5)))
    out = io.BytesIO()
    axes = {"x": {2: "q"}, "memory": {2: "s"}, "mask": {1: "t"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Cross(), shapes, out, dynamo=False, input_names=list(axes), dynamic_axes=axes)
    report = estimate(out.getvalue(), layout="free", regroup=True)
    assert list(report.by("op")["attention"]) and not report.notes[1:]
    at_point = estimate(out.getvalue(), layout="free", regroup=True, dims={"q": 3, "s": 5, "t": 5})
    assert totals(report.subs(q=3, s=5, t=5)) == totals(at_point)


def test_groups_that_depend_on_sizes_are_noted():
    model = exported("bool", "older", "_of_mask")
    report = estimate(model, layout="free", regroup=True)
    (note,) = (note for note in report.notes if "depends on sizes" in note)
    assert "whether groups of nodes are attention depends on sizes" in note
    assert "give dims={'n_of_mask': 'n', 'q_of_mask': 'q'}" in note
    assert "attention" not in report.by("op")
    equal: dict[str, Any] = {"n_of_mask": "n", "q_of_mask": "q"}
    bound = estimate(model, layout="free", regroup=True, dims=equal)
    assert not [note for note in bound.notes if "depends on sizes" in note]
    sizes = {"n": 3, "q": 2, "p": 7, "t_of_mask": 9}
    at_point = estimate(model, inputs("bool", 3, 2, 7), layout="free", regroup=True)
    assert totals(bound.subs(sizes)) == totals(at_point)


@pytest.mark.parametrize("as_text", [True, False])
def test_a_dimension_may_be_a_sum_of_others(as_text):
    model = exported("bool", "older")
    total: Any = "p + q" if as_text else sympy.Symbol("p") + sympy.Symbol("q")
    report = estimate(model, layout="free", regroup=True, dims={"t": total})
    names = [symbol.name for symbol in report.total_report["mread"].free_symbols]
    assert sorted(names) == ["n", "p", "q"]
    at_point = estimate(model, inputs("bool", 3, 2, 7), layout="free", regroup=True)
    assert totals(report.subs(n=3, p=7, q=2)) == totals(at_point)
    unbound = estimate(model, layout="free", regroup=True)
    assert totals(unbound.subs(t=total, n=3, p=7, q=2)) == totals(at_point)
