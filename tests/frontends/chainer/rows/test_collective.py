"""ChainerMN's functions: what a process reads, writes and sends, and the sums of what it received."""

from __future__ import annotations

import chainer
import chainermn
import numpy
import pytest

from costcore import ComputationalCostHook
from tests.frontends.chainer.function_calls import x

pytestmark = pytest.mark.filterwarnings("ignore:chainermn.functions:FutureWarning")


class Communicator:
    """Three processes, of which every other one has the arrays of this one."""

    rank, size = 0, 3

    def allgather(self, a):
        return (a.copy(), a.copy(), a.copy())

    def alltoall(self, arrays):
        return tuple(a.copy() for a in arrays)

    def bcast(self, a, root):
        return x(2, 3) if a is None else a.copy()

    def gather(self, a, root):
        return self.allgather(a)

    def scatter(self, arrays, root):
        return arrays[0].copy() if self.rank == root else x(2, 3)

    def send(self, a, rank, tag):
        """Nobody receives it."""

    def recv(self, rank, tag):
        return x(2, 3)


class OtherCommunicator(Communicator):
    """Another process than the root."""

    rank = 1


F = chainermn.functions
COMM, OTHER = Communicator(), OtherCommunicator()


def v():
    return chainer.Variable(x(2, 3))


ONE, ALL = 24, 3 * 24
"""Bytes of 6 elements, and of those of 3 processes."""

SUM = (2 * 6, ALL, ONE, 0)
"""The sum of 3 gradients of 6 elements: FLOPs, bytes read, written and sent."""
FREE = (0, 0, 0, 0)
EXCHANGED = (0, ALL, ALL, 2 * ONE)
SENT, RECEIVED = (0, ONE, 0, ONE), (0, 0, ONE, 0)
GATHERED, SCATTERED = (0, ONE, ALL, 0), (0, ALL, ONE, 2 * ONE)
CALLS = {
    # name: [call, costs by type]
    "allgather": (lambda: F.allgather(COMM, v()), {"AllGather": (0, ONE, ALL, 2 * ONE), "AllGatherBackward": SUM}),
    "alltoall": (lambda: F.alltoall(COMM, (v(), v(), v())), {"AllToAll": EXCHANGED, "AllToAllBackward": EXCHANGED}),
    "bcast": (lambda: F.bcast(COMM, v()), {"Bcast": (0, ONE, ONE, ONE), "BcastBackward": SUM}),
    "bcast, received": (lambda: F.bcast(OTHER, None), {"Bcast": (0, 0, ONE, ONE)}),
    "gather": (lambda: F.gather(COMM, v()), {"Gather": GATHERED, "GatherBackward": SCATTERED}),
    "gather, sent": (lambda: F.gather(OTHER, v()), {"Gather": SENT, "GatherBackward": RECEIVED}),
    "scatter": (lambda: F.scatter(COMM, (v(), v(), v())), {"Scatter": SCATTERED, "ScatterBackward": GATHERED}),
    "scatter, received": (lambda: F.scatter(OTHER, None), {"Scatter": RECEIVED, "ScatterBackward": SENT}),
    "send": (lambda: F.send(v(), COMM, 1), {"Send": SENT, "SendBackward": RECEIVED}),
    "recv": (lambda: F.recv(COMM, 1), {"Recv": RECEIVED, "RecvBackward": SENT}),
    "pseudo_connect": (
        lambda: F.pseudo_connect(F.send(v(), COMM, 1), v()),
        {"Send": SENT, "PseudoConnect": FREE, "PseudoConnectBackward": FREE, "SendBackward": RECEIVED},
    ),
    # 6 zeros
    "pseudo_connect, to values": (
        lambda: F.pseudo_connect(v(), v()),
        {"PseudoConnect": FREE, "PseudoConnectBackward": (0, 0, 24, 0)},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_costs(name):
    call, expected = CALLS[name]
    with ComputationalCostHook(frontends=["chainer"]) as hook:
        outputs = call()
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        for y in outputs:
            y.grad = numpy.ones_like(y.array)
        chainer.backward(outputs)
    assert hook.ignored_layers == {}
    found = {
        entry["type"]: (entry["flops"], entry["mread"], entry["mwrite"], entry.get("mcomm", 0))
        for entry in hook.layer_report.values()
    }
    assert {kind: found[kind] for kind in expected} == expected
    assert found.keys() - expected.keys() <= {"GetItem", "GetItemGrad", "Add"}
