"""Tables with one row per model, for a few models or for many thousands."""
