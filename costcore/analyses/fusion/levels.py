"""The names of the levels of fusion."""

LEVELS = ("none", "pointwise", "compiler")
"""The levels of fusion, each of which merges groups of the one before."""
