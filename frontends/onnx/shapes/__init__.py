"""Shape inference: the shapes, dtypes and small elements of values, without running the graph."""
