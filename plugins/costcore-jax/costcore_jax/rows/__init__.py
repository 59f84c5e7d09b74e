"""Rows: which primitive becomes which layer, by operator family."""
