"""The callback in the Trainer of Transformers, on a language model of two layers."""

from __future__ import annotations

import pytest
import torch

from tests.frameworks import optional

optional("accelerate")  # without it transformers has no Trainer

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments  # noqa: E402

from costcore import CostError  # noqa: E402
from costcore.frontends.pytorch.callbacks.hugging_face import CostCallback  # noqa: E402

LAYERS, WIDTH, WORDS, LENGTH = 2, 16, 50, 10

MACS = 3 * LENGTH * (LAYERS * (12 * WIDTH**2 + 2 * LENGTH * WIDTH) + WORDS * WIDTH)
"""Forward and backward pass of a sequence: 12 x width² a token and layer, attention, and the head."""


def language_model():
    config = GPT2Config(n_embd=WIDTH, n_layer=LAYERS, n_head=2, vocab_size=WORDS, n_positions=32)
    config._attn_implementation = "sdpa"
    return GPT2LMHeadModel(config)


class Data(torch.utils.data.Dataset):
    """Sequences whose labels come first, as the collator of some tasks orders them."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        ids = torch.full((LENGTH,), i % WORDS)
        return {"labels": ids, "input_ids": ids}


class Logger(TrainerCallback):
    """Keeps what reaches a logger that was there first, such as that of TensorBoard."""

    def __init__(self):
        self.logs = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logs.append(dict(logs))


def trainer_of(net, folder, callbacks=(), **options):
    arguments = TrainingArguments(
        str(folder), per_device_train_batch_size=2, max_steps=3, logging_steps=1, save_strategy="no", report_to="none",
        use_cpu=True, disable_tqdm=True, **options,
    )  # fmt: skip
    data = Data(24)
    return Trainer(net, arguments, train_dataset=data, eval_dataset=data, callbacks=list(callbacks))


@pytest.mark.filterwarnings("ignore")
def test_rates_in_the_logs_of_a_trainer(tmp_path, capsys):
    net, logger, callback = language_model(), Logger(), CostCallback(peak=1e12)
    trainer = trainer_of(net, tmp_path, [logger], gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=1)
    callback.add_to(trainer)
    before = {name: list(value) for name, value in vars(net).items() if name.endswith("_hooks")}
    trainer.train()
    # Two micro-batches of two sequences a step; validation is not counted.
    assert callback.meter.model_flops == 3 * 2 * 2 * 2 * MACS
    assert callback.meter.total.cost.tokens == 3 * 2 * 2 * LENGTH
    steps = [logs for logs in logger.logs if "loss" in logs]
    assert len(steps) == 3
    assert all(logs["mfu"] > 0 and logs["tokens_per_second"] > 0 for logs in steps)
    assert [logs["mfu"] for logs in trainer.state.log_history if "loss" in logs] == [logs["mfu"] for logs in steps]
    assert not any("mfu" in logs for logs in logger.logs if "eval_loss" in logs)
    assert logger.logs[-1]["mfu"] == callback.meter.total.mfu
    assert {name: list(value) for name, value in vars(net).items() if name.endswith("_hooks")} == before


@pytest.mark.filterwarnings("ignore")
def test_a_training_that_fails(tmp_path, capsys):
    class Failing(TrainerCallback):
        def on_substep_end(self, *args, **kwargs):
            raise KeyError

    net, callback = language_model(), CostCallback()
    trainer = trainer_of(net, tmp_path, [Failing(), callback], gradient_accumulation_steps=2)
    with pytest.raises(KeyError):
        trainer.train()
    callback.close()
    assert not net._forward_pre_hooks
    with pytest.raises(KeyError):
        trainer.train()
    del callback, trainer
    assert not net._forward_pre_hooks


def test_invalid_options_are_refused_before_training():
    with pytest.raises(ValueError, match="unknown device 'h10'"):
        CostCallback("h10")


def test_a_callback_that_came_too_late():
    with pytest.raises(CostError, match="add it before training"):
        CostCallback().on_step_end(None, None, None)
