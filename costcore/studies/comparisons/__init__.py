"""Compare two reports: two versions of a model, or a model and its export."""
