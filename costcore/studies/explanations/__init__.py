"""Explanations: by which rules a printed number comes about, and why two conventions differ."""
