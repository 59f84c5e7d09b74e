"""The memory of a run: which blocks were alive when, and what its peak consists of."""
