"""The meta device: copies of modules without weights, and results of operators without data."""
