"""Serving costs of language models: prefill, decode and cache, with their bounds on a device."""
