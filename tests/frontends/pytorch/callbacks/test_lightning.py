"""The callback in the Trainer of Lightning, on a perceptron."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from tests.frameworks import optional

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    optional("lightning")
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.loggers import CSVLogger

from costcore.frontends.pytorch.callbacks.lightning import CostCallback

MACS = 8 * (16 * 32 + 32 * 4) + 8 * (16 * 32 + 2 * 32 * 4)
"""Forward and backward pass of eight samples."""


class Classifier(LightningModule):
    """Calls its layers, not itself."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def training_step(self, batch, index):
        x, labels = batch
        return nn.functional.cross_entropy(self.net(x), labels)

    def validation_step(self, batch, index):
        self.net(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader(n=32):
    data = torch.utils.data.TensorDataset(torch.ones(n, 16), torch.zeros(n, dtype=torch.int64))
    return torch.utils.data.DataLoader(data, batch_size=8)


def trainer_of(folder, callback):
    return Trainer(
        max_epochs=1, accelerator="cpu", callbacks=[callback], enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, log_every_n_steps=2, logger=CSVLogger(folder, flush_logs_every_n_steps=1),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_rates_in_the_logs_of_a_trainer(tmp_path):
    callback = CostCallback(peak=1e12, prefix="cost/")
    trainer = trainer_of(tmp_path, callback)
    trainer.fit(Classifier(), loader(), loader())
    assert callback.meter.model_flops == 4 * 2 * MACS
    assert callback.meter.total.steps == 3  # one was counted while it ran
    assert callback.meter.total.cost.samples == 3 * 8
    (logged,) = tmp_path.glob("lightning_logs/*/metrics.csv")
    titles, *rows = logged.read_text().splitlines()
    assert "cost/mfu" in titles.split(",")
    assert len(rows) == 2  # steps 2 and 4


@pytest.mark.filterwarnings("ignore")
def test_a_training_that_fails(tmp_path):
    class Failing(Classifier):
        def training_step(self, batch, index):
            raise KeyError

    module, callback = Failing(), CostCallback()
    with pytest.raises(KeyError):
        trainer_of(tmp_path, callback).fit(module, loader())
    assert not module._forward_pre_hooks
    assert torch.overrides._len_torch_function_stack() == 0
    assert torch.utils._python_dispatch._len_torch_dispatch_stack() == 0
