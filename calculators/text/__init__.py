"""Strings, tokens and containers of values."""
