"""Attention with and without caches, sparse attention, and position embeddings."""
