"""Fused traffic: which calls a compiler runs as one kernel, and the bytes that such groups read and write."""
