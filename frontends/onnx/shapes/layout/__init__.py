"""Shape rules of operators that create tensors or move data."""
