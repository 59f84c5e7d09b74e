"""Adapters: how modules of libraries become functions that JAX can trace."""
