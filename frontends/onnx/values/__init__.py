"""Values of the graph: shapes, dtypes, the few elements that are known before a run, and dimensions."""
