"""Batches that fit: the largest one, micro-batches of a larger one, and savings by activation checkpointing."""
