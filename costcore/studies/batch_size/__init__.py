"""The batch that fits: the largest one, micro-batches of a larger one, and what activation checkpointing saves."""
