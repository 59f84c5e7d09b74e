"""Time of a run on a device: a lower bound for every group of calls, and what binds it."""
