"""Reports in the formats of other tools: Model Explorer, Perfetto, model cards, pandas."""
