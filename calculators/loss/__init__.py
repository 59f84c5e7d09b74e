"""Losses, their gradients, and metrics. A loss compares a prediction ``x`` with a ``target``.

The attribute ``reduction`` is ``"none"``, ``"sum"``, ``"mean"`` or ``"batchmean"``; these differ only in the divisor.
"""
