"""Published networks: multiply-adds and parameters."""

from __future__ import annotations

import pytest
import torch

from tests.frontends.pytorch.runs import estimated, macs
from tests.whole_networks.pytorch_models import NETWORKS, Bert, InceptionV3, without_data


@pytest.mark.parametrize("name", NETWORKS)
def test_macs_and_parameters_are_the_published_ones(name):
    published = NETWORKS[name]
    recorder = estimated(without_data(published.build), published.shape)
    assert f"{macs(recorder.calls) / 10**9:.3f}" == published.gmacs
    assert recorder.n_params_model == published.n_params


@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - {"inception_v3"}))
def test_every_parameter_is_read_once(name):
    published = NETWORKS[name]
    recorder = estimated(without_data(published.build), published.shape)
    read = {identity for call in recorder.calls for identity in call.parameters}
    assert sum(recorder.parameters[identity] for identity in read) == published.n_params


def test_parameters_of_a_head_that_does_not_run_are_not_read():
    recorder = estimated(without_data(InceptionV3), (1, 3, 299, 299))
    read = {identity for call in recorder.calls for identity in call.parameters}
    # the auxiliary head: 768*128 + 2*128, 128*768*5*5 + 2*768, 768*1000 + 1000
    assert 27161264 - sum(recorder.parameters[i] for i in read) == 98304 + 256 + 2457600 + 1536 + 768000 + 1000


def test_an_encoder_with_a_tied_embedding():
    recorder = estimated(without_data(Bert), torch.zeros(2, 16, dtype=torch.int64))
    # per layer and token: projections 4 * 64^2, perceptron 2 * 64 * 256, attention 2 * 16 * 64; then the decoder
    assert macs(recorder.calls) == 2 * 16 * (2 * (4 * 64**2 + 2 * 64 * 256 + 2 * 16 * 64) + 64 * 1000)
    layer = 64 * 192 + 192 + 64 * 64 + 64 + 2 * (64 + 64) + 64 * 256 + 256 + 256 * 64 + 64
    n_params = 1000 * 64 + 64 * 64 + 2 * 64 + 2 * layer
    assert recorder.n_params_model == n_params
    assert sum(recorder.parameters.values()) == n_params
