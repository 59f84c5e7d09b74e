"""From a function and shapes to the calls of a run."""
