"""ChainerMN's functions: communication is not counted, the sums of what a process received are."""

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
        return (a, a.copy(), a.copy())

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


SUM = (2 * 6, 3 * 24, 24)
"""The sum of 3 gradients of 6 elements: FLOPs, bytes read and written."""
FREE = (0, 0, 0)
CALLS = {
    # name: [call, costs by type]
    "allgather": (lambda: F.allgather(COMM, v()), {"AllGather": FREE, "AllGatherBackward": SUM}),
    "alltoall": (lambda: F.alltoall(COMM, (v(), v(), v())), {"AllToAll": FREE, "AllToAllBackward": FREE}),
    "bcast": (lambda: F.bcast(COMM, v()), {"Bcast": FREE, "BcastBackward": SUM}),
    "bcast, received": (lambda: F.bcast(OTHER, None), {"Bcast": FREE}),
    "gather": (lambda: F.gather(COMM, v()), {"Gather": FREE, "GatherBackward": FREE}),
    "gather, sent": (lambda: F.gather(OTHER, v()), {"Gather": FREE, "GatherBackward": FREE}),
    "scatter": (lambda: F.scatter(COMM, (v(), v(), v())), {"Scatter": FREE, "ScatterBackward": FREE}),
    "scatter, received": (lambda: F.scatter(OTHER, None), {"Scatter": FREE, "ScatterBackward": FREE}),
    "send": (lambda: F.send(v(), COMM, 1), {"Send": FREE, "SendBackward": FREE}),
    "recv": (lambda: F.recv(COMM, 1), {"Recv": FREE, "RecvBackward": FREE}),
    "pseudo_connect": (
        lambda: F.pseudo_connect(F.send(v(), COMM, 1), v()),
        {"Send": FREE, "PseudoConnect": FREE, "PseudoConnectBackward": FREE, "SendBackward": FREE},
    ),
    # 6 zeros
    "pseudo_connect, to values": (
        lambda: F.pseudo_connect(v(), v()),
        {"PseudoConnect": FREE, "PseudoConnectBackward": (0, 0, 24)},
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
    found = {entry["type"]: (entry["flops"], entry["mread"], entry["mwrite"]) for entry in hook.layer_report.values()}
    assert {kind: found[kind] for kind in expected} == expected
    assert found.keys() - expected.keys() <= {"GetItem", "GetItemGrad", "Add"}
