"""Attention with and without caches, sparse attention, and position embeddings.

In every formula a *score* is one element of q k^T: one query attends to one key.
"""
