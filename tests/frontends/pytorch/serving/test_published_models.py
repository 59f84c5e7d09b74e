"""Decode, prefill and cache of 22 published models equal their closed forms.

Most models have up to 126 equal layers. They are built with few layers, of two different numbers, and the figures of
the model follow by the rule of three; ``test_serving_report`` builds one whole.
"""

from __future__ import annotations

from functools import cache

import pytest

from costcore import ServingReport
from costcore.frontend import MOST_VALUES
from tests.frontends.pytorch.serving.llms import Llm, build, llms
from tests.frontends.pytorch.transformers_differences import HAS_JOINED_EXPERTS, angles

POINTS = [(1, 4096), (3, 1000), (16, 2047)]
"""Numbers of sequences, and tokens of each."""


SPECIAL = {"DeepSeek": (4, 5), "Gemma-2": (2, 4)}
"""Numbers of layers of models whose layers differ: the first three of DeepSeek and every other of Gemma 2."""


@cache
def few_layers(name: str) -> tuple[Llm, int, int]:
    """The model and two numbers of layers."""
    llm = next(each for each in llms() if each.name == name)
    return llm, *next((numbers for start, numbers in SPECIAL.items() if name.startswith(start)), (1, 2))


@cache
def serving(name: str, layers: int) -> ServingReport:
    return ServingReport(build(few_layers(name)[0], layers), dtype="bfloat16")


def whole(name, figure) -> int:
    """A figure of the whole model from those of two models with few layers."""
    llm, fewer, more = few_layers(name)
    first, second = (figure(serving(name, layers)) for layers in (fewer, more))
    each, rest = divmod(second - first, more - fewer)
    assert rest == 0
    return first + each * (llm["layers"] - fewer)


@pytest.mark.parametrize("name", [llm.name for llm in llms()])
def test_a_model_costs_its_closed_form(name):
    llm, layers, _ = few_layers(name)
    products, pairs = llm["matmul_macs_per_token"], llm["attention_macs_per_token_per_key"]
    model = build(llm, layers)
    assert whole(name, lambda report: report.n_params) == llm["params_total"]
    assert whole(name, lambda report: report.kv_bytes_per_token) == llm["kv_bytes_per_token_16bit"]
    for batch, length in POINTS:
        decode = whole(name, lambda report, b=batch, c=length: report.decode(batch=b, context=c).macs)
        assert decode == batch * (products + pairs * length) + angles(model)
        if not HAS_JOINED_EXPERTS and llm["experts"] * llm["experts_per_token"] * batch * length > MOST_VALUES:
            continue  # which tokens the experts of a loop get is no longer followed, which the report says
        prefill = whole(name, lambda report, b=batch, c=length: report.prefill(tokens=c, batch=b).macs)
        assert prefill == batch * length * (products + pairs * length) + angles(model, length)


def test_the_table_has_these_figures_at_its_own_length():
    llm, layers, _ = few_layers("Falcon-7B")
    model, length = build(llm, layers), llm["T"]
    decode, prefill = llm["decode_macs_at_T"] + angles(model), llm["forward_macs_T_all_pairs"] + angles(model, length)
    assert whole("Falcon-7B", lambda report: report.decode(context=length).macs) == decode
    assert whole("Falcon-7B", lambda report: report.prefill(length).macs) == prefill
