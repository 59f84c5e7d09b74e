"""The meter of training."""
