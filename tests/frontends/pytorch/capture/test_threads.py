"""Threads that a model starts, and functions that it submits to pools, are part of its capture."""

from __future__ import annotations

import asyncio
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, CostWarning, estimate
from costcore.errors import PartialReportError
from tests.frontends.pytorch.runs import state_of_torch

PRODUCT = 8 * 64 * 64


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)
        self.set_up()

    def set_up(self):
        pass


class Pool(Base):
    def forward(self, x):
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(lambda layer: layer(x), [self.a, self.b]))


class PoolOfTheModel(Base):
    def set_up(self):
        self.pool = ThreadPoolExecutor(2)
        self.pool.submit(len, ()).result()  # its thread is older than any capture

    def forward(self, x):
        futures = [self.pool.submit(self.a, x), self.pool.submit(self.b, x)]
        return sum(future.result() for future in futures)


POOL = ThreadPoolExecutor(1)


class GlobalPool(Base):
    def forward(self, x):
        return sum(POOL.map(lambda layer: layer(x), [self.a, self.b]))


class OtherPool(Base):
    def forward(self, x):
        with ThreadPool(2) as pool:
            return sum(pool.map(lambda layer: layer(x), [self.a, self.b]))


class OtherPoolOfTheModel(Base):
    def set_up(self):
        self.pool = ThreadPool(2)

    def forward(self, x):
        return self.pool.apply(self.a, (x,)) + self.pool.apply_async(self.b, (x,)).get()


class Threads(Base):
    def forward(self, x):
        results = {}

        def run(layer):
            results[id(layer)] = layer(x)

        threads = [threading.Thread(target=run, args=(layer,)) for layer in (self.a, self.b)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(results.values())


class OfAClass(Base):
    class Worker(threading.Thread):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def run(self):
            self.result = self.function()

    def forward(self, x):
        workers = [self.Worker(lambda: self.a(x)), self.Worker(lambda: self.b(x))]
        for worker in workers:
            worker.start()
            worker.join()
        return sum(worker.result for worker in workers)


class Nested(Base):
    def forward(self, x):
        def both(_):
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(self.a, x).result() + self.b(x)

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(both, None).result()


class Pipeline(Base):
    """Two threads that wait for each other."""

    def forward(self, x):
        given, taken = queue.Queue(), queue.Queue()

        def work():
            while (layer := given.get()) is not None:
                taken.put(layer(x))

        thread = threading.Thread(target=work)
        thread.start()
        results = []
        for layer in (self.a, self.b):
            given.put(layer)
            results.append(taken.get())
        given.put(None)
        thread.join()
        return sum(results)


class Meeting(Base):
    """Threads that only go on together."""

    def forward(self, x):
        barrier = threading.Barrier(2)

        def run(layer):
            barrier.wait()
            return layer(x)

        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(run, [self.a, self.b]))


class EventLoop(Base):
    def forward(self, x):
        async def run():
            return await asyncio.gather(asyncio.to_thread(self.a, x), asyncio.to_thread(self.b, x))

        return sum(asyncio.run(run()))


class NotJoined(Base):
    """Its second thread still waits when ``forward`` returns."""

    def forward(self, x):
        ready = threading.Event()
        thread = threading.Thread(target=lambda: (ready.wait(), self.b(x)))
        thread.start()
        y = self.a(x)
        ready.set()
        return y


MODELS = {
    kind.__name__: kind
    for kind in (Pool, PoolOfTheModel, GlobalPool, OtherPool, OtherPoolOfTheModel, Threads, OfAClass, Nested, Pipeline)
} | {kind.__name__: kind for kind in (Meeting, EventLoop)}


@pytest.mark.parametrize("name", MODELS)
def test_threads_are_counted(name):
    """Two products forward; backward one for each weight, as the input needs no gradient."""
    model, before = MODELS[name](), state_of_torch()
    counted = {"forward": 2 * PRODUCT, "backward": 2 * PRODUCT}
    report = estimate(model, (8, 64), backward=True, strict=True)
    assert {phase: row["macs"] for phase, row in report.by("phase").items()} == counted
    macs = {module: row["macs"] for module, row in report.by("module").items() if row["macs"]}
    assert macs == {"a": 2 * PRODUCT, "b": 2 * PRODUCT}
    assert report.total_report["n_params"] == 2 * (64 * 64 + 64)
    x = torch.ones(8, 64)
    expected = sum(functional.linear(x, layer.weight, layer.bias) for layer in (model.a, model.b))
    with ComputationalCostHook() as hook:
        y = model(x)
        y.sum().backward()
    assert torch.equal(y, expected)
    assert hook.report.status == "complete"
    assert {phase: row["macs"] for phase, row in hook.report.by("phase").items()} == counted
    assert {module: row["macs"] for module, row in hook.report.by("module").items() if row["macs"]} == macs
    assert state_of_torch() == before
    if isinstance(pool := getattr(model, "pool", None), ThreadPool):
        pool.terminate()


def test_a_thread_that_nobody_waits_for():
    assert estimate(NotJoined(), (8, 64), strict=True).total_report["macs"] == 2 * PRODUCT


def test_values_and_assumptions_in_threads():
    class Model(Base):
        def forward(self, ids, x):
            def run(n):
                for _ in range(int(n)):
                    x_ = self.a(x)
                return x_ if x.sum() > 0 else self.b(x_)

            with ThreadPoolExecutor(1) as pool:
                return pool.submit(run, ids.max()).result()

    with pytest.warns(CostWarning, match="data-dependent branch"):
        report = estimate(Model(), (torch.tensor([1, 3]), (8, 64)))
    assert report.total_report["macs"] >= 3 * PRODUCT
    assert report.status == "assumed"


def test_an_error_in_a_thread_names_module_and_operands():
    class Model(Base):
        def forward(self, x):
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(self.a, x[:, :3]).result()

    with pytest.raises(ValueError, match=r"Model.*linear|Model.*mat1"):
        estimate(Model(), (8, 64))


def test_settings_of_threads_are_those_of_pytorch():
    """Grad mode and autocast are settings of one thread: a new one has the defaults."""
    seen = []

    class Model(Base):
        def forward(self, x):
            def run():
                seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
                return self.a(x)

            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), ThreadPoolExecutor(1) as pool:
                return pool.submit(run).result()

    model = Model()
    with ComputationalCostHook():
        model(torch.ones(8, 64))
    estimate(model, (8, 64), backward=True)
    estimate(model, (8, 64))
    assert seen == [(True, False), (True, False), (False, False)]


def test_a_thread_that_outlives_its_capture():
    layer, x, going_on, done, before = nn.Linear(64, 64), torch.ones(8, 64), threading.Event(), [], state_of_torch()

    def run():
        layer(x)
        going_on.wait()
        done.append(layer(x))

    with ComputationalCostHook() as hook:
        thread = threading.Thread(target=run)
        thread.start()
    assert state_of_torch() == before
    going_on.set()
    thread.join()
    assert hook.total_report["macs"] == PRODUCT
    assert len(done) == 1
    assert state_of_torch() == before


OUTLIVING = """
import atexit, threading, torch
from costcore import ComputationalCostHook

stop = threading.Event()
with ComputationalCostHook():
    threading.Thread(target=stop.wait, daemon=True).start()  # as the monitor of a progress bar
    x = torch.zeros((), requires_grad=True)
    for _ in range(200_000):
        x.neg()
    threading.Thread(target=int).start()
atexit.register(stop.set)
"""


def test_a_daemon_thread_that_outlives_its_capture_calls_no_kernels_at_exit():
    # PyTorch aborts a process whose daemon threads are inside of a kernel when the interpreter ends.
    done = subprocess.run([sys.executable, "-c", OUTLIVING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Worker(Base):
    """Its thread is older than any capture, and takes what it runs from a queue."""

    def set_up(self):
        self.given, self.taken = queue.Queue(), queue.Queue()
        threading.Thread(target=self.work, args=(self.given, self.taken), daemon=True).start()

    @staticmethod
    def work(given, taken):
        while True:
            layer, x = given.get()
            taken.put(layer(x))

    def __deepcopy__(self, memo):
        copied = self.__new__(type(self))
        nn.Module.__init__(copied)
        copied.a, copied.b = (nn.Linear(64, 64, device="meta") for _ in range(2))
        copied.given, copied.taken = self.given, self.taken
        return copied

    def forward(self, x):
        self.given.put((self.a, x))
        return self.b(self.taken.get())


def test_a_thread_that_is_older_makes_a_report_partial():
    model = Worker()
    with pytest.warns(CostWarning, match="modules also ran in other threads"):
        report = estimate(model, (8, 64))
    assert report.status == "partial"
    assert report.total_report["macs"] == PRODUCT
    with pytest.raises(PartialReportError):
        estimate(model, (8, 64), strict=True)


def test_estimates_in_threads_equal_estimates_one_after_another():
    def model(n):
        torch.manual_seed(n)
        return nn.Sequential(*[nn.Linear(16 + n, 16 + n) for _ in range(n % 5 + 1)], nn.ReLU())

    def count(n):
        net, x = model(n), torch.ones(2, 16 + n)
        net(x)  # a run, while other threads estimate
        return estimate(net, (2, 16 + n), backward=True).to_json()

    serial = [count(n) for n in range(16)]
    found = {}
    for _ in range(3):
        threads = [threading.Thread(target=lambda n=n: found.update({n: count(n)})) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[n] for n in range(16)] == serial
