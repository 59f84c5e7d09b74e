"""Losses, their gradients, and metrics. A loss compares a prediction ``x`` with a ``target``.

The attribute ``reduction`` is ``"none"``, ``"sum"``, ``"mean"`` or ``"batchmean"``. A sum of n terms takes n - 1 add; a
mean divides by their number, 1 div more.
"""
