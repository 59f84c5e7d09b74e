"""Frontend for Chainer: records what a run executes through Chainer's own hooks.

Importing this package does not import Chainer: ``import costcore.frontends.chainer.compat`` must be able to run first.
The functions that the engine calls are in ``frontend``.
"""
